/* fuzz_control - decoders of the control connection against malformed bytes: frames, node specs,
 * topologies, samples of GPUs. No crash, no leak; an accepted frame is encoded and decoded again.
 *
 * As a test: a corpus, changed at random from a printed seed (DROVER_FUZZ_SEED, DROVER_FUZZ_RUNS).
 * With clang -fsanitize=fuzzer -DFUZZ_ENGINE: libFuzzer's entry point. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/mem.h"
#include "launcher/gpu/gpu_reading.h"
#include "launcher/node/topo.h"
#include "launcher/plan/node_spec.h"
#include "launcher/remote/control/control_frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

/* Decodes it with the message `job` that came before it. */
static void read_node_spec(const struct node_spec_message *job, const struct control_frame *f)
{
    const struct node_spec_message own_message = {f->head, f->payload, f->len};
    struct node_spec r;
    struct err e = {0};
    char *own[] = {(char *)"HOSTNAME=c03", NULL};
    if (node_spec_decode(&r, job, &own_message, own, &e) < 0)
        return;
    if (!r.plan->argv || !r.plan->argv[0] || r.plan->world_size != r.map->local_count)
        abort();
    node_spec_free(&r);
}

static void read_topo(const struct control_frame *f)
{
    AUTO(topo) struct topo *t = NULL;
    struct err e = {0};
    if (topo_import(&t, NULL, f->payload, f->len, &e) < 0 && !e.text[0])
        abort();
}

/* Accepted samples are written and read again. */
static void read_gpus(const struct control_frame *f)
{
    AUTO(free) struct gpu_sample *samples = NULL, *again = NULL;
    struct err e = {0};
    int count = 0, same = -1;
    if (gpu_reading_read(&samples, &count, f->payload, f->len, &e) < 0) {
        if (!e.text[0])
            abort();
        return;
    }
    AUTO(free) char *text = gpu_reading_write(samples, count);
    if (gpu_reading_read(&again, &same, text, strlen(text), &e) < 0 || same != count)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    AUTO(json) json_t *job_head = NULL;
    struct node_spec_message job = {0};
    for (size_t at = 0; at < len;) {
        struct control_frame f, again;
        struct err e = {0};
        ssize_t n =
            control_frame_decode(&f, (const char *)bytes + at, len - at, CONTROL_FRAME_MAX, &e);
        if (n < 0 && !e.text[0])
            abort();
        if (n <= 0)
            return 0;
        AUTO(strbuf) struct strbuf b = {0};
        if (control_frame_encode(&b, f.head, f.payload, f.len) < 0 ||
            control_frame_decode(&again, b.data, b.len, CONTROL_FRAME_MAX, &e) != (ssize_t)b.len ||
            !json_equal(f.head, again.head) || again.len != f.len)
            abort();
        json_decref(again.head);
        if (strcmp(f.type, "job") == 0) {
            json_decref(job_head);
            job_head = json_incref(f.head);
            job = (struct node_spec_message){job_head, f.payload, f.len};
        } else if (strcmp(f.type, "node_spec") == 0 && job_head)
            read_node_spec(&job, &f);
        else if (strcmp(f.type, "topo") == 0)
            read_topo(&f);
        else if (strcmp(f.type, "gpus") == 0)
            read_gpus(&f);
        json_decref(f.head);
        at += (size_t)n;
    }
    return 0;
}

#ifndef FUZZ_ENGINE
#include "tests/unit/test.h"

