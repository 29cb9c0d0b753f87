/* attend_cudnn - causal attention in bfloat16 by cuDNN, forward and backward (attend_cudnn.cc).
 *
 * The library attend_cudnn.so, next to gpt_cuda.so, exports one struct attend_cudnn_library. It is
 * built if the headers of cuDNN and of its C++ frontend are there (cuda.mk), and links nothing of
 * NVIDIA's: open() loads libcudnn.
 *
 * Layouts are those of ops.h: queries, keys and values are one array (B, T, 3, H, D), and so are
 * their gradients; y and dy are (B, T, H, D); lse is (B, H, T), the natural logarithm of the sum of
 * exp of the scaled scores. All addresses are multiples of 16 bytes. */
#pragma once

#include <stddef.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

struct attend_cudnn; /* a cuDNN of one device and stream; not for two threads at once */

/* What a plan is for: B sequences of T tokens, H heads of D channels. */
struct attend_shape {
    int B, T, H, D;
    int backward;      /* 0: the forward pass */
    int deterministic; /* the same bits on each run; the forward pass always has that */
};

/* Device memory. The forward pass reads qkv, and writes y and lse; the backward pass reads all of
 * these and dy, and writes dqkv. */
struct attend_arrays {
    const void *qkv, *dy;
    void *y, *dqkv;
    float *lse;
};

enum { ATTEND_CUDNN_ABI = 1 };

/* Functions return 0, or a negative errno with one line in `why`. -ENOTSUP: this cuDNN or device
 * cannot do it, and nothing has been changed; compute it otherwise. */
struct attend_cudnn_library {
    unsigned abi;
    /* What open() loads; a caller that knows more folders than the loader loads it before. */
    const char *needs[2];
    /* Loads libcudnn.so.9 and opens the current device, whose compute capability is `sm` (90: 9.0),
     * for work on `stream` (a cudaStream_t). With `description`, cuDNN's JSON of a device, no
     * device is needed, and run() cannot be used. */
    int (*open)(struct attend_cudnn **out, int sm, void *stream, const char *description, char *why,
                size_t why_size);
    void (*close)(struct attend_cudnn *a);
    /* Returns the version of libcudnn: 91900 is 9.19.0. */
    int (*version)(const struct attend_cudnn *a);
    /* Returns a number >= 0 for run(), after half a second or more: cuDNN compiles a kernel.
     * *workspace: bytes of device memory that run() needs. Each call makes another plan. */
    int (*plan)(struct attend_cudnn *a, const struct attend_shape *s, size_t *workspace, char *why,
                size_t why_size);
    /* Queues the plan's pass. -EIO: an error of the device. */
    int (*run)(struct attend_cudnn *a, int plan, const struct attend_arrays *x, void *workspace,
               char *why, size_t why_size);
};
/* The symbol that attend_cudnn.so exports. */
#define ATTEND_CUDNN_SYMBOL "attend_cudnn_library"

enum { ATTEND_CUDNN_OLDEST = 91801, ATTEND_CUDNN_D_MAX = 128, ATTEND_CUDNN_BH_MAX = 65535 };

/* Returns 1 if cuDNN `version` is known to compute this shape right on a GPU of compute capability
 * `sm`. If not: 0, and the reason in `why`. The limits are those of cuDNN's support matrix, and
 * those that PyTorch and Transformer Engine have found. */
static inline int attend_cudnn_takes(int version, int sm, const struct attend_shape *s, char *why,
                                     size_t why_size)
{
    if (version < ATTEND_CUDNN_OLDEST)
        snprintf(why, why_size, "cuDNN %d.%d.%d is older than %d.%d.%d", version / 10000,
                 version / 100 % 100, version % 100, ATTEND_CUDNN_OLDEST / 10000,
                 ATTEND_CUDNN_OLDEST / 100 % 100, ATTEND_CUDNN_OLDEST % 100);
    else if (sm < 80)
        snprintf(why, why_size, "cuDNN needs compute capability 8.0, not %d.%d", sm / 10, sm % 10);
    else if (s->D % 8 || s->D > ATTEND_CUDNN_D_MAX)
        snprintf(why, why_size, "cuDNN needs heads of a multiple of 8 up to %d channels, not %d",
                 ATTEND_CUDNN_D_MAX, s->D);
    else if (s->T < 2)
        snprintf(why, why_size, "cuDNN needs 2 tokens or more");
    else if (s->B > ATTEND_CUDNN_BH_MAX || s->H > ATTEND_CUDNN_BH_MAX)
        snprintf(why, why_size, "cuDNN needs at most %d sequences and heads", ATTEND_CUDNN_BH_MAX);
    else if (s->backward && s->deterministic && sm >= 120)
        snprintf(why, why_size,
                 "on compute capability %d.%d cuDNN's gradients are not known to "
                 "have the same bits on each run (try: --deterministic=off)",
                 sm / 10, sm % 10);
    else
        return 1;
    return 0;
}

#ifdef __cplusplus
}
#endif
