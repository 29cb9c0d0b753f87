/* node_query - runs a command of drover on several nodes at the same time, and collects its
 * output. */
#pragma once

#include "common/err.h"
#include "common/opt.h"
#include "launcher/engine/launch.h"
#include "launcher/plan/hosts.h"

/* The nodes that a command asks; all NULL: this machine. */
struct node_query_nodes {
    const char *file, *list; /* --hostfile, --host */
};

/* The options of struct node_query_nodes, and --ssh-args, which is set as Open MPI's variable in
 * this process: drover's own ssh and that of its children read it. */
extern const struct opt node_query_options[];

/* Reads the hosts of the options: the file, the list, or with both the hosts of the file that the
 * list names. `*out` is NULL if neither is given. Fails as hostfile_read() and hostfile_list(). */
int node_query_hosts(struct hosts **out, const struct node_query_nodes *n, struct err *e);

/* Returns the spec of a job of one rank on `host`, a list of one: a command of drover. Borrows both
 * arguments. */
struct launch_spec node_query_spec(const struct hosts *host, char *const *argv,
                                   int start_timeout_ms);
/* Returns why such a job has ended, if it is not by itself: its node could not start it, or is
 * lost. NULL: the job has exited. Borrowed from `end`. */
const char *node_query_failure(const struct job_end *end);

struct node_answer {
    char *text;            /* what the command has written to stdout; NULL: no answer */
    double begin_s, end_s; /* Unix time at which it was asked, and at which the text was complete */
    struct err error;      /* why there is none: "c19: no answer within 10 s" */
};

/* Runs `drover ARGV...` on each host, each as a job of its own, through the engine that `drover
 * run` would use. `out` has one entry per host; the caller frees the texts. A node that has not
 * answered after deadline_ms has no answer. When half of the nodes have answered, the others get as
 * much time again, but at least two seconds since the last answer. An exit status other than 0
 * counts as an answer if there is output. stderr is shown, with the name of the host. Call this
 * before the process has a second thread. Returns 0, or an error for which no node was asked. */
int node_query(struct node_answer *out, const struct hosts *hosts, const char *const *argv,
               int deadline_ms, struct err *e);

void node_query_free(struct node_answer *a, int count);
