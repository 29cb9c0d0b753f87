/* cuda_loader - finds and loads NVIDIA's libraries on first use: no program of drover links one. */
#ifndef DROVER_CUDA_LOADER_H
#define DROVER_CUDA_LOADER_H

#include "common/err.h"

/* Opens the first of `names` ("libcudart.so.13"; best first, NULL-terminated) that is found, with
 * dlopen(), until the process exits. Searches in this order:
 *     the file that the environment variable `variable` names, and then nothing else (may be NULL);
 *     the libraries that the process has loaded, so that it does not load a second one;
 *     the loader's path;  CUDA_HOME, /usr/local/cuda;
 *     NVIDIA's wheels among the packages of VIRTUAL_ENV, of CONDA_PREFIX, of the python3 in PATH,
 *     of the user and of the system: nvidia/PACKAGE/lib.
 *   -ENOENT  none was found, the text lists the places; or the file of `variable` cannot be loaded
 */
int cuda_loader_open(void **out, const char *const *names, const char *variable, struct err *e);

#endif
