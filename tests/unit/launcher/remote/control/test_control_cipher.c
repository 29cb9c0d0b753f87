/* control_cipher: records are opened once, in order, in their direction, with the token. */
#include "launcher/remote/control/control_cipher.h"

#include <errno.h>
#include <string.h>

#include "tests/unit/test.h"

static struct control_cipher *launcher, *agent;

static void greet(const char *token, const char *other)
{
    control_cipher_free(launcher);
    control_cipher_free(agent);
    launcher = control_cipher_new(token);
    agent = control_cipher_new(other);
    CHECK(!control_cipher_is_ready(agent));
    CHECK_INT(control_cipher_greeted(launcher, control_cipher_greeting(agent), NULL), 0);
    CHECK_INT(control_cipher_greeted(agent, control_cipher_greeting(launcher), NULL), 0);
    CHECK(control_cipher_is_ready(agent) && control_cipher_is_ready(launcher));
}

/* The result of opening; *text: what the record carries. */
static ssize_t open_record(struct control_cipher *c, struct strbuf *text, const struct strbuf *r)
{
    struct err e = {0};
    strbuf_reset(text);
    return control_cipher_open(c, text, r->data, r->len, 100, &e);
}

TEST(records_arrive_in_both_directions_and_show_nothing)
{
    AUTO(strbuf) struct strbuf one = {0}, two = {0}, back = {0}, text = {0};
    greet("token", "token");
    control_cipher_seal(agent, &one, "an environment", 14);
    control_cipher_seal(agent, &two, "an environment", 14);
    control_cipher_seal(launcher, &back, "an environment", 14);
    CHECK_INT(one.len, 14 + CONTROL_CIPHER_RECORD);
    CHECK(!memmem(one.data, one.len, "environ", 7));
    CHECK(memcmp(one.data, two.data, one.len) != 0 && memcmp(one.data, back.data, one.len) != 0);
    for (size_t len = 0; len < one.len; len++) {
        struct strbuf part = {.data = one.data, .len = len};
        CHECK_INT(open_record(launcher, &text, &part), 0);
    }
    CHECK_INT(open_record(launcher, &text, &one), one.len);
    CHECK_STR(strbuf_str(&text), "an environment");
    CHECK_INT(open_record(launcher, &text, &two), two.len);
    CHECK_INT(open_record(agent, &text, &back), back.len);
    CHECK_STR(strbuf_str(&text), "an environment");
}

TEST(a_record_that_was_changed_repeated_reordered_or_turned_around_is_rejected)
{
    AUTO(strbuf) struct strbuf one = {0}, two = {0}, text = {0};
    for (size_t i = 4; i < 20; i++) {
        greet("token", "token");
        strbuf_reset(&one);
        control_cipher_seal(agent, &one, "hello", 5);
        one.data[i] ^= 1;
        CHECK_INT(open_record(launcher, &text, &one), -EBADMSG);
    }
    greet("token", "token");
    strbuf_reset(&one);
    control_cipher_seal(agent, &one, "hello", 5);
    control_cipher_seal(agent, &two, "again", 5);
    CHECK_INT(open_record(agent, &text, &one), -EBADMSG); /* its own */
    CHECK_INT(open_record(launcher, &text, &one), one.len);
    CHECK_INT(open_record(launcher, &text, &one), -EBADMSG); /* repeated */
    greet("token", "token");
    CHECK_INT(open_record(launcher, &text, &two), -EBADMSG); /* of another connection */
    greet("token", "token");
    strbuf_reset(&two);
    control_cipher_seal(agent, &one, "hello", 5);
    control_cipher_seal(agent, &two, "again", 5);
    CHECK_INT(open_record(launcher, &text, &two), -EBADMSG); /* the first is left out */
}

TEST(without_the_token_nothing_is_accepted)
{
    AUTO(strbuf) struct strbuf one = {0}, text = {0};
    greet("token", "tokeN");
    control_cipher_seal(agent, &one, "hello", 5);
    CHECK_INT(open_record(launcher, &text, &one), -EBADMSG);
    CHECK_INT(text.len, 0);
    struct err e = {0};
    CHECK_INT(control_cipher_greeted(launcher, "GET / HTTP/1.1 and more than that", &e), -EPROTO);
    CHECK_INT(control_cipher_greeted(launcher, control_cipher_greeting(launcher), &e), -EPROTO);
}

TEST(a_long_record_is_refused_before_it_arrives)
{
    struct strbuf head = {.data = (char *)"\x65\0\0\0", .len = 4};
    AUTO(strbuf) struct strbuf text = {0};
    greet("token", "token");
    CHECK_INT(open_record(launcher, &text, &head), -EMSGSIZE);
}
