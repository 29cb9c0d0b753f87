/* mlp - a multi-layer perceptron: forward pass, gradient, update.
 *
 * The interface has two implementations, which apply the same formulas in the same order. mlp_cpu.c
 * uses OpenBLAS. mlp_cuda.cu uses cuBLAS and its own kernels, and is loaded from mlp_cuda.so.
 *
 * Layer l maps width[l] to width[l + 1] values: z = W a + b, then the activation, then dropout; the
 * last layer's z are the logits of a softmax. Parameters are one flat vector: for each layer W
 * (width[l + 1] x width[l], row by row), then b (width[l + 1]). Gradients have the same layout.
 * They are in a buffer with MLP_EXTRA more values after them, for other numbers that the ranks sum
 * together with the gradient. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MLP_LAYERS_MAX = 8, MLP_EXTRA = 8 };

enum mlp_activation { MLP_RELU, MLP_TANH, MLP_GELU };
enum mlp_optimizer { MLP_SGD, MLP_MOMENTUM, MLP_ADAM, MLP_ADAMW };

struct mlp_config {
    int layers;                    /* number of weight matrices */
    int width[MLP_LAYERS_MAX + 1]; /* 64, hidden..., 10 */
    enum mlp_activation activation;
    enum mlp_optimizer optimizer;
    float momentum, weight_decay, dropout, label_smoothing;
    uint64_t seed;
    int batch_max; /* largest number of samples per call */
    int device;    /* CUDA device */
};

/* A batch of n samples. All arrays are in host memory. */
struct mlp_batch {
    const float *x;    /* n x width[0] */
    const int *label;  /* n labels */
    const int *sample; /* n indices in the data set; they select the dropout masks, … */
    int n;
    int epoch;   /* … as does the epoch */
    float scale; /* factor for each sample's loss: 1 / size of the global batch */
};

struct mlp;

struct mlp_backend {
    const char *name;
    /* Returns the number of devices on this node. For the CPU this is a number that is enough for
     * all ranks. */
    int (*devices)(void);
    /* Creates a network. Returns 0, or -1 with the error in `why`. */
    int (*open)(struct mlp **out, const struct mlp_config *c, char *why, size_t why_size);
    void (*close)(struct mlp *m);
    /* Computes the sum of the scaled losses of this rank's samples. Writes its gradient to the
     * buffer, and the sum to the first extra value of the buffer. Both are 0 for n == 0. This and
     * the functions below that return an int return 0 or -1. */
    int (*gradient)(struct mlp *m, const struct mlp_batch *b);
    /* Applies the gradient in the buffer. This is step t = 1, 2, ... of the optimizer. */
    int (*update)(struct mlp *m, float lr, int64_t t);
    /* Computes the sum of losses, without smoothing and dropout, and the number of correctly
     * classified samples. */
    int (*evaluate)(struct mlp *m, const struct mlp_batch *b, double *loss_sum, int *correct);
    /* Returns the buffer, for collectives. It is in host or device memory. */
    float *(*buffer)(struct mlp *m);
    void *(*stream)(struct mlp *m); /* returns a cudaStream_t; NULL on the CPU */
    /* Copy n values between host memory and the buffer, at position `at`: put() to the buffer,
     * get() from it. The copy is complete on return. */
    int (*put)(struct mlp *m, size_t at, const float *values, size_t n);
    int (*get)(struct mlp *m, size_t at, float *values, size_t n);
    /* Copy parameters and both moments, 3 x mlp_params() values, to host memory (save()) or from it
     * (load()). */
    int (*save)(struct mlp *m, float *state);
    int (*load)(struct mlp *m, const float *state);
};

extern const struct mlp_backend mlp_cpu;
/* The symbol that mlp_cuda.so exports. */
#define MLP_CUDA_SYMBOL "mlp_cuda"

/* Returns the number of parameters. */
static inline size_t mlp_params(const struct mlp_config *c)
{
    size_t n = 0;
    for (int l = 0; l < c->layers; l++)
        n += (size_t)c->width[l + 1] * (size_t)(c->width[l] + 1);
    return n;
}

/* Returns the position of a layer's W in the flat vector; its b follows W. */
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
