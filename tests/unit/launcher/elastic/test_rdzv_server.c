/* rdzv_server: what it sends to nodes that join, as frames on a connection. */
#include "launcher/elastic/rdzv_server.h"

#include "launcher/remote/control/control.h"
#include "tests/unit/test.h"

enum { NODES = 2, JOIN_MS = 60000 };

struct node {
    struct control *link;
    struct strbuf heard; /* the types of the frames: "assignment stop " */
    char why[1024];      /* reason in the last frame */
    bool ended;
};

static uv_loop_t loop;
static char address[32]; /* of the server */
static struct rdzv_server *host;
static struct node nodes[NODES];

static void on_frame(void *arg, const struct control_frame *f)
{
    struct node *n = arg;
    const char *why = "";
    strbuf_printf(&n->heard, "%s ", f->type);
    (void)json_optional_str(&why, f->head, "why", NULL); /* not every frame has one */
    snprintf(n->why, sizeof n->why, "%s", why);
}

static void on_ended(void *arg, const char *why)
{
    ((struct node *)arg)->ended = true;
}

static void open_host(int most)
{
    const struct rdzv_client_opts want = {.host = "127.0.0.1",
                                          .id = "j",
                                          .name = "host",
                                          .nodes_min = NODES,
                                          .nodes_max = most,
                                          .join_ms = JOIN_MS};
    static const struct control_events events = {.frame = on_frame, .ended = on_ended};
    struct err e = {0};
    int port = 0;
    CHECK_INT(uv_loop_init(&loop), 0);
    CHECK_INT(rdzv_server_open(&host, &loop, &want, &port, &e), 0);
    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    for (int i = 0; i < NODES; i++) {
        int fd = -1;
        CHECK_INT(control_connect(&fd, address, 5000, &e), 0);
        CHECK_INT(control_open(&nodes[i].link, &loop, fd, NULL, &events, &nodes[i], &e), 0);
    }
}

static void close_all(void)
{
    rdzv_server_close(host);
    for (int i = 0; i < NODES; i++) {
        control_close(nodes[i].link);
        strbuf_free(&nodes[i].heard);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&loop), 0);
}

static void say_join(int i, int ranks, int most)
{
    control_send(nodes[i].link,
                 json_pack("{s:s,s:i,s:s,s:i,s:i,s:s,s:i,s:i,s:s,s:b}", "t", "join", "protocol",
                           CONTROL_FRAME_PROTOCOL, "id", "j", "min", NODES, "max", most, "name",
                           "a node", "ranks", ranks, "port", 4000, "endpoint", "127.0.0.1", "host",
                           false),
                 NULL, 0);
}

static void wait_for(int i, const char *heard)
{
    while (strcmp(strbuf_str(&nodes[i].heard), heard) != 0 && !nodes[i].ended)
        uv_run(&loop, UV_RUN_ONCE);
    CHECK_STR(strbuf_str(&nodes[i].heard), heard);
}

static void place_both(void)
{
    open_host(NODES);
    for (int i = 0; i < NODES; i++)
        say_join(i, 1, NODES);
    for (int i = 0; i < NODES; i++)
        wait_for(i, "assignment ");
}

