#include "tests/conform/fixture.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

enum { GUARD = 64, POISON = 0xa5 };

void fixture_must(const struct fixture *k, int rc, const char *what)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "Bail out! rank %d of %d: %s: %s\n", k->rank, k->size, what,
            drover_error(k->d));
    exit(1);
}

void fixture_wait(const struct fixture *k, const char *what)
{
    fixture_must(k, drover_wait(k->c, k->wait_ms), what);
}

void fixture_check(struct fixture *k, bool fine, const char *format, ...)
{
    k->count.checks++;
    if (fine || k->count.failed++)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(k->count.first, sizeof k->count.first, format, args);
    va_end(args);
    fprintf(stderr, "# rank %d of %d: %s\n", k->rank, k->size, k->count.first);
}

static void memory_must(int rc, const struct err *e)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "Bail out! %s\n", e->text);
    exit(1);
}

void fixture_copy_in(const struct fixture *k, void *to, const void *host, size_t bytes)
{
    struct err e = {0};
    memory_must(comm_backend(k->c)->copy_in(comm_inner(k->c), to, host, bytes, &e), &e);
}

void fixture_copy_out(const struct fixture *k, void *host, const void *from, size_t bytes)
{
    struct err e = {0};
    memory_must(comm_backend(k->c)->copy_out(comm_inner(k->c), host, from, bytes, &e), &e);
}

void fixture_open(struct fixture *k, struct drover *d, struct drover_comm *c, size_t part_bytes)
{
    struct err e = {0};
    k->d = d;
    k->c = c;
    k->rank = drover_comm_rank(c);
    k->size = drover_comm_size(c);
    fixture_must(k, drover_comm_factor(c, VALUES_FACTOR(k->rank)), "factor");
    k->room = part_bytes * (size_t)k->size + GUARD;
    for (int i = 0; i < 2; i++) {
        void *p = NULL;
        memory_must(comm_backend(c)->mem_alloc(comm_inner(c), k->room, BACKEND_BUFFERS, &p, &e),
                    &e);
        *(i ? &k->out : &k->in) = p;
    }
    k->host = xzalloc(k->room);
    k->got = xzalloc(k->room);
    k->expected = xzalloc(k->room);
}

void fixture_close(struct fixture *k)
{
    comm_backend(k->c)->mem_free(comm_inner(k->c), k->in);
    comm_backend(k->c)->mem_free(comm_inner(k->c), k->out);
    drover_comm_close(k->c);
    free(k->host);
    free(k->got);
    free(k->expected);
}

/* Positions of the input and the output of a call in place in one buffer, and the buffer's length,
 * in elements. In a buffer of parts, a rank's own part is at its position. */
static void lay_out(const struct values *v, size_t *in_at, size_t *out_at, size_t *elements)
{
    const struct collective_row *row = collective_row(v->coll);
    bool reads = collective_reads(v->coll, v->rank, v->root);
    bool writes = collective_writes(v->coll, v->rank, v->root);
    size_t own = reads && writes ? (size_t)v->rank * v->count : 0;
    *in_at = row->in == COLLECTIVE_WHOLE && row->out == COLLECTIVE_PARTS ? own : 0;
    *out_at = row->in == COLLECTIVE_PARTS && row->out == COLLECTIVE_WHOLE ? own : 0;
    size_t in_end = *in_at + values_in(v), out_end = *out_at + values_out(v);
    *elements = in_end > out_end ? in_end : out_end;
}

/* Repeats the first `period` elements of an array until it has n; both are 0, or none is. */
static void repeat(char *array, size_t period, size_t n, size_t element)
{
    for (size_t have = period; have < n; have *= 2)
        memcpy(array + have * element, array, (n - have < have ? n - have : have) * element);
}

static size_t min(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void make_input(struct fixture *k, const struct values *v)
{
    size_t n = values_in(v), distinct = v->period ? min(n, v->period) : n;
    for (size_t i = 0; i < distinct; i++)
        values_input(v, v->rank, i, k->host, i);
    repeat(k->host, distinct, n, backend_type_bytes(v->type));
}

/* An output has blocks of v->count elements; each begins anywhere in the period. */
static void make_expected(struct fixture *k, const struct values *v)
{
    size_t distinct = v->period ? min(v->count, v->period) : v->count;
    size_t element = backend_type_bytes(v->type);
    for (size_t block = 0; block < values_out(v); block += v->count) {
        for (size_t i = 0; i < distinct; i++)
            values_expected(v, block + i, k->expected);
        repeat(k->expected + block * element, distinct, v->count, element);
    }
}

static void compare(struct fixture *k, const struct values *v, bool in_place)
{
    size_t i = 0;
    if (memcmp(k->got, k->expected, values_out(v) * backend_type_bytes(v->type)) == 0)
        i = values_out(v);
    while (i < values_out(v) && values_same(v, k->got, k->expected, i))
        i++;
    if (i < values_out(v)) {
        char got[VALUES_TEXT], expected[VALUES_TEXT];
        values_text(got, k->got, i, v->type);
        values_text(expected, k->expected, i, v->type);
        const char *op = collective_reduces(v->coll) ? backend_op_name(v->op) : "moved";
        fixture_check(k, false, "%s of %zu %s, %s, root %d%s: element %zu is %s, expected %s",
                      collective_name(v->coll), v->count, backend_type_name(v->type), op, v->root,
                      in_place ? ", in place" : "", i, got, expected);
        return;
    }
    fixture_check(k, true, "right");
}

/* Checks that the bytes behind the output and, out of place, the input are unchanged. */
static void check_surroundings(struct fixture *k, const struct values *v, const char *end,
                               bool in_place)
{
    unsigned char guard[GUARD];
    fixture_copy_out(k, guard, end, sizeof guard);
    bool intact = true;
    for (int i = 0; i < GUARD; i++)
        intact &= guard[i] == POISON;
    fixture_check(k, intact, "%s of %zu %s wrote behind its output", collective_name(v->coll),
                  v->count, backend_type_name(v->type));
    if (in_place)
        return;
    size_t bytes = values_in(v) * backend_type_bytes(v->type);
    fixture_copy_out(k, k->got, k->in, bytes);
    fixture_check(k, memcmp(k->got, k->host, bytes) == 0, "%s of %zu %s changed its input",
                  collective_name(v->coll), v->count, backend_type_name(v->type));
}

void fixture_run(struct fixture *k, const struct values *v, bool in_place)
{
    size_t element = backend_type_bytes(v->type), in_at = 0, out_at = 0, elements = values_out(v);
    if (in_place)
        lay_out(v, &in_at, &out_at, &elements);
    assert(elements * element + GUARD <= k->room && values_in(v) * element <= k->room);
    make_input(k, v);
    memset(k->got, POISON, elements * element + GUARD);
    fixture_copy_in(k, k->out, k->got, elements * element + GUARD);
    char *in = in_place ? k->out + in_at * element : k->in, *out = k->out + out_at * element;
    fixture_copy_in(k, in, k->host, values_in(v) * element);
    int rc = comm_start(k->c, &(struct backend_call){.coll = v->coll,
                                                     .in = in,
                                                     .out = out,
                                                     .count = v->count,
                                                     .type = v->type,
                                                     .op = v->op,
                                                     .root = v->root});
    if (rc == -ENOTSUP) {
        k->count.refused++;
        return;
    }
    fixture_must(k, rc, collective_name(v->coll));
    fixture_wait(k, collective_name(v->coll));
    make_expected(k, v);
    fixture_copy_out(k, k->got, out, values_out(v) * element);
    compare(k, v, in_place);
    check_surroundings(k, v, k->out + elements * element, in_place);
}
