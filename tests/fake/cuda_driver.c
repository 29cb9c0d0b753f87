/* What cuDNN needs of the driver's library to make plans without a GPU: kernels are loaded, and
 * nothing can be launched. The file is called libcuda.so.1, and is
 * also the CUDA runtime. */
#include <stddef.h>

enum { SUCCESS = 0, NO_DEVICE = 100, NOT_FOUND = 500 };

static int object; /* each library and kernel */

int cuInit(unsigned flags)
{
    return NO_DEVICE;
}

int cuDeviceGetCount(int *count)
{
    *count = 0;
    return SUCCESS;
}

int cuGetExportTable(const void **table, const void *id)
{
    *table = NULL;
    return NOT_FOUND;
}

int cuGetErrorString(int code, const char **text)
{
    *text = "no device";
    return SUCCESS;
}

int cuCtxGetCurrent(void **context)
{
    *context = &object;
    return SUCCESS;
}

int cuLibraryLoadData(void **library, const void *code)
{
    *library = &object;
    return SUCCESS;
}

int cuLibraryGetKernel(void **kernel, void *library, const char *name)
{
    *kernel = &object;
    return SUCCESS;
}

int cuLibraryUnload(void *library)
{
    return SUCCESS;
}

/* Of the CUDA runtime, for the frontend. */
int cudaStreamGetCaptureInfo(void *stream, int *status)
{
    *status = 0;
    return SUCCESS;
}

int cudaRuntimeGetVersion(int *version)
{
    *version = 13000;
    return SUCCESS;
}

/* cuDNN looks for these, too. */
#define NOTHING(name)   \
    int name(void)      \
    {                   \
        return SUCCESS; \
    }
NOTHING(cuCtxGetLimit)
NOTHING(cuCtxPopCurrent)
NOTHING(cuCtxPushCurrent)
NOTHING(cuDeviceGet)
NOTHING(cuDriverGetVersion)
NOTHING(cuGetErrorName)
NOTHING(cuKernelGetAttribute)
NOTHING(cuKernelSetAttribute)
NOTHING(cuLaunchCooperativeKernel)
NOTHING(cuLaunchKernel)
NOTHING(cuLaunchKernelEx)
NOTHING(cuLibraryLoadFromFile)
NOTHING(cuLinkAddData)
NOTHING(cuLinkComplete)
NOTHING(cuLinkCreate)
NOTHING(cuLinkDestroy)
NOTHING(cuOccupancyMaxPotentialClusterSize)
NOTHING(cuStreamGetCtx)
