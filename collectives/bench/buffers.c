#include "collectives/bench/buffers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct buffers {
    const struct backend *backend;
    struct backend_comm *inner;
    int rank;
    void *raw[2];      /* the backend's memory, possibly on a GPU … */
    char *in, *out;    /* … after the first guard */
    char *table, *got; /* host memory, one period of elements each */
    uint64_t seed;
    size_t *parts; /* for an alltoallv: counts and starts of the parts that are sent, then of those
                      that are received; each list has one entry per rank */
    struct traffic_call parts_of;
    struct drover_parts send, recv;
};

/* Fills `bytes` of the backend's memory with repetitions of the first `period_bytes` of
 * b->table. */
static int fill(struct buffers *b, char *to, size_t period_bytes, size_t bytes, struct err *e)
{
    int rc = 0;
    if (b->backend->fill)
        return b->backend->fill(b->inner, to, b->table, period_bytes, bytes, e);
    for (size_t at = 0; at < bytes && rc == 0; at += period_bytes) {
        size_t part = bytes - at < period_bytes ? bytes - at : period_bytes;
        rc = b->backend->copy_in(b->inner, to + at, b->table, part, e);
    }
    return rc;
}

int buffers_open(struct buffers **out, const struct backend *backend, struct backend_comm *inner,
                 const struct buffers_opts *o, struct err *e)
{
    AUTO(buffers) struct buffers *b = xzalloc(sizeof *b);
    *b = (struct buffers){.backend = backend, .inner = inner, .rank = o->rank};
    size_t period = VERIFY_PERIOD * sizeof(double);
    size_t bytes = o->max_bytes + o->shift_bytes + 2 * BUFFERS_GUARD;
    b->table = xzalloc(period);
    b->got = xzalloc(period);
    for (int i = 0; i < 2; i++) {
        int rc = backend->mem_alloc(inner, bytes, o->memory, &b->raw[i], e);
        if (rc == 0) /* touches all pages, so that no timed call does */
            rc = fill(b, b->raw[i], period, bytes, e);
        if (rc < 0)
            return rc;
    }
    buffers_shift(b, 0);
    *out = TAKE(b);
    return 0;
}

void buffers_shift(struct buffers *b, size_t bytes)
{
    b->in = (char *)b->raw[0] + BUFFERS_GUARD + bytes;
    b->out = (char *)b->raw[1] + BUFFERS_GUARD + bytes;
}

void buffers_close(struct buffers *b)
{
    if (!b)
        return;
    for (int i = 0; i < 2; i++)
        if (b->raw[i])
            b->backend->mem_free(b->inner, b->raw[i]);
    free(b->table);
    free(b->got);
    free(b->parts);
    free(b);
}

/* Returns true if input and output share a buffer. Collectives without a form in place keep two
 * buffers: MPI does not allow them to overlap. */
static bool shares_buffer(const struct buffers_run *r)
{
    return r->in_place && collective_in_place(r->v.coll);
}

/* Returns the start of this rank's output. */
static char *output(const struct buffers *b, const struct buffers_run *r)
{
    return b->out + (shares_buffer(r) ? (size_t)b->rank * r->shape.out_stride : 0);
}

static char *input(const struct buffers *b, const struct buffers_run *r)
{
    return shares_buffer(r) ? b->out + (size_t)b->rank * r->shape.in_stride : b->in;
}

/* Returns the end of the memory to which the call may write. */
static char *end(const struct buffers *b, const struct buffers_run *r)
{
    return b->out + (shares_buffer(r) ? r->shape.bytes : r->shape.out_bytes);
}

/* Computes the parts of an alltoallv, unless they are the same as in the previous call. */
static void compute_parts(struct buffers *b, const struct buffers_run *r)
{
    const struct traffic_call c = verify_traffic(&r->v, r->shape.count);
    const struct traffic_call *of = &b->parts_of;
    if (b->parts && of->traffic == c.traffic && of->ranks == c.ranks && of->element == c.element &&
        of->count == c.count)
        return;
    size_t n = (size_t)c.ranks;
    size_t *counts = b->parts = xrealloc(b->parts, 4 * n, sizeof *b->parts);
    size_t *starts = counts + n, *recv_counts = starts + n, *recv_starts = recv_counts + n;
    for (int i = 0; i < c.ranks; i++) {
        counts[i] = traffic_count(&c, b->rank, i);
        starts[i] = i ? starts[i - 1] + counts[i - 1] : 0;
        recv_counts[i] = traffic_count(&c, i, b->rank);
        recv_starts[i] = i ? recv_starts[i - 1] + recv_counts[i - 1] : 0;
    }
    b->parts_of = c;
    b->send = (struct drover_parts){counts, starts};
    b->recv = (struct drover_parts){recv_counts, recv_starts};
}

