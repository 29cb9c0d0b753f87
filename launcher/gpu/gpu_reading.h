/* gpu_reading - samples of a node's GPUs as text, so that they travel between machines. Pure. */
#pragma once

#include <stddef.h>

#include "common/err.h"
#include "launcher/gpu/gpu_sample.h"

enum { GPU_READING_MAX = 1024 }; /* GPUs and MIG instances of a node */

/* Returns the samples: what each GPU is, and its values; not its processes. The caller frees it. */
char *gpu_reading_write(const struct gpu_sample *samples, int count);

/* Reads such a text of the same version of drover. The caller frees `*out`; NULL: no GPU.
 *   -EINVAL  malformed */
int gpu_reading_read(struct gpu_sample **out, int *count, const char *text, size_t len,
                     struct err *e);
