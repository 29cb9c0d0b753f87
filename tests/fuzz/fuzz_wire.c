/* fuzz_wire - wire_decode() against bytes that nobody meant: no crash, no leak, and what it takes
 * it can write and read again.
 *
 * As a test: a corpus, changed at random from a printed seed (DROVER_FUZZ_SEED, DROVER_FUZZ_RUNS).
 * With clang -fsanitize=fuzzer -DFUZZ_ENGINE: libFuzzer's entry point. */
#include "hpo/transport/wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct err e = {0};
    struct wire_msg m = {0}, again = {0};
    if (wire_decode(&m, bytes, len, &e) < 0)
        return 0;
    AUTO(strbuf) struct strbuf b = {0};
    /* A number may need more digits than it came with, and so pass the limit. */
    int rc = wire_encode(&b, &m, &e);
    if (rc != -EMSGSIZE &&
        (rc < 0 || wire_decode(&again, b.data, b.len, &e) < 0 || again.kind != m.kind ||
         again.instance != m.instance || again.lease != m.lease || again.seq != m.seq ||
         !json_equal(m.data, again.data) != !m.data))
        abort();
    wire_msg_clear(&m);
    wire_msg_clear(&again);
    return 0;
}

#ifndef FUZZ_ENGINE
#include "tests/unit/test.h"

static const char *const corpus[] = {
    "{\"v\":8,\"kind\":\"hello\",\"conn\":1,\"data\":{\"node\":\"c03\",\"slots\":4,\"cpus\":8,"
    "\"gpus\":2,\"ping_ms\":5000,\"running\":[7,9]}}",
    "{\"v\":8,\"kind\":\"report\",\"conn\":3,\"instance\":7,\"lease\":12,\"seq\":4,\"data\":{"
    "\"step\":3,\"loss\":"
    "1e-300,\"x\":\"\\u00e9\"}}",
    "{\"v\":8,\"kind\":\"done\",\"conn\":1,\"instance\":7,\"lease\":1,\"seq\":1,\"data\":{"
    "\"status\":-1,"
    "\"signal\":"
    "9,\"oom\":true,\"seconds\":1.5,\"error\":\"killed\",\"preempted\":false}}",
    "{\"v\":8,\"kind\":\"run\",\"conn\":1,\"lease\":3,\"data\":{\"trial\":0,\"sweep\":\"s\","
    "\"dir\":\"/s\",\"wdir\":\"/\",\"argv\":[\"true\",\"--lr=1\"],\"env\":[\"A=b\"],\"params\":{"
    "\"o\":{\"lr\":0.1}},\"grace_ms\":30000,\"metric\":\"l\","
    "\"patterns\":"
    "\"l=(.*)\"}}",
    "{\"v\":8,\"kind\":\"slots\",\"conn\":1,\"data\":{\"slots\":6,\"why\":\"x\"}}",
    "{\"v\":8,\"kind\":\"requirements\",\"conn\":1,\"instance\":7,\"data\":{\"nodes\":2,\"ranks\":"
    "2,\"gpus\":0.15,"
    "\"cpus\":1,"
    "\"memory\":1024}}",
    "{\"v\":8,\"kind\":\"reserved\",\"conn\":1,\"lease\":3,\"data\":{\"cpus\":\"0-3\",\"gpus\":"
    "\"GPU-"
    "1\"}}",
    "{\"v\":8,\"kind\":\"join_ticket\",\"conn\":1,\"lease\":3,\"data\":{\"address\":\"10.0.0.1:"
    "4000\","
    "\"token\":\"ab\",\"node\":2}}",
    "{\"v\":8,\"kind\":\"run\",\"conn\":1,\"lease\":3,\"data\":{\"trial\":0,\"sweep\":\"s\","
    "\"dir\":\"/d\",\"wdir\":\"/"
    "s\",\"argv\":[\"true\"],\"env\":[],\"params\":{},\"grace_ms\":1,\"peers\":[{\"node\":\"c04\","
    "\"resources\":{\"cpus\":\"0-3\"}}]}}",
    "{\"v\":8,\"kind\":\"ping\",\"conn\":1}",
    "{\"v\":8,\"kind\":\"foreign\",\"conn\":1}",
    "{\"v\":8,\"kind\":\"bye\",\"conn\":1}",
    "{\"v\":8,\"kind\":\"stop\",\"conn\":9223372036854775807,\"lease\":3}",
    "{\"v\":8,\"kind\":\"ack\",\"conn\":1,\"lease\":3,\"seq\":8}",
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
};

static const char *const words[] = {
    "{",     "}",        "[",        "]",       "\"",      ":",    ",",
    "0",     "-1",       "1e309",    "null",    "true",    "{}",   "[]",
    "\"v\"", "\"kind\"", "\"data\"", "\\ud800", "\\u0000", "\xff", "99999999999999999999"};

static unsigned long env_number(const char *name, unsigned long otherwise)
{
    const char *text = getenv(name);
    return text ? strtoul(text, NULL, 10) : otherwise;
}

/* One change at a random place: a byte, a word put in, a stretch cut out, a piece of another. */
static void change(struct strbuf *b, unsigned short rng[3])
{
    size_t at = b->len ? (size_t)nrand48(rng) % b->len : 0;
    AUTO(free) char *tail = xstrndup(strbuf_str(b) + at, b->len - at);
    size_t tail_len = b->len - at, skip = 0;
    b->len = at;
    const char *in = "";
    char one[2] = {(char)nrand48(rng), 0};
    switch (nrand48(rng) % 4) {
    case 0:
        in = one;
        skip = 1;
        break;
    case 1:
        in = words[(size_t)nrand48(rng) % COUNT_OF(words)];
        break;
    case 2:
        skip = (size_t)nrand48(rng) % 8;
        break;
    default:
        in = corpus[(size_t)nrand48(rng) % COUNT_OF(corpus)];
        in += (size_t)nrand48(rng) % strlen(in);
        skip = tail_len;
    }
    strbuf_add(b, in, strlen(in));
    if (skip < tail_len)
        strbuf_add(b, tail + skip, strlen(tail + skip));
}

TEST(the_corpus_changed_at_random_does_no_harm)
{
    unsigned long seed = env_number("DROVER_FUZZ_SEED", (unsigned long)time(NULL));
    unsigned long runs = env_number("DROVER_FUZZ_RUNS", 100000);
    printf("# DROVER_FUZZ_SEED=%lu\n", seed);
    unsigned short rng[3] = {(unsigned short)seed, (unsigned short)(seed >> 16), 7};
    AUTO(strbuf) struct strbuf b = {0};
    for (unsigned long i = 0; i < runs; i++) {
        strbuf_reset(&b);
        strbuf_puts(&b, corpus[i % COUNT_OF(corpus)]);
        for (long n = nrand48(rng) % 4; n >= 0; n--)
            change(&b, rng);
        LLVMFuzzerTestOneInput((const uint8_t *)strbuf_str(&b), b.len);
    }
}

TEST(every_prefix_of_the_corpus_does_no_harm)
{
    for (size_t i = 0; i < COUNT_OF(corpus); i++)
        for (size_t len = 0; len <= strlen(corpus[i]); len++)
            LLVMFuzzerTestOneInput((const uint8_t *)corpus[i], len);
}
#endif
