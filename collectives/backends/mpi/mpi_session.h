/* mpi_session - MPI is initialised once in a process, and ended once. */
#ifndef DROVER_MPI_SESSION_H
#define DROVER_MPI_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

/* MPI_Init, where the program has not called it. Every successful call is matched by a leave().
 *   -ETIMEDOUT  other ranks did not come; MPI still waits for them in a thread of its own, and no
 *               other call of MPI may be made
 *   -EALREADY   MPI was already finalised */
int mpi_session_enter(int64_t timeout_ms, struct err *e);

/* The same for a communicator that is made of another one: MPI is there. */
void mpi_session_hold(void);

/* A call of MPI's that has no deadline of its own, in a thread that is waited for.
 *   -ETIMEDOUT  it still runs: `arg` is its for good, and no other call of MPI may be made */
int mpi_session_call(int (*call)(void *arg), void *arg, int64_t timeout_ms, const char *name,
                     struct err *e);

/* `clean` says that nothing is under way. Where each communicator was left clean, MPI is finalised
 * when the process ends; else it is not, so that a rank that failed ends instead of waiting. */
void mpi_session_leave(bool clean);

/* Describes an error of MPI's. */
int mpi_session_failed(struct err *e, int code, const char *what) __attribute__((cold));

#endif
