/* test_wire - messages between coordinator and workers that are accepted, and that are rejected. */
#include "hpo/transport/wire.h"

#include "common/mem.h"
#include "tests/unit/test.h"

static const char *const good[] = {
    "{\"v\":8,\"kind\":\"hello\",\"conn\":1,\"data\":{\"node\":\"c03\",\"slots\":4,\"cpus\":8,"
    "\"gpus\":2,\"ping_ms\":5000,\"running\":[7,9]}}",
    "{\"v\":8,\"kind\":\"slots\",\"conn\":1,\"data\":{\"slots\":6,\"why\":\"GPU-1 is left "
    "out\"}}",
    "{\"v\":8,\"kind\":\"report\",\"conn\":3,\"instance\":7,\"lease\":12,\"seq\":4,\"data\":{"
    "\"step\":3,\"loss\":"
    "0."
    "5,\"bad\":\"NaN\"}}",
    "{\"v\":8,\"kind\":\"done\",\"conn\":1,\"instance\":7,\"lease\":1,\"seq\":1,\"data\":{"
    "\"status\":-1,"
    "\"signal\":"
    "9,\"oom\":true,\"seconds\":1.5,\"error\":\"out of memory\",\"node_fault\":0}}",
    "{\"v\":8,\"kind\":\"reserved\",\"conn\":1,\"lease\":3,\"data\":{\"cpus\":\"0-3\"}}",
    "{\"v\":8,\"kind\":\"revoke\",\"conn\":1,\"lease\":3}",
    "{\"v\":8,\"kind\":\"join_ticket\",\"conn\":1,\"lease\":3,\"data\":{\"address\":\"10.0.0.1:"
    "4000\","
    "\"token\":\"ab\",\"node\":2}}",
    "{\"v\":8,\"kind\":\"tested\",\"conn\":1,\"data\":{\"why\":\"disk full\"}}",
    "{\"v\":8,\"kind\":\"ping\",\"conn\":1}",
    "{\"v\":8,\"kind\":\"leaving\",\"conn\":1}",
    "{\"v\":8,\"kind\":\"bye\",\"conn\":1}",
    "{\"v\":8,\"kind\":\"requirements\",\"conn\":1,\"instance\":7,\"data\":{\"nodes\":1,\"ranks\":"
    "2,\"gpus\":0.25,"
    "\"cpus\":1,"
    "\"memory\":1073741824}}",
    "{\"v\":8,\"kind\":\"run\",\"conn\":1,\"lease\":3,\"data\":{\"trial\":0,\"sweep\":\"s\","
    "\"dir\":\"/s/trials/000000\",\"wdir\":\"/"
    "s\",\"argv\":[\"true\"],\"env\":[],\"params\":{\"lr\":"
    "0.5},\"grace_ms\":30000,\"peers\":[{\"node\":\"c04\",\"resources\":{\"cpus\":\"0-3\",\"gpus\":"
    "\"GPU-1\"}},{\"node\":\"c05\",\"resources\":{}}]}}",
    "{\"v\":8,\"kind\":\"reserve\",\"conn\":1,\"lease\":3}",
    "{\"v\":8,\"kind\":\"stop\",\"conn\":1,\"lease\":3}",
    "{\"v\":8,\"kind\":\"kill\",\"conn\":1,\"lease\":12}",
    "{\"v\":8,\"kind\":\"test\",\"conn\":1}",
    "{\"v\":8,\"kind\":\"drain\",\"conn\":1}",
    "{\"v\":8,\"kind\":\"pong\",\"conn\":1}",
    "{\"v\":8,\"kind\":\"ack\",\"conn\":1,\"lease\":3,\"seq\":8}",
    "{\"v\":8,\"kind\":\"reconnect\",\"conn\":1}",
    "{\"v\":8,\"kind\":\"foreign\",\"conn\":1}",
};

