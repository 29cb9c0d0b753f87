/* launch - start a job, watch it, end it: the library inside `drover run`, `drover worker` and
 * `drover bench`.
 *
 *     guardian_start(&g, e);                  first thing in main
 *     launch_context_open(&l, loop, g, e);          once per process
 *     launch_start(&j, l, &spec, &events, arg, e);
 *     uv_run(loop, UV_RUN_DEFAULT);           events come; after `ended`, launch_free(j)
 *
 * One guardian and one PMIx server serve all jobs of the process, a namespace each. Everything
 * here runs on the loop's thread; callbacks come from the loop, never from inside launch_start().
 */
#ifndef DROVER_LAUNCH_H
#define DROVER_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/engine/launch_context.h"
#include "launcher/inspect/rank_status.h"
#include "launcher/job/job.h"
#include "launcher/plan/plan.h"

struct launch;

enum launch_stream { LAUNCH_STDOUT = 1, LAUNCH_STDERR = 2 };

struct job_end {
    int status;            /* what `drover run` returns: 0, the first failed rank's status, 128+n;
                              MPI_Abort's code; 126/127 where the program could not be started */
    int first_failed;      /* rank; -1: none failed */
    struct rank_end first; /* of first_failed */
    bool stopped;          /* launch_stop() or a signal ended it */
    const char *broken; /* what ended it, where that was no rank ("mpirun was killed by signal 9");
                           NULL as usual; borrowed during the call */
    double seconds;     /* from start to end */
    const char *const
        *last_lines; /* of first_failed's stderr (stdout where that was silent), oldest
                        first, NULL-terminated, at most 20; borrowed during the call */
};

struct launch_events {
    /* A whole line without its newline (a final part without one counts as a line, and so does
     * what ends with a lone '\r', a progress bar's). Lines of more than 64 KiB come in pieces.
     * text[len] is what ended it: '\n', '\r', or '\0' where nothing did. NULL: the lines are
     * dropped after they were kept for last_lines and written to files. Returns false to ask for a
     * pause: no more lines of this job until launch_resume_output(). */
    bool (*line)(void *arg, int rank, enum launch_stream from, const char *text, size_t len);
    /* One JSON object that a rank reported. Needs spec.reports. */
    void (*report)(void *arg, int rank, const char *json, size_t len);
    void (*rank_ended)(void *arg, const struct rank_end *r);
    /* Every rank has ended, its output too, and nothing of the job is left running. */
    void (*ended)(void *arg, const struct job_end *end);
    /* `pid` is 0 where the rank is on another node. */
    void (*rank_started)(void *arg, int rank, pid_t pid);
    /* A rank on another node has told where it stands. May be NULL. */
    void (*looked)(void *arg, int rank);
    /* The answer to launch_request_stack(), as engine_events has it. May be NULL. */
    void (*stack)(void *arg, int rank, const char *text);
    /* A line that has begun, all of it so far, when nothing has followed for 100 ms (a prompt, dots
     * that show progress); `line` brings it again when it is whole. May be NULL. */
    void (*begun)(void *arg, int rank, enum launch_stream from, const char *text, size_t len);
};

/* Plans and starts a job. `s` is copied; its pointers are good as long as plan.h says. On failure
 * nothing was started. A program that cannot be executed is no failure here: the job ends with
 * status 126 or 127. */
int launch_start(struct launch **out, struct launch_context *l, const struct launch_spec *s,
                 const struct launch_events *ev, void *arg, struct err *e);
/* Of a job of PLAN_ENGINE_EXTERNAL: where its `drover rank`s (agents.h) are to come, and the secret
 * that lets them in (borrowed). To be freed. */
char *launch_join_ticket(const struct launch *j, const char **token);
const struct plan *launch_plan(const struct launch *j);
/* 0 where the rank is not running. */
pid_t launch_rank_pid(const struct launch *j, int rank);
/* Where each rank stands (`out` has one for each). Those on other nodes: where they stood at the
 * call before, all zeroes where that is not known. -errno where /proc cannot be read. */
int launch_sample_status(struct launch *j, struct standing *out);
/* Where the rank's collectives are; also when it has ended. On another node: at that call, or at
 * its end, or as it has answered launch_request_status(). */
void launch_last_collective(const struct launch *j, int rank, struct collective_position *out);
/* Asks all that run where they stand: `looked` follows for those that are marked in `asked` (one
 * for each rank), unless they end before. Returns how many. */
int launch_request_status(struct launch *j, bool *asked);
/* Asks for the stack of a rank whose launch_rank_pid() is 0: it is on another node. */
void launch_request_stack(struct launch *j, int rank);
/* Whether any rank has attached to PMIx. True where mpirun or srun serves it: that is not known. */
bool launch_pmix_connected(const struct launch *j);
/* For how long the rank has been attached to PMIx while others are not; 0: it is not, or all are,
 * or mpirun or srun serves it. */
int64_t launch_pmix_wait_ms(const struct launch *j, int rank);

/* Ends the job in good order: ranks with a report channel that have used it are told to stop and
 * have `polite_ms` to end by themselves; then SIGTERM to every rank's group; SIGKILL after the
 * spec's grace. Again while it runs: nothing. */
void launch_stop(struct launch *j, int polite_ms);
/* The same with `sig` in place of SIGTERM, and nobody is told before. */
void launch_interrupt(struct launch *j, int sig);
/* SIGKILL to everything of the job, now. */
void launch_kill(struct launch *j);
/* Forwards a signal to every rank's process group. */
void launch_signal(struct launch *j, int sig);
void launch_resume_output(struct launch *j);
/* Only after `ended`. */
void launch_free(struct launch *j);

#endif
