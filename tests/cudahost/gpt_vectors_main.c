/* Runs gpt_vectors() over the GPU implementation of examples/gpt, twice for each shape. On a GPU it
 * is a step of scripts/gpu-check; the tests run it over the library of tests/cudahost.
 *
 *   gpt_vectors LIBRARY [long]
 *   gpt_vectors LIBRARY attention [quick]
 *
 * Prints the error of each result, then one JSON object: the number of runs, of wrong results, and
 * of runs whose repetition gave other bits. With `attention` it measures attention at the size of
 * real models, by cuDNN and by the own kernels: one JSON object per shape (gpt_attention.h). Exit
 * status: 0, 1 if any result is wrong or different,
 * 2 if the library cannot be used. */
#include "gpt_attention.h"
#include "gpt_vectors.h"

#include <stdio.h>
#include <string.h>

static const struct gpt_shape shapes[] = {
    {3, 11, 48, 0, 0, 0, 0},     {1, 1, 16, 0, 0, 0, 0},  {1, 31, 1000, 0, 0, 0, 0},
    {2, 300, 16, 0, 0, 0, 5003}, {1, 70, 16, 1, 0, 0, 0}, {2, 1, 64, 2, 0, 0, 0},
    {2, 31, 64, 2, 0, 0, 0},     {2, 33, 64, 2, 0, 0, 0}, {1, 65, 64, 1, 0, 0, 0},
    {1, 65, 128, 1, 0, 0, 0},
};
/* By cuDNN, in bfloat16 only. Its gradients once were not numbers where T % 128 == 64 and scores
 * are low. */
static const struct gpt_shape cudnn_shapes[] = {
    {2, 31, 64, 2, OPS_ATTEND_SAME_BITS, 0, 0},
    {2, 64, 64, 2, OPS_ATTEND_SAME_BITS, 1, 0},
    {1, 33, 72, 3, OPS_ATTEND_SAME_BITS, 0, 0},
};
static const struct gpt_shape long_cudnn_shapes[] = {
    {2, 192, 128, 2, OPS_ATTEND_SAME_BITS, 0, 0},  {2, 192, 128, 2, OPS_ATTEND_SAME_BITS, 1, 0},
    {2, 1000, 128, 2, OPS_ATTEND_SAME_BITS, 1, 0}, {2, 1024, 128, 2, OPS_ATTEND_SAME_BITS, 1, 0},
    {2, 1024, 256, 2, OPS_ATTEND_SAME_BITS, 0, 0}, {2, 1000, 128, 2, OPS_ATTEND_FAST, 1, 0},
    {2, 1024, 128, 2, OPS_ATTEND_OWN, 1, 0},
};
static const struct gpt_attention_shape speed_shapes[] = {{16, 1024, 12, 64}, {8, 1024, 16, 64}};
static const struct gpt_attention_shape quick_shapes[] = {{2, 64, 2, 64}};
enum { SPEED_RUNS = 20 };

/* These take minutes on a CPU. */
static const struct gpt_shape long_shapes[] = {{4, 250, 768, 0, 0, 0, 0},
                                               {1, 250, 64, 0, 0, 0, 50257},
                                               {1, 1024, 32, 1, 0, 0, 0},
                                               {2, 1000, 128, 2, 0, 0, 0},
                                               {1, 1024, 128, 1, 0, 0, 0}};

#define COUNT(array) (sizeof(array) / sizeof *(array))

struct totals {
    int runs, wrong, different;
};

/* Runs n shapes, the first `twice` of them twice, which must give the same bits. */
static void run(const struct ops_backend *be, enum ops_precision p, const struct gpt_shape *s,
                int n, int twice, struct totals *t)
{
    for (int i = 0; i < n; i++) {
        uint64_t first = 0, second = 0;
        t->wrong += gpt_vectors(be, p, &s[i], &first, 1);
        if (i < twice) {
            t->wrong += gpt_vectors(be, p, &s[i], &second, 0);
            t->different += first != second;
        }
        t->runs++;
    }
}

/* Returns the exit status. */
static int speed(const struct ops_backend *be, int quick)
{
    const struct gpt_attention_shape *s = quick ? quick_shapes : speed_shapes;
    int n = (int)(quick ? COUNT(quick_shapes) : COUNT(speed_shapes)), wrong = 0;
    for (int i = 0; i < n; i++) {
        int rc = gpt_attention(be, &s[i], quick ? 2 : SPEED_RUNS);
        if (rc < 0)
            return 2;
        wrong += rc;
    }
    return wrong > 0;
}

int main(int argc, char **argv)
{
    const char *const names[] = {[OPS_FP32] = "fp32", [OPS_BF16] = "bf16"};
    char why[1024];
    struct totals t = {0};
    int is_long = argc == 3 && strcmp(argv[2], "long") == 0;
    int is_speed = argc > 2 && strcmp(argv[2], "attention") == 0;
    int quick = argc == 4 && is_speed && strcmp(argv[3], "quick") == 0;
    if (argc < 2 || argc > 3 + quick || argc != 2 + is_long + is_speed + quick) {
        fputs("Usage: gpt_vectors LIBRARY [long]\n"
              "       gpt_vectors LIBRARY attention [quick]\n",
              stderr);
        return 2;
    }
    const struct ops_backend *be = ops_load(argv[1], why, sizeof why);
    if (!be) {
        fprintf(stderr, "gpt_vectors: %s: %s\n", argv[1], why);
        return 2;
    }
    if (is_speed)
        return speed(be, quick);
    for (enum ops_precision p = OPS_FP32; p <= OPS_BF16; p++) {
        struct ops *o;
        if (be->open(&o, 0, p, why, sizeof why) < 0) {
            fprintf(stderr, "gpt_vectors: %s: %s\n", names[p], why);
            continue; /* older GPUs do not have bfloat16 */
        }
        be->close(o);
        int n = COUNT(shapes), m = is_long ? COUNT(long_shapes) : 0, k = COUNT(cudnn_shapes);
        run(be, p, shapes, n, m ? n : 2, &t);
        run(be, p, long_shapes, m, m, &t);
        if (p != OPS_BF16)
            continue;
        run(be, p, cudnn_shapes, k, k, &t);
        k = is_long ? COUNT(long_cudnn_shapes) : 0;
        run(be, p, long_cudnn_shapes, k, k < 5 ? k : 5, &t); /* the fastest plan may differ */
    }
    if (t.runs == 0)
        return 2;
    printf("{\"runs\": %d, \"wrong\": %d, \"different\": %d}\n", t.runs, t.wrong, t.different);
    return t.wrong > 0 || t.different > 0;
}
