/* pmi1 - PMI-1 for the ranks of an MPICH without PMIx: decodes their lines and makes the answers.
 *
 * "cmd=put kvsname=job-1 key=a value=b" -> "cmd=put_result rc=0", as in MPICH's list of messages
 * (src/pmi/maint/pmi-1.1.txt) and Flux's RFC 13. Intel MPI, MVAPICH and NVSHMEM use it, too. Pure:
 * bytes of a rank are arguments, and answers are events. */
#ifndef DROVER_PMI1_H
#define DROVER_PMI1_H

#include <stddef.h>

#include "common/err.h"
#include "common/mem.h"

struct pmi1;

/* From pmi1_recv(). */
struct pmi1_events {
    /* Whole lines for the rank. */
    void (*send)(void *arg, int rank, const char *text, size_t len);
    void (*joined)(void *arg, int rank);
    void (*finalized)(void *arg, int rank);
    void (*aborted)(void *arg, int rank, int code);
    /* The rank has requested further ranks, and was refused. */
    void (*spawns)(void *arg, int rank);
};

/* Creates the state of a job of `ranks` ranks. `nodes` has the node of each rank, or is NULL if all
 * are on one; it is needed only during the call. `job` contains no blanks. */
struct pmi1 *pmi1_new(const char *job, int ranks, const int *nodes, const struct pmi1_events *ev,
                      void *arg);
void pmi1_free(struct pmi1 *p);
AUTO_DEFINE(pmi1, struct pmi1 *, pmi1_free)

/* Processes bytes from a rank, in pieces of any size.
 *   -EPROTO    not a line of PMI-1, or not allowed at this point
 *   -EMSGSIZE  a line is too long
 * After an error disconnect the rank: nothing of it may follow. */
int pmi1_recv(struct pmi1 *p, int rank, const char *bytes, size_t len, struct err *e);

#endif
