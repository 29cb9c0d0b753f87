/* fuzz_exchange - messages between PMIx servers against malformed bytes: decoding, and an instance
 * in the middle of a tree, which gets them from each neighbour. No crash, no leak; what is accepted
 * is encoded and decoded again.
 *
 * As a test: a corpus, changed at random from a printed seed (DROVER_FUZZ_SEED, DROVER_FUZZ_RUNS).
 * With clang -fsanitize=fuzzer -DFUZZ_ENGINE: libFuzzer's entry point. */
#include <errno.h>
#include <time.h>

#include "launcher/tree/exchange.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

/* Node 1 of a tree of 9: its parent is the launcher, its children are 4 and 5. */
static const struct tree tree = {.nodes = 9, .radix = 2};
static const int rank_nodes[] = {0, 1, 1, 4, 5, 8, 2, 3, 4, 7, 6};

static void read_again(const struct exchange_message *m)
{
    AUTO(strbuf) struct strbuf b = {0};
    exchange_message_encode(&b, m);
    struct exchange_decoded d;
    struct err e;
    if (exchange_message_decode(&d, b.data, b.len, &e) < 0)
        abort();
    AUTO(strbuf) struct strbuf again = {0};
    exchange_message_encode(&again, &d.m);
    if (again.len != b.len || memcmp(again.data, b.data, b.len) != 0)
        abort();
    free(d.storage);
}

/* What an instance sends must be a message, for a neighbour. */
static void on_send(void *arg, int to, const char *bytes, size_t len)
{
    struct exchange_decoded d;
    struct err e;
    if ((to != TREE_LAUNCHER && to != 4 && to != 5) ||
        exchange_message_decode(&d, bytes, len, &e) < 0)
        abort();
    free(d.storage);
}

static void on_deliver(void *arg, const struct exchange_message *m)
{
    if (m->type != EXCHANGE_FENCE_DONE && m->type != EXCHANGE_GET && m->type != EXCHANGE_GOT &&
        m->type != EXCHANGE_FOUND)
        abort();
}

/* The input is a sequence of messages: the sender, the length (16 bits, little endian), the
 * bytes. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static const int senders[] = {TREE_LAUNCHER, 4, 5, 1};
    const struct exchange_events ev = {.send = on_send, .deliver = on_deliver};
    AUTO(exchange)
    struct exchange *x = exchange_new(&tree, 1, rank_nodes, (int)COUNT_OF(rank_nodes), &ev, NULL);
    while (len >= 3) {
        int from = senders[bytes[0] % COUNT_OF(senders)];
        size_t n = (size_t)bytes[1] | (size_t)bytes[2] << 8;
        n = n < len - 3 ? n : len - 3;
        const char *text = (const char *)bytes + 3;
        struct exchange_decoded d;
        struct err e = {0};
        int rc = exchange_message_decode(&d, text, n, &e);
        if (rc < 0 && !e.text[0])
            abort();
        if (rc == 0) {
            read_again(&d.m);
            if (from == 1 && (d.m.type == EXCHANGE_FENCE || d.m.type == EXCHANGE_GET ||
                              d.m.type == EXCHANGE_GOT || d.m.type == EXCHANGE_LOOKUP))
                (void)exchange_submit(x, &d.m, 0, NULL);
            free(d.storage);
        }
        if (from != 1 && exchange_receive(x, from, text, n, 0, &e) < 0 && !e.text[0])
            abort();
        bytes += 3 + n;
        len -= 3 + n;
    }
    return 0;
}

#ifndef FUZZ_ENGINE
#include "tests/unit/test.h"

static const int32_t all_but_one[] = {1, 3, 4, 5, 8};
static const char *const keys[] = {"port", "other"};

static const struct {
    unsigned char from; /* index of senders */
    struct exchange_message m;
} corpus[] = {
    {1, {.type = EXCHANGE_FENCE, .data = "4", .len = 1}},
    {2, {.type = EXCHANGE_FENCE, .data = "5", .len = 1}},
    {3, {.type = EXCHANGE_FENCE, .data = "1", .len = 1}},
    {0, {.type = EXCHANGE_FENCE_DONE, .id = 9, .data = "result", .len = 6}},
    {0, {.type = EXCHANGE_FENCE_DONE, .status = EXCHANGE_FAILED}},
    {1, {.type = EXCHANGE_FENCE, .kind = EXCHANGE_GROUP, .ranks = all_but_one, .rank_count = 5}},
    {2, {.type = EXCHANGE_FENCE, .kind = EXCHANGE_GROUP, .ranks = all_but_one, .rank_count = 5}},
    {3, {.type = EXCHANGE_FENCE, .kind = EXCHANGE_GROUP, .ranks = all_but_one, .rank_count = 5}},
    {1, {.type = EXCHANGE_GET, .node = 4, .rank = 4, .id = 3}},
    {3, {.type = EXCHANGE_GET, .rank = 6, .id = 3}},
    {0, {.type = EXCHANGE_GOT, .node = 1, .id = 3, .data = "data", .len = 4}},
    {2, {.type = EXCHANGE_PUBLISH, .node = 5, .rank = 4, .keys = keys, .key_count = 1}},
    {1,
     {.type = EXCHANGE_LOOKUP, .node = 4, .rank = 3, .wait_ms = -1, .keys = keys, .key_count = 2}},
    {0, {.type = EXCHANGE_FOUND, .node = 4, .data = "A", .len = 1}},
    {0, {.type = EXCHANGE_LOST, .node = 0}},
    {1, {.type = EXCHANGE_LOST, .node = 8}},
};

