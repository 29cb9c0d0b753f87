/* launch - one running job: starts the ranks of a plan, emits events, stops the job. `drover run`,
 * `drover worker` and `drover bench` use it.
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
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/engine/launch_context.h"
#include "launcher/engine/rank_status.h"
#include "launcher/io/progress_packet.h"
#include "launcher/job/job.h"
#include "launcher/plan/plan.h"

struct launch;

enum launch_stream { LAUNCH_STDOUT = 1, LAUNCH_STDERR = 2 };

enum { LAUNCH_OBSERVERS_MAX = 24 }; /* per job */

struct job_end {
    int status;            /* exit status of `drover run`: 0, the first failed rank's status, 128+n,
                              MPI_Abort's code, or 126/127 if the program could not be started */
    int first_failed;      /* rank; -1: none failed */
    struct rank_end first; /* of first_failed */
    bool stopped; /* true if launch_stop(), launch_interrupt() or launch_kill() ended the job */
    const char *broken; /* what ended the job if no rank did, such as "mpirun was killed by signal
                           9"; NULL: a rank did; borrowed during the call */
    double seconds;     /* from start to end */
    const char *error;  /* text of first_failed's TORCHELASTIC_ERROR_FILE, usually JSON; NULL: none;
                           borrowed during the call */
    const char *const
        *last_lines; /* of first_failed's stderr (its stdout if stderr is empty), oldest first,
                        NULL-terminated, at most 20; borrowed during the call */
    const struct job_witness *ranks; /* all ranks; NULL: no rank failed; borrowed during the call */
    int ranks_count;
};

/* Every function may be NULL. */
struct launch_events {
    /* A complete line without its newline. The last text of a stream counts as a line even without
     * a newline. Text before a lone '\r', as a progress bar writes it, is a line too. Lines of more
     * than 1 MiB arrive in pieces (io/rank_output.h). text[len] is the byte that ended the line:
     * '\n', '\r', or '\0' if the stream ended. The observer returns false to request a pause: no
     * more lines of this job are emitted until launch_resume_output(). The other observers still
     * get this line. */
    bool (*line)(void *arg, int rank, enum launch_stream from, const char *text, size_t len);
    /* One JSON object that a rank reported. Needs spec.node.reports. */
    void (*report)(void *arg, int rank, const char *json, size_t len);
    /* A section or a heartbeat of a rank, or one of its time limits. Needs spec.node.reports. */
    void (*progress)(void *arg, int rank, const struct progress_packet *p);
    void (*rank_ended)(void *arg, const struct rank_end *r);
    /* A rank has failed, and another one may be the cause. Emitted when the output of this rank has
     * ended, and then every 100 ms. `end` is what is known so far. Returns for how many
     * milliseconds after the failure the others may run on before they are told to stop. Only the
     * first observer that has this function gets it. */
    int (*listen)(void *arg, const struct job_end *end);
    /* The last event: every rank has exited, its output has ended, and no process of the job is
     * left. Only the observer that subscribed last may free the job here. */
    void (*ended)(void *arg, const struct job_end *end);
    /* `pid` is 0 if the rank is on another node. */
    void (*rank_started)(void *arg, int rank, pid_t pid);
    /* A rank on another node has sent its status. launch_sample_status() returns this status from
     * now on. */
    void (*rank_status)(void *arg, int rank);
    /* The answer to launch_request_stack(); the same as engine_events.stack. */
    void (*call_stack)(void *arg, int rank, const char *text);
    /* The same as engine_events.node_gpus. */
    void (*node_gpus)(void *arg, int node, const char *text, size_t len);
    /* An incomplete line, such as a prompt, after 100 ms without more output. `text` begins with
     * the first byte of the line. `line` delivers the whole line again when it is complete. */
    void (*partial_line)(void *arg, int rank, enum launch_stream from, const char *text,
                         size_t len);
    /* The same as engine_events.checked and .ready. Only the first observer that
     * has them gets them. */
    int (*node_checked)(void *arg, int node, const char *text, size_t len, struct err *e);
    int (*nodes_ready)(void *arg, int *node, struct err *e);
};

/* Plans and starts a job; `ev` becomes its first observer. `s` is copied; plan.h says how long its
 * pointers must stay valid. On failure nothing was started. A program that cannot be executed is
 * not a failure here: the job ends with status 126 or 127. */
int launch_start(struct launch **out, struct launch_context *l, const struct launch_spec *s,
                 const struct launch_events *ev, void *arg, struct err *e);
/* Adds an observer, which must exist until `ended`; `ev` is copied. Observers are called in the
 * order in which they subscribed. At most LAUNCH_OBSERVERS_MAX, the first one included. */
void launch_observe(struct launch *j, const struct launch_events *ev, void *arg);
/* Returns the join ticket of a job of the engine "external": the address to which its agents
 * connect (agent_spawn.h). The caller frees it. `*token` authenticates the agents; it is
 * borrowed. */
char *launch_join_ticket(const struct launch *j, const char **token);
const struct plan *launch_plan(const struct launch *j);
/* Returns the rank's process id, or 0 if the rank is not running or runs on another node. */
pid_t launch_rank_pid(const struct launch *j, int rank);
/* Samples the status of every rank; `out` has one entry per rank. The entry of a rank on another
 * node is the status that its agent sent last, or zero if no status has arrived. Returns -errno if
 * /proc cannot be read. */
int launch_sample_status(struct launch *j, struct rank_status *out);
/* Writes the rank's position in its collectives to `out`, also after the rank has exited. The
 * position of a rank on another node is as old as the last status that its agent sent. An agent
 * sends the last status when its rank exits. */
void launch_last_collective(const struct launch *j, int rank, struct collective_position *out);
/* Requests the status of every running rank on another node, and sets the entries of these ranks in
 * `asked` to true. `asked` has one entry per rank. `rank_status` follows for each of these ranks,
 * unless the rank exits before. Returns the number of these ranks. */
int launch_request_status(struct launch *j, bool *asked);
/* Requests the call stack of a rank on another node (launch_rank_pid() is 0). */
void launch_request_stack(struct launch *j, int rank);
/* Returns true if any rank has connected to PMIx or PMI-1. */
bool launch_pmix_connected(const struct launch *j);
/* Returns the number of milliseconds for which the rank has been connected to PMIx while other
 * ranks have not connected. Returns 0 if the rank is not connected, or if all ranks have connected.
 */
int64_t launch_pmix_wait_ms(const struct launch *j, int rank);

/* Stops a running job step by step. Ranks that have used their report channel are asked to stop and
 * get `request_ms` to exit; then every rank's process group gets SIGTERM, and SIGKILL after the
 * spec's grace period. Has no effect if the job is stopping already. */
void launch_stop(struct launch *j, int request_ms);
/* Does the same as launch_stop(), but sends `sig` instead of SIGTERM and makes no request on the
 * report channel. */
void launch_interrupt(struct launch *j, int sig);
/* Logs how many ranks of a stopping job still run, and how much time they have until they are
 * killed. */
void launch_log_stopping(const struct launch *j);
/* Sends SIGKILL to every process of the job, without a grace period. */
void launch_kill(struct launch *j);
/* Forwards a signal to every rank's process group. */
void launch_signal(struct launch *j, int sig);
void launch_resume_output(struct launch *j);
/* Frees the job. Call this only in `ended` or later. NULL is accepted. */
void launch_free(struct launch *j);
