#include "launcher/plan/rank_spec.h"

#include <errno.h>
#include <string.h>

static bool starts(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

static bool has_prefix(const char *entry, const char *const *prefixes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (starts(entry, prefixes[i]))
            return true;
    return false;
}

bool rank_spec_is_host_env(const char *entry)
{
    static const char *const prefixes[] = {
        "HOSTNAME=", "HOST=",    "SSH_",     "PWD=",           "OLDPWD=",         "SHLVL=",
        "DISPLAY=",  "WAYLAND_", "XDG_",     "XAUTHORITY",     "DBUS_",           "WINDOWID=",
        "TMUX",      "STY=",     "_=",       "TTY=",           "GPG_TTY=",        "SESSION_",
        "MAIL=",     "SLURMD_",  "SYSTEMD_", "INVOCATION_ID=", "JOURNAL_STREAM=",
    };
    return has_prefix(entry, prefixes, COUNT_OF(prefixes));
}

/* Returns true if the variable is set for the agent itself, and not for its rank. */
static bool is_agent_env(const char *entry)
{
    static const char *const prefixes[] = {
        "DROVER_CONTROL=", "DROVER_TOKEN=", "DROVER_AGENT_RANK="};
    return has_prefix(entry, prefixes, COUNT_OF(prefixes));
}

static size_t add_strings(struct strbuf *out, char *const *v)
{
    for (size_t i = 0; v && v[i]; i++)
        strbuf_add(out, v[i], strlen(v[i]) + 1);
    return strv_len(v);
}

void rank_spec_base_env(struct strbuf *out, char *const *env)
{
    for (size_t i = 0; env && env[i]; i++)
        if (!rank_spec_is_host_env(env[i]) && !is_agent_env(env[i]))
            strbuf_add(out, env[i], strlen(env[i]) + 1);
}

/* Strings may be invalid UTF-8. So they are in the payload, and the JSON object has only the number
 * of strings of each kind. */
json_t *rank_spec_encode(struct strbuf *payload, const struct plan *p, int rank, const char *wdir,
                         const struct rank_spec_opts *w, const struct strbuf *base)
{
    const struct plan_rank *r = &p->ranks[rank];
    const char *own = plan_rank_wdir(p, r);
    const char *fixed[] = {own ? own : wdir, r->cpus ? r->cpus : "", r->mems ? r->mems : "",
                           p->job_id};
    for (size_t i = 0; i < COUNT_OF(fixed); i++)
        strbuf_add(payload, fixed[i], strlen(fixed[i]) + 1);
    json_int_t argv = (json_int_t)add_strings(payload, plan_rank_argv(p, r));
    json_int_t env = (json_int_t)add_strings(payload, p->env);
    env += (json_int_t)add_strings(payload, r->env);
    strbuf_add(payload, base->data, base->len);
    return json_pack("{s:s,s:s*,s:I,s:I,s:b,s:b,s:b,s:b,s:i,s:b}", "t", "rank_spec", "ft_config",
                     w->ft_config, "argv", argv, "env", env, "reports", w->reports, "pty", w->pty,
                     "stdin", w->with_stdin, "port", w->port, "port_wanted", w->port_wanted,
                     "port_held", w->port_held);
}

/* ---- reading --------------------------------------------------------------------------------- */

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

/* Returns a plan with one rank, rank 0. */
static struct plan *plan_of_one(void)
{
    struct plan *p = xzalloc(sizeof *p);
    p->engine = PLAN_ENGINE_LOCAL;
    p->world_size = p->node_count = 1;
    p->ranks = xcalloc(1, sizeof *p->ranks);
    p->ranks[0].gpu = -1;
    p->nodes = xcalloc(1, sizeof *p->nodes);
    p->nodes[0].local_size = 1;
    return p;
}

static int read_payload(struct rank_spec *r, struct string_reader *s, int64_t argv, int64_t env,
                        char *const *agent_env)
{
    struct plan *p = r->plan;
    const char *wdir = next_string(s), *cpus = next_string(s), *mems = next_string(s),
               *job_id = next_string(s);
    if (!job_id || argv < 1 || read_strings(&p->argv, s, argv) < 0)
        return -EBADMSG;
    p->wdir = xstrdup(wdir);
    p->ranks[0].cpus = dup_nonempty(cpus);
    p->ranks[0].mems = dup_nonempty(mems);
    p->job_id = xstrdup(job_id);
    for (size_t i = 0; agent_env && agent_env[i]; i++)
        if (!rank_spec_is_host_env(agent_env[i]))
            strv_push(&p->env, xstrdup(agent_env[i]));
    if (read_strings(&p->env, s, env) < 0)
        return -EBADMSG;
    for (const char *text; (text = next_string(s));)
        strv_push(&r->base, xstrdup(text));
    for (size_t i = 0; agent_env && agent_env[i]; i++)
        if (rank_spec_is_host_env(agent_env[i]))
            strv_push(&r->base, xstrdup(agent_env[i]));
    return s->at == s->end ? 0 : -EBADMSG;
}

int rank_spec_decode(struct rank_spec *out, const json_t *head, const char *payload, size_t len,
                     char *const *agent_env, struct err *e)
{
    struct rank_spec r = {.plan = plan_of_one()};
    int64_t argv = 0, env = 0, port_wanted = 0;
    const char *ft_config = NULL;
    struct string_reader s = {payload, payload + len};
    bool read = json_require_int(&argv, head, "argv", e) == 0 &&
                json_require_int(&env, head, "env", e) == 0 &&
                json_optional_str(&ft_config, head, "ft_config", e) == 0 &&
                json_require_bool(&r.opts.reports, head, "reports", e) == 0 &&
                json_require_bool(&r.opts.pty, head, "pty", e) == 0 &&
                json_require_bool(&r.opts.with_stdin, head, "stdin", e) == 0 &&
                json_require_bool(&r.opts.port, head, "port", e) == 0 &&
                json_require_int(&port_wanted, head, "port_wanted", e) == 0 &&
                json_require_bool(&r.opts.port_held, head, "port_held", e) == 0;
    if (!read || port_wanted < 0 || port_wanted > 65535 ||
        read_payload(&r, &s, argv, env, agent_env) < 0) {
        rank_spec_free(&r);
        return err_set(e, -EBADMSG, "malformed rank_spec message");
    }
    r.opts.port_wanted = (int)port_wanted;
    r.opts.ft_config = r.ft_config = ft_config ? xstrdup(ft_config) : NULL;
    *out = r;
    return 0;
}

void rank_spec_free(struct rank_spec *r)
{
    plan_free(r->plan);
    strv_free(r->base);
    free(r->ft_config);
    *r = (struct rank_spec){0};
}
