; pairs.c sha256 afb2f0e68b804e1cac41cedea58e13e782f6d96e825c509525e5880677bbad30

define void @pairs_fit(ptr noundef %0, i64 noundef %1, i64 noundef %2, ptr noundef %3, ptr noundef %4) {
  %6 = alloca ptr, align 8
  %7 = alloca i64, align 8
  %8 = alloca i64, align 8
  %9 = alloca ptr, align 8
  %10 = alloca ptr, align 8
  %11 = alloca i64, align 8
  %12 = alloca i64, align 8
  store ptr %0, ptr %6, align 8
  store i64 %1, ptr %7, align 8
  store i64 %2, ptr %8, align 8
  store ptr %3, ptr %9, align 8
  store ptr %4, ptr %10, align 8
  store i64 0, ptr %11, align 8
  br label %13

13:                                               ; preds = %49, %5
  %14 = load i64, ptr %11, align 8
  %15 = load i64, ptr %7, align 8
  %16 = icmp slt i64 %14, %15
  br i1 %16, label %17, label %52

17:                                               ; preds = %13
  %18 = load i64, ptr %8, align 8
  %19 = icmp sgt i64 %18, 100
  br i1 %19, label %20, label %22

20:                                               ; preds = %17
  %21 = load i64, ptr %8, align 8
  br label %23

22:                                               ; preds = %17
  br label %23

23:                                               ; preds = %22, %20
  %24 = phi i64 [ %21, %20 ], [ 100, %22 ]
  store i64 %24, ptr %12, align 8
  br label %25

25:                                               ; preds = %39, %23
  %26 = load i64, ptr %12, align 8
  %27 = add nsw i64 %26, -1
  store i64 %27, ptr %12, align 8
  %28 = icmp sgt i64 %26, 0
  br i1 %28, label %29, label %37

29:                                               ; preds = %25
  %30 = load ptr, ptr %6, align 8
  %31 = load i64, ptr %8, align 8
  %32 = load ptr, ptr %9, align 8
  %33 = load ptr, ptr %10, align 8
  %34 = call i32 @step(ptr noundef %30, i64 noundef %31, ptr noundef %32, ptr noundef %33)
  %35 = icmp ne i32 %34, 0
  %36 = xor i1 %35, true
  br label %37

37:                                               ; preds = %29, %25
  %38 = phi i1 [ false, %25 ], [ %36, %29 ]
  br i1 %38, label %39, label %40

39:                                               ; preds = %37
  br label %25

40:                                               ; preds = %37
  %41 = load i64, ptr %8, align 8
  %42 = load i64, ptr %8, align 8
  %43 = mul nsw i64 %41, %42
  %44 = load ptr, ptr %6, align 8
  %45 = getelementptr inbounds double, ptr %44, i64 %43
  store ptr %45, ptr %6, align 8
  %46 = load i64, ptr %8, align 8
  %47 = load ptr, ptr %9, align 8
  %48 = getelementptr inbounds double, ptr %47, i64 %46
  store ptr %48, ptr %9, align 8
  br label %49

49:                                               ; preds = %40
  %50 = load i64, ptr %11, align 8
  %51 = add nsw i64 %50, 1
  store i64 %51, ptr %11, align 8
  br label %13

52:                                               ; preds = %13
  ret void
}

