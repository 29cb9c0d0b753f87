/* entropy - random bytes from the kernel, fit for secrets and for unique names. */
#pragma once

#include <stddef.h>

/* Fills `out` with `size` bytes, at most 256. Reads /dev/urandom if getrandom(2) is refused, as by
 * the filters of old container runtimes.
 *   -errno  neither of them answers */
int entropy_fill(void *out, size_t size);
