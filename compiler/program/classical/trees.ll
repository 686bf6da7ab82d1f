; trees.c sha256 10398516c3e33ea82747726d93aa611f342c8c26c4f5d0cd1378758ba96f5cb0

%struct.ensemble = type { i64, i64, i64, ptr, ptr, ptr, ptr, ptr }
%struct.node = type { double, i32, i32, [2 x i32] }

define void @trees_vote(ptr noundef %0, ptr noundef %1, i64 noundef %2, i64 noundef %3, ptr noundef %4, ptr noundef %5) {
  %7 = alloca ptr, align 8
  %8 = alloca ptr, align 8
  %9 = alloca i64, align 8
  %10 = alloca i64, align 8
  %11 = alloca ptr, align 8
  %12 = alloca ptr, align 8
  %13 = alloca i64, align 8
  %14 = alloca i64, align 8
  %15 = alloca [8 x i32], align 16
  %16 = alloca i64, align 8
  %17 = alloca i64, align 8
  store ptr %0, ptr %7, align 8
  store ptr %1, ptr %8, align 8
  store i64 %2, ptr %9, align 8
  store i64 %3, ptr %10, align 8
  store ptr %4, ptr %11, align 8
  store ptr %5, ptr %12, align 8
  br label %18

18:                                               ; preds = %126, %6
  %19 = load i64, ptr %9, align 8
  %20 = icmp sgt i64 %19, 0
  br i1 %20, label %21, label %130

21:                                               ; preds = %18
  %22 = load i64, ptr %9, align 8
  %23 = icmp slt i64 %22, 8
  br i1 %23, label %24, label %26

24:                                               ; preds = %21
  %25 = load i64, ptr %9, align 8
  br label %27

26:                                               ; preds = %21
  br label %27

27:                                               ; preds = %26, %24
  %28 = phi i64 [ %25, %24 ], [ 8, %26 ]
  store i64 %28, ptr %13, align 8
  store i64 0, ptr %14, align 8
  br label %29

29:                                               ; preds = %103, %27
  %30 = load i64, ptr %14, align 8
  %31 = load ptr, ptr %7, align 8
  %32 = getelementptr inbounds %struct.ensemble, ptr %31, i32 0, i32 0
  %33 = load i64, ptr %32, align 8
  %34 = icmp slt i64 %30, %33
  br i1 %34, label %35, label %106

35:                                               ; preds = %29
  store i64 0, ptr %16, align 8
  br label %36

36:                                               ; preds = %48, %35
  %37 = load i64, ptr %16, align 8
  %38 = icmp slt i64 %37, 8
  br i1 %38, label %39, label %51

39:                                               ; preds = %36
  %40 = load ptr, ptr %7, align 8
  %41 = getelementptr inbounds %struct.ensemble, ptr %40, i32 0, i32 4
  %42 = load ptr, ptr %41, align 8
  %43 = load i64, ptr %14, align 8
  %44 = getelementptr inbounds i32, ptr %42, i64 %43
  %45 = load i32, ptr %44, align 4
  %46 = load i64, ptr %16, align 8
  %47 = getelementptr inbounds [8 x i32], ptr %15, i64 0, i64 %46
  store i32 %45, ptr %47, align 4
  br label %48

48:                                               ; preds = %39
  %49 = load i64, ptr %16, align 8
  %50 = add nsw i64 %49, 1
  store i64 %50, ptr %16, align 8
  br label %36

51:                                               ; preds = %36
  %52 = load i64, ptr %13, align 8
  %53 = icmp eq i64 %52, 8
  br i1 %53, label %54, label %64

54:                                               ; preds = %51
  br label %55

55:                                               ; preds = %62, %54
  %56 = load ptr, ptr %7, align 8
  %57 = getelementptr inbounds [8 x i32], ptr %15, i64 0, i64 0
  %58 = load ptr, ptr %8, align 8
  %59 = load i64, ptr %10, align 8
  %60 = call i32 @advance(ptr noundef %56, ptr noundef %57, ptr noundef %58, i64 noundef %59, i64 noundef 8)
  %61 = icmp ne i32 %60, 0
  br i1 %61, label %62, label %63

62:                                               ; preds = %55
  br label %55

63:                                               ; preds = %55
  br label %75

64:                                               ; preds = %51
  br label %65

65:                                               ; preds = %73, %64
  %66 = load ptr, ptr %7, align 8
  %67 = getelementptr inbounds [8 x i32], ptr %15, i64 0, i64 0
  %68 = load ptr, ptr %8, align 8
  %69 = load i64, ptr %10, align 8
  %70 = load i64, ptr %13, align 8
  %71 = call i32 @advance(ptr noundef %66, ptr noundef %67, ptr noundef %68, i64 noundef %69, i64 noundef %70)
  %72 = icmp ne i32 %71, 0
  br i1 %72, label %73, label %74

73:                                               ; preds = %65
  br label %65

74:                                               ; preds = %65
  br label %75

75:                                               ; preds = %74, %63
  store i64 0, ptr %17, align 8
  br label %76

76:                                               ; preds = %99, %75
  %77 = load i64, ptr %17, align 8
  %78 = load i64, ptr %13, align 8
  %79 = icmp slt i64 %77, %78
  br i1 %79, label %80, label %102

80:                                               ; preds = %76
  %81 = load ptr, ptr %7, align 8
  %82 = load i64, ptr %17, align 8
  %83 = getelementptr inbounds [8 x i32], ptr %15, i64 0, i64 %82
  %84 = load i32, ptr %83, align 4
  %85 = load ptr, ptr %11, align 8
  %86 = load i64, ptr %17, align 8
  %87 = load ptr, ptr %7, align 8
  %88 = getelementptr inbounds %struct.ensemble, ptr %87, i32 0, i32 1
  %89 = load i64, ptr %88, align 8
  %90 = mul nsw i64 %86, %89
  %91 = getelementptr inbounds double, ptr %85, i64 %90
  %92 = load ptr, ptr %12, align 8
  %93 = load i64, ptr %17, align 8
  %94 = load ptr, ptr %7, align 8
  %95 = getelementptr inbounds %struct.ensemble, ptr %94, i32 0, i32 1
  %96 = load i64, ptr %95, align 8
  %97 = mul nsw i64 %93, %96
  %98 = getelementptr inbounds i8, ptr %92, i64 %97
  call void @vote(ptr noundef %81, i32 noundef %84, ptr noundef %91, ptr noundef %98)
  br label %99

99:                                               ; preds = %80
  %100 = load i64, ptr %17, align 8
  %101 = add nsw i64 %100, 1
  store i64 %101, ptr %17, align 8
  br label %76

102:                                              ; preds = %76
  br label %103

103:                                              ; preds = %102
  %104 = load i64, ptr %14, align 8
  %105 = add nsw i64 %104, 1
  store i64 %105, ptr %14, align 8
  br label %29

106:                                              ; preds = %29
  %107 = load i64, ptr %13, align 8
  %108 = load i64, ptr %10, align 8
  %109 = mul nsw i64 %107, %108
  %110 = load ptr, ptr %8, align 8
  %111 = getelementptr inbounds double, ptr %110, i64 %109
  store ptr %111, ptr %8, align 8
  %112 = load i64, ptr %13, align 8
  %113 = load ptr, ptr %7, align 8
  %114 = getelementptr inbounds %struct.ensemble, ptr %113, i32 0, i32 1
  %115 = load i64, ptr %114, align 8
  %116 = mul nsw i64 %112, %115
  %117 = load ptr, ptr %11, align 8
  %118 = getelementptr inbounds double, ptr %117, i64 %116
  store ptr %118, ptr %11, align 8
  %119 = load i64, ptr %13, align 8
  %120 = load ptr, ptr %7, align 8
  %121 = getelementptr inbounds %struct.ensemble, ptr %120, i32 0, i32 1
  %122 = load i64, ptr %121, align 8
  %123 = mul nsw i64 %119, %122
  %124 = load ptr, ptr %12, align 8
  %125 = getelementptr inbounds i8, ptr %124, i64 %123
  store ptr %125, ptr %12, align 8
  br label %126

126:                                              ; preds = %106
  %127 = load i64, ptr %13, align 8
  %128 = load i64, ptr %9, align 8
  %129 = sub nsw i64 %128, %127
  store i64 %129, ptr %9, align 8
  br label %18

130:                                              ; preds = %18
  ret void
}

