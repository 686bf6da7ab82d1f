; suppression.c sha256 d2764bc90f4bd272e2ebee655508f70508966426a9885aa01687feadce5ef2ad

define void @suppress(ptr noundef %0, ptr noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4, float noundef %5, ptr noundef %6, ptr noundef %7, ptr noundef %8, ptr noundef %9, ptr noundef %10) {
  %12 = alloca ptr, align 8
  %13 = alloca ptr, align 8
  %14 = alloca i64, align 8
  %15 = alloca i64, align 8
  %16 = alloca i64, align 8
  %17 = alloca float, align 4
  %18 = alloca ptr, align 8
  %19 = alloca ptr, align 8
  %20 = alloca ptr, align 8
  %21 = alloca ptr, align 8
  %22 = alloca ptr, align 8
  %23 = alloca i64, align 8
  store ptr %0, ptr %12, align 8
  store ptr %1, ptr %13, align 8
  store i64 %2, ptr %14, align 8
  store i64 %3, ptr %15, align 8
  store i64 %4, ptr %16, align 8
  store float %5, ptr %17, align 4
  store ptr %6, ptr %18, align 8
  store ptr %7, ptr %19, align 8
  store ptr %8, ptr %20, align 8
  store ptr %9, ptr %21, align 8
  store ptr %10, ptr %22, align 8
  store i64 0, ptr %23, align 8
  br label %24

24:                                               ; preds = %50, %11
  %25 = load i64, ptr %23, align 8
  %26 = load i64, ptr %14, align 8
  %27 = icmp slt i64 %25, %26
  br i1 %27, label %28, label %53

28:                                               ; preds = %24
  %29 = load ptr, ptr %12, align 8
  %30 = load ptr, ptr %13, align 8
  %31 = load i64, ptr %23, align 8
  %32 = load i64, ptr %15, align 8
  %33 = mul nsw i64 %31, %32
  %34 = getelementptr inbounds float, ptr %30, i64 %33
  %35 = load i64, ptr %15, align 8
  %36 = load i64, ptr %16, align 8
  %37 = load float, ptr %17, align 4
  %38 = load ptr, ptr %18, align 8
  %39 = load ptr, ptr %19, align 8
  %40 = load ptr, ptr %20, align 8
  %41 = load ptr, ptr %21, align 8
  %42 = load i64, ptr %23, align 8
  %43 = load i64, ptr %16, align 8
  %44 = mul nsw i64 %42, %43
  %45 = getelementptr inbounds i64, ptr %41, i64 %44
  %46 = call i64 @suppress_class(ptr noundef %29, ptr noundef %34, i64 noundef %35, i64 noundef %36, float noundef %37, ptr noundef %38, ptr noundef %39, ptr noundef %40, ptr noundef %45)
  %47 = load ptr, ptr %22, align 8
  %48 = load i64, ptr %23, align 8
  %49 = getelementptr inbounds i64, ptr %47, i64 %48
  store i64 %46, ptr %49, align 8
  br label %50

50:                                               ; preds = %28
  %51 = load i64, ptr %23, align 8
  %52 = add nsw i64 %51, 1
  store i64 %52, ptr %23, align 8
  br label %24

53:                                               ; preds = %24
  ret void
}

