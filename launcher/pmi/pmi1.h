/* pmi1 - how the ranks of an MPICH without PMIx find each other: PMI-1, the lines that they send to
 * who has started them, and the answers.
 *
 * "cmd=put kvsname=job-1 key=a value=b" -> "cmd=put_result rc=0", as MPICH's list of messages
 * (src/pmi/maint/pmi-1.1.txt) and Flux's RFC 13 have it; Intel MPI, MVAPICH and NVSHMEM speak it
 * too. Nothing is read or written here: bytes of a rank come in, answers go out by an event. */
#ifndef DROVER_PMI1_H
#define DROVER_PMI1_H

#include <stddef.h>

#include "common/err.h"
#include "common/mem.h"

struct pmi1;

/* From within pmi1_take(). */
struct pmi1_events {
    /* Whole lines for the rank. */
    void (*say)(void *arg, int rank, const char *text, size_t len);
    void (*joined)(void *arg, int rank);
    void (*aborted)(void *arg, int rank, int code);
    /* It has asked for further ranks, and was refused. */
    void (*spawns)(void *arg, int rank);
};

/* For a job of `ranks` ranks; `nodes` has the node of each, NULL where all are on one, and is
 * needed only during the call. `job` is without blanks. */
struct pmi1 *pmi1_new(const char *job, int ranks, const int *nodes, const struct pmi1_events *ev,
                      void *arg);
void pmi1_free(struct pmi1 *p);
AUTO_DEFINE(pmi1, struct pmi1 *, pmi1_free)

/* What a rank has sent, in any pieces.
 *   -EPROTO    it is nothing that PMI-1 has
 *   -EMSGSIZE  a line has no end
 * After a failure nothing of this rank's may follow: it is to be cut off. */
int pmi1_take(struct pmi1 *p, int rank, const char *bytes, size_t len, struct err *e);

#endif
