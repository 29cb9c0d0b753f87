/* json_stream - writes a JSON document while its last array grows. The document is complete at any
 * time, even if this process is killed.
 *
 * A file gets its name when it has the first whole document. Later an item and the end of the
 * document are written together, over the end before. stdout cannot be overwritten, so there the
 * end is written only by json_stream_end(), or when SIGINT or SIGTERM ends the process. */
#pragma once

#include <jansson.h>

#include "common/err.h"
#include "common/mem.h"

struct json_stream;

/* Creates a file, which json_stream_begin() names `path`. Like nccl-tests, never overwrites a file:
 * if `path` exists, the name is path.0, path.1, …
 *   -EINVAL  the file cannot be created */
int json_stream_open_file(struct json_stream **out, const char *path, struct err *e);
/* Opens a document on stdout. Call this at most once per process. */
struct json_stream *json_stream_open_stdout(void);

/* Begins the document: the keys of `head`, then the array with the name `list`, then the keys of
 * `tail`. If this fails, later calls do nothing. */
int json_stream_begin(struct json_stream *s, const json_t *head, const char *list,
                      const json_t *tail, struct err *e);
/* Adds an item to the array. */
int json_stream_add(struct json_stream *s, const json_t *item, const json_t *tail, struct err *e);
/* Writes the final end of the document, with the keys of `tail`. */
int json_stream_end(struct json_stream *s, const json_t *tail, struct err *e);

/* Closes the document. Does not write the end of a document on stdout. */
void json_stream_close(struct json_stream *s);
AUTO_DEFINE(json_stream, struct json_stream *, json_stream_close)
