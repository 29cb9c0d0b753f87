#include "collectives/bench/cmd/cmd_bench_internal.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "collectives/bench/ring/ring_probe.h"
#include "collectives/bootstrap/bootstrap.h"
#include "common/json.h"
#include "common/mem.h"

enum { EXCHANGE_MS = 60000, WAYS = 2 };

/* What a rank sends to the others. */
struct links {
    char host[64];
    struct ring_probe_result way[WAYS]; /* to the next rank, to the previous rank */
};

static int neighbour(int rank, int way, int size)
{
    return (rank + (way == 0 ? 1 : size - 1)) % size;
}

static void write_json(struct strbuf *out, const struct links *all, int size)
{
    AUTO(json) json_t *root = json_pack("{s:i, s:s, s:[]}", "schema", 1, "bench", "ring", "rows");
    for (int i = 0; i < size * WAYS; i++) {
        int rank = i / WAYS, to = neighbour(rank, i % WAYS, size);
        const struct ring_probe_result *r = &all[rank].way[i % WAYS];
        json_t *row =
            json_pack("{s:i, s:i, s:o, s:o, s:s, s:o}", "from", rank, "to", to, "from_host",
                      json_text(all[rank].host), "to_host", json_text(all[to].host), "address",
                      r->address, "error", r->error[0] ? json_text(r->error) : json_null());
        json_object_set_new(row, "latency_us",
                            r->latency_us > 0 ? json_real(r->latency_us) : json_null());
        json_object_set_new(row, "gbps", r->gbps > 0 ? json_real(r->gbps) : json_null());
        json_array_append_new(json_object_get(root, "rows"), row);
    }
    AUTO(free) char *text = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    strbuf_printf(out, "%s\n", text);
}

static void write_table(struct strbuf *out, const struct links *all, int size)
{
    strbuf_printf(out, "# %4s  %4s  %-15s  %-15s  %11s  %8s\n", "from", "to", "host", "to host",
                  "latency(us)", "(GB/s)");
    for (int i = 0; i < size * WAYS; i++) {
        int rank = i / WAYS, to = neighbour(rank, i % WAYS, size);
        const struct ring_probe_result *r = &all[rank].way[i % WAYS];
        strbuf_printf(out, "  %4d  %4d  %-15s  %-15s", rank, to, all[rank].host, all[to].host);
        if (r->error[0])
            strbuf_printf(out, "  %s: %s\n", r->address, r->error);
        else
            strbuf_printf(out, "  %11.1f  %8.3f\n", r->latency_us, r->gbps);
    }
}

static int print(const struct links *all, int size, const struct cmd_bench_opts *o, struct err *e)
{
    AUTO(strbuf) struct strbuf text = {0};
    bool failed = false;
    (o->form == CMD_BENCH_JSON ? write_json : write_table)(&text, all, size);
    for (int i = 0; i < size * WAYS; i++)
        failed |= all[i / WAYS].way[i % WAYS].error[0] != '\0';
    int rc = cmd_bench_print(&text, e);
    return rc < 0 ? rc : failed;
}

int cmd_bench_ring(const struct rank_identity *me, const struct cmd_bench_opts *o, struct err *e)
{
    AUTO(ring_probe) struct ring_probe *probe = NULL;
    struct ring_probe_place mine;
    struct links links;
    if (me->size < 2) {
        err_set(e, -EINVAL, "a ring needs at least 2 ranks");
        return err_hint(e, "drover bench ring --hostfile FILE --npernode 1");
    }
    int rc = ring_probe_open(&probe, &mine, e);
    if (rc < 0)
        return rc;
    AUTO(free) struct ring_probe_place *places = xcalloc((size_t)me->size, sizeof *places);
    AUTO(free) struct links *all = xcalloc((size_t)me->size, sizeof *all);
    memset(&links, 0, sizeof links);
    (void)gethostname(links.host, sizeof links.host - 1); /* on failure it stays empty */
    links.host[strcspn(links.host, ".")] = '\0';
    rc = bootstrap_gather(me, &mine, sizeof mine, places, EXCHANGE_MS, e);
    for (int way = 0; way < WAYS && rc == 0; way++) {
        ring_probe_try(&links.way[way], &places[neighbour(me->rank, way, me->size)]);
        /* a barrier: both ways at once would share a link */
        rc = bootstrap_gather(me, "", 1, NULL, EXCHANGE_MS, e);
    }
    if (rc == 0)
        rc = bootstrap_gather(me, &links, sizeof links, all, EXCHANGE_MS, e);
    return rc < 0 || me->rank > 0 ? rc : print(all, me->size, o, e);
}
