#include "launcher/run/run_restarts.h"

#include "launcher/plan/hosts.h"

struct cmd_run_again {
    uv_timer_t timer;
    struct cmd_run_opts *opts;
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
    struct cmd_run_again *a = t->data;
    a->start(a->arg);
}

/* The next attempt is the same job: its name, its number of ranks, wherever they find room. */
static void change_spec(struct cmd_run_again *a, const struct plan *p, char ***left_out)
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

bool cmd_run_again_after(struct cmd_run_again *a, const struct plan *p, const struct job_end *end,
                         int status, bool unwanted, struct cmd_run_watch *w)
{
    bool failed = end->first_failed >= 0;
    struct restart_end how = {.status = status,
                              .unwanted = unwanted,
                              .not_started = failed && end->first.start_status,
                              .seconds = end->seconds,
                              .host =
                                  failed ? p->nodes[p->ranks[end->first_failed].node].name : NULL};
    int pause_ms = restart_after(a->restart, &how);
    if (pause_ms < 0)
        return false;
    AUTO(strv) char **left_out = NULL;
    change_spec(a, p, &left_out);
    cmd_run_watch_restart(w, restart_count(a->restart), pause_ms, left_out);
    uv_timer_start(&a->timer, on_timer, (uint64_t)pause_ms, 0);
    return true;
}

int cmd_run_again_attempt(const struct cmd_run_again *a)
{
    return restart_count(a->restart);
}

struct cmd_run_again *cmd_run_again_open(uv_loop_t *loop, struct cmd_run_opts *o,
                                         void (*start)(void *arg), void *arg)
{
    struct cmd_run_again *a = xzalloc(sizeof *a);
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

void cmd_run_again_close(struct cmd_run_again *a)
{
    if (!a)
        return;
    restart_free(a->restart);
    hosts_free(a->hosts_kept);
    free(a->job_id);
    free(a->attempt_dir);
    uv_close((uv_handle_t *)&a->timer, on_closed);
}
