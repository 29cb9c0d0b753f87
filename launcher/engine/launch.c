#include "launcher/engine/launch_internal.h"

#include <signal.h>
#include <string.h>

#include "common/entropy.h"
#include "common/log.h"
#include "common/opt.h"
#include "common/plural.h"
#include "common/stop_signals.h"
#include "launcher/engine/mpi_transport.h"
#include "launcher/job/rank_list.h"
#include "launcher/node/limits.h"
#include "launcher/node/port_hold.h"
#include "launcher/plan/env.h"

enum {
    GRACE_MS = 30000, /* from SIGTERM to SIGKILL, unless the spec sets it */
    DRAIN_MS = 1000,  /* from a rank's exit until drover closes its output */
    ABSENT_MS = 5000, /* how long a rank may wait in MPI_Init for an absent rank */
    LISTEN_AGAIN_MS = 100,
    LAST_LINES = 20
};

/* ---- actions of the job's states ------------------------------------------------------------ */

static void on_escalation(uv_timer_t *t);
static void on_listen_timer(uv_timer_t *t);

static void drop_port(struct launch *j)
{
    auto_fd(&j->port_fd);
    j->port_fd = -1;
}

static double seconds_since_start(const struct launch *j)
{
    return (double)(uv_hrtime() - j->started_ns) / 1e9;
}

static void report_end(struct launch *j)
{
    struct job_end end;
    const char *lines[LAST_LINES + 1] = {NULL};
    launch_witnesses_end(j, &end);
    end.last_lines = lines;
    if (end.first_failed >= 0) {
        const struct launch_rank *r = &j->ranks[end.first_failed];
        const struct last_lines *t = last_lines_count(r->err) > 0 ? r->err : r->out;
        for (int i = 0; i < LAST_LINES; i++)
            lines[i] = last_lines_get(t, i, NULL);
    }
    drop_port(j);
    launch_observers_ended(&j->observers, &end);
}

/* Tells the ranks to stop, or does so after a moment. */
static void listen_on(struct launch *j)
{
    int ms = launch_witnesses_listen_ms(j);
    if (ms > 0)
        uv_timer_start(&j->escalation_timer, on_listen_timer,
                       (uint64_t)(ms < LISTEN_AGAIN_MS ? ms : LISTEN_AGAIN_MS), 0);
    else
        on_escalation(&j->escalation_timer);
}

static void on_listen_timer(uv_timer_t *t)
{
    listen_on(t->data);
}

/* Performs the actions of the job's new state. In JOB_DONE an observer may free the job. */
static void enter_state(struct launch *j)
{
    uv_timer_stop(&j->escalation_timer);
    switch (j->job->state) {
    case JOB_LISTENING:
        j->failed_ms = uv_now(launch_loop(j));
        listen_on(j);
        return;
    case JOB_STOP_REQUESTED:
        if (j->request_ms > 0 && j->run->ops->request_stop(j->run))
            uv_timer_start(&j->escalation_timer, on_escalation, (uint64_t)j->request_ms, 0);
        else
            on_escalation(&j->escalation_timer);
        return;
    case JOB_TERMINATING:
        launch_witnesses_mark(j);
        j->run->ops->signal(j->run, -1, j->stop_signal);
        j->run->ops->signal(j->run, -1, SIGCONT); /* a stopped process would not exit */
        uv_timer_start(&j->escalation_timer, on_escalation, (uint64_t)j->grace_ms, 0);
        return;
    case JOB_KILLING:
        launch_witnesses_mark(j);
        j->run->ops->kill_tree(j->run);
        return;
    case JOB_REAPING:
        j->run->ops->kill_tree(j->run);
        return;
    case JOB_DONE:
        report_end(j);
        return;
    default:
        return;
    }
}

/* Appends the ranks whose process may still run. Returns their number. */
static int list_running(struct strbuf *b, const struct launch *j)
{
    int n = j->plan->world_size, running = 0;
    AUTO(free) bool *in = xcalloc((size_t)n, sizeof *in);
    for (int i = 0; i < n; i++)
        running += in[i] = j->job->ranks[i].state < JOB_RANK_DRAINING;
    rank_list_write(b, in, n, j->plan->first_rank);
    return running;
}

static void on_escalation(uv_timer_t *t)
{
    struct launch *j = t->data;
    AUTO(strbuf) struct strbuf ranks = {0};
    int running = list_running(&ranks, j);
    if (!job_apply(j->job, JOB_EV_TIMEOUT))
        return;
    if (j->job->state == JOB_KILLING && running > 0)
        log_warn("killing %s, which still run%s %g s after SIG%s", strbuf_str(&ranks),
                 running == 1 ? "s" : "", j->grace_ms / 1000.0, sigabbrev_np(j->stop_signal));
    enter_state(j);
}

