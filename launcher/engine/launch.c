#include "launcher/engine/launch.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/random.h>

#include "common/opt.h"
#include "launcher/engine/engine.h"
#include "launcher/guardian/process_tree.h"
#include "launcher/io/last_lines.h"
#include "launcher/node/port_hold.h"
#include "launcher/plan/env.h"

enum {
    GRACE_MS = 30000, /* from SIGTERM to SIGKILL, where the spec does not say */
    LINGER_MS = 1000, /* from a rank's end to the end of its output, which others may hold open */
    ABORT_MS = 1000,  /* for the end of a rank that is over to be told, when another has aborted */
    LAST_LINES = 20
};

struct launch_rank {
    pid_t pid; /* 0: not running */
    struct last_lines *out, *err;
    uint64_t give_up_ms;        /* on its output; 0: not so far */
    uint64_t pmix_connected_ms; /* it has attached to PMIx then; 0: not so far */
    int abort_code;             /* it has called MPI_Abort(); counts when the end of … */
    bool abort_waits;           /* … another rank, which came before, is known */
    bool told;                  /* rank_ended was called */
    struct rank_status
        remote_status; /* on another node, as of the last launch_sample_status() but one */
};

struct launch {
    struct launch_context *launcher;
    struct plan *plan;
    struct job *job;
    struct engine_job *run;
    struct pmix_server_job *meeting; /* NULL: its ranks do not meet here */
    struct launch_rank *ranks;
    int port_fd;
    int grace_ms, polite_ms, stop_signal;
    uint64_t started_ns;
    int joined;              /* ranks that have attached to PMIx */
    struct launch_spec spec; /* pointers are good as long as launch.h says */
    char *broken;            /* why, where it is */
    struct launch_events ev;
    void *arg;
    uv_timer_t escalation_timer; /* of the job's state: polite, then grace */
    uv_timer_t drain_timer;      /* of ranks that have ended */
    uv_timer_t abort_timer;      /* of ranks that wait for another's end */
    int open_handles;
};

static uv_loop_t *loop_of(const struct launch *j)
{
    return engine_loop(launch_context_engine(j->launcher));
}

/* ---- what the job's state asks for -------------------------------------------------------------
 */

static void on_patience_over(uv_timer_t *t);

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
    j->ev.ended(j->arg, &end);
}

