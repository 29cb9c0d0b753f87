/* gpu_names - the memory of GPUs by the names that users give them. */
#pragma once

#include <stdint.h>

/* Reads "H100", "a100-80g", "8xH100" or "RTX 4090": sets the memory that such a GPU's driver
 * reports, and the number of GPUs (0: not said). Returns the usual name; NULL: unknown. */
const char *gpu_names_find(const char *text, uint64_t *bytes, int *count);

/* Returns the nearest known name; NULL: none is near. */
const char *gpu_names_near(const char *text);