static void put_message(struct strbuf *b, size_t i)
{
    AUTO(strbuf) struct strbuf text = {0};
    exchange_message_encode(&text, &corpus[i].m);
    char before[3] = {(char)corpus[i].from, (char)text.len, (char)(text.len >> 8)};
    strbuf_add(b, before, sizeof before);
    strbuf_add(b, text.data, text.len);
}

static unsigned long env_number(const char *name, unsigned long otherwise)
{
    const char *text = getenv(name);
    return text ? strtoul(text, NULL, 10) : otherwise;
}

/* Changes a byte at a random place, adds to one, or cuts the rest off. */
static void change(struct strbuf *b, unsigned short rng[3])
{
    size_t at = (size_t)nrand48(rng) % b->len;
    switch (nrand48(rng) % 8) {
    case 0:
        b->len = at + 1;
        return;
    case 1:
    case 2:
        b->data[at] = (char)nrand48(rng);
        return;
    default:
        b->data[at] = (char)(b->data[at] + nrand48(rng) % 5 - 2);
    }
}

TEST(random_sequences_of_changed_messages_do_no_harm)
{
    unsigned long seed = env_number("DROVER_FUZZ_SEED", (unsigned long)time(NULL));
    unsigned long runs = env_number("DROVER_FUZZ_RUNS", 200000);
    printf("# DROVER_FUZZ_SEED=%lu\n", seed);
    unsigned short rng[3] = {(unsigned short)seed, (unsigned short)(seed >> 16), 7};
    AUTO(strbuf) struct strbuf b = {0};
    for (unsigned long i = 0; i < runs; i++) {
        strbuf_reset(&b);
        for (long n = nrand48(rng) % 12; n >= 0; n--)
            put_message(&b, (size_t)nrand48(rng) % COUNT_OF(corpus));
        for (long n = nrand48(rng) % 4; n > 0; n--)
            change(&b, rng);
        LLVMFuzzerTestOneInput((const uint8_t *)b.data, b.len);
    }
}

TEST(every_prefix_of_the_corpus_does_no_harm)
{
    AUTO(strbuf) struct strbuf b = {0};
    for (size_t i = 0; i < COUNT_OF(corpus); i++)
        put_message(&b, i);
    for (size_t len = 0; len <= b.len; len++)
        LLVMFuzzerTestOneInput((const uint8_t *)b.data, len);
}
#endif
