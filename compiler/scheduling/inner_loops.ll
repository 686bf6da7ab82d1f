; inner_loops.c sha256 6b0ab99b6963a6a30a68e3a2c636d1cf6296b9b2ae51b2f9a4452ae81eb71ae9

%struct.lists = type { ptr, ptr }
%struct.waits = type { ptr, ptr, ptr }
%struct.heap = type { i64, ptr, ptr, ptr }
%struct.running = type { i64, ptr, ptr, ptr }
%struct.workload = type { i64, ptr, ptr, ptr, ptr }
%struct.partitions = type { ptr, ptr, ptr }
%struct.state = type { ptr, ptr, ptr }
%struct.duration = type { double, double }
%struct.device_run = type { %struct.workload, ptr, double, double, double }

define void @simulate(ptr noundef %0, i64 noundef %1, ptr noundef %2, ptr noundef %3, ptr noundef %4, ptr noundef %5, ptr noundef %6, double noundef %7, double noundef %8, ptr noundef %9, ptr noundef %10) {
  %12 = alloca ptr, align 8
  %13 = alloca i64, align 8
  %14 = alloca ptr, align 8
  %15 = alloca ptr, align 8
  %16 = alloca ptr, align 8
  %17 = alloca ptr, align 8
  %18 = alloca ptr, align 8
  %19 = alloca double, align 8
  %20 = alloca double, align 8
  %21 = alloca ptr, align 8
  %22 = alloca ptr, align 8
  %23 = alloca i64, align 8
  %24 = alloca ptr, align 8
  %25 = alloca ptr, align 8
  %26 = alloca ptr, align 8
  %27 = alloca %struct.lists, align 8
  %28 = alloca %struct.waits, align 8
  %29 = alloca %struct.heap, align 8
  %30 = alloca %struct.running, align 8
  %31 = alloca i64, align 8
  %32 = alloca i64, align 8
  %33 = alloca [11 x ptr], align 16
  %34 = alloca i64, align 8
  store ptr %0, ptr %12, align 8
  store i64 %1, ptr %13, align 8
  store ptr %2, ptr %14, align 8
  store ptr %3, ptr %15, align 8
  store ptr %4, ptr %16, align 8
  store ptr %5, ptr %17, align 8
  store ptr %6, ptr %18, align 8
  store double %7, ptr %19, align 8
  store double %8, ptr %20, align 8
  store ptr %9, ptr %21, align 8
  store ptr %10, ptr %22, align 8
  %35 = load ptr, ptr %12, align 8
  %36 = getelementptr inbounds %struct.workload, ptr %35, i32 0, i32 0
  %37 = load i64, ptr %36, align 8
  store i64 %37, ptr %23, align 8
  %38 = load i64, ptr %23, align 8
  %39 = load ptr, ptr %15, align 8
  %40 = load ptr, ptr %16, align 8
  %41 = load ptr, ptr %14, align 8
  %42 = load i64, ptr %13, align 8
  %43 = mul nsw i64 2, %42
  %44 = getelementptr inbounds i64, ptr %41, i64 %43
  %45 = call i64 @stream_edges(i64 noundef %38, ptr noundef %39, ptr noundef %40, ptr noundef %44)
  %46 = load i64, ptr %13, align 8
  %47 = add nsw i64 %46, %45
  store i64 %47, ptr %13, align 8
  %48 = load i64, ptr %23, align 8
  %49 = add nsw i64 %48, 1
  %50 = call ptr @integers(i64 noundef %49)
  store ptr %50, ptr %24, align 8
  %51 = load i64, ptr %13, align 8
  %52 = call ptr @integers(i64 noundef %51)
  store ptr %52, ptr %25, align 8
  %53 = load i64, ptr %23, align 8
  %54 = call ptr @integers(i64 noundef %53)
  store ptr %54, ptr %26, align 8
  %55 = load i64, ptr %23, align 8
  %56 = load i64, ptr %13, align 8
  %57 = load ptr, ptr %14, align 8
  %58 = load ptr, ptr %24, align 8
  %59 = load ptr, ptr %25, align 8
  call void @successors(i64 noundef %55, i64 noundef %56, ptr noundef %57, ptr noundef %58, ptr noundef %59)
  %60 = getelementptr inbounds %struct.lists, ptr %27, i32 0, i32 0
  %61 = load ptr, ptr %24, align 8
  store ptr %61, ptr %60, align 8
  %62 = getelementptr inbounds %struct.lists, ptr %27, i32 0, i32 1
  %63 = load ptr, ptr %25, align 8
  store ptr %63, ptr %62, align 8
  %64 = load i64, ptr %23, align 8
  %65 = load ptr, ptr %16, align 8
  %66 = load ptr, ptr %17, align 8
  %67 = load double, ptr %19, align 8
  %68 = load double, ptr %20, align 8
  %69 = getelementptr inbounds { ptr, ptr }, ptr %27, i32 0, i32 0
  %70 = load ptr, ptr %69, align 8
  %71 = getelementptr inbounds { ptr, ptr }, ptr %27, i32 0, i32 1
  %72 = load ptr, ptr %71, align 8
  call void @waits_of(ptr dead_on_unwind writable sret(%struct.waits) align 8 %28, i64 noundef %64, ptr %70, ptr %72, ptr noundef %65, ptr noundef %66, double noundef %67, double noundef %68)
  %73 = getelementptr inbounds %struct.heap, ptr %29, i32 0, i32 0
  store i64 0, ptr %73, align 8
  %74 = getelementptr inbounds %struct.heap, ptr %29, i32 0, i32 1
  %75 = load i64, ptr %23, align 8
  %76 = call ptr @integers(i64 noundef %75)
  store ptr %76, ptr %74, align 8
  %77 = getelementptr inbounds %struct.heap, ptr %29, i32 0, i32 2
  %78 = load ptr, ptr %26, align 8
  store ptr %78, ptr %77, align 8
  %79 = getelementptr inbounds %struct.heap, ptr %29, i32 0, i32 3
  %80 = load i64, ptr %23, align 8
  %81 = call ptr @numbers(i64 noundef %80)
  store ptr %81, ptr %79, align 8
  %82 = getelementptr inbounds %struct.running, ptr %30, i32 0, i32 0
  store i64 0, ptr %82, align 8
  %83 = getelementptr inbounds %struct.running, ptr %30, i32 0, i32 1
  %84 = load i64, ptr %23, align 8
  %85 = call ptr @integers(i64 noundef %84)
  store ptr %85, ptr %83, align 8
  %86 = getelementptr inbounds %struct.running, ptr %30, i32 0, i32 2
  %87 = load i64, ptr %23, align 8
  %88 = call ptr @numbers(i64 noundef %87)
  store ptr %88, ptr %86, align 8
  %89 = getelementptr inbounds %struct.running, ptr %30, i32 0, i32 3
  %90 = load i64, ptr %23, align 8
  %91 = call ptr @numbers(i64 noundef %90)
  store ptr %91, ptr %89, align 8
  store i64 0, ptr %31, align 8
  br label %92

92:                                               ; preds = %104, %11
  %93 = load i64, ptr %31, align 8
  %94 = load i64, ptr %23, align 8
  %95 = icmp slt i64 %93, %94
  br i1 %95, label %96, label %107

96:                                               ; preds = %92
  %97 = load i64, ptr %31, align 8
  %98 = load ptr, ptr %26, align 8
  %99 = load ptr, ptr %15, align 8
  %100 = load i64, ptr %31, align 8
  %101 = getelementptr inbounds i64, ptr %99, i64 %100
  %102 = load i64, ptr %101, align 8
  %103 = getelementptr inbounds i64, ptr %98, i64 %102
  store i64 %97, ptr %103, align 8
  br label %104

104:                                              ; preds = %96
  %105 = load i64, ptr %31, align 8
  %106 = add nsw i64 %105, 1
  store i64 %106, ptr %31, align 8
  br label %92

107:                                              ; preds = %92
  store i64 0, ptr %32, align 8
  br label %108

108:                                              ; preds = %138, %107
  %109 = load i64, ptr %32, align 8
  %110 = load i64, ptr %23, align 8
  %111 = icmp slt i64 %109, %110
  br i1 %111, label %112, label %141

112:                                              ; preds = %108
  %113 = load ptr, ptr %22, align 8
  %114 = load i64, ptr %32, align 8
  %115 = getelementptr inbounds double, ptr %113, i64 %114
  store double 0x7FF0000000000000, ptr %115, align 8
  %116 = load ptr, ptr %21, align 8
  %117 = load i64, ptr %32, align 8
  %118 = getelementptr inbounds double, ptr %116, i64 %117
  store double 0x7FF0000000000000, ptr %118, align 8
  %119 = getelementptr inbounds %struct.waits, ptr %28, i32 0, i32 0
  %120 = load ptr, ptr %119, align 8
  %121 = load i64, ptr %32, align 8
  %122 = getelementptr inbounds i64, ptr %120, i64 %121
  %123 = load i64, ptr %122, align 8
  %124 = icmp eq i64 %123, 0
  br i1 %124, label %125, label %137

125:                                              ; preds = %112
  %126 = load i64, ptr %32, align 8
  %127 = getelementptr inbounds %struct.waits, ptr %28, i32 0, i32 1
  %128 = load ptr, ptr %127, align 8
  %129 = load i64, ptr %32, align 8
  %130 = getelementptr inbounds double, ptr %128, i64 %129
  %131 = load double, ptr %130, align 8
  %132 = load ptr, ptr %18, align 8
  %133 = load i64, ptr %32, align 8
  %134 = getelementptr inbounds double, ptr %132, i64 %133
  %135 = load double, ptr %134, align 8
  %136 = fadd double %131, %135
  call void @push(ptr noundef %29, i64 noundef %126, double noundef %136)
  br label %137

137:                                              ; preds = %125, %112
  br label %138

138:                                              ; preds = %137
  %139 = load i64, ptr %32, align 8
  %140 = add nsw i64 %139, 1
  store i64 %140, ptr %32, align 8
  br label %108

141:                                              ; preds = %108
  %142 = load ptr, ptr %12, align 8
  %143 = load ptr, ptr %18, align 8
  %144 = load ptr, ptr %21, align 8
  %145 = load ptr, ptr %22, align 8
  %146 = getelementptr inbounds { ptr, ptr }, ptr %27, i32 0, i32 0
  %147 = load ptr, ptr %146, align 8
  %148 = getelementptr inbounds { ptr, ptr }, ptr %27, i32 0, i32 1
  %149 = load ptr, ptr %148, align 8
  call void @run_events(ptr noundef %142, ptr %147, ptr %149, ptr noundef %143, ptr noundef %28, ptr noundef %29, ptr noundef %30, ptr noundef %144, ptr noundef %145)
  %150 = load ptr, ptr %24, align 8
  store ptr %150, ptr %33, align 8
  %151 = getelementptr inbounds ptr, ptr %33, i64 1
  %152 = load ptr, ptr %25, align 8
  store ptr %152, ptr %151, align 8
  %153 = getelementptr inbounds ptr, ptr %33, i64 2
  %154 = load ptr, ptr %26, align 8
  store ptr %154, ptr %153, align 8
  %155 = getelementptr inbounds ptr, ptr %33, i64 3
  %156 = getelementptr inbounds %struct.waits, ptr %28, i32 0, i32 0
  %157 = load ptr, ptr %156, align 8
  store ptr %157, ptr %155, align 8
  %158 = getelementptr inbounds ptr, ptr %33, i64 4
  %159 = getelementptr inbounds %struct.waits, ptr %28, i32 0, i32 1
  %160 = load ptr, ptr %159, align 8
  store ptr %160, ptr %158, align 8
  %161 = getelementptr inbounds ptr, ptr %33, i64 5
  %162 = getelementptr inbounds %struct.waits, ptr %28, i32 0, i32 2
  %163 = load ptr, ptr %162, align 8
  store ptr %163, ptr %161, align 8
  %164 = getelementptr inbounds ptr, ptr %33, i64 6
  %165 = getelementptr inbounds %struct.heap, ptr %29, i32 0, i32 1
  %166 = load ptr, ptr %165, align 8
  store ptr %166, ptr %164, align 8
  %167 = getelementptr inbounds ptr, ptr %33, i64 7
  %168 = getelementptr inbounds %struct.heap, ptr %29, i32 0, i32 3
  %169 = load ptr, ptr %168, align 8
  store ptr %169, ptr %167, align 8
  %170 = getelementptr inbounds ptr, ptr %33, i64 8
  %171 = getelementptr inbounds %struct.running, ptr %30, i32 0, i32 1
  %172 = load ptr, ptr %171, align 8
  store ptr %172, ptr %170, align 8
  %173 = getelementptr inbounds ptr, ptr %33, i64 9
  %174 = getelementptr inbounds %struct.running, ptr %30, i32 0, i32 2
  %175 = load ptr, ptr %174, align 8
  store ptr %175, ptr %173, align 8
  %176 = getelementptr inbounds ptr, ptr %33, i64 10
  %177 = getelementptr inbounds %struct.running, ptr %30, i32 0, i32 3
  %178 = load ptr, ptr %177, align 8
  store ptr %178, ptr %176, align 8
  store i64 0, ptr %34, align 8
  br label %179

179:                                              ; preds = %186, %141
  %180 = load i64, ptr %34, align 8
  %181 = icmp ult i64 %180, 11
  br i1 %181, label %182, label %189

182:                                              ; preds = %179
  %183 = load i64, ptr %34, align 8
  %184 = getelementptr inbounds [11 x ptr], ptr %33, i64 0, i64 %183
  %185 = load ptr, ptr %184, align 8
  call void @free(ptr noundef %185)
  br label %186

186:                                              ; preds = %182
  %187 = load i64, ptr %34, align 8
  %188 = add i64 %187, 1
  store i64 %188, ptr %34, align 8
  br label %179

189:                                              ; preds = %179
  ret void
}

define internal i64 @stream_edges(i64 noundef %0, ptr noundef %1, ptr noundef %2, ptr noundef %3) {
  %5 = alloca i64, align 8
  %6 = alloca ptr, align 8
  %7 = alloca ptr, align 8
  %8 = alloca ptr, align 8
  %9 = alloca i64, align 8
  %10 = alloca i64, align 8
  %11 = alloca ptr, align 8
  %12 = alloca i64, align 8
  %13 = alloca i64, align 8
  %14 = alloca i64, align 8
  %15 = alloca i64, align 8
  store i64 %0, ptr %5, align 8
  store ptr %1, ptr %6, align 8
  store ptr %2, ptr %7, align 8
  store ptr %3, ptr %8, align 8
  %16 = load i64, ptr %5, align 8
  %17 = load ptr, ptr %7, align 8
  %18 = call i64 @width_of(i64 noundef %16, ptr noundef %17)
  store i64 %18, ptr %9, align 8
  store i64 0, ptr %10, align 8
  %19 = load i64, ptr %9, align 8
  %20 = call ptr @integers(i64 noundef %19)
  store ptr %20, ptr %11, align 8
  store i64 0, ptr %12, align 8
  br label %21

21:                                               ; preds = %29, %4
  %22 = load i64, ptr %12, align 8
  %23 = load i64, ptr %9, align 8
  %24 = icmp slt i64 %22, %23
  br i1 %24, label %25, label %32

25:                                               ; preds = %21
  %26 = load ptr, ptr %11, align 8
  %27 = load i64, ptr %12, align 8
  %28 = getelementptr inbounds i64, ptr %26, i64 %27
  store i64 -1, ptr %28, align 8
  br label %29

29:                                               ; preds = %25
  %30 = load i64, ptr %12, align 8
  %31 = add nsw i64 %30, 1
  store i64 %31, ptr %12, align 8
  br label %21

32:                                               ; preds = %21
  store i64 0, ptr %13, align 8
  br label %33

33:                                               ; preds = %73, %32
  %34 = load i64, ptr %13, align 8
  %35 = load i64, ptr %5, align 8
  %36 = icmp slt i64 %34, %35
  br i1 %36, label %37, label %76

37:                                               ; preds = %33
  %38 = load ptr, ptr %6, align 8
  %39 = load i64, ptr %13, align 8
  %40 = getelementptr inbounds i64, ptr %38, i64 %39
  %41 = load i64, ptr %40, align 8
  store i64 %41, ptr %14, align 8
  %42 = load ptr, ptr %11, align 8
  %43 = load ptr, ptr %7, align 8
  %44 = load i64, ptr %14, align 8
  %45 = getelementptr inbounds i64, ptr %43, i64 %44
  %46 = load i64, ptr %45, align 8
  %47 = getelementptr inbounds i64, ptr %42, i64 %46
  %48 = load i64, ptr %47, align 8
  store i64 %48, ptr %15, align 8
  %49 = load i64, ptr %14, align 8
  %50 = load ptr, ptr %11, align 8
  %51 = load ptr, ptr %7, align 8
  %52 = load i64, ptr %14, align 8
  %53 = getelementptr inbounds i64, ptr %51, i64 %52
  %54 = load i64, ptr %53, align 8
  %55 = getelementptr inbounds i64, ptr %50, i64 %54
  store i64 %49, ptr %55, align 8
  %56 = load i64, ptr %15, align 8
  %57 = icmp slt i64 %56, 0
  br i1 %57, label %58, label %59

58:                                               ; preds = %37
  br label %73

59:                                               ; preds = %37
  %60 = load i64, ptr %15, align 8
  %61 = load ptr, ptr %8, align 8
  %62 = load i64, ptr %10, align 8
  %63 = mul nsw i64 2, %62
  %64 = getelementptr inbounds i64, ptr %61, i64 %63
  store i64 %60, ptr %64, align 8
  %65 = load i64, ptr %14, align 8
  %66 = load ptr, ptr %8, align 8
  %67 = load i64, ptr %10, align 8
  %68 = mul nsw i64 2, %67
  %69 = add nsw i64 %68, 1
  %70 = getelementptr inbounds i64, ptr %66, i64 %69
  store i64 %65, ptr %70, align 8
  %71 = load i64, ptr %10, align 8
  %72 = add nsw i64 %71, 1
  store i64 %72, ptr %10, align 8
  br label %73

73:                                               ; preds = %59, %58
  %74 = load i64, ptr %13, align 8
  %75 = add nsw i64 %74, 1
  store i64 %75, ptr %13, align 8
  br label %33

76:                                               ; preds = %33
  %77 = load ptr, ptr %11, align 8
  call void @free(ptr noundef %77)
  %78 = load i64, ptr %10, align 8
  ret i64 %78
}

define internal ptr @integers(i64 noundef %0) {
  %2 = alloca i64, align 8
  store i64 %0, ptr %2, align 8
  %3 = load i64, ptr %2, align 8
  %4 = call ptr @allocate(i64 noundef %3, i64 noundef 8)
  ret ptr %4
}

