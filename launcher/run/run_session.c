#include "launcher/run/run_session.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/command.h"
#include "common/log.h"
#include "common/stop_signals.h"
#include "launcher/guardian/guardian.h"
#include "launcher/io/tty_stdin.h"
#include "launcher/job/restart.h"
#include "launcher/place/placement.h"
#include "launcher/plan/plan_print.h"
#include "launcher/run/run_elastic.h"
#include "launcher/run/run_print.h"
#include "launcher/run/run_restarts.h"
#include "launcher/run/run_session_state.h"
#include "launcher/watch/stdin_demand.h"

enum {
    STATUS_SIGNAL = 128,
    TICK_MS = 1000,       /* between looks at whether this process was suspended */
    SUSPENDED_MS = 5000,  /* less may be a busy machine … */
    LOST_AFTER_MS = 15000 /* … and so may less than --lost-after, of which this is the default */
};

/* Signals that batch systems, limits and timers send, too. */
static const int job_signals[] = {SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT,   SIGALRM,
                                  SIGXCPU, SIGXFSZ, SIGPROF, SIGVTALRM, SIGPWR};

struct session {
    uv_loop_t loop;
    struct run_options *opts;
    struct feature_run features;
    struct guardian *guardian;
    struct launch_context *context;
    struct launch *job; /* job of the present or the last attempt; NULL: no attempt so far */
    struct console *console;
    struct tty_stdin *tty_stdin;
    int tty_stdin_fd; /* pipe with the terminal's input, until a rank has inherited it; then -1 */
    ino_t tty_stdin_pipe;
    struct run_restarts *restarts;
    struct run_elastic *elastic; /* NULL: not an elastic job */
    struct stop_signals stop_signals;
    uv_signal_t signals[COUNT_OF(job_signals)];
    uv_timer_t tick;
    int64_t ticked_ms; /* the loop's time */
    bool watches;      /* `signals` and `tick` are open handles of the loop */
    enum run_session_state state;
    bool output_lost; /* its error is logged */
    int stop_signal;  /* the signal of FEATURE_CAUSE_SIGNAL; 0: none */
    int status;       /* exit status, as far as it is known */
};

/* ---- states --------------------------------------------------------------------------------- */

static void apply(struct session *s, enum run_session_event ev);

static void add_cause(struct session *s, enum feature_cause cause)
{
    s->features.causes |= 1U << cause;
}

static bool has_cause(const struct session *s, enum feature_cause cause)
{
    return s->features.causes & 1U << cause;
}

/* Starts to stop the job. Has no effect if the job is already stopping. */
static void enter_stopping(struct session *s)
{
    int sig = s->stop_signal;
    if (has_cause(s, FEATURE_CAUSE_SIGNAL))
        launch_interrupt(s->job, sig == SIGINT || sig == SIGQUIT ? sig : SIGTERM);
    else
        launch_stop(s->job, 0);
}

static void enter_backoff(struct session *s)
{
    run_restarts_start_timer(s->restarts);
}

static void enter_flushing(struct session *s)
{
    if (!console_waiting(s->console) || has_cause(s, FEATURE_CAUSE_OUTPUT))
        apply(s, RUN_SESSION_EV_FLUSHED);
}

static void enter_done(struct session *s)
{
    uv_stop(&s->loop);
}

static bool accepts(const struct session *s, enum run_session_event ev)
{
    return states_next(&run_session_states, s->state, ev) >= 0;
}

static void apply(struct session *s, enum run_session_event ev)
{
    static void (*const enter[RUN_SESSION_STATES])(struct session *) = {
        [RUN_SESSION_STOPPING] = enter_stopping,
        [RUN_SESSION_BACKOFF] = enter_backoff,
        [RUN_SESSION_FLUSHING] = enter_flushing,
        [RUN_SESSION_DONE] = enter_done,
    };
    int next = states_step(&run_session_states, s->state, ev, "session");
    if (next < 0 || next == (int)s->state)
        return;
    s->state = (enum run_session_state)next;
    if (enter[next])
        enter[next](s);
}

static bool has_job(const struct session *s)
{
    return s->state == RUN_SESSION_RUNNING || s->state == RUN_SESSION_STOPPING;
}

static bool between_attempts(const struct session *s)
{
    return s->state == RUN_SESSION_BACKOFF || s->state == RUN_SESSION_WAITING_PEERS;
}

/* ---- the end of an attempt ------------------------------------------------------------------ */

