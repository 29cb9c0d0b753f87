#include <signal.h>
#include <stdarg.h>
#include <string.h>

#include "common/entropy.h"
#include "common/log.h"
#include "launcher/plan/env.h"
#include "launcher/plan/node_spec.h"
#include "launcher/remote/engine_remote_internal.h"

enum {
    REAP_MS = 20000,               /* time for the agents to kill their process trees */
    LAUNCHER_EXIT_MS = 2000,       /* time for mpirun to exit: 4.1.4 sometimes never does */
    LAUNCHER_EXIT_FAILED_MS = 200, /* the same after a failure, for a launcher that lingers */
    SHOWN_LINES = 20
};

#define STOPPED_EARLY "the job was stopped before all agents had connected"

/* ---- ranks ---------------------------------------------------------------------------------- */

bool engine_remote_apply_rank(struct remote_rank *r, enum remote_rank_event ev)
{
    int to = states_step(&remote_rank_states, r->state, ev, "rank %d", r->rank);
    if (to >= 0)
        r->state = (enum remote_rank_state)to;
    return to >= 0;
}

void engine_remote_not_started(struct remote_rank *r, int status, bool node_fault, const char *why)
{
    struct remote_job *j = r->node->job;
    if (!engine_remote_apply_rank(r, REMOTE_RANK_EV_NOT_STARTED))
        return;
    for (int i = 0; i < REMOTE_STREAMS; i++)
        rank_output_close(TAKE(r->streams[i].output));
    j->ev.not_started(j->arg, r->rank, status, node_fault, why);
}

static bool all_are_reaped(const struct remote_job *j)
{
    for (int i = 0; i < j->plan->node_count; i++)
        if (!remote_node_is_cleared(&j->nodes[i]))
            return false;
    return true;
}

/* ---- the loop's next turn ------------------------------------------------------------------- */

static void check_reaped(struct remote_job *j)
{
    if (j->state == REMOTE_JOB_REAPING && all_are_reaped(j))
        engine_remote_apply(j, j->processes.job ? REMOTE_JOB_EV_REAPED : REMOTE_JOB_EV_REAPED_ALL);
    else if (j->state == REMOTE_JOB_RELEASING && !j->processes.job)
        engine_remote_apply(j, REMOTE_JOB_EV_LAUNCHER_REAPED);
}

/* Reports a failed start first, since a job in REAPING may wait for these reports. */
static void on_next_turn(uv_timer_t *t)
{
    struct remote_job *j = t->data;
    if (j->state == REMOTE_JOB_START_FAILING || j->state == REMOTE_JOB_ABORTING)
        engine_remote_apply(j, REMOTE_JOB_EV_NEXT_TURN);
    check_reaped(j);
}

static void schedule_next_turn(struct remote_job *j)
{
    if (!uv_is_active((uv_handle_t *)&j->next_turn))
        uv_timer_start(&j->next_turn, on_next_turn, 0, 0);
}

void engine_remote_check_reaped(struct remote_job *j)
{
    if (j->state == REMOTE_JOB_REAPING || j->state == REMOTE_JOB_RELEASING)
        schedule_next_turn(j);
}

void engine_remote_fail_start(struct remote_job *j, int node, int status, const char *fmt, ...)
{
    if (!remote_job_is_starting(j->state))
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(j->failure.text, sizeof j->failure.text, fmt, ap);
    va_end(ap);
    j->failure.node = node;
    j->failure.status = status;
    engine_remote_apply(j, REMOTE_JOB_EV_START_FAILED);
}

/* ---- what a state requires ------------------------------------------------------------------ */

static void report_not_started(struct remote_node *n)
{
    const struct remote_start_failure *f = &n->job->failure;
    bool node_fault = f->status == 126; /* no program was executed yet */
    for (int i = 0; i < n->rank_count; i++)
        if (n->ranks[i]->state != REMOTE_RANK_DONE)
            engine_remote_not_started(n->ranks[i], f->status, node_fault, f->text);
}

/* Reports all ranks as not started. The report of the first rank of the node to blame includes the
 * remote launcher's last lines, unless drover has explained the launcher's failure, or --verbose
 * has printed the lines. */