define internal void @successors(i64 noundef %0, i64 noundef %1, ptr noundef %2, ptr noundef %3, ptr noundef %4) {
  %6 = alloca i64, align 8
  %7 = alloca i64, align 8
  %8 = alloca ptr, align 8
  %9 = alloca ptr, align 8
  %10 = alloca ptr, align 8
  %11 = alloca i64, align 8
  %12 = alloca i64, align 8
  %13 = alloca i64, align 8
  %14 = alloca ptr, align 8
  %15 = alloca i64, align 8
  store i64 %0, ptr %6, align 8
  store i64 %1, ptr %7, align 8
  store ptr %2, ptr %8, align 8
  store ptr %3, ptr %9, align 8
  store ptr %4, ptr %10, align 8
  store i64 0, ptr %11, align 8
  br label %16

16:                                               ; preds = %24, %5
  %17 = load i64, ptr %11, align 8
  %18 = load i64, ptr %6, align 8
  %19 = icmp sle i64 %17, %18
  br i1 %19, label %20, label %27

20:                                               ; preds = %16
  %21 = load ptr, ptr %9, align 8
  %22 = load i64, ptr %11, align 8
  %23 = getelementptr inbounds i64, ptr %21, i64 %22
  store i64 0, ptr %23, align 8
  br label %24

24:                                               ; preds = %20
  %25 = load i64, ptr %11, align 8
  %26 = add nsw i64 %25, 1
  store i64 %26, ptr %11, align 8
  br label %16

27:                                               ; preds = %16
  store i64 0, ptr %12, align 8
  br label %28

28:                                               ; preds = %43, %27
  %29 = load i64, ptr %12, align 8
  %30 = load i64, ptr %7, align 8
  %31 = icmp slt i64 %29, %30
  br i1 %31, label %32, label %46

32:                                               ; preds = %28
  %33 = load ptr, ptr %9, align 8
  %34 = load ptr, ptr %8, align 8
  %35 = load i64, ptr %12, align 8
  %36 = mul nsw i64 2, %35
  %37 = getelementptr inbounds i64, ptr %34, i64 %36
  %38 = load i64, ptr %37, align 8
  %39 = add nsw i64 %38, 1
  %40 = getelementptr inbounds i64, ptr %33, i64 %39
  %41 = load i64, ptr %40, align 8
  %42 = add nsw i64 %41, 1
  store i64 %42, ptr %40, align 8
  br label %43

43:                                               ; preds = %32
  %44 = load i64, ptr %12, align 8
  %45 = add nsw i64 %44, 1
  store i64 %45, ptr %12, align 8
  br label %28

46:                                               ; preds = %28
  store i64 0, ptr %13, align 8
  br label %47

47:                                               ; preds = %62, %46
  %48 = load i64, ptr %13, align 8
  %49 = load i64, ptr %6, align 8
  %50 = icmp slt i64 %48, %49
  br i1 %50, label %51, label %65

51:                                               ; preds = %47
  %52 = load ptr, ptr %9, align 8
  %53 = load i64, ptr %13, align 8
  %54 = getelementptr inbounds i64, ptr %52, i64 %53
  %55 = load i64, ptr %54, align 8
  %56 = load ptr, ptr %9, align 8
  %57 = load i64, ptr %13, align 8
  %58 = add nsw i64 %57, 1
  %59 = getelementptr inbounds i64, ptr %56, i64 %58
  %60 = load i64, ptr %59, align 8
  %61 = add nsw i64 %60, %55
  store i64 %61, ptr %59, align 8
  br label %62

62:                                               ; preds = %51
  %63 = load i64, ptr %13, align 8
  %64 = add nsw i64 %63, 1
  store i64 %64, ptr %13, align 8
  br label %47

65:                                               ; preds = %47
  %66 = load i64, ptr %6, align 8
  %67 = call ptr @integers(i64 noundef %66)
  store ptr %67, ptr %14, align 8
  %68 = load ptr, ptr %14, align 8
  %69 = load ptr, ptr %9, align 8
  %70 = load i64, ptr %6, align 8
  %71 = mul i64 %70, 8
  %72 = call ptr @memmove(ptr noundef %68, ptr noundef %69, i64 noundef %71)
  store i64 0, ptr %15, align 8
  br label %73

73:                                               ; preds = %95, %65
  %74 = load i64, ptr %15, align 8
  %75 = load i64, ptr %7, align 8
  %76 = icmp slt i64 %74, %75
  br i1 %76, label %77, label %98

77:                                               ; preds = %73
  %78 = load ptr, ptr %8, align 8
  %79 = load i64, ptr %15, align 8
  %80 = mul nsw i64 2, %79
  %81 = add nsw i64 %80, 1
  %82 = getelementptr inbounds i64, ptr %78, i64 %81
  %83 = load i64, ptr %82, align 8
  %84 = load ptr, ptr %10, align 8
  %85 = load ptr, ptr %14, align 8
  %86 = load ptr, ptr %8, align 8
  %87 = load i64, ptr %15, align 8
  %88 = mul nsw i64 2, %87
  %89 = getelementptr inbounds i64, ptr %86, i64 %88
  %90 = load i64, ptr %89, align 8
  %91 = getelementptr inbounds i64, ptr %85, i64 %90
  %92 = load i64, ptr %91, align 8
  %93 = add nsw i64 %92, 1
  store i64 %93, ptr %91, align 8
  %94 = getelementptr inbounds i64, ptr %84, i64 %92
  store i64 %83, ptr %94, align 8
  br label %95

95:                                               ; preds = %77
  %96 = load i64, ptr %15, align 8
  %97 = add nsw i64 %96, 1
  store i64 %97, ptr %15, align 8
  br label %73

98:                                               ; preds = %73
  %99 = load ptr, ptr %14, align 8
  call void @free(ptr noundef %99)
  ret void
}

define internal void @waits_of(ptr dead_on_unwind noalias writable sret(%struct.waits) align 8 %0, i64 noundef %1, ptr %2, ptr %3, ptr noundef %4, ptr noundef %5, double noundef %6, double noundef %7) {
  %9 = alloca %struct.lists, align 8
  %10 = alloca i64, align 8
  %11 = alloca ptr, align 8
  %12 = alloca ptr, align 8
  %13 = alloca double, align 8
  %14 = alloca double, align 8
  %15 = alloca i64, align 8
  %16 = alloca i64, align 8
  %17 = alloca i64, align 8
  %18 = alloca i64, align 8
  %19 = getelementptr inbounds { ptr, ptr }, ptr %9, i32 0, i32 0
  store ptr %2, ptr %19, align 8
  %20 = getelementptr inbounds { ptr, ptr }, ptr %9, i32 0, i32 1
  store ptr %3, ptr %20, align 8
  store i64 %1, ptr %10, align 8
  store ptr %4, ptr %11, align 8
  store ptr %5, ptr %12, align 8
  store double %6, ptr %13, align 8
  store double %7, ptr %14, align 8
  %21 = getelementptr inbounds %struct.waits, ptr %0, i32 0, i32 0
  %22 = load i64, ptr %10, align 8
  %23 = call ptr @integers(i64 noundef %22)
  store ptr %23, ptr %21, align 8
  %24 = getelementptr inbounds %struct.waits, ptr %0, i32 0, i32 1
  %25 = load i64, ptr %10, align 8
  %26 = call ptr @numbers(i64 noundef %25)
  store ptr %26, ptr %24, align 8
  %27 = getelementptr inbounds %struct.waits, ptr %0, i32 0, i32 2
  %28 = load i64, ptr %10, align 8
  %29 = call ptr @numbers(i64 noundef %28)
  store ptr %29, ptr %27, align 8
  store i64 0, ptr %15, align 8
  br label %30

30:                                               ; preds = %51, %8
  %31 = load i64, ptr %15, align 8
  %32 = load i64, ptr %10, align 8
  %33 = icmp slt i64 %31, %32
  br i1 %33, label %34, label %54

34:                                               ; preds = %30
  %35 = getelementptr inbounds %struct.waits, ptr %0, i32 0, i32 0
  %36 = load ptr, ptr %35, align 8
  %37 = load i64, ptr %15, align 8
  %38 = getelementptr inbounds i64, ptr %36, i64 %37
  store i64 0, ptr %38, align 8
  %39 = load ptr, ptr %12, align 8
  %40 = load i64, ptr %15, align 8
  %41 = getelementptr inbounds double, ptr %39, i64 %40
  %42 = load double, ptr %41, align 8
  %43 = getelementptr inbounds %struct.waits, ptr %0, i32 0, i32 1
  %44 = load ptr, ptr %43, align 8
  %45 = load i64, ptr %15, align 8
  %46 = getelementptr inbounds double, ptr %44, i64 %45
  store double %42, ptr %46, align 8
  %47 = getelementptr inbounds %struct.waits, ptr %0, i32 0, i32 2
  %48 = load ptr, ptr %47, align 8
  %49 = load i64, ptr %15, align 8
  %50 = getelementptr inbounds double, ptr %48, i64 %49
  store double 0.000000e+00, ptr %50, align 8
  br label %51

51:                                               ; preds = %34
  %52 = load i64, ptr %15, align 8
  %53 = add nsw i64 %52, 1
  store i64 %53, ptr %15, align 8
  br label %30

54:                                               ; preds = %30
  store i64 0, ptr %16, align 8
  br label %55

55:                                               ; preds = %114, %54
  %56 = load i64, ptr %16, align 8
  %57 = load i64, ptr %10, align 8
  %58 = icmp slt i64 %56, %57
  br i1 %58, label %59, label %117

59:                                               ; preds = %55
  %60 = getelementptr inbounds %struct.lists, ptr %9, i32 0, i32 0
  %61 = load ptr, ptr %60, align 8
  %62 = load i64, ptr %16, align 8
  %63 = getelementptr inbounds i64, ptr %61, i64 %62
  %64 = load i64, ptr %63, align 8
  store i64 %64, ptr %17, align 8
  br label %65

65:                                               ; preds = %110, %59
  %66 = load i64, ptr %17, align 8
  %67 = getelementptr inbounds %struct.lists, ptr %9, i32 0, i32 0
  %68 = load ptr, ptr %67, align 8
  %69 = load i64, ptr %16, align 8
  %70 = add nsw i64 %69, 1
  %71 = getelementptr inbounds i64, ptr %68, i64 %70
  %72 = load i64, ptr %71, align 8
  %73 = icmp slt i64 %66, %72
  br i1 %73, label %74, label %113

74:                                               ; preds = %65
  %75 = getelementptr inbounds %struct.waits, ptr %0, i32 0, i32 0
  %76 = load ptr, ptr %75, align 8
  %77 = getelementptr inbounds %struct.lists, ptr %9, i32 0, i32 1
  %78 = load ptr, ptr %77, align 8
  %79 = load i64, ptr %17, align 8
  %80 = getelementptr inbounds i64, ptr %78, i64 %79
  %81 = load i64, ptr %80, align 8
  %82 = getelementptr inbounds i64, ptr %76, i64 %81
  %83 = load i64, ptr %82, align 8
  %84 = add nsw i64 %83, 1
  store i64 %84, ptr %82, align 8
  %85 = load ptr, ptr %11, align 8
  %86 = getelementptr inbounds %struct.lists, ptr %9, i32 0, i32 1
  %87 = load ptr, ptr %86, align 8
  %88 = load i64, ptr %17, align 8
  %89 = getelementptr inbounds i64, ptr %87, i64 %88
  %90 = load i64, ptr %89, align 8
  %91 = getelementptr inbounds i64, ptr %85, i64 %90
  %92 = load i64, ptr %91, align 8
  %93 = load ptr, ptr %11, align 8
  %94 = load i64, ptr %16, align 8
  %95 = getelementptr inbounds i64, ptr %93, i64 %94
  %96 = load i64, ptr %95, align 8
  %97 = icmp ne i64 %92, %96
  %98 = zext i1 %97 to i32
  %99 = sitofp i32 %98 to double
  %100 = getelementptr inbounds %struct.waits, ptr %0, i32 0, i32 2
  %101 = load ptr, ptr %100, align 8
  %102 = getelementptr inbounds %struct.lists, ptr %9, i32 0, i32 1
  %103 = load ptr, ptr %102, align 8
  %104 = load i64, ptr %17, align 8
  %105 = getelementptr inbounds i64, ptr %103, i64 %104
  %106 = load i64, ptr %105, align 8
  %107 = getelementptr inbounds double, ptr %101, i64 %106
  %108 = load double, ptr %107, align 8
  %109 = fadd double %108, %99
  store double %109, ptr %107, align 8
  br label %110

110:                                              ; preds = %74
  %111 = load i64, ptr %17, align 8
  %112 = add nsw i64 %111, 1
  store i64 %112, ptr %17, align 8
  br label %65

113:                                              ; preds = %65
  br label %114

114:                                              ; preds = %113
  %115 = load i64, ptr %16, align 8
  %116 = add nsw i64 %115, 1
  store i64 %116, ptr %16, align 8
  br label %55

117:                                              ; preds = %55
  store i64 0, ptr %18, align 8
  br label %118

118:                                              ; preds = %136, %117
  %119 = load i64, ptr %18, align 8
  %120 = load i64, ptr %10, align 8
  %121 = icmp slt i64 %119, %120
  br i1 %121, label %122, label %139

122:                                              ; preds = %118
  %123 = load double, ptr %13, align 8
  %124 = load double, ptr %14, align 8
  %125 = getelementptr inbounds %struct.waits, ptr %0, i32 0, i32 2
  %126 = load ptr, ptr %125, align 8
  %127 = load i64, ptr %18, align 8
  %128 = getelementptr inbounds double, ptr %126, i64 %127
  %129 = load double, ptr %128, align 8
  %130 = fmul double %124, %129
  %131 = fadd double %123, %130
  %132 = getelementptr inbounds %struct.waits, ptr %0, i32 0, i32 2
  %133 = load ptr, ptr %132, align 8
  %134 = load i64, ptr %18, align 8
  %135 = getelementptr inbounds double, ptr %133, i64 %134
  store double %131, ptr %135, align 8
  br label %136

136:                                              ; preds = %122
  %137 = load i64, ptr %18, align 8
  %138 = add nsw i64 %137, 1
  store i64 %138, ptr %18, align 8
  br label %118

139:                                              ; preds = %118
  ret void
}

define internal ptr @numbers(i64 noundef %0) {
  %2 = alloca i64, align 8
  store i64 %0, ptr %2, align 8
  %3 = load i64, ptr %2, align 8
  %4 = call ptr @allocate(i64 noundef %3, i64 noundef 8)
  ret ptr %4
}

define internal void @push(ptr noundef %0, i64 noundef %1, double noundef %2) {
  %4 = alloca ptr, align 8
  %5 = alloca i64, align 8
  %6 = alloca double, align 8
  %7 = alloca i64, align 8
  store ptr %0, ptr %4, align 8
  store i64 %1, ptr %5, align 8
  store double %2, ptr %6, align 8
  %8 = load ptr, ptr %4, align 8
  %9 = getelementptr inbounds %struct.heap, ptr %8, i32 0, i32 0
  %10 = load i64, ptr %9, align 8
  %11 = add nsw i64 %10, 1
  store i64 %11, ptr %9, align 8
  store i64 %10, ptr %7, align 8
  %12 = load double, ptr %6, align 8
  %13 = load ptr, ptr %4, align 8
  %14 = getelementptr inbounds %struct.heap, ptr %13, i32 0, i32 3
  %15 = load ptr, ptr %14, align 8
  %16 = load i64, ptr %5, align 8
  %17 = getelementptr inbounds double, ptr %15, i64 %16
  store double %12, ptr %17, align 8
  br label %18

18:                                               ; preds = %36, %3
  %19 = load i64, ptr %7, align 8
  %20 = icmp ne i64 %19, 0
  br i1 %20, label %21, label %34

21:                                               ; preds = %18
  %22 = load ptr, ptr %4, align 8
  %23 = load i64, ptr %5, align 8
  %24 = load ptr, ptr %4, align 8
  %25 = getelementptr inbounds %struct.heap, ptr %24, i32 0, i32 1
  %26 = load ptr, ptr %25, align 8
  %27 = load i64, ptr %7, align 8
  %28 = sub nsw i64 %27, 1
  %29 = sdiv i64 %28, 2
  %30 = getelementptr inbounds i64, ptr %26, i64 %29
  %31 = load i64, ptr %30, align 8
  %32 = call i32 @starts_before(ptr noundef %22, i64 noundef %23, i64 noundef %31)
  %33 = icmp ne i32 %32, 0
  br label %34

34:                                               ; preds = %21, %18
  %35 = phi i1 [ false, %18 ], [ %33, %21 ]
  br i1 %35, label %36, label %53

36:                                               ; preds = %34
  %37 = load ptr, ptr %4, align 8
  %38 = getelementptr inbounds %struct.heap, ptr %37, i32 0, i32 1
  %39 = load ptr, ptr %38, align 8
  %40 = load i64, ptr %7, align 8
  %41 = sub nsw i64 %40, 1
  %42 = sdiv i64 %41, 2
  %43 = getelementptr inbounds i64, ptr %39, i64 %42
  %44 = load i64, ptr %43, align 8
  %45 = load ptr, ptr %4, align 8
  %46 = getelementptr inbounds %struct.heap, ptr %45, i32 0, i32 1
  %47 = load ptr, ptr %46, align 8
  %48 = load i64, ptr %7, align 8
  %49 = getelementptr inbounds i64, ptr %47, i64 %48
  store i64 %44, ptr %49, align 8
  %50 = load i64, ptr %7, align 8
  %51 = sub nsw i64 %50, 1
  %52 = sdiv i64 %51, 2
  store i64 %52, ptr %7, align 8
  br label %18

53:                                               ; preds = %34
  %54 = load i64, ptr %5, align 8
  %55 = load ptr, ptr %4, align 8
  %56 = getelementptr inbounds %struct.heap, ptr %55, i32 0, i32 1
  %57 = load ptr, ptr %56, align 8
  %58 = load i64, ptr %7, align 8
  %59 = getelementptr inbounds i64, ptr %57, i64 %58
  store i64 %54, ptr %59, align 8
  ret void
}

