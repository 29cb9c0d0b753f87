/* comm_check - a training program's view of libdrover: every collective with every type and
 * operation, out of place and in place, against values worked out here. Built by test_comm.py with
 * nothing but the installed headers and the library.
 *
 *     comm_check [backend]          prints "rank R of N: K checks" */
#include <drover.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 257, WAIT_MS = 20000 };

static const size_t bytes[DROVER_TYPES] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
static const char *const types[DROVER_TYPES] = {"int8",   "uint8", "int32", "uint32", "int64",
                                                "uint64", "half",  "float", "double", "bfloat16"};
static int rank, size, checks;
static struct drover_comm *c;

static void die(const char *what, enum drover_type t, int op, const char *why)
{
    fprintf(stderr, "rank %d of %d: %s of %s, op %d: %s\n", rank, size, what, types[t], op, why);
    drover_comm_close(c); /* awaits the abort of a communicator that has failed */
    exit(1);
}

/* The compiler's own 16-bit float; bfloat16 is the upper half of a float, rounded to even. */
static void put(void *to, size_t i, enum drover_type t, double x)
{
    float f = (float)x;
    unsigned u;
    memcpy(&u, &f, sizeof u);
    u += 0x7fff + (u >> 16 & 1);
    unsigned short high = (unsigned short)(u >> 16);
    _Float16 h = (_Float16)x;
    switch (t) {
    case DROVER_INT8:
        ((signed char *)to)[i] = (signed char)x;
        break;
    case DROVER_UINT8:
        ((unsigned char *)to)[i] = (unsigned char)x;
        break;
    case DROVER_INT32:
        ((int32_t *)to)[i] = (int32_t)x;
        break;
    case DROVER_UINT32:
        ((uint32_t *)to)[i] = (uint32_t)x;
        break;
    case DROVER_INT64:
        ((int64_t *)to)[i] = (int64_t)x;
        break;
    case DROVER_UINT64:
        ((uint64_t *)to)[i] = (uint64_t)x;
        break;
    case DROVER_HALF:
        memcpy((char *)to + 2 * i, &h, 2);
        break;
    case DROVER_FLOAT:
        ((float *)to)[i] = f;
        break;
    case DROVER_DOUBLE:
        ((double *)to)[i] = x;
        break;
    default:
        memcpy((char *)to + 2 * i, &high, 2);
        break;
    }
}

/* Small enough that sums and products over 4 ranks are exact in every type. */
static double value(int r, size_t i)
{
    return (double)(((size_t)r * 5 + i * 3) % 3 + 1);
}

static double reduced(size_t i, enum drover_type t, enum drover_op op)
{
    double x = value(0, i);
    for (int r = 1; r < size; r++) {
        double y = value(r, i);
        x = op == DROVER_PROD  ? x * y
            : op == DROVER_MIN ? (y < x ? y : x)
            : op == DROVER_MAX ? (y > x ? y : x)
                               : x + y;
    }
    if (op != DROVER_AVG)
        return x;
    return t <= DROVER_UINT64 ? (double)((long)x / size) : x / size;
}

static char *fill(enum drover_type t, size_t n, size_t first)
{
    char *b = malloc(n * 8);
    for (size_t i = 0; i < n; i++)
        put(b, i, t, value(rank, first + i));
    return b;
}

static struct drover *d;

static void done(int rc, const char *what, enum drover_type t, int op)
{
    if (rc < 0 || (rc = drover_wait(c, WAIT_MS)) < 0)
        die(what, t, op, drover_error(d));
}

static void same(const char *what, const void *got, const void *want, size_t n, enum drover_type t,
                 int op)
{
    if (memcmp(got, want, n * bytes[t]) != 0)
        die(what, t, op, "wrong values");
    checks++;
}

static void check_reductions(enum drover_type t, enum drover_op op)
{
    size_t all = (size_t)size * N, part = bytes[t] * N;
    char *in = fill(t, all, 0), *out = calloc(all, 8), *want = calloc(all, 8);
    for (size_t i = 0; i < all; i++)
        put(want, i, t, reduced(i, t, op));
    done(drover_all_reduce(c, in, out, all, t, op), "all_reduce", t, op);
    same("all_reduce", out, want, all, t, op);
    for (int root = 0; root < size; root++) {
        memset(out, 0, all * 8);
        done(drover_reduce(c, in, out, all, t, op, root), "reduce", t, op);
        if (rank == root)
            same("reduce", out, want, all, t, op);
    }
    done(drover_reduce_scatter(c, in, out, N, t, op), "reduce_scatter", t, op);
    same("reduce_scatter", out, want + (size_t)rank * part, N, t, op);
    memcpy(out, in, all * bytes[t]);
    done(drover_reduce_scatter(c, out, out + (size_t)rank * part, N, t, op),
         "reduce_scatter in place", t, op);
    same("reduce_scatter in place", out + (size_t)rank * part, want + (size_t)rank * part, N, t,
         op);
    memcpy(out, in, all * bytes[t]);
    done(drover_reduce(c, out, out, all, t, op, size - 1), "reduce in place", t, op);
    if (rank == size - 1)
        same("reduce in place", out, want, all, t, op);
    done(drover_all_reduce(c, in, in, all, t, op), "all_reduce in place", t, op);
    same("all_reduce in place", in, want, all, t, op);
    free(in), free(out), free(want);
}