void launch_after_event(struct launch *j, int rank, bool job_changed)
{
    bool done = j->job->ranks[rank].state == JOB_RANK_DONE;
    if (job_changed)
        enter_state(j);
    else if (done && j->job->state == JOB_LISTENING && rank == j->job->first_failed)
        listen_on(j);
    struct launch_rank *r = &j->ranks[rank];
    if (r->end_emitted || !done)
        return;
    r->end_emitted = true;
    LAUNCH_OBSERVERS_EMIT(&j->observers, rank_ended, &j->job->ranks[rank].end);
}

/* ---- ranks: start and exit ------------------------------------------------------------------ */

static void on_drain_timeout(uv_timer_t *t)
{
    struct launch *j = t->data;
    uint64_t now = uv_now(launch_loop(j)), next = UINT64_MAX;
    for (int i = 0; i < j->plan->world_size; i++) {
        struct launch_rank *r = &j->ranks[i];
        if (!r->drain_until_ms || j->job->ranks[i].state != JOB_RANK_DRAINING)
            continue;
        if (r->drain_until_ms > now) {
            next = r->drain_until_ms < next ? r->drain_until_ms : next;
            continue;
        }
        r->drain_until_ms = 0;
        j->run->ops->signal(j->run, i, SIGKILL); /* kills what is left in its process group */
        j->run->ops->finish_output(j->run, i);
    }
    if (next != UINT64_MAX)
        uv_timer_start(t, on_drain_timeout, next - now, 0);
}

static void on_started(void *arg, int rank, pid_t pid)
{
    struct launch *j = arg;
    j->ranks[rank].pid = pid;
    LAUNCH_OBSERVERS_EMIT(&j->observers, rank_started, rank, pid);
    launch_after_event(j, rank, job_rank_apply(j->job, rank, JOB_RANK_EV_STARTED));
}

static void on_not_started(void *arg, int rank, int status, bool node_fault, const char *why)
{
    struct launch *j = arg;
    struct rank_end r = {.rank = rank,
                         .status = -1,
                         .start_status = status,
                         .start_node_fault = node_fault,
                         .seconds = seconds_since_start(j)};
    snprintf(r.start_error, sizeof r.start_error, "%s", why);
    launch_after_event(j, rank, job_set_rank_end(j->job, &r));
}

/* Detects absent ranks. If a rank has exited with status 0 and never called MPI_Init, the other
 * ranks wait forever in MPI_Init. Open MPI's mpirun ends such a job immediately, but not if the
 * exit came first. Programs that use only PMIx do not wait for other ranks: they have disconnected
 * before the timer fires. */
static void watch_absent_ranks(uv_timer_t *t)
{
    struct launch *j = t->data;
    int64_t waits_ms;
    int absent = mpi_ranks_find_absent(j->mpi, uv_now(launch_loop(j)), &waits_ms);
    if (absent < 0)
        uv_timer_stop(t);
    else if (waits_ms < ABSENT_MS)
        uv_timer_start(t, watch_absent_ranks, (uint64_t)(ABSENT_MS - waits_ms), 0);
    else if (job_rank_absent(j->job, absent))
        enter_state(j);
}

void launch_rank_ended(struct launch *j, const struct rank_end *r)
{
    if (launch_aborts_hold_end(j, r))
        return;
    j->ranks[r->rank].pid = 0;
    bool changed = job_set_rank_end(j->job, r);
    watch_absent_ranks(&j->absent_timer);
    if (j->job->ranks[r->rank].state == JOB_RANK_DRAINING) {
        j->ranks[r->rank].drain_until_ms = uv_now(launch_loop(j)) + DRAIN_MS;
        if (!uv_is_active((uv_handle_t *)&j->drain_timer))
            uv_timer_start(&j->drain_timer, on_drain_timeout, DRAIN_MS, 0);
    }
    launch_after_event(j, r->rank, changed);
}

static void on_exited(void *arg, int rank, int wait_status, bool oom_killed, const char *error)
{
    struct launch *j = arg;
    j->ranks[rank].error = error ? xstrdup(error) : NULL;
    struct rank_end r = {.rank = rank,
                         .pid = j->ranks[rank].pid,
                         .seconds = seconds_since_start(j),
                         .oom_killed = oom_killed};
    job_read_wait(&r, wait_status);
    if (j->pmix)
        pmix_server_drain(j->pmix);
    enum mpi_rank_event ev = r.status == 0 ? MPI_RANK_EV_EXITED : MPI_RANK_EV_FAILED;
    r.in_mpi = mpi_ranks_apply(j->mpi, rank, ev, 0) == MPI_RANK_CONNECTED;
    if (r.in_mpi && r.status == 0)
        r.mpi_fault = JOB_MPI_NO_FINALIZE;
    launch_rank_ended(j, &r);
}

