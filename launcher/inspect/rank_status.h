/* standing - where ranks stand: what their processes wait in, and what CPU time they have had.
 *
 * A rank is a tree of processes. Its CPU time is the tree's; its state is that of the process that
 * matters: the rank's own, or, while that only waits for its one child (a shell's, env's), the
 * child's. From /proc: what this process may not look at stays empty. */
#ifndef DROVER_RANK_STATUS_H
#define DROVER_RANK_STATUS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "common/json.h"
#include "common/strbuf.h"
#include "launcher/diagnose/collective_mismatch.h"

struct rank_status {
    pid_t pid;              /* the process that matters; 0: the rank has none here */
    char state;             /* as in /proc/PID/stat: R S D T t Z */
    int processes, threads; /* of the tree; of the process */
    int64_t cpu_ms;         /* the tree's, its ended children's included */
    char name[32];          /* of the program, as the kernel cuts it */
    char wchan[48]; /* the kernel's function that it sleeps in; "": none, or not to be seen */
    char call[24];  /* the system call that it is in ("futex"); "": none or not to be seen */
    struct collective_position
        collective; /* of its collectives, where it notes them; rank_status_sample() leaves it */
};

/* Looks at `n` ranks at once, each by its first process. One that is gone (or whose pid is 0) is
 * all zeroes. -errno where /proc cannot be read. */
int rank_status_sample(struct rank_status *out, const pid_t *pids, int n);

/* "stopped", "in futex (futex_wait)", "running", or the collective: alike for ranks that stand at
 * the same place. */
void rank_status_describe(struct strbuf *b, const struct rank_status *s);

/* One for a file or another node, and back. -EINVAL where `j` is none of these. */
json_t *rank_status_json(const struct rank_status *s);
int rank_status_read(struct rank_status *out, const json_t *j, struct err *e);

#endif