static void check_movements(enum drover_type t)
{
    size_t all = (size_t)size * N, part = bytes[t] * N;
    char *in = fill(t, all, 0), *out = calloc(all, 8), *want = calloc(all, 8);
    for (int root = 0; root < size; root++) {
        for (size_t i = 0; i < all; i++)
            put(want, i, t, value(root, i));
        memset(out, 0, all * 8);
        done(drover_broadcast(c, in, out, all, t, root), "broadcast", t, root);
        same("broadcast", out, want, all, t, root);
        memcpy(out, in, all * bytes[t]);
        done(drover_broadcast(c, out, out, all, t, root), "broadcast in place", t, root);
        same("broadcast in place", out, want, all, t, root);
    }
    for (int r = 0; r < size; r++)
        for (size_t i = 0; i < N; i++)
            put(want, (size_t)r * N + i, t, value(r, i));
    done(drover_all_gather(c, in, out, N, t), "all_gather", t, 0);
    same("all_gather", out, want, all, t, 0);
    memset(out, 0, all * 8);
    memcpy(out + (size_t)rank * part, in, part);
    done(drover_all_gather(c, out + (size_t)rank * part, out, N, t), "all_gather in place", t, 0);
    same("all_gather in place", out, want, all, t, 0);
    for (int r = 0; r < size; r++)
        for (size_t i = 0; i < N; i++)
            put(want, (size_t)r * N + i, t, value(r, (size_t)rank * N + i));
    done(drover_all_to_all(c, in, out, N, t), "all_to_all", t, 0);
    same("all_to_all", out, want, all, t, 0);
    int rc = drover_all_to_all(c, in, in, N, t);
    if (rc != -ENOTSUP || strcmp(drover_comm_backend(c), "nccl") != 0) {
        done(rc, "all_to_all in place", t, 0);
        same("all_to_all in place", in, want, all, t, 0);
    }
    free(in), free(out), free(want);
}

/* Calls are done in the order in which they are made, each on what the one before it left. */
static void check_order(void)
{
    int32_t x[3] = {1, 2, 3}, y[3] = {0}, z[3] = {0};
    int rc = drover_all_reduce(c, x, y, 3, DROVER_INT32, DROVER_SUM);
    rc = rc < 0 ? rc : drover_all_reduce(c, y, z, 3, DROVER_INT32, DROVER_SUM);
    rc = rc < 0 ? rc : drover_all_reduce(c, z, z, 3, DROVER_INT32, DROVER_AVG);
    done(rc, "three in a row", DROVER_INT32, 0);
    for (int i = 0; i < 3; i++)
        if (z[i] != (i + 1) * size * size)
            die("three in a row", DROVER_INT32, 0, "wrong values");
    checks++;
}

static void check_refusals(void)
{
    char b[16] = {0};
    int bad = drover_all_reduce(c, b, b, 1, (enum drover_type)77, DROVER_SUM) >= 0;
    bad |= drover_all_reduce(c, b, b, 1, DROVER_INT8, (enum drover_op) - 1) >= 0;
    bad |= drover_broadcast(c, b, b, 1, DROVER_INT8, size) >= 0;
    bad |= drover_all_gather(c, b, b, SIZE_MAX / 2, DROVER_DOUBLE) >= 0;
    bad |= drover_all_reduce(c, NULL, b, 1, DROVER_INT8, DROVER_SUM) >= 0;
    bad |= drover_all_reduce(c, NULL, NULL, 0, DROVER_INT8, DROVER_SUM) != 0; /* nothing is fine */
    if (bad)
        die("a wrong call", DROVER_INT8, 0, "was not refused");
    checks++;
}

int main(int argc, char **argv)
{
    struct drover_comm_opts o = {.backend = argc > 1 ? argv[1] : NULL, .device = -1};
    if (drover_init(&d) < 0) {
        fprintf(stderr, "%s\n", drover_error(NULL));
        return 1;
    }
    if (drover_comm_open(&c, d, &o) < 0) {
        fprintf(stderr, "%s\n", drover_error(d));
        return 1;
    }
    rank = drover_rank(d);
    size = drover_size(d);
    for (int t = 0; t <= DROVER_BFLOAT16; t++) {
        for (int op = 0; op < DROVER_OPS; op++)
            check_reductions((enum drover_type)t, (enum drover_op)op);
        check_movements((enum drover_type)t);
    }
    check_order();
    check_refusals();
    if (drover_barrier(c, WAIT_MS) < 0)
        die("barrier", DROVER_INT8, 0, drover_error(d));
    printf("rank %d of %d: %d checks over %s\n", rank, size, checks, drover_comm_backend(c));
    drover_comm_close(c);
    if (drover_comm_open(&c, d, &o) < 0) { /* and once more */
        fprintf(stderr, "%s\n", drover_error(d));
        return 1;
    }
    drover_comm_close(c);
    drover_close(d);
    return 0;
}
