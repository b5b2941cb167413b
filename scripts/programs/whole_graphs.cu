// Two CUDA graphs replayed in turn beside plain kernels, one graph of copies and fills alone, and one that is updated
// between its replays. Record it with --cuda-graph-trace=graph for whole graphs, and with node for their kernels.
//     nvcc -O2 -std=c++17 -o whole_graphs scripts/programs/whole_graphs.cu && ./whole_graphs 50
#include <cstdio>
#include <cstdlib>

#include <nvtx3/nvToolsExt.h>

#define CHECK(call)                                                                       \
    do {                                                                                  \
        cudaError_t error = (call);                                                       \
        if (error != cudaSuccess) {                                                       \
            std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));           \
            std::exit(1);                                                                 \
        }                                                                                 \
    } while (0)

constexpr int N = 1 << 20;

__global__ void scale(int n, float a, float *x) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = a * x[i];
}

__global__ void shift(int n, float a, float *x) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = a + x[i];
}

static cudaGraphExec_t capture(cudaStream_t stream, float *x, float *y, int kernels, bool copies, cudaGraph_t *kept) {
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < kernels; ++i) scale<<<N / 256, 256, 0, stream>>>(N, 1.5f, x);
    if (copies) {
        CHECK(cudaMemcpyAsync(y, x, N * sizeof(float), cudaMemcpyDeviceToDevice, stream));
        CHECK(cudaMemsetAsync(x, 0, N * sizeof(float), stream));
    }
    CHECK(cudaStreamEndCapture(stream, kept));
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, *kept, 0));
    return exec;
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? std::atoi(argv[1]) : 50;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    float *x, *y;
    CHECK(cudaMalloc(&x, N * sizeof(float)));
    CHECK(cudaMalloc(&y, N * sizeof(float)));
    cudaGraph_t graphs[3];
    nvtxRangePushA("capture");
    cudaGraphExec_t small = capture(stream, x, y, 2, false, &graphs[0]);
    cudaGraphExec_t large = capture(stream, x, y, 12, true, &graphs[1]);
    cudaGraphExec_t bytes = capture(stream, x, y, 0, true, &graphs[2]);
    nvtxRangePop();
    for (int i = 0; i < rounds; ++i) {
        nvtxRangePushA("step");
        nvtxRangePushA("small");
        CHECK(cudaGraphLaunch(small, stream));
        nvtxRangePop();
        nvtxRangePushA("large");
        CHECK(cudaGraphLaunch(large, stream));
        nvtxRangePop();
        nvtxRangePushA("bytes alone");
        CHECK(cudaGraphLaunch(bytes, stream));
        nvtxRangePop();
        nvtxRangePushA("eager");
        shift<<<N / 256, 256, 0, stream>>>(N, 1.0f, x);
        nvtxRangePop();
        nvtxRangePop();
        if (i == rounds / 2) {
            nvtxRangePushA("update");
            cudaGraphExecUpdateResultInfo info;
            CHECK(cudaGraphExecUpdate(small, graphs[0], &info));
            nvtxRangePop();
        }
    }
    CHECK(cudaStreamSynchronize(stream));
    std::printf("%d rounds\n", rounds);
}
