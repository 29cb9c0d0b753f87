#include "launcher/engine/launch.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/random.h>

#include "common/opt.h"
#include "launcher/engine/engine.h"
#include "launcher/engine/launch_observers.h"
#include "launcher/engine/mpi_transport.h"
#include "launcher/guardian/process_tree.h"
#include "launcher/io/last_lines.h"
#include "launcher/node/port_hold.h"
#include "launcher/plan/env.h"

enum {
    GRACE_MS = 30000, /* from SIGTERM to SIGKILL, unless the spec sets it */
    DRAIN_MS = 1000,  /* from a rank's exit to the end of its output, which others may hold open */
    ABORT_MS = 1000,  /* how long an MPI_Abort() waits for the report of an earlier exit */
    LAST_LINES = 20
};

struct launch_rank {
    pid_t pid; /* 0: not running */
    struct last_lines *out, *err;
    uint64_t drain_until_ms;    /* when its output is closed by force; 0: not exited yet */
    uint64_t pmix_connected_ms; /* when it connected to PMIx; 0: not yet */
    int abort_code;             /* of its MPI_Abort() … */
    bool abort_pending;         /* … which counts once the earlier exit of another is known */
    bool end_emitted;           /* rank_ended was emitted */
    struct rank_status remote_status; /* on another node: as last received */
};

struct launch {
    struct launch_context *launcher;
    struct plan *plan;
    struct job *job;
    struct engine_job *run;
    struct pmix_server_job *pmix; /* NULL: drover does not serve PMIx to this job */
    struct launch_rank *ranks;
    int port_fd; /* holds MASTER_PORT; -1: does not */
    int grace_ms, request_ms, stop_signal;
    uint64_t started_ns;
    int pmix_connected;      /* number of ranks that have connected to PMIx */
    struct launch_spec spec; /* plan.h says how long its pointers are valid */
    char *broken;            /* why the engine cannot continue; NULL: it can */
    struct launch_observers observers;
    uv_timer_t escalation_timer; /* of the job's state: stop request, then grace period */
    uv_timer_t drain_timer;      /* of ranks that have exited */
    uv_timer_t abort_timer;      /* of aborts that are pending */
    int open_handles;
};

static uv_loop_t *loop_of(const struct launch *j)
{
    return engine_loop(launch_context_engine(j->launcher));
}

/* ---- actions of the job's states ---------------------------------------------------------------
 */

static void on_escalation(uv_timer_t *t);

static void drop_port(struct launch *j)
{
    auto_fd(&j->port_fd);
    j->port_fd = -1;
}

static void report_end(struct launch *j)
{
    struct job_end end = {.status = job_status(j->job),
                          .first_failed = job_first_failed(j->job),
                          .stopped = job_was_stopped(j->job),
                          .broken = j->broken,
                          .seconds = (double)(uv_hrtime() - j->started_ns) / 1e9};
    const char *lines[LAST_LINES + 1] = {NULL};
    end.last_lines = lines;
    if (end.first_failed >= 0) {
        end.first = *job_rank_end(j->job, end.first_failed);
        const struct launch_rank *r = &j->ranks[end.first_failed];
        const struct last_lines *t = last_lines_count(r->err) > 0 ? r->err : r->out;
        for (int i = 0; i < LAST_LINES; i++)
            lines[i] = last_lines_get(t, i, NULL);
    }
    drop_port(j);
    launch_observers_ended(&j->observers, &end);
}

/* Performs the actions of the job's new state. In JOB_DONE an observer may free the job. */
static void enter_state(struct launch *j)
{
    uv_timer_stop(&j->escalation_timer);
    switch (job_state(j->job)) {
    case JOB_STOP_REQUESTED:
        if (j->request_ms > 0 && engine_request_stop(j->run))
            uv_timer_start(&j->escalation_timer, on_escalation, (uint64_t)j->request_ms, 0);
        else
            on_escalation(&j->escalation_timer);
        return;
    case JOB_TERMINATING:
        engine_signal(j->run, -1, j->stop_signal);
        engine_signal(j->run, -1, SIGCONT); /* a stopped process would not exit */
        uv_timer_start(&j->escalation_timer, on_escalation, (uint64_t)j->grace_ms, 0);
        return;
    case JOB_KILLING:
    case JOB_REAPING:
        engine_kill_tree(j->run);
        return;
    case JOB_DONE:
        report_end(j);
        return;
    default:
        return;
    }
}

static void on_escalation(uv_timer_t *t)
{
    struct launch *j = t->data;
    if (job_apply(j->job, JOB_EV_TIMEOUT))
        enter_state(j);
}

