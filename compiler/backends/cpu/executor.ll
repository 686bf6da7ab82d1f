; executor.c sha256 c6b5e1dda2f81414174b1f802f82b895ed92f20b58608648b9572d958c503ef0

%struct.engine = type { i64, i64, i64, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, i64, i64, [16 x i8], %struct.opaque, %struct.opaque, i64, i64, [48 x i8], i64, [56 x i8], i64, i64, [48 x i8] }
%struct.opaque = type { [128 x i8] }
%struct.binding = type { i64, i64, i64 }
%struct.stream = type { i64, i64, i64, i64, i64, ptr, [16 x i8] }
%struct.task = type { i64, i64, i64, i64, i64, i64, i64 }
%struct.launch = type { ptr, ptr, i64, i64, i64, ptr, [16 x i8] }
%struct.span = type { i64, i64, i64, i64, i64 }
%struct.control = type { i64, i64, i64, i64, i64, i64, [2 x %struct.body] }
%struct.body = type { i64, i64, i64, i64, i64, i64 }
%struct.place = type { i64, i64, i64, i64, i64, i64 }
%struct.carry = type { i64, i64, i64, i64 }

define void @executor_open(ptr noundef %0) {
  %2 = alloca ptr, align 8
  store ptr %0, ptr %2, align 8
  %3 = load ptr, ptr %2, align 8
  %4 = getelementptr inbounds %struct.engine, ptr %3, i32 0, i32 15
  %5 = call i32 @pthread_mutex_init(ptr noundef %4, ptr noundef null)
  %6 = load ptr, ptr %2, align 8
  %7 = getelementptr inbounds %struct.engine, ptr %6, i32 0, i32 16
  %8 = call i32 @pthread_cond_init(ptr noundef %7, ptr noundef null)
  ret void
}

declare i32 @pthread_mutex_init(ptr noundef, ptr noundef)

declare i32 @pthread_cond_init(ptr noundef, ptr noundef)

define void @executor_run(ptr noundef %0, ptr noundef %1) {
  %3 = alloca ptr, align 8
  %4 = alloca ptr, align 8
  %5 = alloca ptr, align 8
  %6 = alloca i64, align 8
  %7 = alloca i64, align 8
  %8 = alloca i64, align 8
  store ptr %0, ptr %3, align 8
  store ptr %1, ptr %4, align 8
  %9 = load ptr, ptr %3, align 8
  %10 = getelementptr inbounds %struct.engine, ptr %9, i32 0, i32 8
  %11 = load ptr, ptr %10, align 64
  store ptr %11, ptr %5, align 8
  br label %12

12:                                               ; preds = %40, %2
  %13 = load ptr, ptr %5, align 8
  %14 = load ptr, ptr %3, align 8
  %15 = getelementptr inbounds %struct.engine, ptr %14, i32 0, i32 8
  %16 = load ptr, ptr %15, align 64
  %17 = load ptr, ptr %3, align 8
  %18 = getelementptr inbounds %struct.engine, ptr %17, i32 0, i32 2
  %19 = load i64, ptr %18, align 16
  %20 = getelementptr inbounds %struct.binding, ptr %16, i64 %19
  %21 = icmp ult ptr %13, %20
  br i1 %21, label %22, label %43

22:                                               ; preds = %12
  %23 = load ptr, ptr %4, align 8
  %24 = load ptr, ptr %5, align 8
  %25 = getelementptr inbounds %struct.binding, ptr %24, i32 0, i32 1
  %26 = load i64, ptr %25, align 8
  %27 = getelementptr inbounds ptr, ptr %23, i64 %26
  %28 = load ptr, ptr %27, align 8
  %29 = load ptr, ptr %5, align 8
  %30 = getelementptr inbounds %struct.binding, ptr %29, i32 0, i32 2
  %31 = load i64, ptr %30, align 8
  %32 = getelementptr inbounds i8, ptr %28, i64 %31
  %33 = load ptr, ptr %3, align 8
  %34 = getelementptr inbounds %struct.engine, ptr %33, i32 0, i32 7
  %35 = load ptr, ptr %34, align 8
  %36 = load ptr, ptr %5, align 8
  %37 = getelementptr inbounds %struct.binding, ptr %36, i32 0, i32 0
  %38 = load i64, ptr %37, align 8
  %39 = getelementptr inbounds ptr, ptr %35, i64 %38
  store ptr %32, ptr %39, align 8
  br label %40

40:                                               ; preds = %22
  %41 = load ptr, ptr %5, align 8
  %42 = getelementptr inbounds %struct.binding, ptr %41, i32 1
  store ptr %42, ptr %5, align 8
  br label %12

43:                                               ; preds = %12
  %44 = load ptr, ptr %3, align 8
  %45 = getelementptr inbounds %struct.engine, ptr %44, i32 0, i32 20
  %46 = load ptr, ptr %3, align 8
  %47 = getelementptr inbounds %struct.engine, ptr %46, i32 0, i32 1
  %48 = load i64, ptr %47, align 8
  store i64 %48, ptr %6, align 8
  %49 = load i64, ptr %6, align 8
  store atomic i64 %49, ptr %45 monotonic, align 64
  %50 = load ptr, ptr %3, align 8
  %51 = getelementptr inbounds %struct.engine, ptr %50, i32 0, i32 17
  %52 = load ptr, ptr %3, align 8
  %53 = getelementptr inbounds %struct.engine, ptr %52, i32 0, i32 17
  %54 = load atomic i64, ptr %53 monotonic, align 64
  store i64 %54, ptr %8, align 8
  %55 = load i64, ptr %8, align 8
  %56 = add nsw i64 %55, 1
  store i64 %56, ptr %7, align 8
  %57 = load i64, ptr %7, align 8
  store atomic i64 %57, ptr %51 release, align 64
  %58 = load ptr, ptr %3, align 8
  %59 = getelementptr inbounds %struct.engine, ptr %58, i32 0, i32 1
  %60 = load i64, ptr %59, align 8
  %61 = icmp sgt i64 %60, 1
  br i1 %61, label %62, label %64

62:                                               ; preds = %43
  %63 = load ptr, ptr %3, align 8
  call void @announce(ptr noundef %63)
  br label %64

64:                                               ; preds = %62, %43
  %65 = load ptr, ptr %3, align 8
  %66 = load ptr, ptr %3, align 8
  %67 = getelementptr inbounds %struct.engine, ptr %66, i32 0, i32 20
  call void @work_until(ptr noundef %65, i64 noundef 0, ptr noundef %67, i64 noundef 0)
  ret void
}

define internal void @announce(ptr noundef %0) {
  %2 = alloca ptr, align 8
  %3 = alloca i64, align 8
  %4 = alloca i64, align 8
  %5 = alloca i64, align 8
  store ptr %0, ptr %2, align 8
  %6 = load ptr, ptr %2, align 8
  %7 = getelementptr inbounds %struct.engine, ptr %6, i32 0, i32 0
  %8 = load i64, ptr %7, align 64
  %9 = icmp eq i64 %8, 1
  br i1 %9, label %10, label %11

10:                                               ; preds = %1
  br label %33

11:                                               ; preds = %1
  %12 = load ptr, ptr %2, align 8
  %13 = getelementptr inbounds %struct.engine, ptr %12, i32 0, i32 22
  store i64 1, ptr %3, align 8
  %14 = load i64, ptr %3, align 8
  %15 = atomicrmw add ptr %13, i64 %14 seq_cst, align 64
  store i64 %15, ptr %4, align 8
  %16 = load i64, ptr %4, align 8
  %17 = load ptr, ptr %2, align 8
  %18 = getelementptr inbounds %struct.engine, ptr %17, i32 0, i32 23
  %19 = load atomic i64, ptr %18 seq_cst, align 8
  store i64 %19, ptr %5, align 8
  %20 = load i64, ptr %5, align 8
  %21 = icmp ne i64 %20, 0
  br i1 %21, label %23, label %22

22:                                               ; preds = %11
  br label %33

23:                                               ; preds = %11
  %24 = load ptr, ptr %2, align 8
  %25 = getelementptr inbounds %struct.engine, ptr %24, i32 0, i32 15
  %26 = call i32 @pthread_mutex_lock(ptr noundef %25)
  %27 = load ptr, ptr %2, align 8
  %28 = getelementptr inbounds %struct.engine, ptr %27, i32 0, i32 16
  %29 = call i32 @pthread_cond_broadcast(ptr noundef %28)
  %30 = load ptr, ptr %2, align 8
  %31 = getelementptr inbounds %struct.engine, ptr %30, i32 0, i32 15
  %32 = call i32 @pthread_mutex_unlock(ptr noundef %31)
  br label %33

33:                                               ; preds = %23, %22, %10
  ret void
}

