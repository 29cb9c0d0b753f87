/* Sweep files that are meant to break their reader: words of good ones are replaced by awkward
 * ones, 20,000 times. What is refused says where; what is accepted must give trials that its own
 * space accepts, and read back as it was written. FUZZ_SEED=N takes other changes. */
#include <ctype.h>
#include <math.h>

#include "common/json.h"
#include "common/rng.h"
#include "common/strbuf.h"
#include "common/yaml.h"
#include "hpo/samplers/sweep_file.h"
#include "hpo/scheduler/scheduler.h"
#include "hpo/space/space.h"
#include "tests/unit/test.h"

enum { MUTATIONS = 20000, DIMS_MAX = 64 };

static const char *const files[] = {
    "method: grid\nprogram: t.py\nname: n\nrun_cap: 7\nparameters:\n"
    "  a: { min: 1, max: 10 }\n  b: { values: [ x, 2, 0.5, { k: [ 1 ] } ] }\n"
    "  c: { parameters: { d: { value: 3 }, e: { distribution: q_uniform, min: 0, max: 1, q: 0.25 } "
    "} }\n",
    "method: random\ncommand: [ \"${program}\", \"${args}\", 1, true ]\nprogram: t\nparameters:\n"
    "  a: { distribution: log_uniform_values, min: 1e-5, max: 0.1 }\n"
    "  b: { distribution: q_log_uniform, min: 0, max: 5, q: 2 }\n"
    "  c: { distribution: inv_log_uniform, min: -3, max: 4.5 }\n"
    "  d: { distribution: q_normal, mu: 2, sigma: 0.5, q: 3 }\n"
    "  e: { distribution: log_normal, mu: 0, sigma: 1 }\n"
    "  f: { distribution: q_beta, a: 2, b: 5, q: 0.1 }\n"
    "  g: { values: [ 1, 2, 3 ], probabilities: [ 0.2, 0.3, 0.5 ] }\n"
    "metric: { name: loss, goal: minimize, target: 0.5 }\n"
    "early_terminate: { type: hyperband, max_iter: 27, s: 2, eta: 3 }\n",
    "method: random\nprogram: t\nparameters: { x: { min: 0.0, max: 1.0 }, y: { min: 1, max: 3 } }\n"
    "metric: { name: m }\nearly_terminate: { type: median, min_iter: 2, min_trials: 3 }\n"
    "drover:\n  resources: { ranks: 2, gpus: 1 }\n  seed: 9\n  timeout: 10m\n  value: last\n"
    "  grace: 0.5\n  start: [ { x: 0.5, y: 2 } ]\n"
    "  prior: [ { params: { x: 0.25, y: 1 } , value: 3 } , { params: { x: 1, y: 3 } , values: { m: "
    "0.5 } } ]\n",
    "method: random\nprogram: t\nparameters:\n  a: { values: [ sgd, adam ] }\n"
    "  b: { min: 1, max: 9 }\n  c: { parameters: { d: { min: 0.0, max: 1.0 } , e: { min: 1, max: 3 "
    "} "
    "} }\n"
    "  f: { distribution: int_log_uniform, min: 1, max: 64 }\n"
    "metrics: [ { name: m } , { name: n, goal: maximize, target: 3 } ]\n"
    "early_terminate: { type: hyperband, min_iter: 2 }\n"
    "drover:\n  repeats: 2\n  when: { b: { param: a, in: [ sgd ] } , c.e: [ { param: b, in: [ 1, 2 "
    "] } ] }\n"
    "  constraints: [ 'b * f <= 64' , \"a == 'adam' or c.d < 0.5\" , c.e != 2 ]\n",
    "method: grid\nprogram: t\nparameters:\n  a: { values: [ x, y ] }\n  b: { min: 1, max: 9 }\n"
    "  c: { min: 1, max: 9 }\ndrover:\n  when: { b: { param: a, in: [ x ] } }\n"
    "  constraints: [ b < c ]\n",
};

static const char *const awkward[] = {"0",
                                      "-1",
                                      "1",
                                      "1.0",
                                      "2",
                                      "1e308",
                                      "-1e308",
                                      "1e-320",
                                      "-0.0",
                                      ".inf",
                                      "-.inf",
                                      ".nan",
                                      "9223372036854775807",
                                      "-9223372036854775808",
                                      "9007199254740993",
                                      "1e16",
                                      "0.1",
                                      "[ ]",
                                      "{ }",
                                      "null",
                                      "true",
                                      "'x y'",
                                      "''",
                                      "[ 1, 1.0, 1 ]",
                                      "min:",
                                      "max:",
                                      "q:",
                                      "value:",
                                      "values:",
                                      "distribution:",
                                      "log_uniform",
                                      "uniform",
                                      "beta",
                                      "normal",
                                      "q_uniform",
                                      "int_uniform",
                                      "grid",
                                      "random",
                                      "\u00e9",
                                      "'${args}'",
                                      "{ value: 1 }",
                                      "{ min: 0, max: 1e-300 }",
                                      "710",
                                      "-745.2",
                                      "{ x: 1 }",
                                      "name:",
                                      "a:",
                                      "a",
                                      "b",
                                      "param:",
                                      "in:",
                                      "[ a > b ]",
                                      "'b ** f < c.d'",
                                      "'not (b % 2 == 0) or'",
                                      "{ param: b, in: [ 1 ] }",
                                      "int_log_uniform",
                                      "1e-5"};

