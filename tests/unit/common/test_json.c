#include "common/json.h"

#include <math.h>

#include "tests/unit/test.h"

static json_t *read_json(const char *text)
{
    json_t *v = NULL;
    struct err e = {0};
    if (json_parse(&v, text, strlen(text), &e) < 0)
        FAIL("%s: %s", text, e.text);
    return v;
}

static const char members[] =
    "{\"i\":-3,\"r\":2.5,\"s\":\"x\",\"t\":true,\"f\":false,\"z\":null,\"l\":[],\"o\":{}}";

TEST(members_are_read_by_their_type)
{
    AUTO(json) json_t *obj = read_json(members);
    int64_t i = 0;
    double r = 0;
    const char *s = NULL;
    bool b = false;
    CHECK_INT(json_require_int(&i, obj, "i", NULL), 0);
    CHECK_INT(i, -3);
    CHECK_INT(json_optional_real(&r, obj, "r", NULL), 0);
    CHECK_NEAR(r, 2.5, 0);
    CHECK_INT(json_optional_real(&r, obj, "i", NULL), 0);
    CHECK_NEAR(r, -3, 0);
    CHECK_INT(json_require_str(&s, obj, "s", NULL), 0);
    CHECK_STR(s, "x");
    CHECK_INT(json_optional_bool(&b, obj, "t", NULL), 0);
    CHECK(b);
    CHECK_INT(json_optional_bool(&b, obj, "f", NULL), 0);
    CHECK(!b);
}

TEST(a_missing_member_is_an_error_or_leaves_the_output_alone)
{
    AUTO(json) json_t *obj = read_json(members);
    struct err e = {0};
    int64_t i = 7;
    double r = 7;
    const char *s = "seven";
    bool b = true;
    CHECK_INT(json_require_int(&i, obj, "none", &e), -EINVAL);
    CHECK_STR(e.text, "'none' is missing");
    CHECK_INT(json_require_str(&s, obj, "none", NULL), -EINVAL);
    CHECK_INT(json_optional_int(&i, obj, "none", NULL), 0);
    CHECK_INT(json_optional_real(&r, obj, "none", NULL), 0);
    CHECK_INT(json_optional_str(&s, obj, "none", NULL), 0);
    CHECK_INT(json_optional_bool(&b, obj, "none", NULL), 0);
    CHECK(i == 7 && r == 7 && b);
    CHECK_STR(s, "seven");
}

TEST(a_member_of_another_type_is_an_error_that_names_both)
{
    AUTO(json) json_t *obj = read_json(members);
    static const char *const keys[] = {"i", "r", "s", "t", "z", "l", "o"};
    static const char *const what[] = {"an integer", "a real number", "a string", "a boolean",
                                       "null",       "a list",        "a mapping"};
    int64_t i = 7;
    double r = 7;
    const char *s = "seven";
    bool b = true;
    for (size_t k = 0; k < COUNT_OF(keys); k++) {
        struct err e = {0};
        char tail[64];
        snprintf(tail, sizeof tail, ", not %s", what[k]);
        CHECK_INT(json_optional_int(&i, obj, keys[k], &e), k == 0 ? 0 : -EINVAL);
        if (k != 0)
            CHECK_HAS(e.text, tail);
        CHECK_INT(json_optional_real(&r, obj, keys[k], &e), k <= 1 ? 0 : -EINVAL);
        CHECK_INT(json_optional_str(&s, obj, keys[k], &e), k == 2 ? 0 : -EINVAL);
        CHECK_INT(json_optional_bool(&b, obj, keys[k], &e), k == 3 ? 0 : -EINVAL);
        if (k != 3)
            CHECK_HAS(e.text, tail);
    }
    CHECK(i == -3 && r == 2.5 && b);
    CHECK_STR(s, "x");
}

TEST(members_of_what_is_no_object_are_errors)
{
    AUTO(json) json_t *list = read_json("[1]");
    struct err e = {0};
    int64_t i = 7;
    CHECK_INT(json_optional_int(&i, list, "i", &e), -EINVAL);
    CHECK_STR(e.text, "a mapping with 'i' is expected, not a list");
    CHECK_INT(json_require_int(&i, NULL, "i", &e), -EINVAL);
    CHECK_STR(e.text, "a mapping with 'i' is expected, not nothing");
    CHECK_INT(i, 7);
}

