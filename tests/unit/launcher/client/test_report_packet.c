#include "launcher/client/report_packet.h"

#include <jansson.h>
#include <locale.h>
#include <math.h>

#include "common/mem.h"
#include "tests/unit/test.h"

static void encode_ok(struct strbuf *out, int64_t step, const struct drover_metric *m, size_t n)
{
    struct err e = {0};
    strbuf_reset(out);
    if (report_packet_encode(out, step, m, n, &e) < 0)
        FAIL("refused: %s", e.text);
}

TEST(a_report_is_one_json_object)
{
    struct strbuf b = {0};
    struct drover_metric m[] = {{"loss", 0.5}, {"acc", -3}};
    encode_ok(&b, 3, m, 2);
    CHECK_STR(strbuf_str(&b), "{\"step\":3,\"loss\":0.5,\"acc\":-3}");
    encode_ok(&b, INT64_MAX, NULL, 0);
    CHECK_STR(strbuf_str(&b), "{\"step\":9223372036854775807}");
    strbuf_free(&b);
}

TEST(values_that_json_lacks_are_words)
{
    struct strbuf b = {0};
    struct drover_metric m[] = {{"a", NAN}, {"b", INFINITY}, {"c", -INFINITY}};
    encode_ok(&b, 0, m, 3);
    CHECK_STR(strbuf_str(&b), "{\"step\":0,\"a\":\"nan\",\"b\":\"inf\",\"c\":\"-inf\"}");
    strbuf_free(&b);
}

TEST(every_double_comes_back_as_it_was)
{
    static const double values[] = {
        0.41, 1.0 / 3, 5e-324, 1.7976931348623157e308, -0.0, 1e22, 123456789.123456789};
    struct strbuf b = {0};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct drover_metric m = {"x", values[i]};
        encode_ok(&b, 1, &m, 1);
        json_t *j = json_loads(strbuf_str(&b), JSON_DECODE_INT_AS_REAL, NULL);
        CHECK(j);
        double back = json_real_value(json_object_get(j, "x"));
        CHECK(memcmp(&back, &values[i], sizeof back) == 0);
        json_decref(j);
    }
    strbuf_free(&b);
}

TEST(names_are_escaped_so_that_a_parser_gives_them_back)
{
    static const char *const names[] = {"val/loss", "a\"b\\c", "tab\there\x01",
                                        "größe 損失 \xf0\x9f\x98\x80", "/"};
    struct strbuf b = {0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct drover_metric m = {names[i], 1};
        encode_ok(&b, 1, &m, 1);
        json_t *j = json_loads(strbuf_str(&b), 0, NULL);
        CHECK(j);
        CHECK(json_object_get(j, names[i]));
        json_decref(j);
    }
    strbuf_free(&b);
}

/* Builds the locale if it is not installed, as on a minimal system. */
static void german_locale(void)
{
    char dir[] = "/tmp/drover-locale-XXXXXX", command[256];
    CHECK(mkdtemp(dir));
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 2>/dev/null",
             dir);
    int made = system(command);
    setenv("LOCPATH", dir, 1);
    const char *set = made == 0 ? setlocale(LC_ALL, "de_DE.UTF-8") : NULL;
    snprintf(command, sizeof command, "rm -r %s", dir);
    CHECK_INT(system(command), 0);
    if (!set)
        SKIP("this machine's C library comes without definitions of locales");
}

TEST(the_locales_decimal_comma_does_not_get_in)
{
    if (!setlocale(LC_ALL, "de_DE.UTF-8"))
        german_locale();
    char point[16];
    snprintf(point, sizeof point, "%.1f", 0.5);
    CHECK_STR(point, "0,5");
    struct strbuf b = {0};
    struct drover_metric m = {"x", 0.5};
    encode_ok(&b, 1, &m, 1);
    CHECK_STR(strbuf_str(&b), "{\"step\":1,\"x\":0.5}");
    snprintf(point, sizeof point, "%.1f", 0.5);
    CHECK_STR(point, "0,5"); /* the program's locale is unchanged */
    strbuf_free(&b);
}

TEST(bad_names_are_refused)
{
    static const char *const names[] = {NULL,
                                        "",
                                        "step",
                                        "\xff",
                                        "a\xc3",
                                        "\xc0\xaf",
                                        "\xe0\x80\xaf",
                                        "\xed\xa0\x80",
                                        "\xf5\x80\x80\x80",
                                        "\xf4\x90\x80\x80",
                                        "\x80"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct strbuf b = {0};
        struct err e = {0};
        struct drover_metric m = {names[i], 1};
        if (report_packet_encode(&b, 1, &m, 1, &e) != -EINVAL)
            FAIL("name %zu was taken", i);
        CHECK_HAS(e.text, "a metric");
        strbuf_free(&b);
    }
}

TEST(a_report_that_no_packet_can_hold_is_refused)
{
    struct strbuf b = {0}, name = {0};
    for (int i = 0; i < REPORT_PACKET_BYTES_MAX; i++)
        strbuf_putc(&name, 'x');
    struct drover_metric m = {strbuf_str(&name), 1};
    struct err e = {0};
    CHECK_INT(report_packet_encode(&b, 1, &m, 1, &e), -EMSGSIZE);
    strbuf_free(&b);
    strbuf_free(&name);
}

TEST(stop_is_recognised_however_it_is_spaced)
{
    static const char *const yes[] = {"{\"stop\":true}", "{ \"stop\" : true }",
                                      "{\"v\":1,\"stop\":\ttrue}"};
    static const char *const no[] = {
        "", "{}", "{\"stop\":false}", "stop true", "{\"stop\":tru", "\"stop\"", "{\"stop\"true}"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        if (!report_packet_is_stop(yes[i], strlen(yes[i])))
            FAIL("'%s' is not a stop", yes[i]);
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        if (report_packet_is_stop(no[i], strlen(no[i])))
            FAIL("'%s' is a stop", no[i]);
}

static const char *progress(struct strbuf *b, const char *kind, const char *section, double s)
{
    static struct err e;
    e = (struct err){0};
    strbuf_reset(b);
    return report_packet_progress(b, kind, section, s, &e) < 0 ? e.text : strbuf_str(b);
}

TEST(sections_and_heartbeats_are_objects_with_a_kind)
{
    AUTO(strbuf) struct strbuf b = {0};
    char longest[REPORT_PACKET_SECTION_MAX + 2];
    memset(longest, 'a', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    CHECK_STR(progress(&b, "heartbeat", NULL, -1), "{\"kind\":\"heartbeat\"}");
    CHECK_STR(progress(&b, "section_begin", "a \"b\"", -1),
              "{\"kind\":\"section_begin\",\"section\":\"a \\\"b\\\"\"}");
    CHECK_STR(progress(&b, "section_end", "step", 0.5),
              "{\"kind\":\"section_end\",\"section\":\"step\",\"s\":0.5}");
    CHECK_STR(progress(&b, "section_begin", "", -1), "a section has no name");
    CHECK_STR(progress(&b, "section_begin", "\xff", -1), "the name of a section is not UTF-8");
    CHECK_STR(progress(&b, "section_begin", longest, -1),
              "the name of a section is longer than 200 bytes");
}
