// Launch a known number of kernels from C++: on two streams, and in a graph that is replayed. The number of launches
// outside the graph may be given.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

__global__ void nsysprof_step(float *values) { values[threadIdx.x] += 1.0f; }

#define CHECK(call)                                                                                                    \
    if ((call) != cudaSuccess) {                                                                                       \
        std::fprintf(stderr, "%s failed: %s\n", #call, cudaGetErrorString(cudaGetLastError()));                        \
        return 1;                                                                                                      \
    }

int main(int count, char **words) {
    const int launches = count > 1 ? std::atoi(words[1]) : 120;
    std::printf("EXPECT {\"nsysprof_step\": %d}\n", launches + 100);
    std::fflush(stdout);
    float *values;
    cudaStream_t streams[2];
    CHECK(cudaMalloc(&values, 256 * sizeof(float)));
    for (auto &stream : streams) CHECK(cudaStreamCreate(&stream));
    for (int i = 0; i < launches; ++i) nsysprof_step<<<1, 256, 0, streams[i % 2]>>>(values);
    CHECK(cudaDeviceSynchronize());
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    CHECK(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeGlobal));
    for (int i = 0; i < 5; ++i) nsysprof_step<<<1, 256, 0, streams[0]>>>(values);
    CHECK(cudaStreamEndCapture(streams[0], &graph));
    CHECK(cudaGraphInstantiateWithFlags(&ready, graph, 0));
    for (int i = 0; i < 20; ++i) CHECK(cudaGraphLaunch(ready, streams[0]));
    CHECK(cudaDeviceSynchronize());
    return 0;
}
