#include "launcher/plan/node_spec.h"

#include <errno.h>
#include <string.h>

enum { RANKS_MAX = 1 << 20 };

bool node_spec_is_host_env(const char *entry)
{
    static const char *const prefixes[] = {
        "HOSTNAME=", "HOST=",    "SSH_",     "PWD=",           "OLDPWD=",         "SHLVL=",
        "DISPLAY=",  "WAYLAND_", "XDG_",     "XAUTHORITY",     "DBUS_",           "WINDOWID=",
        "TMUX",      "STY=",     "_=",       "TTY=",           "GPG_TTY=",        "SESSION_",
        "MAIL=",     "SLURMD_",  "SYSTEMD_", "INVOCATION_ID=", "JOURNAL_STREAM=", NULL};
    return strv_begins(prefixes, entry);
}

/* Returns true if the variable is set for the agent itself, and not for its ranks. */
static bool is_agent_env(const char *entry)
{
    static const char *const prefixes[] = {"DROVER_CONTROL=", "DROVER_TOKEN=", "DROVER_AGENT_",
                                           NULL};
    return strv_begins(prefixes, entry);
}

/* ---- writing -------------------------------------------------------------------------------- */

static void add_string(struct strbuf *out, const char *s)
{
    strbuf_add(out, s ? s : "", (s ? strlen(s) : 0) + 1);
}

static json_int_t add_strings(struct strbuf *out, char *const *v)
{
    for (size_t i = 0; v && v[i]; i++)
        add_string(out, v[i]);
    return (json_int_t)strv_len(v);
}

void node_spec_base_env(struct strbuf *out, char *const *env)
{
    for (size_t i = 0; env && env[i]; i++)
        if (!node_spec_is_host_env(env[i]) && !is_agent_env(env[i]))
            add_string(out, env[i]);
}

/* Appends the node of each rank as runs: "0*8 1*8" means 8 ranks on node 0, then 8 on node 1. */
static void add_rank_nodes(struct strbuf *out, const struct plan *p)
{
    for (int i = 0, end; i < p->world_size; i = end) {
        int node = p->ranks[i].node;
        for (end = i + 1; end < p->world_size && p->ranks[end].node == node;)
            end++;
        strbuf_printf(out, "%s%d*%d", i > 0 ? " " : "", node, end - i);
    }
    strbuf_add(out, "", 1);
}

/* Appends the node's ranks. Returns their numbers of strings: [[argv, env], …]. */
static json_t *add_ranks(struct strbuf *out, const struct plan *p, int node)
{
    json_t *counts = json_array();
    for (int i = 0; i < p->nodes[node].local_size; i++) {
        const struct plan_rank *r = &p->ranks[p->nodes[node].ranks[i]];
        add_string(out, r->cpus);
        add_string(out, r->mems);
        add_string(out, r->wdir);
        json_int_t argv = add_strings(out, r->argv), env = add_strings(out, r->env);
        json_array_append_new(counts, json_pack("[I,I]", argv, env));
    }
    return counts;
}

/* Strings may be invalid UTF-8. So they are in the payload, and the JSON object has only the number
 * of strings of each kind. */
json_t *node_spec_encode_job(struct strbuf *payload, const struct plan *p, const char *wdir,
                             const struct launch_node_settings *n, const struct strbuf *base)
{
    add_string(payload, p->wdir ? p->wdir : wdir);
    add_string(payload, p->job_id);
    add_rank_nodes(payload, p);
    for (int i = 0; i < p->node_count; i++)
        add_string(payload, p->nodes[i].name);
    json_int_t argv = add_strings(payload, p->argv), env = add_strings(payload, p->env);
    strbuf_add(payload, base->data, base->len);
    return json_pack("{s:s,s:i,s:i,s:I,s:I,s:b,s:b,s:b,s:b,s:i,s:i,s:i,s:i,s:i,s:s*}", "t", "job",
                     "nodes", p->node_count, "ranks", p->world_size, "argv", argv, "env", env,
                     "reports", n->reports, "no_pty", n->no_pty, "no_pmix", n->no_pmix,
                     "no_hold_port", n->no_hold_port, "master_port", n->master_port, "port_first",
                     n->ports.first, "port_last", n->ports.last, "tree_radix", n->tree_radix,
                     "stdin_rank", n->stdin_rank, "ft_config", n->ft_config);
}

