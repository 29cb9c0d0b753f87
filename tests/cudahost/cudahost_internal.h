/* cudahost_internal - the parts of cudahost among themselves: the detector, memory, and streams.
 *
 * These files are compiled without sanitizers, since their own accesses are not the program's. What
 * the program's calls read and write is told to the detectors by memory_reads() and so on. */
#pragma once

#include <cuda_runtime.h>
#include <functional>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the sanitizers' interface: null if they are absent
 * ------------------------------------------ */
extern "C" {
#pragma weak __tsan_create_fiber
#pragma weak __tsan_destroy_fiber
#pragma weak __tsan_switch_to_fiber
#pragma weak __tsan_get_current_fiber
#pragma weak __tsan_acquire
#pragma weak __tsan_release
#pragma weak __tsan_func_entry
#pragma weak __tsan_func_exit
#pragma weak __tsan_read_range
#pragma weak __tsan_write_range
#pragma weak AnnotateIgnoreReadsBegin
#pragma weak AnnotateIgnoreReadsEnd
#pragma weak AnnotateIgnoreWritesBegin
#pragma weak AnnotateIgnoreWritesEnd
#pragma weak __asan_region_is_poisoned
#pragma weak __sanitizer_start_switch_fiber
#pragma weak __sanitizer_finish_switch_fiber
#pragma weak __sanitizer_symbolize_pc
void *__tsan_create_fiber(unsigned);
void __tsan_destroy_fiber(void *);
void __tsan_switch_to_fiber(void *, unsigned);
void *__tsan_get_current_fiber(void);
void __tsan_acquire(void *);
void __tsan_release(void *);
void __tsan_func_entry(void *);
void __tsan_func_exit(void);
void __tsan_read_range(void *, unsigned long);
void __tsan_write_range(void *, unsigned long);
void AnnotateIgnoreReadsBegin(const char *, int);
void AnnotateIgnoreReadsEnd(const char *, int);
void AnnotateIgnoreWritesBegin(const char *, int);
void AnnotateIgnoreWritesEnd(const char *, int);
void *__asan_region_is_poisoned(void *, size_t);
void __sanitizer_start_switch_fiber(void **, const void *, size_t);
void __sanitizer_finish_switch_fiber(void *, const void **, size_t *);
void __sanitizer_symbolize_pc(void *, const char *, char *, size_t);
}

/* ---- order, for the race detector
 * ---------------------------------------------------------------- */
/* What a thread did before it released is before what another one does after it acquired. */
struct order {
    uint64_t unused;
};
static inline void order_acquire(order *o)
{
    if (__tsan_acquire && o)
        __tsan_acquire(o);
}
static inline void order_release(order *o)
{
    if (__tsan_release && o)
        __tsan_release(o);
}
/* A thread to the detector. `null` without one. */
static inline void *fiber_new(void)
{
    return __tsan_create_fiber ? __tsan_create_fiber(0) : NULL;
}
static inline void *fiber_now(void)
{
    return __tsan_get_current_fiber ? __tsan_get_current_fiber() : NULL;
}
static inline void fiber_enter(void *fiber)
{
    if (fiber)
        __tsan_switch_to_fiber(fiber, 1);
}

/* ---- memory: cudahost_memory.cc
 * ------------------------------------------------------------------ */
enum memory_kind { MEMORY_DEVICE, MEMORY_PINNED, MEMORY_SHARED, MEMORY_ARGUMENTS };

/* Returns memory with exact bounds, filled with 0xff. NULL: not enough. */
void *memory_new(memory_kind kind, size_t bytes);
void memory_free(void *p);
/* Returns true if p[0] ... p[bytes - 1] are in one allocation of this kind. */
bool memory_is(memory_kind kind, const void *p, size_t bytes);
/* Returns the number of bytes of device memory in use. */
size_t memory_used(void);
/* An access of the program. Ends it if the memory belongs to the other side, or was not written.
 * Returns false if p is in no allocation of this kind of memory. */
bool memory_access(void *pc, const void *p, size_t bytes, bool writes);
/* Copies; the detectors see both ranges. */
void memory_copy(void *to, const void *from, size_t bytes);
void memory_fill(void *to, int value, size_t bytes);

/* A matrix of `columns` columns of `rows` elements, `ld` elements apart, that a library call at
 * `pc` reads or writes in device memory. Ends the program if it leaves its allocation. */
struct memory_matrix {
    const void *p;
    size_t element, rows, columns, ld;
};
void memory_reads(void *pc, const char *what, memory_matrix m);
void memory_writes(void *pc, const char *what, memory_matrix m);

/* Ends the program: PLACE: TEXT. The status is that of a race. */
enum { CUDAHOST_STATUS = 66 };
[[noreturn]] void cudahost_stop(const char *place, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* "FILE:LINE" of the code at pc, if a sanitizer's runtime can tell. Valid until the next call. */
const char *cudahost_place(void *pc);

/* ---- kernels: cudahost_kernel.cc
 * ----------------------------------------------------------------- */
/* Returns true if the caller is a CUDA thread. */
bool kernel_is_running(void);
/* Returns true if p is on the stack of the running CUDA thread. */
bool kernel_owns(const void *p);

/* ---- streams: cudahost_stream.cc
 * ----------------------------------------------------------------- */
/* Does the work on the stream, in the stream's order; pc: the caller, for reports. */
void stream_do(cudaStream_t s, void *pc, const std::function<void()> &work);
void stream_set_error(cudaError_t e);
/* The caller of the function of CUDA that contains this. */
#define CALLER __builtin_return_address(0)