struct backend_call buffers_call(struct buffers *b, const struct buffers_run *r, size_t shift)
{
    if (collective_row(r->v.coll)->in == COLLECTIVE_VARYING)
        compute_parts(b, r);
    return (struct backend_call){
        .coll = r->v.coll,
        .in = input(b, r) + shift,
        .out = output(b, r) + shift,
        .count = r->shape.count,
        .type = r->v.type,
        .op = r->v.op,
        .root = r->v.root,
        .send = &b->send,
        .recv = &b->recv,
    };
}

/* Fills `bytes` of memory and both guards with poison. */
static int poison(struct buffers *b, char *p, size_t bytes, struct err *e)
{
    size_t period = VERIFY_PERIOD * sizeof(double);
    memset(b->table, VERIFY_POISON, period);
    return fill(b, p - BUFFERS_GUARD, period, bytes + 2 * BUFFERS_GUARD, e);
}

int buffers_prepare(struct buffers *b, struct buffers_run *r, struct err *e)
{
    size_t element = backend_type_bytes(r->v.type);
    size_t period = VERIFY_PERIOD * element, n = r->shape.in_bytes / element;
    r->v.seed = ++b->seed;
    int rc = poison(b, b->out, (size_t)(end(b, r) - b->out), e);
    if (rc == 0 && !shares_buffer(r))
        rc = poison(b, b->in, r->shape.in_bytes, e);
    if (rc < 0)
        return rc;
    verify_input(&r->v, b->rank, b->table, n < VERIFY_PERIOD ? n : VERIFY_PERIOD);
    return fill(b, input(b, r), period, r->shape.in_bytes, e);
}

/* A block of the output. Its expected values, one period of them, are in b->table. */
struct block {
    int number;
    const char *from;
    size_t start, n, period; /* elements; `start` counts from the begin of the output */
};

static struct block block_of(const struct buffers *b, const struct buffers_run *r, int number)
{
    size_t element = backend_type_bytes(r->v.type);
    struct block k = {.number = number};
    k.n = r->shape.out_bytes / element / (size_t)verify_blocks(&r->v);
    k.start = k.n * (size_t)number;
    if (collective_row(r->v.coll)->out == COLLECTIVE_VARYING) {
        const struct traffic_call c = verify_traffic(&r->v, r->shape.count);
        k.n = traffic_count(&c, number, b->rank);
        k.start = traffic_recv_start(&c, b->rank, number);
    }
    k.period = k.n < VERIFY_PERIOD ? k.n : VERIFY_PERIOD;
    k.from = output(b, r) + k.start * element;
    return k;
}

/* Compares on the host from element `at` on, and adds the first wrong ones to w->first. Ends early
 * when *left wrong elements were found; subtracts them. */
static int check_on_host(struct buffers *b, const struct buffers_run *r, const struct block *k,
                         size_t at, uint64_t *left, struct buffers_wrong *w, struct err *e)
{
    size_t element = backend_type_bytes(r->v.type);
    int rc = 0;
    for (; at<k->n && * left> 0 && rc == 0; at += k->period) {
        size_t part = k->n - at < k->period ? k->n - at : k->period;
        rc = b->backend->copy_out(b->inner, b->got, k->from + at * element, part * element, e);
        uint64_t wrong = rc == 0 ? verify_wrong(&r->v, b->got, b->table, part) : 0;
        *left -= wrong < *left ? wrong : *left;
        if (wrong && (w->first.n == 0 || w->first.block == k->number)) {
            w->first.block = k->number;
            verify_find(&r->v, &w->first, b->got, b->table, at, part);
            w->index = k->start + w->first.at[0];
        }
    }
    return rc;
}

