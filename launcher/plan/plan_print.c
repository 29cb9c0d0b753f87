#include "launcher/plan/plan_print.h"

#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "common/plural.h"
#include "common/redact.h"
#include "common/utf8.h"
#include "launcher/plan/env.h"

/* Returns the value of "NAME=value" with secrets hidden; the caller frees it. Sets `*len` to the
 * length of the name. */
static char *shown_value(const char *entry, size_t *len)
{
    struct strbuf b = {0};
    *len = strcspn(entry, "=");
    redact_value(&b, entry, *len, entry[*len] ? entry + *len + 1 : "");
    return strbuf_take(&b);
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

/* Appends the variables that give a rank its position in the job and its peers. */
static void print_rank_env(struct strbuf *b, const struct plan *p, const struct plan_rank *r)
{
    static const char at_start[] = "(chosen at the start)";
    const char *port = env_get(p->env, "MASTER_PORT"),
               *threads = env_get(r->env, "OMP_NUM_THREADS");
    AUTO(free) char *own_port = xasprintf("%d", p->master_port);
    if (!port)
        port = p->master_port ? own_port : at_start;
    strbuf_printf(b, "rank %d: RANK=%s LOCAL_RANK=%s MASTER_ADDR=%s MASTER_PORT=%s", r->rank,
                  env_get(r->env, "RANK"), env_get(r->env, "LOCAL_RANK"),
                  p->master_addr ? p->master_addr : at_start, port);
    if (threads) /* otherwise the user has set it */
        strbuf_printf(b, " OMP_NUM_THREADS=%s", threads);
    strbuf_putc(b, '\n');
}

static void print_assumed(struct strbuf *b, const struct plan *p)
{
    const char *before = "assumed to be like this machine, not contacted: ";
    for (int i = 0; i < p->node_count; i++) {
        if (p->nodes[i].here)
            continue;
        strbuf_printf(b, "%s%s", before, p->nodes[i].name);
        before = ", ";
    }
    strbuf_puts(b, *before == ',' ? "\n" : "");
}

void plan_print(struct strbuf *b, const struct plan *p)
{
    strbuf_printf(b, "%d rank%s of", p->world_size, plural_s(p->world_size));
    AUTO(strbuf) struct strbuf command = {0};
    redact_command(&command, p->argv);
    strbuf_putc(b, ' ');
    utf8_add_line(b, strbuf_str(&command));
    if (p->wdir) {
        strbuf_puts(b, " in ");
        utf8_add_line(b, p->wdir);
    }
    strbuf_putc(b, '\n');
    plan_print_ranks(b, p);
    print_assumed(b, p);
    for (int i = 0; i < p->world_size; i++)
        print_rank_env(b, p, &p->ranks[i]);
    for (size_t i = 0; p->env && p->env[i]; i++) {
        size_t len;
        AUTO(free) char *value = shown_value(p->env[i], &len);
        strbuf_printf(b, "%.*s=", (int)len, p->env[i]);
        utf8_add_line(b, value);
        strbuf_putc(b, '\n');
    }
}

static json_t *text(const char *s)
{
    return s ? json_text(s) : json_null();
}

static json_t *env_json(char *const *env)
{
    json_t *o = json_object();
    for (size_t i = 0; env && env[i]; i++) {
        size_t len;
        AUTO(free) char *value = shown_value(env[i], &len);
        AUTO(free) char *name = xstrndup(env[i], len);
        json_object_set_new(o, name, text(value));
    }
    return o;
}

static json_t *argv_json(char *const *argv)
{
    json_t *list = json_array();
    AUTO(strv) char **shown = redact_argv(argv);
    for (size_t i = 0; shown && shown[i]; i++)
        json_array_append_new(list, text(shown[i]));
    return list;
}

/* Returns a rank as JSON. It includes the program and the directory only if they differ from the
 * job's. */
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
        json_array_append_new(nodes,
                              json_pack("{s:o, s:i, s:b}", "name", text(p->nodes[i].name), "ranks",
                                        p->nodes[i].local_size, "assumed", !p->nodes[i].here));
    for (int i = 0; i < p->world_size; i++)
        json_array_append_new(ranks, rank_json(p, &p->ranks[i]));
    return json_pack("{s:o, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "job_id", text(p->job_id),
                     "world_size", p->world_size, "argv", argv_json(p->argv), "wdir", text(p->wdir),
                     "master_addr", text(p->master_addr), "master_port",
                     p->master_port ? json_integer(p->master_port) : json_null(), "env",
                     env_json(p->env), "nodes", nodes, "ranks", ranks);
}
