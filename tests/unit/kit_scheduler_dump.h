/* kit_scheduler_dump - the state of a scheduler that its records determine, to compare it. */
#pragma once

#include "common/json.h"
#include "hpo/scheduler/scheduler_internal.h"

static json_t *dump_points(const struct trial *t)
{
    json_t *list = json_array();
    for (const struct trial_point *p = t->curve.points; p < t->curve.points + t->curve.count; p++)
        json_array_append_new(list, json_pack("[f,f]", p->step, p->value));
    return list;
}

static json_t *dump_trial(const struct trial *t)
{
    json_t *o =
        json_pack("{s:i, s:s, s:O, s:I, s:s?, s:s?, s:s?, s:i, s:I, s:i, s:O, s:f, s:s?, s:O?}",
                  "id", t->id, "state", trial_state_name(t->state), "params", t->params, "lease",
                  (json_int_t)t->lease, "worker", t->worker, "node", t->node, "why",
                  trial_stop_word(t), "tries_spent", t->tries_spent, "points_lease",
                  (json_int_t)t->points_lease, "lease_reports", t->lease_reports, "metrics",
                  t->metrics, "seconds", t->seconds, "error", t->error, "with", t->gang_workers);
    json_object_set_new(o, "last_step", json_number(t->last_step));
    json_object_set_new(o, "points", dump_points(t));
    json_object_set_new(o, "best", json_number(t->curve.best));
    json_object_set_new(o, "times",
                        json_pack("[I,I,I]", (json_int_t)t->created_ms, (json_int_t)t->leased_ms,
                                  (json_int_t)t->ended_ms));
    return o;
}

static json_t *dump_ints(const int *v, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer(v[i]));
    return list;
}

static json_t *sweep_state_dump(const struct sweep_state *st)
{
    json_t *trials = json_array();
    for (size_t i = 0; i < st->count; i++)
        json_array_append_new(trials, dump_trial(st->trials[i]));
    return json_pack("{s:o, s:o, s:o, s:o, s:b, s:b, s:b, s:b, s:i, s:i, s:O?}", "trials", trials,
                     "leases", dump_ints(st->lease_trial, st->lease_count), "out",
                     dump_ints(st->active, st->active_count), "counts",
                     dump_ints(st->counts, TRIAL_STATES), "target_hit", st->target_hit, "paused",
                     st->asked.paused, "stopped", st->asked.stopped, "now", st->asked.now, "added",
                     st->added, "raised", st->asked.raised, "asked", st->commands);
}

/* New reference. */
static json_t *scheduler_dump(const struct scheduler *s)
{
    json_t *busy = json_object();
    for (size_t i = 0; i < s->worker_count; i++)
        if (s->workers[i]->busy > 0)
            json_object_set_new(busy, s->workers[i]->id, json_integer(s->workers[i]->busy));
    return json_pack("{s:o, s:o}", "state", sweep_state_dump(&s->st), "busy", busy);
}
