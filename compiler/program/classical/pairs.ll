; pairs.c sha256 243d79c9a2855fa39a6ca427f179d22542c7fbd1476cf3e67b10857ddbb881d3

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

21:                                               ; preds = %67, %4
  %22 = load i64, ptr %12, align 8
  %23 = load i64, ptr %7, align 8
  %24 = icmp slt i64 %22, %23
  br i1 %24, label %25, label %70

25:                                               ; preds = %21
  %26 = load ptr, ptr %9, align 8
  %27 = load i64, ptr %12, align 8
  %28 = getelementptr inbounds double, ptr %26, i64 %27
  store double 0.000000e+00, ptr %28, align 8
  store i64 0, ptr %13, align 8
  br label %29

29:                                               ; preds = %52, %25
  %30 = load i64, ptr %13, align 8
  %31 = load i64, ptr %7, align 8
  %32 = icmp slt i64 %30, %31
  br i1 %32, label %33, label %55

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
  %46 = fmul double %41, %45
  %47 = load ptr, ptr %9, align 8
  %48 = load i64, ptr %12, align 8
  %49 = getelementptr inbounds double, ptr %47, i64 %48
  %50 = load double, ptr %49, align 8
  %51 = fadd double %50, %46
  store double %51, ptr %49, align 8
  br label %52

52:                                               ; preds = %33
  %53 = load i64, ptr %13, align 8
  %54 = add nsw i64 %53, 1
  store i64 %54, ptr %13, align 8
  br label %29

55:                                               ; preds = %29
  %56 = load ptr, ptr %8, align 8
  %57 = load i64, ptr %12, align 8
  %58 = getelementptr inbounds double, ptr %56, i64 %57
  %59 = load double, ptr %58, align 8
  %60 = load ptr, ptr %9, align 8
  %61 = load i64, ptr %12, align 8
  %62 = getelementptr inbounds double, ptr %60, i64 %61
  %63 = load double, ptr %62, align 8
  %64 = fmul double %59, %63
  %65 = load double, ptr %10, align 8
  %66 = fadd double %65, %64
  store double %66, ptr %10, align 8
  br label %67

67:                                               ; preds = %55
  %68 = load i64, ptr %12, align 8
  %69 = add nsw i64 %68, 1
  store i64 %69, ptr %12, align 8
  br label %21

70:                                               ; preds = %21
  store i64 0, ptr %14, align 8
  br label %71

71:                                               ; preds = %107, %70
  %72 = load i64, ptr %14, align 8
  %73 = load i64, ptr %7, align 8
  %74 = icmp slt i64 %72, %73
  br i1 %74, label %75, label %110

75:                                               ; preds = %71
  %76 = load ptr, ptr %9, align 8
  %77 = load i64, ptr %14, align 8
  %78 = getelementptr inbounds double, ptr %76, i64 %77
  %79 = load double, ptr %78, align 8
  %80 = load double, ptr %10, align 8
  %81 = fcmp olt double %79, %80
  br i1 %81, label %82, label %89

82:                                               ; preds = %75
  %83 = load double, ptr %10, align 8
  %84 = load ptr, ptr %9, align 8
  %85 = load i64, ptr %14, align 8
  %86 = getelementptr inbounds double, ptr %84, i64 %85
  %87 = load double, ptr %86, align 8
  %88 = fsub double %83, %87
  br label %96

89:                                               ; preds = %75
  %90 = load ptr, ptr %9, align 8
  %91 = load i64, ptr %14, align 8
  %92 = getelementptr inbounds double, ptr %90, i64 %91
  %93 = load double, ptr %92, align 8
  %94 = load double, ptr %10, align 8
  %95 = fsub double %93, %94
  br label %96

96:                                               ; preds = %89, %82
  %97 = phi double [ %88, %82 ], [ %95, %89 ]
  store double %97, ptr %15, align 8
  %98 = load double, ptr %15, align 8
  %99 = load double, ptr %11, align 8
  %100 = fcmp ogt double %98, %99
  br i1 %100, label %101, label %103

101:                                              ; preds = %96
  %102 = load double, ptr %15, align 8
  br label %105

103:                                              ; preds = %96
  %104 = load double, ptr %11, align 8
  br label %105

105:                                              ; preds = %103, %101
  %106 = phi double [ %102, %101 ], [ %104, %103 ]
  store double %106, ptr %11, align 8
  br label %107

107:                                              ; preds = %105
  %108 = load i64, ptr %14, align 8
  %109 = add nsw i64 %108, 1
  store i64 %109, ptr %14, align 8
  br label %71

110:                                              ; preds = %71
  %111 = load double, ptr %11, align 8
  %112 = load i64, ptr %7, align 8
  %113 = sitofp i64 %112 to double
  %114 = fdiv double 5.000000e-03, %113
  %115 = fcmp olt double %111, %114
  br i1 %115, label %116, label %117

116:                                              ; preds = %110
  store i32 1, ptr %5, align 4
  br label %203

