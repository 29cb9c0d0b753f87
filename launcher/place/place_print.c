#include "launcher/place/place_print.h"

#include <stdio.h>
#include <string.h>

#include "common/byte_size.h"
#include "launcher/node/topo_path.h"

static json_t *number_or_null(bool known, json_int_t n)
{
    return known ? json_integer(n) : json_null();
}

/* ---- inventory ------------------------------------------------------------------------------ */

/* Returns the most NVLinks that a GPU has to another one, and to how many it has links. */
static int most_links(const struct place_gpu *gpus, int n, int i, int *peers)
{
    int most = 0;
    *peers = 0;
    for (int k = 0; k < n; k++) {
        int links = k == i ? 0 : topo_nvlinks(&gpus[i].now.gpu, &gpus[k].now.gpu);
        *peers += links > 0;
        most = links > most ? links : most;
    }
    return most;
}

static void add_nvlinks(char *out, size_t size, const struct place_gpu *gpus, int n, int i)
{
    int peers = 0, links = most_links(gpus, n, i, &peers);
    if (links)
        snprintf(out, size, "NV%d to %d", links, peers);
    else
        snprintf(out, size, "-");
}

static size_t widest_name(const struct place_gpu *gpus, int n)
{
    size_t width = 5;
    for (int i = 0; i < n; i++)
        width = strlen(gpus[i].now.gpu.name) > width ? strlen(gpus[i].now.gpu.name) : width;
    return width;
}

static void print_gpu(struct strbuf *out, const struct place_gpu *gpus, int n, int i, int width)
{
    const struct place_gpu *g = &gpus[i];
    char name[40], total[16], free_bytes[16], links[32], speed[16] = "?", load[16] = "?";
    int64_t busy = gpu_sample_value(&g->now, GPU_FACT_BUSY, -1);
    add_nvlinks(links, sizeof links, gpus, n, i);
    if (place_gpu_tflops(g) > 0)
        snprintf(speed, sizeof speed, "%g", place_gpu_tflops(g));
    if (busy >= 0)
        snprintf(load, sizeof load, "%d %%", (int)busy);
    strbuf_printf(out, "%-9s %-*s  %9s  %9s  %6s  %-9s %5s  %s",
                  place_gpu_name(name, sizeof name, g), width, g->now.gpu.name,
                  byte_size_format(total, sizeof total, place_gpu_memory(g)),
                  byte_size_format(free_bytes, sizeof free_bytes, place_gpu_free(g)), speed, links,
                  load, g->users[0] ? g->users : "free");
    for (char **l = g->labels; l && *l; l++)
        strbuf_printf(out, "%s%s", l == g->labels ? "  labels " : ",", *l);
    strbuf_putc(out, '\n');
}

void place_print_inventory(struct strbuf *out, const struct place_gpu *gpus, int n)
{
    int width = (int)widest_name(gpus, n);
    strbuf_printf(out, "%-9s %-*s  %9s  %9s  %6s  %-9s %5s  %s\n", "GPU", width, "model", "memory",
                  "free", "TFLOP/s", "NVLink", "load", "users");
    for (int i = 0; i < n; i++)
        print_gpu(out, gpus, n, i, width);
}

json_t *place_print_inventory_json(const struct place_gpu *gpus, int n)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        const struct place_gpu *g = &gpus[i];
        json_t *labels = json_array();
        int peers = 0, links = most_links(gpus, n, i, &peers);
        for (char **l = g->labels; l && *l; l++)
            json_array_append_new(labels, json_text(*l));
        json_array_append_new(
            list,
            json_pack("{s:i,s:s,s:o,s:I,s:I,s:o,s:i,s:o,s:o,s:o}", "index", g->now.gpu.index,
                      "uuid", g->now.gpu.uuid, "name", json_text(g->now.gpu.name), "memory_bytes",
                      (json_int_t)place_gpu_memory(g), "used_bytes",
                      (json_int_t)gpu_sample_value(&g->now, GPU_FACT_MEMORY_USED, 0), "tflops_fp16",
                      place_gpu_tflops(g) > 0 ? json_real(place_gpu_tflops(g)) : json_null(),
                      "nvlinks", links, "busy_percent",
                      number_or_null(gpu_sample_get(NULL, &g->now, GPU_FACT_BUSY),
                                     gpu_sample_value(&g->now, GPU_FACT_BUSY, 0)),
                      "users", g->users[0] ? json_text(g->users) : json_null(), "labels", labels));
    }
    return list;
}

/* ---- choice --------------------------------------------------------------------------------- */

