/* test_sweep_report_slim - columns in a small form: planes of bytes, differences of times, columns
 * that are equal. */
#include "serve/report/sweep_report_slim.h"

#include <math.h>
#include <stdint.h>

#include "common/json.h"
#include "serve/data/serve_pack.h"
#include "tests/unit/test.h"

static const json_t *place_of(const json_t *head, const char *name)
{
    return json_object_get(json_object_get(head, "columns"), name);
}

static size_t offset_of(const json_t *head, const char *name)
{
    return (size_t)json_integer_value(json_array_get(place_of(head, name), 1));
}

static void make(struct strbuf *out, int total)
{
    struct serve_pack p = {0};
    AUTO(strbuf) struct strbuf body = {0};
    uint32_t *id = serve_pack_add(&p, "id", SERVE_PACK_U32, 3);
    id[0] = 0x04030201;
    id[1] = 0x08070605;
    id[2] = 0x0c0b0a09;
    for (int k = 0; k < 2; k++) {
        float *times = serve_pack_add(&p, k ? "lease.begin" : "leased", SERVE_PACK_F32, 3);
        times[0] = 1.5F;
        times[1] = NAN;
        times[2] = 1.25F;
    }
    float *numbers = serve_pack_add(&p, "p0", SERVE_PACK_F32, 1);
    numbers[0] = 0.1F;
    double *value = serve_pack_add(&p, "value", SERVE_PACK_F64, 1);
    value[0] = (double)0.1F;
    serve_pack_finish(&body, &p, json_pack("{s:i}", "total", total));
    sweep_report_slim(out, &body);
}

static uint32_t number_at(const struct strbuf *b, size_t at, size_t i, size_t count)
{
    const unsigned char *data = (const unsigned char *)serve_pack_data(b) + at;
    uint32_t v = 0;
    for (size_t k = 0; k < 4; k++)
        v |= (uint32_t)data[k * count + i] << 8 * k;
    return v;
}

TEST(numbers_are_planes_of_bytes)
{
    AUTO(strbuf) struct strbuf b = {0};
    make(&b, 3);
    AUTO(json) json_t *head = serve_pack_head(&b);
    const char *data = serve_pack_data(&b) + offset_of(head, "id");
    CHECK(memcmp(data, "\x01\x05\x09\x02\x06\x0a\x03\x07\x0b\x04\x08\x0c", 12) == 0);
}

TEST(times_are_differences_and_equal_columns_are_stored_once)
{
    AUTO(strbuf) struct strbuf b = {0};
    make(&b, 3);
    AUTO(json) json_t *head = serve_pack_head(&b);
    size_t at = offset_of(head, "leased");
    CHECK_STR(json_string_value(json_array_get(place_of(head, "leased"), 0)), "ms");
    CHECK_INT(at, offset_of(head, "lease.begin"));
    CHECK_INT(number_at(&b, at, 0, 3), 3000); /* 1500 */
    CHECK(number_at(&b, at, 1, 3) == UINT32_MAX);
    CHECK_INT(number_at(&b, at, 2, 3), 499); /* -250 */
    CHECK(offset_of(head, "p0") != offset_of(head, "value"));
}

TEST(numbers_of_many_trials_are_rounded_to_five_digits)
{
    AUTO(strbuf) struct strbuf b = {0};
    make(&b, SWEEP_REPORT_SLIM_FROM + 1);
    AUTO(json) json_t *head = serve_pack_head(&b);
    uint32_t bits = number_at(&b, offset_of(head, "p0"), 0, 1);
    float v;
    memcpy(&v, &bits, sizeof v);
    CHECK((bits & 63) == 0 && fabsf(v - 0.1F) < 1e-6F);
    CHECK_INT(offset_of(head, "p0"), offset_of(head, "value"));
}