define internal i64 @suppress_class(ptr noundef %0, ptr noundef %1, i64 noundef %2, i64 noundef %3, float noundef %4, ptr noundef %5, ptr noundef %6, ptr noundef %7, ptr noundef %8) {
  %10 = alloca ptr, align 8
  %11 = alloca ptr, align 8
  %12 = alloca i64, align 8
  %13 = alloca i64, align 8
  %14 = alloca float, align 4
  %15 = alloca ptr, align 8
  %16 = alloca ptr, align 8
  %17 = alloca ptr, align 8
  %18 = alloca ptr, align 8
  %19 = alloca i64, align 8
  %20 = alloca i64, align 8
  %21 = alloca i64, align 8
  %22 = alloca i32, align 4
  %23 = alloca ptr, align 8
  %24 = alloca float, align 4
  %25 = alloca i64, align 8
  store ptr %0, ptr %10, align 8
  store ptr %1, ptr %11, align 8
  store i64 %2, ptr %12, align 8
  store i64 %3, ptr %13, align 8
  store float %4, ptr %14, align 4
  store ptr %5, ptr %15, align 8
  store ptr %6, ptr %16, align 8
  store ptr %7, ptr %17, align 8
  store ptr %8, ptr %18, align 8
  %26 = load ptr, ptr %11, align 8
  %27 = load i64, ptr %12, align 8
  %28 = load ptr, ptr %15, align 8
  %29 = load ptr, ptr %16, align 8
  %30 = call i64 @candidates(ptr noundef %26, i64 noundef %27, ptr noundef %28, ptr noundef %29)
  store i64 %30, ptr %19, align 8
  store i64 0, ptr %20, align 8
  %31 = load i64, ptr %19, align 8
  %32 = sdiv i64 %31, 2
  store i64 %32, ptr %21, align 8
  br label %33

33:                                               ; preds = %37, %9
  %34 = load i64, ptr %21, align 8
  %35 = add nsw i64 %34, -1
  store i64 %35, ptr %21, align 8
  %36 = icmp sgt i64 %34, 0
  br i1 %36, label %37, label %42

37:                                               ; preds = %33
  %38 = load ptr, ptr %11, align 8
  %39 = load ptr, ptr %16, align 8
  %40 = load i64, ptr %19, align 8
  %41 = load i64, ptr %21, align 8
  call void @sink(ptr noundef %38, ptr noundef %39, i64 noundef %40, i64 noundef %41)
  br label %33

42:                                               ; preds = %33
  br label %43

43:                                               ; preds = %118, %98, %42
  %44 = load i64, ptr %19, align 8
  %45 = icmp sgt i64 %44, 0
  br i1 %45, label %46, label %50

46:                                               ; preds = %43
  %47 = load i64, ptr %20, align 8
  %48 = load i64, ptr %13, align 8
  %49 = icmp slt i64 %47, %48
  br label %50

50:                                               ; preds = %46, %43
  %51 = phi i1 [ false, %43 ], [ %49, %46 ]
  br i1 %51, label %52, label %132

52:                                               ; preds = %50
  %53 = load ptr, ptr %16, align 8
  %54 = getelementptr inbounds i32, ptr %53, i64 0
  %55 = load i32, ptr %54, align 4
  store i32 %55, ptr %22, align 4
  %56 = load ptr, ptr %16, align 8
  %57 = load i64, ptr %19, align 8
  %58 = add nsw i64 %57, -1
  store i64 %58, ptr %19, align 8
  %59 = getelementptr inbounds i32, ptr %56, i64 %58
  %60 = load i32, ptr %59, align 4
  %61 = load ptr, ptr %16, align 8
  %62 = getelementptr inbounds i32, ptr %61, i64 0
  store i32 %60, ptr %62, align 4
  %63 = load i64, ptr %19, align 8
  %64 = icmp sgt i64 %63, 0
  br i1 %64, label %65, label %69

65:                                               ; preds = %52
  %66 = load ptr, ptr %11, align 8
  %67 = load ptr, ptr %16, align 8
  %68 = load i64, ptr %19, align 8
  call void @sink(ptr noundef %66, ptr noundef %67, i64 noundef %68, i64 noundef 0)
  br label %69

69:                                               ; preds = %65, %52
  %70 = load ptr, ptr %10, align 8
  %71 = load i32, ptr %22, align 4
  %72 = sext i32 %71 to i64
  %73 = mul nsw i64 4, %72
  %74 = getelementptr inbounds float, ptr %70, i64 %73
  store ptr %74, ptr %23, align 8
  %75 = load ptr, ptr %23, align 8
  %76 = getelementptr inbounds float, ptr %75, i64 2
  %77 = load float, ptr %76, align 4
  %78 = load ptr, ptr %23, align 8
  %79 = getelementptr inbounds float, ptr %78, i64 0
  %80 = load float, ptr %79, align 4
  %81 = fsub float %77, %80
  %82 = load ptr, ptr %23, align 8
  %83 = getelementptr inbounds float, ptr %82, i64 3
  %84 = load float, ptr %83, align 4
  %85 = load ptr, ptr %23, align 8
  %86 = getelementptr inbounds float, ptr %85, i64 1
  %87 = load float, ptr %86, align 4
  %88 = fsub float %84, %87
  %89 = fmul float %81, %88
  store float %89, ptr %24, align 4
  %90 = load ptr, ptr %23, align 8
  %91 = load float, ptr %24, align 4
  %92 = load ptr, ptr %17, align 8
  %93 = load i64, ptr %13, align 8
  %94 = load i64, ptr %20, align 8
  %95 = load float, ptr %14, align 4
  %96 = call i32 @overlaps(ptr noundef %90, float noundef %91, ptr noundef %92, i64 noundef %93, i64 noundef %94, float noundef %95)
  %97 = icmp ne i32 %96, 0
  br i1 %97, label %98, label %99

98:                                               ; preds = %69
  br label %43

99:                                               ; preds = %69
  store i64 0, ptr %25, align 8
  br label %100

100:                                              ; preds = %115, %99
  %101 = load i64, ptr %25, align 8
  %102 = icmp slt i64 %101, 4
  br i1 %102, label %103, label %118

103:                                              ; preds = %100
  %104 = load ptr, ptr %23, align 8
  %105 = load i64, ptr %25, align 8
  %106 = getelementptr inbounds float, ptr %104, i64 %105
  %107 = load float, ptr %106, align 4
  %108 = load ptr, ptr %17, align 8
  %109 = load i64, ptr %25, align 8
  %110 = load i64, ptr %13, align 8
  %111 = mul nsw i64 %109, %110
  %112 = load i64, ptr %20, align 8
  %113 = add nsw i64 %111, %112
  %114 = getelementptr inbounds float, ptr %108, i64 %113
  store float %107, ptr %114, align 4
  br label %115

115:                                              ; preds = %103
  %116 = load i64, ptr %25, align 8
  %117 = add nsw i64 %116, 1
  store i64 %117, ptr %25, align 8
  br label %100

118:                                              ; preds = %100
  %119 = load float, ptr %24, align 4
  %120 = load ptr, ptr %17, align 8
  %121 = load i64, ptr %13, align 8
  %122 = mul nsw i64 4, %121
  %123 = load i64, ptr %20, align 8
  %124 = add nsw i64 %122, %123
  %125 = getelementptr inbounds float, ptr %120, i64 %124
  store float %119, ptr %125, align 4
  %126 = load i32, ptr %22, align 4
  %127 = sext i32 %126 to i64
  %128 = load ptr, ptr %18, align 8
  %129 = load i64, ptr %20, align 8
  %130 = add nsw i64 %129, 1
  store i64 %130, ptr %20, align 8
  %131 = getelementptr inbounds i64, ptr %128, i64 %129
  store i64 %127, ptr %131, align 8
  br label %43

132:                                              ; preds = %50
  %133 = load i64, ptr %20, align 8
  ret i64 %133
}

