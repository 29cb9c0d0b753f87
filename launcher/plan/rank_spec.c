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

/* What a starter is given for `drover rank`. */
static bool is_of_agent(const char *entry)
{
    static const char *const prefixes[] = {
        "DROVER_CONTROL=", "DROVER_TOKEN=", "DROVER_AGENT_RANK="};
    return has_prefix(entry, prefixes, COUNT_OF(prefixes));
}

static size_t put_all(struct strbuf *out, char *const *v)
{
    for (size_t i = 0; v && v[i]; i++)
        strbuf_add(out, v[i], strlen(v[i]) + 1);
    return strv_len(v);
}

void rank_spec_base_env(struct strbuf *out, char *const *env)
{
    for (size_t i = 0; env && env[i]; i++)
        if (!rank_spec_is_host_env(env[i]) && !is_of_agent(env[i]))
            strbuf_add(out, env[i], strlen(env[i]) + 1);
}

/* Strings may be no UTF-8: they go into the payload, and the object says how many there are. */
json_t *rank_spec_encode(struct strbuf *payload, const struct plan *p, int rank, const char *wdir,
                         const struct rank_spec_opts *w, const struct strbuf *base)
{
    const struct plan_rank *r = &p->ranks[rank];
    const char *strings[] = {p->wdir ? p->wdir : wdir, r->cpus ? r->cpus : "",
                             r->mems ? r->mems : "", p->job_id};
    for (size_t i = 0; i < COUNT_OF(strings); i++)
        strbuf_add(payload, strings[i], strlen(strings[i]) + 1);
    json_int_t argv = (json_int_t)put_all(payload, r->argv ? r->argv : p->argv);
    json_int_t env = (json_int_t)(put_all(payload, p->env) + put_all(payload, r->env));
    strbuf_add(payload, base->data, base->len);
    return json_pack("{s:s,s:I,s:I,s:b,s:b,s:b,s:i,s:b}", "t", "rank_spec", "argv", argv, "env",
                     env, "reports", w->reports, "stdin", w->with_stdin, "port", w->port,
                     "port_wanted", w->port_wanted, "port_held", w->port_held);
}

/* ---- reading ----------------------------------------------------------------------------------
 */

struct strings {
    const char *at, *end;
};

static const char *next(struct strings *s)
{
    const char *found = s->at;
    const char *nul = s->at < s->end ? memchr(s->at, '\0', (size_t)(s->end - s->at)) : NULL;
    if (!nul)
        return NULL;
    s->at = nul + 1;
    return found;
}

static int take_some(char ***out, struct strings *s, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const char *one = next(s);
        if (!one)
            return -EBADMSG;
        strv_push(out, xstrdup(one));
    }
    return 0;
}

static char *word_or_none(const char *s)
{
    return *s ? xstrdup(s) : NULL;
}

/* A plan with room for one rank, which is rank 0 in it. */
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

static int read_strings(struct row *r, struct strings *s, int64_t argv, int64_t env,
                        char *const *own)
{
    struct plan *p = r->plan;
    const char *wdir = next(s), *cpus = next(s), *mems = next(s), *job_id = next(s);
    if (!job_id || argv < 1 || take_some(&p->argv, s, argv) < 0)
        return -EBADMSG;
    p->wdir = xstrdup(wdir);
    p->ranks[0].cpus = word_or_none(cpus);
    p->ranks[0].mems = word_or_none(mems);
    p->job_id = xstrdup(job_id);
    for (size_t i = 0; own && own[i]; i++)
        if (!rank_spec_is_host_env(own[i]))
            strv_push(&p->env, xstrdup(own[i]));
    if (take_some(&p->env, s, env) < 0)
        return -EBADMSG;
    for (const char *one; (one = next(s));)
        strv_push(&r->base, xstrdup(one));
    for (size_t i = 0; own && own[i]; i++)
        if (rank_spec_is_host_env(own[i]))
            strv_push(&r->base, xstrdup(own[i]));
    return s->at == s->end ? 0 : -EBADMSG;
}

int rank_spec_decode(struct row *out, const json_t *head, const char *payload, size_t len,
                     char *const *own, struct err *e)
{
    struct row r = {.plan = plan_of_one()};
    int64_t argv = 0, env = 0, wanted = 0;
    struct strings s = {payload, payload + len};
    bool read = json_require_int(&argv, head, "argv", e) == 0 &&
                json_require_int(&env, head, "env", e) == 0 &&
                json_require_bool(&r.wish.reports, head, "reports", e) == 0 &&
                json_require_bool(&r.wish.with_stdin, head, "stdin", e) == 0 &&
                json_require_bool(&r.wish.port, head, "port", e) == 0 &&
                json_require_int(&wanted, head, "port_wanted", e) == 0 &&
                json_require_bool(&r.wish.port_held, head, "port_held", e) == 0;
    if (!read || wanted < 0 || wanted > 65535 || read_strings(&r, &s, argv, env, own) < 0) {
        rank_spec_free(&r);
        return err_set(e, -EBADMSG, "a row that is none");
    }
    r.wish.port_wanted = (int)wanted;
    *out = r;
    return 0;
}

void rank_spec_free(struct row *r)
{
    plan_free(r->plan);
    strv_free(r->base);
    *r = (struct row){0};
}