static void report_start_failure(struct remote_job *j)
{
    struct remote_node *blamed = &j->nodes[j->failure.node];
    int n = last_lines_count(j->processes.output);
    bool shown = j->processes.cause_known || log_shows(LOG_INFO);
    for (int i = n > SHOWN_LINES ? n - SHOWN_LINES : 0; i < n && !shown; i++) {
        size_t len;
        const char *line = last_lines_get(j->processes.output, i, &len);
        AUTO(free) char *text = xasprintf("%s: %s\n", j->launcher->program, line);
        (void)j->ev.line(j->arg, blamed->ranks[0]->rank, LAUNCH_STDERR, text, strlen(text) - 1);
    }
    j->failed = true;
    report_not_started(blamed);
    for (int i = 0; i < j->plan->node_count; i++)
        report_not_started(&j->nodes[i]);
}

/* The time for killing is over. An agent that has not answered has processes that even SIGKILL does
 * not end (a hung disk, a GPU). */
static void on_reap_limit(uv_timer_t *t)
{
    struct remote_job *j = t->data;
    for (int i = 0; i < j->plan->node_count; i++) {
        if (remote_node_is_cleared(&j->nodes[i]))
            continue;
        log_error("node %s: processes of its ranks do not end; the agent on that node is left with "
                  "them",
                  remote_node_host(&j->nodes[i]));
        remote_node_lose(&j->nodes[i], "its processes do not end");
    }
}

static void kill_trees(struct remote_job *j)
{
    uv_timer_start(&j->limit_timer, on_reap_limit, REAP_MS, 0);
    for (int i = 0; i < j->plan->node_count; i++)
        if (j->nodes[i].state == REMOTE_NODE_EXPECTED)
            remote_node_apply(&j->nodes[i], REMOTE_NODE_EV_GONE);
    remote_tree_broadcast(j, json_pack("{s:s}", "t", "kill_tree"), NULL, 0);
}

static void enter_aborting(struct remote_job *j)
{
    if (!j->failure.text[0])
        j->failure = (struct remote_start_failure){
            .text = STOPPED_EARLY, .node = j->plan->ranks[0].node, .status = 126};
    kill_trees(j);
    schedule_next_turn(j);
}

static void enter_start_failed(struct remote_job *j)
{
    uv_timer_stop(&j->limit_timer);
    report_start_failure(j);
}

static void enter_reaping(struct remote_job *j, enum remote_job_state from)
{
    if (from == REMOTE_JOB_ABORTING)
        report_start_failure(j); /* the agents were already told to kill */
    else
        kill_trees(j);
    engine_remote_check_reaped(j);
}

static void on_launcher_exit_limit(uv_timer_t *t)
{
    struct remote_job *j = t->data;
    log_debug("%s does not exit by itself",
              j->launcher->program ? j->launcher->program : "an agent");
    j->processes.job->ops->kill_tree(j->processes.job);
}

static void release_agents(struct remote_job *j)
{
    remote_start_stop_listening(j);
    remote_tree_broadcast(j, json_pack("{s:s}", "t", "exit_agent"), NULL, 0);
}

static void enter_releasing(struct remote_job *j)
{
    release_agents(j);
    if (j->processes.running == 0)
        j->processes.job->ops->kill_tree(j->processes.job);
    else
        uv_timer_start(
            &j->limit_timer, on_launcher_exit_limit,
            j->failed && j->launcher->lingers ? LAUNCHER_EXIT_FAILED_MS : LAUNCHER_EXIT_MS, 0);
}

static void enter_done(struct remote_job *j, enum remote_job_state from)
{
    if (from == REMOTE_JOB_REAPING)
        release_agents(j);
    uv_timer_stop(&j->limit_timer);
    j->ev.reaped(j->arg);
}

/* NEW, RESOLVING and MEETING have no action: remote_start_begin() performs theirs, since they may
 * fail. */
static void enter_state(struct remote_job *j, enum remote_job_state from)
{
    if (j->state == REMOTE_JOB_START_FAILING)
        schedule_next_turn(j);
    else if (j->state == REMOTE_JOB_ABORTING)
        enter_aborting(j);
    else if (j->state == REMOTE_JOB_START_FAILED)
        enter_start_failed(j);
    else if (j->state == REMOTE_JOB_RUNNING)
        remote_start_enter_running(j);
    else if (j->state == REMOTE_JOB_REAPING)
        enter_reaping(j, from);
    else if (j->state == REMOTE_JOB_RELEASING)
        enter_releasing(j);
    else if (j->state == REMOTE_JOB_DONE)
        enter_done(j, from);
}

