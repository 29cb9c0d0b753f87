/* active_internal - the parts of active_checks: a measurement of several nodes, the checks that
 * measure each GPU by itself, and the ring of neighbours. */
#pragma once

#include "common/json.h"
#include "launcher/doctor/active/active_checks.h"
#include "launcher/doctor/active/own_command.h"

/* Measures the nodes of the report that have answered. */
struct active_measurement {
    struct doctor_report *report;
    const struct active_opts *opts;
    const struct hosts *hosts; /* NULL: this machine */
    const int *nodes;          /* their numbers in the report */
    int count;
    struct err *e;
};

/* Returns the median of n values, which it sorts; 0: there are none. */
double active_median(double *v, int n);

/* Returns the result of a check on a node, by its number in the measurement. */
struct check_result *active_result(const struct active_measurement *m, int node, const char *id);

/* Sets a failure on all nodes: why there is no result of `source`. */
void active_fail_all(const struct active_measurement *m, const char *id, const char *source,
                     const struct child_result *c);

/* Runs `drover bench` on some hosts (NULL: this machine) with `options` (a strv) in addition, and
 * parses its output. `*out` stays NULL if it prints no JSON; `c` then says why. Returns 0, or the
 * error of its start. */
int active_bench(json_t **out, struct child_result *c, const struct active_measurement *m,
                 const struct hosts *hosts, int per_node, char *const *options);

/* Runs act.mem, act.pcie, act.gemm and act.bits: one `drover bench` for all nodes, or if that fails
 * one for each. Nodes on which a check has failed that these need are left out. */
int active_gpus_run(const struct active_measurement *m);

/* The checks that one run of `drover bench` serves. */
enum active_gpus_what { ACTIVE_GPUS_COPY, ACTIVE_GPUS_GEMM, ACTIVE_GPUS_BITS };

/* Judges the output of `drover bench gemm` or `copy --json`, and sets the results. `nodes` has the
 * number of the node in the measurement that each node of the output is; each has `per_node` ranks.
 * Pure. */
void active_gpus_judge(const struct active_measurement *m, enum active_gpus_what what,
                       const json_t *root, const int *nodes, int count, int per_node);

/* Adds to net.back what `drover bench ring` finds: each node connects to the next one and to the
 * previous one. With one node it does nothing. */
int active_ring_run(const struct active_measurement *m);
/* Judges its output. A broken link is a failure of the node that has more broken links, and a slow
 * one of the node that has more slow links. Pure. */
void active_ring_judge(const struct active_measurement *m, const json_t *root);
/* Returns true if a link is slow. NULL has no links. Pure. */
bool active_ring_is_slow(const json_t *root);
/* Gives each link of `root` the better rate of two measurements, since a busy node only ever makes
 * a link slower. A broken link stays broken. `again` may be NULL: nothing changes. Pure. */
void active_ring_merge(json_t *root, const json_t *again);
