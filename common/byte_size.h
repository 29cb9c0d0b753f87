/* size - byte counts as people write them: 8, 4K, 16M, 1G (powers of 1024). */
#ifndef DROVER_BYTE_SIZE_H
#define DROVER_BYTE_SIZE_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

/* Reads "16M", "1.5G", "8", with an optional final B or iB. -EINVAL when it is no size,
 * -ERANGE when it is negative or does not fit. */
int byte_size_parse(uint64_t *out_bytes, const char *text, struct err *e);

/* "16 MiB", "1.5 GiB", "800 B" into `buf`; returns `buf`. 16 bytes are enough. */
char *byte_size_format(char *buf, size_t len, uint64_t bytes);

#endif
