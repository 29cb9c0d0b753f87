/* The ranks of the node: they are one local job, whose events become frames. */
#include <signal.h>
#include <string.h>

#include "launcher/remote/agent/agent_internal.h"

static int number_of(const struct agent *a, int index)
{
    return a->spec.map->local[index];
}

/* Returns the rank that a frame names, or NULL if it does not run here. */
static struct agent_rank *find_rank(struct agent *a, const struct control_frame *f)
{
    int64_t number = -1;
    if (!a->job || json_require_int(&number, f->head, "rank", NULL) < 0 || number < 0 ||
        number >= a->spec.map->ranks)
        return NULL;
    int index = job_map_index(a->spec.map, (int)number);
    return index < 0 ? NULL : &a->ranks[index];
}

static int index_of(const struct agent_rank *r)
{
    return (int)(r - r->agent->ranks);
}

/* ---- events of the ranks -------------------------------------------------------------------- */

static void on_started(void *arg, int index, pid_t pid)
{
    struct agent *a = arg;
    a->ranks[index].pid = pid;
    agent_send_head(a, json_pack("{s:s,s:i,s:i}", "t", "started", "rank", number_of(a, index),
                                 "pid", (int)pid));
}

static void on_not_started(void *arg, int index, int status, bool node_fault, const char *why)
{
    struct agent *a = arg;
    agent_send_head(a, json_pack("{s:s,s:i,s:i,s:b,s:o}", "t", "not_started", "rank",
                                 number_of(a, index), "status", status, "node_fault", node_fault,
                                 "why", json_text(why)));
}

static void send_status(struct agent *a, int index, struct rank_status *s)
{
    a->job->ops->last_collective(a->job, index, &s->collective);
    agent_send_head(a, json_pack("{s:s,s:i,s:o}", "t", "rank_status", "rank", number_of(a, index),
                                 "status", rank_status_json(s)));
}

/* Reports the exit. The rank's last collective and its events of PMIx are sent first, since they
 * may have caused the exit. */
static void on_exited(void *arg, int index, int wait_status, bool oom_killed, const char *error)
{
    struct agent *a = arg;
    struct rank_status last = {0};
    a->ranks[index].pid = 0;
    if (a->pmix)
        pmix_server_drain(a->pmix);
    a->job->ops->last_collective(a->job, index, &last.collective);
    if (last.collective.comm[0])
        send_status(a, index, &last);
    if (wait_status)
        agent_gpus_send_last(a);
    json_t *head = json_pack("{s:s,s:i,s:i,s:b}", "t", "exit", "rank", number_of(a, index), "wait",
                             wait_status, "oom", oom_killed);
    agent_send(a, head, error, error ? strlen(error) : 0);
}

/* Sends output as bulk, which other frames overtake. */
static bool on_bytes(void *arg, int index, enum launch_stream from, const char *bytes, size_t len)
{
    struct agent *a = arg;
    struct agent_rank *r = &a->ranks[index];
    agent_send_bulk(a,
                    json_pack("{s:s,s:i,s:i}", "t", "output", "rank", r->number, "from", (int)from),
                    bytes, len);
    r->uncredited_bytes += len;
    r->paused = r->uncredited_bytes >= control_window(a->spec.map->ranks);
    return !r->paused;
}

/* Sends it as bulk, so that it does not overtake the output. */
static void on_eof(void *arg, int index)
{
    struct agent *a = arg;
    agent_send_bulk(a, json_pack("{s:s,s:i}", "t", "eof", "rank", number_of(a, index)), NULL, 0);
}

static void on_report(void *arg, int index, const char *json, size_t len)
{
    struct agent *a = arg;
    agent_send(a, json_pack("{s:s,s:i}", "t", "report", "rank", number_of(a, index)), json, len);
}

/* The guardian has ended. Its ranks, whose exits follow, are not the cause. */
static void on_broken(void *arg, const char *why)
{
    agent_send_head(arg, json_pack("{s:s,s:s}", "t", "broken", "why", why));
}

static void on_reaped(void *arg)
{
    agent_send_head(arg, json_pack("{s:s}", "t", "reaped")); /* `exit` and `eof` may follow */
}

/* ---- start and end -------------------------------------------------------------------------- */

