#include "hpo/worker/reservation.h"

#include "common/json.h"
#include "common/log.h"
#include "launcher/node/cgroup.h"

struct reservation {
    const struct lease_context *context;
    int64_t id;
    enum reservation_state state;
    lease_done_fn *done;
    void *arg;
    const struct node_slice *slice; /* NULL: none yet */
    char *cgroup;                   /* NULL: none */
    struct agent_spawn *agent;      /* NULL: none runs */
    bool revoked; /* WIRE_REVOKE was sent; it is sent again on each new connection */
};

struct reservation *reservation_new(const struct lease_context *c, int64_t id, lease_done_fn *done,
                                    void *arg)
{
    struct reservation *r = xzalloc(sizeof *r);
    r->context = c;
    r->id = id;
    r->done = done;
    r->arg = arg;
    return r;
}

void reservation_free(struct reservation *r)
{
    if (!r)
        return;
    agent_spawn_free(r->agent);
    free(r->cgroup);
    free(r);
}

enum reservation_state reservation_state(const struct reservation *r)
{
    return r->state;
}

/* ---- states --------------------------------------------------------------------------------- */

/* Returns false if the event has no meaning in the present state. */
static bool apply(struct reservation *r, enum reservation_event ev)
{
    int next = states_step(&reservation_states, r->state, ev, "reservation %lld", (long long)r->id);
    if (next >= 0)
        r->state = (enum reservation_state)next;
    return next >= 0;
}

static void enter_reserved(const struct reservation *r)
{
    AUTO(json)
    json_t *data = json_pack("{s:s*,s:s*}", "cpus", r->slice->cpus, "gpus", r->slice->gpus);
    lease_context_send(r->context, WIRE_RESERVED, r->id, data);
}

/* `r` may be freed when this returns. */
static void enter_done(struct reservation *r)
{
    cgroup_delegate_remove(r->cgroup);
    r->done(r->arg);
}

/* ---- events --------------------------------------------------------------------------------- */

void reservation_start(struct reservation *r, const struct node_slice *slice)
{
    r->slice = slice;
    if (apply(r, RESERVATION_EV_SLOT))
        enter_reserved(r);
}

static void on_agent_ended(void *arg)
{
    struct reservation *r = arg;
    agent_spawn_free(TAKE(r->agent));
    if (apply(r, RESERVATION_EV_AGENT_ENDED) && r->state == RESERVATION_DONE)
        enter_done(r);
}

void reservation_join(struct reservation *r, const json_t *ticket)
{
    if (r->state != RESERVATION_RESERVED)
        return;
    if (!r->cgroup)
        r->cgroup = lease_context_make_cgroup(r->context, r->id);
    const struct agent_spawn_opts agent = lease_context_agent(ticket, r->cgroup);
    struct err e = {0};
    int rc = agent_spawn_start(&r->agent, r->context->launcher, &agent, on_agent_ended, r, &e);
    if (rc < 0)
        log_error("lease %lld: %s", (long long)r->id, e.text);
    (void)apply(r, rc < 0 ? RESERVATION_EV_NOT_JOINED : RESERVATION_EV_JOINED);
}

void reservation_resend(const struct reservation *r)
{
    if (r->revoked)
        lease_context_send(r->context, WIRE_REVOKE, r->id, NULL);
    else if (r->state == RESERVATION_RESERVED)
        enter_reserved(r);
}

void reservation_preempt(struct reservation *r)
{
    if (!apply(r, RESERVATION_EV_PREEMPT))
        return;
    r->revoked = true;
    lease_context_send(r->context, WIRE_REVOKE, r->id, NULL);
    if (r->state == RESERVATION_DONE)
        enter_done(r);
}

void reservation_stop(struct reservation *r)
{
    if (!apply(r, RESERVATION_EV_STOP))
        return;
    if (r->state == RESERVATION_ENDING)
        agent_spawn_kill(r->agent);
    else
        enter_done(r);
}
