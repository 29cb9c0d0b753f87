/* peer_table - the workers that a coordinator knows, by id, and the time of each worker's last
 * message. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/json.h"
#include "common/mem.h"
#include "hpo/transport/wire.h"

struct peer {
    char id[WIRE_WORKER_MAX + 1];
    int64_t conn;     /* number of its present connection (wire.h); 0: it never sent a hello */
    uint64_t last_ms; /* time of its last message, by uv_now() */
    bool lost;        /* it counts as lost until its next hello */
    bool unsent;      /* a message to it could not be sent: the queue was full, or no memory free */
    char node[256];   /* this and the next line: as it last sent them */
    int slots, cpus, gpus, ping_ms;
    bool renewed; /* its last hello renewed its connection: it was not lost, and the data is
                     unchanged */
};

struct peer_table { /* zeroes are an empty table; others read the list */
    struct peer *list;
    size_t count;
    json_t *index; /* maps an id to its position in `list`; NULL: empty */
};

void peer_table_clear(struct peer_table *p);

/* Returns the worker with this id, or NULL if it is unknown. Borrowed until the next
 * peer_table_add(). */
struct peer *peer_table_find(const struct peer_table *p, const char *id);
/* Returns the worker with this id; adds it if it is unknown. Borrowed until the next
 * peer_table_add(). */
struct peer *peer_table_add(struct peer_table *p, const char *id);

/* Returns true if the bytes are a valid id: 1 to WIRE_WORKER_MAX printable ASCII characters without
 * spaces. */
bool peer_table_id_ok(const char *bytes, size_t len);
