#include "gpt_attention.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS_MAX = 64, LIMIT_PERCENT = 8 }; /* both round weights and slopes to bfloat16 */

struct sizes {
    size_t y, lse; /* numbers */
};

/* A path: what it has computed, and how long the two passes took. */
struct path {
    uint16_t *y, *dqkv;
    float *lse;
    double ms, back_ms;
    int same_bits;
};

struct arrays {
    act *qkv, *y, *dy, *dqkv;
    float *lse;
};

static double as_double(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

/* Returns n random numbers from -1 to 1. */
static uint16_t *some(size_t n, uint64_t seed)
{
    uint16_t *v = malloc(n * sizeof *v);
    if (!v)
        abort();
    for (size_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        float f = (float)(seed >> 40) / (1 << 23) - 1;
        uint32_t bits;
        memcpy(&bits, &f, sizeof bits);
        v[i] = (uint16_t)(bits >> 16);
    }
    return v;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_size);
    return v[n / 2];
}

/* Runs both passes. Returns 0, or -1: the device has failed. */
static int run(const struct ops_backend *be, struct ops *o, const struct arrays *a,
               const struct gpt_attention_shape *s, const struct sizes *n, int runs, struct path *p)
{
    double ms[RUNS_MAX], back_ms[RUNS_MAX];
    size_t bytes = n->y * 2;
    uint16_t *again = malloc(4 * bytes);
    int rc = again ? 0 : -1;
    p->same_bits = 1;
    for (int i = -1; i < runs && rc == 0; i++) { /* the first run loads the kernels */
        int C = s->H * s->D;
        be->zero(o, a->y, bytes);
        be->zero(o, a->dqkv, 3 * bytes);
        be->mark(o, 0, 0);
        be->attend(o, a->y, a->lse, a->qkv, s->B, s->T, C, s->H);
        be->mark(o, 1, 0);
        be->attend_back(o, a->dqkv, a->dy, a->y, a->lse, a->qkv, s->B, s->T, C, s->H);
        be->mark(o, 2, 0);
        rc = be->get(o, i < 0 ? p->y : again, a->y, bytes) < 0 ||
                     be->get(o, i < 0 ? p->dqkv : again + n->y, a->dqkv, 3 * bytes) < 0 ||
                     (i < 0 && be->get(o, p->lse, a->lse, n->lse * sizeof *p->lse) < 0)
                 ? -1
                 : 0;
        if (i < 0 || rc < 0)
            continue;
        ms[i] = be->between(o, 0, 1);
        back_ms[i] = be->between(o, 1, 2);
        p->same_bits &=
            memcmp(again, p->y, bytes) == 0 && memcmp(again + n->y, p->dqkv, 3 * bytes) == 0;
    }
    free(again);
    if (rc < 0)
        return -1;
    p->ms = median(ms, runs);
    p->back_ms = median(back_ms, runs);
    return 0;
}

/* Returns the largest error of n numbers; either array is bfloat16, or float if `real`. */
static double apart(const void *got, const void *want, size_t n, int real)
{
    double square = 0, worst = 0;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < n && !isnan(worst); i++) {
            double w =
                real ? (double)((const float *)want)[i] : as_double(((const uint16_t *)want)[i]);
            double g =
                real ? (double)((const float *)got)[i] : as_double(((const uint16_t *)got)[i]);
            if (pass == 0)
                square += w * w;
            else if (!(fabs(g - w) <= worst * fmax(fabs(w), sqrt(square / (double)n))))
                worst = fabs(g - w) / fmax(fabs(w), sqrt(square / (double)n));
        }
    return worst;
}

static double apart_of(const struct path *got, const struct path *want, const struct sizes *n)
{
    double errors[] = {apart(got->y, want->y, n->y, 0), apart(got->dqkv, want->dqkv, 3 * n->y, 0),
                       apart(got->lse, want->lse, n->lse, 1)};
    double worst = 0;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        worst = errors[i] <= worst ? worst : errors[i];
    return worst;
}

