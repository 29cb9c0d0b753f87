/* curve_keys - CURVE keys, with which workers authenticate to a sweep's coordinator over a network.
 * They are in files that only the user can read.
 *
 *     sweeps/NAME/server.key    created once: the secret keys of the coordinator and of its workers
 *     sweeps/NAME/worker.key    for workers: "drover-worker ENDPOINT SERVER-PUBLIC WORKER-SECRET"
 *
 * A key is written as 64 hexadecimal digits, which need no quotes in a shell. All workers of a
 * sweep have the same key. A process that has the key can run trials, and can send reports for
 * every trial. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

enum { CURVE_KEYS_BYTES = 32 };

/* The keys of one end: its own secret and public key, and the public key of the other end. */
struct curve_keys {
    uint8_t secret[CURVE_KEYS_BYTES], own[CURVE_KEYS_BYTES], other[CURVE_KEYS_BYTES];
};

/* Reads the keys from DIR/server.key, or creates the keys and the file if it does not exist.
 * `server` is for the coordinator, `worker` for its workers.
 *   -EPERM    other users can read the file
 *   -EBADMSG  the file does not contain keys
 *   others    as open(), write() and rename() */
int curve_keys_of_sweep(struct curve_keys *server, struct curve_keys *worker, const char *dir,
                        struct err *e);

/* Writes DIR/worker.key: the endpoint, and the keys of a worker. */
int curve_keys_give(const struct curve_keys *worker, const char *dir, const char *endpoint,
                    struct err *e);

/* Parses the line of a worker.key. The caller frees `*endpoint`. `where` names the source of the
 * text in messages.
 *   -EBADMSG  the text is not a worker's key; the message does not quote it */
int curve_keys_parse(struct curve_keys *out, char **endpoint, const char *text, const char *where,
                     struct err *e);
/* Reads a worker.key; the caller frees `*endpoint`.
 *   -EPERM  other users can read the file
 *   others  as open() and curve_keys_parse() */
int curve_keys_read(struct curve_keys *out, char **endpoint, const char *path, struct err *e);

/* Returns true if only processes on this node can reach the endpoint: ipc://, or tcp:// with a
 * loopback address. */
bool curve_keys_here(const char *endpoint);
