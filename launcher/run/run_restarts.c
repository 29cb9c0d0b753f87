#include "launcher/run/run_restarts.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "common/log.h"
#include "common/strbuf.h"
#include "launcher/doctor/active/node_health.h"
#include "launcher/hosts/exclude_file.h"
#include "launcher/hosts/hosts.h"
#include "launcher/job/node_choice.h"
#include "launcher/job/restart.h"

enum { FAILED_ATTEMPTS = 100 }; /* weigh more than all checks */

struct run_restarts {
    uv_timer_t timer;
    struct run_options *opts;
    struct restart *restart;
    const struct hosts *hosts;  /* as the user gave them; NULL: this node */
    struct hosts *hosts_kept;   /* hosts of the next attempt */
    const char *output_dir;     /* as the user gave it */
    char *job_id, *attempt_dir; /* the spec points to them */
    int pause_ms;               /* before the next attempt */
    char **excluded_hosts;      /* of the next attempt, a strv */
    struct exclusions out;      /* nodes that take part in no attempt */
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
    struct launch_spec *s = &r->opts->spec;
    if (!r->job_id)
        r->job_id = xstrdup(p->job_id);
    s->job_id = r->job_id;
    s->ranks = p->world_size;
    s->restart_count = restart_count(r->restart);
    s->stdin_null = true; /* rank 0 has read part of stdin, which cannot be read again */
    strv_free(TAKE(r->excluded_hosts));
    if (r->opts->candidates && r->opts->nodes_min < r->opts->nodes_max)
        s->ranks = r->ranks; /* an elastic job */
    if (r->hosts && !r->opts->candidates) {
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

/* ---- nodes of the next attempt -------------------------------------------------------------- */

static const char several_attempts[] = "several attempts failed there first";

static void write_exclusion(const struct run_restarts *r, const char *node, const char *reason)
{
    struct err e = {0};
    int64_t now_s = time(NULL);
    const struct exclusion x = {(char *)node, (char *)reason,
                                now_s + (int64_t)r->opts->exclude_for_s};
    if (r->opts->exclude_file && exclude_file_add(r->opts->exclude_file, &x, now_s, &e) < 0)
        log_warn("--exclude-file: %s", e.text);
}

static void exclude(struct run_restarts *r, const char *node, const char *reason)
{
    if (exclude_file_find(&r->out, node))
        return;
    r->out.at = xrealloc(r->out.at, (size_t)r->out.count + 1, sizeof *r->out.at);
    r->out.at[r->out.count++] = (struct exclusion){xstrdup(node), xstrdup(reason), 0};
    write_exclusion(r, node, reason);
}

/* Returns the variables of the job that set how mpirun reaches the nodes, a strv. */
static char **mpirun_env(const struct run_restarts *r)
{
    char **env = NULL;
    for (char *const *v = r->opts->spec.env; v && *v; v++)
        if (strncmp(*v, "OMPI_MCA_", 9) == 0)
            strv_push(&env, xstrdup(*v));
    return env;
}

int run_restarts_measure(const struct run_restarts *r, struct preflight *p, const struct topo *t,
                         struct err *e)
{
    const struct launch_spec *spec = &r->opts->spec;
    AUTO(strv) char **env = mpirun_env(r);
    int rc = preflight_measure(p, t, spec->hosts, spec->per_node, env, e);
    return rc < 0 ? rc : preflight_judge(p, NULL, e);
}

int run_restarts_judge(struct run_restarts *r, struct preflight *p, const struct plan *plan,
                       int *node, struct err *e)
{
    AUTO(free) char *name = NULL;
    int rc = preflight_judge(p, &name, e);
    if (name)
        exclude(r, name, e->text);
    while (name && *node < plan->node_count - 1 && strcmp(plan->nodes[*node].name, name) != 0)
        (*node)++;
    return rc;
}

/* Asks the nodes that may take part. */
static int ask(struct run_restarts *r, struct node_health *health, struct err *e)
{
    const struct hosts *all = r->opts->candidates;
    const struct launch_spec *s = &r->opts->spec;
    AUTO(free) bool *asked = xcalloc((size_t)all->count, sizeof *asked);
    AUTO(strv) char **env = mpirun_env(r);
    for (int i = 0; i < all->count; i++)
        asked[i] = !exclude_file_find(&r->out, all->at[i].name);
    AUTO(hosts) struct hosts *some = hosts_select(all, asked);
    AUTO(free) struct node_health *answers = xcalloc((size_t)some->count + 1, sizeof *answers);
    if (some->count == 0)
        return 0;
    int rc = node_health_ask(answers, some, s->per_node, s->argv, env, e);
    for (int i = 0, k = 0; rc == 0 && i < all->count; i++)
        if (asked[i])
            health[i] = answers[k++];
    return rc;
}

/* Sets what is known of each node. */
static void judge(struct run_restarts *r, struct node_choice *nodes, struct node_health *health)
{
    const struct hosts *all = r->opts->candidates;
    for (int i = 0; i < all->count; i++) {
        const char *name = all->at[i].name;
        if (health[i].out)
            exclude(r, name, health[i].problem);
        const struct exclusion *x = exclude_file_find(&r->out, name);
        bool failed = restart_is_bad_host(r->restart, name);
        nodes[i].out = x != NULL;
        nodes[i].faults = health[i].failures + (failed ? FAILED_ATTEMPTS : 0);
        if (x || (failed && !health[i].problem)) {
            free(health[i].problem);
            health[i].problem = xstrdup(x ? x->reason : several_attempts);
        }
    }
}

/* Says which nodes are not used although they are among the first, and what takes their places. */
static void report(const struct run_restarts *r, const struct node_choice *nodes,
                   const struct node_health *health)
{
    const struct hosts *all = r->opts->candidates;
    int spare = r->opts->nodes_max;
    for (int i = 0; i < all->count && i < r->opts->nodes_max; i++) {
        if (nodes[i].chosen)
            continue;
        while (spare < all->count && !nodes[spare].chosen)
            spare++;
        log_warn("%s is left out: %s; %s%s", all->at[i].name, health[i].problem,
                 spare < all->count ? all->at[spare].name : "the job runs with fewer nodes",
                 spare < all->count ? " takes its place" : "");
        spare++;
    }
}

static int too_few(const struct run_restarts *r, const struct node_choice *nodes,
                   const struct node_health *health, int usable, struct err *e)
{
    const struct hosts *all = r->opts->candidates;
    AUTO(strbuf) struct strbuf b = {0};
    for (int i = 0; i < all->count; i++)
        if (nodes[i].out)
            strbuf_printf(&b, "; %s: %s", all->at[i].name, health[i].problem);
    return err_set(e, -ECANCELED, "the job needs %d nodes, and %d can take part%s",
                   r->opts->nodes_min, usable, strbuf_str(&b));
}

int run_restarts_choose_nodes(struct run_restarts *r, struct err *e)
{
    const struct hosts *all = r->opts->candidates;
    if (!all)
        return 0;
    AUTO(free) struct node_health *health = xcalloc((size_t)all->count, sizeof *health);
    AUTO(free) struct node_choice *nodes = xcalloc((size_t)all->count, sizeof *nodes);
    int rc = ask(r, health, e);
    if (rc == 0) {
        judge(r, nodes, health);
        int n = node_choice_make(nodes, all->count, r->opts->nodes_min, r->opts->nodes_max);
        rc = n < r->opts->nodes_min ? too_few(r, nodes, health, n, e) : 0;
    }
    if (rc == 0) {
        AUTO(free) bool *chosen = xcalloc((size_t)all->count, sizeof *chosen);
        report(r, nodes, health);
        for (int i = 0; i < all->count; i++)
            chosen[i] = nodes[i].chosen;
        hosts_free(r->hosts_kept);
        r->opts->spec.hosts = r->hosts_kept = hosts_select(all, chosen);
    }
    for (int i = 0; i < all->count; i++)
        free(health[i].problem);
    return rc;
}

/* ---- the end of an attempt ------------------------------------------------------------------ */

bool run_restarts_attempt_ended(struct run_restarts *r, const struct plan *p,
                                const struct job_end *end, int status, bool by_user)
{
    bool failed = end->first_failed >= 0;
    const struct restart_attempt attempt = {
        .status = status,
        .by_user = by_user,
        .not_started = failed && end->first.start_status &&
                       !(end->first.start_node_fault && r->opts->candidates),
        .seconds = end->seconds,
        .host = failed ? p->nodes[p->ranks[end->first_failed].node].name : NULL};
    r->pause_ms = restart_after(r->restart, &attempt);
    /* Other failures may be those of the program, which then fails on any node. */
    bool by_node = failed && (end->first.lost || end->first.start_node_fault);
    if (by_node && !by_user && restart_is_bad_host(r->restart, attempt.host))
        write_exclusion(r, attempt.host, several_attempts);
    if (r->pause_ms >= 0)
        change_spec(r, p);
    return r->pause_ms >= 0;
}

void run_restarts_start_timer(struct run_restarts *r, struct run_monitor *monitor)
{
    run_monitor_restart(monitor, restart_count(r->restart), r->pause_ms, r->excluded_hosts);
    uv_timer_start(&r->timer, on_timer, (uint64_t)r->pause_ms, 0);
}

int run_restarts_attempt(const struct run_restarts *r)
{
    return restart_count(r->restart);
}

struct run_restarts *run_restarts_open(uv_loop_t *loop, struct run_options *o,
                                       void (*on_due)(void *arg), void *arg)
{
    struct run_restarts *r = xzalloc(sizeof *r);
    r->opts = o;
    r->restart = restart_new(o->spec.max_restarts);
    r->hosts = o->spec.hosts;
    r->output_dir = o->spec.output_dir;
    r->ranks = o->spec.ranks;
    r->on_due = on_due;
    r->arg = arg;
    uv_timer_init(loop, &r->timer);
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
    exclude_file_free(&r->out);
    free(r->job_id);
    free(r->attempt_dir);
    uv_close((uv_handle_t *)&r->timer, on_closed);
}
