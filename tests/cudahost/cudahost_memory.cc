/* cudahost_memory - the memory that the detectors know: device and pinned buffers, shared arrays,
 * arguments. With the race detector it also knows which bytes were written. */
#include "cudahost.h"
#include "cudahost_internal.h"

#include <stdarg.h>
#include <sys/mman.h>

enum { REGIONS_MAX = 1 << 14, ALIGNMENT = 256 };

struct region {
    uintptr_t begin;
    size_t bytes;
    memory_kind kind;
    unsigned char *written; /* one per byte; NULL: not watched */
};

/* Sorted by address. It is no container, since fibers would allocate and free its nodes unordered.
 */
static region regions[REGIONS_MAX];
static size_t region_count, device_bytes;
/* It is not a mutex: the race detector would take that as an order of the program's. */
static bool locked;

/* Locks the table, and hides its accesses by memmove() and so on, which the detector sees. */
struct guard {
    guard()
    {
        if (AnnotateIgnoreWritesBegin) {
            AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
            AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
        }
        while (__atomic_test_and_set(&locked, __ATOMIC_ACQUIRE))
            ;
    }
    ~guard()
    {
        __atomic_clear(&locked, __ATOMIC_RELEASE);
        if (AnnotateIgnoreWritesBegin) {
            AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
            AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
        }
    }
};

void cudahost_stop(const char *place, const char *format, ...)
{
    char text[600];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    fflush(stdout);
    fprintf(stderr, "cudahost: %s: %s\n", place, text);
    _exit(CUDAHOST_STATUS);
}

const char *cudahost_place(void *pc)
{
    static char place[400];
    snprintf(place, sizeof place, "%p", pc);
    if (__sanitizer_symbolize_pc)
        __sanitizer_symbolize_pc((char *)pc - 1, "%s:%l", place, sizeof place);
    return place;
}

