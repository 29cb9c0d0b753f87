/* cuDNN but for its cudnnBackendExecute(), which prints the addresses that a plan gets, without a
 * handle. All other functions are those of the real library, with which this one is linked. The
 * file is called libcudnn.so.9. */
#include <cudnn.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TENSORS_MAX = 64 };

static int64_t uids[TENSORS_MAX], count;
static void *addresses[TENSORS_MAX], *workspace;

cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t *stream)
{
    *stream = NULL;
    return CUDNN_STATUS_SUCCESS;
}

/* Keeps what a pack of addresses is made of. */
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t of,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t n,
                                       const void *values)
{
    cudnnStatus_t (*real)(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,
                          cudnnBackendAttributeType_t, int64_t, const void *) =
        dlsym(RTLD_NEXT, "cudnnBackendSetAttribute");
    if (name == CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS && n <= TENSORS_MAX)
        memcpy(uids, values, (size_t)(count = n) * sizeof *uids);
    if (name == CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS && n <= TENSORS_MAX)
        memcpy(addresses, values, (size_t)n * sizeof *addresses);
    if (name == CUDNN_ATTR_VARIANT_PACK_WORKSPACE)
        memcpy(&workspace, values, sizeof workspace);
    return real(of, name, type, n, values);
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack)
{
    for (int64_t i = 0; i < count; i++)
        printf("%" PRId64 " %" PRIuPTR "\n", uids[i], (uintptr_t)addresses[i]);
    printf("workspace %" PRIuPTR "\n", (uintptr_t)workspace);
    fflush(stdout);
    return CUDNN_STATUS_SUCCESS;
}
