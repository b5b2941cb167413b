// Plain CUDA C++ without a single range and with one thread: a Jacobi iteration on a grid, whose halo is copied to the
// host on a second stream every tenth step, and whose residual is read back and waited for every step.
//     nvcc -O2 -std=c++17 -o stencil scripts/programs/stencil.cu && ./stencil 200
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

#define CHECK(call)                                                                       \
    do {                                                                                  \
        cudaError_t error = (call);                                                       \
        if (error != cudaSuccess) {                                                       \
            std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));           \
            std::exit(1);                                                                 \
        }                                                                                 \
    } while (0)

constexpr int N = 2048;

__global__ void jacobi(const float *from, float *to) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x == 0 || y == 0 || x >= N - 1 || y >= N - 1) return;
    const float *p = from + y * N + x;
    to[y * N + x] = 0.25f * (p[-1] + p[1] + p[-N] + p[N]);
}

__global__ void residual(const float *a, const float *b, float *sum) {
    float mine = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < N * N; i += gridDim.x * blockDim.x) {
        float d = a[i] - b[i];
        mine += d * d;
    }
    atomicAdd(sum, mine);
}

int main(int argc, char **argv) {
    int steps = argc > 1 ? std::atoi(argv[1]) : 200;
    float *a, *b, *sum, *halo, *host_sum;
    cudaStream_t compute, copies;
    cudaEvent_t done;
    CHECK(cudaStreamCreate(&compute));
    CHECK(cudaStreamCreate(&copies));
    CHECK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
    CHECK(cudaMalloc(&a, N * N * sizeof(float)));
    CHECK(cudaMalloc(&b, N * N * sizeof(float)));
    CHECK(cudaMalloc(&sum, sizeof(float)));
    CHECK(cudaMallocHost(&halo, N * sizeof(float)));
    CHECK(cudaMallocHost(&host_sum, sizeof(float)));
    CHECK(cudaMemset(a, 0, N * N * sizeof(float)));
    CHECK(cudaMemset(b, 0, N * N * sizeof(float)));
    for (int step = 0; step < steps; ++step) {
        jacobi<<<dim3(N / 256, N), 256, 0, compute>>>(a, b);
        CHECK(cudaMemsetAsync(sum, 0, sizeof(float), compute));
        residual<<<132, 256, 0, compute>>>(a, b, sum);
        if (step % 10 == 0) {
            CHECK(cudaEventRecord(done, compute));
            CHECK(cudaStreamWaitEvent(copies, done, 0));
            CHECK(cudaMemcpyAsync(halo, b + N, N * sizeof(float), cudaMemcpyDeviceToHost, copies));
        }
        CHECK(cudaMemcpyAsync(host_sum, sum, sizeof(float), cudaMemcpyDeviceToHost, compute));
        CHECK(cudaStreamSynchronize(compute));
        std::swap(a, b);
    }
    CHECK(cudaDeviceSynchronize());
    std::printf("%d steps, residual %g\n", steps, std::sqrt(*host_sum));
    return 0;
}
