/* keys - who may speak with a sweep's coordinator over a network: CURVE keys, in files that are the
 * user's alone.
 *
 *     sweeps/NAME/server.key    made once: the coordinator's secret, and its workers'
 *     sweeps/NAME/worker.key    for workers: "drover-worker ENDPOINT SERVER-PUBLIC WORKER-SECRET"
 *
 * Keys are written as 64 hexadecimal digits: they survive every shell. All workers of a sweep have
 * the same one, and whoever has it may run trials and report for every trial. */
#ifndef DROVER_CURVE_KEYS_H
#define DROVER_CURVE_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

enum { CURVE_KEYS_BYTES = 32 };

/* What one end has: its own pair, and the public key of the other end. */
struct curve_keys {
    uint8_t secret[CURVE_KEYS_BYTES], own[CURVE_KEYS_BYTES], other[CURVE_KEYS_BYTES];
};

/* The coordinator's, from DIR/server.key; made where there is none. `worker` gets its workers'.
 *   -EPERM    others may read the file
 *   -EBADMSG  it holds no keys
 *   others    as open(), write() and rename() say */
int curve_keys_of_sweep(struct curve_keys *server, struct curve_keys *worker, const char *dir,
                        struct err *e);

/* Writes DIR/worker.key. */
int curve_keys_give(const struct curve_keys *worker, const char *dir, const char *endpoint,
                    struct err *e);

/* A worker's, as worker.key has them. *endpoint is to be freed. `where` names the text's place.
 *   -EBADMSG  the text is no worker's key; it is not quoted */
int curve_keys_parse(struct curve_keys *out, char **endpoint, const char *text, const char *where,
                     struct err *e);
/* The same from a file.
 *   -EPERM  others may read it; others as open() says */
int curve_keys_read(struct curve_keys *out, char **endpoint, const char *path, struct err *e);

/* Whether an endpoint is on this machine alone: ipc://, or tcp:// to a loopback address. */
bool curve_keys_here(const char *endpoint);

#endif
