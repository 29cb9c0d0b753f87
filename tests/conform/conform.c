/* The conformance kit: checks every collective, type and reduction of a backend against values that
 * it computes itself. Each rank of a job runs it; rank 0 prints TAP, or one line with --json.
 *
 *     drover run -np 4 conform --backend mpi
 *
 * Exit status: 0 everything is right; 1 a result is wrong, or a call failed; 2 invalid options. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/byte_size.h"
#include "common/mem.h"
#include "common/opt.h"
#include "tests/conform/fixture.h"
#include "tests/conform/messages.h"

enum {
    SMALL = 17,
    ROUGH = 1021, /* elements whose results are rounded */
    MIN_BYTES =
        ROUGH * 8, /* smallest value of --max: the largest part per rank of the other checks */
    MIB = 1 << 20,
    MANY = 4
};

struct args {
    const char *backend, *max;
    int seed;
    double wait_s;
    bool json;
};

static const struct opt options[] = {
    OPT_STR(0, "backend", "NAME", "mpi, nccl or self (default: chosen by drover)", struct args,
            backend),
    OPT_STR(0, "max", "SIZE", "largest part per rank, in bytes (default: 1M + 8)", struct args,
            max),
    OPT_INT(0, "seed", "N", "seed of the values (default: 1)", struct args, seed, 0, INT_MAX),
    OPT_DURATION(0, "wait", "DURATION", "deadline of each call (default: 60)", struct args, wait_s,
                 1, 1000000),
    OPT_FLAG(0, "json", "one line of JSON instead of TAP", struct args, json),
    OPT_END,
};

/* ---- checks --------------------------------------------------------------------------------- */
static const enum collective colls[] = {
    COLLECTIVE_ALL_REDUCE, COLLECTIVE_REDUCE,     COLLECTIVE_REDUCE_SCATTER, COLLECTIVE_BROADCAST,
    COLLECTIVE_ALL_GATHER, COLLECTIVE_ALL_TO_ALL, COLLECTIVE_GATHER,         COLLECTIVE_SCATTER,
};

static void run_one(struct fixture *k, struct values v, bool in_place)
{
    v.rank = k->rank;
    v.size = k->size;
    v.seed = ++k->seed;
    fixture_run(k, &v, in_place);
}

static void run_both(struct fixture *k, struct values v)
{
    run_one(k, v, false);
    run_one(k, v, true);
}

/* Every type with every reduction, and every root. With many ranks, alternately out of place and in
 * place. */
static void walk_types(struct fixture *k, enum collective coll)
{
    for (int t = 0; t < DROVER_TYPES; t++) {
        struct values v = {.coll = coll, .type = (enum drover_type)t, .count = SMALL};
        v.root = t % k->size;
        for (int op = 0; op < (collective_reduces(coll) ? DROVER_OPS : 1); op++) {
            v.op = (enum drover_op)op;
            v.root = (v.root + 1) % k->size;
            if (k->size <= MANY)
                run_both(k, v);
            else
                run_one(k, v, (t + op) % 2 == 1);
        }
    }
    struct values v = {.coll = coll, .type = DROVER_FLOAT, .count = SMALL};
    for (v.root = 0; v.root < k->size; v.root++)
        run_both(k, v);
}

/* Sizes at which libraries change their algorithm, each with another type and reduction. */
static void walk_sizes(struct fixture *k, enum collective coll, size_t max_bytes)
{
    const size_t bytes[] = {0, 1, 4, 1021, (64 << 10) + 8, MIB + 8};
    unsigned turn = (unsigned)coll;
    for (size_t i = 0; i < COUNT_OF(bytes) && bytes[i] <= max_bytes; i++, turn += 7) {
        struct values v = {.coll = coll, .type = (enum drover_type)(turn % (DROVER_BFLOAT16 + 1))};
        size_t element = backend_type_bytes(v.type);
        v.count = bytes[i] < 8 ? bytes[i] : bytes[i] / element;
        v.op = (enum drover_op)(turn % DROVER_OPS);
        v.root = (int)turn % k->size;
        run_both(k, v);
    }
}

/* Numbers of elements at which libraries divide their work, with every type. The premultiplier has
 * code of its own in NCCL; the other reductions and collectives take turns. With many ranks, one
 * call per number. */