/* `text` with one to three words, which stand between blanks, replaced. */
static void mutate(struct strbuf *out, const char *text, struct rng *r)
{
    uint64_t words = 0, hit[3];
    for (const char *p = text; *p; p++)
        words += !isspace((unsigned char)p[0]) && (p == text || isspace((unsigned char)p[-1]));
    for (int i = 0; i < 3; i++)
        hit[i] = rng_below(r, words * (i ? 10 : 1));
    uint64_t word = UINT64_MAX;
    bool skip = false;
    for (const char *p = text; *p; p++) {
        bool blank = isspace((unsigned char)*p) != 0;
        if (!blank && (p == text || isspace((unsigned char)p[-1]))) {
            word++;
            skip = word == hit[0] || word == hit[1] || word == hit[2];
            if (skip)
                strbuf_puts(out, awkward[rng_below(r, COUNT_OF(awkward))]);
        }
        if (blank || !skip || *p == ',')
            strbuf_putc(out, *p);
    }
}

static struct spec *read_text(const char *text)
{
    struct err e = {0};
    AUTO(yaml_doc) struct yaml_doc *d = NULL;
    struct spec *s = NULL;
    int line = 0, column = 0;
    if (yaml_read(&d, text, strlen(text), "in", "command", &e) < 0)
        return NULL; /* fuzz_yaml's matter */
    if (sweep_file_read(&s, d, &e) == 0)
        return s;
    if (s || e.code != -EINVAL || sscanf(e.text, "in:%d:%d: ", &line, &column) != 2 || line < 1)
        FAIL("%d '%s' for:\n%s", e.code, e.text, text);
    return NULL;
}

static void check_samples(const struct spec *s, const char *text, struct rng *r)
{
    size_t dims = space_dims(s->space);
    double u[DIMS_MAX], back[DIMS_MAX];
    CHECK(dims <= DIMS_MAX);
    for (int k = 0; k < 6; k++) {
        struct err e = {0};
        for (size_t i = 0; i < dims; i++)
            u[i] = k < 2 ? k : rng_unit(r);
        AUTO(json) json_t *p = space_sample(s->space, u);
        if (space_unit(s->space, p, back, &e) < 0)
            FAIL("%s, a sample of:\n%s", e.text, text);
        space_snap(s->space, u, NULL);
        for (size_t i = 0; i < dims; i++)
            if (!(fabs(u[i] - back[i]) <= 1e-12))
                FAIL("%s settles at %.17g, not %.17g:\n%s", space_name(s->space, i), u[i], back[i],
                     text);
    }
}

static void check_written(const struct spec *s, const char *text)
{
    AUTO(json) json_t *o = spec_json(s);
    CHECK(o);
    if (s->parallel == 0)
        json_object_del(json_object_get(o, "drover"), "parallel");
    AUTO(free) char *line = json_line(o);
    AUTO(spec) struct spec *again = read_text(line);
    if (!again)
        FAIL("not read back: %s\nof:\n%s", line, text);
}

static void check_start(const struct spec *s)
{
    AUTO(scheduler) struct scheduler *sched = NULL;
    struct scheduler_out out = {0};
    AUTO(json) json_t *hello = json_pack("{s:i}", "slots", 3);
    CHECK_INT(scheduler_new(&sched, s, NULL), 0);
    CHECK_INT(scheduler_handle(sched, &(struct scheduler_event){SCHEDULER_EV_HELLO, "w", 0, hello},
                               1, &out, NULL),
              0);
    CHECK(out.action_count >= 1 && out.action_count <= 3);
    scheduler_out_free(&out);
}

TEST(a_sweep_file_is_refused_with_its_place_or_gives_trials)
{
    const char *seed = getenv("FUZZ_SEED");
    struct rng r;
    rng_seed(&r, seed ? strtoull(seed, NULL, 10) : 1, 0);
    printf("# FUZZ_SEED=%s\n", seed ? seed : "1");
    int accepted = 0;
    for (int i = 0; i < MUTATIONS; i++) {
        AUTO(strbuf) struct strbuf b = {0};
        mutate(&b, files[rng_below(&r, COUNT_OF(files))], &r);
        AUTO(spec) struct spec *s = read_text(strbuf_str(&b));
        if (!s)
            continue;
        accepted++;
        check_samples(s, strbuf_str(&b), &r);
        check_written(s, strbuf_str(&b));
        check_start(s);
    }
    printf("# %d of %d accepted\n", accepted, MUTATIONS);
    CHECK(accepted > MUTATIONS / 20); /* else the files above have gone stale */
}

TEST(the_files_that_are_changed_are_good)
{
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        AUTO(spec) struct spec *s = read_text(files[i]);
        CHECK(s);
    }
}
