/* rdzv_client: a node of an elastic job, against a real server and against one that is written by
 * hand. */
#include "launcher/elastic/rdzv_client.h"

#include <netinet/in.h>

#include "launcher/elastic/rdzv_server.h"
#include "launcher/remote/control/control.h"
#include "tests/unit/test.h"

enum { LIMIT_MS = 20000, NODES = 2 };

struct node {
    struct rdzv_client *client;
    struct strbuf events; /* "assigned ", "stop ", "job_done ", "failed " */
    struct rdzv_client_assignment assignment;
    char address[64], reason[1200];
    bool failure;
    int code;
};

/* A server written by hand: takes one connection, keeps what it receives. */
struct peer {
    uv_tcp_t listener;
    struct control *connection;
    json_t *head; /* of the last frame */
    int frames;
    bool ended;
};

static uv_loop_t loop;
static uv_timer_t limit;
static struct node nodes[NODES];
static struct peer peer;

/* ---- what a client emits -------------------------------------------------------------------- */

static void on_assigned(void *arg, const struct rdzv_client_assignment *a)
{
    struct node *n = arg;
    n->assignment = *a;
    snprintf(n->address, sizeof n->address, "%s", a->master_addr);
    strbuf_puts(&n->events, "assigned ");
}

static void on_stop(void *arg, bool failure, const char *why)
{
    struct node *n = arg;
    n->failure = failure;
    snprintf(n->reason, sizeof n->reason, "%s", why);
    strbuf_puts(&n->events, "stop ");
}

static void on_job_done(void *arg)
{
    strbuf_puts(&((struct node *)arg)->events, "job_done ");
}

static void on_failed(void *arg, const struct err *e)
{
    struct node *n = arg;
    n->code = e->code;
    snprintf(n->reason, sizeof n->reason, "%s", e->text);
    strbuf_puts(&n->events, "failed ");
}

static void on_limit(uv_timer_t *t)
{
    FAIL("no event in %d ms: '%s' '%s'", LIMIT_MS, strbuf_str(&nodes[0].events),
         strbuf_str(&nodes[1].events));
}

static void open_loop(void)
{
    memset(nodes, 0, sizeof nodes);
    peer = (struct peer){0};
    CHECK_INT(uv_loop_init(&loop), 0);
    uv_timer_init(&loop, &limit);
    uv_timer_start(&limit, on_limit, LIMIT_MS, 0);
}

static void close_loop(void)
{
    for (int i = 0; i < NODES; i++) {
        rdzv_client_close(nodes[i].client);
        strbuf_free(&nodes[i].events);
    }
    uv_close((uv_handle_t *)&limit, NULL);
    CHECK_INT(uv_run(&loop, UV_RUN_DEFAULT), 0);
    CHECK_INT(uv_loop_close(&loop), 0);
}

static struct rdzv_client_opts opts_of(int port)
{
    return (struct rdzv_client_opts){.host = "127.0.0.1",
                                     .port = port,
                                     .id = "j",
                                     .nodes_min = NODES,
                                     .nodes_max = NODES,
                                     .join_ms = 60000,
                                     .name = "n0",
                                     .ranks = 2};
}

static void open_client(int i, const struct rdzv_client_opts *o)
{
    static const struct rdzv_client_events events = {
        .assigned = on_assigned, .stop = on_stop, .job_done = on_job_done, .failed = on_failed};
    struct err e = {0};
    if (rdzv_client_open(&nodes[i].client, &loop, o, &events, &nodes[i], &e) < 0)
        FAIL("%s", e.text);
}

static void until(int i, const char *events)
{
    while (strcmp(strbuf_str(&nodes[i].events), events) != 0)
        uv_run(&loop, UV_RUN_ONCE);
}

/* ---- against a server ----------------------------------------------------------------------- */

static struct rdzv_server *server;

/* Two nodes of 2 and 3 ranks, which have an assignment. */
static void open_both(void)
{
    static const char *const names[] = {"n0", "n1"};
    struct rdzv_client_opts o = opts_of(0);
    struct err e = {0};
    int port = 0;
    open_loop();
    CHECK_INT(rdzv_server_open(&server, &loop, &o, &port, &e), 0);
    for (int i = 0; i < NODES; i++) {
        o = opts_of(port);
        o.name = names[i];
        o.ranks = 2 + i;
        open_client(i, &o);
    }
    for (int i = 0; i < NODES; i++)
        until(i, "assigned ");
}

static void close_both(void)
{
    rdzv_server_close(server);
    close_loop();
}

TEST(nodes_that_join_get_one_world)
{
    open_both();
    const struct rdzv_client_assignment *a = &nodes[0].assignment, *b = &nodes[1].assignment;
    CHECK_INT(a->node, 0); /* by name */
    CHECK_INT(b->node, 1);
    CHECK_INT(a->first_rank, 0);
    CHECK_INT(b->first_rank, 2);
    CHECK(a->nodes == NODES && b->nodes == NODES && a->world_size == 5 && b->world_size == 5);
    CHECK_INT(a->master_port, b->master_port);
    CHECK(a->master_port > 0);
    CHECK_STR(nodes[0].address, nodes[1].address);
    close_both();
}

