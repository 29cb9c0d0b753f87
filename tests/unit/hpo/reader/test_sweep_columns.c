/* test_sweep_columns - the columns say what the scheduler says, for every log. */
#include "hpo/reader/sweep_columns.h"

#include <errno.h>
#include <math.h>

#include "common/json.h"
#include "common/rng.h"
#include "hpo/scheduler/scheduler.h"
#include "hpo/store/stored_sweep.h"
#include "tests/unit/test.h"

static const char sweep[] =
    "method: random\nprogram: t.sh\nmetrics: [{name: loss}, {name: acc, goal: maximize}]\n"
    "parameters:\n"
    "  lr: {min: 0.0, max: 1.0}\n"
    "  act: {values: [relu, 'a \"b\"', 3, 1.5, true, [1, 2]]}\n"
    "  opt: {parameters: {beta: {min: 0.0, max: 1.0}, name: {values: [sgd, adam]}}}\n";

static struct spec *spec_of(const char *text)
{
    struct spec *s = NULL;
    struct err e = {0};
    if (stored_sweep_spec(&s, text, "s.yaml", &e) < 0)
        FAIL("%s", e.text);
    return s;
}

struct walk {
    struct rng rng;
    struct scheduler *sched;
    struct sweep_columns *columns;
    int64_t seq, leases;
    int trials;
    int applied;
};

static json_t *params(struct rng *r)
{
    static const char *const acts[] = {"\"relu\"", "\"a \\\"b\\\"\"",  "3",   "1.5", "true",
                                       "[1,2]",    "9007199254740993", "null"};
    AUTO(free)
    char *text = xasprintf("{\"lr\":%.17g,\"act\":%s,\"opt\":{\"beta\":%.17g,\"name\":\"%s\"},"
                           "\"odd.name\":%d}",
                           rng_unit(r), acts[rng_below(r, COUNT_OF(acts))], rng_unit(r),
                           rng_below(r, 2) ? "sgd" : "adam", (int)rng_below(r, 5));
    return json_loads(text, 0, NULL);
}

static json_t *data_of(struct walk *w, enum scheduler_record_kind kind)
{
    static const char *const ends[] = {"done",    "failed",    "pruned", "oom",
                                       "invalid", "cancelled", "running"};
    static const char *const verbs[] = {"stop", "pause", "resume", "add", "retry", "cancel"};
    struct rng *r = &w->rng;
    json_t *values = NULL;
    switch (kind) {
    case SCHEDULER_REC_CREATED:
        return json_pack("{s:o, s:b}", "params", params(r), "added", rng_below(r, 4) == 0);
    case SCHEDULER_REC_LEASED:
        return json_pack("{s:s, s:s}", "worker", rng_below(r, 2) ? "a.1" : "b.2", "node", "c\"1");
    case SCHEDULER_REC_REPORT:
        values = json_object();
        if (rng_below(r, 5))
            json_object_set_new(values, "loss", json_number(rng_below(r, 9) ? rng_unit(r) : NAN));
        if (rng_below(r, 3) == 0)
            json_object_set_new(values, "acc", json_integer((json_int_t)rng_below(r, 100)));
        if (rng_below(r, 3) == 0)
            json_object_set_new(values, "val/x \"q\"", json_number(-INFINITY));
        return json_pack("{s:o, s:o}", "step", json_number((double)rng_below(r, 12)), "values",
                         values);
    case SCHEDULER_REC_ENDED:
        return json_pack("{s:s, s:n, s:f, s:s*, s:s*}", "state", ends[rng_below(r, COUNT_OF(ends))],
                         "value", "seconds", rng_unit(r), "error",
                         rng_below(r, 3) ? NULL : "exit \"1\"\n", "why",
                         rng_below(r, 3) ? NULL : "stop");
    case SCHEDULER_REC_COMMAND:
        return json_pack("{s:s, s:s}", "ask", "x", "verb", verbs[rng_below(r, COUNT_OF(verbs))]);
    default:
        return json_pack("{s:s, s:f, s:b, s:s*}", "why", rng_below(r, 2) ? "lost" : "median",
                         "seconds", rng_unit(r), "spent", 1, "error",
                         rng_below(r, 2) ? "lost it" : NULL);
    }
}

