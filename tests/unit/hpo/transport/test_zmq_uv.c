#include "hpo/transport/zmq_uv.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <zmq.h>

#include "common/mem.h"
#include "tests/unit/test.h"

enum { MESSAGES = 10000, BATCH = 16 };

/* A loop with one end of a pair in it; the test or a thread uses the other end. */
struct side {
    uv_loop_t loop;
    void *context, *socket, *peer;
    char dir[32], endpoint[64];
    struct zmq_uv *z;
    int got, calls, turns, last_turn;
    int closed_at_call; /* 0: never */
    bool answers, hold;
};

static void *new_socket(struct side *s, int kind)
{
    void *socket = zmq_socket(s->context, kind);
    int none = 0;
    zmq_setsockopt(socket, ZMQ_SNDHWM, &none, sizeof none);
    zmq_setsockopt(socket, ZMQ_RCVHWM, &none, sizeof none);
    zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof none);
    return socket;
}

static void setup(struct side *s, const char *transport, zmq_uv_ready_fn *ready)
{
    CHECK_INT(uv_loop_init(&s->loop), 0);
    s->context = zmq_ctx_new();
    s->socket = new_socket(s, ZMQ_PAIR);
    s->peer = new_socket(s, ZMQ_PAIR);
    snprintf(s->dir, sizeof s->dir, "/tmp/test_zloop.XXXXXX");
    CHECK(mkdtemp(s->dir));
    snprintf(s->endpoint, sizeof s->endpoint, "%s://%s/s", transport, s->dir);
    CHECK_INT(zmq_bind(s->socket, s->endpoint), 0);
    CHECK_INT(zmq_connect(s->peer, s->endpoint), 0);
    CHECK_INT(zmq_uv_open(&s->z, &s->loop, s->socket, ready, s, NULL), 0);
}

static void teardown(struct side *s)
{
    CHECK_INT(uv_run(&s->loop, UV_RUN_DEFAULT), 0); /* closes what is open; nothing stays active */
    CHECK_INT(uv_loop_close(&s->loop), 0);
    zmq_close(s->socket);
    zmq_close(s->peer);
    zmq_ctx_term(s->context);
    rmdir(s->dir);
}

/* Receives at most a batch, numbered from 0, and closes after the last message. */
static void on_ready(struct zmq_uv *z, void *arg)
{
    struct side *s = arg;
    CHECK(z == s->z);
    CHECK(s->turns == 0 || s->turns != s->last_turn); /* once per iteration: the other handles
                                                         ran */
    s->last_turn = s->turns;
    s->calls++;
    int number;
    for (int i = 0; i < BATCH && s->got < MESSAGES; i++) {
        if (zmq_recv(s->socket, &number, sizeof number, ZMQ_DONTWAIT) < 0)
            break;
        CHECK_INT(number, s->got);
        s->got++;
        if (s->answers)
            CHECK_INT(zmq_send(s->socket, &number, sizeof number, ZMQ_DONTWAIT), sizeof number);
    }
    if (s->got == MESSAGES || s->calls == s->closed_at_call)
        zmq_uv_close(TAKE(s->z));
}

static void send_numbers(void *socket, int from, int to)
{
    for (int i = from; i < to; i++)
        CHECK_INT(zmq_send(socket, &i, sizeof i, 0), sizeof i);
}

static void *sender(void *arg)
{
    send_numbers(((struct side *)arg)->peer, 0, MESSAGES);
    return NULL;
}

static void on_turn(uv_check_t *h)
{
    struct side *s = h->data;
    s->turns++;
}

static void count_turns(struct side *s, uv_check_t *h)
{
    uv_check_init(&s->loop, h);
    h->data = s;
    uv_check_start(h, on_turn);
    uv_unref((uv_handle_t *)h); /* the loop ends without z */
}

TEST(all_that_waited_arrives_in_batches_and_others_have_their_turn)
{
    struct side s = {0};
    uv_check_t turn;
    setup(&s, "inproc", on_ready);
    count_turns(&s, &turn);
    send_numbers(s.peer, 0, MESSAGES);
    uv_run(&s.loop, UV_RUN_DEFAULT);
    CHECK_INT(s.got, MESSAGES);
    CHECK(s.calls >= MESSAGES / BATCH);
    CHECK(s.turns >= s.calls);
    uv_close((uv_handle_t *)&turn, NULL);
    teardown(&s);
}

static void from_a_thread(const char *transport, bool answers)
{
    struct side s = {.answers = answers};
    setup(&s, transport, on_ready);
    pthread_t thread;
    CHECK_INT(pthread_create(&thread, NULL, sender, &s), 0);
    uv_run(&s.loop, UV_RUN_DEFAULT);
    CHECK_INT(s.got, MESSAGES);
    pthread_join(thread, NULL);
    for (int i = 0, number; answers && i < MESSAGES; i++) {
        CHECK_INT(zmq_recv(s.peer, &number, sizeof number, 0), sizeof number);
        CHECK_INT(number, i);
    }
    teardown(&s);
}

TEST(all_arrives_while_a_thread_sends_inproc)
{
    from_a_thread("inproc", false);
}

TEST(all_arrives_while_a_thread_sends_over_ipc)
{
    from_a_thread("ipc", false);
}

TEST(answers_inside_the_handler_do_not_stall_inproc)
{
    from_a_thread("inproc", true);
}

