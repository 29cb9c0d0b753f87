/* peer_table - the workers that a coordinator knows, by id, and when each sent its last message. */
#ifndef DROVER_PEER_TABLE_H
#define DROVER_PEER_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/mem.h"
#include "hpo/transport/wire.h"

struct peer {
    char id[WIRE_WORKER_MAX + 1];
    int64_t conn;     /* its present connection (wire.h); 0: it never sent a hello */
    uint64_t last_ms; /* of its last message, in the loop's time */
    bool lost;        /* it counts as lost, and must send a hello again */
    bool not_reading; /* its queue is full */
    char node[256];   /* this and the numbers below as it sent them last */
    int slots, cpus, gpus, ping_ms;
    bool renewed; /* it was connected, and its last hello had the same data as the one before */
};

struct peer_table;
struct peer_table *peer_table_new(void);
void peer_table_free(struct peer_table *p);
AUTO_DEFINE(peer_table, struct peer_table *, peer_table_free)

/* NULL: unknown. Borrowed until the next peer_table_add(). */
struct peer *peer_table_find(const struct peer_table *p, const char *id);
/* Returns the entry of this id, a new one if there is none. */
struct peer *peer_table_add(struct peer_table *p, const char *id);

size_t peer_table_count(const struct peer_table *p);
struct peer *peer_table_at(const struct peer_table *p, size_t i);

/* Whether these bytes are a valid id: printable ASCII without spaces, at most WIRE_WORKER_MAX. */
bool peer_table_id_ok(const char *bytes, size_t len);

#endif
