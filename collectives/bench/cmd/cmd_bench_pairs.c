#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collectives/bench/bench_pairs.h"
#include "collectives/bench/cmd/cmd_bench_internal.h"
#include "common/json.h"
#include "launcher/run/console.h"

static void pairs_json(struct strbuf *out, const struct pairs_map *m, const struct pairs_slow *s)
{
    json_t *nodes = json_array(), *rates = json_array(), *us = json_array();
    json_t *slow = json_array(), *links = json_array();
    for (int i = 0; i < m->n; i++) {
        json_t *row = json_array(), *lat = json_array();
        for (int j = 0; j < m->n; j++) {
            json_array_append_new(row, i == j ? json_null() : json_real(m->rates[i * m->n + j]));
            json_array_append_new(lat,
                                  i == j ? json_null() : json_real(m->latency_us[i * m->n + j]));
        }
        json_array_append_new(nodes, json_string(m->names[i]));
        json_array_append_new(rates, row);
        json_array_append_new(us, lat);
    }
    for (int i = 0; i < s->node_count; i++)
        json_array_append_new(slow, json_integer(s->nodes[i]));
    for (int i = 0; i < s->link_count; i++)
        json_array_append_new(links, json_pack("[i, i]", s->links[i][0], s->links[i][1]));
    AUTO(json)
    json_t *root = json_pack("{s:i, s:o, s:o, s:o, s:f, s:o, s:o}", "schema", 1, "nodes", nodes,
                             "gbps", rates, "latency_us", us, "usual_gbps", s->usual, "slow_nodes",
                             slow, "slow_links", links);
    AUTO(free) char *text = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    strbuf_printf(out, "%s\n", text);
}

static bool prints_color(void)
{
    return console_coloured(STDOUT_FILENO) || getenv("DROVER_BENCH_COLOR");
}

/* Returns 1 if a link or node is slow, 0, or a negative errno. */
static int print_pairs(const struct bench_pairs *p, const struct cmd_bench_opts *o,
                       const struct bench_report_device *devices, struct err *e)
{
    AUTO(free) const char **names = xcalloc((size_t)p->n, sizeof *names);
    AUTO(strv) char **own = NULL;
    for (int i = 0; i < p->n; i++) {
        bool one_per_node =
            p->n == 1 || strcmp(devices[p->ranks[0]].host, devices[p->ranks[1]].host) != 0;
        strv_push(&own, one_per_node ? xstrdup(devices[p->ranks[i]].host)
                                     : xasprintf("rank %d", p->ranks[i]));
        names[i] = own[i];
    }
    struct pairs_map m = {p->rates, p->latency_us, names, p->n, prints_color()};
    struct pairs_slow slow;
    AUTO(strbuf) struct strbuf text = {0};
    pairs_judge(&slow, p->rates, p->n);
    if (o->form == CMD_BENCH_JSON)
        pairs_json(&text, &m, &slow);
    else
        pairs_show(&text, &m, &slow);
    int rc = cmd_bench_print(&text, e), found = slow.node_count + slow.link_count > 0;
    pairs_slow_free(&slow);
    return rc < 0 ? rc : found;
}

int cmd_bench_pairs(struct drover *d, struct drover_comm *c, const struct cmd_bench_opts *o,
                    struct err *e)
{
    int size = drover_size(d);
    AUTO(free) struct bench_report_device *devices = xcalloc((size_t)size, sizeof *devices);
    struct bench_pairs p = {0};
    int rc = bench_devices(&o->bench, d, c, devices, e);
    if (rc == 0)
        rc = bench_pairs_run(&p, &o->bench, d, c, devices, e);
    if (rc == 0 && drover_rank(d) == 0)
        rc = print_pairs(&p, o, devices, e);
    bench_pairs_free(&p);
    return rc;
}
