/* leftovers - the file with the messages that a worker could not deliver before it ended, for the
 * next coordinator. One message per line, as wire_encode() writes it. */
#pragma once

#include "hpo/worker/lease.h"
#include "hpo/worker/outbox.h"

/* Writes the unacknowledged messages of all leases, if there are leases. Failures are logged. */
void leftovers_write(const char *path, const struct lease_list *leases);

/* Calls `fn` for each report and each result in the file, in order. Returns false if there is no
 * file. Messages that cannot be read are dropped, with a warning. */
bool leftovers_read(const char *path, outbox_fn *fn, void *arg);