static void walk_counts(struct fixture *k, size_t max_bytes)
{
    unsigned turn = 0;
    for (int t = 0; t < DROVER_TYPES; t++) {
        size_t element = backend_type_bytes((enum drover_type)t), half = 64 << 10, all = 2 * half;
        const size_t counts[] = {
            (16 << 10) / element + 1, half - 1, half, half + 1, all - 1, all, all + 1};
        for (size_t i = 0; i < COUNT_OF(counts) && counts[i] * element <= max_bytes; i++, turn++) {
            unsigned other = turn / 2, round = other / COUNT_OF(colls);
            struct values v = {.type = (enum drover_type)t, .count = counts[i], .period = ROUGH};
            v.coll = COLLECTIVE_ALL_REDUCE;
            v.op = DROVER_MULSUM;
            if (k->size <= MANY || turn % 2 == 0)
                run_one(k, v, other % 2 == 1);
            v.coll = colls[other % COUNT_OF(colls)];
            v.op = (enum drover_op)(round % DROVER_OPS);
            v.root = (int)other % k->size;
            if (k->size <= MANY || turn % 2 == 1)
                run_one(k, v, (turn + round) % 2 == 1);
        }
    }
}

/* The sum and the product of two values are rounded once, in either order. */
static void walk_rounding(struct fixture *k)
{
    for (int t = DROVER_HALF; t < DROVER_TYPES && k->size == 2; t++)
        for (int op = DROVER_SUM; op <= DROVER_PROD; op++) {
            struct values v = {.coll = COLLECTIVE_ALL_REDUCE, .count = ROUGH, .rough = true};
            v.type = (enum drover_type)t;
            v.op = (enum drover_op)op;
            run_both(k, v);
        }
}

/* A selection of all checks, for a communicator that was created from another one. */
static void walk_some(struct fixture *k)
{
    for (size_t i = 0; i < COUNT_OF(colls); i++)
        for (int t = 0; t < DROVER_TYPES; t += 3) {
            struct values v = {.coll = colls[i], .type = (enum drover_type)t, .count = SMALL};
            v.op = (enum drover_op)((t + (int)i) % DROVER_OPS);
            v.root = (t + (int)i) % k->size;
            run_both(k, v);
        }
    walk_rounding(k);
    messages_shuffled(k);
    messages_uneven(k);
}

static void walk_messages(struct fixture *k)
{
    messages_ring(k);
    messages_shuffled(k);
    messages_long(k);
    messages_group(k);
    messages_uneven(k);
    messages_order(k);
    messages_largest_means(k);
}

/* Runs walk_some() on a subgroup of k's communicator and adds its results to k. */
static void walk_subgroup(struct fixture *k, int color, int key, int expected_rank,
                          int expected_size)
{
    struct drover_comm *c = NULL;
    fixture_must(k, drover_comm_split(&c, k->c, color, key), "split");
    fixture_check(k, (c != NULL) == (color >= 0), "colour %d: %s", color,
                  c ? "got a communicator" : "got none");
    if (!c)
        return;
    struct fixture sub = {.wait_ms = k->wait_ms, .seed = k->seed + (uint64_t)color * 100000};
    fixture_open(&sub, k->d, c, MIN_BYTES);
    fixture_check(k, sub.rank == expected_rank && sub.size == expected_size,
                  "a split makes this rank %d of %d, expected %d of %d", sub.rank, sub.size,
                  expected_rank, expected_size);
    walk_some(&sub);
    k->count.checks += sub.count.checks;
    k->count.refused += sub.count.refused;
    if (sub.count.failed && !k->count.failed)
        memcpy(k->count.first, sub.count.first, sizeof k->count.first);
    k->count.failed += sub.count.failed;
    fixture_close(&sub);
}

static void walk_splits(struct fixture *k)
{
    int odd = k->rank % 2, n = k->size;
    walk_subgroup(k, odd, k->rank, k->rank / 2, odd ? n / 2 : (n + 1) / 2);
    walk_subgroup(k, 0, -k->rank, n - 1 - k->rank, n); /* in reverse order */
    walk_subgroup(k, 3, 0, k->rank, n);                /* equal keys */
    walk_subgroup(k, k->rank == 0 ? DROVER_NO_COLOR : 1, 5, k->rank - 1,
                  n - 1);               /* rank 0 is not a member */
    walk_subgroup(k, k->rank, 0, 0, 1); /* one rank each */
}

/* ---- output --------------------------------------------------------------------------------- */
static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

struct report {
    bool json;
    int number;
    uint64_t checks, failed, refused;
};

/* Collects the results of all ranks, prints them, and resets k's. */
static void print_result(struct report *r, struct fixture *k, const char *name)
{
    AUTO(free) struct fixture_count *all = xcalloc((size_t)k->size, sizeof *all);
    fixture_must(k, comm_gather(k->c, &k->count, sizeof k->count, all, k->wait_ms), "gather");
    k->count = (struct fixture_count){0};
    uint64_t checks = 0, failed = 0, refused = 0;
    int first = -1;
    for (int i = 0; i < k->size; i++) {
        checks += all[i].checks;
        failed += all[i].failed;
        refused += all[i].refused;
        if (all[i].failed && first < 0)
            first = i;
    }
    r->checks += checks;
    r->failed += failed;
    r->refused += refused;
    r->number++;
    if (k->rank != 0 || r->json)
        return;
    printf("%s %d - %s: %" PRIu64 " checks", failed ? "not ok" : "ok", r->number, name, checks);
    printf(refused ? ", %" PRIu64 " calls refused\n" : "\n", refused);
    if (failed)
        printf("# rank %d: %s (%" PRIu64 " of all ranks)\n", first, all[first].first, failed);
    fflush(stdout);
}