TEST(the_oldest_of_too_many_strangers_is_dropped_and_nodes_join)
{
    enum { STRANGERS = 150 };
    int strangers[STRANGERS];
    open_host(NODES);
    for (int i = 0; i < NODES; i++)
        say_join(i, 1, NODES);
    for (int i = 0; i < NODES; i++)
        wait_for(i, "assignment ");
    for (int i = 0; i < STRANGERS; i++) {
        CHECK_INT(control_connect(&strangers[i], address, 5000, NULL), 0);
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    static const struct control_events events = {.frame = on_frame, .ended = on_ended};
    struct node late = {0};
    int fd = -1;
    CHECK_INT(control_connect(&fd, address, 5000, NULL), 0);
    CHECK_INT(control_open(&late.link, &loop, fd, NULL, &events, &late, NULL), 0);
    control_send(late.link, json_pack("{s:s,s:i}", "t", "join", "protocol", 1000), NULL, 0);
    while (!late.ended && !late.heard.len)
        uv_run(&loop, UV_RUN_ONCE);
    CHECK_HAS(late.why, "version mismatch"); /* its message was read */
    char bytes[256];
    CHECK(recv(strangers[0], bytes, sizeof bytes, 0) > 0); /* it is rejected */
    CHECK(recv(strangers[STRANGERS - 1], bytes, sizeof bytes, MSG_DONTWAIT) < 0);
    for (int i = 0; i < STRANGERS; i++)
        close(strangers[i]);
    control_close(late.link);
    strbuf_free(&late.heard);
    close_all();
}

TEST(a_node_that_is_cut_off_has_left_and_the_others_hear_of_it)
{
    place_both();
    control_send(nodes[0].link, json_pack("{s:s}", "t", "sing"), NULL, 0);
    wait_for(0, "assignment reject ");
    wait_for(1, "assignment stop ");
    CHECK_STR(nodes[1].why, "a node: invalid message");
    close_all();
}

TEST(a_reason_is_told_also_where_it_is_cut_within_a_letter)
{
    AUTO(strbuf) struct strbuf why = {0};
    for (int i = 0; i < 1000; i++)
        strbuf_puts(&why, "\xc3\xa4");
    for (int odd = 0; odd < 2; odd++) {
        memset(nodes, 0, sizeof nodes);
        place_both();
        control_send(
            nodes[0].link,
            json_pack("{s:s,s:b,s:s}", "t", "ended", "well", false, "why", strbuf_str(&why)), NULL,
            0);
        wait_for(1, "assignment stop ");
        CHECK(strncmp(nodes[1].why, "a node: ", 8) == 0 && strlen(nodes[1].why) > 400);
        close_all();
        strbuf_reset(&why);
        strbuf_puts(&why, "x");
        for (int i = 0; i < 1000; i++)
            strbuf_puts(&why, "\xc3\xa4");
    }
}

TEST(a_join_of_another_version_is_rejected_with_the_reason)
{
    open_host(NODES);
    for (int i = 0; i < NODES; i++) { /* without a number, and with the next one */
        json_t *head = json_pack("{s:s,s:s,s:i,s:i,s:s,s:i,s:i,s:s,s:b}", "t", "join", "id", "j",
                                 "min", NODES, "max", NODES, "name", "a node", "ranks", 1, "port",
                                 4000, "endpoint", "127.0.0.1", "host", false);
        if (i == 1)
            json_object_set_new(head, "protocol", json_integer(CONTROL_FRAME_PROTOCOL + 1));
        control_send(nodes[i].link, head, NULL, 0);
        wait_for(i, "reject ");
        CHECK_HAS(nodes[i].why, "version mismatch");
    }
    close_all();
}

TEST(a_number_that_no_int_holds_is_refused)
{
    open_host(NODES);
    json_t *head = json_pack("{s:s,s:i,s:s,s:i,s:i,s:s,s:i,s:I,s:s,s:b}", "t", "join", "protocol",
                             CONTROL_FRAME_PROTOCOL, "id", "j", "min", NODES, "max", NODES, "name",
                             "a node", "ranks", 1, "port", (json_int_t)4000 + (1LL << 32),
                             "endpoint", "127.0.0.1", "host", false);
    control_send(nodes[0].link, head, NULL, 0);
    wait_for(0, "reject ");
    CHECK_STR(nodes[0].why, "invalid message");
    close_all();
}

TEST(more_ranks_than_a_number_counts_are_refused)
{
    int most = 1 << 16;
    open_host(most);
    say_join(0, 1 << 20, most);
    wait_for(0, "reject ");
    CHECK_STR(nodes[0].why, "invalid message");
    say_join(1, 1 << 10, most);
    for (int i = 0; i < 20; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    CHECK_STR(strbuf_str(&nodes[1].heard), "");
    close_all();
}
