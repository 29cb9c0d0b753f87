/* ops - the operations of a GPT, forward and backward, over rows of numbers.
 *
 * The interface has two implementations: ops_cpu (ops_cpu.c, OpenBLAS), and ops_cuda (gpt_cuda.cu,
 * cuBLASLt and own kernels), which is loaded from gpt_cuda.so. All pointers to data are memory of
 * the implementation: alloc() returns it, put() and get() copy to and from the host. Operations are
 * queued in order; wait() waits for them. An operation that fails makes the next wait() or get()
 * return -1, and info()->error says why.
 *
 * Shapes: B sequences of T tokens are R = B * T rows; C channels, H heads, V symbols. C is a
 * multiple of 16, the widths of linear() are multiples of 8. Pointers to act are multiples of
 * 16 bytes. Matrices are row by row. "act" is an element of activations and of the weights that
 * products read: float, or bfloat16 with OPS_BF16. Gradients of weights, moments, master weights
 * and statistics are float in either precision. Backward operations add to gradients of weights,
 * and overwrite gradients of activations unless their comment says otherwise. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum ops_precision { OPS_FP32, OPS_BF16 };

/* What computes attention: own kernels; on a GPU in bfloat16 also cuDNN, if it takes the shape, by
 * its fastest plan, or by one whose gradients have the same bits on each run, as all other
 * operations have. */
enum ops_attention { OPS_ATTEND_OWN, OPS_ATTEND_FAST, OPS_ATTEND_SAME_BITS };

typedef void act; /* float or bfloat16 */

/* Returns the length of a row of V logits: rows begin at multiples of 16 bytes, which tensor cores
 * need. */
static inline int ops_padded(int V)
{
    return (V + 7) / 8 * 8;
}

struct ops;

/* Elements begin ... end - 1. */
struct ops_range {
    size_t begin, end;
};
enum { OPS_RANGES = 4 };

/* What adamw() needs apart from the vectors. */
struct ops_adamw {
    float lr, decay, beta1, beta2, epsilon;
    float scale;                         /* factor of the gradient: clipping */
    int64_t t;                           /* step, from 1 on */
    struct ops_range decays[OPS_RANGES]; /* the elements that decay, in order; others do not */
};

/* What is known of an open device. */
struct ops_info {
    char name[256];      /* of the device's model; "cpu" for the CPU */
    char error[256];     /* the first error; "": none */
    int devices;         /* number on this node; 0: the CPU */
    char attention[256]; /* what attend_with() has chosen, and why; "": there was no choice */
    void *comm_stream;   /* a second stream, for collectives; NULL on the CPU */
};

struct ops_backend {
    /* Opens a device. Returns 0, or -1 with the error in `why`. */
    int (*open)(struct ops **out, int device, enum ops_precision p, char *why, size_t why_size);
    void (*close)(struct ops *o);
    const struct ops_info *(*info)(const struct ops *o);

    /* ---- memory. alloc() returns memory that is 0, or NULL: out of memory. alloc_host() returns
     * pinned memory, from which put() is asynchronous: it must stay unchanged until wait() or
     * get(), which waits, too. ---- */
    void *(*alloc)(struct ops *o, size_t bytes);
    void (*release)(struct ops *o, void *p);
    void *(*alloc_host)(struct ops *o, size_t bytes);
    void (*release_host)(struct ops *o, void *p);
    int (*put)(struct ops *o, void *to, const void *from, size_t bytes);
    int (*get)(struct ops *o, void *to, const void *from, size_t bytes);
    void (*zero)(struct ops *o, void *p, size_t bytes);
    int (*wait)(struct ops *o);
    void (*memory)(struct ops *o, size_t *used, size_t *total); /* of the device */

    /* ---- streams and time. order() makes the second stream wait for the operations queued so far,
     * or, unless comm_waits, later operations for the second stream. mark() records the time at
     * which the queue, or the second stream, reaches this point. between() waits for two marks and
     * returns the ms between them. ---- */
    void (*order)(struct ops *o, int comm_waits);
    void (*mark)(struct ops *o, int slot, int on_comm_stream); /* slot: 0 ... OPS_MARKS - 1 */
    double (*between)(struct ops *o, int from, int to);

