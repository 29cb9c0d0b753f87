/* interpose - the functions of other libraries that drover replaces in its own processes.
 *
 * A replacement is a function with the same name that a program of drover exports (Makefile:
 * INTERPOSED). A shared library that calls the function then finds drover's function. Users'
 * processes are not affected, and libdrover replaces nothing. Every replacement is in this folder.
 *
 * bind, accept: for libpmix, in drover, drover-hpo and drover-bench (interpose_socket.c).
 *
 *     Why: loading libpmix and starting its server takes 5 ms, and most jobs do not need it. So
 *     drover listens on a socket of its own. When the first rank connects, drover starts the
 *     server. The server's bind() then gets drover's socket, with the ranks that wait at it. Its
 *     accept() returns only connections of this user that have sent a valid greeting
 *     (pmi/pmix_accept.h).
 *
 *     Without it: the server starts before the ranks of every job. A connection that sends nothing
 *     delays the ranks that connect after it, and one that sends garbage may crash libpmix.
 *
 * pmix_ptl_base_send_blocking: for libpmix, in the same programs (interpose_pmix.c).
 *
 *     Why: libpmix greets a rank with this function. If the rank has died, the function fails, and
 *     libpmix (4.2, 5, 6: pmix_ptl_base_connection_hdlr.c) releases its data of the rank once too
 *     often. It then hangs when the job ends. This happened in 4 of 63 jobs of four ranks that were
 *     killed during MPI_Init.
 *
 *     Without it: drover does not finalize libpmix's server, which runs until drover exits.
 *
 * register_printf_type: for libquadmath, in drover-hpo (interpose_printf.c).
 *
 *     Why: OpenBLAS loads libquadmath, which registers __float128 with printf. After that, glibc
 *     formats every number on a slow path. drover never prints a __float128.
 *
 *     Without it: numbers of the store and the protocol are formatted more slowly.
 *
 * DROVER_NO_INTERPOSE=1 in the environment disables the replacements. Everything then works, but
 * more slowly. Use it to find out if a new version of a library is incompatible with a
 * replacement. */
#pragma once

#include <stdbool.h>

/* Returns false if DROVER_NO_INTERPOSE is set, and its value is not "" or "0". */
bool interpose_enabled(void);

/* Called instead of accept() on a listening socket that was transferred. */
struct sockaddr;
typedef int interpose_accept_fn(void *arg, int fd, struct sockaddr *address, unsigned *len);

/* Takes over the listening socket `fd`. The next socket that this thread binds becomes a copy of
 * it. accept() on this copy fails with EAGAIN until interpose_end_transfer(), and from then on
 * calls `accept_fn`. */
void interpose_transfer_socket(int fd, interpose_accept_fn *accept_fn, void *arg);
/* Lets accept() continue. If no socket was bound in between, closes `fd`, which disconnects the
 * peers that wait at it, and returns false. */
bool interpose_end_transfer(void);
/* Must be called when the transferred socket is closed, since its number may then mean another
 * socket. */
void interpose_forget_socket(void);

/* Prepares the replacement of pmix_ptl_base_send_blocking(). `libpmix` is the handle that dlopen()
 * has returned for libpmix. */
void interpose_pmix(void *libpmix);
