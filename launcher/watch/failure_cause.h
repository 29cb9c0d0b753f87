/* failure_cause - known failure causes: explains an error text or a signal of a rank and advises
 * what to do about it.
 *
 * failure_table.h has the known texts. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "launcher/job/job.h"

/* How far what a rank says is trusted: the cause is taken from the first level that has one. */
enum failure_trust {
    FAILURE_FACT = 1,  /* the kernel's word, a signal, or an error that drover itself raised */
    FAILURE_EXCEPTION, /* Python's last exception, or the rank's error file */
    FAILURE_RAISED,    /* an error that NCCL, CUDA or MPI raised, or a fault of MPI or PMIx */
    FAILURE_LINE,      /* a known text in any other line */
    FAILURE_NEVER      /* a warning, or a line of NCCL INFO: never a cause */
};

/* What a restart can do about a failure. */
enum failure_remedy {
    FAILURE_RESTART,
    FAILURE_STOP,     /* the same failure would come again: the user has to change something */
    FAILURE_ELSEWHERE /* a restart may succeed on other hosts: this one is damaged */
};

struct failure_cause {
    const char *what;   /* "out of GPU memory"; the error itself, if it is none of the known ones */
    const char *advice; /* printed after "try: "; one line without a final full stop; NULL: none */
    enum failure_remedy remedy;
    enum failure_trust trust; /* of the line that shows it */
    bool second_hand; /* it only says that another rank has failed, has left or did not come */
};

/* Finds the cause of the failure of a rank; false: it is unknown. `r` says how the rank ended;
 * `lines` has its last lines (NULL-terminated; may be NULL); `written` is what
 * failure_cause_error_file() returned, or NULL. Of several causes at one level, the one that
 * explains the others is found. The texts of `*out` are static, or borrowed from the arguments. */
bool failure_cause_find(struct failure_cause *out, const struct rank_end *r,
                        const char *const *lines, const char *written);

/* Returns what a restart can do about an exception of Python, or another error, that no row of the
 * table knows. "NameError: name 'x' is not defined": FAILURE_STOP. */
enum failure_remedy failure_cause_remedy(const char *error);

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
