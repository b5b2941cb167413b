// Memory that few programs use: managed memory with faults from both sides and with prefetches, copies between two
// GPUs, memory from a pool, and a pool that another process imports.
//     nvcc -O2 -std=c++17 -o memory_forms scripts/programs/memory_forms.cu && ./memory_forms 10
// Record it with --cuda-memory-usage=true --cuda-um-gpu-page-faults=true --cuda-um-cpu-page-faults=true.
#include <cstdio>
#include <cstdlib>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nvtx3/nvToolsExt.h>

#define CHECK(call)                                                                       \
    do {                                                                                  \
        cudaError_t error = (call);                                                       \
        if (error != cudaSuccess) {                                                       \
            std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));           \
            std::exit(1);                                                                 \
        }                                                                                 \
    } while (0)

constexpr size_t N = 1 << 20;

__global__ void scale(size_t n, float a, float *x) {
    size_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = a * x[i];
}

static void managed(int rounds) {
    float *x;
    CHECK(cudaMallocManaged(&x, N * sizeof(float)));
    for (int i = 0; i < rounds; ++i) {
        nvtxRangePushA("faults");
        for (size_t at = 0; at < N; at += 1024) x[at] = 1.0f;  // the pages come to the host
        scale<<<N / 256, 256>>>(N, 2.0f, x);                   // and go to the GPU
        CHECK(cudaDeviceSynchronize());
        nvtxRangePop();
        nvtxRangePushA("prefetched");
        cudaMemLocation gpu = {cudaMemLocationTypeDevice, 0};
        CHECK(cudaMemPrefetchAsync(x, N * sizeof(float), gpu, 0));
        scale<<<N / 256, 256>>>(N, 2.0f, x);
        CHECK(cudaDeviceSynchronize());
        nvtxRangePop();
    }
    CHECK(cudaFree(x));
}

static void peers(int rounds) {
    int devices = 0, can = 0;
    CHECK(cudaGetDeviceCount(&devices));
    if (devices < 2) return;
    CHECK(cudaDeviceCanAccessPeer(&can, 0, 1));
    float *here, *there;
    CHECK(cudaMalloc(&here, N * sizeof(float)));
    if (can) CHECK(cudaDeviceEnablePeerAccess(1, 0));
    CHECK(cudaSetDevice(1));
    CHECK(cudaMalloc(&there, N * sizeof(float)));
    CHECK(cudaSetDevice(0));
    for (int i = 0; i < rounds; ++i) {
        nvtxRangePushA(can ? "peer copies" : "staged copies");
        CHECK(cudaMemcpyPeerAsync(there, 1, here, 0, N * sizeof(float)));
        CHECK(cudaMemcpyPeerAsync(here, 0, there, 1, N * sizeof(float)));
        CHECK(cudaDeviceSynchronize());
        nvtxRangePop();
        if (can) {
            nvtxRangePushA("peer access");
            scale<<<N / 256, 256>>>(N, 2.0f, there);
            CHECK(cudaDeviceSynchronize());
            nvtxRangePop();
        }
    }
    CHECK(cudaFree(here));
    CHECK(cudaFree(there));
}

// Send a file descriptor over a socket, and receive one.
static void pass(int socket, int *descriptor, bool receive) {
    char byte = 0, control[CMSG_SPACE(sizeof(int))] = {};
    iovec part = {&byte, 1};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    if (!receive) {
        cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        *reinterpret_cast<int *>(CMSG_DATA(header)) = *descriptor;
        if (sendmsg(socket, &message, 0) < 0) std::exit(1);
        return;
    }
    if (recvmsg(socket, &message, 0) < 0) std::exit(1);
    *descriptor = *reinterpret_cast<int *>(CMSG_DATA(CMSG_FIRSTHDR(&message)));
}

static void importer(int socket, int rounds) {
    int handle;
    pass(socket, &handle, true);
    cudaMemPool_t pool;
    CHECK(cudaMemPoolImportFromShareableHandle(
        &pool, reinterpret_cast<void *>(static_cast<intptr_t>(handle)), cudaMemHandleTypePosixFileDescriptor, 0));
    cudaMemPoolPtrExportData exported;
    if (read(socket, &exported, sizeof(exported)) != sizeof(exported)) std::exit(1);
    void *x;
    CHECK(cudaMemPoolImportPointer(&x, pool, &exported));
    for (int i = 0; i < rounds; ++i) {
        nvtxRangePushA("imported");
        scale<<<N / 256, 256>>>(N, 2.0f, static_cast<float *>(x));
        CHECK(cudaDeviceSynchronize());
        nvtxRangePop();
    }
    CHECK(cudaFree(x));
}

static void exporter(int socket) {
    cudaMemPoolProps props = {};
    props.allocType = cudaMemAllocationTypePinned;
    props.handleTypes = cudaMemHandleTypePosixFileDescriptor;
    props.location.type = cudaMemLocationTypeDevice;
    props.location.id = 0;
    cudaMemPool_t pool;
    CHECK(cudaMemPoolCreate(&pool, &props));
    int handle;
    CHECK(cudaMemPoolExportToShareableHandle(&handle, pool, cudaMemHandleTypePosixFileDescriptor, 0));
    void *x;
    nvtxRangePushA("exported");
    CHECK(cudaMallocFromPoolAsync(&x, N * sizeof(float), pool, 0));
    CHECK(cudaMemsetAsync(x, 0, N * sizeof(float), 0));
    CHECK(cudaDeviceSynchronize());
    nvtxRangePop();
    cudaMemPoolPtrExportData exported;
    CHECK(cudaMemPoolExportPointer(&exported, x));
    pass(socket, &handle, false);
    if (write(socket, &exported, sizeof(exported)) != sizeof(exported)) std::exit(1);
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? std::atoi(argv[1]) : 10;
    if (argc > 2) {  // the process that imports the pool
        importer(std::atoi(argv[2]), rounds);
        return 0;
    }
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0) return 1;
    pid_t child = fork();
    if (child == 0) {  // exec, for CUDA does not survive a fork
        char own[16];
        std::snprintf(own, sizeof(own), "%d", sockets[1]);
        execl(argv[0], argv[0], argc > 1 ? argv[1] : "10", own, nullptr);
        std::exit(1);
    }
    managed(rounds);
    peers(rounds);
    exporter(sockets[0]);
    int status = 0;
    waitpid(child, &status, 0);
    std::printf("%d rounds, the importing process ended with %d\n", rounds, WEXITSTATUS(status));
    return WEXITSTATUS(status);
}
