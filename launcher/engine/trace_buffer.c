#include "launcher/engine/trace_buffer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/clock.h"
#include "launcher/client/collective_trace.h"

/* When a call was first read. A call that has not started yet has no time, so this time is used
 * instead. */
struct first_seen {
    uint64_t seq;
    int64_t seen_ms;
};

struct trace_buffer {
    int fd, ranks;
    char *bytes; /* COLLECTIVE_TRACE_RANK_BYTES per rank; NULL: not mapped yet */
    struct first_seen (*first_seen)[COLLECTIVE_TRACE_COMMS]; /* per rank */
};

static size_t size_of(int ranks)
{
    return (size_t)ranks * COLLECTIVE_TRACE_RANK_BYTES;
}

int trace_buffer_open(struct trace_buffer **out, int ranks, struct err *e)
{
    AUTO(fd) int fd = memfd_create("drover-notes", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, (off_t)size_of(ranks)) < 0)
        return err_set(e, -errno, "memory for the collective trace: %s", strerror(errno));
    /* A rank that shrinks the memory would cause a bus error here. */
    (void)fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    *out = xzalloc(sizeof **out);
    **out = (struct trace_buffer){.fd = fd_take(&fd), .ranks = ranks};
    (*out)->first_seen = xcalloc((size_t)ranks, sizeof *(*out)->first_seen);
    return 0;
}

void trace_buffer_close(struct trace_buffer *t)
{
    if (!t)
        return;
    if (t->bytes)
        munmap(t->bytes, size_of(t->ranks));
    close(t->fd);
    free(t->first_seen);
    free(t);
}

char *trace_buffer_env(const struct trace_buffer *t, int i)
{
    return xasprintf("/proc/%d/fd/%d:%d", (int)getpid(), t->fd, i);
}

static int64_t ms_between(int64_t then_ms, int64_t now_ms)
{
    return now_ms > then_ms ? now_ms - then_ms : 0;
}

/* Formats a call: "all_reduce of 1024 float, sum". The words come from the rank and may contain
 * any bytes. */
static void format_call(char out[COLLECTIVE_MISMATCH_WHAT_BYTES],
                        const struct collective_trace_call *c,
                        const struct collective_trace_words *w)
{
    AUTO(strbuf) struct strbuf b = {0};
    unsigned flags = w->colls[c->coll % COLLECTIVE_TRACE_COLLS].flags;
    strbuf_printf(&b, "%.14s", w->colls[c->coll % COLLECTIVE_TRACE_COLLS].name);
    if (flags & COLLECTIVE_TRACE_HAS_COUNT)
        strbuf_printf(&b, " of %llu %.15s", (unsigned long long)c->count, w->types[c->type % 16]);
    if (flags & COLLECTIVE_TRACE_HAS_OP)
        strbuf_printf(&b, ", %.7s", w->ops[c->op % 8]);
    if (flags & (COLLECTIVE_TRACE_HAS_ROOT | COLLECTIVE_TRACE_TO_PEER))
        strbuf_printf(&b, ", %s %d", flags & COLLECTIVE_TRACE_HAS_ROOT ? "root" : "rank", c->root);
    snprintf(out, COLLECTIVE_MISMATCH_WHAT_BYTES, "%s", strbuf_str(&b));
    for (char *p = out; *p; p++)
        if ((unsigned char)*p < ' ' || (unsigned char)*p > '~')
            *p = '?';
}

/* Copies call `seq`, from the ring, or from `begun` if it has not started yet. Returns false if
 * the rank has overwritten it, or does so during the copy. */
static bool copy_call(struct collective_trace_call *out, const struct collective_trace_comm *n,
                      uint64_t seq)
{
    const struct collective_trace_call *at = &n->ring[seq % COLLECTIVE_TRACE_CALLS];
    bool begun = atomic_load_explicit(&n->begun.seq, memory_order_acquire) == seq && seq > 0 &&
                 atomic_load_explicit(&n->calls, memory_order_acquire) == seq - 1;
    if (begun)
        *out = (struct collective_trace_call){.nth = n->begun.nth,
                                              .count = n->begun.count,
                                              .coll = n->begun.coll,
                                              .type = n->begun.type,
                                              .op = n->begun.op,
                                              .root = n->begun.root};
    else if (atomic_load_explicit(&at->seq, memory_order_acquire) == seq)
        memcpy(out, at, sizeof *out);
    else
        return false;
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(begun ? &n->begun.seq : &at->seq, memory_order_relaxed) == seq;
}

/* Reads the first unfinished call and a few before and after it. The numbers come from the rank
 * and may have any value. */
