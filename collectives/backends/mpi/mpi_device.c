#include "collectives/backends/mpi/mpi_device.h"

#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#if defined(OPEN_MPI)
#include <mpi-ext.h>
#endif

#include "common/dl.h"

/* The type of cuPointerGetAttribute(), and the values of CU_POINTER_ATTRIBUTE_MEMORY_TYPE and
 * CU_MEMORYTYPE_DEVICE (cuda.h; unchanged since CUDA 4). The function fails for memory that CUDA
 * does not know. */
typedef int get_attribute_fn(void *value, int attribute, unsigned long long p);
enum { MEMORY_TYPE = 2, IS_DEVICE = 2 };

static get_attribute_fn *get_attribute;

bool mpi_device_find(void)
{
    static const struct dl_symbol symbols[] = {{"cuPointerGetAttribute", 0, DL_REQUIRED}};
    static const struct dl_library library = {.names = {"libcuda.so.1"},
                                              .flags = RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD,
                                              DL_SYMBOLS(symbols)};
    return get_attribute || dl_load(&get_attribute, NULL, &library, NULL) == 0;
}

bool mpi_device_has(const void *p)
{
    unsigned type = 0;
    return get_attribute && p &&
           get_attribute(&type, MEMORY_TYPE, (unsigned long long)(uintptr_t)p) == 0 &&
           type == IS_DEVICE;
}

bool mpi_device_aware(void)
{
#ifdef MPIX_CUDA_AWARE_SUPPORT
    return MPIX_Query_cuda_support() == 1;
#else
    return false;
#endif
}
