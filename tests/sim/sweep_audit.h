/* sweep_audit - checks the records and actions of the scheduler, without looking inside. For
 * test_sweep_sim.c. */
#pragma once

#include "tests/sim/sweep_world.h"

static int index_of(const char *id)
{
    return atoi(id + 1);
}

/* The i-th worker that has the trial; -1: there are no more. */
static int holder(int trial, int i)
{
    const struct audit *a = &m.audit;
    const char *id = json_string_value(json_array_get(a->gang_workers[trial], (size_t)(i - 1)));
    return i == 0 ? a->held_by_lease[trial] - 1 : id ? index_of(id) : -1;
}

/* The trial acquires all its slots, or releases them. */
static void audit_slots(int trial, int by)
{
    struct audit *a = &m.audit;
    for (int i = 0, w; (w = holder(trial, i)) >= 0; i++) {
        for (int k = 0; k < i; k++)
            if (holder(trial, k) == w)
                bad("worker %d has two slots for trial %d", w, trial);
        a->held[w] += by;
        if (by > 0 && a->held[w] > m.workers[w].known_slots)
            bad("worker %d holds %d trials on %d slots", w, a->held[w], m.workers[w].known_slots);
    }
}

/* No worker runs a trial over several nodes before its slots are reserved. */
static void audit_run(const struct scheduler_action *a)
{
    bool *ran = &m.audit.ran[a->lease];
    if (*ran || a->lease > m.audit.leases)
        bad("lease %lld is run twice, or was not given", (long long)a->lease);
    if ((int)json_array_size(a->gang_nodes) + 1 != m.spec->need.nodes)
        bad("lease %lld is run with %zu others", (long long)a->lease,
            json_array_size(a->gang_nodes));
    *ran = true;
    for (int i = 1, w; !m.faults && (w = holder(a->trial, i)) >= 0; i++) {
        const struct job *j = job_of(&m.workers[w], a->lease);
        const json_t *other = json_array_get(a->gang_nodes, (size_t)(i - 1));
        const json_t *slot = json_object_get(other, "resources");
        if (!j || !j->hold || json_integer_value(json_object_get(slot, "cpus")) != w)
            bad("lease %lld is run, but worker %d holds no slot", (long long)a->lease, w);
    }
}

static void audit_lease(const struct scheduler_record *r)
{
    struct audit *a = &m.audit;
    int w = index_of(json_string_value(json_object_get(r->data, "worker")));
    if (r->lease != ++a->leases)
        bad("lease %lld is given out of order", (long long)r->lease);
    if (a->held_by_lease[r->trial] || a->ended[r->trial])
        bad("trial %d is leased while it runs, or after its end", r->trial);
    if (a->paused || a->stopped)
        bad("trial %d is leased in a sweep that is paused or stopped", r->trial);
    a->held_by_lease[r->trial] = w + 1;
    json_decref(a->gang_workers[r->trial]);
    a->gang_workers[r->trial] = json_incref(json_object_get(r->data, "with"));
    if ((int)json_array_size(a->gang_workers[r->trial]) + 1 != m.spec->need.nodes)
        bad("trial %d is leased to %zu workers, not to %d", r->trial,
            json_array_size(a->gang_workers[r->trial]) + 1, m.spec->need.nodes);
    audit_slots(r->trial, 1);
    if (++a->out > m.spec->parallel && m.spec->parallel)
        bad("%d trials run at once, not %d", a->out, m.spec->parallel);
}

/* No retry is spent, and no trial fails, because a node is ill. */
static void audit_node_fault(const struct scheduler_record *r)
{
    const char *error = json_string_value(json_object_get(r->data, "error"));
    bool by_node = error && strcmp(error, ill_text) == 0;
    if (by_node &&
        (r->kind != SCHEDULER_REC_REQUEUED || json_is_true(json_object_get(r->data, "spent"))))
        bad("trial %d pays for the fault of a node", r->trial);
}

static int lacks; /* of all seeds */

/* The sweep ends because no worker can start a trial: it has a cause, and that is true. */
static void audit_lacking(const char *cause)
{
    int well = 0;
    lacks++;
    if (!strstr(cause, ill_text) && !strstr(cause, "self-test"))
        bad("no worker is left, without a cause: %s", cause);
    for (int i = 0; i < m.worker_count; i++)
        well += m.workers[i].alive && m.workers[i].known_conn >= 0 && !m.workers[i].was_ill;
    if (well >= m.nodes)
        bad("no worker is left, but %d were never ill", well);
}

static int pauses, aheads, asks_taken, trials_retried; /* of all seeds */

static void audit_ask(const json_t *ask)
{
    struct audit *a = &m.audit;
    const char *verb = json_string_value(json_object_get(ask, "verb"));
    asks_taken++;
    if (strcmp(verb, "pause") == 0) {
        a->paused = true;
        return;
    }
    a->paused = a->paused && strcmp(verb, "resume") != 0;
    a->stopped = strcmp(verb, "stop") == 0 || (a->stopped && strcmp(verb, "cancel") == 0);
}

static void audit_created(const struct scheduler_record *r)
{
    struct audit *a = &m.audit;
    AUTO(free) char *params = json_line(json_object_get(r->data, "params"));
    bool added = json_is_true(json_object_get(r->data, "added"));
    if (r->trial != a->created++)
        bad("trial %d is created out of order", r->trial);
    if (a->stopped && !added)
        bad("trial %d is created in a sweep that is stopped", r->trial);
    const json_t *same = json_object_get(a->params, params);
    if (same && !added)
        bad("trials %lld and %d are the same", (long long)json_integer_value(same), r->trial);
    json_object_set_new(a->params, params, json_integer(r->trial));
}

static void audit_record(const struct scheduler_record *r)
{
    struct audit *a = &m.audit;
    if (r->kind == SCHEDULER_REC_COMMAND) {
        audit_ask(r->data);
        return;
    }
    if (r->trial < 0 || r->trial >= TRIALS_MAX || r->at_ms != m.now)
        bad("a record of trial %d at %lld", r->trial, (long long)r->at_ms);
    int *runs = &a->held_by_lease[r->trial];
    audit_node_fault(r);
    if (r->kind == SCHEDULER_REC_CREATED) {
        audit_created(r);
    } else if (r->kind == SCHEDULER_REC_RETRIED) {
        if (!a->ended[r->trial])
            bad("trial %d is retried, but has not ended", r->trial);
        a->ended[r->trial] = 0;
        trials_retried++;
    } else if (r->kind == SCHEDULER_REC_LEASED) {
        audit_lease(r);
    } else if (r->kind == SCHEDULER_REC_REQUEUED || r->kind == SCHEDULER_REC_ENDED ||
               r->kind == SCHEDULER_REC_PAUSED) {
        if (a->ended[r->trial] || (r->kind != SCHEDULER_REC_ENDED && !*runs))
            bad("trial %d ends twice, or goes back without having been out", r->trial);
        pauses += r->kind == SCHEDULER_REC_PAUSED;
        a->ended[r->trial] = r->kind == SCHEDULER_REC_ENDED;
        if (*runs) {
            audit_slots(r->trial, -1);
            a->out--;
        }
        *runs = 0;
    } else if (a->ended[r->trial]) {
        bad("a record of trial %d after its end", r->trial);
    }
}