TEST(answers_inside_the_handler_do_not_stall_over_ipc)
{
    from_a_thread("ipc", true);
}

/* Sends a request, waits for the answer, sends the next: each edge counts, since nothing else
 * wakes the loop. */
static void *asker(void *arg)
{
    struct side *s = arg;
    for (int i = 0, number; i < MESSAGES; i++) {
        send_numbers(s->peer, i, i + 1);
        if (i + 1 < MESSAGES) /* the loop ends with the last answer */
            CHECK_INT(zmq_recv(s->peer, &number, sizeof number, 0), sizeof number);
    }
    return NULL;
}

TEST(ten_thousand_single_edges_all_wake_the_loop)
{
    struct side s = {.answers = true};
    setup(&s, "ipc", on_ready);
    pthread_t thread;
    CHECK_INT(pthread_create(&thread, NULL, asker, &s), 0);
    uv_run(&s.loop, UV_RUN_DEFAULT);
    CHECK_INT(s.got, MESSAGES);
    pthread_join(thread, NULL);
    teardown(&s);
}

/* A message has arrived, and a send of this side has consumed the edge that reported it: no other
 * edge follows. */
static void on_swallow(uv_timer_t *h)
{
    struct side *s = h->data;
    send_numbers(s->peer, 0, 1);
    zmq_pollitem_t item = {.socket = s->socket, .events = ZMQ_POLLIN};
    CHECK_INT(zmq_poll(&item, 1, 10000), 1);
    send_numbers(s->socket, 0, 1);
}

TEST(a_send_outside_the_handler_does_not_hide_what_has_come)
{
    struct side s = {.closed_at_call = 1};
    setup(&s, "ipc", on_ready);
    uv_timer_t timer;
    uv_timer_init(&s.loop, &timer);
    timer.data = &s;
    uv_timer_start(&timer, on_swallow, 0, 0);
    uv_run(&s.loop, UV_RUN_DEFAULT);
    CHECK_INT(s.got, 1);
    uv_close((uv_handle_t *)&timer, NULL); /* not earlier: closing a handle takes an iteration */
    teardown(&s);
}

TEST(what_came_before_the_opening_is_seen)
{
    struct side s = {0};
    setup(&s, "inproc", on_ready);
    zmq_uv_close(TAKE(s.z));
    uv_run(&s.loop, UV_RUN_DEFAULT);
    send_numbers(s.peer, 0, MESSAGES);
    int events = 0;
    size_t len = sizeof events;
    CHECK_INT(zmq_getsockopt(s.socket, ZMQ_EVENTS, &events, &len), 0); /* consumes the edge */
    CHECK_INT(zmq_uv_open(&s.z, &s.loop, s.socket, on_ready, &s, NULL), 0);
    uv_run(&s.loop, UV_RUN_DEFAULT);
    CHECK_INT(s.got, MESSAGES);
    teardown(&s);
}

TEST(no_call_follows_a_close_inside_the_handler)
{
    struct side s = {.closed_at_call = 3};
    setup(&s, "inproc", on_ready);
    send_numbers(s.peer, 0, MESSAGES);
    uv_run(&s.loop, UV_RUN_DEFAULT);
    CHECK_INT(s.calls, 3);
    CHECK_INT(s.got, 3 * BATCH);
    teardown(&s);
}

TEST(the_socket_may_be_closed_right_after_the_zloop)
{
    struct side s = {0};
    setup(&s, "ipc", on_ready);
    send_numbers(s.peer, 0, 10);
    zmq_uv_close(s.z);
    zmq_close(s.socket);
    uv_run(&s.loop, UV_RUN_DEFAULT);
    CHECK_INT(s.calls, 0);
    s.socket = new_socket(&s, ZMQ_PAIR);
    teardown(&s);
}

static void on_deadline(uv_timer_t *h)
{
    struct side *s = h->data;
    uv_close((uv_handle_t *)h, NULL);
    zmq_uv_close(TAKE(s->z));
}

TEST(a_loop_with_nothing_to_read_sleeps)
{
    struct side s = {0};
    uv_check_t turn;
    uv_timer_t timer;
    setup(&s, "ipc", on_ready);
    count_turns(&s, &turn);
    uv_timer_init(&s.loop, &timer);
    timer.data = &s;
    uv_timer_start(&timer, on_deadline, 100, 0);
    uv_run(&s.loop, UV_RUN_DEFAULT);
    CHECK_INT(s.calls, 0);
    CHECK(s.turns < 50); /* the connection causes a few iterations; a loop that spins causes
                            100,000 */
    uv_close((uv_handle_t *)&turn, NULL);
    teardown(&s);
}

TEST(what_is_no_socket_or_has_a_zloop_already_is_refused)
{
    struct side s = {0};
    struct err e = {0};
    struct zmq_uv *none = NULL;
    setup(&s, "inproc", on_ready);
    CHECK(zmq_uv_open(&none, &s.loop, NULL, on_ready, &s, &e) < 0);
    CHECK_HAS(e.text, "ZeroMQ socket: ");
    CHECK(zmq_uv_open(&none, &s.loop, s.socket, on_ready, &s, &e) < 0);
    CHECK_HAS(e.text, "ZeroMQ socket in the loop: ");
    CHECK(none == NULL);
    zmq_uv_close(NULL);
    zmq_uv_close(s.z);
    teardown(&s);
}