json_t *node_spec_encode(struct strbuf *payload, const struct plan *p, int node)
{
    return json_pack("{s:s,s:i,s:o}", "t", "node_spec", "node", node, "local",
                     add_ranks(payload, p, node));
}

/* ---- reading -------------------------------------------------------------------------------- */

struct string_reader {
    const char *at, *end;
};

static const char *next_string(struct string_reader *s)
{
    const char *found = s->at;
    const char *nul = s->at < s->end ? memchr(s->at, '\0', (size_t)(s->end - s->at)) : NULL;
    if (!nul)
        return NULL;
    s->at = nul + 1;
    return found;
}

static int read_strings(char ***out, struct string_reader *s, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const char *text = next_string(s);
        if (!text)
            return -EBADMSG;
        strv_push(out, xstrdup(text));
    }
    return 0;
}

static char *dup_nonempty(const char *s)
{
    return *s ? xstrdup(s) : NULL;
}

/* Reads the runs of add_rank_nodes(), and collects the ranks of the map's node. */
static int read_rank_nodes(struct job_map *m, const char *runs)
{
    int rank = 0;
    for (const char *p = runs; *p;) {
        char *end;
        long node = strtol(p, &end, 10);
        long count = *end == '*' ? strtol(end + 1, &end, 10) : 0;
        if (node < 0 || node >= m->node_count || count < 1 || count > m->ranks - rank)
            return -EBADMSG;
        for (; count > 0; count--, rank++) {
            m->rank_nodes[rank] = (int)node;
            if (node == m->node)
                m->local[m->local_count++] = rank;
        }
        p = *end == ' ' ? end + 1 : end;
    }
    return rank == m->ranks && m->local_count > 0 ? 0 : -EBADMSG;
}

static int read_map(struct job_map *m, struct string_reader *s)
{
    const char *job_id = next_string(s), *runs = next_string(s);
    if (!runs)
        return -EBADMSG;
    m->job_id = xstrdup(job_id);
    m->rank_nodes = xcalloc((size_t)m->ranks, sizeof *m->rank_nodes);
    m->local = xcalloc((size_t)m->ranks, sizeof *m->local);
    int rc = read_rank_nodes(m, runs);
    return rc < 0 ? rc : read_strings(&m->nodes, s, m->node_count);
}

static int read_rank(struct node_spec *spec, int i, struct string_reader *s, const json_t *counts)
{
    struct plan_rank *r = &spec->plan->ranks[i];
    const char *cpus = next_string(s), *mems = next_string(s), *wdir = next_string(s);
    json_int_t argv = json_integer_value(json_array_get(counts, 0));
    json_int_t env = json_integer_value(json_array_get(counts, 1));
    if (!wdir)
        return -EBADMSG;
    *r = (struct plan_rank){.rank = i, .local_rank = i, .gpu = -1};
    strv_push(&spec->map->cpus, xstrdup(cpus));
    r->cpus = dup_nonempty(cpus);
    r->mems = dup_nonempty(mems);
    r->wdir = dup_nonempty(wdir);
    int rc = read_strings(&r->argv, s, argv);
    return rc < 0 ? rc : read_strings(&r->env, s, env);
}

/* Makes the local plan of the map's node, without its ranks. */
static struct plan *plan_of_node(const struct job_map *m)
{
    struct plan *p = xzalloc(sizeof *p);
    p->engine = PLAN_ENGINE_LOCAL;
    p->job_id = xstrdup(m->job_id);
    p->world_size = m->local_count;
    p->ranks = xcalloc((size_t)m->local_count, sizeof *p->ranks);
    p->node_count = 1;
    p->nodes = xcalloc(1, sizeof *p->nodes);
    p->nodes[0].name = xstrdup(m->nodes[m->node]);
    p->nodes[0].local_size = m->local_count;
    p->nodes[0].ranks = xcalloc((size_t)m->local_count, sizeof *p->nodes[0].ranks);
    for (int i = 0; i < m->local_count; i++)
        p->nodes[0].ranks[i] = i;
    p->nodes[0].here = true;
    return p;
}

