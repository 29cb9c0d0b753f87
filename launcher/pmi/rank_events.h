/* rank_events - what ranks tell the process that serves PMIx and PMI-1 to them. The servers of both
 * call the functions of whom it concerns, without layers between them. */
#pragma once

#include "launcher/tree/exchange.h"

/* The loop calls these functions. `rank` is the number in the whole job. */
struct rank_events {
    /* The rank has connected: it is in MPI_Init or PMIx_Init. */
    void (*joined)(void *arg, int rank);
    /* The rank has called MPI_Finalize or PMIx_Finalize. */
    void (*finalized)(void *arg, int rank);
    /* The rank has called MPI_Abort(code) or PMIx_Abort(). */
    void (*aborted)(void *arg, int rank, int code);
    /* The rank has requested further ranks (MPI_Comm_spawn), and the request was refused. */
    void (*spawns)(void *arg, int rank);
    /* A message for the servers of the other nodes (exchange_submit()). NULL: the job has one
     * node. */
    void (*exchange)(void *arg, const struct exchange_message *m);
};