/* After a rank's event: performs the actions of a new job state, then emits the rank's end. */
static void after_event(struct launch *j, int rank, bool job_changed)
{
    if (job_changed)
        enter_state(j);
    struct launch_rank *r = &j->ranks[rank];
    if (r->end_emitted || job_rank_state(j->job, rank) != JOB_RANK_DONE)
        return;
    r->end_emitted = true;
    LAUNCH_OBSERVERS_EMIT(&j->observers, rank_ended, job_rank_end(j->job, rank));
}

/* ---- ranks: start and exit ---------------------------------------------------------------------
 */

static double seconds_since_start(const struct launch *j)
{
    return (double)(uv_hrtime() - j->started_ns) / 1e9;
}

static void on_drain_timeout(uv_timer_t *t)
{
    struct launch *j = t->data;
    uint64_t now = uv_now(loop_of(j)), next = UINT64_MAX;
    for (int i = 0; i < j->plan->world_size; i++) {
        struct launch_rank *r = &j->ranks[i];
        if (!r->drain_until_ms || job_rank_state(j->job, i) != JOB_RANK_DRAINING)
            continue;
        if (r->drain_until_ms > now) {
            next = r->drain_until_ms < next ? r->drain_until_ms : next;
            continue;
        }
        r->drain_until_ms = 0;
        engine_signal(j->run, i, SIGKILL); /* what is left in its process group */
        engine_finish_output(j->run, i);
    }
    if (next != UINT64_MAX)
        uv_timer_start(t, on_drain_timeout, next - now, 0);
}

static void on_started(void *arg, int rank, pid_t pid)
{
    struct launch *j = arg;
    j->ranks[rank].pid = pid;
    LAUNCH_OBSERVERS_EMIT(&j->observers, rank_started, rank, pid);
    after_event(j, rank, job_rank_started(j->job, rank));
}

static void on_not_started(void *arg, int rank, int status, const char *why)
{
    struct launch *j = arg;
    struct rank_end r = {
        .rank = rank, .status = -1, .start_status = status, .seconds = seconds_since_start(j)};
    snprintf(r.start_error, sizeof r.start_error, "%s", why);
    after_event(j, rank, job_set_rank_end(j->job, &r));
}

/* MPI_Abort() does not end the job yet: the rank still runs. */
static void count_abort(struct launch *j, int rank)
{
    struct launch_rank *r = &j->ranks[rank];
    if (r->abort_pending)
        after_event(j, rank, job_rank_aborted(j->job, rank, r->abort_code));
    r->abort_pending = false;
}

static void on_aborts(uv_timer_t *t)
{
    struct launch *j = t->data;
    for (int i = 0; i < j->plan->world_size; i++)
        count_abort(j, i);
}

static bool another_has_exited(const struct launch *j, int rank)
{
    for (int i = 0; i < j->plan->world_size; i++)
        if (i != rank && j->ranks[i].pid && process_tree_is_dead(j->ranks[i].pid))
            return true;
    return false;
}

/* The rank has exited; its output may still arrive until the drain timer fires. */
static void rank_ended(struct launch *j, const struct rank_end *r)
{
    count_abort(j, r->rank);
    j->ranks[r->rank].pid = 0;
    bool changed = job_set_rank_end(j->job, r);
    if (job_rank_state(j->job, r->rank) == JOB_RANK_DRAINING) {
        j->ranks[r->rank].drain_until_ms = uv_now(loop_of(j)) + DRAIN_MS;
        if (!uv_is_active((uv_handle_t *)&j->drain_timer))
            uv_timer_start(&j->drain_timer, on_drain_timeout, DRAIN_MS, 0);
    }
    after_event(j, r->rank, changed);
}

static void on_exited(void *arg, int rank, int wait_status, bool oom_killed)
{
    struct launch *j = arg;
    struct rank_end r = {.rank = rank,
                         .pid = j->ranks[rank].pid,
                         .seconds = seconds_since_start(j),
                         .oom_killed = oom_killed};
    job_read_wait(&r, wait_status);
    if (uv_is_active((uv_handle_t *)&j->abort_timer)) /* the guardian reports exits in one batch */
        uv_timer_start(&j->abort_timer, on_aborts, 0, 0);
    rank_ended(j, &r);
}

static void on_lost(void *arg, int rank, const char *why)
{
    struct launch *j = arg;
    struct rank_end r = {
        .rank = rank, .seconds = seconds_since_start(j), .status = 1, .lost = true};
    snprintf(r.lost_how, sizeof r.lost_how, "%s", why);
    rank_ended(j, &r);
}

static void on_broken(void *arg, const char *why)
{
    struct launch *j = arg;
    if (!job_apply(j->job, JOB_EV_FAILED))
        return; /* the job is ending anyway */
    j->broken = xstrdup(why);
    enter_state(j);
}