define internal void @run_events(ptr noundef %0, ptr %1, ptr %2, ptr noundef %3, ptr noundef %4, ptr noundef %5, ptr noundef %6, ptr noundef %7, ptr noundef %8) {
  %10 = alloca %struct.lists, align 8
  %11 = alloca ptr, align 8
  %12 = alloca ptr, align 8
  %13 = alloca ptr, align 8
  %14 = alloca ptr, align 8
  %15 = alloca ptr, align 8
  %16 = alloca ptr, align 8
  %17 = alloca ptr, align 8
  %18 = alloca double, align 8
  %19 = alloca double, align 8
  %20 = alloca double, align 8
  %21 = alloca i64, align 8
  %22 = alloca double, align 8
  %23 = alloca double, align 8
  %24 = alloca i64, align 8
  %25 = alloca i64, align 8
  %26 = alloca i64, align 8
  %27 = alloca i64, align 8
  %28 = alloca i64, align 8
  %29 = getelementptr inbounds { ptr, ptr }, ptr %10, i32 0, i32 0
  store ptr %1, ptr %29, align 8
  %30 = getelementptr inbounds { ptr, ptr }, ptr %10, i32 0, i32 1
  store ptr %2, ptr %30, align 8
  store ptr %0, ptr %11, align 8
  store ptr %3, ptr %12, align 8
  store ptr %4, ptr %13, align 8
  store ptr %5, ptr %14, align 8
  store ptr %6, ptr %15, align 8
  store ptr %7, ptr %16, align 8
  store ptr %8, ptr %17, align 8
  store double 0.000000e+00, ptr %18, align 8
  store double 0xFFF0000000000000, ptr %19, align 8
  br label %31

31:                                               ; preds = %197, %94, %9
  %32 = load ptr, ptr %14, align 8
  %33 = getelementptr inbounds %struct.heap, ptr %32, i32 0, i32 0
  %34 = load i64, ptr %33, align 8
  %35 = icmp ne i64 %34, 0
  br i1 %35, label %41, label %36

36:                                               ; preds = %31
  %37 = load ptr, ptr %15, align 8
  %38 = getelementptr inbounds %struct.running, ptr %37, i32 0, i32 0
  %39 = load i64, ptr %38, align 8
  %40 = icmp ne i64 %39, 0
  br label %41

41:                                               ; preds = %36, %31
  %42 = phi i1 [ true, %31 ], [ %40, %36 ]
  br i1 %42, label %43, label %198

43:                                               ; preds = %41
  %44 = load ptr, ptr %15, align 8
  %45 = load ptr, ptr %11, align 8
  call void @set_speeds(ptr noundef %44, ptr noundef %45)
  %46 = load ptr, ptr %15, align 8
  %47 = call i64 @next_end(ptr noundef %46, ptr noundef %20)
  store i64 %47, ptr %21, align 8
  %48 = load ptr, ptr %14, align 8
  %49 = load ptr, ptr %13, align 8
  %50 = load double, ptr %18, align 8
  %51 = load double, ptr %19, align 8
  %52 = call double @until_start(ptr noundef %48, ptr noundef %49, double noundef %50, double noundef %51)
  store double %52, ptr %22, align 8
  %53 = load double, ptr %20, align 8
  %54 = load double, ptr %22, align 8
  %55 = fcmp olt double %53, %54
  br i1 %55, label %56, label %58

56:                                               ; preds = %43
  %57 = load double, ptr %20, align 8
  br label %60

58:                                               ; preds = %43
  %59 = load double, ptr %22, align 8
  br label %60

60:                                               ; preds = %58, %56
  %61 = phi double [ %57, %56 ], [ %59, %58 ]
  store double %61, ptr %23, align 8
  store i64 0, ptr %24, align 8
  br label %62

62:                                               ; preds = %84, %60
  %63 = load i64, ptr %24, align 8
  %64 = load ptr, ptr %15, align 8
  %65 = getelementptr inbounds %struct.running, ptr %64, i32 0, i32 0
  %66 = load i64, ptr %65, align 8
  %67 = icmp slt i64 %63, %66
  br i1 %67, label %68, label %87

68:                                               ; preds = %62
  %69 = load double, ptr %23, align 8
  %70 = load ptr, ptr %15, align 8
  %71 = getelementptr inbounds %struct.running, ptr %70, i32 0, i32 2
  %72 = load ptr, ptr %71, align 8
  %73 = load i64, ptr %24, align 8
  %74 = getelementptr inbounds double, ptr %72, i64 %73
  %75 = load double, ptr %74, align 8
  %76 = fmul double %69, %75
  %77 = load ptr, ptr %15, align 8
  %78 = getelementptr inbounds %struct.running, ptr %77, i32 0, i32 3
  %79 = load ptr, ptr %78, align 8
  %80 = load i64, ptr %24, align 8
  %81 = getelementptr inbounds double, ptr %79, i64 %80
  %82 = load double, ptr %81, align 8
  %83 = fsub double %82, %76
  store double %83, ptr %81, align 8
  br label %84

84:                                               ; preds = %68
  %85 = load i64, ptr %24, align 8
  %86 = add nsw i64 %85, 1
  store i64 %86, ptr %24, align 8
  br label %62

87:                                               ; preds = %62
  %88 = load double, ptr %23, align 8
  %89 = load double, ptr %18, align 8
  %90 = fadd double %89, %88
  store double %90, ptr %18, align 8
  %91 = load double, ptr %22, align 8
  %92 = load double, ptr %20, align 8
  %93 = fcmp olt double %91, %92
  br i1 %93, label %94, label %123

94:                                               ; preds = %87
  %95 = load ptr, ptr %14, align 8
  %96 = call i64 @pop(ptr noundef %95)
  store i64 %96, ptr %25, align 8
  %97 = load double, ptr %18, align 8
  store double %97, ptr %19, align 8
  %98 = load ptr, ptr %16, align 8
  %99 = load i64, ptr %25, align 8
  %100 = getelementptr inbounds double, ptr %98, i64 %99
  store double %97, ptr %100, align 8
  %101 = load ptr, ptr %11, align 8
  %102 = getelementptr inbounds %struct.workload, ptr %101, i32 0, i32 1
  %103 = load ptr, ptr %102, align 8
  %104 = load i64, ptr %25, align 8
  %105 = getelementptr inbounds double, ptr %103, i64 %104
  %106 = load double, ptr %105, align 8
  %107 = load ptr, ptr %15, align 8
  %108 = getelementptr inbounds %struct.running, ptr %107, i32 0, i32 3
  %109 = load ptr, ptr %108, align 8
  %110 = load ptr, ptr %15, align 8
  %111 = getelementptr inbounds %struct.running, ptr %110, i32 0, i32 0
  %112 = load i64, ptr %111, align 8
  %113 = getelementptr inbounds double, ptr %109, i64 %112
  store double %106, ptr %113, align 8
  %114 = load i64, ptr %25, align 8
  %115 = load ptr, ptr %15, align 8
  %116 = getelementptr inbounds %struct.running, ptr %115, i32 0, i32 1
  %117 = load ptr, ptr %116, align 8
  %118 = load ptr, ptr %15, align 8
  %119 = getelementptr inbounds %struct.running, ptr %118, i32 0, i32 0
  %120 = load i64, ptr %119, align 8
  %121 = add nsw i64 %120, 1
  store i64 %121, ptr %119, align 8
  %122 = getelementptr inbounds i64, ptr %117, i64 %120
  store i64 %114, ptr %122, align 8
  br label %31

123:                                              ; preds = %87
  %124 = load i64, ptr %21, align 8
  %125 = icmp slt i64 %124, 0
  br i1 %125, label %126, label %127

126:                                              ; preds = %123
  br label %198

127:                                              ; preds = %123
  %128 = load ptr, ptr %15, align 8
  %129 = load i64, ptr %21, align 8
  %130 = call i64 @take(ptr noundef %128, i64 noundef %129)
  store i64 %130, ptr %26, align 8
  %131 = load double, ptr %18, align 8
  %132 = load ptr, ptr %17, align 8
  %133 = load i64, ptr %26, align 8
  %134 = getelementptr inbounds double, ptr %132, i64 %133
  store double %131, ptr %134, align 8
  %135 = getelementptr inbounds %struct.lists, ptr %10, i32 0, i32 0
  %136 = load ptr, ptr %135, align 8
  %137 = load i64, ptr %26, align 8
  %138 = getelementptr inbounds i64, ptr %136, i64 %137
  %139 = load i64, ptr %138, align 8
  store i64 %139, ptr %27, align 8
  br label %140

140:                                              ; preds = %194, %127
  %141 = load i64, ptr %27, align 8
  %142 = getelementptr inbounds %struct.lists, ptr %10, i32 0, i32 0
  %143 = load ptr, ptr %142, align 8
  %144 = load i64, ptr %26, align 8
  %145 = add nsw i64 %144, 1
  %146 = getelementptr inbounds i64, ptr %143, i64 %145
  %147 = load i64, ptr %146, align 8
  %148 = icmp slt i64 %141, %147
  br i1 %148, label %149, label %197

149:                                              ; preds = %140
  %150 = getelementptr inbounds %struct.lists, ptr %10, i32 0, i32 1
  %151 = load ptr, ptr %150, align 8
  %152 = load i64, ptr %27, align 8
  %153 = getelementptr inbounds i64, ptr %151, i64 %152
  %154 = load i64, ptr %153, align 8
  store i64 %154, ptr %28, align 8
  %155 = load double, ptr %18, align 8
  %156 = load ptr, ptr %13, align 8
  %157 = getelementptr inbounds %struct.waits, ptr %156, i32 0, i32 1
  %158 = load ptr, ptr %157, align 8
  %159 = load i64, ptr %28, align 8
  %160 = getelementptr inbounds double, ptr %158, i64 %159
  %161 = load double, ptr %160, align 8
  %162 = fcmp ogt double %155, %161
  br i1 %162, label %163, label %170

163:                                              ; preds = %149
  %164 = load double, ptr %18, align 8
  %165 = load ptr, ptr %13, align 8
  %166 = getelementptr inbounds %struct.waits, ptr %165, i32 0, i32 1
  %167 = load ptr, ptr %166, align 8
  %168 = load i64, ptr %28, align 8
  %169 = getelementptr inbounds double, ptr %167, i64 %168
  store double %164, ptr %169, align 8
  br label %170

170:                                              ; preds = %163, %149
  %171 = load ptr, ptr %13, align 8
  %172 = getelementptr inbounds %struct.waits, ptr %171, i32 0, i32 0
  %173 = load ptr, ptr %172, align 8
  %174 = load i64, ptr %28, align 8
  %175 = getelementptr inbounds i64, ptr %173, i64 %174
  %176 = load i64, ptr %175, align 8
  %177 = add nsw i64 %176, -1
  store i64 %177, ptr %175, align 8
  %178 = icmp eq i64 %177, 0
  br i1 %178, label %179, label %193

179:                                              ; preds = %170
  %180 = load ptr, ptr %14, align 8
  %181 = load i64, ptr %28, align 8
  %182 = load ptr, ptr %13, align 8
  %183 = getelementptr inbounds %struct.waits, ptr %182, i32 0, i32 1
  %184 = load ptr, ptr %183, align 8
  %185 = load i64, ptr %28, align 8
  %186 = getelementptr inbounds double, ptr %184, i64 %185
  %187 = load double, ptr %186, align 8
  %188 = load ptr, ptr %12, align 8
  %189 = load i64, ptr %28, align 8
  %190 = getelementptr inbounds double, ptr %188, i64 %189
  %191 = load double, ptr %190, align 8
  %192 = fadd double %187, %191
  call void @push(ptr noundef %180, i64 noundef %181, double noundef %192)
  br label %193

193:                                              ; preds = %179, %170
  br label %194

194:                                              ; preds = %193
  %195 = load i64, ptr %27, align 8
  %196 = add nsw i64 %195, 1
  store i64 %196, ptr %27, align 8
  br label %140

197:                                              ; preds = %140
  br label %31

198:                                              ; preds = %126, %41
  ret void
}

declare void @free(ptr noundef)

define i64 @kept_edges(i64 noundef %0, ptr noundef %1, ptr noundef %2, ptr noundef %3) {
  %5 = alloca i64, align 8
  %6 = alloca ptr, align 8
  %7 = alloca ptr, align 8
  %8 = alloca ptr, align 8
  %9 = alloca i64, align 8
  %10 = alloca i64, align 8
  %11 = alloca %struct.partitions, align 8
  %12 = alloca ptr, align 8
  %13 = alloca ptr, align 8
  %14 = alloca ptr, align 8
  %15 = alloca ptr, align 8
  %16 = alloca i64, align 8
  %17 = alloca i64, align 8
  %18 = alloca i64, align 8
  %19 = alloca ptr, align 8
  %20 = alloca i64, align 8
  %21 = alloca i64, align 8
  %22 = alloca i64, align 8
  %23 = alloca i64, align 8
  %24 = alloca ptr, align 8
  %25 = alloca i64, align 8
  store i64 %0, ptr %5, align 8
  store ptr %1, ptr %6, align 8
  store ptr %2, ptr %7, align 8
  store ptr %3, ptr %8, align 8
  %26 = load i64, ptr %5, align 8
  %27 = load ptr, ptr %6, align 8
  %28 = getelementptr inbounds %struct.state, ptr %27, i32 0, i32 1
  %29 = load ptr, ptr %28, align 8
  %30 = call i64 @width_of(i64 noundef %26, ptr noundef %29)
  store i64 %30, ptr %9, align 8
  store i64 0, ptr %10, align 8
  %31 = load i64, ptr %5, align 8
  %32 = load ptr, ptr %6, align 8
  call void @partitions_of(ptr dead_on_unwind writable sret(%struct.partitions) align 8 %11, i64 noundef %31, ptr noundef %32)
  %33 = load i64, ptr %9, align 8
  %34 = call ptr @integers(i64 noundef %33)
  store ptr %34, ptr %12, align 8
  %35 = load ptr, ptr %7, align 8
  %36 = getelementptr inbounds %struct.lists, ptr %35, i32 0, i32 0
  %37 = load ptr, ptr %36, align 8
  %38 = load i64, ptr %5, align 8
  %39 = getelementptr inbounds i64, ptr %37, i64 %38
  %40 = load i64, ptr %39, align 8
  %41 = call ptr @integers(i64 noundef %40)
  store ptr %41, ptr %13, align 8
  %42 = load i64, ptr %5, align 8
  %43 = load i64, ptr %9, align 8
  %44 = mul nsw i64 %42, %43
  %45 = call ptr @allocate(i64 noundef %44, i64 noundef 4)
  store ptr %45, ptr %14, align 8
  %46 = load i64, ptr %5, align 8
  %47 = call ptr @allocate(i64 noundef %46, i64 noundef 4)
  store ptr %47, ptr %15, align 8
  store i64 0, ptr %16, align 8
  br label %48

48:                                               ; preds = %56, %4
  %49 = load i64, ptr %16, align 8
  %50 = load i64, ptr %9, align 8
  %51 = icmp slt i64 %49, %50
  br i1 %51, label %52, label %59

52:                                               ; preds = %48
  %53 = load ptr, ptr %12, align 8
  %54 = load i64, ptr %16, align 8
  %55 = getelementptr inbounds i64, ptr %53, i64 %54
  store i64 -1, ptr %55, align 8
  br label %56

56:                                               ; preds = %52
  %57 = load i64, ptr %16, align 8
  %58 = add nsw i64 %57, 1
  store i64 %58, ptr %16, align 8
  br label %48

59:                                               ; preds = %48
  store i64 0, ptr %17, align 8
  br label %60

60:                                               ; preds = %238, %59
  %61 = load i64, ptr %17, align 8
  %62 = load i64, ptr %5, align 8
  %63 = icmp slt i64 %61, %62
  br i1 %63, label %64, label %241

64:                                               ; preds = %60
  %65 = load ptr, ptr %6, align 8
  %66 = getelementptr inbounds %struct.state, ptr %65, i32 0, i32 1
  %67 = load ptr, ptr %66, align 8
  %68 = load ptr, ptr %6, align 8
  %69 = getelementptr inbounds %struct.state, ptr %68, i32 0, i32 0
  %70 = load ptr, ptr %69, align 8
  %71 = load i64, ptr %17, align 8
  %72 = getelementptr inbounds i64, ptr %70, i64 %71
  %73 = load i64, ptr %72, align 8
  %74 = getelementptr inbounds i64, ptr %67, i64 %73
  %75 = load i64, ptr %74, align 8
  store i64 %75, ptr %18, align 8
  %76 = load ptr, ptr %14, align 8
  %77 = load i64, ptr %17, align 8
  %78 = load i64, ptr %9, align 8
  %79 = mul nsw i64 %77, %78
  %80 = getelementptr inbounds i32, ptr %76, i64 %79
  store ptr %80, ptr %19, align 8
  store i64 0, ptr %20, align 8
  br label %81

81:                                               ; preds = %109, %64
  %82 = load i64, ptr %20, align 8
  %83 = load i64, ptr %9, align 8
  %84 = icmp slt i64 %82, %83
  br i1 %84, label %85, label %112

85:                                               ; preds = %81
  %86 = load ptr, ptr %12, align 8
  %87 = load i64, ptr %18, align 8
  %88 = getelementptr inbounds i64, ptr %86, i64 %87
  %89 = load i64, ptr %88, align 8
  %90 = icmp slt i64 %89, 0
  br i1 %90, label %91, label %92

91:                                               ; preds = %85
  br label %104

92:                                               ; preds = %85
  %93 = load ptr, ptr %14, align 8
  %94 = load ptr, ptr %12, align 8
  %95 = load i64, ptr %18, align 8
  %96 = getelementptr inbounds i64, ptr %94, i64 %95
  %97 = load i64, ptr %96, align 8
  %98 = load i64, ptr %9, align 8
  %99 = mul nsw i64 %97, %98
  %100 = load i64, ptr %20, align 8
  %101 = add nsw i64 %99, %100
  %102 = getelementptr inbounds i32, ptr %93, i64 %101
  %103 = load i32, ptr %102, align 4
  br label %104

104:                                              ; preds = %92, %91
  %105 = phi i32 [ 0, %91 ], [ %103, %92 ]
  %106 = load ptr, ptr %19, align 8
  %107 = load i64, ptr %20, align 8
  %108 = getelementptr inbounds i32, ptr %106, i64 %107
  store i32 %105, ptr %108, align 4
  br label %109

109:                                              ; preds = %104
  %110 = load i64, ptr %20, align 8
  %111 = add nsw i64 %110, 1
  store i64 %111, ptr %20, align 8
  br label %81

112:                                              ; preds = %81
  %113 = load ptr, ptr %6, align 8
  %114 = getelementptr inbounds %struct.state, ptr %113, i32 0, i32 2
  %115 = load ptr, ptr %114, align 8
  %116 = load i64, ptr %17, align 8
  %117 = getelementptr inbounds i8, ptr %115, i64 %116
  %118 = load i8, ptr %117, align 1
  %119 = zext i8 %118 to i32
  %120 = icmp ne i32 %119, 0
  br i1 %120, label %121, label %122

121:                                              ; preds = %112
  br label %134

122:                                              ; preds = %112
  %123 = load i64, ptr %17, align 8
  %124 = load ptr, ptr %6, align 8
  %125 = getelementptr inbounds %struct.state, ptr %124, i32 0, i32 0
  %126 = load ptr, ptr %125, align 8
  %127 = load ptr, ptr %7, align 8
  %128 = load ptr, ptr %13, align 8
  %129 = getelementptr inbounds { ptr, ptr }, ptr %127, i32 0, i32 0
  %130 = load ptr, ptr %129, align 8
  %131 = getelementptr inbounds { ptr, ptr }, ptr %127, i32 0, i32 1
  %132 = load ptr, ptr %131, align 8
  %133 = call i64 @awaited_places(i64 noundef %123, ptr noundef %126, ptr noundef %11, ptr %130, ptr %132, ptr noundef %128)
  br label %134

134:                                              ; preds = %122, %121
  %135 = phi i64 [ 0, %121 ], [ %133, %122 ]
  store i64 %135, ptr %21, align 8
  store i64 0, ptr %22, align 8
  br label %136

136:                                              ; preds = %222, %134
  %137 = load i64, ptr %22, align 8
  %138 = load i64, ptr %21, align 8
  %139 = icmp slt i64 %137, %138
  br i1 %139, label %140, label %225

140:                                              ; preds = %136
  %141 = load ptr, ptr %6, align 8
  %142 = getelementptr inbounds %struct.state, ptr %141, i32 0, i32 0
  %143 = load ptr, ptr %142, align 8
  %144 = load ptr, ptr %13, align 8
  %145 = load i64, ptr %22, align 8
  %146 = getelementptr inbounds i64, ptr %144, i64 %145
  %147 = load i64, ptr %146, align 8
  %148 = getelementptr inbounds i64, ptr %143, i64 %147
  %149 = load i64, ptr %148, align 8
  store i64 %149, ptr %23, align 8
  %150 = load ptr, ptr %19, align 8
  %151 = load ptr, ptr %6, align 8
  %152 = getelementptr inbounds %struct.state, ptr %151, i32 0, i32 1
  %153 = load ptr, ptr %152, align 8
  %154 = load i64, ptr %23, align 8
  %155 = getelementptr inbounds i64, ptr %153, i64 %154
  %156 = load i64, ptr %155, align 8
  %157 = getelementptr inbounds i32, ptr %150, i64 %156
  %158 = load i32, ptr %157, align 4
  %159 = load ptr, ptr %15, align 8
  %160 = load ptr, ptr %13, align 8
  %161 = load i64, ptr %22, align 8
  %162 = getelementptr inbounds i64, ptr %160, i64 %161
  %163 = load i64, ptr %162, align 8
  %164 = getelementptr inbounds i32, ptr %159, i64 %163
  %165 = load i32, ptr %164, align 4
  %166 = icmp sge i32 %158, %165
  br i1 %166, label %167, label %168

167:                                              ; preds = %140
  br label %222

168:                                              ; preds = %140
  %169 = load i64, ptr %23, align 8
  %170 = load ptr, ptr %8, align 8
  %171 = load i64, ptr %10, align 8
  %172 = mul nsw i64 2, %171
  %173 = getelementptr inbounds i64, ptr %170, i64 %172
  store i64 %169, ptr %173, align 8
  %174 = load ptr, ptr %6, align 8
  %175 = getelementptr inbounds %struct.state, ptr %174, i32 0, i32 0
  %176 = load ptr, ptr %175, align 8
  %177 = load i64, ptr %17, align 8
  %178 = getelementptr inbounds i64, ptr %176, i64 %177
  %179 = load i64, ptr %178, align 8
  %180 = load ptr, ptr %8, align 8
  %181 = load i64, ptr %10, align 8
  %182 = mul nsw i64 2, %181
  %183 = add nsw i64 %182, 1
  %184 = getelementptr inbounds i64, ptr %180, i64 %183
  store i64 %179, ptr %184, align 8
  %185 = load i64, ptr %10, align 8
  %186 = add nsw i64 %185, 1
  store i64 %186, ptr %10, align 8
  %187 = load ptr, ptr %14, align 8
  %188 = load ptr, ptr %13, align 8
  %189 = load i64, ptr %22, align 8
  %190 = getelementptr inbounds i64, ptr %188, i64 %189
  %191 = load i64, ptr %190, align 8
  %192 = load i64, ptr %9, align 8
  %193 = mul nsw i64 %191, %192
  %194 = getelementptr inbounds i32, ptr %187, i64 %193
  store ptr %194, ptr %24, align 8
  store i64 0, ptr %25, align 8
  br label %195

195:                                              ; preds = %218, %168
  %196 = load i64, ptr %25, align 8
  %197 = load i64, ptr %9, align 8
  %198 = icmp slt i64 %196, %197
  br i1 %198, label %199, label %221

199:                                              ; preds = %195
  %200 = load ptr, ptr %24, align 8
  %201 = load i64, ptr %25, align 8
  %202 = getelementptr inbounds i32, ptr %200, i64 %201
  %203 = load i32, ptr %202, align 4
  %204 = load ptr, ptr %19, align 8
  %205 = load i64, ptr %25, align 8
  %206 = getelementptr inbounds i32, ptr %204, i64 %205
  %207 = load i32, ptr %206, align 4
  %208 = icmp sgt i32 %203, %207
  br i1 %208, label %209, label %217

209:                                              ; preds = %199
  %210 = load ptr, ptr %24, align 8
  %211 = load i64, ptr %25, align 8
  %212 = getelementptr inbounds i32, ptr %210, i64 %211
  %213 = load i32, ptr %212, align 4
  %214 = load ptr, ptr %19, align 8
  %215 = load i64, ptr %25, align 8
  %216 = getelementptr inbounds i32, ptr %214, i64 %215
  store i32 %213, ptr %216, align 4
  br label %217

217:                                              ; preds = %209, %199
  br label %218

218:                                              ; preds = %217
  %219 = load i64, ptr %25, align 8
  %220 = add nsw i64 %219, 1
  store i64 %220, ptr %25, align 8
  br label %195

221:                                              ; preds = %195
  br label %222

222:                                              ; preds = %221, %167
  %223 = load i64, ptr %22, align 8
  %224 = add nsw i64 %223, 1
  store i64 %224, ptr %22, align 8
  br label %136

225:                                              ; preds = %136
  %226 = load ptr, ptr %19, align 8
  %227 = load i64, ptr %18, align 8
  %228 = getelementptr inbounds i32, ptr %226, i64 %227
  %229 = load i32, ptr %228, align 4
  %230 = add nsw i32 %229, 1
  store i32 %230, ptr %228, align 4
  %231 = load ptr, ptr %15, align 8
  %232 = load i64, ptr %17, align 8
  %233 = getelementptr inbounds i32, ptr %231, i64 %232
  store i32 %230, ptr %233, align 4
  %234 = load i64, ptr %17, align 8
  %235 = load ptr, ptr %12, align 8
  %236 = load i64, ptr %18, align 8
  %237 = getelementptr inbounds i64, ptr %235, i64 %236
  store i64 %234, ptr %237, align 8
  br label %238

238:                                              ; preds = %225
  %239 = load i64, ptr %17, align 8
  %240 = add nsw i64 %239, 1
  store i64 %240, ptr %17, align 8
  br label %60

241:                                              ; preds = %60
  call void @free_partitions(ptr noundef %11)
  %242 = load ptr, ptr %12, align 8
  call void @free(ptr noundef %242)
  %243 = load ptr, ptr %13, align 8
  call void @free(ptr noundef %243)
  %244 = load ptr, ptr %14, align 8
  call void @free(ptr noundef %244)
  %245 = load ptr, ptr %15, align 8
  call void @free(ptr noundef %245)
  %246 = load i64, ptr %10, align 8
  ret i64 %246
}

