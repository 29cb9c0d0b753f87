/* json_stream - a JSON document that is written while its last array grows, and that is complete
 * at any time, whatever ends this process.
 *
 * A file always holds the whole document: an item and the end of the document are one write. Of a
 * document on stdout, which cannot be written over, the end is written when it is closed, or when
 * SIGINT or SIGTERM ends the process. */
#ifndef DROVER_JSON_STREAM_H
#define DROVER_JSON_STREAM_H

#include <jansson.h>

#include "common/err.h"
#include "common/mem.h"

struct json_stream;

/* Creates the file; like nccl-tests, overwrites nothing: if `path` exists, takes path.0, path.1, …
 *   -EINVAL  it cannot be created there */
int json_stream_open_file(struct json_stream **out, const char *path, struct err *e);
/* At most once per process. */
struct json_stream *json_stream_open_stdout(void);

/* Begins the document; if it fails, the calls that follow do nothing. The keys of `head`, then the
 * array `list`. `tail` has the keys that follow.
 */
int json_stream_begin(struct json_stream *s, const json_t *head, const char *list,
                      const json_t *tail, struct err *e);
/* Adds an item to the array. */
int json_stream_add(struct json_stream *s, const json_t *item, const json_t *tail, struct err *e);
/* Writes the final end. */
int json_stream_end(struct json_stream *s, const json_t *tail, struct err *e);

/* Does not complete a document on stdout. */
void json_stream_close(struct json_stream *s);
AUTO_DEFINE(json_stream, struct json_stream *, json_stream_close)

#endif