static const struct {
    const char *text, *why;
} bad[] = {
    {"", "not JSON"},
    {"{\"v\":8,\"kind\":\"ping\",\"conn\":1", "not JSON"},
    {"{\"v\":8,\"kind\":\"ping\",\"conn\":1}x", "not JSON"},
    {"{\"v\":8,\"v\":8,\"kind\":\"ping\",\"conn\":1}", "not JSON"},
    {"[1]", "not an object"},
    {"{\"kind\":\"ping\",\"conn\":1}", "version"},
    {"{\"v\":8,\"conn\":1}", "unknown kind"},
    {"{\"v\":8,\"kind\":\"pang\",\"conn\":1}", "unknown kind"},
    {"{\"v\":8,\"kind\":\"ping\"}", "'conn'"},
    {"{\"v\":8,\"kind\":\"ping\",\"conn\":0}", "'conn'"},
    {"{\"v\":8,\"kind\":\"ping\",\"conn\":1.0}", "'conn'"},
    {"{\"v\":8,\"kind\":\"ping\",\"conn\":1,\"lease\":2}", "'lease'"},
    {"{\"v\":8,\"kind\":\"ping\",\"conn\":1,\"x\":2}", "unknown key"},
    {"{\"v\":8,\"kind\":\"stop\",\"conn\":1}", "'lease'"},
    {"{\"v\":8,\"kind\":\"stop\",\"conn\":1,\"lease\":-4}", "'lease'"},
    {"{\"v\":8,\"kind\":\"ack\",\"conn\":1,\"lease\":4}", "'seq'"},
    {"{\"v\":8,\"kind\":\"stop\",\"conn\":1,\"lease\":4,\"data\":{}}", "'data'"},
    {"{\"v\":8,\"kind\":\"hello\",\"conn\":1}", "'data'"},
    {"{\"v\":8,\"kind\":\"hello\",\"conn\":1,\"data\":[]}", "'data'"},
    {"{\"v\":8,\"kind\":\"hello\",\"conn\":1,\"data\":{\"node\":\"c\",\"slots\":1}}", "'running'"},
    {"{\"v\":8,\"kind\":\"hello\",\"conn\":1,\"data\":{\"node\":\"c\",\"slots\":-1,\"running\":[]}"
     "}",
     "'slots'"},
    {"{\"v\":8,\"kind\":\"hello\",\"conn\":1,\"data\":{\"node\":\"c\",\"slots\":1,\"running\":[0]}"
     "}",
     "'running'"},
    {"{\"v\":8,\"kind\":\"hello\",\"conn\":1,\"data\":{\"node\":\"\",\"slots\":1,\"running\":[]}}",
     "'node'"},
    {"{\"v\":8,\"kind\":\"hello\",\"conn\":1,\"data\":{\"node\":\"c\",\"slots\":1,\"running\":[],"
     "\"cpus\":1,\"gpus\":0}}",
     "'ping_ms'"},
    {"{\"v\":8,\"kind\":\"hello\",\"conn\":1,\"data\":{\"node\":\"c\",\"slots\":1,\"running\":[],"
     "\"cpus\":1,\"gpus\":0,\"ping_ms\":5001}}",
     "'ping_ms'"},
    {"{\"v\":8,\"kind\":\"hello\",\"conn\":1,\"data\":{\"node\":\"c\",\"slots\":1,\"running\":[],"
     "\"cpus\":1,\"gpus\":0,\"ping_ms\":9,\"z\":1}}",
     "unknown key"},
    {"{\"v\":8,\"kind\":\"bye\",\"conn\":1,\"lease\":3}", "'lease'"},
    {"{\"v\":8,\"kind\":\"reserve\",\"conn\":1}", "'lease'"},
    {"{\"v\":8,\"kind\":\"reserved\",\"conn\":1,\"lease\":3,\"data\":{\"cpus\":1}}", "'cpus'"},
    {"{\"v\":8,\"kind\":\"join_ticket\",\"conn\":1,\"lease\":3,\"data\":{\"address\":\"a\"}}",
     "'token'"},
    {"{\"v\":8,\"kind\":\"run\",\"conn\":1,\"lease\":3,\"data\":{\"trial\":0,\"sweep\":\"s\","
     "\"dir\":\"/d\",\"wdir\":\"/s\",\"argv\":[\"true\"],\"env\":[],\"params\":{},\"grace_ms\":1,"
     "\"peers\":[{\"node\":\"c04\",\"resources\":{\"x\":1}}]}}",
     "'peers'"},
    {"{\"v\":8,\"kind\":\"report\",\"conn\":1,\"lease\":1,\"seq\":1,\"data\":{\"a\":1}}",
     "'instance'"},
    {"{\"v\":8,\"kind\":\"hello\",\"conn\":1,\"instance\":-1,\"data\":{}}", "'instance'"},
    {"{\"v\":8,\"kind\":\"ping\",\"conn\":1,\"instance\":7}", "'instance'"},
    {"{\"v\":8,\"kind\":\"requirements\",\"conn\":1,\"data\":{}}", "'instance'"},
    {"{\"v\":8,\"kind\":\"report\",\"conn\":1,\"instance\":7,\"lease\":1,\"seq\":1,\"data\":{\"a\":"
     "[1]}}",
     "neither"},
    {"{\"v\":8,\"kind\":\"done\",\"conn\":1,\"instance\":7,\"lease\":1,\"seq\":1,\"data\":{"
     "\"status\":0,"
     "\"signal\":0,\"oom\":false,\"seconds\":-1}}",
     "'seconds'"},
};

