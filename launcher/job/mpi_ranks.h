/* mpi_ranks - tracks which ranks of a job are between MPI_Init and MPI_Finalize, and which exits
 * therefore leave other ranks waiting. Pure. The events come from the server of PMIx or PMI-1.
 *
 * The rules are those of Open MPI's mpirun: a rank that calls MPI_Init must call MPI_Finalize
 * before it exits, and if one rank calls MPI_Init, all must. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/mem.h"
#include "common/states.h"

enum mpi_rank_state {
    MPI_RANK_NEW,       /* has not connected */
    MPI_RANK_CONNECTED, /* has called MPI_Init or PMIx_Init */
    MPI_RANK_FINALIZED, /* has called MPI_Finalize or PMIx_Finalize */
    MPI_RANK_ABSENT,    /* exited with status 0 and never connected */
    MPI_RANK_ENDED,     /* exited after it had connected, or failed */
    MPI_RANK_STATES
};

enum mpi_rank_event {
    MPI_RANK_EV_CONNECTED,
    MPI_RANK_EV_FINALIZED,
    MPI_RANK_EV_EXITED, /* with status 0 */
    MPI_RANK_EV_FAILED, /* exited with another status, or killed by a signal */
    MPI_RANK_EVENTS
};

extern const struct states mpi_ranks_states;

struct mpi_ranks;
struct mpi_ranks *mpi_ranks_new(int ranks);
void mpi_ranks_free(struct mpi_ranks *m);
AUTO_DEFINE(mpi_ranks, struct mpi_ranks *, mpi_ranks_free)

/* Applies an event to a rank. Returns the rank's state before the event. */
enum mpi_rank_state mpi_ranks_apply(struct mpi_ranks *m, int rank, enum mpi_rank_event ev,
                                    uint64_t now_ms);

/* Returns true if any rank has ever connected. */
bool mpi_ranks_any_connected(const struct mpi_ranks *m);
/* Returns the number of milliseconds for which the rank has been connected while other ranks have
 * never connected. Returns 0 if the rank is not connected, or if all ranks have connected at some
 * time. */
int64_t mpi_ranks_wait_ms(const struct mpi_ranks *m, int rank, uint64_t now_ms);
/* Returns the lowest rank that is absent while other ranks are connected and wait for it in
 * MPI_Init. Returns -1 if there is none. `*waits_ms` is the time since the first of the connected
 * ranks has connected. */
int mpi_ranks_find_absent(const struct mpi_ranks *m, uint64_t now_ms, int64_t *waits_ms);
