/* cmd_run - `drover run`: a job in the foreground, its output on ours, its status as ours. */
#include "launcher/run/cmd_run.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "common/log.h"
#include "common/opt.h"
#include "launcher/cmd/commands.h"
#include "launcher/guardian/guardian.h"
#include "launcher/io/tty_stdin.h"
#include "launcher/node/topo.h"
#include "launcher/remote/remote_launcher.h"
#include "launcher/run/run_elastic.h"
#include "launcher/run/run_monitor.h"
#include "launcher/run/run_restarts.h"

enum { STATUS_TIMED_OUT = 124, STATUS_SIGNAL = 128 };

/* Ends the job, forwards, or stops and continues with us. */
static const int handled[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};

struct run {
    uv_loop_t loop;
    struct run_options *opts;
    struct guardian *guardian;
    struct launch_context *launcher;
    struct launch *job;
    struct console *console;
    struct tty_stdin *feed;
    struct run_monitor *watch;
    struct run_restarts *again;
    struct run_elastic *meet; /* NULL: no other node is met */
    struct redirect *redirect;
    int tty_stdin_fd; /* what is typed, for a rank, until it has it; -1 */
    uv_signal_t signals[COUNT_OF(handled)];
    uv_timer_t timeout;
    bool handles; /* the two above are on the loop */
    bool ended, paused;
    bool goes_on;    /* it has ended or not begun, and what follows is waited for */
    int stop_signal; /* a signal; 0: none */
    bool timed_out, hung, output_closed;
    int status;
};

/* ---- the job's news ----------------------------------------------------------------------------
 */

static bool is_shown(const struct run *r, int rank)
{
    unsigned number = (unsigned)(launch_plan(r->job)->first_rank + rank);
    return !r->opts->show || hwloc_bitmap_isset(r->opts->show, number);
}

static bool on_line(void *arg, int rank, enum launch_stream from, const char *text, size_t len)
{
    struct run *r = arg;
    run_monitor_line(r->watch, rank, from, text, len);
    bool show = redirect_line(r->redirect, rank, from, text, len) && is_shown(r, rank);
    r->paused = show && !console_line(r->console, rank, from, text, len);
    return !r->paused;
}

static void on_report(void *arg, int rank, const char *json, size_t len)
{
    run_monitor_report(((struct run *)arg)->watch, rank);
}

/* The feed is told when the rank reads no more, so only the rank keeps the pipe open. */
static void close_tty_stdin(struct run *r)
{
    if (r->tty_stdin_fd < 0)
        return;
    close(fd_take(&r->tty_stdin_fd));
    r->opts->spec.stdin_null = true; /* another attempt's rank cannot have it */
}

static void on_rank_started(void *arg, int rank, pid_t pid)
{
    struct run *r = arg;
    close_tty_stdin(r);
    run_monitor_rank_started(r->watch, rank, pid);
}

static void on_looked(void *arg, int rank)
{
    run_monitor_status(((struct run *)arg)->watch, rank);
}

static void on_stack(void *arg, int rank, const char *text)
{
    run_monitor_stack(((struct run *)arg)->watch, rank, text);
}

static void on_begun(void *arg, int rank, enum launch_stream from, const char *text, size_t len)
{
    struct run *r = arg;
    if (redirect_shows(r->redirect, rank, from) && is_shown(r, rank))
        console_partial_line(r->console, rank, from, text, len,
                             launch_plan(r->job)->world_size == 1);
}

static void on_rank_ended(void *arg, const struct rank_end *e)
{
    struct run *r = arg;
    run_monitor_rank_ended(r->watch, e);
    log_info("rank %d ended: %s %d%s after %.1f s", launch_plan(r->job)->first_rank + e->rank,
             e->signal ? "signal" : "status", e->signal ? e->signal : e->status,
             e->told_to_stop ? " (stopped by drover)" : "", e->seconds);
}

/* What the job's end means for us. A job that a signal or the time limit ended, but whose ranks
 * all said 0, has ended well. */
static int final_status(const struct run *r, const struct job_end *end)
{
    if (r->output_closed)
        return STATUS_SIGNAL + SIGPIPE; /* as if it had ended us */
    if (end->first_failed >= 0)
        return end->status;
    if (r->timed_out || r->hung)
        return STATUS_TIMED_OUT;
    return r->stop_signal && end->status ? STATUS_SIGNAL + r->stop_signal : end->status;
}

static void finish_when_written(struct run *r)
{
    if (r->ended && !r->goes_on && (!console_waiting(r->console) || r->output_closed))
        uv_stop(&r->loop);
}

