/* mpi_ranks - which ranks of a job are between MPI_Init and MPI_Finalize, as the server of PMIx or
 * PMI-1 sees it, and which exits therefore leave others waiting. Pure.
 *
 * The rules are those of Open MPI's mpirun: a rank that calls MPI_Init must call MPI_Finalize
 * before it exits, and if one rank calls MPI_Init, all must. */
#ifndef DROVER_MPI_RANKS_H
#define DROVER_MPI_RANKS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/mem.h"

enum mpi_rank_state {
    MPI_RANK_NEW,       /* has not connected */
    MPI_RANK_CONNECTED, /* has called MPI_Init or PMIx_Init */
    MPI_RANK_FINALIZED, /* has called MPI_Finalize or PMIx_Finalize */
    MPI_RANK_ABSENT,    /* exited with status 0 and never connected */
    MPI_RANK_ENDED,     /* exited after it had connected, or not with status 0 */
    MPI_RANK_STATES
};

enum mpi_rank_event {
    MPI_RANK_EV_CONNECTED,
    MPI_RANK_EV_FINALIZED,
    MPI_RANK_EV_EXITED, /* with status 0 */
    MPI_RANK_EV_FAILED, /* it ended in another way */
    MPI_RANK_EVENTS
};

/* Returns the next state, or -1 if the event has no meaning in this state. */
int mpi_ranks_next(enum mpi_rank_state s, enum mpi_rank_event ev);

struct mpi_ranks;
struct mpi_ranks *mpi_ranks_new(int ranks);
void mpi_ranks_free(struct mpi_ranks *m);
AUTO_DEFINE(mpi_ranks, struct mpi_ranks *, mpi_ranks_free)

/* Returns the rank's state before the event. */
enum mpi_rank_state mpi_ranks_apply(struct mpi_ranks *m, int rank, enum mpi_rank_event ev,
                                    uint64_t now_ms);

/* Returns whether a rank has ever connected. */
bool mpi_ranks_any_connected(const struct mpi_ranks *m);
/* Returns for how many milliseconds the rank has been connected while others have never been; 0: it
 * is not, or all have. */
int64_t mpi_ranks_wait_ms(const struct mpi_ranks *m, int rank, uint64_t now_ms);
/* Returns the lowest rank that is absent while others are connected, and so wait for it in
 * MPI_Init; -1: none. `*waits_ms`: for how long the first of them has been. */
int mpi_ranks_find_absent(const struct mpi_ranks *m, uint64_t now_ms, int64_t *waits_ms);

#endif
