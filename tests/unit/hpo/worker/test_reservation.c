/* test_reservation - slots that are kept for another worker's trial: a real job whose agents they
 * start, and how they end. */
#include "hpo/worker/reservation.h"

#include "launcher/plan/hosts.h"
#include "tests/unit/kit_lease.h"

static struct reservation *newest;

static void on_done(void *arg)
{
    struct leases *t = arg;
    CHECK_INT(reservation_state(newest), RESERVATION_DONE);
    reservation_free(newest);
    t->done++;
}

static struct reservation *new_reservation(struct leases *t)
{
    return newest = reservation_new(&t->context, 9, on_done, t);
}

TEST(a_reservation_reports_its_slot_on_each_connection)
{
    struct leases t;
    leases_open(&t);
    struct reservation *r = new_reservation(&t);
    reservation_resend(r);
    CHECK_STR(strbuf_str(&t.sent), "");
    const struct node_slice slice = {.cpus = (char *)"0-3", .gpus = (char *)"GPU-1"};
    reservation_start(r, &slice);
    CHECK_INT(reservation_state(r), RESERVATION_RESERVED);
    reservation_resend(r);
    CHECK_STR(strbuf_str(&t.sent), "reserved 9 0 {\"cpus\":\"0-3\",\"gpus\":\"GPU-1\"}|"
                                   "reserved 9 0 {\"cpus\":\"0-3\",\"gpus\":\"GPU-1\"}|");
    leases_clear_sent(&t);
    reservation_stop(r);
    CHECK_INT(t.done, 1);
    CHECK_STR(strbuf_str(&t.sent), ""); /* the worker reports its slots */
    leases_close(&t);
}

TEST(a_reservation_that_has_no_slot_ends_when_it_is_stopped_or_preempted)
{
    struct leases t;
    leases_open(&t);
    const json_t *no_ticket = NULL;
    struct reservation *r = new_reservation(&t);
    reservation_join(r, no_ticket); /* ignored: it has no slot */
    reservation_stop(r);
    CHECK_INT(t.done, 1);
    CHECK_STR(strbuf_str(&t.sent), "");
    reservation_preempt(new_reservation(&t));
    CHECK_INT(t.done, 2);
    CHECK_STR(strbuf_str(&t.sent), "revoke 9 0 -|");
    leases_close(&t);
}

/* ---- with the agents of a job --------------------------------------------------------------- */

struct gang {
    struct leases t;
    struct heard *job;
    struct hosts *hosts;
    struct launch_node_resources part;
    char *argv[4];
    json_t *ticket;
    struct reservation *r;
};

/* A job that awaits one rank, and a reservation that has a slot for it. */
static void gang_open(struct gang *g, const char *text)
{
    memset(g, 0, sizeof *g);
    leases_open(&g->t);
    struct fixture *f = g->t.f;
    g->hosts = xzalloc(sizeof *g->hosts);
    hosts_add(g->hosts, topo_name(f->l->topo), 1, 0);
    g->hosts->at[0].here = true;
    struct launch_spec spec = script(1, g->argv, text);
    spec.hosts = g->hosts;
    spec.node_resources = &g->part;
    spec.engine = "external";
    g->job = begin(f, 0, &spec);
    const char *token = NULL;
    AUTO(free) char *address = launch_join_ticket(g->job->job, &token);
    g->ticket = json_pack("{s:s,s:s,s:i}", "address", address, "token", token, "node", 0);
    g->r = new_reservation(&g->t);
    reservation_start(g->r, &g->t.slice);
    leases_clear_sent(&g->t);
}

static void gang_close(struct gang *g)
{
    leases_close(&g->t);
    hosts_free(g->hosts);
    json_decref(g->ticket);
}

TEST(agents_join_the_job_and_the_slot_stays_reserved_until_the_trial_ends)
{
    struct gang g;
    gang_open(&g, "echo here");
    reservation_join(g.r, g.ticket);
    CHECK_INT(reservation_state(g.r), RESERVATION_JOINED);
    reservation_join(g.r, g.ticket); /* ignored: the agent runs */
    until_over(g.job);
    CHECK_STR(strbuf_str(&g.job->out), "0ohere|");
    while (reservation_state(g.r) != RESERVATION_IDLE)
        uv_run(&g.t.f->loop, UV_RUN_ONCE);
    reservation_join(g.r, g.ticket); /* ignored: once */
    reservation_resend(g.r);
    CHECK_STR(strbuf_str(&g.t.sent), "");
    CHECK_INT(g.t.done, 0);
    reservation_stop(g.r);
    CHECK_INT(g.t.done, 1);
    gang_close(&g);
}

TEST(a_slot_that_the_worker_needs_is_revoked_and_the_coordinator_ends_the_trial)
{
    struct gang g;
    gang_open(&g, "echo here; sleep 1000");
    reservation_join(g.r, g.ticket);
    until_heard(g.job, &g.job->out, "0ohere|");
    reservation_preempt(g.r);
    CHECK_INT(reservation_state(g.r), RESERVATION_REVOKING);
    reservation_preempt(g.r); /* ignored: it was sent */
    reservation_resend(g.r);
    CHECK_STR(strbuf_str(&g.t.sent), "revoke 9 0 -|revoke 9 0 -|");
    reservation_stop(g.r);
    CHECK_INT(reservation_state(g.r), RESERVATION_ENDING);
    reservation_resend(g.r);
    CHECK_STR(strbuf_str(&g.t.sent), "revoke 9 0 -|revoke 9 0 -|revoke 9 0 -|");
    leases_until_done(&g.t, 1);
    until_over(g.job);
    CHECK(g.job->end.first.lost);
    CHECK_INT(g.job->end.first_failed, 0);
    gang_close(&g);
}

TEST(a_stopped_reservation_kills_its_agents)
{
    struct gang g;
    gang_open(&g, "echo here; sleep 1000");
    reservation_join(g.r, g.ticket);
    until_heard(g.job, &g.job->out, "0ohere|");
    reservation_stop(g.r);
    CHECK_INT(reservation_state(g.r), RESERVATION_ENDING);
    reservation_stop(g.r);
    reservation_resend(g.r);
    CHECK_STR(strbuf_str(&g.t.sent), "");
    leases_until_done(&g.t, 1);
    until_over(g.job);
    gang_close(&g);
}

TEST(a_revoked_reservation_ends_with_its_agents)
{
    struct gang g;
    gang_open(&g, "echo here; sleep 1000");
    reservation_join(g.r, g.ticket);
    until_heard(g.job, &g.job->out, "0ohere|");
    reservation_preempt(g.r);
    launch_kill(g.job->job);
    leases_until_done(&g.t, 1);
    until_over(g.job);
    gang_close(&g);
}
