/* pmi1 - PMI-1, which ranks of an MPICH without PMIx use: decodes their lines and makes the
 * answers.
 *
 * For example, the answer to "cmd=put kvsname=job-1 key=a value=b" is "cmd=put_result rc=0".
 * MPICH's list of messages (src/pmi/maint/pmi-1.1.txt) and Flux's RFC 13 describe PMI-1. Intel MPI,
 * MVAPICH and NVSHMEM use it, too. Pure: the bytes of a rank are arguments, and the answers are
 * events. */
#pragma once

#include <stddef.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/plan/job_map.h"
#include "launcher/pmi/rank_events.h"

struct pmi1;

/* pmi1_recv() calls these functions. */
struct pmi1_events {
    /* `text` has whole lines that must be sent to the rank, an index in the map's `local`. */
    void (*send)(void *arg, int rank, const char *text, size_t len);
    /* A message of the kind EXCHANGE_PMI1, which pmi1_deliver() answers. All ranks of this node are
     * in a barrier: EXCHANGE_FENCE with the values that they have put since the last one. Or a rank
     * publishes, removes or looks up a name. */
    void (*exchange)(void *arg, const struct exchange_message *m);
};

/* Creates the state of the ranks of the map's node. `map` is needed only during the call; its
 * job_id must not contain blanks. pmi1_recv() calls of_ranks->event(), but not
 * `exchange`. */
struct pmi1 *pmi1_new(const struct job_map *map, const struct pmi1_events *ev, void *arg,
                      const struct rank_events *of_ranks, void *of_ranks_arg);
void pmi1_free(struct pmi1 *p);
AUTO_DEFINE(pmi1, struct pmi1 *, pmi1_free)

/* Handles the answer of the exchange. EXCHANGE_FENCE_DONE ends the barrier of all ranks of the job:
 * the ranks get the values of all nodes. If a node is lost, its values are missing, and the ranks
 * wait in the barrier until the job ends. EXCHANGE_FOUND is for a rank that has asked about a
 * name. */
void pmi1_deliver(struct pmi1 *p, const struct exchange_message *m);

/* Processes bytes from a rank, in pieces of any size.
 *   -EPROTO    not a line of PMI-1, or not allowed at this point
 *   -EMSGSIZE  a line is too long
 * After an error, the caller must disconnect the rank and pass no more bytes from it. */
int pmi1_recv(struct pmi1 *p, int rank, const char *bytes, size_t len, struct err *e);
