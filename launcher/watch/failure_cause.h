/* failure_cause - known failure causes: explains an error text or a signal of a rank and advises
 * what to do about it.
 *
 * The texts are those of PyTorch, NCCL, gloo, CUDA's runtime, Open MPI, libc and Python. Pure. */
#pragma once

#include <stddef.h>

#include "launcher/job/job.h"

struct failure_cause {
    const char *what;   /* "out of GPU memory" */
    const char *advice; /* printed after "try: "; one line without a final full stop */
};

/* Returns the cause of the failure of a rank, or NULL if it is unknown. `r` says how the rank
 * ended; `lines` has its last lines (NULL-terminated; may be NULL). If several causes match,
 * returns the cause that explains the others. The result is static. */
const struct failure_cause *failure_cause_find(const struct rank_end *r, const char *const *lines);

/* Returns the line that ends the last Python traceback in `lines`, such as "ValueError: bad", or
 * NULL if there is none. The result is borrowed from `lines`. Use this for failures that
 * failure_cause_find() does not know. */
const char *failure_cause_python_exception(const char *const *lines);

/* Returns the error that a rank has written to its TORCHELASTIC_ERROR_FILE: the message, and the
 * last line of the traceback if it differs. `text` is the content of the file, in the form of
 * PyTorch's `record` and torchrun. The caller frees the result. Returns NULL if `text` does not
 * have this form. */
char *failure_cause_error_file(const char *text);

/* Describes where the core dump is, or which program handles it: "core.17 in the rank's
 * directory". The caller frees the text. `pattern` is /proc/sys/kernel/core_pattern without its
 * newline, `uses_pid` core_uses_pid (see core(5)), `pid` the process that dumped core, `program`
 * its argv[0], `wdir` the ranks' directory. */
struct failure_cause_core {
    const char *pattern, *program, *wdir, *host;
    bool uses_pid;
    int pid, uid, signal;
};
char *failure_cause_core(const struct failure_cause_core *c);
