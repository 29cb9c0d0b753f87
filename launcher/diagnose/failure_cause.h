/* cause - what a failure that is known by its text or its signal means, and what to do about it.
 *
 * The texts are those of PyTorch, NCCL, gloo, CUDA's runtime, Open MPI, libc and Python. Pure. */
#ifndef DROVER_FAILURE_CAUSE_H
#define DROVER_FAILURE_CAUSE_H

#include <stddef.h>

#include "launcher/job/job.h"

struct failure_cause {
    const char *what;   /* "GPU memory" */
    const char *advice; /* one line, without a final full stop */
};

/* What is known about a rank that ended like `r` and whose last lines were `lines`
 * (NULL-terminated; may be NULL). Where several fit, the one that explains the others. Borrowed,
 * for ever; NULL where nothing is known. */
const struct failure_cause *failure_cause_find(const struct rank_end *r, const char *const *lines);

/* The line that ends the last Python traceback in `lines`: "ValueError: bad". Borrowed from them;
 * NULL where there is none. For failures that failure_cause_find() does not know. */
const char *failure_cause_python_exception(const char *const *lines);

/* Where a dumped core is, or who has it, in words: "core.17 in the rank's directory". To be freed.
 * `pattern` is /proc/sys/kernel/core_pattern without its newline, `uses_pid` core_uses_pid (see
 * core(5)), `pid` the process that ended, `program` its argv[0], `wdir` the ranks' directory. */
struct failure_cause_core {
    const char *pattern, *program, *wdir, *host;
    bool uses_pid;
    int pid, uid, signal;
};
char *failure_cause_core(const struct failure_cause_core *c);

#endif