/* Returns the exit status for a node that leaves an elastic job before the job is done. */
static int status_of_leaving(const struct session *s)
{
    return s->stop_signal ? STATUS_SIGNAL + s->stop_signal : EXIT_STATUS_FAILED;
}

static bool restart_due(struct session *s, const struct job_end *end, const struct first_cause *c)
{
    bool due = run_restarts_attempt_ended(s->restarts, launch_plan(s->job), end, c, s->status,
                                          feature_is_final(s->features.causes));
    if (!due)
        run_print_error_file(end);
    return due;
}

static void print_end(struct session *s)
{
    AUTO(strbuf) struct strbuf b = {0};
    feature_explain(&s->features, &b);
    /* If the ranks were stopped because of a peer, the reason is already printed. */
    if (!run_elastic_was_stopped(s->elastic))
        strbuf_puts(&b, strbuf_str(&s->features.failure));
    if (!s->opts->quiet)
        console_print(s->console, strbuf_str(&b));
}

/* Returns a text for the peers that says why the attempt failed on this node, or NULL if all ranks
 * succeeded. The caller frees it. */
static char *failure_text(const struct session *s, const struct job_end *end)
{
    if (end->broken)
        return xstrdup(end->broken);
    if (end->first_failed >= 0)
        return xasprintf("rank %d %s %d", launch_plan(s->job)->first_rank + end->first_failed,
                         end->first.signal ? "was ended by signal" : "exited with status",
                         end->first.signal ? end->first.signal : end->first.status);
    if (s->status)
        return xstrdup(s->stop_signal ? strsignal(s->stop_signal)
                                      : "stopped before its ranks ended");
    return NULL;
}

static void elastic_attempt_ended(struct session *s, const struct job_end *end,
                                  const struct first_cause *c)
{
    static const enum run_session_event events[] = {
        [RUN_ELASTIC_AWAIT_PEERS] = RUN_SESSION_EV_ENDED_PEERS,
        [RUN_ELASTIC_REJOIN] = RUN_SESSION_EV_ENDED_PEERS,
        [RUN_ELASTIC_RESTART] = RUN_SESSION_EV_ENDED_RESTART,
        [RUN_ELASTIC_LAST] = RUN_SESSION_EV_ENDED_LAST,
    };
    AUTO(free) char *failure = failure_text(s, end);
    if (run_elastic_was_stopped(s->elastic))
        s->status = status_of_leaving(s); /* the status of ranks that were stopped says nothing */
    bool restart = run_elastic_attempt_failed(s->elastic, failure) && restart_due(s, end, c);
    enum run_elastic_next next =
        run_elastic_ranks_ended(s->elastic, failure, feature_is_final(s->features.causes), restart,
                                restart_refusal(s->features.restart) != RESTART_NOT_REFUSED);
    apply(s, events[next]);
    if (next == RUN_ELASTIC_REJOIN)
        run_elastic_join(s->elastic);
}

/* ---- events of the job ---------------------------------------------------------------------- */

/* Closes the read end of the pipe, so that only the rank has it open. If the rank closes it, too, a
 * write fails, and tty_stdin learns that the rank no longer reads. */
static void close_tty_stdin(struct session *s)
{
    if (s->tty_stdin_fd < 0)
        return;
    close(fd_take(&s->tty_stdin_fd));
    s->opts->spec.stdin_null = true; /* the ranks of a further attempt cannot get the pipe */
}

static void on_rank_started(void *arg, int rank, pid_t pid)
{
    struct session *s = arg;
    close_tty_stdin(s);
}

static void on_rank_ended(void *arg, const struct rank_end *e)
{
    const struct session *s = arg;
    log_info("rank %d ended: %s %d%s after %.1f s", launch_plan(s->job)->first_rank + e->rank,
             e->signal ? "signal" : "status", e->signal ? e->signal : e->status,
             e->told_to_stop ? " (stopped by drover)" : "", e->seconds);
}

static void on_ended(void *arg, const struct job_end *end)
{
    struct session *s = arg;
    struct feature_run *f = &s->features;
    s->status = feature_status(f->causes, end, s->stop_signal);
    strbuf_reset(&f->failure);
    struct first_cause c;
    first_cause_find(&c, end->first_failed, end->ranks, end->ranks_count);
    run_print_failure(&f->failure, s->opts->program, launch_plan(s->job), end, &c);
    f->cause = &c;
    feature_ended(f, end, s->status);
    f->cause = NULL;
    print_end(s);
    if (s->elastic)
        elastic_attempt_ended(s, end, &c);
    else
        apply(s,
              restart_due(s, end, &c) ? RUN_SESSION_EV_ENDED_RESTART : RUN_SESSION_EV_ENDED_LAST);
    first_cause_clear(&c);
}

