/* client_inside - what communicators and `drover bench` see of a drover, and programs do not. Not
 * installed. */
#ifndef DROVER_CLIENT_INTERNAL_H
#define DROVER_CLIENT_INTERNAL_H

#include <stdbool.h>

#include "common/err.h"
#include "launcher/client/client.h"
#include "launcher/client/rank_identity.h"

/* Where the last error is kept; drover_init()'s where `d` is NULL. Never NULL. */
struct err *client_err(struct drover *d);

/* Which rank this is. Borrowed. */
const struct rank_identity *client_identity(const struct drover *d);

/* Whether anybody started this process as a rank. */
bool client_is_rank(const struct drover *d);

#endif
