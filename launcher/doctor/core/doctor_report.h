/* doctor_report - the results of all checks on all nodes, as text and as JSON. Pure. */
#pragma once

#include "common/err.h"
#include "common/json.h"
#include "common/strbuf.h"
#include "launcher/doctor/core/check.h"

struct doctor_node {
    char *name;
    struct check_result
        *results;  /* one per row of check_table(); NULL: the node has not answered */
    char *error;   /* why it has not answered */
    double time_s; /* its clock when it has answered: Unix time; 0: unknown */
};

struct doctor_report {
    struct doctor_node *nodes;
    int count;
    double seconds;
};

void doctor_report_free(struct doctor_report *r);
static inline void auto_doctor_report(struct doctor_report *r)
{
    doctor_report_free(r);
}

/* Compares the values of rows that should be the same on all nodes. On the nodes in the minority, a
 * result that was ok becomes a warning, or a failure (must_match), with the parts that differ. */
void doctor_report_compare(struct doctor_report *r);

struct doctor_counts {
    int ok, warn, fail, skip;
};
/* Counts checks: one that fails on several nodes counts once, in its worst state. A node without an
 * answer is a failure. */
struct doctor_counts doctor_report_count(const struct doctor_report *r);

/* Appends the report: a line per finding with its advice, the counts, and the root cause. Nodes
 * that agree share a line. With `all`, also what is ok and what was skipped. */
void doctor_report_text(struct strbuf *out, const struct doctor_report *r, bool all);

/* Returns the result of a row on a node; NULL: the node has not answered. */
struct check_result *doctor_report_result(const struct doctor_report *r, int node, size_t row);

/* Returns true if a check was run on a node, and no earlier node has the same result. */
bool doctor_report_is_first(const struct doctor_report *r, int node, size_t row);
/* Appends a finding without its state, in one line: "host.shm: space in /dev/shm: 64 MiB on c07,
 * wanted: …". Returns the advice, borrowed; NULL: none. */
const char *doctor_report_put_finding(struct strbuf *out, const struct doctor_report *r, int node,
                                      size_t row);

/* Judges the clock of a node that was asked at `begin_s` and whose answer has arrived at `end_s`,
 * both by this machine's clock: a difference that the time in between cannot explain makes its
 * result of host.clock a warning (1 s) or a failure (30 s). */
void doctor_report_judge_clock(struct doctor_node *n, double begin_s, double end_s);

/* Returns {"v": 1, "nodes": [{"node", "time", "checks": [{"id", "state", "value", "want", "source",
 * "advice", "ms"}]}], "cause": [ids]}. The caller owns it. */
json_t *doctor_report_json(const struct doctor_report *r);

/* Reads the checks of the first node of what doctor_report_json() has made on another node.
 *   -EBADMSG  malformed */
int doctor_report_read_node(struct doctor_node *out, const char *text, struct err *e);
