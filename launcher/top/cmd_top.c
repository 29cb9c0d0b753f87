/* cmd_top - `drover top`: GPUs, the processes on them, jobs and sweeps of one or several nodes. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "common/clock.h"
#include "common/command.h"
#include "common/json.h"
#include "common/stop_signals.h"
#include "launcher/doctor/node_query.h"
#include "launcher/io/terminal.h"
#include "launcher/jobs/commands.h"
#include "launcher/top/top_frame.h"
#include "launcher/top/top_json.h"
#include "launcher/top/top_local.h"
#include "launcher/top/top_nodes.h"

enum { TICK_MS = 50, LATE_MIN_MS = 5000 };

struct top_options {
    struct node_query_nodes nodes;
    double interval_s; /* 0: not given */
    bool once, json;
};

static const struct opt options[] = {
    OPT_PART(node_query_options, offsetof(struct top_options, nodes)),
    OPT_DURATION(0, "interval", "S", "time between two samples (default: 1)", struct top_options,
                 interval_s, 0.1, 3600),
    OPT_FLAG(0, "once", "print one table and exit, as without a terminal", struct top_options,
             once),
    OPT_FLAG(0, "json", "print a line of JSON per node; with --interval, repeatedly",
             struct top_options, json),
    OPT_END,
};

enum output { DISPLAY, TABLE, LINES, LINES_REPEATEDLY };

struct top {
    enum output output;
    int interval_ms, late_ms;
    uv_loop_t *loop;
    uv_timer_t timer;
    struct stop_signals signals;
    struct job_monitor *gpus; /* of this machine; NULL: `nodes` are shown */
    struct top_node own;
    struct top_nodes *nodes;
    struct terminal *terminal; /* NULL: no display */
    struct top_state state;
    char *message;
    int64_t changes;           /* of the last frame */
    int64_t begin_ms, next_ms; /* when the next lines or the next frame are due */
    bool done;
    int status;
};

/* ---- what is shown -------------------------------------------------------------------------- */

/* Returns the nodes, borrowed until the next call. */
static const struct top_node *read_nodes(struct top *t, int *count)
{
    *count = t->nodes ? top_nodes_count(t->nodes) : 1;
    if (t->nodes)
        return top_nodes_read(t->nodes);
    top_node_end(&t->own);
    top_local_read(&t->own, t->gpus, t->late_ms);
    return &t->own;
}

static int64_t count_changes(struct top *t)
{
    return t->nodes ? top_nodes_changes(t->nodes) : job_monitor_number(t->gpus);
}

/* Returns true if there is nothing to wait for before the first output. */
static bool is_ready(struct top *t)
{
    if (t->nodes)
        return top_nodes_complete(t->nodes);
    return count_changes(t) > 0 || clock_ms() - t->begin_ms > t->late_ms;
}

static void print_lines(const struct top_node *nodes, int count)
{
    for (int i = 0; i < count; i++) {
        AUTO(json) json_t *j = top_json(&nodes[i]);
        AUTO(free) char *line = json_line(j);
        puts(line);
    }
}

static void print_table(const struct top_node *nodes, int count)
{
    AUTO(strbuf) struct strbuf b = {0};
    AUTO(top_view) struct top_view v = {0};
    top_model_view(&v, nodes, count, TOP_BY_INDEX);
    top_frame_table(&b, &v);
    fputs(strbuf_str(&b), stdout);
}

/* Prints once. A node without an answer is a failure; a machine without GPUs is not. */
static void print(struct top *t)
{
    int count;
    const struct top_node *nodes = read_nodes(t, &count);
    if (t->output == TABLE)
        print_table(nodes, count);
    else
        print_lines(nodes, count);
    for (int i = 0; i < count && t->nodes; i++)
        if (!nodes[i].gpu_count && nodes[i].problem[0])
            t->status = EXIT_STATUS_FAILED;
    if (fflush(stdout) != 0)
        t->done = true; /* no process reads it; main() reports other errors */
}

/* ---- events --------------------------------------------------------------------------------- */

static void on_frame(void *arg)
{
    struct top *t = arg;
    int columns, rows, count;
    AUTO(strbuf) struct strbuf b = {0};
    AUTO(top_view) struct top_view v = {0};
    const struct top_node *nodes = read_nodes(t, &count);
    terminal_size(t->terminal, &columns, &rows);
    top_model_view(&v, nodes, count, t->state.sort);
    top_frame(&b, &v, columns, rows, &t->state);
    terminal_paint_screen(t->terminal, strbuf_str(&b), b.len);
}

