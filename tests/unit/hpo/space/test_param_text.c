#include "hpo/space/param_text.h"

#include <errno.h>

#include "common/json.h"
#include "tests/unit/test.h"

TEST(a_value_means_what_it_means_in_a_sweep_file)
{
    static const char *const rows[][2] = {
        {"1", "1"},
        {" 1 ", "1"},
        {"1e-4", "0.0001"},
        {"\"1\"", "\"1\""},
        {"'1'", "\"1\""},
        {"yes", "true"},
        {"~", "null"},
        {"adam", "\"adam\""},
        {"it's", "\"it's\""},
        {"[64, 64]", "[64,64]"},
        {"[adam, '1', 1.0]", "[\"adam\",\"1\",1.0]"},
        {"{kind: cosine, warmup: null}", "{\"kind\":\"cosine\",\"warmup\":null}"},
        {"{\"a\":[1]}", "{\"a\":[1]}"},
        {"!!str 1", "\"1\""},
        {"a: b", "\"a: b\""},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err e = {0};
        json_t *v = NULL;
        CHECK_INT(param_text_value(&v, rows[i][0], &e), 0);
        AUTO(free) char *line = json_line(v);
        CHECK_STR(line, rows[i][1]);
        json_decref(v);
    }
}

TEST(what_is_written_is_read_as_the_same_value)
{
    static const char *const rows[] = {
        "1",         "1.0",         "-0.0",          "1e-05",     "1e+16",      "9007199254740993",
        "true",      "null",        "\"adam\"",      "\"1\"",     "\"1e5\"",    "\"007\"",
        "\"0x1F\"",  "\"12:30\"",   "\"yes\"",       "\"null\"",  "\"\"",       "\" a \"",
        "\"a\\nb\"", "\"it's\"",    "\"'q'\"",       "\"[1]\"",   "\"{a: 1}\"", "\"~\"",
        "\"é €\"",   "\"\\t\"",     "\".nan\"",      "\"1_000\"", "[1,\"1\"]",  "{\"a\":null}",
        "\"!x\"",    "\"\\u007f\"", "[\"\\u007f\"]", "\"nan\"",
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        AUTO(json) json_t *v = json_loads(rows[i], JSON_DECODE_ANY, NULL);
        AUTO(strbuf) struct strbuf b = {0};
        param_text_add(&b, v);
        json_t *again = NULL;
        CHECK_INT(param_text_value(&again, strbuf_str(&b), NULL), 0);
        AUTO(free) char *line = json_line(again), *wanted = json_line(v);
        CHECK_STR(line, wanted);
        json_decref(again);
    }
    AUTO(strbuf) struct strbuf b = {0};
    AUTO(json) json_t *v = json_string("adam");
    param_text_add(&b, v);
    CHECK_STR(strbuf_str(&b), "adam");
}

TEST(a_set_has_each_parameter_once)
{
    static char *const good[] = {"lr=1e-4", "opt.kind=sgd", "opt.l=[1, 2]", "s=\"1\"", NULL};
    json_t *set = NULL;
    CHECK_INT(param_text_set(&set, good, NULL), 0);
    AUTO(free) char *line = json_line(set);
    CHECK_STR(line, "{\"lr\":0.0001,\"opt\":{\"kind\":\"sgd\",\"l\":[1,2]},\"s\":\"1\"}");
    json_decref(set);
    static char *const bad[][4] = {
        {"lr=0.5", "lr=0.6"},
        {"opt.lr=1", "opt.lr=1"},
        {"opt=1", "opt.lr=2"},
        {"opt.lr=1", "opt=2"},
        {"a=[1]", "a.b=2"},
        {"lr"},
        {"=1"},
        {"lr="},
        {"lr=[1"},
        {"lr=017"},
        {"lr=\"a\" b"},
        {"lr=99999999999999999999"},
    };
    static const char *const said[] = {"given twice", "given twice", "given twice",  "given twice",
                                       "given twice", "NAME=VALUE",  "NAME=VALUE",   "NAME=VALUE",
                                       "'lr=[1'",     "'lr=017'",    "'lr=\"a\" b'", "64 bits"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct err e = {0};
        CHECK_INT(param_text_set(&set, bad[i], &e), -EINVAL);
        CHECK_HAS(e.text, said[i]);
    }
}
