#include "common/no_memory.h"

#include <jansson.h>
#include <stdlib.h>
#include <uv.h>

#include "common/mem.h"

static void *allocate(size_t size)
{
    return xrealloc(NULL, 1, size);
}

static void *reallocate(void *p, size_t size)
{
    return xrealloc(p, 1, size);
}

void no_memory_exits(void)
{
    json_set_alloc_funcs(allocate, free);
    (void)uv_replace_allocator(allocate, reallocate, xcalloc, free); /* fails only without these */
}