define internal i32 @advance(ptr noundef %0, ptr noundef %1, ptr noundef %2, i64 noundef %3, i64 noundef %4) {
  %6 = alloca ptr, align 8
  %7 = alloca ptr, align 8
  %8 = alloca ptr, align 8
  %9 = alloca i64, align 8
  %10 = alloca i64, align 8
  %11 = alloca i32, align 4
  %12 = alloca i64, align 8
  %13 = alloca i32, align 4
  store ptr %0, ptr %6, align 8
  store ptr %1, ptr %7, align 8
  store ptr %2, ptr %8, align 8
  store i64 %3, ptr %9, align 8
  store i64 %4, ptr %10, align 8
  store i32 0, ptr %11, align 4
  store i64 0, ptr %12, align 8
  br label %14

14:                                               ; preds = %46, %5
  %15 = load i64, ptr %12, align 8
  %16 = load i64, ptr %10, align 8
  %17 = icmp slt i64 %15, %16
  br i1 %17, label %18, label %49

18:                                               ; preds = %14
  %19 = load ptr, ptr %6, align 8
  %20 = getelementptr inbounds %struct.ensemble, ptr %19, i32 0, i32 3
  %21 = load ptr, ptr %20, align 8
  %22 = load ptr, ptr %7, align 8
  %23 = load i64, ptr %12, align 8
  %24 = getelementptr inbounds i32, ptr %22, i64 %23
  %25 = load i32, ptr %24, align 4
  %26 = sext i32 %25 to i64
  %27 = getelementptr inbounds %struct.node, ptr %21, i64 %26
  %28 = load ptr, ptr %8, align 8
  %29 = load i64, ptr %12, align 8
  %30 = load i64, ptr %9, align 8
  %31 = mul nsw i64 %29, %30
  %32 = getelementptr inbounds double, ptr %28, i64 %31
  %33 = call i32 @next(ptr noundef %27, ptr noundef %32)
  store i32 %33, ptr %13, align 4
  %34 = load i32, ptr %13, align 4
  %35 = load ptr, ptr %7, align 8
  %36 = load i64, ptr %12, align 8
  %37 = getelementptr inbounds i32, ptr %35, i64 %36
  %38 = load i32, ptr %37, align 4
  %39 = xor i32 %34, %38
  %40 = load i32, ptr %11, align 4
  %41 = or i32 %40, %39
  store i32 %41, ptr %11, align 4
  %42 = load i32, ptr %13, align 4
  %43 = load ptr, ptr %7, align 8
  %44 = load i64, ptr %12, align 8
  %45 = getelementptr inbounds i32, ptr %43, i64 %44
  store i32 %42, ptr %45, align 4
  br label %46

46:                                               ; preds = %18
  %47 = load i64, ptr %12, align 8
  %48 = add nsw i64 %47, 1
  store i64 %48, ptr %12, align 8
  br label %14

49:                                               ; preds = %14
  %50 = load i32, ptr %11, align 4
  ret i32 %50
}

