/* cpu_list - lists of CPUs or NUMA nodes ("0-3,8") as hwloc bitmaps.
 *
 * Uses only hwloc's bitmaps and not its topology discovery, which an agent does not link. */
#pragma once

#include <hwloc.h>

#include "common/err.h"
#include "common/mem.h"

/* Parses a list of numbers in the kernel's form ("0-3,8") into `set`, which is overwritten.
 *   -EINVAL  malformed, or a number exceeds 65,535; `set` is then unchanged */
int cpu_list_parse(hwloc_bitmap_t set, const char *text, struct err *e);

static inline void auto_bitmap(hwloc_bitmap_t *b)
{
    hwloc_bitmap_free(*b);
}