TEST(an_unknown_key_is_named_with_the_nearest_known_one)
{
    static const char *const names[] = {"name", "goal", "target"};
    AUTO(json) json_t *good = read_json("{\"goal\":1,\"name\":2}");
    AUTO(json) json_t *bad = read_json("{\"goal\":1,\"nmae\":2}");
    AUTO(json) json_t *far = read_json("{\"elsewhere\":1}");
    struct err e = {0};
    CHECK_INT(json_only_keys(good, names, COUNT_OF(names), "metric", &e), 0);
    CHECK_INT(json_only_keys(bad, names, COUNT_OF(names), "metric", &e), -EINVAL);
    CHECK_STR(e.text, "unknown key 'nmae' in metric");
    CHECK_STR(e.hint, "name");
    CHECK_INT(json_only_keys(far, names, COUNT_OF(names), NULL, &e), -EINVAL);
    CHECK_STR(e.text, "unknown key 'elsewhere'");
    CHECK_STR(e.hint, "");
    CHECK_INT(json_only_keys(json_null(), names, COUNT_OF(names), "metric", &e), -EINVAL);
    CHECK_STR(e.text, "metric must be a mapping, not null");
}

TEST(a_line_keeps_order_types_and_every_bit_of_a_double)
{
    static const char *const lines[] = {
        "{\"z\":1,\"a\":[1,1.0,\"x\\ny\",null,true],\"m\":{}}",
        "0.1",
        "[1e-05,1e+16,0.30000000000000004,-0.0,3.0]",
        "\"\xc3\xa4\"",
        "-9223372036854775808",
        "[]",
    };
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        AUTO(json) json_t *v = read_json(lines[i]);
        AUTO(free) char *text = json_line(v);
        CHECK_STR(text, lines[i]);
    }
    static const double numbers[] = {
        0.1, 1.0 / 3, 5e-324, 1.7976931348623157e308, -0.0, 1e22 + 1, 123456789.123456789};
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        AUTO(json) json_t *v = json_number(numbers[i]);
        AUTO(free) char *text = json_line(v);
        AUTO(json) json_t *back = read_json(text);
        CHECK(json_is_real(back));
        double got = json_real_value(back);
        CHECK(memcmp(&got, &numbers[i], sizeof got) == 0);
    }
}

TEST(strings_and_keys_are_escaped_as_jansson_escapes_them)
{
    char text[256] = "";
    for (int c = 1; c < 128; c++)
        text[c - 1] = (char)c;
    strcat(text, "\xc3\xa4\xf0\x9f\x98\x80");
    AUTO(json) json_t *v = json_pack("{s:[s,s]}", text, text, "");
    AUTO(free) char *line = json_line(v), *wanted = json_dumps(v, JSON_COMPACT);
    CHECK_STR(line, wanted);
}

TEST(what_is_not_json_is_refused_with_line_and_column)
{
    static const struct {
        const char *text, *place;
    } bad[] = {{"", "1:0"},
               {"{\n \"a\": tru\n}", "2:"},
               {"[1,]", "1:4"},
               {"{\"a\":1,\"a\":2}", "1:"},
               {"1 2", "1:3"},
               {"{\"a\":\"\\u0000\"}", "1:"},
               {"NaN", "1:"},
               {"1e999", "1:"},
               {"99999999999999999999", "1:"},
               {"\"\xff\"", "1:"},
               {"{'a':1}", "1:"},
               {"[01]", "1:"}};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        json_t *v = NULL;
        struct err e = {0};
        CHECK_INT(json_parse(&v, bad[i].text, strlen(bad[i].text), &e), -EINVAL);
        if (strncmp(e.text, bad[i].place, strlen(bad[i].place)) != 0)
            FAIL("'%s': %s", bad[i].text, e.text);
        CHECK(v == NULL);
    }
}

TEST(bytes_behind_the_length_are_not_read_and_a_nul_inside_is_refused)
{
    json_t *v = NULL;
    CHECK_INT(json_parse(&v, "[1]garbage", 3, NULL), 0);
    json_decref(v);
    CHECK_INT(json_parse(&v, "[1]\0x", 5, NULL), -EINVAL);
}

TEST(endless_nesting_is_refused)
{
    enum { DEEP = 200000 };
    AUTO(free) char *text = xzalloc(DEEP);
    memset(text, '[', DEEP);
    json_t *v = NULL;
    struct err e = {0};
    CHECK_INT(json_parse(&v, text, DEEP, &e), -EINVAL);
    CHECK_HAS(e.text, "depth");
    CHECK(v == NULL);
}