define internal void @vote(ptr noundef %0, i32 noundef %1, ptr noundef %2, ptr noundef %3) {
  %5 = alloca ptr, align 8
  %6 = alloca i32, align 4
  %7 = alloca ptr, align 8
  %8 = alloca ptr, align 8
  %9 = alloca i64, align 8
  %10 = alloca i64, align 8
  %11 = alloca double, align 8
  %12 = alloca double, align 8
  store ptr %0, ptr %5, align 8
  store i32 %1, ptr %6, align 4
  store ptr %2, ptr %7, align 8
  store ptr %3, ptr %8, align 8
  %13 = load ptr, ptr %5, align 8
  %14 = getelementptr inbounds %struct.ensemble, ptr %13, i32 0, i32 5
  %15 = load ptr, ptr %14, align 8
  %16 = load i32, ptr %6, align 4
  %17 = sext i32 %16 to i64
  %18 = getelementptr inbounds i64, ptr %15, i64 %17
  %19 = load i64, ptr %18, align 8
  store i64 %19, ptr %9, align 8
  br label %20

20:                                               ; preds = %88, %4
  %21 = load i64, ptr %9, align 8
  %22 = load ptr, ptr %5, align 8
  %23 = getelementptr inbounds %struct.ensemble, ptr %22, i32 0, i32 5
  %24 = load ptr, ptr %23, align 8
  %25 = load i32, ptr %6, align 4
  %26 = add nsw i32 %25, 1
  %27 = sext i32 %26 to i64
  %28 = getelementptr inbounds i64, ptr %24, i64 %27
  %29 = load i64, ptr %28, align 8
  %30 = icmp slt i64 %21, %29
  br i1 %30, label %31, label %91

31:                                               ; preds = %20
  %32 = load ptr, ptr %5, align 8
  %33 = getelementptr inbounds %struct.ensemble, ptr %32, i32 0, i32 6
  %34 = load ptr, ptr %33, align 8
  %35 = load i64, ptr %9, align 8
  %36 = getelementptr inbounds i64, ptr %34, i64 %35
  %37 = load i64, ptr %36, align 8
  store i64 %37, ptr %10, align 8
  %38 = load ptr, ptr %5, align 8
  %39 = getelementptr inbounds %struct.ensemble, ptr %38, i32 0, i32 7
  %40 = load ptr, ptr %39, align 8
  %41 = load i64, ptr %9, align 8
  %42 = getelementptr inbounds double, ptr %40, i64 %41
  %43 = load double, ptr %42, align 8
  store double %43, ptr %11, align 8
  %44 = load ptr, ptr %7, align 8
  %45 = load i64, ptr %10, align 8
  %46 = getelementptr inbounds double, ptr %44, i64 %45
  %47 = load double, ptr %46, align 8
  store double %47, ptr %12, align 8
  %48 = load ptr, ptr %5, align 8
  %49 = getelementptr inbounds %struct.ensemble, ptr %48, i32 0, i32 2
  %50 = load i64, ptr %49, align 8
  %51 = icmp eq i64 %50, 0
  br i1 %51, label %52, label %59

52:                                               ; preds = %31
  %53 = load double, ptr %12, align 8
  %54 = load double, ptr %11, align 8
  %55 = fadd double %53, %54
  %56 = load ptr, ptr %7, align 8
  %57 = load i64, ptr %10, align 8
  %58 = getelementptr inbounds double, ptr %56, i64 %57
  store double %55, ptr %58, align 8
  br label %84

59:                                               ; preds = %31
  %60 = load ptr, ptr %8, align 8
  %61 = load i64, ptr %10, align 8
  %62 = getelementptr inbounds i8, ptr %60, i64 %61
  %63 = load i8, ptr %62, align 1
  %64 = icmp ne i8 %63, 0
  br i1 %64, label %65, label %78

65:                                               ; preds = %59
  %66 = load ptr, ptr %5, align 8
  %67 = getelementptr inbounds %struct.ensemble, ptr %66, i32 0, i32 2
  %68 = load i64, ptr %67, align 8
  %69 = icmp eq i64 %68, 1
  br i1 %69, label %70, label %74

70:                                               ; preds = %65
  %71 = load double, ptr %11, align 8
  %72 = load double, ptr %12, align 8
  %73 = fcmp olt double %71, %72
  br i1 %73, label %78, label %83

74:                                               ; preds = %65
  %75 = load double, ptr %11, align 8
  %76 = load double, ptr %12, align 8
  %77 = fcmp ogt double %75, %76
  br i1 %77, label %78, label %83

78:                                               ; preds = %74, %70, %59
  %79 = load double, ptr %11, align 8
  %80 = load ptr, ptr %7, align 8
  %81 = load i64, ptr %10, align 8
  %82 = getelementptr inbounds double, ptr %80, i64 %81
  store double %79, ptr %82, align 8
  br label %83

83:                                               ; preds = %78, %74, %70
  br label %84

84:                                               ; preds = %83, %52
  %85 = load ptr, ptr %8, align 8
  %86 = load i64, ptr %10, align 8
  %87 = getelementptr inbounds i8, ptr %85, i64 %86
  store i8 1, ptr %87, align 1
  br label %88

88:                                               ; preds = %84
  %89 = load i64, ptr %9, align 8
  %90 = add nsw i64 %89, 1
  store i64 %90, ptr %9, align 8
  br label %20

91:                                               ; preds = %20
  ret void
}

