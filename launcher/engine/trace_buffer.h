/* trace_buffer - shared memory in which ranks trace their collectives (client/collective_trace.h).
 * The memory belongs to the launcher. It stays after a rank's death, and disappears with the
 * launcher. */
#pragma once

#include "common/err.h"
#include "common/mem.h"
#include "launcher/job/collective_mismatch.h"

struct trace_buffer;

/* Creates the memory for `ranks` ranks of this node. Pages that are not written take no memory. */
int trace_buffer_open(struct trace_buffer **out, int ranks, struct err *e);
void trace_buffer_close(struct trace_buffer *t);
AUTO_DEFINE(trace_buffer, struct trace_buffer *, trace_buffer_close)

/* Returns the value of DROVER_NOTES for the i-th rank; the caller frees it. */
char *trace_buffer_env(const struct trace_buffer *t, int i);

/* Reads the position of the i-th rank. `*out` is zero if the rank traces nothing, or if `t` is
 * NULL. */
void trace_buffer_read(struct trace_buffer *t, int i, struct collective_position *out);