TEST(numbers_that_json_lacks_are_words)
{
    static const struct {
        double number;
        const char *line;
    } cases[] = {{NAN, "\"nan\""},        {-NAN, "\"nan\""}, {INFINITY, "\"inf\""},
                 {-INFINITY, "\"-inf\""}, {1, "1.0"},        {-2.5, "-2.5"}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        AUTO(json) json_t *v = json_number(cases[i].number);
        AUTO(free) char *line = json_line(v);
        CHECK_STR(line, cases[i].line);
        double got = 77;
        CHECK_INT(json_as_number(&got, v), 0);
        CHECK(isnan(cases[i].number) ? isnan(got) : got == cases[i].number);
    }
    static const char *const none[] = {"\"NaN\"", "\"1\"", "true", "null", "[]", "\"\""};
    double got = 77;
    for (size_t i = 0; i < COUNT_OF(none); i++) {
        AUTO(json) json_t *v = read_json(none[i]);
        CHECK_INT(json_as_number(&got, v), -EINVAL);
    }
    CHECK_INT(json_as_number(&got, NULL), -EINVAL);
    CHECK(got == 77);
    AUTO(json) json_t *whole = json_integer(3);
    CHECK_INT(json_as_number(&got, whole), 0);
    CHECK(got == 3);
}

TEST(bytes_that_are_no_text_become_question_marks)
{
    AUTO(json) json_t *good = json_text("caf\xc3\xa9");
    AUTO(json)
    json_t *bad = json_text("a\xff"
                            "b");
    CHECK_STR(json_string_value(good), "caf\xc3\xa9");
    CHECK_STR(json_string_value(bad), "a?b");
    AUTO(json)
    json_t *mixed = json_text("caf\xc3\xa9 \xff "
                              "na\xc3\xafve");
    CHECK_STR(json_string_value(mixed), "caf\xc3\xa9 ? na\xc3\xafve");
}

/* Each of these is refused by jansson's own functions. */
static const char *const no_utf8[] = {"\xff", "\xc3(", "\xed\xa0\x80", "a\xf4\x90\x80\x80", "\xc3"};

TEST(bytes_that_are_no_text_are_in_every_kind_of_value)
{
    for (size_t i = 0; i < COUNT_OF(no_utf8); i++) {
        const char *t = no_utf8[i];
        AUTO(json)
        json_t *v = json_pack("{s:s, s:[s, s?, s*], s:s+, s:o}", "text", t, "list", t, t, t, t,
                              "and ", t, "value", json_string(t));
        CHECK(v != NULL);
        CHECK_INT(json_object_set_new(v, t, json_stringn(t, strlen(t))), 0);
        CHECK_INT(json_object_set(v, "again", json_object_get(v, "text")), 0);
        CHECK_INT(json_object_size(v), 5);
        CHECK_INT(json_array_size(json_object_get(v, "list")), 3);
        AUTO(free) char *text = json_dumps(v, 0);
        AUTO(free) char *line = json_line(v);
        json_t *back = NULL;
        CHECK(text != NULL);
        CHECK_INT(json_parse(&back, line, strlen(line), NULL), 0);
        CHECK(json_equal(v, back));
        json_decref(back);
    }
}

TEST(a_format_is_packed_as_jansson_does_it)
{
    AUTO(json) json_t *shared = json_integer(7);
    AUTO(json)
    json_t *v =
        json_pack("{s: i, s:I, s:f, s:b, s:n, s:s?, s:s*, s:o?, s:o*, s:O, s:{}, s:[]}", "i", -1,
                  "I", (json_int_t)1 << 40, "f", 0.5, "b", 1, "n", "none", NULL, "absent", NULL,
                  "null", NULL, "gone", NULL, "O", shared, "object", "list");
    AUTO(free) char *line = json_line(v);
    CHECK_STR(line, "{\"i\":-1,\"I\":1099511627776,\"f\":0.5,\"b\":true,\"n\":null,\"none\":null,"
                    "\"null\":null,\"O\":7,\"object\":{},\"list\":[]}");
    CHECK_INT(shared->refcount, 2);
    CHECK(json_pack("{s:s}", "text", NULL) == NULL);
    CHECK(json_pack("[f]", NAN) == NULL);
    json_t *kept = json_pack("{s:s, s:O}", "text", NULL, "O", shared);
    CHECK(kept == NULL);
    CHECK_INT(shared->refcount, 2); /* what was packed already is released */
}

TEST(members_that_an_int_would_cut_are_found)
{
    static const char *const wide[] = {"bytes", NULL};
    AUTO(json) json_t *small = read_json("{\"pid\": 2147483647, \"text\": \"9999999999\"}");
    AUTO(json) json_t *bytes = read_json("{\"pid\": 1, \"bytes\": 4294967296}");
    AUTO(json) json_t *cut = read_json("{\"pid\": 4294967297, \"bytes\": 4294967296}");
    CHECK(json_fits_int(small, NULL) && json_fits_int(bytes, wide));
    CHECK(!json_fits_int(bytes, NULL) && !json_fits_int(cut, wide));
}
