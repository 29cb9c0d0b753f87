/* cuda_loader - finds and loads NVIDIA's libraries on first use. drover's programs are not linked
 * with them. */
#ifndef DROVER_CUDA_LOADER_H
#define DROVER_CUDA_LOADER_H

#include <stddef.h>

#include "common/err.h"

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

/* Loads CUDA's runtime library as cuda_loader_open() does. Also sets `*get_properties` to its
 * cudaGetDeviceProperties(), which has another name in CUDA 12; NULL: the library has none. */
int cuda_loader_open_runtime(void **out, void **get_properties, struct err *e);

/* A function of a library, and where its pointer belongs in a table. */
struct cuda_loader_entry {
    const char *name;
    size_t offset;
};

/* Fills a table with functions of the library that the handle `lib` names. `versions` is the hint
 * if a function is missing: "CUDA 12 or newer". -ELIBBAD  the library lacks a function */
int cuda_loader_fill(void *table, void *lib, const struct cuda_loader_entry *entries, size_t n,
                     const char *versions, struct err *e);

#endif