define internal void @work_until(ptr noundef %0, i64 noundef %1, ptr noundef %2, i64 noundef %3) {
  %5 = alloca ptr, align 8
  %6 = alloca i64, align 8
  %7 = alloca ptr, align 8
  %8 = alloca i64, align 8
  %9 = alloca i64, align 8
  %10 = alloca i64, align 8
  %11 = alloca i64, align 8
  %12 = alloca i64, align 8
  %13 = alloca i64, align 8
  store ptr %0, ptr %5, align 8
  store i64 %1, ptr %6, align 8
  store ptr %2, ptr %7, align 8
  store i64 %3, ptr %8, align 8
  store i64 0, ptr %9, align 8
  br label %14

14:                                               ; preds = %46, %4
  %15 = load ptr, ptr %7, align 8
  %16 = load atomic i64, ptr %15 acquire, align 8
  store i64 %16, ptr %10, align 8
  %17 = load i64, ptr %10, align 8
  %18 = load i64, ptr %8, align 8
  %19 = icmp ne i64 %17, %18
  br i1 %19, label %20, label %49

20:                                               ; preds = %14
  %21 = load ptr, ptr %5, align 8
  %22 = getelementptr inbounds %struct.engine, ptr %21, i32 0, i32 22
  %23 = load atomic i64, ptr %22 seq_cst, align 64
  store i64 %23, ptr %12, align 8
  %24 = load i64, ptr %12, align 8
  store i64 %24, ptr %11, align 8
  %25 = load ptr, ptr %5, align 8
  %26 = load i64, ptr %6, align 8
  %27 = call i32 @work(ptr noundef %25, i64 noundef %26)
  %28 = icmp ne i32 %27, 0
  br i1 %28, label %29, label %30

29:                                               ; preds = %20
  store i64 0, ptr %9, align 8
  br label %45

30:                                               ; preds = %20
  %31 = load i64, ptr %9, align 8
  %32 = icmp slt i64 %31, 20000
  br i1 %32, label %33, label %34

33:                                               ; preds = %30
  call void @cpu_pause()
  br label %44

34:                                               ; preds = %30
  %35 = load ptr, ptr %7, align 8
  %36 = load atomic i64, ptr %35 acquire, align 8
  store i64 %36, ptr %13, align 8
  %37 = load i64, ptr %13, align 8
  %38 = load i64, ptr %8, align 8
  %39 = icmp ne i64 %37, %38
  br i1 %39, label %40, label %43

40:                                               ; preds = %34
  %41 = load ptr, ptr %5, align 8
  %42 = load i64, ptr %11, align 8
  call void @sleep_unless_news(ptr noundef %41, i64 noundef %42)
  br label %43

43:                                               ; preds = %40, %34
  br label %44

44:                                               ; preds = %43, %33
  br label %45

45:                                               ; preds = %44, %29
  br label %46

46:                                               ; preds = %45
  %47 = load i64, ptr %9, align 8
  %48 = add nsw i64 %47, 1
  store i64 %48, ptr %9, align 8
  br label %14

49:                                               ; preds = %14
  ret void
}

define void @executor_work(ptr noundef %0, i64 noundef %1) {
  %3 = alloca ptr, align 8
  %4 = alloca i64, align 8
  store ptr %0, ptr %3, align 8
  store i64 %1, ptr %4, align 8
  %5 = load ptr, ptr %3, align 8
  %6 = load i64, ptr %4, align 8
  %7 = load ptr, ptr %3, align 8
  %8 = getelementptr inbounds %struct.engine, ptr %7, i32 0, i32 18
  call void @work_until(ptr noundef %5, i64 noundef %6, ptr noundef %8, i64 noundef 1)
  ret void
}

define void @executor_close(ptr noundef %0) {
  %2 = alloca ptr, align 8
  %3 = alloca i64, align 8
  store ptr %0, ptr %2, align 8
  %4 = load ptr, ptr %2, align 8
  %5 = getelementptr inbounds %struct.engine, ptr %4, i32 0, i32 18
  store i64 1, ptr %3, align 8
  %6 = load i64, ptr %3, align 8
  store atomic i64 %6, ptr %5 release, align 8
  %7 = load ptr, ptr %2, align 8
  call void @announce(ptr noundef %7)
  ret void
}

declare i32 @pthread_mutex_lock(ptr noundef)

declare i32 @pthread_cond_broadcast(ptr noundef)

declare i32 @pthread_mutex_unlock(ptr noundef)

define internal i32 @work(ptr noundef %0, i64 noundef %1) {
  %3 = alloca i32, align 4
  %4 = alloca ptr, align 8
  %5 = alloca i64, align 8
  %6 = alloca ptr, align 8
  %7 = alloca i64, align 8
  store ptr %0, ptr %4, align 8
  store i64 %1, ptr %5, align 8
  %8 = load ptr, ptr %4, align 8
  %9 = load i64, ptr %5, align 8
  %10 = call ptr @choose(ptr noundef %8, i64 noundef %9)
  store ptr %10, ptr %6, align 8
  %11 = load ptr, ptr %6, align 8
  %12 = icmp ne ptr %11, null
  br i1 %12, label %13, label %17

13:                                               ; preds = %2
  %14 = load ptr, ptr %4, align 8
  %15 = load ptr, ptr %6, align 8
  %16 = call i32 @advance(ptr noundef %14, ptr noundef %15)
  store i32 %16, ptr %3, align 4
  br label %45

17:                                               ; preds = %2
  store i64 0, ptr %7, align 8
  br label %18

18:                                               ; preds = %41, %17
  %19 = load i64, ptr %7, align 8
  %20 = load ptr, ptr %4, align 8
  %21 = getelementptr inbounds %struct.engine, ptr %20, i32 0, i32 1
  %22 = load i64, ptr %21, align 8
  %23 = icmp slt i64 %19, %22
  br i1 %23, label %24, label %44

24:                                               ; preds = %18
  %25 = load ptr, ptr %4, align 8
  %26 = load ptr, ptr %4, align 8
  %27 = getelementptr inbounds %struct.engine, ptr %26, i32 0, i32 3
  %28 = load ptr, ptr %27, align 8
  %29 = load i64, ptr %5, align 8
  %30 = load i64, ptr %7, align 8
  %31 = add nsw i64 %29, %30
  %32 = load ptr, ptr %4, align 8
  %33 = getelementptr inbounds %struct.engine, ptr %32, i32 0, i32 1
  %34 = load i64, ptr %33, align 8
  %35 = srem i64 %31, %34
  %36 = getelementptr inbounds %struct.stream, ptr %28, i64 %35
  %37 = call i32 @help(ptr noundef %25, ptr noundef %36)
  %38 = icmp ne i32 %37, 0
  br i1 %38, label %39, label %40

39:                                               ; preds = %24
  store i32 1, ptr %3, align 4
  br label %45

40:                                               ; preds = %24
  br label %41

41:                                               ; preds = %40
  %42 = load i64, ptr %7, align 8
  %43 = add nsw i64 %42, 1
  store i64 %43, ptr %7, align 8
  br label %18

44:                                               ; preds = %18
  store i32 0, ptr %3, align 4
  br label %45

45:                                               ; preds = %44, %39, %13
  %46 = load i32, ptr %3, align 4
  ret i32 %46
}

declare void @cpu_pause()

define internal void @sleep_unless_news(ptr noundef %0, i64 noundef %1) {
  %3 = alloca ptr, align 8
  %4 = alloca i64, align 8
  %5 = alloca i64, align 8
  %6 = alloca i64, align 8
  %7 = alloca i64, align 8
  %8 = alloca i64, align 8
  %9 = alloca i64, align 8
  store ptr %0, ptr %3, align 8
  store i64 %1, ptr %4, align 8
  %10 = load ptr, ptr %3, align 8
  %11 = getelementptr inbounds %struct.engine, ptr %10, i32 0, i32 15
  %12 = call i32 @pthread_mutex_lock(ptr noundef %11)
  %13 = load ptr, ptr %3, align 8
  %14 = getelementptr inbounds %struct.engine, ptr %13, i32 0, i32 23
  store i64 1, ptr %5, align 8
  %15 = load i64, ptr %5, align 8
  %16 = atomicrmw add ptr %14, i64 %15 seq_cst, align 8
  store i64 %16, ptr %6, align 8
  %17 = load i64, ptr %6, align 8
  br label %18

18:                                               ; preds = %25, %2
  %19 = load ptr, ptr %3, align 8
  %20 = getelementptr inbounds %struct.engine, ptr %19, i32 0, i32 22
  %21 = load atomic i64, ptr %20 seq_cst, align 64
  store i64 %21, ptr %7, align 8
  %22 = load i64, ptr %7, align 8
  %23 = load i64, ptr %4, align 8
  %24 = icmp eq i64 %22, %23
  br i1 %24, label %25, label %31

25:                                               ; preds = %18
  %26 = load ptr, ptr %3, align 8
  %27 = getelementptr inbounds %struct.engine, ptr %26, i32 0, i32 16
  %28 = load ptr, ptr %3, align 8
  %29 = getelementptr inbounds %struct.engine, ptr %28, i32 0, i32 15
  %30 = call i32 @pthread_cond_wait(ptr noundef %27, ptr noundef %29)
  br label %18

31:                                               ; preds = %18
  %32 = load ptr, ptr %3, align 8
  %33 = getelementptr inbounds %struct.engine, ptr %32, i32 0, i32 23
  store i64 1, ptr %8, align 8
  %34 = load i64, ptr %8, align 8
  %35 = atomicrmw sub ptr %33, i64 %34 seq_cst, align 8
  store i64 %35, ptr %9, align 8
  %36 = load i64, ptr %9, align 8
  %37 = load ptr, ptr %3, align 8
  %38 = getelementptr inbounds %struct.engine, ptr %37, i32 0, i32 15
  %39 = call i32 @pthread_mutex_unlock(ptr noundef %38)
  ret void
}