/* The user has ended it. */
static bool stopped_by_user(const struct run *r)
{
    return r->stop_signal || r->timed_out || r->output_closed;
}

static bool again(struct run *r, const struct job_end *end)
{
    return run_restarts_attempt_ended(r->again, launch_plan(r->job), end, r->status,
                                      stopped_by_user(r), r->watch);
}

/* What we end with where this node leaves the others. */
static int status_of_leaving(const struct run *r)
{
    return r->stop_signal ? STATUS_SIGNAL + r->stop_signal : EXIT_STATUS_FAILED;
}

/* Whether something follows here after this attempt. */
static bool goes_on_with_others(struct run *r, const struct job_end *end)
{
    AUTO(free) char *how = NULL;
    if (end->first_failed >= 0)
        how = xasprintf("rank %d %s %d", launch_plan(r->job)->first_rank + end->first_failed,
                        end->first.signal ? "was ended by signal" : "exited with status",
                        end->first.signal ? end->first.signal : end->first.status);
    else if (r->status)
        how = xstrdup(r->stop_signal ? strsignal(r->stop_signal) : "ended before its ranks did");
    if (run_elastic_was_stopped(r->meet))
        r->status = status_of_leaving(r); /* not that of ranks that were ended */
    enum run_elastic_next next = run_elastic_ranks_ended(r->meet, how, stopped_by_user(r));
    if (next == RUN_ELASTIC_REJOIN)
        run_elastic_join(r->meet);
    if (next == RUN_ELASTIC_FAILED)
        return again(r, end) || run_elastic_leave(r->meet);
    return next != RUN_ELASTIC_FINISHED;
}

static void on_ended(void *arg, const struct job_end *end)
{
    struct run *r = arg;
    r->ended = true;
    r->status = final_status(r, end);
    run_monitor_ended(r->watch, end, r->status);
    AUTO(strbuf) struct strbuf b = {0};
    if (r->timed_out)
        strbuf_printf(&b, "%s: the job was ended after %g s (--timeout)\n", r->opts->who,
                      r->opts->timeout_s);
    if (!run_elastic_was_stopped(r->meet)) /* another node has told */
        run_print_failure(&b, r->opts->who, launch_plan(r->job), end);
    if (!r->opts->quiet && !r->output_closed)
        console_print(r->console, strbuf_str(&b));
    r->goes_on = r->meet ? goes_on_with_others(r, end) : again(r, end);
    finish_when_written(r);
}

/* Output has moved: room for more, an end, or nobody who reads it. */
static void on_output_progress(void *arg)
{
    struct run *r = arg;
    int error = console_error(r->console);
    if (error && !r->output_closed) {
        r->output_closed = error == -EPIPE;
        if (!r->output_closed)
            log_error("output: %s", strerror(-error));
        else if (!r->ended)
            launch_stop(r->job, 0);
    }
    if (r->paused && !r->ended && !console_full(r->console)) {
        r->paused = false;
        launch_resume_output(r->job);
    }
    finish_when_written(r);
}

/* ---- signals and time --------------------------------------------------------------------------
 */

static void suspend(struct run *r)
{
    launch_signal(r->job, SIGSTOP);
    raise(SIGSTOP);
}

static void end_by_signal(struct run *r, int sig)
{
    if (r->ended) { /* only the reader of our output, other nodes, or the next attempt, is waited
                       for */
        if (r->goes_on && r->status == 0)
            r->status = STATUS_SIGNAL + sig;
        uv_stop(&r->loop);
    } else if (r->stop_signal) {
        log_warn("%s again: the ranks are killed", strsignal(sig));
        launch_kill(r->job);
    } else {
        r->stop_signal = sig;
        launch_interrupt(r->job, sig == SIGINT || sig == SIGQUIT ? sig : SIGTERM);
    }
}

static void on_signal(uv_signal_t *s, int sig)
{
    struct run *r = s->data;
    if (sig == SIGTSTP && !r->ended)
        suspend(r);
    else if ((sig == SIGUSR1 || sig == SIGUSR2 || sig == SIGCONT) && !r->ended)
        launch_signal(r->job, sig);
    else if (sig == SIGINT || sig == SIGTERM || sig == SIGHUP || sig == SIGQUIT)
        end_by_signal(r, sig);
}

static void on_timeout(uv_timer_t *t)
{
    struct run *r = t->data;
    if (r->ended && !r->goes_on)
        return;
    r->timed_out = true;
    if (!r->ended) {
        launch_stop(r->job, 0);
        return;
    }
    r->status = STATUS_TIMED_OUT; /* between two attempts */
    uv_stop(&r->loop);
}