define internal i64 @width_of(i64 noundef %0, ptr noundef %1) {
  %3 = alloca i64, align 8
  %4 = alloca ptr, align 8
  %5 = alloca i64, align 8
  %6 = alloca i64, align 8
  store i64 %0, ptr %3, align 8
  store ptr %1, ptr %4, align 8
  store i64 -1, ptr %5, align 8
  store i64 0, ptr %6, align 8
  br label %7

7:                                                ; preds = %18, %2
  %8 = load i64, ptr %6, align 8
  %9 = load i64, ptr %3, align 8
  %10 = icmp slt i64 %8, %9
  br i1 %10, label %11, label %21

11:                                               ; preds = %7
  %12 = load i64, ptr %5, align 8
  %13 = load ptr, ptr %4, align 8
  %14 = load i64, ptr %6, align 8
  %15 = getelementptr inbounds i64, ptr %13, i64 %14
  %16 = load i64, ptr %15, align 8
  %17 = call i64 @larger(i64 noundef %12, i64 noundef %16)
  store i64 %17, ptr %5, align 8
  br label %18

18:                                               ; preds = %11
  %19 = load i64, ptr %6, align 8
  %20 = add nsw i64 %19, 1
  store i64 %20, ptr %6, align 8
  br label %7

21:                                               ; preds = %7
  %22 = load i64, ptr %5, align 8
  %23 = add nsw i64 %22, 1
  ret i64 %23
}

define internal void @partitions_of(ptr dead_on_unwind noalias writable sret(%struct.partitions) align 8 %0, i64 noundef %1, ptr noundef %2) {
  %4 = alloca i64, align 8
  %5 = alloca ptr, align 8
  %6 = alloca i64, align 8
  store i64 %1, ptr %4, align 8
  store ptr %2, ptr %5, align 8
  %7 = getelementptr inbounds %struct.partitions, ptr %0, i32 0, i32 0
  %8 = load i64, ptr %4, align 8
  %9 = call ptr @integers(i64 noundef %8)
  store ptr %9, ptr %7, align 8
  %10 = getelementptr inbounds %struct.partitions, ptr %0, i32 0, i32 1
  %11 = load i64, ptr %4, align 8
  %12 = call ptr @integers(i64 noundef %11)
  store ptr %12, ptr %10, align 8
  %13 = getelementptr inbounds %struct.partitions, ptr %0, i32 0, i32 2
  %14 = load i64, ptr %4, align 8
  %15 = call ptr @integers(i64 noundef %14)
  store ptr %15, ptr %13, align 8
  store i64 0, ptr %6, align 8
  br label %16

16:                                               ; preds = %31, %3
  %17 = load i64, ptr %6, align 8
  %18 = load i64, ptr %4, align 8
  %19 = icmp slt i64 %17, %18
  br i1 %19, label %20, label %34

20:                                               ; preds = %16
  %21 = load i64, ptr %6, align 8
  %22 = getelementptr inbounds %struct.partitions, ptr %0, i32 0, i32 0
  %23 = load ptr, ptr %22, align 8
  %24 = load ptr, ptr %5, align 8
  %25 = getelementptr inbounds %struct.state, ptr %24, i32 0, i32 0
  %26 = load ptr, ptr %25, align 8
  %27 = load i64, ptr %6, align 8
  %28 = getelementptr inbounds i64, ptr %26, i64 %27
  %29 = load i64, ptr %28, align 8
  %30 = getelementptr inbounds i64, ptr %23, i64 %29
  store i64 %21, ptr %30, align 8
  br label %31

31:                                               ; preds = %20
  %32 = load i64, ptr %6, align 8
  %33 = add nsw i64 %32, 1
  store i64 %33, ptr %6, align 8
  br label %16

34:                                               ; preds = %16
  %35 = load i64, ptr %4, align 8
  %36 = load ptr, ptr %5, align 8
  %37 = getelementptr inbounds %struct.state, ptr %36, i32 0, i32 2
  %38 = load ptr, ptr %37, align 8
  %39 = getelementptr inbounds %struct.partitions, ptr %0, i32 0, i32 1
  %40 = load ptr, ptr %39, align 8
  %41 = getelementptr inbounds %struct.partitions, ptr %0, i32 0, i32 2
  %42 = load ptr, ptr %41, align 8
  call void @partition_ends(i64 noundef %35, ptr noundef %38, ptr noundef %40, ptr noundef %42)
  ret void
}

define internal ptr @allocate(i64 noundef %0, i64 noundef %1) {
  %3 = alloca i64, align 8
  %4 = alloca i64, align 8
  %5 = alloca ptr, align 8
  store i64 %0, ptr %3, align 8
  store i64 %1, ptr %4, align 8
  %6 = load i64, ptr %3, align 8
  %7 = icmp sgt i64 %6, 0
  br i1 %7, label %8, label %10

8:                                                ; preds = %2
  %9 = load i64, ptr %3, align 8
  br label %11

10:                                               ; preds = %2
  br label %11

11:                                               ; preds = %10, %8
  %12 = phi i64 [ %9, %8 ], [ 1, %10 ]
  %13 = load i64, ptr %4, align 8
  %14 = mul i64 %12, %13
  %15 = call ptr @malloc(i64 noundef %14)
  store ptr %15, ptr %5, align 8
  %16 = load ptr, ptr %5, align 8
  %17 = icmp ne ptr %16, null
  br i1 %17, label %19, label %18

18:                                               ; preds = %11
  call void @abort()
  unreachable

19:                                               ; preds = %11
  %20 = load ptr, ptr %5, align 8
  ret ptr %20
}

define internal i64 @awaited_places(i64 noundef %0, ptr noundef %1, ptr noundef %2, ptr %3, ptr %4, ptr noundef %5) {
  %7 = alloca %struct.lists, align 8
  %8 = alloca i64, align 8
  %9 = alloca ptr, align 8
  %10 = alloca ptr, align 8
  %11 = alloca ptr, align 8
  %12 = alloca i64, align 8
  %13 = alloca i64, align 8
  %14 = alloca i64, align 8
  %15 = alloca i64, align 8
  %16 = getelementptr inbounds { ptr, ptr }, ptr %7, i32 0, i32 0
  store ptr %3, ptr %16, align 8
  %17 = getelementptr inbounds { ptr, ptr }, ptr %7, i32 0, i32 1
  store ptr %4, ptr %17, align 8
  store i64 %0, ptr %8, align 8
  store ptr %1, ptr %9, align 8
  store ptr %2, ptr %10, align 8
  store ptr %5, ptr %11, align 8
  store i64 0, ptr %12, align 8
  %18 = load i64, ptr %8, align 8
  store i64 %18, ptr %13, align 8
  br label %19

19:                                               ; preds = %84, %6
  %20 = load i64, ptr %13, align 8
  %21 = load ptr, ptr %10, align 8
  %22 = getelementptr inbounds %struct.partitions, ptr %21, i32 0, i32 2
  %23 = load ptr, ptr %22, align 8
  %24 = load i64, ptr %8, align 8
  %25 = getelementptr inbounds i64, ptr %23, i64 %24
  %26 = load i64, ptr %25, align 8
  %27 = icmp sle i64 %20, %26
  br i1 %27, label %28, label %87

28:                                               ; preds = %19
  %29 = getelementptr inbounds %struct.lists, ptr %7, i32 0, i32 0
  %30 = load ptr, ptr %29, align 8
  %31 = load ptr, ptr %9, align 8
  %32 = load i64, ptr %13, align 8
  %33 = getelementptr inbounds i64, ptr %31, i64 %32
  %34 = load i64, ptr %33, align 8
  %35 = getelementptr inbounds i64, ptr %30, i64 %34
  %36 = load i64, ptr %35, align 8
  store i64 %36, ptr %14, align 8
  br label %37

37:                                               ; preds = %80, %28
  %38 = load i64, ptr %14, align 8
  %39 = getelementptr inbounds %struct.lists, ptr %7, i32 0, i32 0
  %40 = load ptr, ptr %39, align 8
  %41 = load ptr, ptr %9, align 8
  %42 = load i64, ptr %13, align 8
  %43 = getelementptr inbounds i64, ptr %41, i64 %42
  %44 = load i64, ptr %43, align 8
  %45 = add nsw i64 %44, 1
  %46 = getelementptr inbounds i64, ptr %40, i64 %45
  %47 = load i64, ptr %46, align 8
  %48 = icmp slt i64 %38, %47
  br i1 %48, label %49, label %83

49:                                               ; preds = %37
  %50 = load ptr, ptr %10, align 8
  %51 = getelementptr inbounds %struct.partitions, ptr %50, i32 0, i32 0
  %52 = load ptr, ptr %51, align 8
  %53 = getelementptr inbounds %struct.lists, ptr %7, i32 0, i32 1
  %54 = load ptr, ptr %53, align 8
  %55 = load i64, ptr %14, align 8
  %56 = getelementptr inbounds i64, ptr %54, i64 %55
  %57 = load i64, ptr %56, align 8
  %58 = getelementptr inbounds i64, ptr %52, i64 %57
  %59 = load i64, ptr %58, align 8
  store i64 %59, ptr %15, align 8
  %60 = load ptr, ptr %10, align 8
  %61 = getelementptr inbounds %struct.partitions, ptr %60, i32 0, i32 1
  %62 = load ptr, ptr %61, align 8
  %63 = load i64, ptr %15, align 8
  %64 = getelementptr inbounds i64, ptr %62, i64 %63
  %65 = load i64, ptr %64, align 8
  %66 = load i64, ptr %8, align 8
  %67 = icmp ne i64 %65, %66
  br i1 %67, label %68, label %79

68:                                               ; preds = %49
  %69 = load ptr, ptr %10, align 8
  %70 = getelementptr inbounds %struct.partitions, ptr %69, i32 0, i32 2
  %71 = load ptr, ptr %70, align 8
  %72 = load i64, ptr %15, align 8
  %73 = getelementptr inbounds i64, ptr %71, i64 %72
  %74 = load i64, ptr %73, align 8
  %75 = load ptr, ptr %11, align 8
  %76 = load i64, ptr %12, align 8
  %77 = add nsw i64 %76, 1
  store i64 %77, ptr %12, align 8
  %78 = getelementptr inbounds i64, ptr %75, i64 %76
  store i64 %74, ptr %78, align 8
  br label %79

79:                                               ; preds = %68, %49
  br label %80

80:                                               ; preds = %79
  %81 = load i64, ptr %14, align 8
  %82 = add nsw i64 %81, 1
  store i64 %82, ptr %14, align 8
  br label %37

83:                                               ; preds = %37
  br label %84

84:                                               ; preds = %83
  %85 = load i64, ptr %13, align 8
  %86 = add nsw i64 %85, 1
  store i64 %86, ptr %13, align 8
  br label %19

87:                                               ; preds = %19
  %88 = load ptr, ptr %11, align 8
  %89 = load i64, ptr %12, align 8
  call void @qsort(ptr noundef %88, i64 noundef %89, i64 noundef 8, ptr noundef @descending)
  %90 = load i64, ptr %12, align 8
  ret i64 %90
}

define internal void @free_partitions(ptr noundef %0) {
  %2 = alloca ptr, align 8
  store ptr %0, ptr %2, align 8
  %3 = load ptr, ptr %2, align 8
  %4 = getelementptr inbounds %struct.partitions, ptr %3, i32 0, i32 0
  %5 = load ptr, ptr %4, align 8
  call void @free(ptr noundef %5)
  %6 = load ptr, ptr %2, align 8
  %7 = getelementptr inbounds %struct.partitions, ptr %6, i32 0, i32 1
  %8 = load ptr, ptr %7, align 8
  call void @free(ptr noundef %8)
  %9 = load ptr, ptr %2, align 8
  %10 = getelementptr inbounds %struct.partitions, ptr %9, i32 0, i32 2
  %11 = load ptr, ptr %10, align 8
  call void @free(ptr noundef %11)
  ret void
}

define i32 @change(i64 noundef %0, ptr noundef %1, i64 noundef %2, ptr noundef %3, ptr noundef %4, ptr noundef %5) {
  %7 = alloca i64, align 8
  %8 = alloca ptr, align 8
  %9 = alloca i64, align 8
  %10 = alloca ptr, align 8
  %11 = alloca ptr, align 8
  %12 = alloca ptr, align 8
  %13 = alloca %struct.partitions, align 8
  %14 = alloca i64, align 8
  %15 = alloca i64, align 8
  %16 = alloca i64, align 8
  %17 = alloca i64, align 8
  %18 = alloca i32, align 4
  store i64 %0, ptr %7, align 8
  store ptr %1, ptr %8, align 8
  store i64 %2, ptr %9, align 8
  store ptr %3, ptr %10, align 8
  store ptr %4, ptr %11, align 8
  store ptr %5, ptr %12, align 8
  %19 = load i64, ptr %7, align 8
  %20 = load ptr, ptr %10, align 8
  call void @partitions_of(ptr dead_on_unwind writable sret(%struct.partitions) align 8 %13, i64 noundef %19, ptr noundef %20)
  %21 = load ptr, ptr %8, align 8
  %22 = getelementptr inbounds i64, ptr %21, i64 1
  %23 = load i64, ptr %22, align 8
  %24 = load i64, ptr %7, align 8
  %25 = srem i64 %23, %24
  store i64 %25, ptr %14, align 8
  %26 = load ptr, ptr %8, align 8
  %27 = getelementptr inbounds i64, ptr %26, i64 0
  %28 = load i64, ptr %27, align 8
  %29 = srem i64 %28, 20
  store i64 %29, ptr %15, align 8
  %30 = getelementptr inbounds %struct.partitions, ptr %13, i32 0, i32 1
  %31 = load ptr, ptr %30, align 8
  %32 = load i64, ptr %14, align 8
  %33 = getelementptr inbounds i64, ptr %31, i64 %32
  %34 = load i64, ptr %33, align 8
  store i64 %34, ptr %16, align 8
  %35 = getelementptr inbounds %struct.partitions, ptr %13, i32 0, i32 2
  %36 = load ptr, ptr %35, align 8
  %37 = load i64, ptr %14, align 8
  %38 = getelementptr inbounds i64, ptr %36, i64 %37
  %39 = load i64, ptr %38, align 8
  store i64 %39, ptr %17, align 8
  store i32 1, ptr %18, align 4
  %40 = load i64, ptr %15, align 8
  %41 = icmp slt i64 %40, 9
  br i1 %41, label %42, label %50

42:                                               ; preds = %6
  %43 = load i64, ptr %16, align 8
  %44 = load i64, ptr %17, align 8
  %45 = load ptr, ptr %8, align 8
  %46 = load i64, ptr %9, align 8
  %47 = load ptr, ptr %10, align 8
  %48 = load ptr, ptr %11, align 8
  %49 = call i32 @change_stream(i64 noundef %43, i64 noundef %44, ptr noundef %45, i64 noundef %46, ptr noundef %47, ptr noundef %48)
  store i32 %49, ptr %18, align 4
  br label %88

50:                                               ; preds = %6
  %51 = load i64, ptr %15, align 8
  %52 = icmp slt i64 %51, 18
  br i1 %52, label %53, label %63

53:                                               ; preds = %50
  %54 = load i64, ptr %16, align 8
  %55 = load ptr, ptr %8, align 8
  %56 = getelementptr inbounds i64, ptr %55, i64 2
  %57 = load i64, ptr %56, align 8
  %58 = load i64, ptr %7, align 8
  %59 = load ptr, ptr %10, align 8
  %60 = load ptr, ptr %11, align 8
  %61 = load ptr, ptr %12, align 8
  %62 = call i32 @change_place(i64 noundef %54, i64 noundef %57, i64 noundef %58, ptr noundef %59, ptr noundef %13, ptr noundef %60, ptr noundef %61)
  store i32 %62, ptr %18, align 4
  br label %87

63:                                               ; preds = %50
  %64 = load i64, ptr %15, align 8
  %65 = icmp eq i64 %64, 19
  br i1 %65, label %66, label %71

66:                                               ; preds = %63
  %67 = load i64, ptr %17, align 8
  %68 = load i64, ptr %7, align 8
  %69 = load ptr, ptr %10, align 8
  %70 = call i32 @merge_next(i64 noundef %67, i64 noundef %68, ptr noundef %69, ptr noundef %13)
  store i32 %70, ptr %18, align 4
  br label %86

71:                                               ; preds = %63
  %72 = load i64, ptr %16, align 8
  %73 = load i64, ptr %17, align 8
  %74 = icmp eq i64 %72, %73
  br i1 %74, label %75, label %76

75:                                               ; preds = %71
  store i32 0, ptr %18, align 4
  br label %85

76:                                               ; preds = %71
  %77 = load ptr, ptr %10, align 8
  %78 = getelementptr inbounds %struct.state, ptr %77, i32 0, i32 2
  %79 = load ptr, ptr %78, align 8
  %80 = load i64, ptr %14, align 8
  %81 = load i64, ptr %16, align 8
  %82 = add nsw i64 %81, 1
  %83 = call i64 @larger(i64 noundef %80, i64 noundef %82)
  %84 = getelementptr inbounds i8, ptr %79, i64 %83
  store i8 0, ptr %84, align 1
  br label %85

85:                                               ; preds = %76, %75
  br label %86

86:                                               ; preds = %85, %66
  br label %87

87:                                               ; preds = %86, %53
  br label %88

88:                                               ; preds = %87, %42
  call void @free_partitions(ptr noundef %13)
  %89 = load i32, ptr %18, align 4
  ret i32 %89
}

