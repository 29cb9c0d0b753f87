#include "hpo/transport/peer_table.h"

#include <jansson.h>

struct peer_table {
    struct peer *list;
    size_t count;
    json_t *index; /* maps an id to its position in `list` */
};

struct peer_table *peer_table_new(void)
{
    struct peer_table *p = xzalloc(sizeof *p);
    p->index = json_object();
    return p;
}

void peer_table_free(struct peer_table *p)
{
    if (!p)
        return;
    json_decref(p->index);
    free(p->list);
    free(p);
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
    p->list = xgrow(p->list, p->count, sizeof *p->list);
    json_object_set_new(p->index, id, json_integer((json_int_t)p->count));
    struct peer *n = &p->list[p->count++];
    *n = (struct peer){0};
    snprintf(n->id, sizeof n->id, "%s", id);
    return n;
}

size_t peer_table_count(const struct peer_table *p)
{
    return p->count;
}

struct peer *peer_table_at(const struct peer_table *p, size_t i)
{
    return &p->list[i];
}

bool peer_table_id_ok(const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (bytes[i] <= ' ' || bytes[i] > '~')
            return false;
    return len > 0 && len <= WIRE_WORKER_MAX;
}
