#include "launcher/run/run_restarts.h"

#include "launcher/plan/hosts.h"

struct run_restarts {
    uv_timer_t timer;
    struct run_options *opts;
    struct restart *restart;
    const struct hosts *hosts;  /* as the user gave them; NULL: this machine */
    struct hosts *hosts_kept;   /* of the next attempt */
    const char *output_dir;     /* likewise */
    char *job_id, *attempt_dir; /* what spec points to */
    void (*start)(void *arg);
    void *arg;
};

static void on_timer(uv_timer_t *t)
{
    struct run_restarts *a = t->data;
    a->start(a->arg);
}

/* The next attempt is the same job: its name, its number of ranks, wherever they find room. */
static void change_spec(struct run_restarts *a, const struct plan *p, char ***left_out)
{
    struct launch_spec *s = &a->opts->spec;
    if (!a->job_id)
        a->job_id = xstrdup(p->job_id);
    s->job_id = a->job_id;
    s->ranks = p->world_size;
    s->restart_count = restart_count(a->restart);
    s->stdin_null = true; /* what rank 0 has read is gone */
    if (a->hosts) {
        hosts_free(a->hosts_kept);
        a->hosts_kept = restart_hosts(a->restart, a->hosts, p->world_size, s->per_node, left_out);
        s->hosts = a->hosts_kept;
    }
    if (a->output_dir) {
        free(a->attempt_dir);
        a->attempt_dir = xasprintf("%s/attempt_%d", a->output_dir, s->restart_count);
        s->output_dir = a->attempt_dir;
    }
}

bool run_restarts_attempt_ended(struct run_restarts *a, const struct plan *p,
                                const struct job_end *end, int status, bool unwanted,
                                struct run_monitor *w)
{
    bool failed = end->first_failed >= 0;
    struct restart_attempt how = {.status = status,
                                  .unwanted = unwanted,
                                  .not_started = failed && end->first.start_status,
                                  .seconds = end->seconds,
                                  .host = failed ? p->nodes[p->ranks[end->first_failed].node].name
                                                 : NULL};
    int pause_ms = restart_after(a->restart, &how);
    if (pause_ms < 0)
        return false;
    AUTO(strv) char **left_out = NULL;
    change_spec(a, p, &left_out);
    run_monitor_restart(w, restart_count(a->restart), pause_ms, left_out);
    uv_timer_start(&a->timer, on_timer, (uint64_t)pause_ms, 0);
    return true;
}

int run_restarts_attempt(const struct run_restarts *a)
{
    return restart_count(a->restart);
}

struct run_restarts *run_restarts_open(uv_loop_t *loop, struct run_options *o,
                                       void (*start)(void *arg), void *arg)
{
    struct run_restarts *a = xzalloc(sizeof *a);
    a->opts = o;
    a->restart = restart_new(o->spec.max_restarts);
    a->hosts = o->spec.hosts;
    a->output_dir = o->spec.output_dir;
    a->start = start;
    a->arg = arg;
    uv_timer_init(loop, &a->timer);
    a->timer.data = a;
    return a;
}

static void on_closed(uv_handle_t *t)
{
    free(t->data);
}

void run_restarts_close(struct run_restarts *a)
{
    if (!a)
        return;
    restart_free(a->restart);
    hosts_free(a->hosts_kept);
    free(a->job_id);
    free(a->attempt_dir);
    uv_close((uv_handle_t *)&a->timer, on_closed);
}
