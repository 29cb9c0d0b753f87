/* pmix_greeting: which greetings libpmix may read. */
#include "launcher/pmi/pmix_greeting.h"

#include "common/mem.h"
#include "tests/unit/test.h"

static const struct pmix_greeting_user user = {0x01020304, 0x05060708};

/* The security module and the credential; then the rest of a greeting. */
#define LOGIN "native\0\0\0\0\10\4\3\2\1\10\7\6\5"
#define RANK "\0drover-1-abc\0\0\0\0\3"
#define BYTES(text) text, sizeof(text) - 1

TEST(greetings_of_clients_are_valid)
{
    CHECK(pmix_greeting_is_valid(BYTES(LOGIN RANK "4.2.2\0v41\0\1hash\0"), &user));
    CHECK(pmix_greeting_is_valid(BYTES(LOGIN RANK "5.0.3rc1\0v4\0\2ds21,hash\0more"), &user));
    CHECK(pmix_greeting_is_valid(BYTES(LOGIN RANK "2.0.1\0"), &user)); /* its greeting ends here */
    CHECK(pmix_greeting_is_valid(BYTES("munge\0\0\0\0\2ab" RANK "4.2.2\0v41\0\1hash\0"), NULL));
}

TEST(others_are_not)
{
    static const struct {
        const char *bytes;
        size_t len;
    } rows[] = {
        {BYTES("none\0\0\0\0\0" RANK "4.2.2\0v41\0\1hash\0")},
        {BYTES("native\0\0\0\0\0" RANK "4.2.2\0v41\0\1hash\0")},
        {BYTES("native\0\0\0\0\10\4\3\2\1\0\7\6\5" RANK "4.2.2\0v41\0\1hash\0")},
        {BYTES("native\0\377\377\377\377\4\3\2\1\10\7\6\5" RANK "4.2.2\0v41\0\1hash\0")},
        {BYTES(LOGIN "\3drover-1-abc\0\0\0\0\3"
                     "4.2.2\0v41\0\1hash\0")}, /* a tool */
        {BYTES(LOGIN RANK "4.2\0v41\0\1hash\0")},
        {BYTES(LOGIN RANK "four\0v41\0\1hash\0")},
        {BYTES(LOGIN RANK "4.2.2\0v99\0\1hash\0")},
        {BYTES(LOGIN RANK "4.2.2\0v41\0\1\0")},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CHECK(!pmix_greeting_is_valid(rows[i].bytes, rows[i].len, &user));
}

/* The greeting lies at the end of its memory, so that a sanitizer sees a read past it. */
TEST(a_part_of_a_greeting_is_not_valid)
{
    static const char whole[] = LOGIN RANK "4.2.2\0v41\0\1hash";
    for (size_t len = 0; len < sizeof whole; len++) {
        AUTO(free) char *part = xzalloc(len + 1);
        memcpy(part + 1, whole, len);
        CHECK(!pmix_greeting_is_valid(part + 1, len, &user));
    }
    CHECK(pmix_greeting_is_valid(whole, sizeof whole, &user));
}