define internal ptr @choose(ptr noundef %0, i64 noundef %1) {
  %3 = alloca ptr, align 8
  %4 = alloca ptr, align 8
  %5 = alloca i64, align 8
  %6 = alloca ptr, align 8
  %7 = alloca ptr, align 8
  %8 = alloca i64, align 8
  %9 = alloca i64, align 8
  %10 = alloca i64, align 8
  %11 = alloca ptr, align 8
  %12 = alloca ptr, align 8
  %13 = alloca i64, align 8
  store ptr %0, ptr %4, align 8
  store i64 %1, ptr %5, align 8
  store ptr null, ptr %6, align 8
  %14 = load ptr, ptr %4, align 8
  %15 = getelementptr inbounds %struct.engine, ptr %14, i32 0, i32 3
  %16 = load ptr, ptr %15, align 8
  %17 = load i64, ptr %5, align 8
  %18 = getelementptr inbounds %struct.stream, ptr %16, i64 %17
  store ptr %18, ptr %7, align 8
  store i64 9223372036854775807, ptr %8, align 8
  %19 = load ptr, ptr %4, align 8
  %20 = getelementptr inbounds %struct.engine, ptr %19, i32 0, i32 17
  %21 = load atomic i64, ptr %20 acquire, align 64
  store i64 %21, ptr %10, align 8
  %22 = load i64, ptr %10, align 8
  store i64 %22, ptr %9, align 8
  %23 = load ptr, ptr %4, align 8
  %24 = getelementptr inbounds %struct.engine, ptr %23, i32 0, i32 3
  %25 = load ptr, ptr %24, align 8
  store ptr %25, ptr %11, align 8
  br label %26

26:                                               ; preds = %81, %2
  %27 = load ptr, ptr %11, align 8
  %28 = load ptr, ptr %4, align 8
  %29 = getelementptr inbounds %struct.engine, ptr %28, i32 0, i32 3
  %30 = load ptr, ptr %29, align 8
  %31 = load ptr, ptr %4, align 8
  %32 = getelementptr inbounds %struct.engine, ptr %31, i32 0, i32 1
  %33 = load i64, ptr %32, align 8
  %34 = getelementptr inbounds %struct.stream, ptr %30, i64 %33
  %35 = icmp ult ptr %27, %34
  br i1 %35, label %36, label %84

36:                                               ; preds = %26
  %37 = load ptr, ptr %11, align 8
  %38 = getelementptr inbounds %struct.stream, ptr %37, i32 0, i32 2
  %39 = load atomic i64, ptr %38 monotonic, align 16
  store i64 %39, ptr %13, align 8
  %40 = load i64, ptr %13, align 8
  %41 = icmp ne i64 %40, 0
  br i1 %41, label %42, label %43

42:                                               ; preds = %36
  br label %48

43:                                               ; preds = %36
  %44 = load ptr, ptr %4, align 8
  %45 = load ptr, ptr %11, align 8
  %46 = load i64, ptr %9, align 8
  %47 = call ptr @ready(ptr noundef %44, ptr noundef %45, i64 noundef %46)
  br label %48

48:                                               ; preds = %43, %42
  %49 = phi ptr [ null, %42 ], [ %47, %43 ]
  store ptr %49, ptr %12, align 8
  %50 = load ptr, ptr %12, align 8
  %51 = icmp ne ptr %50, null
  br i1 %51, label %52, label %66

52:                                               ; preds = %48
  %53 = load ptr, ptr %11, align 8
  %54 = load ptr, ptr %7, align 8
  %55 = icmp eq ptr %53, %54
  br i1 %55, label %56, label %66

56:                                               ; preds = %52
  %57 = load ptr, ptr %4, align 8
  %58 = getelementptr inbounds %struct.engine, ptr %57, i32 0, i32 1
  %59 = load i64, ptr %58, align 8
  %60 = load ptr, ptr %4, align 8
  %61 = getelementptr inbounds %struct.engine, ptr %60, i32 0, i32 0
  %62 = load i64, ptr %61, align 64
  %63 = icmp sle i64 %59, %62
  br i1 %63, label %64, label %66

64:                                               ; preds = %56
  %65 = load ptr, ptr %11, align 8
  store ptr %65, ptr %3, align 8
  br label %86

66:                                               ; preds = %56, %52, %48
  %67 = load ptr, ptr %12, align 8
  %68 = icmp ne ptr %67, null
  br i1 %68, label %69, label %80

69:                                               ; preds = %66
  %70 = load ptr, ptr %12, align 8
  %71 = getelementptr inbounds %struct.task, ptr %70, i32 0, i32 4
  %72 = load i64, ptr %71, align 8
  %73 = load i64, ptr %8, align 8
  %74 = icmp slt i64 %72, %73
  br i1 %74, label %75, label %80

75:                                               ; preds = %69
  %76 = load ptr, ptr %11, align 8
  store ptr %76, ptr %6, align 8
  %77 = load ptr, ptr %12, align 8
  %78 = getelementptr inbounds %struct.task, ptr %77, i32 0, i32 4
  %79 = load i64, ptr %78, align 8
  store i64 %79, ptr %8, align 8
  br label %80

80:                                               ; preds = %75, %69, %66
  br label %81

81:                                               ; preds = %80
  %82 = load ptr, ptr %11, align 8
  %83 = getelementptr inbounds %struct.stream, ptr %82, i32 1
  store ptr %83, ptr %11, align 8
  br label %26

84:                                               ; preds = %26
  %85 = load ptr, ptr %6, align 8
  store ptr %85, ptr %3, align 8
  br label %86

86:                                               ; preds = %84, %64
  %87 = load ptr, ptr %3, align 8
  ret ptr %87
}

define internal i32 @advance(ptr noundef %0, ptr noundef %1) {
  %3 = alloca i32, align 4
  %4 = alloca ptr, align 8
  %5 = alloca ptr, align 8
  %6 = alloca i32, align 4
  %7 = alloca i64, align 8
  %8 = alloca i64, align 8
  %9 = alloca i64, align 8
  %10 = alloca i64, align 8
  %11 = alloca ptr, align 8
  %12 = alloca i64, align 8
  %13 = alloca i64, align 8
  store ptr %0, ptr %4, align 8
  store ptr %1, ptr %5, align 8
  store i32 0, ptr %6, align 4
  %14 = load ptr, ptr %5, align 8
  %15 = getelementptr inbounds %struct.stream, ptr %14, i32 0, i32 2
  store i64 1, ptr %7, align 8
  %16 = load i64, ptr %7, align 8
  %17 = atomicrmw xchg ptr %15, i64 %16 acquire, align 16
  store i64 %17, ptr %8, align 8
  %18 = load i64, ptr %8, align 8
  %19 = icmp ne i64 %18, 0
  br i1 %19, label %20, label %21

20:                                               ; preds = %2
  store i32 0, ptr %3, align 4
  br label %87

21:                                               ; preds = %2
  %22 = load ptr, ptr %4, align 8
  %23 = getelementptr inbounds %struct.engine, ptr %22, i32 0, i32 17
  %24 = load atomic i64, ptr %23 acquire, align 64
  store i64 %24, ptr %10, align 8
  %25 = load i64, ptr %10, align 8
  store i64 %25, ptr %9, align 8
  br label %26

26:                                               ; preds = %81, %21
  %27 = load i32, ptr %6, align 4
  %28 = icmp ne i32 %27, 0
  br i1 %28, label %29, label %37

29:                                               ; preds = %26
  %30 = load ptr, ptr %4, align 8
  %31 = getelementptr inbounds %struct.engine, ptr %30, i32 0, i32 1
  %32 = load i64, ptr %31, align 8
  %33 = load ptr, ptr %4, align 8
  %34 = getelementptr inbounds %struct.engine, ptr %33, i32 0, i32 0
  %35 = load i64, ptr %34, align 64
  %36 = icmp sle i64 %32, %35
  br i1 %36, label %37, label %43

37:                                               ; preds = %29, %26
  %38 = load ptr, ptr %4, align 8
  %39 = load ptr, ptr %5, align 8
  %40 = load i64, ptr %9, align 8
  %41 = call ptr @ready(ptr noundef %38, ptr noundef %39, i64 noundef %40)
  store ptr %41, ptr %11, align 8
  %42 = icmp ne ptr %41, null
  br label %43

43:                                               ; preds = %37, %29
  %44 = phi i1 [ false, %29 ], [ %42, %37 ]
  br i1 %44, label %45, label %82

45:                                               ; preds = %43
  %46 = load ptr, ptr %4, align 8
  %47 = getelementptr inbounds %struct.engine, ptr %46, i32 0, i32 11
  %48 = load ptr, ptr %47, align 8
  %49 = icmp ne ptr %48, null
  br i1 %49, label %50, label %52

50:                                               ; preds = %45
  %51 = call i64 @cpu_clock()
  br label %53

52:                                               ; preds = %45
  br label %53

53:                                               ; preds = %52, %50
  %54 = phi i64 [ %51, %50 ], [ 0, %52 ]
  store i64 %54, ptr %12, align 8
  %55 = load ptr, ptr %4, align 8
  %56 = load ptr, ptr %5, align 8
  %57 = load ptr, ptr %11, align 8
  %58 = getelementptr inbounds %struct.task, ptr %57, i32 0, i32 0
  %59 = load i64, ptr %58, align 8
  %60 = load ptr, ptr %11, align 8
  %61 = getelementptr inbounds %struct.task, ptr %60, i32 0, i32 1
  %62 = load i64, ptr %61, align 8
  call void @execute(ptr noundef %55, ptr noundef %56, i64 noundef %59, i64 noundef %62)
  %63 = load i64, ptr %12, align 8
  %64 = icmp ne i64 %63, 0
  br i1 %64, label %65, label %76

65:                                               ; preds = %53
  %66 = load ptr, ptr %4, align 8
  %67 = load ptr, ptr %11, align 8
  %68 = load ptr, ptr %4, align 8
  %69 = getelementptr inbounds %struct.engine, ptr %68, i32 0, i32 4
  %70 = load ptr, ptr %69, align 32
  %71 = ptrtoint ptr %67 to i64
  %72 = ptrtoint ptr %70 to i64
  %73 = sub i64 %71, %72
  %74 = sdiv exact i64 %73, 56
  %75 = load i64, ptr %12, align 8
  call void @note(ptr noundef %66, i64 noundef %74, i64 noundef -1, i64 noundef %75)
  br label %76

76:                                               ; preds = %65, %53
  %77 = load ptr, ptr %4, align 8
  %78 = load ptr, ptr %5, align 8
  %79 = load ptr, ptr %11, align 8
  %80 = load i64, ptr %9, align 8
  call void @finish(ptr noundef %77, ptr noundef %78, ptr noundef %79, i64 noundef %80)
  br label %81

81:                                               ; preds = %76
  store i32 1, ptr %6, align 4
  br label %26

82:                                               ; preds = %43
  %83 = load ptr, ptr %5, align 8
  %84 = getelementptr inbounds %struct.stream, ptr %83, i32 0, i32 2
  store i64 0, ptr %13, align 8
  %85 = load i64, ptr %13, align 8
  store atomic i64 %85, ptr %84 release, align 16
  %86 = load i32, ptr %6, align 4
  store i32 %86, ptr %3, align 4
  br label %87

87:                                               ; preds = %82, %20
  %88 = load i32, ptr %3, align 4
  ret i32 %88
}

