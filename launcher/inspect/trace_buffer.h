/* notebook - the memory in which ranks note what their communicators are at (client/notes.h). The
 * launcher's own: it is there as long as the launcher wants, whatever becomes of the rank, and gone
 * with it. */
#ifndef DROVER_TRACE_BUFFER_H
#define DROVER_TRACE_BUFFER_H

#include "common/err.h"
#include "common/mem.h"
#include "launcher/diagnose/collective_mismatch.h"

struct notebook;

/* For so many ranks on this machine. Pages that nobody writes to take no memory. */
int notebook_open(struct notebook **out, int ranks, struct err *e);
void notebook_close(struct notebook *n);
AUTO_DEFINE(notebook, struct notebook *, notebook_close)

/* DROVER_NOTES of the i-th rank, to be freed. */
char *notebook_address(const struct notebook *n, int i);

/* Where the i-th rank is. All zeroes where it notes nothing; so for NULL. */
void notebook_read(struct notebook *n, int i, struct lineup_at *out);

#endif