static void on_hung(void *arg)
{
    struct run *r = arg;
    r->hung = true;
    launch_stop(r->job, 0);
}

/* Signals that whoever started us wants ignored (nohup, a shell's background job) stay so. */
static void watch_signals(struct run *r)
{
    for (size_t i = 0; i < COUNT_OF(handled); i++) {
        struct sigaction was;
        uv_signal_init(&r->loop, &r->signals[i]);
        r->signals[i].data = r;
        if (sigaction(handled[i], NULL, &was) == 0 && was.sa_handler != SIG_IGN)
            uv_signal_start(&r->signals[i], on_signal, handled[i]);
    }
    uv_timer_init(&r->loop, &r->timeout);
    r->timeout.data = r;
    if (r->opts->timeout_s > 0)
        uv_timer_start(&r->timeout, on_timeout, (uint64_t)(r->opts->timeout_s * 1000), 0);
    r->handles = true;
}

/* ---- start and end -----------------------------------------------------------------------------
 */

/* One line for all options that are known and mean nothing here, now that the engine is. */
static void warn_ignored_options(const struct run_options *o, const struct plan *p)
{
    AUTO(strbuf) struct strbuf b = {0};
    for (size_t i = 0; i < strv_len(o->warnings); i++)
        log_warn("%s", o->warnings[i]);
    for (size_t i = 0; i < strv_len(o->ignored); i++)
        strbuf_printf(&b, " %s", o->ignored[i]);
    const struct remote_launcher *launcher = remote_launcher_of(p->engine);
    for (size_t i = 0; !(launcher && launcher->takes_args) && i < strv_len(o->mpirun_only); i++)
        strbuf_printf(&b, " %s", o->mpirun_only[i]);
    if (b.len > 0)
        log_warn("no meaning here:%s", strbuf_str(&b));
}

static int show_plan(const struct run_options *o, struct err *e)
{
    AUTO(topo) struct topo *t = NULL;
    AUTO(plan) struct plan *p = NULL;
    if (topo_load(&t, e) < 0 || plan_make(&p, &o->spec, t, environ, e) < 0)
        return e->code;
    warn_ignored_options(o, p);
    if (o->rdzv)
        log_warn("shown is this node; which ranks it has is decided at %s:%d", o->rdzv->host,
                 o->rdzv->port);
    AUTO(strbuf) struct strbuf b = {0};
    run_print_plan(&b, p, o->json);
    fputs(strbuf_str(&b), stdout);
    return 0;
}

/* What a rank reads: our stdin itself, or a pipe that is fed from our terminal. */
static int choose_stdin(struct run *r, struct err *e)
{
    if (r->opts->spec.stdin_null)
        return 0;
    r->opts->spec.stdin_fd = STDIN_FILENO;
    if (!isatty(STDIN_FILENO))
        return 0;
    int rc = tty_stdin_open(&r->feed, &r->tty_stdin_fd, &r->loop, STDIN_FILENO, e);
    r->opts->spec.stdin_fd = r->tty_stdin_fd;
    return rc;
}

static int start_attempt(struct run *r, struct err *e)
{
    static const struct launch_events events = {.line = on_line,
                                                .report = on_report,
                                                .rank_ended = on_rank_ended,
                                                .ended = on_ended,
                                                .rank_started = on_rank_started,
                                                .looked = on_looked,
                                                .stack = on_stack,
                                                .begun = on_begun};
    int rc = launch_start(&r->job, r->launcher, &r->opts->spec, &events, r, e);
    if (rc < 0)
        return rc;
    console_plan(r->console, launch_plan(r->job));
    redirect_plan(r->redirect, launch_plan(r->job), r->opts->spec.restart_count);
    run_monitor_begin(r->watch, r->job, run_restarts_attempt(r->again));
    return 0;
}

static void start_next(void *arg)
{
    struct run *r = arg;
    struct err e = {0};
    launch_free(TAKE(r->job));
    r->goes_on = r->hung = r->paused = false;
    r->ended = start_attempt(r, &e) < 0;
    if (!r->ended)
        return;
    err_print(&e, r->opts->who);
    r->status = r->status ? r->status : EXIT_STATUS_FAILED; /* that of the attempt before */
    uv_stop(&r->loop);
}

static void on_again(void *arg)
{
    struct run *r = arg;
    if (r->meet)
        run_elastic_join(r->meet);
    else
        start_next(r);
}

/* ---- other nodes -------------------------------------------------------------------------------
 */

static void on_peers_stop(void *arg)
{
    launch_stop(((struct run *)arg)->job, 0);
}