static void on_lost(void *arg, int rank, const char *why)
{
    struct launch *j = arg;
    mpi_ranks_apply(j->mpi, rank, MPI_RANK_EV_FAILED, 0);
    struct rank_end r = {
        .rank = rank, .seconds = seconds_since_start(j), .status = 1, .lost = true};
    snprintf(r.lost_how, sizeof r.lost_how, "%s", why);
    launch_rank_ended(j, &r);
}

static void on_broken(void *arg, const char *why)
{
    struct launch *j = arg;
    if (!job_apply(j->job, JOB_EV_FAILED))
        return; /* the job is already ending */
    j->broken = xstrdup(why);
    enter_state(j);
}

/* A node has sent its topology. Until now the plan was based on an assumed one. */
static int on_node(void *arg, int node, const struct topo *t, struct err *e)
{
    struct launch *j = arg;
    struct launch_spec s = j->spec;
    if (s.node_resources) {
        s.cpus = s.node_resources[node].cpus;
        s.gpus = s.node_resources[node].gpus;
    }
    return plan_set_node(j->plan, node, &s, t, j->launcher->env, e);
}

static void on_address(void *arg, const char *master_addr)
{
    struct launch *j = arg;
    free(j->plan->master_addr);
    j->plan->master_addr = xstrdup(master_addr);
}

static void on_rank_event(void *arg, enum rank_event ev, int rank, int code)
{
    struct launch *j = arg;
    if (ev == RANK_JOINED) {
        mpi_ranks_apply(j->mpi, rank, MPI_RANK_EV_CONNECTED, uv_now(launch_loop(j)));
        watch_absent_ranks(&j->absent_timer);
    } else if (ev == RANK_FINALIZED) {
        mpi_ranks_apply(j->mpi, rank, MPI_RANK_EV_FINALIZED, 0);
    } else if (ev == RANK_ABORTED) {
        launch_aborts_on_aborted(j, rank, code);
    } else {
        log_warn("rank %d cannot start more ranks: drover does not support MPI_Comm_spawn; try: "
                 "start them with the job ('drover run -np 1 main : -np 4 workers'), or use mpirun",
                 rank);
    }
}

static void on_rank_status(void *arg, int rank, const struct rank_status *s)
{
    struct launch *j = arg;
    j->ranks[rank].remote_status = *s;
    LAUNCH_OBSERVERS_EMIT(&j->observers, rank_status, rank);
}

static void on_call_stack(void *arg, int rank, const char *text)
{
    const struct launch *j = arg;
    LAUNCH_OBSERVERS_EMIT(&j->observers, call_stack, rank, text);
}

static void on_node_gpus(void *arg, int node, const char *text, size_t len)
{
    const struct launch *j = arg;
    LAUNCH_OBSERVERS_EMIT(&j->observers, node_gpus, node, text, len);
}

static void on_eof(void *arg, int rank)
{
    struct launch *j = arg;
    launch_after_event(j, rank, job_rank_apply(j->job, rank, JOB_RANK_EV_OUTPUT_ENDED));
}

static bool on_line(void *arg, int rank, enum launch_stream from, const char *text, size_t len)
{
    struct launch *j = arg;
    struct launch_rank *r = &j->ranks[rank];
    if (text[len] != '\r') /* a progress bar would push out the lines that explain a failure */
        last_lines_push(from == LAUNCH_STDOUT ? r->out : r->err, text, len);
    return launch_observers_line(&j->observers, rank, from, text, len);
}

static void on_partial_line(void *arg, int rank, enum launch_stream from, const char *text,
                            size_t len)
{
    const struct launch *j = arg;
    LAUNCH_OBSERVERS_EMIT(&j->observers, partial_line, rank, from, text, len);
}

static void on_report(void *arg, int rank, const char *json, size_t len)
{
    const struct launch *j = arg;
    launch_observers_report(&j->observers, rank, json, len);
}

static void on_reaped(void *arg)
{
    struct launch *j = arg;
    if (job_apply(j->job, JOB_EV_REAPED))
        enter_state(j);
}

/* ---- start ---------------------------------------------------------------------------------- */