int agent_ranks_start(struct agent *a, int master_port, struct err *e)
{
    const struct engine_events ev = {.started = on_started,
                                     .not_started = on_not_started,
                                     .exited = on_exited,
                                     .broken = on_broken,
                                     .bytes = on_bytes,
                                     .eof = on_eof,
                                     .report = on_report,
                                     .of_ranks = &a->of_ranks,
                                     .reaped = on_reaped};
    const struct job_map *m = a->spec.map;
    int stdin_fd = a->stdin_of_rank.rank_fd;
    struct launch_spec spec = {
        .stdin_fd = stdin_fd, .stdin_null = stdin_fd < 0, .node = a->spec.settings};
    spec.node.stdin_rank = job_map_index(m, a->spec.settings.stdin_rank);
    const struct engine_start_opts opts = {.plan = a->spec.plan,
                                           .spec = &spec,
                                           .base_env = a->spec.base,
                                           .pmix_env = a->pmix ? pmix_server_env(a->pmix) : NULL,
                                           .map = m,
                                           .master_port = master_port};
    a->ranks = xcalloc((size_t)m->local_count, sizeof *a->ranks);
    for (int i = 0; i < m->local_count; i++)
        a->ranks[i] = (struct agent_rank){.agent = a, .number = m->local[i]};
    return engine_local_start(&a->job, a->context->engine, &opts, &ev, a, e);
}

void agent_ranks_free(struct agent *a)
{
    for (int i = 0; a->ranks && i < a->spec.map->local_count; i++)
        call_stacks_free(a->ranks[i].stacks);
    engine_free(TAKE(a->job));
    free(TAKE(a->ranks));
}

/* ---- frames of the launcher ----------------------------------------------------------------- */

void agent_ranks_on_signal(struct agent *a, const struct control_frame *f)
{
    int64_t sig = 0;
    bool all = !json_object_get(f->head, "rank");
    const struct agent_rank *r = all ? NULL : find_rank(a, f);
    if (!a->job || (!all && !r) || json_require_int(&sig, f->head, "signal", NULL) < 0 || sig < 1 ||
        sig > SIGRTMAX)
        return;
    if (sig == SIGSTOP) /* after stopping the job, the launcher stops itself (^Z) */
        control_suspend_timeout(a->control);
    a->job->ops->signal(a->job, r ? index_of(r) : -1, (int)sig);
}

void agent_ranks_on_stop(struct agent *a, const struct control_frame *f)
{
    if (a->job)
        /* The launcher sends this only if a rank has used its report channel */
        (void)a->job->ops->request_stop(a->job);
}

void agent_ranks_on_credit(struct agent *a, const struct control_frame *f)
{
    struct agent_rank *r = find_rank(a, f);
    int64_t n = 0;
    if (!r || json_require_int(&n, f->head, "bytes", NULL) < 0 || n < 0 ||
        (size_t)n > r->uncredited_bytes)
        return;
    r->uncredited_bytes -= (size_t)n;
    if (!r->paused || r->uncredited_bytes > control_window(a->spec.map->ranks) / 2)
        return;
    r->paused = false;
    engine_local_resume_rank(a->job, index_of(r));
}

void agent_ranks_on_finish_output(struct agent *a, const struct control_frame *f)
{
    const struct agent_rank *r = find_rank(a, f);
    if (r)
        a->job->ops->finish_output(a->job, index_of(r));
}

void agent_ranks_on_status_request(struct agent *a, const struct control_frame *f)
{
    int n = a->job ? a->spec.map->local_count : 0;
    AUTO(free) struct rank_status *s = xcalloc((size_t)n + 1, sizeof *s);
    AUTO(free) pid_t *pids = xcalloc((size_t)n + 1, sizeof *pids);
    for (int i = 0; i < n; i++)
        pids[i] = a->ranks[i].pid;
    /* If this fails, the collective trace may still help */
    (void)rank_status_sample(s, pids, n);
    for (int i = 0; i < n; i++)
        if (pids[i])
            send_status(a, i, &s[i]);
}

static void send_stack(const struct agent_rank *r, const char *lines)
{
    agent_send(r->agent, json_pack("{s:s,s:i}", "t", "stack", "rank", r->number), lines,
               strlen(lines));
}

static void on_stacks(void *arg, const char *const *texts)
{
    struct agent_rank *r = arg;
    send_stack(r, texts[0]);
    call_stacks_free(TAKE(r->stacks));
}

void agent_ranks_on_stack(struct agent *a, const struct control_frame *f)
{
    struct agent_rank *r = find_rank(a, f);
    struct rank_status s = {0};
    if (!r || r->stacks) /* the present capture answers this request, too */
        return;
    if (rank_status_sample(&s, &r->pid, 1) < 0 || s.at.pid == 0)
        send_stack(r, "");
    else
        r->stacks = call_stacks_capture(&a->loop, &s, 1, on_stacks, r);
}

void agent_ranks_on_kill_tree(struct agent *a, const struct control_frame *f)
{
    if (a->job)
        a->job->ops->kill_tree(a->job);
    else
        agent_send_head(a, json_pack("{s:s}", "t", "reaped"));
}
