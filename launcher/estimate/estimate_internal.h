/* estimate_internal - the parts of an estimate, shared by the files that compute them. */
#pragma once

#include "launcher/estimate/estimate.h"

#define ESTIMATE_GIB ((double)(1 << 30))

/* Sets a part, in bytes, with the text of its formula. */
void estimate_set(struct estimate *s, enum estimate_part_kind k, double low, double high,
                  const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* Returns the number of data-parallel ranks: those that hold the same part of the model. */
int estimate_data_ranks(const struct estimate_opts *o);

/* Computes the parts of a model of this kind; s->o is complete. */
void estimate_transformer(struct estimate *s);

/* Replaces the range of the formula by that of measured peaks, of which there is one at least. */
void estimate_apply(struct estimate *s, const struct estimate_fit *fit);

/* Sets what is not part of the model: collective buffers and the CUDA context. */
void estimate_runtime(struct estimate *s, double params);
