/* launch: jobs of one process, through the guardian and the PMIx server. */
#include <fcntl.h>
#include <time.h>

#include "tests/unit/kit_guardian.h"
#include "tests/unit/kit_launch.h"

TEST(a_job_says_its_lines_and_ends_with_0)
{
    AUTO(fixture) struct fixture *f = open_all();
    char *argv[4];
    struct launch_spec s = script(2, argv, "echo a$RANK; echo b$RANK >&2");
    s.node.no_pmix = false;
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

TEST(stdout_of_a_rank_is_a_pty_unless_the_job_forbids_it)
{
    AUTO(fixture) struct fixture *f = open_all();
    char *argv[4];
    struct launch_spec s =
        script(1, argv, "for i in 0 1 2; do [ -t $i ] && printf t || printf n; done");
    struct heard *h = begin(f, 0, &s);
    until_over(h);
    CHECK_STR(strbuf_str(&h->out), "0ontn|");
    s.node.no_pty = true;
    h = begin(f, 1, &s);
    until_over(h);
    CHECK_STR(strbuf_str(&h->out), "0onnn|");
}

TEST(stderr_does_not_overtake_stdout)
{
    AUTO(fixture) struct fixture *f = open_all();
    int go[2];
    char *argv[4];
    CHECK_INT(pipe2(go, O_CLOEXEC), 0);
    struct launch_spec s =
        script(1, argv, "for i in 1 2 3 4 5 6 7 8 9; do echo o; echo $i >&2; read x; done");
    s.stdin_null = false;
    s.stdin_fd = go[0];
    struct heard *h = begin(f, 0, &s);
    for (int i = 1; i < 10; i++) {
        char line[16];
        snprintf(line, sizeof line, "0e%d|", i);
        until_heard(h, &h->out, line);
        CHECK_INT(write(go[1], "\n", 1), 1);
    }
    until_over(h);
    CHECK_STR(strbuf_str(&h->out), "0oo|0e1|0oo|0e2|0oo|0e3|0oo|0e4|0oo|0e5|0oo|0e6|0oo|0e7|0oo|"
                                   "0e8|0oo|0e9|");
    close(go[0]);
    close(go[1]);
}

TEST(many_jobs_at_once_end_each_in_its_own_way)
{
    AUTO(fixture) struct fixture *f = open_all();
    char text[JOBS_MAX][64], *argv[JOBS_MAX][4];
    for (int i = 0; i < JOBS_MAX; i++) {
        int failing = i % 2;
        snprintf(text[i], sizeof text[i], "echo job%d; exit %d", i, failing ? i : 0);
        struct launch_spec s = script(failing ? 1 : 3, argv[i], text[i]);
        s.node.no_pmix = false;
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

TEST(the_error_file_of_the_first_failure_is_read)
{
    AUTO(fixture) struct fixture *f = open_all();
    char *argv[4];
    check_error_file(f, script(2, argv, KIT_WRITES_ERROR_FILE));
    struct launch_spec fine = script(1, argv, "echo fine >$TORCHELASTIC_ERROR_FILE");
    struct heard *h = begin(f, 1, &fine);
    until_over(h);
    CHECK_INT(h->end.status, 0);
    CHECK_STR(h->error, "");
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

/* The group is a directory with the kernel's two files; the rank plays the kernel. */
static bool killed_in_group(struct fixture *f, int job, const char *text)
{
    char dir[] = "/tmp/test_launch.XXXXXX", *argv[4], *group;
    CHECK(mkdtemp(dir) != NULL);
    struct launch_spec s = script(1, argv, text);
    s.cgroup = group = xstrdup(dir);
    s.wdir = dir;
    const char *const names[] = {"cgroup.procs", "memory.events"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        AUTO(free) char *path = xasprintf("%s/%s", dir, names[i]);
        AUTO(file) FILE *file = fopen(path, "w");
        CHECK(file && fputs(i ? "oom_kill 3\n" : "", file) >= 0);
    }
    struct heard *h = begin(f, job, &s);
    free(group); /* the job has copied it */
    until_over(h);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        AUTO(free) char *path = xasprintf("%s/%s", dir, names[i]);
        unlink(path);
    }
    CHECK_INT(rmdir(dir), 0);
    CHECK_INT(h->end.first.signal, SIGKILL);
    return h->end.first.oom_killed;
}

TEST(a_kill_for_memory_is_told_by_the_count_of_the_ranks_own_group)
{
    AUTO(fixture) struct fixture *f = open_all();
    CHECK(killed_in_group(f, 0, "echo oom_kill 4 > memory.events; kill -KILL $$"));
    CHECK(!killed_in_group(f, 1, "kill -KILL $$"));
}

TEST(ranks_report_and_stop_when_they_are_asked_to)
{
    AUTO(fixture) struct fixture *f = open_all();
    char *argv[4];
    check_stop(f, script(2, argv, ""));
}

TEST(ranks_that_have_never_reported_are_terminated_at_once)
{
    AUTO(fixture) struct fixture *f = open_all();
    char *argv[4];
    struct launch_spec s = script(2, argv, "echo up; exec sleep 100");
    s.node.reports = true;
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
                            .node.no_pmix = true,
                            .node.reports = true,
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
    CHECK_INT(launch_start(&f->jobs[0].job, f->l, &s, &kit_events, &f->jobs[0], &e), -EINVAL);
    CHECK(f->jobs[0].job == NULL && e.text[0]);
    s.cpus = NULL;
    s.output_dir = "/dev/null/x";
    CHECK(launch_start(&f->jobs[0].job, f->l, &s, &kit_events, &f->jobs[0], &e) < 0);
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
    CHECK(launch_start(&f->jobs[1].job, f->l, &s, &kit_events, &f->jobs[1], &e) < 0);
    CHECK_HAS(e.text, "guardian");
}

/* ---- observers ------------------------------------------------------------------------------ */

struct observed {
    struct strbuf *order; /* "NAME.event " of all observers */
    const char *name;
    bool pauses;
};

static bool note_line(void *arg, int rank, enum launch_stream from, const char *text, size_t len)
{
    const struct observed *o = arg;
    strbuf_printf(o->order, "%s.%.*s ", o->name, (int)len, text);
    return !o->pauses;
}

static void note_ended(void *arg, const struct job_end *end)
{
    const struct observed *o = arg;
    strbuf_printf(o->order, "%s.ended ", o->name);
}

TEST(observers_are_called_in_the_order_in_which_they_subscribed)
{
    static const struct launch_events all = {.line = note_line, .ended = note_ended};
    static const struct launch_events none = {0};
    AUTO(fixture) struct fixture *f = open_all();
    AUTO(strbuf) struct strbuf order = {0};
    struct observed a = {&order, "a", false}, b = {&order, "b", false};
    char *argv[4];
    struct launch_spec s = script(1, argv, "echo hello");
    struct heard *h = begin(f, 0, &s);
    launch_observe(h->job, &all, &a);
    launch_observe(h->job, &none, NULL);
    launch_observe(h->job, &all, &b);
    until_over(h);
    CHECK_STR(strbuf_str(&h->out), "0ohello|");
    CHECK_STR(strbuf_str(&order), "a.hello b.hello a.ended b.ended ");
}

TEST(one_observer_pauses_the_output_for_all)
{
    static const struct launch_events lines = {.line = note_line};
    AUTO(fixture) struct fixture *f = open_all();
    AUTO(strbuf) struct strbuf order = {0};
    struct observed a = {&order, "a", true}, b = {&order, "b", false};
    char *argv[4];
    struct launch_spec s = script(1, argv, "echo 1; echo 2");
    struct heard *h = begin(f, 0, &s);
    launch_observe(h->job, &lines, &a);
    launch_observe(h->job, &lines, &b);
    while (order.len == 0)
        uv_run(&f->loop, UV_RUN_ONCE);
    CHECK_STR(strbuf_str(&order), "a.1 b.1 "); /* the line itself still reaches the others */
    a.pauses = false;
    launch_resume_output(h->job);
    until_over(h);
    CHECK_STR(strbuf_str(&order), "a.1 b.1 a.2 b.2 ");
}
