// A program in CUDA C++ that keeps a GPU busy with the wrong work.
// Usage: busy_products [fp32] [pieces] [time]
//   fp32:   cuBLAS computes products of floats without tensor cores
//   pieces: scale, shift and clamp are three kernels instead of one
#include <cublas_v2.h>
#include <cuda_profiler_api.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>

__global__ void scale(float *x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= a;
}
__global__ void shift(float *x, float b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += b;
}
__global__ void clamp(float *x, float low, float high, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = fminf(fmaxf(x[i], low), high);
}
__global__ void scale_shift_clamp(float *x, float a, float b, float low, float high, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = fminf(fmaxf(x[i] * a + b, low), high);
}

int main(int count, char **words) {
    bool fp32 = false, pieces = false, timed = false;
    for (int i = 1; i < count; i++) {
        fp32 |= !strcmp(words[i], "fp32");
        pieces |= !strcmp(words[i], "pieces");
        timed |= !strcmp(words[i], "time");
    }
    const int n = 4096, elements = n * n, blocks = (elements + 255) / 256;
    float *a, *b, *c;
    cudaMalloc(&a, sizeof(float) * elements);
    cudaMalloc(&b, sizeof(float) * elements);
    cudaMalloc(&c, sizeof(float) * elements);
    cudaMemset(a, 0, sizeof(float) * elements);
    cudaMemset(b, 0, sizeof(float) * elements);
    cublasHandle_t handle;
    cublasCreate(&handle);
    cublasSetMathMode(handle, fp32 ? CUBLAS_DEFAULT_MATH : CUBLAS_TF32_TENSOR_OP_MATH);
    const float one = 1, zero = 0;
    cudaEvent_t begin, end;
    cudaEventCreate(&begin);
    cudaEventCreate(&end);
    for (int step = 0; step < 12; step++) {
        if (step == 4) {
            cudaDeviceSynchronize();
            if (!timed) cudaProfilerStart();
            cudaEventRecord(begin);
        }
        for (int layer = 0; layer < 8; layer++) {
            cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a, n, b, n, &zero, c, n);
            if (pieces) {
                scale<<<blocks, 256>>>(c, 0.5f, elements);
                shift<<<blocks, 256>>>(c, 0.1f, elements);
                clamp<<<blocks, 256>>>(c, -1.f, 1.f, elements);
            } else {
                scale_shift_clamp<<<blocks, 256>>>(c, 0.5f, 0.1f, -1.f, 1.f, elements);
            }
        }
    }
    cudaEventRecord(end);
    cudaDeviceSynchronize();
    if (!timed) cudaProfilerStop();
    float ms;
    cudaEventElapsedTime(&ms, begin, end);
    printf("%.4f\n", ms / 8);
    return cudaGetLastError() != cudaSuccess;
}