define internal i32 @change_stream(i64 noundef %0, i64 noundef %1, ptr noundef %2, i64 noundef %3, ptr noundef %4, ptr noundef %5) {
  %7 = alloca i32, align 4
  %8 = alloca i64, align 8
  %9 = alloca i64, align 8
  %10 = alloca ptr, align 8
  %11 = alloca i64, align 8
  %12 = alloca ptr, align 8
  %13 = alloca ptr, align 8
  %14 = alloca i64, align 8
  %15 = alloca i64, align 8
  %16 = alloca i64, align 8
  %17 = alloca i64, align 8
  store i64 %0, ptr %8, align 8
  store i64 %1, ptr %9, align 8
  store ptr %2, ptr %10, align 8
  store i64 %3, ptr %11, align 8
  store ptr %4, ptr %12, align 8
  store ptr %5, ptr %13, align 8
  %18 = load ptr, ptr %12, align 8
  %19 = getelementptr inbounds %struct.state, ptr %18, i32 0, i32 0
  %20 = load ptr, ptr %19, align 8
  %21 = load i64, ptr %8, align 8
  %22 = getelementptr inbounds i64, ptr %20, i64 %21
  %23 = load i64, ptr %22, align 8
  store i64 %23, ptr %14, align 8
  %24 = load ptr, ptr %13, align 8
  %25 = getelementptr inbounds %struct.lists, ptr %24, i32 0, i32 0
  %26 = load ptr, ptr %25, align 8
  %27 = load i64, ptr %14, align 8
  %28 = add nsw i64 %27, 1
  %29 = getelementptr inbounds i64, ptr %26, i64 %28
  %30 = load i64, ptr %29, align 8
  %31 = load ptr, ptr %13, align 8
  %32 = getelementptr inbounds %struct.lists, ptr %31, i32 0, i32 0
  %33 = load ptr, ptr %32, align 8
  %34 = load i64, ptr %14, align 8
  %35 = getelementptr inbounds i64, ptr %33, i64 %34
  %36 = load i64, ptr %35, align 8
  %37 = sub nsw i64 %30, %36
  store i64 %37, ptr %15, align 8
  %38 = load ptr, ptr %10, align 8
  %39 = getelementptr inbounds i64, ptr %38, i64 2
  %40 = load i64, ptr %39, align 8
  %41 = load i64, ptr %11, align 8
  %42 = srem i64 %40, %41
  store i64 %42, ptr %16, align 8
  %43 = load i64, ptr %15, align 8
  %44 = icmp ne i64 %43, 0
  br i1 %44, label %45, label %74

45:                                               ; preds = %6
  %46 = load ptr, ptr %10, align 8
  %47 = getelementptr inbounds i64, ptr %46, i64 3
  %48 = load i64, ptr %47, align 8
  %49 = srem i64 %48, 2
  %50 = icmp ne i64 %49, 0
  br i1 %50, label %51, label %74

51:                                               ; preds = %45
  %52 = load ptr, ptr %12, align 8
  %53 = getelementptr inbounds %struct.state, ptr %52, i32 0, i32 1
  %54 = load ptr, ptr %53, align 8
  %55 = load ptr, ptr %13, align 8
  %56 = getelementptr inbounds %struct.lists, ptr %55, i32 0, i32 1
  %57 = load ptr, ptr %56, align 8
  %58 = load ptr, ptr %13, align 8
  %59 = getelementptr inbounds %struct.lists, ptr %58, i32 0, i32 0
  %60 = load ptr, ptr %59, align 8
  %61 = load i64, ptr %14, align 8
  %62 = getelementptr inbounds i64, ptr %60, i64 %61
  %63 = load i64, ptr %62, align 8
  %64 = load ptr, ptr %10, align 8
  %65 = getelementptr inbounds i64, ptr %64, i64 2
  %66 = load i64, ptr %65, align 8
  %67 = load i64, ptr %15, align 8
  %68 = srem i64 %66, %67
  %69 = add nsw i64 %63, %68
  %70 = getelementptr inbounds i64, ptr %57, i64 %69
  %71 = load i64, ptr %70, align 8
  %72 = getelementptr inbounds i64, ptr %54, i64 %71
  %73 = load i64, ptr %72, align 8
  store i64 %73, ptr %16, align 8
  br label %74

74:                                               ; preds = %51, %45, %6
  %75 = load i64, ptr %16, align 8
  %76 = load ptr, ptr %12, align 8
  %77 = getelementptr inbounds %struct.state, ptr %76, i32 0, i32 1
  %78 = load ptr, ptr %77, align 8
  %79 = load i64, ptr %14, align 8
  %80 = getelementptr inbounds i64, ptr %78, i64 %79
  %81 = load i64, ptr %80, align 8
  %82 = icmp eq i64 %75, %81
  br i1 %82, label %83, label %84

83:                                               ; preds = %74
  store i32 0, ptr %7, align 4
  br label %106

84:                                               ; preds = %74
  %85 = load i64, ptr %8, align 8
  store i64 %85, ptr %17, align 8
  br label %86

86:                                               ; preds = %102, %84
  %87 = load i64, ptr %17, align 8
  %88 = load i64, ptr %9, align 8
  %89 = icmp sle i64 %87, %88
  br i1 %89, label %90, label %105

90:                                               ; preds = %86
  %91 = load i64, ptr %16, align 8
  %92 = load ptr, ptr %12, align 8
  %93 = getelementptr inbounds %struct.state, ptr %92, i32 0, i32 1
  %94 = load ptr, ptr %93, align 8
  %95 = load ptr, ptr %12, align 8
  %96 = getelementptr inbounds %struct.state, ptr %95, i32 0, i32 0
  %97 = load ptr, ptr %96, align 8
  %98 = load i64, ptr %17, align 8
  %99 = getelementptr inbounds i64, ptr %97, i64 %98
  %100 = load i64, ptr %99, align 8
  %101 = getelementptr inbounds i64, ptr %94, i64 %100
  store i64 %91, ptr %101, align 8
  br label %102

102:                                              ; preds = %90
  %103 = load i64, ptr %17, align 8
  %104 = add nsw i64 %103, 1
  store i64 %104, ptr %17, align 8
  br label %86

105:                                              ; preds = %86
  store i32 1, ptr %7, align 4
  br label %106

106:                                              ; preds = %105, %83
  %107 = load i32, ptr %7, align 4
  ret i32 %107
}

define internal i32 @change_place(i64 noundef %0, i64 noundef %1, i64 noundef %2, ptr noundef %3, ptr noundef %4, ptr noundef %5, ptr noundef %6) {
  %8 = alloca i32, align 4
  %9 = alloca i64, align 8
  %10 = alloca i64, align 8
  %11 = alloca i64, align 8
  %12 = alloca ptr, align 8
  %13 = alloca ptr, align 8
  %14 = alloca ptr, align 8
  %15 = alloca ptr, align 8
  %16 = alloca i64, align 8
  %17 = alloca i64, align 8
  %18 = alloca i64, align 8
  %19 = alloca i64, align 8
  %20 = alloca i64, align 8
  store i64 %0, ptr %9, align 8
  store i64 %1, ptr %10, align 8
  store i64 %2, ptr %11, align 8
  store ptr %3, ptr %12, align 8
  store ptr %4, ptr %13, align 8
  store ptr %5, ptr %14, align 8
  store ptr %6, ptr %15, align 8
  %21 = load ptr, ptr %13, align 8
  %22 = getelementptr inbounds %struct.partitions, ptr %21, i32 0, i32 2
  %23 = load ptr, ptr %22, align 8
  %24 = load i64, ptr %9, align 8
  %25 = getelementptr inbounds i64, ptr %23, i64 %24
  %26 = load i64, ptr %25, align 8
  store i64 %26, ptr %16, align 8
  %27 = load i64, ptr %9, align 8
  %28 = load ptr, ptr %12, align 8
  %29 = load i64, ptr %11, align 8
  %30 = load ptr, ptr %13, align 8
  %31 = load ptr, ptr %14, align 8
  %32 = load ptr, ptr %15, align 8
  call void @legal_places(i64 noundef %27, ptr noundef %28, i64 noundef %29, ptr noundef %30, ptr noundef %31, ptr noundef %32, ptr noundef %17, ptr noundef %18)
  %33 = load i64, ptr %9, align 8
  %34 = load i64, ptr %17, align 8
  %35 = sub nsw i64 %33, %34
  %36 = load i64, ptr %18, align 8
  %37 = add nsw i64 %35, %36
  %38 = load i64, ptr %16, align 8
  %39 = sub nsw i64 %37, %38
  store i64 %39, ptr %19, align 8
  %40 = load i64, ptr %19, align 8
  %41 = icmp eq i64 %40, 0
  br i1 %41, label %42, label %43

42:                                               ; preds = %7
  store i32 0, ptr %8, align 4
  br label %82

43:                                               ; preds = %7
  %44 = load i64, ptr %17, align 8
  %45 = load i64, ptr %10, align 8
  %46 = load i64, ptr %19, align 8
  %47 = srem i64 %45, %46
  %48 = add nsw i64 %44, %47
  store i64 %48, ptr %20, align 8
  %49 = load i64, ptr %20, align 8
  %50 = load i64, ptr %9, align 8
  %51 = icmp sge i64 %49, %50
  br i1 %51, label %52, label %59

52:                                               ; preds = %43
  %53 = load i64, ptr %16, align 8
  %54 = add nsw i64 %53, 1
  %55 = load i64, ptr %9, align 8
  %56 = sub nsw i64 %54, %55
  %57 = load i64, ptr %20, align 8
  %58 = add nsw i64 %57, %56
  store i64 %58, ptr %20, align 8
  br label %59

59:                                               ; preds = %52, %43
  %60 = load i64, ptr %9, align 8
  %61 = load i64, ptr %16, align 8
  %62 = load i64, ptr %20, align 8
  %63 = load i64, ptr %9, align 8
  %64 = icmp slt i64 %62, %63
  br i1 %64, label %65, label %72

65:                                               ; preds = %59
  %66 = load ptr, ptr %13, align 8
  %67 = getelementptr inbounds %struct.partitions, ptr %66, i32 0, i32 1
  %68 = load ptr, ptr %67, align 8
  %69 = load i64, ptr %20, align 8
  %70 = getelementptr inbounds i64, ptr %68, i64 %69
  %71 = load i64, ptr %70, align 8
  br label %79

72:                                               ; preds = %59
  %73 = load ptr, ptr %13, align 8
  %74 = getelementptr inbounds %struct.partitions, ptr %73, i32 0, i32 2
  %75 = load ptr, ptr %74, align 8
  %76 = load i64, ptr %20, align 8
  %77 = getelementptr inbounds i64, ptr %75, i64 %76
  %78 = load i64, ptr %77, align 8
  br label %79

79:                                               ; preds = %72, %65
  %80 = phi i64 [ %71, %65 ], [ %78, %72 ]
  %81 = load ptr, ptr %12, align 8
  call void @shift(i64 noundef %60, i64 noundef %61, i64 noundef %80, ptr noundef %81)
  store i32 1, ptr %8, align 4
  br label %82

82:                                               ; preds = %79, %42
  %83 = load i32, ptr %8, align 4
  ret i32 %83
}

define internal i32 @merge_next(i64 noundef %0, i64 noundef %1, ptr noundef %2, ptr noundef %3) {
  %5 = alloca i32, align 4
  %6 = alloca i64, align 8
  %7 = alloca i64, align 8
  %8 = alloca ptr, align 8
  %9 = alloca ptr, align 8
  %10 = alloca i64, align 8
  store i64 %0, ptr %6, align 8
  store i64 %1, ptr %7, align 8
  store ptr %2, ptr %8, align 8
  store ptr %3, ptr %9, align 8
  %11 = load i64, ptr %6, align 8
  %12 = add nsw i64 %11, 1
  %13 = load i64, ptr %7, align 8
  %14 = icmp eq i64 %12, %13
  br i1 %14, label %15, label %16

15:                                               ; preds = %4
  store i32 0, ptr %5, align 4
  br label %61

16:                                               ; preds = %4
  %17 = load i64, ptr %6, align 8
  %18 = add nsw i64 %17, 1
  store i64 %18, ptr %10, align 8
  br label %19

19:                                               ; preds = %51, %16
  %20 = load i64, ptr %10, align 8
  %21 = load ptr, ptr %9, align 8
  %22 = getelementptr inbounds %struct.partitions, ptr %21, i32 0, i32 2
  %23 = load ptr, ptr %22, align 8
  %24 = load i64, ptr %6, align 8
  %25 = add nsw i64 %24, 1
  %26 = getelementptr inbounds i64, ptr %23, i64 %25
  %27 = load i64, ptr %26, align 8
  %28 = icmp sle i64 %20, %27
  br i1 %28, label %29, label %54

29:                                               ; preds = %19
  %30 = load ptr, ptr %8, align 8
  %31 = getelementptr inbounds %struct.state, ptr %30, i32 0, i32 1
  %32 = load ptr, ptr %31, align 8
  %33 = load ptr, ptr %8, align 8
  %34 = getelementptr inbounds %struct.state, ptr %33, i32 0, i32 0
  %35 = load ptr, ptr %34, align 8
  %36 = load i64, ptr %6, align 8
  %37 = getelementptr inbounds i64, ptr %35, i64 %36
  %38 = load i64, ptr %37, align 8
  %39 = getelementptr inbounds i64, ptr %32, i64 %38
  %40 = load i64, ptr %39, align 8
  %41 = load ptr, ptr %8, align 8
  %42 = getelementptr inbounds %struct.state, ptr %41, i32 0, i32 1
  %43 = load ptr, ptr %42, align 8
  %44 = load ptr, ptr %8, align 8
  %45 = getelementptr inbounds %struct.state, ptr %44, i32 0, i32 0
  %46 = load ptr, ptr %45, align 8
  %47 = load i64, ptr %10, align 8
  %48 = getelementptr inbounds i64, ptr %46, i64 %47
  %49 = load i64, ptr %48, align 8
  %50 = getelementptr inbounds i64, ptr %43, i64 %49
  store i64 %40, ptr %50, align 8
  br label %51

51:                                               ; preds = %29
  %52 = load i64, ptr %10, align 8
  %53 = add nsw i64 %52, 1
  store i64 %53, ptr %10, align 8
  br label %19

54:                                               ; preds = %19
  %55 = load ptr, ptr %8, align 8
  %56 = getelementptr inbounds %struct.state, ptr %55, i32 0, i32 2
  %57 = load ptr, ptr %56, align 8
  %58 = load i64, ptr %6, align 8
  %59 = add nsw i64 %58, 1
  %60 = getelementptr inbounds i8, ptr %57, i64 %59
  store i8 1, ptr %60, align 1
  store i32 1, ptr %5, align 4
  br label %61

61:                                               ; preds = %54, %15
  %62 = load i32, ptr %5, align 4
  ret i32 %62
}

define internal i64 @larger(i64 noundef %0, i64 noundef %1) {
  %3 = alloca i64, align 8
  %4 = alloca i64, align 8
  store i64 %0, ptr %3, align 8
  store i64 %1, ptr %4, align 8
  %5 = load i64, ptr %3, align 8
  %6 = load i64, ptr %4, align 8
  %7 = icmp sgt i64 %5, %6
  br i1 %7, label %8, label %10

8:                                                ; preds = %2
  %9 = load i64, ptr %3, align 8
  br label %12

10:                                               ; preds = %2
  %11 = load i64, ptr %4, align 8
  br label %12

12:                                               ; preds = %10, %8
  %13 = phi i64 [ %9, %8 ], [ %11, %10 ]
  ret i64 %13
}

define double @makespan(ptr noundef %0, ptr noundef %1, i64 noundef %2, ptr noundef %3) {
  %5 = alloca ptr, align 8
  %6 = alloca ptr, align 8
  %7 = alloca i64, align 8
  %8 = alloca ptr, align 8
  %9 = alloca %struct.duration, align 8
  store ptr %0, ptr %5, align 8
  store ptr %1, ptr %6, align 8
  store i64 %2, ptr %7, align 8
  store ptr %3, ptr %8, align 8
  %10 = load ptr, ptr %5, align 8
  %11 = load ptr, ptr %6, align 8
  %12 = load i64, ptr %7, align 8
  %13 = load ptr, ptr %8, align 8
  %14 = call { double, double } @run_time(ptr noundef %10, ptr noundef %11, i64 noundef %12, ptr noundef %13)
  %15 = getelementptr inbounds { double, double }, ptr %9, i32 0, i32 0
  %16 = extractvalue { double, double } %14, 0
  store double %16, ptr %15, align 8
  %17 = getelementptr inbounds { double, double }, ptr %9, i32 0, i32 1
  %18 = extractvalue { double, double } %14, 1
  store double %18, ptr %17, align 8
  %19 = getelementptr inbounds %struct.duration, ptr %9, i32 0, i32 0
  %20 = load double, ptr %19, align 8
  ret double %20
}

define internal { double, double } @run_time(ptr noundef %0, ptr noundef %1, i64 noundef %2, ptr noundef %3) {
  %5 = alloca %struct.duration, align 8
  %6 = alloca ptr, align 8
  %7 = alloca ptr, align 8
  %8 = alloca i64, align 8
  %9 = alloca ptr, align 8
  %10 = alloca i64, align 8
  %11 = alloca ptr, align 8
  %12 = alloca ptr, align 8
  %13 = alloca ptr, align 8
  %14 = alloca i64, align 8
  %15 = alloca i64, align 8
  store ptr %0, ptr %6, align 8
  store ptr %1, ptr %7, align 8
  store i64 %2, ptr %8, align 8
  store ptr %3, ptr %9, align 8
  %16 = load ptr, ptr %6, align 8
  %17 = getelementptr inbounds %struct.device_run, ptr %16, i32 0, i32 0
  %18 = getelementptr inbounds %struct.workload, ptr %17, i32 0, i32 0
  %19 = load i64, ptr %18, align 8
  store i64 %19, ptr %10, align 8
  %20 = load i64, ptr %10, align 8
  %21 = call ptr @numbers(i64 noundef %20)
  store ptr %21, ptr %11, align 8
  %22 = load i64, ptr %10, align 8
  %23 = call ptr @numbers(i64 noundef %22)
  store ptr %23, ptr %12, align 8
  %24 = load i64, ptr %10, align 8
  %25 = call ptr @numbers(i64 noundef %24)
  store ptr %25, ptr %13, align 8
  store i64 0, ptr %14, align 8
  br label %26

26:                                               ; preds = %37, %4
  %27 = load i64, ptr %14, align 8
  %28 = load i64, ptr %10, align 8
  %29 = icmp slt i64 %27, %28
  br i1 %29, label %30, label %40

30:                                               ; preds = %26
  %31 = load ptr, ptr %6, align 8
  %32 = getelementptr inbounds %struct.device_run, ptr %31, i32 0, i32 2
  %33 = load double, ptr %32, align 8
  %34 = load ptr, ptr %11, align 8
  %35 = load i64, ptr %14, align 8
  %36 = getelementptr inbounds double, ptr %34, i64 %35
  store double %33, ptr %36, align 8
  br label %37

37:                                               ; preds = %30
  %38 = load i64, ptr %14, align 8
  %39 = add nsw i64 %38, 1
  store i64 %39, ptr %14, align 8
  br label %26

40:                                               ; preds = %26
  %41 = load ptr, ptr %6, align 8
  %42 = getelementptr inbounds %struct.device_run, ptr %41, i32 0, i32 0
  %43 = load i64, ptr %8, align 8
  %44 = load ptr, ptr %9, align 8
  %45 = load ptr, ptr %7, align 8
  %46 = getelementptr inbounds %struct.state, ptr %45, i32 0, i32 0
  %47 = load ptr, ptr %46, align 8
  %48 = load ptr, ptr %7, align 8
  %49 = getelementptr inbounds %struct.state, ptr %48, i32 0, i32 1
  %50 = load ptr, ptr %49, align 8
  %51 = load ptr, ptr %11, align 8
  %52 = load ptr, ptr %6, align 8
  %53 = getelementptr inbounds %struct.device_run, ptr %52, i32 0, i32 1
  %54 = load ptr, ptr %53, align 8
  %55 = load ptr, ptr %6, align 8
  %56 = getelementptr inbounds %struct.device_run, ptr %55, i32 0, i32 3
  %57 = load double, ptr %56, align 8
  %58 = load ptr, ptr %6, align 8
  %59 = getelementptr inbounds %struct.device_run, ptr %58, i32 0, i32 4
  %60 = load double, ptr %59, align 8
  %61 = load ptr, ptr %12, align 8
  %62 = load ptr, ptr %13, align 8
  call void @simulate(ptr noundef %42, i64 noundef %43, ptr noundef %44, ptr noundef %47, ptr noundef %50, ptr noundef %51, ptr noundef %54, double noundef %57, double noundef %60, ptr noundef %61, ptr noundef %62)
  call void @llvm.memset.p0.i64(ptr align 8 %5, i8 0, i64 16, i1 false)
  store i64 0, ptr %15, align 8
  br label %63

63:                                               ; preds = %89, %40
  %64 = load i64, ptr %15, align 8
  %65 = load i64, ptr %10, align 8
  %66 = icmp slt i64 %64, %65
  br i1 %66, label %67, label %92

67:                                               ; preds = %63
  %68 = load ptr, ptr %13, align 8
  %69 = load i64, ptr %15, align 8
  %70 = getelementptr inbounds double, ptr %68, i64 %69
  %71 = load double, ptr %70, align 8
  %72 = getelementptr inbounds %struct.duration, ptr %5, i32 0, i32 0
  %73 = load double, ptr %72, align 8
  %74 = fcmp ogt double %71, %73
  br i1 %74, label %75, label %81

75:                                               ; preds = %67
  %76 = load ptr, ptr %13, align 8
  %77 = load i64, ptr %15, align 8
  %78 = getelementptr inbounds double, ptr %76, i64 %77
  %79 = load double, ptr %78, align 8
  %80 = getelementptr inbounds %struct.duration, ptr %5, i32 0, i32 0
  store double %79, ptr %80, align 8
  br label %81

81:                                               ; preds = %75, %67
  %82 = load ptr, ptr %13, align 8
  %83 = load i64, ptr %15, align 8
  %84 = getelementptr inbounds double, ptr %82, i64 %83
  %85 = load double, ptr %84, align 8
  %86 = getelementptr inbounds %struct.duration, ptr %5, i32 0, i32 1
  %87 = load double, ptr %86, align 8
  %88 = fadd double %87, %85
  store double %88, ptr %86, align 8
  br label %89

89:                                               ; preds = %81
  %90 = load i64, ptr %15, align 8
  %91 = add nsw i64 %90, 1
  store i64 %91, ptr %15, align 8
  br label %63

92:                                               ; preds = %63
  %93 = load ptr, ptr %11, align 8
  call void @free(ptr noundef %93)
  %94 = load ptr, ptr %12, align 8
  call void @free(ptr noundef %94)
  %95 = load ptr, ptr %13, align 8
  call void @free(ptr noundef %95)
  %96 = load { double, double }, ptr %5, align 8
  ret { double, double } %96
}

