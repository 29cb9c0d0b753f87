/* cause - what a failure that is known by its text or its signal means, and what to do about it.
 *
 * The texts are those of PyTorch, NCCL, CUDA's runtime, libc and Python. Pure. */
#ifndef DROVER_CAUSE_H
#define DROVER_CAUSE_H

#include <stddef.h>

#include "launcher/job.h"

struct cause {
    const char *what;   /* "GPU memory" */
    const char *advice; /* one line, without a final full stop */
};

/* What is known about a rank that ended like `r` and whose last lines were `lines`
 * (NULL-terminated; may be NULL). Where several fit, the one that explains the others. Borrowed,
 * for ever; NULL where nothing is known. */
const struct cause *cause_find(const struct rank_end *r, const char *const *lines);

#endif
