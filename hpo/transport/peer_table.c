#include "hpo/transport/peer_table.h"

void peer_table_clear(struct peer_table *p)
{
    json_decref(p->index);
    free(p->list);
    *p = (struct peer_table){0};
}

struct peer *peer_table_find(const struct peer_table *p, const char *id)
{
    const json_t *at = json_object_get(p->index, id);
    return at ? &p->list[json_integer_value(at)] : NULL;
}

struct peer *peer_table_add(struct peer_table *p, const char *id)
{
    struct peer *known = peer_table_find(p, id);
    if (known)
        return known;
    if (!p->index)
        p->index = json_object();
    p->list = xgrow(p->list, p->count, sizeof *p->list);
    json_object_set_new(p->index, id, json_integer((json_int_t)p->count));
    struct peer *n = &p->list[p->count++];
    *n = (struct peer){0};
    snprintf(n->id, sizeof n->id, "%s", id);
    return n;
}

bool peer_table_id_ok(const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (bytes[i] <= ' ' || bytes[i] > '~')
            return false;
    return len > 0 && len <= WIRE_WORKER_MAX;
}