define internal i32 @step(ptr noundef %0, i64 noundef %1, ptr noundef %2, ptr noundef %3) {
  %5 = alloca i32, align 4
  %6 = alloca ptr, align 8
  %7 = alloca i64, align 8
  %8 = alloca ptr, align 8
  %9 = alloca ptr, align 8
  %10 = alloca double, align 8
  %11 = alloca double, align 8
  %12 = alloca i64, align 8
  %13 = alloca i64, align 8
  %14 = alloca i64, align 8
  %15 = alloca double, align 8
  %16 = alloca i64, align 8
  %17 = alloca ptr, align 8
  %18 = alloca double, align 8
  %19 = alloca double, align 8
  %20 = alloca i64, align 8
  store ptr %0, ptr %6, align 8
  store i64 %1, ptr %7, align 8
  store ptr %2, ptr %8, align 8
  store ptr %3, ptr %9, align 8
  store double 0.000000e+00, ptr %10, align 8
  store double 0.000000e+00, ptr %11, align 8
  store i64 0, ptr %12, align 8
  br label %21

21:                                               ; preds = %65, %4
  %22 = load i64, ptr %12, align 8
  %23 = load i64, ptr %7, align 8
  %24 = icmp slt i64 %22, %23
  br i1 %24, label %25, label %68

25:                                               ; preds = %21
  %26 = load ptr, ptr %9, align 8
  %27 = load i64, ptr %12, align 8
  %28 = getelementptr inbounds double, ptr %26, i64 %27
  store double 0.000000e+00, ptr %28, align 8
  store i64 0, ptr %13, align 8
  br label %29

29:                                               ; preds = %51, %25
  %30 = load i64, ptr %13, align 8
  %31 = load i64, ptr %7, align 8
  %32 = icmp slt i64 %30, %31
  br i1 %32, label %33, label %54

33:                                               ; preds = %29
  %34 = load ptr, ptr %6, align 8
  %35 = load i64, ptr %12, align 8
  %36 = load i64, ptr %7, align 8
  %37 = mul nsw i64 %35, %36
  %38 = load i64, ptr %13, align 8
  %39 = add nsw i64 %37, %38
  %40 = getelementptr inbounds double, ptr %34, i64 %39
  %41 = load double, ptr %40, align 8
  %42 = load ptr, ptr %8, align 8
  %43 = load i64, ptr %13, align 8
  %44 = getelementptr inbounds double, ptr %42, i64 %43
  %45 = load double, ptr %44, align 8
  %46 = load ptr, ptr %9, align 8
  %47 = load i64, ptr %12, align 8
  %48 = getelementptr inbounds double, ptr %46, i64 %47
  %49 = load double, ptr %48, align 8
  %50 = call double @llvm.fmuladd.f64(double %41, double %45, double %49)
  store double %50, ptr %48, align 8
  br label %51

51:                                               ; preds = %33
  %52 = load i64, ptr %13, align 8
  %53 = add nsw i64 %52, 1
  store i64 %53, ptr %13, align 8
  br label %29

54:                                               ; preds = %29
  %55 = load ptr, ptr %8, align 8
  %56 = load i64, ptr %12, align 8
  %57 = getelementptr inbounds double, ptr %55, i64 %56
  %58 = load double, ptr %57, align 8
  %59 = load ptr, ptr %9, align 8
  %60 = load i64, ptr %12, align 8
  %61 = getelementptr inbounds double, ptr %59, i64 %60
  %62 = load double, ptr %61, align 8
  %63 = load double, ptr %10, align 8
  %64 = call double @llvm.fmuladd.f64(double %58, double %62, double %63)
  store double %64, ptr %10, align 8
  br label %65

65:                                               ; preds = %54
  %66 = load i64, ptr %12, align 8
  %67 = add nsw i64 %66, 1
  store i64 %67, ptr %12, align 8
  br label %21

68:                                               ; preds = %21
  store i64 0, ptr %14, align 8
  br label %69

69:                                               ; preds = %105, %68
  %70 = load i64, ptr %14, align 8
  %71 = load i64, ptr %7, align 8
  %72 = icmp slt i64 %70, %71
  br i1 %72, label %73, label %108

73:                                               ; preds = %69
  %74 = load ptr, ptr %9, align 8
  %75 = load i64, ptr %14, align 8
  %76 = getelementptr inbounds double, ptr %74, i64 %75
  %77 = load double, ptr %76, align 8
  %78 = load double, ptr %10, align 8
  %79 = fcmp olt double %77, %78
  br i1 %79, label %80, label %87

80:                                               ; preds = %73
  %81 = load double, ptr %10, align 8
  %82 = load ptr, ptr %9, align 8
  %83 = load i64, ptr %14, align 8
  %84 = getelementptr inbounds double, ptr %82, i64 %83
  %85 = load double, ptr %84, align 8
  %86 = fsub double %81, %85
  br label %94

87:                                               ; preds = %73
  %88 = load ptr, ptr %9, align 8
  %89 = load i64, ptr %14, align 8
  %90 = getelementptr inbounds double, ptr %88, i64 %89
  %91 = load double, ptr %90, align 8
  %92 = load double, ptr %10, align 8
  %93 = fsub double %91, %92
  br label %94

94:                                               ; preds = %87, %80
  %95 = phi double [ %86, %80 ], [ %93, %87 ]
  store double %95, ptr %15, align 8
  %96 = load double, ptr %15, align 8
  %97 = load double, ptr %11, align 8
  %98 = fcmp ogt double %96, %97
  br i1 %98, label %99, label %101

99:                                               ; preds = %94
  %100 = load double, ptr %15, align 8
  br label %103

101:                                              ; preds = %94
  %102 = load double, ptr %11, align 8
  br label %103

103:                                              ; preds = %101, %99
  %104 = phi double [ %100, %99 ], [ %102, %101 ]
  store double %104, ptr %11, align 8
  br label %105

105:                                              ; preds = %103
  %106 = load i64, ptr %14, align 8
  %107 = add nsw i64 %106, 1
  store i64 %107, ptr %14, align 8
  br label %69

108:                                              ; preds = %69
  %109 = load double, ptr %11, align 8
  %110 = load i64, ptr %7, align 8
  %111 = sitofp i64 %110 to double
  %112 = fdiv double 5.000000e-03, %111
  %113 = fcmp olt double %109, %112
  br i1 %113, label %114, label %115

114:                                              ; preds = %108
  store i32 1, ptr %5, align 4
  br label %198

115:                                              ; preds = %108
  store i64 0, ptr %16, align 8
  br label %116

116:                                              ; preds = %194, %115
  %117 = load i64, ptr %16, align 8
  %118 = load i64, ptr %7, align 8
  %119 = icmp slt i64 %117, %118
  br i1 %119, label %120, label %197

120:                                              ; preds = %116
  %121 = load ptr, ptr %6, align 8
  %122 = load i64, ptr %16, align 8
  %123 = load i64, ptr %7, align 8
  %124 = mul nsw i64 %122, %123
  %125 = getelementptr inbounds double, ptr %121, i64 %124
  store ptr %125, ptr %17, align 8
  %126 = load double, ptr %10, align 8
  %127 = load ptr, ptr %9, align 8
  %128 = load i64, ptr %16, align 8
  %129 = getelementptr inbounds double, ptr %127, i64 %128
  %130 = load double, ptr %129, align 8
  %131 = fsub double %126, %130
  %132 = load ptr, ptr %17, align 8
  %133 = load i64, ptr %16, align 8
  %134 = getelementptr inbounds double, ptr %132, i64 %133
  %135 = load double, ptr %134, align 8
  %136 = fdiv double %131, %135
  store double %136, ptr %18, align 8
  %137 = load double, ptr %18, align 8
  %138 = fadd double 1.000000e+00, %137
  %139 = fdiv double 1.000000e+00, %138
  store double %139, ptr %19, align 8
  %140 = load double, ptr %10, align 8
  %141 = load double, ptr %18, align 8
  %142 = load double, ptr %18, align 8
  %143 = load ptr, ptr %17, align 8
  %144 = load i64, ptr %16, align 8
  %145 = getelementptr inbounds double, ptr %143, i64 %144
  %146 = load double, ptr %145, align 8
  %147 = load ptr, ptr %9, align 8
  %148 = load i64, ptr %16, align 8
  %149 = getelementptr inbounds double, ptr %147, i64 %148
  %150 = load double, ptr %149, align 8
  %151 = fmul double 2.000000e+00, %150
  %152 = call double @llvm.fmuladd.f64(double %142, double %146, double %151)
  %153 = call double @llvm.fmuladd.f64(double %141, double %152, double %140)
  %154 = load double, ptr %19, align 8
  %155 = fmul double %153, %154
  %156 = load double, ptr %19, align 8
  %157 = fmul double %155, %156
  store double %157, ptr %10, align 8
  %158 = load double, ptr %18, align 8
  %159 = load ptr, ptr %8, align 8
  %160 = load i64, ptr %16, align 8
  %161 = getelementptr inbounds double, ptr %159, i64 %160
  %162 = load double, ptr %161, align 8
  %163 = fadd double %162, %158
  store double %163, ptr %161, align 8
  store i64 0, ptr %20, align 8
  br label %164

164:                                              ; preds = %190, %120
  %165 = load i64, ptr %20, align 8
  %166 = load i64, ptr %7, align 8
  %167 = icmp slt i64 %165, %166
  br i1 %167, label %168, label %193

168:                                              ; preds = %164
  %169 = load ptr, ptr %9, align 8
  %170 = load i64, ptr %20, align 8
  %171 = getelementptr inbounds double, ptr %169, i64 %170
  %172 = load double, ptr %171, align 8
  %173 = load double, ptr %18, align 8
  %174 = load ptr, ptr %17, align 8
  %175 = load i64, ptr %20, align 8
  %176 = getelementptr inbounds double, ptr %174, i64 %175
  %177 = load double, ptr %176, align 8
  %178 = call double @llvm.fmuladd.f64(double %173, double %177, double %172)
  %179 = load double, ptr %19, align 8
  %180 = fmul double %178, %179
  %181 = load ptr, ptr %9, align 8
  %182 = load i64, ptr %20, align 8
  %183 = getelementptr inbounds double, ptr %181, i64 %182
  store double %180, ptr %183, align 8
  %184 = load double, ptr %19, align 8
  %185 = load ptr, ptr %8, align 8
  %186 = load i64, ptr %20, align 8
  %187 = getelementptr inbounds double, ptr %185, i64 %186
  %188 = load double, ptr %187, align 8
  %189 = fmul double %188, %184
  store double %189, ptr %187, align 8
  br label %190

190:                                              ; preds = %168
  %191 = load i64, ptr %20, align 8
  %192 = add nsw i64 %191, 1
  store i64 %192, ptr %20, align 8
  br label %164

193:                                              ; preds = %164
  br label %194

194:                                              ; preds = %193
  %195 = load i64, ptr %16, align 8
  %196 = add nsw i64 %195, 1
  store i64 %196, ptr %16, align 8
  br label %116

197:                                              ; preds = %116
  store i32 0, ptr %5, align 4
  br label %198

198:                                              ; preds = %197, %114
  %199 = load i32, ptr %5, align 4
  ret i32 %199
}

declare double @llvm.fmuladd.f64(double, double, double)
