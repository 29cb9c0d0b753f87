/* test_metric_mapping - reports in lines that are mappings. */
#include "launcher/io/metric_mapping.h"

#include "common/json.h"
#include "common/strbuf.h"
#include "tests/unit/test.h"

/* The report as text, valid until the next call. Frees the report. */
static const char *said(json_t *report)
{
    static char text[256];
    size_t len =
        report ? json_dumpb(report, text, sizeof text - 1, JSON_COMPACT | JSON_SORT_KEYS) : 0;
    text[len] = 0;
    json_decref(report);
    return len > 0 ? text : "none";
}

static const char *json_of(const char *line)
{
    return said(metric_mapping_read(line, strlen(line)));
}

TEST(a_line_that_is_an_object_with_numbers_is_a_report)
{
    CHECK_STR(json_of("{\"step\":3,\"loss\":0.5}"), "{\"loss\":0.5,\"step\":3}");
    CHECK_STR(json_of("  {\"loss\": -1e-3 }\r"), "{\"loss\":-0.001}");
    CHECK_STR(json_of("{\"a\":1,\"note\":\"x\",\"ok\":true,\"list\":[1]}"), "{\"a\":1}");
}

TEST(other_lines_are_none)
{
    const char *const lines[] = {"",
                                 "{",
                                 "{}",
                                 "loss 0.5",
                                 "[1,2]",
                                 "{\"a\":\"b\"}",
                                 "{'loss': 0.5",
                                 "{'loss: 0.5}",
                                 "{'a': 'it is'}",
                                 "{0.5}",
                                 "{\"a\":1} trailing",
                                 "{\"loss\":NaNo}"};
    for (size_t i = 0; i < COUNT_OF(lines); i++)
        CHECK_STR(json_of(lines[i]), "none");
}

TEST(a_mapping_that_python_printed_is_a_report)
{
    CHECK_STR(json_of("{'eval_loss': 0.25, 'epoch': 1.0, 'ok': True, 'none': None}"),
              "{\"epoch\":1.0,\"eval_loss\":0.25}");
    CHECK_STR(json_of("{'a': nan, 'b': -inf, 'c': inf}"),
              "{\"a\":\"nan\",\"b\":\"-inf\",\"c\":\"inf\"}");
    CHECK_STR(json_of("{'loss': np.float64(0.5), 'n': np.int64(3)}"), "{\"loss\":0.5,\"n\":3}");
    CHECK_STR(json_of("{'a \"b\"': 1, \"it's\": 2, 'it\\'s too': 3}"),
              "{\"a \\\"b\\\"\":1,\"it's\":2,\"it's too\":3}");
}

TEST(numbers_of_nested_mappings_have_dotted_names)
{
    CHECK_STR(json_of("{\"epoch\": 1, \"val\": {\"loss\": 0.5, \"top\": {\"1\": 0.75}}}"),
              "{\"epoch\":1,\"val.loss\":0.5,\"val.top.1\":0.75}");
    CHECK_STR(json_of("{'val': {'loss': 0.5}}"), "{\"val.loss\":0.5}");
    CHECK_STR(json_of("{\"val\": {\"note\": \"x\"}}"), "none");
}

TEST(what_python_writes_for_not_finite_numbers_is_understood)
{
    CHECK_STR(json_of("{\"a\": NaN, \"b\": -Infinity, \"c\": [Infinity], \"d\": 1}"),
              "{\"a\":\"nan\",\"b\":\"-inf\",\"d\":1}");
    CHECK_STR(json_of("{\"say \\\"NaN\\\" Infinity\": NaN}"),
              "{\"say \\\"NaN\\\" Infinity\":\"nan\"}");
}