/* Returns "drover-PID-RANDOM", which identifies the job on this node and in PMIx. */
static char *make_job_id(void)
{
    unsigned random = 0;
    if (entropy_fill(&random, sizeof random) < 0)
        random = (unsigned)uv_hrtime();
    return xasprintf("drover-%d-%08x", (int)getpid(), random);
}

/* Sets `*out` to the MASTER_PORT that the user has set (by option or -x), or to 0, which means any
 * port. */
static int read_port_setting(int *out, const struct launch_spec *s, char *const *base,
                             struct err *e)
{
    const char *given = env_user_value(base, s->env, "MASTER_PORT");
    *out = s->node.master_port;
    return s->node.master_port || !given ? 0 : opt_int(out, "MASTER_PORT", given, 1, 65535, e);
}

/* Chooses MASTER_PORT and holds it. In a job over several nodes, rank 0's node does this later. */
static int choose_port(struct launch *j, int *port, const struct launch_spec *s, struct err *e)
{
    int wanted = 0;
    int rc = read_port_setting(&wanted, s, j->launcher->env, e);
    if (rc == 0 && (s->port_held || !plan_is_local(j->plan) || j->plan->first_rank > 0))
        *port = wanted;
    else if (rc == 0)
        rc = wanted ? port_hold(&j->port_fd, port, wanted, e)
                    : port_hold_in(&j->port_fd, port, s->node.ports, e);
    if (rc == 0 && s->node.no_hold_port)
        drop_port(j);
    return rc;
}

static struct launch *new_launch(struct launch_context *l, const struct launch_spec *s,
                                 const struct launch_events *ev, void *arg)
{
    struct launch *j = xzalloc(sizeof *j);
    j->launcher = l;
    j->port_fd = -1;
    j->grace_ms = s->grace_ms > 0 ? s->grace_ms : GRACE_MS;
    j->stop_signal = SIGTERM;
    j->spec = *s;
    j->started_ns = uv_hrtime();
    launch_observers_add(&j->observers, ev, arg);
    uv_timer_init(launch_loop(j), &j->escalation_timer);
    uv_timer_init(launch_loop(j), &j->drain_timer);
    uv_timer_init(launch_loop(j), &j->abort_timer);
    uv_timer_init(launch_loop(j), &j->absent_timer);
    j->escalation_timer.data = j->drain_timer.data = j->abort_timer.data = j->absent_timer.data = j;
    j->open_handles = 4;
    return j;
}

static int plan_job(struct launch *j, const struct launch_spec *s, struct err *e)
{
    AUTO(free) char *id = s->job_id ? xstrdup(s->job_id) : make_job_id();
    struct launch_spec with_id = *s;
    with_id.job_id = id;
    int rc = launch_context_plan(&j->plan, j->launcher, &with_id, e);
    if (rc < 0)
        return rc;
    mpi_transport_choose(j->plan, j->launcher->env);
    int n = j->plan->world_size;
    j->job = job_new(n);
    j->job->keeps_going = s->keeps_going;
    j->job->listens = n > 1 && launch_observers_can_listen(&j->observers);
    j->mpi = mpi_ranks_new(n);
    j->ranks = xcalloc((size_t)n, sizeof *j->ranks);
    for (int i = 0; i < n; i++) {
        j->ranks[i].out = last_lines_new(LAST_LINES);
        j->ranks[i].err = last_lines_new(LAST_LINES);
    }
    return 0;
}

/* Checks, before the first rank starts, that this process may open enough descriptors. Each rank on
 * this node needs two streams, their files, PMI-1, PMIx, the report channel, and two descriptors of
 * its RankMonitorClient. Each other node needs one connection, and each of its ranks the files. */
static int check_limits(const struct launch *j, struct err *e)
{
    const struct launch_spec *s = &j->spec;
    bool local = plan_is_local(j->plan);
    int per_rank =
        (s->output_dir || s->output_files[0] || s->output_files[1] ? 2 : 0) +
        (local ? 2 + (s->node.no_pmix ? 0 : 2) + s->node.reports + (s->node.ft_config ? 2 : 0) : 0);
    AUTO(free)
    char *what = xasprintf("%d rank%s", j->plan->world_size, plural_s(j->plan->world_size));
    return limits_require_files(j->plan->world_size * per_rank + (local ? 0 : j->plan->node_count),
                                what, e);
}

