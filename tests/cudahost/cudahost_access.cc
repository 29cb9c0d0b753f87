/* cudahost_access - sees each access of a program that is compiled with -fsanitize=thread: the
 * functions that the compiler calls, instead of the runtime's, which they call in turn. */
#include "cudahost_internal.h"

extern "C" {
#define ACCESS(bytes)                                 \
    void __tsan_read##bytes##_pc(void *p, void *pc);  \
    void __tsan_write##bytes##_pc(void *p, void *pc); \
    void __tsan_read##bytes(void *p)                  \
    {                                                 \
        memory_access(CALLER, p, bytes, false);       \
        __tsan_read##bytes##_pc(p, CALLER);           \
    }                                                 \
    void __tsan_write##bytes(void *p)                 \
    {                                                 \
        memory_access(CALLER, p, bytes, true);        \
        __tsan_write##bytes##_pc(p, CALLER);          \
    }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)
}
