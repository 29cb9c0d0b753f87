/* gpt_attention - attention of examples/gpt by cuDNN next to its own kernels, at the size of a real
 * model: values, bits and times. */
#pragma once

#include "examples/gpt/ops.h"

struct gpt_attention_shape {
    int B, T, H, D;
};

/* Runs both paths with random numbers of a fixed seed, in bfloat16, `runs` times each, and prints
 * one JSON object in a line:
 *   "shape": "BxHxTxD"; "attention": what was chosen, of a refusal the reason
 *   "own_ms", "own_back_ms": of the own kernels, the median of the runs
 *   "ms", "back_ms", "deterministic_back_ms": of cuDNN, if it takes the shape
 *   "apart": the largest error of y, lse and the gradients against the own kernels, relative to the
 *     number or the typical number; "limit": what is right
 *   "same_bits": whether all runs of the deterministic plan gave the same bits;
 *   "fast_same_bits": the same of the fastest plan, which need not
 * Returns the number of what is wrong: apart above limit, or different bits. A refusal is right.
 * -1: the device could not be used; a line says why. */
int gpt_attention(const struct ops_backend *be, const struct gpt_attention_shape *s, int runs);
