// Every form of an NVTX annotation, with GPU work where there is a GPU: domains with registered strings, payloads,
// categories, colors, marks, nesting, ranges that start on one thread and end on another, one that never ends, and
// layers in a domain as TensorRT has it.
//     nvcc -O2 -std=c++17 -I/usr/local/cuda/include -o nvtx_forms scripts/programs/nvtx_forms.cu && ./nvtx_forms 20
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include <nvtx3/nvToolsExt.h>

#define CHECK(call)                                                                       \
    do {                                                                                  \
        cudaError_t error = (call);                                                       \
        if (error != cudaSuccess) {                                                       \
            std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));           \
            std::exit(1);                                                                 \
        }                                                                                 \
    } while (0)

constexpr int N = 1 << 18;
static bool has_gpu = false;
static float *data = nullptr;

__global__ void scale(int n, float a, float *x) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = a * x[i];
}

static void work(cudaStream_t stream = nullptr) {
    if (has_gpu) scale<<<N / 256, 256, 0, stream>>>(N, 1.0f, data);
}

static nvtxEventAttributes_t attributes(const char *text) {
    nvtxEventAttributes_t found = {};
    found.version = NVTX_VERSION;
    found.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    found.messageType = NVTX_MESSAGE_TYPE_ASCII;
    found.message.ascii = text;
    return found;
}

// A domain whose names are all registered: rows with textId and without text.
static void registered(int rounds) {
    nvtxDomainHandle_t domain = nvtxDomainCreateA("forms.registered");
    nvtxStringHandle_t load = nvtxDomainRegisterStringA(domain, "load");
    nvtxStringHandle_t step = nvtxDomainRegisterStringA(domain, "step");
    for (int i = 0; i < rounds; ++i) {
        nvtxEventAttributes_t outer = attributes("");
        outer.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
        outer.message.registered = step;
        nvtxDomainRangePushEx(domain, &outer);
        nvtxEventAttributes_t inner = outer;
        inner.message.registered = load;
        nvtxDomainRangePushEx(domain, &inner);
        work();
        nvtxDomainRangePop(domain);
        work();
        nvtxDomainRangePop(domain);
    }
}

// The same names in a second domain and in none, with payloads of each type, categories and colors.
static void payloads(int rounds) {
    nvtxDomainHandle_t domain = nvtxDomainCreateA("forms.payloads");
    nvtxDomainNameCategoryA(domain, 7, "io");
    nvtxNameCategoryA(8, "math");
    for (int i = 0; i < rounds; ++i) {
        nvtxEventAttributes_t event = attributes("step");
        event.category = 7;
        event.colorType = NVTX_COLOR_ARGB;
        event.color = 0xFF0072B2;
        event.payloadType = i % 3 == 0 ? NVTX_PAYLOAD_TYPE_UNSIGNED_INT64
                            : i % 3 == 1 ? NVTX_PAYLOAD_TYPE_INT32
                                         : NVTX_PAYLOAD_TYPE_DOUBLE;
        if (i % 3 == 0) event.payload.ullValue = UINT64_MAX - i;
        if (i % 3 == 1) event.payload.iValue = -i;
        if (i % 3 == 2) event.payload.dValue = i / 3.0;
        nvtxDomainRangePushEx(domain, &event);
        work();
        nvtxDomainMarkEx(domain, &event);
        nvtxDomainRangePop(domain);
        nvtxEventAttributes_t plain = attributes("step");
        plain.category = 8;
        nvtxRangePushEx(&plain);
        nvtxMarkA("half way");
        work();
        nvtxRangePop();
    }
}

// A range that the main thread starts and another thread ends; both launch inside it.
static void across_threads(int rounds) {
    for (int i = 0; i < rounds; ++i) {
        nvtxRangeId_t request = nvtxRangeStartA("request");
        work();
        std::thread worker([request] {
            nvtxNameOsThreadA(0, "worker");
            nvtxRangePushA("worker");
            work();
            nvtxRangePop();
            nvtxRangeEnd(request);
        });
        worker.join();
    }
}

// Layers as TensorRT names them: one push per layer inside the execution context's.
static void layers(int rounds) {
    nvtxDomainHandle_t domain = nvtxDomainCreateA("TensorRT");
    for (int i = 0; i < rounds; ++i) {
        nvtxEventAttributes_t context = attributes("ExecutionContext::enqueue");
        nvtxDomainRangePushEx(domain, &context);
        for (int layer = 0; layer < 4; ++layer) {
            std::string name = "[MatMul] /layers." + std::to_string(layer) + "/MatMul_output_0";
            nvtxEventAttributes_t event = attributes(name.c_str());
            nvtxDomainRangePushEx(domain, &event);
            work();
            nvtxDomainRangePop(domain);
        }
        nvtxDomainRangePop(domain);
    }
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? std::atoi(argv[1]) : 20, devices = 0;
    has_gpu = cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
    if (has_gpu) CHECK(cudaMalloc(&data, N * sizeof(float)));
    registered(rounds);
    payloads(rounds);
    across_threads(rounds);
    layers(rounds);
    nvtxRangeStartA("never ends");
    work();
    if (has_gpu) CHECK(cudaDeviceSynchronize());
    std::printf("%d rounds, %s\n", rounds, has_gpu ? "with a GPU" : "without a GPU");
}