117:                                              ; preds = %110
  store i64 0, ptr %16, align 8
  br label %118

118:                                              ; preds = %199, %117
  %119 = load i64, ptr %16, align 8
  %120 = load i64, ptr %7, align 8
  %121 = icmp slt i64 %119, %120
  br i1 %121, label %122, label %202

122:                                              ; preds = %118
  %123 = load ptr, ptr %6, align 8
  %124 = load i64, ptr %16, align 8
  %125 = load i64, ptr %7, align 8
  %126 = mul nsw i64 %124, %125
  %127 = getelementptr inbounds double, ptr %123, i64 %126
  store ptr %127, ptr %17, align 8
  %128 = load double, ptr %10, align 8
  %129 = load ptr, ptr %9, align 8
  %130 = load i64, ptr %16, align 8
  %131 = getelementptr inbounds double, ptr %129, i64 %130
  %132 = load double, ptr %131, align 8
  %133 = fsub double %128, %132
  %134 = load ptr, ptr %17, align 8
  %135 = load i64, ptr %16, align 8
  %136 = getelementptr inbounds double, ptr %134, i64 %135
  %137 = load double, ptr %136, align 8
  %138 = fdiv double %133, %137
  store double %138, ptr %18, align 8
  %139 = load double, ptr %18, align 8
  %140 = fadd double 1.000000e+00, %139
  %141 = fdiv double 1.000000e+00, %140
  store double %141, ptr %19, align 8
  %142 = load double, ptr %10, align 8
  %143 = load double, ptr %18, align 8
  %144 = load double, ptr %18, align 8
  %145 = load ptr, ptr %17, align 8
  %146 = load i64, ptr %16, align 8
  %147 = getelementptr inbounds double, ptr %145, i64 %146
  %148 = load double, ptr %147, align 8
  %149 = fmul double %144, %148
  %150 = load ptr, ptr %9, align 8
  %151 = load i64, ptr %16, align 8
  %152 = getelementptr inbounds double, ptr %150, i64 %151
  %153 = load double, ptr %152, align 8
  %154 = fmul double 2.000000e+00, %153
  %155 = fadd double %149, %154
  %156 = fmul double %143, %155
  %157 = fadd double %142, %156
  %158 = load double, ptr %19, align 8
  %159 = fmul double %157, %158
  %160 = load double, ptr %19, align 8
  %161 = fmul double %159, %160
  store double %161, ptr %10, align 8
  %162 = load double, ptr %18, align 8
  %163 = load ptr, ptr %8, align 8
  %164 = load i64, ptr %16, align 8
  %165 = getelementptr inbounds double, ptr %163, i64 %164
  %166 = load double, ptr %165, align 8
  %167 = fadd double %166, %162
  store double %167, ptr %165, align 8
  store i64 0, ptr %20, align 8
  br label %168

168:                                              ; preds = %195, %122
  %169 = load i64, ptr %20, align 8
  %170 = load i64, ptr %7, align 8
  %171 = icmp slt i64 %169, %170
  br i1 %171, label %172, label %198

172:                                              ; preds = %168
  %173 = load ptr, ptr %9, align 8
  %174 = load i64, ptr %20, align 8
  %175 = getelementptr inbounds double, ptr %173, i64 %174
  %176 = load double, ptr %175, align 8
  %177 = load double, ptr %18, align 8
  %178 = load ptr, ptr %17, align 8
  %179 = load i64, ptr %20, align 8
  %180 = getelementptr inbounds double, ptr %178, i64 %179
  %181 = load double, ptr %180, align 8
  %182 = fmul double %177, %181
  %183 = fadd double %176, %182
  %184 = load double, ptr %19, align 8
  %185 = fmul double %183, %184
  %186 = load ptr, ptr %9, align 8
  %187 = load i64, ptr %20, align 8
  %188 = getelementptr inbounds double, ptr %186, i64 %187
  store double %185, ptr %188, align 8
  %189 = load double, ptr %19, align 8
  %190 = load ptr, ptr %8, align 8
  %191 = load i64, ptr %20, align 8
  %192 = getelementptr inbounds double, ptr %190, i64 %191
  %193 = load double, ptr %192, align 8
  %194 = fmul double %193, %189
  store double %194, ptr %192, align 8
  br label %195

195:                                              ; preds = %172
  %196 = load i64, ptr %20, align 8
  %197 = add nsw i64 %196, 1
  store i64 %197, ptr %20, align 8
  br label %168

198:                                              ; preds = %168
  br label %199

199:                                              ; preds = %198
  %200 = load i64, ptr %16, align 8
  %201 = add nsw i64 %200, 1
  store i64 %201, ptr %16, align 8
  br label %118

202:                                              ; preds = %118
  store i32 0, ptr %5, align 4
  br label %203

203:                                              ; preds = %202, %116
  %204 = load i32, ptr %5, align 4
  ret i32 %204
}
