/* no_driver.c - as much of a CUDA driver as cuDNN needs to build a plan on a machine without one.
 *
 * Given the properties of a device (sdpa_offline.cu), cuDNN chooses and compiles the kernels by
 * itself, but it wants to hand the result to the driver before it calls a plan built. This library
 * takes it and keeps nothing. Built as libcuda.so.1 and put first on the library path of a test;
 * it can run nothing, and must never be installed. */
#define NO_DEVICE 100 /* CUDA_ERROR_NO_DEVICE */

int cuInit(unsigned flags);
int cuDriverGetVersion(int *version);
int cuDeviceGetCount(int *n);
int cuGetErrorString(int error, const char **text);
int cuLibraryLoadData(void **library, const void *code, void *a, void *b, unsigned n, void *c,
                      void *d, unsigned m);
int cuLibraryGetKernel(void **kernel, void *library, const char *name);
int cuLibraryUnload(void *library);

/* Names that cuDNN looks up beside those; none is called while a plan is built. */
#define REFUSED(X)                                                                                 \
    X(cuGetErrorName)                                                                              \
    X(cuCtxGetCurrent)                                                                             \
    X(cuCtxGetLimit)                                                                               \
    X(cuCtxPopCurrent)                                                                             \
    X(cuCtxPushCurrent)                                                                            \
    X(cuStreamGetCtx)                                                                              \
    X(cuLinkCreate)                                                                                \
    X(cuLinkAddData)                                                                               \
    X(cuLinkComplete)                                                                              \
    X(cuLinkDestroy)                                                                               \
    X(cuLaunchKernel)                                                                              \
    X(cuLaunchKernelEx)                                                                            \
    X(cuLaunchCooperativeKernel)                                                                   \
    X(cuDeviceGet)                                                                                 \
    X(cuLibraryLoadFromFile)                                                                       \
    X(cuKernelSetAttribute)                                                                        \
    X(cuKernelGetAttribute)                                                                        \
    X(cuOccupancyMaxPotentialClusterSize)

#define REFUSE(name)                                                                               \
    int name(void);                                                                                \
    int name(void)                                                                                 \
    {                                                                                              \
        return NO_DEVICE;                                                                          \
    }
REFUSED(REFUSE)

static char nothing;

int cuInit(unsigned flags)
{
    (void)flags;
    return NO_DEVICE;
}

int cuDriverGetVersion(int *version)
{
    *version = 13000;
    return 0;
}

int cuDeviceGetCount(int *n)
{
    *n = 0;
    return NO_DEVICE;
}

int cuGetErrorString(int error, const char **text)
{
    *text = error ? "there is no driver here" : "no error";
    return 0;
}

int cuLibraryLoadData(void **library, const void *code, void *a, void *b, unsigned n, void *c,
                      void *d, unsigned m)
{
    (void)code, (void)a, (void)b, (void)n, (void)c, (void)d, (void)m;
    *library = &nothing;
    return 0;
}

int cuLibraryGetKernel(void **kernel, void *library, const char *name)
{
    (void)library, (void)name;
    *kernel = &nothing;
    return 0;
}

int cuLibraryUnload(void *library)
{
    (void)library;
    return 0;
}
