#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collectives/bench/bench_pairs.h"
#include "collectives/bench/cmd/cmd_bench_internal.h"
#include "common/json.h"
#include "common/plural.h"
#include "launcher/io/terminal.h"

/* The result of one rail. */
static json_t *rail_json(const struct pairs_map *m, const struct pairs_slow *s)
{
    json_t *rates = json_array(), *us = json_array();
    json_t *slow = json_array(), *links = json_array();
    for (int i = 0; i < m->n; i++) {
        json_t *row = json_array(), *lat = json_array();
        for (int j = 0; j < m->n; j++) {
            json_array_append_new(row, i == j ? json_null() : json_real(m->rates[i * m->n + j]));
            json_array_append_new(lat,
                                  i == j ? json_null() : json_real(m->latency_us[i * m->n + j]));
        }
        json_array_append_new(rates, row);
        json_array_append_new(us, lat);
    }
    for (int i = 0; i < s->node_count; i++)
        json_array_append_new(slow, json_integer(s->nodes[i]));
    for (int i = 0; i < s->link_count; i++)
        json_array_append_new(links, json_pack("[i, i]", s->links[i][0], s->links[i][1]));
    return json_pack("{s:o, s:o, s:f, s:o, s:o}", "gbps", rates, "latency_us", us, "usual_gbps",
                     s->usual, "slow_nodes", slow, "slow_links", links);
}

/* With one rail, its keys are those of the document. With several rails, the document has an array
 * with an object per rail. */
static void pairs_json(struct strbuf *out, const struct bench_pairs *p, const char *const *names,
                       json_t *rails)
{
    AUTO(json) json_t *root = json_pack("{s:i, s:o}", "schema", 1, "nodes", json_array());
    if (p->all)
        json_object_set_new(root, "bisected",
                            json_pack("{s:i, s:i, s:f}", "nodes", p->all, "rounds", p->rounds,
                                      "usual_gbps", p->usual));
    for (int i = 0; i < p->n; i++)
        json_array_append_new(json_object_get(root, "nodes"), json_string(names[i]));
    if (p->rails == 1)
        json_object_update(root, json_array_get(rails, 0));
    else
        json_object_set(root, "rails", rails);
    AUTO(free) char *text = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    strbuf_printf(out, "%s\n", text);
}

static bool prints_color(void)
{
    return terminal_coloured(STDOUT_FILENO) || getenv("DROVER_BENCH_COLOR");
}

/* Prints the map. Returns 1 if a link or node is slow, else 0, or a negative errno. */
static int print_pairs(const struct bench_pairs *p, const struct cmd_bench_opts *o,
                       const struct bench_report_device *devices, struct err *e)
{
    AUTO(free) const char **names = xcalloc((size_t)p->n, sizeof *names);
    AUTO(strv) char **own = NULL;
    for (int i = 0; i < p->n; i++) {
        bool one_per_node =
            p->n < 2 || strcmp(devices[p->ranks[0]].host, devices[p->ranks[1]].host) != 0;
        strv_push(&own, one_per_node ? xstrdup(devices[p->ranks[i]].host)
                                     : xasprintf("rank %d", p->ranks[i]));
        names[i] = own[i];
    }
    AUTO(strbuf) struct strbuf text = {0}, json = {0};
    AUTO(json) json_t *rails = json_array();
    int found = 0;
    if (p->all)
        strbuf_printf(&text, "# %d nodes, %d round%s of bisection, median %.3g GB/s: %s\n", p->all,
                      p->rounds, plural_s(p->rounds), p->usual,
                      p->n ? "the suspects and two others" : "no slow link or node");
    for (int k = 0; k < p->rails; k++) {
        size_t begin = (size_t)k * (size_t)p->n * (size_t)p->n;
        struct pairs_map m = {p->rates + begin, p->latency_us + begin, names, p->n, prints_color()};
        struct pairs_slow slow;
        pairs_judge(&slow, m.rates, p->n);
        if (p->rails > 1)
            strbuf_printf(&text, "# rail %d: rank %d of each node\n", k, k);
        if (p->n)
            pairs_show(&text, &m, &slow);
        json_array_append_new(rails, rail_json(&m, &slow));
        found |= slow.node_count + slow.link_count > 0;
        pairs_slow_free(&slow);
    }
    if (o->form == CMD_BENCH_JSON)
        pairs_json(&json, p, names, rails);
    int rc = cmd_bench_print(o->form == CMD_BENCH_JSON ? &json : &text, e);
    return rc < 0 ? rc : found;
}

int cmd_bench_pairs(struct drover *d, struct drover_comm *c, const struct cmd_bench_opts *o,
                    struct err *e)
{
    int size = drover_size(d);
    AUTO(free) struct bench_report_device *devices = xcalloc((size_t)size, sizeof *devices);
    struct bench_pairs p = {0};
    struct bench_opts bench = o->bench;
    int rc = bench_devices(&bench, d, c, devices, e);
    if (rc == 0 && !bench.max_bytes)
        bench.max_bytes = bench_pairs_bytes(c, bench_max_bytes(&bench, devices, size));
    if (rc == 0)
        rc = bench_pairs_run(&p, &bench, d, c, devices, e);
    if (rc == 0 && drover_rank(d) == 0)
        rc = print_pairs(&p, o, devices, e);
    bench_pairs_free(&p);
    return rc;
}
