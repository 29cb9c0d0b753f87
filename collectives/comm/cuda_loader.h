/* cuda_loader - finds and loads NVIDIA's libraries on first use. drover's programs are not linked
 * with them. */
#pragma once

#include "common/dl.h"

/* Loads a library with dlopen(), until the process exits, and sets `*out` to its handle. `names`
 * are the library's possible file names ("libcudart.so.13"), best first, NULL-terminated. Searches
 * in this order:
 *     the file that the environment variable `variable` names (`variable` may be NULL). If the
 *     variable is set, nothing else is searched;
 *     the libraries that the process has loaded, so that it does not load a second one;
 *     the loader's path;  CUDA_HOME, /usr/local/cuda;
 *     NVIDIA's wheels among the packages of VIRTUAL_ENV, of CONDA_PREFIX, of the python3 in PATH,
 *     of the user and of the system: nvidia/PACKAGE/lib.
 *   -ENOENT  no library was found (the message lists the directories searched), or the file that
 *            `variable` names cannot be loaded */
int cuda_loader_open(void **out, const char *const *names, const char *variable, struct err *e);

/* Loads a library as cuda_loader_open() does, and fills `table` with its functions, as dl_load()
 * does. The hint is for a library that lacks a function: "CUDA 12 or newer". After `l->names` is at
 * least one NULL.
 *   -ENOENT   as above
 *   -ELIBBAD  the library lacks a function */
int cuda_loader_load(void *table, const struct dl_library *l, struct err *e);

/* The names and the variable of CUDA's runtime library, for struct dl_library. */
#define CUDA_LOADER_RUNTIME                                                                       \
    .names = {"libcudart.so.13", "libcudart.so.12", "libcudart.so"}, .variable = "DROVER_CUDART_" \
                                                                                 "LIB"