static void read_calls(struct collective_position *out, const struct collective_trace_comm *n,
                       uint64_t done, uint64_t end, int64_t since_done, int64_t seen_ms,
                       int64_t now_ms)
{
    uint64_t mid = done < end ? done + COLLECTIVE_MISMATCH_CALLS / 2 : end;
    mid = mid < end ? mid : end;
    uint64_t from = mid > COLLECTIVE_MISMATCH_CALLS ? mid - COLLECTIVE_MISMATCH_CALLS + 1 : 1;
    for (uint64_t k = 0; k < mid - from + 1 && out->count < COLLECTIVE_MISMATCH_CALLS; k++) {
        struct collective_mismatch_call *to = &out->calls[out->count];
        struct collective_trace_call c;
        if (!copy_call(&c, n, from + k))
            continue;
        to->nth = c.nth;
        to->done = from + k <= done;
        to->ms = ms_between(to->done ? since_done : c.called_ms ? c.called_ms : seen_ms, now_ms);
        format_call(to->what, &c, &n->words);
        out->count++;
    }
}

static void read_comm(struct collective_position *out, const struct collective_trace_comm *n,
                      struct first_seen *b, int64_t now_ms)
{
    uint64_t end = atomic_load(&n->calls), done = atomic_load(&n->done);
    int64_t since = atomic_load(&n->since_ms);
    *out = (struct collective_position){.size = n->size, .failed = atomic_load(&n->failed)};
    snprintf(out->comm, sizeof out->comm, "%.*s", COLLECTIVE_TRACE_NAME_BYTES - 1, n->name);
    uint64_t begun = atomic_load(&n->begun.seq);
    bool begins = begun && begun == end + 1;
    if (begins && b->seq != begun)
        *b = (struct first_seen){.seq = begun, .seen_ms = now_ms};
    if (!begins)
        b->seq = 0;
    if (done < end + begins)
        out->waits_ms = ms_between(done == end ? b->seen_ms : since, now_ms) + 1;
    read_calls(out, n, done, end + begins, since, b->seen_ms, now_ms);
}

/* Returns true if `a`, and not `b`, is the rank's position. A failed communicator counts less,
 * since the rank may have abandoned it long ago. */
static bool is_more_relevant(const struct collective_position *a,
                             const struct collective_position *b)
{
    int64_t a_waits = a->failed ? 0 : a->waits_ms, b_waits = b->failed ? 0 : b->waits_ms;
    if (!b->comm[0] || a_waits || b_waits)
        return !b->comm[0] || a_waits > b_waits;
    return a->count && (!b->count || a->calls[a->count - 1].ms < b->calls[b->count - 1].ms);
}

/* Returns true if the rank has written anything. Reading pages that it has not written would
 * allocate them. This needs memory, and for a short job of 64 ranks a tenth of its time. */
static bool has_written(const struct trace_buffer *t, int i)
{
    off_t data = lseek(t->fd, (off_t)size_of(i), SEEK_DATA);
    return data < 0 ? errno != ENXIO : data < (off_t)size_of(i + 1);
}

/* Maps the memory at the first call. Returns false if that fails. */
static bool map_memory(struct trace_buffer *t)
{
    void *p = t->bytes ? t->bytes : mmap(NULL, size_of(t->ranks), PROT_READ, MAP_SHARED, t->fd, 0);
    t->bytes = p == MAP_FAILED ? NULL : p;
    return t->bytes;
}

/* Adds to the totals at to->read_ms. */
static void add_totals(struct collective_position *to, const struct collective_trace_comm *n)
{
    uint64_t end = atomic_load(&n->calls), done = atomic_load(&n->done);
    to->calls_done += (int64_t)done;
    to->waited_ms += atomic_load(&n->waited_ms);
    if (done < end)
        to->waited_ms += ms_between(atomic_load(&n->since_ms), to->read_ms);
}

void trace_buffer_read(struct trace_buffer *t, int i, struct collective_position *out)
{
    struct collective_position total = {.read_ms = clock_coarse_ms()};
    *out = (struct collective_position){0};
    if (!t || !has_written(t, i) || !map_memory(t))
        return;
    const struct collective_trace_comm *all =
        (const struct collective_trace_comm *)(t->bytes + size_of(i));
    for (int k = 0; k < COLLECTIVE_TRACE_COMMS; k++) {
        const struct collective_trace_comm *c = &all[k];
        if (!atomic_load_explicit(&c->owner, memory_order_acquire) ||
            c->magic != COLLECTIVE_TRACE_MAGIC)
            continue;
        struct collective_position position;
        add_totals(&total, c);
        read_comm(&position, c, &t->first_seen[i][k], total.read_ms);
        if (is_more_relevant(&position, out))
            *out = position;
    }
    if (out->comm[0]) {
        out->calls_done = total.calls_done;
        out->waited_ms = total.waited_ms;
        out->read_ms = total.read_ms;
    }
}
