/* Runs gpt_vectors() over the GPU implementation of examples/gpt, twice for each shape. On a GPU it
 * is a step of scripts/gpu-check; the tests run it over the library of tests/cudahost.
 *
 *   gpt_vectors LIBRARY [long]
 *
 * Prints the error of each result, then one JSON object: the number of runs, of wrong results, and
 * of runs whose repetition gave other bits. Exit status: 0, 1 if any result is wrong or different,
 * 2 if the library cannot be used. */
#include "gpt_vectors.h"

#include <stdio.h>
#include <string.h>

static const struct gpt_shape shapes[] = {
    {3, 11, 48, 0}, {1, 1, 16, 0},  {1, 31, 1000, 0}, {1, 70, 16, 1},  {2, 1, 64, 2},
    {2, 31, 64, 2}, {2, 33, 64, 2}, {1, 65, 64, 1},   {1, 65, 128, 1},
};
/* These take minutes on a CPU. */
static const struct gpt_shape long_shapes[] = {
    {4, 250, 768, 0}, {1, 1024, 32, 1}, {2, 1000, 128, 2}, {1, 1024, 128, 1}};

enum { LONG_SHAPES = sizeof long_shapes / sizeof *long_shapes };

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

int main(int argc, char **argv)
{
    const char *const names[] = {[OPS_FP32] = "fp32", [OPS_BF16] = "bf16"};
    char why[1024];
    struct totals t = {0};
    if (argc < 2 || argc > 3 || (argc == 3 && strcmp(argv[2], "long") != 0)) {
        fputs("Usage: gpt_vectors LIBRARY [long]\n", stderr);
        return 2;
    }
    const struct ops_backend *be = ops_load(argv[1], why, sizeof why);
    if (!be) {
        fprintf(stderr, "gpt_vectors: %s: %s\n", argv[1], why);
        return 2;
    }
    for (enum ops_precision p = OPS_FP32; p <= OPS_BF16; p++) {
        struct ops *o;
        if (be->open(&o, 0, p, why, sizeof why) < 0) {
            fprintf(stderr, "gpt_vectors: %s: %s\n", names[p], why);
            continue; /* older GPUs do not have bfloat16 */
        }
        be->close(o);
        int n = (int)(sizeof shapes / sizeof *shapes), m = argc == 3 ? LONG_SHAPES : 0;
        run(be, p, shapes, n, m ? n : 2, &t);
        run(be, p, long_shapes, m, m, &t);
    }
    if (t.runs == 0)
        return 2;
    printf("{\"runs\": %d, \"wrong\": %d, \"different\": %d}\n", t.runs, t.wrong, t.different);
    return t.wrong > 0 || t.different > 0;
}
