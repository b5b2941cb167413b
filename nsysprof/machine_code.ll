; made by scripts/build_machine_code of machine_code.c with SHA-256 af4924a936efe3c6e5fe3fe8ffc184b08d7338eae7547444b0198f1a765d5ce7

%struct.numbers = type { ptr, i64, i64 }
%struct.open_ranges = type { i64, i64, i64, i64, i64, i64, i64 }
%struct.of_instance = type { i64, i64, i64, i64, i64, i64 }
%struct.of_group = type { i64, i64, i64, i64, i64, i64, i64, i64, i64, i64, i64, i64 }
%struct.pieces = type { ptr, ptr, ptr, i64, i64, ptr, ptr, i64, ptr }
%struct.holds = type { ptr, ptr, ptr, ptr, ptr, ptr }

@SIZES = internal constant [12 x i64] [i64 0, i64 1, i64 2, i64 3, i64 4, i64 6, i64 8, i64 8, i64 0, i64 0, i64 -1, i64 -1], align 16

define i64 @decode(ptr %0, i64 %1, i64 %2, i64 %3, ptr %4, i64 %5, ptr %6, ptr %7, i64 %8, ptr %9, i64 %10, i64 %11) {
  %13 = icmp sgt i64 %1, 0
  br i1 %13, label %14, label %296

14:
  %15 = add i64 %3, -35
  %16 = icmp sgt i64 %5, 0
  %17 = add i64 %10, -1
  %18 = mul i64 %17, %11
  %19 = getelementptr i64, ptr %9, i64 %18
  br label %20

20:
  %21 = phi i64 [ 8, %14 ], [ %294, %290 ]
  %22 = phi i64 [ 7, %14 ], [ %293, %290 ]
  %23 = phi i64 [ 0, %14 ], [ %291, %290 ]
  %24 = phi i64 [ 0, %14 ], [ %292, %290 ]
  %25 = mul i64 %24, %2
  %26 = add i64 %25, %3
  %27 = getelementptr i8, ptr %0, i64 %25
  %28 = getelementptr i8, ptr %27, i64 3
  %29 = load i8, ptr %28, align 1
  %30 = zext i8 %29 to i64
  %31 = shl i64 %30, 8
  %32 = getelementptr i8, ptr %27, i64 4
  %33 = load i8, ptr %32, align 1
  %34 = zext i8 %33 to i64
  %35 = or i64 %31, %34
  %36 = add i64 %25, 8
  %37 = shl i64 %35, 1
  %38 = add i64 %37, %36
  %39 = load i8, ptr %27, align 1
  %40 = icmp ne i8 %39, 13
  %41 = icmp sgt i64 %38, %26
  %42 = select i1 %40, i1 true, i1 %41
  %43 = add i64 %35, %23
  %44 = icmp sgt i64 %43, %11
  %45 = or i64 %35, %8
  %46 = icmp eq i64 %45, 0
  %47 = or i1 %44, %46
  %48 = select i1 %42, i1 true, i1 %47
  br i1 %48, label %296, label %49

49:
  %50 = icmp eq i64 %35, 0
  br i1 %50, label %290, label %51

51:
  %52 = getelementptr i64, ptr %6, i64 %24
  %53 = load i64, ptr %52, align 8
  %54 = icmp eq i64 %53, -9223372036854775808
  %55 = getelementptr i8, ptr %0, i64 %36
  %56 = getelementptr i64, ptr %7, i64 %24
  %57 = or i64 %31, %34
  %58 = getelementptr i8, ptr %0, i64 %21
  br label %59

59:
  %60 = phi i64 [ %23, %51 ], [ %287, %285 ]
  %61 = phi i64 [ %53, %51 ], [ %137, %285 ]
  %62 = phi i1 [ %54, %51 ], [ false, %285 ]
  %63 = phi i64 [ 0, %51 ], [ %288, %285 ]
  %64 = shl i64 %63, 1
  %65 = getelementptr i8, ptr %55, i64 %64
  %66 = load i8, ptr %65, align 1
  %67 = zext i8 %66 to i64
  %68 = shl i64 %67, 8
  %69 = getelementptr i8, ptr %65, i64 1
  %70 = load i8, ptr %69, align 1
  %71 = zext i8 %70 to i64
  %72 = or i64 %68, %71
  %73 = add i64 %72, %25
  %74 = icmp sge i64 %73, %38
  %75 = icmp slt i64 %73, %26
  %76 = and i1 %74, %75
  br i1 %76, label %77, label %296

77:
  %78 = add i64 %22, %68
  %79 = add i64 %78, %71
  br label %83

80:
  %81 = add i32 %84, 1
  %82 = icmp eq i32 %81, 8
  br i1 %82, label %95, label %83

83:
  %84 = phi i32 [ %81, %80 ], [ 0, %77 ]
  %85 = phi i64 [ %93, %80 ], [ 0, %77 ]
  %86 = phi i64 [ %87, %80 ], [ %73, %77 ]
  %87 = add i64 %86, 1
  %88 = getelementptr i8, ptr %0, i64 %86
  %89 = load i8, ptr %88, align 1
  %90 = shl i64 %85, 7
  %91 = and i8 %89, 127
  %92 = zext i8 %91 to i64
  %93 = or i64 %90, %92
  %94 = icmp slt i8 %89, 0
  br i1 %94, label %80, label %103

95:
  %96 = shl i64 %93, 8
  %97 = add i64 %79, 2
  %98 = getelementptr i8, ptr %58, i64 %68
  %99 = getelementptr i8, ptr %98, i64 %71
  %100 = load i8, ptr %99, align 1
  %101 = zext i8 %100 to i64
  %102 = or i64 %96, %101
  br label %103

103:
  %104 = phi i64 [ %97, %95 ], [ %87, %83 ]
  %105 = phi i64 [ %102, %95 ], [ %93, %83 ]
  %106 = add i64 %73, 3
  %107 = icmp sgt i64 %104, %106
  %108 = icmp slt i64 %105, 1
  %109 = icmp sgt i64 %105, %15
  %110 = or i1 %108, %109
  %111 = select i1 %107, i1 true, i1 %110
  br i1 %111, label %296, label %115

112:
  %113 = add i32 %116, 1
  %114 = icmp eq i32 %113, 8
  br i1 %114, label %127, label %115

115:
  %116 = phi i32 [ %113, %112 ], [ 0, %103 ]
  %117 = phi i64 [ %125, %112 ], [ 0, %103 ]
  %118 = phi i64 [ %119, %112 ], [ %104, %103 ]
  %119 = add i64 %118, 1
  %120 = getelementptr i8, ptr %0, i64 %118
  %121 = load i8, ptr %120, align 1
  %122 = shl i64 %117, 7
  %123 = and i8 %121, 127
  %124 = zext i8 %123 to i64
  %125 = or i64 %122, %124
  %126 = icmp slt i8 %121, 0
  br i1 %126, label %112, label %135

127:
  %128 = shl i64 %125, 8
  %129 = add i64 %104, 9
  %130 = getelementptr i8, ptr %0, i64 %104
  %131 = getelementptr i8, ptr %130, i64 8
  %132 = load i8, ptr %131, align 1
  %133 = zext i8 %132 to i64
  %134 = or i64 %128, %133
  br label %135

135:
  %136 = phi i64 [ %129, %127 ], [ %119, %115 ]
  %137 = phi i64 [ %134, %127 ], [ %125, %115 ]
  %138 = add i64 %136, %105
  %139 = icmp sle i64 %138, %26
  %140 = icmp sgt i64 %137, %61
  %141 = select i1 %140, i1 true, i1 %62
  %142 = select i1 %139, i1 %141, i1 false
  br i1 %142, label %143, label %296

143:
  %144 = load i64, ptr %56, align 8
  %145 = icmp sgt i64 %137, %144
  br i1 %145, label %296, label %149

146:
  %147 = add i32 %150, 1
  %148 = icmp eq i32 %147, 8
  br i1 %148, label %161, label %149

149:
  %150 = phi i32 [ %147, %146 ], [ 0, %143 ]
  %151 = phi i64 [ %159, %146 ], [ 0, %143 ]
  %152 = phi i64 [ %153, %146 ], [ %136, %143 ]
  %153 = add i64 %152, 1
  %154 = getelementptr i8, ptr %0, i64 %152
  %155 = load i8, ptr %154, align 1
  %156 = shl i64 %151, 7
  %157 = and i8 %155, 127
  %158 = zext i8 %157 to i64
  %159 = or i64 %156, %158
  %160 = icmp slt i8 %155, 0
  br i1 %160, label %146, label %169

161:
  %162 = shl i64 %159, 8
  %163 = add i64 %136, 9
  %164 = getelementptr i8, ptr %0, i64 %136
  %165 = getelementptr i8, ptr %164, i64 8
  %166 = load i8, ptr %165, align 1
  %167 = zext i8 %166 to i64
  %168 = or i64 %162, %167
  br label %169

169:
  %170 = phi i64 [ %163, %161 ], [ %153, %149 ]
  %171 = phi i64 [ %168, %161 ], [ %159, %149 ]
  %172 = icmp slt i64 %171, 1
  %173 = icmp sgt i64 %171, %105
  %174 = select i1 %172, i1 true, i1 %173
  br i1 %174, label %296, label %175

175:
  %176 = add i64 %171, %136
  %177 = getelementptr i64, ptr %9, i64 %60
  br i1 %16, label %178, label %277

178:
  %179 = phi i64 [ %275, %273 ], [ 0, %175 ]
  %180 = phi i64 [ %274, %273 ], [ %176, %175 ]
  %181 = phi i64 [ %207, %273 ], [ %170, %175 ]
  %182 = icmp slt i64 %181, %176
  br i1 %182, label %186, label %296

183:
  %184 = add i32 %187, 1
  %185 = icmp eq i32 %184, 8
  br i1 %185, label %198, label %186

186:
  %187 = phi i32 [ %184, %183 ], [ 0, %178 ]
  %188 = phi i64 [ %196, %183 ], [ 0, %178 ]
  %189 = phi i64 [ %190, %183 ], [ %181, %178 ]
  %190 = add i64 %189, 1
  %191 = getelementptr i8, ptr %0, i64 %189
  %192 = load i8, ptr %191, align 1
  %193 = shl i64 %188, 7
  %194 = and i8 %192, 127
  %195 = zext i8 %194 to i64
  %196 = or i64 %193, %195
  %197 = icmp slt i8 %192, 0
  br i1 %197, label %183, label %206

198:
  %199 = shl i64 %196, 8
  %200 = add i64 %181, 9
  %201 = getelementptr i8, ptr %0, i64 %181
  %202 = getelementptr i8, ptr %201, i64 8
  %203 = load i8, ptr %202, align 1
  %204 = zext i8 %203 to i64
  %205 = or i64 %199, %204
  br label %206

206:
  %207 = phi i64 [ %200, %198 ], [ %190, %186 ]
  %208 = phi i64 [ %205, %198 ], [ %196, %186 ]
  %209 = icmp slt i64 %208, 0
  br i1 %209, label %296, label %210

210:
  %211 = icmp ult i64 %208, 12
  br i1 %211, label %212, label %215

212:
  %213 = getelementptr i64, ptr @SIZES, i64 %208
  %214 = load i64, ptr %213, align 8
  br label %218

215:
  %216 = add i64 %208, -12
  %217 = lshr i64 %216, 1
  br label %218

218:
  %219 = phi i64 [ %214, %212 ], [ %217, %215 ]
  %220 = icmp slt i64 %219, 0
  %221 = sub i64 %138, %180
  %222 = icmp sgt i64 %219, %221
  %223 = select i1 %220, i1 true, i1 %222
  br i1 %223, label %296, label %224

224:
  %225 = getelementptr i64, ptr %4, i64 %179
  %226 = load i64, ptr %225, align 8
  %227 = icmp sgt i64 %226, -1
  br i1 %227, label %228, label %273

228:
  %229 = getelementptr i8, ptr %0, i64 %180
  %230 = and i64 %208, 9223372036854775806
  %231 = icmp eq i64 %230, 8
  br i1 %231, label %232, label %234

232:
  %233 = add i64 %208, -8
  br label %269

234:
  %235 = add i64 %208, -12
  %236 = icmp ult i64 %235, -11
  br i1 %236, label %269, label %237

237:
  %238 = load i8, ptr %229, align 1
  %239 = icmp slt i8 %238, 0
  %240 = zext i8 %238 to i64
  %241 = or i64 %240, -256
  %242 = select i1 %239, i64 %241, i64 %240
  %243 = add i64 %208, -2
  %244 = icmp ult i64 %243, 6
  br i1 %244, label %245, label %249

245:
  %246 = getelementptr i64, ptr @SIZES, i64 %208
  %247 = load i64, ptr %246, align 8
  %248 = call i64 @llvm.smax.i64(i64 %247, i64 2)
  br label %252

249:
  %250 = phi i64 [ %242, %237 ], [ %259, %252 ]
  %251 = icmp eq i64 %208, 7
  br i1 %251, label %262, label %269

252:
  %253 = phi i64 [ %260, %252 ], [ 1, %245 ]
  %254 = phi i64 [ %259, %252 ], [ %242, %245 ]
  %255 = shl i64 %254, 8
  %256 = getelementptr i8, ptr %229, i64 %253
  %257 = load i8, ptr %256, align 1
  %258 = zext i8 %257 to i64
  %259 = or i64 %255, %258
  %260 = add i64 %253, 1
  %261 = icmp eq i64 %260, %248
  br i1 %261, label %249, label %252

262:
  %263 = bitcast i64 %250 to double
  %264 = fcmp ult double %263, 0x43E0000000000000
  br i1 %264, label %265, label %269

265:
  %266 = fcmp ogt double %263, 0xC3E0000000000000
  br i1 %266, label %267, label %269

267:
  %268 = fptosi double %263 to i64
  br label %269

269:
  %270 = phi i64 [ %233, %232 ], [ -9223372036854775808, %234 ], [ -9223372036854775808, %265 ], [ 9223372036854775807, %262 ], [ %268, %267 ], [ %250, %249 ]
  %271 = mul i64 %226, %11
  %272 = getelementptr i64, ptr %177, i64 %271
  store i64 %270, ptr %272, align 8
  br label %273

273:
  %274 = add i64 %219, %180
  %275 = add i64 %179, 1
  %276 = icmp eq i64 %275, %5
  br i1 %276, label %277, label %178

277:
  %278 = phi i64 [ %170, %175 ], [ %207, %273 ]
  %279 = phi i64 [ %176, %175 ], [ %274, %273 ]
  %280 = icmp sgt i64 %278, %176
  br i1 %280, label %296, label %281

281:
  %282 = icmp ne i64 %278, %176
  %283 = icmp eq i64 %279, %138
  %284 = select i1 %282, i1 true, i1 %283
  br i1 %284, label %285, label %296

285:
  %286 = getelementptr i64, ptr %19, i64 %60
  store i64 %137, ptr %286, align 8
  %287 = add i64 %60, 1
  %288 = add i64 %63, 1
  %289 = icmp eq i64 %288, %57
  br i1 %289, label %290, label %59

290:
  %291 = phi i64 [ %23, %49 ], [ %287, %285 ]
  %292 = add i64 %24, 1
  %293 = add i64 %22, %2
  %294 = add i64 %21, %2
  %295 = icmp eq i64 %292, %1
  br i1 %295, label %296, label %20

296:
  %297 = phi i64 [ -1, %218 ], [ -1, %277 ], [ 0, %12 ], [ -1, %178 ], [ -1, %206 ], [ -1, %59 ], [ -1, %103 ], [ -1, %135 ], [ -1, %143 ], [ -1, %169 ], [ -1, %281 ], [ %291, %290 ], [ -1, %20 ]
  ret i64 %297
}



define i64 @encode(ptr %0, i64 %1, i64 %2, i64 %3, ptr %4, i64 %5, ptr %6, i64 %7, ptr %8, ptr %9) {
  %11 = icmp slt i64 %3, %2
  br i1 %11, label %12, label %100

12:
  %13 = icmp sgt i64 %1, 0
  br label %14

14:
  %15 = phi i64 [ %3, %12 ], [ %98, %95 ]
  %16 = phi i64 [ -1, %12 ], [ %96, %95 ]
  %17 = icmp slt i64 %16, 0
  br i1 %17, label %33, label %18

18:
  %19 = mul i64 %16, %1
  %20 = getelementptr i64, ptr %6, i64 %19
  %21 = getelementptr i64, ptr %0, i64 %15
  br i1 %13, label %25, label %95

22:
  %23 = add i64 %26, 1
  %24 = icmp eq i64 %23, %1
  br i1 %24, label %95, label %25

25:
  %26 = phi i64 [ %23, %22 ], [ 0, %18 ]
  %27 = getelementptr i64, ptr %20, i64 %26
  %28 = load i64, ptr %27, align 8
  %29 = mul i64 %26, %2
  %30 = getelementptr i64, ptr %21, i64 %29
  %31 = load i64, ptr %30, align 8
  %32 = icmp eq i64 %28, %31
  br i1 %32, label %22, label %33

33:
  %34 = getelementptr i64, ptr %0, i64 %15
  br i1 %13, label %35, label %47

35:
  %36 = phi i64 [ %45, %35 ], [ 0, %33 ]
  %37 = phi i64 [ %44, %35 ], [ 0, %33 ]
  %38 = mul i64 %36, %2
  %39 = getelementptr i64, ptr %34, i64 %38
  %40 = load i64, ptr %39, align 8
  %41 = xor i64 %40, %37
  %42 = mul i64 %41, -7046029254386353131
  %43 = lshr i64 %42, 32
  %44 = xor i64 %43, %42
  %45 = add i64 %36, 1
  %46 = icmp eq i64 %45, %1
  br i1 %46, label %47, label %35

47:
  %48 = phi i64 [ 0, %33 ], [ %44, %35 ]
  br label %49

49:
  %50 = phi i64 [ %92, %91 ], [ %48, %47 ]
  %51 = phi i64 [ %93, %91 ], [ 0, %47 ]
  %52 = and i64 %50, %5
  %53 = getelementptr i64, ptr %4, i64 %52
  %54 = load i64, ptr %53, align 8
  %55 = icmp slt i64 %54, 0
  br i1 %55, label %56, label %77

56:
  %57 = getelementptr i64, ptr %4, i64 %52
  %58 = load i64, ptr %8, align 8
  %59 = icmp eq i64 %58, %7
  br i1 %59, label %100, label %60

60:
  br i1 %13, label %66, label %63

61:
  %62 = load i64, ptr %8, align 8
  br label %63

63:
  %64 = phi i64 [ %62, %61 ], [ %58, %60 ]
  %65 = add i64 %64, 1
  store i64 %65, ptr %8, align 8
  store i64 %64, ptr %57, align 8
  br label %95

66:
  %67 = phi i64 [ %75, %66 ], [ 0, %60 ]
  %68 = mul i64 %67, %2
  %69 = getelementptr i64, ptr %34, i64 %68
  %70 = load i64, ptr %69, align 8
  %71 = load i64, ptr %8, align 8
  %72 = mul i64 %71, %1
  %73 = getelementptr i64, ptr %6, i64 %72
  %74 = getelementptr i64, ptr %73, i64 %67
  store i64 %70, ptr %74, align 8
  %75 = add i64 %67, 1
  %76 = icmp eq i64 %75, %1
  br i1 %76, label %61, label %66

77:
  %78 = mul i64 %54, %1
  %79 = getelementptr i64, ptr %6, i64 %78
  br i1 %13, label %83, label %95

80:
  %81 = add i64 %84, 1
  %82 = icmp eq i64 %81, %1
  br i1 %82, label %95, label %83

83:
  %84 = phi i64 [ %81, %80 ], [ 0, %77 ]
  %85 = getelementptr i64, ptr %79, i64 %84
  %86 = load i64, ptr %85, align 8
  %87 = mul i64 %84, %2
  %88 = getelementptr i64, ptr %34, i64 %87
  %89 = load i64, ptr %88, align 8
  %90 = icmp eq i64 %86, %89
  br i1 %90, label %80, label %91

91:
  %92 = add i64 %52, 1
  %93 = add i64 %51, 1
  %94 = icmp eq i64 %93, 201
  br i1 %94, label %100, label %49

95:
  %96 = phi i64 [ %54, %80 ], [ %16, %18 ], [ %64, %63 ], [ %54, %77 ], [ %16, %22 ]
  %97 = getelementptr i64, ptr %9, i64 %15
  store i64 %96, ptr %97, align 8
  %98 = add i64 %15, 1
  %99 = icmp eq i64 %98, %2
  br i1 %99, label %100, label %14

100:
  %101 = phi i64 [ %2, %10 ], [ -1, %91 ], [ %2, %95 ], [ %15, %56 ]
  ret i64 %101
}

define i64 @read_events(ptr %0, i64 %1, i64 %2, i64 %3, ptr %4, i64 %5, ptr %6, ptr %7, i64 %8, i64 %9, i64 %10, i64 %11, ptr %12, ptr %13, ptr %14, ptr %15, i64 %16, ptr %17, i64 %18, ptr %19, i64 %20, ptr %21, i64 %22, ptr %23, ptr %24, ptr %25) {
  %27 = getelementptr i8, ptr %24, i64 80
  %28 = icmp eq i64 %9, -1
  %29 = select i1 %28, i64 3, i64 8
  %30 = icmp sgt i64 %1, 0
  br i1 %30, label %31, label %674

31:
  %32 = getelementptr i8, ptr %25, i64 8
  %33 = getelementptr i8, ptr %25, i64 24
  %34 = add i64 %3, -35
  %35 = getelementptr i8, ptr %23, i64 10752
  %36 = getelementptr i8, ptr %24, i64 8
  %37 = getelementptr i8, ptr %24, i64 16
  %38 = getelementptr i8, ptr %24, i64 56
  %39 = getelementptr i8, ptr %24, i64 64
  %40 = getelementptr i8, ptr %24, i64 120
  %41 = getelementptr i8, ptr %24, i64 128
  %42 = getelementptr i8, ptr %24, i64 72
  %43 = getelementptr i8, ptr %24, i64 136
  %44 = getelementptr i8, ptr %24, i64 48
  %45 = getelementptr i8, ptr %24, i64 24
  %46 = getelementptr i8, ptr %24, i64 32
  %47 = getelementptr i8, ptr %24, i64 88
  %48 = getelementptr i8, ptr %24, i64 40
  %49 = getelementptr i8, ptr %24, i64 96
  %50 = getelementptr i8, ptr %25, i64 16
  %51 = icmp eq i64 %10, 0
  %52 = icmp eq i64 %11, 1
  %53 = icmp eq i64 %11, 2
  %54 = select i1 %53, i64 32767, i64 2147483647
  %55 = select i1 %52, i64 255, i64 %54
  %56 = load i64, ptr %25, align 8
  %57 = load i64, ptr %32, align 8
  br label %58

58:
  %59 = phi i64 [ %57, %31 ], [ %664, %662 ]
  %60 = phi i64 [ %56, %31 ], [ %665, %662 ]
  %61 = phi i64 [ 8, %31 ], [ %669, %662 ]
  %62 = phi i64 [ 7, %31 ], [ %668, %662 ]
  %63 = phi i64 [ -1, %31 ], [ %666, %662 ]
  %64 = phi i64 [ 0, %31 ], [ %667, %662 ]
  %65 = mul i64 %64, %2
  %66 = add i64 %65, %3
  %67 = getelementptr i8, ptr %0, i64 %65
  %68 = getelementptr i8, ptr %67, i64 3
  %69 = load i8, ptr %68, align 1
  %70 = zext i8 %69 to i64
  %71 = shl i64 %70, 8
  %72 = getelementptr i8, ptr %67, i64 4
  %73 = load i8, ptr %72, align 1
  %74 = zext i8 %73 to i64
  %75 = or i64 %71, %74
  %76 = add i64 %65, 8
  %77 = shl i64 %75, 1
  %78 = add i64 %77, %76
  %79 = load i8, ptr %67, align 1
  %80 = icmp ne i8 %79, 13
  %81 = icmp sgt i64 %78, %66
  %82 = select i1 %80, i1 true, i1 %81
  %83 = add i64 %75, %60
  %84 = icmp sgt i64 %83, %16
  %85 = select i1 %82, i1 true, i1 %84
  %86 = add i64 %75, %59
  %87 = icmp sgt i64 %86, %18
  %88 = or i64 %75, %8
  %89 = icmp eq i64 %88, 0
  %90 = or i1 %87, %89
  %91 = select i1 %85, i1 true, i1 %90
  br i1 %91, label %674, label %92

92:
  %93 = load i64, ptr %33, align 8
  %94 = icmp eq i64 %75, 0
  br i1 %94, label %662, label %95

95:
  %96 = getelementptr i64, ptr %6, i64 %64
  %97 = load i64, ptr %96, align 8
  %98 = icmp eq i64 %97, -9223372036854775808
  %99 = getelementptr i8, ptr %0, i64 %76
  %100 = getelementptr i64, ptr %7, i64 %64
  %101 = or i64 %71, %74
  %102 = getelementptr i8, ptr %0, i64 %61
  br label %103

103:
  %104 = phi i64 [ %63, %95 ], [ %659, %655 ]
  %105 = phi i64 [ %60, %95 ], [ %658, %655 ]
  %106 = phi i64 [ %59, %95 ], [ %657, %655 ]
  %107 = phi i64 [ %93, %95 ], [ %656, %655 ]
  %108 = phi i64 [ %97, %95 ], [ %184, %655 ]
  %109 = phi i1 [ %98, %95 ], [ false, %655 ]
  %110 = phi i64 [ 0, %95 ], [ %660, %655 ]
  %111 = shl i64 %110, 1
  %112 = getelementptr i8, ptr %99, i64 %111
  %113 = load i8, ptr %112, align 1
  %114 = zext i8 %113 to i64
  %115 = shl i64 %114, 8
  %116 = getelementptr i8, ptr %112, i64 1
  %117 = load i8, ptr %116, align 1
  %118 = zext i8 %117 to i64
  %119 = or i64 %115, %118
  %120 = add i64 %119, %65
  %121 = icmp sge i64 %120, %78
  %122 = icmp slt i64 %120, %66
  %123 = and i1 %121, %122
  br i1 %123, label %124, label %674

124:
  %125 = add i64 %62, %115
  %126 = add i64 %125, %118
  br label %130

127:
  %128 = add i32 %131, 1
  %129 = icmp eq i32 %128, 8
  br i1 %129, label %142, label %130

130:
  %131 = phi i32 [ %128, %127 ], [ 0, %124 ]
  %132 = phi i64 [ %140, %127 ], [ 0, %124 ]
  %133 = phi i64 [ %134, %127 ], [ %120, %124 ]
  %134 = add i64 %133, 1
  %135 = getelementptr i8, ptr %0, i64 %133
  %136 = load i8, ptr %135, align 1
  %137 = shl i64 %132, 7
  %138 = and i8 %136, 127
  %139 = zext i8 %138 to i64
  %140 = or i64 %137, %139
  %141 = icmp slt i8 %136, 0
  br i1 %141, label %127, label %150

142:
  %143 = shl i64 %140, 8
  %144 = add i64 %126, 2
  %145 = getelementptr i8, ptr %102, i64 %115
  %146 = getelementptr i8, ptr %145, i64 %118
  %147 = load i8, ptr %146, align 1
  %148 = zext i8 %147 to i64
  %149 = or i64 %143, %148
  br label %150

150:
  %151 = phi i64 [ %144, %142 ], [ %134, %130 ]
  %152 = phi i64 [ %149, %142 ], [ %140, %130 ]
  %153 = add i64 %120, 3
  %154 = icmp sgt i64 %151, %153
  %155 = icmp slt i64 %152, 1
  %156 = icmp sgt i64 %152, %34
  %157 = or i1 %155, %156
  %158 = select i1 %154, i1 true, i1 %157
  br i1 %158, label %674, label %162

159:
  %160 = add i32 %163, 1
  %161 = icmp eq i32 %160, 8
  br i1 %161, label %174, label %162

162:
  %163 = phi i32 [ %160, %159 ], [ 0, %150 ]
  %164 = phi i64 [ %172, %159 ], [ 0, %150 ]
  %165 = phi i64 [ %166, %159 ], [ %151, %150 ]
  %166 = add i64 %165, 1
  %167 = getelementptr i8, ptr %0, i64 %165
  %168 = load i8, ptr %167, align 1
  %169 = shl i64 %164, 7
  %170 = and i8 %168, 127
  %171 = zext i8 %170 to i64
  %172 = or i64 %169, %171
  %173 = icmp slt i8 %168, 0
  br i1 %173, label %159, label %182

174:
  %175 = shl i64 %172, 8
  %176 = add i64 %151, 9
  %177 = getelementptr i8, ptr %0, i64 %151
  %178 = getelementptr i8, ptr %177, i64 8
  %179 = load i8, ptr %178, align 1
  %180 = zext i8 %179 to i64
  %181 = or i64 %175, %180
  br label %182

182:
  %183 = phi i64 [ %176, %174 ], [ %166, %162 ]
  %184 = phi i64 [ %181, %174 ], [ %172, %162 ]
  %185 = add i64 %183, %152
  %186 = icmp sle i64 %185, %66
  %187 = icmp sgt i64 %184, %108
  %188 = select i1 %187, i1 true, i1 %109
  %189 = select i1 %186, i1 %188, i1 false
  br i1 %189, label %190, label %674

190:
  %191 = load i64, ptr %100, align 8
  %192 = icmp sgt i64 %184, %191
  br i1 %192, label %674, label %196

193:
  %194 = add i32 %197, 1
  %195 = icmp eq i32 %194, 8
  br i1 %195, label %208, label %196

196:
  %197 = phi i32 [ %194, %193 ], [ 0, %190 ]
  %198 = phi i64 [ %206, %193 ], [ 0, %190 ]
  %199 = phi i64 [ %200, %193 ], [ %183, %190 ]
  %200 = add i64 %199, 1
  %201 = getelementptr i8, ptr %0, i64 %199
  %202 = load i8, ptr %201, align 1
  %203 = shl i64 %198, 7
  %204 = and i8 %202, 127
  %205 = zext i8 %204 to i64
  %206 = or i64 %203, %205
  %207 = icmp slt i8 %202, 0
  br i1 %207, label %193, label %216

208:
  %209 = shl i64 %206, 8
  %210 = add i64 %183, 9
  %211 = getelementptr i8, ptr %0, i64 %183
  %212 = getelementptr i8, ptr %211, i64 8
  %213 = load i8, ptr %212, align 1
  %214 = zext i8 %213 to i64
  %215 = or i64 %209, %214
  br label %216

216:
  %217 = phi i64 [ %210, %208 ], [ %200, %196 ]
  %218 = phi i64 [ %215, %208 ], [ %206, %196 ]
  %219 = icmp slt i64 %218, 1
  %220 = icmp sgt i64 %218, %152
  %221 = select i1 %219, i1 true, i1 %220
  br i1 %221, label %674, label %222

222:
  %223 = add i64 %218, 7
  %224 = ashr i64 %223, 3
  %225 = icmp sgt i64 %224, 8
  br i1 %225, label %226, label %230

226:
  %227 = add i64 %218, %183
  %228 = call fastcc i64 @read_header(ptr %0, i64 %217, i64 %227, i64 %3, ptr %4, i64 %5, ptr %35)
  %229 = icmp slt i64 %228, 0
  br i1 %229, label %674, label %409

230:
  %231 = and i64 %223, 2305843009213693944
  %232 = sub i64 %231, %218
  %233 = shl i64 %232, 3
  %234 = shl i64 -1, %233
  %235 = icmp sgt i64 %224, 0
  br i1 %235, label %242, label %236

236:
  %237 = lshr i64 %218, 58
  %238 = mul i64 %237, 168
  %239 = getelementptr i8, ptr %23, i64 %238
  %240 = load i64, ptr %239, align 8
  %241 = icmp eq i64 %240, %218
  br i1 %241, label %409, label %352

242:
  %243 = getelementptr i8, ptr %0, i64 %183
  %244 = add i64 %224, -1
  br label %251

245:
  %246 = lshr i64 %297, 58
  %247 = mul i64 %246, 168
  %248 = getelementptr i8, ptr %23, i64 %247
  %249 = load i64, ptr %248, align 8
  %250 = icmp eq i64 %249, %218
  br i1 %250, label %301, label %352

251:
  %252 = phi i64 [ %218, %242 ], [ %297, %251 ]
  %253 = phi i64 [ 0, %242 ], [ %298, %251 ]
  %254 = shl i64 %253, 3
  %255 = getelementptr i8, ptr %243, i64 %254
  %256 = load i8, ptr %255, align 1
  %257 = zext i8 %256 to i64
  %258 = shl i64 %257, 56
  %259 = getelementptr i8, ptr %255, i64 1
  %260 = load i8, ptr %259, align 1
  %261 = zext i8 %260 to i64
  %262 = shl i64 %261, 48
  %263 = or i64 %262, %258
  %264 = getelementptr i8, ptr %255, i64 2
  %265 = load i8, ptr %264, align 1
  %266 = zext i8 %265 to i64
  %267 = shl i64 %266, 40
  %268 = or i64 %263, %267
  %269 = getelementptr i8, ptr %255, i64 3
  %270 = load i8, ptr %269, align 1
  %271 = zext i8 %270 to i64
  %272 = shl i64 %271, 32
  %273 = or i64 %268, %272
  %274 = getelementptr i8, ptr %255, i64 4
  %275 = load i8, ptr %274, align 1
  %276 = zext i8 %275 to i64
  %277 = shl i64 %276, 24
  %278 = or i64 %273, %277
  %279 = getelementptr i8, ptr %255, i64 5
  %280 = load i8, ptr %279, align 1
  %281 = zext i8 %280 to i64
  %282 = shl i64 %281, 16
  %283 = or i64 %278, %282
  %284 = getelementptr i8, ptr %255, i64 6
  %285 = load i8, ptr %284, align 1
  %286 = zext i8 %285 to i64
  %287 = shl i64 %286, 8
  %288 = or i64 %283, %287
  %289 = getelementptr i8, ptr %255, i64 7
  %290 = load i8, ptr %289, align 1
  %291 = zext i8 %290 to i64
  %292 = or i64 %288, %291
  %293 = icmp eq i64 %253, %244
  %294 = select i1 %293, i64 %234, i64 -1
  %295 = and i64 %292, %294
  %296 = xor i64 %295, %252
  %297 = mul i64 %296, -7046029254386353131
  %298 = add i64 %253, 1
  %299 = icmp eq i64 %298, %224
  br i1 %299, label %245, label %251

300:
  br i1 %348, label %409, label %352

301:
  %302 = phi i64 [ %349, %301 ], [ 0, %245 ]
  %303 = shl i64 %302, 3
  %304 = getelementptr i8, ptr %243, i64 %303
  %305 = load i8, ptr %304, align 1
  %306 = zext i8 %305 to i64
  %307 = shl i64 %306, 56
  %308 = getelementptr i8, ptr %304, i64 1
  %309 = load i8, ptr %308, align 1
  %310 = zext i8 %309 to i64
  %311 = shl i64 %310, 48
  %312 = or i64 %311, %307
  %313 = getelementptr i8, ptr %304, i64 2
  %314 = load i8, ptr %313, align 1
  %315 = zext i8 %314 to i64
  %316 = shl i64 %315, 40
  %317 = or i64 %312, %316
  %318 = getelementptr i8, ptr %304, i64 3
  %319 = load i8, ptr %318, align 1
  %320 = zext i8 %319 to i64
  %321 = shl i64 %320, 32
  %322 = or i64 %317, %321
  %323 = getelementptr i8, ptr %304, i64 4
  %324 = load i8, ptr %323, align 1
  %325 = zext i8 %324 to i64
  %326 = shl i64 %325, 24
  %327 = or i64 %322, %326
  %328 = getelementptr i8, ptr %304, i64 5
  %329 = load i8, ptr %328, align 1
  %330 = zext i8 %329 to i64
  %331 = shl i64 %330, 16
  %332 = or i64 %327, %331
  %333 = getelementptr i8, ptr %304, i64 6
  %334 = load i8, ptr %333, align 1
  %335 = zext i8 %334 to i64
  %336 = shl i64 %335, 8
  %337 = or i64 %332, %336
  %338 = getelementptr i8, ptr %304, i64 7
  %339 = load i8, ptr %338, align 1
  %340 = zext i8 %339 to i64
  %341 = or i64 %337, %340
  %342 = getelementptr i64, ptr %248, i64 %302
  %343 = getelementptr i8, ptr %342, i64 24
  %344 = load i64, ptr %343, align 8
  %345 = icmp eq i64 %302, %244
  %346 = select i1 %345, i64 %234, i64 -1
  %347 = and i64 %341, %346
  %348 = icmp eq i64 %344, %347
  %349 = add i64 %302, 1
  %350 = icmp slt i64 %349, %224
  %351 = select i1 %348, i1 %350, i1 false
  br i1 %351, label %301, label %300

352:
  %353 = phi ptr [ %239, %236 ], [ %248, %300 ], [ %248, %245 ]
  %354 = add i64 %218, %183
  %355 = call fastcc i64 @read_header(ptr %0, i64 %217, i64 %354, i64 %3, ptr %4, i64 %5, ptr %353)
  %356 = icmp slt i64 %355, 0
  br i1 %356, label %674, label %357

357:
  store i64 %218, ptr %353, align 8
  br i1 %235, label %358, label %409

358:
  %359 = getelementptr i8, ptr %0, i64 %183
  %360 = add i64 %224, -1
  br label %361

361:
  %362 = phi i64 [ 0, %358 ], [ %407, %361 ]
  %363 = shl i64 %362, 3
  %364 = getelementptr i8, ptr %359, i64 %363
  %365 = load i8, ptr %364, align 1
  %366 = zext i8 %365 to i64
  %367 = shl i64 %366, 56
  %368 = getelementptr i8, ptr %364, i64 1
  %369 = load i8, ptr %368, align 1
  %370 = zext i8 %369 to i64
  %371 = shl i64 %370, 48
  %372 = or i64 %371, %367
  %373 = getelementptr i8, ptr %364, i64 2
  %374 = load i8, ptr %373, align 1
  %375 = zext i8 %374 to i64
  %376 = shl i64 %375, 40
  %377 = or i64 %372, %376
  %378 = getelementptr i8, ptr %364, i64 3
  %379 = load i8, ptr %378, align 1
  %380 = zext i8 %379 to i64
  %381 = shl i64 %380, 32
  %382 = or i64 %377, %381
  %383 = getelementptr i8, ptr %364, i64 4
  %384 = load i8, ptr %383, align 1
  %385 = zext i8 %384 to i64
  %386 = shl i64 %385, 24
  %387 = or i64 %382, %386
  %388 = getelementptr i8, ptr %364, i64 5
  %389 = load i8, ptr %388, align 1
  %390 = zext i8 %389 to i64
  %391 = shl i64 %390, 16
  %392 = or i64 %387, %391
  %393 = getelementptr i8, ptr %364, i64 6
  %394 = load i8, ptr %393, align 1
  %395 = zext i8 %394 to i64
  %396 = shl i64 %395, 8
  %397 = or i64 %392, %396
  %398 = getelementptr i8, ptr %364, i64 7
  %399 = load i8, ptr %398, align 1
  %400 = zext i8 %399 to i64
  %401 = or i64 %397, %400
  %402 = icmp eq i64 %362, %360
  %403 = select i1 %402, i64 %234, i64 -1
  %404 = and i64 %401, %403
  %405 = getelementptr i64, ptr %353, i64 %362
  %406 = getelementptr i8, ptr %405, i64 24
  store i64 %404, ptr %406, align 8
  %407 = add i64 %362, 1
  %408 = icmp eq i64 %407, %224
  br i1 %408, label %409, label %361

409:
  %410 = phi ptr [ %35, %226 ], [ %239, %236 ], [ %353, %357 ], [ %248, %300 ], [ %353, %361 ]
  %411 = getelementptr i8, ptr %410, i64 8
  %412 = load i64, ptr %411, align 8
  %413 = sub i64 %152, %218
  %414 = icmp sgt i64 %412, %413
  br i1 %414, label %674, label %415

415:
  %416 = getelementptr i8, ptr %410, i64 16
  %417 = load i64, ptr %416, align 8
  %418 = icmp eq i64 %417, 0
  %419 = icmp eq i64 %412, %413
  %420 = or i1 %419, %418
  br i1 %420, label %421, label %674

421:
  %422 = getelementptr i8, ptr %0, i64 %183
  %423 = getelementptr i8, ptr %422, i64 %218
  br label %438

424:
  %425 = load i64, ptr %24, align 8
  %426 = load i64, ptr %36, align 8
  %427 = load i64, ptr %37, align 8
  %428 = sub i64 %426, %425
  %429 = icmp ugt i64 %428, 1125899906842623
  %430 = add i64 %425, -1152921504606846976
  %431 = icmp ult i64 %430, -2305843009213693951
  %432 = or i1 %431, %429
  %433 = icmp sgt i64 %426, 1152921504606846975
  %434 = or i1 %433, %432
  %435 = or i64 %426, %425
  %436 = icmp eq i64 %435, 0
  %437 = or i1 %436, %434
  br i1 %437, label %518, label %520

438:
  %439 = phi i64 [ 0, %421 ], [ %516, %513 ]
  %440 = getelementptr i64, ptr %410, i64 %439
  %441 = getelementptr i8, ptr %440, i64 88
  %442 = load i64, ptr %441, align 8
  %443 = and i64 %442, 255
  %444 = ashr i64 %442, 8
  %445 = getelementptr i8, ptr %423, i64 %444
  %446 = icmp ult i64 %443, 64
  br i1 %446, label %447, label %486

447:
  %448 = load i8, ptr %445, align 1
  %449 = zext i8 %448 to i64
  %450 = shl i64 %449, 56
  %451 = getelementptr i8, ptr %445, i64 1
  %452 = load i8, ptr %451, align 1
  %453 = zext i8 %452 to i64
  %454 = shl i64 %453, 48
  %455 = or i64 %454, %450
  %456 = getelementptr i8, ptr %445, i64 2
  %457 = load i8, ptr %456, align 1
  %458 = zext i8 %457 to i64
  %459 = shl i64 %458, 40
  %460 = or i64 %455, %459
  %461 = getelementptr i8, ptr %445, i64 3
  %462 = load i8, ptr %461, align 1
  %463 = zext i8 %462 to i64
  %464 = shl i64 %463, 32
  %465 = or i64 %460, %464
  %466 = getelementptr i8, ptr %445, i64 4
  %467 = load i8, ptr %466, align 1
  %468 = zext i8 %467 to i64
  %469 = shl i64 %468, 24
  %470 = or i64 %465, %469
  %471 = getelementptr i8, ptr %445, i64 5
  %472 = load i8, ptr %471, align 1
  %473 = zext i8 %472 to i64
  %474 = shl i64 %473, 16
  %475 = or i64 %470, %474
  %476 = getelementptr i8, ptr %445, i64 6
  %477 = load i8, ptr %476, align 1
  %478 = zext i8 %477 to i64
  %479 = shl i64 %478, 8
  %480 = or i64 %475, %479
  %481 = getelementptr i8, ptr %445, i64 7
  %482 = load i8, ptr %481, align 1
  %483 = zext i8 %482 to i64
  %484 = or i64 %480, %483
  %485 = ashr i64 %484, %443
  br label %513

486:
  %487 = trunc i64 %442 to i8
  switch i8 %487, label %511 [
    i8 64, label %513
    i8 67, label %488
  ]

488:
  %489 = load i8, ptr %445, align 1
  %490 = icmp slt i8 %489, 0
  %491 = zext i8 %489 to i64
  %492 = or i64 %491, -256
  %493 = select i1 %490, i64 %492, i64 %491
  br label %497

494:
  %495 = bitcast i64 %504 to double
  %496 = fcmp ult double %495, 0x43E0000000000000
  br i1 %496, label %507, label %513

497:
  %498 = phi i64 [ %505, %497 ], [ 1, %488 ]
  %499 = phi i64 [ %504, %497 ], [ %493, %488 ]
  %500 = shl i64 %499, 8
  %501 = getelementptr i8, ptr %445, i64 %498
  %502 = load i8, ptr %501, align 1
  %503 = zext i8 %502 to i64
  %504 = or i64 %500, %503
  %505 = add i64 %498, 1
  %506 = icmp eq i64 %505, 8
  br i1 %506, label %494, label %497

507:
  %508 = fcmp ogt double %495, 0xC3E0000000000000
  br i1 %508, label %509, label %513

509:
  %510 = fptosi double %495 to i64
  br label %513

511:
  %512 = add i64 %443, -65
  br label %513

513:
  %514 = phi i64 [ %485, %447 ], [ -9223372036854775808, %486 ], [ %512, %511 ], [ 9223372036854775807, %494 ], [ %510, %509 ], [ -9223372036854775808, %507 ]
  %515 = getelementptr i64, ptr %24, i64 %439
  store i64 %514, ptr %515, align 8
  %516 = add i64 %439, 1
  %517 = icmp eq i64 %516, 10
  br i1 %517, label %424, label %438

518:
  %519 = add i64 %107, 1
  br label %655

520:
  br i1 %28, label %521, label %531

521:
  %522 = load i64, ptr %44, align 8
  %523 = icmp eq i64 %522, 67
  br i1 %523, label %655, label %524

524:
  %525 = load i64, ptr %45, align 8
  store i64 %525, ptr %27, align 8
  %526 = load i64, ptr %46, align 8
  store i64 %526, ptr %47, align 8
  %527 = load i64, ptr %48, align 8
  %528 = and i64 %527, 9223372036854775807
  %529 = icmp ne i64 %528, 0
  %530 = zext i1 %529 to i64
  store i64 %530, ptr %49, align 8
  br label %551

531:
  store i64 %9, ptr %27, align 8
  br label %540

532:
  %533 = load i64, ptr %38, align 8
  %534 = icmp eq i64 %533, -9223372036854775808
  %535 = load i64, ptr %39, align 8
  %536 = select i1 %534, i64 %535, i64 %533
  store i64 %536, ptr %40, align 8
  store i64 %535, ptr %41, align 8
  %537 = load i64, ptr %42, align 8
  %538 = icmp sgt i64 %537, 0
  %539 = zext i1 %538 to i64
  store i64 %539, ptr %43, align 8
  br i1 %538, label %548, label %551

540:
  %541 = phi i64 [ 0, %531 ], [ %545, %540 ]
  %542 = getelementptr i64, ptr %24, i64 %541
  %543 = getelementptr i8, ptr %542, i64 24
  %544 = load i64, ptr %543, align 8
  %545 = add i64 %541, 1
  %546 = getelementptr i64, ptr %27, i64 %545
  store i64 %544, ptr %546, align 8
  %547 = icmp eq i64 %545, 4
  br i1 %547, label %532, label %540

548:
  %549 = add i64 %106, 1
  %550 = getelementptr i64, ptr %17, i64 %106
  store i64 %537, ptr %550, align 8
  br label %551

551:
  %552 = phi i64 [ %106, %524 ], [ %549, %548 ], [ %106, %532 ]
  %553 = icmp slt i64 %104, 0
  br i1 %553, label %567, label %554

554:
  %555 = mul i64 %104, %29
  %556 = getelementptr i64, ptr %21, i64 %555
  br label %560

557:
  %558 = add i64 %561, 1
  %559 = icmp eq i64 %558, %29
  br i1 %559, label %627, label %560

560:
  %561 = phi i64 [ %558, %557 ], [ 0, %554 ]
  %562 = getelementptr i64, ptr %556, i64 %561
  %563 = load i64, ptr %562, align 8
  %564 = getelementptr i64, ptr %27, i64 %561
  %565 = load i64, ptr %564, align 8
  %566 = icmp eq i64 %563, %565
  br i1 %566, label %557, label %567

567:
  br label %568

568:
  %569 = phi i64 [ %577, %568 ], [ 0, %567 ]
  %570 = phi i64 [ %576, %568 ], [ 0, %567 ]
  %571 = getelementptr i64, ptr %27, i64 %569
  %572 = load i64, ptr %571, align 8
  %573 = xor i64 %572, %570
  %574 = mul i64 %573, -7046029254386353131
  %575 = lshr i64 %574, 32
  %576 = xor i64 %575, %574
  %577 = add i64 %569, 1
  %578 = icmp eq i64 %577, %29
  br i1 %578, label %579, label %568

579:
  %580 = phi i64 [ %617, %616 ], [ %576, %568 ]
  %581 = phi i64 [ %618, %616 ], [ 0, %568 ]
  %582 = and i64 %580, %20
  %583 = getelementptr i64, ptr %19, i64 %582
  %584 = load i64, ptr %583, align 8
  %585 = icmp slt i64 %584, 0
  br i1 %585, label %586, label %603

586:
  %587 = getelementptr i64, ptr %19, i64 %582
  %588 = load i64, ptr %50, align 8
  %589 = icmp eq i64 %588, %22
  br i1 %589, label %671, label %593

590:
  %591 = load i64, ptr %50, align 8
  store i64 %591, ptr %587, align 8
  %592 = add i64 %591, 1
  store i64 %592, ptr %50, align 8
  br label %620

593:
  %594 = phi i64 [ %601, %593 ], [ 0, %586 ]
  %595 = getelementptr i64, ptr %27, i64 %594
  %596 = load i64, ptr %595, align 8
  %597 = load i64, ptr %50, align 8
  %598 = mul i64 %597, %29
  %599 = getelementptr i64, ptr %21, i64 %598
  %600 = getelementptr i64, ptr %599, i64 %594
  store i64 %596, ptr %600, align 8
  %601 = add i64 %594, 1
  %602 = icmp eq i64 %601, %29
  br i1 %602, label %590, label %593

603:
  %604 = mul i64 %584, %29
  %605 = getelementptr i64, ptr %21, i64 %604
  br label %609

606:
  %607 = add i64 %610, 1
  %608 = icmp eq i64 %607, %29
  br i1 %608, label %620, label %609

609:
  %610 = phi i64 [ %607, %606 ], [ 0, %603 ]
  %611 = getelementptr i64, ptr %605, i64 %610
  %612 = load i64, ptr %611, align 8
  %613 = getelementptr i64, ptr %27, i64 %610
  %614 = load i64, ptr %613, align 8
  %615 = icmp eq i64 %612, %614
  br i1 %615, label %606, label %616

616:
  %617 = add i64 %582, 1
  %618 = add i64 %581, 1
  %619 = icmp eq i64 %618, 201
  br i1 %619, label %671, label %579

620:
  %621 = phi i64 [ %591, %590 ], [ %584, %606 ]
  %622 = freeze i64 %621
  %623 = icmp slt i64 %622, 0
  br i1 %623, label %624, label %627

624:
  %625 = icmp eq i64 %622, -1
  %626 = select i1 %625, i64 1, i64 4
  br label %671

627:
  %628 = phi i64 [ %622, %620 ], [ %104, %557 ]
  br i1 %51, label %631, label %629

629:
  %630 = getelementptr i64, ptr %13, i64 %105
  store i64 %428, ptr %630, align 8
  br label %636

631:
  %632 = icmp ult i64 %428, 4294967296
  br i1 %632, label %633, label %671

633:
  %634 = trunc i64 %428 to i32
  %635 = getelementptr i32, ptr %13, i64 %105
  store i32 %634, ptr %635, align 4
  br label %636

636:
  %637 = icmp sgt i64 %628, %55
  br i1 %637, label %671, label %638

638:
  br i1 %52, label %639, label %642

639:
  %640 = trunc i64 %628 to i8
  %641 = getelementptr i8, ptr %15, i64 %105
  store i8 %640, ptr %641, align 1
  br label %649

642:
  br i1 %53, label %643, label %646

643:
  %644 = trunc i64 %628 to i16
  %645 = getelementptr i16, ptr %15, i64 %105
  store i16 %644, ptr %645, align 2
  br label %649

646:
  %647 = trunc i64 %628 to i32
  %648 = getelementptr i32, ptr %15, i64 %105
  store i32 %647, ptr %648, align 4
  br label %649

649:
  %650 = call i64 @llvm.umin.i64(i64 %427, i64 4294967296)
  %651 = trunc i64 %650 to i32
  %652 = getelementptr i32, ptr %14, i64 %105
  store i32 %651, ptr %652, align 4
  %653 = add i64 %105, 1
  %654 = getelementptr i64, ptr %12, i64 %105
  store i64 %425, ptr %654, align 8
  br label %655

655:
  %656 = phi i64 [ %519, %518 ], [ %107, %521 ], [ %107, %649 ]
  %657 = phi i64 [ %106, %518 ], [ %106, %521 ], [ %552, %649 ]
  %658 = phi i64 [ %105, %518 ], [ %105, %521 ], [ %653, %649 ]
  %659 = phi i64 [ %104, %518 ], [ %104, %521 ], [ %628, %649 ]
  %660 = add i64 %110, 1
  %661 = icmp eq i64 %660, %101
  br i1 %661, label %662, label %103

662:
  %663 = phi i64 [ %93, %92 ], [ %656, %655 ]
  %664 = phi i64 [ %59, %92 ], [ %657, %655 ]
  %665 = phi i64 [ %60, %92 ], [ %658, %655 ]
  %666 = phi i64 [ %63, %92 ], [ %659, %655 ]
  store i64 %665, ptr %25, align 8
  store i64 %664, ptr %32, align 8
  store i64 %663, ptr %33, align 8
  %667 = add i64 %64, 1
  %668 = add i64 %62, %2
  %669 = add i64 %61, %2
  %670 = icmp eq i64 %667, %1
  br i1 %670, label %674, label %58

671:
  %672 = phi i64 [ 4, %616 ], [ %626, %624 ], [ 1, %586 ], [ 3, %636 ], [ 2, %631 ]
  %673 = getelementptr i8, ptr %25, i64 32
  store i64 %672, ptr %673, align 8
  br label %674

674:
  %675 = phi i64 [ %1, %26 ], [ %64, %671 ], [ -1, %352 ], [ -1, %103 ], [ -1, %150 ], [ -1, %182 ], [ -1, %190 ], [ -1, %216 ], [ -1, %415 ], [ -1, %409 ], [ -1, %226 ], [ -1, %58 ], [ %1, %662 ]
  ret i64 %675
}

define i64 @replay(i64 %0, ptr %1, ptr %2, ptr %3, ptr %4, ptr %5, ptr %6, ptr %7, ptr %8, ptr %9, ptr %10, ptr %11, ptr %12, ptr %13, ptr %14, i64 %15, ptr %16, ptr %17) {
  %19 = icmp sgt i64 %0, 0
  br i1 %19, label %24, label %22

20:
  %21 = sub i64 %111, %29
  br label %22

22:
  %23 = phi i64 [ 0, %18 ], [ %21, %20 ]
  ret i64 %23

24:
  %25 = phi i64 [ %111, %108 ], [ 0, %18 ]
  %26 = phi i64 [ %29, %108 ], [ 0, %18 ]
  %27 = phi i64 [ %58, %108 ], [ 0, %18 ]
  %28 = icmp eq i64 %27, %15
  %29 = select i1 %28, i64 %25, i64 %26
  %30 = getelementptr i64, ptr %1, i64 %27
  %31 = load i64, ptr %30, align 8
  %32 = icmp slt i64 %31, 0
  br i1 %32, label %33, label %36

33:
  %34 = getelementptr i64, ptr %3, i64 %27
  %35 = load i64, ptr %34, align 8
  br label %42

36:
  %37 = getelementptr i64, ptr %16, i64 %31
  %38 = load i64, ptr %37, align 8
  %39 = getelementptr i64, ptr %3, i64 %27
  %40 = load i64, ptr %39, align 8
  %41 = add i64 %40, %38
  br label %42

42:
  %43 = phi i64 [ %35, %33 ], [ %41, %36 ]
  %44 = getelementptr i64, ptr %2, i64 %27
  %45 = load i64, ptr %44, align 8
  %46 = icmp sgt i64 %45, -1
  br i1 %46, label %47, label %51

47:
  %48 = getelementptr i64, ptr %16, i64 %45
  %49 = load i64, ptr %48, align 8
  %50 = call i64 @llvm.smax.i64(i64 %49, i64 %43)
  br label %51

51:
  %52 = phi i64 [ %43, %42 ], [ %50, %47 ]
  %53 = getelementptr i64, ptr %4, i64 %27
  %54 = load i64, ptr %53, align 8
  %55 = add i64 %54, %52
  %56 = getelementptr i64, ptr %7, i64 %27
  %57 = load i64, ptr %56, align 8
  %58 = add i64 %27, 1
  %59 = getelementptr i64, ptr %7, i64 %58
  %60 = load i64, ptr %59, align 8
  %61 = icmp slt i64 %57, %60
  br i1 %61, label %67, label %62

62:
  %63 = phi i64 [ %25, %51 ], [ %97, %91 ]
  %64 = getelementptr i64, ptr %5, i64 %27
  %65 = load i64, ptr %64, align 8
  %66 = icmp sgt i64 %65, -1
  br i1 %66, label %101, label %108

67:
  %68 = phi i64 [ %97, %91 ], [ %25, %51 ]
  %69 = phi i64 [ %98, %91 ], [ %57, %51 ]
  %70 = getelementptr i64, ptr %9, i64 %69
  %71 = load i64, ptr %70, align 8
  %72 = add i64 %71, %52
  %73 = getelementptr i64, ptr %8, i64 %69
  %74 = load i64, ptr %73, align 8
  %75 = getelementptr i64, ptr %14, i64 %74
  %76 = load i64, ptr %75, align 8
  %77 = getelementptr i64, ptr %10, i64 %69
  %78 = load i64, ptr %77, align 8
  %79 = add i64 %78, %76
  %80 = call i64 @llvm.smax.i64(i64 %79, i64 %72)
  %81 = getelementptr i64, ptr %12, i64 %69
  %82 = load i64, ptr %81, align 8
  %83 = icmp sgt i64 %82, -1
  br i1 %83, label %84, label %91

84:
  %85 = getelementptr i64, ptr %17, i64 %82
  %86 = load i64, ptr %85, align 8
  %87 = getelementptr i64, ptr %11, i64 %69
  %88 = load i64, ptr %87, align 8
  %89 = add i64 %88, %86
  %90 = call i64 @llvm.smax.i64(i64 %89, i64 %80)
  br label %91

91:
  %92 = phi i64 [ %80, %67 ], [ %90, %84 ]
  %93 = getelementptr i64, ptr %13, i64 %69
  %94 = load i64, ptr %93, align 8
  %95 = add i64 %94, %92
  store i64 %95, ptr %75, align 8
  %96 = getelementptr i64, ptr %17, i64 %69
  store i64 %95, ptr %96, align 8
  %97 = call i64 @llvm.smax.i64(i64 %95, i64 %68)
  %98 = add i64 %69, 1
  %99 = load i64, ptr %59, align 8
  %100 = icmp slt i64 %98, %99
  br i1 %100, label %67, label %62

101:
  %102 = getelementptr i64, ptr %17, i64 %65
  %103 = load i64, ptr %102, align 8
  %104 = getelementptr i64, ptr %6, i64 %27
  %105 = load i64, ptr %104, align 8
  %106 = add i64 %105, %103
  %107 = call i64 @llvm.smax.i64(i64 %106, i64 %55)
  br label %108

108:
  %109 = phi i64 [ %107, %101 ], [ %55, %62 ]
  %110 = getelementptr i64, ptr %16, i64 %27
  store i64 %109, ptr %110, align 8
  %111 = call i64 @llvm.smax.i64(i64 %109, i64 %63)
  %112 = icmp eq i64 %58, %0
  br i1 %112, label %20, label %24
}

define i64 @keep_below(i32 %0, ptr %1, i64 %2, ptr %3, ptr %4, i64 %5, i64 %6, i64 %7, i64 %8, i64 %9, ptr %10) {
  %12 = sdiv i64 %5, 2
  %13 = icmp sgt i64 %2, 0
  %14 = trunc i64 %9 to i32
  br label %15

15:
  %16 = phi i64 [ %6, %11 ], [ %116, %115 ]
  %17 = call i64 @pread(i32 %0, ptr %1, i64 128, i64 0)
  %18 = icmp sgt i64 %17, 0
  br i1 %18, label %19, label %41

19:
  %20 = phi i64 [ %36, %33 ], [ 0, %15 ]
  %21 = phi i32 [ %35, %33 ], [ 0, %15 ]
  %22 = phi i64 [ %34, %33 ], [ 0, %15 ]
  %23 = getelementptr i8, ptr %1, i64 %20
  %24 = load i8, ptr %23, align 1
  %25 = icmp eq i8 %24, 32
  br i1 %25, label %31, label %26

26:
  %27 = zext i8 %24 to i64
  %28 = mul i64 %22, 10
  %29 = add i64 %28, -48
  %30 = add i64 %29, %27
  br label %33

31:
  %32 = icmp eq i32 %21, 0
  br i1 %32, label %33, label %38

33:
  %34 = phi i64 [ %30, %26 ], [ 0, %31 ]
  %35 = phi i32 [ %21, %26 ], [ 1, %31 ]
  %36 = add i64 %20, 1
  %37 = icmp eq i64 %36, %17
  br i1 %37, label %38, label %19

38:
  %39 = phi i64 [ %22, %31 ], [ 0, %33 ]
  %40 = mul i64 %39, %8
  br label %41

41:
  %42 = phi i64 [ 0, %15 ], [ %40, %38 ]
  %43 = sub i64 %5, %16
  %44 = icmp sgt i64 %42, %43
  br i1 %44, label %45, label %115

45:
  %46 = sub i64 %16, %5
  %47 = add i64 %46, %42
  %48 = shl i64 %47, 1
  %49 = call i64 @llvm.smax.i64(i64 %16, i64 %48)
  %50 = call i64 @llvm.smin.i64(i64 %49, i64 %12)
  br i1 %13, label %106, label %51

51:
  %52 = load i64, ptr %10, align 8
  %53 = add i64 %52, 1
  store i64 %53, ptr %10, align 8
  %54 = call i64 @pread(i32 %0, ptr %1, i64 128, i64 0)
  %55 = icmp sgt i64 %54, 0
  br i1 %55, label %56, label %75

56:
  %57 = phi i64 [ %73, %70 ], [ 0, %51 ]
  %58 = phi i32 [ %72, %70 ], [ 0, %51 ]
  %59 = phi i64 [ %71, %70 ], [ 0, %51 ]
  %60 = getelementptr i8, ptr %1, i64 %57
  %61 = load i8, ptr %60, align 1
  %62 = icmp eq i8 %61, 32
  br i1 %62, label %68, label %63

63:
  %64 = zext i8 %61 to i64
  %65 = mul i64 %59, 10
  %66 = add i64 %65, -48
  %67 = add i64 %66, %64
  br label %70

68:
  %69 = icmp eq i32 %58, 0
  br i1 %69, label %70, label %75

70:
  %71 = phi i64 [ %67, %63 ], [ 0, %68 ]
  %72 = phi i32 [ %58, %63 ], [ 1, %68 ]
  %73 = add i64 %57, 1
  %74 = icmp eq i64 %73, %54
  br i1 %74, label %75, label %56

75:
  %76 = phi i64 [ 0, %51 ], [ 0, %70 ], [ %59, %68 ]
  %77 = call i64 @pread(i32 %0, ptr %1, i64 128, i64 0)
  %78 = icmp sgt i64 %77, 0
  br i1 %78, label %79, label %100

79:
  %80 = phi i64 [ %98, %95 ], [ 0, %75 ]
  %81 = phi i32 [ %97, %95 ], [ 0, %75 ]
  %82 = phi i64 [ %96, %95 ], [ 0, %75 ]
  %83 = getelementptr i8, ptr %1, i64 %80
  %84 = load i8, ptr %83, align 1
  %85 = icmp eq i8 %84, 32
  br i1 %85, label %91, label %86

86:
  %87 = zext i8 %84 to i64
  %88 = mul i64 %82, 10
  %89 = add i64 %88, -48
  %90 = add i64 %89, %87
  br label %95

91:
  %92 = icmp eq i32 %81, 2
  br i1 %92, label %100, label %93

93:
  %94 = add i32 %81, 1
  br label %95

95:
  %96 = phi i64 [ %90, %86 ], [ 0, %93 ]
  %97 = phi i32 [ %81, %86 ], [ %94, %93 ]
  %98 = add i64 %80, 1
  %99 = icmp eq i64 %98, %77
  br i1 %99, label %100, label %79

100:
  %101 = phi i64 [ 0, %75 ], [ 0, %95 ], [ %82, %91 ]
  %102 = sub i64 %76, %101
  %103 = mul i64 %102, %8
  %104 = add i64 %103, %7
  %105 = icmp sgt i64 %104, %5
  br i1 %105, label %118, label %115

106:
  %107 = phi i64 [ %113, %106 ], [ 0, %45 ]
  %108 = getelementptr i64, ptr %3, i64 %107
  %109 = load i64, ptr %108, align 8
  %110 = getelementptr i64, ptr %4, i64 %107
  %111 = load i64, ptr %110, align 8
  %112 = call i32 @madvise(i64 %109, i64 %111, i32 4)
  %113 = add i64 %107, 1
  %114 = icmp eq i64 %113, %2
  br i1 %114, label %51, label %106

115:
  %116 = phi i64 [ %50, %100 ], [ %16, %41 ]
  %117 = call i32 @usleep(i32 %14)
  br label %15

118:
  ret i64 %103
}

declare i32 @madvise(i64, i64, i32)

declare i32 @usleep(i32)

define i64 @summarize(ptr %0, ptr %1, ptr %2, i64 %3, ptr %4, ptr %5, ptr %6, ptr %7, ptr %8, i64 %9, i64 %10, ptr %11, ptr %12, ptr %13, ptr %14, ptr %15, i64 %16) {
  %18 = getelementptr i8, ptr %6, i64 8
  %19 = load i64, ptr %18, align 8
  %20 = getelementptr i8, ptr %7, i64 8
  %21 = load i64, ptr %20, align 8
  %22 = icmp eq i64 %19, %21
  br i1 %22, label %23, label %37

23:
  %24 = getelementptr i8, ptr %6, i64 16
  %25 = load i64, ptr %24, align 8
  %26 = getelementptr i8, ptr %14, i64 16
  %27 = load i64, ptr %26, align 8
  %28 = icmp eq i64 %25, %27
  br i1 %28, label %29, label %37

29:
  %30 = load ptr, ptr %14, align 8
  switch i64 %25, label %37 [
    i64 5, label %32
    i64 8, label %31
  ]

31:
  br label %32

32:
  %33 = phi i32 [ 1, %31 ], [ 0, %29 ]
  %34 = getelementptr i8, ptr %14, i64 8
  %35 = load i64, ptr %34, align 8
  %36 = call fastcc i64 @summarize_stretches(ptr %0, ptr %1, ptr %2, i64 %3, ptr %4, ptr byval(%struct.numbers) align 8 %5, ptr byval(%struct.numbers) align 8 %6, ptr byval(%struct.numbers) align 8 %7, ptr %8, i64 %9, i64 %10, ptr %11, ptr %12, ptr %13, ptr %30, i32 %33, i64 %35, ptr %15, i64 %16)
  br label %37

37:
  %38 = phi i64 [ -1, %17 ], [ -1, %23 ], [ -1, %29 ], [ %36, %32 ]
  ret i64 %38
}

define internal fastcc i64 @summarize_stretches(ptr %0, ptr %1, ptr %2, i64 %3, ptr %4, ptr byval(%struct.numbers) align 8 %5, ptr byval(%struct.numbers) align 8 %6, ptr byval(%struct.numbers) align 8 %7, ptr %8, i64 %9, i64 %10, ptr %11, ptr %12, ptr %13, ptr %14, i32 %15, i64 %16, ptr %17, i64 %18) {
  %20 = getelementptr i8, ptr %5, i64 8
  %21 = load i64, ptr %20, align 8
  %22 = icmp eq i64 %21, 0
  %23 = getelementptr i8, ptr %7, i64 8
  %24 = load i64, ptr %23, align 8
  %25 = select i1 %22, i64 %24, i64 %21
  %26 = load i64, ptr %4, align 8
  %27 = icmp slt i64 %26, %3
  br i1 %27, label %28, label %599

28:
  %29 = getelementptr i8, ptr %5, i64 16
  %30 = load i64, ptr %29, align 8
  %31 = load ptr, ptr %5, align 8
  %32 = getelementptr i8, ptr %7, i64 16
  %33 = load i64, ptr %32, align 8
  %34 = load ptr, ptr %7, align 8
  %35 = getelementptr i8, ptr %6, i64 16
  %36 = load i64, ptr %35, align 8
  %37 = load ptr, ptr %6, align 8
  %38 = icmp eq i32 %15, 0
  %39 = select i1 %38, i64 2, i64 3
  %40 = icmp ne i32 %15, 0
  br label %41

41:
  %42 = phi i64 [ %26, %28 ], [ %57, %596 ]
  %43 = phi i64 [ 0, %28 ], [ %597, %596 ]
  %44 = getelementptr i64, ptr %0, i64 %42
  %45 = load i64, ptr %44, align 8
  %46 = add i64 %42, 1
  %47 = call i64 @llvm.smax.i64(i64 %3, i64 %46)
  br label %48

48:
  %49 = phi i64 [ %42, %41 ], [ %54, %53 ]
  %50 = getelementptr i64, ptr %0, i64 %49
  %51 = load i64, ptr %50, align 8
  %52 = icmp eq i64 %51, %45
  br i1 %52, label %53, label %56

53:
  %54 = add i64 %49, 1
  %55 = icmp eq i64 %54, %47
  br i1 %55, label %56, label %48

56:
  %57 = phi i64 [ %47, %53 ], [ %49, %48 ]
  %58 = icmp slt i64 %42, %57
  br i1 %58, label %59, label %158

59:
  %60 = phi i64 [ %151, %149 ], [ 0, %56 ]
  %61 = phi i64 [ %150, %149 ], [ 0, %56 ]
  %62 = phi i64 [ %152, %149 ], [ %42, %56 ]
  %63 = getelementptr i64, ptr %1, i64 %62
  %64 = load i64, ptr %63, align 8
  %65 = icmp slt i64 %64, 0
  br i1 %65, label %599, label %66

66:
  %67 = getelementptr i64, ptr %2, i64 %62
  %68 = load i64, ptr %67, align 8
  %69 = icmp sgt i64 %68, %25
  br i1 %69, label %599, label %70

70:
  %71 = icmp slt i64 %64, %68
  br i1 %71, label %72, label %149

72:
  %73 = phi i64 [ %145, %143 ], [ %60, %70 ]
  %74 = phi i64 [ %144, %143 ], [ %61, %70 ]
  %75 = phi i64 [ %146, %143 ], [ %64, %70 ]
  br i1 %22, label %96, label %76

76:
  switch i64 %30, label %93 [
    i64 1, label %77
    i64 2, label %81
    i64 4, label %85
    i64 5, label %89
  ]

77:
  %78 = getelementptr i8, ptr %31, i64 %75
  %79 = load i8, ptr %78, align 1
  %80 = zext i8 %79 to i64
  br label %96

81:
  %82 = getelementptr i16, ptr %31, i64 %75
  %83 = load i16, ptr %82, align 2
  %84 = sext i16 %83 to i64
  br label %96

85:
  %86 = getelementptr i32, ptr %31, i64 %75
  %87 = load i32, ptr %86, align 4
  %88 = sext i32 %87 to i64
  br label %96

89:
  %90 = getelementptr i32, ptr %31, i64 %75
  %91 = load i32, ptr %90, align 4
  %92 = zext i32 %91 to i64
  br label %96

93:
  %94 = getelementptr i64, ptr %31, i64 %75
  %95 = load i64, ptr %94, align 8
  br label %96

96:
  %97 = phi i64 [ %75, %72 ], [ %95, %93 ], [ %80, %77 ], [ %84, %81 ], [ %88, %85 ], [ %92, %89 ]
  %98 = icmp ult i64 %97, %24
  br i1 %98, label %99, label %599

99:
  switch i64 %33, label %116 [
    i64 1, label %100
    i64 2, label %104
    i64 4, label %108
    i64 5, label %112
  ]

100:
  %101 = getelementptr i8, ptr %34, i64 %97
  %102 = load i8, ptr %101, align 1
  %103 = zext i8 %102 to i64
  br label %119

104:
  %105 = getelementptr i16, ptr %34, i64 %97
  %106 = load i16, ptr %105, align 2
  %107 = sext i16 %106 to i64
  br label %119

108:
  %109 = getelementptr i32, ptr %34, i64 %97
  %110 = load i32, ptr %109, align 4
  %111 = sext i32 %110 to i64
  br label %119

112:
  %113 = getelementptr i32, ptr %34, i64 %97
  %114 = load i32, ptr %113, align 4
  %115 = zext i32 %114 to i64
  br label %119

116:
  %117 = getelementptr i64, ptr %34, i64 %97
  %118 = load i64, ptr %117, align 8
  br label %119

119:
  %120 = phi i64 [ %118, %116 ], [ %103, %100 ], [ %107, %104 ], [ %111, %108 ], [ %115, %112 ]
  %121 = icmp ult i64 %120, %9
  br i1 %121, label %122, label %599

122:
  %123 = getelementptr i64, ptr %8, i64 %120
  %124 = load i64, ptr %123, align 8
  %125 = icmp eq i64 %124, -1
  br i1 %125, label %143, label %126

126:
  %127 = icmp ult i64 %124, %10
  br i1 %127, label %128, label %599

128:
  %129 = icmp eq i64 %124, -2
  br i1 %129, label %143, label %130

130:
  %131 = icmp slt i64 %124, 0
  br i1 %131, label %599, label %132

132:
  %133 = add i64 %74, 1
  %134 = icmp slt i64 %74, %16
  br i1 %134, label %135, label %599

135:
  %136 = getelementptr i64, ptr %11, i64 %124
  %137 = load i64, ptr %136, align 8
  %138 = add i64 %137, 1
  store i64 %138, ptr %136, align 8
  %139 = icmp eq i64 %137, 0
  br i1 %139, label %140, label %143

140:
  %141 = add i64 %73, 1
  %142 = getelementptr i64, ptr %12, i64 %73
  store i64 %124, ptr %142, align 8
  br label %143

143:
  %144 = phi i64 [ %74, %128 ], [ %133, %135 ], [ %133, %140 ], [ %74, %122 ]
  %145 = phi i64 [ %73, %128 ], [ %73, %135 ], [ %141, %140 ], [ %73, %122 ]
  %146 = add i64 %75, 1
  %147 = load i64, ptr %67, align 8
  %148 = icmp slt i64 %146, %147
  br i1 %148, label %72, label %149

149:
  %150 = phi i64 [ %61, %70 ], [ %144, %143 ]
  %151 = phi i64 [ %60, %70 ], [ %145, %143 ]
  %152 = add i64 %62, 1
  %153 = icmp eq i64 %152, %57
  br i1 %153, label %154, label %59

154:
  %155 = add i64 %151, %43
  %156 = icmp sgt i64 %155, %18
  %157 = icmp sgt i64 %151, 0
  br i1 %156, label %162, label %160

158:
  %159 = icmp sgt i64 %43, %18
  br i1 %159, label %599, label %596

160:
  br i1 %157, label %170, label %161

161:
  br label %181

162:
  br i1 %157, label %163, label %599

163:
  %164 = phi i64 [ %168, %163 ], [ 0, %162 ]
  %165 = getelementptr i64, ptr %12, i64 %164
  %166 = load i64, ptr %165, align 8
  %167 = getelementptr i64, ptr %11, i64 %166
  store i64 0, ptr %167, align 8
  %168 = add i64 %164, 1
  %169 = icmp eq i64 %168, %151
  br i1 %169, label %599, label %163

170:
  %171 = phi i64 [ %178, %170 ], [ 0, %160 ]
  %172 = phi i64 [ %177, %170 ], [ 0, %160 ]
  %173 = getelementptr i64, ptr %12, i64 %171
  %174 = load i64, ptr %173, align 8
  %175 = getelementptr i64, ptr %11, i64 %174
  %176 = load i64, ptr %175, align 8
  store i64 %172, ptr %175, align 8
  %177 = add i64 %176, %172
  %178 = add i64 %171, 1
  %179 = icmp eq i64 %178, %151
  br i1 %179, label %161, label %170

180:
  br i1 %157, label %304, label %596

181:
  %182 = phi i64 [ %189, %188 ], [ %42, %161 ]
  %183 = getelementptr i64, ptr %1, i64 %182
  %184 = load i64, ptr %183, align 8
  %185 = getelementptr i64, ptr %2, i64 %182
  %186 = load i64, ptr %185, align 8
  %187 = icmp slt i64 %184, %186
  br i1 %187, label %191, label %188

188:
  %189 = add i64 %182, 1
  %190 = icmp eq i64 %189, %57
  br i1 %190, label %180, label %181

191:
  %192 = phi i64 [ %301, %300 ], [ %184, %181 ]
  br i1 %22, label %213, label %193

193:
  switch i64 %30, label %210 [
    i64 1, label %194
    i64 2, label %198
    i64 4, label %202
    i64 5, label %206
  ]

194:
  %195 = getelementptr i8, ptr %31, i64 %192
  %196 = load i8, ptr %195, align 1
  %197 = zext i8 %196 to i64
  br label %213

198:
  %199 = getelementptr i16, ptr %31, i64 %192
  %200 = load i16, ptr %199, align 2
  %201 = sext i16 %200 to i64
  br label %213

202:
  %203 = getelementptr i32, ptr %31, i64 %192
  %204 = load i32, ptr %203, align 4
  %205 = sext i32 %204 to i64
  br label %213

206:
  %207 = getelementptr i32, ptr %31, i64 %192
  %208 = load i32, ptr %207, align 4
  %209 = zext i32 %208 to i64
  br label %213

210:
  %211 = getelementptr i64, ptr %31, i64 %192
  %212 = load i64, ptr %211, align 8
  br label %213

213:
  %214 = phi i64 [ %192, %191 ], [ %212, %210 ], [ %197, %194 ], [ %201, %198 ], [ %205, %202 ], [ %209, %206 ]
  %215 = icmp ult i64 %214, %24
  br i1 %215, label %216, label %247

216:
  switch i64 %33, label %233 [
    i64 1, label %217
    i64 2, label %221
    i64 4, label %225
    i64 5, label %229
  ]

217:
  %218 = getelementptr i8, ptr %34, i64 %214
  %219 = load i8, ptr %218, align 1
  %220 = zext i8 %219 to i64
  br label %236

221:
  %222 = getelementptr i16, ptr %34, i64 %214
  %223 = load i16, ptr %222, align 2
  %224 = sext i16 %223 to i64
  br label %236

225:
  %226 = getelementptr i32, ptr %34, i64 %214
  %227 = load i32, ptr %226, align 4
  %228 = sext i32 %227 to i64
  br label %236

229:
  %230 = getelementptr i32, ptr %34, i64 %214
  %231 = load i32, ptr %230, align 4
  %232 = zext i32 %231 to i64
  br label %236

233:
  %234 = getelementptr i64, ptr %34, i64 %214
  %235 = load i64, ptr %234, align 8
  br label %236

236:
  %237 = phi i64 [ %235, %233 ], [ %220, %217 ], [ %224, %221 ], [ %228, %225 ], [ %232, %229 ]
  %238 = icmp ult i64 %237, %9
  br i1 %238, label %239, label %247

239:
  %240 = getelementptr i64, ptr %8, i64 %237
  %241 = load i64, ptr %240, align 8
  %242 = icmp eq i64 %241, -1
  br i1 %242, label %300, label %243

243:
  %244 = icmp ult i64 %241, %10
  br i1 %244, label %245, label %247

245:
  %246 = icmp eq i64 %241, -2
  br i1 %246, label %300, label %247

247:
  %248 = phi i64 [ %241, %245 ], [ -1, %213 ], [ -1, %243 ], [ -1, %236 ]
  %249 = getelementptr i64, ptr %11, i64 %248
  %250 = load i64, ptr %249, align 8
  %251 = add i64 %250, 1
  store i64 %251, ptr %249, align 8
  br i1 %22, label %272, label %252

252:
  switch i64 %30, label %269 [
    i64 1, label %253
    i64 2, label %257
    i64 4, label %261
    i64 5, label %265
  ]

253:
  %254 = getelementptr i8, ptr %31, i64 %192
  %255 = load i8, ptr %254, align 1
  %256 = zext i8 %255 to i64
  br label %272

257:
  %258 = getelementptr i16, ptr %31, i64 %192
  %259 = load i16, ptr %258, align 2
  %260 = sext i16 %259 to i64
  br label %272

261:
  %262 = getelementptr i32, ptr %31, i64 %192
  %263 = load i32, ptr %262, align 4
  %264 = sext i32 %263 to i64
  br label %272

265:
  %266 = getelementptr i32, ptr %31, i64 %192
  %267 = load i32, ptr %266, align 4
  %268 = zext i32 %267 to i64
  br label %272

269:
  %270 = getelementptr i64, ptr %31, i64 %192
  %271 = load i64, ptr %270, align 8
  br label %272

272:
  %273 = phi i64 [ %192, %247 ], [ %271, %269 ], [ %256, %253 ], [ %260, %257 ], [ %264, %261 ], [ %268, %265 ]
  switch i64 %36, label %290 [
    i64 1, label %274
    i64 2, label %278
    i64 4, label %282
    i64 5, label %286
  ]

274:
  %275 = getelementptr i8, ptr %37, i64 %273
  %276 = load i8, ptr %275, align 1
  %277 = zext i8 %276 to i64
  br label %293

278:
  %279 = getelementptr i16, ptr %37, i64 %273
  %280 = load i16, ptr %279, align 2
  %281 = sext i16 %280 to i64
  br label %293

282:
  %283 = getelementptr i32, ptr %37, i64 %273
  %284 = load i32, ptr %283, align 4
  %285 = sext i32 %284 to i64
  br label %293

286:
  %287 = getelementptr i32, ptr %37, i64 %273
  %288 = load i32, ptr %287, align 4
  %289 = zext i32 %288 to i64
  br label %293

290:
  %291 = getelementptr i64, ptr %37, i64 %273
  %292 = load i64, ptr %291, align 8
  br label %293

293:
  %294 = phi i64 [ %292, %290 ], [ %277, %274 ], [ %281, %278 ], [ %285, %282 ], [ %289, %286 ]
  br i1 %38, label %297, label %295

295:
  %296 = getelementptr i64, ptr %14, i64 %250
  store i64 %294, ptr %296, align 8
  br label %300

297:
  %298 = trunc i64 %294 to i32
  %299 = getelementptr i32, ptr %14, i64 %250
  store i32 %298, ptr %299, align 4
  br label %300

300:
  %301 = add i64 %192, 1
  %302 = load i64, ptr %185, align 8
  %303 = icmp slt i64 %301, %302
  br i1 %303, label %191, label %188

304:
  %305 = phi i64 [ %308, %589 ], [ %43, %180 ]
  %306 = phi i64 [ %594, %589 ], [ 0, %180 ]
  %307 = phi i64 [ %314, %589 ], [ 0, %180 ]
  %308 = add i64 %305, 1
  %309 = mul i64 %305, 80
  %310 = getelementptr i8, ptr %17, i64 %309
  %311 = getelementptr i64, ptr %12, i64 %306
  %312 = load i64, ptr %311, align 8
  %313 = getelementptr i64, ptr %11, i64 %312
  %314 = load i64, ptr %313, align 8
  %315 = load i64, ptr %44, align 8
  store i64 %315, ptr %310, align 8
  %316 = load i64, ptr %311, align 8
  %317 = getelementptr i8, ptr %310, i64 8
  store i64 %316, ptr %317, align 8
  %318 = shl i64 %307, %39
  %319 = getelementptr i8, ptr %14, i64 %318
  %320 = sub i64 %314, %307
  %321 = getelementptr i8, ptr %310, i64 16
  br i1 %38, label %324, label %322

322:
  %323 = load i64, ptr %319, align 8
  br label %327

324:
  %325 = load i32, ptr %319, align 4
  %326 = zext i32 %325 to i64
  br label %327

327:
  %328 = phi i64 [ %323, %322 ], [ %326, %324 ]
  %329 = icmp sgt i64 %320, 0
  br i1 %329, label %545, label %330

330:
  %331 = phi i64 [ 0, %327 ], [ %585, %584 ]
  %332 = phi i64 [ 0, %327 ], [ %586, %584 ]
  %333 = phi i64 [ %328, %327 ], [ %563, %584 ]
  %334 = phi i64 [ %328, %327 ], [ %562, %584 ]
  %335 = phi i64 [ 0, %327 ], [ %561, %584 ]
  store i64 %320, ptr %321, align 8
  %336 = getelementptr i8, ptr %310, i64 24
  store i64 %335, ptr %336, align 8
  %337 = getelementptr i8, ptr %310, i64 32
  store i64 %334, ptr %337, align 8
  %338 = getelementptr i8, ptr %310, i64 40
  store i64 %333, ptr %338, align 8
  %339 = getelementptr i8, ptr %310, i64 48
  %340 = add i64 %320, -1
  %341 = sdiv i64 %340, 2
  %342 = and i64 %320, 1
  %343 = icmp eq i64 %342, 0
  %344 = icmp slt i64 %320, 25
  br i1 %344, label %345, label %405

345:
  %346 = icmp sgt i64 %320, 1
  br i1 %346, label %347, label %387

347:
  %348 = phi i64 [ %385, %384 ], [ 1, %345 ]
  br i1 %38, label %352, label %349

349:
  %350 = getelementptr i64, ptr %319, i64 %348
  %351 = load i64, ptr %350, align 8
  br label %356

352:
  %353 = getelementptr i32, ptr %319, i64 %348
  %354 = load i32, ptr %353, align 4
  %355 = zext i32 %354 to i64
  br label %356

356:
  %357 = phi i64 [ %351, %349 ], [ %355, %352 ]
  br label %358

358:
  %359 = phi i64 [ %348, %356 ], [ %360, %376 ]
  %360 = add i64 %359, -1
  br i1 %38, label %361, label %366

361:
  %362 = getelementptr i32, ptr %319, i64 %360
  %363 = load i32, ptr %362, align 4
  %364 = zext i32 %363 to i64
  %365 = icmp slt i64 %357, %364
  br i1 %365, label %370, label %380

366:
  %367 = getelementptr i64, ptr %319, i64 %360
  %368 = load i64, ptr %367, align 8
  %369 = icmp sgt i64 %368, %357
  br i1 %369, label %373, label %377

370:
  %371 = getelementptr i32, ptr %319, i64 %359
  store i32 %363, ptr %371, align 4
  %372 = icmp sgt i64 %359, 1
  br i1 %372, label %376, label %380

373:
  %374 = getelementptr i64, ptr %319, i64 %359
  store i64 %368, ptr %374, align 8
  %375 = icmp sgt i64 %359, 1
  br i1 %375, label %376, label %377

376:
  br label %358

377:
  %378 = phi i64 [ 0, %373 ], [ %359, %366 ]
  %379 = getelementptr i64, ptr %319, i64 %378
  store i64 %357, ptr %379, align 8
  br label %384

380:
  %381 = phi i64 [ %359, %361 ], [ 0, %370 ]
  %382 = trunc i64 %357 to i32
  %383 = getelementptr i32, ptr %319, i64 %381
  store i32 %382, ptr %383, align 4
  br label %384

384:
  %385 = add i64 %348, 1
  %386 = icmp eq i64 %385, %320
  br i1 %386, label %387, label %347

387:
  br i1 %38, label %394, label %388

388:
  %389 = getelementptr i64, ptr %319, i64 %341
  %390 = load i64, ptr %389, align 8
  store i64 %390, ptr %339, align 8
  %391 = sdiv i64 %320, 2
  %392 = getelementptr i64, ptr %319, i64 %391
  %393 = load i64, ptr %392, align 8
  br label %402

394:
  %395 = getelementptr i32, ptr %319, i64 %341
  %396 = load i32, ptr %395, align 4
  %397 = zext i32 %396 to i64
  store i64 %397, ptr %339, align 8
  %398 = sdiv i64 %320, 2
  %399 = getelementptr i32, ptr %319, i64 %398
  %400 = load i32, ptr %399, align 4
  %401 = zext i32 %400 to i64
  br label %402

402:
  %403 = phi i64 [ %393, %388 ], [ %401, %394 ]
  %404 = getelementptr i8, ptr %310, i64 56
  store i64 %403, ptr %404, align 8
  br label %589

405:
  %406 = icmp ult i64 %320, 2048
  %407 = select i1 %406, i64 7, i64 11
  %408 = sub i64 %333, %334
  br label %409

409:
  %410 = phi i64 [ 0, %405 ], [ %414, %413 ]
  %411 = lshr i64 %408, %410
  %412 = icmp eq i64 %411, 0
  br i1 %412, label %416, label %413

413:
  %414 = add i64 %410, 1
  %415 = icmp eq i64 %414, 64
  br i1 %415, label %416, label %409

416:
  %417 = phi i64 [ 64, %413 ], [ %410, %409 ]
  %418 = getelementptr i8, ptr %310, i64 56
  br label %419

419:
  %420 = phi i64 [ %417, %416 ], [ %541, %540 ]
  %421 = phi i64 [ %333, %416 ], [ %542, %540 ]
  %422 = phi i64 [ %341, %416 ], [ %468, %540 ]
  %423 = phi i64 [ %334, %416 ], [ %543, %540 ]
  %424 = phi i64 [ %320, %416 ], [ %544, %540 ]
  br label %430

425:
  %426 = icmp sgt i64 %420, %407
  %427 = sub i64 %420, %407
  %428 = select i1 %426, i64 %427, i64 0
  %429 = icmp sgt i64 %424, 0
  br i1 %429, label %439, label %436

430:
  %431 = phi i64 [ 0, %419 ], [ %433, %430 ]
  %432 = getelementptr i64, ptr %13, i64 %431
  store i64 0, ptr %432, align 8
  %433 = add i64 %431, 1
  %434 = lshr i64 %433, %407
  %435 = icmp eq i64 %434, 0
  br i1 %435, label %430, label %425

436:
  %437 = load i64, ptr %13, align 8
  %438 = icmp slt i64 %422, %437
  br i1 %438, label %466, label %457

439:
  %440 = phi i64 [ %455, %448 ], [ 0, %425 ]
  br i1 %38, label %444, label %441

441:
  %442 = getelementptr i64, ptr %319, i64 %440
  %443 = load i64, ptr %442, align 8
  br label %448

444:
  %445 = getelementptr i32, ptr %319, i64 %440
  %446 = load i32, ptr %445, align 4
  %447 = zext i32 %446 to i64
  br label %448

448:
  %449 = phi i64 [ %443, %441 ], [ %447, %444 ]
  %450 = sub i64 %449, %423
  %451 = lshr i64 %450, %428
  %452 = getelementptr i64, ptr %13, i64 %451
  %453 = load i64, ptr %452, align 8
  %454 = add i64 %453, 1
  store i64 %454, ptr %452, align 8
  %455 = add i64 %440, 1
  %456 = icmp eq i64 %455, %424
  br i1 %456, label %436, label %439

457:
  %458 = phi i64 [ %464, %457 ], [ %437, %436 ]
  %459 = phi i64 [ %462, %457 ], [ %422, %436 ]
  %460 = phi i64 [ %461, %457 ], [ 0, %436 ]
  %461 = add i64 %460, 1
  %462 = sub i64 %459, %458
  %463 = getelementptr i64, ptr %13, i64 %461
  %464 = load i64, ptr %463, align 8
  %465 = icmp slt i64 %462, %464
  br i1 %465, label %466, label %457

466:
  %467 = phi i64 [ 0, %436 ], [ %461, %457 ]
  %468 = phi i64 [ %422, %436 ], [ %462, %457 ]
  %469 = getelementptr i64, ptr %13, i64 %467
  %470 = icmp eq i64 %428, 0
  br i1 %470, label %472, label %471

471:
  br i1 %429, label %506, label %501

472:
  %473 = and i1 %343, %429
  %474 = add i64 %467, %423
  br i1 %473, label %477, label %475

475:
  %476 = phi i64 [ %421, %472 ], [ %491, %487 ]
  store i64 %474, ptr %339, align 8
  br i1 %343, label %494, label %498

477:
  %478 = phi i64 [ %492, %487 ], [ 0, %472 ]
  %479 = phi i64 [ %491, %487 ], [ %421, %472 ]
  br i1 %38, label %483, label %480

480:
  %481 = getelementptr i64, ptr %319, i64 %478
  %482 = load i64, ptr %481, align 8
  br label %487

483:
  %484 = getelementptr i32, ptr %319, i64 %478
  %485 = load i32, ptr %484, align 4
  %486 = zext i32 %485 to i64
  br label %487

487:
  %488 = phi i64 [ %482, %480 ], [ %486, %483 ]
  %489 = icmp sgt i64 %488, %474
  %490 = call i64 @llvm.smin.i64(i64 %488, i64 %479)
  %491 = select i1 %489, i64 %490, i64 %479
  %492 = add i64 %478, 1
  %493 = icmp eq i64 %492, %424
  br i1 %493, label %475, label %477

494:
  %495 = add i64 %468, 1
  %496 = load i64, ptr %469, align 8
  %497 = icmp eq i64 %495, %496
  br i1 %497, label %499, label %498

498:
  br label %499

499:
  %500 = phi i64 [ %474, %498 ], [ %476, %494 ]
  store i64 %500, ptr %418, align 8
  br label %540

501:
  %502 = phi i64 [ %421, %471 ], [ %536, %535 ]
  %503 = phi i64 [ 0, %471 ], [ %537, %535 ]
  %504 = shl i64 %467, %428
  %505 = add i64 %504, %423
  br label %540

506:
  %507 = phi i64 [ %538, %535 ], [ 0, %471 ]
  %508 = phi i64 [ %537, %535 ], [ 0, %471 ]
  %509 = phi i64 [ %536, %535 ], [ %421, %471 ]
  br i1 %38, label %510, label %517

510:
  %511 = getelementptr i32, ptr %319, i64 %507
  %512 = load i32, ptr %511, align 4
  %513 = zext i32 %512 to i64
  %514 = sub i64 %513, %423
  %515 = lshr i64 %514, %428
  %516 = icmp eq i64 %515, %467
  br i1 %516, label %526, label %529

517:
  %518 = getelementptr i64, ptr %319, i64 %507
  %519 = load i64, ptr %518, align 8
  %520 = sub i64 %519, %423
  %521 = lshr i64 %520, %428
  %522 = icmp eq i64 %521, %467
  br i1 %522, label %523, label %529

523:
  %524 = add i64 %508, 1
  %525 = getelementptr i64, ptr %319, i64 %508
  store i64 %519, ptr %525, align 8
  br label %535

526:
  %527 = add i64 %508, 1
  %528 = getelementptr i32, ptr %319, i64 %508
  store i32 %512, ptr %528, align 4
  br label %535

529:
  %530 = phi i64 [ %521, %517 ], [ %515, %510 ]
  %531 = phi i64 [ %519, %517 ], [ %513, %510 ]
  %532 = icmp sgt i64 %530, %467
  %533 = call i64 @llvm.smin.i64(i64 %531, i64 %509)
  %534 = select i1 %532, i64 %533, i64 %509
  br label %535

535:
  %536 = phi i64 [ %534, %529 ], [ %509, %523 ], [ %509, %526 ]
  %537 = phi i64 [ %508, %529 ], [ %524, %523 ], [ %527, %526 ]
  %538 = add i64 %507, 1
  %539 = icmp eq i64 %538, %424
  br i1 %539, label %501, label %506

540:
  %541 = phi i64 [ %428, %501 ], [ %420, %499 ]
  %542 = phi i64 [ %502, %501 ], [ %476, %499 ]
  %543 = phi i64 [ %505, %501 ], [ %423, %499 ]
  %544 = phi i64 [ %503, %501 ], [ %424, %499 ]
  br i1 %470, label %589, label %419

545:
  %546 = phi i64 [ %561, %584 ], [ 0, %327 ]
  %547 = phi i64 [ %562, %584 ], [ %328, %327 ]
  %548 = phi i64 [ %563, %584 ], [ %328, %327 ]
  %549 = phi i64 [ %586, %584 ], [ 0, %327 ]
  %550 = phi i64 [ %585, %584 ], [ 0, %327 ]
  %551 = phi i64 [ %587, %584 ], [ 0, %327 ]
  br i1 %38, label %555, label %552

552:
  %553 = getelementptr i64, ptr %319, i64 %551
  %554 = load i64, ptr %553, align 8
  br label %559

555:
  %556 = getelementptr i32, ptr %319, i64 %551
  %557 = load i32, ptr %556, align 4
  %558 = zext i32 %557 to i64
  br label %559

559:
  %560 = phi i64 [ %554, %552 ], [ %558, %555 ]
  %561 = add i64 %560, %546
  %562 = call i64 @llvm.smin.i64(i64 %560, i64 %547)
  %563 = call i64 @llvm.smax.i64(i64 %560, i64 %548)
  %564 = and i64 %560, 4294967295
  %565 = lshr i64 %560, 32
  %566 = mul i64 %564, %564
  %567 = add i64 %566, %550
  %568 = icmp ult i64 %567, %566
  %569 = zext i1 %568 to i64
  %570 = add i64 %549, %569
  %571 = icmp ne i64 %565, 0
  %572 = select i1 %40, i1 %571, i1 false
  br i1 %572, label %573, label %584

573:
  %574 = mul i64 %564, %565
  %575 = shl i64 %574, 33
  %576 = add i64 %567, %575
  %577 = lshr i64 %574, 31
  %578 = mul i64 %565, %565
  %579 = add i64 %577, %578
  %580 = icmp ult i64 %576, %575
  %581 = zext i1 %580 to i64
  %582 = add i64 %579, %581
  %583 = add i64 %582, %570
  br label %584

584:
  %585 = phi i64 [ %576, %573 ], [ %567, %559 ]
  %586 = phi i64 [ %583, %573 ], [ %570, %559 ]
  %587 = add i64 %551, 1
  %588 = icmp eq i64 %587, %320
  br i1 %588, label %330, label %545

589:
  %590 = getelementptr i8, ptr %310, i64 64
  store i64 %332, ptr %590, align 8
  %591 = getelementptr i8, ptr %310, i64 72
  store i64 %331, ptr %591, align 8
  %592 = load i64, ptr %311, align 8
  %593 = getelementptr i64, ptr %11, i64 %592
  store i64 0, ptr %593, align 8
  %594 = add i64 %306, 1
  %595 = icmp eq i64 %594, %151
  br i1 %595, label %596, label %304

596:
  %597 = phi i64 [ %43, %180 ], [ %43, %158 ], [ %308, %589 ]
  store i64 %57, ptr %4, align 8
  %598 = icmp slt i64 %57, %3
  br i1 %598, label %41, label %599

599:
  %600 = phi i64 [ 0, %19 ], [ %43, %163 ], [ %43, %162 ], [ -1, %59 ], [ -1, %96 ], [ -1, %130 ], [ -1, %132 ], [ -1, %119 ], [ -1, %126 ], [ -1, %66 ], [ %597, %596 ], [ %43, %158 ]
  ret i64 %600
}

define i64 @sum_codes(ptr %0, ptr %1, i64 %2, ptr %3) {
  %5 = load ptr, ptr %0, align 8
  %6 = getelementptr i8, ptr %0, i64 8
  %7 = load i64, ptr %6, align 8
  %8 = getelementptr i8, ptr %0, i64 16
  %9 = load i64, ptr %8, align 8
  %10 = load ptr, ptr %1, align 8
  %11 = getelementptr i8, ptr %1, i64 8
  %12 = load i64, ptr %11, align 8
  %13 = getelementptr i8, ptr %1, i64 16
  %14 = load i64, ptr %13, align 8
  %15 = icmp eq i64 %7, %12
  br i1 %15, label %16, label %73

16:
  %17 = icmp sgt i64 %7, 0
  br i1 %17, label %18, label %73

18:
  %19 = phi i64 [ %71, %66 ], [ 0, %16 ]
  switch i64 %9, label %36 [
    i64 1, label %20
    i64 2, label %24
    i64 4, label %28
    i64 5, label %32
  ]

20:
  %21 = getelementptr i8, ptr %5, i64 %19
  %22 = load i8, ptr %21, align 1
  %23 = zext i8 %22 to i64
  br label %39

24:
  %25 = getelementptr i16, ptr %5, i64 %19
  %26 = load i16, ptr %25, align 2
  %27 = sext i16 %26 to i64
  br label %39

28:
  %29 = getelementptr i32, ptr %5, i64 %19
  %30 = load i32, ptr %29, align 4
  %31 = sext i32 %30 to i64
  br label %39

32:
  %33 = getelementptr i32, ptr %5, i64 %19
  %34 = load i32, ptr %33, align 4
  %35 = zext i32 %34 to i64
  br label %39

36:
  %37 = getelementptr i64, ptr %5, i64 %19
  %38 = load i64, ptr %37, align 8
  br label %39

39:
  %40 = phi i64 [ %38, %36 ], [ %23, %20 ], [ %27, %24 ], [ %31, %28 ], [ %35, %32 ]
  %41 = icmp ult i64 %40, %2
  br i1 %41, label %42, label %73

42:
  %43 = shl i64 %40, 4
  %44 = getelementptr i8, ptr %3, i64 %43
  %45 = load i64, ptr %44, align 8
  %46 = add i64 %45, 1
  store i64 %46, ptr %44, align 8
  switch i64 %14, label %63 [
    i64 1, label %47
    i64 2, label %51
    i64 4, label %55
    i64 5, label %59
  ]

47:
  %48 = getelementptr i8, ptr %10, i64 %19
  %49 = load i8, ptr %48, align 1
  %50 = zext i8 %49 to i64
  br label %66

51:
  %52 = getelementptr i16, ptr %10, i64 %19
  %53 = load i16, ptr %52, align 2
  %54 = sext i16 %53 to i64
  br label %66

55:
  %56 = getelementptr i32, ptr %10, i64 %19
  %57 = load i32, ptr %56, align 4
  %58 = sext i32 %57 to i64
  br label %66

59:
  %60 = getelementptr i32, ptr %10, i64 %19
  %61 = load i32, ptr %60, align 4
  %62 = zext i32 %61 to i64
  br label %66

63:
  %64 = getelementptr i64, ptr %10, i64 %19
  %65 = load i64, ptr %64, align 8
  br label %66

66:
  %67 = phi i64 [ %65, %63 ], [ %50, %47 ], [ %54, %51 ], [ %58, %55 ], [ %62, %59 ]
  %68 = getelementptr i8, ptr %44, i64 8
  %69 = load i64, ptr %68, align 8
  %70 = add i64 %69, %67
  store i64 %70, ptr %68, align 8
  %71 = add i64 %19, 1
  %72 = icmp eq i64 %71, %7
  br i1 %72, label %73, label %18

73:
  %74 = phi i64 [ -1, %4 ], [ 0, %16 ], [ -1, %39 ], [ 0, %66 ]
  ret i64 %74
}

define i64 @count_calls(ptr %0, ptr %1, ptr %2, ptr %3, ptr %4, ptr %5, i64 %6, i64 %7, ptr %8, ptr %9, ptr %10, ptr %11, i64 %12, ptr %13, i64 %14, ptr %15, ptr %16, ptr %17, ptr %18, ptr %19, i64 %20, i64 %21, ptr %22, ptr %23, ptr %24) {
  %26 = load ptr, ptr %0, align 8
  %27 = getelementptr i8, ptr %0, i64 8
  %28 = load i64, ptr %27, align 8
  %29 = getelementptr i8, ptr %0, i64 16
  %30 = load i64, ptr %29, align 8
  %31 = load ptr, ptr %1, align 8
  %32 = getelementptr i8, ptr %1, i64 8
  %33 = load i64, ptr %32, align 8
  %34 = getelementptr i8, ptr %1, i64 16
  %35 = load i64, ptr %34, align 8
  %36 = load ptr, ptr %2, align 8
  %37 = getelementptr i8, ptr %2, i64 8
  %38 = load i64, ptr %37, align 8
  %39 = getelementptr i8, ptr %2, i64 16
  %40 = load i64, ptr %39, align 8
  %41 = load ptr, ptr %3, align 8
  %42 = getelementptr i8, ptr %3, i64 8
  %43 = load i64, ptr %42, align 8
  %44 = getelementptr i8, ptr %3, i64 16
  %45 = load i64, ptr %44, align 8
  %46 = load ptr, ptr %8, align 8
  %47 = getelementptr i8, ptr %8, i64 16
  %48 = load i64, ptr %47, align 8
  %49 = load ptr, ptr %9, align 8
  %50 = getelementptr i8, ptr %9, i64 8
  %51 = load i64, ptr %50, align 8
  %52 = getelementptr i8, ptr %9, i64 16
  %53 = load i64, ptr %52, align 8
  %54 = load ptr, ptr %10, align 8
  %55 = getelementptr i8, ptr %10, i64 8
  %56 = load i64, ptr %55, align 8
  %57 = getelementptr i8, ptr %10, i64 16
  %58 = load i64, ptr %57, align 8
  %59 = getelementptr i64, ptr %13, i64 %14
  %60 = getelementptr i64, ptr %59, i64 %14
  %61 = getelementptr i64, ptr %60, i64 %14
  %62 = getelementptr i64, ptr %61, i64 %14
  %63 = icmp eq i64 %38, %33
  %64 = icmp eq i64 %43, %33
  %65 = select i1 %63, i1 %64, i1 false
  br i1 %65, label %66, label %494

66:
  %67 = getelementptr i8, ptr %8, i64 8
  %68 = load i64, ptr %67, align 8
  %69 = icmp eq i64 %68, 0
  %70 = icmp eq i64 %68, %33
  %71 = or i1 %69, %70
  br i1 %71, label %72, label %494

72:
  %73 = icmp eq i64 %51, 0
  %74 = icmp eq i64 %51, %33
  %75 = or i1 %73, %74
  br i1 %75, label %76, label %494

76:
  %77 = icmp eq i64 %56, 0
  %78 = icmp eq i64 %56, %33
  %79 = or i1 %77, %78
  br i1 %79, label %80, label %494

80:
  %81 = icmp eq i64 %28, 0
  %82 = select i1 %81, i64 %33, i64 %28
  %83 = icmp sgt i64 %82, 0
  br i1 %83, label %84, label %494

84:
  %85 = getelementptr i64, ptr %19, i64 %20
  %86 = icmp ne i64 %56, 0
  br label %87

87:
  %88 = phi i64 [ 0, %84 ], [ %491, %489 ]
  %89 = phi i64 [ 0, %84 ], [ %490, %489 ]
  %90 = phi i64 [ 0, %84 ], [ %492, %489 ]
  br i1 %81, label %111, label %91

91:
  switch i64 %30, label %108 [
    i64 1, label %92
    i64 2, label %96
    i64 4, label %100
    i64 5, label %104
  ]

92:
  %93 = getelementptr i8, ptr %26, i64 %90
  %94 = load i8, ptr %93, align 1
  %95 = zext i8 %94 to i64
  br label %111

96:
  %97 = getelementptr i16, ptr %26, i64 %90
  %98 = load i16, ptr %97, align 2
  %99 = sext i16 %98 to i64
  br label %111

100:
  %101 = getelementptr i32, ptr %26, i64 %90
  %102 = load i32, ptr %101, align 4
  %103 = sext i32 %102 to i64
  br label %111

104:
  %105 = getelementptr i32, ptr %26, i64 %90
  %106 = load i32, ptr %105, align 4
  %107 = zext i32 %106 to i64
  br label %111

108:
  %109 = getelementptr i64, ptr %26, i64 %90
  %110 = load i64, ptr %109, align 8
  br label %111

111:
  %112 = phi i64 [ %90, %87 ], [ %110, %108 ], [ %95, %92 ], [ %99, %96 ], [ %103, %100 ], [ %107, %104 ]
  %113 = icmp ult i64 %112, %33
  br i1 %113, label %114, label %494

114:
  switch i64 %45, label %131 [
    i64 1, label %115
    i64 2, label %119
    i64 4, label %123
    i64 5, label %127
  ]

115:
  %116 = getelementptr i8, ptr %41, i64 %112
  %117 = load i8, ptr %116, align 1
  %118 = zext i8 %117 to i64
  br label %134

119:
  %120 = getelementptr i16, ptr %41, i64 %112
  %121 = load i16, ptr %120, align 2
  %122 = sext i16 %121 to i64
  br label %134

123:
  %124 = getelementptr i32, ptr %41, i64 %112
  %125 = load i32, ptr %124, align 4
  %126 = sext i32 %125 to i64
  br label %134

127:
  %128 = getelementptr i32, ptr %41, i64 %112
  %129 = load i32, ptr %128, align 4
  %130 = zext i32 %129 to i64
  br label %134

131:
  %132 = getelementptr i64, ptr %41, i64 %112
  %133 = load i64, ptr %132, align 8
  br label %134

134:
  %135 = phi i64 [ %133, %131 ], [ %118, %115 ], [ %122, %119 ], [ %126, %123 ], [ %130, %127 ]
  %136 = icmp ult i64 %135, %6
  br i1 %136, label %137, label %494

137:
  %138 = getelementptr i64, ptr %4, i64 %135
  %139 = load i64, ptr %138, align 8
  %140 = icmp ult i64 %139, %12
  br i1 %140, label %141, label %489

141:
  switch i64 %35, label %158 [
    i64 1, label %142
    i64 2, label %146
    i64 4, label %150
    i64 5, label %154
  ]

142:
  %143 = getelementptr i8, ptr %31, i64 %112
  %144 = load i8, ptr %143, align 1
  %145 = zext i8 %144 to i64
  br label %161

146:
  %147 = getelementptr i16, ptr %31, i64 %112
  %148 = load i16, ptr %147, align 2
  %149 = sext i16 %148 to i64
  br label %161

150:
  %151 = getelementptr i32, ptr %31, i64 %112
  %152 = load i32, ptr %151, align 4
  %153 = sext i32 %152 to i64
  br label %161

154:
  %155 = getelementptr i32, ptr %31, i64 %112
  %156 = load i32, ptr %155, align 4
  %157 = zext i32 %156 to i64
  br label %161

158:
  %159 = getelementptr i64, ptr %31, i64 %112
  %160 = load i64, ptr %159, align 8
  br label %161

161:
  %162 = phi i64 [ %160, %158 ], [ %145, %142 ], [ %149, %146 ], [ %153, %150 ], [ %157, %154 ]
  switch i64 %40, label %179 [
    i64 1, label %163
    i64 2, label %167
    i64 4, label %171
    i64 5, label %175
  ]

163:
  %164 = getelementptr i8, ptr %36, i64 %112
  %165 = load i8, ptr %164, align 1
  %166 = zext i8 %165 to i64
  br label %182

167:
  %168 = getelementptr i16, ptr %36, i64 %112
  %169 = load i16, ptr %168, align 2
  %170 = sext i16 %169 to i64
  br label %182

171:
  %172 = getelementptr i32, ptr %36, i64 %112
  %173 = load i32, ptr %172, align 4
  %174 = sext i32 %173 to i64
  br label %182

175:
  %176 = getelementptr i32, ptr %36, i64 %112
  %177 = load i32, ptr %176, align 4
  %178 = zext i32 %177 to i64
  br label %182

179:
  %180 = getelementptr i64, ptr %36, i64 %112
  %181 = load i64, ptr %180, align 8
  br label %182

182:
  %183 = phi i64 [ %181, %179 ], [ %166, %163 ], [ %170, %167 ], [ %174, %171 ], [ %178, %175 ]
  %184 = add i64 %183, %162
  %185 = getelementptr i64, ptr %11, i64 %139
  %186 = load i64, ptr %185, align 8
  %187 = getelementptr i8, ptr %185, i64 8
  %188 = load i64, ptr %187, align 8
  %189 = getelementptr %struct.open_ranges, ptr %15, i64 %139
  %190 = getelementptr i64, ptr %16, i64 %186
  %191 = getelementptr i64, ptr %17, i64 %186
  %192 = getelementptr i64, ptr %18, i64 %186
  %193 = load i64, ptr %189, align 8
  %194 = icmp eq i64 %193, 0
  br i1 %194, label %195, label %197

195:
  %196 = add i64 %186, 1
  store i64 %196, ptr %189, align 8
  br label %201

197:
  %198 = getelementptr i8, ptr %189, i64 48
  %199 = load i64, ptr %198, align 8
  %200 = icmp slt i64 %162, %199
  br i1 %200, label %494, label %201

201:
  %202 = phi i64 [ %193, %197 ], [ %196, %195 ]
  %203 = getelementptr i8, ptr %189, i64 48
  store i64 %162, ptr %203, align 8
  %204 = getelementptr i8, ptr %189, i64 8
  %205 = load i64, ptr %204, align 8
  %206 = icmp eq i64 %205, 0
  br i1 %206, label %237, label %207

207:
  %208 = getelementptr i8, ptr %189, i64 32
  %209 = load i64, ptr %208, align 8
  %210 = icmp slt i64 %209, %162
  br i1 %210, label %211, label %237

211:
  %212 = add i64 %205, %89
  %213 = icmp sgt i64 %205, 0
  br i1 %213, label %219, label %216

214:
  %215 = load i64, ptr %189, align 8
  br label %216

216:
  %217 = phi i64 [ %202, %211 ], [ %215, %214 ]
  %218 = phi i64 [ 0, %211 ], [ %234, %214 ]
  store i64 %218, ptr %204, align 8
  br label %237

219:
  %220 = phi i64 [ %233, %232 ], [ %205, %211 ]
  %221 = phi i64 [ %235, %232 ], [ 0, %211 ]
  %222 = phi i64 [ %234, %232 ], [ 0, %211 ]
  %223 = getelementptr i64, ptr %190, i64 %221
  %224 = load i64, ptr %223, align 8
  %225 = getelementptr i64, ptr %59, i64 %224
  %226 = load i64, ptr %225, align 8
  %227 = icmp slt i64 %226, %162
  br i1 %227, label %232, label %228

228:
  %229 = add i64 %222, 1
  %230 = getelementptr i64, ptr %190, i64 %222
  store i64 %224, ptr %230, align 8
  %231 = load i64, ptr %204, align 8
  br label %232

232:
  %233 = phi i64 [ %231, %228 ], [ %220, %219 ]
  %234 = phi i64 [ %229, %228 ], [ %222, %219 ]
  %235 = add i64 %221, 1
  %236 = icmp slt i64 %235, %233
  br i1 %236, label %219, label %214

237:
  %238 = phi i64 [ %218, %216 ], [ %205, %207 ], [ 0, %201 ]
  %239 = phi i64 [ %217, %216 ], [ %202, %207 ], [ %202, %201 ]
  %240 = phi i32 [ 1, %216 ], [ 0, %207 ], [ 0, %201 ]
  %241 = phi i64 [ %212, %216 ], [ %89, %207 ], [ %89, %201 ]
  %242 = add i64 %239, -1
  %243 = icmp slt i64 %242, %188
  br i1 %243, label %244, label %268

244:
  %245 = phi i64 [ %263, %260 ], [ %239, %237 ]
  %246 = phi i64 [ %261, %260 ], [ %242, %237 ]
  %247 = phi i32 [ %262, %260 ], [ %240, %237 ]
  %248 = getelementptr i64, ptr %13, i64 %246
  %249 = load i64, ptr %248, align 8
  %250 = icmp sgt i64 %249, %162
  br i1 %250, label %265, label %251

251:
  %252 = getelementptr i64, ptr %59, i64 %246
  %253 = load i64, ptr %252, align 8
  %254 = icmp slt i64 %253, %162
  br i1 %254, label %260, label %255

255:
  %256 = load i64, ptr %204, align 8
  %257 = add i64 %256, 1
  store i64 %257, ptr %204, align 8
  %258 = getelementptr i64, ptr %190, i64 %256
  store i64 %246, ptr %258, align 8
  %259 = load i64, ptr %189, align 8
  br label %260

260:
  %261 = phi i64 [ %259, %255 ], [ %245, %251 ]
  %262 = phi i32 [ 1, %255 ], [ %247, %251 ]
  %263 = add i64 %261, 1
  store i64 %263, ptr %189, align 8
  %264 = icmp slt i64 %261, %188
  br i1 %264, label %244, label %265

265:
  %266 = phi i32 [ %247, %244 ], [ %262, %260 ]
  %267 = load i64, ptr %204, align 8
  br label %268

268:
  %269 = phi i64 [ %238, %237 ], [ %267, %265 ]
  %270 = phi i32 [ %240, %237 ], [ %266, %265 ]
  %271 = icmp eq i64 %269, 0
  br i1 %271, label %489, label %272

272:
  %273 = icmp eq i32 %270, 0
  br i1 %273, label %274, label %278

274:
  %275 = getelementptr i8, ptr %189, i64 40
  %276 = load i64, ptr %275, align 8
  %277 = icmp sgt i64 %184, %276
  br i1 %277, label %278, label %331

278:
  %279 = add i64 %88, 1
  %280 = add i64 %269, %241
  %281 = getelementptr i8, ptr %189, i64 24
  store i64 0, ptr %281, align 8
  %282 = getelementptr i8, ptr %189, i64 16
  store i64 0, ptr %282, align 8
  %283 = getelementptr i8, ptr %189, i64 32
  store i64 9223372036854775807, ptr %283, align 8
  %284 = icmp sgt i64 %269, 0
  br i1 %284, label %292, label %287

285:
  %286 = load i64, ptr %283, align 8
  br label %287

287:
  %288 = phi i64 [ %286, %285 ], [ 9223372036854775807, %278 ]
  %289 = icmp sgt i64 %184, %288
  %290 = select i1 %289, i64 -9223372036854775808, i64 %288
  %291 = getelementptr i8, ptr %189, i64 40
  store i64 %290, ptr %291, align 8
  br label %331

292:
  %293 = phi i64 [ %328, %327 ], [ 0, %278 ]
  %294 = getelementptr i64, ptr %190, i64 %293
  %295 = load i64, ptr %294, align 8
  %296 = getelementptr i64, ptr %59, i64 %295
  %297 = load i64, ptr %296, align 8
  %298 = load i64, ptr %283, align 8
  %299 = icmp slt i64 %297, %298
  br i1 %299, label %300, label %302

300:
  store i64 %297, ptr %283, align 8
  %301 = load i64, ptr %296, align 8
  br label %302

302:
  %303 = phi i64 [ %301, %300 ], [ %297, %292 ]
  %304 = icmp slt i64 %303, %184
  br i1 %304, label %327, label %305

305:
  %306 = getelementptr i64, ptr %60, i64 %295
  %307 = load i64, ptr %306, align 8
  %308 = getelementptr i64, ptr %19, i64 %307
  %309 = load i64, ptr %308, align 8
  %310 = icmp eq i64 %309, %279
  br i1 %310, label %316, label %311

311:
  store i64 %279, ptr %308, align 8
  %312 = load i64, ptr %306, align 8
  %313 = load i64, ptr %282, align 8
  %314 = add i64 %313, 1
  store i64 %314, ptr %282, align 8
  %315 = getelementptr i64, ptr %191, i64 %313
  store i64 %312, ptr %315, align 8
  br label %316

316:
  %317 = getelementptr i64, ptr %61, i64 %295
  %318 = load i64, ptr %317, align 8
  %319 = getelementptr i64, ptr %85, i64 %318
  %320 = load i64, ptr %319, align 8
  %321 = icmp eq i64 %320, %279
  br i1 %321, label %327, label %322

322:
  store i64 %279, ptr %319, align 8
  %323 = load i64, ptr %317, align 8
  %324 = load i64, ptr %281, align 8
  %325 = add i64 %324, 1
  store i64 %325, ptr %281, align 8
  %326 = getelementptr i64, ptr %192, i64 %324
  store i64 %323, ptr %326, align 8
  br label %327

327:
  %328 = add i64 %293, 1
  %329 = load i64, ptr %204, align 8
  %330 = icmp slt i64 %328, %329
  br i1 %330, label %292, label %285

331:
  %332 = phi i64 [ %280, %287 ], [ %241, %274 ]
  %333 = phi i64 [ %279, %287 ], [ %88, %274 ]
  %334 = getelementptr i8, ptr %189, i64 16
  %335 = load i64, ptr %334, align 8
  %336 = add i64 %335, %332
  %337 = icmp sgt i64 %336, %21
  br i1 %337, label %494, label %338

338:
  %339 = getelementptr i64, ptr %5, i64 %135
  %340 = load i64, ptr %339, align 8
  %341 = icmp ult i64 %340, %7
  %342 = icmp sgt i64 %335, 0
  %343 = and i1 %341, %342
  br i1 %343, label %344, label %360

344:
  %345 = phi i64 [ %357, %344 ], [ 0, %338 ]
  %346 = getelementptr i64, ptr %191, i64 %345
  %347 = load i64, ptr %346, align 8
  %348 = mul i64 %347, %7
  %349 = add i64 %348, %340
  %350 = shl i64 %349, 4
  %351 = getelementptr i8, ptr %22, i64 %350
  %352 = load i64, ptr %351, align 8
  %353 = add i64 %352, 1
  store i64 %353, ptr %351, align 8
  %354 = getelementptr i8, ptr %351, i64 8
  %355 = load i64, ptr %354, align 8
  %356 = add i64 %355, %183
  store i64 %356, ptr %354, align 8
  %357 = add i64 %345, 1
  %358 = load i64, ptr %334, align 8
  %359 = icmp slt i64 %357, %358
  br i1 %359, label %344, label %360

360:
  br i1 %69, label %489, label %361

361:
  switch i64 %48, label %378 [
    i64 1, label %362
    i64 2, label %366
    i64 4, label %370
    i64 5, label %374
  ]

362:
  %363 = getelementptr i8, ptr %46, i64 %112
  %364 = load i8, ptr %363, align 1
  %365 = zext i8 %364 to i64
  br label %381

366:
  %367 = getelementptr i16, ptr %46, i64 %112
  %368 = load i16, ptr %367, align 2
  %369 = sext i16 %368 to i64
  br label %381

370:
  %371 = getelementptr i32, ptr %46, i64 %112
  %372 = load i32, ptr %371, align 4
  %373 = sext i32 %372 to i64
  br label %381

374:
  %375 = getelementptr i32, ptr %46, i64 %112
  %376 = load i32, ptr %375, align 4
  %377 = zext i32 %376 to i64
  br label %381

378:
  %379 = getelementptr i64, ptr %46, i64 %112
  %380 = load i64, ptr %379, align 8
  br label %381

381:
  %382 = phi i64 [ %380, %378 ], [ %365, %362 ], [ %369, %366 ], [ %373, %370 ], [ %377, %374 ]
  %383 = icmp eq i64 %382, 0
  br i1 %383, label %489, label %384

384:
  br i1 %73, label %409, label %385

385:
  switch i64 %53, label %402 [
    i64 1, label %386
    i64 2, label %390
    i64 4, label %394
    i64 5, label %398
  ]

386:
  %387 = getelementptr i8, ptr %49, i64 %112
  %388 = load i8, ptr %387, align 1
  %389 = zext i8 %388 to i64
  br label %405

390:
  %391 = getelementptr i16, ptr %49, i64 %112
  %392 = load i16, ptr %391, align 2
  %393 = sext i16 %392 to i64
  br label %405

394:
  %395 = getelementptr i32, ptr %49, i64 %112
  %396 = load i32, ptr %395, align 4
  %397 = sext i32 %396 to i64
  br label %405

398:
  %399 = getelementptr i32, ptr %49, i64 %112
  %400 = load i32, ptr %399, align 4
  %401 = zext i32 %400 to i64
  br label %405

402:
  %403 = getelementptr i64, ptr %49, i64 %112
  %404 = load i64, ptr %403, align 8
  br label %405

405:
  %406 = phi i64 [ %404, %402 ], [ %389, %386 ], [ %393, %390 ], [ %397, %394 ], [ %401, %398 ]
  %407 = icmp ne i64 %406, 0
  %408 = zext i1 %407 to i64
  br label %409

409:
  %410 = phi i64 [ 0, %384 ], [ %408, %405 ]
  br i1 %77, label %435, label %411

411:
  switch i64 %58, label %428 [
    i64 1, label %412
    i64 2, label %416
    i64 4, label %420
    i64 5, label %424
  ]

412:
  %413 = getelementptr i8, ptr %54, i64 %112
  %414 = load i8, ptr %413, align 1
  %415 = zext i8 %414 to i64
  br label %431

416:
  %417 = getelementptr i16, ptr %54, i64 %112
  %418 = load i16, ptr %417, align 2
  %419 = sext i16 %418 to i64
  br label %431

420:
  %421 = getelementptr i32, ptr %54, i64 %112
  %422 = load i32, ptr %421, align 4
  %423 = sext i32 %422 to i64
  br label %431

424:
  %425 = getelementptr i32, ptr %54, i64 %112
  %426 = load i32, ptr %425, align 4
  %427 = zext i32 %426 to i64
  br label %431

428:
  %429 = getelementptr i64, ptr %54, i64 %112
  %430 = load i64, ptr %429, align 8
  br label %431

431:
  %432 = phi i64 [ %430, %428 ], [ %415, %412 ], [ %419, %416 ], [ %423, %420 ], [ %427, %424 ]
  %433 = icmp ne i64 %432, 0
  %434 = zext i1 %433 to i64
  br label %435

435:
  %436 = phi i64 [ 0, %409 ], [ %434, %431 ]
  %437 = getelementptr i8, ptr %189, i64 24
  %438 = load i64, ptr %437, align 8
  %439 = icmp sgt i64 %438, 0
  br i1 %439, label %444, label %440

440:
  %441 = load i64, ptr %204, align 8
  %442 = icmp sgt i64 %441, 0
  %443 = select i1 %442, i1 %86, i1 false
  br i1 %443, label %461, label %489

444:
  %445 = phi i64 [ %458, %444 ], [ 0, %435 ]
  %446 = getelementptr i64, ptr %192, i64 %445
  %447 = load i64, ptr %446, align 8
  %448 = mul i64 %447, 24
  %449 = getelementptr i8, ptr %23, i64 %448
  %450 = load i64, ptr %449, align 8
  %451 = add i64 %450, 1
  store i64 %451, ptr %449, align 8
  %452 = getelementptr i8, ptr %449, i64 8
  %453 = load i64, ptr %452, align 8
  %454 = add i64 %453, %410
  store i64 %454, ptr %452, align 8
  %455 = getelementptr i8, ptr %449, i64 16
  %456 = load i64, ptr %455, align 8
  %457 = add i64 %456, %436
  store i64 %457, ptr %455, align 8
  %458 = add i64 %445, 1
  %459 = load i64, ptr %437, align 8
  %460 = icmp slt i64 %458, %459
  br i1 %460, label %444, label %440

461:
  %462 = phi i64 [ %486, %485 ], [ %441, %440 ]
  %463 = phi i64 [ %487, %485 ], [ 0, %440 ]
  %464 = getelementptr i64, ptr %190, i64 %463
  %465 = load i64, ptr %464, align 8
  %466 = getelementptr i64, ptr %59, i64 %465
  %467 = load i64, ptr %466, align 8
  %468 = icmp slt i64 %467, %184
  br i1 %468, label %485, label %469

469:
  %470 = getelementptr i64, ptr %62, i64 %465
  %471 = load i64, ptr %470, align 8
  %472 = shl i64 %471, 4
  %473 = getelementptr i8, ptr %24, i64 %472
  %474 = load i64, ptr %473, align 8
  %475 = add i64 %474, 1
  store i64 %475, ptr %473, align 8
  %476 = load i64, ptr %464, align 8
  %477 = getelementptr i64, ptr %62, i64 %476
  %478 = load i64, ptr %477, align 8
  %479 = shl i64 %478, 4
  %480 = getelementptr i8, ptr %24, i64 %479
  %481 = getelementptr i8, ptr %480, i64 8
  %482 = load i64, ptr %481, align 8
  %483 = add i64 %482, %436
  store i64 %483, ptr %481, align 8
  %484 = load i64, ptr %204, align 8
  br label %485

485:
  %486 = phi i64 [ %462, %461 ], [ %484, %469 ]
  %487 = add i64 %463, 1
  %488 = icmp slt i64 %487, %486
  br i1 %488, label %461, label %489

489:
  %490 = phi i64 [ %336, %381 ], [ %336, %360 ], [ %89, %137 ], [ %241, %268 ], [ %336, %440 ], [ %336, %485 ]
  %491 = phi i64 [ %333, %381 ], [ %333, %360 ], [ %88, %137 ], [ %88, %268 ], [ %333, %440 ], [ %333, %485 ]
  %492 = add i64 %90, 1
  %493 = icmp eq i64 %492, %82
  br i1 %493, label %494, label %87

494:
  %495 = phi i64 [ -2, %76 ], [ -2, %25 ], [ -2, %72 ], [ -2, %66 ], [ 0, %80 ], [ -2, %331 ], [ 0, %489 ], [ -1, %197 ], [ -2, %134 ], [ -2, %111 ]
  ret i64 %495
}

define i64 @find_places(ptr %0, ptr %1, i64 %2, ptr %3) {
  %5 = load ptr, ptr %0, align 8
  %6 = getelementptr i8, ptr %0, i64 8
  %7 = load i64, ptr %6, align 8
  %8 = getelementptr i8, ptr %0, i64 16
  %9 = load i64, ptr %8, align 8
  %10 = load ptr, ptr %1, align 8
  %11 = getelementptr i8, ptr %1, i64 8
  %12 = load i64, ptr %11, align 8
  %13 = getelementptr i8, ptr %1, i64 16
  %14 = load i64, ptr %13, align 8
  %15 = icmp sgt i64 %12, 0
  br i1 %15, label %16, label %18

16:
  %17 = icmp eq i64 %2, 0
  br label %19

18:
  ret i64 0

19:
  %20 = phi i64 [ 0, %16 ], [ %161, %160 ]
  %21 = phi i64 [ 0, %16 ], [ %163, %160 ]
  switch i64 %14, label %38 [
    i64 1, label %22
    i64 2, label %26
    i64 4, label %30
    i64 5, label %34
  ]

22:
  %23 = getelementptr i8, ptr %10, i64 %21
  %24 = load i8, ptr %23, align 1
  %25 = zext i8 %24 to i64
  br label %41

26:
  %27 = getelementptr i16, ptr %10, i64 %21
  %28 = load i16, ptr %27, align 2
  %29 = sext i16 %28 to i64
  br label %41

30:
  %31 = getelementptr i32, ptr %10, i64 %21
  %32 = load i32, ptr %31, align 4
  %33 = sext i32 %32 to i64
  br label %41

34:
  %35 = getelementptr i32, ptr %10, i64 %21
  %36 = load i32, ptr %35, align 4
  %37 = zext i32 %36 to i64
  br label %41

38:
  %39 = getelementptr i64, ptr %10, i64 %21
  %40 = load i64, ptr %39, align 8
  br label %41

41:
  %42 = phi i64 [ %40, %38 ], [ %25, %22 ], [ %29, %26 ], [ %33, %30 ], [ %37, %34 ]
  %43 = icmp slt i64 %20, %7
  br i1 %43, label %44, label %80

44:
  %45 = phi i64 [ %78, %72 ], [ 1, %41 ]
  %46 = phi i64 [ %77, %72 ], [ %20, %41 ]
  %47 = phi i64 [ %73, %72 ], [ %20, %41 ]
  switch i64 %9, label %64 [
    i64 1, label %48
    i64 2, label %52
    i64 4, label %56
    i64 5, label %60
  ]

48:
  %49 = getelementptr i8, ptr %5, i64 %46
  %50 = load i8, ptr %49, align 1
  %51 = zext i8 %50 to i64
  br label %67

52:
  %53 = getelementptr i16, ptr %5, i64 %46
  %54 = load i16, ptr %53, align 2
  %55 = sext i16 %54 to i64
  br label %67

56:
  %57 = getelementptr i32, ptr %5, i64 %46
  %58 = load i32, ptr %57, align 4
  %59 = sext i32 %58 to i64
  br label %67

60:
  %61 = getelementptr i32, ptr %5, i64 %46
  %62 = load i32, ptr %61, align 4
  %63 = zext i32 %62 to i64
  br label %67

64:
  %65 = getelementptr i64, ptr %5, i64 %46
  %66 = load i64, ptr %65, align 8
  br label %67

67:
  %68 = phi i64 [ %66, %64 ], [ %51, %48 ], [ %55, %52 ], [ %59, %56 ], [ %63, %60 ]
  %69 = icmp sgt i64 %68, %42
  %70 = icmp sge i64 %68, %42
  %71 = select i1 %17, i1 %70, i1 %69
  br i1 %71, label %80, label %72

72:
  %73 = add i64 %46, 1
  %74 = sub i64 %7, %73
  %75 = icmp sgt i64 %74, %45
  %76 = add i64 %73, %45
  %77 = select i1 %75, i64 %76, i64 %7
  %78 = shl i64 %45, 1
  %79 = icmp slt i64 %77, %7
  br i1 %79, label %44, label %80

80:
  %81 = phi i64 [ %20, %41 ], [ %73, %72 ], [ %47, %67 ]
  %82 = phi i64 [ %20, %41 ], [ %77, %72 ], [ %46, %67 ]
  %83 = phi i64 [ 1, %41 ], [ %78, %72 ], [ %45, %67 ]
  %84 = icmp eq i64 %81, %20
  %85 = icmp sgt i64 %81, 0
  %86 = and i1 %84, %85
  br i1 %86, label %87, label %122

87:
  %88 = phi i64 [ %118, %116 ], [ %20, %80 ]
  %89 = phi i64 [ %91, %116 ], [ %82, %80 ]
  %90 = phi i64 [ %120, %116 ], [ %83, %80 ]
  %91 = add i64 %88, -1
  switch i64 %9, label %108 [
    i64 1, label %92
    i64 2, label %96
    i64 4, label %100
    i64 5, label %104
  ]

92:
  %93 = getelementptr i8, ptr %5, i64 %91
  %94 = load i8, ptr %93, align 1
  %95 = zext i8 %94 to i64
  br label %111

96:
  %97 = getelementptr i16, ptr %5, i64 %91
  %98 = load i16, ptr %97, align 2
  %99 = sext i16 %98 to i64
  br label %111

100:
  %101 = getelementptr i32, ptr %5, i64 %91
  %102 = load i32, ptr %101, align 4
  %103 = sext i32 %102 to i64
  br label %111

104:
  %105 = getelementptr i32, ptr %5, i64 %91
  %106 = load i32, ptr %105, align 4
  %107 = zext i32 %106 to i64
  br label %111

108:
  %109 = getelementptr i64, ptr %5, i64 %91
  %110 = load i64, ptr %109, align 8
  br label %111

111:
  %112 = phi i64 [ %110, %108 ], [ %95, %92 ], [ %99, %96 ], [ %103, %100 ], [ %107, %104 ]
  %113 = icmp sgt i64 %112, %42
  %114 = icmp sge i64 %112, %42
  %115 = select i1 %17, i1 %114, i1 %113
  br i1 %115, label %116, label %122

116:
  %117 = icmp sgt i64 %91, %90
  %118 = sub i64 %91, %90
  %119 = select i1 %117, i64 %118, i64 0
  %120 = shl i64 %90, 1
  %121 = icmp sgt i64 %119, 0
  br i1 %121, label %87, label %122

122:
  %123 = phi i64 [ %81, %80 ], [ %88, %111 ], [ %119, %116 ]
  %124 = phi i64 [ %82, %80 ], [ %89, %111 ], [ %91, %116 ]
  %125 = icmp slt i64 %123, %124
  br i1 %125, label %126, label %160

126:
  %127 = phi i64 [ %158, %151 ], [ %124, %122 ]
  %128 = phi i64 [ %157, %151 ], [ %123, %122 ]
  %129 = sub i64 %127, %128
  %130 = sdiv i64 %129, 2
  %131 = add i64 %130, %128
  switch i64 %9, label %148 [
    i64 1, label %132
    i64 2, label %136
    i64 4, label %140
    i64 5, label %144
  ]

132:
  %133 = getelementptr i8, ptr %5, i64 %131
  %134 = load i8, ptr %133, align 1
  %135 = zext i8 %134 to i64
  br label %151

136:
  %137 = getelementptr i16, ptr %5, i64 %131
  %138 = load i16, ptr %137, align 2
  %139 = sext i16 %138 to i64
  br label %151

140:
  %141 = getelementptr i32, ptr %5, i64 %131
  %142 = load i32, ptr %141, align 4
  %143 = sext i32 %142 to i64
  br label %151

144:
  %145 = getelementptr i32, ptr %5, i64 %131
  %146 = load i32, ptr %145, align 4
  %147 = zext i32 %146 to i64
  br label %151

148:
  %149 = getelementptr i64, ptr %5, i64 %131
  %150 = load i64, ptr %149, align 8
  br label %151

151:
  %152 = phi i64 [ %150, %148 ], [ %135, %132 ], [ %139, %136 ], [ %143, %140 ], [ %147, %144 ]
  %153 = icmp sgt i64 %152, %42
  %154 = icmp sge i64 %152, %42
  %155 = select i1 %17, i1 %154, i1 %153
  %156 = add i64 %131, 1
  %157 = select i1 %155, i64 %128, i64 %156
  %158 = select i1 %155, i64 %131, i64 %127
  %159 = icmp slt i64 %157, %158
  br i1 %159, label %126, label %160

160:
  %161 = phi i64 [ %123, %122 ], [ %157, %151 ]
  %162 = getelementptr i64, ptr %3, i64 %21
  store i64 %161, ptr %162, align 8
  %163 = add i64 %21, 1
  %164 = icmp eq i64 %163, %12
  br i1 %164, label %18, label %19
}

define i64 @find_rows(ptr %0, ptr %1, ptr %2) {
  %4 = load ptr, ptr %0, align 8
  %5 = getelementptr i8, ptr %0, i64 8
  %6 = load i64, ptr %5, align 8
  %7 = getelementptr i8, ptr %0, i64 16
  %8 = load i64, ptr %7, align 8
  %9 = load ptr, ptr %1, align 8
  %10 = getelementptr i8, ptr %1, i64 8
  %11 = load i64, ptr %10, align 8
  %12 = getelementptr i8, ptr %1, i64 16
  %13 = load i64, ptr %12, align 8
  %14 = load ptr, ptr %2, align 8
  %15 = getelementptr i8, ptr %2, i64 8
  %16 = load i64, ptr %15, align 8
  %17 = icmp eq i64 %8, 1
  br i1 %17, label %18, label %64

18:
  %19 = getelementptr i8, ptr %2, i64 16
  %20 = load i64, ptr %19, align 8
  %21 = icmp eq i64 %20, 4
  br i1 %21, label %22, label %64

22:
  %23 = icmp sgt i64 %11, 0
  br i1 %23, label %24, label %64

24:
  %25 = phi i64 [ %62, %60 ], [ 0, %22 ]
  %26 = phi i64 [ %61, %60 ], [ 0, %22 ]
  switch i64 %13, label %43 [
    i64 1, label %27
    i64 2, label %31
    i64 4, label %35
    i64 5, label %39
  ]

27:
  %28 = getelementptr i8, ptr %9, i64 %25
  %29 = load i8, ptr %28, align 1
  %30 = zext i8 %29 to i64
  br label %46

31:
  %32 = getelementptr i16, ptr %9, i64 %25
  %33 = load i16, ptr %32, align 2
  %34 = sext i16 %33 to i64
  br label %46

35:
  %36 = getelementptr i32, ptr %9, i64 %25
  %37 = load i32, ptr %36, align 4
  %38 = sext i32 %37 to i64
  br label %46

39:
  %40 = getelementptr i32, ptr %9, i64 %25
  %41 = load i32, ptr %40, align 4
  %42 = zext i32 %41 to i64
  br label %46

43:
  %44 = getelementptr i64, ptr %9, i64 %25
  %45 = load i64, ptr %44, align 8
  br label %46

46:
  %47 = phi i64 [ %45, %43 ], [ %30, %27 ], [ %34, %31 ], [ %38, %35 ], [ %42, %39 ]
  %48 = icmp ult i64 %47, %6
  br i1 %48, label %49, label %64

49:
  %50 = getelementptr i8, ptr %4, i64 %47
  %51 = load i8, ptr %50, align 1
  %52 = icmp eq i8 %51, 0
  br i1 %52, label %60, label %53

53:
  %54 = icmp slt i64 %26, %16
  br i1 %54, label %55, label %58

55:
  %56 = trunc i64 %25 to i32
  %57 = getelementptr i32, ptr %14, i64 %26
  store i32 %56, ptr %57, align 4
  br label %58

58:
  %59 = add i64 %26, 1
  br label %60

60:
  %61 = phi i64 [ %26, %49 ], [ %59, %58 ]
  %62 = add i64 %25, 1
  %63 = icmp eq i64 %62, %11
  br i1 %63, label %64, label %24

64:
  %65 = phi i64 [ -1, %18 ], [ -1, %3 ], [ 0, %22 ], [ -1, %46 ], [ %61, %60 ]
  ret i64 %65
}

define i64 @order_work(ptr %0, ptr %1, ptr %2, ptr %3, ptr %4, i64 %5, i64 %6, ptr %7, ptr %8, ptr %9, ptr %10, ptr %11, ptr %12, i64 %13, ptr %14) {
  %16 = load ptr, ptr %0, align 8
  %17 = getelementptr i8, ptr %0, i64 8
  %18 = load i64, ptr %17, align 8
  %19 = getelementptr i8, ptr %0, i64 16
  %20 = load i64, ptr %19, align 8
  %21 = load ptr, ptr %1, align 8
  %22 = getelementptr i8, ptr %1, i64 8
  %23 = load i64, ptr %22, align 8
  %24 = getelementptr i8, ptr %1, i64 16
  %25 = load i64, ptr %24, align 8
  %26 = load ptr, ptr %2, align 8
  %27 = getelementptr i8, ptr %2, i64 8
  %28 = load i64, ptr %27, align 8
  %29 = getelementptr i8, ptr %2, i64 16
  %30 = load i64, ptr %29, align 8
  %31 = load ptr, ptr %3, align 8
  %32 = getelementptr i8, ptr %3, i64 8
  %33 = load i64, ptr %32, align 8
  %34 = getelementptr i8, ptr %3, i64 16
  %35 = load i64, ptr %34, align 8
  %36 = load ptr, ptr %8, align 8
  %37 = load ptr, ptr %10, align 8
  %38 = icmp eq i64 %28, %23
  %39 = icmp eq i64 %33, %23
  %40 = select i1 %38, i1 %39, i1 false
  br i1 %40, label %41, label %551

41:
  %42 = getelementptr i8, ptr %8, i64 16
  %43 = load i64, ptr %42, align 8
  %44 = icmp eq i64 %43, 4
  br i1 %44, label %45, label %551

45:
  %46 = getelementptr i8, ptr %8, i64 8
  %47 = load i64, ptr %46, align 8
  %48 = icmp eq i64 %47, %18
  br i1 %48, label %49, label %551

49:
  %50 = getelementptr i8, ptr %10, i64 8
  %51 = load i64, ptr %50, align 8
  %52 = icmp eq i64 %51, %18
  br i1 %52, label %53, label %551

53:
  %54 = getelementptr i8, ptr %10, i64 16
  %55 = load i64, ptr %54, align 8
  %56 = icmp eq i64 %55, %30
  br i1 %56, label %57, label %551

57:
  switch i64 %30, label %551 [
    i64 8, label %58
    i64 5, label %58
  ]

58:
  %59 = icmp slt i64 %6, 0
  br i1 %59, label %63, label %60

60:
  %61 = add i64 %6, 1
  %62 = call i64 @llvm.smax.i64(i64 %61, i64 1)
  br label %65

63:
  %64 = icmp sgt i64 %18, 0
  br i1 %64, label %74, label %70

65:
  %66 = phi i64 [ %68, %65 ], [ 0, %60 ]
  %67 = getelementptr i64, ptr %7, i64 %66
  store i64 0, ptr %67, align 8
  %68 = add i64 %66, 1
  %69 = icmp eq i64 %68, %62
  br i1 %69, label %63, label %65

70:
  br i1 %59, label %135, label %71

71:
  %72 = add i64 %6, 1
  %73 = call i64 @llvm.smax.i64(i64 %72, i64 1)
  br label %137

74:
  %75 = phi i64 [ %133, %132 ], [ 0, %63 ]
  switch i64 %20, label %92 [
    i64 1, label %76
    i64 2, label %80
    i64 4, label %84
    i64 5, label %88
  ]

76:
  %77 = getelementptr i8, ptr %16, i64 %75
  %78 = load i8, ptr %77, align 1
  %79 = zext i8 %78 to i64
  br label %98

80:
  %81 = getelementptr i16, ptr %16, i64 %75
  %82 = load i16, ptr %81, align 2
  %83 = sext i16 %82 to i64
  br label %95

84:
  %85 = getelementptr i32, ptr %16, i64 %75
  %86 = load i32, ptr %85, align 4
  %87 = sext i32 %86 to i64
  br label %95

88:
  %89 = getelementptr i32, ptr %16, i64 %75
  %90 = load i32, ptr %89, align 4
  %91 = zext i32 %90 to i64
  br label %98

92:
  %93 = getelementptr i64, ptr %16, i64 %75
  %94 = load i64, ptr %93, align 8
  br label %95

95:
  %96 = phi i64 [ %94, %92 ], [ %87, %84 ], [ %83, %80 ]
  %97 = icmp slt i64 %96, 0
  br i1 %97, label %132, label %98

98:
  %99 = phi i64 [ %96, %95 ], [ %91, %88 ], [ %79, %76 ]
  %100 = icmp slt i64 %99, %23
  br i1 %100, label %101, label %551

101:
  switch i64 %35, label %118 [
    i64 1, label %102
    i64 2, label %106
    i64 4, label %110
    i64 5, label %114
  ]

102:
  %103 = getelementptr i8, ptr %31, i64 %99
  %104 = load i8, ptr %103, align 1
  %105 = zext i8 %104 to i64
  br label %121

106:
  %107 = getelementptr i16, ptr %31, i64 %99
  %108 = load i16, ptr %107, align 2
  %109 = sext i16 %108 to i64
  br label %121

110:
  %111 = getelementptr i32, ptr %31, i64 %99
  %112 = load i32, ptr %111, align 4
  %113 = sext i32 %112 to i64
  br label %121

114:
  %115 = getelementptr i32, ptr %31, i64 %99
  %116 = load i32, ptr %115, align 4
  %117 = zext i32 %116 to i64
  br label %121

118:
  %119 = getelementptr i64, ptr %31, i64 %99
  %120 = load i64, ptr %119, align 8
  br label %121

121:
  %122 = phi i64 [ %120, %118 ], [ %105, %102 ], [ %109, %106 ], [ %113, %110 ], [ %117, %114 ]
  %123 = icmp ult i64 %122, %5
  br i1 %123, label %124, label %551

124:
  %125 = getelementptr i64, ptr %4, i64 %122
  %126 = load i64, ptr %125, align 8
  %127 = icmp ult i64 %126, %6
  br i1 %127, label %128, label %551

128:
  %129 = getelementptr i64, ptr %7, i64 %126
  %130 = load i64, ptr %129, align 8
  %131 = add i64 %130, 1
  store i64 %131, ptr %129, align 8
  br label %132

132:
  %133 = add i64 %75, 1
  %134 = icmp eq i64 %133, %18
  br i1 %134, label %70, label %74

135:
  %136 = phi i64 [ 0, %70 ], [ %142, %137 ]
  br i1 %64, label %147, label %145

137:
  %138 = phi i64 [ %142, %137 ], [ 0, %71 ]
  %139 = phi i64 [ %143, %137 ], [ 0, %71 ]
  %140 = getelementptr i64, ptr %7, i64 %139
  %141 = load i64, ptr %140, align 8
  store i64 %138, ptr %140, align 8
  %142 = add i64 %141, %138
  %143 = add i64 %139, 1
  %144 = icmp eq i64 %143, %73
  br i1 %144, label %135, label %137

145:
  %146 = icmp sgt i64 %6, 0
  br i1 %146, label %234, label %226

147:
  %148 = phi i64 [ %224, %223 ], [ 0, %135 ]
  switch i64 %20, label %165 [
    i64 1, label %149
    i64 2, label %153
    i64 4, label %157
    i64 5, label %161
  ]

149:
  %150 = getelementptr i8, ptr %16, i64 %148
  %151 = load i8, ptr %150, align 1
  %152 = zext i8 %151 to i64
  br label %171

153:
  %154 = getelementptr i16, ptr %16, i64 %148
  %155 = load i16, ptr %154, align 2
  %156 = sext i16 %155 to i64
  br label %168

157:
  %158 = getelementptr i32, ptr %16, i64 %148
  %159 = load i32, ptr %158, align 4
  %160 = sext i32 %159 to i64
  br label %168

161:
  %162 = getelementptr i32, ptr %16, i64 %148
  %163 = load i32, ptr %162, align 4
  %164 = zext i32 %163 to i64
  br label %171

165:
  %166 = getelementptr i64, ptr %16, i64 %148
  %167 = load i64, ptr %166, align 8
  br label %168

168:
  %169 = phi i64 [ %167, %165 ], [ %160, %157 ], [ %156, %153 ]
  %170 = icmp slt i64 %169, 0
  br i1 %170, label %223, label %171

171:
  %172 = phi i64 [ %169, %168 ], [ %164, %161 ], [ %152, %149 ]
  switch i64 %35, label %189 [
    i64 1, label %173
    i64 2, label %177
    i64 4, label %181
    i64 5, label %185
  ]

173:
  %174 = getelementptr i8, ptr %31, i64 %172
  %175 = load i8, ptr %174, align 1
  %176 = zext i8 %175 to i64
  br label %192

177:
  %178 = getelementptr i16, ptr %31, i64 %172
  %179 = load i16, ptr %178, align 2
  %180 = sext i16 %179 to i64
  br label %192

181:
  %182 = getelementptr i32, ptr %31, i64 %172
  %183 = load i32, ptr %182, align 4
  %184 = sext i32 %183 to i64
  br label %192

185:
  %186 = getelementptr i32, ptr %31, i64 %172
  %187 = load i32, ptr %186, align 4
  %188 = zext i32 %187 to i64
  br label %192

189:
  %190 = getelementptr i64, ptr %31, i64 %172
  %191 = load i64, ptr %190, align 8
  br label %192

192:
  %193 = phi i64 [ %191, %189 ], [ %176, %173 ], [ %180, %177 ], [ %184, %181 ], [ %188, %185 ]
  %194 = getelementptr i64, ptr %4, i64 %193
  %195 = load i64, ptr %194, align 8
  %196 = getelementptr i64, ptr %7, i64 %195
  %197 = load i64, ptr %196, align 8
  %198 = add i64 %197, 1
  store i64 %198, ptr %196, align 8
  %199 = trunc i64 %148 to i32
  %200 = getelementptr i32, ptr %36, i64 %197
  store i32 %199, ptr %200, align 4
  switch i64 %25, label %217 [
    i64 1, label %201
    i64 2, label %205
    i64 4, label %209
    i64 5, label %213
  ]

201:
  %202 = getelementptr i8, ptr %21, i64 %172
  %203 = load i8, ptr %202, align 1
  %204 = zext i8 %203 to i64
  br label %220

205:
  %206 = getelementptr i16, ptr %21, i64 %172
  %207 = load i16, ptr %206, align 2
  %208 = sext i16 %207 to i64
  br label %220

209:
  %210 = getelementptr i32, ptr %21, i64 %172
  %211 = load i32, ptr %210, align 4
  %212 = sext i32 %211 to i64
  br label %220

213:
  %214 = getelementptr i32, ptr %21, i64 %172
  %215 = load i32, ptr %214, align 4
  %216 = zext i32 %215 to i64
  br label %220

217:
  %218 = getelementptr i64, ptr %21, i64 %172
  %219 = load i64, ptr %218, align 8
  br label %220

220:
  %221 = phi i64 [ %219, %217 ], [ %204, %201 ], [ %208, %205 ], [ %212, %209 ], [ %216, %213 ]
  %222 = getelementptr i64, ptr %9, i64 %197
  store i64 %221, ptr %222, align 8
  br label %223

223:
  %224 = add i64 %148, 1
  %225 = icmp eq i64 %224, %18
  br i1 %225, label %145, label %147

226:
  store i64 0, ptr %7, align 8
  store i64 1, ptr %14, align 8
  %227 = shl i64 %18, 2
  %228 = icmp eq i64 %30, 8
  %229 = call i64 @llvm.smax.i64(i64 %13, i64 0)
  %230 = call i64 @llvm.smax.i64(i64 %6, i64 0)
  %231 = icmp slt i64 %6, 1
  br i1 %231, label %551, label %232

232:
  %233 = icmp slt i64 %13, 1
  br label %241

234:
  %235 = phi i64 [ %239, %234 ], [ %6, %145 ]
  %236 = getelementptr i64, ptr %7, i64 %235
  %237 = getelementptr i8, ptr %236, i64 -8
  %238 = load i64, ptr %237, align 8
  store i64 %238, ptr %236, align 8
  %239 = add i64 %235, -1
  %240 = icmp ugt i64 %235, 1
  br i1 %240, label %234, label %226

241:
  %242 = phi i64 [ %252, %549 ], [ 0, %232 ]
  %243 = phi i64 [ %246, %549 ], [ 0, %232 ]
  %244 = getelementptr i64, ptr %7, i64 %243
  %245 = load i64, ptr %244, align 8
  %246 = add i64 %243, 1
  %247 = getelementptr i64, ptr %7, i64 %246
  %248 = load i64, ptr %247, align 8
  %249 = add i64 %245, 1
  br label %250

250:
  %251 = phi i64 [ %329, %482 ], [ %249, %241 ]
  %252 = phi i64 [ %479, %482 ], [ %242, %241 ]
  %253 = icmp slt i64 %251, %248
  br i1 %253, label %256, label %254

254:
  %255 = icmp slt i64 %245, %248
  br i1 %255, label %484, label %549

256:
  %257 = phi i64 [ %320, %319 ], [ %251, %250 ]
  %258 = add i64 %257, -1
  %259 = getelementptr i32, ptr %36, i64 %257
  %260 = load i32, ptr %259, align 4
  %261 = getelementptr i64, ptr %9, i64 %257
  %262 = load i64, ptr %261, align 8
  %263 = getelementptr i64, ptr %9, i64 %258
  %264 = load i64, ptr %263, align 8
  %265 = icmp eq i64 %264, %262
  br i1 %265, label %268, label %266

266:
  %267 = icmp slt i64 %264, %262
  br i1 %267, label %319, label %318

268:
  %269 = getelementptr i32, ptr %36, i64 %258
  %270 = load i32, ptr %269, align 4
  %271 = sext i32 %270 to i64
  switch i64 %20, label %304 [
    i64 1, label %272
    i64 2, label %280
    i64 4, label %288
    i64 5, label %296
  ]

272:
  %273 = getelementptr i8, ptr %16, i64 %271
  %274 = load i8, ptr %273, align 1
  %275 = zext i8 %274 to i64
  %276 = sext i32 %260 to i64
  %277 = getelementptr i8, ptr %16, i64 %276
  %278 = load i8, ptr %277, align 1
  %279 = zext i8 %278 to i64
  br label %310

280:
  %281 = getelementptr i16, ptr %16, i64 %271
  %282 = load i16, ptr %281, align 2
  %283 = sext i16 %282 to i64
  %284 = sext i32 %260 to i64
  %285 = getelementptr i16, ptr %16, i64 %284
  %286 = load i16, ptr %285, align 2
  %287 = sext i16 %286 to i64
  br label %310

288:
  %289 = getelementptr i32, ptr %16, i64 %271
  %290 = load i32, ptr %289, align 4
  %291 = sext i32 %290 to i64
  %292 = sext i32 %260 to i64
  %293 = getelementptr i32, ptr %16, i64 %292
  %294 = load i32, ptr %293, align 4
  %295 = sext i32 %294 to i64
  br label %310

296:
  %297 = getelementptr i32, ptr %16, i64 %271
  %298 = load i32, ptr %297, align 4
  %299 = zext i32 %298 to i64
  %300 = sext i32 %260 to i64
  %301 = getelementptr i32, ptr %16, i64 %300
  %302 = load i32, ptr %301, align 4
  %303 = zext i32 %302 to i64
  br label %310

304:
  %305 = getelementptr i64, ptr %16, i64 %271
  %306 = load i64, ptr %305, align 8
  %307 = sext i32 %260 to i64
  %308 = getelementptr i64, ptr %16, i64 %307
  %309 = load i64, ptr %308, align 8
  br label %310

310:
  %311 = phi i64 [ %306, %304 ], [ %275, %272 ], [ %283, %280 ], [ %291, %288 ], [ %299, %296 ]
  %312 = phi i64 [ %309, %304 ], [ %279, %272 ], [ %287, %280 ], [ %295, %288 ], [ %303, %296 ]
  %313 = icmp eq i64 %311, %312
  br i1 %313, label %314, label %316

314:
  %315 = icmp slt i32 %270, %260
  br i1 %315, label %319, label %318

316:
  %317 = icmp slt i64 %311, %312
  br i1 %317, label %319, label %318

318:
  br i1 %233, label %551, label %322

319:
  %320 = add i64 %257, 1
  %321 = icmp eq i64 %320, %248
  br i1 %321, label %254, label %256

322:
  %323 = phi i64 [ %329, %391 ], [ %257, %318 ]
  %324 = phi i64 [ %332, %391 ], [ 0, %318 ]
  %325 = getelementptr i32, ptr %36, i64 %323
  %326 = load i32, ptr %325, align 4
  %327 = sext i32 %326 to i64
  %328 = getelementptr i64, ptr %11, i64 %324
  store i64 %327, ptr %328, align 8
  %329 = add i64 %323, 1
  %330 = getelementptr i64, ptr %9, i64 %323
  %331 = load i64, ptr %330, align 8
  %332 = add i64 %324, 1
  %333 = getelementptr i64, ptr %12, i64 %324
  store i64 %331, ptr %333, align 8
  %334 = icmp slt i64 %329, %248
  br i1 %334, label %335, label %390

335:
  %336 = getelementptr i32, ptr %36, i64 %329
  %337 = load i32, ptr %336, align 4
  %338 = getelementptr i64, ptr %9, i64 %329
  %339 = load i64, ptr %338, align 8
  %340 = icmp eq i64 %331, %339
  br i1 %340, label %343, label %341

341:
  %342 = icmp slt i64 %331, %339
  br i1 %342, label %391, label %390

343:
  switch i64 %20, label %376 [
    i64 1, label %344
    i64 2, label %352
    i64 4, label %360
    i64 5, label %368
  ]

344:
  %345 = getelementptr i8, ptr %16, i64 %327
  %346 = load i8, ptr %345, align 1
  %347 = zext i8 %346 to i64
  %348 = sext i32 %337 to i64
  %349 = getelementptr i8, ptr %16, i64 %348
  %350 = load i8, ptr %349, align 1
  %351 = zext i8 %350 to i64
  br label %382

352:
  %353 = getelementptr i16, ptr %16, i64 %327
  %354 = load i16, ptr %353, align 2
  %355 = sext i16 %354 to i64
  %356 = sext i32 %337 to i64
  %357 = getelementptr i16, ptr %16, i64 %356
  %358 = load i16, ptr %357, align 2
  %359 = sext i16 %358 to i64
  br label %382

360:
  %361 = getelementptr i32, ptr %16, i64 %327
  %362 = load i32, ptr %361, align 4
  %363 = sext i32 %362 to i64
  %364 = sext i32 %337 to i64
  %365 = getelementptr i32, ptr %16, i64 %364
  %366 = load i32, ptr %365, align 4
  %367 = sext i32 %366 to i64
  br label %382

368:
  %369 = getelementptr i32, ptr %16, i64 %327
  %370 = load i32, ptr %369, align 4
  %371 = zext i32 %370 to i64
  %372 = sext i32 %337 to i64
  %373 = getelementptr i32, ptr %16, i64 %372
  %374 = load i32, ptr %373, align 4
  %375 = zext i32 %374 to i64
  br label %382

376:
  %377 = getelementptr i64, ptr %16, i64 %327
  %378 = load i64, ptr %377, align 8
  %379 = sext i32 %337 to i64
  %380 = getelementptr i64, ptr %16, i64 %379
  %381 = load i64, ptr %380, align 8
  br label %382

382:
  %383 = phi i64 [ %378, %376 ], [ %347, %344 ], [ %355, %352 ], [ %363, %360 ], [ %371, %368 ]
  %384 = phi i64 [ %381, %376 ], [ %351, %344 ], [ %359, %352 ], [ %367, %360 ], [ %375, %368 ]
  %385 = icmp eq i64 %383, %384
  br i1 %385, label %386, label %388

386:
  %387 = icmp slt i32 %326, %337
  br i1 %387, label %391, label %390

388:
  %389 = icmp slt i64 %383, %384
  br i1 %389, label %391, label %390

390:
  br label %393

391:
  %392 = icmp eq i64 %332, %229
  br i1 %392, label %551, label %322

393:
  %394 = phi i64 [ %479, %476 ], [ %252, %390 ]
  %395 = phi i64 [ %480, %476 ], [ %323, %390 ]
  %396 = phi i64 [ %478, %476 ], [ %258, %390 ]
  %397 = phi i64 [ %477, %476 ], [ %332, %390 ]
  %398 = add i64 %397, -1
  %399 = getelementptr i64, ptr %11, i64 %398
  %400 = load i64, ptr %399, align 8
  %401 = trunc i64 %400 to i32
  %402 = icmp slt i64 %396, %245
  %403 = getelementptr i64, ptr %12, i64 %398
  %404 = load i64, ptr %403, align 8
  br i1 %402, label %473, label %405

405:
  %406 = getelementptr i64, ptr %9, i64 %396
  %407 = load i64, ptr %406, align 8
  %408 = icmp eq i64 %407, %404
  br i1 %408, label %411, label %409

409:
  %410 = icmp slt i64 %407, %404
  br i1 %410, label %473, label %466

411:
  %412 = getelementptr i32, ptr %36, i64 %396
  %413 = load i32, ptr %412, align 4
  %414 = sext i32 %413 to i64
  switch i64 %20, label %451 [
    i64 1, label %415
    i64 2, label %424
    i64 4, label %433
    i64 5, label %442
  ]

415:
  %416 = getelementptr i8, ptr %16, i64 %414
  %417 = load i8, ptr %416, align 1
  %418 = zext i8 %417 to i64
  %419 = shl i64 %400, 32
  %420 = ashr i64 %419, 32
  %421 = getelementptr i8, ptr %16, i64 %420
  %422 = load i8, ptr %421, align 1
  %423 = zext i8 %422 to i64
  br label %458

424:
  %425 = getelementptr i16, ptr %16, i64 %414
  %426 = load i16, ptr %425, align 2
  %427 = sext i16 %426 to i64
  %428 = shl i64 %400, 32
  %429 = ashr i64 %428, 31
  %430 = getelementptr i8, ptr %16, i64 %429
  %431 = load i16, ptr %430, align 2
  %432 = sext i16 %431 to i64
  br label %458

433:
  %434 = getelementptr i32, ptr %16, i64 %414
  %435 = load i32, ptr %434, align 4
  %436 = sext i32 %435 to i64
  %437 = shl i64 %400, 32
  %438 = ashr i64 %437, 30
  %439 = getelementptr i8, ptr %16, i64 %438
  %440 = load i32, ptr %439, align 4
  %441 = sext i32 %440 to i64
  br label %458

442:
  %443 = getelementptr i32, ptr %16, i64 %414
  %444 = load i32, ptr %443, align 4
  %445 = zext i32 %444 to i64
  %446 = shl i64 %400, 32
  %447 = ashr i64 %446, 30
  %448 = getelementptr i8, ptr %16, i64 %447
  %449 = load i32, ptr %448, align 4
  %450 = zext i32 %449 to i64
  br label %458

451:
  %452 = getelementptr i64, ptr %16, i64 %414
  %453 = load i64, ptr %452, align 8
  %454 = shl i64 %400, 32
  %455 = ashr i64 %454, 29
  %456 = getelementptr i8, ptr %16, i64 %455
  %457 = load i64, ptr %456, align 8
  br label %458

458:
  %459 = phi i64 [ %453, %451 ], [ %418, %415 ], [ %427, %424 ], [ %436, %433 ], [ %445, %442 ]
  %460 = phi i64 [ %457, %451 ], [ %423, %415 ], [ %432, %424 ], [ %441, %433 ], [ %450, %442 ]
  %461 = icmp eq i64 %459, %460
  br i1 %461, label %462, label %464

462:
  %463 = icmp slt i32 %413, %401
  br i1 %463, label %473, label %466

464:
  %465 = icmp slt i64 %459, %460
  br i1 %465, label %473, label %466

466:
  %467 = getelementptr i32, ptr %36, i64 %396
  %468 = load i32, ptr %467, align 4
  %469 = getelementptr i32, ptr %36, i64 %395
  store i32 %468, ptr %469, align 4
  %470 = add i64 %396, -1
  %471 = getelementptr i64, ptr %9, i64 %395
  store i64 %407, ptr %471, align 8
  %472 = add i64 %394, 1
  br label %476

473:
  %474 = getelementptr i32, ptr %36, i64 %395
  store i32 %401, ptr %474, align 4
  %475 = getelementptr i64, ptr %9, i64 %395
  store i64 %404, ptr %475, align 8
  br label %476

476:
  %477 = phi i64 [ %398, %473 ], [ %397, %466 ]
  %478 = phi i64 [ %396, %473 ], [ %470, %466 ]
  %479 = phi i64 [ %394, %473 ], [ %472, %466 ]
  %480 = add i64 %395, -1
  %481 = icmp sgt i64 %477, 0
  br i1 %481, label %393, label %482

482:
  %483 = icmp sgt i64 %479, %227
  br i1 %483, label %551, label %250

484:
  %485 = phi i64 [ %547, %545 ], [ %245, %254 ]
  %486 = phi i64 [ %546, %545 ], [ -9223372036854775808, %254 ]
  %487 = getelementptr i32, ptr %36, i64 %485
  %488 = load i32, ptr %487, align 4
  %489 = sext i32 %488 to i64
  switch i64 %20, label %506 [
    i64 1, label %490
    i64 2, label %494
    i64 4, label %498
    i64 5, label %502
  ]

490:
  %491 = getelementptr i8, ptr %16, i64 %489
  %492 = load i8, ptr %491, align 1
  %493 = zext i8 %492 to i64
  br label %509

494:
  %495 = getelementptr i16, ptr %16, i64 %489
  %496 = load i16, ptr %495, align 2
  %497 = sext i16 %496 to i64
  br label %509

498:
  %499 = getelementptr i32, ptr %16, i64 %489
  %500 = load i32, ptr %499, align 4
  %501 = sext i32 %500 to i64
  br label %509

502:
  %503 = getelementptr i32, ptr %16, i64 %489
  %504 = load i32, ptr %503, align 4
  %505 = zext i32 %504 to i64
  br label %509

506:
  %507 = getelementptr i64, ptr %16, i64 %489
  %508 = load i64, ptr %507, align 8
  br label %509

509:
  %510 = phi i64 [ %508, %506 ], [ %493, %490 ], [ %497, %494 ], [ %501, %498 ], [ %505, %502 ]
  switch i64 %30, label %527 [
    i64 1, label %511
    i64 2, label %515
    i64 4, label %519
    i64 5, label %523
  ]

511:
  %512 = getelementptr i8, ptr %26, i64 %510
  %513 = load i8, ptr %512, align 1
  %514 = zext i8 %513 to i64
  br label %532

515:
  %516 = getelementptr i16, ptr %26, i64 %510
  %517 = load i16, ptr %516, align 2
  %518 = sext i16 %517 to i64
  br label %532

519:
  %520 = getelementptr i32, ptr %26, i64 %510
  %521 = load i32, ptr %520, align 4
  %522 = sext i32 %521 to i64
  br label %532

523:
  %524 = getelementptr i32, ptr %26, i64 %510
  %525 = load i32, ptr %524, align 4
  %526 = zext i32 %525 to i64
  br label %532

527:
  %528 = getelementptr i64, ptr %26, i64 %510
  %529 = load i64, ptr %528, align 8
  br i1 %228, label %530, label %532

530:
  %531 = getelementptr i64, ptr %37, i64 %485
  store i64 %529, ptr %531, align 8
  br label %536

532:
  %533 = phi i64 [ %529, %527 ], [ %526, %523 ], [ %522, %519 ], [ %518, %515 ], [ %514, %511 ]
  %534 = trunc i64 %533 to i32
  %535 = getelementptr i32, ptr %37, i64 %485
  store i32 %534, ptr %535, align 4
  br label %536

536:
  %537 = phi i64 [ %529, %530 ], [ %533, %532 ]
  %538 = getelementptr i64, ptr %9, i64 %485
  %539 = load i64, ptr %538, align 8
  %540 = add i64 %539, %537
  %541 = icmp slt i64 %540, %486
  br i1 %541, label %542, label %545

542:
  store i64 0, ptr %14, align 8
  %543 = load i64, ptr %538, align 8
  %544 = add i64 %543, %537
  br label %545

545:
  %546 = phi i64 [ %544, %542 ], [ %540, %536 ]
  %547 = add i64 %485, 1
  %548 = icmp eq i64 %547, %248
  br i1 %548, label %549, label %484

549:
  %550 = icmp eq i64 %246, %230
  br i1 %550, label %551, label %241

551:
  %552 = phi i64 [ -1, %49 ], [ -1, %15 ], [ -1, %391 ], [ -1, %45 ], [ -1, %41 ], [ -1, %57 ], [ -1, %53 ], [ %136, %226 ], [ %136, %549 ], [ -1, %482 ], [ -1, %318 ], [ -1, %98 ], [ -1, %124 ], [ -1, %121 ]
  ret i64 %552
}

define i64 @match_ids(ptr %0, ptr %1, ptr %2) {
  %4 = load ptr, ptr %0, align 8
  %5 = load ptr, ptr %1, align 8
  %6 = getelementptr i8, ptr %0, i64 8
  %7 = load i64, ptr %6, align 8
  %8 = getelementptr i8, ptr %0, i64 16
  %9 = load i64, ptr %8, align 8
  %10 = icmp eq i64 %9, 5
  br i1 %10, label %11, label %114

11:
  %12 = getelementptr i8, ptr %1, i64 16
  %13 = load i64, ptr %12, align 8
  %14 = icmp eq i64 %13, 5
  br i1 %14, label %15, label %114

15:
  %16 = icmp sgt i64 %7, 1
  br i1 %16, label %24, label %20

17:
  %18 = add i64 %25, 1
  %19 = icmp eq i64 %18, %7
  br i1 %19, label %20, label %24

20:
  %21 = getelementptr i8, ptr %1, i64 8
  %22 = load i64, ptr %21, align 8
  %23 = icmp sgt i64 %22, 0
  br i1 %23, label %31, label %114

24:
  %25 = phi i64 [ %18, %17 ], [ 1, %15 ]
  %26 = getelementptr i32, ptr %4, i64 %25
  %27 = load i32, ptr %26, align 4
  %28 = getelementptr i8, ptr %26, i64 -4
  %29 = load i32, ptr %28, align 4
  %30 = icmp ugt i32 %27, %29
  br i1 %30, label %17, label %114

31:
  %32 = phi i64 [ %99, %109 ], [ 0, %20 ]
  %33 = phi i64 [ %112, %109 ], [ 0, %20 ]
  %34 = getelementptr i32, ptr %5, i64 %33
  %35 = load i32, ptr %34, align 4
  %36 = icmp slt i64 %32, %7
  br i1 %36, label %37, label %56

37:
  %38 = getelementptr i32, ptr %4, i64 %32
  %39 = load i32, ptr %38, align 4
  %40 = icmp ult i32 %39, %35
  br i1 %40, label %45, label %56

41:
  %42 = getelementptr i32, ptr %4, i64 %52
  %43 = load i32, ptr %42, align 4
  %44 = icmp ult i32 %43, %35
  br i1 %44, label %45, label %56

45:
  %46 = phi i64 [ %52, %41 ], [ %32, %37 ]
  %47 = phi i64 [ %53, %41 ], [ 1, %37 ]
  %48 = add i64 %46, 1
  %49 = sub i64 %7, %48
  %50 = icmp sgt i64 %49, %47
  %51 = add i64 %48, %47
  %52 = select i1 %50, i64 %51, i64 %7
  %53 = shl i64 %47, 1
  %54 = icmp slt i64 %52, %7
  br i1 %54, label %41, label %55

55:
  br label %56

56:
  %57 = phi i64 [ %32, %31 ], [ %32, %37 ], [ %48, %55 ], [ %48, %41 ]
  %58 = phi i64 [ %32, %31 ], [ %32, %37 ], [ %52, %55 ], [ %52, %41 ]
  %59 = phi i64 [ 1, %31 ], [ 1, %37 ], [ %53, %55 ], [ %53, %41 ]
  %60 = icmp eq i64 %57, %32
  %61 = icmp sgt i64 %57, 0
  %62 = and i1 %60, %61
  br i1 %62, label %63, label %81

63:
  %64 = add i64 %32, -1
  %65 = getelementptr i32, ptr %4, i64 %64
  %66 = load i32, ptr %65, align 4
  %67 = icmp ult i32 %66, %35
  br i1 %67, label %81, label %74

68:
  %69 = shl i64 %76, 1
  %70 = add i64 %78, -1
  %71 = getelementptr i32, ptr %4, i64 %70
  %72 = load i32, ptr %71, align 4
  %73 = icmp ult i32 %72, %35
  br i1 %73, label %81, label %74

74:
  %75 = phi i64 [ %70, %68 ], [ %64, %63 ]
  %76 = phi i64 [ %69, %68 ], [ %59, %63 ]
  %77 = icmp sgt i64 %75, %76
  %78 = sub i64 %75, %76
  %79 = select i1 %77, i64 %78, i64 0
  %80 = icmp sgt i64 %79, 0
  br i1 %80, label %68, label %81

81:
  %82 = phi i64 [ %57, %56 ], [ %32, %63 ], [ %79, %74 ], [ %78, %68 ]
  %83 = phi i64 [ %58, %56 ], [ %58, %63 ], [ %75, %68 ], [ %75, %74 ]
  %84 = icmp slt i64 %82, %83
  br i1 %84, label %85, label %98

85:
  %86 = phi i64 [ %96, %85 ], [ %83, %81 ]
  %87 = phi i64 [ %95, %85 ], [ %82, %81 ]
  %88 = sub i64 %86, %87
  %89 = sdiv i64 %88, 2
  %90 = add i64 %89, %87
  %91 = getelementptr i32, ptr %4, i64 %90
  %92 = load i32, ptr %91, align 4
  %93 = icmp ult i32 %92, %35
  %94 = add i64 %90, 1
  %95 = select i1 %93, i64 %94, i64 %87
  %96 = select i1 %93, i64 %86, i64 %90
  %97 = icmp slt i64 %95, %96
  br i1 %97, label %85, label %98

98:
  %99 = phi i64 [ %82, %81 ], [ %95, %85 ]
  %100 = icmp ne i32 %35, 0
  %101 = icmp slt i64 %99, %7
  %102 = select i1 %100, i1 %101, i1 false
  br i1 %102, label %103, label %109

103:
  %104 = getelementptr i32, ptr %4, i64 %99
  %105 = load i32, ptr %104, align 4
  %106 = icmp eq i32 %105, %35
  %107 = trunc i64 %99 to i32
  %108 = select i1 %106, i32 %107, i32 -1
  br label %109

109:
  %110 = phi i32 [ -1, %98 ], [ %108, %103 ]
  %111 = getelementptr i32, ptr %2, i64 %33
  store i32 %110, ptr %111, align 4
  %112 = add i64 %33, 1
  %113 = icmp eq i64 %112, %22
  br i1 %113, label %114, label %31

114:
  %115 = phi i64 [ 0, %20 ], [ -1, %3 ], [ -1, %11 ], [ 0, %109 ], [ -1, %24 ]
  ret i64 %115
}

define i64 @find_sets(ptr %0, i64 %1, ptr %2, ptr %3, ptr %4, ptr %5, ptr %6, i64 %7, ptr %8, ptr %9, ptr %10, ptr %11, ptr %12, ptr %13, ptr %14, ptr %15, ptr %16, i64 %17, i64 %18) {
  %20 = icmp sgt i64 %1, 0
  br i1 %20, label %21, label %173

21:
  %22 = phi i64 [ %170, %165 ], [ 0, %19 ]
  %23 = phi i64 [ %171, %165 ], [ 0, %19 ]
  %24 = phi i32 [ %169, %165 ], [ 0, %19 ]
  %25 = phi i64 [ %168, %165 ], [ 0, %19 ]
  %26 = phi i64 [ %167, %165 ], [ 0, %19 ]
  %27 = phi i64 [ %166, %165 ], [ 9223372036854775807, %19 ]
  %28 = phi i64 [ %75, %165 ], [ 0, %19 ]
  %29 = phi i64 [ %74, %165 ], [ 0, %19 ]
  %30 = icmp eq i64 %28, 0
  br i1 %30, label %50, label %31

31:
  %32 = icmp sgt i64 %27, %23
  br i1 %32, label %50, label %33

33:
  %34 = icmp sgt i64 %28, 0
  br i1 %34, label %35, label %50

35:
  %36 = phi i64 [ %48, %46 ], [ 0, %33 ]
  %37 = phi i64 [ %47, %46 ], [ 0, %33 ]
  %38 = getelementptr i64, ptr %10, i64 %36
  %39 = load i64, ptr %38, align 8
  %40 = getelementptr i64, ptr %4, i64 %39
  %41 = load i64, ptr %40, align 8
  %42 = icmp sgt i64 %41, %23
  br i1 %42, label %43, label %46

43:
  %44 = add i64 %37, 1
  %45 = getelementptr i64, ptr %10, i64 %37
  store i64 %39, ptr %45, align 8
  br label %46

46:
  %47 = phi i64 [ %44, %43 ], [ %37, %35 ]
  %48 = add i64 %36, 1
  %49 = icmp eq i64 %48, %28
  br i1 %49, label %50, label %35

50:
  %51 = phi i64 [ 0, %21 ], [ %28, %31 ], [ 0, %33 ], [ %47, %46 ]
  %52 = phi i32 [ %24, %21 ], [ %24, %31 ], [ 1, %33 ], [ 1, %46 ]
  %53 = icmp slt i64 %29, %7
  br i1 %53, label %54, label %73

54:
  %55 = phi i32 [ %70, %68 ], [ %52, %50 ]
  %56 = phi i64 [ %69, %68 ], [ %51, %50 ]
  %57 = phi i64 [ %71, %68 ], [ %29, %50 ]
  %58 = getelementptr i64, ptr %3, i64 %57
  %59 = load i64, ptr %58, align 8
  %60 = icmp sgt i64 %59, %23
  br i1 %60, label %73, label %61

61:
  %62 = getelementptr i64, ptr %4, i64 %57
  %63 = load i64, ptr %62, align 8
  %64 = icmp sgt i64 %63, %23
  br i1 %64, label %65, label %68

65:
  %66 = add i64 %56, 1
  %67 = getelementptr i64, ptr %10, i64 %56
  store i64 %57, ptr %67, align 8
  br label %68

68:
  %69 = phi i64 [ %66, %65 ], [ %56, %61 ]
  %70 = phi i32 [ 1, %65 ], [ %55, %61 ]
  %71 = add i64 %57, 1
  %72 = icmp eq i64 %71, %7
  br i1 %72, label %73, label %54

73:
  %74 = phi i64 [ %29, %50 ], [ %7, %68 ], [ %57, %54 ]
  %75 = phi i64 [ %51, %50 ], [ %69, %68 ], [ %56, %54 ]
  %76 = phi i32 [ %52, %50 ], [ %70, %68 ], [ %55, %54 ]
  %77 = icmp eq i64 %75, 0
  br i1 %77, label %165, label %78

78:
  %79 = icmp eq i32 %76, 0
  br i1 %79, label %154, label %80

80:
  %81 = icmp sge i64 %22, %17
  %82 = add i64 %75, %26
  %83 = icmp sgt i64 %82, %18
  %84 = select i1 %81, i1 true, i1 %83
  br i1 %84, label %173, label %85

85:
  %86 = trunc i64 %26 to i32
  %87 = getelementptr i32, ptr %12, i64 %22
  store i32 %86, ptr %87, align 4
  %88 = trunc i64 %25 to i32
  %89 = getelementptr i32, ptr %14, i64 %22
  store i32 %88, ptr %89, align 4
  %90 = load i64, ptr %10, align 8
  %91 = icmp sgt i64 %75, 0
  %92 = add i64 %22, 1
  br i1 %91, label %109, label %96

93:
  %94 = trunc i64 %141 to i32
  %95 = trunc i64 %151 to i32
  br label %96

96:
  %97 = phi i32 [ %95, %93 ], [ %88, %85 ]
  %98 = phi i32 [ %94, %93 ], [ %86, %85 ]
  %99 = phi i64 [ %123, %93 ], [ 9223372036854775807, %85 ]
  %100 = phi i64 [ %141, %93 ], [ %26, %85 ]
  %101 = phi i64 [ %151, %93 ], [ %25, %85 ]
  %102 = phi i64 [ %139, %93 ], [ %90, %85 ]
  %103 = getelementptr i64, ptr %2, i64 %102
  %104 = load i64, ptr %103, align 8
  %105 = trunc i64 %104 to i32
  %106 = getelementptr i32, ptr %16, i64 %22
  store i32 %105, ptr %106, align 4
  %107 = getelementptr i32, ptr %12, i64 %92
  store i32 %98, ptr %107, align 4
  %108 = getelementptr i32, ptr %14, i64 %92
  store i32 %97, ptr %108, align 4
  br label %154

109:
  %110 = phi i64 [ %152, %150 ], [ 0, %85 ]
  %111 = phi i64 [ %139, %150 ], [ %90, %85 ]
  %112 = phi i64 [ %151, %150 ], [ %25, %85 ]
  %113 = phi i64 [ %141, %150 ], [ %26, %85 ]
  %114 = phi i64 [ %123, %150 ], [ 9223372036854775807, %85 ]
  %115 = getelementptr i64, ptr %10, i64 %110
  %116 = load i64, ptr %115, align 8
  %117 = getelementptr i64, ptr %2, i64 %116
  %118 = load i64, ptr %117, align 8
  %119 = getelementptr i64, ptr %8, i64 %118
  %120 = load i64, ptr %119, align 8
  %121 = getelementptr i64, ptr %4, i64 %116
  %122 = load i64, ptr %121, align 8
  %123 = call i64 @llvm.smin.i64(i64 %122, i64 %114)
  %124 = getelementptr i64, ptr %5, i64 %116
  %125 = load i64, ptr %124, align 8
  %126 = getelementptr i64, ptr %5, i64 %111
  %127 = load i64, ptr %126, align 8
  %128 = icmp sgt i64 %125, %127
  br i1 %128, label %137, label %129

129:
  %130 = icmp eq i64 %125, %127
  br i1 %130, label %131, label %138

131:
  %132 = getelementptr i64, ptr %6, i64 %116
  %133 = load i64, ptr %132, align 8
  %134 = getelementptr i64, ptr %6, i64 %111
  %135 = load i64, ptr %134, align 8
  %136 = icmp sgt i64 %133, %135
  br i1 %136, label %137, label %138

137:
  br label %138

138:
  %139 = phi i64 [ %116, %137 ], [ %111, %131 ], [ %111, %129 ]
  %140 = trunc i64 %118 to i32
  %141 = add i64 %113, 1
  %142 = getelementptr i32, ptr %13, i64 %113
  store i32 %140, ptr %142, align 4
  %143 = getelementptr i64, ptr %9, i64 %120
  %144 = load i64, ptr %143, align 8
  %145 = icmp eq i64 %144, %92
  br i1 %145, label %150, label %146

146:
  store i64 %92, ptr %143, align 8
  %147 = trunc i64 %120 to i32
  %148 = add i64 %112, 1
  %149 = getelementptr i32, ptr %15, i64 %112
  store i32 %147, ptr %149, align 4
  br label %150

150:
  %151 = phi i64 [ %148, %146 ], [ %112, %138 ]
  %152 = add i64 %110, 1
  %153 = icmp eq i64 %152, %75
  br i1 %153, label %93, label %109

154:
  %155 = phi i64 [ %99, %96 ], [ %27, %78 ]
  %156 = phi i64 [ %100, %96 ], [ %26, %78 ]
  %157 = phi i64 [ %101, %96 ], [ %25, %78 ]
  %158 = phi i64 [ %92, %96 ], [ %22, %78 ]
  %159 = trunc i64 %158 to i32
  %160 = add i32 %159, -1
  %161 = getelementptr i32, ptr %0, i64 %23
  %162 = load i32, ptr %161, align 4
  %163 = sext i32 %162 to i64
  %164 = getelementptr i32, ptr %11, i64 %163
  store i32 %160, ptr %164, align 4
  br label %165

165:
  %166 = phi i64 [ %155, %154 ], [ %27, %73 ]
  %167 = phi i64 [ %156, %154 ], [ %26, %73 ]
  %168 = phi i64 [ %157, %154 ], [ %25, %73 ]
  %169 = phi i32 [ 0, %154 ], [ %76, %73 ]
  %170 = phi i64 [ %158, %154 ], [ %22, %73 ]
  %171 = add i64 %23, 1
  %172 = icmp eq i64 %171, %1
  br i1 %172, label %173, label %21

173:
  %174 = phi i64 [ 0, %19 ], [ -1, %80 ], [ %170, %165 ]
  ret i64 %174
}

define i64 @measure_work(ptr %0, ptr %1, ptr %2, ptr %3, i64 %4, i64 %5, ptr %6, i64 %7, ptr %8, ptr %9, i64 %10, i64 %11, ptr %12, ptr %13, ptr %14, ptr %15, ptr %16, ptr %17, ptr %18, ptr %19, ptr %20, ptr %21, i64 %22, ptr %23, ptr %24, ptr %25) {
  %27 = load ptr, ptr %1, align 8
  %28 = getelementptr i8, ptr %1, i64 8
  %29 = load i64, ptr %28, align 8
  %30 = getelementptr i8, ptr %1, i64 16
  %31 = load i64, ptr %30, align 8
  %32 = load ptr, ptr %2, align 8
  %33 = getelementptr i8, ptr %2, i64 8
  %34 = load i64, ptr %33, align 8
  %35 = getelementptr i8, ptr %2, i64 16
  %36 = load i64, ptr %35, align 8
  %37 = load ptr, ptr %18, align 8
  %38 = getelementptr i8, ptr %18, i64 16
  %39 = load i64, ptr %38, align 8
  %40 = icmp eq i64 %34, %29
  br i1 %40, label %41, label %566

41:
  %42 = getelementptr i8, ptr %18, i64 8
  %43 = load i64, ptr %42, align 8
  %44 = icmp eq i64 %43, 0
  %45 = icmp eq i64 %43, %29
  %46 = or i1 %44, %45
  br i1 %46, label %47, label %566

47:
  %48 = getelementptr i8, ptr %23, i64 80
  %49 = getelementptr i8, ptr %23, i64 64
  %50 = getelementptr i8, ptr %23, i64 72
  %51 = getelementptr i8, ptr %23, i64 8
  %52 = getelementptr i8, ptr %23, i64 16
  %53 = getelementptr i8, ptr %23, i64 24
  %54 = getelementptr i8, ptr %23, i64 32
  %55 = getelementptr i8, ptr %23, i64 40
  %56 = getelementptr i8, ptr %23, i64 48
  %57 = getelementptr i8, ptr %23, i64 56
  br label %58

58:
  %59 = phi i64 [ 0, %47 ], [ %529, %559 ]
  %60 = phi i64 [ 0, %47 ], [ %528, %559 ]
  %61 = phi i64 [ 0, %47 ], [ %527, %559 ]
  %62 = phi i64 [ 0, %47 ], [ %535, %559 ]
  br label %63

63:
  %64 = phi i64 [ %59, %58 ], [ %89, %148 ]
  %65 = phi i64 [ %60, %58 ], [ %90, %148 ]
  %66 = icmp slt i64 %65, %5
  br i1 %66, label %67, label %80

67:
  %68 = icmp slt i64 %64, %7
  br i1 %68, label %69, label %78

69:
  %70 = getelementptr i64, ptr %0, i64 %65
  %71 = load i64, ptr %70, align 8
  %72 = getelementptr i32, ptr %6, i64 %64
  %73 = load i32, ptr %72, align 4
  %74 = sext i32 %73 to i64
  %75 = getelementptr i64, ptr %0, i64 %74
  %76 = load i64, ptr %75, align 8
  %77 = icmp sgt i64 %71, %76
  br i1 %77, label %80, label %78

78:
  %79 = add i64 %65, 1
  br label %87

80:
  %81 = icmp slt i64 %64, %7
  br i1 %81, label %82, label %180

82:
  %83 = add i64 %64, 1
  %84 = getelementptr i32, ptr %6, i64 %64
  %85 = load i32, ptr %84, align 4
  %86 = sext i32 %85 to i64
  br label %87

87:
  %88 = phi i64 [ %65, %78 ], [ %86, %82 ]
  %89 = phi i64 [ %64, %78 ], [ %83, %82 ]
  %90 = phi i64 [ %79, %78 ], [ %65, %82 ]
  %91 = icmp sgt i64 %88, -1
  br i1 %91, label %92, label %172

92:
  %93 = getelementptr i32, ptr %12, i64 %88
  %94 = load i32, ptr %93, align 4
  br i1 %44, label %115, label %95

95:
  switch i64 %39, label %112 [
    i64 1, label %96
    i64 2, label %100
    i64 4, label %104
    i64 5, label %108
  ]

96:
  %97 = getelementptr i8, ptr %37, i64 %88
  %98 = load i8, ptr %97, align 1
  %99 = zext i8 %98 to i64
  br label %120

100:
  %101 = getelementptr i16, ptr %37, i64 %88
  %102 = load i16, ptr %101, align 2
  %103 = sext i16 %102 to i64
  br label %115

104:
  %105 = getelementptr i32, ptr %37, i64 %88
  %106 = load i32, ptr %105, align 4
  %107 = sext i32 %106 to i64
  br label %115

108:
  %109 = getelementptr i32, ptr %37, i64 %88
  %110 = load i32, ptr %109, align 4
  %111 = zext i32 %110 to i64
  br label %120

112:
  %113 = getelementptr i64, ptr %37, i64 %88
  %114 = load i64, ptr %113, align 8
  br label %115

115:
  %116 = phi i64 [ -1, %92 ], [ %114, %112 ], [ %107, %104 ], [ %103, %100 ]
  %117 = icmp slt i32 %94, 0
  %118 = icmp slt i64 %116, 0
  %119 = select i1 %117, i1 %118, i1 false
  br i1 %119, label %148, label %120

120:
  %121 = phi i64 [ %116, %115 ], [ %111, %108 ], [ %99, %96 ]
  switch i64 %36, label %138 [
    i64 1, label %122
    i64 2, label %126
    i64 4, label %130
    i64 5, label %134
  ]

122:
  %123 = getelementptr i8, ptr %32, i64 %88
  %124 = load i8, ptr %123, align 1
  %125 = zext i8 %124 to i64
  br label %141

126:
  %127 = getelementptr i16, ptr %32, i64 %88
  %128 = load i16, ptr %127, align 2
  %129 = sext i16 %128 to i64
  br label %141

130:
  %131 = getelementptr i32, ptr %32, i64 %88
  %132 = load i32, ptr %131, align 4
  %133 = sext i32 %132 to i64
  br label %141

134:
  %135 = getelementptr i32, ptr %32, i64 %88
  %136 = load i32, ptr %135, align 4
  %137 = zext i32 %136 to i64
  br label %141

138:
  %139 = getelementptr i64, ptr %32, i64 %88
  %140 = load i64, ptr %139, align 8
  br label %141

141:
  %142 = phi i64 [ %140, %138 ], [ %125, %122 ], [ %129, %126 ], [ %133, %130 ], [ %137, %134 ]
  %143 = icmp ult i64 %142, %10
  br i1 %143, label %144, label %566

144:
  %145 = getelementptr i64, ptr %8, i64 %142
  %146 = load i64, ptr %145, align 8
  %147 = icmp eq i64 %146, %11
  br i1 %147, label %149, label %148

148:
  br label %63

149:
  %150 = sext i32 %94 to i64
  %151 = getelementptr i64, ptr %0, i64 %88
  %152 = load i64, ptr %151, align 8
  switch i64 %31, label %169 [
    i64 1, label %153
    i64 2, label %157
    i64 4, label %161
    i64 5, label %165
  ]

153:
  %154 = getelementptr i8, ptr %27, i64 %88
  %155 = load i8, ptr %154, align 1
  %156 = zext i8 %155 to i64
  br label %172

157:
  %158 = getelementptr i16, ptr %27, i64 %88
  %159 = load i16, ptr %158, align 2
  %160 = sext i16 %159 to i64
  br label %172

161:
  %162 = getelementptr i32, ptr %27, i64 %88
  %163 = load i32, ptr %162, align 4
  %164 = sext i32 %163 to i64
  br label %172

165:
  %166 = getelementptr i32, ptr %27, i64 %88
  %167 = load i32, ptr %166, align 4
  %168 = zext i32 %167 to i64
  br label %172

169:
  %170 = getelementptr i64, ptr %27, i64 %88
  %171 = load i64, ptr %170, align 8
  br label %172

172:
  %173 = phi i64 [ %150, %169 ], [ %150, %165 ], [ %150, %153 ], [ %150, %157 ], [ %150, %161 ], [ -1, %87 ]
  %174 = phi i64 [ %121, %169 ], [ %121, %165 ], [ %121, %153 ], [ %121, %157 ], [ %121, %161 ], [ -1, %87 ]
  %175 = phi i64 [ %142, %169 ], [ %142, %165 ], [ %142, %153 ], [ %142, %157 ], [ %142, %161 ], [ 0, %87 ]
  %176 = phi i64 [ %152, %169 ], [ %152, %165 ], [ %152, %153 ], [ %152, %157 ], [ %152, %161 ], [ 0, %87 ]
  %177 = phi i64 [ %171, %169 ], [ %168, %165 ], [ %156, %153 ], [ %160, %157 ], [ %164, %161 ], [ 0, %87 ]
  %178 = load i64, ptr %23, align 8
  %179 = icmp eq i64 %178, 0
  br i1 %179, label %425, label %183

180:
  %181 = load i64, ptr %23, align 8
  %182 = icmp eq i64 %181, 0
  br i1 %182, label %566, label %194

183:
  %184 = icmp slt i64 %88, 0
  br i1 %184, label %194, label %185

185:
  %186 = load i64, ptr %48, align 8
  %187 = icmp eq i64 %186, 0
  br i1 %187, label %194, label %188

188:
  %189 = load i64, ptr %49, align 8
  %190 = icmp eq i64 %189, %173
  br i1 %190, label %191, label %194

191:
  %192 = load i64, ptr %50, align 8
  %193 = icmp eq i64 %192, %174
  br i1 %193, label %437, label %194

194:
  %195 = phi i64 [ %90, %183 ], [ %90, %191 ], [ %90, %188 ], [ %90, %185 ], [ %65, %180 ]
  %196 = phi i64 [ %89, %183 ], [ %89, %191 ], [ %89, %188 ], [ %89, %185 ], [ %64, %180 ]
  %197 = phi i64 [ %88, %183 ], [ %88, %191 ], [ %88, %188 ], [ %88, %185 ], [ -1, %180 ]
  %198 = phi i64 [ %173, %183 ], [ %173, %191 ], [ %173, %188 ], [ %173, %185 ], [ -1, %180 ]
  %199 = phi i64 [ %174, %183 ], [ %174, %191 ], [ %174, %188 ], [ %174, %185 ], [ -1, %180 ]
  %200 = phi i64 [ %175, %183 ], [ %175, %191 ], [ %175, %188 ], [ %175, %185 ], [ 0, %180 ]
  %201 = phi i64 [ %176, %183 ], [ %176, %191 ], [ %176, %188 ], [ %176, %185 ], [ 0, %180 ]
  %202 = phi i64 [ %177, %183 ], [ %177, %191 ], [ %177, %188 ], [ %177, %185 ], [ 0, %180 ]
  %203 = add i64 %61, 1
  %204 = load i64, ptr %49, align 8
  %205 = icmp sgt i64 %204, -1
  br i1 %205, label %206, label %369

206:
  %207 = getelementptr i32, ptr %13, i64 %204
  %208 = load i32, ptr %207, align 4
  %209 = getelementptr i8, ptr %207, i64 4
  %210 = load i32, ptr %209, align 4
  %211 = icmp slt i32 %208, %210
  br i1 %211, label %212, label %214

212:
  %213 = sext i32 %208 to i64
  br label %223

214:
  %215 = phi i64 [ %204, %206 ], [ %267, %265 ]
  %216 = getelementptr i32, ptr %15, i64 %215
  %217 = load i32, ptr %216, align 4
  %218 = getelementptr i8, ptr %216, i64 4
  %219 = load i32, ptr %218, align 4
  %220 = icmp slt i32 %217, %219
  br i1 %220, label %221, label %273

221:
  %222 = sext i32 %217 to i64
  br label %291

223:
  %224 = phi i64 [ %266, %265 ], [ %213, %212 ]
  %225 = getelementptr i32, ptr %14, i64 %224
  %226 = load i32, ptr %225, align 4
  %227 = sext i32 %226 to i64
  %228 = getelementptr %struct.of_instance, ptr %24, i64 %227
  %229 = load i64, ptr %51, align 8
  %230 = load i64, ptr %228, align 8
  %231 = add i64 %230, %229
  store i64 %231, ptr %228, align 8
  %232 = load i64, ptr %52, align 8
  %233 = getelementptr i8, ptr %228, i64 8
  %234 = load i64, ptr %233, align 8
  %235 = add i64 %234, %232
  store i64 %235, ptr %233, align 8
  %236 = load i64, ptr %53, align 8
  %237 = getelementptr i8, ptr %228, i64 16
  %238 = load i64, ptr %237, align 8
  %239 = call i64 @llvm.smin.i64(i64 %236, i64 %238)
  store i64 %239, ptr %237, align 8
  %240 = load i64, ptr %54, align 8
  %241 = getelementptr i8, ptr %228, i64 24
  %242 = load i64, ptr %241, align 8
  %243 = call i64 @llvm.smax.i64(i64 %240, i64 %242)
  store i64 %243, ptr %241, align 8
  %244 = getelementptr i8, ptr %228, i64 32
  %245 = getelementptr i8, ptr %228, i64 40
  %246 = load i64, ptr %245, align 8
  %247 = icmp slt i64 %236, %246
  br i1 %247, label %252, label %248

248:
  %249 = load i64, ptr %55, align 8
  %250 = load i64, ptr %244, align 8
  %251 = add i64 %250, %249
  br label %258

252:
  %253 = icmp sgt i64 %240, %246
  br i1 %253, label %254, label %261

254:
  %255 = sub i64 %240, %246
  %256 = load i64, ptr %244, align 8
  %257 = add i64 %255, %256
  br label %258

258:
  %259 = phi i64 [ %257, %254 ], [ %251, %248 ]
  store i64 %259, ptr %244, align 8
  %260 = load i64, ptr %54, align 8
  br label %261

261:
  %262 = phi i64 [ %260, %258 ], [ %240, %252 ]
  %263 = icmp sgt i64 %262, %246
  br i1 %263, label %264, label %265

264:
  store i64 %262, ptr %245, align 8
  br label %265

265:
  %266 = add i64 %224, 1
  %267 = load i64, ptr %49, align 8
  %268 = getelementptr i32, ptr %13, i64 %267
  %269 = getelementptr i8, ptr %268, i64 4
  %270 = load i32, ptr %269, align 4
  %271 = sext i32 %270 to i64
  %272 = icmp slt i64 %266, %271
  br i1 %272, label %223, label %214

273:
  %274 = phi i64 [ %215, %214 ], [ %363, %361 ]
  %275 = load i64, ptr %51, align 8
  %276 = getelementptr i32, ptr %17, i64 %274
  %277 = load i32, ptr %276, align 4
  %278 = sext i32 %277 to i64
  %279 = getelementptr i64, ptr %20, i64 %278
  %280 = load i64, ptr %279, align 8
  %281 = getelementptr %struct.of_group, ptr %25, i64 %280
  %282 = getelementptr i8, ptr %281, i64 64
  %283 = load i64, ptr %282, align 8
  %284 = add i64 %283, %275
  store i64 %284, ptr %282, align 8
  %285 = load i64, ptr %52, align 8
  %286 = load i64, ptr %279, align 8
  %287 = getelementptr %struct.of_group, ptr %25, i64 %286
  %288 = getelementptr i8, ptr %287, i64 72
  %289 = load i64, ptr %288, align 8
  %290 = add i64 %289, %285
  store i64 %290, ptr %288, align 8
  br label %369

291:
  %292 = phi i64 [ %362, %361 ], [ %222, %221 ]
  %293 = getelementptr i32, ptr %16, i64 %292
  %294 = load i32, ptr %293, align 4
  %295 = sext i32 %294 to i64
  %296 = getelementptr %struct.of_group, ptr %25, i64 %295
  %297 = getelementptr i64, ptr %21, i64 %295
  store i64 %203, ptr %297, align 8
  %298 = load i64, ptr %51, align 8
  %299 = load i64, ptr %296, align 8
  %300 = add i64 %299, %298
  store i64 %300, ptr %296, align 8
  %301 = load i64, ptr %52, align 8
  %302 = getelementptr i8, ptr %296, i64 8
  %303 = load i64, ptr %302, align 8
  %304 = add i64 %303, %301
  store i64 %304, ptr %302, align 8
  %305 = load i64, ptr %56, align 8
  %306 = getelementptr i8, ptr %296, i64 48
  %307 = load i64, ptr %306, align 8
  %308 = add i64 %307, %305
  store i64 %308, ptr %306, align 8
  %309 = load i64, ptr %57, align 8
  %310 = getelementptr i8, ptr %296, i64 56
  %311 = load i64, ptr %310, align 8
  %312 = add i64 %311, %309
  store i64 %312, ptr %310, align 8
  %313 = getelementptr i8, ptr %296, i64 16
  %314 = getelementptr i8, ptr %296, i64 24
  %315 = load i64, ptr %53, align 8
  %316 = load i64, ptr %314, align 8
  %317 = icmp slt i64 %315, %316
  br i1 %317, label %322, label %318

318:
  %319 = load i64, ptr %55, align 8
  %320 = load i64, ptr %313, align 8
  %321 = add i64 %320, %319
  br label %329

322:
  %323 = load i64, ptr %54, align 8
  %324 = icmp sgt i64 %323, %316
  br i1 %324, label %325, label %332

325:
  %326 = sub i64 %323, %316
  %327 = load i64, ptr %313, align 8
  %328 = add i64 %326, %327
  br label %329

329:
  %330 = phi i64 [ %328, %325 ], [ %321, %318 ]
  store i64 %330, ptr %313, align 8
  %331 = load i64, ptr %54, align 8
  br label %332

332:
  %333 = phi i64 [ %331, %329 ], [ %323, %322 ]
  %334 = icmp sgt i64 %333, %316
  br i1 %334, label %335, label %336

335:
  store i64 %333, ptr %314, align 8
  br label %336

336:
  br i1 %44, label %361, label %337

337:
  %338 = getelementptr i8, ptr %296, i64 32
  %339 = getelementptr i8, ptr %296, i64 40
  %340 = load i64, ptr %53, align 8
  %341 = load i64, ptr %339, align 8
  %342 = icmp slt i64 %340, %341
  br i1 %342, label %347, label %343

343:
  %344 = load i64, ptr %55, align 8
  %345 = load i64, ptr %338, align 8
  %346 = add i64 %345, %344
  br label %354

347:
  %348 = load i64, ptr %54, align 8
  %349 = icmp sgt i64 %348, %341
  br i1 %349, label %350, label %357

350:
  %351 = sub i64 %348, %341
  %352 = load i64, ptr %338, align 8
  %353 = add i64 %351, %352
  br label %354

354:
  %355 = phi i64 [ %353, %350 ], [ %346, %343 ]
  store i64 %355, ptr %338, align 8
  %356 = load i64, ptr %54, align 8
  br label %357

357:
  %358 = phi i64 [ %356, %354 ], [ %348, %347 ]
  %359 = icmp sgt i64 %358, %341
  br i1 %359, label %360, label %361

360:
  store i64 %358, ptr %339, align 8
  br label %361

361:
  %362 = add i64 %292, 1
  %363 = load i64, ptr %49, align 8
  %364 = getelementptr i32, ptr %15, i64 %363
  %365 = getelementptr i8, ptr %364, i64 4
  %366 = load i32, ptr %365, align 4
  %367 = sext i32 %366 to i64
  %368 = icmp slt i64 %362, %367
  br i1 %368, label %291, label %273

369:
  %370 = load i64, ptr %50, align 8
  %371 = icmp sgt i64 %370, -1
  %372 = icmp sle i64 %62, %22
  %373 = select i1 %371, i1 %372, i1 false
  br i1 %373, label %376, label %374

374:
  %375 = phi i64 [ %62, %369 ], [ %420, %418 ]
  store i64 0, ptr %23, align 8
  br label %425

376:
  %377 = phi i64 [ %421, %418 ], [ %370, %369 ]
  %378 = phi i64 [ %420, %418 ], [ %62, %369 ]
  %379 = getelementptr i64, ptr %20, i64 %377
  %380 = load i64, ptr %379, align 8
  %381 = getelementptr i64, ptr %21, i64 %380
  %382 = load i64, ptr %381, align 8
  %383 = icmp eq i64 %382, %203
  br i1 %383, label %418, label %384

384:
  %385 = getelementptr %struct.of_group, ptr %25, i64 %380
  store i64 %203, ptr %381, align 8
  %386 = getelementptr i8, ptr %385, i64 32
  %387 = getelementptr i8, ptr %385, i64 40
  %388 = load i64, ptr %53, align 8
  %389 = load i64, ptr %387, align 8
  %390 = icmp slt i64 %388, %389
  br i1 %390, label %395, label %391

391:
  %392 = load i64, ptr %55, align 8
  %393 = load i64, ptr %386, align 8
  %394 = add i64 %393, %392
  br label %402

395:
  %396 = load i64, ptr %54, align 8
  %397 = icmp sgt i64 %396, %389
  br i1 %397, label %398, label %405

398:
  %399 = sub i64 %396, %389
  %400 = load i64, ptr %386, align 8
  %401 = add i64 %399, %400
  br label %402

402:
  %403 = phi i64 [ %401, %398 ], [ %394, %391 ]
  store i64 %403, ptr %386, align 8
  %404 = load i64, ptr %54, align 8
  br label %405

405:
  %406 = phi i64 [ %404, %402 ], [ %396, %395 ]
  %407 = icmp sgt i64 %406, %389
  br i1 %407, label %408, label %409

408:
  store i64 %406, ptr %387, align 8
  br label %409

409:
  %410 = load i64, ptr %56, align 8
  %411 = getelementptr i8, ptr %385, i64 80
  %412 = load i64, ptr %411, align 8
  %413 = add i64 %412, %410
  store i64 %413, ptr %411, align 8
  %414 = load i64, ptr %57, align 8
  %415 = getelementptr i8, ptr %385, i64 88
  %416 = load i64, ptr %415, align 8
  %417 = add i64 %416, %414
  store i64 %417, ptr %415, align 8
  br label %418

418:
  %419 = getelementptr i64, ptr %19, i64 %377
  %420 = add i64 %378, 1
  %421 = load i64, ptr %419, align 8
  %422 = icmp sgt i64 %421, -1
  %423 = icmp sle i64 %420, %22
  %424 = select i1 %422, i1 %423, i1 false
  br i1 %424, label %376, label %374

425:
  %426 = phi i64 [ %202, %374 ], [ %177, %172 ]
  %427 = phi i64 [ %201, %374 ], [ %176, %172 ]
  %428 = phi i64 [ %200, %374 ], [ %175, %172 ]
  %429 = phi i64 [ %199, %374 ], [ %174, %172 ]
  %430 = phi i64 [ %198, %374 ], [ %173, %172 ]
  %431 = phi i64 [ %197, %374 ], [ %88, %172 ]
  %432 = phi i64 [ %196, %374 ], [ %89, %172 ]
  %433 = phi i64 [ %195, %374 ], [ %90, %172 ]
  %434 = phi i64 [ %203, %374 ], [ %61, %172 ]
  %435 = phi i64 [ %375, %374 ], [ %62, %172 ]
  %436 = icmp slt i64 %431, 0
  br i1 %436, label %566, label %439

437:
  %438 = icmp sgt i64 %62, %22
  br i1 %438, label %566, label %441

439:
  %440 = icmp sgt i64 %435, %22
  br i1 %440, label %566, label %444

441:
  %442 = load i64, ptr %54, align 8
  %443 = add i64 %178, 1
  br label %525

444:
  %445 = icmp sgt i64 %430, -1
  br i1 %445, label %446, label %498

446:
  %447 = getelementptr i32, ptr %13, i64 %430
  %448 = load i32, ptr %447, align 4
  %449 = add i64 %430, 1
  %450 = getelementptr i32, ptr %13, i64 %449
  %451 = load i32, ptr %450, align 4
  %452 = sext i32 %451 to i64
  %453 = icmp slt i32 %448, %451
  br i1 %453, label %454, label %456

454:
  %455 = sext i32 %448 to i64
  br label %466

456:
  %457 = phi i64 [ -9223372036854775808, %446 ], [ %475, %466 ]
  %458 = getelementptr i32, ptr %15, i64 %430
  %459 = load i32, ptr %458, align 4
  %460 = getelementptr i32, ptr %15, i64 %449
  %461 = load i32, ptr %460, align 4
  %462 = sext i32 %461 to i64
  %463 = icmp slt i32 %459, %461
  br i1 %463, label %464, label %478

464:
  %465 = sext i32 %459 to i64
  br label %483

466:
  %467 = phi i64 [ %476, %466 ], [ %455, %454 ]
  %468 = phi i64 [ %475, %466 ], [ -9223372036854775808, %454 ]
  %469 = getelementptr i32, ptr %14, i64 %467
  %470 = load i32, ptr %469, align 4
  %471 = sext i32 %470 to i64
  %472 = getelementptr %struct.of_instance, ptr %24, i64 %471
  %473 = getelementptr i8, ptr %472, i64 40
  %474 = load i64, ptr %473, align 8
  %475 = call i64 @llvm.smax.i64(i64 %474, i64 %468)
  %476 = add i64 %467, 1
  %477 = icmp eq i64 %476, %452
  br i1 %477, label %456, label %466

478:
  %479 = phi i64 [ %457, %456 ], [ %495, %483 ]
  %480 = sub i32 %451, %448
  %481 = sext i32 %480 to i64
  %482 = add i64 %435, %481
  br label %498

483:
  %484 = phi i64 [ %496, %483 ], [ %465, %464 ]
  %485 = phi i64 [ %495, %483 ], [ %457, %464 ]
  %486 = getelementptr i32, ptr %16, i64 %484
  %487 = load i32, ptr %486, align 4
  %488 = sext i32 %487 to i64
  %489 = getelementptr %struct.of_group, ptr %25, i64 %488
  %490 = getelementptr i8, ptr %489, i64 24
  %491 = load i64, ptr %490, align 8
  %492 = call i64 @llvm.smax.i64(i64 %491, i64 %485)
  %493 = getelementptr i8, ptr %489, i64 40
  %494 = load i64, ptr %493, align 8
  %495 = call i64 @llvm.smax.i64(i64 %494, i64 %492)
  %496 = add i64 %484, 1
  %497 = icmp eq i64 %496, %462
  br i1 %497, label %478, label %483

498:
  %499 = phi i64 [ %479, %478 ], [ -9223372036854775808, %444 ]
  %500 = phi i64 [ %482, %478 ], [ %435, %444 ]
  %501 = icmp sgt i64 %429, -1
  %502 = icmp sle i64 %500, %22
  %503 = and i1 %501, %502
  br i1 %503, label %509, label %504

504:
  %505 = phi i64 [ %499, %498 ], [ %518, %509 ]
  %506 = phi i64 [ %500, %498 ], [ %521, %509 ]
  store i64 0, ptr %57, align 8
  store i64 0, ptr %56, align 8
  store i64 0, ptr %55, align 8
  store i64 0, ptr %52, align 8
  store i64 0, ptr %51, align 8
  store i64 %427, ptr %54, align 8
  store i64 %427, ptr %53, align 8
  store i64 %430, ptr %49, align 8
  store i64 %429, ptr %50, align 8
  %507 = icmp sge i64 %427, %505
  %508 = zext i1 %507 to i64
  store i64 %508, ptr %48, align 8
  br label %525

509:
  %510 = phi i64 [ %521, %509 ], [ %500, %498 ]
  %511 = phi i64 [ %520, %509 ], [ %429, %498 ]
  %512 = phi i64 [ %518, %509 ], [ %499, %498 ]
  %513 = getelementptr i64, ptr %20, i64 %511
  %514 = load i64, ptr %513, align 8
  %515 = getelementptr %struct.of_group, ptr %25, i64 %514
  %516 = getelementptr i8, ptr %515, i64 40
  %517 = load i64, ptr %516, align 8
  %518 = call i64 @llvm.smax.i64(i64 %517, i64 %512)
  %519 = getelementptr i64, ptr %19, i64 %511
  %520 = load i64, ptr %519, align 8
  %521 = add i64 %510, 1
  %522 = icmp sgt i64 %520, -1
  %523 = icmp sle i64 %521, %22
  %524 = select i1 %522, i1 %523, i1 false
  br i1 %524, label %509, label %504

525:
  %526 = phi i64 [ %443, %441 ], [ 1, %504 ]
  %527 = phi i64 [ %61, %441 ], [ %434, %504 ]
  %528 = phi i64 [ %90, %441 ], [ %433, %504 ]
  %529 = phi i64 [ %89, %441 ], [ %432, %504 ]
  %530 = phi i64 [ %88, %441 ], [ %431, %504 ]
  %531 = phi i64 [ %175, %441 ], [ %428, %504 ]
  %532 = phi i64 [ %176, %441 ], [ %427, %504 ]
  %533 = phi i64 [ %177, %441 ], [ %426, %504 ]
  %534 = phi i64 [ %442, %441 ], [ %427, %504 ]
  %535 = phi i64 [ %62, %441 ], [ %506, %504 ]
  %536 = add i64 %533, %532
  store i64 %526, ptr %23, align 8
  %537 = icmp sgt i64 %536, %534
  br i1 %537, label %538, label %543

538:
  %539 = call i64 @llvm.smax.i64(i64 %532, i64 %534)
  %540 = sub i64 %536, %539
  %541 = load i64, ptr %55, align 8
  %542 = add i64 %540, %541
  store i64 %542, ptr %55, align 8
  store i64 %536, ptr %54, align 8
  br label %543

543:
  %544 = icmp slt i64 %530, %4
  br i1 %544, label %545, label %550

545:
  %546 = load i64, ptr %51, align 8
  %547 = add i64 %546, 1
  store i64 %547, ptr %51, align 8
  %548 = load i64, ptr %52, align 8
  %549 = add i64 %548, %533
  store i64 %549, ptr %52, align 8
  br label %559

550:
  %551 = getelementptr i64, ptr %9, i64 %531
  %552 = load i64, ptr %551, align 8
  switch i64 %552, label %559 [
    i64 1, label %553
    i64 2, label %560
  ]

553:
  %554 = sub i64 %530, %4
  %555 = getelementptr i64, ptr %3, i64 %554
  %556 = load i64, ptr %555, align 8
  %557 = load i64, ptr %56, align 8
  %558 = add i64 %557, %556
  store i64 %558, ptr %56, align 8
  br label %559

559:
  br label %58

560:
  %561 = sub i64 %530, %4
  %562 = getelementptr i64, ptr %3, i64 %561
  %563 = load i64, ptr %562, align 8
  %564 = load i64, ptr %57, align 8
  %565 = add i64 %564, %563
  store i64 %565, ptr %57, align 8
  br label %559

566:
  %567 = phi i64 [ -1, %26 ], [ -1, %41 ], [ -1, %141 ], [ 0, %425 ], [ -1, %437 ], [ 0, %180 ], [ -1, %439 ]
  ret i64 %567
}

define i64 @sweep_ranges(ptr %0, ptr %1, ptr %2, i64 %3, ptr %4, i64 %5, ptr %6, i64 %7, i64 %8, ptr %9, ptr %10, ptr %11, ptr %12, ptr %13, ptr %14, ptr %15, i64 %16, ptr %17) {
  %19 = load ptr, ptr %1, align 8
  %20 = getelementptr i8, ptr %1, i64 8
  %21 = load i64, ptr %20, align 8
  %22 = getelementptr i8, ptr %1, i64 16
  %23 = load i64, ptr %22, align 8
  %24 = load ptr, ptr %2, align 8
  %25 = getelementptr i8, ptr %2, i64 8
  %26 = load i64, ptr %25, align 8
  %27 = getelementptr i8, ptr %2, i64 16
  %28 = load i64, ptr %27, align 8
  %29 = load ptr, ptr %12, align 8
  %30 = getelementptr i8, ptr %12, i64 16
  %31 = load i64, ptr %30, align 8
  %32 = icmp eq i64 %26, %21
  br i1 %32, label %33, label %234

33:
  %34 = getelementptr i8, ptr %12, i64 8
  %35 = load i64, ptr %34, align 8
  %36 = icmp eq i64 %35, 0
  %37 = icmp eq i64 %35, %21
  %38 = or i1 %36, %37
  br i1 %38, label %39, label %234

39:
  %40 = icmp sgt i64 %3, 0
  %41 = icmp sgt i64 %5, 0
  %42 = or i1 %40, %41
  br i1 %42, label %43, label %234

43:
  %44 = shl i64 %8, 1
  %45 = or i64 %44, 1
  br label %46

46:
  %47 = phi i1 [ %41, %43 ], [ %232, %229 ]
  %48 = phi i1 [ %40, %43 ], [ %231, %229 ]
  %49 = phi i64 [ 0, %43 ], [ %230, %229 ]
  %50 = phi i64 [ 0, %43 ], [ %74, %229 ]
  %51 = phi i64 [ 0, %43 ], [ %73, %229 ]
  br i1 %48, label %56, label %52

52:
  %53 = getelementptr i32, ptr %4, i64 %51
  %54 = load i32, ptr %53, align 4
  %55 = sext i32 %54 to i64
  br label %68

56:
  br i1 %47, label %57, label %66

57:
  %58 = getelementptr i64, ptr %0, i64 %50
  %59 = load i64, ptr %58, align 8
  %60 = getelementptr i32, ptr %4, i64 %51
  %61 = load i32, ptr %60, align 4
  %62 = sext i32 %61 to i64
  %63 = getelementptr i64, ptr %0, i64 %62
  %64 = load i64, ptr %63, align 8
  %65 = icmp sgt i64 %59, %64
  br i1 %65, label %68, label %66

66:
  %67 = add i64 %50, 1
  br label %71

68:
  %69 = phi i64 [ %55, %52 ], [ %62, %57 ]
  %70 = add i64 %51, 1
  br label %71

71:
  %72 = phi i64 [ %50, %66 ], [ %69, %68 ]
  %73 = phi i64 [ %51, %66 ], [ %70, %68 ]
  %74 = phi i64 [ %67, %66 ], [ %50, %68 ]
  %75 = getelementptr i32, ptr %9, i64 %72
  %76 = load i32, ptr %75, align 4
  %77 = sext i32 %76 to i64
  br i1 %36, label %101, label %78

78:
  switch i64 %31, label %95 [
    i64 1, label %79
    i64 2, label %83
    i64 4, label %87
    i64 5, label %91
  ]

79:
  %80 = getelementptr i8, ptr %29, i64 %72
  %81 = load i8, ptr %80, align 1
  %82 = zext i8 %81 to i64
  br label %98

83:
  %84 = getelementptr i16, ptr %29, i64 %72
  %85 = load i16, ptr %84, align 2
  %86 = sext i16 %85 to i64
  br label %101

87:
  %88 = getelementptr i32, ptr %29, i64 %72
  %89 = load i32, ptr %88, align 4
  %90 = sext i32 %89 to i64
  br label %101

91:
  %92 = getelementptr i32, ptr %29, i64 %72
  %93 = load i32, ptr %92, align 4
  %94 = zext i32 %93 to i64
  br label %98

95:
  %96 = getelementptr i64, ptr %29, i64 %72
  %97 = load i64, ptr %96, align 8
  br label %101

98:
  %99 = phi i64 [ %94, %91 ], [ %82, %79 ]
  %100 = icmp slt i32 %76, 0
  br label %106

101:
  %102 = phi i64 [ -1, %71 ], [ %97, %95 ], [ %90, %87 ], [ %86, %83 ]
  %103 = icmp slt i32 %76, 0
  %104 = icmp slt i64 %102, 0
  %105 = select i1 %103, i1 %104, i1 false
  br i1 %105, label %229, label %106

106:
  %107 = phi i1 [ %100, %98 ], [ %103, %101 ]
  %108 = phi i64 [ %99, %98 ], [ %102, %101 ]
  %109 = getelementptr i64, ptr %0, i64 %72
  %110 = load i64, ptr %109, align 8
  switch i64 %28, label %127 [
    i64 1, label %111
    i64 2, label %115
    i64 4, label %119
    i64 5, label %123
  ]

111:
  %112 = getelementptr i8, ptr %24, i64 %72
  %113 = load i8, ptr %112, align 1
  %114 = zext i8 %113 to i64
  br label %130

115:
  %116 = getelementptr i16, ptr %24, i64 %72
  %117 = load i16, ptr %116, align 2
  %118 = sext i16 %117 to i64
  br label %130

119:
  %120 = getelementptr i32, ptr %24, i64 %72
  %121 = load i32, ptr %120, align 4
  %122 = sext i32 %121 to i64
  br label %130

123:
  %124 = getelementptr i32, ptr %24, i64 %72
  %125 = load i32, ptr %124, align 4
  %126 = zext i32 %125 to i64
  br label %130

127:
  %128 = getelementptr i64, ptr %24, i64 %72
  %129 = load i64, ptr %128, align 8
  br label %130

130:
  %131 = phi i64 [ %129, %127 ], [ %114, %111 ], [ %118, %115 ], [ %122, %119 ], [ %126, %123 ]
  switch i64 %23, label %148 [
    i64 1, label %132
    i64 2, label %136
    i64 4, label %140
    i64 5, label %144
  ]

132:
  %133 = getelementptr i8, ptr %19, i64 %72
  %134 = load i8, ptr %133, align 1
  %135 = zext i8 %134 to i64
  br label %151

136:
  %137 = getelementptr i16, ptr %19, i64 %72
  %138 = load i16, ptr %137, align 2
  %139 = sext i16 %138 to i64
  br label %151

140:
  %141 = getelementptr i32, ptr %19, i64 %72
  %142 = load i32, ptr %141, align 4
  %143 = sext i32 %142 to i64
  br label %151

144:
  %145 = getelementptr i32, ptr %19, i64 %72
  %146 = load i32, ptr %145, align 4
  %147 = zext i32 %146 to i64
  br label %151

148:
  %149 = getelementptr i64, ptr %19, i64 %72
  %150 = load i64, ptr %149, align 8
  br label %151

151:
  %152 = phi i64 [ %150, %148 ], [ %135, %132 ], [ %139, %136 ], [ %143, %140 ], [ %147, %144 ]
  %153 = add i64 %152, %110
  %154 = icmp ult i64 %131, %7
  br i1 %154, label %155, label %234

155:
  %156 = getelementptr i64, ptr %6, i64 %131
  %157 = load i64, ptr %156, align 8
  %158 = icmp ult i64 %157, %8
  br i1 %158, label %159, label %234

159:
  br i1 %107, label %167, label %160

160:
  %161 = getelementptr i32, ptr %10, i64 %77
  %162 = load i32, ptr %161, align 4
  %163 = sext i32 %162 to i64
  %164 = getelementptr i8, ptr %161, i64 4
  %165 = load i32, ptr %164, align 4
  %166 = sext i32 %165 to i64
  br label %167

167:
  %168 = phi i64 [ %163, %160 ], [ 0, %159 ]
  %169 = phi i64 [ %166, %160 ], [ 0, %159 ]
  %170 = icmp slt i64 %168, %169
  %171 = icmp sgt i64 %108, -1
  %172 = select i1 %170, i1 true, i1 %171
  br i1 %172, label %173, label %226

173:
  %174 = phi i1 [ %223, %221 ], [ %170, %167 ]
  %175 = phi i64 [ %222, %221 ], [ %49, %167 ]
  %176 = phi i64 [ %188, %221 ], [ %168, %167 ]
  %177 = phi i64 [ %187, %221 ], [ %108, %167 ]
  br i1 %174, label %178, label %183

178:
  %179 = add i64 %176, 1
  %180 = getelementptr i32, ptr %11, i64 %176
  %181 = load i32, ptr %180, align 4
  %182 = sext i32 %181 to i64
  br label %186

183:
  %184 = getelementptr i64, ptr %13, i64 %177
  %185 = load i64, ptr %184, align 8
  br label %186

186:
  %187 = phi i64 [ %177, %178 ], [ %185, %183 ]
  %188 = phi i64 [ %179, %178 ], [ %176, %183 ]
  %189 = phi i64 [ %182, %178 ], [ %177, %183 ]
  %190 = getelementptr i64, ptr %14, i64 %189
  %191 = load i64, ptr %190, align 8
  %192 = call i64 @llvm.smax.i64(i64 %110, i64 %191)
  %193 = getelementptr i64, ptr %15, i64 %189
  %194 = load i64, ptr %193, align 8
  %195 = call i64 @llvm.smin.i64(i64 %153, i64 %194)
  %196 = icmp sgt i64 %195, %192
  br i1 %196, label %197, label %221

197:
  %198 = mul i64 %189, %45
  %199 = getelementptr i64, ptr %17, i64 %198
  %200 = getelementptr i8, ptr %199, i64 8
  %201 = getelementptr i64, ptr %200, i64 %8
  %202 = load i64, ptr %199, align 8
  %203 = icmp slt i64 %192, %202
  br i1 %203, label %204, label %205

204:
  store i64 %192, ptr %199, align 8
  br label %205

205:
  %206 = load i64, ptr %156, align 8
  %207 = icmp slt i64 %206, %8
  br i1 %207, label %208, label %221

208:
  %209 = phi i64 [ %219, %213 ], [ %206, %205 ]
  %210 = getelementptr i64, ptr %201, i64 %209
  %211 = load i64, ptr %210, align 8
  %212 = icmp slt i64 %211, %195
  br i1 %212, label %213, label %221

213:
  %214 = call i64 @llvm.smax.i64(i64 %192, i64 %211)
  %215 = sub i64 %195, %214
  %216 = getelementptr i64, ptr %200, i64 %209
  %217 = load i64, ptr %216, align 8
  %218 = add i64 %215, %217
  store i64 %218, ptr %216, align 8
  store i64 %195, ptr %210, align 8
  %219 = add i64 %209, 1
  %220 = icmp eq i64 %219, %8
  br i1 %220, label %221, label %208

221:
  %222 = add i64 %175, 1
  %223 = icmp slt i64 %188, %169
  %224 = icmp sgt i64 %187, -1
  %225 = select i1 %223, i1 true, i1 %224
  br i1 %225, label %173, label %226

226:
  %227 = phi i64 [ %49, %167 ], [ %222, %221 ]
  %228 = icmp sgt i64 %227, %16
  br i1 %228, label %234, label %229

229:
  %230 = phi i64 [ %49, %101 ], [ %227, %226 ]
  %231 = icmp slt i64 %74, %3
  %232 = icmp slt i64 %73, %5
  %233 = select i1 %231, i1 true, i1 %232
  br i1 %233, label %46, label %234

234:
  %235 = phi i64 [ -1, %18 ], [ -1, %33 ], [ 0, %39 ], [ -1, %151 ], [ -1, %155 ], [ 0, %229 ], [ -1, %226 ]
  ret i64 %235
}

define i64 @count_equal(ptr %0, ptr %1, i64 %2, i64 %3, ptr %4) {
  %6 = icmp slt i64 %3, 1
  br i1 %6, label %17, label %7

7:
  %8 = icmp ugt i64 %3, 63
  br i1 %8, label %14, label %9

9:
  %10 = trunc i64 %3 to i8
  %11 = add i8 %10, 10
  %12 = udiv i8 %11, 11
  %13 = zext i8 %12 to i64
  br label %14

14:
  %15 = phi i64 [ 6, %7 ], [ %13, %9 ]
  %16 = shl i64 %15, 11
  br label %20

17:
  %18 = phi i64 [ 0, %5 ], [ %15, %20 ]
  %19 = icmp sgt i64 %2, 0
  br i1 %19, label %25, label %29

20:
  %21 = phi i64 [ %23, %20 ], [ 0, %14 ]
  %22 = getelementptr i64, ptr %4, i64 %21
  store i64 0, ptr %22, align 8
  %23 = add i64 %21, 1
  %24 = icmp eq i64 %23, %16
  br i1 %24, label %17, label %20

25:
  %26 = phi i64 [ %31, %30 ], [ 0, %17 ]
  br i1 %6, label %30, label %27

27:
  %28 = getelementptr i64, ptr %0, i64 %26
  br label %33

29:
  br i1 %6, label %46, label %48

30:
  %31 = add i64 %26, 1
  %32 = icmp eq i64 %31, %2
  br i1 %32, label %29, label %25

33:
  %34 = phi i64 [ 0, %27 ], [ %44, %33 ]
  %35 = load i64, ptr %28, align 8
  %36 = mul i64 %34, 11
  %37 = ashr i64 %35, %36
  %38 = and i64 %37, 2047
  %39 = shl i64 %34, 14
  %40 = getelementptr i8, ptr %4, i64 %39
  %41 = getelementptr i64, ptr %40, i64 %38
  %42 = load i64, ptr %41, align 8
  %43 = add i64 %42, 1
  store i64 %43, ptr %41, align 8
  %44 = add i64 %34, 1
  %45 = icmp eq i64 %44, %18
  br i1 %45, label %30, label %33

46:
  %47 = phi ptr [ %0, %29 ], [ %50, %65 ]
  br i1 %19, label %82, label %80

48:
  %49 = phi ptr [ %50, %65 ], [ %0, %29 ]
  %50 = phi ptr [ %49, %65 ], [ %1, %29 ]
  %51 = phi i64 [ %66, %65 ], [ 0, %29 ]
  %52 = shl i64 %51, 14
  %53 = getelementptr i8, ptr %4, i64 %52
  br label %57

54:
  br i1 %19, label %55, label %65

55:
  %56 = mul i64 %51, 11
  br label %68

57:
  %58 = phi i64 [ 0, %48 ], [ %63, %57 ]
  %59 = phi i64 [ 0, %48 ], [ %62, %57 ]
  %60 = getelementptr i64, ptr %53, i64 %58
  %61 = load i64, ptr %60, align 8
  store i64 %59, ptr %60, align 8
  %62 = add i64 %61, %59
  %63 = add i64 %58, 1
  %64 = icmp eq i64 %63, 2048
  br i1 %64, label %54, label %57

65:
  %66 = add i64 %51, 1
  %67 = icmp eq i64 %66, %18
  br i1 %67, label %46, label %48

68:
  %69 = phi i64 [ 0, %55 ], [ %78, %68 ]
  %70 = getelementptr i64, ptr %49, i64 %69
  %71 = load i64, ptr %70, align 8
  %72 = ashr i64 %71, %56
  %73 = and i64 %72, 2047
  %74 = getelementptr i64, ptr %53, i64 %73
  %75 = load i64, ptr %74, align 8
  %76 = add i64 %75, 1
  store i64 %76, ptr %74, align 8
  %77 = getelementptr i64, ptr %50, i64 %75
  store i64 %71, ptr %77, align 8
  %78 = add i64 %69, 1
  %79 = icmp eq i64 %78, %2
  br i1 %79, label %65, label %68

80:
  %81 = phi i64 [ 0, %46 ], [ %100, %97 ], [ %105, %102 ]
  ret i64 %81

82:
  %83 = phi i64 [ %105, %102 ], [ 0, %46 ]
  %84 = phi i64 [ %90, %102 ], [ 0, %46 ]
  %85 = getelementptr i64, ptr %47, i64 %84
  %86 = load i64, ptr %85, align 8
  %87 = add i64 %84, 1
  %88 = call i64 @llvm.smax.i64(i64 %2, i64 %87)
  br label %89

89:
  %90 = phi i64 [ %84, %82 ], [ %95, %94 ]
  %91 = getelementptr i64, ptr %47, i64 %90
  %92 = load i64, ptr %91, align 8
  %93 = icmp eq i64 %92, %86
  br i1 %93, label %94, label %102

94:
  %95 = add i64 %90, 1
  %96 = icmp eq i64 %95, %88
  br i1 %96, label %97, label %89

97:
  %98 = getelementptr i64, ptr %0, i64 %83
  store i64 %86, ptr %98, align 8
  %99 = sub i64 %88, %84
  %100 = add i64 %83, 1
  %101 = getelementptr i64, ptr %1, i64 %83
  store i64 %99, ptr %101, align 8
  br label %80

102:
  %103 = getelementptr i64, ptr %0, i64 %83
  store i64 %86, ptr %103, align 8
  %104 = sub i64 %90, %84
  %105 = add i64 %83, 1
  %106 = getelementptr i64, ptr %1, i64 %83
  store i64 %104, ptr %106, align 8
  %107 = icmp slt i64 %90, %2
  br i1 %107, label %82, label %80
}

define i64 @order_calls(ptr %0, ptr %1, ptr %2, ptr %3, ptr %4, ptr %5) {
  %7 = load ptr, ptr %0, align 8
  %8 = getelementptr i8, ptr %0, i64 8
  %9 = load i64, ptr %8, align 8
  %10 = load ptr, ptr %1, align 8
  %11 = getelementptr i8, ptr %1, i64 8
  %12 = load i64, ptr %11, align 8
  %13 = getelementptr i8, ptr %1, i64 16
  %14 = load i64, ptr %13, align 8
  %15 = load ptr, ptr %2, align 8
  %16 = getelementptr i8, ptr %2, i64 8
  %17 = load i64, ptr %16, align 8
  %18 = getelementptr i8, ptr %2, i64 16
  %19 = load i64, ptr %18, align 8
  %20 = load ptr, ptr %3, align 8
  %21 = getelementptr i8, ptr %3, i64 8
  %22 = load i64, ptr %21, align 8
  %23 = getelementptr i8, ptr %3, i64 16
  %24 = load i64, ptr %23, align 8
  %25 = icmp eq i64 %17, %12
  %26 = icmp eq i64 %22, %12
  %27 = select i1 %25, i1 %26, i1 false
  br i1 %27, label %28, label %140

28:
  %29 = getelementptr i8, ptr %0, i64 16
  %30 = load i64, ptr %29, align 8
  %31 = getelementptr i8, ptr %5, i64 8
  %32 = load i64, ptr %31, align 8
  %33 = icmp ne i64 %32, %12
  %34 = icmp ne i64 %30, 1
  %35 = select i1 %33, i1 true, i1 %34
  br i1 %35, label %140, label %36

36:
  %37 = load ptr, ptr %5, align 8
  %38 = icmp sgt i64 %12, 0
  br i1 %38, label %39, label %140

39:
  %40 = getelementptr i8, ptr %5, i64 16
  br label %41

41:
  %42 = phi i64 [ 0, %39 ], [ %137, %134 ]
  %43 = phi i64 [ -9223372036854775808, %39 ], [ %136, %134 ]
  %44 = phi i64 [ 0, %39 ], [ %138, %134 ]
  %45 = phi i64 [ -9223372036854775808, %39 ], [ %135, %134 ]
  switch i64 %24, label %62 [
    i64 1, label %46
    i64 2, label %50
    i64 4, label %54
    i64 5, label %58
  ]

46:
  %47 = getelementptr i8, ptr %20, i64 %44
  %48 = load i8, ptr %47, align 1
  %49 = zext i8 %48 to i64
  br label %65

50:
  %51 = getelementptr i16, ptr %20, i64 %44
  %52 = load i16, ptr %51, align 2
  %53 = sext i16 %52 to i64
  br label %65

54:
  %55 = getelementptr i32, ptr %20, i64 %44
  %56 = load i32, ptr %55, align 4
  %57 = sext i32 %56 to i64
  br label %65

58:
  %59 = getelementptr i32, ptr %20, i64 %44
  %60 = load i32, ptr %59, align 4
  %61 = zext i32 %60 to i64
  br label %65

62:
  %63 = getelementptr i64, ptr %20, i64 %44
  %64 = load i64, ptr %63, align 8
  br label %65

65:
  %66 = phi i64 [ %64, %62 ], [ %49, %46 ], [ %53, %50 ], [ %57, %54 ], [ %61, %58 ]
  %67 = icmp ult i64 %66, %9
  br i1 %67, label %68, label %140

68:
  %69 = getelementptr i8, ptr %7, i64 %66
  %70 = load i8, ptr %69, align 1
  %71 = icmp eq i8 %70, 0
  br i1 %71, label %134, label %72

72:
  switch i64 %14, label %89 [
    i64 1, label %73
    i64 2, label %77
    i64 4, label %81
    i64 5, label %85
  ]

73:
  %74 = getelementptr i8, ptr %10, i64 %44
  %75 = load i8, ptr %74, align 1
  %76 = zext i8 %75 to i64
  br label %92

77:
  %78 = getelementptr i16, ptr %10, i64 %44
  %79 = load i16, ptr %78, align 2
  %80 = sext i16 %79 to i64
  br label %92

81:
  %82 = getelementptr i32, ptr %10, i64 %44
  %83 = load i32, ptr %82, align 4
  %84 = sext i32 %83 to i64
  br label %92

85:
  %86 = getelementptr i32, ptr %10, i64 %44
  %87 = load i32, ptr %86, align 4
  %88 = zext i32 %87 to i64
  br label %92

89:
  %90 = getelementptr i64, ptr %10, i64 %44
  %91 = load i64, ptr %90, align 8
  br label %92

92:
  %93 = phi i64 [ %91, %89 ], [ %76, %73 ], [ %80, %77 ], [ %84, %81 ], [ %88, %85 ]
  switch i64 %19, label %110 [
    i64 1, label %94
    i64 2, label %98
    i64 4, label %102
    i64 5, label %106
  ]

94:
  %95 = getelementptr i8, ptr %15, i64 %44
  %96 = load i8, ptr %95, align 1
  %97 = zext i8 %96 to i64
  br label %113

98:
  %99 = getelementptr i16, ptr %15, i64 %44
  %100 = load i16, ptr %99, align 2
  %101 = sext i16 %100 to i64
  br label %113

102:
  %103 = getelementptr i32, ptr %15, i64 %44
  %104 = load i32, ptr %103, align 4
  %105 = sext i32 %104 to i64
  br label %113

106:
  %107 = getelementptr i32, ptr %15, i64 %44
  %108 = load i32, ptr %107, align 4
  %109 = zext i32 %108 to i64
  br label %113

110:
  %111 = getelementptr i64, ptr %15, i64 %44
  %112 = load i64, ptr %111, align 8
  br label %113

113:
  %114 = phi i64 [ %112, %110 ], [ %97, %94 ], [ %101, %98 ], [ %105, %102 ], [ %109, %106 ]
  %115 = icmp slt i64 %93, %45
  br i1 %115, label %140, label %116

116:
  %117 = add i64 %114, %93
  %118 = call i64 @llvm.smax.i64(i64 %117, i64 %43)
  %119 = load i64, ptr %40, align 8
  %120 = icmp ne i64 %119, 5
  %121 = sub i64 %118, %93
  %122 = icmp ult i64 %121, 4294967296
  %123 = select i1 %120, i1 true, i1 %122
  br i1 %123, label %124, label %140

124:
  %125 = icmp eq i64 %119, 8
  br i1 %125, label %126, label %128

126:
  %127 = getelementptr i64, ptr %37, i64 %42
  store i64 %121, ptr %127, align 8
  br label %131

128:
  %129 = trunc i64 %121 to i32
  %130 = getelementptr i32, ptr %37, i64 %42
  store i32 %129, ptr %130, align 4
  br label %131

131:
  %132 = add i64 %42, 1
  %133 = getelementptr i64, ptr %4, i64 %42
  store i64 %93, ptr %133, align 8
  br label %134

134:
  %135 = phi i64 [ %93, %131 ], [ %45, %68 ]
  %136 = phi i64 [ %118, %131 ], [ %43, %68 ]
  %137 = phi i64 [ %132, %131 ], [ %42, %68 ]
  %138 = add i64 %44, 1
  %139 = icmp eq i64 %138, %12
  br i1 %139, label %140, label %41

140:
  %141 = phi i64 [ -1, %6 ], [ -1, %28 ], [ 0, %36 ], [ -1, %65 ], [ -1, %113 ], [ -1, %116 ], [ %137, %134 ]
  ret i64 %141
}

define i64 @count_pauses(ptr %0, ptr %1, ptr %2, i64 %3) {
  %5 = load ptr, ptr %1, align 8
  %6 = getelementptr i8, ptr %1, i64 8
  %7 = load i64, ptr %6, align 8
  %8 = getelementptr i8, ptr %1, i64 16
  %9 = load i64, ptr %8, align 8
  %10 = icmp sgt i64 %7, 1
  br i1 %10, label %11, label %13

11:
  %12 = load i64, ptr %0, align 8
  br label %14

13:
  ret i64 0

14:
  %15 = phi i64 [ %19, %39 ], [ %12, %11 ]
  %16 = phi i64 [ %49, %39 ], [ 1, %11 ]
  %17 = phi i64 [ %16, %39 ], [ 0, %11 ]
  %18 = getelementptr i64, ptr %0, i64 %16
  %19 = load i64, ptr %18, align 8
  switch i64 %9, label %36 [
    i64 1, label %20
    i64 2, label %24
    i64 4, label %28
    i64 5, label %32
  ]

20:
  %21 = getelementptr i8, ptr %5, i64 %17
  %22 = load i8, ptr %21, align 1
  %23 = zext i8 %22 to i64
  br label %39

24:
  %25 = getelementptr i16, ptr %5, i64 %17
  %26 = load i16, ptr %25, align 2
  %27 = sext i16 %26 to i64
  br label %39

28:
  %29 = getelementptr i32, ptr %5, i64 %17
  %30 = load i32, ptr %29, align 4
  %31 = sext i32 %30 to i64
  br label %39

32:
  %33 = getelementptr i32, ptr %5, i64 %17
  %34 = load i32, ptr %33, align 4
  %35 = zext i32 %34 to i64
  br label %39

36:
  %37 = getelementptr i64, ptr %5, i64 %17
  %38 = load i64, ptr %37, align 8
  br label %39

39:
  %40 = phi i64 [ %38, %36 ], [ %23, %20 ], [ %27, %24 ], [ %31, %28 ], [ %35, %32 ]
  %41 = add i64 %15, %40
  %42 = sub i64 %19, %41
  %43 = icmp slt i64 %42, 0
  %44 = call i64 @llvm.smin.i64(i64 %42, i64 %3)
  %45 = select i1 %43, i64 0, i64 %44
  %46 = getelementptr i32, ptr %2, i64 %45
  %47 = load i32, ptr %46, align 4
  %48 = add i32 %47, 1
  store i32 %48, ptr %46, align 4
  %49 = add i64 %16, 1
  %50 = icmp eq i64 %49, %7
  br i1 %50, label %13, label %14
}

define i64 @find_turns(ptr %0, ptr %1, ptr %2, ptr %3, ptr %4, i64 %5, ptr %6) {
  %8 = load ptr, ptr %1, align 8
  %9 = getelementptr i8, ptr %1, i64 8
  %10 = load i64, ptr %9, align 8
  %11 = getelementptr i8, ptr %1, i64 16
  %12 = load i64, ptr %11, align 8
  %13 = load ptr, ptr %3, align 8
  %14 = getelementptr i8, ptr %3, i64 8
  %15 = load i64, ptr %14, align 8
  %16 = getelementptr i8, ptr %3, i64 16
  %17 = load i64, ptr %16, align 8
  %18 = icmp sgt i64 %15, 0
  br i1 %18, label %19, label %121

19:
  %20 = phi i64 [ %66, %118 ], [ 0, %7 ]
  %21 = phi i64 [ %119, %118 ], [ 0, %7 ]
  switch i64 %17, label %38 [
    i64 1, label %22
    i64 2, label %26
    i64 4, label %30
    i64 5, label %34
  ]

22:
  %23 = getelementptr i8, ptr %13, i64 %21
  %24 = load i8, ptr %23, align 1
  %25 = zext i8 %24 to i64
  br label %41

26:
  %27 = getelementptr i16, ptr %13, i64 %21
  %28 = load i16, ptr %27, align 2
  %29 = sext i16 %28 to i64
  br label %41

30:
  %31 = getelementptr i32, ptr %13, i64 %21
  %32 = load i32, ptr %31, align 4
  %33 = sext i32 %32 to i64
  br label %41

34:
  %35 = getelementptr i32, ptr %13, i64 %21
  %36 = load i32, ptr %35, align 4
  %37 = zext i32 %36 to i64
  br label %41

38:
  %39 = getelementptr i64, ptr %13, i64 %21
  %40 = load i64, ptr %39, align 8
  br label %41

41:
  %42 = phi i64 [ %40, %38 ], [ %25, %22 ], [ %29, %26 ], [ %33, %30 ], [ %37, %34 ]
  %43 = icmp slt i64 %42, %5
  br i1 %43, label %44, label %121

44:
  %45 = icmp eq i64 %21, 0
  br i1 %45, label %52, label %46

46:
  %47 = getelementptr i64, ptr %2, i64 %21
  %48 = load i64, ptr %47, align 8
  %49 = getelementptr i8, ptr %47, i64 -8
  %50 = load i64, ptr %49, align 8
  %51 = icmp slt i64 %48, %50
  br i1 %51, label %121, label %52

52:
  %53 = icmp slt i64 %20, %10
  br i1 %53, label %54, label %65

54:
  %55 = getelementptr i64, ptr %2, i64 %21
  %56 = load i64, ptr %55, align 8
  br label %57

57:
  %58 = phi i64 [ %20, %54 ], [ %63, %62 ]
  %59 = getelementptr i64, ptr %0, i64 %58
  %60 = load i64, ptr %59, align 8
  %61 = icmp sgt i64 %60, %56
  br i1 %61, label %65, label %62

62:
  %63 = add i64 %58, 1
  %64 = icmp eq i64 %63, %10
  br i1 %64, label %65, label %57

65:
  %66 = phi i64 [ %20, %52 ], [ %10, %62 ], [ %58, %57 ]
  %67 = icmp slt i64 %42, 0
  br i1 %67, label %118, label %68

68:
  %69 = icmp eq i64 %66, 0
  br i1 %69, label %99, label %70

70:
  %71 = add i64 %66, -1
  %72 = getelementptr i64, ptr %0, i64 %71
  %73 = load i64, ptr %72, align 8
  switch i64 %12, label %90 [
    i64 1, label %74
    i64 2, label %78
    i64 4, label %82
    i64 5, label %86
  ]

74:
  %75 = getelementptr i8, ptr %8, i64 %71
  %76 = load i8, ptr %75, align 1
  %77 = zext i8 %76 to i64
  br label %93

78:
  %79 = getelementptr i16, ptr %8, i64 %71
  %80 = load i16, ptr %79, align 2
  %81 = sext i16 %80 to i64
  br label %93

82:
  %83 = getelementptr i32, ptr %8, i64 %71
  %84 = load i32, ptr %83, align 4
  %85 = sext i32 %84 to i64
  br label %93

86:
  %87 = getelementptr i32, ptr %8, i64 %71
  %88 = load i32, ptr %87, align 4
  %89 = zext i32 %88 to i64
  br label %93

90:
  %91 = getelementptr i64, ptr %8, i64 %71
  %92 = load i64, ptr %91, align 8
  br label %93

93:
  %94 = phi i64 [ %92, %90 ], [ %77, %74 ], [ %81, %78 ], [ %85, %82 ], [ %89, %86 ]
  %95 = add i64 %94, %73
  %96 = getelementptr i64, ptr %2, i64 %21
  %97 = load i64, ptr %96, align 8
  %98 = icmp sgt i64 %95, %97
  br i1 %98, label %118, label %99

99:
  %100 = getelementptr i8, ptr %6, i64 %21
  store i8 1, ptr %100, align 1
  %101 = shl i64 %42, 5
  %102 = getelementptr i8, ptr %4, i64 %101
  %103 = load i64, ptr %102, align 8
  %104 = add i64 %103, 1
  store i64 %104, ptr %102, align 8
  %105 = icmp eq i64 %103, 0
  br i1 %105, label %106, label %108

106:
  %107 = getelementptr i8, ptr %102, i64 16
  store i64 %66, ptr %107, align 8
  br label %112

108:
  %109 = getelementptr i8, ptr %102, i64 24
  %110 = load i64, ptr %109, align 8
  %111 = icmp eq i64 %110, %66
  br i1 %111, label %116, label %112

112:
  %113 = getelementptr i8, ptr %102, i64 8
  %114 = load i64, ptr %113, align 8
  %115 = add i64 %114, 1
  store i64 %115, ptr %113, align 8
  br label %116

116:
  %117 = getelementptr i8, ptr %102, i64 24
  store i64 %66, ptr %117, align 8
  br label %118

118:
  %119 = add i64 %21, 1
  %120 = icmp eq i64 %119, %15
  br i1 %120, label %121, label %19

121:
  %122 = phi i64 [ 0, %7 ], [ -1, %46 ], [ -1, %41 ], [ 0, %118 ]
  ret i64 %122
}

define i64 @find_gaps(i64 %0, ptr %1, i64 %2, ptr %3, ptr %4, ptr %5, ptr %6, i64 %7, ptr %8, ptr %9, ptr %10) {
  %12 = load ptr, ptr %4, align 8
  %13 = getelementptr i8, ptr %4, i64 16
  %14 = load i64, ptr %13, align 8
  %15 = load ptr, ptr %5, align 8
  %16 = getelementptr i8, ptr %5, i64 16
  %17 = load i64, ptr %16, align 8
  %18 = icmp sgt i64 %0, 0
  %19 = icmp sgt i64 %2, 0
  %20 = or i1 %18, %19
  br i1 %20, label %21, label %143

21:
  %22 = phi i1 [ %140, %132 ], [ %18, %11 ]
  %23 = phi i64 [ %55, %132 ], [ 0, %11 ]
  %24 = phi i64 [ %54, %132 ], [ 0, %11 ]
  %25 = phi i64 [ %139, %132 ], [ 0, %11 ]
  %26 = phi i64 [ %138, %132 ], [ 0, %11 ]
  %27 = phi i64 [ %137, %132 ], [ 0, %11 ]
  %28 = phi i64 [ %136, %132 ], [ 0, %11 ]
  %29 = phi i64 [ %135, %132 ], [ 0, %11 ]
  %30 = phi i64 [ %134, %132 ], [ -1, %11 ]
  %31 = phi i64 [ %133, %132 ], [ 0, %11 ]
  %32 = icmp eq i64 %24, %2
  br i1 %32, label %47, label %33

33:
  br i1 %22, label %38, label %34

34:
  %35 = getelementptr i32, ptr %1, i64 %24
  %36 = load i32, ptr %35, align 4
  %37 = sext i32 %36 to i64
  br label %49

38:
  %39 = getelementptr i64, ptr %3, i64 %23
  %40 = load i64, ptr %39, align 8
  %41 = getelementptr i32, ptr %1, i64 %24
  %42 = load i32, ptr %41, align 4
  %43 = sext i32 %42 to i64
  %44 = getelementptr i64, ptr %3, i64 %43
  %45 = load i64, ptr %44, align 8
  %46 = icmp sgt i64 %40, %45
  br i1 %46, label %49, label %47

47:
  %48 = add i64 %23, 1
  br label %52

49:
  %50 = phi i64 [ %37, %34 ], [ %43, %38 ]
  %51 = add i64 %24, 1
  br label %52

52:
  %53 = phi i64 [ %23, %47 ], [ %50, %49 ]
  %54 = phi i64 [ %24, %47 ], [ %51, %49 ]
  %55 = phi i64 [ %48, %47 ], [ %23, %49 ]
  switch i64 %17, label %72 [
    i64 1, label %56
    i64 2, label %60
    i64 4, label %64
    i64 5, label %68
  ]

56:
  %57 = getelementptr i8, ptr %15, i64 %53
  %58 = load i8, ptr %57, align 1
  %59 = zext i8 %58 to i64
  br label %75

60:
  %61 = getelementptr i16, ptr %15, i64 %53
  %62 = load i16, ptr %61, align 2
  %63 = sext i16 %62 to i64
  br label %75

64:
  %65 = getelementptr i32, ptr %15, i64 %53
  %66 = load i32, ptr %65, align 4
  %67 = sext i32 %66 to i64
  br label %75

68:
  %69 = getelementptr i32, ptr %15, i64 %53
  %70 = load i32, ptr %69, align 4
  %71 = zext i32 %70 to i64
  br label %75

72:
  %73 = getelementptr i64, ptr %15, i64 %53
  %74 = load i64, ptr %73, align 8
  br label %75

75:
  %76 = phi i64 [ %74, %72 ], [ %59, %56 ], [ %63, %60 ], [ %67, %64 ], [ %71, %68 ]
  %77 = icmp ult i64 %76, %7
  br i1 %77, label %78, label %132

78:
  %79 = getelementptr i8, ptr %6, i64 %76
  %80 = load i8, ptr %79, align 1
  %81 = icmp eq i8 %80, 0
  br i1 %81, label %132, label %82

82:
  %83 = getelementptr i64, ptr %3, i64 %53
  %84 = load i64, ptr %83, align 8
  switch i64 %14, label %101 [
    i64 1, label %85
    i64 2, label %89
    i64 4, label %93
    i64 5, label %97
  ]

85:
  %86 = getelementptr i8, ptr %12, i64 %53
  %87 = load i8, ptr %86, align 1
  %88 = zext i8 %87 to i64
  br label %104

89:
  %90 = getelementptr i16, ptr %12, i64 %53
  %91 = load i16, ptr %90, align 2
  %92 = sext i16 %91 to i64
  br label %104

93:
  %94 = getelementptr i32, ptr %12, i64 %53
  %95 = load i32, ptr %94, align 4
  %96 = sext i32 %95 to i64
  br label %104

97:
  %98 = getelementptr i32, ptr %12, i64 %53
  %99 = load i32, ptr %98, align 4
  %100 = zext i32 %99 to i64
  br label %104

101:
  %102 = getelementptr i64, ptr %12, i64 %53
  %103 = load i64, ptr %102, align 8
  br label %104

104:
  %105 = phi i64 [ %103, %101 ], [ %88, %85 ], [ %92, %89 ], [ %96, %93 ], [ %100, %97 ]
  %106 = add i64 %105, %84
  %107 = add i64 %26, 1
  %108 = icmp slt i64 %30, 0
  br i1 %108, label %109, label %110

109:
  store i64 %84, ptr %8, align 8
  br label %123

110:
  %111 = icmp slt i64 %84, %28
  br i1 %111, label %153, label %112

112:
  %113 = icmp sgt i64 %84, %29
  br i1 %113, label %114, label %123

114:
  %115 = trunc i64 %53 to i32
  %116 = getelementptr i32, ptr %9, i64 %31
  store i32 %115, ptr %116, align 4
  %117 = trunc i64 %30 to i32
  %118 = add i64 %31, 1
  %119 = getelementptr i32, ptr %10, i64 %31
  store i32 %117, ptr %119, align 4
  %120 = sub i64 %84, %29
  %121 = add i64 %120, %27
  %122 = call i64 @llvm.smax.i64(i64 %120, i64 %25)
  br label %123

123:
  %124 = phi i64 [ %30, %114 ], [ %30, %112 ], [ %53, %109 ]
  %125 = phi i64 [ %29, %114 ], [ %29, %112 ], [ %84, %109 ]
  %126 = phi i64 [ %118, %114 ], [ %31, %112 ], [ %31, %109 ]
  %127 = phi i64 [ %121, %114 ], [ %27, %112 ], [ %27, %109 ]
  %128 = phi i64 [ %122, %114 ], [ %25, %112 ], [ %25, %109 ]
  %129 = icmp sgt i64 %106, %125
  %130 = select i1 %129, i64 %53, i64 %124
  %131 = call i64 @llvm.smax.i64(i64 %106, i64 %125)
  br label %132

132:
  %133 = phi i64 [ %31, %75 ], [ %31, %78 ], [ %126, %123 ]
  %134 = phi i64 [ %30, %75 ], [ %30, %78 ], [ %130, %123 ]
  %135 = phi i64 [ %29, %75 ], [ %29, %78 ], [ %131, %123 ]
  %136 = phi i64 [ %28, %75 ], [ %28, %78 ], [ %84, %123 ]
  %137 = phi i64 [ %27, %75 ], [ %27, %78 ], [ %127, %123 ]
  %138 = phi i64 [ %26, %75 ], [ %26, %78 ], [ %107, %123 ]
  %139 = phi i64 [ %25, %75 ], [ %25, %78 ], [ %128, %123 ]
  %140 = icmp slt i64 %55, %0
  %141 = icmp slt i64 %54, %2
  %142 = or i1 %140, %141
  br i1 %142, label %21, label %143

143:
  %144 = phi i64 [ 0, %11 ], [ %133, %132 ]
  %145 = phi i64 [ 0, %11 ], [ %135, %132 ]
  %146 = phi i64 [ 0, %11 ], [ %137, %132 ]
  %147 = phi i64 [ 0, %11 ], [ %138, %132 ]
  %148 = phi i64 [ 0, %11 ], [ %139, %132 ]
  %149 = getelementptr i8, ptr %8, i64 8
  store i64 %145, ptr %149, align 8
  %150 = getelementptr i8, ptr %8, i64 16
  store i64 %146, ptr %150, align 8
  %151 = getelementptr i8, ptr %8, i64 24
  store i64 %147, ptr %151, align 8
  %152 = getelementptr i8, ptr %8, i64 32
  store i64 %148, ptr %152, align 8
  br label %153

153:
  %154 = phi i64 [ %144, %143 ], [ -1, %110 ]
  ret i64 %154
}

define i64 @bound_ends(ptr %0, ptr %1, ptr %2, i64 %3, i64 %4, ptr %5, ptr %6, i64 %7) {
  %9 = load ptr, ptr %1, align 8
  %10 = getelementptr i8, ptr %1, i64 16
  %11 = load i64, ptr %10, align 8
  %12 = icmp eq i64 %3, 0
  %13 = icmp sgt i64 %7, 0
  br i1 %13, label %14, label %19

14:
  %15 = getelementptr i8, ptr %1, i64 8
  %16 = load i64, ptr %15, align 8
  %17 = freeze i64 %16
  %18 = select i1 %12, i64 %17, i64 %3
  br label %20

19:
  ret i64 0

20:
  %21 = phi i64 [ %4, %14 ], [ %34, %29 ]
  %22 = phi i64 [ 0, %14 ], [ %25, %29 ]
  %23 = call i64 @llvm.smin.i64(i64 %18, i64 %21)
  %24 = mul i64 %22, %4
  %25 = add i64 %22, 1
  %26 = mul i64 %25, %4
  %27 = call i64 @llvm.smin.i64(i64 %26, i64 %18)
  %28 = icmp slt i64 %24, %27
  br i1 %28, label %36, label %29

29:
  %30 = phi i64 [ 9223372036854775807, %20 ], [ %70, %67 ]
  %31 = phi i64 [ -9223372036854775808, %20 ], [ %71, %67 ]
  %32 = getelementptr i64, ptr %5, i64 %22
  store i64 %30, ptr %32, align 8
  %33 = getelementptr i64, ptr %6, i64 %22
  store i64 %31, ptr %33, align 8
  %34 = add i64 %21, %4
  %35 = icmp eq i64 %25, %7
  br i1 %35, label %19, label %20

36:
  %37 = phi i64 [ %72, %67 ], [ %24, %20 ]
  %38 = phi i64 [ %71, %67 ], [ -9223372036854775808, %20 ]
  %39 = phi i64 [ %70, %67 ], [ 9223372036854775807, %20 ]
  br i1 %12, label %44, label %40

40:
  %41 = getelementptr i32, ptr %2, i64 %37
  %42 = load i32, ptr %41, align 4
  %43 = sext i32 %42 to i64
  br label %44

44:
  %45 = phi i64 [ %43, %40 ], [ %37, %36 ]
  %46 = getelementptr i64, ptr %0, i64 %45
  %47 = load i64, ptr %46, align 8
  switch i64 %11, label %64 [
    i64 1, label %48
    i64 2, label %52
    i64 4, label %56
    i64 5, label %60
  ]

48:
  %49 = getelementptr i8, ptr %9, i64 %45
  %50 = load i8, ptr %49, align 1
  %51 = zext i8 %50 to i64
  br label %67

52:
  %53 = getelementptr i16, ptr %9, i64 %45
  %54 = load i16, ptr %53, align 2
  %55 = sext i16 %54 to i64
  br label %67

56:
  %57 = getelementptr i32, ptr %9, i64 %45
  %58 = load i32, ptr %57, align 4
  %59 = sext i32 %58 to i64
  br label %67

60:
  %61 = getelementptr i32, ptr %9, i64 %45
  %62 = load i32, ptr %61, align 4
  %63 = zext i32 %62 to i64
  br label %67

64:
  %65 = getelementptr i64, ptr %9, i64 %45
  %66 = load i64, ptr %65, align 8
  br label %67

67:
  %68 = phi i64 [ %66, %64 ], [ %51, %48 ], [ %55, %52 ], [ %59, %56 ], [ %63, %60 ]
  %69 = add i64 %68, %47
  %70 = call i64 @llvm.smin.i64(i64 %69, i64 %39)
  %71 = call i64 @llvm.smax.i64(i64 %69, i64 %38)
  %72 = add i64 %37, 1
  %73 = icmp eq i64 %72, %23
  br i1 %73, label %29, label %36
}

define i64 @list_ends(ptr %0, ptr %1, ptr %2, ptr %3, i64 %4, i64 %5, ptr %6, i64 %7, ptr %8, i64 %9, i64 %10, i64 %11, ptr %12, ptr %13, i64 %14) {
  %16 = load ptr, ptr %1, align 8
  %17 = getelementptr i8, ptr %1, i64 8
  %18 = load i64, ptr %17, align 8
  %19 = getelementptr i8, ptr %1, i64 16
  %20 = load i64, ptr %19, align 8
  %21 = load ptr, ptr %2, align 8
  %22 = getelementptr i8, ptr %2, i64 16
  %23 = load i64, ptr %22, align 8
  %24 = icmp eq i64 %4, 0
  %25 = select i1 %24, i64 %18, i64 %4
  %26 = icmp sgt i64 %7, 0
  br i1 %26, label %27, label %124

27:
  %28 = phi i64 [ %121, %120 ], [ 0, %15 ]
  %29 = phi i64 [ %122, %120 ], [ 0, %15 ]
  %30 = getelementptr i64, ptr %6, i64 %29
  %31 = load i64, ptr %30, align 8
  %32 = mul i64 %31, %5
  %33 = add i64 %31, 1
  %34 = mul i64 %33, %5
  %35 = icmp sge i64 %32, %34
  %36 = icmp sge i64 %32, %25
  %37 = select i1 %35, i1 true, i1 %36
  br i1 %37, label %120, label %38

38:
  %39 = phi i64 [ %112, %111 ], [ %31, %27 ]
  %40 = phi i64 [ %113, %111 ], [ %28, %27 ]
  %41 = phi i64 [ %114, %111 ], [ %32, %27 ]
  br i1 %24, label %46, label %42

42:
  %43 = getelementptr i32, ptr %3, i64 %41
  %44 = load i32, ptr %43, align 4
  %45 = sext i32 %44 to i64
  br label %46

46:
  %47 = phi i64 [ %45, %42 ], [ %41, %38 ]
  %48 = getelementptr i64, ptr %0, i64 %47
  %49 = load i64, ptr %48, align 8
  switch i64 %20, label %66 [
    i64 1, label %50
    i64 2, label %54
    i64 4, label %58
    i64 5, label %62
  ]

50:
  %51 = getelementptr i8, ptr %16, i64 %47
  %52 = load i8, ptr %51, align 1
  %53 = zext i8 %52 to i64
  br label %69

54:
  %55 = getelementptr i16, ptr %16, i64 %47
  %56 = load i16, ptr %55, align 2
  %57 = sext i16 %56 to i64
  br label %69

58:
  %59 = getelementptr i32, ptr %16, i64 %47
  %60 = load i32, ptr %59, align 4
  %61 = sext i32 %60 to i64
  br label %69

62:
  %63 = getelementptr i32, ptr %16, i64 %47
  %64 = load i32, ptr %63, align 4
  %65 = zext i32 %64 to i64
  br label %69

66:
  %67 = getelementptr i64, ptr %16, i64 %47
  %68 = load i64, ptr %67, align 8
  br label %69

69:
  %70 = phi i64 [ %68, %66 ], [ %53, %50 ], [ %57, %54 ], [ %61, %58 ], [ %65, %62 ]
  %71 = add i64 %70, %49
  switch i64 %23, label %88 [
    i64 1, label %72
    i64 2, label %76
    i64 4, label %80
    i64 5, label %84
  ]

72:
  %73 = getelementptr i8, ptr %21, i64 %47
  %74 = load i8, ptr %73, align 1
  %75 = zext i8 %74 to i64
  br label %91

76:
  %77 = getelementptr i16, ptr %21, i64 %47
  %78 = load i16, ptr %77, align 2
  %79 = sext i16 %78 to i64
  br label %91

80:
  %81 = getelementptr i32, ptr %21, i64 %47
  %82 = load i32, ptr %81, align 4
  %83 = sext i32 %82 to i64
  br label %91

84:
  %85 = getelementptr i32, ptr %21, i64 %47
  %86 = load i32, ptr %85, align 4
  %87 = zext i32 %86 to i64
  br label %91

88:
  %89 = getelementptr i64, ptr %21, i64 %47
  %90 = load i64, ptr %89, align 8
  br label %91

91:
  %92 = phi i64 [ %90, %88 ], [ %75, %72 ], [ %79, %76 ], [ %83, %80 ], [ %87, %84 ]
  %93 = icmp sgt i64 %71, %10
  %94 = icmp sle i64 %71, %11
  %95 = and i1 %93, %94
  %96 = icmp ult i64 %92, %9
  %97 = select i1 %95, i1 %96, i1 false
  br i1 %97, label %98, label %111

98:
  %99 = getelementptr i64, ptr %8, i64 %92
  %100 = load i64, ptr %99, align 8
  %101 = icmp slt i64 %100, 0
  br i1 %101, label %111, label %102

102:
  %103 = icmp eq i64 %40, %14
  br i1 %103, label %124, label %104

104:
  %105 = getelementptr i64, ptr %12, i64 %40
  store i64 %71, ptr %105, align 8
  %106 = load i64, ptr %99, align 8
  %107 = trunc i64 %106 to i32
  %108 = add i64 %40, 1
  %109 = getelementptr i32, ptr %13, i64 %40
  store i32 %107, ptr %109, align 4
  %110 = load i64, ptr %30, align 8
  br label %111

111:
  %112 = phi i64 [ %39, %98 ], [ %39, %91 ], [ %110, %104 ]
  %113 = phi i64 [ %40, %98 ], [ %40, %91 ], [ %108, %104 ]
  %114 = add i64 %41, 1
  %115 = add i64 %112, 1
  %116 = mul i64 %115, %5
  %117 = icmp sge i64 %114, %116
  %118 = icmp sge i64 %114, %25
  %119 = select i1 %117, i1 true, i1 %118
  br i1 %119, label %120, label %38

120:
  %121 = phi i64 [ %28, %27 ], [ %113, %111 ]
  %122 = add i64 %29, 1
  %123 = icmp eq i64 %122, %7
  br i1 %123, label %124, label %27

124:
  %125 = phi i64 [ %14, %102 ], [ 0, %15 ], [ %121, %120 ]
  ret i64 %125
}

define i64 @last_begun(ptr %0, ptr %1, i64 %2, i64 %3, ptr %4, i64 %5, i64 %6) {
  %8 = icmp slt i64 %2, %3
  br i1 %8, label %11, label %9

9:
  %10 = phi i64 [ %6, %7 ], [ %26, %25 ]
  ret i64 %10

11:
  %12 = phi i64 [ %26, %25 ], [ %6, %7 ]
  %13 = phi i64 [ %27, %25 ], [ %2, %7 ]
  %14 = getelementptr i32, ptr %1, i64 %13
  %15 = load i32, ptr %14, align 4
  %16 = sext i32 %15 to i64
  %17 = getelementptr i32, ptr %0, i64 %16
  %18 = load i32, ptr %17, align 4
  %19 = sext i32 %18 to i64
  %20 = icmp ugt i64 %5, %19
  br i1 %20, label %21, label %25

21:
  %22 = getelementptr i64, ptr %4, i64 %19
  %23 = load i64, ptr %22, align 8
  %24 = call i64 @llvm.smax.i64(i64 %23, i64 %12)
  br label %25

25:
  %26 = phi i64 [ %12, %11 ], [ %24, %21 ]
  %27 = add i64 %13, 1
  %28 = icmp eq i64 %27, %3
  br i1 %28, label %9, label %11
}

define i64 @blame(ptr %0, ptr %1, ptr %2, ptr %3, ptr %4, ptr %5, i64 %6, i64 %7, ptr %8, ptr %9, ptr %10, ptr %11, i64 %12, ptr %13, ptr %14, i64 %15, ptr %16, i64 %17, ptr %18, ptr %19, ptr %20, ptr %21, ptr %22, ptr %23, ptr %24, ptr %25, ptr %26, ptr %27, i64 %28, ptr %29, ptr %30, ptr %31, i64 %32, ptr %33, ptr %34, i64 %35, ptr %36) {
  %38 = alloca %struct.pieces, align 8
  %39 = alloca %struct.holds, align 8
  %40 = load ptr, ptr %1, align 8
  %41 = getelementptr i8, ptr %1, i64 16
  %42 = load i64, ptr %41, align 8
  %43 = load ptr, ptr %2, align 8
  %44 = getelementptr i8, ptr %2, i64 16
  %45 = load i64, ptr %44, align 8
  %46 = load ptr, ptr %9, align 8
  %47 = getelementptr i8, ptr %9, i64 8
  %48 = load i64, ptr %47, align 8
  %49 = getelementptr i8, ptr %9, i64 16
  %50 = load i64, ptr %49, align 8
  %51 = load ptr, ptr %10, align 8
  %52 = getelementptr i8, ptr %10, i64 16
  %53 = load i64, ptr %52, align 8
  store ptr %29, ptr %38, align 8
  %54 = getelementptr i8, ptr %38, i64 8
  %55 = load ptr, ptr %30, align 8
  store ptr %55, ptr %54, align 8
  %56 = getelementptr i8, ptr %38, i64 16
  store ptr %31, ptr %56, align 8
  %57 = getelementptr i8, ptr %38, i64 24
  store i64 %32, ptr %57, align 8
  %58 = getelementptr i8, ptr %38, i64 32
  %59 = getelementptr i8, ptr %30, i64 16
  %60 = load i64, ptr %59, align 8
  %61 = icmp eq i64 %60, 8
  %62 = zext i1 %61 to i64
  store i64 %62, ptr %58, align 8
  %63 = getelementptr i8, ptr %38, i64 40
  store ptr %33, ptr %63, align 8
  %64 = getelementptr i8, ptr %38, i64 48
  store ptr %34, ptr %64, align 8
  %65 = getelementptr i8, ptr %38, i64 56
  store i64 %35, ptr %65, align 8
  %66 = getelementptr i8, ptr %38, i64 64
  store ptr %36, ptr %66, align 8
  store ptr %18, ptr %39, align 8
  %67 = getelementptr i8, ptr %39, i64 8
  store ptr %19, ptr %67, align 8
  %68 = getelementptr i8, ptr %39, i64 16
  store ptr %20, ptr %68, align 8
  %69 = getelementptr i8, ptr %39, i64 24
  store ptr %21, ptr %69, align 8
  %70 = getelementptr i8, ptr %39, i64 32
  store ptr %22, ptr %70, align 8
  %71 = getelementptr i8, ptr %39, i64 40
  store ptr %23, ptr %71, align 8
  %72 = icmp slt i64 %6, %7
  br i1 %72, label %73, label %640

73:
  %74 = getelementptr i8, ptr %36, i64 176
  %75 = icmp eq i64 %17, 0
  %76 = getelementptr i8, ptr %36, i64 152
  %77 = getelementptr i8, ptr %36, i64 160
  %78 = getelementptr i8, ptr %36, i64 168
  %79 = load i64, ptr %36, align 8
  %80 = load i64, ptr %74, align 8
  br label %81

81:
  %82 = phi i64 [ %80, %73 ], [ %590, %637 ]
  %83 = phi i64 [ %79, %73 ], [ %587, %637 ]
  %84 = phi i64 [ 0, %73 ], [ %585, %637 ]
  %85 = phi i64 [ %6, %73 ], [ %638, %637 ]
  %86 = getelementptr i32, ptr %4, i64 %85
  %87 = load i32, ptr %86, align 4
  %88 = sext i32 %87 to i64
  %89 = getelementptr i32, ptr %5, i64 %85
  %90 = load i32, ptr %89, align 4
  %91 = sext i32 %90 to i64
  %92 = getelementptr i32, ptr %3, i64 %88
  %93 = load i32, ptr %92, align 4
  %94 = sext i32 %93 to i64
  %95 = getelementptr i64, ptr %0, i64 %91
  %96 = load i64, ptr %95, align 8
  switch i64 %42, label %113 [
    i64 1, label %97
    i64 2, label %101
    i64 4, label %105
    i64 5, label %109
  ]

97:
  %98 = getelementptr i8, ptr %40, i64 %91
  %99 = load i8, ptr %98, align 1
  %100 = zext i8 %99 to i64
  br label %116

101:
  %102 = getelementptr i16, ptr %40, i64 %91
  %103 = load i16, ptr %102, align 2
  %104 = sext i16 %103 to i64
  br label %116

105:
  %106 = getelementptr i32, ptr %40, i64 %91
  %107 = load i32, ptr %106, align 4
  %108 = sext i32 %107 to i64
  br label %116

109:
  %110 = getelementptr i32, ptr %40, i64 %91
  %111 = load i32, ptr %110, align 4
  %112 = zext i32 %111 to i64
  br label %116

113:
  %114 = getelementptr i64, ptr %40, i64 %91
  %115 = load i64, ptr %114, align 8
  br label %116

116:
  %117 = phi i64 [ %115, %113 ], [ %100, %97 ], [ %104, %101 ], [ %108, %105 ], [ %112, %109 ]
  %118 = add i64 %117, %96
  %119 = getelementptr i64, ptr %0, i64 %88
  %120 = load i64, ptr %119, align 8
  %121 = icmp ugt i64 %48, %94
  br i1 %121, label %122, label %334

122:
  switch i64 %53, label %139 [
    i64 1, label %123
    i64 2, label %127
    i64 4, label %131
    i64 5, label %135
  ]

123:
  %124 = getelementptr i8, ptr %51, i64 %94
  %125 = load i8, ptr %124, align 1
  %126 = zext i8 %125 to i64
  br label %142

127:
  %128 = getelementptr i16, ptr %51, i64 %94
  %129 = load i16, ptr %128, align 2
  %130 = sext i16 %129 to i64
  br label %142

131:
  %132 = getelementptr i32, ptr %51, i64 %94
  %133 = load i32, ptr %132, align 4
  %134 = sext i32 %133 to i64
  br label %142

135:
  %136 = getelementptr i32, ptr %51, i64 %94
  %137 = load i32, ptr %136, align 4
  %138 = zext i32 %137 to i64
  br label %142

139:
  %140 = getelementptr i64, ptr %51, i64 %94
  %141 = load i64, ptr %140, align 8
  br label %142

142:
  %143 = phi i64 [ %141, %139 ], [ %126, %123 ], [ %130, %127 ], [ %134, %131 ], [ %138, %135 ]
  %144 = icmp ult i64 %143, %12
  br i1 %144, label %145, label %334

145:
  %146 = getelementptr i64, ptr %8, i64 %94
  %147 = load i64, ptr %146, align 8
  br i1 %75, label %309, label %148

148:
  %149 = getelementptr i32, ptr %3, i64 %91
  %150 = load i32, ptr %149, align 4
  %151 = sext i32 %150 to i64
  %152 = icmp ugt i64 %48, %151
  br i1 %152, label %153, label %156

153:
  %154 = getelementptr i64, ptr %8, i64 %151
  %155 = load i64, ptr %154, align 8
  br label %156

156:
  %157 = phi i64 [ %155, %153 ], [ %118, %148 ]
  %158 = icmp slt i64 %84, 0
  %159 = call i64 @llvm.smin.i64(i64 %84, i64 %17)
  %160 = select i1 %158, i64 0, i64 %159
  %161 = icmp slt i64 %160, %17
  br i1 %161, label %162, label %191

162:
  %163 = getelementptr i64, ptr %16, i64 %160
  %164 = load i64, ptr %163, align 8
  %165 = icmp sgt i64 %164, %147
  br i1 %165, label %191, label %166

166:
  %167 = add i64 %160, 1
  %168 = add i64 %160, 2
  %169 = icmp slt i64 %168, %17
  br i1 %169, label %170, label %187

170:
  %171 = getelementptr i64, ptr %16, i64 %168
  %172 = getelementptr i8, ptr %171, i64 -8
  %173 = load i64, ptr %172, align 8
  %174 = icmp sgt i64 %173, %147
  br i1 %174, label %187, label %175

175:
  %176 = phi i64 [ %178, %181 ], [ 1, %170 ]
  %177 = phi i64 [ %179, %181 ], [ %168, %170 ]
  %178 = shl i64 %176, 1
  %179 = add i64 %178, %177
  %180 = icmp slt i64 %179, %17
  br i1 %180, label %181, label %186

181:
  %182 = getelementptr i64, ptr %16, i64 %179
  %183 = getelementptr i8, ptr %182, i64 -8
  %184 = load i64, ptr %183, align 8
  %185 = icmp sgt i64 %184, %147
  br i1 %185, label %187, label %175

186:
  br label %187

187:
  %188 = phi i64 [ %167, %166 ], [ %167, %170 ], [ %177, %186 ], [ %177, %181 ]
  %189 = phi i64 [ %168, %166 ], [ %168, %170 ], [ %179, %186 ], [ %179, %181 ]
  %190 = call i64 @llvm.smin.i64(i64 %189, i64 %17)
  br label %213

191:
  %192 = add i64 %160, -1
  %193 = icmp sgt i64 %192, 0
  br i1 %193, label %194, label %209

194:
  %195 = getelementptr i64, ptr %16, i64 %192
  %196 = load i64, ptr %195, align 8
  %197 = icmp sgt i64 %196, %147
  br i1 %197, label %198, label %209

198:
  %199 = phi i64 [ %201, %204 ], [ 1, %194 ]
  %200 = phi i64 [ %202, %204 ], [ %192, %194 ]
  %201 = shl i64 %199, 1
  %202 = sub i64 %200, %201
  %203 = icmp sgt i64 %202, 0
  br i1 %203, label %204, label %208

204:
  %205 = getelementptr i64, ptr %16, i64 %202
  %206 = load i64, ptr %205, align 8
  %207 = icmp sgt i64 %206, %147
  br i1 %207, label %198, label %209

208:
  br label %209

209:
  %210 = phi i64 [ %160, %191 ], [ %159, %194 ], [ %200, %208 ], [ %200, %204 ]
  %211 = phi i64 [ %192, %191 ], [ %192, %194 ], [ %202, %208 ], [ %202, %204 ]
  %212 = call i64 @llvm.smax.i64(i64 %211, i64 0)
  br label %213

213:
  %214 = phi i64 [ %190, %187 ], [ %210, %209 ]
  %215 = phi i64 [ %188, %187 ], [ %212, %209 ]
  %216 = icmp slt i64 %215, %214
  br i1 %216, label %217, label %230

217:
  %218 = phi i64 [ %228, %217 ], [ %215, %213 ]
  %219 = phi i64 [ %227, %217 ], [ %214, %213 ]
  %220 = sub i64 %219, %218
  %221 = sdiv i64 %220, 2
  %222 = add i64 %221, %218
  %223 = getelementptr i64, ptr %16, i64 %222
  %224 = load i64, ptr %223, align 8
  %225 = icmp sgt i64 %224, %147
  %226 = add i64 %222, 1
  %227 = select i1 %225, i64 %222, i64 %219
  %228 = select i1 %225, i64 %218, i64 %226
  %229 = icmp slt i64 %228, %227
  br i1 %229, label %217, label %230

230:
  %231 = phi i64 [ %215, %213 ], [ %228, %217 ]
  %232 = icmp slt i64 %157, %147
  br i1 %232, label %233, label %309

233:
  %234 = icmp slt i64 %231, 0
  %235 = call i64 @llvm.smin.i64(i64 %231, i64 %17)
  %236 = select i1 %234, i64 0, i64 %235
  %237 = icmp slt i64 %236, %17
  br i1 %237, label %238, label %267

238:
  %239 = getelementptr i64, ptr %16, i64 %236
  %240 = load i64, ptr %239, align 8
  %241 = icmp sgt i64 %240, %157
  br i1 %241, label %267, label %242

242:
  %243 = add i64 %236, 1
  %244 = add i64 %236, 2
  %245 = icmp slt i64 %244, %17
  br i1 %245, label %246, label %263

246:
  %247 = getelementptr i64, ptr %16, i64 %244
  %248 = getelementptr i8, ptr %247, i64 -8
  %249 = load i64, ptr %248, align 8
  %250 = icmp sgt i64 %249, %157
  br i1 %250, label %263, label %251

251:
  %252 = phi i64 [ %254, %257 ], [ 1, %246 ]
  %253 = phi i64 [ %255, %257 ], [ %244, %246 ]
  %254 = shl i64 %252, 1
  %255 = add i64 %254, %253
  %256 = icmp slt i64 %255, %17
  br i1 %256, label %257, label %262

257:
  %258 = getelementptr i64, ptr %16, i64 %255
  %259 = getelementptr i8, ptr %258, i64 -8
  %260 = load i64, ptr %259, align 8
  %261 = icmp sgt i64 %260, %157
  br i1 %261, label %263, label %251

262:
  br label %263

263:
  %264 = phi i64 [ %243, %242 ], [ %243, %246 ], [ %253, %262 ], [ %253, %257 ]
  %265 = phi i64 [ %244, %242 ], [ %244, %246 ], [ %255, %262 ], [ %255, %257 ]
  %266 = call i64 @llvm.smin.i64(i64 %265, i64 %17)
  br label %289

267:
  %268 = add i64 %236, -1
  %269 = icmp sgt i64 %268, 0
  br i1 %269, label %270, label %285

270:
  %271 = getelementptr i64, ptr %16, i64 %268
  %272 = load i64, ptr %271, align 8
  %273 = icmp sgt i64 %272, %157
  br i1 %273, label %274, label %285

274:
  %275 = phi i64 [ %277, %280 ], [ 1, %270 ]
  %276 = phi i64 [ %278, %280 ], [ %268, %270 ]
  %277 = shl i64 %275, 1
  %278 = sub i64 %276, %277
  %279 = icmp sgt i64 %278, 0
  br i1 %279, label %280, label %284

280:
  %281 = getelementptr i64, ptr %16, i64 %278
  %282 = load i64, ptr %281, align 8
  %283 = icmp sgt i64 %282, %157
  br i1 %283, label %274, label %285

284:
  br label %285

285:
  %286 = phi i64 [ %236, %267 ], [ %235, %270 ], [ %276, %284 ], [ %276, %280 ]
  %287 = phi i64 [ %268, %267 ], [ %268, %270 ], [ %278, %284 ], [ %278, %280 ]
  %288 = call i64 @llvm.smax.i64(i64 %287, i64 0)
  br label %289

289:
  %290 = phi i64 [ %266, %263 ], [ %286, %285 ]
  %291 = phi i64 [ %264, %263 ], [ %288, %285 ]
  %292 = icmp slt i64 %291, %290
  br i1 %292, label %293, label %306

293:
  %294 = phi i64 [ %304, %293 ], [ %291, %289 ]
  %295 = phi i64 [ %303, %293 ], [ %290, %289 ]
  %296 = sub i64 %295, %294
  %297 = sdiv i64 %296, 2
  %298 = add i64 %297, %294
  %299 = getelementptr i64, ptr %16, i64 %298
  %300 = load i64, ptr %299, align 8
  %301 = icmp sgt i64 %300, %157
  %302 = add i64 %298, 1
  %303 = select i1 %301, i64 %298, i64 %295
  %304 = select i1 %301, i64 %294, i64 %302
  %305 = icmp slt i64 %304, %303
  br i1 %305, label %293, label %306

306:
  %307 = phi i64 [ %291, %289 ], [ %304, %293 ]
  %308 = icmp eq i64 %307, %231
  br i1 %308, label %309, label %334

309:
  %310 = phi i64 [ %231, %306 ], [ %231, %230 ], [ %84, %145 ]
  switch i64 %50, label %327 [
    i64 1, label %311
    i64 2, label %315
    i64 4, label %319
    i64 5, label %323
  ]

311:
  %312 = getelementptr i8, ptr %46, i64 %94
  %313 = load i8, ptr %312, align 1
  %314 = zext i8 %313 to i64
  br label %330

315:
  %316 = getelementptr i16, ptr %46, i64 %94
  %317 = load i16, ptr %316, align 2
  %318 = sext i16 %317 to i64
  br label %330

319:
  %320 = getelementptr i32, ptr %46, i64 %94
  %321 = load i32, ptr %320, align 4
  %322 = sext i32 %321 to i64
  br label %330

323:
  %324 = getelementptr i32, ptr %46, i64 %94
  %325 = load i32, ptr %324, align 4
  %326 = zext i32 %325 to i64
  br label %330

327:
  %328 = getelementptr i64, ptr %46, i64 %94
  %329 = load i64, ptr %328, align 8
  br label %330

330:
  %331 = phi i64 [ %329, %327 ], [ %314, %311 ], [ %318, %315 ], [ %322, %319 ], [ %326, %323 ]
  %332 = add i64 %331, %147
  %333 = icmp sgt i64 %332, %118
  br i1 %333, label %390, label %348

334:
  %335 = phi i64 [ %231, %306 ], [ %84, %116 ], [ %84, %142 ]
  %336 = icmp sgt i64 %120, %118
  br i1 %336, label %337, label %584

337:
  %338 = add i64 %83, 1
  store i64 %338, ptr %36, align 8
  %339 = icmp slt i64 %83, %32
  br i1 %339, label %340, label %584

340:
  %341 = getelementptr i64, ptr %29, i64 %83
  store i64 %118, ptr %341, align 8
  %342 = sub i64 %120, %118
  br i1 %61, label %343, label %345

343:
  %344 = getelementptr i64, ptr %55, i64 %83
  store i64 %342, ptr %344, align 8
  br label %578

345:
  %346 = trunc i64 %342 to i32
  %347 = getelementptr i32, ptr %55, i64 %83
  store i32 %346, ptr %347, align 4
  br label %578

348:
  switch i64 %45, label %365 [
    i64 1, label %349
    i64 2, label %353
    i64 4, label %357
    i64 5, label %361
  ]

349:
  %350 = getelementptr i8, ptr %43, i64 %88
  %351 = load i8, ptr %350, align 1
  %352 = zext i8 %351 to i64
  br label %368

353:
  %354 = getelementptr i16, ptr %43, i64 %88
  %355 = load i16, ptr %354, align 2
  %356 = sext i16 %355 to i64
  br label %368

357:
  %358 = getelementptr i32, ptr %43, i64 %88
  %359 = load i32, ptr %358, align 4
  %360 = sext i32 %359 to i64
  br label %368

361:
  %362 = getelementptr i32, ptr %43, i64 %88
  %363 = load i32, ptr %362, align 4
  %364 = zext i32 %363 to i64
  br label %368

365:
  %366 = getelementptr i64, ptr %43, i64 %88
  %367 = load i64, ptr %366, align 8
  br label %368

368:
  %369 = phi i64 [ %367, %365 ], [ %352, %349 ], [ %356, %353 ], [ %360, %357 ], [ %364, %361 ]
  %370 = icmp ult i64 %369, %15
  br i1 %370, label %371, label %376

371:
  %372 = getelementptr i8, ptr %14, i64 %369
  %373 = load i8, ptr %372, align 1
  %374 = icmp eq i8 %373, 0
  %375 = select i1 %374, i8 4, i8 5
  br label %376

376:
  %377 = phi i8 [ 4, %368 ], [ %375, %371 ]
  %378 = icmp sgt i64 %120, %118
  br i1 %378, label %379, label %584

379:
  %380 = add i64 %83, 1
  store i64 %380, ptr %36, align 8
  %381 = icmp slt i64 %83, %32
  br i1 %381, label %382, label %584

382:
  %383 = getelementptr i64, ptr %29, i64 %83
  store i64 %118, ptr %383, align 8
  %384 = sub i64 %120, %118
  br i1 %61, label %385, label %387

385:
  %386 = getelementptr i64, ptr %55, i64 %83
  store i64 %384, ptr %386, align 8
  br label %578

387:
  %388 = trunc i64 %384 to i32
  %389 = getelementptr i32, ptr %55, i64 %83
  store i32 %388, ptr %389, align 4
  br label %578

390:
  %391 = call i64 @llvm.smin.i64(i64 %332, i64 %120)
  %392 = getelementptr i64, ptr %11, i64 %143
  %393 = load i64, ptr %392, align 8
  %394 = getelementptr i64, ptr %13, i64 %393
  %395 = load i64, ptr %394, align 8
  %396 = icmp sgt i64 %395, -1
  br i1 %396, label %397, label %507

397:
  %398 = getelementptr i64, ptr %26, i64 %395
  %399 = load i64, ptr %398, align 8
  %400 = getelementptr i8, ptr %398, i64 8
  %401 = load i64, ptr %400, align 8
  %402 = getelementptr i64, ptr %27, i64 %395
  %403 = load i64, ptr %402, align 8
  %404 = icmp slt i64 %403, %399
  %405 = call i64 @llvm.smin.i64(i64 %403, i64 %401)
  %406 = select i1 %404, i64 %399, i64 %405
  %407 = icmp slt i64 %406, %401
  br i1 %407, label %408, label %437

408:
  %409 = getelementptr i64, ptr %24, i64 %406
  %410 = load i64, ptr %409, align 8
  %411 = icmp sgt i64 %410, %147
  br i1 %411, label %437, label %412

412:
  %413 = add i64 %406, 1
  %414 = add i64 %406, 2
  %415 = icmp slt i64 %414, %401
  br i1 %415, label %416, label %433

416:
  %417 = getelementptr i64, ptr %24, i64 %414
  %418 = getelementptr i8, ptr %417, i64 -8
  %419 = load i64, ptr %418, align 8
  %420 = icmp sgt i64 %419, %147
  br i1 %420, label %433, label %421

421:
  %422 = phi i64 [ %424, %427 ], [ 1, %416 ]
  %423 = phi i64 [ %425, %427 ], [ %414, %416 ]
  %424 = shl i64 %422, 1
  %425 = add i64 %424, %423
  %426 = icmp slt i64 %425, %401
  br i1 %426, label %427, label %432

427:
  %428 = getelementptr i64, ptr %24, i64 %425
  %429 = getelementptr i8, ptr %428, i64 -8
  %430 = load i64, ptr %429, align 8
  %431 = icmp sgt i64 %430, %147
  br i1 %431, label %433, label %421

432:
  br label %433

433:
  %434 = phi i64 [ %413, %412 ], [ %413, %416 ], [ %423, %432 ], [ %423, %427 ]
  %435 = phi i64 [ %414, %412 ], [ %414, %416 ], [ %425, %432 ], [ %425, %427 ]
  %436 = call i64 @llvm.smin.i64(i64 %435, i64 %401)
  br label %459

437:
  %438 = add i64 %406, -1
  %439 = icmp sgt i64 %438, %399
  br i1 %439, label %440, label %455

440:
  %441 = getelementptr i64, ptr %24, i64 %438
  %442 = load i64, ptr %441, align 8
  %443 = icmp sgt i64 %442, %147
  br i1 %443, label %444, label %455

444:
  %445 = phi i64 [ %447, %450 ], [ 1, %440 ]
  %446 = phi i64 [ %448, %450 ], [ %438, %440 ]
  %447 = shl i64 %445, 1
  %448 = sub i64 %446, %447
  %449 = icmp sgt i64 %448, %399
  br i1 %449, label %450, label %454

450:
  %451 = getelementptr i64, ptr %24, i64 %448
  %452 = load i64, ptr %451, align 8
  %453 = icmp sgt i64 %452, %147
  br i1 %453, label %444, label %455

454:
  br label %455

455:
  %456 = phi i64 [ %406, %437 ], [ %406, %440 ], [ %446, %454 ], [ %446, %450 ]
  %457 = phi i64 [ %438, %437 ], [ %438, %440 ], [ %448, %454 ], [ %448, %450 ]
  %458 = call i64 @llvm.smax.i64(i64 %457, i64 %399)
  br label %459

459:
  %460 = phi i64 [ %436, %433 ], [ %456, %455 ]
  %461 = phi i64 [ %434, %433 ], [ %458, %455 ]
  %462 = icmp slt i64 %461, %460
  br i1 %462, label %463, label %476

463:
  %464 = phi i64 [ %474, %463 ], [ %461, %459 ]
  %465 = phi i64 [ %473, %463 ], [ %460, %459 ]
  %466 = sub i64 %465, %464
  %467 = sdiv i64 %466, 2
  %468 = add i64 %467, %464
  %469 = getelementptr i64, ptr %24, i64 %468
  %470 = load i64, ptr %469, align 8
  %471 = icmp sgt i64 %470, %147
  %472 = add i64 %468, 1
  %473 = select i1 %471, i64 %468, i64 %465
  %474 = select i1 %471, i64 %464, i64 %472
  %475 = icmp slt i64 %474, %473
  br i1 %475, label %463, label %476

476:
  %477 = phi i64 [ %461, %459 ], [ %474, %463 ]
  store i64 %477, ptr %402, align 8
  %478 = add i64 %477, -1
  %479 = icmp slt i64 %478, %399
  br i1 %479, label %507, label %480

480:
  %481 = getelementptr i64, ptr %24, i64 %478
  %482 = load i64, ptr %481, align 8
  %483 = icmp sgt i64 %482, %118
  br i1 %483, label %484, label %507

484:
  %485 = getelementptr i32, ptr %25, i64 %478
  %486 = load i32, ptr %485, align 4
  %487 = sext i32 %486 to i64
  %488 = icmp eq i64 %393, %487
  br i1 %488, label %507, label %489

489:
  %490 = add i64 %477, -2
  %491 = icmp slt i64 %490, %399
  br i1 %491, label %505, label %492

492:
  %493 = phi i64 [ %503, %502 ], [ %490, %489 ]
  %494 = getelementptr i64, ptr %24, i64 %493
  %495 = load i64, ptr %494, align 8
  %496 = icmp sgt i64 %495, %118
  br i1 %496, label %497, label %505

497:
  %498 = getelementptr i32, ptr %25, i64 %493
  %499 = load i32, ptr %498, align 4
  %500 = sext i32 %499 to i64
  %501 = icmp eq i64 %393, %500
  br i1 %501, label %507, label %502

502:
  %503 = add i64 %493, -1
  %504 = icmp slt i64 %503, %399
  br i1 %504, label %505, label %492

505:
  %506 = call i64 @llvm.smin.i64(i64 %482, i64 %391)
  br label %507

507:
  %508 = phi i64 [ %118, %390 ], [ %118, %476 ], [ %118, %484 ], [ %118, %480 ], [ %506, %505 ], [ %118, %497 ]
  %509 = phi i64 [ %393, %390 ], [ %393, %476 ], [ %393, %484 ], [ %393, %480 ], [ %487, %505 ], [ %393, %497 ]
  store i64 0, ptr %76, align 8
  call fastcc void @add_held(ptr %38, ptr %39, i64 %509, i64 %118, i64 %508, i64 %118)
  call fastcc void @add_held(ptr %38, ptr %39, i64 %393, i64 %508, i64 %391, i64 %118)
  %510 = sub i64 %120, %391
  %511 = icmp slt i64 %510, %28
  %512 = add i64 %391, %28
  %513 = select i1 %511, i64 %120, i64 %512
  %514 = icmp sgt i64 %513, %391
  br i1 %514, label %515, label %564

515:
  %516 = sub i64 %513, %391
  %517 = load i64, ptr %76, align 8
  %518 = call i64 @llvm.smin.i64(i64 %516, i64 %517)
  %519 = sub i64 %517, %518
  store i64 %519, ptr %76, align 8
  %520 = add i64 %518, %391
  %521 = load i64, ptr %77, align 8
  %522 = load i64, ptr %78, align 8
  %523 = icmp sgt i64 %520, %391
  br i1 %523, label %524, label %548

524:
  %525 = load i64, ptr %36, align 8
  %526 = add i64 %525, 1
  store i64 %526, ptr %36, align 8
  %527 = icmp slt i64 %525, %32
  br i1 %527, label %528, label %548

528:
  %529 = getelementptr i64, ptr %29, i64 %525
  store i64 %391, ptr %529, align 8
  br i1 %61, label %530, label %532

530:
  %531 = getelementptr i64, ptr %55, i64 %525
  store i64 %518, ptr %531, align 8
  br label %535

532:
  %533 = trunc i64 %518 to i32
  %534 = getelementptr i32, ptr %55, i64 %525
  store i32 %533, ptr %534, align 4
  br label %535

535:
  %536 = trunc i64 %521 to i8
  %537 = getelementptr i8, ptr %31, i64 %525
  store i8 %536, ptr %537, align 1
  %538 = icmp slt i64 %522, 0
  br i1 %538, label %548, label %539

539:
  %540 = load i64, ptr %74, align 8
  %541 = add i64 %540, 1
  store i64 %541, ptr %74, align 8
  %542 = icmp slt i64 %540, %35
  br i1 %542, label %543, label %548

543:
  %544 = trunc i64 %525 to i32
  %545 = getelementptr i32, ptr %33, i64 %540
  store i32 %544, ptr %545, align 4
  %546 = trunc i64 %522 to i32
  %547 = getelementptr i32, ptr %34, i64 %540
  store i32 %546, ptr %547, align 4
  br label %548

548:
  %549 = icmp sgt i64 %513, %520
  br i1 %549, label %550, label %564

550:
  %551 = load i64, ptr %36, align 8
  %552 = add i64 %551, 1
  store i64 %552, ptr %36, align 8
  %553 = icmp slt i64 %551, %32
  br i1 %553, label %554, label %564

554:
  %555 = getelementptr i64, ptr %29, i64 %551
  store i64 %520, ptr %555, align 8
  %556 = sub i64 %513, %520
  br i1 %61, label %557, label %559

557:
  %558 = getelementptr i64, ptr %55, i64 %551
  store i64 %556, ptr %558, align 8
  br label %562

559:
  %560 = trunc i64 %556 to i32
  %561 = getelementptr i32, ptr %55, i64 %551
  store i32 %560, ptr %561, align 4
  br label %562

562:
  %563 = getelementptr i8, ptr %31, i64 %551
  store i8 1, ptr %563, align 1
  br label %564

564:
  %565 = icmp sgt i64 %120, %513
  br i1 %565, label %566, label %584

566:
  %567 = load i64, ptr %36, align 8
  %568 = add i64 %567, 1
  store i64 %568, ptr %36, align 8
  %569 = icmp slt i64 %567, %32
  br i1 %569, label %570, label %584

570:
  %571 = getelementptr i64, ptr %29, i64 %567
  store i64 %513, ptr %571, align 8
  %572 = sub i64 %120, %513
  br i1 %61, label %573, label %575

573:
  %574 = getelementptr i64, ptr %55, i64 %567
  store i64 %572, ptr %574, align 8
  br label %578

575:
  %576 = trunc i64 %572 to i32
  %577 = getelementptr i32, ptr %55, i64 %567
  store i32 %576, ptr %577, align 4
  br label %578

578:
  %579 = phi i64 [ %83, %385 ], [ %83, %343 ], [ %83, %345 ], [ %83, %387 ], [ %567, %575 ], [ %567, %573 ]
  %580 = phi i8 [ %377, %385 ], [ 7, %343 ], [ 7, %345 ], [ %377, %387 ], [ 4, %575 ], [ 4, %573 ]
  %581 = phi i64 [ %310, %385 ], [ %335, %343 ], [ %335, %345 ], [ %310, %387 ], [ %310, %575 ], [ %310, %573 ]
  %582 = phi i1 [ false, %385 ], [ true, %343 ], [ true, %345 ], [ false, %387 ], [ false, %575 ], [ false, %573 ]
  %583 = getelementptr i8, ptr %31, i64 %579
  store i8 %580, ptr %583, align 1
  br label %584

584:
  %585 = phi i64 [ %310, %564 ], [ %310, %566 ], [ %335, %334 ], [ %335, %337 ], [ %310, %376 ], [ %310, %379 ], [ %581, %578 ]
  %586 = phi i1 [ false, %564 ], [ false, %566 ], [ true, %334 ], [ true, %337 ], [ false, %376 ], [ false, %379 ], [ %582, %578 ]
  %587 = load i64, ptr %36, align 8
  %588 = icmp sgt i64 %587, %32
  br i1 %588, label %633, label %589

589:
  %590 = load i64, ptr %74, align 8
  %591 = icmp sgt i64 %590, %35
  br i1 %591, label %633, label %592

592:
  br i1 %586, label %593, label %601

593:
  %594 = sub i64 %120, %118
  %595 = load i32, ptr %92, align 4
  %596 = icmp sgt i32 %595, -1
  %597 = select i1 %596, i64 18, i64 17
  %598 = getelementptr i64, ptr %36, i64 %597
  %599 = load i64, ptr %598, align 8
  %600 = add i64 %594, %599
  store i64 %600, ptr %598, align 8
  br label %601

601:
  %602 = icmp slt i64 %83, %587
  br i1 %602, label %603, label %637

603:
  %604 = phi i64 [ %630, %617 ], [ 0, %601 ]
  %605 = phi i64 [ %631, %617 ], [ %83, %601 ]
  %606 = getelementptr i8, ptr %31, i64 %605
  %607 = load i8, ptr %606, align 1
  %608 = and i8 %607, 7
  %609 = zext i8 %608 to i64
  br i1 %61, label %610, label %613

610:
  %611 = getelementptr i64, ptr %55, i64 %605
  %612 = load i64, ptr %611, align 8
  br label %617

613:
  %614 = getelementptr i32, ptr %55, i64 %605
  %615 = load i32, ptr %614, align 4
  %616 = zext i32 %615 to i64
  br label %617

617:
  %618 = phi i64 [ %612, %610 ], [ %616, %613 ]
  %619 = getelementptr i64, ptr %36, i64 %609
  %620 = getelementptr i8, ptr %619, i64 8
  %621 = load i64, ptr %620, align 8
  %622 = add i64 %621, %618
  store i64 %622, ptr %620, align 8
  %623 = xor i64 %604, -1
  %624 = lshr i64 %623, %609
  %625 = and i64 %624, 1
  %626 = getelementptr i8, ptr %619, i64 72
  %627 = load i64, ptr %626, align 8
  %628 = add i64 %627, %625
  store i64 %628, ptr %626, align 8
  %629 = shl i64 1, %609
  %630 = or i64 %629, %604
  %631 = add i64 %605, 1
  %632 = icmp eq i64 %631, %587
  br i1 %632, label %637, label %603

633:
  %634 = icmp sle i64 %587, %32
  %635 = zext i1 %634 to i64
  %636 = getelementptr i8, ptr %36, i64 184
  store i64 %635, ptr %636, align 8
  store i64 %83, ptr %36, align 8
  store i64 %82, ptr %74, align 8
  br label %640

637:
  %638 = add i64 %85, 1
  %639 = icmp eq i64 %638, %7
  br i1 %639, label %640, label %81

640:
  %641 = phi i64 [ %85, %633 ], [ %6, %37 ], [ %7, %637 ]
  %642 = call i64 @llvm.smin.i64(i64 %641, i64 %7)
  ret i64 %642
}

define internal fastcc void @add_held(ptr %0, ptr %1, i64 %2, i64 %3, i64 %4, i64 %5) {
  %7 = icmp sgt i64 %4, %3
  br i1 %7, label %8, label %131

8:
  %9 = getelementptr i8, ptr %1, i64 40
  %10 = load ptr, ptr %9, align 8
  %11 = getelementptr i64, ptr %10, i64 %2
  %12 = load i64, ptr %11, align 8
  %13 = load ptr, ptr %1, align 8
  %14 = getelementptr i64, ptr %13, i64 %2
  %15 = getelementptr i8, ptr %14, i64 8
  %16 = load i64, ptr %15, align 8
  %17 = icmp slt i64 %12, %16
  br i1 %17, label %18, label %30

18:
  %19 = getelementptr i8, ptr %1, i64 16
  %20 = load ptr, ptr %19, align 8
  br label %21

21:
  %22 = phi i64 [ %12, %18 ], [ %27, %26 ]
  %23 = getelementptr i64, ptr %20, i64 %22
  %24 = load i64, ptr %23, align 8
  %25 = icmp sgt i64 %24, %3
  br i1 %25, label %30, label %26

26:
  %27 = add i64 %22, 1
  %28 = icmp eq i64 %27, %16
  br i1 %28, label %29, label %21

29:
  store i64 %16, ptr %11, align 8
  br label %129

30:
  %31 = phi i64 [ %12, %8 ], [ %22, %21 ]
  store i64 %31, ptr %11, align 8
  %32 = getelementptr i8, ptr %1, i64 8
  %33 = icmp slt i64 %31, %16
  br i1 %33, label %34, label %129

34:
  %35 = getelementptr i8, ptr %1, i64 16
  %36 = getelementptr i8, ptr %0, i64 64
  %37 = getelementptr i8, ptr %1, i64 24
  %38 = getelementptr i8, ptr %1, i64 32
  %39 = getelementptr i8, ptr %0, i64 24
  %40 = getelementptr i8, ptr %0, i64 32
  %41 = getelementptr i8, ptr %0, i64 8
  %42 = getelementptr i8, ptr %0, i64 16
  %43 = getelementptr i8, ptr %0, i64 56
  %44 = getelementptr i8, ptr %0, i64 40
  %45 = getelementptr i8, ptr %0, i64 48
  br label %46

46:
  %47 = phi i64 [ %3, %34 ], [ %58, %126 ]
  %48 = phi i64 [ %31, %34 ], [ %127, %126 ]
  %49 = load ptr, ptr %32, align 8
  %50 = getelementptr i64, ptr %49, i64 %48
  %51 = load i64, ptr %50, align 8
  %52 = icmp slt i64 %51, %4
  br i1 %52, label %53, label %129

53:
  %54 = call i64 @llvm.smax.i64(i64 %51, i64 %47)
  %55 = load ptr, ptr %35, align 8
  %56 = getelementptr i64, ptr %55, i64 %48
  %57 = load i64, ptr %56, align 8
  %58 = call i64 @llvm.smin.i64(i64 %57, i64 %4)
  call fastcc void @add_host(ptr %0, i64 %47, i64 %54)
  %59 = icmp eq i64 %54, %5
  br i1 %59, label %63, label %60

60:
  %61 = load ptr, ptr %37, align 8
  %62 = load ptr, ptr %38, align 8
  br label %80

63:
  %64 = load ptr, ptr %32, align 8
  %65 = getelementptr i64, ptr %64, i64 %48
  %66 = load i64, ptr %65, align 8
  %67 = icmp sgt i64 %5, %66
  %68 = load ptr, ptr %37, align 8
  %69 = load ptr, ptr %38, align 8
  br i1 %67, label %70, label %80

70:
  %71 = sub i64 %5, %66
  %72 = load ptr, ptr %36, align 8
  %73 = getelementptr i8, ptr %72, i64 152
  store i64 %71, ptr %73, align 8
  %74 = getelementptr i64, ptr %68, i64 %48
  %75 = load i64, ptr %74, align 8
  %76 = getelementptr i8, ptr %72, i64 160
  store i64 %75, ptr %76, align 8
  %77 = getelementptr i64, ptr %69, i64 %48
  %78 = load i64, ptr %77, align 8
  %79 = getelementptr i8, ptr %72, i64 168
  store i64 %78, ptr %79, align 8
  br label %80

80:
  %81 = phi ptr [ %62, %60 ], [ %69, %70 ], [ %69, %63 ]
  %82 = phi ptr [ %61, %60 ], [ %68, %70 ], [ %68, %63 ]
  %83 = getelementptr i64, ptr %82, i64 %48
  %84 = load i64, ptr %83, align 8
  %85 = getelementptr i64, ptr %81, i64 %48
  %86 = load i64, ptr %85, align 8
  %87 = icmp sgt i64 %58, %54
  br i1 %87, label %88, label %126

88:
  %89 = load ptr, ptr %36, align 8
  %90 = load i64, ptr %89, align 8
  %91 = add i64 %90, 1
  store i64 %91, ptr %89, align 8
  %92 = load i64, ptr %39, align 8
  %93 = icmp slt i64 %90, %92
  br i1 %93, label %94, label %126

94:
  %95 = load ptr, ptr %0, align 8
  %96 = getelementptr i64, ptr %95, i64 %90
  store i64 %54, ptr %96, align 8
  %97 = load i64, ptr %40, align 8
  %98 = icmp eq i64 %97, 0
  %99 = sub i64 %58, %54
  br i1 %98, label %103, label %100

100:
  %101 = load ptr, ptr %41, align 8
  %102 = getelementptr i64, ptr %101, i64 %90
  store i64 %99, ptr %102, align 8
  br label %107

103:
  %104 = trunc i64 %99 to i32
  %105 = load ptr, ptr %41, align 8
  %106 = getelementptr i32, ptr %105, i64 %90
  store i32 %104, ptr %106, align 4
  br label %107

107:
  %108 = trunc i64 %84 to i8
  %109 = load ptr, ptr %42, align 8
  %110 = getelementptr i8, ptr %109, i64 %90
  store i8 %108, ptr %110, align 1
  %111 = icmp slt i64 %86, 0
  br i1 %111, label %126, label %112

112:
  %113 = load ptr, ptr %36, align 8
  %114 = getelementptr i8, ptr %113, i64 176
  %115 = load i64, ptr %114, align 8
  %116 = add i64 %115, 1
  store i64 %116, ptr %114, align 8
  %117 = load i64, ptr %43, align 8
  %118 = icmp slt i64 %115, %117
  br i1 %118, label %119, label %126

119:
  %120 = trunc i64 %90 to i32
  %121 = load ptr, ptr %44, align 8
  %122 = getelementptr i32, ptr %121, i64 %115
  store i32 %120, ptr %122, align 4
  %123 = trunc i64 %86 to i32
  %124 = load ptr, ptr %45, align 8
  %125 = getelementptr i32, ptr %124, i64 %115
  store i32 %123, ptr %125, align 4
  br label %126

126:
  %127 = add i64 %48, 1
  %128 = icmp eq i64 %127, %16
  br i1 %128, label %129, label %46

129:
  %130 = phi i64 [ %3, %30 ], [ %3, %29 ], [ %58, %126 ], [ %47, %46 ]
  call fastcc void @add_host(ptr %0, i64 %130, i64 %4)
  br label %131

131:
  ret void
}

define internal fastcc void @add_host(ptr %0, i64 %1, i64 %2) {
  %4 = icmp sgt i64 %2, %1
  br i1 %4, label %5, label %92

5:
  %6 = getelementptr i8, ptr %0, i64 64
  %7 = load ptr, ptr %6, align 8
  %8 = getelementptr i8, ptr %7, i64 152
  %9 = sub i64 %2, %1
  %10 = load i64, ptr %8, align 8
  %11 = call i64 @llvm.smin.i64(i64 %9, i64 %10)
  %12 = sub i64 %10, %11
  store i64 %12, ptr %8, align 8
  %13 = add i64 %11, %1
  %14 = getelementptr i8, ptr %7, i64 160
  %15 = load i64, ptr %14, align 8
  %16 = getelementptr i8, ptr %7, i64 168
  %17 = load i64, ptr %16, align 8
  %18 = icmp sgt i64 %13, %1
  br i1 %18, label %19, label %63

19:
  %20 = load i64, ptr %7, align 8
  %21 = add i64 %20, 1
  store i64 %21, ptr %7, align 8
  %22 = getelementptr i8, ptr %0, i64 24
  %23 = load i64, ptr %22, align 8
  %24 = icmp slt i64 %20, %23
  br i1 %24, label %25, label %63

25:
  %26 = load ptr, ptr %0, align 8
  %27 = getelementptr i64, ptr %26, i64 %20
  store i64 %1, ptr %27, align 8
  %28 = getelementptr i8, ptr %0, i64 32
  %29 = load i64, ptr %28, align 8
  %30 = icmp eq i64 %29, 0
  br i1 %30, label %35, label %31

31:
  %32 = getelementptr i8, ptr %0, i64 8
  %33 = load ptr, ptr %32, align 8
  %34 = getelementptr i64, ptr %33, i64 %20
  store i64 %11, ptr %34, align 8
  br label %40

35:
  %36 = trunc i64 %11 to i32
  %37 = getelementptr i8, ptr %0, i64 8
  %38 = load ptr, ptr %37, align 8
  %39 = getelementptr i32, ptr %38, i64 %20
  store i32 %36, ptr %39, align 4
  br label %40

40:
  %41 = trunc i64 %15 to i8
  %42 = getelementptr i8, ptr %0, i64 16
  %43 = load ptr, ptr %42, align 8
  %44 = getelementptr i8, ptr %43, i64 %20
  store i8 %41, ptr %44, align 1
  %45 = icmp slt i64 %17, 0
  br i1 %45, label %63, label %46

46:
  %47 = load ptr, ptr %6, align 8
  %48 = getelementptr i8, ptr %47, i64 176
  %49 = load i64, ptr %48, align 8
  %50 = add i64 %49, 1
  store i64 %50, ptr %48, align 8
  %51 = getelementptr i8, ptr %0, i64 56
  %52 = load i64, ptr %51, align 8
  %53 = icmp slt i64 %49, %52
  br i1 %53, label %54, label %63

54:
  %55 = trunc i64 %20 to i32
  %56 = getelementptr i8, ptr %0, i64 40
  %57 = load ptr, ptr %56, align 8
  %58 = getelementptr i32, ptr %57, i64 %49
  store i32 %55, ptr %58, align 4
  %59 = trunc i64 %17 to i32
  %60 = getelementptr i8, ptr %0, i64 48
  %61 = load ptr, ptr %60, align 8
  %62 = getelementptr i32, ptr %61, i64 %49
  store i32 %59, ptr %62, align 4
  br label %63

63:
  %64 = icmp sgt i64 %2, %13
  br i1 %64, label %65, label %92

65:
  %66 = load ptr, ptr %6, align 8
  %67 = load i64, ptr %66, align 8
  %68 = add i64 %67, 1
  store i64 %68, ptr %66, align 8
  %69 = getelementptr i8, ptr %0, i64 24
  %70 = load i64, ptr %69, align 8
  %71 = icmp slt i64 %67, %70
  br i1 %71, label %72, label %92

72:
  %73 = load ptr, ptr %0, align 8
  %74 = getelementptr i64, ptr %73, i64 %67
  store i64 %13, ptr %74, align 8
  %75 = getelementptr i8, ptr %0, i64 32
  %76 = load i64, ptr %75, align 8
  %77 = icmp eq i64 %76, 0
  %78 = sub i64 %2, %13
  br i1 %77, label %83, label %79

79:
  %80 = getelementptr i8, ptr %0, i64 8
  %81 = load ptr, ptr %80, align 8
  %82 = getelementptr i64, ptr %81, i64 %67
  store i64 %78, ptr %82, align 8
  br label %88

83:
  %84 = trunc i64 %78 to i32
  %85 = getelementptr i8, ptr %0, i64 8
  %86 = load ptr, ptr %85, align 8
  %87 = getelementptr i32, ptr %86, i64 %67
  store i32 %84, ptr %87, align 4
  br label %88

88:
  %89 = getelementptr i8, ptr %0, i64 16
  %90 = load ptr, ptr %89, align 8
  %91 = getelementptr i8, ptr %90, i64 %67
  store i8 1, ptr %91, align 1
  br label %92

92:
  ret void
}

define i64 @measure_by_code(ptr %0, ptr %1, ptr %2, i64 %3, ptr %4, ptr %5, i64 %6, ptr %7, ptr %8, ptr %9, ptr %10) {
  %12 = load ptr, ptr %1, align 8
  %13 = getelementptr i8, ptr %1, i64 8
  %14 = load i64, ptr %13, align 8
  %15 = getelementptr i8, ptr %1, i64 16
  %16 = load i64, ptr %15, align 8
  %17 = getelementptr i64, ptr %8, i64 %3
  %18 = icmp sgt i64 %3, 0
  br i1 %18, label %22, label %19

19:
  %20 = shl i64 %6, 1
  %21 = icmp sgt i64 %20, 0
  br i1 %21, label %28, label %148

22:
  %23 = phi i64 [ %26, %22 ], [ 0, %11 ]
  %24 = getelementptr i64, ptr %17, i64 %23
  store i64 0, ptr %24, align 8
  %25 = getelementptr i64, ptr %8, i64 %23
  store i64 0, ptr %25, align 8
  %26 = add i64 %23, 1
  %27 = icmp eq i64 %26, %3
  br i1 %27, label %19, label %22

28:
  %29 = phi i64 [ %88, %145 ], [ 0, %19 ]
  %30 = phi i64 [ %87, %145 ], [ 0, %19 ]
  %31 = phi i64 [ %146, %145 ], [ 0, %19 ]
  %32 = getelementptr i64, ptr %7, i64 %31
  %33 = load i64, ptr %32, align 8
  %34 = icmp slt i64 %33, %6
  %35 = select i1 %34, i64 0, i64 %6
  %36 = sub i64 %33, %35
  %37 = select i1 %34, ptr %4, ptr %5
  %38 = getelementptr i64, ptr %37, i64 %36
  %39 = load i64, ptr %38, align 8
  %40 = icmp slt i64 %29, %14
  br i1 %40, label %41, label %86

41:
  %42 = getelementptr i64, ptr %0, i64 %29
  %43 = load i64, ptr %42, align 8
  %44 = icmp sgt i64 %43, %39
  br i1 %44, label %86, label %49

45:
  %46 = getelementptr i64, ptr %0, i64 %83
  %47 = load i64, ptr %46, align 8
  %48 = icmp sgt i64 %47, %39
  br i1 %48, label %86, label %49

49:
  %50 = phi i64 [ %83, %45 ], [ %29, %41 ]
  %51 = getelementptr i8, ptr %2, i64 %50
  %52 = load i8, ptr %51, align 1
  %53 = zext i8 %52 to i64
  switch i64 %16, label %70 [
    i64 1, label %54
    i64 2, label %58
    i64 4, label %62
    i64 5, label %66
  ]

54:
  %55 = getelementptr i8, ptr %12, i64 %50
  %56 = load i8, ptr %55, align 1
  %57 = zext i8 %56 to i64
  br label %73

58:
  %59 = getelementptr i16, ptr %12, i64 %50
  %60 = load i16, ptr %59, align 2
  %61 = sext i16 %60 to i64
  br label %73

62:
  %63 = getelementptr i32, ptr %12, i64 %50
  %64 = load i32, ptr %63, align 4
  %65 = sext i32 %64 to i64
  br label %73

66:
  %67 = getelementptr i32, ptr %12, i64 %50
  %68 = load i32, ptr %67, align 4
  %69 = zext i32 %68 to i64
  br label %73

70:
  %71 = getelementptr i64, ptr %12, i64 %50
  %72 = load i64, ptr %71, align 8
  br label %73

73:
  %74 = phi i64 [ %72, %70 ], [ %57, %54 ], [ %61, %58 ], [ %65, %62 ], [ %69, %66 ]
  %75 = icmp sgt i64 %3, %53
  br i1 %75, label %76, label %148

76:
  %77 = getelementptr i64, ptr %8, i64 %53
  %78 = load i64, ptr %77, align 8
  %79 = add i64 %78, %74
  store i64 %79, ptr %77, align 8
  %80 = getelementptr i64, ptr %17, i64 %53
  %81 = load i64, ptr %80, align 8
  %82 = add i64 %81, 1
  store i64 %82, ptr %80, align 8
  %83 = add i64 %50, 1
  %84 = icmp eq i64 %83, %14
  br i1 %84, label %85, label %45

85:
  br label %86

86:
  %87 = phi i64 [ %30, %28 ], [ %30, %41 ], [ %74, %85 ], [ %74, %45 ]
  %88 = phi i64 [ %29, %28 ], [ %29, %41 ], [ %14, %85 ], [ %83, %45 ]
  %89 = icmp eq i64 %88, 0
  br i1 %89, label %98, label %90

90:
  %91 = getelementptr i8, ptr %2, i64 %88
  %92 = getelementptr i8, ptr %91, i64 -1
  %93 = load i8, ptr %92, align 1
  %94 = zext i8 %93 to i64
  %95 = getelementptr i64, ptr %0, i64 %88
  %96 = getelementptr i8, ptr %95, i64 -8
  %97 = load i64, ptr %96, align 8
  br label %98

98:
  %99 = phi i64 [ %94, %90 ], [ -1, %86 ]
  %100 = phi i64 [ %97, %90 ], [ 0, %86 ]
  %101 = add i64 %100, %87
  %102 = icmp sgt i64 %101, %39
  %103 = sub i64 %101, %39
  %104 = select i1 %102, i64 %103, i64 0
  %105 = select i1 %89, i64 0, i64 %104
  br i1 %18, label %106, label %145

106:
  %107 = icmp eq i64 %100, %39
  %108 = icmp sgt i64 %105, 0
  br label %109

109:
  %110 = phi i64 [ 0, %106 ], [ %143, %142 ]
  %111 = getelementptr i64, ptr %17, i64 %110
  %112 = load i64, ptr %111, align 8
  %113 = icmp eq i64 %112, 0
  br i1 %113, label %142, label %114

114:
  %115 = getelementptr i64, ptr %8, i64 %110
  %116 = load i64, ptr %115, align 8
  %117 = icmp eq i64 %110, %99
  %118 = select i1 %117, i64 %105, i64 0
  %119 = sub i64 %116, %118
  %120 = mul i64 %110, %6
  %121 = add i64 %120, %36
  %122 = getelementptr i64, ptr %9, i64 %121
  %123 = load i64, ptr %122, align 8
  br i1 %34, label %133, label %124

124:
  %125 = add i64 %123, %119
  store i64 %125, ptr %122, align 8
  %126 = load i64, ptr %111, align 8
  %127 = select i1 %117, i1 %107, i1 false
  %128 = sext i1 %127 to i64
  %129 = add i64 %126, %128
  %130 = getelementptr i64, ptr %10, i64 %121
  %131 = load i64, ptr %130, align 8
  %132 = add i64 %129, %131
  store i64 %132, ptr %130, align 8
  br label %142

133:
  %134 = sub i64 %123, %119
  store i64 %134, ptr %122, align 8
  %135 = load i64, ptr %111, align 8
  %136 = select i1 %117, i1 %108, i1 false
  %137 = zext i1 %136 to i64
  %138 = getelementptr i64, ptr %10, i64 %121
  %139 = load i64, ptr %138, align 8
  %140 = sub i64 %137, %135
  %141 = add i64 %140, %139
  store i64 %141, ptr %138, align 8
  br label %142

142:
  %143 = add i64 %110, 1
  %144 = icmp eq i64 %143, %3
  br i1 %144, label %145, label %109

145:
  %146 = add i64 %31, 1
  %147 = icmp eq i64 %146, %20
  br i1 %147, label %148, label %28

148:
  %149 = phi i64 [ -1, %73 ], [ 0, %19 ], [ 0, %145 ]
  ret i64 %149
}

define i64 @sum_between(ptr %0, ptr %1, i64 %2, ptr %3, ptr %4, ptr %5, i64 %6, ptr %7) {
  %9 = load ptr, ptr %4, align 8
  %10 = getelementptr i8, ptr %4, i64 8
  %11 = load i64, ptr %10, align 8
  %12 = getelementptr i8, ptr %4, i64 16
  %13 = load i64, ptr %12, align 8
  %14 = icmp sgt i64 %11, 0
  br i1 %14, label %16, label %15

15:
  ret i64 0

16:
  %17 = phi i64 [ %101, %121 ], [ 0, %8 ]
  %18 = phi i64 [ %126, %121 ], [ 0, %8 ]
  %19 = getelementptr i32, ptr %0, i64 %18
  %20 = load i32, ptr %19, align 4
  %21 = sext i32 %20 to i64
  %22 = icmp ugt i64 %2, %21
  %23 = getelementptr i64, ptr %1, i64 %21
  %24 = getelementptr i64, ptr %3, i64 %18
  %25 = select i1 %22, ptr %23, ptr %24
  %26 = load i64, ptr %25, align 8
  %27 = add i64 %26, -1
  %28 = icmp slt i64 %17, 0
  %29 = call i64 @llvm.smin.i64(i64 %17, i64 %6)
  %30 = select i1 %28, i64 0, i64 %29
  %31 = icmp slt i64 %30, %6
  br i1 %31, label %32, label %61

32:
  %33 = getelementptr i64, ptr %5, i64 %30
  %34 = load i64, ptr %33, align 8
  %35 = icmp sgt i64 %34, %27
  br i1 %35, label %61, label %36

36:
  %37 = add i64 %30, 1
  %38 = add i64 %30, 2
  %39 = icmp slt i64 %38, %6
  br i1 %39, label %40, label %57

40:
  %41 = getelementptr i64, ptr %5, i64 %38
  %42 = getelementptr i8, ptr %41, i64 -8
  %43 = load i64, ptr %42, align 8
  %44 = icmp sgt i64 %43, %27
  br i1 %44, label %57, label %45

45:
  %46 = phi i64 [ %48, %51 ], [ 1, %40 ]
  %47 = phi i64 [ %49, %51 ], [ %38, %40 ]
  %48 = shl i64 %46, 1
  %49 = add i64 %48, %47
  %50 = icmp slt i64 %49, %6
  br i1 %50, label %51, label %56

51:
  %52 = getelementptr i64, ptr %5, i64 %49
  %53 = getelementptr i8, ptr %52, i64 -8
  %54 = load i64, ptr %53, align 8
  %55 = icmp sgt i64 %54, %27
  br i1 %55, label %57, label %45

56:
  br label %57

57:
  %58 = phi i64 [ %37, %36 ], [ %37, %40 ], [ %47, %56 ], [ %47, %51 ]
  %59 = phi i64 [ %38, %36 ], [ %38, %40 ], [ %49, %56 ], [ %49, %51 ]
  %60 = call i64 @llvm.smin.i64(i64 %59, i64 %6)
  br label %83

61:
  %62 = add i64 %30, -1
  %63 = icmp sgt i64 %62, 0
  br i1 %63, label %64, label %79

64:
  %65 = getelementptr i64, ptr %5, i64 %62
  %66 = load i64, ptr %65, align 8
  %67 = icmp sgt i64 %66, %27
  br i1 %67, label %68, label %79

68:
  %69 = phi i64 [ %71, %74 ], [ 1, %64 ]
  %70 = phi i64 [ %72, %74 ], [ %62, %64 ]
  %71 = shl i64 %69, 1
  %72 = sub i64 %70, %71
  %73 = icmp sgt i64 %72, 0
  br i1 %73, label %74, label %78

74:
  %75 = getelementptr i64, ptr %5, i64 %72
  %76 = load i64, ptr %75, align 8
  %77 = icmp sgt i64 %76, %27
  br i1 %77, label %68, label %79

78:
  br label %79

79:
  %80 = phi i64 [ %30, %61 ], [ %29, %64 ], [ %70, %78 ], [ %70, %74 ]
  %81 = phi i64 [ %62, %61 ], [ %62, %64 ], [ %72, %78 ], [ %72, %74 ]
  %82 = call i64 @llvm.smax.i64(i64 %81, i64 0)
  br label %83

83:
  %84 = phi i64 [ %60, %57 ], [ %80, %79 ]
  %85 = phi i64 [ %58, %57 ], [ %82, %79 ]
  %86 = icmp slt i64 %85, %84
  br i1 %86, label %87, label %100

87:
  %88 = phi i64 [ %98, %87 ], [ %85, %83 ]
  %89 = phi i64 [ %97, %87 ], [ %84, %83 ]
  %90 = sub i64 %89, %88
  %91 = sdiv i64 %90, 2
  %92 = add i64 %91, %88
  %93 = getelementptr i64, ptr %5, i64 %92
  %94 = load i64, ptr %93, align 8
  %95 = icmp sgt i64 %94, %27
  %96 = add i64 %92, 1
  %97 = select i1 %95, i64 %92, i64 %89
  %98 = select i1 %95, i64 %88, i64 %96
  %99 = icmp slt i64 %98, %97
  br i1 %99, label %87, label %100

100:
  %101 = phi i64 [ %85, %83 ], [ %98, %87 ]
  switch i64 %13, label %118 [
    i64 1, label %102
    i64 2, label %106
    i64 4, label %110
    i64 5, label %114
  ]

102:
  %103 = getelementptr i8, ptr %9, i64 %18
  %104 = load i8, ptr %103, align 1
  %105 = zext i8 %104 to i64
  br label %121

106:
  %107 = getelementptr i16, ptr %9, i64 %18
  %108 = load i16, ptr %107, align 2
  %109 = sext i16 %108 to i64
  br label %121

110:
  %111 = getelementptr i32, ptr %9, i64 %18
  %112 = load i32, ptr %111, align 4
  %113 = sext i32 %112 to i64
  br label %121

114:
  %115 = getelementptr i32, ptr %9, i64 %18
  %116 = load i32, ptr %115, align 4
  %117 = zext i32 %116 to i64
  br label %121

118:
  %119 = getelementptr i64, ptr %9, i64 %18
  %120 = load i64, ptr %119, align 8
  br label %121

121:
  %122 = phi i64 [ %120, %118 ], [ %105, %102 ], [ %109, %106 ], [ %113, %110 ], [ %117, %114 ]
  %123 = getelementptr i64, ptr %7, i64 %101
  %124 = load i64, ptr %123, align 8
  %125 = add i64 %124, %122
  store i64 %125, ptr %123, align 8
  %126 = add i64 %18, 1
  %127 = icmp eq i64 %126, %11
  br i1 %127, label %15, label %16
}

define i64 @last_done(ptr %0, ptr %1, i64 %2, ptr %3, ptr %4, ptr %5, ptr %6, i64 %7, ptr %8, i64 %9, ptr %10) {
  %12 = load ptr, ptr %4, align 8
  %13 = getelementptr i8, ptr %4, i64 8
  %14 = load i64, ptr %13, align 8
  %15 = getelementptr i8, ptr %4, i64 16
  %16 = load i64, ptr %15, align 8
  %17 = load ptr, ptr %5, align 8
  %18 = getelementptr i8, ptr %5, i64 16
  %19 = load i64, ptr %18, align 8
  %20 = icmp sgt i64 %14, 0
  br i1 %20, label %22, label %21

21:
  ret i64 0

22:
  %23 = phi i64 [ %162, %161 ], [ 0, %11 ]
  %24 = phi i64 [ %163, %161 ], [ 0, %11 ]
  %25 = getelementptr i32, ptr %0, i64 %24
  %26 = load i32, ptr %25, align 4
  %27 = sext i32 %26 to i64
  switch i64 %19, label %44 [
    i64 1, label %28
    i64 2, label %32
    i64 4, label %36
    i64 5, label %40
  ]

28:
  %29 = getelementptr i8, ptr %17, i64 %24
  %30 = load i8, ptr %29, align 1
  %31 = zext i8 %30 to i64
  br label %47

32:
  %33 = getelementptr i16, ptr %17, i64 %24
  %34 = load i16, ptr %33, align 2
  %35 = sext i16 %34 to i64
  br label %47

36:
  %37 = getelementptr i32, ptr %17, i64 %24
  %38 = load i32, ptr %37, align 4
  %39 = sext i32 %38 to i64
  br label %47

40:
  %41 = getelementptr i32, ptr %17, i64 %24
  %42 = load i32, ptr %41, align 4
  %43 = zext i32 %42 to i64
  br label %47

44:
  %45 = getelementptr i64, ptr %17, i64 %24
  %46 = load i64, ptr %45, align 8
  br label %47

47:
  %48 = phi i64 [ %46, %44 ], [ %31, %28 ], [ %35, %32 ], [ %39, %36 ], [ %43, %40 ]
  %49 = icmp ugt i64 %2, %27
  %50 = icmp ult i64 %48, %7
  %51 = select i1 %49, i1 %50, i1 false
  br i1 %51, label %52, label %161

52:
  %53 = getelementptr i8, ptr %6, i64 %48
  %54 = load i8, ptr %53, align 1
  %55 = icmp eq i8 %54, 0
  br i1 %55, label %161, label %56

56:
  %57 = getelementptr i64, ptr %3, i64 %24
  %58 = load i64, ptr %57, align 8
  switch i64 %16, label %75 [
    i64 1, label %59
    i64 2, label %63
    i64 4, label %67
    i64 5, label %71
  ]

59:
  %60 = getelementptr i8, ptr %12, i64 %24
  %61 = load i8, ptr %60, align 1
  %62 = zext i8 %61 to i64
  br label %78

63:
  %64 = getelementptr i16, ptr %12, i64 %24
  %65 = load i16, ptr %64, align 2
  %66 = sext i16 %65 to i64
  br label %78

67:
  %68 = getelementptr i32, ptr %12, i64 %24
  %69 = load i32, ptr %68, align 4
  %70 = sext i32 %69 to i64
  br label %78

71:
  %72 = getelementptr i32, ptr %12, i64 %24
  %73 = load i32, ptr %72, align 4
  %74 = zext i32 %73 to i64
  br label %78

75:
  %76 = getelementptr i64, ptr %12, i64 %24
  %77 = load i64, ptr %76, align 8
  br label %78

78:
  %79 = phi i64 [ %77, %75 ], [ %62, %59 ], [ %66, %63 ], [ %70, %67 ], [ %74, %71 ]
  %80 = add i64 %79, %58
  %81 = getelementptr i64, ptr %1, i64 %27
  %82 = load i64, ptr %81, align 8
  %83 = icmp slt i64 %23, 0
  %84 = call i64 @llvm.smin.i64(i64 %23, i64 %9)
  %85 = select i1 %83, i64 0, i64 %84
  %86 = icmp slt i64 %85, %9
  br i1 %86, label %87, label %116

87:
  %88 = getelementptr i64, ptr %8, i64 %85
  %89 = load i64, ptr %88, align 8
  %90 = icmp sgt i64 %89, %82
  br i1 %90, label %116, label %91

91:
  %92 = add i64 %85, 1
  %93 = add i64 %85, 2
  %94 = icmp slt i64 %93, %9
  br i1 %94, label %95, label %112

95:
  %96 = getelementptr i64, ptr %8, i64 %93
  %97 = getelementptr i8, ptr %96, i64 -8
  %98 = load i64, ptr %97, align 8
  %99 = icmp sgt i64 %98, %82
  br i1 %99, label %112, label %100

100:
  %101 = phi i64 [ %103, %106 ], [ 1, %95 ]
  %102 = phi i64 [ %104, %106 ], [ %93, %95 ]
  %103 = shl i64 %101, 1
  %104 = add i64 %103, %102
  %105 = icmp slt i64 %104, %9
  br i1 %105, label %106, label %111

106:
  %107 = getelementptr i64, ptr %8, i64 %104
  %108 = getelementptr i8, ptr %107, i64 -8
  %109 = load i64, ptr %108, align 8
  %110 = icmp sgt i64 %109, %82
  br i1 %110, label %112, label %100

111:
  br label %112

112:
  %113 = phi i64 [ %92, %91 ], [ %92, %95 ], [ %102, %111 ], [ %102, %106 ]
  %114 = phi i64 [ %93, %91 ], [ %93, %95 ], [ %104, %111 ], [ %104, %106 ]
  %115 = call i64 @llvm.smin.i64(i64 %114, i64 %9)
  br label %138

116:
  %117 = add i64 %85, -1
  %118 = icmp sgt i64 %117, 0
  br i1 %118, label %119, label %134

119:
  %120 = getelementptr i64, ptr %8, i64 %117
  %121 = load i64, ptr %120, align 8
  %122 = icmp sgt i64 %121, %82
  br i1 %122, label %123, label %134

123:
  %124 = phi i64 [ %126, %129 ], [ 1, %119 ]
  %125 = phi i64 [ %127, %129 ], [ %117, %119 ]
  %126 = shl i64 %124, 1
  %127 = sub i64 %125, %126
  %128 = icmp sgt i64 %127, 0
  br i1 %128, label %129, label %133

129:
  %130 = getelementptr i64, ptr %8, i64 %127
  %131 = load i64, ptr %130, align 8
  %132 = icmp sgt i64 %131, %82
  br i1 %132, label %123, label %134

133:
  br label %134

134:
  %135 = phi i64 [ %85, %116 ], [ %84, %119 ], [ %125, %133 ], [ %125, %129 ]
  %136 = phi i64 [ %117, %116 ], [ %117, %119 ], [ %127, %133 ], [ %127, %129 ]
  %137 = call i64 @llvm.smax.i64(i64 %136, i64 0)
  br label %138

138:
  %139 = phi i64 [ %115, %112 ], [ %135, %134 ]
  %140 = phi i64 [ %113, %112 ], [ %137, %134 ]
  %141 = icmp slt i64 %140, %139
  br i1 %141, label %142, label %155

142:
  %143 = phi i64 [ %153, %142 ], [ %140, %138 ]
  %144 = phi i64 [ %152, %142 ], [ %139, %138 ]
  %145 = sub i64 %144, %143
  %146 = sdiv i64 %145, 2
  %147 = add i64 %146, %143
  %148 = getelementptr i64, ptr %8, i64 %147
  %149 = load i64, ptr %148, align 8
  %150 = icmp sgt i64 %149, %82
  %151 = add i64 %147, 1
  %152 = select i1 %150, i64 %147, i64 %144
  %153 = select i1 %150, i64 %143, i64 %151
  %154 = icmp slt i64 %153, %152
  br i1 %154, label %142, label %155

155:
  %156 = phi i64 [ %140, %138 ], [ %153, %142 ]
  %157 = getelementptr i64, ptr %10, i64 %156
  %158 = load i64, ptr %157, align 8
  %159 = icmp sgt i64 %80, %158
  br i1 %159, label %160, label %161

160:
  store i64 %80, ptr %157, align 8
  br label %161

161:
  %162 = phi i64 [ %23, %47 ], [ %23, %52 ], [ %156, %160 ], [ %156, %155 ]
  %163 = add i64 %24, 1
  %164 = icmp eq i64 %163, %14
  br i1 %164, label %21, label %22
}

define i64 @measure_categories(i64 %0, ptr %1, i64 %2, ptr %3, ptr %4, ptr %5, ptr %6, i64 %7, i64 %8, ptr %9, i64 %10, ptr %11, ptr %12) {
  %14 = load ptr, ptr %4, align 8
  %15 = getelementptr i8, ptr %4, i64 16
  %16 = load i64, ptr %15, align 8
  %17 = load ptr, ptr %5, align 8
  %18 = getelementptr i8, ptr %5, i64 16
  %19 = load i64, ptr %18, align 8
  %20 = getelementptr i64, ptr %11, i64 %8
  %21 = icmp sgt i64 %8, 0
  br i1 %21, label %22, label %28

22:
  %23 = phi i64 [ %26, %22 ], [ 0, %13 ]
  %24 = getelementptr i64, ptr %11, i64 %23
  store i64 -9223372036854775808, ptr %24, align 8
  %25 = getelementptr i64, ptr %20, i64 %23
  store i64 0, ptr %25, align 8
  %26 = add i64 %23, 1
  %27 = icmp eq i64 %26, %8
  br i1 %27, label %28, label %22

28:
  br label %29

29:
  %30 = phi i64 [ -9223372036854775808, %28 ], [ %66, %157 ]
  %31 = phi i64 [ 0, %28 ], [ %106, %157 ]
  %32 = phi i64 [ 0, %28 ], [ %69, %157 ]
  %33 = phi i64 [ 0, %28 ], [ %70, %157 ]
  %34 = icmp slt i64 %33, %0
  %35 = icmp slt i64 %32, %2
  %36 = select i1 %34, i1 true, i1 %35
  br i1 %36, label %37, label %65

37:
  %38 = icmp eq i64 %32, %2
  br i1 %38, label %53, label %39

39:
  br i1 %34, label %44, label %40

40:
  %41 = getelementptr i32, ptr %1, i64 %32
  %42 = load i32, ptr %41, align 4
  %43 = sext i32 %42 to i64
  br label %55

44:
  %45 = getelementptr i64, ptr %3, i64 %33
  %46 = load i64, ptr %45, align 8
  %47 = getelementptr i32, ptr %1, i64 %32
  %48 = load i32, ptr %47, align 4
  %49 = sext i32 %48 to i64
  %50 = getelementptr i64, ptr %3, i64 %49
  %51 = load i64, ptr %50, align 8
  %52 = icmp sgt i64 %46, %51
  br i1 %52, label %55, label %53

53:
  %54 = add i64 %33, 1
  br label %58

55:
  %56 = phi i64 [ %43, %40 ], [ %49, %44 ]
  %57 = add i64 %32, 1
  br label %58

58:
  %59 = phi i64 [ %33, %53 ], [ %56, %55 ]
  %60 = phi i64 [ %32, %53 ], [ %57, %55 ]
  %61 = phi i64 [ %54, %53 ], [ %33, %55 ]
  %62 = getelementptr i64, ptr %3, i64 %59
  %63 = load i64, ptr %62, align 8
  %64 = icmp slt i64 %63, %30
  br i1 %64, label %172, label %65

65:
  %66 = phi i64 [ %30, %29 ], [ %63, %58 ]
  %67 = phi i64 [ -1, %29 ], [ %59, %58 ]
  %68 = phi i64 [ 9223372036854775807, %29 ], [ %63, %58 ]
  %69 = phi i64 [ %32, %29 ], [ %60, %58 ]
  %70 = phi i64 [ %33, %29 ], [ %61, %58 ]
  %71 = icmp slt i64 %31, %10
  br i1 %71, label %72, label %102

72:
  %73 = icmp slt i64 %67, 0
  br label %74

74:
  %75 = phi i64 [ %31, %72 ], [ %85, %84 ]
  br i1 %73, label %80, label %76

76:
  %77 = getelementptr i64, ptr %9, i64 %75
  %78 = load i64, ptr %77, align 8
  %79 = icmp sgt i64 %78, %68
  br i1 %79, label %105, label %80

80:
  %81 = getelementptr i64, ptr %12, i64 %75
  br i1 %21, label %82, label %84

82:
  %83 = getelementptr i64, ptr %9, i64 %75
  br label %87

84:
  %85 = add i64 %75, 1
  %86 = icmp eq i64 %85, %10
  br i1 %86, label %102, label %74

87:
  %88 = phi i64 [ 0, %82 ], [ %100, %87 ]
  %89 = getelementptr i64, ptr %11, i64 %88
  %90 = load i64, ptr %89, align 8
  %91 = load i64, ptr %83, align 8
  %92 = icmp sgt i64 %90, %91
  %93 = sub i64 %91, %90
  %94 = select i1 %92, i64 %93, i64 0
  %95 = getelementptr i64, ptr %20, i64 %88
  %96 = load i64, ptr %95, align 8
  %97 = add i64 %94, %96
  %98 = mul i64 %88, %10
  %99 = getelementptr i64, ptr %81, i64 %98
  store i64 %97, ptr %99, align 8
  %100 = add i64 %88, 1
  %101 = icmp eq i64 %100, %8
  br i1 %101, label %84, label %87

102:
  %103 = phi i64 [ %31, %65 ], [ %10, %84 ]
  %104 = icmp slt i64 %67, 0
  br i1 %104, label %172, label %105

105:
  %106 = phi i64 [ %103, %102 ], [ %75, %76 ]
  switch i64 %19, label %123 [
    i64 1, label %107
    i64 2, label %111
    i64 4, label %115
    i64 5, label %119
  ]

107:
  %108 = getelementptr i8, ptr %17, i64 %67
  %109 = load i8, ptr %108, align 1
  %110 = zext i8 %109 to i64
  br label %126

111:
  %112 = getelementptr i16, ptr %17, i64 %67
  %113 = load i16, ptr %112, align 2
  %114 = sext i16 %113 to i64
  br label %126

115:
  %116 = getelementptr i32, ptr %17, i64 %67
  %117 = load i32, ptr %116, align 4
  %118 = sext i32 %117 to i64
  br label %126

119:
  %120 = getelementptr i32, ptr %17, i64 %67
  %121 = load i32, ptr %120, align 4
  %122 = zext i32 %121 to i64
  br label %126

123:
  %124 = getelementptr i64, ptr %17, i64 %67
  %125 = load i64, ptr %124, align 8
  br label %126

126:
  %127 = phi i64 [ %125, %123 ], [ %110, %107 ], [ %114, %111 ], [ %118, %115 ], [ %122, %119 ]
  %128 = icmp ult i64 %127, %7
  br i1 %128, label %129, label %157

129:
  %130 = getelementptr i64, ptr %6, i64 %127
  %131 = load i64, ptr %130, align 8
  %132 = icmp ult i64 %131, %8
  br i1 %132, label %133, label %157

133:
  switch i64 %16, label %150 [
    i64 1, label %134
    i64 2, label %138
    i64 4, label %142
    i64 5, label %146
  ]

134:
  %135 = getelementptr i8, ptr %14, i64 %67
  %136 = load i8, ptr %135, align 1
  %137 = zext i8 %136 to i64
  br label %153

138:
  %139 = getelementptr i16, ptr %14, i64 %67
  %140 = load i16, ptr %139, align 2
  %141 = sext i16 %140 to i64
  br label %153

142:
  %143 = getelementptr i32, ptr %14, i64 %67
  %144 = load i32, ptr %143, align 4
  %145 = sext i32 %144 to i64
  br label %153

146:
  %147 = getelementptr i32, ptr %14, i64 %67
  %148 = load i32, ptr %147, align 4
  %149 = zext i32 %148 to i64
  br label %153

150:
  %151 = getelementptr i64, ptr %14, i64 %67
  %152 = load i64, ptr %151, align 8
  br label %153

153:
  %154 = phi i64 [ %152, %150 ], [ %137, %134 ], [ %141, %138 ], [ %145, %142 ], [ %149, %146 ]
  %155 = add i64 %154, %68
  %156 = icmp slt i64 %131, %8
  br i1 %156, label %158, label %157

157:
  br label %29

158:
  %159 = phi i64 [ %170, %169 ], [ %131, %153 ]
  %160 = getelementptr i64, ptr %11, i64 %159
  %161 = load i64, ptr %160, align 8
  %162 = icmp sgt i64 %155, %161
  br i1 %162, label %163, label %169

163:
  %164 = call i64 @llvm.smax.i64(i64 %161, i64 %68)
  %165 = sub i64 %155, %164
  %166 = getelementptr i64, ptr %20, i64 %159
  %167 = load i64, ptr %166, align 8
  %168 = add i64 %165, %167
  store i64 %168, ptr %166, align 8
  store i64 %155, ptr %160, align 8
  br label %169

169:
  %170 = add i64 %159, 1
  %171 = icmp eq i64 %170, %8
  br i1 %171, label %157, label %158

172:
  %173 = phi i64 [ -1, %58 ], [ 0, %102 ]
  ret i64 %173
}

define i64 @sum_streams(i64 %0, ptr %1, i64 %2, ptr %3, ptr %4, ptr %5, ptr %6, ptr %7, i64 %8, ptr %9, ptr %10, i64 %11, ptr %12, ptr %13, ptr %14, ptr %15, ptr %16, ptr %17) {
  %19 = load ptr, ptr %4, align 8
  %20 = getelementptr i8, ptr %4, i64 16
  %21 = load i64, ptr %20, align 8
  %22 = load ptr, ptr %5, align 8
  %23 = getelementptr i8, ptr %5, i64 16
  %24 = load i64, ptr %23, align 8
  %25 = load ptr, ptr %10, align 8
  %26 = getelementptr i8, ptr %10, i64 8
  %27 = load i64, ptr %26, align 8
  %28 = getelementptr i8, ptr %10, i64 16
  %29 = load i64, ptr %28, align 8
  %30 = icmp sgt i64 %0, 0
  %31 = icmp sgt i64 %2, 0
  %32 = or i1 %30, %31
  br i1 %32, label %33, label %176

33:
  %34 = phi i1 [ %173, %171 ], [ %30, %18 ]
  %35 = phi i64 [ %62, %171 ], [ 0, %18 ]
  %36 = phi i64 [ %61, %171 ], [ 0, %18 ]
  %37 = phi i64 [ %64, %171 ], [ -9223372036854775808, %18 ]
  %38 = phi i64 [ %172, %171 ], [ 0, %18 ]
  %39 = icmp eq i64 %36, %2
  br i1 %39, label %54, label %40

40:
  br i1 %34, label %45, label %41

41:
  %42 = getelementptr i32, ptr %1, i64 %36
  %43 = load i32, ptr %42, align 4
  %44 = sext i32 %43 to i64
  br label %56

45:
  %46 = getelementptr i64, ptr %3, i64 %35
  %47 = load i64, ptr %46, align 8
  %48 = getelementptr i32, ptr %1, i64 %36
  %49 = load i32, ptr %48, align 4
  %50 = sext i32 %49 to i64
  %51 = getelementptr i64, ptr %3, i64 %50
  %52 = load i64, ptr %51, align 8
  %53 = icmp sgt i64 %47, %52
  br i1 %53, label %56, label %54

54:
  %55 = add i64 %35, 1
  br label %59

56:
  %57 = phi i64 [ %44, %41 ], [ %50, %45 ]
  %58 = add i64 %36, 1
  br label %59

59:
  %60 = phi i64 [ %35, %54 ], [ %57, %56 ]
  %61 = phi i64 [ %36, %54 ], [ %58, %56 ]
  %62 = phi i64 [ %55, %54 ], [ %35, %56 ]
  %63 = getelementptr i64, ptr %3, i64 %60
  %64 = load i64, ptr %63, align 8
  switch i64 %21, label %81 [
    i64 1, label %65
    i64 2, label %69
    i64 4, label %73
    i64 5, label %77
  ]

65:
  %66 = getelementptr i8, ptr %19, i64 %60
  %67 = load i8, ptr %66, align 1
  %68 = zext i8 %67 to i64
  br label %84

69:
  %70 = getelementptr i16, ptr %19, i64 %60
  %71 = load i16, ptr %70, align 2
  %72 = sext i16 %71 to i64
  br label %84

73:
  %74 = getelementptr i32, ptr %19, i64 %60
  %75 = load i32, ptr %74, align 4
  %76 = sext i32 %75 to i64
  br label %84

77:
  %78 = getelementptr i32, ptr %19, i64 %60
  %79 = load i32, ptr %78, align 4
  %80 = zext i32 %79 to i64
  br label %84

81:
  %82 = getelementptr i64, ptr %19, i64 %60
  %83 = load i64, ptr %82, align 8
  br label %84

84:
  %85 = phi i64 [ %83, %81 ], [ %68, %65 ], [ %72, %69 ], [ %76, %73 ], [ %80, %77 ]
  %86 = add i64 %85, %64
  switch i64 %24, label %103 [
    i64 1, label %87
    i64 2, label %91
    i64 4, label %95
    i64 5, label %99
  ]

87:
  %88 = getelementptr i8, ptr %22, i64 %60
  %89 = load i8, ptr %88, align 1
  %90 = zext i8 %89 to i64
  br label %106

91:
  %92 = getelementptr i16, ptr %22, i64 %60
  %93 = load i16, ptr %92, align 2
  %94 = sext i16 %93 to i64
  br label %106

95:
  %96 = getelementptr i32, ptr %22, i64 %60
  %97 = load i32, ptr %96, align 4
  %98 = sext i32 %97 to i64
  br label %106

99:
  %100 = getelementptr i32, ptr %22, i64 %60
  %101 = load i32, ptr %100, align 4
  %102 = zext i32 %101 to i64
  br label %106

103:
  %104 = getelementptr i64, ptr %22, i64 %60
  %105 = load i64, ptr %104, align 8
  br label %106

106:
  %107 = phi i64 [ %105, %103 ], [ %90, %87 ], [ %94, %91 ], [ %98, %95 ], [ %102, %99 ]
  %108 = icmp slt i64 %64, %37
  br i1 %108, label %176, label %109

109:
  %110 = icmp ult i64 %107, %8
  br i1 %110, label %111, label %171

111:
  %112 = getelementptr i64, ptr %6, i64 %107
  %113 = load i64, ptr %112, align 8
  %114 = getelementptr i32, ptr %9, i64 %60
  %115 = load i32, ptr %114, align 4
  %116 = sext i32 %115 to i64
  %117 = icmp ugt i64 %27, %116
  br i1 %117, label %118, label %145

118:
  switch i64 %29, label %135 [
    i64 1, label %119
    i64 2, label %123
    i64 4, label %127
    i64 5, label %131
  ]

119:
  %120 = getelementptr i8, ptr %25, i64 %116
  %121 = load i8, ptr %120, align 1
  %122 = zext i8 %121 to i64
  br label %138

123:
  %124 = getelementptr i16, ptr %25, i64 %116
  %125 = load i16, ptr %124, align 2
  %126 = sext i16 %125 to i64
  br label %138

127:
  %128 = getelementptr i32, ptr %25, i64 %116
  %129 = load i32, ptr %128, align 4
  %130 = sext i32 %129 to i64
  br label %138

131:
  %132 = getelementptr i32, ptr %25, i64 %116
  %133 = load i32, ptr %132, align 4
  %134 = zext i32 %133 to i64
  br label %138

135:
  %136 = getelementptr i64, ptr %25, i64 %116
  %137 = load i64, ptr %136, align 8
  br label %138

138:
  %139 = phi i64 [ %137, %135 ], [ %122, %119 ], [ %126, %123 ], [ %130, %127 ], [ %134, %131 ]
  %140 = icmp ult i64 %139, %11
  br i1 %140, label %141, label %145

141:
  %142 = mul i64 %113, %11
  %143 = getelementptr i8, ptr %17, i64 %142
  %144 = getelementptr i8, ptr %143, i64 %139
  store i8 1, ptr %144, align 1
  br label %145

145:
  %146 = getelementptr i8, ptr %7, i64 %107
  %147 = load i8, ptr %146, align 1
  %148 = icmp eq i8 %147, 0
  br i1 %148, label %171, label %149

149:
  %150 = add i64 %38, 1
  %151 = getelementptr i64, ptr %15, i64 %107
  %152 = load i64, ptr %151, align 8
  %153 = add i64 %152, 1
  store i64 %153, ptr %151, align 8
  %154 = getelementptr i64, ptr %16, i64 %107
  %155 = load i64, ptr %154, align 8
  %156 = add i64 %155, %85
  store i64 %156, ptr %154, align 8
  %157 = getelementptr i64, ptr %13, i64 %113
  %158 = load i64, ptr %157, align 8
  %159 = icmp sgt i64 %158, %64
  br i1 %159, label %160, label %161

160:
  store i64 %64, ptr %157, align 8
  br label %161

161:
  %162 = getelementptr i64, ptr %14, i64 %113
  %163 = load i64, ptr %162, align 8
  %164 = icmp sgt i64 %86, %163
  br i1 %164, label %165, label %171

165:
  %166 = call i64 @llvm.smax.i64(i64 %163, i64 %64)
  %167 = sub i64 %86, %166
  %168 = getelementptr i64, ptr %12, i64 %113
  %169 = load i64, ptr %168, align 8
  %170 = add i64 %167, %169
  store i64 %170, ptr %168, align 8
  store i64 %86, ptr %162, align 8
  br label %171

171:
  %172 = phi i64 [ %38, %109 ], [ %150, %161 ], [ %38, %145 ], [ %150, %165 ]
  %173 = icmp slt i64 %62, %0
  %174 = icmp slt i64 %61, %2
  %175 = or i1 %173, %174
  br i1 %175, label %33, label %176

176:
  %177 = phi i64 [ 0, %18 ], [ -1, %106 ], [ %172, %171 ]
  ret i64 %177
}

define internal fastcc i64 @read_header(ptr %0, i64 %1, i64 %2, i64 %3, ptr %4, i64 %5, ptr %6) {
  %8 = getelementptr i8, ptr %6, i64 88
  br label %13

9:
  store i64 0, ptr %6, align 8
  %10 = icmp sgt i64 %5, 0
  %11 = icmp slt i64 %1, %2
  %12 = and i1 %11, %10
  br i1 %12, label %18, label %88

13:
  %14 = phi i64 [ 0, %7 ], [ %16, %13 ]
  %15 = getelementptr i64, ptr %8, i64 %14
  store i64 64, ptr %15, align 8
  %16 = add i64 %14, 1
  %17 = icmp eq i64 %16, 10
  br i1 %17, label %9, label %13

18:
  %19 = phi i64 [ %83, %82 ], [ 0, %9 ]
  %20 = phi i64 [ %84, %82 ], [ 0, %9 ]
  %21 = phi i64 [ %46, %82 ], [ %1, %9 ]
  br label %25

22:
  %23 = add i32 %26, 1
  %24 = icmp eq i32 %23, 8
  br i1 %24, label %37, label %25

25:
  %26 = phi i32 [ %23, %22 ], [ 0, %18 ]
  %27 = phi i64 [ %35, %22 ], [ 0, %18 ]
  %28 = phi i64 [ %29, %22 ], [ %21, %18 ]
  %29 = add i64 %28, 1
  %30 = getelementptr i8, ptr %0, i64 %28
  %31 = load i8, ptr %30, align 1
  %32 = shl i64 %27, 7
  %33 = and i8 %31, 127
  %34 = zext i8 %33 to i64
  %35 = or i64 %32, %34
  %36 = icmp slt i8 %31, 0
  br i1 %36, label %22, label %45

37:
  %38 = shl i64 %35, 8
  %39 = add i64 %21, 9
  %40 = getelementptr i8, ptr %0, i64 %21
  %41 = getelementptr i8, ptr %40, i64 8
  %42 = load i8, ptr %41, align 1
  %43 = zext i8 %42 to i64
  %44 = or i64 %38, %43
  br label %45

45:
  %46 = phi i64 [ %39, %37 ], [ %29, %25 ]
  %47 = phi i64 [ %44, %37 ], [ %35, %25 ]
  %48 = icmp slt i64 %47, 0
  br i1 %48, label %99, label %49

49:
  %50 = icmp ult i64 %47, 12
  br i1 %50, label %51, label %54

51:
  %52 = getelementptr i64, ptr @SIZES, i64 %47
  %53 = load i64, ptr %52, align 8
  br label %57

54:
  %55 = add i64 %47, -12
  %56 = lshr i64 %55, 1
  br label %57

57:
  %58 = phi i64 [ %53, %51 ], [ %56, %54 ]
  %59 = icmp slt i64 %58, 0
  %60 = sub i64 %3, %19
  %61 = icmp sgt i64 %58, %60
  %62 = select i1 %59, i1 true, i1 %61
  br i1 %62, label %99, label %63

63:
  %64 = getelementptr i64, ptr %4, i64 %20
  %65 = load i64, ptr %64, align 8
  %66 = icmp sgt i64 %65, -1
  br i1 %66, label %67, label %82

67:
  %68 = add i64 %47, -12
  %69 = icmp ult i64 %68, -11
  br i1 %69, label %77, label %70

70:
  switch i64 %47, label %71 [
    i64 8, label %77
    i64 9, label %76
  ]

71:
  %72 = icmp eq i64 %47, 7
  %73 = shl i64 %58, 3
  %74 = sub i64 64, %73
  %75 = select i1 %72, i64 67, i64 %74
  br label %77

76:
  br label %77

77:
  %78 = phi i64 [ 64, %67 ], [ 65, %70 ], [ %75, %71 ], [ 66, %76 ]
  %79 = shl i64 %19, 8
  %80 = or i64 %78, %79
  %81 = getelementptr i64, ptr %8, i64 %65
  store i64 %80, ptr %81, align 8
  br label %82

82:
  %83 = add i64 %58, %19
  %84 = add i64 %20, 1
  %85 = icmp slt i64 %84, %5
  %86 = icmp slt i64 %46, %2
  %87 = and i1 %86, %85
  br i1 %87, label %18, label %88

88:
  %89 = phi i64 [ 0, %9 ], [ %83, %82 ]
  %90 = phi i1 [ %10, %9 ], [ %85, %82 ]
  %91 = phi i64 [ %1, %9 ], [ %46, %82 ]
  %92 = icmp sgt i64 %91, %2
  %93 = or i1 %90, %92
  br i1 %93, label %99, label %94

94:
  %95 = getelementptr i8, ptr %6, i64 8
  store i64 %89, ptr %95, align 8
  %96 = icmp eq i64 %91, %2
  %97 = zext i1 %96 to i64
  %98 = getelementptr i8, ptr %6, i64 16
  store i64 %97, ptr %98, align 8
  br label %99

99:
  %100 = phi i64 [ -1, %88 ], [ 0, %94 ], [ -1, %45 ], [ -1, %57 ]
  ret i64 %100
}

declare i64 @pread(i32, ptr, i64, i64)

declare i64 @llvm.umin.i64(i64, i64)

declare i64 @llvm.smax.i64(i64, i64)

declare i64 @llvm.smin.i64(i64, i64)
