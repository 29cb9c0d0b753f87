/* curve_keys - CURVE keys that admit workers to a sweep's coordinator over a network, in files that
 * only the user can read.
 *
 *     sweeps/NAME/server.key    made once: the secret keys of the coordinator and of its workers
 *     sweeps/NAME/worker.key    for workers: "drover-worker ENDPOINT SERVER-PUBLIC WORKER-SECRET"
 *
 * A key is written as 64 hexadecimal digits, which need no quotes in a shell. All workers of a
 * sweep have the same key. A process that has it may run trials, and report for every trial. */
#ifndef DROVER_CURVE_KEYS_H
#define DROVER_CURVE_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

enum { CURVE_KEYS_BYTES = 32 };

/* The keys of one end: its own pair, and the public key of the other end. */
struct curve_keys {
    uint8_t secret[CURVE_KEYS_BYTES], own[CURVE_KEYS_BYTES], other[CURVE_KEYS_BYTES];
};

/* Reads DIR/server.key, and makes it first if it does not exist. `server` is for the coordinator,
 * `worker` for its workers.
 *   -EPERM    other users can read the file
 *   -EBADMSG  the file does not contain keys
 *   others    as open(), write() and rename() */
int curve_keys_of_sweep(struct curve_keys *server, struct curve_keys *worker, const char *dir,
                        struct err *e);

/* Writes DIR/worker.key. */
int curve_keys_give(const struct curve_keys *worker, const char *dir, const char *endpoint,
                    struct err *e);

/* Parses the line of a worker.key. Free *endpoint. `where` names the source of the text
 * in messages. -EBADMSG  the text is not a worker's key; the message does not quote it */
int curve_keys_parse(struct curve_keys *out, char **endpoint, const char *text, const char *where,
                     struct err *e);
/* Reads a worker.key.
 *   -EPERM  other users can read the file
 *   others  as open() and curve_keys_parse() */
int curve_keys_read(struct curve_keys *out, char **endpoint, const char *path, struct err *e);

/* Whether only this machine can reach the endpoint: ipc://, or tcp:// to a loopback address. */
bool curve_keys_here(const char *endpoint);

#endif
