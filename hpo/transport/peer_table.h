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
    int places, slots, gpus, ping_ms;
    bool renewed; /* it was here, and its last hello said the same as the one before */
};

struct peers;
struct peers *peers_new(void);
void peers_free(struct peers *p);
AUTO_DEFINE(peers, struct peers *, peers_free)

/* NULL: not known. Borrowed until the next peers_add(). */
struct peer *peers_find(const struct peers *p, const char *id);
/* The known one, or a new one. */
struct peer *peers_add(struct peers *p, const char *id);

size_t peers_count(const struct peers *p);
struct peer *peers_at(const struct peers *p, size_t i);

/* Whether these bytes may be a worker's id: printable ASCII without spaces, not too long. */
bool peers_id_ok(const char *bytes, size_t len);

#endif
