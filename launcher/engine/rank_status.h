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
#include "launcher/job/collective_mismatch.h"

struct rank_status {
    pid_t pid;              /* the relevant process; 0: the rank has no process on this node */
    char state;             /* as in /proc/PID/stat: R S D T t Z */
    int processes, threads; /* processes of the tree; threads of the relevant process */
    int64_t cpu_ms;         /* CPU time of the tree, including children that have exited */
    char name[32];          /* name of the program, as the kernel cuts it */
    char wchan[48];         /* kernel function in which it sleeps; "": none, or not readable */
    char call[24];          /* its system call ("futex"); "": none, or not readable */
    struct collective_position collective; /* its position from the collective trace;
                                              rank_status_sample() leaves it empty */
};

/* Samples `n` ranks. pids[i] is the first process of rank i. The status of a rank that has exited,
 * or whose pid is 0, is zero. Returns -errno if /proc cannot be read. */
int rank_status_sample(struct rank_status *out, const pid_t *pids, int n);

/* Appends what a rank waits in: "stopped", "in futex (futex_wait)", "running", or its collective.
 * Ranks that wait in the same place get the same text. */
void rank_status_describe(struct strbuf *b, const struct rank_status *s);

/* Converts a status to JSON, for a file or another node. */
json_t *rank_status_json(const struct rank_status *s);
/* Reads an object of rank_status_json(). Returns -EINVAL if it is malformed. */
int rank_status_read(struct rank_status *out, const json_t *j, struct err *e);