/* Gives a random record, which may contradict the others, to both. They agree whether it does. */
static void step(struct walk *w)
{
    enum scheduler_record_kind kind = rng_below(&w->rng, SCHEDULER_REC_KINDS);
    struct scheduler_record r = {.kind = kind, .at_ms = 1000 + w->seq};
    if (kind == SCHEDULER_REC_COMMAND) {
        r.trial = -1;
    } else if (kind == SCHEDULER_REC_CREATED) {
        r.trial = w->trials + (rng_below(&w->rng, 20) == 0);
    } else {
        r.trial = (int)rng_below(&w->rng, (uint64_t)w->trials + 1);
        if (r.trial < w->trials)
            r.lease = scheduler_view(w->sched).trials[r.trial]->lease;
        if (kind == SCHEDULER_REC_LEASED)
            r.lease = w->leases + 1;
        r.lease += rng_below(&w->rng, 20) == 0;
    }
    AUTO(json) json_t *data = data_of(w, kind);
    AUTO(free) char *text = json_dumps(data, JSON_COMPACT);
    r.data = data;
    struct event_store_row row = {.seq = w->seq + 1,
                                  .at_ms = r.at_ms,
                                  .kind = kind,
                                  .trial = r.trial,
                                  .lease = r.lease,
                                  .data = text,
                                  .len = strlen(text)};
    struct err e = {0}, why = {0};
    int rc = scheduler_replay(w->sched, &r, &e), got = sweep_columns_record(w->columns, &row, &why);
    if ((rc < 0) != (got < 0))
        FAIL("%s: scheduler %s, columns %s", text, e.text, why.text);
    if (rc < 0)
        return;
    w->seq++;
    w->applied++;
    w->trials += kind == SCHEDULER_REC_CREATED;
    w->leases += kind == SCHEDULER_REC_LEASED;
}

static void compare(struct walk *w)
{
    CHECK_INT(w->columns->count, w->trials);
    CHECK_INT(sweep_columns_best(w->columns), scheduler_best(w->sched));
    CHECK_INT(w->columns->commands.paused, scheduler_is_paused(w->sched));
    CHECK_INT(w->columns->commands.stopped, scheduler_is_stopped(w->sched));
    struct scheduler_counts c = scheduler_counts(w->sched);
    CHECK_INT(w->columns->states[TRIAL_DONE], c.done);
    CHECK_INT(w->columns->states[TRIAL_WAITING], c.waiting);
    for (int i = 0; i < w->trials; i++) {
        AUTO(json) json_t *want = scheduler_trial_json(w->sched, i);
        AUTO(json) json_t *got = sweep_columns_trial_json(w->columns, (size_t)i);
        AUTO(free) char *a = json_dumps(want, JSON_SORT_KEYS), *b = json_dumps(got, JSON_SORT_KEYS);
        CHECK_STR(b, a);
    }
    struct trial_view all = sweep_columns_all(w->columns), of = scheduler_view(w->sched);
    for (int i = 0; i < w->trials; i++) {
        CHECK_INT(all.trials[i]->curve.count, of.trials[i]->curve.count);
        for (size_t k = 0; k < of.trials[i]->curve.count; k++)
            CHECK_NEAR(all.trials[i]->curve.points[k].value, of.trials[i]->curve.points[k].value,
                       0);
    }
    sweep_columns_view_free(&all);
}

TEST(columns_of_random_logs_are_the_schedulers)
{
    AUTO(spec) struct spec *s = spec_of(sweep);
    int applied = 0;
    for (uint64_t seed = 0; seed < 2000; seed++) {
        struct walk w = {.columns = sweep_columns_new(s)};
        struct err e = {0};
        rng_seed(&w.rng, seed, 0);
        CHECK_INT(scheduler_new(&w.sched, s, &e), 0);
        for (int i = 0; i < 120; i++)
            step(&w);
        compare(&w);
        applied += w.applied;
        scheduler_free(w.sched);
        sweep_columns_free(w.columns);
    }
    CHECK(applied > 40000); /* most logs are of some length */
}

TEST(parameters_are_columns)
{
    AUTO(spec) struct spec *s = spec_of(sweep);
    AUTO(sweep_columns) struct sweep_columns *c = sweep_columns_new(s);
    static const char *const sets[] = {
        "{\"params\":{\"lr\":0.5,\"act\":\"relu\",\"opt\":{\"beta\":0.25,\"name\":\"sgd\"}}}",
        "{\"params\":{\"lr\":1,\"new\":7}}"};
    for (int i = 0; i < 2; i++) {
        struct event_store_row r = {.seq = i + 1,
                                    .kind = SCHEDULER_REC_CREATED,
                                    .trial = i,
                                    .data = sets[i],
                                    .len = strlen(sets[i])};
        CHECK_INT(sweep_columns_record(c, &r, NULL), 0);
    }
    CHECK_INT(c->param_count, 5);
    CHECK_STR(c->params[2].name, "opt.beta");
    CHECK_NEAR(sweep_columns_value(c, 2, 0).number, 0.25, 0);
    CHECK_INT(sweep_columns_value(c, 2, 1).kind, COLUMNS_ABSENT);
    CHECK_INT(sweep_columns_value(c, 4, 0).kind, COLUMNS_ABSENT);
    CHECK_INT(sweep_columns_value(c, 4, 1).kind, COLUMNS_INTEGER);
    CHECK_STR(text_table_at(&c->texts, sweep_columns_value(c, 1, 0).json), "\"relu\"");
}
