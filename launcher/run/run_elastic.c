#include "launcher/run/run_elastic.h"

#include "common/log.h"
#include "launcher/elastic/elastic_state.h"
#include "launcher/elastic/rdzv_client.h"

struct run_elastic {
    struct run_elastic_opts opts;
    struct run_elastic_events ev;
    void *arg;
    struct rdzv_client *client;
    char *master_addr; /* the spec points to it */
    enum elastic_state state;
    bool peer_failed; /* why the server stopped the last attempt: true if a peer failed, false if
                         one joined */
    bool by_user;     /* the user stopped the ranks that ended last */
};

/* Changes the state. Returns false if the event has no meaning in the present state. */
static bool apply(struct run_elastic *m, enum elastic_event ev)
{
    int next = states_step(&elastic_states, m->state, ev, "rendezvous");
    if (next >= 0)
        m->state = (enum elastic_state)next;
    return next >= 0;
}

/* Does the same as apply() for an event that comes from the server. If the event has no meaning in
 * the present state, the server is faulty. */
static bool apply_frame(struct run_elastic *m, enum elastic_event ev, const char *frame)
{
    bool due = apply(m, ev);
    if (!due)
        log_warn("rendezvous: unexpected '%s' (dropped)", frame);
    return due;
}

static void print(const struct run_elastic *m, const char *reason, const char *effect)
{
    AUTO(free) char *text = xasprintf("%s: %s%s\n", m->opts.run->program, reason, effect);
    console_print(m->opts.console, text);
}

/* ---- events of the rendezvous --------------------------------------------------------------- */

static void on_assigned(void *arg, const struct rdzv_client_assignment *a)
{
    struct run_elastic *m = arg;
    if (!apply_frame(m, ELASTIC_EV_ASSIGNED, "assignment"))
        return;
    struct launch_spec *s = &m->opts.run->spec;
    free(m->master_addr);
    m->master_addr = xstrdup(a->master_addr);
    s->external_part = (struct launch_external_part){a->nodes, a->node, m->master_addr,
                                                     a->first_rank, a->world_size};
    s->node.master_port = a->master_port;
    m->ev.assigned(m->arg);
}

/* Handles a stop that arrives after all ranks of this node have succeeded. */
static void stopped_after_success(struct run_elastic *m, const char *reason)
{
    if (m->peer_failed) {
        print(m, reason, "");
        m->ev.peers_failed(m->arg);
    } else if (m->by_user) {
        m->ev.over(m->arg, false);
    } else {
        run_elastic_join(m);
    }
}

static void on_stop(void *arg, bool failure, const char *reason)
{
    struct run_elastic *m = arg;
    enum elastic_state from = m->state;
    m->peer_failed = failure;
    if (!apply(m, !failure && m->by_user ? ELASTIC_EV_STOP_LAST : ELASTIC_EV_STOP))
        return;
    if (from == ELASTIC_RUNNING) {
        print(m, reason, ": stopping the ranks of this node");
        m->ev.stop(m->arg);
    } else if (from == ELASTIC_SUCCEEDED) {
        stopped_after_success(m, reason);
    } else if (from == ELASTIC_FAILED_LEAVING) {
        m->ev.over(m->arg, false); /* the server has confirmed: all peers know of the failure */
    }
}

static void on_job_done(void *arg)
{
    struct run_elastic *m = arg;
    if (apply_frame(m, ELASTIC_EV_JOB_DONE, "job_done"))
        m->ev.over(m->arg, true);
}

static void on_lost(void *arg, const struct err *e)
{
    struct run_elastic *m = arg;
    enum elastic_state from = m->state;
    if (!apply(m, ELASTIC_EV_LOST))
        return;
    err_print(e, m->opts.run->program);
    if (from == ELASTIC_RUNNING)
        m->ev.stop(m->arg);
    else if (from != ELASTIC_STOPPING) /* otherwise the ranks have not ended yet */
        m->ev.over(m->arg, false);
}

/* ---- the ranks of this node ----------------------------------------------------------------- */

bool run_elastic_was_stopped(const struct run_elastic *m)
{
    return m && (m->state == ELASTIC_STOPPING || m->state == ELASTIC_LOST);
}

bool run_elastic_attempt_failed(const struct run_elastic *m, const char *failure)
{
    return m->state == ELASTIC_RUNNING ? failure != NULL
                                       : m->state == ELASTIC_STOPPING && m->peer_failed;
}

enum run_elastic_next run_elastic_ranks_ended(struct run_elastic *m, const char *failure,
                                              bool by_user, bool restart_due, bool final)
{
    enum elastic_state from = m->state;
    /* Ranks end only in states that have a row for this event. */
    (void)apply(m, !failure      ? ELASTIC_EV_RANKS_SUCCEEDED
                   : restart_due ? ELASTIC_EV_RANKS_FAILED
                                 : ELASTIC_EV_RANKS_FAILED_LAST);
    if (from == ELASTIC_RUNNING) {
        m->by_user = by_user;
        rdzv_client_ranks_ended(m->client, !failure, failure ? failure : "", final);
        return restart_due ? RUN_ELASTIC_RESTART : RUN_ELASTIC_AWAIT_PEERS;
    }
    if (from == ELASTIC_LOST || (by_user && !m->peer_failed))
        return RUN_ELASTIC_LAST;
    if (!m->peer_failed)
        return RUN_ELASTIC_REJOIN;
    return restart_due ? RUN_ELASTIC_RESTART : RUN_ELASTIC_LAST;
}

void run_elastic_join(struct run_elastic *m)
{
    struct err e = {0};
    if (!apply(m, ELASTIC_EV_JOIN))
        return;
    if (rdzv_client_join(m->client, &e) < 0)
        on_lost(m, &e);
}

/* ---- open and close ------------------------------------------------------------------------- */

/* Sets `*out` to the number of ranks of this node. This is the number that a job on this node alone
 * would have. */
static int count_ranks(int *out, const struct launch_spec *s, const struct topo *t, struct err *e)
{
    AUTO(plan) struct plan *p = NULL;
    int rc = plan_make(&p, s, t, environ, e);
    if (rc == 0)
        *out = p->world_size;
    return rc;
}

int run_elastic_open(struct run_elastic **out, uv_loop_t *loop, const struct run_elastic_opts *o,
                     const struct run_elastic_events *events, void *arg, struct err *e)
{
    static const struct rdzv_client_events client_events = {
        .assigned = on_assigned, .stop = on_stop, .job_done = on_job_done, .failed = on_lost};
    AUTO(run_elastic) struct run_elastic *m = xzalloc(sizeof *m);
    m->opts = *o;
    m->ev = *events;
    m->arg = arg;
    struct rdzv_client_opts opts = *o->run->rdzv;
    opts.name = topo_name(o->topo);
    int rc = count_ranks(&opts.ranks, &o->run->spec, o->topo, e);
    if (rc == 0)
        rc = rdzv_client_open(&m->client, loop, &opts, &client_events, m, e);
    if (rc < 0)
        return rc;
    *out = TAKE(m);
    return 0;
}

void run_elastic_close(struct run_elastic *m)
{
    if (!m)
        return;
    rdzv_client_close(m->client);
    free(m->master_addr);
    free(m);
}
