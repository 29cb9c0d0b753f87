/* resolve - host name resolution in threads that no caller waits for: an unresponsive name server
 * blocks nothing. */
#ifndef DROVER_RESOLVE_H
#define DROVER_RESOLVE_H

#include <netdb.h>
#include <uv.h>

#include "common/err.h"
#include "common/mem.h"

struct resolve;

/* names[i] has these addresses (borrowed during the call), or none because of `status`,
 * getaddrinfo()'s. Called once per name, in any order, from the loop. */
typedef void resolve_fn(void *arg, int i, int status, const struct addrinfo *found);

/* Resolves `names` (strv, not empty; copied). */
int resolve_open(struct resolve **out, uv_loop_t *loop, char *const *names, resolve_fn *found,
                 void *arg, struct err *e);
/* Ends the resolution: no call follows. A lookup in progress ends in its thread, and its result is
 * dropped. */
void resolve_close(struct resolve *r);

#endif
