/* byte_size - byte counts as users write them: 8, 4K, 16M, 1G (powers of 1024). */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

/* Parses "16M", "1.5G" or "8", with an optional final B or iB.
 *   -EINVAL  the text is not a size
 *   -ERANGE  the size is negative or does not fit into 64 bits */
int byte_size_parse(uint64_t *out_bytes, const char *text, struct err *e);

/* Writes the size into `buf` as "16 MiB", "1.5 GiB" or "800 B", and returns `buf`. `len` 16
 * suffices. */
char *byte_size_format(char *buf, size_t len, uint64_t bytes);