bool engine_remote_apply(struct remote_job *j, enum remote_job_event ev)
{
    enum remote_job_state from = j->state;
    int to = states_step(&remote_job_states, from, ev, "job");
    if (to < 0)
        return false;
    j->state = (enum remote_job_state)to;
    if (!remote_job_is_starting(j->state))
        log_status(NULL);
    enter_state(j, from);
    return true;
}

/* ---- requests of the engine's user ---------------------------------------------------------- */

static void remote_signal(struct engine_job *job, int rank, int sig)
{
    struct remote_job *j = (struct remote_job *)job;
    bool ends =
        sig == SIGTERM || sig == SIGINT || sig == SIGQUIT || sig == SIGHUP || sig == SIGKILL;
    if (ends)
        engine_remote_fail_start(j, j->plan->ranks[0].node, 126, STOPPED_EARLY);
    if (j->state != REMOTE_JOB_RUNNING && j->state != REMOTE_JOB_REAPING)
        return;
    if (rank < 0)
        remote_tree_broadcast(j, json_pack("{s:s,s:i}", "t", "signal", "signal", sig), NULL, 0);
    else if (j->ranks[rank].state == REMOTE_RANK_STARTED)
        remote_tree_send(j->ranks[rank].node,
                         json_pack("{s:s,s:i,s:i}", "t", "signal", "rank", rank, "signal", sig),
                         NULL, 0);
}

static bool remote_request_stop(struct engine_job *job)
{
    struct remote_job *j = (struct remote_job *)job;
    bool any = false;
    for (int i = 0; i < j->plan->world_size && !any; i++)
        any = j->ranks[i].uses_report_channel && j->ranks[i].state != REMOTE_RANK_DONE;
    if (any)
        remote_tree_broadcast(j, json_pack("{s:s}", "t", "stop"), NULL, 0);
    return any;
}

static void remote_request_status(struct engine_job *job)
{
    struct remote_job *j = (struct remote_job *)job;
    if (j->state == REMOTE_JOB_RUNNING)
        remote_tree_broadcast(j, json_pack("{s:s}", "t", "status_request"), NULL, 0);
}

static void remote_request_stack(struct engine_job *job, int rank)
{
    struct remote_rank *r = &((struct remote_job *)job)->ranks[rank];
    if (r->state == REMOTE_RANK_STARTED)
        remote_tree_send(r->node, json_pack("{s:s,s:i}", "t", "stack", "rank", rank), NULL, 0);
}

static void remote_finish_output(struct engine_job *job, int rank)
{
    struct remote_rank *r = &((struct remote_job *)job)->ranks[rank];
    if (remote_node_has_agent(r->node->state))
        remote_tree_send(r->node, json_pack("{s:s,s:i}", "t", "finish_output", "rank", rank), NULL,
                         0);
    else
        remote_output_end(r);
}

static void remote_kill_tree(struct engine_job *job)
{
    struct remote_job *j = (struct remote_job *)job;
    if (states_next(&remote_job_states, j->state, REMOTE_JOB_EV_KILL_TREE) >= 0)
        engine_remote_apply(j, REMOTE_JOB_EV_KILL_TREE);
    else
        engine_remote_check_reaped(j);
}

/* ---- the job -------------------------------------------------------------------------------- */

void engine_remote_on_closed(uv_handle_t *h)
{
    struct remote_job *j = h->data;
    if (--j->open_handles > 0)
        return;
    strbuf_free(&j->rank_base_env);
    json_decref(j->job_head);
    strbuf_free(&j->job_payload);
    exchange_free(j->exchange);
    free(j->rank_nodes);
    strv_free(j->base_env);
    strv_free(j->candidates);
    strv_free(j->names);
    free(j->name_nodes);
    remote_processes_free(&j->processes);
    free(j->ranks);
    tree_members_free(j->members);
    topo_known_free(j->topos);
    free(j->nodes);
    free(j->ranks_by_node);
    free(j->hostfile);
    free(j->program);
    free(j);
}