    /* ---- the ten operations ---- */
    /* y (R x C) = wte[token] + wpe[position] */
    void (*embed)(struct ops *o, act *y, const act *wte, const act *wpe, const uint16_t *token,
                  int B, int T, int C);
    void (*embed_back)(struct ops *o, float *dwte, float *dwpe, const act *dy,
                       const uint16_t *token, int B, int T, int C, int V);
    /* x += add, if add is not NULL; then y = the layer norm of x. stat (R x 2): mean, 1 /
     * deviation. y NULL: only adds. */
    void (*norm)(struct ops *o, act *y, float *stat, act *x, const act *add, const act *gain,
                 const act *bias, int R, int C);
    /* Adds to dx. */
    void (*norm_back)(struct ops *o, act *dx, float *dgain, float *dbias, const act *dy,
                      const act *x, const float *stat, const act *gain, int R, int C);
    /* y (R x O) = x (R x I) w' (O x I) + bias. bias may be NULL. If z is not NULL, that is z, and
     * y = gelu(z) (tanh form). */
    void (*linear)(struct ops *o, act *y, act *z, const act *x, const act *w, const act *bias,
                   int R, int I, int O);
    /* dx and dbias may be NULL. If z is not NULL, x is gelu(z), and dx is multiplied by gelu'(z):
     * it is the gradient of z. */
    void (*linear_back)(struct ops *o, act *dx, float *dw, float *dbias, const act *dy,
                        const act *z, const act *x, const act *w, int R, int I, int O);
    /* Chooses how attend() and attend_back() are computed from now on, and gets the memory that up
     * to B sequences need. Without it: own kernels. Takes seconds. Returns 0, or -1: out of memory.
     */
    int (*attend_with)(struct ops *o, enum ops_attention how, int B, int T, int C, int H);
    /* Causal attention. qkv (R x 3C): queries, keys, values, each H heads of C / H channels (own
     * kernels of a GPU: 16, 32, 64 or 128; cuDNN: a multiple of 8 up to 128).
     * lse (B x H x T): the logarithm of each row's sum. */
    void (*attend)(struct ops *o, act *y, float *lse, const act *qkv, int B, int T, int C, int H);
    void (*attend_back)(struct ops *o, act *dqkv, const act *dy, const act *y, const float *lse,
                        const act *qkv, int B, int T, int C, int H);
    /* Adds scale * the cross-entropy of each row to *sum, and makes logits the gradient of that.
     * Rows have ops_padded(V) elements; those beyond V are not read, and get a gradient of 0. */
    void (*loss)(struct ops *o, float *sum, act *logits, const uint16_t *target, int R, int V,
                 float scale);
    /* Updates n master weights, moments, and the copy w that products read (in fp32 w ==
     * master). */
    void (*adamw)(struct ops *o, act *w, float *master, float *m1, float *m2, const float *gradient,
                  size_t n, const struct ops_adamw *a);
    /* Adds the sum of the squares of n values to *sum. */
    void (*squares)(struct ops *o, float *sum, const float *x, size_t n);
};

enum { OPS_MARKS = 256 };

extern const struct ops_backend ops_cpu;
/* Returns the implementation in the library at `path`, usually gpt_cuda.so (ops_load.c), or NULL
 * with the error in `why`. */
const struct ops_backend *ops_load(const char *path, char *why, size_t why_size);
/* The symbols that gpt_cuda.so exports: a struct ops_backend, and the variable `void *(*)(const
 * char *name)`, a function that loads one of NVIDIA's libraries; NULL: only the loader does. */
#define OPS_CUDA_SYMBOL "ops_cuda"
#define OPS_CUDA_LOAD_SYMBOL "ops_cuda_load"

#ifdef __cplusplus
}
#endif
