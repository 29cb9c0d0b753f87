#include "launcher/tree/exchange_alone.h"

#include <assert.h>

struct exchange_alone {
    struct exchange *launcher, *node;
    void (*deliver)(void *arg, const struct exchange_message *m);
    void *arg;
    int64_t now_ms;
    int rc; /* of the message that the node has sent to the launcher */
    struct err *e;
};

static void on_send_up(void *arg, int to, const char *bytes, size_t len)
{
    struct exchange_alone *x = arg;
    x->rc = exchange_receive(x->launcher, 0, bytes, len, x->now_ms, x->e);
}

static void on_send_down(void *arg, int to, const char *bytes, size_t len)
{
    struct exchange_alone *x = arg;
    int rc = exchange_receive(x->node, TREE_LAUNCHER, bytes, len, x->now_ms, NULL);
    assert(rc == 0); /* it answers only what the node has asked */
    (void)rc;
}

static void on_deliver(void *arg, const struct exchange_message *m)
{
    struct exchange_alone *x = arg;
    x->deliver(x->arg, m);
}

struct exchange_alone *exchange_alone_new(const int *rank_nodes, int ranks,
                                          void (*deliver)(void *arg,
                                                          const struct exchange_message *m),
                                          void *arg)
{
    static const struct tree one = {.nodes = 1, .radix = TREE_RADIX};
    static const struct exchange_events up = {.send = on_send_up, .deliver = on_deliver};
    static const struct exchange_events down = {.send = on_send_down};
    struct exchange_alone *x = xzalloc(sizeof *x);
    x->deliver = deliver;
    x->arg = arg;
    x->launcher = exchange_new(&one, TREE_LAUNCHER, rank_nodes, ranks, &down, x);
    x->node = exchange_new(&one, 0, rank_nodes, ranks, &up, x);
    return x;
}

void exchange_alone_free(struct exchange_alone *x)
{
    if (!x)
        return;
    exchange_free(x->launcher);
    exchange_free(x->node);
    free(x);
}

int exchange_alone_submit(struct exchange_alone *x, const struct exchange_message *m,
                          int64_t now_ms, struct err *e)
{
    x->now_ms = now_ms;
    x->e = e;
    x->rc = 0;
    exchange_submit(x->node, m);
    return x->rc;
}

int64_t exchange_alone_expire(struct exchange_alone *x, int64_t now_ms)
{
    return exchange_expire(x->launcher, now_ms);
}
