/* agent_children: an inner agent with real connections on the loopback device. The tree has 7 nodes
 * and radix 2, so nodes 2 and 3 are the children of node 0, and node 6 is below node 2. */
#include "launcher/remote/agent/agent_children.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>

#include "tests/unit/test.h"

static const char token[] = "0123456789abcdef0123456789abcdef";

struct world {
    uv_loop_t loop;
    struct agent_children *children;
    struct strbuf up;       /* "type node inner-type:payload|" of each frame for the launcher */
    struct strbuf exchange; /* "child:bytes|" */
    int lost;               /* the last lost child */
};

struct peer {
    struct world *w;
    struct control *c;
    struct strbuf received;
    bool ended;
};

static void on_up(void *arg, json_t *head, const void *payload, size_t len, bool bulk)
{
    struct world *w = arg;
    int64_t node = -1;
    struct control_frame inner,
        f = {head, json_string_value(json_object_get(head, "t")), payload, len};
    (void)json_require_int(&node, head, "node", NULL);
    strbuf_printf(&w->up, "%s %d%s", f.type, (int)node, bulk ? " bulk" : "");
    if (strcmp(f.type, "relay") == 0) {
        int inner_node = -1;
        CHECK_INT(control_frame_relayed(&inner, &inner_node, &f), 0);
        CHECK_INT(inner_node, (int)node);
        strbuf_printf(&w->up, " %s:%.*s", inner.type, (int)inner.len, inner.payload);
        json_decref(inner.head);
    }
    strbuf_printf(&w->up, "|");
    json_decref(head);
}

static void on_joined(void *arg, int child)
{
    struct world *w = arg;
    agent_children_send(w->children, child, json_pack("{s:s}", "t", "job"), "all", 3);
}

static void on_exchange(void *arg, int child, const char *bytes, size_t len)
{
    strbuf_printf(&((struct world *)arg)->exchange, "%d:%.*s|", child, (int)len, bytes);
}

static void on_lost(void *arg, int child)
{
    ((struct world *)arg)->lost = child;
}

static void on_peer_frame(void *arg, const struct control_frame *f)
{
    struct peer *p = arg;
    strbuf_printf(&p->received, "%s:%.*s|", f->type, (int)f->len, f->payload);
}

static void on_peer_ended(void *arg, const char *why)
{
    ((struct peer *)arg)->ended = true;
}

static void world_open(struct world *w)
{
    static const struct agent_children_events ev = {on_up, on_joined, on_exchange, on_lost};
    *w = (struct world){.lost = -1};
    CHECK_INT(uv_loop_init(&w->loop), 0);
    const struct agent_children_opts o = {.tree = {.nodes = 7, .radix = 2}, .token = token};
    CHECK_INT(agent_children_open(&w->children, &w->loop, &o, &ev, w, NULL), 0);
}

static void world_close(struct world *w)
{
    agent_children_close(w->children);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&w->loop), 0);
    strbuf_free(&w->up);
    strbuf_free(&w->exchange);
}

static void connect_peer(struct peer *p, struct world *w, const char *with, int node)
{
    static const struct control_events ev = {.frame = on_peer_frame, .ended = on_peer_ended};
    *p = (struct peer){.w = w};
    int fd = -1;
    AUTO(free) char *address = xasprintf("127.0.0.1:%d", agent_children_port(w->children));
    CHECK_INT(control_connect(&fd, address, 5000, NULL), 0);
    CHECK_INT(control_open(&p->c, &w->loop, fd, with, &ev, p, NULL), 0);
    control_authenticate(p->c, 15000);
    control_send(p->c, json_pack("{s:s,s:i}", "t", "hello", "node", node), NULL, 0);
}

static void peer_close(struct peer *p)
{
    control_close(TAKE(p->c));
    strbuf_free(&p->received);
}

static void until(const struct world *w, const struct strbuf *b, const char *text)
{
    uint64_t start = uv_hrtime();
    while (!strstr(strbuf_str(b), text)) {
        if (uv_hrtime() - start > 10000000000)
            FAIL("no '%s' in '%s'", text, strbuf_str(b));
        uv_run((uv_loop_t *)&w->loop, UV_RUN_NOWAIT);
    }
}

TEST(frames_of_children_go_up_with_their_node)
{
    struct world w;
    struct peer two;
    world_open(&w);
    connect_peer(&two, &w, token, 2);
    until(&w, &w.up, "relay 2 hello:|");
    control_send(two.c, json_pack("{s:s}", "t", "topo"), "T", 1);
    control_send_bulk(two.c, json_pack("{s:s,s:i}", "t", "output", "rank", 4), "text", 4);
    control_send(two.c, json_pack("{s:s}", "t", "exchange"), "fence", 5);
    AUTO(strbuf) struct strbuf below = {0};
    json_t *head = control_frame_relay(&below, 6, json_pack("{s:s}", "t", "started"), NULL, 0);
    control_send(two.c, head, below.data, below.len);
    control_send(two.c, json_pack("{s:s,s:i,s:s}", "t", "lost", "node", 6, "why", "x"), NULL, 0);
    until(&w, &w.up, "lost 6|");
    CHECK_STR(strbuf_str(&w.up),
              "relay 2 hello:|relay 2 topo:T|relay 2 bulk output:text|relay 6 started:|lost 6|");
    CHECK_STR(strbuf_str(&w.exchange), "2:fence|");
    peer_close(&two);
    world_close(&w);
}

