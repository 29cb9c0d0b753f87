/* pmix_accept - accepts connections for libpmix's server: only of this user, and only once their
 * greeting has arrived.
 *
 * libpmix reads the greeting of a connection with blocking calls, on the thread that serves all
 * ranks, and believes the user that the greeting names. So a port scanner, or a process of another
 * user, could stop a job or join it. Here such connections wait or are closed. */
#ifndef DROVER_PMIX_ACCEPT_H
#define DROVER_PMIX_ACCEPT_H

#include <stdint.h>
#include <sys/socket.h>

#include "common/err.h"
#include "common/mem.h"

struct pmix_accept;

/* A connection without a greeting is closed after `limit_ms`. */
int pmix_accept_open(struct pmix_accept **out, int limit_ms, struct err *e);
/* Closes the connections that wait. */
void pmix_accept_close(struct pmix_accept *a);
AUTO_DEFINE(pmix_accept, struct pmix_accept *, pmix_accept_close)

/* Returns the next connection whose greeting has arrived, like accept(2). Waits while connections
 * have not sent theirs. If connections wait when it returns one, the listener becomes readable
 * again. -1 and EAGAIN: no connection waits, or pmix_accept_stop() was called.
 * `arg` is a struct pmix_accept. One thread at a time. */
int pmix_accept_next(void *arg, int listener, struct sockaddr *address, socklen_t *len);

/* Lets pmix_accept_next() return at once from now on. From any thread. */
void pmix_accept_stop(struct pmix_accept *a);

#endif
