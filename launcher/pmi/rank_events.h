/* rank_events - what ranks tell the process that serves PMIx and PMI-1 to them. The servers of both
 * call the functions of whom it concerns, without layers between them. */
#pragma once

#include "launcher/tree/exchange.h"

enum rank_event {
    RANK_JOINED,    /* it has connected: it is in MPI_Init or PMIx_Init */
    RANK_FINALIZED, /* it has called MPI_Finalize or PMIx_Finalize */
    RANK_ABORTED,   /* it has called MPI_Abort(code) or PMIx_Abort() */
    RANK_SPAWNS,    /* its request for further ranks (MPI_Comm_spawn) was refused */
    RANK_EVENTS
};

/* Their names in frames of the control connection. */
#define RANK_EVENT_NAMES                           \
    {                                              \
        "joined", "finalized", "aborted", "spawns" \
    }

/* The loop calls these functions. */
struct rank_events {
    /* `rank` is the number in the whole job. `code` is that of RANK_ABORTED, else 0. */
    void (*event)(void *arg, enum rank_event ev, int rank, int code);
    /* A message for the servers of the other nodes (exchange_submit()). NULL: the job has one
     * node. */
    void (*exchange)(void *arg, const struct exchange_message *m);
};
