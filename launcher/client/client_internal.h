/* client_internal - access to a struct drover for communicators and `drover bench`. Not
 * installed. */
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "launcher/client/client.h"
#include "launcher/client/rank_identity.h"

/* Returns the last error of `d`, or that of drover_init() if `d` is NULL. Never returns NULL. */
struct err *client_err(struct drover *d);

/* Returns the identity of this rank. Borrowed. */
const struct rank_identity *client_identity(const struct drover *d);

/* Returns true if a launcher has started this process as a rank. */
bool client_is_rank(const struct drover *d);
