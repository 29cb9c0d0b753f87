/* first_cause - of the ranks of a job that has failed, the one whose failure explains the others'.
 *
 * The first rank that fails often only says that another one is missing. Then the lines and the
 * ends of the others are searched for a cause that is first-hand. Pure. */
#pragma once

#include <stdbool.h>

#include "common/strbuf.h"
#include "launcher/job/job.h"
#include "launcher/watch/failure_cause.h"

struct first_cause {
    int rank;                   /* the rank whose failure this is; -1: no rank failed */
    bool known;                 /* `cause` is valid; otherwise only its remedy is */
    struct failure_cause cause; /* its texts are static, borrowed from the ranks, or `written` */
    bool silent;   /* the rank failed after another, without saying that it followed, or why */
    char *written; /* failure_cause_error_file() of the rank */
    bool *left; /* by rank: it had exited with status 0, and the first failed rank may have needed
                   it. NULL: there is no such rank, or a first-hand cause is known */
};

/* Finds the cause. `first` is the rank that failed first; -1: none. The caller must call
 * first_cause_clear(), and keep the texts of `ranks` until then. Reads about 10,000 lines in
 * 0.1 s. */
void first_cause_find(struct first_cause *out, int first, const struct job_witness *ranks,
                      int count);
void first_cause_clear(struct first_cause *c);

/* Returns for how many milliseconds after the failure of `first` the other ranks should run on: 0
 * unless its cause is second-hand, and no other rank has ended with a first-hand one. */
int first_cause_listen_ms(int first, const struct job_witness *ranks, int count);

/* Appends the sentence of the cause: "out of GPU memory"; nothing if it is unknown. `count` is the
 * number of ranks, `first_rank` the number of the first one in the job. */
void first_cause_write(struct strbuf *b, const struct first_cause *c, int count, int first_rank);

/* Returns a text that is equal for equal failures, without numbers, or NULL if the cause is
 * unknown, or only names another rank. The caller frees it. */
char *first_cause_signature(const struct first_cause *c);
