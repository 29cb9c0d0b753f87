/* stop_signals: which signals are requests, and signals of this process on a loop. */
#include "common/stop_signals.h"

#include <signal.h>

#include "common/mem.h"
#include "tests/unit/test.h"

TEST(a_signal_soon_after_a_request_repeats_it)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    for (size_t i = 0; i < COUNT_OF(signals); i++) {
        int sig = signals[i];
        bool key = sig == SIGINT || sig == SIGQUIT;
        CHECK(stop_signals_count(sig, -1, false) && stop_signals_count(sig, -1, true));
        CHECK(!stop_signals_count(sig, 0, false) && !stop_signals_count(sig, 0, true));
        CHECK(!stop_signals_count(sig, 20, true)); /* timeout --signal INT in a terminal */
        CHECK(!stop_signals_count(sig, STOP_SIGNALS_REPEAT_MS - 1, false));
        CHECK_INT(stop_signals_count(sig, 150, true), key);
        CHECK(stop_signals_count(sig, STOP_SIGNALS_REPEAT_MS, false));
        CHECK(stop_signals_count(sig, STOP_SIGNALS_REPEAT_MS, true));
    }
}

struct fixture {
    uv_loop_t loop;
    struct stop_signals signals;
    int requests, again, last;
};

static void on_request(void *arg, int sig, bool again)
{
    struct fixture *f = arg;
    f->requests++;
    f->again += again;
    f->last = sig;
}

/* A shell starts its background jobs with SIGINT and SIGQUIT ignored. */
static void start(struct fixture *f)
{
    *f = (struct fixture){0};
    CHECK_INT(uv_loop_init(&f->loop), 0);
    if (signal(SIGQUIT, SIG_DFL) == SIG_ERR || signal(SIGINT, SIG_DFL) == SIG_ERR)
        FAIL("signal");
    stop_signals_open(&f->signals, &f->loop, on_request, f);
}

static void deliver(struct fixture *f, int sig)
{
    raise(sig);
    uv_run(&f->loop, UV_RUN_NOWAIT);
}

static void stop(struct fixture *f)
{
    stop_signals_close(&f->signals);
    CHECK_INT(uv_run(&f->loop, UV_RUN_DEFAULT), 0);
    CHECK_INT(uv_loop_close(&f->loop), 0);
}

TEST(signals_at_once_are_one_request)
{
    struct fixture f;
    start(&f);
    raise(SIGTERM);
    deliver(&f, SIGHUP);
    deliver(&f, SIGTERM);
    CHECK_INT(f.requests, 1);
    CHECK_INT(f.again, 0);
    stop(&f);
}

TEST(a_signal_a_second_later_is_a_further_request)
{
    struct fixture f;
    start(&f);
    deliver(&f, SIGTERM);
    f.signals.last_ms -= STOP_SIGNALS_REPEAT_MS; /* as if this time had passed */
    deliver(&f, SIGQUIT);
    CHECK_INT(f.requests, 2);
    CHECK_INT(f.again, 1);
    CHECK_INT(f.last, SIGQUIT);
    deliver(&f, SIGTERM); /* repeats the second request */
    CHECK_INT(f.requests, 2);
    stop(&f);
}

TEST(an_ignored_signal_stays_ignored)
{
    struct fixture f;
    signal(SIGHUP, SIG_IGN);
    start(&f);
    deliver(&f, SIGHUP);
    CHECK_INT(f.requests, 0);
    deliver(&f, SIGINT);
    CHECK_INT(f.requests, 1);
    stop(&f);
    signal(SIGHUP, SIG_DFL);
}
