#include "launcher/plan/plan_print.h"

#include <stdio.h>
#include <string.h>

bool plan_print_is_secret(const char *name, size_t len)
{
    static const char *const marks[] = {"TOKEN", "KEY", "SECRET", "PASSW", "CREDENTIAL"};
    for (size_t i = 0; i < COUNT_OF(marks); i++)
        for (size_t k = 0, n = strlen(marks[i]); k + n <= len; k++)
            if (strncasecmp(name + k, marks[i], n) == 0)
                return true;
    return false;
}

/* Returns the value of "NAME=value" with secrets hidden. `*len` becomes the length of the name. */
static const char *shown_value(const char *entry, size_t *len)
{
    *len = strcspn(entry, "=");
    if (plan_print_is_secret(entry, *len))
        return "***";
    return entry[*len] ? entry + *len + 1 : "";
}

static int max_width(int a, size_t b)
{
    return a > (int)b ? a : (int)b;
}

static const char *text_or_dash(const char *s)
{
    return s ? s : "-";
}

void plan_print_ranks(struct strbuf *b, const struct plan *p)
{
    int node_width = 4, cpus_width = 4;
    for (int i = 0; i < p->node_count; i++)
        node_width = max_width(node_width, strlen(p->nodes[i].name));
    for (int i = 0; i < p->world_size; i++)
        cpus_width = max_width(cpus_width, strlen(p->ranks[i].cpus ? p->ranks[i].cpus : "-"));
    strbuf_printf(b, "rank  %-*s  local  GPU  %-*s  cores  memory\n", node_width, "node",
                  cpus_width, "CPUs");
    for (int i = 0; i < p->world_size; i++) {
        const struct plan_rank *r = &p->ranks[i];
        char gpu[16] = "-";
        if (r->gpu >= 0)
            snprintf(gpu, sizeof gpu, "%d", r->gpu);
        strbuf_printf(b, "%4d  %-*s  %5d  %3s  %-*s  %5d  %s\n", r->rank, node_width,
                      p->nodes[r->node].name, r->local_rank, gpu, cpus_width, text_or_dash(r->cpus),
                      r->cores, text_or_dash(r->mems));
    }
}

void plan_print(struct strbuf *b, const struct plan *p)
{
    strbuf_printf(b, "%d rank%s of", p->world_size, p->world_size == 1 ? "" : "s");
    for (size_t i = 0; p->argv && p->argv[i]; i++)
        strbuf_printf(b, " %s", p->argv[i]);
    if (p->wdir)
        strbuf_printf(b, " in %s", p->wdir);
    strbuf_putc(b, '\n');
    plan_print_ranks(b, p);
    for (size_t i = 0; p->env && p->env[i]; i++) {
        size_t len;
        const char *value = shown_value(p->env[i], &len);
        strbuf_printf(b, "%.*s=%s\n", (int)len, p->env[i], value);
    }
}

/* Arguments, names and values are bytes, JSON is UTF-8: a string that is not valid UTF-8 is
 * replaced. */
static json_t *text(const char *s)
{
    json_t *j = s ? json_string(s) : json_null();
    return j ? j : json_string("(not UTF-8)");
}

static json_t *env_json(char *const *env)
{
    json_t *o = json_object();
    for (size_t i = 0; env && env[i]; i++) {
        size_t len;
        const char *value = shown_value(env[i], &len);
        AUTO(free) char *name = xstrndup(env[i], len);
        json_object_set_new(o, name, text(value));
    }
    return o;
}

static json_t *argv_json(char *const *argv)
{
    json_t *list = json_array();
    for (size_t i = 0; argv && argv[i]; i++)
        json_array_append_new(list, text(argv[i]));
    return list;
}

/* The program and directory of a rank are there if they differ from the job's. */
static json_t *rank_json(const struct plan *p, const struct plan_rank *r)
{
    json_t *o = json_pack("{s:i, s:o, s:i, s:o, s:o, s:o, s:o, s:i, s:o}", "rank", r->rank, "node",
                          text(p->nodes[r->node].name), "local_rank", r->local_rank, "gpu",
                          r->gpu >= 0 ? json_integer(r->gpu) : json_null(), "gpu_uuid",
                          text(r->gpu_uuid), "cpus", text(r->cpus), "mems", text(r->mems), "cores",
                          r->cores, "env", env_json(r->env));
    if (r->argv)
        json_object_set_new(o, "argv", argv_json(r->argv));
    if (r->wdir)
        json_object_set_new(o, "wdir", text(r->wdir));
    return o;
}

json_t *plan_print_json(const struct plan *p)
{
    json_t *nodes = json_array(), *ranks = json_array();
    for (int i = 0; i < p->node_count; i++)
        json_array_append_new(nodes, json_pack("{s:o, s:i}", "name", text(p->nodes[i].name),
                                               "ranks", p->nodes[i].local_size));
    for (int i = 0; i < p->world_size; i++)
        json_array_append_new(ranks, rank_json(p, &p->ranks[i]));
    return json_pack("{s:o, s:i, s:o, s:o, s:o, s:o, s:o, s:o}", "job_id", text(p->job_id),
                     "world_size", p->world_size, "argv", argv_json(p->argv), "wdir", text(p->wdir),
                     "master_addr", text(p->master_addr), "env", env_json(p->env), "nodes", nodes,
                     "ranks", ranks);
}