TEST(strangers_are_limited_and_the_oldest_one_goes_first)
{
    enum { MANY = 64 + 2 + 1 }; /* one too many: 64, and one per child */
    struct world w;
    struct peer two;
    world_open(&w);
    connect_peer(&two, &w, token, 2);
    until(&w, &w.up, "relay 2 hello:|");
    int fds[MANY];
    for (int i = 0; i < MANY; i++) {
        AUTO(free) char *address = xasprintf("127.0.0.1:%d", agent_children_port(w.children));
        CHECK_INT(control_connect(&fds[i], address, 5000, NULL), 0);
        for (int turns = 0; turns < 3; turns++)
            uv_run(&w.loop, UV_RUN_NOWAIT);
    }
    char bytes[64]; /* the greeting, and then the end of the first one only */
    while (recv(fds[0], bytes, sizeof bytes, MSG_DONTWAIT) != 0)
        uv_run(&w.loop, UV_RUN_NOWAIT);
    while (recv(fds[1], bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        ;
    CHECK(errno == EAGAIN);
    CHECK(!two.ended);
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
    peer_close(&two);
    world_close(&w);
}

TEST(frames_from_above_go_to_the_node_that_they_name_or_to_all)
{
    struct world w;
    struct peer two, three;
    world_open(&w);
    connect_peer(&two, &w, token, 2);
    connect_peer(&three, &w, token, 3);
    until(&w, &w.up, "relay 2 hello:|");
    until(&w, &w.up, "relay 3 hello:|");
    static const int nodes[] = {6, 3, CONTROL_FRAME_TO_ALL};
    for (size_t i = 0; i < COUNT_OF(nodes); i++) {
        AUTO(strbuf) struct strbuf b = {0};
        AUTO(json)
        json_t *head = control_frame_relay(&b, nodes[i], json_pack("{s:s}", "t", "start"), NULL, 0);
        agent_children_relay(w.children, &(struct control_frame){head, "relay", b.data, b.len});
    }
    agent_children_send(w.children, 2, json_pack("{s:s}", "t", "exchange"), "done", 4);
    agent_children_send(w.children, 6, json_pack("{s:s}", "t", "exchange"), "none", 4);
    agent_children_send(w.children, 3, json_pack("{s:s}", "t", "exchange"), "done", 4);
    until(&w, &two.received, "exchange:done|");
    until(&w, &three.received, "exchange:done|");
    int relays = 0;
    for (const char *at = strbuf_str(&two.received); (at = strstr(at, "relay:")); at++)
        relays++;
    CHECK_INT(relays, 2); /* for 6, and for all */
    relays = 0;
    for (const char *at = strbuf_str(&three.received); (at = strstr(at, "relay:")); at++)
        relays++;
    CHECK_INT(relays, 2);
    peer_close(&two);
    peer_close(&three);
    world_close(&w);
}

TEST(a_child_that_ends_is_lost_and_named)
{
    struct world w;
    struct peer two;
    world_open(&w);
    connect_peer(&two, &w, token, 2);
    until(&w, &w.up, "relay 2 hello:|");
    peer_close(&two);
    until(&w, &w.up, "lost 2|");
    CHECK_INT(w.lost, 2);
    connect_peer(&two, &w, token, 2); /* it does not count as connected any more */
    until(&w, &w.up, "lost 2|relay 2 hello:|");
    peer_close(&two);
    world_close(&w);
}

TEST(only_its_children_may_connect_with_the_token_and_once)
{
    static const int wrong[] = {6, 0, 1, 7, -1, 2};
    struct world w;
    struct peer two, other;
    world_open(&w);
    connect_peer(&two, &w, token, 2);
    until(&w, &w.up, "relay 2 hello:|");
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        connect_peer(&other, &w, token, wrong[i]);
        until(&w, &other.received, "reject:");
        peer_close(&other);
    }
    connect_peer(&other, &w, "another token", 3);
    for (uint64_t start = uv_hrtime(); !other.ended && uv_hrtime() - start < 10000000000;)
        uv_run(&w.loop, UV_RUN_NOWAIT);
    CHECK(other.ended);
    peer_close(&other);
    CHECK_STR(strbuf_str(&w.up), "relay 2 hello:|");
    peer_close(&two);
    world_close(&w);
}

TEST(malformed_relay_frames_are_rejected)
{
    AUTO(strbuf) struct strbuf b = {0};
    AUTO(json)
    json_t *head = control_frame_relay(&b, 3, json_pack("{s:s}", "t", "start"), "abc", 3);
    struct control_frame inner, f = {head, "relay", b.data, b.len};
    int node = -1;
    CHECK_INT(control_frame_relayed(&inner, &node, &f), 0);
    CHECK_STR(inner.type, "start");
    CHECK(node == 3 && inner.len == 3);
    json_decref(inner.head);
    for (f.len = 0; f.len < b.len; f.len++)
        CHECK_INT(control_frame_relayed(&inner, &node, &f), -EBADMSG);
    strbuf_add(&b, "x", 1);
    f.payload = b.data;
    f.len = b.len;
    CHECK_INT(control_frame_relayed(&inner, &node, &f), -EBADMSG);
    f.len--;
    json_object_set_new(head, "node", json_integer(-2));
    CHECK_INT(control_frame_relayed(&inner, &node, &f), -EBADMSG);
}
