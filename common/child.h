/* child - a program that is run for its result: a process with pipes, whose end the caller waits
 * for.
 *
 *     AUTO(child_result) struct child_result r = {0};
 *     int rc = child_run(&r, &(struct child_opts){.argv = argv, .out = CHILD_PIPE}, e);
 *     if (rc == 0 && r.status == 0)
 *         use(strbuf_str(&r.out));
 *
 * It may be used by any thread, also before or after others have started. The child inherits the
 * standard descriptors that `opts` says and those that are not close-on-exec. Programs that an
 * event loop starts use uv_spawn(), and ranks the guardian. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "common/err.h"
#include "common/strbuf.h"

enum child_stream {
    CHILD_NULL, /* /dev/null */
    CHILD_KEEP, /* that of this process */
    CHILD_PIPE, /* a pipe to this process */
    CHILD_OUT   /* for stderr: where stdout goes */
};

struct child_opts {
    char *const *argv;                   /* without a slash, argv[0] is found in PATH */
    char *const *env;                    /* its whole environment; NULL: that of this process */
    enum child_stream in, out, messages; /* its stdin, stdout and stderr */
    bool group;      /* in a process group of its own: Ctrl-C does not reach it */
    int deadline_ms; /* for child_run(); 0: none */
};

struct child {
    pid_t pid;
    int in, out, messages; /* this process's ends of the pipes; -1: none */
};

/* Starts a program. The caller closes the pipes, and waits for the process.
 *   -ENOENT, -EACCES, …  the program cannot be executed; the message names it */
int child_start(struct child *c, const struct child_opts *o, struct err *e);

enum { CHILD_OUTPUT_MAX = 64 << 20 }; /* bytes of an output that are kept */

struct child_result {
    struct strbuf out, messages;
    int status; /* exit status; 128 + N if signal N has ended it */
};
static inline void auto_child_result(struct child_result *r)
{
    strbuf_free(&r->out);
    strbuf_free(&r->messages);
}

/* Runs a program to its end and collects what it writes to its pipes. Returns 0, also if the
 * program fails, or the error of its start.
 *   -ETIMEDOUT  it did not close its pipes within the deadline, and has been killed with its group
 */
int child_run(struct child_result *r, const struct child_opts *o, struct err *e);

/* Waits for the end of a process. Returns its exit status, or 128 + N if signal N has ended it. */
int child_wait(pid_t pid);

/* Kills a process (`-pid`: its process group) and waits for its end, but not long: a process that
 * a driver or a file server holds in the kernel stays, and is left to init. So a call that may hang
 * is made in a process of its own, which is then given up:
 *
 *     fork(); in the child: prctl(PR_SET_PDEATHSIG, SIGKILL), the call, file_write_all(), _exit()
 *     in the parent: read with a deadline, then child_kill() */
void child_kill(pid_t pid);
