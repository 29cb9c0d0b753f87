/* feature - the features of `drover run`: one file and one row each. A feature has its options and
 * their settings, follows the job in all its attempts, and may ask the session to stop it.
 *
 * The session loops over the rows and knows no feature by name. */
#pragma once

#include <uv.h>

#include "common/err.h"
#include "common/json.h"
#include "common/opt.h"
#include "common/strbuf.h"
#include "launcher/engine/launch.h"
#include "launcher/jobs/line_log.h"
#include "launcher/limits/job_clock.h"
#include "launcher/watch/job_monitor.h"
#include "launcher/watch/section_limits.h"

enum {
    FEATURES_MAX = 24,
    FEATURE_OPTIONS_MAX = 7,
    FEATURE_HOSTS_MAX = 1 << 20,
    FEATURE_TIME_MAX_S = 1000000 /* of durations */
};

#define FEATURE_SEVERAL_ATTEMPTS "several attempts failed there first"

/* The selected streams of each rank. If zero-initialised, no stream is selected. */
struct feature_redirect_map {
    int all;     /* value for the ranks that are not named */
    char *named; /* [local rank]: 1 + the value; 0: not named */
    int count;
};

/* Reads a value of --redirects or --tee (feature_redirect.c).
 *   -EINVAL, -ERANGE  the text has neither form */
int feature_redirect_parse(struct feature_redirect_map *m, const char *text, struct err *e);
void feature_redirect_map_free(struct feature_redirect_map *m);

/* The settings of all features, from their options; 0 or NULL: not given. */
struct feature_settings {
    struct {
        const char *name;
        bool update; /* the measurement replaces a stored baseline */
    } baseline;
    struct {
        struct job_limits limits;
        const char *start_when; /* a command */
        double start_when_pause_max_s;
    } budget;
    struct {
        bool full; /* the job begins with an all-reduce over its nodes */
        bool off;  /* the nodes are not checked before the job starts */
    } preflight;
    struct {
        const char *name; /* of the run */
        bool off;         /* it has no log */
    } run_log;
    struct {
        struct feature_redirect_map redirects, tee; /* only to files; also to the console */
        const char *dir;                            /* NULL: a new directory in /tmp */
        const char *run_id;                         /* NULL: "none", torchrun's default */
    } redirect;
    struct {
        const char *timeouts, *out_of_section, *heartbeat, *initial_heartbeat;
        struct section_limits limits; /* these, as time limits */
        bool from_connect; /* they apply from the connection of a RankMonitorClient on, not from
                              the start of the rank */
        bool learn;        /* limits that are not given follow from earlier jobs … */
        char *learnt;      /* … and are these; owned; NULL: none are known */
        bool watched;      /* one of these, or stragglers, whose clients send limits, too */
    } sections;
    struct {
        int count; /* hosts beyond those that the job needs */
        const char *exclude_file;
        double exclude_for_s;     /* for how long a node is written to it */
        struct hosts *candidates; /* the hosts that the job may use; owned; NULL: it needs all … */
        int nodes_min, nodes_max; /* … else the number that it needs */
    } spares;
    const char *notify;                 /* URL or command */
    const char *events, *report;        /* files */
    const char *metrics, *metrics_file; /* address; file */
    double hang_timeout_s, idle_timeout_s;
    bool stragglers, stop_on_nan;
    unsigned asked; /* by row: the options ask for it (feature_check()) */
};

/* Why a job was stopped. More than one cause is possible: the first of them decides. */
enum feature_cause {
    FEATURE_CAUSE_OUTPUT, /* the reader of the output has closed it */
    FEATURE_CAUSE_LIMIT,
    FEATURE_CAUSE_NOT_FINITE,
    FEATURE_CAUSE_IDLE,
    FEATURE_CAUSE_HANG,
    FEATURE_CAUSE_SIGNAL,
    FEATURE_CAUSES
};

/* A run of `drover run`, as its features see it. All pointers are borrowed. */
struct feature_run {
    const char *program; /* prefix of messages */
    struct launch_spec *spec;
    struct feature_settings *set;
    bool quiet, dry_run;
    uv_loop_t *loop;
    const struct topo *topo;       /* of this machine */
    const struct restart *restart; /* which hosts have failed, and the number of restarts */
    struct launch *job;            /* of the present attempt, or else of the last one … */
    const struct plan *plan; /* … and its plan; borrowed until a further attempt is prepared */
    int attempt;             /* its number; the first one is 0 */
    unsigned causes;         /* why it was stopped: bits of enum feature_cause … */
    unsigned stopped_by;     /* … and by which rows */
    struct strbuf failure;   /* the first failure of the attempt that has ended … */
    const struct first_cause *cause;            /* … and its cause; borrowed during `ended` */
    void (*print)(void *arg, const char *text); /* complete lines, on the console */
    void (*stop)(void *arg, enum feature_cause cause);
    void *arg;
    /* What features tell each other */
    struct job_clock *clock;  /* from budget */
    struct job_monitor *gpus; /* from usage: of the attempt; NULL: no GPUs on this machine */
    json_t *failed_gpu;     /* from usage: of the first failed rank (failed_gpu_json()), or NULL */
    struct strbuf usage;    /* from usage: what the job has used, when it is over */
    struct line_log *lines; /* from events: of the attempt; NULL: none has written any */
    struct feature_hang *hang; /* for feature_hang_report() */
    void *state[FEATURES_MAX]; /* by row; NULL: the options do not ask for it */
    uv_timer_t timer[FEATURES_MAX];
};

/* The first members of every state. */
#define FEATURE_STATE        \
    struct feature_run *run; \
    uv_timer_t *timer /* its data is the state; stopped when the attempt has ended */

