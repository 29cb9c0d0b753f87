/* progress_packet: which packets are no metrics. */
#include "launcher/io/progress_packet.h"

#include "tests/unit/test.h"

static struct progress_packet got;

static bool read_packet(const char *text)
{
    progress_packet_free(&got);
    return progress_packet_read(&got, text, strlen(text));
}

TEST(each_kind_is_read_with_its_section_and_time)
{
    CHECK(read_packet("{\"kind\":\"section_begin\",\"section\":\"step\"}"));
    CHECK_INT(got.kind, PROGRESS_SECTION_BEGIN);
    CHECK_STR(got.section, "step");
    CHECK(got.seconds < 0);
    CHECK(read_packet("{\"kind\": \"section_end\", \"section\": \"step\", \"s\": 0.5}"));
    CHECK_INT(got.kind, PROGRESS_SECTION_END);
    CHECK_NEAR(got.seconds, 0.5, 0);
    CHECK(read_packet("{\"kind\":\"section_end\"}") && !got.section);
    CHECK(read_packet("{\"kind\":\"heartbeat\"}") && got.kind == PROGRESS_HEARTBEAT);
    CHECK(read_packet("{\"kind\":\"connect\"}") && got.kind == PROGRESS_CONNECT);
    CHECK(read_packet("{\"kind\":\"disconnect\"}") && got.kind == PROGRESS_DISCONNECT);
    CHECK(read_packet("{\"kind\":\"limits\",\"heartbeat\":3}") && got.kind == PROGRESS_LIMITS);
    CHECK_INT(json_integer_value(json_object_get(got.json, "heartbeat")), 3);
    progress_packet_free(&got);
}

TEST(reports_and_malformed_packets_are_none)
{
    static const char *const texts[] = {
        "{\"step\":3,\"loss\":0.41}",
        "{\"step\":3,\"kind\":2}", /* a metric of this name */
        "{\"step\":3,\"kind\":\"nan\"}",
        "{\"kind\":\"section_begin\"}",
        "{\"kind\":\"section_begin\",\"section\":\"\"}",
        "{\"kind\":\"section_begin\",\"section\":4}",
        "{\"kind\":\"unknown\"}",
        "{\"kind\":\"heartbeat\"",
        "[\"kind\"]",
        "",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (read_packet(texts[i]))
            FAIL("%s is taken for progress", texts[i]);
    CHECK(read_packet("{\"kind\":\"section_end\",\"section\":\"a\",\"s\":-1}") && got.seconds < 0);
    progress_packet_free(&got);
}