static void add_memory_reason(struct strbuf *b, const struct place_job *j,
                              const struct place_gpu *g, const struct place_choice *c, int rule)
{
    char need[16], has[16];
    uint64_t bytes = rule == PLACE_RULE_TOO_SMALL ? place_select_usable(j, place_gpu_memory(g))
                                                  : place_gpu_free(g);
    byte_size_format(need, sizeof need, c->need.high_bytes);
    byte_size_format(has, sizeof has, bytes);
    if (rule == PLACE_RULE_TOO_SMALL)
        strbuf_printf(b, ": the job needs up to %s, and may use %s (%g of its memory)", need, has,
                      j->memory_threshold);
    else
        strbuf_printf(b, ": the job needs up to %s, and %s are free", need, has);
}

/* Appends "selected" or "not selected: …". */
static void add_reason(struct strbuf *b, const struct place_job *j, const struct place_gpu *g,
                       const struct place_choice *c, const struct place_verdict *v)
{
    if (v->selected) {
        strbuf_puts(b, "selected");
    } else if (v->rule >= 0) {
        strbuf_printf(b, "not selected: %s", place_select_rules[v->rule]);
        if (v->rule == PLACE_RULE_TOO_SMALL || v->rule == PLACE_RULE_NO_MEMORY)
            add_memory_reason(b, j, g, c, v->rule);
        else if (v->rule == PLACE_RULE_LOCKED || v->rule == PLACE_RULE_USED)
            strbuf_printf(b, ": %s", g->users);
        else if (v->rule == PLACE_RULE_TYPE)
            strbuf_printf(b, " %s", j->gpu_type);
    } else if (v->best_score >= 0 && v->best_score == c->score) {
        strbuf_puts(b, "not selected: equal to a selected one, which comes first");
    } else if (v->best_score >= 0) {
        strbuf_printf(b, "not selected: its best set has a score of %lld",
                      (long long)v->best_score);
    } else {
        strbuf_puts(b, "not selected: too few GPUs of its model can be used");
    }
}

/* Terms without points are left out. */
static void add_score(struct strbuf *out, const struct place_choice *c)
{
    const char *sign = " =";
    strbuf_printf(out, "score %lld", (long long)c->score);
    for (int t = 0; t < PLACE_TERMS; t++) {
        if (c->terms[t] == 0)
            continue;
        strbuf_printf(out, "%s %d x %d %s", sign, place_select_terms[t].weight, c->terms[t],
                      place_select_terms[t].name);
        sign = " +";
    }
    strbuf_putc(out, '\n');
}

void place_print_choice(struct strbuf *out, const struct place_job *j, const struct place_gpu *gpus,
                        int n, const struct place_choice *c)
{
    char name[40], size[16], low[16], high[16];
    int width = (int)widest_name(gpus, n);
    for (int i = 0; i < n && i < PLACE_GPUS_MAX; i++) {
        strbuf_printf(out, "%-9s %-*s  %9s  ", place_gpu_name(name, sizeof name, &gpus[i]), width,
                      gpus[i].now.gpu.name,
                      byte_size_format(size, sizeof size, place_gpu_memory(&gpus[i])));
        add_reason(out, j, &gpus[i], c, &c->each[i]);
        strbuf_putc(out, '\n');
    }
    if (c->need.high_bytes > 0)
        strbuf_printf(out, "needs %s to %s per GPU%s\n",
                      byte_size_format(low, sizeof low, c->need.low_bytes),
                      byte_size_format(high, sizeof high, c->need.high_bytes),
                      c->need.measured.n ? ", as measured in earlier jobs" : "");
    if (c->count > 0)
        add_score(out, c);
}

static json_t *need_json(const struct estimate *n)
{
    return n->high_bytes > 0 ? json_pack("{s:I,s:I}", "low_bytes", (json_int_t)n->low_bytes,
                                         "high_bytes", (json_int_t)n->high_bytes)
                             : json_null();
}

json_t *place_print_choice_json(const struct place_job *j, const struct place_gpu *gpus, int n,
                                const struct place_choice *c)
{
    json_t *list = json_array(), *terms = json_array();
    for (int i = 0; i < n && i < PLACE_GPUS_MAX; i++) {
        const struct place_verdict *v = &c->each[i];
        AUTO(strbuf) struct strbuf why = {0};
        add_reason(&why, j, &gpus[i], c, v);
        json_array_append_new(
            list, json_pack("{s:i,s:s,s:o,s:b,s:o,s:o}", "index", gpus[i].now.gpu.index, "uuid",
                            gpus[i].now.gpu.uuid, "name", json_text(gpus[i].now.gpu.name),
                            "selected", v->selected, "reason", json_text(strbuf_str(&why)),
                            "best_score", number_or_null(v->best_score >= 0, v->best_score)));
    }
    for (int t = 0; t < PLACE_TERMS; t++)
        json_array_append_new(terms, json_pack("{s:s,s:i,s:i}", "name", place_select_terms[t].name,
                                               "weight", place_select_terms[t].weight, "points",
                                               c->terms[t]));
    return json_pack("{s:i,s:o,s:o,s:o,s:o}", "v", 1, "gpus", list, "need", need_json(&c->need),
                     "score", number_or_null(c->count > 0, c->score), "terms", terms);
}
