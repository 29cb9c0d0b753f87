/* noting - a communicator's calls, as client/notes.h takes them. */
#ifndef DROVER_NOTING_H
#define DROVER_NOTING_H

#include "collectives/comm/backend.h"
#include "launcher/client/notes.h"

/* As notes_open(). */
struct notes_comm *noting_open(const char *name, int rank, int size);
void noting_call(struct notes_comm *n, const struct backend_call *call);

#endif