static int compare(const struct ops_backend *be, struct ops *o, const struct arrays *a,
                   const struct gpt_attention_shape *s, const struct sizes *n, int runs,
                   struct path path[OPS_ATTEND_SAME_BITS + 1])
{
    int C = s->H * s->D, wrong = 0;
    const char *chosen = be->info(o)->attention;
    const struct path *own = &path[OPS_ATTEND_OWN], *fast = &path[OPS_ATTEND_FAST];
    const struct path *same = &path[OPS_ATTEND_SAME_BITS];
    if (run(be, o, a, s, n, runs, &path[OPS_ATTEND_OWN]) < 0)
        return -1;
    printf("{\"shape\": \"%dx%dx%dx%d\", \"own_ms\": %.4f, \"own_back_ms\": %.4f", s->B, s->H, s->T,
           s->D, own->ms, own->back_ms);
    for (enum ops_attention how = OPS_ATTEND_FAST; how <= OPS_ATTEND_SAME_BITS; how++) {
        if (be->attend_with(o, how, s->B, s->T, C, s->H) < 0)
            return printf("}\n# out of memory\n"), -1;
        if (strncmp(chosen, "cuDNN", 5) != 0)
            continue;
        if (run(be, o, a, s, n, runs, &path[how]) < 0)
            return printf("}\n"), -1;
        double error = apart_of(&path[how], own, n);
        wrong += !(error <= LIMIT_PERCENT / 100.0);
        if (how == OPS_ATTEND_FAST)
            printf(
                ", \"ms\": %.4f, \"back_ms\": %.4f, \"fast_same_bits\": %s, \"fast_apart\": %.3g",
                fast->ms, fast->back_ms, fast->same_bits ? "true" : "false", error);
        else
            printf(", \"deterministic_back_ms\": %.4f, \"same_bits\": %s, \"apart\": %.3g, "
                   "\"limit\": %.2g",
                   same->back_ms, same->same_bits ? "true" : "false", error, LIMIT_PERCENT / 100.0);
        wrong += how == OPS_ATTEND_SAME_BITS && !same->same_bits;
    }
    printf(", \"attention\": \"%s\"}\n", chosen);
    return wrong;
}

int gpt_attention(const struct ops_backend *be, const struct gpt_attention_shape *s, int runs)
{
    struct path path[OPS_ATTEND_SAME_BITS + 1] = {0};
    struct sizes n = {(size_t)s->B * (size_t)s->T * (size_t)s->H * (size_t)s->D,
                      (size_t)s->B * (size_t)s->T * (size_t)s->H};
    struct ops *o;
    char why[256];
    if (be->open(&o, 0, OPS_BF16, why, sizeof why) < 0) {
        printf("# %s\n", why);
        return -1;
    }
    uint16_t *qkv = some(3 * n.y, 1), *dy = some(n.y, 2);
    struct arrays a = {be->alloc(o, 6 * n.y), be->alloc(o, 2 * n.y), be->alloc(o, 2 * n.y),
                       be->alloc(o, 6 * n.y), be->alloc(o, n.lse * sizeof(float))};
    int rc = a.qkv && a.y && a.dy && a.dqkv && a.lse ? 0 : -1;
    for (size_t i = 0; i < sizeof path / sizeof *path; i++) {
        path[i] =
            (struct path){malloc(2 * n.y), malloc(6 * n.y), malloc(n.lse * sizeof(float)), 0, 0, 0};
        if (!path[i].y || !path[i].dqkv || !path[i].lse)
            abort();
    }
    if (rc == 0 && be->put(o, a.qkv, qkv, 6 * n.y) == 0 && be->put(o, a.dy, dy, 2 * n.y) == 0)
        rc = compare(be, o, &a, s, &n, runs < RUNS_MAX ? runs : RUNS_MAX, path);
    if (rc < 0)
        printf("# %s\n", be->info(o)->error[0] ? be->info(o)->error : "out of memory");
    void *blocks[] = {a.qkv, a.y, a.dy, a.dqkv, a.lse};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        be->release(o, blocks[i]);
    for (size_t i = 0; i < sizeof path / sizeof *path; i++) {
        free(path[i].y);
        free(path[i].dqkv);
        free(path[i].lse);
    }
    free(qkv);
    free(dy);
    be->close(o);
    return rc;
}