define internal i64 @candidates(ptr noundef %0, i64 noundef %1, ptr noundef %2, ptr noundef %3) {
  %5 = alloca ptr, align 8
  %6 = alloca i64, align 8
  %7 = alloca ptr, align 8
  %8 = alloca ptr, align 8
  %9 = alloca i64, align 8
  %10 = alloca i64, align 8
  %11 = alloca i64, align 8
  %12 = alloca i32, align 4
  %13 = alloca i64, align 8
  %14 = alloca i64, align 8
  store ptr %0, ptr %5, align 8
  store i64 %1, ptr %6, align 8
  store ptr %2, ptr %7, align 8
  store ptr %3, ptr %8, align 8
  store i64 0, ptr %9, align 8
  store i64 0, ptr %10, align 8
  br label %15

15:                                               ; preds = %97, %4
  %16 = load i64, ptr %10, align 8
  %17 = load i64, ptr %6, align 8
  %18 = icmp slt i64 %16, %17
  br i1 %18, label %19, label %100

19:                                               ; preds = %15
  %20 = load i64, ptr %6, align 8
  %21 = load i64, ptr %10, align 8
  %22 = sub nsw i64 %20, %21
  %23 = icmp slt i64 %22, 32
  br i1 %23, label %24, label %28

24:                                               ; preds = %19
  %25 = load i64, ptr %6, align 8
  %26 = load i64, ptr %10, align 8
  %27 = sub nsw i64 %25, %26
  br label %29

28:                                               ; preds = %19
  br label %29

29:                                               ; preds = %28, %24
  %30 = phi i64 [ %27, %24 ], [ 32, %28 ]
  store i64 %30, ptr %11, align 8
  %31 = load ptr, ptr %7, align 8
  %32 = icmp ne ptr %31, null
  %33 = xor i1 %32, true
  %34 = zext i1 %33 to i32
  store i32 %34, ptr %12, align 4
  %35 = load ptr, ptr %7, align 8
  %36 = icmp ne ptr %35, null
  br i1 %36, label %37, label %61

37:                                               ; preds = %29
  %38 = load i64, ptr %11, align 8
  %39 = icmp eq i64 %38, 32
  br i1 %39, label %40, label %61

40:                                               ; preds = %37
  store i64 0, ptr %13, align 8
  br label %41

41:                                               ; preds = %57, %40
  %42 = load i64, ptr %13, align 8
  %43 = icmp slt i64 %42, 32
  br i1 %43, label %44, label %60

44:                                               ; preds = %41
  %45 = load ptr, ptr %5, align 8
  %46 = load i64, ptr %10, align 8
  %47 = load i64, ptr %13, align 8
  %48 = add nsw i64 %46, %47
  %49 = getelementptr inbounds float, ptr %45, i64 %48
  %50 = load float, ptr %49, align 4
  %51 = load ptr, ptr %7, align 8
  %52 = load float, ptr %51, align 4
  %53 = fcmp ogt float %50, %52
  %54 = zext i1 %53 to i32
  %55 = load i32, ptr %12, align 4
  %56 = or i32 %55, %54
  store i32 %56, ptr %12, align 4
  br label %57

57:                                               ; preds = %44
  %58 = load i64, ptr %13, align 8
  %59 = add nsw i64 %58, 1
  store i64 %59, ptr %13, align 8
  br label %41

60:                                               ; preds = %41
  br label %62

61:                                               ; preds = %37, %29
  store i32 1, ptr %12, align 4
  br label %62

62:                                               ; preds = %61, %60
  %63 = load i32, ptr %12, align 4
  %64 = icmp ne i32 %63, 0
  br i1 %64, label %65, label %96

65:                                               ; preds = %62
  %66 = load i64, ptr %10, align 8
  store i64 %66, ptr %14, align 8
  br label %67

67:                                               ; preds = %92, %65
  %68 = load i64, ptr %14, align 8
  %69 = load i64, ptr %10, align 8
  %70 = load i64, ptr %11, align 8
  %71 = add nsw i64 %69, %70
  %72 = icmp slt i64 %68, %71
  br i1 %72, label %73, label %95

73:                                               ; preds = %67
  %74 = load ptr, ptr %7, align 8
  %75 = icmp ne ptr %74, null
  br i1 %75, label %76, label %84

76:                                               ; preds = %73
  %77 = load ptr, ptr %5, align 8
  %78 = load i64, ptr %14, align 8
  %79 = getelementptr inbounds float, ptr %77, i64 %78
  %80 = load float, ptr %79, align 4
  %81 = load ptr, ptr %7, align 8
  %82 = load float, ptr %81, align 4
  %83 = fcmp ogt float %80, %82
  br i1 %83, label %84, label %91

84:                                               ; preds = %76, %73
  %85 = load i64, ptr %14, align 8
  %86 = trunc i64 %85 to i32
  %87 = load ptr, ptr %8, align 8
  %88 = load i64, ptr %9, align 8
  %89 = add nsw i64 %88, 1
  store i64 %89, ptr %9, align 8
  %90 = getelementptr inbounds i32, ptr %87, i64 %88
  store i32 %86, ptr %90, align 4
  br label %91

91:                                               ; preds = %84, %76
  br label %92

92:                                               ; preds = %91
  %93 = load i64, ptr %14, align 8
  %94 = add nsw i64 %93, 1
  store i64 %94, ptr %14, align 8
  br label %67

95:                                               ; preds = %67
  br label %96

96:                                               ; preds = %95, %62
  br label %97

97:                                               ; preds = %96
  %98 = load i64, ptr %10, align 8
  %99 = add nsw i64 %98, 32
  store i64 %99, ptr %10, align 8
  br label %15

100:                                              ; preds = %15
  %101 = load i64, ptr %9, align 8
  ret i64 %101
}