define i64 @improve(ptr noundef %0, i64 noundef %1, ptr noundef %2, i64 noundef %3, ptr noundef %4, ptr noundef %5, ptr noundef %6) {
  %8 = alloca ptr, align 8
  %9 = alloca i64, align 8
  %10 = alloca ptr, align 8
  %11 = alloca i64, align 8
  %12 = alloca ptr, align 8
  %13 = alloca ptr, align 8
  %14 = alloca ptr, align 8
  %15 = alloca i64, align 8
  %16 = alloca i64, align 8
  %17 = alloca ptr, align 8
  %18 = alloca %struct.state, align 8
  %19 = alloca %struct.duration, align 8
  %20 = alloca i64, align 8
  %21 = alloca %struct.duration, align 8
  store ptr %0, ptr %8, align 8
  store i64 %1, ptr %9, align 8
  store ptr %2, ptr %10, align 8
  store i64 %3, ptr %11, align 8
  store ptr %4, ptr %12, align 8
  store ptr %5, ptr %13, align 8
  store ptr %6, ptr %14, align 8
  %22 = load ptr, ptr %8, align 8
  %23 = getelementptr inbounds %struct.device_run, ptr %22, i32 0, i32 0
  %24 = getelementptr inbounds %struct.workload, ptr %23, i32 0, i32 0
  %25 = load i64, ptr %24, align 8
  store i64 %25, ptr %15, align 8
  store i64 0, ptr %16, align 8
  %26 = load ptr, ptr %13, align 8
  %27 = getelementptr inbounds %struct.lists, ptr %26, i32 0, i32 0
  %28 = load ptr, ptr %27, align 8
  %29 = load i64, ptr %15, align 8
  %30 = getelementptr inbounds i64, ptr %28, i64 %29
  %31 = load i64, ptr %30, align 8
  %32 = load i64, ptr %15, align 8
  %33 = add nsw i64 %31, %32
  %34 = mul nsw i64 2, %33
  %35 = call ptr @integers(i64 noundef %34)
  store ptr %35, ptr %17, align 8
  %36 = getelementptr inbounds %struct.state, ptr %18, i32 0, i32 0
  %37 = load i64, ptr %15, align 8
  %38 = call ptr @integers(i64 noundef %37)
  store ptr %38, ptr %36, align 8
  %39 = getelementptr inbounds %struct.state, ptr %18, i32 0, i32 1
  %40 = load i64, ptr %15, align 8
  %41 = call ptr @integers(i64 noundef %40)
  store ptr %41, ptr %39, align 8
  %42 = getelementptr inbounds %struct.state, ptr %18, i32 0, i32 2
  %43 = load i64, ptr %15, align 8
  %44 = call ptr @allocate(i64 noundef %43, i64 noundef 1)
  store ptr %44, ptr %42, align 8
  %45 = load ptr, ptr %8, align 8
  %46 = load ptr, ptr %12, align 8
  %47 = load ptr, ptr %13, align 8
  %48 = load ptr, ptr %17, align 8
  %49 = call { double, double } @cost(ptr noundef %45, ptr noundef %46, ptr noundef %47, ptr noundef %48)
  %50 = getelementptr inbounds { double, double }, ptr %19, i32 0, i32 0
  %51 = extractvalue { double, double } %49, 0
  store double %51, ptr %50, align 8
  %52 = getelementptr inbounds { double, double }, ptr %19, i32 0, i32 1
  %53 = extractvalue { double, double } %49, 1
  store double %53, ptr %52, align 8
  store i64 0, ptr %20, align 8
  br label %54

54:                                               ; preds = %107, %7
  %55 = load i64, ptr %20, align 8
  %56 = load i64, ptr %9, align 8
  %57 = icmp slt i64 %55, %56
  br i1 %57, label %58, label %110

58:                                               ; preds = %54
  %59 = load i64, ptr %15, align 8
  %60 = load ptr, ptr %12, align 8
  call void @copy(i64 noundef %59, ptr noundef %60, ptr noundef %18)
  %61 = load i64, ptr %15, align 8
  %62 = load ptr, ptr %10, align 8
  %63 = load i64, ptr %20, align 8
  %64 = mul nsw i64 4, %63
  %65 = getelementptr inbounds i64, ptr %62, i64 %64
  %66 = load i64, ptr %11, align 8
  %67 = load ptr, ptr %12, align 8
  %68 = load ptr, ptr %13, align 8
  %69 = load ptr, ptr %14, align 8
  %70 = call i32 @change(i64 noundef %61, ptr noundef %65, i64 noundef %66, ptr noundef %67, ptr noundef %68, ptr noundef %69)
  %71 = icmp ne i32 %70, 0
  br i1 %71, label %73, label %72

72:                                               ; preds = %58
  br label %107

73:                                               ; preds = %58
  %74 = load ptr, ptr %8, align 8
  %75 = load ptr, ptr %12, align 8
  %76 = load ptr, ptr %13, align 8
  %77 = load ptr, ptr %17, align 8
  %78 = call { double, double } @cost(ptr noundef %74, ptr noundef %75, ptr noundef %76, ptr noundef %77)
  %79 = getelementptr inbounds { double, double }, ptr %21, i32 0, i32 0
  %80 = extractvalue { double, double } %78, 0
  store double %80, ptr %79, align 8
  %81 = getelementptr inbounds { double, double }, ptr %21, i32 0, i32 1
  %82 = extractvalue { double, double } %78, 1
  store double %82, ptr %81, align 8
  %83 = getelementptr inbounds %struct.duration, ptr %21, i32 0, i32 0
  %84 = load double, ptr %83, align 8
  %85 = getelementptr inbounds %struct.duration, ptr %19, i32 0, i32 0
  %86 = load double, ptr %85, align 8
  %87 = fcmp olt double %84, %86
  br i1 %87, label %100, label %88

88:                                               ; preds = %73
  %89 = getelementptr inbounds %struct.duration, ptr %21, i32 0, i32 0
  %90 = load double, ptr %89, align 8
  %91 = getelementptr inbounds %struct.duration, ptr %19, i32 0, i32 0
  %92 = load double, ptr %91, align 8
  %93 = fcmp oeq double %90, %92
  br i1 %93, label %94, label %103

94:                                               ; preds = %88
  %95 = getelementptr inbounds %struct.duration, ptr %21, i32 0, i32 1
  %96 = load double, ptr %95, align 8
  %97 = getelementptr inbounds %struct.duration, ptr %19, i32 0, i32 1
  %98 = load double, ptr %97, align 8
  %99 = fcmp olt double %96, %98
  br i1 %99, label %100, label %103

100:                                              ; preds = %94, %73
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %19, ptr align 8 %21, i64 16, i1 false)
  %101 = load i64, ptr %16, align 8
  %102 = add nsw i64 %101, 1
  store i64 %102, ptr %16, align 8
  br label %106

103:                                              ; preds = %94, %88
  %104 = load i64, ptr %15, align 8
  %105 = load ptr, ptr %12, align 8
  call void @copy(i64 noundef %104, ptr noundef %18, ptr noundef %105)
  br label %106

106:                                              ; preds = %103, %100
  br label %107

107:                                              ; preds = %106, %72
  %108 = load i64, ptr %20, align 8
  %109 = add nsw i64 %108, 1
  store i64 %109, ptr %20, align 8
  br label %54

110:                                              ; preds = %54
  %111 = load ptr, ptr %17, align 8
  call void @free(ptr noundef %111)
  %112 = getelementptr inbounds %struct.state, ptr %18, i32 0, i32 0
  %113 = load ptr, ptr %112, align 8
  call void @free(ptr noundef %113)
  %114 = getelementptr inbounds %struct.state, ptr %18, i32 0, i32 1
  %115 = load ptr, ptr %114, align 8
  call void @free(ptr noundef %115)
  %116 = getelementptr inbounds %struct.state, ptr %18, i32 0, i32 2
  %117 = load ptr, ptr %116, align 8
  call void @free(ptr noundef %117)
  %118 = load i64, ptr %16, align 8
  ret i64 %118
}

define internal { double, double } @cost(ptr noundef %0, ptr noundef %1, ptr noundef %2, ptr noundef %3) {
  %5 = alloca %struct.duration, align 8
  %6 = alloca ptr, align 8
  %7 = alloca ptr, align 8
  %8 = alloca ptr, align 8
  %9 = alloca ptr, align 8
  store ptr %0, ptr %6, align 8
  store ptr %1, ptr %7, align 8
  store ptr %2, ptr %8, align 8
  store ptr %3, ptr %9, align 8
  %10 = load ptr, ptr %6, align 8
  %11 = load ptr, ptr %7, align 8
  %12 = load ptr, ptr %6, align 8
  %13 = getelementptr inbounds %struct.device_run, ptr %12, i32 0, i32 0
  %14 = getelementptr inbounds %struct.workload, ptr %13, i32 0, i32 0
  %15 = load i64, ptr %14, align 8
  %16 = load ptr, ptr %7, align 8
  %17 = load ptr, ptr %8, align 8
  %18 = load ptr, ptr %9, align 8
  %19 = call i64 @kept_edges(i64 noundef %15, ptr noundef %16, ptr noundef %17, ptr noundef %18)
  %20 = load ptr, ptr %9, align 8
  %21 = call { double, double } @run_time(ptr noundef %10, ptr noundef %11, i64 noundef %19, ptr noundef %20)
  %22 = getelementptr inbounds { double, double }, ptr %5, i32 0, i32 0
  %23 = extractvalue { double, double } %21, 0
  store double %23, ptr %22, align 8
  %24 = getelementptr inbounds { double, double }, ptr %5, i32 0, i32 1
  %25 = extractvalue { double, double } %21, 1
  store double %25, ptr %24, align 8
  %26 = load { double, double }, ptr %5, align 8
  ret { double, double } %26
}

define internal void @copy(i64 noundef %0, ptr noundef %1, ptr noundef %2) {
  %4 = alloca i64, align 8
  %5 = alloca ptr, align 8
  %6 = alloca ptr, align 8
  store i64 %0, ptr %4, align 8
  store ptr %1, ptr %5, align 8
  store ptr %2, ptr %6, align 8
  %7 = load ptr, ptr %6, align 8
  %8 = getelementptr inbounds %struct.state, ptr %7, i32 0, i32 0
  %9 = load ptr, ptr %8, align 8
  %10 = load ptr, ptr %5, align 8
  %11 = getelementptr inbounds %struct.state, ptr %10, i32 0, i32 0
  %12 = load ptr, ptr %11, align 8
  %13 = load i64, ptr %4, align 8
  %14 = mul i64 %13, 8
  %15 = call ptr @memmove(ptr noundef %9, ptr noundef %12, i64 noundef %14)
  %16 = load ptr, ptr %6, align 8
  %17 = getelementptr inbounds %struct.state, ptr %16, i32 0, i32 1
  %18 = load ptr, ptr %17, align 8
  %19 = load ptr, ptr %5, align 8
  %20 = getelementptr inbounds %struct.state, ptr %19, i32 0, i32 1
  %21 = load ptr, ptr %20, align 8
  %22 = load i64, ptr %4, align 8
  %23 = mul i64 %22, 8
  %24 = call ptr @memmove(ptr noundef %18, ptr noundef %21, i64 noundef %23)
  %25 = load ptr, ptr %6, align 8
  %26 = getelementptr inbounds %struct.state, ptr %25, i32 0, i32 2
  %27 = load ptr, ptr %26, align 8
  %28 = load ptr, ptr %5, align 8
  %29 = getelementptr inbounds %struct.state, ptr %28, i32 0, i32 2
  %30 = load ptr, ptr %29, align 8
  %31 = load i64, ptr %4, align 8
  %32 = mul i64 %31, 1
  %33 = call ptr @memmove(ptr noundef %27, ptr noundef %30, i64 noundef %32)
  ret void
}

declare void @llvm.memcpy.p0.p0.i64(ptr noalias nocapture writeonly, ptr noalias nocapture readonly, i64, i1 immarg)

declare ptr @memmove(ptr noundef, ptr noundef, i64 noundef)

define internal i32 @starts_before(ptr noundef %0, i64 noundef %1, i64 noundef %2) {
  %4 = alloca i32, align 4
  %5 = alloca ptr, align 8
  %6 = alloca i64, align 8
  %7 = alloca i64, align 8
  store ptr %0, ptr %5, align 8
  store i64 %1, ptr %6, align 8
  store i64 %2, ptr %7, align 8
  %8 = load ptr, ptr %5, align 8
  %9 = getelementptr inbounds %struct.heap, ptr %8, i32 0, i32 3
  %10 = load ptr, ptr %9, align 8
  %11 = load i64, ptr %6, align 8
  %12 = getelementptr inbounds double, ptr %10, i64 %11
  %13 = load double, ptr %12, align 8
  %14 = load ptr, ptr %5, align 8
  %15 = getelementptr inbounds %struct.heap, ptr %14, i32 0, i32 3
  %16 = load ptr, ptr %15, align 8
  %17 = load i64, ptr %7, align 8
  %18 = getelementptr inbounds double, ptr %16, i64 %17
  %19 = load double, ptr %18, align 8
  %20 = fcmp une double %13, %19
  br i1 %20, label %21, label %36

21:                                               ; preds = %3
  %22 = load ptr, ptr %5, align 8
  %23 = getelementptr inbounds %struct.heap, ptr %22, i32 0, i32 3
  %24 = load ptr, ptr %23, align 8
  %25 = load i64, ptr %6, align 8
  %26 = getelementptr inbounds double, ptr %24, i64 %25
  %27 = load double, ptr %26, align 8
  %28 = load ptr, ptr %5, align 8
  %29 = getelementptr inbounds %struct.heap, ptr %28, i32 0, i32 3
  %30 = load ptr, ptr %29, align 8
  %31 = load i64, ptr %7, align 8
  %32 = getelementptr inbounds double, ptr %30, i64 %31
  %33 = load double, ptr %32, align 8
  %34 = fcmp olt double %27, %33
  %35 = zext i1 %34 to i32
  store i32 %35, ptr %4, align 4
  br label %51

36:                                               ; preds = %3
  %37 = load ptr, ptr %5, align 8
  %38 = getelementptr inbounds %struct.heap, ptr %37, i32 0, i32 2
  %39 = load ptr, ptr %38, align 8
  %40 = load i64, ptr %6, align 8
  %41 = getelementptr inbounds i64, ptr %39, i64 %40
  %42 = load i64, ptr %41, align 8
  %43 = load ptr, ptr %5, align 8
  %44 = getelementptr inbounds %struct.heap, ptr %43, i32 0, i32 2
  %45 = load ptr, ptr %44, align 8
  %46 = load i64, ptr %7, align 8
  %47 = getelementptr inbounds i64, ptr %45, i64 %46
  %48 = load i64, ptr %47, align 8
  %49 = icmp slt i64 %42, %48
  %50 = zext i1 %49 to i32
  store i32 %50, ptr %4, align 4
  br label %51

51:                                               ; preds = %36, %21
  %52 = load i32, ptr %4, align 4
  ret i32 %52
}

define internal void @set_speeds(ptr noundef %0, ptr noundef %1) {
  %3 = alloca ptr, align 8
  %4 = alloca ptr, align 8
  %5 = alloca double, align 8
  %6 = alloca double, align 8
  %7 = alloca double, align 8
  %8 = alloca i64, align 8
  %9 = alloca i64, align 8
  %10 = alloca double, align 8
  %11 = alloca i64, align 8
  %12 = alloca double, align 8
  store ptr %0, ptr %3, align 8
  store ptr %1, ptr %4, align 8
  store double 1.000000e+00, ptr %5, align 8
  store double 0.000000e+00, ptr %6, align 8
  store double 0.000000e+00, ptr %7, align 8
  store i64 0, ptr %8, align 8
  br label %13

13:                                               ; preds = %96, %2
  %14 = load i64, ptr %8, align 8
  %15 = load ptr, ptr %3, align 8
  %16 = getelementptr inbounds %struct.running, ptr %15, i32 0, i32 0
  %17 = load i64, ptr %16, align 8
  %18 = icmp slt i64 %14, %17
  br i1 %18, label %19, label %99

19:                                               ; preds = %13
  %20 = load ptr, ptr %3, align 8
  %21 = getelementptr inbounds %struct.running, ptr %20, i32 0, i32 1
  %22 = load ptr, ptr %21, align 8
  %23 = load i64, ptr %8, align 8
  %24 = getelementptr inbounds i64, ptr %22, i64 %23
  %25 = load i64, ptr %24, align 8
  store i64 %25, ptr %9, align 8
  %26 = load double, ptr %5, align 8
  %27 = load ptr, ptr %4, align 8
  %28 = getelementptr inbounds %struct.workload, ptr %27, i32 0, i32 2
  %29 = load ptr, ptr %28, align 8
  %30 = load i64, ptr %9, align 8
  %31 = getelementptr inbounds double, ptr %29, i64 %30
  %32 = load double, ptr %31, align 8
  %33 = fdiv double %26, %32
  store double %33, ptr %10, align 8
  %34 = load double, ptr %10, align 8
  %35 = fcmp olt double %34, 1.000000e+00
  br i1 %35, label %36, label %38

36:                                               ; preds = %19
  %37 = load double, ptr %10, align 8
  br label %39

38:                                               ; preds = %19
  br label %39

39:                                               ; preds = %38, %36
  %40 = phi double [ %37, %36 ], [ 1.000000e+00, %38 ]
  %41 = load ptr, ptr %3, align 8
  %42 = getelementptr inbounds %struct.running, ptr %41, i32 0, i32 2
  %43 = load ptr, ptr %42, align 8
  %44 = load i64, ptr %8, align 8
  %45 = getelementptr inbounds double, ptr %43, i64 %44
  store double %40, ptr %45, align 8
  %46 = load double, ptr %5, align 8
  %47 = load ptr, ptr %4, align 8
  %48 = getelementptr inbounds %struct.workload, ptr %47, i32 0, i32 2
  %49 = load ptr, ptr %48, align 8
  %50 = load i64, ptr %9, align 8
  %51 = getelementptr inbounds double, ptr %49, i64 %50
  %52 = load double, ptr %51, align 8
  %53 = fcmp ogt double %46, %52
  br i1 %53, label %54, label %63

54:                                               ; preds = %39
  %55 = load double, ptr %5, align 8
  %56 = load ptr, ptr %4, align 8
  %57 = getelementptr inbounds %struct.workload, ptr %56, i32 0, i32 2
  %58 = load ptr, ptr %57, align 8
  %59 = load i64, ptr %9, align 8
  %60 = getelementptr inbounds double, ptr %58, i64 %59
  %61 = load double, ptr %60, align 8
  %62 = fsub double %55, %61
  br label %64

63:                                               ; preds = %39
  br label %64

64:                                               ; preds = %63, %54
  %65 = phi double [ %62, %54 ], [ 0.000000e+00, %63 ]
  store double %65, ptr %5, align 8
  %66 = load ptr, ptr %3, align 8
  %67 = getelementptr inbounds %struct.running, ptr %66, i32 0, i32 2
  %68 = load ptr, ptr %67, align 8
  %69 = load i64, ptr %8, align 8
  %70 = getelementptr inbounds double, ptr %68, i64 %69
  %71 = load double, ptr %70, align 8
  %72 = load ptr, ptr %4, align 8
  %73 = getelementptr inbounds %struct.workload, ptr %72, i32 0, i32 3
  %74 = load ptr, ptr %73, align 8
  %75 = load i64, ptr %9, align 8
  %76 = getelementptr inbounds double, ptr %74, i64 %75
  %77 = load double, ptr %76, align 8
  %78 = fmul double %71, %77
  %79 = load double, ptr %6, align 8
  %80 = fadd double %79, %78
  store double %80, ptr %6, align 8
  %81 = load ptr, ptr %3, align 8
  %82 = getelementptr inbounds %struct.running, ptr %81, i32 0, i32 2
  %83 = load ptr, ptr %82, align 8
  %84 = load i64, ptr %8, align 8
  %85 = getelementptr inbounds double, ptr %83, i64 %84
  %86 = load double, ptr %85, align 8
  %87 = load ptr, ptr %4, align 8
  %88 = getelementptr inbounds %struct.workload, ptr %87, i32 0, i32 4
  %89 = load ptr, ptr %88, align 8
  %90 = load i64, ptr %9, align 8
  %91 = getelementptr inbounds double, ptr %89, i64 %90
  %92 = load double, ptr %91, align 8
  %93 = fmul double %86, %92
  %94 = load double, ptr %7, align 8
  %95 = fadd double %94, %93
  store double %95, ptr %7, align 8
  br label %96

96:                                               ; preds = %64
  %97 = load i64, ptr %8, align 8
  %98 = add nsw i64 %97, 1
  store i64 %98, ptr %8, align 8
  br label %13

99:                                               ; preds = %13
  store i64 0, ptr %11, align 8
  br label %100

100:                                              ; preds = %145, %99
  %101 = load i64, ptr %11, align 8
  %102 = load ptr, ptr %3, align 8
  %103 = getelementptr inbounds %struct.running, ptr %102, i32 0, i32 0
  %104 = load i64, ptr %103, align 8
  %105 = icmp slt i64 %101, %104
  br i1 %105, label %106, label %148

106:                                              ; preds = %100
  %107 = load double, ptr %6, align 8
  %108 = load ptr, ptr %3, align 8
  %109 = getelementptr inbounds %struct.running, ptr %108, i32 0, i32 2
  %110 = load ptr, ptr %109, align 8
  %111 = load i64, ptr %11, align 8
  %112 = getelementptr inbounds double, ptr %110, i64 %111
  %113 = load double, ptr %112, align 8
  %114 = load ptr, ptr %4, align 8
  %115 = getelementptr inbounds %struct.workload, ptr %114, i32 0, i32 3
  %116 = load ptr, ptr %115, align 8
  %117 = load ptr, ptr %3, align 8
  %118 = getelementptr inbounds %struct.running, ptr %117, i32 0, i32 1
  %119 = load ptr, ptr %118, align 8
  %120 = load i64, ptr %11, align 8
  %121 = getelementptr inbounds i64, ptr %119, i64 %120
  %122 = load i64, ptr %121, align 8
  %123 = getelementptr inbounds double, ptr %116, i64 %122
  %124 = load double, ptr %123, align 8
  %125 = fmul double %113, %124
  %126 = fsub double %107, %125
  store double %126, ptr %12, align 8
  %127 = load double, ptr %12, align 8
  %128 = fadd double 1.000000e+00, %127
  %129 = load double, ptr %7, align 8
  %130 = fcmp ogt double %128, %129
  br i1 %130, label %131, label %134

131:                                              ; preds = %106
  %132 = load double, ptr %12, align 8
  %133 = fadd double 1.000000e+00, %132
  br label %136

134:                                              ; preds = %106
  %135 = load double, ptr %7, align 8
  br label %136

136:                                              ; preds = %134, %131
  %137 = phi double [ %133, %131 ], [ %135, %134 ]
  %138 = load ptr, ptr %3, align 8
  %139 = getelementptr inbounds %struct.running, ptr %138, i32 0, i32 2
  %140 = load ptr, ptr %139, align 8
  %141 = load i64, ptr %11, align 8
  %142 = getelementptr inbounds double, ptr %140, i64 %141
  %143 = load double, ptr %142, align 8
  %144 = fdiv double %143, %137
  store double %144, ptr %142, align 8
  br label %145

145:                                              ; preds = %136
  %146 = load i64, ptr %11, align 8
  %147 = add nsw i64 %146, 1
  store i64 %147, ptr %11, align 8
  br label %100

148:                                              ; preds = %100
  ret void
}