TEST(every_kind_of_message_is_decoded_and_encoded_unchanged)
{
    CHECK_INT(COUNT_OF(good), WIRE_KINDS);
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        struct err e = {0};
        struct wire_msg m;
        if (wire_decode(&m, good[i], strlen(good[i]), &e) < 0)
            FAIL("%s: %s", good[i], e.text);
        CHECK_INT(m.kind, i);
        AUTO(strbuf) struct strbuf b = {0};
        CHECK_INT(wire_encode(&b, &m, &e), 0);
        CHECK_STR(strbuf_str(&b), good[i]);
        wire_msg_clear(&m);
    }
}

TEST(an_invalid_message_is_rejected_with_the_reason)
{
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct err e = {0};
        struct wire_msg m = {.conn = 77};
        if (wire_decode(&m, bad[i].text, strlen(bad[i].text), &e) != -EPROTO)
            FAIL("accepted: %s", bad[i].text);
        CHECK_HAS(e.text, bad[i].why);
        CHECK_INT(m.conn, 77); /* untouched */
    }
}

TEST(another_version_is_an_error_of_its_own)
{
    const char text[] = "{\"v\":2,\"kind\":\"ping\",\"conn\":1}";
    struct err e = {0};
    struct wire_msg m;
    CHECK_INT(wire_decode(&m, text, strlen(text), &e), -EPROTONOSUPPORT);
    CHECK_HAS(e.text, "version 8");
}

TEST(a_message_above_a_mebibyte_is_neither_encoded_nor_decoded)
{
    struct err e = {0};
    AUTO(free) char *big = xzalloc(WIRE_MAX_BYTES + 2);
    memset(big, ' ', WIRE_MAX_BYTES + 1);
    memcpy(big, good[WIRE_PING], strlen(good[WIRE_PING])); /* it has no data */
    struct wire_msg m = {0};
    CHECK_INT(wire_decode(&m, big, WIRE_MAX_BYTES + 1, &e), -EMSGSIZE);
    CHECK_INT(wire_decode(&m, big, WIRE_MAX_BYTES, &e), 0);

    memset(big, 'x', WIRE_MAX_BYTES);
    m = (struct wire_msg){.kind = WIRE_REPORT, .conn = 1, .instance = 1, .lease = 1, .seq = 1};
    m.data = json_pack("{ss}", "a", big);
    AUTO(strbuf) struct strbuf b = {0};
    CHECK_INT(wire_encode(&b, &m, &e), -EMSGSIZE);
    CHECK_INT(b.len, 0);
    wire_msg_clear(&m);
}

TEST(a_message_that_would_be_rejected_is_not_encoded)
{
    struct err e = {0};
    AUTO(strbuf) struct strbuf b = {0};
    struct wire_msg m = {.kind = WIRE_STOP, .conn = 1};
    CHECK_INT(wire_encode(&b, &m, &e), -EPROTO);
    CHECK_HAS(e.text, "'stop'");
    CHECK_INT(b.len, 0);
}