define internal void @sink(ptr noundef %0, ptr noundef %1, i64 noundef %2, i64 noundef %3) {
  %5 = alloca ptr, align 8
  %6 = alloca ptr, align 8
  %7 = alloca i64, align 8
  %8 = alloca i64, align 8
  %9 = alloca i32, align 4
  %10 = alloca i64, align 8
  store ptr %0, ptr %5, align 8
  store ptr %1, ptr %6, align 8
  store i64 %2, ptr %7, align 8
  store i64 %3, ptr %8, align 8
  %11 = load ptr, ptr %6, align 8
  %12 = load i64, ptr %8, align 8
  %13 = getelementptr inbounds i32, ptr %11, i64 %12
  %14 = load i32, ptr %13, align 4
  store i32 %14, ptr %9, align 4
  %15 = load i64, ptr %8, align 8
  %16 = mul nsw i64 2, %15
  %17 = add nsw i64 %16, 1
  store i64 %17, ptr %10, align 8
  br label %18

18:                                               ; preds = %62, %4
  %19 = load i64, ptr %10, align 8
  %20 = load i64, ptr %7, align 8
  %21 = icmp slt i64 %19, %20
  br i1 %21, label %22, label %66

22:                                               ; preds = %18
  %23 = load i64, ptr %10, align 8
  %24 = add nsw i64 %23, 1
  %25 = load i64, ptr %7, align 8
  %26 = icmp slt i64 %24, %25
  br i1 %26, label %27, label %43

27:                                               ; preds = %22
  %28 = load ptr, ptr %5, align 8
  %29 = load ptr, ptr %6, align 8
  %30 = load i64, ptr %10, align 8
  %31 = add nsw i64 %30, 1
  %32 = getelementptr inbounds i32, ptr %29, i64 %31
  %33 = load i32, ptr %32, align 4
  %34 = load ptr, ptr %6, align 8
  %35 = load i64, ptr %10, align 8
  %36 = getelementptr inbounds i32, ptr %34, i64 %35
  %37 = load i32, ptr %36, align 4
  %38 = call i32 @before(ptr noundef %28, i32 noundef %33, i32 noundef %37)
  %39 = icmp ne i32 %38, 0
  br i1 %39, label %40, label %43

40:                                               ; preds = %27
  %41 = load i64, ptr %10, align 8
  %42 = add nsw i64 %41, 1
  store i64 %42, ptr %10, align 8
  br label %43

43:                                               ; preds = %40, %27, %22
  %44 = load ptr, ptr %5, align 8
  %45 = load ptr, ptr %6, align 8
  %46 = load i64, ptr %10, align 8
  %47 = getelementptr inbounds i32, ptr %45, i64 %46
  %48 = load i32, ptr %47, align 4
  %49 = load i32, ptr %9, align 4
  %50 = call i32 @before(ptr noundef %44, i32 noundef %48, i32 noundef %49)
  %51 = icmp ne i32 %50, 0
  br i1 %51, label %53, label %52

52:                                               ; preds = %43
  br label %66

53:                                               ; preds = %43
  %54 = load ptr, ptr %6, align 8
  %55 = load i64, ptr %10, align 8
  %56 = getelementptr inbounds i32, ptr %54, i64 %55
  %57 = load i32, ptr %56, align 4
  %58 = load ptr, ptr %6, align 8
  %59 = load i64, ptr %8, align 8
  %60 = getelementptr inbounds i32, ptr %58, i64 %59
  store i32 %57, ptr %60, align 4
  %61 = load i64, ptr %10, align 8
  store i64 %61, ptr %8, align 8
  br label %62

62:                                               ; preds = %53
  %63 = load i64, ptr %8, align 8
  %64 = mul nsw i64 2, %63
  %65 = add nsw i64 %64, 1
  store i64 %65, ptr %10, align 8
  br label %18

66:                                               ; preds = %52, %18
  %67 = load i32, ptr %9, align 4
  %68 = load ptr, ptr %6, align 8
  %69 = load i64, ptr %8, align 8
  %70 = getelementptr inbounds i32, ptr %68, i64 %69
  store i32 %67, ptr %70, align 4
  ret void
}

