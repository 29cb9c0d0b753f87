/* sweep_print: a trial, its curve and its command as text, all trials as CSV. */
#include "hpo/cmd/sweep_print.h"

#include "common/json.h"
#include "hpo/store/stored_sweep.h"
#include "tests/unit/test.h"

#define CHECK_TEXT(b, expected)             \
    do {                                    \
        CHECK_STR(strbuf_str(b), expected); \
        strbuf_reset(b);                    \
    } while (0)

static struct spec *spec_of(const char *drover)
{
    AUTO(free)
    char *text = xasprintf("method: random\nprogram: t.sh\nmetric: {name: loss}\n"
                           "command: ['./t.sh', '${args}']\nparameters:\n"
                           "  lr: {min: 0.0, max: 1.0}\n"
                           "  opt: {parameters: {name: {values: [sgd, 'a, \"b\"']}}}\n%s",
                           drover);
    struct spec *s = NULL;
    struct err e = {0};
    if (stored_sweep_spec(&s, text, "s.yaml", &e) < 0)
        FAIL("%s", e.text);
    return s;
}

static int64_t seq;

static void record(struct sweep_columns *c, enum scheduler_record_kind kind, int trial,
                   int64_t lease, const char *data)
{
    struct err e = {0};
    const struct event_store_row row = {.seq = ++seq,
                                        .at_ms = seq * 1000,
                                        .kind = kind,
                                        .trial = trial,
                                        .lease = lease,
                                        .data = data,
                                        .len = strlen(data)};
    if (sweep_columns_record(c, &row, &e) < 0)
        FAIL("%s", e.text);
}

/* Trial 0 is done after its first worker was lost, trial 1 has failed, trial 2 waits. */
static struct sweep_columns *columns_of(const struct spec *spec)
{
    struct sweep_columns *c = sweep_columns_new(spec);
    seq = 0;
    record(c, SCHEDULER_REC_CREATED, 0, 0, "{\"params\":{\"lr\":0.5,\"opt\":{\"name\":\"sgd\"}}}");
    record(c, SCHEDULER_REC_LEASED, 0, 1, "{\"worker\":\"a.1\",\"node\":\"a\"}");
    record(c, SCHEDULER_REC_REQUEUED, 0, 1, "{\"why\":\"lost\",\"spent\":true}");
    record(c, SCHEDULER_REC_LEASED, 0, 2, "{\"worker\":\"b.1\",\"node\":\"b\"}");
    record(c, SCHEDULER_REC_REPORT, 0, 2, "{\"step\":1,\"values\":{\"loss\":4.0,\"n\":1}}");
    record(c, SCHEDULER_REC_REPORT, 0, 2, "{\"step\":2,\"values\":{\"loss\":2.0,\"n\":2}}");
    record(c, SCHEDULER_REC_ENDED, 0, 2, "{\"state\":\"done\",\"value\":2.0,\"seconds\":1.5}");
    record(c, SCHEDULER_REC_CREATED, 1, 0,
           "{\"params\":{\"lr\":0.25,\"opt\":{\"name\":\"a, \\\"b\\\"\"}}}");
    record(c, SCHEDULER_REC_LEASED, 1, 3, "{\"worker\":\"a.1\",\"node\":\"a\"}");
    record(
        c, SCHEDULER_REC_ENDED, 1, 3,
        "{\"state\":\"failed\",\"value\":null,\"seconds\":0.5,\"error\":\"exit status 3: a, b\"}");
    record(c, SCHEDULER_REC_CREATED, 2, 0, "{\"params\":{\"lr\":1.0,\"opt\":{\"name\":\"sgd\"}}}");
    return c;
}

TEST(the_command_has_the_resources_and_is_quoted)
{
    static const struct {
        const char *resources, *command;
    } cases[] = {
        {"", "drover run -np 1 -- ./t '--x=a b' '--y=it'\\''s'"},
        {"{ranks: 2, cpus: 3}", "drover run -np 2 --cpus-per-rank 3 -- ./t"},
        {"{ranks: 2, gpus: 2}", "drover run -np 2 --gpus 0,1 -- ./t"},
        {"{ranks: 4, gpus: 2}", "drover run -np 4 --gpus 0,1 --oversubscribe -- ./t"},
        {"{gpus: 0.5}", "drover run -np 1 --gpus 0 -- ./t"},
        {"{nodes: 2, ranks: 4}", "drover run -np 8 -N 4 -- ./t"},
    };
    char *argv[] = {"./t", "--x=a b", "--y=it's", NULL};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        AUTO(free)
        char *drover = i ? xasprintf("drover: {resources: %s}\n", cases[i].resources) : xstrdup("");
        AUTO(spec) struct spec *spec = spec_of(drover);
        AUTO(strbuf) struct strbuf b = {0};
        argv[1] = i ? NULL : argv[1];
        sweep_print_command(&b, &(struct run_message_opts){.spec = spec}, NULL, argv);
        CHECK_STR(strbuf_str(&b), cases[i].command);
    }
}

