/* registry - the running jobs of this user on this node, one file per job, for `drover ps`, `drover
 * logs` and `drover kill`.
 *
 * The files are in ${XDG_RUNTIME_DIR}/drover/jobs. If that is not set or cannot be used, they are
 * in drover/jobs of the private directory of /tmp (private_dir.h). Readers read both. Only the user
 * can access the directories (0700). A job is identified by the pid and start time of its process.
 * A file that a killed drover left is not a job; the next reader removes it. A sweep and
 * each of its trials that run on this node are jobs, too. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "common/json.h"
#include "common/mem.h"

enum registry_kind { REGISTRY_JOB, REGISTRY_SWEEP, REGISTRY_TRIAL, REGISTRY_KINDS };
static const char *const registry_kind_names[REGISTRY_KINDS] = {"job", "sweep", "trial"};

/* An entry. registry_read() lets the texts borrow from `json`. */
struct registry_job {
    json_t *json;
    const char *id;
    enum registry_kind kind;
    const char *sweep;     /* its name; NULL: not of a sweep */
    int trial;             /* its number, of REGISTRY_TRIAL */
    pid_t pid;             /* of its drover: the coordinator of a sweep, the worker of a trial */
    uint64_t start;        /* of that process: clock ticks since boot */
    const char *command;   /* without secrets */
    const char *dir;       /* working directory of its drover */
    int ranks, first_rank; /* first_rank > 0: the external part of a larger job; ranks 0: a sweep */
    const char *nodes;     /* separated by commas */
    const char *output_dir; /* of --output-filename, or of the trial; "": none */
    const char *lines;      /* path of its line_log; the file may not exist */
    int64_t started_ms;     /* since 1970 */
};

struct registry;

/* Adds a job of this process. Fills in `pid`, `start`, `dir`, `lines` and `started_ms`. Copies what
 * it needs. */
int registry_enter(struct registry **out, const struct registry_job *job, struct err *e);
/* Returns a command for the sweep of a sweep or trial to paste, with --dir if it is needed: "drover
 * sweep show NAME". `command` is "drover sweep show". The caller frees it. */
char *registry_sweep_command(const struct registry_job *j, const char *command);

/* Adds a sweep that this process coordinates: its id is sweep-NAME.PID. `dir`: of the sweep. */
int registry_enter_sweep(struct registry **out, const char *name, const char *dir, struct err *e);
/* Adds a trial that this process runs: its id is trial-SWEEP.TRIAL.PID. Hides secrets in `argv`.
 * `output_dir` has its output. */
int registry_enter_trial(struct registry **out, const char *sweep, int trial, int ranks,
                         char *const *argv, const char *output_dir, struct err *e);
/* Removes the job and its line log. */
void registry_leave(struct registry *r);
AUTO_DEFINE(registry, struct registry *, registry_leave)
/* Returns the path of the line log (struct registry_job.lines). Borrowed. */
const char *registry_lines(const struct registry *r);

/* All running jobs, the oldest first. */
struct registry_list {
    struct registry_job *at;
    size_t count;
};
void registry_read(struct registry_list *out);
void registry_end(struct registry_list *l);

/* Finds the only job whose id, or the part of it after "drover-", begins with `prefix`. Borrowed.
 *   -ENOENT  no job
 *   -EEXIST  several jobs */
int registry_find(const struct registry_job **out, const struct registry_list *l,
                  const char *prefix, struct err *e);

/* Returns true if the job's process still runs. */
int registry_is_alive(const struct registry_job *j);

/* Returns a name for where a pid means something: this machine, and the PID namespace. The caller
 * frees it. */
char *registry_place(void);
/* Returns the start time of this process in clock ticks since boot; 0: unknown. */
uint64_t registry_own_start(void);

json_t *registry_json(const struct registry_job *j);