define internal i32 @overlaps(ptr noundef %0, float noundef %1, ptr noundef %2, i64 noundef %3, i64 noundef %4, float noundef %5) {
  %7 = alloca ptr, align 8
  %8 = alloca float, align 4
  %9 = alloca ptr, align 8
  %10 = alloca i64, align 8
  %11 = alloca i64, align 8
  %12 = alloca float, align 4
  %13 = alloca ptr, align 8
  %14 = alloca ptr, align 8
  %15 = alloca ptr, align 8
  %16 = alloca ptr, align 8
  %17 = alloca ptr, align 8
  %18 = alloca i32, align 4
  %19 = alloca i64, align 8
  %20 = alloca float, align 4
  %21 = alloca float, align 4
  %22 = alloca float, align 4
  %23 = alloca float, align 4
  store ptr %0, ptr %7, align 8
  store float %1, ptr %8, align 4
  store ptr %2, ptr %9, align 8
  store i64 %3, ptr %10, align 8
  store i64 %4, ptr %11, align 8
  store float %5, ptr %12, align 4
  %24 = load ptr, ptr %9, align 8
  store ptr %24, ptr %13, align 8
  %25 = load ptr, ptr %13, align 8
  %26 = load i64, ptr %10, align 8
  %27 = getelementptr inbounds float, ptr %25, i64 %26
  store ptr %27, ptr %14, align 8
  %28 = load ptr, ptr %14, align 8
  %29 = load i64, ptr %10, align 8
  %30 = getelementptr inbounds float, ptr %28, i64 %29
  store ptr %30, ptr %15, align 8
  %31 = load ptr, ptr %15, align 8
  %32 = load i64, ptr %10, align 8
  %33 = getelementptr inbounds float, ptr %31, i64 %32
  store ptr %33, ptr %16, align 8
  %34 = load ptr, ptr %16, align 8
  %35 = load i64, ptr %10, align 8
  %36 = getelementptr inbounds float, ptr %34, i64 %35
  store ptr %36, ptr %17, align 8
  store i32 0, ptr %18, align 4
  store i64 0, ptr %19, align 8
  br label %37

37:                                               ; preds = %105, %6
  %38 = load i64, ptr %19, align 8
  %39 = load i64, ptr %11, align 8
  %40 = icmp slt i64 %38, %39
  br i1 %40, label %41, label %108

41:                                               ; preds = %37
  %42 = load ptr, ptr %7, align 8
  %43 = getelementptr inbounds float, ptr %42, i64 2
  %44 = load float, ptr %43, align 4
  %45 = load ptr, ptr %15, align 8
  %46 = load i64, ptr %19, align 8
  %47 = getelementptr inbounds float, ptr %45, i64 %46
  %48 = load float, ptr %47, align 4
  %49 = call float @smaller(float noundef %44, float noundef %48)
  %50 = load ptr, ptr %7, align 8
  %51 = getelementptr inbounds float, ptr %50, i64 0
  %52 = load float, ptr %51, align 4
  %53 = load ptr, ptr %13, align 8
  %54 = load i64, ptr %19, align 8
  %55 = getelementptr inbounds float, ptr %53, i64 %54
  %56 = load float, ptr %55, align 4
  %57 = call float @larger(float noundef %52, float noundef %56)
  %58 = fsub float %49, %57
  store float %58, ptr %20, align 4
  %59 = load ptr, ptr %7, align 8
  %60 = getelementptr inbounds float, ptr %59, i64 3
  %61 = load float, ptr %60, align 4
  %62 = load ptr, ptr %16, align 8
  %63 = load i64, ptr %19, align 8
  %64 = getelementptr inbounds float, ptr %62, i64 %63
  %65 = load float, ptr %64, align 4
  %66 = call float @smaller(float noundef %61, float noundef %65)
  %67 = load ptr, ptr %7, align 8
  %68 = getelementptr inbounds float, ptr %67, i64 1
  %69 = load float, ptr %68, align 4
  %70 = load ptr, ptr %14, align 8
  %71 = load i64, ptr %19, align 8
  %72 = getelementptr inbounds float, ptr %70, i64 %71
  %73 = load float, ptr %72, align 4
  %74 = call float @larger(float noundef %69, float noundef %73)
  %75 = fsub float %66, %74
  store float %75, ptr %21, align 4
  %76 = load float, ptr %20, align 4
  %77 = call float @larger(float noundef %76, float noundef 0.000000e+00)
  %78 = load float, ptr %21, align 4
  %79 = call float @larger(float noundef %78, float noundef 0.000000e+00)
  %80 = fmul float %77, %79
  store float %80, ptr %22, align 4
  %81 = load float, ptr %22, align 4
  %82 = load float, ptr %8, align 4
  %83 = load ptr, ptr %17, align 8
  %84 = load i64, ptr %19, align 8
  %85 = getelementptr inbounds float, ptr %83, i64 %84
  %86 = load float, ptr %85, align 4
  %87 = fadd float %82, %86
  %88 = load float, ptr %22, align 4
  %89 = fsub float %87, %88
  %90 = fdiv float %81, %89
  store float %90, ptr %23, align 4
  %91 = load float, ptr %22, align 4
  %92 = fcmp ogt float %91, 0.000000e+00
  br i1 %92, label %93, label %95

93:                                               ; preds = %41
  %94 = load float, ptr %23, align 4
  br label %96

95:                                               ; preds = %41
  br label %96

96:                                               ; preds = %95, %93
  %97 = phi float [ %94, %93 ], [ 0.000000e+00, %95 ]
  store float %97, ptr %23, align 4
  %98 = load float, ptr %23, align 4
  %99 = load float, ptr %12, align 4
  %100 = fcmp ole float %98, %99
  %101 = xor i1 %100, true
  %102 = zext i1 %101 to i32
  %103 = load i32, ptr %18, align 4
  %104 = or i32 %103, %102
  store i32 %104, ptr %18, align 4
  br label %105

105:                                              ; preds = %96
  %106 = load i64, ptr %19, align 8
  %107 = add nsw i64 %106, 1
  store i64 %107, ptr %19, align 8
  br label %37

108:                                              ; preds = %37
  %109 = load i32, ptr %18, align 4
  ret i32 %109
}

