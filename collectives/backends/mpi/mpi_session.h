/* mpi_session - initialises and finalises MPI, once per process. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

/* Starts a communicator's use of MPI. Calls MPI_Init unless it was called before. Each successful
 * call needs a mpi_session_leave().
 *   -ETIMEDOUT  other ranks did not call MPI_Init in time; MPI still waits for them in another
 *               thread, and no MPI function may be called any more
 *   -EALREADY   MPI was finalised, or is not usable after an earlier failure */
int mpi_session_enter(int64_t timeout_ms, struct err *e);

/* Starts the use of MPI by a communicator that was created from another one, when MPI is already
 * initialised. Also needs a mpi_session_leave(). */
void mpi_session_hold(void);

/* Runs a call of MPI that has no deadline in a thread, and waits for it. `call` returns MPI's code.
 * `name` is the name of the call in messages.
 *   -ETIMEDOUT  the call still runs: `arg` must not be freed, and no MPI function may be called any
 *               more */
int mpi_session_call(int (*call)(void *arg), void *arg, int64_t timeout_ms, const char *name,
                     struct err *e);

/* Ends a communicator's use of MPI. `clean`: no call is pending. If every communicator was left
 * clean, MPI is finalised when the process exits. Otherwise MPI is not finalised, so that a failed
 * rank exits without waiting for others. */
void mpi_session_leave(bool clean);

/* Sets *e to an error of MPI in the operation `what`. Returns -ENOMEM or -EIO. */
int mpi_session_failed(struct err *e, int code, const char *what) __attribute__((cold));
