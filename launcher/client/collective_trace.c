#include "launcher/client/collective_trace.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/mem.h"

static struct collective_trace_comm *mapped; /* this rank's part, until the process exits */

static void map_part(void)
{
    const char *text = getenv("DROVER_NOTES");
    const char *colon = text ? strrchr(text, ':') : NULL;
    char path[64];
    if (!colon || colon - text >= (ptrdiff_t)sizeof path)
        return;
    snprintf(path, sizeof path, "%.*s", (int)(colon - text), text);
    AUTO(fd) int fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY);
    struct stat st;
    size_t bytes = COLLECTIVE_TRACE_RANK_BYTES;
    off_t at = (off_t)((size_t)strtoul(colon + 1, NULL, 10) * bytes);
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_size < at + (off_t)bytes)
        return;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, at);
    mapped = p == MAP_FAILED ? NULL : p;
}

struct collective_trace_comm *collective_trace_open(const struct collective_trace_words *words,
                                                    const char *name, int rank, int size)
{
    if (!mapped)
        map_part();
    for (int i = 0; mapped && i < COLLECTIVE_TRACE_COMMS; i++) {
        struct collective_trace_comm *t = &mapped[i];
        uint32_t unowned = 0; /* claimed atomically, since a rank may have several processes */
        if (!atomic_compare_exchange_strong(&t->owner, &unowned, (uint32_t)getpid()))
            continue;
        t->rank = rank;
        t->size = size;
        snprintf(t->name, sizeof t->name, "%s", name);
        t->words = *words;
        t->magic = COLLECTIVE_TRACE_MAGIC;
        return t;
    }
    return NULL;
}

void collective_trace_close(struct collective_trace_comm *t)
{
    if (!t || atomic_load(&t->failed))
        return;
    t->magic = 0;
    const size_t from = offsetof(struct collective_trace_comm, calls);
    memset((char *)t + from, 0, offsetof(struct collective_trace_comm, ring) - from);
    atomic_store_explicit(&t->owner, 0, memory_order_release);
}

/* Relaxed: only this process stores. */
static uint64_t load(const _Atomic uint64_t *x)
{
    return atomic_load_explicit(x, memory_order_relaxed);
}

static void store(_Atomic uint64_t *x, uint64_t value)
{
    atomic_store_explicit(x, value, memory_order_release);
}

void collective_trace_pending(struct collective_trace_comm *t)
{
    if (!t)
        return;
    int64_t now_ms = clock_coarse_ms();
    uint64_t seq = load(&t->begun.seq);
    if (t->begun.nth)
        store(&t->nth, t->begun.nth);
    struct collective_trace_call *c = &t->ring[seq % COLLECTIVE_TRACE_CALLS];
    store(&c->seq, 0);
    atomic_thread_fence(memory_order_release);
    c->nth = t->begun.nth;
    c->count = t->begun.count;
    c->called_ms = now_ms;
    c->coll = t->begun.coll;
    c->type = t->begun.type;
    c->op = t->begun.op;
    c->root = t->begun.root;
    store(&c->seq, seq);
    /* The time is stored before `calls`, so that a reader does not use the old time for this
     * call. */
    if (load(&t->done) + 1 == seq)
        atomic_store_explicit(&t->since_ms, now_ms, memory_order_release);
    store(&t->calls, seq);
}

void collective_trace_refused(struct collective_trace_comm *t)
{
    if (t)
        store(&t->begun.seq, 0);
}

void collective_trace_done(struct collective_trace_comm *t, int64_t now_ms)
{
    if (!t)
        return;
    uint64_t end = load(&t->calls);
    if (load(&t->done) == end)
        return;
    int64_t waited_ms = atomic_load_explicit(&t->waited_ms, memory_order_relaxed) + now_ms -
                        atomic_load_explicit(&t->since_ms, memory_order_relaxed);
    store(&t->done, end);
    atomic_store_explicit(&t->waited_ms, waited_ms, memory_order_release);
    atomic_store_explicit(&t->since_ms, now_ms, memory_order_release);
}

void collective_trace_failed(struct collective_trace_comm *t, int error)
{
    if (t)
        atomic_store_explicit(&t->failed, error, memory_order_release);
}