define internal i32 @before(ptr noundef %0, i32 noundef %1, i32 noundef %2) {
  %4 = alloca i32, align 4
  %5 = alloca ptr, align 8
  %6 = alloca i32, align 4
  %7 = alloca i32, align 4
  %8 = alloca float, align 4
  %9 = alloca float, align 4
  %10 = alloca i32, align 4
  %11 = alloca i32, align 4
  store ptr %0, ptr %5, align 8
  store i32 %1, ptr %6, align 4
  store i32 %2, ptr %7, align 4
  %12 = load ptr, ptr %5, align 8
  %13 = load i32, ptr %6, align 4
  %14 = sext i32 %13 to i64
  %15 = getelementptr inbounds float, ptr %12, i64 %14
  %16 = load float, ptr %15, align 4
  store float %16, ptr %8, align 4
  %17 = load ptr, ptr %5, align 8
  %18 = load i32, ptr %7, align 4
  %19 = sext i32 %18 to i64
  %20 = getelementptr inbounds float, ptr %17, i64 %19
  %21 = load float, ptr %20, align 4
  store float %21, ptr %9, align 4
  %22 = load float, ptr %8, align 4
  %23 = load float, ptr %9, align 4
  %24 = fcmp ogt float %22, %23
  br i1 %24, label %29, label %25

25:                                               ; preds = %3
  %26 = load float, ptr %9, align 4
  %27 = load float, ptr %8, align 4
  %28 = fcmp ogt float %26, %27
  br i1 %28, label %29, label %34

29:                                               ; preds = %25, %3
  %30 = load float, ptr %8, align 4
  %31 = load float, ptr %9, align 4
  %32 = fcmp ogt float %30, %31
  %33 = zext i1 %32 to i32
  store i32 %33, ptr %4, align 4
  br label %55

34:                                               ; preds = %25
  %35 = load float, ptr %8, align 4
  %36 = load float, ptr %8, align 4
  %37 = fcmp une float %35, %36
  %38 = zext i1 %37 to i32
  store i32 %38, ptr %10, align 4
  %39 = load float, ptr %9, align 4
  %40 = load float, ptr %9, align 4
  %41 = fcmp une float %39, %40
  %42 = zext i1 %41 to i32
  store i32 %42, ptr %11, align 4
  %43 = load i32, ptr %10, align 4
  %44 = load i32, ptr %11, align 4
  %45 = icmp ne i32 %43, %44
  br i1 %45, label %46, label %48

46:                                               ; preds = %34
  %47 = load i32, ptr %11, align 4
  br label %53

48:                                               ; preds = %34
  %49 = load i32, ptr %6, align 4
  %50 = load i32, ptr %7, align 4
  %51 = icmp slt i32 %49, %50
  %52 = zext i1 %51 to i32
  br label %53

53:                                               ; preds = %48, %46
  %54 = phi i32 [ %47, %46 ], [ %52, %48 ]
  store i32 %54, ptr %4, align 4
  br label %55

55:                                               ; preds = %53, %29
  %56 = load i32, ptr %4, align 4
  ret i32 %56
}

