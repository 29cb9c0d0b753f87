/* test_serve_columns - the page gets all trials once, and then what has changed. */
#include "serve/data/serve_columns.h"

#include <math.h>

#include "tests/unit/serve/kit_columns.h"

static const char sweep[] = "method: random\nprogram: t.sh\nmetric: {name: loss}\n"
                            "parameters:\n"
                            "  act: {values: [relu, 3, '<script>']}\n"
                            "  lr: {distribution: log_uniform_values, min: 0.001, max: 1.0}\n"
                            "  seed: {distribution: int_uniform, min: 0, max: 4000000000}\n"
                            "  fixed: {value: 7}\n";

static struct body body_since(struct strbuf *b, struct serve_columns *s, int64_t since)
{
    strbuf_reset(b);
    serve_columns_body(b, s, since, json_object());
    return body_read(b);
}

static double f32(const struct body *b, const char *name, size_t i)
{
    size_t n;
    const float *v = body_column(b, name, "f32", &n);
    CHECK(i < n);
    return (double)v[i];
}

TEST(a_sweep_without_trials_has_the_parameters_of_its_space)
{
    struct kit k = kit_new(sweep);
    struct serve_columns *s = serve_columns_new(k.spec, k.columns);
    AUTO(strbuf) struct strbuf b = {0};
    struct body body = body_since(&b, s, 0);
    const json_t *params = json_object_get(body.head, "params");
    CHECK_INT(json_array_size(params), 3);
    CHECK_INT(json_integer_value(json_object_get(body.head, "total")), 0);
    CHECK(json_is_true(json_object_get(json_array_get(params, 1), "log")));
    CHECK_INT(json_array_size(json_object_get(json_array_get(params, 0), "values")), 3);
    json_decref(body.head);
    serve_columns_free(s);
    kit_free(&k);
}

TEST(values_keep_their_kind_and_absent_ones_are_not_set)
{
    struct kit k = kit_new(sweep);
    struct serve_columns *s = serve_columns_new(k.spec, k.columns);
    AUTO(strbuf) struct strbuf b = {0};
    size_t n;
    kit_record(&k, SCHEDULER_REC_CREATED, 0, 0,
               "{\"params\":{\"act\":\"<script>\",\"lr\":0.5,\"seed\":3999999999,\"fixed\":7}}");
    kit_record(&k, SCHEDULER_REC_CREATED, 1, 0,
               "{\"params\":{\"act\":3.0,\"lr\":0.25,\"fixed\":7}}");
    kit_record(&k, SCHEDULER_REC_CREATED, 2, 0,
               "{\"params\":{\"lr\":0.125,\"act\":\"other\"},\"added\":true}");
    struct body body = body_since(&b, s, 0);
    const unsigned char *act = body_column(&body, "p0", "u8", &n);
    CHECK_INT(n, 3);
    CHECK_INT(act[0], 2);
    CHECK_INT(act[1], 1);
    CHECK_INT(act[2], 3); /* a value that is not in the space */
    CHECK_NEAR(f32(&body, "p1", 2), 0.125, 0);
    const double *seed = body_column(&body, "p2", "f64", &n);
    CHECK_NEAR(seed[0], 3999999999.0, 0);
    CHECK(isnan(seed[1]));
    const unsigned char *fixed = body_column(&body, "p3", "u8", &n);
    CHECK_INT(fixed[0], 0);
    CHECK_INT(fixed[2], 255);
    json_decref(body.head);
    serve_columns_free(s);
    kit_free(&k);
}

TEST(only_changed_trials_are_sent_again)
{
    struct kit k = kit_new(sweep);
    struct serve_columns *s = serve_columns_new(k.spec, k.columns);
    AUTO(strbuf) struct strbuf b = {0};
    size_t n;
    for (int i = 0; i < 3; i++)
        kit_record(&k, SCHEDULER_REC_CREATED, i, 0, "{\"params\":{\"act\":\"relu\",\"lr\":0.5}}");
    struct body body = body_since(&b, s, 0);
    CHECK_INT(json_integer_value(json_object_get(body.head, "seq")), 3);
    json_decref(body.head);
    kit_record(&k, SCHEDULER_REC_LEASED, 1, 1, "{\"worker\":\"w\",\"node\":\"n\"}");
    kit_record(&k, SCHEDULER_REC_REPORT, 1, 1, "{\"step\":1,\"values\":{\"loss\":2.0,\"x\":1}}");
    kit_record(&k, SCHEDULER_REC_REPORT, 1, 1, "{\"step\":2,\"values\":{\"loss\":1.5}}");
    kit_record(&k, SCHEDULER_REC_ENDED, 1, 1,
               "{\"state\":\"failed\",\"seconds\":2.5,\"error\":\"<b>\"}");
    body = body_since(&b, s, 3);
    const uint32_t *id = body_column(&body, "id", "u32", &n);
    CHECK_INT(n, 1);
    CHECK_INT(id[0], 1);
    const double *value = body_column(&body, "value", "f64", &n);
    CHECK_NEAR(value[0], 1.5, 0);
    CHECK_NEAR(f32(&body, "m0.min", 0), 1.5, 0);
    CHECK_NEAR(f32(&body, "m0.max", 0), 2, 0);
    CHECK_NEAR(f32(&body, "m1.last", 0), 1, 0);
    CHECK_NEAR(f32(&body, "seconds", 0), 2.5, 0);
    CHECK_NEAR(f32(&body, "ended", 0), 6, 0); /* seconds since the first trial was created */
    const uint32_t *trial = body_column(&body, "lease.trial", "u32", &n);
    CHECK_INT(n, 1);
    CHECK_INT(trial[0], 1);
    const uint32_t *error = body_column(&body, "error", "u32", &n);
    char key[16];
    snprintf(key, sizeof key, "%u", error[0]);
    CHECK_STR(json_string_value(json_object_get(json_object_get(body.head, "texts"), key)), "<b>");
    json_decref(body.head);
    body = body_since(&b, s, 7);
    body_column(&body, "id", "u32", &n);
    CHECK_INT(n, 0);
    json_decref(body.head);
    serve_columns_free(s);
    kit_free(&k);
}

TEST(columns_with_the_same_numbers_are_sent_once)
{
    struct serve_pack p = {0};
    AUTO(strbuf) struct strbuf b = {0};
    const uint32_t numbers[][3] = {{1, 2, 3}, {1, 2, 4}, {1, 2, 3}, {1, 2, 4}};
    const char *const names[] = {"a", "b", "c", "d"};
    size_t n;
    for (size_t i = 0; i < COUNT_OF(names); i++)
        memcpy(serve_pack_add(&p, names[i], SERVE_PACK_U32, 3), numbers[i], sizeof numbers[i]);
    float *zeroes = serve_pack_add(&p, "e", SERVE_PACK_F32, 3);
    CHECK(zeroes[0] == 0 && zeroes[2] == 0);
    serve_pack_finish(&b, &p, json_object());
    struct body body = body_read(&b);
    for (size_t i = 0; i < COUNT_OF(names); i++)
        CHECK(memcmp(body_column(&body, names[i], "u32", &n), numbers[i], sizeof numbers[i]) == 0);
    CHECK(body_column(&body, "a", "u32", &n) == body_column(&body, "c", "u32", &n));
    CHECK(body_column(&body, "b", "u32", &n) == body_column(&body, "d", "u32", &n));
    CHECK_INT(body.len, 44); /* two columns with their padding, and the zeroes */
    json_decref(body.head);
}
