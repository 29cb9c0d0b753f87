/* cudahost_access - sees each access of a program that is compiled with -fsanitize=thread: the
 * functions that the compiler calls, instead of the runtime's, which they call in turn. */
#include "cudahost_internal.h"

extern "C" {
extern char __executable_start, _end; /* of the linker: the program's own data lies between */
const char *__tsan_locate_address(uintptr_t, char *, size_t, uintptr_t *, size_t *);
}

/* Returns true for a heap or a stack that is the host's. */
static bool is_host(const void *p)
{
    char name[2];
    uintptr_t begin;
    size_t bytes;
    if (kernel_owns(p) || (p >= &__executable_start && p < &_end))
        return false;
    const char *kind = __tsan_locate_address((uintptr_t)p, name, sizeof name, &begin, &bytes);
    return strcmp(kind, "heap") == 0 || strcmp(kind, "stack") == 0;
}

static void see(void *pc, const void *p, size_t bytes, bool writes)
{
    if (!memory_access(pc, p, bytes, writes) && kernel_is_running() && is_host(p))
        cudahost_stop(cudahost_place(pc), "a kernel %s memory of the host, %zu bytes at %p",
                      writes ? "writes" : "reads", bytes, p);
}

extern "C" {
#define ACCESS(bytes)                                 \
    void __tsan_read##bytes##_pc(void *p, void *pc);  \
    void __tsan_write##bytes##_pc(void *p, void *pc); \
    void __tsan_read##bytes(void *p)                  \
    {                                                 \
        see(CALLER, p, bytes, false);                 \
        __tsan_read##bytes##_pc(p, CALLER);           \
    }                                                 \
    void __tsan_write##bytes(void *p)                 \
    {                                                 \
        see(CALLER, p, bytes, true);                  \
        __tsan_write##bytes##_pc(p, CALLER);          \
    }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)
}
