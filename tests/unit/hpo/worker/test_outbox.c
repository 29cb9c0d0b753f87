/* test_outbox - when messages are sent, and that none is lost or sent out of order. */
#include "hpo/worker/outbox.h"

#include <signal.h>
#include <sys/resource.h>

#include "common/rng.h"
#include "tests/unit/test.h"

struct heard {
    int64_t seq[4096];
    int count;
};

static void hear(void *arg, const struct wire_msg *m)
{
    struct heard *h = arg;
    CHECK_INT(m->instance, 3);
    CHECK_INT(m->lease, 7);
    CHECK_INT(json_integer_value(json_object_get(m->data, "step")), m->seq);
    h->seq[h->count++] = m->seq;
}

static char dir[] = "/tmp/test_outbox.XXXXXX";

static struct outbox *start(struct heard *h, int most)
{
    CHECK(mkdtemp(dir) != NULL);
    AUTO(free) char *path = xasprintf("%s/file", dir);
    return outbox_new(&(struct outbox_opts){3, 7, most, path, hear, h});
}

static void push(struct outbox *u, int from, int to)
{
    for (int i = from; i <= to; i++)
        outbox_push(u, WIRE_REPORT, json_pack("{s:i,s:f}", "step", i, "loss", 0.1 * i));
}

static void heard_all(const struct heard *h, int from, int to)
{
    CHECK_INT(h->count, to - from + 1);
    for (int i = 0; i < h->count; i++)
        CHECK_INT(h->seq[i], from + i);
}

TEST(a_limited_number_is_sent_ahead_and_the_rest_after_acknowledgements)
{
    struct heard h = {0}, said = {0}, all = {0};
    AUTO(outbox) struct outbox *u = start(&h, 10);
    push(u, 1, 25);
    CHECK_INT(rmdir(dir), 0); /* the file was unlinked */
    heard_all(&h, 1, 10);
    CHECK(!outbox_acknowledge(u, 4));
    heard_all(&h, 1, 14);
    outbox_each_sent(u, hear, &said);
    heard_all(&said, 5, 14);
    outbox_each(u, hear, &all);
    heard_all(&all, 5, 25);
    push(u, 26, 26);
    CHECK(!outbox_acknowledge(u, 14));
    CHECK(!outbox_acknowledge(u, 14)); /* again */
    heard_all(&h, 1, 24);
    CHECK(!outbox_acknowledge(u, 24));
    CHECK(outbox_acknowledge(u, 26));
    heard_all(&h, 1, 26);
    push(u, 27, 27); /* sent at once: nothing waits */
    heard_all(&h, 1, 27);
}

TEST(without_a_file_all_messages_are_kept_in_memory)
{
    struct heard h = {0}, all = {0};
    AUTO(outbox) struct outbox *u = start(&h, 10);
    CHECK_INT(rmdir(dir), 0);
    push(u, 1, 30);
    heard_all(&h, 1, 30);
    CHECK(!outbox_acknowledge(u, 20));
    outbox_each(u, hear, &all);
    heard_all(&all, 21, 30);
    CHECK(outbox_acknowledge(u, 30));
}

TEST(a_full_disk_loses_nothing)
{
    struct heard h = {0};
    AUTO(outbox) struct outbox *u = start(&h, 10);
    struct rlimit small = {700, RLIM_INFINITY}, before;
    getrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_IGN);
    small.rlim_max = before.rlim_max;
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &small), 0);
    push(u, 1, 100);
    setrlimit(RLIMIT_FSIZE, &before);
    CHECK_INT(rmdir(dir), 0);
    heard_all(&h, 1, 100);
    CHECK(outbox_acknowledge(u, 100));
}

TEST(any_order_of_reports_and_acknowledgements_keeps_their_order)
{
    uint64_t seed = getenv("SEED") ? strtoull(getenv("SEED"), NULL, 10) : 5;
    struct rng r;
    rng_seed(&r, seed, 0);
    struct heard h = {0};
    AUTO(outbox) struct outbox *u = start(&h, 10);
    int pushed = 0, acknowledged = 0;
    while (pushed < 4000) {
        int n = (int)rng_below(&r, 30);
        n = n < 4000 - pushed ? n : 4000 - pushed;
        push(u, pushed + 1, pushed + n);
        pushed += n;
        acknowledged += (int)rng_below(&r, (uint64_t)(h.count - acknowledged) + 1);
        (void)outbox_acknowledge(u, acknowledged);
        if (h.count - acknowledged > 10)
            FAIL("seed %llu: %d are out", (unsigned long long)seed, h.count - acknowledged);
    }
    while (!outbox_acknowledge(u, h.count))
        ;
    heard_all(&h, 1, 4000);
    CHECK_INT(rmdir(dir), 0);
}