static void on_others_failed(void *arg)
{
    struct run *r = arg;
    r->status = EXIT_STATUS_FAILED;
    r->goes_on = again(r, &(struct job_end){.status = EXIT_STATUS_FAILED, .first_failed = -1});
    finish_when_written(r);
}

static void on_over(void *arg, bool well)
{
    struct run *r = arg;
    r->ended = true;
    r->goes_on = false;
    r->status = r->status || well ? r->status : status_of_leaving(r);
    finish_when_written(r);
}

static void say(void *arg, const char *text)
{
    struct run *r = arg;
    if (!r->output_closed)
        console_print(r->console, text);
}

static int begin(struct run *r, struct err *e)
{
    int rc = start_attempt(r, e);
    if (rc < 0)
        return rc;
    warn_ignored_options(r->opts, launch_plan(r->job));
    if (r->opts->report_bindings) {
        AUTO(strbuf) struct strbuf b = {0};
        run_print_bindings(&b, launch_plan(r->job));
        console_print(r->console, strbuf_str(&b));
    }
    return 0;
}

static int meet(struct run *r, struct err *e)
{
    const struct run_elastic_events needs = {start_next, on_peers_stop, on_others_failed,
                                             on_over,    say,           r};
    r->ended = r->goes_on = true; /* there is no attempt yet */
    return run_elastic_open(&r->meet, &r->loop, r->opts, launch_context_topo(r->launcher), &needs,
                            e);
}

static int start(struct run *r, struct err *e)
{
    const struct run_monitor_events needs = {say, on_hung, r};
    int rc = launch_context_open(&r->launcher, &r->loop, r->guardian, e);
    if (rc == 0)
        rc = console_open(&r->console, &r->loop, &r->opts->style, on_output_progress, r, e);
    if (rc == 0)
        rc = choose_stdin(r, e);
    if (rc == 0)
        rc = run_monitor_open(&r->watch, &r->loop, r->opts, &needs, e);
    if (rc == 0)
        rc = redirect_open(&r->redirect, &r->opts->redirect, e);
    if (rc < 0)
        return rc;
    watch_signals(r);
    r->again = run_restarts_open(&r->loop, r->opts, on_again, r);
    return r->opts->rdzv ? meet(r, e) : begin(r, e);
}

static void stop(struct run *r)
{
    for (size_t i = 0; r->handles && i < COUNT_OF(handled); i++)
        uv_close((uv_handle_t *)&r->signals[i], NULL);
    if (r->handles)
        uv_close((uv_handle_t *)&r->timeout, NULL);
    tty_stdin_close(r->feed);
    close_tty_stdin(r); /* to nobody */
    run_restarts_close(r->again);
    run_elastic_close(r->meet);
    run_monitor_close(r->watch);
    redirect_close(r->redirect);
    launch_free(r->job);
    console_close(r->console);
    guardian_shutdown(r->guardian); /* no job is left; it ends while the PMIx server does */
    launch_context_close(r->launcher);
    uv_run(&r->loop, UV_RUN_DEFAULT);
    uv_loop_close(&r->loop);
    guardian_stop(r->guardian);
}

int run_session(struct run_options *o)
{
    struct run r = {.opts = o, .tty_stdin_fd = -1};
    struct err e = {0};
    if (o->verbose)
        log_set_level(LOG_INFO);
    if (o->dry_run)
        return show_plan(o, &e) < 0 ? run_usage_error(o, &e) : 0;
    int rc = guardian_start(&r.guardian, &e);
    signal(SIGPIPE, SIG_IGN);
    uv_loop_init(&r.loop);
    if (rc == 0)
        rc = start(&r, &e);
    if (rc == 0)
        uv_run(&r.loop, UV_RUN_DEFAULT);
    if (rc == 0 && r.status == 0 && console_error(r.console))
        r.status = EXIT_STATUS_FAILED;
    stop(&r);
    return rc < 0 ? run_usage_error(o, &e) : r.status;
}

int run_usage_error(const struct run_options *o, const struct err *e)
{
    err_print(e, o->who);
    return EXIT_STATUS_USAGE;
}

int cmd_run(int argc, char **argv)
{
    bool link = strcmp(argv[0], "run") != 0; /* mpirun, mpiexec: their lines have no marks */
    struct run_options o;
    struct err e = {0};
    int rc = run_options_parse(&o, log_who(), argc, argv, &e);
    if (link && o.style.tag == CONSOLE_TAG_AUTO)
        o.style.tag = CONSOLE_TAG_NONE;
    int status = rc == 0 ? run_session(&o) : rc == OPT_HELP ? 0 : run_usage_error(&o, &e);
    run_options_free(&o);
    return status;
}
