/* test_listen_endpoint - where a coordinator listens: at the address it is given, or at its last
 * one. */
#include "hpo/transport/listen_endpoint.h"

#include <zmq.h>

#include "hpo/transport/curve_keys.h"
#include "tests/unit/test.h"

static char dir[64];

static void on_heard(void *arg, const char *worker, const struct wire_msg *m)
{
}

static void on_turn(void *arg)
{
}

static const struct transport_server_events events = {on_heard, on_turn};

/* Returns the endpoint for workers, NULL if there is none; `*rc` is the result of opening it. */
static char *endpoint_of(const char *address, bool plain, int *rc, struct err *e)
{
    uv_loop_t loop;
    CHECK_INT(uv_loop_init(&loop), 0);
    AUTO(free) char *ipc = xasprintf("ipc://%s/sock", dir);
    char *endpoint = NULL;
    struct transport_server *h = NULL;
    CHECK_INT(transport_server_open(&h, &loop, ipc, &events, NULL, e), 0);
    const struct listen_endpoint_opts ask = {address, plain};
    *rc = listen_endpoint_open(h, dir, &ask, &endpoint, e);
    transport_server_close(h);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&loop), 0);
    return endpoint;
}

static void make_dir(void)
{
    strcpy(dir, "/tmp/test_listen.XXXXXX");
    CHECK(mkdtemp(dir) != NULL);
}

static void remove_dir(void)
{
    char cmd[128];
    snprintf(cmd, sizeof cmd, "rm -r %s", dir);
    CHECK_INT(system(cmd), 0);
}

TEST(valid_and_invalid_addresses)
{
    const struct {
        const char *address;
        bool plain;
        const char *why; /* NULL: the address is valid */
    } cases[] = {
        {NULL, false, NULL},
        {"", false, "it is empty"},
        {":", false, NULL},
        {":4711", false, NULL},
        {"*:4711", false, NULL},
        {"10.0.0.1", false, NULL},
        {"eth0:0", false, NULL},
        {"[::1]:4711", true, NULL},
        {"127.0.0.1", true, NULL},
        {":4711", true, "not on loopback"},
        {"10.0.0.1", true, "not on loopback"},
        {NULL, true, "--listen"},
        {"a:b", false, "port"},
        {"a:65536", false, "port"},
        {"a:-1", false, "port"},
        {"tcp://a:1", false, "is not an address"},
        {"a b", false, "is not an address"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct err e = {0};
        const struct listen_endpoint_opts ask = {cases[i].address, cases[i].plain};
        int rc = listen_endpoint_check(&ask, &e);
        if ((rc == 0) != (cases[i].why == NULL))
            FAIL("%s: %d %s", cases[i].address, rc, e.text);
        if (cases[i].why)
            CHECK_HAS(e.text, cases[i].why);
    }
}

TEST(a_coordinator_listens_where_the_last_one_did)
{
    make_dir();
    struct err e = {0};
    int rc;
    CHECK(endpoint_of(NULL, false, &rc, &e) == NULL); /* it was never told to listen */
    CHECK_INT(rc, 0);
    AUTO(free) char *first = endpoint_of("127.0.0.1", false, &rc, &e);
    AUTO(free) char *again = endpoint_of(NULL, false, &rc, &e);
    AUTO(free) char *same = endpoint_of("127.0.0.1", false, &rc, &e);
    AUTO(free) char *other = endpoint_of("127.0.0.1:0", false, &rc, &e);
    CHECK(first != NULL && other != NULL);
    CHECK_STR(again, first);
    CHECK_STR(same, first);
    CHECK(strcmp(other, first) != 0);

    struct curve_keys k;
    AUTO(free) char *path = xasprintf("%s/worker.key", dir), *told = NULL;
    CHECK_INT(curve_keys_read(&k, &told, path, &e), 0);
    CHECK_STR(told, other);
    remove_dir();
}

TEST(plain_makes_no_keys_and_is_kept)
{
    make_dir();
    struct err e = {0};
    int rc;
    AUTO(free) char *path = xasprintf("%s/worker.key", dir);
    AUTO(free) char *first = endpoint_of("127.0.0.1", true, &rc, &e);
    AUTO(free) char *again = endpoint_of(NULL, false, &rc, &e);
    CHECK_STR(again, first);
    CHECK(access(path, F_OK) < 0);
    remove_dir();
}

TEST(a_port_in_use_is_an_error_with_a_hint)
{
    make_dir();
    struct err e = {0};
    int rc;
    AUTO(free) char *first = endpoint_of("127.0.0.1", false, &rc, &e);
    void *zmq = zmq_ctx_new(), *sock = zmq_socket(zmq, ZMQ_ROUTER);
    CHECK_INT(zmq_bind(sock, first), 0);
    CHECK(endpoint_of(NULL, false, &rc, &e) == NULL);
    CHECK_INT(rc, -EADDRINUSE);
    CHECK_HAS(e.text, first);
    CHECK_HAS(e.hint, "--listen 127.0.0.1:0");
    zmq_close(sock);
    zmq_ctx_term(zmq);
    remove_dir();
}
