/* node_health - which nodes of a job are healthy: asks all of them at the same time, through
 * `drover doctor --quick` in a process of its own. */
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "launcher/plan/hosts.h"

struct node_health {
    bool out;      /* it does not answer, or a check has failed that would break a job */
    int failures;  /* number of checks that have failed */
    char *problem; /* the first of them, or why there is no answer; NULL: none */
};

/* Asks the hosts. `out` has one entry per host; the caller frees the texts. `per_node` is the
 * number of ranks per node (0: unknown), `command` the program, and `env` variables that the
 * process gets in addition. Blocks for as long as a job takes to start, and for two seconds more if
 * a node does not answer. -EIO, …  no node was asked */
int node_health_ask(struct node_health *out, const struct hosts *hosts, int per_node,
                    char *const *command, char *const *env, struct err *e);

/* Reads the output of `drover doctor --json` about `count` nodes.
 *   -EBADMSG  malformed */
int node_health_read(struct node_health *out, int count, const char *text, struct err *e);