/* ---- regions -------------------------------------------------------------------------------- */
/* Returns the number of regions that begin at or before p. */
static size_t count_before(uintptr_t p)
{
    size_t low = 0, high = region_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (regions[middle].begin <= p)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Returns the region that contains p, or NULL. */
static region *find(const void *p)
{
    size_t n = count_before((uintptr_t)p);
    region *r = n ? &regions[n - 1] : NULL;
    return r && (uintptr_t)p - r->begin < r->bytes ? r : NULL;
}

void *memory_new(memory_kind kind, size_t bytes)
{
    void *p = NULL;
    if (posix_memalign(&p, ALIGNMENT, bytes ? bytes : 1) != 0 || !p)
        return NULL;
    memset(p, 0xff, bytes);
    region r = {(uintptr_t)p, bytes, kind, NULL};
    if (__tsan_create_fiber && (kind == MEMORY_DEVICE || kind == MEMORY_SHARED) && bytes)
        r.written = (unsigned char *)mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    guard g;
    if (region_count == REGIONS_MAX)
        cudahost_stop("memory", "more than %d buffers", REGIONS_MAX);
    size_t at = count_before(r.begin);
    memmove(&regions[at + 1], &regions[at], (region_count++ - at) * sizeof r);
    regions[at] = r;
    device_bytes += kind == MEMORY_DEVICE ? bytes : 0;
    return p;
}

void memory_free(void *p)
{
    {
        guard g;
        size_t n = count_before((uintptr_t)p);
        if (n == 0 || regions[n - 1].begin != (uintptr_t)p)
            cudahost_stop("memory", "%p is freed and was not allocated", p);
        region r = regions[n - 1];
        device_bytes -= r.kind == MEMORY_DEVICE ? r.bytes : 0;
        if (r.written)
            munmap(r.written, r.bytes);
        memmove(&regions[n - 1], &regions[n], (region_count-- - n) * sizeof r);
    }
    free(p);
}

bool memory_is(memory_kind kind, const void *p, size_t bytes)
{
    guard g;
    region *r = find(p);
    return r && r->kind == kind && (uintptr_t)p - r->begin + bytes <= r->bytes;
}

size_t memory_used(void)
{
    guard g;
    return device_bytes;
}

/* ---- accesses ------------------------------------------------------------------------------- */
/* Returns what is wrong with an access of the program to a region, or NULL. */
static const char *fault_of(const region *r, const void *p, size_t bytes, bool writes)
{
    if (r->kind == MEMORY_DEVICE && !kernel_is_running())
        return writes ? "the host writes device memory" : "the host reads device memory";
    size_t at = (uintptr_t)p - r->begin, end = at + bytes < r->bytes ? at + bytes : r->bytes;
    if (!r->written)
        return NULL;
    if (writes)
        memset(r->written + at, 1, end - at);
    else if (memchr(r->written + at, 0, end - at))
        return r->kind == MEMORY_SHARED ? "it reads shared memory that nothing has written"
                                        : "it reads device memory that nothing has written";
    return NULL;
}

bool memory_access(void *pc, const void *p, size_t bytes, bool writes)
{
    const char *fault = NULL;
    bool is_known;
    {
        guard g;
        const region *r = find(p);
        is_known = r != NULL;
        fault = r ? fault_of(r, p, bytes, writes) : NULL;
    }
    if (fault)
        cudahost_stop(cudahost_place(pc), "%s, %zu bytes at %p", fault, bytes, p);
    return is_known;
}

void cudahost_atomic(const void *p, size_t bytes)
{
    memory_access(CALLER, p, bytes, false);
}

/* A range that a library call touches. */
static void touch(void *pc, const char *what, const void *p, size_t bytes, bool writes)
{
    if (__asan_region_is_poisoned && __asan_region_is_poisoned((void *)p, bytes))
        cudahost_stop(cudahost_place(pc), "%s %s %zu bytes beyond the end of a buffer", what,
                      writes ? "writes" : "reads", bytes);
    if (writes && __tsan_write_range)
        __tsan_write_range((void *)p, bytes);
    if (!writes && __tsan_read_range)
        __tsan_read_range((void *)p, bytes);
    guard g;
    region *r = find(p);
    if (!r || !r->written)
        return;
    unsigned char *w = r->written + ((uintptr_t)p - r->begin);
    if (writes)
        memset(w, 1, bytes);
    else if (memchr(w, 0, bytes))
        cudahost_stop(cudahost_place(pc), "%s reads device memory that nothing has written", what);
}

static void touch_matrix(void *pc, const char *what, memory_matrix m, bool writes)
{
    if (m.rows == 0 || m.columns == 0)
        return;
    size_t all = ((m.columns - 1) * m.ld + m.rows) * m.element;
    if (!memory_is(MEMORY_DEVICE, m.p, all))
        cudahost_stop(cudahost_place(pc),
                      "%s %s %zu x %zu elements, %zu apart, beyond the end of a "
                      "device buffer",
                      what, writes ? "writes" : "reads", m.rows, m.columns, m.ld);
    for (size_t i = 0; i < m.columns; i++)
        touch(pc, what, (const char *)m.p + i * m.ld * m.element, m.rows * m.element, writes);
}

void memory_reads(void *pc, const char *what, memory_matrix m)
{
    touch_matrix(pc, what, m, false);
}

void memory_writes(void *pc, const char *what, memory_matrix m)
{
    touch_matrix(pc, what, m, true);
}

/* The bytes of a copy may be unwritten: a copy of them is, too. */
static unsigned char *written_of(const void *p)
{
    region *r = find(p);
    return r && r->written ? r->written + ((uintptr_t)p - r->begin) : NULL;
}

/* The sanitizers' memmove() and memset() see both ranges. */
void memory_copy(void *to, const void *from, size_t bytes)
{
    memmove(to, from, bytes);
    guard g;
    unsigned char *source = written_of(from), *target = written_of(to);
    if (target && source)
        memcpy(target, source, bytes);
    else if (target)
        memset(target, 1, bytes);
}

void memory_fill(void *to, int value, size_t bytes)
{
    memset(to, value, bytes);
    guard g;
    if (unsigned char *w = written_of(to))
        memset(w, 1, bytes);
}
