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

static struct collective_trace_comm *mapped; /* this rank's, for the life of the process */

static void map_mine(void)
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
        map_mine();
    for (int i = 0; mapped && i < COLLECTIVE_TRACE_COMMS; i++) {
        struct collective_trace_comm *n = &mapped[i];
        uint32_t nobody = 0; /* the rank may be several processes */
        if (!atomic_compare_exchange_strong(&n->owner, &nobody, (uint32_t)getpid()))
            continue;
        n->rank = rank;
        n->size = size;
        snprintf(n->name, sizeof n->name, "%s", name);
        n->words = *words;
        n->magic = COLLECTIVE_TRACE_MAGIC;
        return n;
    }
    return NULL;
}

void collective_trace_close(struct collective_trace_comm *n)
{
    if (!n || atomic_load(&n->failed))
        return;
    n->magic = 0;
    atomic_store(&n->calls, 0);
    atomic_store(&n->done, 0);
    atomic_store(&n->nth, 0);
    atomic_store(&n->begun.seq, 0);
    atomic_store(&n->since_ms, 0);
    atomic_store(&n->failed, 0);
    atomic_store_explicit(&n->owner, 0, memory_order_release);
}

/* This process is the only one that stores. */
static uint64_t mine(const _Atomic uint64_t *x)
{
    return atomic_load_explicit(x, memory_order_relaxed);
}

static void say(_Atomic uint64_t *x, uint64_t value)
{
    atomic_store_explicit(x, value, memory_order_release);
}

void collective_trace_pending(struct collective_trace_comm *n)
{
    if (!n)
        return;
    int64_t now_ms = clock_coarse_ms();
    uint64_t seq = mine(&n->begun.seq);
    if (n->begun.nth)
        say(&n->nth, n->begun.nth);
    struct collective_trace_call *c = &n->ring[seq % COLLECTIVE_TRACE_CALLS];
    say(&c->seq, 0);
    atomic_thread_fence(memory_order_release);
    c->nth = n->begun.nth;
    c->count = n->begun.count;
    c->called_ms = now_ms;
    c->coll = n->begun.coll;
    c->type = n->begun.type;
    c->op = n->begun.op;
    c->root = n->begun.root;
    say(&c->seq, seq);
    if (mine(&n->done) + 1 == seq) /* before the number: it is not since the last was done */
        atomic_store_explicit(&n->since_ms, now_ms, memory_order_release);
    say(&n->calls, seq);
}

void collective_trace_refused(struct collective_trace_comm *n)
{
    if (n)
        say(&n->begun.seq, 0);
}

void collective_trace_done(struct collective_trace_comm *n, int64_t now_ms)
{
    if (!n)
        return;
    uint64_t end = mine(&n->calls);
    if (mine(&n->done) == end)
        return;
    say(&n->done, end);
    atomic_store_explicit(&n->since_ms, now_ms, memory_order_release);
}

void collective_trace_failed(struct collective_trace_comm *n, int error)
{
    if (n)
        atomic_store_explicit(&n->failed, error, memory_order_release);
}