define internal i64 @next_end(ptr noundef %0, ptr noundef %1) {
  %3 = alloca ptr, align 8
  %4 = alloca ptr, align 8
  %5 = alloca i64, align 8
  %6 = alloca i64, align 8
  store ptr %0, ptr %3, align 8
  store ptr %1, ptr %4, align 8
  store i64 -1, ptr %5, align 8
  %7 = load ptr, ptr %4, align 8
  store double 0x7FF0000000000000, ptr %7, align 8
  store i64 0, ptr %6, align 8
  br label %8

8:                                                ; preds = %56, %2
  %9 = load i64, ptr %6, align 8
  %10 = load ptr, ptr %3, align 8
  %11 = getelementptr inbounds %struct.running, ptr %10, i32 0, i32 0
  %12 = load i64, ptr %11, align 8
  %13 = icmp slt i64 %9, %12
  br i1 %13, label %14, label %59

14:                                               ; preds = %8
  %15 = load ptr, ptr %3, align 8
  %16 = getelementptr inbounds %struct.running, ptr %15, i32 0, i32 2
  %17 = load ptr, ptr %16, align 8
  %18 = load i64, ptr %6, align 8
  %19 = getelementptr inbounds double, ptr %17, i64 %18
  %20 = load double, ptr %19, align 8
  %21 = fcmp ogt double %20, 0.000000e+00
  br i1 %21, label %22, label %39

22:                                               ; preds = %14
  %23 = load ptr, ptr %3, align 8
  %24 = getelementptr inbounds %struct.running, ptr %23, i32 0, i32 3
  %25 = load ptr, ptr %24, align 8
  %26 = load i64, ptr %6, align 8
  %27 = getelementptr inbounds double, ptr %25, i64 %26
  %28 = load double, ptr %27, align 8
  %29 = load ptr, ptr %3, align 8
  %30 = getelementptr inbounds %struct.running, ptr %29, i32 0, i32 2
  %31 = load ptr, ptr %30, align 8
  %32 = load i64, ptr %6, align 8
  %33 = getelementptr inbounds double, ptr %31, i64 %32
  %34 = load double, ptr %33, align 8
  %35 = fdiv double %28, %34
  %36 = load ptr, ptr %4, align 8
  %37 = load double, ptr %36, align 8
  %38 = fcmp olt double %35, %37
  br i1 %38, label %40, label %39

39:                                               ; preds = %22, %14
  br label %56

40:                                               ; preds = %22
  %41 = load ptr, ptr %3, align 8
  %42 = getelementptr inbounds %struct.running, ptr %41, i32 0, i32 3
  %43 = load ptr, ptr %42, align 8
  %44 = load i64, ptr %6, align 8
  %45 = getelementptr inbounds double, ptr %43, i64 %44
  %46 = load double, ptr %45, align 8
  %47 = load ptr, ptr %3, align 8
  %48 = getelementptr inbounds %struct.running, ptr %47, i32 0, i32 2
  %49 = load ptr, ptr %48, align 8
  %50 = load i64, ptr %6, align 8
  %51 = getelementptr inbounds double, ptr %49, i64 %50
  %52 = load double, ptr %51, align 8
  %53 = fdiv double %46, %52
  %54 = load ptr, ptr %4, align 8
  store double %53, ptr %54, align 8
  %55 = load i64, ptr %6, align 8
  store i64 %55, ptr %5, align 8
  br label %56

56:                                               ; preds = %40, %39
  %57 = load i64, ptr %6, align 8
  %58 = add nsw i64 %57, 1
  store i64 %58, ptr %6, align 8
  br label %8

59:                                               ; preds = %8
  %60 = load i64, ptr %5, align 8
  ret i64 %60
}

define internal double @until_start(ptr noundef %0, ptr noundef %1, double noundef %2, double noundef %3) {
  %5 = alloca double, align 8
  %6 = alloca ptr, align 8
  %7 = alloca ptr, align 8
  %8 = alloca double, align 8
  %9 = alloca double, align 8
  %10 = alloca i64, align 8
  %11 = alloca double, align 8
  store ptr %0, ptr %6, align 8
  store ptr %1, ptr %7, align 8
  store double %2, ptr %8, align 8
  store double %3, ptr %9, align 8
  %12 = load ptr, ptr %6, align 8
  %13 = getelementptr inbounds %struct.heap, ptr %12, i32 0, i32 0
  %14 = load i64, ptr %13, align 8
  %15 = icmp ne i64 %14, 0
  br i1 %15, label %17, label %16

16:                                               ; preds = %4
  store double 0x7FF0000000000000, ptr %5, align 8
  br label %67

17:                                               ; preds = %4
  %18 = load ptr, ptr %6, align 8
  %19 = getelementptr inbounds %struct.heap, ptr %18, i32 0, i32 1
  %20 = load ptr, ptr %19, align 8
  %21 = getelementptr inbounds i64, ptr %20, i64 0
  %22 = load i64, ptr %21, align 8
  store i64 %22, ptr %10, align 8
  %23 = load ptr, ptr %6, align 8
  %24 = getelementptr inbounds %struct.heap, ptr %23, i32 0, i32 3
  %25 = load ptr, ptr %24, align 8
  %26 = load i64, ptr %10, align 8
  %27 = getelementptr inbounds double, ptr %25, i64 %26
  %28 = load double, ptr %27, align 8
  %29 = load double, ptr %8, align 8
  %30 = fcmp ogt double %28, %29
  br i1 %30, label %31, label %38

31:                                               ; preds = %17
  %32 = load ptr, ptr %6, align 8
  %33 = getelementptr inbounds %struct.heap, ptr %32, i32 0, i32 3
  %34 = load ptr, ptr %33, align 8
  %35 = load i64, ptr %10, align 8
  %36 = getelementptr inbounds double, ptr %34, i64 %35
  %37 = load double, ptr %36, align 8
  br label %40

38:                                               ; preds = %17
  %39 = load double, ptr %8, align 8
  br label %40

40:                                               ; preds = %38, %31
  %41 = phi double [ %37, %31 ], [ %39, %38 ]
  store double %41, ptr %11, align 8
  %42 = load double, ptr %9, align 8
  %43 = load ptr, ptr %7, align 8
  %44 = getelementptr inbounds %struct.waits, ptr %43, i32 0, i32 2
  %45 = load ptr, ptr %44, align 8
  %46 = load i64, ptr %10, align 8
  %47 = getelementptr inbounds double, ptr %45, i64 %46
  %48 = load double, ptr %47, align 8
  %49 = fadd double %42, %48
  %50 = load double, ptr %11, align 8
  %51 = fcmp ogt double %49, %50
  br i1 %51, label %52, label %61

52:                                               ; preds = %40
  %53 = load double, ptr %9, align 8
  %54 = load ptr, ptr %7, align 8
  %55 = getelementptr inbounds %struct.waits, ptr %54, i32 0, i32 2
  %56 = load ptr, ptr %55, align 8
  %57 = load i64, ptr %10, align 8
  %58 = getelementptr inbounds double, ptr %56, i64 %57
  %59 = load double, ptr %58, align 8
  %60 = fadd double %53, %59
  br label %63

61:                                               ; preds = %40
  %62 = load double, ptr %11, align 8
  br label %63

63:                                               ; preds = %61, %52
  %64 = phi double [ %60, %52 ], [ %62, %61 ]
  %65 = load double, ptr %8, align 8
  %66 = fsub double %64, %65
  store double %66, ptr %5, align 8
  br label %67

67:                                               ; preds = %63, %16
  %68 = load double, ptr %5, align 8
  ret double %68
}

define internal i64 @pop(ptr noundef %0) {
  %2 = alloca ptr, align 8
  %3 = alloca i64, align 8
  %4 = alloca i64, align 8
  %5 = alloca i64, align 8
  %6 = alloca i64, align 8
  store ptr %0, ptr %2, align 8
  %7 = load ptr, ptr %2, align 8
  %8 = getelementptr inbounds %struct.heap, ptr %7, i32 0, i32 1
  %9 = load ptr, ptr %8, align 8
  %10 = getelementptr inbounds i64, ptr %9, i64 0
  %11 = load i64, ptr %10, align 8
  store i64 %11, ptr %3, align 8
  %12 = load ptr, ptr %2, align 8
  %13 = getelementptr inbounds %struct.heap, ptr %12, i32 0, i32 1
  %14 = load ptr, ptr %13, align 8
  %15 = load ptr, ptr %2, align 8
  %16 = getelementptr inbounds %struct.heap, ptr %15, i32 0, i32 0
  %17 = load i64, ptr %16, align 8
  %18 = add nsw i64 %17, -1
  store i64 %18, ptr %16, align 8
  %19 = getelementptr inbounds i64, ptr %14, i64 %18
  %20 = load i64, ptr %19, align 8
  store i64 %20, ptr %4, align 8
  store i64 0, ptr %5, align 8
  br label %21

21:                                               ; preds = %80, %1
  %22 = load i64, ptr %5, align 8
  %23 = mul nsw i64 2, %22
  %24 = add nsw i64 %23, 1
  store i64 %24, ptr %6, align 8
  %25 = load ptr, ptr %2, align 8
  %26 = getelementptr inbounds %struct.heap, ptr %25, i32 0, i32 0
  %27 = load i64, ptr %26, align 8
  %28 = icmp slt i64 %24, %27
  br i1 %28, label %29, label %82

29:                                               ; preds = %21
  %30 = load i64, ptr %6, align 8
  %31 = add nsw i64 %30, 1
  %32 = load ptr, ptr %2, align 8
  %33 = getelementptr inbounds %struct.heap, ptr %32, i32 0, i32 0
  %34 = load i64, ptr %33, align 8
  %35 = icmp slt i64 %31, %34
  br i1 %35, label %36, label %56

36:                                               ; preds = %29
  %37 = load ptr, ptr %2, align 8
  %38 = load ptr, ptr %2, align 8
  %39 = getelementptr inbounds %struct.heap, ptr %38, i32 0, i32 1
  %40 = load ptr, ptr %39, align 8
  %41 = load i64, ptr %6, align 8
  %42 = add nsw i64 %41, 1
  %43 = getelementptr inbounds i64, ptr %40, i64 %42
  %44 = load i64, ptr %43, align 8
  %45 = load ptr, ptr %2, align 8
  %46 = getelementptr inbounds %struct.heap, ptr %45, i32 0, i32 1
  %47 = load ptr, ptr %46, align 8
  %48 = load i64, ptr %6, align 8
  %49 = getelementptr inbounds i64, ptr %47, i64 %48
  %50 = load i64, ptr %49, align 8
  %51 = call i32 @starts_before(ptr noundef %37, i64 noundef %44, i64 noundef %50)
  %52 = icmp ne i32 %51, 0
  br i1 %52, label %53, label %56

53:                                               ; preds = %36
  %54 = load i64, ptr %6, align 8
  %55 = add nsw i64 %54, 1
  store i64 %55, ptr %6, align 8
  br label %56

56:                                               ; preds = %53, %36, %29
  %57 = load ptr, ptr %2, align 8
  %58 = load ptr, ptr %2, align 8
  %59 = getelementptr inbounds %struct.heap, ptr %58, i32 0, i32 1
  %60 = load ptr, ptr %59, align 8
  %61 = load i64, ptr %6, align 8
  %62 = getelementptr inbounds i64, ptr %60, i64 %61
  %63 = load i64, ptr %62, align 8
  %64 = load i64, ptr %4, align 8
  %65 = call i32 @starts_before(ptr noundef %57, i64 noundef %63, i64 noundef %64)
  %66 = icmp ne i32 %65, 0
  br i1 %66, label %68, label %67

67:                                               ; preds = %56
  br label %82

68:                                               ; preds = %56
  %69 = load ptr, ptr %2, align 8
  %70 = getelementptr inbounds %struct.heap, ptr %69, i32 0, i32 1
  %71 = load ptr, ptr %70, align 8
  %72 = load i64, ptr %6, align 8
  %73 = getelementptr inbounds i64, ptr %71, i64 %72
  %74 = load i64, ptr %73, align 8
  %75 = load ptr, ptr %2, align 8
  %76 = getelementptr inbounds %struct.heap, ptr %75, i32 0, i32 1
  %77 = load ptr, ptr %76, align 8
  %78 = load i64, ptr %5, align 8
  %79 = getelementptr inbounds i64, ptr %77, i64 %78
  store i64 %74, ptr %79, align 8
  br label %80

80:                                               ; preds = %68
  %81 = load i64, ptr %6, align 8
  store i64 %81, ptr %5, align 8
  br label %21

82:                                               ; preds = %67, %21
  %83 = load i64, ptr %4, align 8
  %84 = load ptr, ptr %2, align 8
  %85 = getelementptr inbounds %struct.heap, ptr %84, i32 0, i32 1
  %86 = load ptr, ptr %85, align 8
  %87 = load i64, ptr %5, align 8
  %88 = getelementptr inbounds i64, ptr %86, i64 %87
  store i64 %83, ptr %88, align 8
  %89 = load i64, ptr %3, align 8
  ret i64 %89
}

define internal i64 @take(ptr noundef %0, i64 noundef %1) {
  %3 = alloca ptr, align 8
  %4 = alloca i64, align 8
  %5 = alloca i64, align 8
  %6 = alloca i64, align 8
  store ptr %0, ptr %3, align 8
  store i64 %1, ptr %4, align 8
  %7 = load ptr, ptr %3, align 8
  %8 = getelementptr inbounds %struct.running, ptr %7, i32 0, i32 1
  %9 = load ptr, ptr %8, align 8
  %10 = load i64, ptr %4, align 8
  %11 = getelementptr inbounds i64, ptr %9, i64 %10
  %12 = load i64, ptr %11, align 8
  store i64 %12, ptr %5, align 8
  %13 = load i64, ptr %4, align 8
  store i64 %13, ptr %6, align 8
  br label %14

14:                                               ; preds = %46, %2
  %15 = load i64, ptr %6, align 8
  %16 = add nsw i64 %15, 1
  %17 = load ptr, ptr %3, align 8
  %18 = getelementptr inbounds %struct.running, ptr %17, i32 0, i32 0
  %19 = load i64, ptr %18, align 8
  %20 = icmp slt i64 %16, %19
  br i1 %20, label %21, label %49

21:                                               ; preds = %14
  %22 = load ptr, ptr %3, align 8
  %23 = getelementptr inbounds %struct.running, ptr %22, i32 0, i32 1
  %24 = load ptr, ptr %23, align 8
  %25 = load i64, ptr %6, align 8
  %26 = add nsw i64 %25, 1
  %27 = getelementptr inbounds i64, ptr %24, i64 %26
  %28 = load i64, ptr %27, align 8
  %29 = load ptr, ptr %3, align 8
  %30 = getelementptr inbounds %struct.running, ptr %29, i32 0, i32 1
  %31 = load ptr, ptr %30, align 8
  %32 = load i64, ptr %6, align 8
  %33 = getelementptr inbounds i64, ptr %31, i64 %32
  store i64 %28, ptr %33, align 8
  %34 = load ptr, ptr %3, align 8
  %35 = getelementptr inbounds %struct.running, ptr %34, i32 0, i32 3
  %36 = load ptr, ptr %35, align 8
  %37 = load i64, ptr %6, align 8
  %38 = add nsw i64 %37, 1
  %39 = getelementptr inbounds double, ptr %36, i64 %38
  %40 = load double, ptr %39, align 8
  %41 = load ptr, ptr %3, align 8
  %42 = getelementptr inbounds %struct.running, ptr %41, i32 0, i32 3
  %43 = load ptr, ptr %42, align 8
  %44 = load i64, ptr %6, align 8
  %45 = getelementptr inbounds double, ptr %43, i64 %44
  store double %40, ptr %45, align 8
  br label %46

46:                                               ; preds = %21
  %47 = load i64, ptr %6, align 8
  %48 = add nsw i64 %47, 1
  store i64 %48, ptr %6, align 8
  br label %14

49:                                               ; preds = %14
  %50 = load ptr, ptr %3, align 8
  %51 = getelementptr inbounds %struct.running, ptr %50, i32 0, i32 0
  %52 = load i64, ptr %51, align 8
  %53 = add nsw i64 %52, -1
  store i64 %53, ptr %51, align 8
  %54 = load i64, ptr %5, align 8
  ret i64 %54
}

