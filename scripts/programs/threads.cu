// Plain CUDA C++ without a single range: three threads with a stream each, one of which allocates in its loop,
// one of which copies from pageable memory, and one of which waits for the device after each launch.
//     nvcc -O2 -std=c++17 -o threads scripts/programs/threads.cu && ./threads 50
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#define CHECK(call)                                                                       \
    do {                                                                                  \
        cudaError_t error = (call);                                                       \
        if (error != cudaSuccess) {                                                       \
            std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));           \
            std::exit(1);                                                                 \
        }                                                                                 \
    } while (0)

__global__ void saxpy(int n, float a, const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}

__global__ void spin(long long cycles) {
    long long start = clock64();
    while (clock64() - start < cycles) {
    }
}

constexpr int N = 1 << 22;

static void allocate(int rounds) {
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    for (int i = 0; i < rounds; ++i) {
        float *x, *y;
        CHECK(cudaMalloc(&x, N * sizeof(float)));
        CHECK(cudaMalloc(&y, N * sizeof(float)));
        saxpy<<<N / 256, 256, 0, stream>>>(N, 2.0f, x, y);
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaFree(x));
        CHECK(cudaFree(y));
    }
}

static void copy(int rounds) {
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    std::vector<float> host(N, 1.0f);
    float *x, *y;
    CHECK(cudaMalloc(&x, N * sizeof(float)));
    CHECK(cudaMalloc(&y, N * sizeof(float)));
    for (int i = 0; i < rounds; ++i) {
        CHECK(cudaMemcpyAsync(x, host.data(), N * sizeof(float), cudaMemcpyHostToDevice, stream));
        saxpy<<<N / 256, 256, 0, stream>>>(N, 2.0f, x, y);
    }
    CHECK(cudaStreamSynchronize(stream));
}

static void wait_each(int rounds) {
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    for (int i = 0; i < rounds; ++i) {
        spin<<<1, 32, 0, stream>>>(200000);
        CHECK(cudaDeviceSynchronize());
    }
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? std::atoi(argv[1]) : 50;
    CHECK(cudaFree(nullptr));
    std::thread first(allocate, rounds), second(copy, rounds), third(wait_each, rounds);
    first.join();
    second.join();
    third.join();
    std::printf("%d rounds\n", rounds);
    return 0;
}