/* The effects of the state that the job has come to. The job may be gone afterwards. */
static void enter_state(struct launch *j)
{
    uv_timer_stop(&j->escalation_timer);
    switch (job_state(j->job)) {
    case JOB_STOP_REQUESTED:
        if (j->polite_ms > 0 && engine_request_stop(j->run))
            uv_timer_start(&j->escalation_timer, on_patience_over, (uint64_t)j->polite_ms, 0);
        else
            on_patience_over(&j->escalation_timer);
        return;
    case JOB_TERMINATING:
        engine_signal(j->run, -1, j->stop_signal);
        engine_signal(j->run, -1, SIGCONT); /* a stopped one could not end */
        uv_timer_start(&j->escalation_timer, on_patience_over, (uint64_t)j->grace_ms, 0);
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

static void on_patience_over(uv_timer_t *t)
{
    struct launch *j = t->data;
    if (job_apply(j->job, JOB_EV_TIMEOUT))
        enter_state(j);
}

/* After something happened to a rank: what follows for the job, then for whom it may concern. */
static void after_event(struct launch *j, int rank, bool job_changed)
{
    if (job_changed)
        enter_state(j);
    struct launch_rank *r = &j->ranks[rank];
    if (r->told || job_rank_state(j->job, rank) != JOB_RANK_DONE)
        return;
    r->told = true;
    if (j->ev.rank_ended)
        j->ev.rank_ended(j->arg, job_rank_end(j->job, rank));
}

/* ---- what happens to ranks ---------------------------------------------------------------------
 */

static double seconds_since_start(const struct launch *j)
{
    return (double)(uv_hrtime() - j->started_ns) / 1e9;
}

static void on_linger(uv_timer_t *t)
{
    struct launch *j = t->data;
    uint64_t now = uv_now(loop_of(j)), next = UINT64_MAX;
    for (int i = 0; i < j->plan->world_size; i++) {
        struct launch_rank *r = &j->ranks[i];
        if (!r->give_up_ms || job_rank_state(j->job, i) != JOB_RANK_DRAINING)
            continue;
        if (r->give_up_ms > now) {
            next = r->give_up_ms < next ? r->give_up_ms : next;
            continue;
        }
        r->give_up_ms = 0;
        engine_signal(j->run, i, SIGKILL); /* what it has left in its group */
        engine_finish_output(j->run, i);
    }
    if (next != UINT64_MAX)
        uv_timer_start(t, on_linger, next - now, 0);
}

static void on_started(void *arg, int rank, pid_t pid)
{
    struct launch *j = arg;
    j->ranks[rank].pid = pid;
    if (j->ev.rank_started)
        j->ev.rank_started(j->arg, rank, pid);
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

/* Not the end of the job: the rank still runs. */
static void count_abort(struct launch *j, int rank)
{
    struct launch_rank *r = &j->ranks[rank];
    if (r->abort_waits)
        after_event(j, rank, job_rank_aborted(j->job, rank, r->abort_code));
    r->abort_waits = false;
}

static void on_aborts(uv_timer_t *t)
{
    struct launch *j = t->data;
    for (int i = 0; i < j->plan->world_size; i++)
        count_abort(j, i);
}

static bool another_is_over(const struct launch *j, int rank)
{
    for (int i = 0; i < j->plan->world_size; i++)
        if (i != rank && j->ranks[i].pid && process_tree_is_dead(j->ranks[i].pid))
            return true;
    return false;
}

/* The rank has ended; its output has a moment more. */
static void rank_ended(struct launch *j, const struct rank_end *r)
{
    count_abort(j, r->rank);
    j->ranks[r->rank].pid = 0;
    bool changed = job_set_rank_end(j->job, r);
    if (job_rank_state(j->job, r->rank) == JOB_RANK_DRAINING) {
        j->ranks[r->rank].give_up_ms = uv_now(loop_of(j)) + LINGER_MS;
        if (!uv_is_active((uv_handle_t *)&j->drain_timer))
            uv_timer_start(&j->drain_timer, on_linger, LINGER_MS, 0);
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
    if (uv_is_active((uv_handle_t *)&j->abort_timer)) /* the guardian tells all ends at once */
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
        return; /* it is ending anyway */
    j->broken = xstrdup(why);
    enter_state(j);
}

/* A far node is not what the plan took it for. */
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

static void on_joined(void *arg, int rank)
{
    struct launch *j = arg;
    j->joined += j->ranks[rank].pmix_connected_ms == 0;
    if (j->ranks[rank].pmix_connected_ms == 0)
        j->ranks[rank].pmix_connected_ms = uv_now(loop_of(j));
}

static void on_standing(void *arg, int rank, const struct rank_status *s)
{
    struct launch *j = arg;
    j->ranks[rank].remote_status = *s;
    if (j->ev.looked)
        j->ev.looked(j->arg, rank);
}

static void on_stack(void *arg, int rank, const char *text)
{
    const struct launch *j = arg;
    if (j->ev.stack)
        j->ev.stack(j->arg, rank, text);
}

/* A rank aborts because another has died, maybe: the server sees a connection's end before the
 * guardian, whom the kernel tells last. */
static void on_aborted(void *arg, int rank, int code)
{
    struct launch *j = arg;
    j->ranks[rank].abort_code = code;
    j->ranks[rank].abort_waits = true;
    if (another_is_over(j, rank))
        uv_timer_start(&j->abort_timer, on_aborts, ABORT_MS, 0);
    else
        count_abort(j, rank);
}

static void on_quiet(void *arg, int rank)
{
    struct launch *j = arg;
    after_event(j, rank, job_rank_eof(j->job, rank));
}

static bool on_line(void *arg, int rank, enum launch_stream from, const char *text, size_t len)
{
    struct launch *j = arg;
    struct launch_rank *r = &j->ranks[rank];
    if (text[len] != '\r') /* a progress bar would push out what is worth keeping */
        last_lines_push(from == LAUNCH_STDOUT ? r->out : r->err, text, len);
    return !j->ev.line || j->ev.line(j->arg, rank, from, text, len);
}

static void on_begun(void *arg, int rank, enum launch_stream from, const char *text, size_t len)
{
    const struct launch *j = arg;
    if (j->ev.begun)
        j->ev.begun(j->arg, rank, from, text, len);
}

static void on_report(void *arg, int rank, const char *json, size_t len)
{
    struct launch *j = arg;
    if (j->ev.report)
        j->ev.report(j->arg, rank, json, len);
}

static void on_cleared(void *arg)
{
    struct launch *j = arg;
    if (job_apply(j->job, JOB_EV_REAPED))
        enter_state(j);
}

/* ---- start -------------------------------------------------------------------------------------
 */

/* "drover-PID-RANDOM": names the job on this machine, and in PMIx. */
static char *make_job_id(void)
{
    unsigned random = 0;
    if (getrandom(&random, sizeof random, 0) < 0)
        random = (unsigned)uv_hrtime();
    return xasprintf("drover-%d-%08x", (int)getpid(), random);
}

/* The port that the user wants, by option or by -x; 0: any. */
static int wanted_port(int *out, const struct launch_spec *s, struct err *e)
{
    const char *given = env_get(s->env, "MASTER_PORT");
    *out = s->master_port;
    return s->master_port || !given ? 0 : opt_int(out, "MASTER_PORT", given, 1, 65535, e);
}

/* Of a job over several nodes rank 0's node chooses, and holds it. */
static int choose_port(struct launch *j, int *port, const struct launch_spec *s, struct err *e)
{
    int wanted = 0;
    int rc = wanted_port(&wanted, s, e);
    if (rc == 0 &&
        (s->port_held || j->plan->engine != PLAN_ENGINE_LOCAL || j->plan->first_rank > 0))
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
    j->ev = *ev;
    j->arg = arg;
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
                                                     .joined = on_joined,
                                                     .standing = on_standing,
                                                     .stack = on_stack,
                                                     .aborted = on_aborted,
                                                     .line = on_line,
                                                     .begun = on_begun,
                                                     .quiet = on_quiet,
                                                     .report = on_report,
                                                     .cleared = on_cleared};
    static const struct pmix_server_events from_pmix = {on_joined, on_aborted, engine_warn_spawn};
    struct launch *j = new_launch(l, s, ev, arg);
    struct engine_start_opts order = {.spec = &j->spec, .base_env = launch_context_env(l)};
    int rc = plan_job(j, s, e);
    if (rc == 0)
        rc = choose_port(j, &order.master_port, s, e);
    order.plan = j->plan;
    bool local = j->plan && j->plan->engine == PLAN_ENGINE_LOCAL;
    /* Before its streams are opened, for the server is to have low descriptors. */
    if (rc == 0 && local && !s->no_pmix)
        rc = launch_context_join_pmix(&j->meeting, l, j->plan, &from_pmix, j, e);
    order.pmix_env = j->meeting ? pmix_server_env(j->meeting) : NULL;
    if (rc == 0)
        rc = (local ? engine_local_start : engine_remote_start)(&j->run, launch_context_engine(l),
                                                                &order, &from_engine, j, e);
    if (rc < 0) {
        launch_free(j);
        return rc;
    }
    *out = j;
    return 0;
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
        asked[i] = j->plan->engine != PLAN_ENGINE_LOCAL &&
                   (s == JOB_RANK_RUNNING || s == JOB_RANK_RUNNING_EOF);
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
    return j->joined > 0 || j->plan->engine == PLAN_ENGINE_MPIRUN ||
           j->plan->engine == PLAN_ENGINE_SRUN;
}

int64_t launch_pmix_wait_ms(const struct launch *j, int rank)
{
    uint64_t since_ms = j->ranks[rank].pmix_connected_ms;
    bool all = j->joined == j->plan->world_size;
    return since_ms && !all ? (int64_t)(uv_now(loop_of(j)) - since_ms) : 0;
}

/* ---- end ---------------------------------------------------------------------------------------
 */

void launch_stop(struct launch *j, int polite_ms)
{
    if (job_state(j->job) != JOB_RUNNING)
        return;
    j->polite_ms = polite_ms;
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
    pmix_server_leave(j->meeting);
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
