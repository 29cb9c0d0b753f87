#include "launcher/run/run_restarts.h"

#include "common/strbuf.h"
#include "launcher/job/restart.h"
#include "launcher/plan/hosts.h"

struct run_restarts {
    uv_timer_t timer;
    struct feature_run *run;
    struct restart *restart;
    const struct hosts *hosts;  /* as the user gave them; NULL: this node */
    struct hosts *hosts_kept;   /* hosts of the next attempt */
    const char *output_dir;     /* as the user gave it */
    char *job_id, *attempt_dir; /* the spec points to them */
    int pause_ms;               /* before the next attempt */
    char **excluded_hosts;      /* of the next attempt, a strv */
    int ranks;                  /* as the user gave them */
    void (*on_due)(void *arg);
    void *arg;
};

static void on_timer(uv_timer_t *t)
{
    struct run_restarts *r = t->data;
    r->on_due(r->arg);
}

/* Changes the spec for the next attempt, which has the same job id and the same number of ranks.
 * The ranks may run on any hosts that have room. */
static void change_spec(struct run_restarts *r, const struct plan *p)
{
    struct launch_spec *s = r->run->spec;
    const struct feature_settings *set = r->run->set;
    if (!r->job_id)
        r->job_id = xstrdup(p->job_id);
    s->job_id = r->job_id;
    s->ranks = p->world_size;
    s->restart_count = restart_count(r->restart);
    s->stdin_null = true; /* rank 0 has read part of stdin, which cannot be read again */
    strv_free(TAKE(r->excluded_hosts));
    if (set->spares.candidates && set->spares.nodes_min < set->spares.nodes_max)
        s->ranks = r->ranks; /* an elastic job */
    if (r->hosts && !set->spares.candidates) {
        hosts_free(r->hosts_kept);
        r->hosts_kept =
            restart_hosts(r->restart, r->hosts, p->world_size, s->per_node, &r->excluded_hosts);
        s->hosts = r->hosts_kept;
    }
    if (r->output_dir) {
        free(r->attempt_dir);
        r->attempt_dir = xasprintf("%s/attempt_%d", r->output_dir, s->restart_count);
        s->output_dir = r->attempt_dir;
    }
}

/* ---- the end of an attempt ------------------------------------------------------------------ */

/* Appends the name of an exception, or else the whole cause. */
static void write_cause(struct strbuf *b, const struct first_cause *c)
{
    const char *what = c->left ? "a rank left early" : c->cause.what;
    bool exception = !c->left && c->cause.trust == FAILURE_EXCEPTION && !c->cause.advice;
    strbuf_printf(b, "%.*s", (int)(exception ? strcspn(what, ":") : strlen(what)), what);
}

static void print_refusal(struct run_restarts *r, const struct first_cause *c)
{
    AUTO(strbuf) struct strbuf b = {0}, cause = {0};
    enum restart_refusal why = restart_refusal(r->restart);
    if (!why)
        return;
    write_cause(&cause, c);
    strbuf_printf(&b,
                  why == RESTART_HOPELESS
                      ? "%s: not restarted: a restart does not cure this (%s)\n"
                      : "%s: not restarted: the job failed twice without progress (%s)\n",
                  r->run->program, strbuf_str(&cause));
    strbuf_puts(&b, "  try: --restart-always, which restarts in any case\n");
    r->run->print(r->run->arg, strbuf_str(&b));
    feature_record(r->run, "not_restarted",
                   json_pack("{s:o}", "cause", json_text(strbuf_str(&cause))));
}

bool run_restarts_attempt_ended(struct run_restarts *r, const struct plan *p,
                                const struct job_end *end, const struct first_cause *c, int status,
                                bool by_user)
{
    bool failed = c->rank >= 0;
    AUTO(free) char *signature = first_cause_signature(c);
    const struct restart_attempt attempt = {
        .status = status,
        .by_user = by_user,
        .not_started = failed && end->first.start_status &&
                       !(end->first.start_node_fault && r->run->set->spares.candidates),
        .seconds = end->seconds,
        .host = failed ? p->nodes[p->ranks[c->rank].node].name : NULL,
        .cause = signature,
        .hopeless = c->cause.remedy == FAILURE_STOP,
        .by_host = c->cause.remedy == FAILURE_ELSEWHERE};
    r->pause_ms = restart_after(r->restart, &attempt);
    print_refusal(r, c);
    /* Other failures may be those of the program, which then fails on any node. */
    bool by_node = attempt.by_host || (failed && end->first.start_node_fault);
    if (by_node && !by_user && restart_is_bad_host(r->restart, attempt.host))
        feature_leave_out(r->run, attempt.host, FEATURE_SEVERAL_ATTEMPTS, false);
    if (r->pause_ms >= 0)
        change_spec(r, p);
    return r->pause_ms >= 0;
}

void run_restarts_start_timer(struct run_restarts *r)
{
    struct feature_run *run = r->run;
    int attempt = restart_count(r->restart);
    AUTO(strbuf) struct strbuf b = {0};
    json_t *hosts = json_array();
    for (char *const *host = r->excluded_hosts; host && *host; host++) {
        json_array_append_new(hosts, json_text(*host));
        strbuf_printf(&b, "%s: excluding host %s: it %s\n", run->program, *host,
                      restart_is_bad_host(r->restart, *host) ? "failed twice or more"
                                                             : "was the cause of the failure");
    }
    strbuf_printf(&b, "%s: restarting the job ", run->program);
    strbuf_printf(&b, r->pause_ms ? "in %d s" : "now", r->pause_ms / 1000);
    strbuf_printf(&b, " (restart %d of %d)\n", attempt, run->spec->max_restarts);
    run->print(run->arg, strbuf_str(&b));
    feature_record(run, "restart",
                   json_pack("{s:i, s:i, s:o}", "attempt", attempt, "pause_ms", r->pause_ms,
                             "left_out", hosts));
    uv_timer_start(&r->timer, on_timer, (uint64_t)r->pause_ms, 0);
}

struct run_restarts *run_restarts_open(struct feature_run *run, void (*on_due)(void *arg),
                                       void *arg)
{
    struct run_restarts *r = xzalloc(sizeof *r);
    r->run = run;
    r->restart = restart_new(run->spec->max_restarts, run->spec->restart_always);
    run->restart = r->restart;
    r->hosts = run->spec->hosts;
    r->output_dir = run->spec->output_dir;
    r->ranks = run->spec->ranks;
    r->on_due = on_due;
    r->arg = arg;
    uv_timer_init(run->loop, &r->timer);
    r->timer.data = r;
    return r;
}

static void on_closed(uv_handle_t *t)
{
    free(t->data);
}

void run_restarts_close(struct run_restarts *r)
{
    if (!r)
        return;
    restart_free(r->restart);
    hosts_free(r->hosts_kept);
    strv_free(r->excluded_hosts);
    free(r->job_id);
    free(r->attempt_dir);
    uv_close((uv_handle_t *)&r->timer, on_closed);
}
