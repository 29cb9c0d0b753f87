#include "common/yaml.h"

#include <math.h>

#include "common/json.h"
#include "common/strbuf.h"
#include "tests/unit/test.h"

static struct err error;

static struct yaml_doc *read_doc(const char *text)
{
    struct yaml_doc *d = NULL;
    error = (struct err){0};
    int rc = yaml_read(&d, text, strlen(text), "f.yaml", NULL, &error);
    CHECK_INT(rc < 0, d == NULL);
    CHECK_INT(rc, error.code);
    return d;
}

/* Returns `text` as one line of JSON, or the error. The caller frees it. */
static char *line_of(const char *text)
{
    AUTO(yaml_doc) struct yaml_doc *d = read_doc(text);
    return d ? json_line(yaml_root(d)) : xstrdup(error.text);
}

#define CHECK_READS(text, want)                \
    do {                                       \
        AUTO(free) char *line = line_of(text); \
        CHECK_STR(line, want);                 \
    } while (0)

TEST(plain_scalars_are_what_people_mean)
{
    static const char *const cases[][2] = {
        {"0", "0"},
        {"-0", "0"},
        {"12", "12"},
        {"+12", "12"},
        {"-3", "-3"},
        {"1_000", "1000"},
        {"0x1F", "31"},
        {"-0xff", "-255"},
        {"9223372036854775807", "9223372036854775807"},
        {"-9223372036854775808", "-9223372036854775808"},
        {"1.0", "1.0"},
        {"1.", "1.0"},
        {".5", "0.5"},
        {"-.5", "-0.5"},
        {"1e-4", "0.0001"},
        {"1e+4", "10000.0"},
        {"1e4", "10000.0"},
        {"1.5e3", "1500.0"},
        {"1.5E3", "1500.0"},
        {"1_000.5", "1000.5"},
        {"0.5", "0.5"},
        {"00.5", "0.5"},
        {".inf", "\"inf\""},
        {"+.INF", "\"inf\""},
        {"-.Inf", "\"-inf\""},
        {".NaN", "\"nan\""},
        {"inf", "\"inf\""},
        {"-.nan", "\"-.nan\""},
        {"true", "true"},
        {"Yes", "true"},
        {"ON", "true"},
        {"no", "false"},
        {"Off", "false"},
        {"FALSE", "false"},
        {"yEs", "\"yEs\""},
        {"y", "\"y\""},
        {"n", "\"n\""},
        {"~", "null"},
        {"null", "null"},
        {"NULL", "null"},
        {"---", "null"},
        {"nULL", "\"nULL\""},
        {"adam", "\"adam\""},
        {"1e", "\"1e\""},
        {"1e4x", "\"1e4x\""},
        {"e4", "\"e4\""},
        {"1-2", "\"1-2\""},
        {"+", "\"+\""},
        {".", "\".\""},
        {"-.", "\"-.\""},
        {"0x", "\"0x\""},
        {"0xg", "\"0xg\""},
        {"1.2.3", "\"1.2.3\""},
        {"10.0.0.1", "\"10.0.0.1\""},
        {"_1", "\"_1\""},
        {"8080:80", "\"8080:80\""},
        {"12:3x", "\"12:3x\""},
        {"12:", "{\"12\":null}"},
        {"a:30", "\"a:30\""},
        {"2024-01-01", "\"2024-01-01\""},
        {"<<", "\"<<\""},
        {"=", "\"=\""},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        CHECK_READS(cases[i][0], cases[i][1]);
}

TEST(integers_and_reals_stay_apart)
{
    AUTO(yaml_doc) struct yaml_doc *d = read_doc("[1, 1.0, 1e0]");
    const json_t *root = yaml_root(d);
    CHECK(json_is_integer(json_array_get(root, 0)));
    CHECK(json_is_real(json_array_get(root, 1)));
    CHECK(json_is_real(json_array_get(root, 2)));
}

TEST(look_alikes_are_refused_with_their_place)
{
    static const char *const bad[] = {"017",
                                      "08",
                                      "-017",
                                      "00",
                                      "0_7",
                                      "0o17",
                                      "0b11",
                                      "12:30:45",
                                      "1:30",
                                      "01:30:00",
                                      "16:9",
                                      "+12:30",
                                      "1:30:00.5",
                                      "1_0:30",
                                      "9223372036854775808",
                                      "0xfffffffffffffffff",
                                      "1e999",
                                      "-1e999",
                                      "1e-999"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        char text[64];
        snprintf(text, sizeof text, "a: 1\nb:\n  - %s\n", bad[i]);
        AUTO(yaml_doc) struct yaml_doc *d = read_doc(text);
        if (d)
            FAIL("'%s' was read", bad[i]);
        snprintf(text, sizeof text, "f.yaml:3:5: '%s' ", bad[i]);
        CHECK_HAS(error.text, text);
    }
}

TEST(quotes_blocks_and_str_make_strings)
{
    CHECK_READS("['1', \"yes\", '', '~', '017', '12:30:45', '1e4']",
                "[\"1\",\"yes\",\"\",\"~\",\"017\",\"12:30:45\",\"1e4\"]");
    CHECK_READS("a: |\n  12\nb: >-\n  no\n", "{\"a\":\"12\\n\",\"b\":\"no\"}");
    CHECK_READS("[!!str 12, !!str '', !!str 017]", "[\"12\",\"\",\"017\"]");
    CHECK_READS("\"\\u00e4\\n\\x41\"", "\"\xc3\xa4\\nA\"");
    CHECK_READS("{a: !!map {}, b: !!seq []}", "{\"a\":{},\"b\":[]}");
}

TEST(core_tags_decide_the_type)
{
    CHECK_READS("a: !!float 1e-5", "{\"a\":1e-05}");
    CHECK_READS("a: !!float 3", "{\"a\":3.0}");
    CHECK_READS("a: !!float '3'", "{\"a\":3.0}");
    CHECK_READS("a: !!float .inf", "{\"a\":\"inf\"}");
    CHECK_READS("a: !!int \"3\"", "{\"a\":3}");
    CHECK_READS("a: !!bool \"true\"", "{\"a\":true}");
    CHECK_READS("a: !!bool no", "{\"a\":false}");
    CHECK_READS("a: !!null ''", "{\"a\":null}");
    CHECK_READS("a: !!str 12", "{\"a\":\"12\"}");
    CHECK_READS("a: !!int 1.5", "f.yaml:1:4: '1.5' is not an integer, as the tag !!int says");
    CHECK_READS("a: !!float x", "f.yaml:1:4: 'x' is not a number, as the tag !!float says");
    CHECK_READS("a: !!bool 1", "f.yaml:1:4: '1' is not a boolean, as the tag !!bool says");
    CHECK_READS("a: !!null x", "f.yaml:1:4: 'x' is not null, as the tag !!null says");
    CHECK_READS("a: !!int 017", "f.yaml:1:4: '017' may be octal or decimal: write it without the "
                                "leading zero, or in quotes");
}

TEST(hashes_are_text)
{
    CHECK_READS("[12345e67, 0012389, 1e6, 123e45, 0.5e12]",
                "[\"12345e67\",\"0012389\",1000000.0,1.23e+47,500000000000.0]");
    CHECK_READS("a: 1234567890123456789012345678901234567890",
                "{\"a\":\"1234567890123456789012345678901234567890\"}");
    CHECK_READS("a: 12345678901234567890",
                "f.yaml:1:4: '12345678901234567890' does not fit into 64 bits");
    CHECK_READS("a: 0012367", "f.yaml:1:4: '0012367' may be octal or decimal: write it without the "
                              "leading zero, or in quotes");
}

TEST(words_below_the_text_key_stay_as_written)
{
    static const char text[] = "command: [a, 017, 1e-4, yes, ~, 0x10, [1_0]]\nn: {command: 1e-4}\n";
    AUTO(yaml_doc) struct yaml_doc *d = NULL;
    CHECK_INT(yaml_read(&d, text, strlen(text), "f.yaml", "command", NULL), 0);
    AUTO(free) char *line = json_line(yaml_root(d));
    CHECK_STR(line, "{\"command\":[\"a\",\"017\",\"1e-4\",\"yes\",\"~\",\"0x10\",[\"1_0\"]],"
                    "\"n\":{\"command\":0.0001}}");
}

TEST(tags_that_are_not_known_are_refused)
{
    CHECK_READS("a: !!binary 1", "f.yaml:1:4: unsupported tag '!!binary'");
    CHECK_READS("a: !mine 1", "f.yaml:1:4: unsupported tag '!mine'");
    CHECK_READS("a: ! 1", "f.yaml:1:4: unsupported tag '!'"); /* PyYAML: 1, YAML 1.2: text */
    CHECK_READS("a: !!seq {}", "f.yaml:1:4: unsupported tag '!!seq'");
    CHECK_READS("!!int 1: 2", "f.yaml:1:1: unsupported tag '!!int'");
}

TEST(keys_stay_in_file_order_and_are_text_as_written)
{
    CHECK_READS("z: 1\na: 2\n1: 3\nyes: 4\n'': 5\n017: 6\n~: 7\n0.50: 8\n",
                "{\"z\":1,\"a\":2,\"1\":3,\"yes\":4,\"\":5,\"017\":6,\"~\":7,\"0.50\":8}");
}

TEST(keys_that_are_no_text_or_twice_there_are_refused)
{
    CHECK_READS("a: 1\nb: 2\na: 3\n", "f.yaml:3:1: duplicate key 'a', first in line 1");
    CHECK_READS("x: {a: 1, 'a': 2}", "f.yaml:1:11: duplicate key 'a', first in line 1");
    CHECK_READS("? [a]\n: 1\n", "f.yaml:1:3: a key must be text, not a list or a mapping");
    CHECK_READS("{{a: 1}: 2}", "f.yaml:1:2: a key must be text, not a list or a mapping");
    CHECK_READS("[&k a, {*k : 1}]", "f.yaml:1:9: a key must be text, not an alias");
    CHECK_READS("? \n: 1\n", "f.yaml:1:2: a key is missing");
}

TEST(aliases_stand_for_what_their_anchors_hold)
{
    CHECK_READS("a: &x {p: 1, q: [2]}\nb: *x\nc: [*x, &y 3, *y]\n",
                "{\"a\":{\"p\":1,\"q\":[2]},\"b\":{\"p\":1,\"q\":[2]},"
                "\"c\":[{\"p\":1,\"q\":[2]},3,3]}");
    CHECK_READS("[*x]", "f.yaml:1:2: alias '*x': no complete anchor has this name");
    CHECK_READS("&x [1, *x]", "f.yaml:1:8: alias '*x': no complete anchor has this name");
    CHECK_READS("&x {a: {b: *x}}", "f.yaml:1:12: alias '*x': no complete anchor has this name");
    CHECK_READS("[&x 1, *x, &x 2, *x]", "[1,1,2,2]");
}

TEST(merge_keys_give_what_a_mapping_lacks)
{
    CHECK_READS("a: &a {p: 1, q: 2}\nb: &b {q: 3, r: 4}\n"
                "c: {<<: *a, p: 9}\nd: {<<: [*a, *b], s: 5}\ne:\n  x: 0\n  <<: {x: 1, y: 2}\n",
                "{\"a\":{\"p\":1,\"q\":2},\"b\":{\"q\":3,\"r\":4},\"c\":{\"p\":9,\"q\":2},"
                "\"d\":{\"q\":2,\"r\":4,\"p\":1,\"s\":5},\"e\":{\"x\":0,\"y\":2}}");
    CHECK_READS("{'<<': 1}", "{\"<<\":1}");
    CHECK_READS("{!!str <<: 1}", "{\"<<\":1}");
    CHECK_READS("{<<: 1}", "f.yaml:1:6: '<<' needs a mapping, or a list of mappings");
    CHECK_READS("{<<: [{a: 1}, 2]}", "f.yaml:1:6: '<<' needs a mapping, or a list of mappings");
    CHECK_READS("{<<: [], a: 1}", "{\"a\":1}");
}

TEST(laughs_are_counted_before_they_are_told)
{
    AUTO(strbuf) struct strbuf b = {0};
    strbuf_puts(&b, "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for (int i = 1; i < 10; i++) {
        strbuf_printf(&b, "a%d: &a%d [", i, i);
        for (int k = 0; k < 10; k++)
            strbuf_printf(&b, "*a%d,", i - 1);
        strbuf_puts(&b, "]\n");
    }
    CHECK(!read_doc(strbuf_str(&b)));
    CHECK_INT(error.code, -E2BIG);
    CHECK_HAS(error.text, "f.yaml:5:"); /* preceded by 10 + 100 + 1,000 + 10,000 */
    CHECK_HAS(error.text, "more than 100000 values");
}

TEST(text_that_aliases_repeat_is_counted_too)
{
    AUTO(strbuf) struct strbuf b = {0};
    for (int as_key = 0; as_key <= 1; as_key++) {
        strbuf_reset(&b);
        strbuf_puts(&b, as_key ? "- &x {" : "- &x ");
        for (int i = 0; i < 1000 * 1024; i++)
            strbuf_putc(&b, 'x');
        strbuf_puts(&b, as_key ? "}\n" : "\n");
        for (int i = 0; i < 98; i++)
            strbuf_puts(&b, "- *x\n");
        AUTO(yaml_doc) struct yaml_doc *d = read_doc(strbuf_str(&b));
        CHECK(d != NULL);
        strbuf_puts(&b, "- *x\n");
        CHECK(!read_doc(strbuf_str(&b)));
        CHECK_INT(error.code, -E2BIG);
    }
}

TEST(depth_is_limited_aliases_included)
{
    AUTO(strbuf) struct strbuf b = {0};
    for (int depth = YAML_DEPTH_MAX - 1; depth <= YAML_DEPTH_MAX + 1; depth++) {
        strbuf_reset(&b);
        for (int i = 0; i < depth; i++)
            strbuf_putc(&b, '[');
        for (int i = 0; i < depth; i++)
            strbuf_putc(&b, ']');
        AUTO(yaml_doc) struct yaml_doc *d = read_doc(strbuf_str(&b));
        CHECK_INT(d != NULL, depth <= YAML_DEPTH_MAX);
    }
    CHECK_INT(error.code, -E2BIG);
    CHECK_STR(error.text, "f.yaml:1:65: nested deeper than 64");
    for (int over = 0; over <= 1; over++) {
        strbuf_reset(&b);
        strbuf_puts(&b, "[&x [[[[1]]]], "); /* 5 levels including the scalar, the outermost at 2 */
        int around = YAML_DEPTH_MAX - 1 - 5 + over;
        for (int i = 0; i < around; i++)
            strbuf_putc(&b, '[');
        strbuf_puts(&b, "*x");
        for (int i = 0; i < around; i++)
            strbuf_putc(&b, ']');
        strbuf_putc(&b, ']');
        AUTO(yaml_doc) struct yaml_doc *d = read_doc(strbuf_str(&b));
        CHECK_INT(d != NULL, !over);
    }
    CHECK_HAS(error.text, "nested deeper than 64");
}

TEST(size_and_count_of_values_are_limited)
{
    AUTO(strbuf) struct strbuf b = {0};
    for (int i = 0; i < YAML_NODES_MAX - 1; i++)
        strbuf_puts(&b, "- 1\n");
    AUTO(yaml_doc) struct yaml_doc *d = read_doc(strbuf_str(&b));
    CHECK(d != NULL);
    strbuf_puts(&b, "- 1\n");
    CHECK(!read_doc(strbuf_str(&b)));
    CHECK_STR(error.text, "f.yaml:100000:3: more than 100000 values, "
                          "including those that aliases expand to");
    AUTO(free) char *huge = xzalloc(YAML_SIZE_MAX + 1);
    memset(huge, 'x', YAML_SIZE_MAX + 1);
    struct yaml_doc *none = NULL;
    CHECK_INT(yaml_read(&none, huge, YAML_SIZE_MAX + 1, "h", NULL, &error), -E2BIG);
    CHECK_STR(error.text, "h: larger than 16 MiB");
    CHECK_INT(yaml_read(&none, huge, YAML_SIZE_MAX, "h", NULL, &error), 0);
    CHECK_INT(json_string_length(yaml_root(none)), YAML_SIZE_MAX);
    yaml_doc_free(none);
}

TEST(faults_of_syntax_have_their_place)
{
    static const char *const cases[][2] = {
        {"a: 1\n b: 2\n", "f.yaml:2:3: mapping values are not allowed in this context"},
        {"a: [1, 2\nb: 3\n", "f.yaml:2:2: did not find expected ',' or ']' "
                             "(while parsing a flow sequence that starts in line 1)"},
        {"a: 'x\n", "f.yaml:2:1: found unexpected end of stream "
                    "(while scanning a quoted scalar that starts in line 1)"},
        {"a:\n\t- 1\n", "f.yaml:2:1: found character that cannot start any token, "
                        "while scanning for the next token"},
        {"a: 1\n---\nb: 2\n", "f.yaml:2:1: a second document; only one is expected"},
        {"a: 1\n...\n---\nb: 2\n", "f.yaml:3:1: a second document; only one is expected"},
        {"", "f.yaml:1:1: the document is empty"},
        {"# only this\n", "f.yaml:2:1: the document is empty"},
        {"a: 1\nb: \"x\\0y\"\n", "f.yaml:2:4: a NUL byte in a string"},
        {"a: 1\n\"x\\0y\": 2\n", "f.yaml:2:1: a NUL byte in a string"},
        {"a: 1\nb\xc3\xa4: \xff\n", "f.yaml:2:5: invalid leading UTF-8 octet"},
        {"a: \x01\n", "f.yaml:1:4: control characters are not allowed"},
        {"a: \"\\ud800\"\n", "f.yaml:1:7: found invalid Unicode character escape code"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        AUTO(free) char *line = line_of(cases[i][0]);
        CHECK_HAS(line, cases[i][1]);
        CHECK_INT(error.code, -EINVAL);
    }
}

static void check_place(const struct yaml_doc *d, const char *path, const char *place)
{
    char want[64];
    snprintf(want, sizeof want, "f.yaml:%s: no 7", place);
    CHECK_INT(yaml_error_at(d, path, &error, -ERANGE, "no %d", 7), -ERANGE);
    CHECK_STR(error.text, want);
    CHECK_INT(error.code, -ERANGE);
}

TEST(a_path_leads_to_the_place_of_a_key_or_an_item)
{
    AUTO(yaml_doc)
    struct yaml_doc *d = read_doc("# a sweep\n"
                                  "method: bayes\n"
                                  "parameters:\n"
                                  "  lr: &lr\n"
                                  "    min: 1e-4\n"
                                  "    max: 1\n"
                                  "  a/b~c: {values: [1, [2, 3], 4]}\n"
                                  "  wd: *lr\n"
                                  "  m: {<<: *lr, max: 2}\n");
    check_place(d, "", "2:1");
    check_place(d, "/method", "2:1");
    check_place(d, "/parameters", "3:1");
    check_place(d, "/parameters/lr", "4:3");
    check_place(d, "/parameters/lr/min", "5:5");
    check_place(d, "/parameters/a~1b~0c", "7:3");
    check_place(d, "/parameters/a~1b~0c/values/1/0", "7:24");
    check_place(d, "/parameters/wd", "8:3");
    check_place(d, "/parameters/wd/max", "6:5"); /* the position of the anchor */
    check_place(d, "/parameters/m/max", "9:16");
    check_place(d, "/parameters/m/min", "5:5");
}

TEST(a_path_that_does_not_exist_leads_as_far_as_it_can)
{
    AUTO(yaml_doc) struct yaml_doc *d = read_doc("a:\n  b: [1, 2]\n");
    static const char *const at_list[] = {
        "/a/b/2", "/a/b/x", "/a/b/-1", "/a/b/", "/a/b/99999999999999999999", "/a/b/1x"};
    for (size_t i = 0; i < COUNT_OF(at_list); i++)
        check_place(d, at_list[i], "2:3");
    check_place(d, "/a/b/1/c/d", "2:10");
    check_place(d, "/a/c/d", "1:1");
    check_place(d, "/c", "1:1");
    check_place(d, "/a~", "1:1");
    AUTO(yaml_doc) struct yaml_doc *scalar = read_doc("  x");
    check_place(scalar, "/a", "1:3");
}

TEST(files_are_read_whole_and_faults_name_them)
{
    char path[] = "/tmp/test_yaml.XXXXXX";
    AUTO(fd) int fd = mkstemp(path);
    CHECK_INT(write(fd, "a: [1\n", 6), 6);
    struct yaml_doc *d = NULL;
    CHECK_INT(yaml_read_file(&d, path, &error), -EINVAL);
    CHECK_HAS(error.text, path);
    CHECK_HAS(error.text, ":2:1: ");
    CHECK_INT(write(fd, "]", 1), 1);
    CHECK_INT(yaml_read_file(&d, path, &error), 0);
    CHECK_INT(json_array_size(json_object_get(yaml_root(d), "a")), 1);
    yaml_doc_free(d);
    d = NULL;
    CHECK_INT(ftruncate(fd, YAML_SIZE_MAX + 1), 0);
    CHECK_INT(yaml_read_file(&d, path, &error), -E2BIG);
    unlink(path);
    CHECK_INT(yaml_read_file(&d, path, &error), -ENOENT);
    CHECK_INT(yaml_read_file(&d, "/", &error), -EISDIR);
    CHECK_STR(error.text, "/: Is a directory");
    CHECK(d == NULL);
    yaml_doc_free(NULL);
}