define internal i32 @help(ptr noundef %0, ptr noundef %1) {
  %3 = alloca ptr, align 8
  %4 = alloca ptr, align 8
  %5 = alloca ptr, align 8
  %6 = alloca ptr, align 8
  store ptr %0, ptr %3, align 8
  store ptr %1, ptr %4, align 8
  %7 = load ptr, ptr %4, align 8
  %8 = getelementptr inbounds %struct.stream, ptr %7, i32 0, i32 5
  %9 = load atomic i64, ptr %8 acquire, align 8
  store i64 %9, ptr %6, align 8
  %10 = load ptr, ptr %6, align 8
  store ptr %10, ptr %5, align 8
  %11 = load ptr, ptr %5, align 8
  %12 = icmp ne ptr %11, null
  br i1 %12, label %13, label %18

13:                                               ; preds = %2
  %14 = load ptr, ptr %3, align 8
  %15 = load ptr, ptr %5, align 8
  %16 = call i32 @claim(ptr noundef %14, ptr noundef %15, i32 noundef 1)
  %17 = icmp ne i32 %16, 0
  br label %18

18:                                               ; preds = %13, %2
  %19 = phi i1 [ false, %2 ], [ %17, %13 ]
  %20 = zext i1 %19 to i32
  ret i32 %20
}

define internal ptr @ready(ptr noundef %0, ptr noundef %1, i64 noundef %2) {
  %4 = alloca ptr, align 8
  %5 = alloca ptr, align 8
  %6 = alloca ptr, align 8
  %7 = alloca i64, align 8
  %8 = alloca i64, align 8
  %9 = alloca i64, align 8
  %10 = alloca i64, align 8
  %11 = alloca ptr, align 8
  %12 = alloca i64, align 8
  %13 = alloca i64, align 8
  store ptr %0, ptr %5, align 8
  store ptr %1, ptr %6, align 8
  store i64 %2, ptr %7, align 8
  %14 = load ptr, ptr %6, align 8
  %15 = getelementptr inbounds %struct.stream, ptr %14, i32 0, i32 3
  %16 = load atomic i64, ptr %15 acquire, align 8
  store i64 %16, ptr %9, align 8
  %17 = load i64, ptr %9, align 8
  %18 = load i64, ptr %7, align 8
  %19 = icmp eq i64 %17, %18
  br i1 %19, label %20, label %25

20:                                               ; preds = %3
  %21 = load ptr, ptr %6, align 8
  %22 = getelementptr inbounds %struct.stream, ptr %21, i32 0, i32 4
  %23 = load atomic i64, ptr %22 monotonic, align 32
  store i64 %23, ptr %10, align 8
  %24 = load i64, ptr %10, align 8
  br label %29

25:                                               ; preds = %3
  %26 = load ptr, ptr %6, align 8
  %27 = getelementptr inbounds %struct.stream, ptr %26, i32 0, i32 0
  %28 = load i64, ptr %27, align 64
  br label %29

29:                                               ; preds = %25, %20
  %30 = phi i64 [ %24, %20 ], [ %28, %25 ]
  store i64 %30, ptr %8, align 8
  %31 = load i64, ptr %8, align 8
  %32 = load ptr, ptr %6, align 8
  %33 = getelementptr inbounds %struct.stream, ptr %32, i32 0, i32 1
  %34 = load i64, ptr %33, align 8
  %35 = icmp eq i64 %31, %34
  br i1 %35, label %36, label %37

36:                                               ; preds = %29
  store ptr null, ptr %4, align 8
  br label %75

37:                                               ; preds = %29
  %38 = load ptr, ptr %5, align 8
  %39 = getelementptr inbounds %struct.engine, ptr %38, i32 0, i32 4
  %40 = load ptr, ptr %39, align 32
  %41 = load i64, ptr %8, align 8
  %42 = getelementptr inbounds %struct.task, ptr %40, i64 %41
  store ptr %42, ptr %11, align 8
  %43 = load ptr, ptr %11, align 8
  %44 = getelementptr inbounds %struct.task, ptr %43, i32 0, i32 2
  %45 = load i64, ptr %44, align 8
  store i64 %45, ptr %12, align 8
  br label %46

46:                                               ; preds = %70, %37
  %47 = load i64, ptr %12, align 8
  %48 = load ptr, ptr %11, align 8
  %49 = getelementptr inbounds %struct.task, ptr %48, i32 0, i32 3
  %50 = load i64, ptr %49, align 8
  %51 = icmp slt i64 %47, %50
  br i1 %51, label %52, label %73

52:                                               ; preds = %46
  %53 = load ptr, ptr %5, align 8
  %54 = getelementptr inbounds %struct.engine, ptr %53, i32 0, i32 4
  %55 = load ptr, ptr %54, align 32
  %56 = load ptr, ptr %5, align 8
  %57 = getelementptr inbounds %struct.engine, ptr %56, i32 0, i32 6
  %58 = load ptr, ptr %57, align 16
  %59 = load i64, ptr %12, align 8
  %60 = getelementptr inbounds i64, ptr %58, i64 %59
  %61 = load i64, ptr %60, align 8
  %62 = getelementptr inbounds %struct.task, ptr %55, i64 %61
  %63 = getelementptr inbounds %struct.task, ptr %62, i32 0, i32 6
  %64 = load atomic i64, ptr %63 acquire, align 8
  store i64 %64, ptr %13, align 8
  %65 = load i64, ptr %13, align 8
  %66 = load i64, ptr %7, align 8
  %67 = icmp ne i64 %65, %66
  br i1 %67, label %68, label %69

68:                                               ; preds = %52
  store ptr null, ptr %4, align 8
  br label %75

69:                                               ; preds = %52
  br label %70

70:                                               ; preds = %69
  %71 = load i64, ptr %12, align 8
  %72 = add nsw i64 %71, 1
  store i64 %72, ptr %12, align 8
  br label %46

73:                                               ; preds = %46
  %74 = load ptr, ptr %11, align 8
  store ptr %74, ptr %4, align 8
  br label %75

75:                                               ; preds = %73, %68, %36
  %76 = load ptr, ptr %4, align 8
  ret ptr %76
}

declare i64 @cpu_clock()

define internal void @execute(ptr noundef %0, ptr noundef %1, i64 noundef %2, i64 noundef %3) {
  %5 = alloca ptr, align 8
  %6 = alloca ptr, align 8
  %7 = alloca i64, align 8
  %8 = alloca i64, align 8
  %9 = alloca ptr, align 8
  store ptr %0, ptr %5, align 8
  store ptr %1, ptr %6, align 8
  store i64 %2, ptr %7, align 8
  store i64 %3, ptr %8, align 8
  %10 = load ptr, ptr %5, align 8
  %11 = getelementptr inbounds %struct.engine, ptr %10, i32 0, i32 5
  %12 = load ptr, ptr %11, align 8
  %13 = load i64, ptr %7, align 8
  %14 = getelementptr inbounds %struct.launch, ptr %12, i64 %13
  store ptr %14, ptr %9, align 8
  br label %15

15:                                               ; preds = %63, %4
  %16 = load ptr, ptr %9, align 8
  %17 = load ptr, ptr %5, align 8
  %18 = getelementptr inbounds %struct.engine, ptr %17, i32 0, i32 5
  %19 = load ptr, ptr %18, align 8
  %20 = load i64, ptr %8, align 8
  %21 = getelementptr inbounds %struct.launch, ptr %19, i64 %20
  %22 = icmp ult ptr %16, %21
  br i1 %22, label %23, label %66

23:                                               ; preds = %15
  %24 = load ptr, ptr %9, align 8
  %25 = getelementptr inbounds %struct.launch, ptr %24, i32 0, i32 5
  %26 = load ptr, ptr %25, align 8
  %27 = icmp ne ptr %26, null
  br i1 %27, label %28, label %32

28:                                               ; preds = %23
  %29 = load ptr, ptr %5, align 8
  %30 = load ptr, ptr %6, align 8
  %31 = load ptr, ptr %9, align 8
  call void @control_flow(ptr noundef %29, ptr noundef %30, ptr noundef %31)
  br label %62

32:                                               ; preds = %23
  %33 = load ptr, ptr %9, align 8
  %34 = getelementptr inbounds %struct.launch, ptr %33, i32 0, i32 2
  %35 = load i64, ptr %34, align 16
  %36 = icmp eq i64 %35, 1
  br i1 %36, label %47, label %37

37:                                               ; preds = %32
  %38 = load ptr, ptr %9, align 8
  %39 = getelementptr inbounds %struct.launch, ptr %38, i32 0, i32 2
  %40 = load i64, ptr %39, align 16
  %41 = icmp sgt i64 %40, 2147483647
  br i1 %41, label %47, label %42

42:                                               ; preds = %37
  %43 = load ptr, ptr %5, align 8
  %44 = getelementptr inbounds %struct.engine, ptr %43, i32 0, i32 0
  %45 = load i64, ptr %44, align 64
  %46 = icmp eq i64 %45, 1
  br i1 %46, label %47, label %57

47:                                               ; preds = %42, %37, %32
  %48 = load ptr, ptr %9, align 8
  %49 = getelementptr inbounds %struct.launch, ptr %48, i32 0, i32 0
  %50 = load ptr, ptr %49, align 64
  %51 = load ptr, ptr %9, align 8
  %52 = getelementptr inbounds %struct.launch, ptr %51, i32 0, i32 1
  %53 = load ptr, ptr %52, align 8
  %54 = load ptr, ptr %9, align 8
  %55 = getelementptr inbounds %struct.launch, ptr %54, i32 0, i32 2
  %56 = load i64, ptr %55, align 16
  call void %50(ptr noundef %53, i64 noundef 0, i64 noundef %56)
  br label %61

57:                                               ; preds = %42
  %58 = load ptr, ptr %5, align 8
  %59 = load ptr, ptr %6, align 8
  %60 = load ptr, ptr %9, align 8
  call void @share(ptr noundef %58, ptr noundef %59, ptr noundef %60)
  br label %61

61:                                               ; preds = %57, %47
  br label %62

62:                                               ; preds = %61, %28
  br label %63

63:                                               ; preds = %62
  %64 = load ptr, ptr %9, align 8
  %65 = getelementptr inbounds %struct.launch, ptr %64, i32 1
  store ptr %65, ptr %9, align 8
  br label %15

66:                                               ; preds = %15
  ret void
}