static int on_listen(void *arg, const struct job_end *end)
{
    return first_cause_listen_ms(end->first_failed, end->ranks, end->ranks_count);
}

static void print(void *arg, const char *text)
{
    const struct session *s = arg;
    console_print(s->console, text);
}

static void on_stop(void *arg, enum feature_cause cause)
{
    struct session *s = arg;
    if (!accepts(s, RUN_SESSION_EV_STOP))
        return;
    add_cause(s, cause);
    if (between_attempts(s)) { /* no end of a job follows, which would print it */
        s->status = feature_cause_status(cause);
        strbuf_reset(&s->features.failure);
        print_end(s);
    }
    apply(s, RUN_SESSION_EV_STOP);
}

static bool shows(void *arg, int rank, enum launch_stream from)
{
    const struct session *s = arg;
    unsigned number = (unsigned)(launch_plan(s->job)->first_rank + rank);
    return feature_shows(&s->features, rank, from) &&
           !s->opts->spec.output_files[from == LAUNCH_STDERR] &&
           (!s->opts->show || hwloc_bitmap_isset(s->opts->show, number));
}

/* The console has written output, or cannot write any more. */
static void on_output_progress(void *arg)
{
    struct session *s = arg;
    int error = has_cause(s, FEATURE_CAUSE_OUTPUT) ? 0 : console_error(s->console);
    if (error == -EPIPE) {
        add_cause(s, FEATURE_CAUSE_OUTPUT);
        apply(s, RUN_SESSION_EV_OUTPUT_CLOSED);
    } else if (error && !s->output_lost) {
        s->output_lost = true;
        log_error("output: %s", strerror(-error));
    }
    if (s->state == RUN_SESSION_FLUSHING)
        enter_flushing(s);
}

/* ---- signals and time ----------------------------------------------------------------------- */

static void on_stop_request(void *arg, int sig, bool again)
{
    struct session *s = arg;
    if (between_attempts(s) && s->status == 0) {
        s->status = STATUS_SIGNAL + sig;
    } else if (has_job(s) && again) {
        log_warn("%s again: killing the ranks", strsignal(sig));
        launch_kill(s->job);
    } else if (has_job(s)) {
        s->stop_signal = sig;
        add_cause(s, FEATURE_CAUSE_SIGNAL);
    }
    apply(s, again ? RUN_SESSION_EV_SIGNAL_AGAIN : RUN_SESSION_EV_SIGNAL);
    if (!again && has_job(s))
        launch_log_stopping(s->job);
}

static void on_signal(uv_signal_t *handle, int sig)
{
    struct session *s = handle->data;
    if (sig == SIGTSTP) {
        if (accepts(s, RUN_SESSION_EV_SUSPEND)) {
            launch_signal(s->job, SIGSTOP);
            raise(SIGSTOP);
            uv_update_time(&s->loop);
            s->ticked_ms = (int64_t)uv_now(&s->loop); /* the user knows */
        }
    } else if (accepts(s, RUN_SESSION_EV_FORWARD)) {
        launch_signal(s->job, sig);
    }
}

/* Says that this process was frozen: what seems late since then is not the fault of a node. */
static void on_tick(uv_timer_t *t)
{
    struct session *s = t->data;
    int64_t pause_ms = clock_pause_ms(&s->ticked_ms, (int64_t)uv_now(t->loop), TICK_MS);
    int lost_after_ms = s->opts->spec.lost_after_ms ? s->opts->spec.lost_after_ms : LOST_AFTER_MS;
    if (pause_ms >= SUSPENDED_MS && pause_ms >= lost_after_ms)
        log_warn("drover was suspended for %.0f s", (double)pause_ms / 1000);
}

static void watch_suspension(struct session *s)
{
    uv_timer_init(&s->loop, &s->tick);
    s->tick.data = s;
    uv_update_time(&s->loop);
    s->ticked_ms = (int64_t)uv_now(&s->loop);
    uv_timer_start(&s->tick, on_tick, TICK_MS, TICK_MS);
}

