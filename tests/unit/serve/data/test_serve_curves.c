/* test_serve_curves - all curves as counts per cell, and some of them point by point. */
#include "serve/data/serve_curves.h"

#include "tests/unit/serve/kit_columns.h"

static const char sweep[] = "method: random\nprogram: t.sh\nmetric: {name: loss}\n"
                            "parameters: {x: {min: 0.0, max: 1.0}}\n";

/* A sweep of `n` trials whose loss falls in a straight line from 4 at step 0 to 0 at step 4. */
static struct kit falling(int n)
{
    struct kit k = kit_new(sweep);
    for (int i = 0; i < n; i++) {
        kit_record(&k, SCHEDULER_REC_CREATED, i, 0, "{\"params\":{\"x\":0.5}}");
        kit_record(&k, SCHEDULER_REC_LEASED, i, i + 1, "{\"worker\":\"w\",\"node\":\"n\"}");
        kit_record(&k, SCHEDULER_REC_REPORT, i, i + 1, "{\"step\":0,\"values\":{\"loss\":4}}");
        kit_record(&k, SCHEDULER_REC_REPORT, i, i + 1, "{\"step\":4,\"values\":{\"loss\":0}}");
    }
    return k;
}

TEST(each_curve_crosses_each_column_once)
{
    struct kit k = falling(3);
    AUTO(strbuf) struct strbuf b = {0};
    const struct serve_curves_grid g = {"loss", 5, 5, false};
    size_t n;
    serve_curves_density(&b, k.columns, &g, false);
    struct body body = body_read(&b);
    const uint32_t *count = body_column(&body, "count", "u32", &n);
    CHECK_INT(n, 25);
    for (size_t row = 0; row < 5; row++)
        for (size_t col = 0; col < 5; col++)
            CHECK_INT(count[row * 5 + col], row == col ? 3 : 0);
    CHECK_INT(json_integer_value(json_object_get(body.head, "points")), 6);
    json_decref(body.head);
    kit_free(&k);
}

TEST(a_metric_that_no_trial_has_reported_has_no_ranges)
{
    struct kit k = falling(1);
    AUTO(strbuf) struct strbuf b = {0};
    const struct serve_curves_grid g = {"acc", 4, 4, true};
    serve_curves_density(&b, k.columns, &g, true);
    struct body body = body_read(&b);
    CHECK(json_is_null(json_object_get(body.head, "steps")));
    json_decref(body.head);
    kit_free(&k);
}

TEST(curves_are_sent_one_after_the_other)
{
    struct kit k = falling(2);
    AUTO(strbuf) struct strbuf b = {0};
    const int trials[] = {1, 99, 0};
    size_t n;
    serve_curves_of(&b, k.columns, "loss", trials, 3);
    struct body body = body_read(&b);
    const uint32_t *start = body_column(&body, "start", "u32", &n);
    CHECK_INT(n, 4);
    CHECK_INT(start[1], 2);
    CHECK_INT(start[2], 2);
    CHECK_INT(start[3], 4);
    const float *step = body_column(&body, "step", "f32", &n);
    CHECK_INT(n, 4);
    CHECK_NEAR((double)step[3], 4, 0);
    json_decref(body.head);
    kit_free(&k);
}