static void run_all(struct report *r, struct fixture *k, size_t max_bytes)
{
    for (size_t i = 0; i < COUNT_OF(colls); i++) {
        walk_types(k, colls[i]);
        walk_sizes(k, colls[i], max_bytes);
        print_result(r, k, collective_name(colls[i]));
    }
    walk_counts(k, max_bytes);
    print_result(r, k, "counts");
    walk_rounding(k);
    print_result(r, k, "rounding");
    walk_messages(k);
    print_result(r, k, "messages and groups");
    messages_refusals(k);
    print_result(r, k, "refusals");
    walk_splits(k);
    print_result(r, k, "splits");
}

/* The last check: shrinks the communicator by the last rank, which exits; a single rank stays.
 * Returns the outcome as text. */
static const char *run_shrunk(struct report *r, struct fixture *k)
{
    int last = k->size - 1, n = k->size > 1;
    struct drover_comm *c = NULL;
    if (n > 0 && k->rank == last)
        return "left out";
    int rc = drover_comm_shrink(&c, k->c, &last, n);
    if (rc == -ENOTSUP)
        return drover_error(k->d);
    fixture_must(k, rc, "shrink");
    struct fixture sub = {.wait_ms = k->wait_ms, .seed = 4711};
    fixture_open(&sub, k->d, c, MIN_BYTES);
    fixture_check(&sub, sub.rank == k->rank && sub.size == k->size - n,
                  "a shrink gave rank %d of %d", sub.rank, sub.size);
    walk_some(&sub);
    print_result(r, &sub, "shrunk");
    fixture_close(&sub);
    return "done";
}

static int conform(struct drover *d, const struct args *a, size_t max_bytes)
{
    struct drover_comm *c = NULL;
    struct drover_comm_opts o = {.backend = a->backend, .device = -1};
    if (drover_comm_open(&c, d, &o) < 0) {
        fprintf(stderr, "Bail out! %s\n", drover_error(d));
        return 1;
    }
    double begin = now_s();
    struct report r = {.json = a->json};
    struct fixture k = {.wait_ms = (int64_t)(a->wait_s * 1000),
                        .seed = (uint64_t)a->seed * 1000000};
    fixture_open(&k, d, c, max_bytes + 64);
    const char *version = comm_backend(c)->version(comm_inner(c));
    int rank = k.rank, size = k.size;
    if (rank == 0 && !a->json)
        printf("TAP version 13\n# %s over %s, %d ranks, seed %d\n", comm_backend(c)->name, version,
               size, a->seed);
    run_all(&r, &k, max_bytes);
    const char *shrunk = run_shrunk(&r, &k);
    if (rank == 0 && a->json)
        printf("{\"backend\":\"%s\",\"version\":\"%s\",\"ranks\":%d,\"checks\":%" PRIu64
               ",\"failed\":%" PRIu64 ",\"refused\":%" PRIu64 ",\"seconds\":%.1f}\n",
               comm_backend(c)->name, version, size, r.checks, r.failed, r.refused,
               now_s() - begin);
    else if (rank == 0)
        printf("# shrink: %s\n1..%d\n# %" PRIu64 " checks, %" PRIu64 " wrong, %" PRIu64
               " calls refused, %.1f s\n",
               shrunk, r.number, r.checks, r.failed, r.refused, now_s() - begin);
    fixture_close(&k);
    return rank == 0 && r.failed > 0; /* rank 0 alone decides */
}

int main(int argc, char **argv)
{
    struct args a = {.seed = 1, .wait_s = 60};
    struct err e = {0};
    uint64_t max_bytes = MIB + 8;
    int rest = argc;
    int rc = opt_parse(options, &a, argc, argv, &rest, &e);
    if (rc == OPT_HELP) {
        const struct opt_help help = {"conform", "[options]", "Checks a backend's collectives.",
                                      NULL, NULL};
        opt_print_help(stdout, &help, options);
        return 0;
    }
    if (rc == 0 && rest < argc)
        rc = err_set(&e, -EINVAL, "unexpected argument '%s'", argv[rest]);
    if (rc >= 0 && a.max)
        rc = byte_size_parse(&max_bytes, a.max, &e);
    struct drover *d = NULL;
    if (rc >= 0 && (rc = drover_init(&d)) < 0)
        err_set(&e, rc, "%s", drover_error(NULL));
    if (rc < 0) {
        err_print(&e, "conform");
        return 2;
    }
    rc = conform(d, &a, max_bytes < MIN_BYTES ? MIN_BYTES : max_bytes);
    drover_close(d);
    return rc;
}