/* Watches the signals. Signals that are ignored stay ignored, as in stop_signals. */
static void watch_signals(struct session *s)
{
    stop_signals_open(&s->stop_signals, &s->loop, on_stop_request, s);
    for (size_t i = 0; i < COUNT_OF(job_signals); i++) {
        struct sigaction old;
        uv_signal_init(&s->loop, &s->signals[i]);
        s->signals[i].data = s;
        if (sigaction(job_signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            uv_signal_start(&s->signals[i], on_signal, job_signals[i]);
    }
    s->watches = true;
}

/* ---- attempts ------------------------------------------------------------------------------- */

/* Starts an attempt. The console is the last observer. */
static int start_attempt(struct session *s, struct err *e)
{
    static const struct launch_events events = {.rank_started = on_rank_started,
                                                .rank_ended = on_rank_ended,
                                                .listen = on_listen,
                                                .ended = on_ended};
    struct feature_run *f = &s->features;
    f->attempt = restart_count(f->restart);
    launch_free(TAKE(s->job)); /* of the previous attempt */
    int rc = feature_prepare(f, e);
    if (rc == 0)
        rc = launch_start(&s->job, s->context, &s->opts->spec, &events, s, e);
    if (rc < 0)
        return rc;
    feature_attach(f, s->job);
    console_attach(s->console, s->job, shows);
    return 0;
}

static void start_next_attempt(void *arg)
{
    struct session *s = arg;
    struct err e = {0};
    if (start_attempt(s, &e) == 0) {
        apply(s, RUN_SESSION_EV_STARTED);
        return;
    }
    err_print(&e, s->opts->program);
    s->status = s->status ? s->status : EXIT_STATUS_FAILED; /* of the previous attempt */
    apply(s, RUN_SESSION_EV_NOT_STARTED);
}

static void on_restart_due(void *arg)
{
    struct session *s = arg;
    if (!s->elastic) {
        start_next_attempt(s);
    } else if (accepts(s, RUN_SESSION_EV_RENDEZVOUS)) { /* the rendezvous may have ended */
        apply(s, RUN_SESSION_EV_RENDEZVOUS);
        run_elastic_join(s->elastic);
    }
}

static void on_peers_stop(void *arg)
{
    apply(arg, RUN_SESSION_EV_PEERS_STOP);
}

static void on_peers_failed(void *arg)
{
    struct session *s = arg;
    const struct job_end end = {.status = EXIT_STATUS_FAILED, .first_failed = -1};
    const struct first_cause unknown = {.rank = -1};
    s->status = EXIT_STATUS_FAILED;
    apply(s, restart_due(s, &end, &unknown) ? RUN_SESSION_EV_PEERS_RESTART
                                            : RUN_SESSION_EV_PEERS_LAST);
}

static void on_rendezvous_over(void *arg, bool well)
{
    struct session *s = arg;
    if (s->status == 0 && !well)
        s->status = status_of_leaving(s);
    apply(s, RUN_SESSION_EV_RENDEZVOUS_OVER);
}

/* ---- start and end -------------------------------------------------------------------------- */

/* Returns true if the rank that reads stdin waits for input, or if that is unknown because the rank
 * is on another node. */
static bool wants_stdin(void *arg)
{
    const struct session *s = arg;
    if (!has_job(s))
        return false;
    int rank = s->opts->spec.node.stdin_rank;
    if (!plan_is_local(launch_plan(s->job)))
        return true;
    pid_t pid = rank < launch_plan(s->job)->world_size ? launch_rank_pid(s->job, rank) : 0;
    return pid > 0 && stdin_demand(pid, s->tty_stdin_pipe);
}

/* Chooses the stdin of the rank that reads it: drover's own stdin, or a pipe with the terminal's
 * input. */
static int choose_stdin(struct session *s, struct err *e)
{
    if (s->opts->spec.stdin_null)
        return 0;
    s->opts->spec.stdin_fd = STDIN_FILENO;
    if (!isatty(STDIN_FILENO))
        return 0;
    int rc =
        tty_stdin_open(&s->tty_stdin, &s->tty_stdin_fd, &s->loop, STDIN_FILENO, wants_stdin, s, e);
    struct stat pipe = {0};
    if (rc == 0 && fstat(s->tty_stdin_fd, &pipe) == 0)
        s->tty_stdin_pipe = pipe.st_ino;
    s->opts->spec.stdin_fd = s->tty_stdin_fd;
    return rc;
}

static int start_first_attempt(struct session *s, struct err *e)
{
    int rc = start_attempt(s, e);
    if (rc < 0)
        return rc;
    run_options_log_ignored(s->opts, launch_plan(s->job)->engine);
    if (!s->opts->place)
        placement_warn(launch_plan(s->job));
    if (s->opts->report_bindings) {
        AUTO(strbuf) struct strbuf b = {0};
        plan_print_ranks(&b, launch_plan(s->job));
        console_print(s->console, strbuf_str(&b));
    }
    apply(s, RUN_SESSION_EV_STARTED);
    return 0;
}

static int open_rendezvous(struct session *s, struct err *e)
{
    const struct run_elastic_opts o = {
        .run = s->opts, .topo = s->context->topo, .console = s->console};
    static const struct run_elastic_events events = {.assigned = start_next_attempt,
                                                     .stop = on_peers_stop,
                                                     .peers_failed = on_peers_failed,
                                                     .over = on_rendezvous_over};
    int rc = run_elastic_open(&s->elastic, &s->loop, &o, &events, s, e);
    if (rc == 0)
        apply(s, RUN_SESSION_EV_RENDEZVOUS);
    return rc;
}

static int start(struct session *s, struct err *e)
{
    signal(SIGPIPE, SIG_IGN);
    s->features.loop = &s->loop;
    s->features.print = print;
    s->features.stop = on_stop;
    s->features.arg = s;
    int rc = launch_context_open(&s->context, &s->loop, s->guardian, e);
    if (rc == 0)
        rc = console_open(&s->console, &s->loop, &s->opts->style, on_output_progress, s, e);
    if (rc < 0)
        return rc;
    s->features.topo = s->context->topo;
    rc = feature_open(&s->features, e);
    if (rc == 0)
        rc = choose_stdin(s, e);
    if (rc < 0)
        return rc;
    watch_signals(s);
    watch_suspension(s);
    s->restarts = run_restarts_open(&s->features, on_restart_due, s);
    return s->opts->rdzv ? open_rendezvous(s, e) : start_first_attempt(s, e);
}

static void stop(struct session *s)
{
    for (size_t i = 0; s->watches && i < COUNT_OF(job_signals); i++)
        uv_close((uv_handle_t *)&s->signals[i], NULL);
    if (s->watches) {
        stop_signals_close(&s->stop_signals);
        uv_close((uv_handle_t *)&s->tick, NULL);
    }
    feature_close(&s->features);
    tty_stdin_close(s->tty_stdin);
    close_tty_stdin(s); /* still open if no rank has started */
    run_restarts_close(s->restarts);
    run_elastic_close(s->elastic);
    launch_free(s->job);
    console_close(s->console);
    /* No job is left. The guardian exits while the PMIx server closes. */
    guardian_shutdown(s->guardian);
    launch_context_close(s->context);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    uv_loop_close(&s->loop);
    feature_free(&s->features);
    guardian_stop(s->guardian);
}

int run_session(int *status, struct run_options *o, struct err *e)
{
    struct session s = {.opts = o, .features = run_options_features(o), .tty_stdin_fd = -1};
    AUTO(placement) struct placement *placed = NULL;
    const struct placement_opts place = run_options_placement(o);
    int rc = o->place ? placement_open(&placed, &place, e) : 0;
    if (rc < 0)
        return rc;
    const struct gpu_locks locks = placed ? placed->locks : (struct gpu_locks){0};
    o->spec.gpus = placed ? placed->gpus : o->spec.gpus;
    /* The guardian must precede the loop and all threads. */
    rc = guardian_start_keeping(&s.guardian, locks.fds, locks.count, e);
    if (rc == 0 && (rc = uv_loop_init(&s.loop)) < 0) {
        guardian_stop(s.guardian);
        err_set(e, rc, "event loop: %s", uv_strerror(rc));
    }
    if (rc < 0)
        return rc;
    rc = start(&s, e);
    if (rc < 0)
        apply(&s, RUN_SESSION_EV_NOT_STARTED);
    uv_run(&s.loop, UV_RUN_DEFAULT); /* returns at once if the session is DONE */
    if (rc == 0 && s.status == 0 && console_error(s.console))
        s.status = EXIT_STATUS_FAILED;
    if (rc == 0)
        feature_finish(&s.features, s.status);
    stop(&s);
    *status = s.status;
    return rc;
}
