/* coordinator_messages - one handler per kind of message from workers. */
#include <unistd.h>

#include "common/json.h"
#include "common/log.h"
#include "hpo/coordinator/coordinator_internal.h"
#include "hpo/worker/leftovers.h"

enum { GATHER_MS = 4 /* that a report may wait for the commit */ };

/* ---- messages of workers -------------------------------------------------------------------- */

/* A report, or the end of a lease. Another sweep that was in this directory had leases of the same
 * numbers. */
static void on_numbered(struct coordinator *c, const char *worker, const struct wire_msg *m)
{
    if (m->instance != c->opts->dir->instance) {
        log_warn("worker %s: dropped a '%s' of another sweep that was here", worker,
                 wire_kind_name(m->kind));
        return;
    }
    enum message_dedup_verdict verdict = message_dedup_check(&c->dedup, m->lease, m->seq);
    if (verdict == MESSAGE_DEDUP_GAP) {
        commit_batch_request_reconnect(&c->batch, worker); /* it sends all again then */
        return;
    }
    enum scheduler_event_kind kind = m->kind == WIRE_DONE ? SCHEDULER_EV_DONE : SCHEDULER_EV_REPORT;
    if (verdict == MESSAGE_DEDUP_NEW)
        coordinator_step(c, &(struct scheduler_event){kind, worker, m->lease, m->data}, m->seq);
    commit_batch_ack(&c->batch, worker, m->lease, m->seq);
}

/* The worker ends, or begins anew: with its first connection, maybe under the same id. */
static void refuse(struct coordinator *c, const char *worker)
{
    struct err e = {0};
    const struct wire_msg answer = {.kind = WIRE_FOREIGN};
    log_warn("worker %s has served another sweep that was here: its results are refused", worker);
    if (transport_server_send(c->server, worker, &answer, &e) < 0)
        coordinator_fail(c, &e);
    transport_server_forget(c->server, worker);
}

static void on_hello(struct coordinator *c, const char *worker, const struct wire_msg *m)
{
    struct err e = {0};
    if (m->instance && m->instance != c->opts->dir->instance) {
        refuse(c, worker);
        return;
    }
    local_worker_hello(c->local, worker);
    /* A list of thousands takes long to write, and their connections are renewed frequently. */
    c->roster.changed |= !peer_table_find(transport_server_peers(c->server), worker)->renewed;
    struct wire_msg answer = {.kind = WIRE_DRAIN};
    if (!c->end_reason) {
        coordinator_step(c, &(struct scheduler_event){SCHEDULER_EV_HELLO, worker, 0, m->data}, 0);
        answer = (struct wire_msg){.kind = WIRE_REQUIREMENTS,
                                   .instance = c->opts->dir->instance,
                                   .data = resources_json(&c->opts->spec->need)};
        json_object_set_new(answer.data, "sweep", json_string(c->opts->dir->name));
    }
    if (transport_server_send(c->server, worker, &answer, &e) < 0)
        coordinator_fail(c, &e);
    wire_msg_clear(&answer);
}

static void on_slots(struct coordinator *c, const char *worker, const struct wire_msg *m)
{
    const char *reason = json_string_value(json_object_get(m->data, "why"));
    if (reason)
        log_warn("worker %s: %s", worker, reason);
    c->roster.changed = true;
    coordinator_step(c, &(struct scheduler_event){SCHEDULER_EV_SLOTS, worker, 0, m->data}, 0);
}

/* If the trial already runs, this worker has missed the WIRE_JOIN_TICKET, which only the trial's
 * launcher can send again. */
static void on_reserved(struct coordinator *c, const char *worker, const struct wire_msg *m)
{
    const char *runner = scheduler_runner(c->sched, worker, m->lease);
    if (runner)
        commit_batch_request_reconnect(&c->batch, runner);
    coordinator_step(c, &(struct scheduler_event){SCHEDULER_EV_RESERVED, worker, m->lease, m->data},
                     0);
}

static void remove_worker(struct coordinator *c, const char *worker)
{
    transport_server_mark_lost(c->server, worker);
    c->roster.changed = true;
    coordinator_step(c, &(struct scheduler_event){SCHEDULER_EV_LOST, worker, 0, NULL}, 0);
    coordinator_stop_if_alone(c);
}

/* A worker that has said goodbye has ended as well, and so has each one after the sweep's end. */
void coordinator_lose(struct coordinator *c, const char *worker)
{
    const struct peer *p = peer_table_find(transport_server_peers(c->server), worker);
    c->totals.workers_lost += p && !p->lost && !c->end_reason && !c->signal;
    remove_worker(c, worker);
}

void coordinator_on_message(void *arg, const char *worker, const struct wire_msg *m)
{
    struct coordinator *c = arg;
    if (m->kind == WIRE_HELLO)
        on_hello(c, worker, m);
    else if (m->kind == WIRE_SLOTS)
        on_slots(c, worker, m);
    else if (m->kind == WIRE_LEAVING)
        coordinator_step(c, &(struct scheduler_event){SCHEDULER_EV_LEAVING, worker, 0, NULL}, 0);
    else if (m->kind == WIRE_BYE)
        remove_worker(c, worker);
    else if (m->kind == WIRE_RESERVED)
        on_reserved(c, worker, m);
    else if (m->kind == WIRE_REVOKE)
        coordinator_step(c, &(struct scheduler_event){SCHEDULER_EV_REVOKED, worker, m->lease, NULL},
                         0);
    else if (m->kind == WIRE_TESTED)
        coordinator_step(c, &(struct scheduler_event){SCHEDULER_EV_TESTED, worker, 0, m->data}, 0);
    else if (m->kind == WIRE_JOIN_TICKET)
        worker_roster_forward_ticket(c->server, scheduler_gang_members(c->sched, worker, m->lease),
                                     m);
    else
        on_numbered(c, worker, m);
}

/* Acknowledgements wait for further messages, and for the end of the lease that often follows a
 * report: the cost of a commit is the disk's latency, not the size of the commit. */
void coordinator_on_batch_end(void *arg)
{
    struct coordinator *c = arg;
    if (c->batch.effect_count > c->batch.ack_count || c->end_reason || c->error.code)
        coordinator_finish_batch(c);
    else if (!uv_is_active((uv_handle_t *)&c->gather))
        uv_timer_start(&c->gather, coordinator_on_gathered, GATHER_MS, 0);
}

/* ---- leftovers ------------------------------------------------------------------------------ */

struct leftovers_of { /* a worker that has exited */
    struct coordinator *c;
    const char *worker;
};

static void on_leftover(void *arg, const struct wire_msg *m)
{
    const struct leftovers_of *of = arg;
    on_numbered(of->c, of->worker, m);
}

void coordinator_read_leftovers(struct coordinator *c, const char *id)
{
    struct leftovers_of of = {c, id};
    if (!leftovers_read(c->leftovers, on_leftover, &of))
        return;
    coordinator_finish_batch(c);
    if (c->error.code == 0)
        (void)unlink(c->leftovers); /* reading it twice does no harm */
}
