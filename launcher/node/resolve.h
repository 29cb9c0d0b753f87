/* resolve - the addresses of host names, looked up in threads that nobody waits for: a name server
 * that does not answer holds nobody up. */
#ifndef DROVER_RESOLVE_H
#define DROVER_RESOLVE_H

#include <netdb.h>
#include <uv.h>

#include "common/err.h"
#include "common/mem.h"

struct resolve;

/* names[i] has these addresses (borrowed during the call), or none for a reason: getaddrinfo()'s
 * status. Once for each, in any order, from the loop. */
typedef void resolve_fn(void *arg, int i, int status, const struct addrinfo *found);

/* Looks up `names` (strv, not empty; copied). */
int resolve_open(struct resolve **out, uv_loop_t *loop, char *const *names, resolve_fn *found,
                 void *arg, struct err *e);
/* No call follows; a look-up that has not ended ends unheard. */
void resolve_close(struct resolve *r);

#endif