TEST(a_failure_stops_every_node_with_its_reason)
{
    open_both();
    rdzv_client_ranks_ended(nodes[1].client, false, "rank 3 exited with status 7", false);
    for (int i = 0; i < NODES; i++) {
        until(i, "assigned stop ");
        CHECK(nodes[i].failure);
        CHECK_STR(nodes[i].reason, "n1: rank 3 exited with status 7");
    }
    int port = nodes[0].assignment.master_port;
    for (int i = 0; i < NODES; i++)
        CHECK_INT(rdzv_client_join(nodes[i].client, NULL), 0);
    for (int i = 0; i < NODES; i++)
        until(i, "assigned stop assigned ");
    CHECK(nodes[0].assignment.master_port == nodes[1].assignment.master_port && port > 0);
    close_both();
}

TEST(ranks_that_end_well_on_all_nodes_end_the_job)
{
    open_both();
    rdzv_client_ranks_ended(nodes[0].client, true, "", false);
    rdzv_client_ranks_ended(nodes[1].client, true, "", false);
    until(0, "assigned job_done ");
    until(1, "assigned job_done ");
    close_both();
}

TEST(a_node_that_closes_stops_its_peers)
{
    open_both();
    rdzv_client_close(TAKE(nodes[1].client));
    until(0, "assigned stop ");
    CHECK(nodes[0].failure);
    CHECK_HAS(nodes[0].reason, "n1: ");
    close_both();
}

