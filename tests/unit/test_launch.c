/* launch: jobs of one process, through the guardian and the PMIx server. */
#include "launcher/launch.h"

#include <time.h>

#include "common/strbuf.h"
#include "tests/unit/kit_guardian.h"
#include "tests/unit/kit_pmix.h"
#include "tests/unit/test.h"

enum { JOBS_MAX = 16 };

struct fixture;

struct heard { /* of one job */
    struct fixture *f;
    struct launch *job;
    struct strbuf out, reports;
    struct job_end end;
    char last_line[256];
    int ranks_ended, pause_after;
    bool over;
};

struct fixture {
    uv_loop_t loop;
    struct guardian *g;
    struct launcher *l;
    struct heard jobs[JOBS_MAX];
    uv_timer_t deadline;
};

static bool on_line(void *arg, int rank, enum launch_stream from, const char *text, size_t len)
{
    struct heard *h = arg;
    strbuf_printf(&h->out, "%d%c%.*s|", rank, from == LAUNCH_STDOUT ? 'o' : 'e', (int)len, text);
    return h->pause_after == 0 || --h->pause_after > 0;
}

static void on_report(void *arg, int rank, const char *json, size_t len)
{
    strbuf_printf(&((struct heard *)arg)->reports, "%d:%.*s|", rank, (int)len, json);
}

static void on_rank_ended(void *arg, const struct rank_end *r)
{
    ((struct heard *)arg)->ranks_ended++;
}

static void on_ended(void *arg, const struct job_end *end)
{
    struct heard *h = arg;
    h->end = *end;
    for (int i = 0; end->last_lines[i]; i++)
        snprintf(h->last_line, sizeof h->last_line, "%s", end->last_lines[i]);
    h->end.last_lines = NULL;
    h->over = true;
    uv_stop(&h->f->loop);
}

static const struct launch_events events = {
    .line = on_line, .report = on_report, .rank_ended = on_rank_ended, .ended = on_ended};

static void on_deadline(uv_timer_t *t)
{
    FAIL("no end after 15 s");
}

static struct fixture *open_all(void)
{
    struct err e = {0};
    struct fixture *f = xzalloc(sizeof *f);
    if (guardian_start(&f->g, &e) < 0)
        FAIL("%s", e.text);
    uv_loop_init(&f->loop);
    uv_timer_init(&f->loop, &f->deadline);
    uv_timer_start(&f->deadline, on_deadline, 15000, 0);
    uv_unref((uv_handle_t *)&f->deadline);
    if (launcher_open(&f->l, &f->loop, f->g, &e) < 0)
        FAIL("%s", e.text);
    return f;
}

static void close_all(struct fixture *f)
{
    for (int i = 0; i < JOBS_MAX; i++) {
        launch_free(f->jobs[i].job);
        strbuf_free(&f->jobs[i].out);
        strbuf_free(&f->jobs[i].reports);
    }
    launcher_close(f->l);
    uv_close((uv_handle_t *)&f->deadline, NULL);
    CHECK_INT(uv_run(&f->loop, UV_RUN_DEFAULT), 0);
    CHECK_INT(uv_loop_close(&f->loop), 0);
    guardian_stop(f->g);
    free(f);
}
AUTO_DEFINE(fixture, struct fixture *, close_all)

static struct launch_spec script(int ranks, char **argv, const char *text)
{
    argv[0] = (char *)"sh";
    argv[1] = (char *)"-c";
    argv[2] = (char *)text;
    argv[3] = NULL;
    return (struct launch_spec){
        .ranks = ranks, .argv = argv, .oversubscribe = true, .stdin_null = true, .no_pmix = true};
}

static struct heard *begin(struct fixture *f, int i, const struct launch_spec *s)
{
    struct err e = {0};
    struct heard *h = &f->jobs[i];
    h->f = f;
    if (launch_start(&h->job, f->l, s, &events, h, &e) < 0)
        FAIL("%s", e.text);
    CHECK(!h->over);
    return h;
}

static void until_over(struct heard *h)
{
    while (!h->over)
        uv_run(&h->f->loop, UV_RUN_ONCE);
}

static void until_heard(struct heard *h, const struct strbuf *b, const char *text)
{
    while (!strstr(strbuf_str(b), text)) {
        CHECK(!h->over);
        uv_run(&h->f->loop, UV_RUN_ONCE);
    }
}