define internal void @note(ptr noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3) {
  %5 = alloca ptr, align 8
  %6 = alloca i64, align 8
  %7 = alloca i64, align 8
  %8 = alloca i64, align 8
  %9 = alloca i64, align 8
  %10 = alloca i64, align 8
  %11 = alloca i64, align 8
  %12 = alloca i64, align 8
  %13 = alloca %struct.span, align 8
  store ptr %0, ptr %5, align 8
  store i64 %1, ptr %6, align 8
  store i64 %2, ptr %7, align 8
  store i64 %3, ptr %8, align 8
  %14 = call i64 @cpu_clock()
  store i64 %14, ptr %9, align 8
  %15 = load ptr, ptr %5, align 8
  %16 = getelementptr inbounds %struct.engine, ptr %15, i32 0, i32 13
  store i64 1, ptr %11, align 8
  %17 = load i64, ptr %11, align 8
  %18 = atomicrmw add ptr %16, i64 %17 seq_cst, align 8
  store i64 %18, ptr %12, align 8
  %19 = load i64, ptr %12, align 8
  store i64 %19, ptr %10, align 8
  %20 = load i64, ptr %10, align 8
  %21 = load ptr, ptr %5, align 8
  %22 = getelementptr inbounds %struct.engine, ptr %21, i32 0, i32 12
  %23 = load i64, ptr %22, align 32
  %24 = icmp sge i64 %20, %23
  br i1 %24, label %25, label %26

25:                                               ; preds = %4
  br label %43

26:                                               ; preds = %4
  %27 = load ptr, ptr %5, align 8
  %28 = getelementptr inbounds %struct.engine, ptr %27, i32 0, i32 11
  %29 = load ptr, ptr %28, align 8
  %30 = load i64, ptr %10, align 8
  %31 = getelementptr inbounds %struct.span, ptr %29, i64 %30
  %32 = getelementptr inbounds %struct.span, ptr %13, i32 0, i32 0
  %33 = load i64, ptr %6, align 8
  store i64 %33, ptr %32, align 8
  %34 = getelementptr inbounds %struct.span, ptr %13, i32 0, i32 1
  %35 = load i64, ptr %7, align 8
  store i64 %35, ptr %34, align 8
  %36 = getelementptr inbounds %struct.span, ptr %13, i32 0, i32 2
  %37 = call ptr @pthread_self()
  %38 = ptrtoint ptr %37 to i64
  store i64 %38, ptr %36, align 8
  %39 = getelementptr inbounds %struct.span, ptr %13, i32 0, i32 3
  %40 = load i64, ptr %8, align 8
  store i64 %40, ptr %39, align 8
  %41 = getelementptr inbounds %struct.span, ptr %13, i32 0, i32 4
  %42 = load i64, ptr %9, align 8
  store i64 %42, ptr %41, align 8
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %31, ptr align 8 %13, i64 40, i1 false)
  br label %43

43:                                               ; preds = %26, %25
  ret void
}

define internal void @finish(ptr noundef %0, ptr noundef %1, ptr noundef %2, i64 noundef %3) {
  %5 = alloca ptr, align 8
  %6 = alloca ptr, align 8
  %7 = alloca ptr, align 8
  %8 = alloca i64, align 8
  %9 = alloca i64, align 8
  %10 = alloca i64, align 8
  %11 = alloca i64, align 8
  %12 = alloca i64, align 8
  %13 = alloca i32, align 4
  %14 = alloca i64, align 8
  %15 = alloca i64, align 8
  store ptr %0, ptr %5, align 8
  store ptr %1, ptr %6, align 8
  store ptr %2, ptr %7, align 8
  store i64 %3, ptr %8, align 8
  %16 = load ptr, ptr %7, align 8
  %17 = load ptr, ptr %5, align 8
  %18 = getelementptr inbounds %struct.engine, ptr %17, i32 0, i32 4
  %19 = load ptr, ptr %18, align 32
  %20 = ptrtoint ptr %16 to i64
  %21 = ptrtoint ptr %19 to i64
  %22 = sub i64 %20, %21
  %23 = sdiv exact i64 %22, 56
  %24 = add nsw i64 %23, 1
  store i64 %24, ptr %9, align 8
  %25 = load ptr, ptr %6, align 8
  %26 = getelementptr inbounds %struct.stream, ptr %25, i32 0, i32 4
  %27 = load i64, ptr %9, align 8
  store i64 %27, ptr %10, align 8
  %28 = load i64, ptr %10, align 8
  store atomic i64 %28, ptr %26 monotonic, align 32
  %29 = load ptr, ptr %6, align 8
  %30 = getelementptr inbounds %struct.stream, ptr %29, i32 0, i32 3
  %31 = load i64, ptr %8, align 8
  store i64 %31, ptr %11, align 8
  %32 = load i64, ptr %11, align 8
  store atomic i64 %32, ptr %30 release, align 8
  %33 = load ptr, ptr %7, align 8
  %34 = getelementptr inbounds %struct.task, ptr %33, i32 0, i32 6
  %35 = load i64, ptr %8, align 8
  store i64 %35, ptr %12, align 8
  %36 = load i64, ptr %12, align 8
  store atomic i64 %36, ptr %34 release, align 8
  %37 = load i64, ptr %9, align 8
  %38 = load ptr, ptr %6, align 8
  %39 = getelementptr inbounds %struct.stream, ptr %38, i32 0, i32 1
  %40 = load i64, ptr %39, align 8
  %41 = icmp eq i64 %37, %40
  br i1 %41, label %42, label %49

42:                                               ; preds = %4
  %43 = load ptr, ptr %5, align 8
  %44 = getelementptr inbounds %struct.engine, ptr %43, i32 0, i32 20
  store i64 1, ptr %14, align 8
  %45 = load i64, ptr %14, align 8
  %46 = atomicrmw sub ptr %44, i64 %45 seq_cst, align 64
  store i64 %46, ptr %15, align 8
  %47 = load i64, ptr %15, align 8
  %48 = icmp eq i64 %47, 1
  br label %49

49:                                               ; preds = %42, %4
  %50 = phi i1 [ false, %4 ], [ %48, %42 ]
  %51 = zext i1 %50 to i32
  store i32 %51, ptr %13, align 4
  %52 = load ptr, ptr %7, align 8
  %53 = getelementptr inbounds %struct.task, ptr %52, i32 0, i32 5
  %54 = load i64, ptr %53, align 8
  %55 = icmp ne i64 %54, 0
  br i1 %55, label %59, label %56

56:                                               ; preds = %49
  %57 = load i32, ptr %13, align 4
  %58 = icmp ne i32 %57, 0
  br i1 %58, label %59, label %61

59:                                               ; preds = %56, %49
  %60 = load ptr, ptr %5, align 8
  call void @announce(ptr noundef %60)
  br label %61

61:                                               ; preds = %59, %56
  ret void
}

