/* kit_launch - jobs of one process, started with launch_start(), and the events that they emit. */
#pragma once

#include "launcher/engine/launch.h"
#include "launcher/plan/hosts.h"

#include "common/strbuf.h"
#include "tests/unit/test.h"

enum { JOBS_MAX = 16 };

struct fixture;

struct heard { /* events of one job */
    struct fixture *f;
    struct launch *job;
    struct strbuf out, reports;
    struct job_end end;
    char last_line[256], broken[256], error[256];
    int ranks_ended, pause_after;
    long bytes;
    bool over, paused;
};

struct fixture {
    uv_loop_t loop;
    struct guardian *g;
    struct launch_context *l;
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
    snprintf(h->broken, sizeof h->broken, "%s", end->broken ? end->broken : "");
    snprintf(h->error, sizeof h->error, "%s", end->error ? end->error : "");
    h->end.last_lines = NULL;
    h->end.error = NULL;
    h->over = true;
    uv_stop(&h->f->loop);
}

static const struct launch_events kit_events = {
    .line = on_line, .report = on_report, .rank_ended = on_rank_ended, .ended = on_ended};

static void on_deadline(uv_timer_t *t)
{
    FAIL("no end after 15 s");
}

static inline struct fixture *open_all(void)
{
    struct err e = {0};
    struct fixture *f = xzalloc(sizeof *f);
    if (guardian_start(&f->g, &e) < 0)
        FAIL("%s", e.text);
    uv_loop_init(&f->loop);
    uv_timer_init(&f->loop, &f->deadline);
    uv_timer_start(&f->deadline, on_deadline, 15000, 0);
    uv_unref((uv_handle_t *)&f->deadline);
    if (launch_context_open(&f->l, &f->loop, f->g, &e) < 0)
        FAIL("%s", e.text);
    return f;
}

static inline void close_all(struct fixture *f)
{
    for (int i = 0; i < JOBS_MAX; i++) {
        launch_free(f->jobs[i].job);
        strbuf_free(&f->jobs[i].out);
        strbuf_free(&f->jobs[i].reports);
    }
    launch_context_close(f->l);
    uv_close((uv_handle_t *)&f->deadline, NULL);
    CHECK_INT(uv_run(&f->loop, UV_RUN_DEFAULT), 0);
    CHECK_INT(uv_loop_close(&f->loop), 0);
    guardian_stop(f->g);
    free(f);
}
AUTO_DEFINE(fixture, struct fixture *, close_all)

static inline struct launch_spec script(int ranks, char **argv, const char *text)
{
    argv[0] = (char *)"sh";
    argv[1] = (char *)"-c";
    argv[2] = (char *)text;
    argv[3] = NULL;
    return (struct launch_spec){.ranks = ranks,
                                .argv = argv,
                                .oversubscribe = true,
                                .stdin_null = true,
                                .node.no_pmix = true};
}

static inline struct heard *begin_with(struct fixture *f, int i, const struct launch_spec *s,
                                       const struct launch_events *ev)
{
    struct err e = {0};
    struct heard *h = &f->jobs[i];
    h->f = f;
    if (launch_start(&h->job, f->l, s, ev, h, &e) < 0)
        FAIL("%s", e.text);
    CHECK(!h->over);
    return h;
}

static inline struct heard *begin(struct fixture *f, int i, const struct launch_spec *s)
{
    return begin_with(f, i, s, &kit_events);
}

static inline void until_over(struct heard *h)
{
    while (!h->over)
        uv_run(&h->f->loop, UV_RUN_ONCE);
}

static inline void until_heard(struct heard *h, const struct strbuf *b, const char *text)
{
    while (!strstr(strbuf_str(b), text)) {
        CHECK(!h->over);
        uv_run(&h->f->loop, UV_RUN_ONCE);
    }
}

/* The same with local agents. */
static inline struct launch_spec far_script(int ranks, char **argv, const char *text)
{
    struct launch_spec s = script(ranks, argv, text);
    s.engine = "local-agents";
    return s;
}

/* Two nodes with so many ranks each: addresses of this machine, as if they were other machines. The
 * caller frees them (hosts_free()). */
static inline struct hosts *two_hosts(int slots_0, int slots_1)
{
    struct hosts *h = xzalloc(sizeof *h);
    hosts_add(h, "127.0.0.1", slots_0, 0);
    hosts_add(h, "127.0.0.2", slots_1, 0);
    return h;
}

/* Rank 1 fails and describes its failure in its own error file. */
#define KIT_WRITES_ERROR_FILE                                         \
    "[ $RANK = 0 ] && exec sleep 60; echo $TORCHELASTIC_ERROR_FILE; " \
    "echo bad $RANK >$TORCHELASTIC_ERROR_FILE; exit 3"

/* Runs KIT_WRITES_ERROR_FILE: the launcher has the text, and the file is removed. */
static inline void check_error_file(struct fixture *f, struct launch_spec s)
{
    struct heard *h = begin(f, 0, &s);
    until_over(h);
    CHECK_INT(h->end.status, 3);
    CHECK_STR(h->error, "bad 1\n");
    const char *path = strbuf_str(&h->out) + 2; /* after "1o" */
    AUTO(free) char *file = xstrndup(path, strcspn(path, "|"));
    CHECK(file[0] == '/' && access(file, F_OK) < 0);
}

/* Checks a job that reports and that stops on request. */
static inline void check_stop(struct fixture *f, struct launch_spec s)
{
    char *argv[] = {(char *)"/usr/bin/python3", (char *)"-c",
                    (char *)"import os, socket\n"
                            "s = socket.socket(fileno=int(os.environ['DROVER_REPORT_FD']))\n"
                            "s.send(b'{\"step\":1}')\n"
                            "s.send(s.recv(100))\n",
                    NULL};
    s.argv = argv;
    s.node.reports = true;
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