int launch_start(struct launch **out, struct launch_context *l, const struct launch_spec *s,
                 const struct launch_events *ev, void *arg, struct err *e)
{
    static const struct rank_events from_ranks = {.event = on_rank_event};
    static const struct engine_events from_engine = {.node = on_node,
                                                     .checked = launch_observers_node_checked,
                                                     .ready = launch_observers_nodes_ready,
                                                     .address = on_address,
                                                     .started = on_started,
                                                     .not_started = on_not_started,
                                                     .exited = on_exited,
                                                     .lost = on_lost,
                                                     .broken = on_broken,
                                                     .of_ranks = &from_ranks,
                                                     .rank_status = on_rank_status,
                                                     .stack = on_call_stack,
                                                     .node_gpus = on_node_gpus,
                                                     .line = on_line,
                                                     .partial_line = on_partial_line,
                                                     .eof = on_eof,
                                                     .report = on_report,
                                                     .reaped = on_reaped};
    struct launch *j = new_launch(l, s, ev, arg);
    struct engine_start_opts opts = {.spec = &j->spec, .base_env = l->env};
    int rc = plan_job(j, s, e);
    if (rc == 0)
        rc = check_limits(j, e);
    if (rc == 0)
        rc = choose_port(j, &opts.master_port, s, e);
    opts.plan = j->plan;
    bool local = j->plan && plan_is_local(j->plan);
    /* This is done before the streams are opened, so that the server gets low descriptors. */
    opts.map = j->map = rc == 0 && local ? job_map_new(j->plan, 0) : NULL;
    if (j->map && !s->node.no_pmix)
        rc = launch_context_join_pmix(&j->pmix, l, j->map, j->plan, &from_ranks, j, e);
    opts.pmix_env = j->pmix ? pmix_server_env(j->pmix) : NULL;
    if (rc == 0)
        rc = (local ? engine_local_start : engine_remote_start)(&j->run, l->engine, &opts,
                                                                &from_engine, j, e);
    if (rc < 0) {
        launch_free(j);
        return rc;
    }
    *out = j;
    return 0;
}

void launch_observe(struct launch *j, const struct launch_events *ev, void *arg)
{
    launch_observers_add(&j->observers, ev, arg);
}

char *launch_join_ticket(const struct launch *j, const char **token)
{
    return engine_remote_join_ticket(j->run, token);
}

const struct plan *launch_plan(const struct launch *j)
{
    return j->plan;
}

pid_t launch_rank_pid(const struct launch *j, int rank)
{
    return j->ranks[rank].pid;
}

/* ---- end ------------------------------------------------------------------------------------ */

void launch_stop(struct launch *j, int request_ms)
{
    j->request_ms = request_ms;
    if (job_apply(j->job, JOB_EV_STOP))
        enter_state(j);
}

void launch_interrupt(struct launch *j, int sig)
{
    if (j->job->state > JOB_LISTENING)
        return;
    j->stop_signal = sig;
    launch_stop(j, 0);
}

void launch_log_stopping(const struct launch *j)
{
    AUTO(strbuf) struct strbuf ranks = {0};
    int n = list_running(&ranks, j);
    const char *hint = !stop_signals_from_keys() ? ""
                       : n == 1                  ? "; press Ctrl-C again to kill it"
                                                 : "; press Ctrl-C again to kill them";
    uint64_t tenths = (uv_timer_get_due_in(&j->escalation_timer) + 99) / 100;
    if (j->job->state == JOB_TERMINATING && n > 0)
        log_warn("stopping %d rank%s, up to %g s%s", n, plural_s(n), (double)tenths / 10, hint);
}

void launch_kill(struct launch *j)
{
    if (job_apply(j->job, JOB_EV_KILL))
        enter_state(j);
}

void launch_signal(struct launch *j, int sig)
{
    j->run->ops->signal(j->run, -1, sig);
}

void launch_resume_output(struct launch *j)
{
    j->run->ops->resume(j->run);
}

static void on_closed(uv_handle_t *h)
{
    struct launch *j = h->data;
    if (--j->open_handles == 0)
        free(j);
}

void launch_free(struct launch *j)
{
    if (!j)
        return;
    engine_free(j->run);
    pmix_server_leave(j->pmix);
    for (int i = 0; j->ranks && i < j->plan->world_size; i++) {
        last_lines_free(j->ranks[i].out);
        last_lines_free(j->ranks[i].err);
        free(j->ranks[i].error);
        free(j->ranks[i].held_end);
    }
    launch_witnesses_free(j);
    free(j->ranks);
    job_free(j->job);
    mpi_ranks_free(j->mpi);
    job_map_free(j->map);
    plan_free(j->plan);
    free(j->broken);
    drop_port(j);
    uv_close((uv_handle_t *)&j->escalation_timer, on_closed);
    uv_close((uv_handle_t *)&j->drain_timer, on_closed);
    uv_close((uv_handle_t *)&j->abort_timer, on_closed);
    uv_close((uv_handle_t *)&j->absent_timer, on_closed);
}
