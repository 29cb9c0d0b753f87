/* preflight - the checks of a job's nodes before it starts: each finding is printed in one line,
 * and a failure that certainly breaks the job ends its start.
 *
 * Only nodes with GPUs that the job may use are checked: on other nodes the start itself reports
 * what breaks a job. Warnings are left to `drover doctor`. */
#pragma once

#include "launcher/doctor/core/doctor_report.h"
#include "launcher/node/topo.h"
#include "launcher/plan/hosts.h"
#include "launcher/plan/plan.h"

/* The part of a job on one node. Everything is borrowed. */
struct preflight_job {
    int ranks;               /* 0: unknown */
    const char *gpus;        /* the GPUs that it may use: "0,2"; NULL: all */
    char *const *command;    /* a strv; NULL: unknown */
    const char *const *dirs; /* directories that it writes, ended by NULL; NULL: none */
};

/* Checks this machine, if the job may use GPUs here. On a machine without NVIDIA's driver this
 * takes microseconds. Call it from a process with one thread. Returns 0, also if a check failed, or
 * the error of check_run(). */
int preflight_check_here(struct doctor_report *r, const struct topo *t,
                         const struct preflight_job *j, struct err *e);
/* Checks and judges this machine, if the ranks of the job run here. Other nodes check themselves
 * while the job starts (launch_spec.preflight). Returns what preflight_judge() returns. */
int preflight_check_job(struct doctor_report *r, const struct topo *t, const struct launch_spec *s,
                        struct err *e);
/* Appends the results of all checks as a line of JSON, or nothing if no check was run. */
void preflight_export(struct strbuf *out, const struct doctor_report *r);
/* Adds the results that another node has exported. `node` is its name.
 *   -EBADMSG  malformed */
int preflight_import(struct doctor_report *r, const char *node, const char *text, struct err *e);

/* Measures an all-reduce over the hosts (NULL: this machine) and all pairs of them, for a few
 * seconds. `per_node` is the number of ranks per node, 0 that of its GPUs. `env` are variables for
 * mpirun, a strv. Returns 0, also if a check failed, or the error of the start of `drover bench`.
 */
int preflight_measure(struct doctor_report *r, const struct topo *t, const struct hosts *hosts,
                      int per_node, char *const *env, struct err *e);

/* Logs each failure of the added nodes in one line. Nodes that agree share a line. Returns 0, or
 * -ECANCELED with the first failure that certainly breaks the job. `*node` is then the name of its
 * node, which the caller frees; `node` may be NULL. Forgets all nodes. */
int preflight_judge(struct doctor_report *r, char **node, struct err *e);
