/* notebook - the memory in which ranks note what their communicators are at (client/notes.h). The
 * launcher's own: it is there as long as the launcher wants, whatever becomes of the rank, and gone
 * with it. */
#ifndef DROVER_TRACE_BUFFER_H
#define DROVER_TRACE_BUFFER_H

#include "common/err.h"
#include "common/mem.h"
#include "launcher/diagnose/collective_mismatch.h"

struct trace_buffer;

/* For so many ranks on this machine. Pages that nobody writes to take no memory. */
int trace_buffer_open(struct trace_buffer **out, int ranks, struct err *e);
void trace_buffer_close(struct trace_buffer *n);
AUTO_DEFINE(trace_buffer, struct trace_buffer *, trace_buffer_close)

/* DROVER_NOTES of the i-th rank, to be freed. */
char *trace_buffer_env(const struct trace_buffer *n, int i);

/* Where the i-th rank is. All zeroes where it notes nothing; so for NULL. */
void trace_buffer_read(struct trace_buffer *n, int i, struct collective_position *out);

#endif
