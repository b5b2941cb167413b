/* Opens and closes NVTX ranges of the default domain, as NVIDIA's headers do, without Python in between.

   A profiler names its library in NVTX_INJECTION64_PATH. That library asks for tables of the addresses at which it may
   put functions, by module and number; all that is not given stays empty. The numbers are those of NVTX 3, which
   profilers have relied on since 2018 (nvtxTypes.h). Without a profiler, nothing happens. */

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

typedef void (*NvtxFunction)(void);

enum { NVTX_CORE = 1, NVTX_MODULES = 7, NVTX_MOST_FUNCTIONS = 17 };
enum { NVTX_PUSH = 9, NVTX_POP = 11 };             /* of the module CORE: RangePushA and RangePop */
enum { NVTX_CALLBACKS = 1, NVTX_VERSION_INFO = 3 }; /* of the tables that are asked for */

/* Functions of each module, with the first, which is none: CORE, CUDA, OPENCL, CUDART, CORE2, SYNC. */
static const unsigned NVTX_SIZES[NVTX_MODULES] = {0, 16, 9, 15, 7, 16, 7};
static NvtxFunction nvtx_functions[NVTX_MODULES][NVTX_MOST_FUNCTIONS];
static NvtxFunction *nvtx_tables[NVTX_MODULES][NVTX_MOST_FUNCTIONS + 1];

static int nvtx_give_functions(int module, NvtxFunction ***table, unsigned *size) {
    if (module < NVTX_CORE || module >= NVTX_MODULES)
        return 0;
    for (unsigned i = 1; i < NVTX_SIZES[module]; i++)
        nvtx_tables[module][i] = &nvtx_functions[module][i];
    if (size != NULL)
        *size = NVTX_SIZES[module];
    if (table != NULL)
        *table = nvtx_tables[module];
    return 1;
}

static void nvtx_ignore_version(uint32_t version) {
    (void)version;
}

static const struct {
    size_t size;
    int (*give_functions)(int, NvtxFunction ***, unsigned *);
} nvtx_callbacks = {sizeof nvtx_callbacks, nvtx_give_functions};

static const struct {
    size_t size;
    uint32_t version, reserved;
    void (*take_version)(uint32_t);
} nvtx_version = {sizeof nvtx_version, 3, 0, nvtx_ignore_version};

static const void *nvtx_give_table(uint32_t which) {
    return which == NVTX_CALLBACKS ? (const void *)&nvtx_callbacks : which == NVTX_VERSION_INFO ? &nvtx_version : NULL;
}

/* Meet the profiler, if there is one. To be called once, before the others. */
static void nvtx_start(void) {
    const char *path = getenv("NVTX_INJECTION64_PATH");
    void *library = path == NULL ? NULL : dlopen(path, RTLD_LAZY);
    int (*meet)(const void *(*)(uint32_t)) = NULL;
    if (library != NULL)
        *(void **)&meet = dlsym(library, "InitializeInjectionNvtx2");
    if (meet != NULL && meet(nvtx_give_table) == 0)
        nvtx_functions[NVTX_CORE][NVTX_PUSH] = nvtx_functions[NVTX_CORE][NVTX_POP] = NULL;
}

static inline void nvtx_push(const char *name) {
    NvtxFunction push = nvtx_functions[NVTX_CORE][NVTX_PUSH];
    if (push != NULL)
        ((int (*)(const char *))push)(name);
}

static inline void nvtx_pop(void) {
    NvtxFunction pop = nvtx_functions[NVTX_CORE][NVTX_POP];
    if (pop != NULL)
        ((int (*)(void))pop)();
}
