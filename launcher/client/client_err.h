/* client_err - for communicators: where a drover keeps its last error. Not installed. */
#ifndef DROVER_CLIENT_ERR_H
#define DROVER_CLIENT_ERR_H

#include "common/err.h"
#include "launcher/client/client.h"

/* Never NULL; of drover_init() where `d` is. */
struct err *client_err(struct drover *d);

#endif
