/* kit_trials - for tests of samplers: spaces from short texts, and trials. */
#pragma once

#include <math.h>

#include "common/json.h"
#include "hpo/space/space.h"
#include "hpo/trial/trial.h"
#include "tests/unit/test.h"

/* Seeds that a search is run from: sanitizers make it several times slower. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { KIT_SEEDS = 1 };
#else
enum { KIT_SEEDS = 5 };
#endif
enum { KIT_MAX = 12000 };

static struct trial *kit_trials[KIT_MAX];
static size_t kit_count;
static int kit_ended;

/* Parses JSON with ' instead of ". New reference. */
static inline json_t *kit_json(const char *text)
{
    AUTO(free) char *copy = xasprintf("%s", text);
    for (char *c = copy; *c; c++)
        if (*c == '\'')
            *c = '"';
    json_t *v = json_loads(copy, JSON_DECODE_ANY, NULL);
    if (!v)
        FAIL("no JSON: %s", copy);
    return v;
}

/* A space: a list as for `drover suggest`, or a mapping as in a sweep file. `rules`: a list of
 * constraints; NULL: none. */
static inline struct space *kit_space(const char *text, const char *rules)
{
    AUTO(json) json_t *v = kit_json(text), *r = kit_json(rules ? rules : "[]");
    struct config_node n = config_node_of_json(v), nr = config_node_of_json(r);
    AUTO(strv) char **notices = NULL;
    struct space *s = NULL;
    struct err e = {0};
    int rc =
        json_is_array(v) ? space_read_list(&s, &n, &e) : space_read(&s, &n, false, &notices, &e);
    if (rc < 0 || (json_array_size(r) > 0 && space_add_constraints(s, &nr, &e) < 0))
        FAIL("%s", e.text);
    return s;
}

/* Adds a leased trial, which takes the reference. Borrowed. */
static inline struct trial *kit_add(json_t *params)
{
    struct trial *t = kit_trials[kit_count] = trial_new((int)kit_count, params, 0);
    json_decref(params);
    kit_count++;
    t->state = TRIAL_LEASED;
    t->lease = 1;
    return t;
}

static inline struct trial_view kit_view(void)
{
    return (struct trial_view){(const struct trial *const *)kit_trials, kit_count};
}

/* A report of the metric "y"; a value that is not finite as programs write it. */
static inline void kit_report(struct trial *t, double step, double y)
{
    AUTO(json) json_t *v = json_object();
    json_object_set_new(v, "y", json_number(y));
    trial_report(t, step, v, "y", false);
    t->state = TRIAL_RUNNING;
}

static inline void kit_end(struct trial *t, enum trial_state end)
{
    t->state = end;
    t->end_order = ++kit_ended;
}

static inline void kit_done(struct trial *t, double y)
{
    kit_report(t, 1, y);
    kit_end(t, TRIAL_DONE);
}

static inline double kit_number(const json_t *params, const char *name)
{
    return json_number_value(json_object_get(params, name));
}

static inline const char *kit_text(const json_t *params, const char *name)
{
    return json_string_value(json_object_get(params, name));
}

/* Frees all trials. */
static inline void kit_clear(void)
{
    while (kit_count > 0)
        trial_free(kit_trials[--kit_count]);
    kit_ended = 0;
}
