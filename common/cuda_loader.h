/* cudalib - finds NVIDIA's libraries when they are first needed: no program of ours links one. */
#ifndef DROVER_CUDA_LOADER_H
#define DROVER_CUDA_LOADER_H

#include "common/err.h"

/* Opens the first of `names` ("libcudart.so.13"; best first, the last one is NULL) that is found,
 * with dlopen(), for as long as the process lives. In this order:
 *     the file that the environment variable `variable` names, and then nothing else (may be NULL);
 *     what the process has loaded, so that it gets no second one;  the loader's path;
 *     CUDA_HOME, /usr/local/cuda;
 *     NVIDIA's wheels among the packages of VIRTUAL_ENV, of CONDA_PREFIX, of the python3 in PATH,
 *     of the user and of the system: nvidia/PACKAGE/lib.
 *   -ENOENT  none was found, the text says where; or the file of `variable` cannot be loaded */
int cuda_loader_open(void **out, const char *const *names, const char *variable, struct err *e);

#endif
