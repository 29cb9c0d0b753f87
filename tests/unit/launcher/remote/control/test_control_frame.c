/* control_frame: frames in pieces, limits, and invalid frames. */
#include "launcher/remote/control/control_frame.h"

#include "tests/unit/test.h"

static void put(struct strbuf *b, json_t *head, const void *payload, size_t len)
{
    CHECK_INT(control_frame_encode(b, head, payload, len), 0);
    json_decref(head);
}

TEST(a_frame_is_decoded_as_it_was_encoded_and_only_if_it_is_complete)
{
    AUTO(strbuf) struct strbuf b = {0};
    put(&b, json_pack("{s:s,s:i}", "t", "output", "from", 2), "a\0b", 3);
    size_t first = b.len;
    put(&b, json_pack("{s:s}", "t", "ping"), NULL, 0);
    struct control_frame f;
    for (size_t len = 0; len < first; len++)
        CHECK_INT(control_frame_decode(&f, b.data, len, CONTROL_FRAME_MAX, NULL), 0);
    CHECK_INT(control_frame_decode(&f, b.data, b.len, CONTROL_FRAME_MAX, NULL), first);
    CHECK_STR(f.type, "output");
    CHECK_INT(f.len, 3);
    CHECK(memcmp(f.payload, "a\0b", 3) == 0);
    CHECK_INT(json_integer_value(json_object_get(f.head, "from")), 2);
    json_decref(f.head);
    CHECK_INT(control_frame_decode(&f, b.data + first, b.len - first, CONTROL_FRAME_MAX, NULL),
              b.len - first);
    CHECK_STR(f.type, "ping");
    json_decref(f.head);
}

TEST(lengths_above_the_limits_are_rejected_before_the_bytes_arrive)
{
    struct control_frame f;
    struct err e = {0};
    CHECK_INT(control_frame_decode(&f, "\x01\0\x10\0\0\0\0\0", 8, CONTROL_FRAME_MAX, &e),
              -EMSGSIZE);
    CHECK_INT(control_frame_decode(&f, "\0\0\0\0\x01\0\0\x04", 8, CONTROL_FRAME_MAX, &e),
              -EMSGSIZE);
    CHECK_INT(
        control_frame_decode(&f, "\xff\xff\xff\xff\xff\xff\xff\xff", 8, CONTROL_FRAME_MAX, &e),
        -EMSGSIZE);
    CHECK_INT(control_frame_decode(&f, "\0\x10\0\0\0\0\0\0", 8, 4096, &e), -EMSGSIZE);
    CHECK_HAS(e.text, "4096");
}

TEST(a_payload_above_the_limit_is_not_encoded)
{
    AUTO(strbuf) struct strbuf b = {0};
    AUTO(json) json_t *head = json_pack("{s:s}", "t", "output");
    AUTO(free) char *big = xcalloc(CONTROL_FRAME_PAYLOAD_MAX + 1, 1);
    CHECK_INT(control_frame_encode(&b, head, big, CONTROL_FRAME_PAYLOAD_MAX + 1), -EMSGSIZE);
    CHECK_INT(b.len, 0);
    CHECK_INT(control_frame_encode(&b, head, big, CONTROL_FRAME_PAYLOAD_MAX), 0);
}

TEST(anything_but_an_object_with_a_type_is_rejected)
{
    static const char *const bad[] = {"[]", "{}", "{\"t\":1}", "x", "", "{\"t\":\"a\"} b"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        AUTO(strbuf) struct strbuf b = {0};
        char lengths[8] = {(char)strlen(bad[i])};
        strbuf_add(&b, lengths, sizeof lengths);
        strbuf_puts(&b, bad[i]);
        struct control_frame f;
        struct err e = {0};
        CHECK_INT(control_frame_decode(&f, b.data, b.len, CONTROL_FRAME_MAX, &e), -EBADMSG);
        CHECK(e.text[0]);
    }
}