define internal void @control_flow(ptr noundef %0, ptr noundef %1, ptr noundef %2) {
  %4 = alloca ptr, align 8
  %5 = alloca ptr, align 8
  %6 = alloca ptr, align 8
  %7 = alloca ptr, align 8
  %8 = alloca ptr, align 8
  %9 = alloca ptr, align 8
  store ptr %0, ptr %4, align 8
  store ptr %1, ptr %5, align 8
  store ptr %2, ptr %6, align 8
  %10 = load ptr, ptr %6, align 8
  %11 = getelementptr inbounds %struct.launch, ptr %10, i32 0, i32 5
  %12 = load ptr, ptr %11, align 8
  store ptr %12, ptr %7, align 8
  %13 = load ptr, ptr %6, align 8
  %14 = getelementptr inbounds %struct.launch, ptr %13, i32 0, i32 1
  %15 = load ptr, ptr %14, align 8
  store ptr %15, ptr %8, align 8
  %16 = load ptr, ptr %7, align 8
  %17 = getelementptr inbounds %struct.control, ptr %16, i32 0, i32 0
  %18 = load i64, ptr %17, align 8
  %19 = icmp ne i64 %18, 0
  br i1 %19, label %20, label %25

20:                                               ; preds = %3
  %21 = load ptr, ptr %4, align 8
  %22 = load ptr, ptr %5, align 8
  %23 = load ptr, ptr %7, align 8
  %24 = load ptr, ptr %8, align 8
  call void @loop(ptr noundef %21, ptr noundef %22, ptr noundef %23, ptr noundef %24)
  br label %53

25:                                               ; preds = %3
  %26 = load ptr, ptr %7, align 8
  %27 = getelementptr inbounds %struct.control, ptr %26, i32 0, i32 6
  %28 = load ptr, ptr %8, align 8
  %29 = getelementptr inbounds ptr, ptr %28, i64 0
  %30 = load ptr, ptr %29, align 8
  %31 = load i8, ptr %30, align 1
  %32 = icmp ne i8 %31, 0
  %33 = xor i1 %32, true
  %34 = zext i1 %33 to i32
  %35 = sext i32 %34 to i64
  %36 = getelementptr inbounds [2 x %struct.body], ptr %27, i64 0, i64 %35
  store ptr %36, ptr %9, align 8
  %37 = load ptr, ptr %4, align 8
  %38 = load ptr, ptr %9, align 8
  %39 = getelementptr inbounds %struct.body, ptr %38, i32 0, i32 2
  %40 = load i64, ptr %39, align 8
  %41 = load ptr, ptr %9, align 8
  %42 = getelementptr inbounds %struct.body, ptr %41, i32 0, i32 3
  %43 = load i64, ptr %42, align 8
  %44 = load ptr, ptr %8, align 8
  call void @bind(ptr noundef %37, i64 noundef %40, i64 noundef %43, ptr noundef %44, i64 noundef 0)
  %45 = load ptr, ptr %4, align 8
  %46 = load ptr, ptr %5, align 8
  %47 = load ptr, ptr %9, align 8
  %48 = getelementptr inbounds %struct.body, ptr %47, i32 0, i32 0
  %49 = load i64, ptr %48, align 8
  %50 = load ptr, ptr %9, align 8
  %51 = getelementptr inbounds %struct.body, ptr %50, i32 0, i32 1
  %52 = load i64, ptr %51, align 8
  call void @execute(ptr noundef %45, ptr noundef %46, i64 noundef %49, i64 noundef %52)
  br label %53

53:                                               ; preds = %25, %20
  ret void
}

define internal void @share(ptr noundef %0, ptr noundef %1, ptr noundef %2) {
  %4 = alloca ptr, align 8
  %5 = alloca ptr, align 8
  %6 = alloca ptr, align 8
  %7 = alloca i64, align 8
  %8 = alloca i64, align 8
  %9 = alloca ptr, align 8
  %10 = alloca ptr, align 8
  %11 = alloca i64, align 8
  %12 = alloca i64, align 8
  store ptr %0, ptr %4, align 8
  store ptr %1, ptr %5, align 8
  store ptr %2, ptr %6, align 8
  %13 = load ptr, ptr %6, align 8
  %14 = getelementptr inbounds %struct.launch, ptr %13, i32 0, i32 4
  store i64 0, ptr %7, align 8
  %15 = load i64, ptr %7, align 8
  store atomic i64 %15, ptr %14 monotonic, align 32
  %16 = load ptr, ptr %6, align 8
  %17 = getelementptr inbounds %struct.launch, ptr %16, i32 0, i32 3
  %18 = load ptr, ptr %6, align 8
  %19 = getelementptr inbounds %struct.launch, ptr %18, i32 0, i32 2
  %20 = load i64, ptr %19, align 16
  %21 = call i64 @range(i64 noundef 0, i64 noundef %20)
  store i64 %21, ptr %8, align 8
  %22 = load i64, ptr %8, align 8
  store atomic i64 %22, ptr %17 release, align 8
  %23 = load ptr, ptr %5, align 8
  %24 = getelementptr inbounds %struct.stream, ptr %23, i32 0, i32 5
  %25 = load ptr, ptr %6, align 8
  store ptr %25, ptr %9, align 8
  %26 = load i64, ptr %9, align 8
  store atomic i64 %26, ptr %24 release, align 8
  %27 = load ptr, ptr %4, align 8
  call void @announce(ptr noundef %27)
  br label %28

28:                                               ; preds = %33, %3
  %29 = load ptr, ptr %4, align 8
  %30 = load ptr, ptr %6, align 8
  %31 = call i32 @claim(ptr noundef %29, ptr noundef %30, i32 noundef 0)
  %32 = icmp ne i32 %31, 0
  br i1 %32, label %33, label %34

33:                                               ; preds = %28
  br label %28

34:                                               ; preds = %28
  %35 = load ptr, ptr %5, align 8
  %36 = getelementptr inbounds %struct.stream, ptr %35, i32 0, i32 5
  store ptr null, ptr %10, align 8
  %37 = load i64, ptr %10, align 8
  store atomic i64 %37, ptr %36 release, align 8
  store i64 0, ptr %11, align 8
  br label %38

38:                                               ; preds = %49, %34
  %39 = load ptr, ptr %6, align 8
  %40 = getelementptr inbounds %struct.launch, ptr %39, i32 0, i32 4
  %41 = load atomic i64, ptr %40 acquire, align 32
  store i64 %41, ptr %12, align 8
  %42 = load i64, ptr %12, align 8
  %43 = load ptr, ptr %6, align 8
  %44 = getelementptr inbounds %struct.launch, ptr %43, i32 0, i32 2
  %45 = load i64, ptr %44, align 16
  %46 = icmp slt i64 %42, %45
  br i1 %46, label %47, label %52

47:                                               ; preds = %38
  %48 = load i64, ptr %11, align 8
  call void @spin(i64 noundef %48)
  br label %49

49:                                               ; preds = %47
  %50 = load i64, ptr %11, align 8
  %51 = add nsw i64 %50, 1
  store i64 %51, ptr %11, align 8
  br label %38

52:                                               ; preds = %38
  ret void
}

define internal void @loop(ptr noundef %0, ptr noundef %1, ptr noundef %2, ptr noundef %3) {
  %5 = alloca ptr, align 8
  %6 = alloca ptr, align 8
  %7 = alloca ptr, align 8
  %8 = alloca ptr, align 8
  %9 = alloca ptr, align 8
  %10 = alloca ptr, align 8
  %11 = alloca i64, align 8
  %12 = alloca i64, align 8
  store ptr %0, ptr %5, align 8
  store ptr %1, ptr %6, align 8
  store ptr %2, ptr %7, align 8
  store ptr %3, ptr %8, align 8
  %13 = load ptr, ptr %7, align 8
  %14 = getelementptr inbounds %struct.control, ptr %13, i32 0, i32 6
  %15 = getelementptr inbounds [2 x %struct.body], ptr %14, i64 0, i64 0
  store ptr %15, ptr %9, align 8
  %16 = load ptr, ptr %8, align 8
  %17 = getelementptr inbounds ptr, ptr %16, i64 0
  %18 = load ptr, ptr %17, align 8
  store ptr %18, ptr %10, align 8
  store i64 0, ptr %11, align 8
  %19 = load ptr, ptr %7, align 8
  %20 = getelementptr inbounds %struct.control, ptr %19, i32 0, i32 1
  %21 = load i64, ptr %20, align 8
  %22 = icmp sge i64 %21, 0
  br i1 %22, label %23, label %27

23:                                               ; preds = %4
  %24 = load ptr, ptr %7, align 8
  %25 = getelementptr inbounds %struct.control, ptr %24, i32 0, i32 1
  %26 = load i64, ptr %25, align 8
  br label %40

27:                                               ; preds = %4
  %28 = load ptr, ptr %8, align 8
  %29 = getelementptr inbounds ptr, ptr %28, i64 1
  %30 = load ptr, ptr %29, align 8
  %31 = load i8, ptr %30, align 1
  %32 = sext i8 %31 to i32
  %33 = icmp ne i32 %32, 0
  br i1 %33, label %34, label %37

34:                                               ; preds = %27
  %35 = load ptr, ptr %10, align 8
  %36 = load i64, ptr %35, align 8
  br label %38

37:                                               ; preds = %27
  br label %38

38:                                               ; preds = %37, %34
  %39 = phi i64 [ %36, %34 ], [ 0, %37 ]
  br label %40

40:                                               ; preds = %38, %23
  %41 = phi i64 [ %26, %23 ], [ %39, %38 ]
  store i64 %41, ptr %12, align 8
  %42 = load ptr, ptr %5, align 8
  %43 = load ptr, ptr %9, align 8
  %44 = getelementptr inbounds %struct.body, ptr %43, i32 0, i32 2
  %45 = load i64, ptr %44, align 8
  %46 = load ptr, ptr %9, align 8
  %47 = getelementptr inbounds %struct.body, ptr %46, i32 0, i32 3
  %48 = load i64, ptr %47, align 8
  %49 = load ptr, ptr %8, align 8
  call void @bind(ptr noundef %42, i64 noundef %45, i64 noundef %48, ptr noundef %49, i64 noundef 0)
  br label %50

50:                                               ; preds = %94, %40
  %51 = load i64, ptr %11, align 8
  %52 = load i64, ptr %12, align 8
  %53 = icmp slt i64 %51, %52
  br i1 %53, label %54, label %95

54:                                               ; preds = %50
  %55 = load i64, ptr %11, align 8
  %56 = load ptr, ptr %8, align 8
  %57 = load ptr, ptr %7, align 8
  %58 = getelementptr inbounds %struct.control, ptr %57, i32 0, i32 2
  %59 = load i64, ptr %58, align 8
  %60 = getelementptr inbounds ptr, ptr %56, i64 %59
  %61 = load ptr, ptr %60, align 8
  store i64 %55, ptr %61, align 8
  %62 = load ptr, ptr %5, align 8
  %63 = load ptr, ptr %9, align 8
  %64 = getelementptr inbounds %struct.body, ptr %63, i32 0, i32 4
  %65 = load i64, ptr %64, align 8
  %66 = load ptr, ptr %9, align 8
  %67 = getelementptr inbounds %struct.body, ptr %66, i32 0, i32 5
  %68 = load i64, ptr %67, align 8
  %69 = load ptr, ptr %8, align 8
  %70 = load i64, ptr %11, align 8
  %71 = add nsw i64 %70, 1
  store i64 %71, ptr %11, align 8
  call void @bind(ptr noundef %62, i64 noundef %65, i64 noundef %68, ptr noundef %69, i64 noundef %70)
  %72 = load ptr, ptr %5, align 8
  %73 = load ptr, ptr %6, align 8
  %74 = load ptr, ptr %9, align 8
  %75 = getelementptr inbounds %struct.body, ptr %74, i32 0, i32 0
  %76 = load i64, ptr %75, align 8
  %77 = load ptr, ptr %9, align 8
  %78 = getelementptr inbounds %struct.body, ptr %77, i32 0, i32 1
  %79 = load i64, ptr %78, align 8
  call void @execute(ptr noundef %72, ptr noundef %73, i64 noundef %76, i64 noundef %79)
  %80 = load ptr, ptr %7, align 8
  %81 = getelementptr inbounds %struct.control, ptr %80, i32 0, i32 3
  %82 = load i64, ptr %81, align 8
  %83 = icmp sge i64 %82, 0
  br i1 %83, label %84, label %94

84:                                               ; preds = %54
  %85 = load ptr, ptr %8, align 8
  %86 = load ptr, ptr %7, align 8
  %87 = getelementptr inbounds %struct.control, ptr %86, i32 0, i32 3
  %88 = load i64, ptr %87, align 8
  %89 = getelementptr inbounds ptr, ptr %85, i64 %88
  %90 = load ptr, ptr %89, align 8
  %91 = load i8, ptr %90, align 1
  %92 = icmp ne i8 %91, 0
  br i1 %92, label %94, label %93

93:                                               ; preds = %84
  br label %95

94:                                               ; preds = %84, %54
  br label %50

95:                                               ; preds = %93, %50
  %96 = load ptr, ptr %5, align 8
  %97 = load ptr, ptr %7, align 8
  %98 = load ptr, ptr %8, align 8
  %99 = load i64, ptr %11, align 8
  call void @settle(ptr noundef %96, ptr noundef %97, ptr noundef %98, i64 noundef %99)
  ret void
}