define internal i32 @next(ptr noundef %0, ptr noundef %1) {
  %3 = alloca ptr, align 8
  %4 = alloca ptr, align 8
  %5 = alloca double, align 8
  store ptr %0, ptr %3, align 8
  store ptr %1, ptr %4, align 8
  %6 = load ptr, ptr %4, align 8
  %7 = load ptr, ptr %3, align 8
  %8 = getelementptr inbounds %struct.node, ptr %7, i32 0, i32 1
  %9 = load i32, ptr %8, align 8
  %10 = sext i32 %9 to i64
  %11 = getelementptr inbounds double, ptr %6, i64 %10
  %12 = load double, ptr %11, align 8
  store double %12, ptr %5, align 8
  %13 = load ptr, ptr %3, align 8
  %14 = getelementptr inbounds %struct.node, ptr %13, i32 0, i32 3
  %15 = load double, ptr %5, align 8
  %16 = load ptr, ptr %3, align 8
  %17 = getelementptr inbounds %struct.node, ptr %16, i32 0, i32 0
  %18 = load double, ptr %17, align 8
  %19 = fcmp ole double %15, %18
  %20 = zext i1 %19 to i32
  %21 = load double, ptr %5, align 8
  %22 = load double, ptr %5, align 8
  %23 = fcmp une double %21, %22
  %24 = zext i1 %23 to i32
  %25 = load ptr, ptr %3, align 8
  %26 = getelementptr inbounds %struct.node, ptr %25, i32 0, i32 2
  %27 = load i32, ptr %26, align 4
  %28 = and i32 %24, %27
  %29 = or i32 %20, %28
  %30 = sext i32 %29 to i64
  %31 = getelementptr inbounds [2 x i32], ptr %14, i64 0, i64 %30
  %32 = load i32, ptr %31, align 4
  ret i32 %32
}
