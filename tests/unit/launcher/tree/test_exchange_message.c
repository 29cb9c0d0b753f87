/* The encoding of exchange's messages: bytes that must not change, and bytes that are no
 * message. */
#include "launcher/tree/exchange.h"
#include "tests/unit/test.h"

static const int32_t ranks[] = {3, 4, 5, 300, 2000000000};
static const char *const keys[] = {"port", "", "\xff\xfe"};

static const struct exchange_message full = {.type = EXCHANGE_LOOKUP,
                                             .kind = EXCHANGE_GROUP,
                                             .node = 16383,
                                             .rank = -1,
                                             .id = UINT64_MAX,
                                             .status = EXCHANGE_FAILED,
                                             .once = true,
                                             .wait_ms = INT64_MIN,
                                             .ranks = ranks,
                                             .rank_count = COUNT_OF(ranks),
                                             .keys = keys,
                                             .key_count = COUNT_OF(keys),
                                             .data = "a\0b",
                                             .len = 3};

static const unsigned char golden[] = {
    /* type, kind, once */ 6,
    3,
    1,
    /* node 16383 */ 0xfe,
    0xff,
    0x01,
    /* rank -1 */ 0x01,
    /* id */ 0xff,
    0xff,
    0xff,
    0xff,
    0xff,
    0xff,
    0xff,
    0xff,
    0xff,
    0x01,
    /* status 4 */ 0x08,
    /* wait_ms */ 0xff,
    0xff,
    0xff,
    0xff,
    0xff,
    0xff,
    0xff,
    0xff,
    0xff,
    0x01,
    /* 3 runs: 3 … 5, 300, 2000000000 */ 3,
    3,
    3,
    0xa6,
    0x02,
    1,
    0xd3,
    0xa5,
    0xd6,
    0xb9,
    0x07,
    1,
    /* 3 keys */ 3,
    4,
    'p',
    'o',
    'r',
    't',
    0,
    2,
    0xff,
    0xfe,
    /* data */ 3,
    'a',
    0,
    'b'};

static void check_same(const struct exchange_message *a, const struct exchange_message *b)
{
    CHECK(a->type == b->type && a->kind == b->kind && a->once == b->once);
    CHECK(a->node == b->node && a->rank == b->rank && a->id == b->id);
    CHECK(a->status == b->status && a->wait_ms == b->wait_ms);
    CHECK_INT(a->rank_count, b->rank_count);
    for (size_t i = 0; i < a->rank_count; i++)
        CHECK_INT(a->ranks[i], b->ranks[i]);
    CHECK_INT(a->key_count, b->key_count);
    for (size_t i = 0; i < a->key_count; i++)
        CHECK_STR(a->keys[i], b->keys[i]);
    CHECK_INT(a->len, b->len);
    CHECK(a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

TEST(a_message_with_everything_has_these_bytes_and_is_read_back)
{
    AUTO(strbuf) struct strbuf b = {0};
    exchange_message_encode(&b, &full);
    for (size_t i = 0; i < b.len && i < sizeof golden; i++)
        if ((unsigned char)b.data[i] != golden[i])
            FAIL("byte %zu is %#x, expected %#x", i, (unsigned char)b.data[i], golden[i]);
    CHECK_INT(b.len, sizeof golden);
    struct exchange_decoded d;
    CHECK_INT(exchange_message_decode(&d, b.data, b.len, NULL), 0);
    check_same(&d.m, &full);
    free(d.storage);
}

TEST(a_fence_of_all_ranks_costs_eleven_bytes_besides_its_data)
{
    struct exchange_message m = {.type = EXCHANGE_FENCE, .node = -1, .rank = -1};
    AUTO(strbuf) struct strbuf b = {0};
    exchange_message_encode(&b, &m);
    CHECK_INT(b.len, 11);
    struct exchange_decoded d;
    CHECK_INT(exchange_message_decode(&d, b.data, b.len, NULL), 0);
    check_same(&d.m, &m);
    CHECK(d.storage == NULL);
}

TEST(no_part_of_a_message_is_a_message)
{
    for (size_t len = 0; len < sizeof golden; len++) {
        struct exchange_decoded d;
        struct err e = {0};
        CHECK_INT(exchange_message_decode(&d, (const char *)golden, len, &e), -EBADMSG);
        CHECK(e.text[0]);
    }
}

static void check_bad(const char *bytes, size_t len)
{
    struct exchange_decoded d;
    struct err e = {0};
    CHECK_INT(exchange_message_decode(&d, bytes, len, &e), -EBADMSG);
    CHECK_HAS(e.text, "invalid message of ");
}

#define BAD(bytes) check_bad(bytes, sizeof(bytes) - 1)

TEST(unknown_words_long_numbers_and_impossible_lists_are_refused)
{
    BAD("\x09\0\0\1\1\0\0\0\0\0\0");                                   /* type */
    BAD("\0\x06\0\1\1\0\0\0\0\0\0");                                   /* kind */
    BAD("\0\0\2\1\1\0\0\0\0\0\0");                                     /* once */
    BAD("\0\0\0\x80\x80\x80\x80\x80\1\1\0\0\0\0\0\0");                 /* a node of 36 bits */
    BAD("\0\0\0\1\1\xff\xff\xff\xff\xff\xff\xff\xff\xff\2\0\0\0\0\0"); /* an id of 65 bits */
    BAD("\0\0\0\1\1\0\0\0\x05\0\0");                                   /* more runs than bytes */
    BAD("\0\0\0\1\1\0\0\0\1\0\0\0\0");                                 /* an empty run */
    BAD("\0\0\0\1\1\0\0\0\1\0\xff\xff\xff\x7f\0\0");                   /* a run of 2^28 ranks */
    BAD("\0\0\0\1\1\0\0\0\1\xff\xff\xff\xff\x7f\1\0\0");               /* a rank of 35 bits */
    BAD("\0\0\0\1\1\0\0\0\2\xff\xff\xff\xff\7\1\0\1\0\0");             /* a rank after INT32_MAX */
    BAD("\0\0\0\1\1\0\0\0\0\x03\1a");                                  /* fewer keys than counted */
    BAD("\0\0\0\1\1\0\0\0\0\1\2a\0\0");                                /* a NUL in a key */
    BAD("\0\0\0\1\1\0\0\0\0\0\0x");                                    /* a byte too many */
}

TEST(the_last_possible_rank_is_read)
{
    const int32_t last = INT32_MAX;
    struct exchange_message m = {.ranks = &last, .rank_count = 1};
    AUTO(strbuf) struct strbuf b = {0};
    exchange_message_encode(&b, &m);
    struct exchange_decoded d;
    CHECK_INT(exchange_message_decode(&d, b.data, b.len, NULL), 0);
    check_same(&d.m, &m);
    free(d.storage);
}