define internal void @bind(ptr noundef %0, i64 noundef %1, i64 noundef %2, ptr noundef %3, i64 noundef %4) {
  %6 = alloca ptr, align 8
  %7 = alloca i64, align 8
  %8 = alloca i64, align 8
  %9 = alloca ptr, align 8
  %10 = alloca i64, align 8
  %11 = alloca ptr, align 8
  %12 = alloca i64, align 8
  store ptr %0, ptr %6, align 8
  store i64 %1, ptr %7, align 8
  store i64 %2, ptr %8, align 8
  store ptr %3, ptr %9, align 8
  store i64 %4, ptr %10, align 8
  %13 = load ptr, ptr %6, align 8
  %14 = getelementptr inbounds %struct.engine, ptr %13, i32 0, i32 9
  %15 = load ptr, ptr %14, align 8
  %16 = load i64, ptr %7, align 8
  %17 = getelementptr inbounds %struct.place, ptr %15, i64 %16
  store ptr %17, ptr %11, align 8
  br label %18

18:                                               ; preds = %70, %5
  %19 = load ptr, ptr %11, align 8
  %20 = load ptr, ptr %6, align 8
  %21 = getelementptr inbounds %struct.engine, ptr %20, i32 0, i32 9
  %22 = load ptr, ptr %21, align 8
  %23 = load i64, ptr %8, align 8
  %24 = getelementptr inbounds %struct.place, ptr %22, i64 %23
  %25 = icmp ult ptr %19, %24
  br i1 %25, label %26, label %73

26:                                               ; preds = %18
  %27 = load i64, ptr %10, align 8
  %28 = icmp eq i64 %27, 0
  br i1 %28, label %29, label %33

29:                                               ; preds = %26
  %30 = load ptr, ptr %11, align 8
  %31 = getelementptr inbounds %struct.place, ptr %30, i32 0, i32 1
  %32 = load i64, ptr %31, align 8
  br label %47

33:                                               ; preds = %26
  %34 = load i64, ptr %10, align 8
  %35 = and i64 %34, 1
  %36 = icmp ne i64 %35, 0
  br i1 %36, label %37, label %41

37:                                               ; preds = %33
  %38 = load ptr, ptr %11, align 8
  %39 = getelementptr inbounds %struct.place, ptr %38, i32 0, i32 2
  %40 = load i64, ptr %39, align 8
  br label %45

41:                                               ; preds = %33
  %42 = load ptr, ptr %11, align 8
  %43 = getelementptr inbounds %struct.place, ptr %42, i32 0, i32 3
  %44 = load i64, ptr %43, align 8
  br label %45

45:                                               ; preds = %41, %37
  %46 = phi i64 [ %40, %37 ], [ %44, %41 ]
  br label %47

47:                                               ; preds = %45, %29
  %48 = phi i64 [ %32, %29 ], [ %46, %45 ]
  store i64 %48, ptr %12, align 8
  %49 = load ptr, ptr %9, align 8
  %50 = load i64, ptr %12, align 8
  %51 = getelementptr inbounds ptr, ptr %49, i64 %50
  %52 = load ptr, ptr %51, align 8
  %53 = load ptr, ptr %11, align 8
  %54 = getelementptr inbounds %struct.place, ptr %53, i32 0, i32 4
  %55 = load i64, ptr %54, align 8
  %56 = getelementptr inbounds i8, ptr %52, i64 %55
  %57 = load i64, ptr %10, align 8
  %58 = load ptr, ptr %11, align 8
  %59 = getelementptr inbounds %struct.place, ptr %58, i32 0, i32 5
  %60 = load i64, ptr %59, align 8
  %61 = mul nsw i64 %57, %60
  %62 = getelementptr inbounds i8, ptr %56, i64 %61
  %63 = load ptr, ptr %6, align 8
  %64 = getelementptr inbounds %struct.engine, ptr %63, i32 0, i32 7
  %65 = load ptr, ptr %64, align 8
  %66 = load ptr, ptr %11, align 8
  %67 = getelementptr inbounds %struct.place, ptr %66, i32 0, i32 0
  %68 = load i64, ptr %67, align 8
  %69 = getelementptr inbounds ptr, ptr %65, i64 %68
  store ptr %62, ptr %69, align 8
  br label %70

70:                                               ; preds = %47
  %71 = load ptr, ptr %11, align 8
  %72 = getelementptr inbounds %struct.place, ptr %71, i32 1
  store ptr %72, ptr %11, align 8
  br label %18

73:                                               ; preds = %18
  ret void
}

define internal void @settle(ptr noundef %0, ptr noundef %1, ptr noundef %2, i64 noundef %3) {
  %5 = alloca ptr, align 8
  %6 = alloca ptr, align 8
  %7 = alloca ptr, align 8
  %8 = alloca i64, align 8
  %9 = alloca ptr, align 8
  store ptr %0, ptr %5, align 8
  store ptr %1, ptr %6, align 8
  store ptr %2, ptr %7, align 8
  store i64 %3, ptr %8, align 8
  %10 = load i64, ptr %8, align 8
  %11 = and i64 %10, 1
  %12 = icmp ne i64 %11, 0
  br i1 %12, label %13, label %14

13:                                               ; preds = %4
  br label %60

14:                                               ; preds = %4
  %15 = load ptr, ptr %5, align 8
  %16 = getelementptr inbounds %struct.engine, ptr %15, i32 0, i32 10
  %17 = load ptr, ptr %16, align 16
  %18 = load ptr, ptr %6, align 8
  %19 = getelementptr inbounds %struct.control, ptr %18, i32 0, i32 4
  %20 = load i64, ptr %19, align 8
  %21 = getelementptr inbounds %struct.carry, ptr %17, i64 %20
  store ptr %21, ptr %9, align 8
  br label %22

22:                                               ; preds = %57, %14
  %23 = load ptr, ptr %9, align 8
  %24 = load ptr, ptr %5, align 8
  %25 = getelementptr inbounds %struct.engine, ptr %24, i32 0, i32 10
  %26 = load ptr, ptr %25, align 16
  %27 = load ptr, ptr %6, align 8
  %28 = getelementptr inbounds %struct.control, ptr %27, i32 0, i32 5
  %29 = load i64, ptr %28, align 8
  %30 = getelementptr inbounds %struct.carry, ptr %26, i64 %29
  %31 = icmp ult ptr %23, %30
  br i1 %31, label %32, label %60

32:                                               ; preds = %22
  %33 = load ptr, ptr %7, align 8
  %34 = load ptr, ptr %9, align 8
  %35 = getelementptr inbounds %struct.carry, ptr %34, i32 0, i32 1
  %36 = load i64, ptr %35, align 8
  %37 = getelementptr inbounds ptr, ptr %33, i64 %36
  %38 = load ptr, ptr %37, align 8
  %39 = load ptr, ptr %7, align 8
  %40 = load i64, ptr %8, align 8
  %41 = icmp ne i64 %40, 0
  br i1 %41, label %42, label %46

42:                                               ; preds = %32
  %43 = load ptr, ptr %9, align 8
  %44 = getelementptr inbounds %struct.carry, ptr %43, i32 0, i32 2
  %45 = load i64, ptr %44, align 8
  br label %50

46:                                               ; preds = %32
  %47 = load ptr, ptr %9, align 8
  %48 = getelementptr inbounds %struct.carry, ptr %47, i32 0, i32 0
  %49 = load i64, ptr %48, align 8
  br label %50

50:                                               ; preds = %46, %42
  %51 = phi i64 [ %45, %42 ], [ %49, %46 ]
  %52 = getelementptr inbounds ptr, ptr %39, i64 %51
  %53 = load ptr, ptr %52, align 8
  %54 = load ptr, ptr %9, align 8
  %55 = getelementptr inbounds %struct.carry, ptr %54, i32 0, i32 3
  %56 = load i64, ptr %55, align 8
  call void @llvm.memcpy.p0.p0.i64(ptr align 1 %38, ptr align 1 %53, i64 %56, i1 false)
  br label %57

57:                                               ; preds = %50
  %58 = load ptr, ptr %9, align 8
  %59 = getelementptr inbounds %struct.carry, ptr %58, i32 1
  store ptr %59, ptr %9, align 8
  br label %22

60:                                               ; preds = %13, %22
  ret void
}

