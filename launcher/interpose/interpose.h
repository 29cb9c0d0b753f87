/* interpose - the functions of other libraries that drover replaces in its own processes.
 *
 * A replacement is a function of the same name in a program of drover, exported from it (Makefile:
 * INTERPOSED), so that a shared library that calls the function finds drover's. No process of a
 * user is affected, and libdrover replaces nothing. Every replacement is in this folder.
 *
 * bind, accept: for libpmix, in drover, drover-hpo and drover-bench (interpose_socket.c).
 *
 *     Why: loading libpmix and starting its server takes 5 ms, which most jobs would waste. So
 *     drover listens on a socket of its own. When the first rank connects, the server starts, and
 *     its bind() gets that socket, with the ranks that wait at it. Its accept() passes only
 *     connections of this user that have sent their greeting (pmi/pmix_accept.h).
 *
 *     Without it: the server starts before the ranks of every job. A connection that sends nothing
 *     delays the ranks that connect after it.
 *
 * pmix_ptl_base_send_blocking: for libpmix, in the same programs (interpose_pmix.c).
 *
 *     Why: libpmix greets a rank with it. If the rank dies before that, the error makes libpmix
 *     (4.2, 5, 6: pmix_ptl_base_connection_hdlr.c) release what it knows of the rank once too
 *     often, and it hangs when the job ends: in 4 of 63 jobs of four ranks that were killed at some
 *     moment of MPI_Init.
 *
 *     Without it: drover does not finalize libpmix's server, which runs until drover exits.
 *
 * register_printf_type: for libquadmath, in drover-hpo (interpose_printf.c).
 *
 *     Why: OpenBLAS loads libquadmath, which teaches printf to write __float128. From then on glibc
 *     formats every number the slow way. drover never prints a __float128.
 *
 *     Without it: numbers of the store and the protocol are formatted more slowly.
 *
 * getpwuid_r: for libuv, in drover-rank (interpose_getpwuid.c).
 *
 *     Why: drover-rank is linked statically, and glibc's function would load shared libraries.
 *     libuv refers to it in functions that drover-rank never calls. It fails with ENOSYS; the
 *     switch below has no effect on it.
 *
 * DROVER_NO_INTERPOSE=1 in the environment disables the replacements: everything works, more
 * slowly. Use it to find out whether a new version of a library disagrees with one of them. */
#ifndef DROVER_INTERPOSE_H
#define DROVER_INTERPOSE_H

#include <stdbool.h>

/* False if DROVER_NO_INTERPOSE is set to anything but "" and "0". */
bool interpose_enabled(void);

/* Called instead of accept() on a listening socket that was transferred. */
struct sockaddr;
typedef int interpose_accept_fn(void *arg, int fd, struct sockaddr *address, unsigned *len);

/* Takes over the listening socket `fd`: the next socket that this thread binds becomes a copy of
 * it. accept() on that waits until interpose_end_transfer(), and then is `accept_fn`. */
void interpose_transfer_socket(int fd, interpose_accept_fn *accept_fn, void *arg);
/* Lets accept() continue. Returns false if no socket was bound in between; `fd` is then closed, and
 * the peers that waited at it are disconnected. */
bool interpose_end_transfer(void);
/* The socket that was transferred is closed: its number may be that of another one now. */
void interpose_forget_socket(void);

/* Prepares the replacement of pmix_ptl_base_send_blocking(). `libpmix` is libpmix's handle of
 * dlopen(). */
void interpose_pmix(void *libpmix);

#endif