static void on_keys(void *arg, const char *keys, size_t len)
{
    struct top *t = arg;
    int columns, rows;
    terminal_size(t->terminal, &columns, &rows);
    for (size_t at = 0; at < len;)
        at += top_frame_key(&t->state, keys + at, len - at, rows);
    t->done |= t->state.quit;
}

static void on_message(void *arg, const char *line)
{
    struct top *t = arg;
    free(t->message);
    t->message = xstrndup(line, strcspn(line, "\n"));
    t->state.message = t->message;
}

static void on_timer(uv_timer_t *timer)
{
    struct top *t = timer->data;
    if (t->done) /* the loop may call this twice per iteration */
        return;
    int64_t now = clock_ms(), changes = count_changes(t);
    bool due = now >= t->next_ms;
    if (due)
        t->next_ms = now + t->interval_ms;
    if (t->output == DISPLAY && (due || changes != t->changes)) {
        terminal_changed(t->terminal);
    } else if (t->output != DISPLAY && is_ready(t) && (due || t->output != LINES_REPEATEDLY)) {
        print(t);
        t->done |= t->output != LINES_REPEATEDLY;
    }
    t->changes = changes;
}

static void on_stop_request(void *arg, int number, bool again)
{
    struct top *t = arg;
    t->done = true;
    t->status = number == SIGINT && t->terminal ? 0 : 128 + number; /* Ctrl-C is a way to quit */
}

/* ---- command -------------------------------------------------------------------------------- */

static int open_source(struct top *t, const struct hosts *hosts, struct err *e)
{
    if (hosts)
        return top_nodes_open(&t->nodes, t->loop, hosts, t->interval_ms / 1e3, t->late_ms, e);
    t->gpus = job_monitor_open_all(t->interval_ms);
    return t->gpus ? 0 : err_set(e, -EAGAIN, "cannot start a thread: %s", strerror(EAGAIN));
}

static void run_loop(struct top *t)
{
    static const struct terminal_events events = {on_keys, on_frame, on_message};
    uv_timer_init(t->loop, &t->timer);
    t->timer.data = t;
    uv_timer_start(&t->timer, on_timer, 0, TICK_MS);
    stop_signals_open(&t->signals, t->loop, on_stop_request, t);
    if (t->output == DISPLAY)
        t->terminal = terminal_open(t->loop, TERMINAL_SCREEN, &events, t);
    t->state.colour = terminal_coloured(STDOUT_FILENO);
    while (!t->done)
        uv_run(t->loop, UV_RUN_ONCE);
    if (t->terminal)
        terminal_stop(t->terminal);
    stop_signals_close(&t->signals);
    uv_close((uv_handle_t *)&t->timer, NULL);
    uv_run(t->loop, UV_RUN_NOWAIT); /* closes the handles */
    terminal_free(t->terminal);
}

/* Returns the exit status, or -errno. */
static int show(const struct top_options *o, struct err *e)
{
    AUTO(hosts) struct hosts *hosts = NULL;
    int rc = node_query_hosts(&hosts, &o->nodes, e);
    if (rc < 0)
        return rc;
    struct top t = {.loop = uv_default_loop(), .begin_ms = clock_ms()};
    if (!t.loop)
        return err_set(e, -errno, "event loop: %s", strerror(errno));
    t.output = o->json ? (o->interval_s > 0 && !o->once ? LINES_REPEATEDLY : LINES)
               : o->once || !terminal_usable(TERMINAL_SCREEN) ? TABLE
                                                              : DISPLAY;
    t.interval_ms = o->interval_s > 0 ? (int)(o->interval_s * 1000 + 0.5) : 1000;
    t.late_ms = 3 * t.interval_ms > LATE_MIN_MS ? 3 * t.interval_ms : LATE_MIN_MS;
    rc = open_source(&t, hosts, e);
    if (rc == 0)
        run_loop(&t);
    top_nodes_close(t.nodes);
    job_monitor_close(t.gpus);
    top_node_end(&t.own);
    free(t.message);
    return rc < 0 ? rc : t.status;
}

static int run(char **no_words, void *into, struct err *e)
{
    int rc = show(into, e);
    return rc == -EACCES ? EXIT_STATUS_USAGE : rc;
}

int cmd_top(int argc, char **argv)
{
    static const struct command command = {
        .help = {.program = "drover top",
                 .usage = "[--hostfile FILE | --host LIST] [--interval S] [--once] [--json]",
                 .summary =
                     "Shows the GPUs, the processes on them, and your jobs and sweeps, live. "
                     "Without a terminal it prints one table. It changes nothing.",
                 .examples = "drover top\ndrover top --hostfile hosts --interval 5\n"
                             "drover top --json"},
        .options = options,
        .run = run};
    struct top_options o = {0};
    return command_run(&command, &o, argc, argv);
}