/* A node has sent its topology, which the plan could only assume before. */
static int on_node(void *arg, int node, const struct topo *t, struct err *e)
{
    struct launch *j = arg;
    struct launch_spec s = j->spec;
    if (s.node_resources) {
        s.cpus = s.node_resources[node].cpus;
        s.gpus = s.node_resources[node].gpus;
    }
    return plan_set_node(j->plan, node, &s, t, launch_context_env(j->launcher), e);
}

static void on_address(void *arg, const char *master_addr)
{
    struct launch *j = arg;
    free(j->plan->master_addr);
    j->plan->master_addr = xstrdup(master_addr);
}

static void on_pmix_connected(void *arg, int rank)
{
    struct launch *j = arg;
    j->pmix_connected += j->ranks[rank].pmix_connected_ms == 0;
    if (j->ranks[rank].pmix_connected_ms == 0)
        j->ranks[rank].pmix_connected_ms = uv_now(loop_of(j));
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

/* A rank may abort because another one has died. The PMIx server sees that rank's connection end
 * before the guardian learns of its exit, so the abort waits for the exit. */
static void on_aborted(void *arg, int rank, int code)
{
    struct launch *j = arg;
    j->ranks[rank].abort_code = code;
    j->ranks[rank].abort_pending = true;
    if (another_has_exited(j, rank))
        uv_timer_start(&j->abort_timer, on_aborts, ABORT_MS, 0);
    else
        count_abort(j, rank);
}

static void on_eof(void *arg, int rank)
{
    struct launch *j = arg;
    after_event(j, rank, job_rank_eof(j->job, rank));
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
    LAUNCH_OBSERVERS_EMIT(&j->observers, report, rank, json, len);
}

static void on_reaped(void *arg)
{
    struct launch *j = arg;
    if (job_apply(j->job, JOB_EV_REAPED))
        enter_state(j);
}

/* ---- start -------------------------------------------------------------------------------------
 */

/* "drover-PID-RANDOM": identifies the job on this machine and in PMIx. */
static char *make_job_id(void)
{
    unsigned random = 0;
    if (getrandom(&random, sizeof random, 0) < 0)
        random = (unsigned)uv_hrtime();
    return xasprintf("drover-%d-%08x", (int)getpid(), random);
}

/* The MASTER_PORT that the user set, by option or by -x; 0: any. */
static int read_port_setting(int *out, const struct launch_spec *s, struct err *e)
{
    const char *given = env_get(s->env, "MASTER_PORT");
    *out = s->master_port;
    return s->master_port || !given ? 0 : opt_int(out, "MASTER_PORT", given, 1, 65535, e);
}

/* In a job over several nodes, rank 0's node chooses the port and holds it. */
static int choose_port(struct launch *j, int *port, const struct launch_spec *s, struct err *e)
{
    int wanted = 0;
    int rc = read_port_setting(&wanted, s, e);
    if (rc == 0 && (s->port_held || !plan_is_local(j->plan) || j->plan->first_rank > 0))
        *port = wanted;
    else if (rc == 0)
        rc = port_hold(&j->port_fd, port, wanted, e);
    if (rc == 0 && s->no_hold_port)
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
    uv_timer_init(loop_of(j), &j->escalation_timer);
    uv_timer_init(loop_of(j), &j->drain_timer);
    uv_timer_init(loop_of(j), &j->abort_timer);
    j->escalation_timer.data = j->drain_timer.data = j->abort_timer.data = j;
    j->open_handles = 3;
    return j;
}

static int plan_job(struct launch *j, const struct launch_spec *s, struct err *e)
{
    AUTO(free) char *id = s->job_id ? xstrdup(s->job_id) : make_job_id();
    struct launch_spec with_id = *s;
    with_id.job_id = id;
    int rc = plan_make(&j->plan, &with_id, launch_context_topo(j->launcher),
                       launch_context_env(j->launcher), e);
    if (rc < 0)
        return rc;
    mpi_transport_choose(j->plan, launch_context_env(j->launcher));
    int n = j->plan->world_size;
    j->job = job_new(n);
    j->ranks = xcalloc((size_t)n, sizeof *j->ranks);
    for (int i = 0; i < n; i++) {
        j->ranks[i].out = last_lines_new(LAST_LINES);
        j->ranks[i].err = last_lines_new(LAST_LINES);
    }
    return 0;
}

int launch_start(struct launch **out, struct launch_context *l, const struct launch_spec *s,
                 const struct launch_events *ev, void *arg, struct err *e)
{
    static const struct engine_events from_engine = {.node = on_node,
                                                     .address = on_address,
                                                     .started = on_started,
                                                     .not_started = on_not_started,
                                                     .exited = on_exited,
                                                     .lost = on_lost,
                                                     .broken = on_broken,
                                                     .joined = on_pmix_connected,
                                                     .standing = on_rank_status,
                                                     .stack = on_call_stack,
                                                     .aborted = on_aborted,
                                                     .line = on_line,
                                                     .begun = on_partial_line,
                                                     .quiet = on_eof,
                                                     .report = on_report,
                                                     .cleared = on_reaped};
    static const struct pmix_server_events from_pmix = {on_pmix_connected, on_aborted,
                                                        engine_warn_spawn};
    struct launch *j = new_launch(l, s, ev, arg);
    struct engine_start_opts opts = {.spec = &j->spec, .base_env = launch_context_env(l)};
    int rc = plan_job(j, s, e);
    if (rc == 0)
        rc = choose_port(j, &opts.master_port, s, e);
    opts.plan = j->plan;
    bool local = j->plan && plan_is_local(j->plan);
    /* Before the streams are opened, so that the server gets low descriptors. */
    if (rc == 0 && local && !s->no_pmix)
        rc = launch_context_join_pmix(&j->pmix, l, j->plan, &from_pmix, j, e);
    opts.pmix_env = j->pmix ? pmix_server_env(j->pmix) : NULL;
    if (rc == 0)
        rc = (local ? engine_local_start : engine_remote_start)(&j->run, launch_context_engine(l),
                                                                &opts, &from_engine, j, e);
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

void launch_last_collective(const struct launch *j, int rank, struct collective_position *out)
{
    struct collective_position here;
    engine_last_collective(j->run, rank, &here);
    *out = here.comm[0] ? here : j->ranks[rank].remote_status.collective;
}

int launch_sample_status(struct launch *j, struct rank_status *out)
{
    int n = j->plan->world_size;
    AUTO(free) pid_t *pids = xcalloc((size_t)n, sizeof *pids);
    for (int i = 0; i < n; i++)
        pids[i] = j->ranks[i].pid;
    int rc = rank_status_sample(out, pids, n);
    for (int i = 0; rc == 0 && i < n; i++) {
        if (pids[i] == 0)
            out[i] = j->ranks[i].remote_status;
        launch_last_collective(j, i, &out[i].collective);
    }
    engine_request_status(j->run);
    return rc;
}

int launch_request_status(struct launch *j, bool *asked)
{
    int n = 0;
    engine_request_status(j->run);
    for (int i = 0; i < j->plan->world_size; i++) {
        enum job_rank_state s = job_rank_state(j->job, i);
        asked[i] = !plan_is_local(j->plan) && (s == JOB_RANK_RUNNING || s == JOB_RANK_RUNNING_EOF);
        n += asked[i];
    }
    return n;
}

void launch_request_stack(struct launch *j, int rank)
{
    engine_request_stack(j->run, rank);
}

bool launch_pmix_connected(const struct launch *j)
{
    return j->pmix_connected > 0 || engine_launcher_serves_pmix(j->run);
}

int64_t launch_pmix_wait_ms(const struct launch *j, int rank)
{
    uint64_t since_ms = j->ranks[rank].pmix_connected_ms;
    bool all = j->pmix_connected == j->plan->world_size;
    return since_ms && !all ? (int64_t)(uv_now(loop_of(j)) - since_ms) : 0;
}

/* ---- end ---------------------------------------------------------------------------------------
 */

void launch_stop(struct launch *j, int request_ms)
{
    if (job_state(j->job) != JOB_RUNNING)
        return;
    j->request_ms = request_ms;
    if (job_apply(j->job, JOB_EV_STOP))
        enter_state(j);
}

void launch_interrupt(struct launch *j, int sig)
{
    if (job_state(j->job) != JOB_RUNNING)
        return;
    j->stop_signal = sig;
    launch_stop(j, 0);
}

void launch_kill(struct launch *j)
{
    if (job_apply(j->job, JOB_EV_KILL))
        enter_state(j);
}

void launch_signal(struct launch *j, int sig)
{
    engine_signal(j->run, -1, sig);
}

void launch_resume_output(struct launch *j)
{
    engine_resume(j->run);
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
    }
    free(j->ranks);
    job_free(j->job);
    plan_free(j->plan);
    free(j->broken);
    drop_port(j);
    uv_close((uv_handle_t *)&j->escalation_timer, on_closed);
    uv_close((uv_handle_t *)&j->drain_timer, on_closed);
    uv_close((uv_handle_t *)&j->abort_timer, on_closed);
}
