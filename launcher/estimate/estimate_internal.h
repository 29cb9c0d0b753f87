/* estimate_internal - what the files of the estimate share. */
#pragma once

#include "launcher/estimate/estimate.h"

/* The ends of a range, and what is most likely. */
struct estimate_range {
    double low, expected, high;
};

/* Sets a part, in bytes, with the text of its formula. */
void estimate_set_part(struct estimate *s, enum estimate_part_kind k, struct estimate_range r,
                       const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* Writes "2" or "2 to 4". */
const char *estimate_range_text(char *buf, size_t size, double low, double high);

/* Set the parts that do not depend on the batch: parameters, gradients, optimizer state, master
 * weights, temporaries; and host_bytes. */
void estimate_states(struct estimate *s);

/* The symbol of what has gradients and state: "P", the parameters of a rank; "T" if only some are
 * trained. */
const char *estimate_symbol(const struct estimate_opts *o);

/* Sets the parts that do: activations, one layer, logits. */
void estimate_activations(struct estimate *s);

/* Shapes for a model of which only the number of parameters is known: 12 L h^2 of them, with h =
 * ratio * L. The ratio of published models is 40 (small ones) to 160. */
struct model_shape estimate_assumed_shape(const struct model_shape *m, double ratio, int head_dim,
                                          int vocab);

/* Returns the bytes of all parts that depend on the batch and of the others in a phase; `end`: 0
 * low, 1 expected, 2 high. */
double estimate_end(const struct estimate_part *p, int end);
