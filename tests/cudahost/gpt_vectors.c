/* The formulas are written as in textbooks; see gpt_vectors.h. */
#include "gpt_vectors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFERS_MAX = 128 };

struct run {
    const struct ops_backend *be;
    struct ops *o;
    enum ops_precision p;
    int B, T, C, H, R, V;
    const char *op, *by;                           /* by: a path of attention */
    void *device[BUFFERS_MAX], *host[BUFFERS_MAX]; /* released after each operation */
    int devices, hosts;
    uint64_t random, hash;
    int wrong, verbose, low;
};

/* ---- numbers -------------------------------------------------------------------------------- */

static void *host(struct run *r, size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size);
    if (!p || r->hosts == BUFFERS_MAX)
        abort();
    return r->host[r->hosts++] = p;
}

static double *zeros(struct run *r, size_t n)
{
    return host(r, n, sizeof(double));
}

static uint16_t to_bf16(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float from_bf16(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Returns a random number from -1 to 1. */
static double unit(struct run *r)
{
    r->random = r->random * 6364136223846793005u + 1442695040888963407u;
    return (double)(r->random >> 33) / (1u << 30) - 1;
}

/* Returns n random numbers in +-size, which bfloat16 has exactly. */
static double *some(struct run *r, size_t n, double size)
{
    double *v = zeros(r, n);
    for (size_t i = 0; i < n; i++)
        v[i] = (double)from_bf16(to_bf16((float)(unit(r) * size)));
    return v;
}

/* Returns n tokens; a quarter of them are the same one, and the last one of all occurs. */
static uint16_t *symbols(struct run *r, size_t n)
{
    uint16_t *v = host(r, n, sizeof *v);
    for (size_t i = 0; i < n; i++)
        v[i] = unit(r) > 0.5 ? (uint16_t)(r->V / 8) : (uint16_t)(0.4999 * r->V * (1 + unit(r)));
    v[n - 1] = (uint16_t)(r->V - 1);
    return v;
}

/* ---- device --------------------------------------------------------------------------------- */

static void *device(struct run *r, const void *from, size_t bytes)
{
    void *p = r->be->alloc(r->o, bytes);
    if (!p || r->devices == BUFFERS_MAX || (from && r->be->put(r->o, p, from, bytes) < 0))
        abort();
    return r->device[r->devices++] = p;
}

static float *floats(struct run *r, const double *v, size_t n)
{
    float *f = host(r, n, sizeof *f);
    for (size_t i = 0; v && i < n; i++)
        f[i] = (float)v[i];
    return device(r, f, n * sizeof *f);
}

/* Returns n elements of activations; v NULL: zeros. */
static act *acts(struct run *r, const double *v, size_t n)
{
    if (r->p == OPS_FP32)
        return floats(r, v, n);
    uint16_t *h = host(r, n, sizeof *h);
    for (size_t i = 0; v && i < n; i++)
        h[i] = to_bf16((float)v[i]);
    return device(r, h, n * sizeof *h);
}

/* Compares n numbers of the device with double. An error is relative to the number, or to the
 * typical number (root mean square) if that is larger. */
static void expect(struct run *r, const char *what, const void *got, const double *want, size_t n,
                   int is_act, double tolerance)
{
    int half = is_act && r->p == OPS_BF16;
    size_t bytes = n * (half ? 2 : 4), at = 0;
    void *raw = host(r, n, 4);
    double worst = 0, square = 0, error = 0;
    if (r->be->get(r->o, raw, got, bytes) < 0) {
        printf("# %s: %s\n", r->op, r->be->info(r->o)->error);
        r->wrong++;
        return;
    }
    for (size_t i = 0; i < bytes; i++)
        r->hash = (r->hash ^ ((uint8_t *)raw)[i]) * 1099511628211u;
    for (size_t i = 0; i < n; i++)
        square += want[i] * want[i];
    for (size_t i = 0; i < n; i++) {
        double is = (double)(half ? from_bf16(((uint16_t *)raw)[i]) : ((float *)raw)[i]);
        error = fabs(is - want[i]) / (fmax(fabs(want[i]), sqrt(square / (double)n)) + 1e-30);
        if (!(error <= worst)) /* also if it is not a number */
            worst = error, at = i;
        if (isnan(worst))
            break;
    }
    if (!(worst <= tolerance) || r->verbose)
        printf(
            "# %s %s%s, %s, %d x %d rows, %d channels, %d heads: error %.2g at %zu, at most %.2g\n",
            r->op, what, r->by, r->p == OPS_BF16 ? "bf16" : "fp32", r->B, r->T, r->C, r->H, worst,
            at, tolerance);
    r->wrong += !(worst <= tolerance);
}

static void start(struct run *r, const char *op)
{
    if (r->be->wait(r->o) < 0) {
        printf("# %s: %s\n", op, r->be->info(r->o)->error);
        r->wrong++;
    }
    while (r->devices > 0)
        r->be->release(r->o, r->device[--r->devices]);
    while (r->hosts > 0)
        free(r->host[--r->hosts]);
    r->op = op;
}

/* Tolerances: of sums in float, and of activations, whose rounding counts in bfloat16. */
static const double SUM = 2e-5;
static double rounding(const struct run *r)
{
    return r->p == OPS_BF16 ? 6e-3 : SUM;
}
/* cuBLASLt's epilogue DGELU computes the slope of GELU with a tanh that is less exact than float's.
 * A relative error of tanh is up to 4.8 times as large in the slope (inputs up to 3), and about 7
 * times that for the largest product, since errors are relative to the typical result. Measured on
 * an H100 with cuBLASLt of CUDA 13.0 (docs/measurements/h100.md): 3.2e-5 in fp32, as from a tanh
 * with an error of 2^-20, and 7.1e-3 in bf16. The limits: an error of 2^-18 in fp32 (PTX's
 * tanh.approx.f32 has up to 2^-11), and five roundings of 2^-9 in bf16, instead of three.
 * tests/cudahost computes tanh as exactly as the rest. */
static double slope_rounding(const struct run *r)
{
    if (strcmp(r->be->info(r->o)->name, "cudahost") == 0)
        return rounding(r);
    return r->p == OPS_BF16 ? 1e-2 : 1e-4;
}
/* Attention rounds its weights, too. With low scores its gradients are differences of numbers that
 * are four times as large. */
static double roundings(const struct run *r)
{
    return r->p == OPS_BF16 ? (r->low ? 0.16 : 4e-2) : SUM;
}

/* ---- operations ----------------------------------------------------------------------------- */

static void embedding(struct run *r)
{
    size_t C = (size_t)r->C, n = (size_t)r->R * C, V = (size_t)r->V * C, P = (size_t)r->T * C;
    start(r, "embed");
    uint16_t *token = symbols(r, (size_t)r->R);
    void *tokens = device(r, token, (size_t)r->R * sizeof *token);
    double *wte = some(r, V, 1), *wpe = some(r, P, 1), *y = zeros(r, n), *dy = some(r, n, 1);
    double *dwte = some(r, V, 1), *dwpe = some(r, P, 1);
    act *out = acts(r, NULL, n);
    float *gte = floats(r, dwte, V), *gpe = floats(r, dwpe, P);
    r->be->embed(r->o, out, acts(r, wte, V), acts(r, wpe, P), tokens, r->B, r->T, r->C);
    r->be->embed_back(r->o, gte, gpe, acts(r, dy, n), tokens, r->B, r->T, r->C, r->V);
    for (size_t i = 0; i < n; i++) {
        size_t te = token[i / C] * C + i % C, pe = i % P;
        y[i] = wte[te] + wpe[pe];
        dwte[te] += dy[i];
        dwpe[pe] += dy[i];
    }
    expect(r, "y", out, y, n, 1, rounding(r));
    expect(r, "dwte", gte, dwte, V, 0, SUM);
    expect(r, "dwpe", gpe, dwpe, P, 0, SUM);
}

static void norm(struct run *r)
{
    size_t C = (size_t)r->C, R = (size_t)r->R, n = R * C;
    start(r, "norm");
    double *x = some(r, n, 2), *add = some(r, n, 1), *gain = some(r, C, 1), *bias = some(r, C, 1);
    double *y = zeros(r, n), *stat = zeros(r, 2 * R), *dy = some(r, n, 1), *dx = some(r, n, 1);
    double *dgain = some(r, C, 1), *dbias = some(r, C, 1);
    act *xs = acts(r, x, n), *out = acts(r, NULL, n), *gains = acts(r, gain, C),
        *gx = acts(r, dx, n);
    float *stats = floats(r, NULL, 2 * R), *ggain = floats(r, dgain, C),
          *gbias = floats(r, dbias, C);
    for (size_t i = 0; i < n; i++) {
        x[i] += add[i];
        if (r->p == OPS_BF16) /* the stored sum is what is normalized */
            x[i] = (double)from_bf16(to_bf16((float)x[i]));
    }
    r->be->norm(r->o, out, stats, xs, acts(r, add, n), gains, acts(r, bias, C), r->R, r->C);
    r->be->norm_back(r->o, gx, ggain, gbias, acts(r, dy, n), xs, stats, gains, r->R, r->C);
    for (size_t i = 0; i < R; i++) {
        double mean = 0, var = 0, s1 = 0, s2 = 0, *v = x + i * C, *d = dy + i * C;
        for (size_t c = 0; c < C; c++)
            mean += v[c] / (double)C;
        for (size_t c = 0; c < C; c++)
            var += (v[c] - mean) * (v[c] - mean) / (double)C;
        double inverse = 1 / sqrt(var + 1e-5);
        stat[2 * i] = mean, stat[2 * i + 1] = inverse;
        for (size_t c = 0; c < C; c++) {
            double unit = (v[c] - mean) * inverse;
            y[i * C + c] = unit * gain[c] + bias[c];
            s1 += d[c] * gain[c] / (double)C;
            s2 += d[c] * gain[c] * unit / (double)C;
            dgain[c] += d[c] * unit;
            dbias[c] += d[c];
        }
        for (size_t c = 0; c < C; c++)
            dx[i * C + c] += (d[c] * gain[c] - s1 - (v[c] - mean) * inverse * s2) * inverse;
    }
    expect(r, "x", xs, x, n, 1, rounding(r));
    expect(r, "y", out, y, n, 1, rounding(r));
    expect(r, "stat", stats, stat, 2 * R, 0, SUM);
    expect(r, "dx", gx, dx, n, 1, rounding(r));
    expect(r, "dgain", ggain, dgain, C, 0, SUM);
    expect(r, "dbias", gbias, dbias, C, 0, SUM);
    act *again = acts(r, x, n);
    r->be->norm(r->o, NULL, NULL, again, acts(r, add, n), NULL, NULL, r->R, r->C);
    for (size_t i = 0; i < n; i++)
        x[i] += add[i];
    expect(r, "only adds", again, x, n, 1, rounding(r));
}

static double gelu(double v)
{
    return 0.5 * v * (1 + tanh(sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
}

static double gelu_slope(double v)
{
    double t = tanh(sqrt(2 / M_PI) * (v + 0.044715 * v * v * v));
    return 0.5 * (1 + t) + 0.5 * v * (1 - t * t) * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * v * v);
}

static void linear(struct run *r, size_t O, int has_bias, int has_gelu)
{
    size_t R = (size_t)r->R, I = (size_t)r->C;
    start(r, has_gelu ? "linear with gelu" : has_bias ? "linear with bias" : "linear");
    double *x = some(r, R * I, 1), *w = some(r, O * I, 0.3), *bias = some(r, O, 1);
    double *y = zeros(r, R * O), *z = zeros(r, R * O);
    double *dy = some(r, R * O, 1), *dx = zeros(r, R * I), *dw = some(r, O * I, 1),
           *db = some(r, O, 1);
    double *back = some(r, R * I, 3); /* the input of the GELU before this layer */
    act *out = acts(r, NULL, R * O), *before = acts(r, NULL, R * O), *gx = acts(r, NULL, R * I);
    act *xs = acts(r, x, R * I), *ws = acts(r, w, O * I), *backs = acts(r, back, R * I);
    float *gw = floats(r, dw, O * I), *gb = floats(r, db, O);
    r->be->linear(r->o, out, has_gelu ? before : NULL, xs, ws, has_bias ? acts(r, bias, O) : NULL,
                  r->R, r->C, (int)O);
    r->be->linear_back(r->o, gx, gw, has_bias ? gb : NULL, acts(r, dy, R * O),
                       has_gelu ? backs : NULL, xs, ws, r->R, r->C, (int)O);
    for (size_t i = 0; i < R; i++)
        for (size_t k = 0; k < O; k++) {
            double sum = has_bias ? bias[k] : 0, d = dy[i * O + k];
            for (size_t c = 0; c < I; c++) {
                sum += x[i * I + c] * w[k * I + c];
                dx[i * I + c] += d * w[k * I + c];
                dw[k * I + c] += d * x[i * I + c];
            }
            z[i * O + k] = sum;
            y[i * O + k] = has_gelu ? gelu(sum) : sum;
            db[k] += has_bias ? d : 0;
        }
    for (size_t i = 0; i < R * I && has_gelu; i++)
        dx[i] *= gelu_slope(back[i]);
    expect(r, "y", out, y, R * O, 1, rounding(r));
    if (has_gelu)
        expect(r, "z", before, z, R * O, 1, rounding(r));
    expect(r, "dx", gx, dx, R * I, 1, has_gelu ? slope_rounding(r) : rounding(r));
    expect(r, "dw", gw, dw, O * I, 0, SUM);
    expect(r, "dbias", gb, db, O, 0, SUM);
}

/* One query of one head: y, lse, and the gradients. Arrays are those of the head. */
static void attend_row(const struct run *r, size_t i, const double *qkv, double *y, double *lse,
                       const double *dy, double *dqkv, double *weight)
{
    size_t C = (size_t)r->C, D = C / (size_t)r->H, L = 3 * C;
    double top = -INFINITY, sum = 0, delta = 0, scale = 1 / sqrt((double)D);
    for (size_t j = 0; j <= i; j++) {
        weight[j] = 0;
        for (size_t c = 0; c < D; c++)
            weight[j] += qkv[i * L + c] * qkv[j * L + C + c] * scale;
        top = fmax(top, weight[j]);
    }
    for (size_t j = 0; j <= i; j++)
        sum += exp(weight[j] - top);
    lse[i] = top + log(sum);
    for (size_t j = 0; j <= i; j++) {
        weight[j] = exp(weight[j] - lse[i]);
        for (size_t c = 0; c < D; c++)
            y[i * C + c] += weight[j] * qkv[j * L + 2 * C + c];
    }
    for (size_t c = 0; c < D; c++)
        delta += y[i * C + c] * dy[i * C + c];
    for (size_t j = 0; j <= i; j++) {
        double slope = -delta;
        for (size_t c = 0; c < D; c++)
            slope += dy[i * C + c] * qkv[j * L + 2 * C + c];
        slope *= weight[j] * scale;
        for (size_t c = 0; c < D; c++) {
            dqkv[i * L + c] += slope * qkv[j * L + C + c];
            dqkv[j * L + C + c] += slope * qkv[i * L + c];
            dqkv[j * L + 2 * C + c] += weight[j] * dy[i * C + c];
        }
    }
}

static void attend(struct run *r, enum ops_attention how)
{
    size_t C = (size_t)r->C, n = (size_t)r->R * C, T = (size_t)r->T, H = (size_t)r->H, D = C / H;
    start(r, "attend");
    double *qkv = some(r, 3 * n, 2), *dy = some(r, n, 1), *y = zeros(r, n), *weight = zeros(r, T);
    double shift = sqrt(100 / sqrt((double)D)); /* D * shift^2 / sqrt(D) = 100 */
    for (size_t i = 0; i < 3 * n && r->low; i++) {
        double part = i % (3 * C) < C ? shift : i % (3 * C) < 2 * C ? -shift : 0;
        qkv[i] = (double)from_bf16(to_bf16((float)(part + qkv[i] / 4)));
    }
    double *dqkv = zeros(r, 3 * n), *lse = zeros(r, (size_t)r->B * H * T);
    act *in = acts(r, qkv, 3 * n), *out = acts(r, NULL, n), *gin = acts(r, NULL, 3 * n);
    float *lses = floats(r, NULL, (size_t)r->B * H * T);
    if (r->be->attend_with(r->o, how, r->B, r->T, r->C, r->H) < 0)
        abort();
    const char *chosen = r->be->info(r->o)->attention;
    if (how != OPS_ATTEND_OWN && strncmp(chosen, "cuDNN", 5) != 0) {
        printf("# %d x %d rows, %d channels, %d heads: attention by %s\n", r->B, r->T, r->C, r->H,
               chosen);
        return;
    }
    r->be->attend(r->o, out, lses, in, r->B, r->T, r->C, r->H);
    r->be->attend_back(r->o, gin, acts(r, dy, n), out, lses, in, r->B, r->T, r->C, r->H);
    for (size_t b = 0; b < (size_t)r->B; b++)
        for (size_t h = 0; h < H; h++)
            for (size_t i = 0; i < T; i++) {
                size_t at = b * T * C + h * D, at3 = 3 * b * T * C + h * D;
                attend_row(r, i, qkv + at3, y + at, lse + (b * H + h) * T, dy + at, dqkv + at3,
                           weight);
            }
    expect(r, "y", out, y, n, 1, roundings(r));
    expect(r, "lse", lses, lse, (size_t)r->B * H * T, 0, SUM);
    expect(r, "dqkv", gin, dqkv, 3 * n, 1, roundings(r));
}

static void loss(struct run *r)
{
    size_t R = (size_t)r->R, V = (size_t)r->V, W = (size_t)ops_padded(r->V);
    start(r, "loss");
    uint16_t *target = symbols(r, R);
    double *logits = some(r, R * W, 4), *d = zeros(r, R * W), scale = 0.25, sum = 1;
    act *l = acts(r, logits, R * W);
    float *sums = floats(r, &sum, 1);
    r->be->loss(r->o, sums, l, device(r, target, R * sizeof *target), r->R, r->V, (float)scale);
    for (size_t i = 0; i < R; i++) {
        double all = 0;
        for (size_t v = 0; v < V; v++)
            all += exp(logits[i * W + v]);
        for (size_t v = 0; v < V; v++)
            d[i * W + v] = scale * (exp(logits[i * W + v]) / all - (v == target[i] ? 1 : 0));
        sum += scale * (log(all) - logits[i * W + target[i]]);
    }
    expect(r, "sum", sums, &sum, 1, 0, SUM);
    expect(r, "gradient", l, d, R * W, 1, rounding(r));
}

static void update(struct run *r)
{
    size_t n = (size_t)r->R * (size_t)r->C + 3;
    struct ops_adamw a = {0.01f, 0.1f, 0.9f, 0.95f,
                          1e-8f, 0.5f, 3,    {{0, 2}, {2, 3}, {5, 5}, {n / 2, n - 1}}};
    start(r, "adamw");
    double *w = some(r, n, 1), *m1 = some(r, n, 1), *m2 = some(r, n, 1), *g = some(r, n, 1),
           sum = 2;
    for (size_t i = 0; i < n; i++)
        m2[i] = fabs(m2[i]);
    float *master = floats(r, w, n), *ms1 = floats(r, m1, n), *ms2 = floats(r, m2, n);
    float *gs = floats(r, g, n), *sums = floats(r, &sum, 1);
    act *ws = r->p == OPS_FP32 ? (act *)master : acts(r, NULL, n);
    r->be->squares(r->o, sums, gs, n);
    r->be->adamw(r->o, ws, master, ms1, ms2, gs, n, &a);
    for (size_t i = 0; i < n; i++) {
        double d = g[i] * (double)a.scale;
        sum += g[i] * g[i];
        m1[i] = (double)a.beta1 * m1[i] + (1 - (double)a.beta1) * d;
        m2[i] = (double)a.beta2 * m2[i] + (1 - (double)a.beta2) * d * d;
        double step = m1[i] / (1 - pow((double)a.beta1, 3)) /
                      (sqrt(m2[i] / (1 - pow((double)a.beta2, 3))) + (double)a.epsilon);
        int decays = i < 3 || (i >= n / 2 && i < n - 1);
        w[i] -= (double)a.lr * (step + (decays ? (double)a.decay * w[i] : 0));
    }
    expect(r, "squares", sums, &sum, 1, 0, SUM);
    expect(r, "master", master, w, n, 0, SUM);
    expect(r, "w", ws, w, n, 1, rounding(r));
    expect(r, "m1", ms1, m1, n, 0, SUM);
    expect(r, "m2", ms2, m2, n, 0, SUM);
}

int gpt_vectors(const struct ops_backend *be, enum ops_precision p, const struct gpt_shape *s,
                uint64_t *hash, int verbose)
{
    struct run r = {.be = be,
                    .p = p,
                    .B = s->B,
                    .T = s->T,
                    .C = s->C,
                    .H = s->H,
                    .R = s->B * s->T,
                    .V = s->V ? s->V : 256};
    char why[256];
    r.by = !s->low && s->how == OPS_ATTEND_OWN ? ""
           : s->how == OPS_ATTEND_OWN          ? " (own, low scores)"
           : s->low                            ? " (cuDNN, low scores)"
                                               : " (cuDNN)";
    r.random = 1, r.hash = 14695981039346656037u, r.verbose = verbose, r.low = s->low;
    if (be->open(&r.o, 0, p, why, sizeof why) < 0) {
        printf("# %s\n", why);
        return 1;
    }
    if (s->H > 0) {
        attend(&r, s->how);
    } else {
        embedding(&r);
        norm(&r);
        linear(&r, 24, 1, 0);
        linear(&r, 64, 1, 1);
        linear(&r, 16, 0, 0);
        loss(&r);
        update(&r);
    }
    start(&r, "end");
    be->close(r.o);
    *hash = r.hash;
    return r.wrong;
}
