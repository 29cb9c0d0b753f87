/* peers - the workers that a coordinator knows, by id, and when each was last heard. */
#ifndef DROVER_PEER_TABLE_H
#define DROVER_PEER_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/mem.h"
#include "hpo/transport/wire.h"

struct peer {
    char id[WIRE_WORKER_MAX + 1];
    int64_t conn;      /* its present connection (wire.h); 0: it never said hello */
    uint64_t heard_ms; /* of the loop's clock */
    bool lost;         /* was taken for lost; has to say hello again */
    bool deaf;         /* reads nothing: what was said to it fills its queue */
    char node[256];    /* these as it said last */
    int slots, cpus, gpus, ping_ms;
    bool renewed; /* it was here, and its last hello said the same as the one before */
};

struct peer_table;
struct peer_table *peer_table_new(void);
void peer_table_free(struct peer_table *p);
AUTO_DEFINE(peer_table, struct peer_table *, peer_table_free)

/* NULL: not known. Borrowed until the next peer_table_add(). */
struct peer *peer_table_find(const struct peer_table *p, const char *id);
/* The known one, or a new one. */
struct peer *peer_table_add(struct peer_table *p, const char *id);

size_t peer_table_count(const struct peer_table *p);
struct peer *peer_table_at(const struct peer_table *p, size_t i);

/* Whether these bytes may be a worker's id: printable ASCII without spaces, not too long. */
bool peer_table_id_ok(const char *bytes, size_t len);

#endif
