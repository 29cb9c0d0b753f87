#include "hpo/space/python_repr.h"

#include "common/json.h"
#include "tests/unit/test.h"

/* Printed by Python 3.11: a JSON text x, str(json.loads(x)), json.dumps(json.loads(x)). */
static const struct {
    const char *json, *str, *dumps;
} vectors[] = {
    {"0.001", "0.001", "0.001"},
    {"1e-05", "1e-05", "1e-05"},
    {"0.0001", "0.0001", "0.0001"},
    {"0.00012345", "0.00012345", "0.00012345"},
    {"3.0", "3.0", "3.0"},
    {"1e16", "1e+16", "1e+16"},
    {"1e15", "1000000000000000.0", "1000000000000000.0"},
    {"123456789012345680.0", "1.2345678901234568e+17", "1.2345678901234568e+17"},
    {"0.1", "0.1", "0.1"},
    {"0.30000000000000004", "0.30000000000000004", "0.30000000000000004"},
    {"-2.5", "-2.5", "-2.5"},
    {"5e-324", "5e-324", "5e-324"},
    {"1.7976931348623157e308", "1.7976931348623157e+308", "1.7976931348623157e+308"},
    {"100000.0", "100000.0", "100000.0"},
    {"1e22", "1e+22", "1e+22"},
    {"9007199254740993", "9007199254740993", "9007199254740993"},
    {"0.0", "0.0", "0.0"},
    {"-0.0", "-0.0", "-0.0"},
    {"1e-4", "0.0001", "0.0001"},
    {"9.999e-05", "9.999e-05", "9.999e-05"},
    {"2.5e-7", "2.5e-07", "2.5e-07"},
    {"1e100", "1e+100", "1e+100"},
    {"123456.789", "123456.789", "123456.789"},
    {"true", "True", "true"},
    {"false", "False", "false"},
    {"null", "None", "null"},
    {"0", "0", "0"},
    {"-12", "-12", "-12"},
    {"\"relu\"", "relu", "\"relu\""},
    {"\"it's\"", "it's", "\"it's\""},
    {"[1, 2.0, \"a\", true, null]", "[1, 2.0, 'a', True, None]", "[1, 2.0, \"a\", true, null]"},
    {"{\"lr\": 0.1, \"n\": {\"a\": [1e-6]}}", "{'lr': 0.1, 'n': {'a': [1e-06]}}",
     "{\"lr\": 0.1, \"n\": {\"a\": [1e-06]}}"},
    {"[\"it's\", \"say \\\"hi\\\"\", \"both ' and \\\"\"]",
     "[\"it's\", 'say \"hi\"', 'both \\' and \"']",
     "[\"it's\", \"say \\\"hi\\\"\", \"both ' and \\\"\"]"},
    {"[\"tab\\t nl\\n cr\\r bs\\\\ bell\\u0007\"]", "['tab\\t nl\\n cr\\r bs\\\\ bell\\x07']",
     "[\"tab\\t nl\\n cr\\r bs\\\\ bell\\u0007\"]"},
    {"[\"h\\u00e9 \\u20ac \\ud83d\\ude00 \\u00a0 \\u200b \\u00ad \\ue000\"]",
     "['h\303\251 \342\202\254 \360\237\230\200 \\xa0 \\u200b \\xad \\ue000']",
     "[\"h\\u00e9 \\u20ac \\ud83d\\ude00 \\u00a0 \\u200b \\u00ad \\ue000\"]"},
    {"[]", "[]", "[]"},
    {"{}", "{}", "{}"},
    {"\"\"", "", "\"\""},
    {"[\"\"]", "['']", "[\"\"]"},
    {"[\"\\u007f\\f\\b\"]", "['\\x7f\\x0c\\x08']", "[\"\\u007f\\f\\b\"]"},
};

TEST(values_are_printed_as_python_prints_them)
{
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        json_t *v = json_loads(vectors[i].json, JSON_DECODE_ANY, NULL);
        struct strbuf str = {0}, dumps = {0};
        python_repr_str(&str, v);
        python_repr_json(&dumps, v);
        CHECK_STR(strbuf_str(&str), vectors[i].str);
        CHECK_STR(strbuf_str(&dumps), vectors[i].dumps);
        strbuf_free(&str);
        strbuf_free(&dumps);
        json_decref(v);
    }
}

TEST(pyyaml_reads_numbers_of_the_yaml_form_as_numbers)
{
    AUTO(json)
    json_t *v = json_pack("{s:f,s:f,s:i,s:s,s:[f]}", "lr", 1e-5, "big", 1.5e20, "n", 3, "s",
                          "\xc3\xa9\xf0\x9f\x98\x80\n", "list", 1e16);
    AUTO(strbuf) struct strbuf b = {0};
    python_repr_yaml(&b, v);
    CHECK_STR(strbuf_str(&b), "{\"lr\": 1.0e-05, \"big\": 1.5e+20, \"n\": 3, "
                              "\"s\": \"\xc3\xa9\xf0\x9f\x98\x80\\n\", \"list\": [1.0e+16]}");
}