TEST(a_job_says_its_lines_and_ends_with_0)
{
    AUTO(fixture) struct fixture *f = open_all();
    char *argv[4];
    struct launch_spec s = script(2, argv, "echo a$RANK; echo b$RANK >&2");
    s.no_pmix = false;
    struct heard *h = begin(f, 0, &s);
    until_over(h);
    CHECK_HAS(strbuf_str(&h->out), "0oa0|");
    CHECK_HAS(strbuf_str(&h->out), "1oa1|");
    CHECK_HAS(strbuf_str(&h->out), "1eb1|");
    CHECK_INT(h->end.status, 0);
    CHECK_INT(h->end.first_failed, -1);
    CHECK_INT(h->ranks_ended, 2);
    CHECK(!h->end.stopped && h->end.seconds > 0);
}

TEST(many_jobs_at_once_end_each_in_its_own_way)
{
    AUTO(fixture) struct fixture *f = open_all();
    char text[JOBS_MAX][64], *argv[JOBS_MAX][4];
    for (int i = 0; i < JOBS_MAX; i++) {
        int failing = i % 2;
        snprintf(text[i], sizeof text[i], "echo job%d; exit %d", i, failing ? i : 0);
        struct launch_spec s = script(failing ? 1 : 3, argv[i], text[i]);
        s.no_pmix = false;
        begin(f, i, &s);
    }
    for (int i = 0; i < JOBS_MAX; i++) {
        until_over(&f->jobs[i]);
        char want[32];
        snprintf(want, sizeof want, "0ojob%d|", i);
        CHECK_HAS(strbuf_str(&f->jobs[i].out), want);
        CHECK_INT(f->jobs[i].end.status, i % 2 ? i : 0);
    }
}

TEST(a_failure_has_its_last_line_and_the_others_were_told_to_stop)
{
    AUTO(fixture) struct fixture *f = open_all();
    char *argv[4];
    struct launch_spec s =
        script(3, argv, "[ $RANK = 1 ] || exec sleep 100; echo one >&2; echo two >&2; exit 9");
    struct heard *h = begin(f, 0, &s);
    until_over(h);
    CHECK_INT(h->end.status, 9);
    CHECK_INT(h->end.first_failed, 1);
    CHECK_INT(h->end.first.status, 9);
    CHECK(!h->end.first.told_to_stop && !h->end.stopped);
    CHECK_STR(h->last_line, "two");
}

TEST(a_program_that_is_not_there_ends_the_job_with_127)
{
    AUTO(fixture) struct fixture *f = open_all();
    char *argv[] = {(char *)"./no-such-program", NULL};
    struct launch_spec s = {.ranks = 2, .argv = argv, .oversubscribe = true, .stdin_null = true};
    struct heard *h = begin(f, 0, &s);
    until_over(h);
    CHECK_INT(h->end.status, 127);
    CHECK_HAS(h->end.first.start_error, "exec './no-such-program': No such file");
    CHECK_INT(h->ranks_ended, 2);
}

TEST(ranks_report_and_stop_when_they_are_asked_to)
{
    AUTO(fixture) struct fixture *f = open_all();
    char *argv[] = {(char *)"/usr/bin/python3", (char *)"-c",
                    (char *)"import os, socket\n"
                            "s = socket.socket(fileno=int(os.environ['DROVER_REPORT_FD']))\n"
                            "s.send(b'{\"step\":1}')\n"
                            "s.send(s.recv(100))\n",
                    NULL};
    struct launch_spec s = {.ranks = 2,
                            .argv = argv,
                            .oversubscribe = true,
                            .stdin_null = true,
                            .no_pmix = true,
                            .reports = true};
    struct heard *h = begin(f, 0, &s);
    until_heard(h, &h->reports, "0:{\"step\":1}|");
    until_heard(h, &h->reports, "1:{\"step\":1}|");
    launch_stop(h->job, 10000);
    launch_stop(h->job, 10000);
    until_over(h);
    CHECK_HAS(strbuf_str(&h->reports), "0:{\"stop\":true}|");
    CHECK_HAS(strbuf_str(&h->reports), "1:{\"stop\":true}|");
    CHECK_INT(h->end.status, 0);
    CHECK(h->end.stopped);
}

TEST(ranks_that_have_never_reported_are_terminated_at_once)
{
    AUTO(fixture) struct fixture *f = open_all();
    char *argv[4];
    struct launch_spec s = script(2, argv, "echo up; exec sleep 100");
    s.reports = true;
    struct heard *h = begin(f, 0, &s);
    until_heard(h, &h->out, "0oup|");
    until_heard(h, &h->out, "1oup|");
    launch_stop(h->job, 10000);
    until_over(h);
    CHECK_INT(h->end.status, 128 + SIGTERM);
    CHECK(h->end.stopped && h->end.first_failed == -1);
    CHECK(h->end.seconds < 5);
}