define internal void @partition_ends(i64 noundef %0, ptr noundef %1, ptr noundef %2, ptr noundef %3) {
  %5 = alloca i64, align 8
  %6 = alloca ptr, align 8
  %7 = alloca ptr, align 8
  %8 = alloca ptr, align 8
  %9 = alloca i64, align 8
  %10 = alloca i64, align 8
  store i64 %0, ptr %5, align 8
  store ptr %1, ptr %6, align 8
  store ptr %2, ptr %7, align 8
  store ptr %3, ptr %8, align 8
  store i64 0, ptr %9, align 8
  br label %11

11:                                               ; preds = %38, %4
  %12 = load i64, ptr %9, align 8
  %13 = load i64, ptr %5, align 8
  %14 = icmp slt i64 %12, %13
  br i1 %14, label %15, label %41

15:                                               ; preds = %11
  %16 = load i64, ptr %9, align 8
  %17 = icmp ne i64 %16, 0
  br i1 %17, label %18, label %31

18:                                               ; preds = %15
  %19 = load ptr, ptr %6, align 8
  %20 = load i64, ptr %9, align 8
  %21 = getelementptr inbounds i8, ptr %19, i64 %20
  %22 = load i8, ptr %21, align 1
  %23 = zext i8 %22 to i32
  %24 = icmp ne i32 %23, 0
  br i1 %24, label %25, label %31

25:                                               ; preds = %18
  %26 = load ptr, ptr %7, align 8
  %27 = load i64, ptr %9, align 8
  %28 = sub nsw i64 %27, 1
  %29 = getelementptr inbounds i64, ptr %26, i64 %28
  %30 = load i64, ptr %29, align 8
  br label %33

31:                                               ; preds = %18, %15
  %32 = load i64, ptr %9, align 8
  br label %33

33:                                               ; preds = %31, %25
  %34 = phi i64 [ %30, %25 ], [ %32, %31 ]
  %35 = load ptr, ptr %7, align 8
  %36 = load i64, ptr %9, align 8
  %37 = getelementptr inbounds i64, ptr %35, i64 %36
  store i64 %34, ptr %37, align 8
  br label %38

38:                                               ; preds = %33
  %39 = load i64, ptr %9, align 8
  %40 = add nsw i64 %39, 1
  store i64 %40, ptr %9, align 8
  br label %11

41:                                               ; preds = %11
  %42 = load i64, ptr %5, align 8
  %43 = sub nsw i64 %42, 1
  store i64 %43, ptr %10, align 8
  br label %44

44:                                               ; preds = %73, %41
  %45 = load i64, ptr %10, align 8
  %46 = icmp sge i64 %45, 0
  br i1 %46, label %47, label %76

47:                                               ; preds = %44
  %48 = load i64, ptr %10, align 8
  %49 = add nsw i64 %48, 1
  %50 = load i64, ptr %5, align 8
  %51 = icmp slt i64 %49, %50
  br i1 %51, label %52, label %66

52:                                               ; preds = %47
  %53 = load ptr, ptr %6, align 8
  %54 = load i64, ptr %10, align 8
  %55 = add nsw i64 %54, 1
  %56 = getelementptr inbounds i8, ptr %53, i64 %55
  %57 = load i8, ptr %56, align 1
  %58 = zext i8 %57 to i32
  %59 = icmp ne i32 %58, 0
  br i1 %59, label %60, label %66

60:                                               ; preds = %52
  %61 = load ptr, ptr %8, align 8
  %62 = load i64, ptr %10, align 8
  %63 = add nsw i64 %62, 1
  %64 = getelementptr inbounds i64, ptr %61, i64 %63
  %65 = load i64, ptr %64, align 8
  br label %68

66:                                               ; preds = %52, %47
  %67 = load i64, ptr %10, align 8
  br label %68

68:                                               ; preds = %66, %60
  %69 = phi i64 [ %65, %60 ], [ %67, %66 ]
  %70 = load ptr, ptr %8, align 8
  %71 = load i64, ptr %10, align 8
  %72 = getelementptr inbounds i64, ptr %70, i64 %71
  store i64 %69, ptr %72, align 8
  br label %73

73:                                               ; preds = %68
  %74 = load i64, ptr %10, align 8
  %75 = add nsw i64 %74, -1
  store i64 %75, ptr %10, align 8
  br label %44

76:                                               ; preds = %44
  ret void
}

declare ptr @malloc(i64 noundef)

declare void @abort()

declare void @qsort(ptr noundef, i64 noundef, i64 noundef, ptr noundef)

define internal i32 @descending(ptr noundef %0, ptr noundef %1) {
  %3 = alloca ptr, align 8
  %4 = alloca ptr, align 8
  %5 = alloca i64, align 8
  %6 = alloca i64, align 8
  store ptr %0, ptr %3, align 8
  store ptr %1, ptr %4, align 8
  %7 = load ptr, ptr %3, align 8
  %8 = load i64, ptr %7, align 8
  store i64 %8, ptr %5, align 8
  %9 = load ptr, ptr %4, align 8
  %10 = load i64, ptr %9, align 8
  store i64 %10, ptr %6, align 8
  %11 = load i64, ptr %5, align 8
  %12 = load i64, ptr %6, align 8
  %13 = icmp slt i64 %11, %12
  %14 = zext i1 %13 to i32
  %15 = load i64, ptr %5, align 8
  %16 = load i64, ptr %6, align 8
  %17 = icmp sgt i64 %15, %16
  %18 = zext i1 %17 to i32
  %19 = sub nsw i32 %14, %18
  ret i32 %19
}

define internal void @legal_places(i64 noundef %0, ptr noundef %1, i64 noundef %2, ptr noundef %3, ptr noundef %4, ptr noundef %5, ptr noundef %6, ptr noundef %7) {
  %9 = alloca i64, align 8
  %10 = alloca ptr, align 8
  %11 = alloca i64, align 8
  %12 = alloca ptr, align 8
  %13 = alloca ptr, align 8
  %14 = alloca ptr, align 8
  %15 = alloca ptr, align 8
  %16 = alloca ptr, align 8
  %17 = alloca i64, align 8
  %18 = alloca i64, align 8
  %19 = alloca i64, align 8
  %20 = alloca i64, align 8
  %21 = alloca i64, align 8
  %22 = alloca i64, align 8
  store i64 %0, ptr %9, align 8
  store ptr %1, ptr %10, align 8
  store i64 %2, ptr %11, align 8
  store ptr %3, ptr %12, align 8
  store ptr %4, ptr %13, align 8
  store ptr %5, ptr %14, align 8
  store ptr %6, ptr %15, align 8
  store ptr %7, ptr %16, align 8
  %23 = load ptr, ptr %15, align 8
  store i64 0, ptr %23, align 8
  %24 = load i64, ptr %11, align 8
  %25 = sub nsw i64 %24, 1
  %26 = load ptr, ptr %16, align 8
  store i64 %25, ptr %26, align 8
  %27 = load i64, ptr %9, align 8
  store i64 %27, ptr %17, align 8
  br label %28

28:                                               ; preds = %150, %8
  %29 = load i64, ptr %17, align 8
  %30 = load ptr, ptr %12, align 8
  %31 = getelementptr inbounds %struct.partitions, ptr %30, i32 0, i32 2
  %32 = load ptr, ptr %31, align 8
  %33 = load i64, ptr %9, align 8
  %34 = getelementptr inbounds i64, ptr %32, i64 %33
  %35 = load i64, ptr %34, align 8
  %36 = icmp sle i64 %29, %35
  br i1 %36, label %37, label %153

37:                                               ; preds = %28
  %38 = load ptr, ptr %10, align 8
  %39 = getelementptr inbounds %struct.state, ptr %38, i32 0, i32 0
  %40 = load ptr, ptr %39, align 8
  %41 = load i64, ptr %17, align 8
  %42 = getelementptr inbounds i64, ptr %40, i64 %41
  %43 = load i64, ptr %42, align 8
  store i64 %43, ptr %18, align 8
  %44 = load ptr, ptr %13, align 8
  %45 = getelementptr inbounds %struct.lists, ptr %44, i32 0, i32 0
  %46 = load ptr, ptr %45, align 8
  %47 = load i64, ptr %18, align 8
  %48 = getelementptr inbounds i64, ptr %46, i64 %47
  %49 = load i64, ptr %48, align 8
  store i64 %49, ptr %19, align 8
  br label %50

50:                                               ; preds = %93, %37
  %51 = load i64, ptr %19, align 8
  %52 = load ptr, ptr %13, align 8
  %53 = getelementptr inbounds %struct.lists, ptr %52, i32 0, i32 0
  %54 = load ptr, ptr %53, align 8
  %55 = load i64, ptr %18, align 8
  %56 = add nsw i64 %55, 1
  %57 = getelementptr inbounds i64, ptr %54, i64 %56
  %58 = load i64, ptr %57, align 8
  %59 = icmp slt i64 %51, %58
  br i1 %59, label %60, label %96

60:                                               ; preds = %50
  %61 = load ptr, ptr %12, align 8
  %62 = getelementptr inbounds %struct.partitions, ptr %61, i32 0, i32 0
  %63 = load ptr, ptr %62, align 8
  %64 = load ptr, ptr %13, align 8
  %65 = getelementptr inbounds %struct.lists, ptr %64, i32 0, i32 1
  %66 = load ptr, ptr %65, align 8
  %67 = load i64, ptr %19, align 8
  %68 = getelementptr inbounds i64, ptr %66, i64 %67
  %69 = load i64, ptr %68, align 8
  %70 = getelementptr inbounds i64, ptr %63, i64 %69
  %71 = load i64, ptr %70, align 8
  store i64 %71, ptr %20, align 8
  %72 = load ptr, ptr %12, align 8
  %73 = getelementptr inbounds %struct.partitions, ptr %72, i32 0, i32 1
  %74 = load ptr, ptr %73, align 8
  %75 = load i64, ptr %20, align 8
  %76 = getelementptr inbounds i64, ptr %74, i64 %75
  %77 = load i64, ptr %76, align 8
  %78 = load i64, ptr %9, align 8
  %79 = icmp ne i64 %77, %78
  br i1 %79, label %80, label %92

80:                                               ; preds = %60
  %81 = load ptr, ptr %15, align 8
  %82 = load i64, ptr %81, align 8
  %83 = load ptr, ptr %12, align 8
  %84 = getelementptr inbounds %struct.partitions, ptr %83, i32 0, i32 2
  %85 = load ptr, ptr %84, align 8
  %86 = load i64, ptr %20, align 8
  %87 = getelementptr inbounds i64, ptr %85, i64 %86
  %88 = load i64, ptr %87, align 8
  %89 = add nsw i64 %88, 1
  %90 = call i64 @larger(i64 noundef %82, i64 noundef %89)
  %91 = load ptr, ptr %15, align 8
  store i64 %90, ptr %91, align 8
  br label %92

92:                                               ; preds = %80, %60
  br label %93

93:                                               ; preds = %92
  %94 = load i64, ptr %19, align 8
  %95 = add nsw i64 %94, 1
  store i64 %95, ptr %19, align 8
  br label %50

96:                                               ; preds = %50
  %97 = load ptr, ptr %14, align 8
  %98 = getelementptr inbounds %struct.lists, ptr %97, i32 0, i32 0
  %99 = load ptr, ptr %98, align 8
  %100 = load i64, ptr %18, align 8
  %101 = getelementptr inbounds i64, ptr %99, i64 %100
  %102 = load i64, ptr %101, align 8
  store i64 %102, ptr %21, align 8
  br label %103

103:                                              ; preds = %146, %96
  %104 = load i64, ptr %21, align 8
  %105 = load ptr, ptr %14, align 8
  %106 = getelementptr inbounds %struct.lists, ptr %105, i32 0, i32 0
  %107 = load ptr, ptr %106, align 8
  %108 = load i64, ptr %18, align 8
  %109 = add nsw i64 %108, 1
  %110 = getelementptr inbounds i64, ptr %107, i64 %109
  %111 = load i64, ptr %110, align 8
  %112 = icmp slt i64 %104, %111
  br i1 %112, label %113, label %149

113:                                              ; preds = %103
  %114 = load ptr, ptr %12, align 8
  %115 = getelementptr inbounds %struct.partitions, ptr %114, i32 0, i32 0
  %116 = load ptr, ptr %115, align 8
  %117 = load ptr, ptr %14, align 8
  %118 = getelementptr inbounds %struct.lists, ptr %117, i32 0, i32 1
  %119 = load ptr, ptr %118, align 8
  %120 = load i64, ptr %21, align 8
  %121 = getelementptr inbounds i64, ptr %119, i64 %120
  %122 = load i64, ptr %121, align 8
  %123 = getelementptr inbounds i64, ptr %116, i64 %122
  %124 = load i64, ptr %123, align 8
  store i64 %124, ptr %22, align 8
  %125 = load ptr, ptr %12, align 8
  %126 = getelementptr inbounds %struct.partitions, ptr %125, i32 0, i32 1
  %127 = load ptr, ptr %126, align 8
  %128 = load i64, ptr %22, align 8
  %129 = getelementptr inbounds i64, ptr %127, i64 %128
  %130 = load i64, ptr %129, align 8
  %131 = load i64, ptr %9, align 8
  %132 = icmp ne i64 %130, %131
  br i1 %132, label %133, label %145

133:                                              ; preds = %113
  %134 = load ptr, ptr %16, align 8
  %135 = load i64, ptr %134, align 8
  %136 = load ptr, ptr %12, align 8
  %137 = getelementptr inbounds %struct.partitions, ptr %136, i32 0, i32 1
  %138 = load ptr, ptr %137, align 8
  %139 = load i64, ptr %22, align 8
  %140 = getelementptr inbounds i64, ptr %138, i64 %139
  %141 = load i64, ptr %140, align 8
  %142 = sub nsw i64 %141, 1
  %143 = call i64 @smaller(i64 noundef %135, i64 noundef %142)
  %144 = load ptr, ptr %16, align 8
  store i64 %143, ptr %144, align 8
  br label %145

145:                                              ; preds = %133, %113
  br label %146

146:                                              ; preds = %145
  %147 = load i64, ptr %21, align 8
  %148 = add nsw i64 %147, 1
  store i64 %148, ptr %21, align 8
  br label %103

149:                                              ; preds = %103
  br label %150

150:                                              ; preds = %149
  %151 = load i64, ptr %17, align 8
  %152 = add nsw i64 %151, 1
  store i64 %152, ptr %17, align 8
  br label %28

153:                                              ; preds = %28
  ret void
}

define internal void @shift(i64 noundef %0, i64 noundef %1, i64 noundef %2, ptr noundef %3) {
  %5 = alloca i64, align 8
  %6 = alloca i64, align 8
  %7 = alloca i64, align 8
  %8 = alloca ptr, align 8
  %9 = alloca i64, align 8
  %10 = alloca i64, align 8
  %11 = alloca i64, align 8
  store i64 %0, ptr %5, align 8
  store i64 %1, ptr %6, align 8
  store i64 %2, ptr %7, align 8
  store ptr %3, ptr %8, align 8
  %12 = load i64, ptr %5, align 8
  %13 = load i64, ptr %7, align 8
  %14 = call i64 @smaller(i64 noundef %12, i64 noundef %13)
  store i64 %14, ptr %9, align 8
  %15 = load i64, ptr %6, align 8
  %16 = load i64, ptr %7, align 8
  %17 = call i64 @larger(i64 noundef %15, i64 noundef %16)
  %18 = add nsw i64 %17, 1
  store i64 %18, ptr %10, align 8
  %19 = load i64, ptr %7, align 8
  %20 = load i64, ptr %5, align 8
  %21 = icmp slt i64 %19, %20
  br i1 %21, label %22, label %24

22:                                               ; preds = %4
  %23 = load i64, ptr %5, align 8
  br label %27

24:                                               ; preds = %4
  %25 = load i64, ptr %6, align 8
  %26 = add nsw i64 %25, 1
  br label %27

27:                                               ; preds = %24, %22
  %28 = phi i64 [ %23, %22 ], [ %26, %24 ]
  store i64 %28, ptr %11, align 8
  %29 = load ptr, ptr %8, align 8
  %30 = getelementptr inbounds %struct.state, ptr %29, i32 0, i32 0
  %31 = load ptr, ptr %30, align 8
  %32 = load i64, ptr %9, align 8
  %33 = load i64, ptr %11, align 8
  %34 = load i64, ptr %10, align 8
  call void @rotate(ptr noundef %31, i64 noundef 8, i64 noundef %32, i64 noundef %33, i64 noundef %34)
  %35 = load ptr, ptr %8, align 8
  %36 = getelementptr inbounds %struct.state, ptr %35, i32 0, i32 2
  %37 = load ptr, ptr %36, align 8
  %38 = load i64, ptr %9, align 8
  %39 = load i64, ptr %11, align 8
  %40 = load i64, ptr %10, align 8
  call void @rotate(ptr noundef %37, i64 noundef 1, i64 noundef %38, i64 noundef %39, i64 noundef %40)
  ret void
}

define internal i64 @smaller(i64 noundef %0, i64 noundef %1) {
  %3 = alloca i64, align 8
  %4 = alloca i64, align 8
  store i64 %0, ptr %3, align 8
  store i64 %1, ptr %4, align 8
  %5 = load i64, ptr %3, align 8
  %6 = load i64, ptr %4, align 8
  %7 = icmp slt i64 %5, %6
  br i1 %7, label %8, label %10

8:                                                ; preds = %2
  %9 = load i64, ptr %3, align 8
  br label %12

10:                                               ; preds = %2
  %11 = load i64, ptr %4, align 8
  br label %12

12:                                               ; preds = %10, %8
  %13 = phi i64 [ %9, %8 ], [ %11, %10 ]
  ret i64 %13
}

define internal void @rotate(ptr noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) {
  %6 = alloca ptr, align 8
  %7 = alloca i64, align 8
  %8 = alloca i64, align 8
  %9 = alloca i64, align 8
  %10 = alloca i64, align 8
  %11 = alloca ptr, align 8
  %12 = alloca i64, align 8
  %13 = alloca i64, align 8
  %14 = alloca ptr, align 8
  store ptr %0, ptr %6, align 8
  store i64 %1, ptr %7, align 8
  store i64 %2, ptr %8, align 8
  store i64 %3, ptr %9, align 8
  store i64 %4, ptr %10, align 8
  %15 = load ptr, ptr %6, align 8
  %16 = load i64, ptr %8, align 8
  %17 = load i64, ptr %7, align 8
  %18 = mul i64 %16, %17
  %19 = getelementptr inbounds i8, ptr %15, i64 %18
  store ptr %19, ptr %11, align 8
  %20 = load i64, ptr %9, align 8
  %21 = load i64, ptr %8, align 8
  %22 = sub nsw i64 %20, %21
  %23 = load i64, ptr %7, align 8
  %24 = mul i64 %22, %23
  store i64 %24, ptr %12, align 8
  %25 = load i64, ptr %10, align 8
  %26 = load i64, ptr %9, align 8
  %27 = sub nsw i64 %25, %26
  %28 = load i64, ptr %7, align 8
  %29 = mul i64 %27, %28
  store i64 %29, ptr %13, align 8
  %30 = load i64, ptr %9, align 8
  %31 = load i64, ptr %8, align 8
  %32 = sub nsw i64 %30, %31
  %33 = load i64, ptr %7, align 8
  %34 = call ptr @allocate(i64 noundef %32, i64 noundef %33)
  store ptr %34, ptr %14, align 8
  %35 = load ptr, ptr %14, align 8
  %36 = load ptr, ptr %11, align 8
  %37 = load i64, ptr %12, align 8
  %38 = call ptr @memmove(ptr noundef %35, ptr noundef %36, i64 noundef %37)
  %39 = load ptr, ptr %11, align 8
  %40 = load ptr, ptr %11, align 8
  %41 = load i64, ptr %12, align 8
  %42 = getelementptr inbounds i8, ptr %40, i64 %41
  %43 = load i64, ptr %13, align 8
  %44 = call ptr @memmove(ptr noundef %39, ptr noundef %42, i64 noundef %43)
  %45 = load ptr, ptr %11, align 8
  %46 = load i64, ptr %13, align 8
  %47 = getelementptr inbounds i8, ptr %45, i64 %46
  %48 = load ptr, ptr %14, align 8
  %49 = load i64, ptr %12, align 8
  %50 = call ptr @memmove(ptr noundef %47, ptr noundef %48, i64 noundef %49)
  %51 = load ptr, ptr %14, align 8
  call void @free(ptr noundef %51)
  ret void
}

declare void @llvm.memset.p0.i64(ptr nocapture writeonly, i8, i64, i1 immarg)
