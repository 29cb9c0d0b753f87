/* kit_scheduler - a sweep whose scheduler is driven step by step. */
#pragma once

#include "hpo/scheduler/scheduler.h"

#include <math.h>

#include "common/json.h"
#include "common/strbuf.h"
#include "common/yaml.h"
#include "hpo/samplers/sweep_file.h"
#include "tests/unit/kit_scheduler_dump.h"
#include "tests/unit/test.h"

/* A sweep, the last step's output, and all records so far. One per test process. */
static struct spec *spec;
static struct scheduler *s;
static struct scheduler_out out;
static struct scheduler_record records[512];
static int record_count;
static int64_t now = 1000;

/* Starts a sweep, in the place of the one before. */
static void start_with(const char *yaml)
{
    struct err e = {0};
    while (record_count > 0)
        json_decref(records[--record_count].data);
    scheduler_free(s);
    spec_free(spec);
    AUTO(yaml_doc) struct yaml_doc *d = NULL;
    if (yaml_read(&d, yaml, strlen(yaml), "s.yaml", "command", &e) < 0 ||
        sweep_file_read(&spec, d, &e) < 0 || scheduler_new(&s, spec, &e) < 0)
        FAIL("%s", e.text);
}

#define RANDOM                                                                              \
    "method: random\nprogram: t.py\nparameters: {x: {min: 0.0, max: 1.0}}\nmetric: {name: " \
    "loss}\n"
#define GRID(n) \
    "method: grid\nprogram: t.py\nparameters: {x: {min: 1, max: " #n "}}\nmetric: {name: loss}\n"

#define ONE "method: grid\nprogram: t.py\nparameters: {x: {values: [1]}}\nmetric: {name: loss}\n"

static int step_rc(enum scheduler_event_kind kind, const char *worker, int64_t lease,
                   const char *json)
{
    AUTO(json) json_t *data = json ? json_loads(json, 0, NULL) : NULL;
    CHECK(!json || data);
    struct scheduler_event ev = {kind, worker, lease, data};
    int rc = scheduler_handle(s, &ev, now, &out, NULL);
    for (size_t i = 0; i < out.record_count; i++) {
        records[record_count] = out.records[i];
        json_incref(records[record_count++].data);
    }
    return rc;
}

static void step(enum scheduler_event_kind kind, const char *worker, int64_t lease,
                 const char *json)
{
    CHECK_INT(step_rc(kind, worker, lease, json), 0);
}

static void hello(const char *worker, const char *json)
{
    step(SCHEDULER_EV_HELLO, worker, 0, json);
}
static void report(int64_t lease, const char *json)
{
    step(SCHEDULER_EV_REPORT, "a", lease, json);
}
static void done(int64_t lease, const char *json)
{
    step(SCHEDULER_EV_DONE, "a", lease, json);
}

/* The output of the last step, as "CREATED 0 0 {…}; …|RUN a 0 1; …" with data. */
static const char *gave(void)
{
    static const char *const kinds[] = {"CREATED", "LEASED",  "REPORT", "STOPPING", "REQUEUED",
                                        "ENDED",   "PAUSING", "PAUSED", "ASKED",    "RETRIED"};
    static const char *const acts[] = {"RUN",  "HOLD",   "STOP",   "KILL",
                                       "TEST", "HEALTH", "NOTICE", "END"};
    static struct strbuf b;
    strbuf_reset(&b);
    for (size_t i = 0; i < out.record_count; i++) {
        const struct scheduler_record *r = &out.records[i];
        AUTO(free) char *data = json_line(r->data);
        strbuf_printf(&b, "%s %d/%d %s; ", kinds[r->kind], r->trial, (int)r->lease,
                      r->kind == SCHEDULER_REC_CREATED ? "" : data);
    }
    strbuf_puts(&b, "|");
    for (size_t i = 0; i < out.action_count; i++) {
        const struct scheduler_action *a = &out.actions[i];
        strbuf_printf(&b, " %s %s %d/%d%s%s;", acts[a->kind], a->worker ? a->worker : "-", a->trial,
                      (int)a->lease, a->reason ? " " : "", a->reason ? a->reason : "");
    }
    return strbuf_str(&b);
}

static const char *state_of(int trial)
{
    AUTO(json) json_t *t = scheduler_trial_json(s, trial);
    int st = -1;
    static const char *const names[] = {"waiting", "leased", "running", "stopping",
                                        "pausing", "paused", "done",    "pruned",
                                        "failed",  "oom",    "invalid", "cancelled"};
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (strcmp(names[i], json_string_value(json_object_get(t, "state"))) == 0)
            st = (int)i;
    CHECK(st >= 0);
    return names[st];
}

/* Frees the scheduler, as in a crash, and replays the records. Checks that the state is the
 * same. */
static void crash(void)
{
    AUTO(json) json_t *before = scheduler_dump(s);
    scheduler_free(s);
    s = NULL;
    struct err e = {0};
    CHECK_INT(scheduler_new(&s, spec, NULL), 0);
    for (int i = 0; i < record_count; i++)
        if (scheduler_replay(s, &records[i], &e) < 0)
            FAIL("%s", e.text);
    scheduler_replayed(s, now);
    AUTO(json) json_t *after = scheduler_dump(s);
    CHECK(json_equal(before, after));
}
