; made by scripts/build_machine_code of machine_code.c with SHA-256 a19b4d11fdb0bd906e94a6cb12d13445b5234a6b5ccf22d55b204cfc1186ed0a

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

declare i64 @pread(i32, ptr, i64, i64)

declare i64 @llvm.smax.i64(i64, i64)

declare i64 @llvm.smin.i64(i64, i64)
