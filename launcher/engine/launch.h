/* launch - one running job: starts the ranks of a plan, emits events, stops the job. The library
 * behind `drover run`, `drover worker` and `drover bench`.
 *
 *     guardian_start(&g, e);                  first call in main
 *     launch_context_open(&l, loop, g, e);          once per process
 *     launch_start(&j, l, &spec, &events, arg, e);
 *     launch_observe(j, &more_events, arg);         as many as needed
 *     uv_run(loop, UV_RUN_DEFAULT);           emits events; after `ended`, launch_free(j)
 *
 * One guardian and one PMIx server serve all jobs of the process; each job has its own namespace.
 * Everything here runs on the loop's thread. Events come from the loop, never from inside
 * launch_start(). */
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

enum { LAUNCH_OBSERVERS_MAX = 8 }; /* per job */

struct job_end {
    int status;            /* exit status of `drover run`: 0, the first failed rank's status, 128+n,
                              MPI_Abort's code, or 126/127 if the program could not be started */
    int first_failed;      /* rank; -1: none failed */
    struct rank_end first; /* of first_failed */
    bool stopped;          /* launch_stop(), launch_interrupt() or launch_kill() ended the job */
    const char *broken;    /* what ended the job if it was not a rank ("mpirun was killed by signal
                              9"); usually NULL; borrowed during the call */
    double seconds;        /* from start to end */
    const char *error;     /* text of first_failed's TORCHELASTIC_ERROR_FILE, JSON if the program is
                              right; NULL: none; borrowed during the call */
    const char *const
        *last_lines; /* of first_failed's stderr (its stdout if stderr is empty), oldest first,
                        NULL-terminated, at most 20; borrowed during the call */
};

/* Every function may be NULL. */
struct launch_events {
    /* A complete line without its newline. A final part without a newline counts as a line, and so
     * does text that ends with a lone '\r', as a progress bar writes it. Lines of more than 1 MiB
     * come in pieces (io/rank_output.h). text[len] is the byte that ended the line: '\n', '\r', or
     * '\0' if no byte did. Returns false to request a pause: then no more lines of this job come
     * until launch_resume_output(). The other observers still get this line. */
    bool (*line)(void *arg, int rank, enum launch_stream from, const char *text, size_t len);
    /* One JSON object that a rank reported. Needs spec.reports. */
    void (*report)(void *arg, int rank, const char *json, size_t len);
    void (*rank_ended)(void *arg, const struct rank_end *r);
    /* The last event: every rank has exited, its output has ended, and no process of the job is
     * left. Only the observer that subscribed last may free the job here. */
    void (*ended)(void *arg, const struct job_end *end);
    /* `pid` is 0 if the rank is on another node. */
    void (*rank_started)(void *arg, int rank, pid_t pid);
    /* A rank on another node has sent its status, which launch_sample_status() now returns. */
    void (*rank_status)(void *arg, int rank);
    /* The answer to launch_request_stack(), as engine_events has it. */
    void (*call_stack)(void *arg, int rank, const char *text);
    /* An incomplete line, from its first byte, after 100 ms without more output: a prompt, or dots
     * that show progress. `line` delivers it again once it is complete. */
    void (*partial_line)(void *arg, int rank, enum launch_stream from, const char *text,
                         size_t len);
};

/* Plans and starts a job; `ev` becomes its first observer. `s` is copied; plan.h says how long its
 * pointers must stay valid. On failure nothing was started. A program that cannot be executed is
 * not a failure here: the job ends with status 126 or 127. */
int launch_start(struct launch **out, struct launch_context *l, const struct launch_spec *s,
                 const struct launch_events *ev, void *arg, struct err *e);
/* Adds an observer, which must exist until `ended`; `ev` is copied. Observers are called in the
 * order in which they subscribed. At most LAUNCH_OBSERVERS_MAX, the first one included. */
void launch_observe(struct launch *j, const struct launch_events *ev, void *arg);
/* The join ticket of a job of the engine "external": returns the address at which its agents
 * connect (agent_spawn.h), to be freed. `*token` authenticates them; borrowed. */
char *launch_join_ticket(const struct launch *j, const char **token);
const struct plan *launch_plan(const struct launch *j);
/* Returns 0 if the rank is not running, or runs on another node. */
pid_t launch_rank_pid(const struct launch *j, int rank);
/* Samples the status of every rank; `out` has one entry per rank. For ranks on other nodes it is
 * the status at the previous call, or all zeroes if it is unknown. Returns -errno if /proc cannot
 * be read. */
int launch_sample_status(struct launch *j, struct rank_status *out);
/* Returns the rank's position in its collectives, also after it has exited. For a rank on another
 * node: as of the last status that its agent sent, which is at the latest its exit. */
void launch_last_collective(const struct launch *j, int rank, struct collective_position *out);
/* Requests the status of every running rank on another node. `asked` has one entry per rank;
 * `rank_status` follows for each one that is set to true, unless the rank exits before. Returns
 * their number. */
int launch_request_status(struct launch *j, bool *asked);
/* Requests the call stack of a rank on another node (launch_rank_pid() is 0). */
void launch_request_stack(struct launch *j, int rank);
/* Returns true if any rank has connected to PMIx, or if mpirun or srun serves PMIx, since it is
 * unknown then. */
bool launch_pmix_connected(const struct launch *j);
/* Returns for how many milliseconds the rank has been connected to PMIx while other ranks are not.
 * 0: it is not connected, or all ranks are, or mpirun or srun serves PMIx. */
int64_t launch_pmix_wait_ms(const struct launch *j, int rank);

/* Stops a running job step by step. Ranks that have used their report channel are asked to stop
 * and get `request_ms` to exit; then every rank's process group gets SIGTERM, and SIGKILL after
 * the spec's grace period. Has no effect on a job that is stopping. */
void launch_stop(struct launch *j, int request_ms);
/* The same with `sig` instead of SIGTERM and without the request on the report channel. */
void launch_interrupt(struct launch *j, int sig);
/* Logs how many ranks of a job that stops still run, and for how long they may. */
void launch_log_stopping(const struct launch *j);
/* Sends SIGKILL to every process of the job at once. */
void launch_kill(struct launch *j);
/* Forwards a signal to every rank's process group. */
void launch_signal(struct launch *j, int sig);
void launch_resume_output(struct launch *j);
/* Only after `ended`. NULL is accepted. */
void launch_free(struct launch *j);

#endif
