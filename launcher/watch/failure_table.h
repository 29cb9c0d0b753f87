/* failure_table - the table of known failures: which lines and which end of a rank show a failure,
 * what to do about it, and what a restart can do.
 *
 * The texts are those of PyTorch, NCCL, gloo, CUDA's runtime, Open MPI, libc and Python. */
#pragma once

#include "launcher/watch/failure_cause.h"

/* A failure that some lines and the end of a rank show. Of the rows that match at the most trusted
 * level, the first one counts, so failures that usually follow from another failure are at the
 * end. */
struct failure_row {
    enum failure_trust trust; /* of its texts in any line; a line may be trusted more */
    const char *texts[10];    /* NULL-terminated: a line contains one of them; empty: any lines */
    struct {
        const char *what, *advice; /* of struct failure_cause, as the rest */
    } cause;
    enum failure_remedy remedy;
    bool second_hand;
    int signal, status; /* how the rank ended; here and below, 0 and false: any */
    enum job_mpi_fault mpi_fault;
    bool oom_killed, started;
};

extern const struct failure_row failure_table[];
extern const size_t failure_table_rows;
