#include "hpo/coordinator/worker_roster.h"

#include <string.h>

#include "common/json.h"
#include "common/log.h"

enum { LONELY_MS = 30000 /* with too few workers, until the warning */ };

size_t worker_roster_count(const struct peer_table *p)
{
    size_t present = 0;
    for (size_t i = 0; i < p->count; i++)
        present += !p->list[i].lost;
    return present;
}

/* Nodes with workers that are not lost; counts at most `limit`. */
static int count_nodes(const struct peer_table *p, int limit)
{
    AUTO(free) const char **names = xcalloc((size_t)limit, sizeof *names);
    int n = 0;
    for (size_t i = 0; i < p->count && n < limit; i++) {
        const struct peer *w = &p->list[i];
        bool seen = w->lost;
        for (int k = 0; k < n && !seen; k++)
            seen = strcmp(names[k], w->node) == 0;
        if (!seen)
            names[n++] = w->node;
    }
    return n;
}

struct worker_roster_totals worker_roster_totals(const struct peer_table *p)
{
    struct worker_roster_totals sum = {0};
    AUTO(json) json_t *nodes = json_object(); /* several workers may run on a node */
    for (size_t i = 0; i < p->count; i++) {
        const struct peer *w = &p->list[i];
        if (w->lost)
            continue;
        sum.workers++;
        sum.slots += w->slots;
        if (!json_object_get(nodes, w->node))
            sum.gpus += w->gpus;
        json_object_set_new(nodes, w->node, json_true());
    }
    return sum;
}

static json_t *list_all(const struct peer_table *p, const struct scheduler *s)
{
    json_t *list = json_array();
    for (size_t i = 0; i < p->count; i++) {
        const struct peer *w = &p->list[i];
        if (!w->lost)
            json_array_append_new(list, json_pack("{s:s,s:s,s:i,s:i,s:i,s:o*}", "id", w->id, "node",
                                                  w->node, "places", w->slots, "slots", w->cpus,
                                                  "gpus", w->gpus, "fault",
                                                  s ? scheduler_worker_fault(s, w->id) : NULL));
    }
    return list;
}

void worker_roster_tick(struct worker_roster *r, const struct peer_table *p,
                        const struct sweep_dir *d, uint64_t now_ms)
{
    int nodes = count_nodes(p, r->nodes);
    if (nodes >= r->nodes || (r->own && r->nodes == 1))
        r->lonely_ms = now_ms;
    if (r->lonely_ms && now_ms - r->lonely_ms >= LONELY_MS) {
        AUTO(free)
        char *few = xasprintf("a trial needs %d nodes, but workers are on %d", r->nodes, nodes);
        log_warn("%s; copy %s/worker.key to another machine: drover worker --key worker.key",
                 nodes > 0 ? few : "no worker is connected", d->path);
        r->lonely_ms = 0;
    }
    if (!r->changed || now_ms - r->written_ms < p->count)
        return;
    AUTO(json) json_t *list = list_all(p, r->sched);
    struct err e = {0};
    if (sweep_dir_write_workers(d, list, &e) < 0)
        log_warn("%s", e.text); /* only `sweep show` needs the file */
    r->changed = false;
    r->written_ms = now_ms;
}

void worker_roster_forward_ticket(struct transport_server *s, const json_t *members,
                                  const struct wire_msg *m)
{
    for (size_t i = 0; i < json_array_size(members); i++) {
        struct err e = {0};
        struct wire_msg to = {
            .kind = WIRE_JOIN_TICKET, .lease = m->lease, .data = json_copy(m->data)};
        json_object_set_new(to.data, "node", json_integer((json_int_t)i + 1));
        if (transport_server_send(s, json_string_value(json_array_get(members, i)), &to, &e) < 0)
            log_warn("%s", e.text);
        wire_msg_clear(&to);
    }
}
