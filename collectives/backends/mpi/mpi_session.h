/* mpi_session - initialisation and finalisation of MPI, once per process. */
#ifndef DROVER_MPI_SESSION_H
#define DROVER_MPI_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

/* Calls MPI_Init unless the program has called it. Each successful call needs a
 * mpi_session_leave(). -ETIMEDOUT  other ranks did not call it; MPI still waits for them in another
 * thread, and no MPI function may be called any more -EALREADY   MPI was already finalised, or was
 * given up after a failure */
int mpi_session_enter(int64_t timeout_ms, struct err *e);

/* The same for a communicator that is created from another one, when MPI is initialised already. */
void mpi_session_hold(void);

/* Runs a call of MPI without a deadline of its own in a thread, and waits for it.
 *   -ETIMEDOUT  it still runs: `arg` must not be freed, and no MPI function may be called any more
 */
int mpi_session_call(int (*call)(void *arg), void *arg, int64_t timeout_ms, const char *name,
                     struct err *e);

/* Ends a communicator's use of MPI; `clean`: no call is pending. If every communicator was left
 * clean, MPI is finalised when the process exits. Otherwise it is not, so that a failed rank exits
 * instead of waiting for others. */
void mpi_session_leave(bool clean);

/* Sets *e to an error of MPI in the operation `what`. Returns -ENOMEM or -EIO. */
int mpi_session_failed(struct err *e, int code, const char *what) __attribute__((cold));

#endif
