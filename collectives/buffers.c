#include "collectives/buffers.h"

#include <stdlib.h>
#include <string.h>

enum { GUARD_BYTES = 64, POISON = 0xa5 };

struct buffers {
    const struct backend *backend;
    struct backend_comm *inner;
    int rank;
    char *in, *out;    /* the backend's, which may be a GPU's */
    char *table, *got; /* the host's, one period of elements each */
    uint64_t seed;
    size_t *parts; /* counts and starts of an alltoallv of parts_count, for each rank */
    size_t parts_count;
    struct drover_parts v;
};

/* Gives `bytes` of the backend's memory the contents of `period`, again and again. */
static int fill(struct buffers *b, char *to, size_t period_bytes, size_t bytes, struct err *e)
{
    int rc = 0;
    for (size_t at = 0; at < bytes && rc == 0; at += period_bytes) {
        size_t part = bytes - at < period_bytes ? bytes - at : period_bytes;
        rc = b->backend->copy_in(b->inner, to + at, b->table, part, e);
    }
    return rc;
}

int buffers_open(struct buffers **out, const struct backend *backend, struct backend_comm *inner,
                 int rank, size_t max_bytes, struct err *e)
{
    AUTO(buffers) struct buffers *b = xzalloc(sizeof *b);
    *b = (struct buffers){.backend = backend, .inner = inner, .rank = rank};
    size_t period = VERIFY_PERIOD * sizeof(double), bytes = max_bytes + GUARD_BYTES;
    b->table = xzalloc(period);
    b->got = xzalloc(period);
    for (int i = 0; i < 2; i++) {
        void *p = NULL;
        int rc = backend->mem_alloc(inner, bytes, &p, e);
        if (rc < 0)
            return rc;
        *(i ? &b->out : &b->in) = p;
        rc = fill(b, p, period, bytes, e); /* no page is touched for the first time when timed */
        if (rc < 0)
            return rc;
    }
    *out = TAKE(b);
    return 0;
}

void buffers_close(struct buffers *b)
{
    if (!b)
        return;
    if (b->in)
        b->backend->mem_free(b->inner, b->in);
    if (b->out)
        b->backend->mem_free(b->inner, b->out);
    free(b->table);
    free(b->got);
    free(b->parts);
    free(b);
}

/* Where this rank's output begins. */
static char *output(const struct buffers *b, const struct buffers_run *r)
{
    return b->out + (r->in_place ? (size_t)b->rank * r->shape.out_stride : 0);
}

static char *input(const struct buffers *b, const struct buffers_run *r)
{
    return r->in_place ? b->out + (size_t)b->rank * r->shape.in_stride : b->in;
}

/* The end of all that the call may write. */
static char *end(const struct buffers *b, const struct buffers_run *r)
{
    return b->out + (r->in_place ? r->shape.bytes : r->shape.out_bytes);
}

static const struct drover_parts *parts(struct buffers *b, const struct buffers_run *r)
{
    int n = r->v.ranks;
    if (r->v.coll != BACKEND_ALL_TO_ALL_V || (b->parts && b->parts_count == r->shape.count))
        return &b->v;
    b->parts = xrealloc(b->parts, 2 * (size_t)n, sizeof *b->parts);
    b->parts_count = r->shape.count;
    for (int i = 0; i < n; i++) {
        b->parts[i] = busbw_v_count(r->shape.count, n, b->rank, i);
        b->parts[n + i] = busbw_v_start(r->shape.count, n, b->rank, i);
    }
    b->v = (struct drover_parts){b->parts, b->parts + n};
    return &b->v;
}

struct backend_call buffers_call(struct buffers *b, const struct buffers_run *r, size_t shift)
{
    return (struct backend_call){
        .coll = r->v.coll,
        .in = input(b, r) + shift,
        .out = output(b, r) + shift,
        .count = r->shape.count,
        .type = r->v.type,
        .op = r->v.op,
        .root = r->v.root,
        .send = parts(b, r), /* as many go to a rank as come from it */
        .recv = parts(b, r),
    };
}

int buffers_prepare(struct buffers *b, struct buffers_run *r, struct err *e)
{
    size_t element = backend_type_bytes(r->v.type);
    size_t period = VERIFY_PERIOD * element, n = r->shape.in_bytes / element;
    r->v.seed = ++b->seed;
    memset(b->table, POISON, period);
    int rc = fill(b, b->out, period, (size_t)(end(b, r) - b->out) + GUARD_BYTES, e);
    if (rc < 0)
        return rc;
    verify_input(&r->v, b->rank, b->table, n < VERIFY_PERIOD ? n : VERIFY_PERIOD);
    return fill(b, input(b, r), period, r->shape.in_bytes, e);
}

static int block_wrong(struct buffers *b, const struct buffers_run *r, int block, uint64_t *wrong,
                       struct err *e)
{
    size_t element = backend_type_bytes(r->v.type);
    size_t n = r->shape.out_bytes / element / (size_t)verify_blocks(&r->v),
           start = n * (size_t)block;
    if (r->v.coll == BACKEND_ALL_TO_ALL_V) {
        n = busbw_v_count(r->shape.count, r->v.ranks, block, b->rank);
        start = busbw_v_start(r->shape.count, r->v.ranks, b->rank, block);
    }
    size_t period = n < VERIFY_PERIOD ? n : VERIFY_PERIOD;
    verify_expected(&r->v, b->rank, block, r->shape.count, b->table, period);
    const char *from = output(b, r) + start * element;
    for (size_t at = 0; at < n; at += period) {
        size_t part = n - at < period ? n - at : period;
        int rc = b->backend->copy_out(b->inner, b->got, from + at * element, part * element, e);
        if (rc < 0)
            return rc;
        *wrong += verify_wrong(&r->v, b->got, b->table, part);
    }
    return 0;
}

int buffers_wrong(struct buffers *b, const struct buffers_run *r, uint64_t *wrong, struct err *e)
{
    *wrong = 0;
    if ((r->v.coll == BACKEND_REDUCE || r->v.coll == BACKEND_GATHER) && b->rank != r->v.root)
        return 0; /* what it holds now is nobody's concern */
    int rc = 0;
    for (int block = 0; block < verify_blocks(&r->v) && rc == 0; block++)
        rc = block_wrong(b, r, block, wrong, e);
    unsigned char guard[GUARD_BYTES];
    if (rc == 0)
        rc = b->backend->copy_out(b->inner, guard, end(b, r), sizeof guard, e);
    for (int i = 0; i < GUARD_BYTES && rc == 0; i++)
        *wrong += guard[i] != POISON;
    return rc;
}

int buffers_spoil(struct buffers *b, const struct buffers_run *r, size_t at, struct err *e)
{
    size_t element = backend_type_bytes(r->v.type);
    if (at >= r->shape.out_bytes / element)
        return 0;
    char bytes[sizeof(double)], *place = output(b, r) + at * element;
    int rc = b->backend->copy_out(b->inner, bytes, place, element, e);
    bytes[element - 1] ^= 0x40; /* of a float's exponent, which no tolerance forgives */
    return rc < 0 ? rc : b->backend->copy_in(b->inner, place, bytes, element, e);
}
