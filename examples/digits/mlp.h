/* mlp - a multi-layer perceptron: forward, gradient, update. One interface, two implementations
 * that follow the same formulas in the same order: OpenBLAS (mlp_cpu.c), cuBLAS and own kernels
 * (mlp_cuda.cu, loaded from mlp_cuda.so).
 *
 * Layer l maps width[l] to width[l + 1] values: z = W a + b, then the activation, then dropout; the
 * last layer's z are the logits of a softmax. Parameters are one flat vector: for each layer W
 * (width[l + 1] x width[l], row by row), then b (width[l + 1]). Gradients lie likewise, in one
 * buffer with MLP_EXTRA more values behind them, which ranks use for what they sum beside it. */
#ifndef DIGITS_MLP_H
#define DIGITS_MLP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MLP_LAYERS_MAX = 8, MLP_EXTRA = 8 };

enum mlp_activation { MLP_RELU, MLP_TANH, MLP_GELU };
enum mlp_optimizer { MLP_SGD, MLP_MOMENTUM, MLP_ADAM, MLP_ADAMW };

struct mlp_config {
    int layers;                    /* weight matrices */
    int width[MLP_LAYERS_MAX + 1]; /* 64, hidden..., 10 */
    enum mlp_activation activation;
    enum mlp_optimizer optimizer;
    float momentum, weight_decay, dropout, label_smoothing;
    uint64_t seed;
    int batch_max; /* samples in one call */
    int device;    /* CUDA */
};

/* n samples; all arrays are the host's. */
struct mlp_batch {
    const float *x;    /* n x width[0] */
    const int *label;  /* n */
    const int *sample; /* n: which sample of the data this is; names its dropout mask */
    int n;
    int epoch;   /* likewise */
    float scale; /* of each sample's loss: 1 / size of the global batch */
};

struct mlp;

struct mlp_backend {
    const char *name;
    /* How many there are for the ranks of this node; the CPU is enough for all. */
    int (*devices)(void);
    /* 0, or -1 with the reason in `why`. */
    int (*open)(struct mlp **out, const struct mlp_config *c, char *why, size_t why_size);
    void (*close)(struct mlp *m);
    /* Writes d(sum of scaled losses)/d(parameters) of this rank's samples into the buffer, and the
     * scaled sum itself into its first extra value. n == 0 gives zeros. */
    int (*gradient)(struct mlp *m, const struct mlp_batch *b);
    /* Applies the buffer's gradient: step t = 1, 2, ... of the optimizer. */
    int (*update)(struct mlp *m, float lr, int64_t t);
    /* Sum of losses (no smoothing, no dropout) and number of samples that are classified rightly.
     */
    int (*evaluate)(struct mlp *m, const struct mlp_batch *b, double *loss_sum, int *right);
    /* Where collectives find the gradient: host or device memory. */
    float *(*buffer)(struct mlp *m);
    void *(*stream)(struct mlp *m); /* cudaStream_t; NULL: the CPU */
    /* Between values of the buffer and the host's; complete on return. */
    int (*put)(struct mlp *m, size_t at, const float *values, size_t n);
    int (*get)(struct mlp *m, size_t at, float *values, size_t n);
    /* Parameters and both moments, 3 x mlp_params() values of the host's. */
    int (*save)(struct mlp *m, float *state);
    int (*load)(struct mlp *m, const float *state);
};

extern const struct mlp_backend mlp_cpu;
/* The symbol that mlp_cuda.so exports. */
#define MLP_CUDA_SYMBOL "mlp_cuda"

/* Number of parameters. */
static inline size_t mlp_params(const struct mlp_config *c)
{
    size_t n = 0;
    for (int l = 0; l < c->layers; l++)
        n += (size_t)c->width[l + 1] * (size_t)(c->width[l] + 1);
    return n;
}

/* Where a layer's W begins in the flat vector; its b follows W. */
static inline size_t mlp_at(const struct mlp_config *c, int layer)
{
    size_t n = 0;
    for (int l = 0; l < layer; l++)
        n += (size_t)c->width[l + 1] * (size_t)(c->width[l] + 1);
    return n;
}

#ifdef __cplusplus
}
#endif
#endif