TEST(a_server_that_closes_is_a_failure_once)
{
    open_both();
    rdzv_server_close(server);
    for (int i = 0; i < NODES; i++) {
        until(i, "assigned failed ");
        CHECK_INT(nodes[i].code, -ECONNRESET);
        CHECK_HAS(nodes[i].reason, "rendezvous at 127.0.0.1:");
    }
    rdzv_client_ranks_ended(nodes[0].client, true, "", false); /* nothing is sent any more … */
    CHECK_INT(rdzv_client_join(nodes[0].client, NULL), 0);
    for (int i = 0; i < 20; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    CHECK_STR(strbuf_str(&nodes[0].events), "assigned failed "); /* … and nothing follows */
    close_loop();
}

TEST(the_node_that_has_the_address_hosts_the_rendezvous)
{
    open_loop();
    struct rdzv_client_opts o = opts_of(0);
    o.is_host = -1;
    o.nodes_min = 1;
    open_client(0, &o);
    until(0, "assigned ");
    CHECK_INT(nodes[0].assignment.nodes, 1);
    CHECK_INT(nodes[0].assignment.world_size, 2);
    close_loop();
}

TEST(a_client_that_is_told_not_to_host_waits_for_a_server)
{
    open_loop();
    struct rdzv_client_opts o = opts_of(9); /* "discard": no process listens there */
    o.join_ms = 1;
    open_client(0, &o);
    until(0, "failed ");
    CHECK_INT(nodes[0].code, -ETIMEDOUT);
    CHECK_HAS(nodes[0].reason, "rendezvous at 127.0.0.1:9: no ");
    CHECK_HAS(nodes[0].reason, "connection refused");
    close_loop();
}

TEST(a_client_may_close_before_it_has_connected)
{
    open_loop();
    struct rdzv_client_opts o = opts_of(9);
    open_client(0, &o);
    open_client(1, &o);
    rdzv_client_close(TAKE(nodes[0].client)); /* while the name is resolved */
    for (int i = 0; i < 50; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    rdzv_client_close(TAKE(nodes[1].client));
    CHECK_STR(strbuf_str(&nodes[0].events), "");
    close_loop();
}

/* ---- against a server written by hand ------------------------------------------------------- */

static void on_frame(void *arg, const struct control_frame *f)
{
    json_decref(peer.head);
    peer.head = json_deep_copy(f->head);
    peer.frames++;
}

static void on_ended(void *arg, const char *why)
{
    peer.ended = true;
}

static void on_connection(uv_stream_t *s, int status)
{
    static const struct control_events events = {.frame = on_frame, .ended = on_ended};
    struct err e = {0};
    CHECK_INT(control_accept(&peer.connection, s, NULL, &events, &peer, &e), 0);
    control_authenticate(peer.connection, CONTROL_SILENT_MS);
}

/* Opens the peer and a client of it; returns when the client has joined. */
static void open_peer(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int len = sizeof a;
    open_loop();
    uv_tcp_init(&loop, &peer.listener);
    CHECK_INT(uv_tcp_bind(&peer.listener, (struct sockaddr *)&a, 0), 0);
    CHECK_INT(uv_listen((uv_stream_t *)&peer.listener, 1, on_connection), 0);
    CHECK_INT(uv_tcp_getsockname(&peer.listener, (struct sockaddr *)&a, &len), 0);
    struct rdzv_client_opts o = opts_of(ntohs(a.sin_port));
    open_client(0, &o);
    while (peer.frames == 0)
        uv_run(&loop, UV_RUN_ONCE);
}

static void close_peer(void)
{
    control_close(peer.connection);
    json_decref(peer.head);
    uv_close((uv_handle_t *)&peer.listener, NULL);
    close_loop();
}

static void send_frame(json_t *head)
{
    control_send(peer.connection, head, NULL, 0);
}

static json_t *assignment(int node, int nodes_count, int first, json_int_t world, int port)
{
    return json_pack("{s:s,s:i,s:i,s:i,s:I,s:s,s:i}", "t", "assignment", "node", node, "nodes",
                     nodes_count, "first", first, "world", world, "address", "10.0.0.1", "port",
                     port);
}

static const char *text_of(const char *key)
{
    const char *text = json_string_value(json_object_get(peer.head, key));
    return text ? text : "";
}

static int number_of(const char *key)
{
    return (int)json_integer_value(json_object_get(peer.head, key));
}

TEST(a_join_says_what_the_node_has)
{
    open_peer();
    CHECK_STR(text_of("t"), "join");
    CHECK_INT(number_of("protocol"), CONTROL_FRAME_PROTOCOL);
    CHECK_STR(text_of("id"), "j");
    CHECK_STR(text_of("name"), "n0");
    CHECK_STR(text_of("endpoint"), "127.0.0.1");
    CHECK(number_of("min") == NODES && number_of("max") == NODES && number_of("ranks") == 2);
    CHECK(number_of("port") > 0 && number_of("port") < 65536);
    CHECK(json_is_false(json_object_get(peer.head, "host")));
    close_peer();
}

TEST(assignments_stops_and_the_end_of_the_job_are_passed_on)
{
    open_peer();
    send_frame(assignment(1, 2, 3, 5, 4000));
    until(0, "assigned ");
    CHECK_INT(nodes[0].assignment.node, 1);
    CHECK_INT(nodes[0].assignment.first_rank, 3);
    CHECK_INT(nodes[0].assignment.master_port, 4000);
    CHECK_STR(nodes[0].address, "10.0.0.1");
    rdzv_client_ranks_ended(nodes[0].client, false, "rank 3 failed", false);
    while (peer.frames < 2)
        uv_run(&loop, UV_RUN_ONCE);
    CHECK_STR(text_of("t"), "ended");
    CHECK_STR(text_of("why"), "rank 3 failed");
    CHECK(json_is_false(json_object_get(peer.head, "well")));
    send_frame(json_pack("{s:s,s:b,s:s}", "t", "stop", "failure", false, "why", "n2 joined"));
    until(0, "assigned stop ");
    CHECK(!nodes[0].failure);
    CHECK_STR(nodes[0].reason, "n2 joined");
    send_frame(json_pack("{s:s}", "t", "job_done"));
    until(0, "assigned stop job_done ");
    close_peer();
}

TEST(a_rejection_is_a_failure_with_its_reason)
{
    open_peer();
    send_frame(json_pack("{s:s,s:s}", "t", "reject", "why", "the job has ended"));
    until(0, "failed ");
    CHECK_INT(nodes[0].code, -EPERM);
    CHECK_HAS(nodes[0].reason, "the job has ended");
    while (!peer.ended) /* the client closes its end */
        uv_run(&loop, UV_RUN_ONCE);
    close_peer();
}

TEST(a_connection_that_ends_is_a_failure)
{
    open_peer();
    control_close(TAKE(peer.connection));
    until(0, "failed ");
    CHECK_INT(nodes[0].code, -ECONNRESET);
    close_peer();
}

TEST(frames_that_make_no_sense_are_failures)
{
    for (int i = 0;; i++) {
        json_t *bad[] = {
            assignment(2, 2, 0, 4, 4000),                 /* node out of range */
            assignment(-1, 2, 0, 4, 4000),                /* negative */
            assignment(0, 0, 0, 4, 4000),                 /* no nodes */
            assignment(0, 3, 0, 4, 4000),                 /* more than --nnodes */
            assignment(0, 2, 3, 4, 4000),                 /* its 2 ranks do not fit */
            assignment(0, 2, -1, 4, 4000),                /* negative */
            assignment(0, 2, 0, (json_int_t)1 << 40, 40), /* too large for an int */
            assignment(0, 2, 0, 4, 0),                    /* no port */
            assignment(0, 2, 0, 4, 65536),                /* not a port */
            json_pack("{s:s}", "t", "assignment"),
            json_pack("{s:s}", "t", "stop"),
            json_pack("{s:s,s:s,s:s}", "t", "stop", "failure", "yes", "why", "x"),
            json_pack("{s:s}", "t", "sing"),
        };
        if (i == (int)COUNT_OF(bad)) {
            for (int k = 0; k < i; k++)
                json_decref(bad[k]);
            return;
        }
        open_peer();
        for (int k = 0; k < (int)COUNT_OF(bad); k++)
            if (k == i)
                send_frame(bad[k]);
            else
                json_decref(bad[k]);
        until(0, "failed ");
        CHECK_INT(nodes[0].code, -EBADMSG);
        close_peer();
    }
}
