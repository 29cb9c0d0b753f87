/* rank_status - rank status: what the processes of ranks wait in, and their CPU time.
 *
 * A rank is a process tree. Its CPU time is that of the whole tree. Its state is that of the
 * relevant process. This is usually the rank's own process; if that only waits for its single child
 * (as a shell does), it is the child. The status is read from /proc. Fields that this process may
 * not read stay empty. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "common/json.h"
#include "common/strbuf.h"
#include "launcher/engine/process_wait.h"
#include "launcher/job/collective_mismatch.h"

struct rank_status {
    pid_t root;             /* first process of the rank */
    struct process_wait at; /* the relevant process; pid 0: the rank has no process on this node */
    char parent[32];    /* name of the program that waits for it, other than a shell; "": none */
    bool at_rendezvous; /* it waits for data of the store at MASTER_PORT */
    int processes, threads; /* processes of the tree; threads of the relevant process */
    int64_t cpu_ms;         /* CPU time of the tree, including children that have exited … */
    int64_t faults;         /* … its page faults … */
    int64_t io_bytes;       /* … and what it has read and written: files, pipes and terminals */
    /* The other process of the tree that waits for a lock, or for something outside of the rank;
     * pid 0: none does */
    struct process_wait child;
    /* The process that holds the file lock for which `at` or `child` waits, and the first process
     * of its rank; 0: unknown, or it belongs to no rank of this node */
    pid_t holder, holder_root;
    struct collective_position collective; /* its position from the collective trace;
                                              rank_status_sample() leaves it empty */
};

/* Samples `n` ranks. pids[i] is the first process of rank i. The status of a rank that has exited,
 * or whose pid is 0, is zero. Returns -errno if /proc cannot be read. */
int rank_status_sample(struct rank_status *out, const pid_t *pids, int n);

/* Appends what a rank waits in: "stopped", "in futex", "running", or its collective.
 * Ranks that wait in the same place get the same text. */
void rank_status_describe(struct strbuf *b, const struct rank_status *s);

/* Converts a status to JSON, for a file or another node. */
json_t *rank_status_json(const struct rank_status *s);
/* Reads an object of rank_status_json(). Returns -EINVAL if it is malformed. */
int rank_status_read(struct rank_status *out, const json_t *j, struct err *e);