define internal float @smaller(float noundef %0, float noundef %1) {
  %3 = alloca float, align 4
  %4 = alloca float, align 4
  store float %0, ptr %3, align 4
  store float %1, ptr %4, align 4
  %5 = load float, ptr %3, align 4
  %6 = load float, ptr %4, align 4
  %7 = fcmp olt float %5, %6
  br i1 %7, label %12, label %8

8:                                                ; preds = %2
  %9 = load float, ptr %3, align 4
  %10 = load float, ptr %3, align 4
  %11 = fcmp une float %9, %10
  br i1 %11, label %12, label %14

12:                                               ; preds = %8, %2
  %13 = load float, ptr %3, align 4
  br label %16

14:                                               ; preds = %8
  %15 = load float, ptr %4, align 4
  br label %16

16:                                               ; preds = %14, %12
  %17 = phi float [ %13, %12 ], [ %15, %14 ]
  ret float %17
}

define internal float @larger(float noundef %0, float noundef %1) {
  %3 = alloca float, align 4
  %4 = alloca float, align 4
  store float %0, ptr %3, align 4
  store float %1, ptr %4, align 4
  %5 = load float, ptr %3, align 4
  %6 = load float, ptr %4, align 4
  %7 = fcmp ogt float %5, %6
  br i1 %7, label %12, label %8

8:                                                ; preds = %2
  %9 = load float, ptr %3, align 4
  %10 = load float, ptr %3, align 4
  %11 = fcmp une float %9, %10
  br i1 %11, label %12, label %14

12:                                               ; preds = %8, %2
  %13 = load float, ptr %3, align 4
  br label %16

14:                                               ; preds = %8
  %15 = load float, ptr %4, align 4
  br label %16

16:                                               ; preds = %14, %12
  %17 = phi float [ %13, %12 ], [ %15, %14 ]
  ret float %17
}