/* The device counts, if it can; the host then looks for the first wrong elements only. */
static int check_block(struct buffers *b, const struct buffers_run *r, int number,
                       struct buffers_wrong *w, struct err *e)
{
    struct block k = block_of(b, r, number);
    verify_expected(&r->v, b->rank, number, r->shape.count, b->table, k.period);
    const struct backend_compare compare = {.got = k.from,
                                            .pattern = b->table,
                                            .element = backend_type_bytes(r->v.type),
                                            .period = k.period,
                                            .n = k.n,
                                            .ulps = verify_ulps(&r->v)};
    struct backend_difference found;
    int rc = k.n == 0              ? 0
             : b->backend->compare ? b->backend->compare(b->inner, &compare, &found, e)
                                   : -ENOTSUP;
    if (k.n == 0 || (rc < 0 && rc != -ENOTSUP))
        return rc;
    uint64_t left = UINT64_MAX;
    if (rc == -ENOTSUP) {
        rc = check_on_host(b, r, &k, 0, &left, w, e);
        w->elements += UINT64_MAX - left;
        return rc;
    }
    w->elements += found.count;
    if (found.count == 0 || w->first.n > 0)
        return 0;
    left = found.count < VERIFY_SOME ? found.count : VERIFY_SOME;
    return check_on_host(b, r, &k, found.first - found.first % k.period, &left, w, e);
}

/* Checks a guard. Begins with the byte next to the buffer. */
static int check_guard(struct buffers *b, const char *p, enum buffers_side side,
                       struct buffers_wrong *w, struct err *e)
{
    unsigned char guard[BUFFERS_GUARD];
    bool begin = side == BUFFERS_OUT_BEGIN || side == BUFFERS_IN_BEGIN;
    int rc = b->backend->copy_out(b->inner, guard, begin ? p - BUFFERS_GUARD : p, sizeof guard, e);
    for (int i = 0; i < BUFFERS_GUARD && rc == 0; i++)
        if (guard[begin ? BUFFERS_GUARD - 1 - i : i] != VERIFY_POISON && w->canaries++ == 0) {
            w->side = side;
            w->canary_bytes = i + 1;
        }
    return rc;
}

int buffers_check(struct buffers *b, const struct buffers_run *r, struct buffers_wrong *out,
                  struct err *e)
{
    memset(out, 0, sizeof *out); /* the struct is sent with its padding */
    bool has_output = collective_writes(r->v.coll, b->rank, r->v.root);
    int rc = 0;
    for (int block = 0; has_output && block < verify_blocks(&r->v) && rc == 0; block++)
        rc = check_block(b, r, block, out, e);
    if (rc == 0)
        rc = check_guard(b, end(b, r), BUFFERS_OUT_END, out, e);
    if (rc == 0)
        rc = check_guard(b, b->out, BUFFERS_OUT_BEGIN, out, e);
    if (rc == 0 && !shares_buffer(r))
        rc = check_guard(b, b->in + r->shape.in_bytes, BUFFERS_IN_END, out, e);
    if (rc == 0 && !shares_buffer(r))
        rc = check_guard(b, b->in, BUFFERS_IN_BEGIN, out, e);
    if (rc == 0 && out->elements)
        out->diagnosis = verify_diagnose(&r->v, &out->first, b->rank, r->shape.count);
    return rc;
}

int buffers_inject(struct buffers *b, const struct buffers_run *r, enum buffers_fault fault,
                   size_t at, struct err *e)
{
    size_t element = backend_type_bytes(r->v.type);
    char bytes[sizeof(double)] = "faulty";
    if (fault == BUFFERS_WRITE_BEFORE || fault == BUFFERS_WRITE_AFTER) {
        char *p = fault == BUFFERS_WRITE_AFTER ? end(b, r) + at - 1 : b->out - at;
        return at > 0 && at <= BUFFERS_GUARD ? b->backend->copy_in(b->inner, p, bytes, 1, e) : 0;
    }
    if (fault == BUFFERS_NO_INPUT) {
        memset(b->table, 0, VERIFY_PERIOD * sizeof(double));
        return fill(b, input(b, r), VERIFY_PERIOD * sizeof(double), r->shape.in_bytes, e);
    }
    if (at >= r->shape.out_bytes / element)
        return 0;
    char *element_at = output(b, r) + at * element;
    int rc = b->backend->copy_out(b->inner, bytes, element_at, element, e);
    bytes[element - 1] ^= 0x40; /* in a float's exponent, beyond any tolerance */
    return rc < 0 ? rc : b->backend->copy_in(b->inner, element_at, bytes, element, e);
}