TEST(a_rank_that_was_asked_and_goes_on_is_terminated_then_killed)
{
    AUTO(fixture) struct fixture *f = open_all();
    char *argv[] = {(char *)"/usr/bin/python3", (char *)"-c",
                    (char *)"import os, signal, socket, time\n"
                            "signal.signal(signal.SIGTERM, lambda *_: os.write(1, b'term\\n'))\n"
                            "socket.socket(fileno=3).send(b'{}')\n"
                            "time.sleep(100)\n",
                    NULL};
    struct launch_spec s = {.ranks = 1,
                            .argv = argv,
                            .stdin_null = true,
                            .no_pmix = true,
                            .reports = true,
                            .grace_ms = 100};
    struct heard *h = begin(f, 0, &s);
    until_heard(h, &h->reports, "0:{}|");
    launch_stop(h->job, 50);
    until_over(h);
    CHECK_HAS(strbuf_str(&h->out), "0oterm|");
    CHECK_INT(h->end.status, 128 + SIGKILL);
}

TEST(a_kill_needs_no_grace_and_reaches_other_sessions)
{
    AUTO(fixture) struct fixture *f = open_all();
    char *argv[4];
    struct launch_spec s =
        script(1, argv, "trap '' TERM; setsid sh -c 'echo $$; exec sleep 100' & wait; sleep 100");
    struct heard *h = begin(f, 0, &s);
    until_heard(h, &h->out, "|");
    pid_t daemon = (pid_t)atoi(strbuf_str(&h->out) + 2);
    CHECK(daemon > 1 && kill(daemon, 0) == 0);
    CHECK(launch_rank_pid(h->job, 0) > 1);
    launch_kill(h->job);
    until_over(h);
    CHECK_INT(h->end.status, 128 + SIGKILL);
    CHECK(kill(daemon, 0) < 0 && errno == ESRCH);
    CHECK(h->end.seconds < 5);
}

TEST(a_pause_holds_lines_back_and_the_end_of_the_job_too)
{
    AUTO(fixture) struct fixture *f = open_all();
    char *argv[4];
    struct launch_spec s = script(1, argv, "echo 1; echo 2; echo 3 >&2; echo 4");
    f->jobs[0].pause_after = 2;
    struct heard *h = begin(f, 0, &s);
    until_heard(h, &h->out, "0o2|");
    for (int i = 0; i < 3; i++) /* also when the rank has ended */
        uv_run(&f->loop, UV_RUN_NOWAIT);
    CHECK(strstr(strbuf_str(&h->out), "4|") == NULL && !h->over);
    launch_resume_output(h->job);
    until_over(h);
    CHECK_HAS(strbuf_str(&h->out), "0o4|");
    CHECK_HAS(strbuf_str(&h->out), "0e3|");
}

TEST(what_cannot_be_planned_is_an_error_and_starts_nothing)
{
    AUTO(fixture) struct fixture *f = open_all();
    char *argv[4];
    struct launch_spec s = script(1, argv, "true");
    s.cpus = "99999";
    struct err e = {0};
    CHECK_INT(launch_start(&f->jobs[0].job, f->l, &s, &events, &f->jobs[0], &e), -EINVAL);
    CHECK(f->jobs[0].job == NULL && e.text[0]);
    s.cpus = NULL;
    s.output_dir = "/dev/null/x";
    CHECK(launch_start(&f->jobs[0].job, f->l, &s, &events, &f->jobs[0], &e) < 0);
    CHECK_HAS(e.text, "/dev/null");
}

TEST(without_its_guardian_a_job_is_over_and_no_other_starts)
{
    AUTO(fixture) struct fixture *f = open_all();
    char *argv[4];
    struct launch_spec s = script(2, argv, "echo up; exec sleep 100");
    struct heard *h = begin(f, 0, &s);
    until_heard(h, &h->out, "0oup|");
    kill(kit_guardian(f->g), SIGKILL);
    until_over(h);
    CHECK_INT(h->end.status, 128 + SIGKILL);
    struct err e = {0};
    CHECK(launch_start(&f->jobs[1].job, f->l, &s, &events, &f->jobs[1], &e) < 0);
    CHECK_HAS(e.text, "guardian");
}