declare void @llvm.memcpy.p0.p0.i64(ptr noalias nocapture writeonly, ptr noalias nocapture readonly, i64, i1 immarg)

define internal i64 @range(i64 noundef %0, i64 noundef %1) {
  %3 = alloca i64, align 8
  %4 = alloca i64, align 8
  store i64 %0, ptr %3, align 8
  store i64 %1, ptr %4, align 8
  %5 = load i64, ptr %4, align 8
  %6 = shl i64 %5, 32
  %7 = load i64, ptr %3, align 8
  %8 = or i64 %6, %7
  ret i64 %8
}

define internal i32 @claim(ptr noundef %0, ptr noundef %1, i32 noundef %2) {
  %4 = alloca i32, align 4
  %5 = alloca ptr, align 8
  %6 = alloca ptr, align 8
  %7 = alloca i32, align 4
  %8 = alloca i64, align 8
  %9 = alloca i64, align 8
  %10 = alloca i64, align 8
  %11 = alloca i64, align 8
  %12 = alloca i64, align 8
  %13 = alloca i64, align 8
  %14 = alloca i64, align 8
  %15 = alloca i8, align 1
  %16 = alloca i64, align 8
  %17 = alloca i64, align 8
  %18 = alloca i64, align 8
  store ptr %0, ptr %5, align 8
  store ptr %1, ptr %6, align 8
  store i32 %2, ptr %7, align 4
  %19 = load ptr, ptr %6, align 8
  %20 = getelementptr inbounds %struct.launch, ptr %19, i32 0, i32 3
  %21 = load atomic i64, ptr %20 acquire, align 8
  store i64 %21, ptr %9, align 8
  %22 = load i64, ptr %9, align 8
  store i64 %22, ptr %8, align 8
  br label %23

23:                                               ; preds = %69, %3
  %24 = load i64, ptr %8, align 8
  %25 = and i64 %24, 4294967295
  store i64 %25, ptr %10, align 8
  %26 = load i64, ptr %8, align 8
  %27 = ashr i64 %26, 32
  store i64 %27, ptr %11, align 8
  %28 = load i64, ptr %10, align 8
  %29 = load i64, ptr %11, align 8
  %30 = icmp sge i64 %28, %29
  br i1 %30, label %31, label %32

31:                                               ; preds = %23
  store i32 0, ptr %4, align 4
  br label %124

32:                                               ; preds = %23
  %33 = load i64, ptr %11, align 8
  %34 = load i64, ptr %10, align 8
  %35 = sub nsw i64 %33, %34
  %36 = sub nsw i64 %35, 1
  %37 = load ptr, ptr %5, align 8
  %38 = getelementptr inbounds %struct.engine, ptr %37, i32 0, i32 0
  %39 = load i64, ptr %38, align 64
  %40 = mul nsw i64 2, %39
  %41 = sdiv i64 %36, %40
  %42 = add nsw i64 1, %41
  store i64 %42, ptr %12, align 8
  %43 = load i32, ptr %7, align 4
  %44 = icmp ne i32 %43, 0
  br i1 %44, label %45, label %51

45:                                               ; preds = %32
  %46 = load i64, ptr %10, align 8
  %47 = load i64, ptr %11, align 8
  %48 = load i64, ptr %12, align 8
  %49 = sub nsw i64 %47, %48
  %50 = call i64 @range(i64 noundef %46, i64 noundef %49)
  br label %57

51:                                               ; preds = %32
  %52 = load i64, ptr %10, align 8
  %53 = load i64, ptr %12, align 8
  %54 = add nsw i64 %52, %53
  %55 = load i64, ptr %11, align 8
  %56 = call i64 @range(i64 noundef %54, i64 noundef %55)
  br label %57

57:                                               ; preds = %51, %45
  %58 = phi i64 [ %50, %45 ], [ %56, %51 ]
  store i64 %58, ptr %13, align 8
  br label %59

59:                                               ; preds = %57
  %60 = load ptr, ptr %6, align 8
  %61 = getelementptr inbounds %struct.launch, ptr %60, i32 0, i32 3
  %62 = load i64, ptr %13, align 8
  store i64 %62, ptr %14, align 8
  %63 = load i64, ptr %8, align 8
  %64 = load i64, ptr %14, align 8
  %65 = cmpxchg weak ptr %61, i64 %63, i64 %64 acq_rel acquire, align 8
  %66 = extractvalue { i64, i1 } %65, 0
  %67 = extractvalue { i64, i1 } %65, 1
  br i1 %67, label %69, label %68

68:                                               ; preds = %59
  store i64 %66, ptr %8, align 8
  br label %69

69:                                               ; preds = %68, %59
  %70 = zext i1 %67 to i8
  store i8 %70, ptr %15, align 1
  %71 = load i8, ptr %15, align 1
  %72 = trunc i8 %71 to i1
  %73 = xor i1 %72, true
  br i1 %73, label %23, label %74

74:                                               ; preds = %69
  %75 = load i32, ptr %7, align 4
  %76 = icmp ne i32 %75, 0
  br i1 %76, label %77, label %81

77:                                               ; preds = %74
  %78 = load i64, ptr %11, align 8
  %79 = load i64, ptr %12, align 8
  %80 = sub nsw i64 %78, %79
  store i64 %80, ptr %10, align 8
  br label %81

81:                                               ; preds = %77, %74
  %82 = load i32, ptr %7, align 4
  %83 = icmp ne i32 %82, 0
  br i1 %83, label %84, label %91

84:                                               ; preds = %81
  %85 = load ptr, ptr %5, align 8
  %86 = getelementptr inbounds %struct.engine, ptr %85, i32 0, i32 11
  %87 = load ptr, ptr %86, align 8
  %88 = icmp ne ptr %87, null
  br i1 %88, label %89, label %91

89:                                               ; preds = %84
  %90 = call i64 @cpu_clock()
  br label %92

91:                                               ; preds = %84, %81
  br label %92

92:                                               ; preds = %91, %89
  %93 = phi i64 [ %90, %89 ], [ 0, %91 ]
  store i64 %93, ptr %16, align 8
  %94 = load ptr, ptr %6, align 8
  %95 = getelementptr inbounds %struct.launch, ptr %94, i32 0, i32 0
  %96 = load ptr, ptr %95, align 64
  %97 = load ptr, ptr %6, align 8
  %98 = getelementptr inbounds %struct.launch, ptr %97, i32 0, i32 1
  %99 = load ptr, ptr %98, align 8
  %100 = load i64, ptr %10, align 8
  %101 = load i64, ptr %10, align 8
  %102 = load i64, ptr %12, align 8
  %103 = add nsw i64 %101, %102
  call void %96(ptr noundef %99, i64 noundef %100, i64 noundef %103)
  %104 = load i64, ptr %16, align 8
  %105 = icmp ne i64 %104, 0
  br i1 %105, label %106, label %117

106:                                              ; preds = %92
  %107 = load ptr, ptr %5, align 8
  %108 = load ptr, ptr %6, align 8
  %109 = load ptr, ptr %5, align 8
  %110 = getelementptr inbounds %struct.engine, ptr %109, i32 0, i32 5
  %111 = load ptr, ptr %110, align 8
  %112 = ptrtoint ptr %108 to i64
  %113 = ptrtoint ptr %111 to i64
  %114 = sub i64 %112, %113
  %115 = sdiv exact i64 %114, 64
  %116 = load i64, ptr %16, align 8
  call void @note(ptr noundef %107, i64 noundef -1, i64 noundef %115, i64 noundef %116)
  br label %117

117:                                              ; preds = %106, %92
  %118 = load ptr, ptr %6, align 8
  %119 = getelementptr inbounds %struct.launch, ptr %118, i32 0, i32 4
  %120 = load i64, ptr %12, align 8
  store i64 %120, ptr %17, align 8
  %121 = load i64, ptr %17, align 8
  %122 = atomicrmw add ptr %119, i64 %121 release, align 32
  store i64 %122, ptr %18, align 8
  %123 = load i64, ptr %18, align 8
  store i32 1, ptr %4, align 4
  br label %124

124:                                              ; preds = %117, %31
  %125 = load i32, ptr %4, align 4
  ret i32 %125
}

define internal void @spin(i64 noundef %0) {
  %2 = alloca i64, align 8
  store i64 %0, ptr %2, align 8
  %3 = load i64, ptr %2, align 8
  %4 = icmp slt i64 %3, 1000
  br i1 %4, label %5, label %6

5:                                                ; preds = %1
  call void @cpu_pause()
  br label %8

6:                                                ; preds = %1
  %7 = call i32 @sched_yield()
  br label %8

8:                                                ; preds = %6, %5
  ret void
}

declare i32 @sched_yield()

declare ptr @pthread_self()

declare i32 @pthread_cond_wait(ptr noundef, ptr noundef)
