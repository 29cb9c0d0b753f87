/* ops_load - loads the GPU implementation of ops.h. */
#ifndef GPT_OPS_LOAD_H
#define GPT_OPS_LOAD_H

#include "ops.h"

/* Loads the library at `path`, usually gpt_cuda.so. It needs cuBLAS, which drover also finds in
 * folders that the loader does not search. Returns NULL on failure, with the error in `why`. */
const struct ops_backend *ops_load(const char *path, char *why, size_t why_size);

#endif