TEST(python_prints_numbers_in_calls)
{
    static const char *const rows[][2] = {
        {"{'a': tensor(0.5)}", "{\"a\":0.5}"},
        {"{'a': tensor(1., device='cuda:0', grad_fn=<MeanBackward0>), 'b': 2}",
         "{\"a\":1.0,\"b\":2}"},
        {"{'a': Array(0.5, dtype=float32)}", "{\"a\":0.5}"},
        {"{'a': tensor(nan), 'b': np.float64(-inf), 'c': float('inf')}",
         "{\"a\":\"nan\",\"b\":\"-inf\",\"c\":\"inf\"}"},
        {"defaultdict(<class 'float'>, {'a': 1})", "none"},
        {"{'a': defaultdict(<class 'float'>, {'b': 0.5}), 'c': Counter({'d': 2})}",
         "{\"a.b\":0.5,\"c.d\":2}"},
        {"{'a': tensor([0.5, 1.]), 'b': array([1, 2]), 'c': 3}", "{\"c\":3}"},
        {"{'a': datetime.date(2024, 1, 2), 'b': range(0, 2), 'c': slice(None, 1, None), 'd': 4}",
         "{\"d\":4}"},
        {"{'a': <tf.Tensor: shape=(), dtype=float32, numpy=0.5>, 'b': 1}", "{\"b\":1}"},
        {"{'a': <function <lambda> at 0x7f>, 'b': PosixPath('/a, b'), 'c': 1}", "{\"c\":1}"},
        {"{'a': np.True_, 'b': np.str_('1'), 'c': b'1', 'd': 1+2j, 'e': (1+2j), 'f': ..., 'g': 1}",
         "{\"g\":1}"},
        {"{'a': f(1)(2), 'b': f(1) + 2, 'c': f(), 'd': f(x=1), 'e': 1}", "{\"e\":1}"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CHECK_STR(json_of(rows[i][0]), rows[i][1]);
}

TEST(values_that_are_not_numbers_hide_no_number)
{
    static const char *const rows[][2] = {
        {"{'t': (1, 2), 'l': [1, {'x': 2}], 's': {1, 2}, 'e': set(), 'd': {}, 'a': 1}",
         "{\"a\":1}"},
        {"{'s': {'}', \"]\"}, 'q': ['\\'', \"\\\"\", '\\\\'], 'a': 1}", "{\"a\":1}"},
        {"{0: 0.5, -1: 1, 0.5: 2, 'n': {10: 3}}", "{\"-1\":1,\"0\":0.5,\"0.5\":2,\"n.10\":3}"},
        {"{('a', 'b'): 1, None: 2, True: 3, <E.A: 'x:y'>: 4, b'k': 5, 'a': 6}", "{\"a\":6}"},
        {"{'a': 1, }", "{\"a\":1}"},
        {"{'a': 1, 'a': 2}", "{\"a\":2}"},
        {"{\"a\": \"0.5\", \"b\": \"nan\", \"c\": \"\", \"d\": 1}", "{\"b\":\"nan\",\"d\":1}"},
        {"{'a' 'b': 1}", "none"},
        {"{'a': 1 'b': 2}", "none"},
        {"{'a': 1}}", "none"},
        {"{'a': 1]", "none"},
        {"{'a': 1} {'b': 2}", "none"},
        {"{1, 2}", "none"},
        {"{a: 1}", "none"},
        {"{'a'}", "none"},
        {"{'a':}", "none"},
        {"{'a': 1,, 'b': 2}", "none"},
        {"{'a\\", "none"},
        {"{'a': '\\u12", "none"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CHECK_STR(json_of(rows[i][0]), rows[i][1]);
}

TEST(numbers_of_any_form_and_size)
{
    static const char *const rows[][2] = {
        {"{'a': 1., 'b': .5, 'c': -5e-01, 'd': 1E+3, 'e': -0}",
         "{\"a\":1.0,\"b\":0.5,\"c\":-0.5,\"d\":1000.0,\"e\":0}"},
        {"{'a': 9223372036854775807, 'b': 18446744073709551616, 'c': 1e999, 'd': -1e999}",
         "{\"a\":9223372036854775807,\"b\":1.8446744073709552e19,\"c\":\"inf\",\"d\":\"-inf\"}"},
        {"{'a': 1e, 'b': ., 'c': -, 'd': 1.2.3, 'e': 0x10, 'f': 1_0, 'g': --1, 'h': 1}",
         "{\"h\":1}"},
        {"{'a': infinity, 'b': nano, 'c': Infinity, 'd': -NaN}", "{\"c\":\"inf\",\"d\":\"nan\"}"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CHECK_STR(json_of(rows[i][0]), rows[i][1]);
}

TEST(escapes_in_names_are_decoded)
{
    CHECK_STR(json_of("{'a\\n\\t\\\\\\'': 1}"), "{\"a\\n\\t\\\\'\":1}");
    CHECK_STR(json_of("{\"\\u00e9\\ud83d\\ude00\\/\": 1, '\\xe9\\U0001f600': 2}"),
              "{\"\303\251\360\237\230\200\":2,\"\303\251\360\237\230\200/\":1}");
    CHECK_STR(
        json_of("{\"\\ud83d\": 1, \"\\ud83d\\u0041\": 2, '\\x00': 3, \"\\ude00\": 4, 'a': 5}"),
        "{\"a\":5}");
    CHECK_STR(json_of("{'\xff': 1, 'a': 2}"), "{\"a\":2}");
}

TEST(limits)
{
    AUTO(strbuf) struct strbuf b = {0};
    for (int depth = 1; depth <= 30; depth++) {
        strbuf_reset(&b);
        for (int i = 0; i < depth; i++)
            strbuf_puts(&b, "{'a':");
        strbuf_puts(&b, "1");
        for (int i = 0; i < depth; i++)
            strbuf_puts(&b, "}");
        CHECK((strcmp(json_of(strbuf_str(&b)), "none") != 0) == (depth <= 17));
    }
    strbuf_reset(&b);
    strbuf_puts(&b, "{");
    for (int i = 0; i < 2000; i++)
        strbuf_printf(&b, "'%d': 1, ", i);
    strbuf_printf(&b, "'%01024d': 1}", 0);
    json_t *many = metric_mapping_read(strbuf_str(&b), b.len);
    CHECK_INT(json_object_size(many), 1024);
    json_decref(many);
    strbuf_reset(&b);
    strbuf_printf(&b, "{'%01024d': 1, 'a': 1}", 0);
    CHECK_STR(json_of(strbuf_str(&b)), "{\"a\":1}");
    strbuf_reset(&b);
    strbuf_printf(&b, "{'a': 1, 'b': '%070000d'}", 0);
    CHECK_STR(json_of(strbuf_str(&b)), "none");
}

TEST(any_text_ends)
{
    static const char bytes[] = "{}[]()<>'\"\\,:.-+ eE01nafN_=ux\xff";
    uint64_t state = 1;
    for (int i = 0; i < 20000; i++) {
        char text[64] = "{'a':";
        size_t len = 5 + (size_t)(i % 50);
        for (size_t k = 5; k < len; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            text[k] = bytes[(state >> 33) % (sizeof bytes - 1)];
        }
        AUTO(free) char *exact = malloc(len); /* for the address sanitizer: nothing after it */
        memcpy(exact, text, len);
        json_decref(metric_mapping_read(exact, len));
    }
    AUTO(strbuf) struct strbuf b = {0};
    for (const char *open = "{[(<"; *open; open++) {
        strbuf_reset(&b);
        strbuf_puts(&b, "{'a': ");
        for (int i = 0; i < 60000; i++)
            strbuf_putc(&b, *open);
        CHECK_STR(json_of(strbuf_str(&b)), "none");
    }
}