/* Object and payload of each frame. A NUL in a payload is written as '|'. */
static const struct {
    const char *head, *payload;
} corpus[] = {
    {"{\"t\":\"hello\",\"token\":\"00ff\",\"version\":\"0.2.0\",\"node\":3,\"host\":\"c03\"}", ""},
    {"{\"t\":\"job\",\"nodes\":2,\"ranks\":3,\"argv\":2,\"env\":1,\"reports\":true,"
     "\"no_pty\":false,\"no_pmix\":false,\"no_hold_port\":false,\"stdin_rank\":-1,"
     "\"tree_radix\":32,\"master_port\":0}",
     "/home|job-1|1*1 0*1 1*1|a|b|sh|-c|MASTER_ADDR=h|PATH=/bin|"},
    {"{\"t\":\"node_spec\",\"node\":1,\"local\":[[0,1],[1,1]]}", "0-3|0||RANK=0||||cat|RANK=2|"},
    {"{\"t\":\"topo\"}",
     "{\"name\":\"c03\",\"quota\":0,\"allowed\":\"0-3\",\"gpus\":[{\"index\":0,\"uuid\":\"GPU-1\","
     "\"name\":\"N\",\"bus_id\":\"0000:07:00.0\",\"numa\":-1}]}\t<topology/>"},
    {"{\"t\":\"output\",\"rank\":3,\"from\":1}", "some bytes\n"},
    {"{\"t\":\"exit\",\"rank\":3,\"wait\":256,\"oom\":false}", ""},
    {"{\"t\":\"start\",\"port\":4711,\"address\":\"10.0.0.1\"}", ""},
    {"{\"t\":\"gpus\"}", "[{\"index\":0,\"uuid\":\"GPU-1\",\"name\":\"N\",\"bus\":\"0000:07:00.0\","
                         "\"values\":[[6,100],[7,-3]]}]"},
    {"{\"t\":\"ping\"}", ""},
};

static void put_frame(struct strbuf *b, size_t i)
{
    if (strstr(corpus[i].head, "node_spec"))
        put_frame(b, i - 1); /* `job`, which precedes it */
    size_t head = strlen(corpus[i].head), len = strlen(corpus[i].payload);
    char lengths[8] = {(char)head, (char)(head >> 8), 0, 0, (char)len, (char)(len >> 8)};
    AUTO(free) char *payload = xstrdup(corpus[i].payload);
    for (char *p = payload; (p = strchr(p, '|'));)
        *p = '\0';
    strbuf_add(b, lengths, sizeof lengths);
    strbuf_add(b, corpus[i].head, head);
    strbuf_add(b, payload, len);
}

static unsigned long env_number(const char *name, unsigned long otherwise)
{
    const char *text = getenv(name);
    return text ? strtoul(text, NULL, 10) : otherwise;
}

/* Changes a byte at a random place, inserts or removes one, or cuts the rest off. */
static void change(struct strbuf *b, unsigned short rng[3])
{
    static const char likely[] = "{}[]\",:0-9.\0\xff\x01t";
    size_t at = b->len ? (size_t)nrand48(rng) % b->len : 0;
    char byte =
        nrand48(rng) % 2 ? likely[(size_t)nrand48(rng) % sizeof likely] : (char)nrand48(rng);
    switch (b->len ? nrand48(rng) % 8 : 7) {
    case 0:
        b->len = at;
        return;
    case 1:
        memmove(b->data + at, b->data + at + 1, b->len - at - 1);
        b->len--;
        return;
    case 2:
        strbuf_putc(b, byte);
        memmove(b->data + at + 1, b->data + at, b->len - at - 1);
        b->data[at] = byte;
        return;
    case 7:
        put_frame(b, (size_t)nrand48(rng) % COUNT_OF(corpus));
        return;
    default:
        b->data[at] = byte;
    }
}

TEST(the_corpus_changed_at_random_does_no_harm)
{
    unsigned long seed = env_number("DROVER_FUZZ_SEED", (unsigned long)time(NULL));
    unsigned long runs = env_number("DROVER_FUZZ_RUNS", 100000);
    printf("# DROVER_FUZZ_SEED=%lu\n", seed);
    setenv("HWLOC_HIDE_ERRORS", "2", 1);
    unsigned short rng[3] = {(unsigned short)seed, (unsigned short)(seed >> 16), 7};
    AUTO(strbuf) struct strbuf b = {0};
    for (unsigned long i = 0; i < runs; i++) {
        strbuf_reset(&b);
        put_frame(&b, i % COUNT_OF(corpus));
        for (long n = nrand48(rng) % 4; n >= 0; n--)
            change(&b, rng);
        LLVMFuzzerTestOneInput((const uint8_t *)strbuf_str(&b), b.len);
    }
}

TEST(every_prefix_of_the_corpus_does_no_harm)
{
    for (size_t i = 0; i < COUNT_OF(corpus); i++) {
        AUTO(strbuf) struct strbuf b = {0};
        put_frame(&b, i);
        for (size_t len = 0; len <= b.len; len++)
            LLVMFuzzerTestOneInput((const uint8_t *)strbuf_str(&b), len);
    }
}
#endif
