/* check - one check of `drover doctor`: what it is, what it needs, and its result. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/json.h"
#include "launcher/node/topo.h"

enum check_state {
    CHECK_OK,
    CHECK_WARN,
    CHECK_FAIL,
    CHECK_SKIP, /* it could not be checked; this is never an ok */
    CHECK_STATES
};

/* "ok", "warn", "fail", "skip" */
const char *check_state_name(enum check_state s);

/* Texts are owned; NULL: none. */
struct check_result {
    enum check_state state;
    char *value;  /* what was found: "64 KiB"; of a skip: why */
    char *want;   /* what is wanted: "1 GiB or more" */
    char *source; /* where it was read: "getrlimit(RLIMIT_MEMLOCK)" */
    char *advice; /* what to do, for this value; NULL: that of the row */
    int ms;       /* how long it took */
};

/* When a check runs. Each set includes the sets that follow. */
enum check_when {
    CHECK_LONG,   /* in `drover doctor` */
    CHECK_QUICK,  /* in `drover doctor --quick`, since it waits for nothing */
    CHECK_REPORT, /* before a job with GPUs, too: a failure is reported, and the job starts */
    CHECK_STOP    /* the same, and a failure certainly breaks the job, which does not start */
};

/* What a check may read. Everything is borrowed. */
struct check_env {
    const struct topo *topo;
    int ranks;               /* ranks that are to run on this node; 0: unknown */
    char *const *command;    /* the program that is to run, a strv; NULL: unknown */
    const char *const *dirs; /* directories that the job writes, ended by NULL */
    const char *sweep_dir;   /* the directory of a sweep; NULL: none */
    const char *launcher;    /* address and port of the launcher, "10.0.0.1:4711"; NULL: none */
    bool has_other_nodes;    /* the job has other nodes */
    uint64_t gpus;           /* GPUs that the job may use, a bit per index; 0: all */
    int growth_ms;           /* how long counters of errors are watched for growth; 0: 300 ms */
    enum check_when least;   /* the checks that run: these and the later ones */
    int deadline_ms;         /* the time that each check has; 0: 1 s */
    bool driver_failed; /* set by check_run(): drv.loads has failed, NVML is not called again */
    const struct check *row; /* set by check_run() */
};

enum { CHECK_NEEDS_MAX = 2 };

struct check {
    const char *id;   /* "host.shm"; never changes */
    const char *what; /* "free space in /dev/shm" */
    enum check_when when;
    /* Sets the result by one of the functions below. Changes nothing on the machine. May block: it
     * runs in a child process with a deadline. NULL: an active check (active_checks.h). */
    void (*run)(struct check_result *r, struct check_env *env);
    const char *needs[CHECK_NEEDS_MAX];  /* ids of other checks: if one of them fails or is skipped,
                                            this check is skipped; an active check is skipped only
                                            if one fails */
    const struct gpu_health_check *each; /* for gpu_health_check_each(), as `run` */
    bool compared;                       /* its value should be the same on all nodes of a job */
    /* Parts of such a value, "NAME VERSION" separated by ", ", that must be the same: it is a
     * failure if they differ, and not a warning. "NAME|NAME"; NULL: none. */
    const char *must_match;
    const char *why;    /* for --explain: what goes wrong without it, in one or two sentences */
    const char *advice; /* what to do */
};

/* Sets the result. `fmt` is the value; NULL for a text: none. */
void check_bad(struct check_result *r, enum check_state s, const char *want, const char *source,
               const char *fmt, ...) __attribute__((format(printf, 5, 6)));
#define check_ok(r, source, ...) check_bad(r, CHECK_OK, NULL, source, __VA_ARGS__)
#define check_skip(r, ...) check_bad(r, CHECK_SKIP, NULL, NULL, __VA_ARGS__)

/* Adds advice for this value. */
void check_advise(struct check_result *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

void check_result_clear(struct check_result *r);
/* Returns {"id", "state", "value", "want", "source", "advice", "ms"}, where a missing text is null.
 * `advice` is that of the row, for a result without its own (NULL: none). The caller owns it. */
json_t *check_result_json(const struct check_result *r, const char *id, const char *advice);
/* Reads such an object into a cleared result. A state that is unknown leaves that of `out`. */
void check_result_read(struct check_result *out, const json_t *o);

enum { CHECKS = 59 };

/* Returns all CHECKS checks in the order in which they run: a check follows the checks it needs.
 * Defined above this folder, in launcher/doctor/check_table.c, which knows all groups. */
const struct check *check_table(void);
/* Returns the check with this id, or NULL. */
const struct check *check_find(const char *id);