static void remote_free(struct engine_job *job)
{
    struct remote_job *j = (struct remote_job *)job;
    remote_start_stop_listening(j);
    while (j->peers)
        remote_peers_drop(j->peers);
    for (int i = 0; i < j->plan->world_size; i++)
        for (int k = 0; k < REMOTE_STREAMS; k++)
            rank_output_close(j->ranks[i].streams[k].output);
    stdin_reader_close(j->stdin_reader);
    resolve_close(TAKE(j->resolve));
    engine_free(j->processes.job);
    session_dir_close(j->session_dir);
    uv_close((uv_handle_t *)&j->limit_timer, engine_remote_on_closed);
    uv_close((uv_handle_t *)&j->start_tick, engine_remote_on_closed);
    uv_close((uv_handle_t *)&j->exchange_timer, engine_remote_on_closed);
    uv_close((uv_handle_t *)&j->move_timer, engine_remote_on_closed);
    uv_close((uv_handle_t *)&j->processes.exit_timer, engine_remote_on_closed);
    uv_close((uv_handle_t *)&j->next_turn, engine_remote_on_closed);
}

static int make_token(struct remote_job *j, struct err *e)
{
    unsigned char random[REMOTE_TOKEN_HEX / 2];
    int rc = entropy_fill(random, sizeof random);
    if (rc < 0)
        return err_set(e, rc, "no random numbers for the token: %s", strerror(-rc));
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(j->token + 2 * i, 3, "%02x", random[i]);
    return 0;
}

static struct remote_job *new_job(struct engine *en, const struct engine_start_opts *o,
                                  const struct engine_ops *ops)
{
    struct remote_job *j = xzalloc(sizeof *j);
    j->job.ops = ops;
    j->listener_fd = -1;
    j->engine = en;
    j->loop = engine_loop(en);
    j->plan = o->plan;
    j->spec = o->spec;
    j->port_wanted = o->master_port;
    j->base_env = strv_copy(o->base_env);
    j->launcher = remote_launcher_find(o->plan->engine);
    AUTO(strv) char **own = remote_launcher_strip_env(o->base_env);
    node_spec_base_env(&j->rank_base_env, j->launcher->argv ? o->base_env : own);
    j->master_addr_given = env_user_value(o->base_env, o->spec->env, "MASTER_ADDR") != NULL;
    remote_node_make_all(j);
    remote_tree_open(j);
    remote_peers_open_exchange(j);
    remote_processes_open(j);
    uv_timer_init(j->loop, &j->limit_timer);
    uv_timer_init(j->loop, &j->start_tick);
    uv_timer_init(j->loop, &j->exchange_timer);
    uv_timer_init(j->loop, &j->move_timer);
    uv_timer_init(j->loop, &j->next_turn);
    j->limit_timer.data = j->exchange_timer.data = j->move_timer.data = j->next_turn.data = j;
    j->start_tick.data = j;
    j->open_handles = 6;
    return j;
}

char *engine_remote_join_ticket(const struct engine_job *job, const char **token)
{
    const struct remote_job *j = (const struct remote_job *)job;
    *token = j->token;
    return remote_start_addresses(j);
}

int engine_remote_start(struct engine_job **out, struct engine *en,
                        const struct engine_start_opts *o, const struct engine_events *ev,
                        void *arg, struct err *e)
{
    static const struct engine_ops ops = {
        remote_free,          remote_signal,         remote_request_stop, remote_output_resume,
        remote_finish_output, remote_request_status, remote_kill_tree,    NULL,
        remote_request_stack};
    struct remote_job *j = new_job(en, o, &ops);
    j->ev = *ev;
    j->arg = arg;
    int rc = make_token(j, e);
    for (int i = 0; rc == 0 && i < REMOTE_STREAMS * o->plan->world_size; i++)
        rc = remote_output_open(&j->ranks[i / REMOTE_STREAMS].streams[i % REMOTE_STREAMS], e);
    if (rc == 0)
        rc = remote_start_listen(j, e);
    if (rc == 0)
        rc = remote_start_begin(j, e);
    if (rc < 0) {
        remote_free(&j->job);
        return rc;
    }
    remote_start_limit(j);
    *out = &j->job;
    return 0;
}