/* Every function may be NULL. */
struct feature {
    struct opt options[FEATURE_OPTIONS_MAX + 1]; /* fields of struct feature_settings; OPT_END */
    /* Returns 1 if the settings ask for the feature, else 0. Checks them, and reads those that are
     * given as text. May change the spec. NULL: every run has the feature. */
    int (*check)(struct feature_settings *set, struct launch_spec *spec, struct err *e);
    /* Called before anything is opened, also with --dry-run: may wait, and refuses the job with an
     * error, or with an exit status. */
    int (*admit)(int *status, const struct feature_run *r, struct err *e);
    size_t size; /* of the state */
    bool once;   /* each attempt has a new state, which is freed when it has ended */
    /* -EBUSY if the options may be right, but the machine does not permit it now. */
    int (*open)(void *state, struct err *e);
    /* Before an attempt, whose spec it may change; may block for seconds.
     *   -ECANCELED  the nodes cannot run the job */
    int (*prepare)(void *state, struct err *e);
    void (*attach)(void *state); /* an attempt begins */
    struct launch_events events; /* of its job; the argument is the state */
    /* Returns false if the lines of this stream do not go to the console. */
    bool (*shows)(const void *state, int rank, enum launch_stream from);
    /* feature_record() and feature_leave_out() were called. */
    void (*record)(void *state, const char *event, json_t *fields);
    void (*leave_out)(void *state, const char *node, const char *reason, bool now);
    /* The attempt has ended. `status` is the exit status that `drover run` has after it. */
    void (*ended)(void *state, const struct job_end *end, int status);
    enum feature_cause cause; /* with which it stops jobs: feature_stop() … */
    void (*explain)(void *state, struct strbuf *b); /* … and then appends lines that say why */
    void (*finish)(void *state, int status);        /* the job is over, its output is written */
    void (*close)(void *state); /* handles close in the loop's next iterations */
};

extern const struct feature feature_baseline, feature_budget, feature_events, feature_finite,
    feature_hang, feature_idle, feature_metrics, feature_mismatch, feature_notify,
    feature_preflight, feature_redirect, feature_report, feature_run_log, feature_sections,
    feature_spares, feature_stragglers, feature_usage;

/* ---- what the session does ------------------------------------------------------------------ */

int feature_check(struct feature_settings *set, struct launch_spec *spec, struct err *e);
/* If `*status` is not 0, the job must not be started. */
int feature_admit(int *status, const struct feature_run *r, struct err *e);
/* Opens the features that the settings ask for. Also after a failure, the caller must call
 * feature_close() and feature_free(). */
int feature_open(struct feature_run *r, struct err *e);
/* An attempt follows, whose number is r->attempt. */
int feature_prepare(struct feature_run *r, struct err *e);
/* An attempt has started; feature_ended() follows. */
void feature_attach(struct feature_run *r, struct launch *job);
/* Returns true if the lines of this stream go to the console. */
bool feature_shows(const struct feature_run *r, int rank, enum launch_stream from);
void feature_ended(struct feature_run *r, const struct job_end *end, int status);
void feature_explain(struct feature_run *r, struct strbuf *b);
void feature_finish(struct feature_run *r, int status);
void feature_close(struct feature_run *r);
/* Frees the states. Call it when the loop has closed their handles. */
void feature_free(struct feature_run *r);

/* Returns the exit status of an attempt that has ended. If all ranks of a stopped job exited with
 * status 0, a stop by a limit still counts as a failure, and a stop by the signal `sig` does not.
 */
int feature_status(unsigned causes, const struct job_end *end, int sig);
/* Returns the exit status of a job that is stopped between two attempts. */
int feature_cause_status(enum feature_cause cause);
/* Returns true if no attempt may follow, since the user wants the job to end. */
bool feature_is_final(unsigned causes);

/* ---- what features do ----------------------------------------------------------------------- */

/* Stops the job with the cause of the row, whose state this is. */
void feature_stop(void *state);
/* Returns the loop's time. */
static inline int64_t feature_now_ms(const struct feature_run *r)
{
    return (int64_t)uv_now(r->loop);
}
/* Prints a line on the console, after the program's name. */
void feature_say(const struct feature_run *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Records an event of the job (--events), also after its end. Takes over the reference to
 * `fields`. */
void feature_record(struct feature_run *r, const char *event, json_t *fields);
/* A node is bad: later jobs leave it out (--exclude-file), and with `now` further attempts, too. */
void feature_leave_out(struct feature_run *r, const char *node, const char *reason, bool now);
/* Reports that ranks have exceeded a limit, as a hang, and then stops the job. `cause` says which
 * limit; `ranks` has their entries; `fields` describe it for an event, and the callee owns them.
 * Has no effect if the job hangs already. */
void feature_hang_report(struct feature_run *r, const char *cause, const bool *ranks,
                         json_t *fields);
/* Compares the positions `at` of all ranks of a plan. `ended` says for each rank if it has ended.
 * Sets `odd` for the ranks that differ, and appends complete lines that say how. Appends nothing if
 * no rank waits in a collective and none has failed in one. Returns true if any rank differs. */
bool feature_mismatch_write(struct strbuf *b, bool *odd, const struct plan *p, const bool *ended,
                            const struct collective_position *at);

/* Returns the variables of the job that set how mpirun reaches the nodes, a strv. */
char **feature_mpirun_env(const struct launch_spec *s);
/* Appends "rank 3 on c07 (GPU 3)". */
void feature_write_rank(struct strbuf *b, const struct plan *p, int rank);
/* Returns the same for an event. */
json_t *feature_rank_json(const struct plan *p, int rank);