TEST(a_trial_is_shown_with_its_reason_curve_and_leases)
{
    AUTO(spec) struct spec *spec = spec_of("");
    AUTO(sweep_columns) struct sweep_columns *c = columns_of(spec);
    AUTO(strbuf) struct strbuf b = {0};
    sweep_print_trial(&b, c, spec, 0);
    CHECK_HAS(strbuf_str(&b), "trial 0  done  loss 2  1.5 s\n"
                              "parameters\n  lr  0.5\n  opt.name  sgd\n"
                              "metrics, the last values\n  loss  2\n  n  2\n"
                              "curve of loss, 2 points\n           4 |*\n");
    CHECK_HAS(strbuf_str(&b), "  lost\n");
    CHECK_HAS(strbuf_str(&b), "  ended by itself\n");
    strbuf_reset(&b);
    sweep_print_trial(&b, c, spec, 1);
    CHECK_HAS(strbuf_str(&b), "trial 1  failed  0.5 s\nreason: exit status 3: a, b\n");
    strbuf_reset(&b);
    sweep_print_trial(&b, c, spec, 2);
    CHECK_HAS(strbuf_str(&b), "trial 2  waiting\nparameters\n");
}

TEST(control_characters_do_not_reach_the_terminal)
{
    AUTO(spec) struct spec *spec = spec_of("");
    AUTO(sweep_columns) struct sweep_columns *c = columns_of(spec);
    AUTO(strbuf) struct strbuf b = {0};
    record(c, SCHEDULER_REC_LEASED, 2, 4, "{\"worker\":\"a.1\",\"node\":\"a\"}");
    record(c, SCHEDULER_REC_ENDED, 2, 4,
           "{\"state\":\"failed\",\"value\":null,\"seconds\":0,\"error\":\"x\\u001b[2J\"}");
    sweep_print_trial(&b, c, spec, 2);
    CHECK_HAS(strbuf_str(&b), "reason: x\\x1b[2J\n");
}

TEST(a_trial_as_json_has_curves_and_leases)
{
    AUTO(spec) struct spec *spec = spec_of("");
    AUTO(sweep_columns) struct sweep_columns *c = columns_of(spec);
    AUTO(json) json_t *t = sweep_print_trial_json(c, 0);
    AUTO(json)
    json_t *curves =
        json_loads("{\"loss\":[[1.0,4.0],[2.0,2.0]],\"n\":[[1.0,1.0],[2.0,2.0]]}", 0, NULL);
    AUTO(json)
    json_t *leases = json_loads("[{\"lease\":1,\"node\":\"a\",\"worker\":\"a.1\",\"begin_ms\":2000,"
                                "\"end_ms\":3000,\"why\":\"lost\"},"
                                "{\"lease\":2,\"node\":\"b\",\"worker\":\"b.1\",\"begin_ms\":4000,"
                                "\"end_ms\":7000}]",
                                0, NULL);
    CHECK(json_equal(json_object_get(t, "curves"), curves));
    CHECK(json_equal(json_object_get(t, "leases"), leases));
}

TEST(a_plot_has_the_range_on_its_axes)
{
    struct trial_curve curve = {0};
    AUTO(strbuf) struct strbuf b = {0};
    trial_curve_init(&curve);
    trial_curve_put(&curve, 1, 8, false);
    sweep_print_plot(&b, &curve, 5, 3);
    CHECK_TEXT(&b, ""); /* one point is not a curve */
    trial_curve_put(&curve, 2, 4, false);
    trial_curve_put(&curve, 5, 0, false);
    sweep_print_plot(&b, &curve, 5, 3);
    CHECK_TEXT(&b, "           8 |*\n"
                   "             | *\n"
                   "           0 |    *\n"
                   "        step  1   5\n");
    trial_curve_clear(&curve);
    for (int i = 0; i < 2; i++)
        trial_curve_put(&curve, i, 7, false);
    sweep_print_plot(&b, &curve, 2, 2); /* a constant */
    CHECK_HAS(strbuf_str(&b), "           7 |**\n");
    trial_curve_clear(&curve);
}

TEST(curves_of_several_trials_have_one_scale)
{
    AUTO(spec) struct spec *spec = spec_of("");
    AUTO(sweep_columns) struct sweep_columns *c = columns_of(spec);
    AUTO(strbuf) struct strbuf b = {0};
    AUTO(json) json_t *trials = json_loads("[{\"id\":0},{\"id\":2}]", 0, NULL);
    sweep_print_curves(&b, c, spec, trials, 4);
    CHECK_TEXT(&b, "trial 0     done                 2    █▁\n"
                   "trial 2     waiting              -\n"
                   "loss from 2 to 4, steps from 0 to 2\n");
}

TEST(csv_has_a_row_per_trial_and_quotes_what_needs_it)
{
    AUTO(spec) struct spec *spec = spec_of("");
    AUTO(sweep_columns) struct sweep_columns *c = columns_of(spec);
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    sweep_print_csv(f, c);
    fclose(f);
#define GOALS "\"{\"\"loss\"\":\"\"minimize\"\"}\""
    CHECK_STR(text, "trial,state,value,loss,n,steps,seconds,node,why,error,goals,lr,opt.name\n"
                    "0,done,2.0,2.0,2,2,1.5,b,,," GOALS ",0.5,sgd\n"
                    "1,failed,,,,0,0.5,a,,\"exit status 3: a, b\"," GOALS ",0.25,\"a, \"\"b\"\"\"\n"
                    "2,waiting,,,,0,0.0,,,," GOALS ",1.0,sgd\n");
#undef GOALS
    free(text);
}