/* Reads the rest of the payload of `job`, after the map. */
static int read_plan(struct node_spec *spec, struct string_reader *s, const json_t *head,
                     const char *wdir, char *const *agent_env)
{
    int64_t argv = json_integer_value(json_object_get(head, "argv"));
    int64_t env = json_integer_value(json_object_get(head, "env"));
    struct plan *p = spec->plan = plan_of_node(spec->map);
    p->wdir = xstrdup(wdir);
    if (argv < 1 || read_strings(&p->argv, s, argv) < 0 || read_strings(&p->env, s, env) < 0)
        return -EBADMSG;
    for (const char *text; (text = next_string(s));)
        strv_push(&spec->base, xstrdup(text));
    for (size_t i = 0; agent_env && agent_env[i]; i++)
        strv_push(&spec->base, xstrdup(agent_env[i]));
    return s->at == s->end ? 0 : -EBADMSG;
}

/* Reads what `node_spec` has of the node's ranks. */
static int read_ranks(struct node_spec *spec, const struct node_spec_message *own)
{
    struct string_reader s = {own->payload, own->payload + own->len};
    const json_t *local = json_object_get(own->head, "local");
    if (json_array_size(local) != (size_t)spec->plan->world_size)
        return -EBADMSG;
    for (int i = 0; i < spec->plan->world_size; i++)
        if (read_rank(spec, i, &s, json_array_get(local, (size_t)i)) < 0)
            return -EBADMSG;
    return s.at == s.end ? 0 : -EBADMSG;
}

static int read_job(struct node_spec *spec, const struct node_spec_message *job, int64_t node,
                    char *const *agent_env, struct err *e)
{
    struct string_reader s = {job->payload, job->payload + job->len};
    int64_t nodes = 0, ranks = 0;
    if (json_require_int(&nodes, job->head, "nodes", e) < 0 ||
        json_require_int(&ranks, job->head, "ranks", e) < 0 || ranks < 1 || ranks > RANKS_MAX ||
        nodes < 1 || nodes > ranks || node < 0 || node >= nodes)
        return -EBADMSG;
    struct job_map *m = spec->map = xzalloc(sizeof *m);
    m->node = (int)node;
    m->node_count = (int)nodes;
    m->ranks = (int)ranks;
    const char *wdir = next_string(&s);
    int rc = wdir ? read_map(m, &s) : -EBADMSG;
    return rc < 0 ? rc : read_plan(spec, &s, job->head, wdir, agent_env);
}

static int read_settings(struct node_spec *spec, const json_t *head)
{
    struct launch_node_settings *n = &spec->settings;
    static const char *const wide[] = {"argv", "env", NULL};
    int reports, no_pty, no_pmix, no_hold_port;
    const char *ft_config = NULL;
    if (!json_fits_int(head, wide) ||
        json_unpack((json_t *)head, "{s:b,s:b,s:b,s:b,s:i,s:i,s:i,s:i,s:i,s?s}", "reports",
                    &reports, "no_pty", &no_pty, "no_pmix", &no_pmix, "no_hold_port", &no_hold_port,
                    "master_port", &n->master_port, "port_first", &n->ports.first, "port_last",
                    &n->ports.last, "tree_radix", &n->tree_radix, "stdin_rank", &n->stdin_rank,
                    "ft_config", &ft_config) < 0 ||
        n->master_port < 0 || n->master_port > 65535 || n->ports.first < 0 ||
        n->ports.last > 65535 || n->tree_radix < 1 || n->tree_radix > RANKS_MAX ||
        n->stdin_rank < -1 || n->stdin_rank > RANKS_MAX)
        return -EBADMSG;
    n->reports = reports;
    n->no_pty = no_pty;
    n->no_pmix = no_pmix;
    n->no_hold_port = no_hold_port;
    n->ft_config = spec->ft_config = ft_config ? xstrdup(ft_config) : NULL;
    return 0;
}

int node_spec_decode(struct node_spec *out, const struct node_spec_message *job,
                     const struct node_spec_message *own, char *const *agent_env, struct err *e)
{
    struct node_spec spec = {0};
    int64_t node = 0;
    if (json_require_int(&node, own->head, "node", e) < 0 || read_settings(&spec, job->head) < 0 ||
        read_job(&spec, job, node, agent_env, e) < 0 || read_ranks(&spec, own) < 0) {
        node_spec_free(&spec);
        return err_set(e, -EBADMSG, "malformed message job or node_spec");
    }
    *out = spec;
    return 0;
}

void node_spec_free(struct node_spec *r)
{
    plan_free(r->plan);
    job_map_free(r->map);
    strv_free(r->base);
    free(r->ft_config);
    *r = (struct node_spec){0};
}
