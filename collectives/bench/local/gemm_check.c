#include "collectives/bench/local/gemm_check.h"

#include "common/rng.h"

/* Sets out = M v. The inner loop goes down a column. */
static void multiply(double *out, const signed char *m, const double *v, int n)
{
    for (int i = 0; i < n; i++)
        out[i] = 0;
    for (int j = 0; j < n; j++)
        for (int i = 0; i < n; i++)
            out[i] += m[(size_t)j * (size_t)n + (size_t)i] * v[j];
}

static void fill(struct rng *r, signed char *m, size_t count)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < count; i++, bits >>= 8) {
        if (i % 8 == 0)
            bits = rng_u64(r);
        m[i] = (signed char)((int)((bits & 0xff) % 9) - 4);
    }
}

struct gemm_check *gemm_check_new(int n)
{
    AUTO(gemm_check) struct gemm_check *g = xzalloc(sizeof *g);
    size_t side = (size_t)n, count = side * side;
    g->n = n;
    g->a = try_calloc(count, 1);
    g->b = try_calloc(count, 1);
    g->x = try_calloc(side, sizeof *g->x);
    g->expected = try_calloc(side, sizeof *g->expected);
    g->product = try_calloc(side, sizeof *g->product);
    AUTO(free) double *bx = try_calloc(side, sizeof *bx);
    if (!g->a || !g->b || !g->x || !g->expected || !g->product || !bx)
        return NULL;
    struct rng r;
    rng_seed(&r, side, 0);
    fill(&r, g->a, count);
    fill(&r, g->b, count);
    for (size_t i = 0; i < side; i++)
        g->x[i] = (double)(2 * (int)(rng_u64(&r) >> 61) - 7); /* -7, -5 … 7 */
    multiply(bx, g->b, g->x, n);
    multiply(g->expected, g->a, bx, n);
    return TAKE(g);
}

void gemm_check_free(struct gemm_check *g)
{
    if (!g)
        return;
    free(g->a);
    free(g->b);
    free(g->x);
    free(g->expected);
    free(g->product);
    free(g);
}

uint64_t gemm_check_wrong_rows(const struct gemm_check *g, const float *c)
{
    size_t n = (size_t)g->n;
    for (size_t i = 0; i < n; i++)
        g->product[i] = 0;
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < n; i++)
            g->product[i] += (double)c[j * n + i] * g->x[j];
    uint64_t wrong = 0;
    for (size_t i = 0; i < n; i++)
        wrong += !(g->product[i] == g->expected[i]);
    return wrong;
}
