#include "launcher/remote/engine_remote.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/random.h>

#include "common/log.h"
#include "launcher/plan/env.h"
#include "launcher/plan/rank_spec.h"

enum {
    START_MS = 60000,      /* where the spec does not say */
    CLEAR_MS = 20000,      /* for agents to kill what they have */
    LEAVE_MS = 2000,       /* for mpirun to end after the last agent: 4.1.4 sometimes never does */
    FAILED_LEAVE_MS = 200, /* the same after a failure, for one that lingers */
    SHOWN_LINES = 20
};

const char *engine_remote_host(const struct remote_job *j, int rank)
{
    return j->plan->nodes[j->plan->ranks[rank].node].name;
}

/* ---- what must not happen inside a call --------------------------------------------------------
 */

static void on_soon(uv_timer_t *t);

static void soon(struct remote_job *j)
{
    if (!uv_is_active((uv_handle_t *)&j->soon))
        uv_timer_start(&j->soon, on_soon, 0, 0);
}

void engine_remote_fail_start(struct remote_job *j, int rank, int status, const char *fmt, ...)
{
    if (j->failure[0] || j->started)
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(j->failure, sizeof j->failure, fmt, ap);
    va_end(ap);
    j->failure_rank = rank;
    j->failure_status = status;
    soon(j);
}

static void report_not_started(struct remote_job *j, int rank, int status, const char *why)
{
    struct remote_rank *r = &j->ranks[rank];
    if (r->state == REMOTE_RANK_DONE)
        return;
    r->state = REMOTE_RANK_DONE;
    j->failed = true;
    for (int i = 0; i < REMOTE_STREAMS; i++)
        rank_output_close(TAKE(r->streams[i].io));
    j->ev.not_started(j->arg, rank, status, why);
}

/* mpirun's own words stand with the rank that was missed, unless they were told, in ours or by
 * --verbose. */
static void report_start_failure(struct remote_job *j)
{
    int n = last_lines_count(j->launcher_output);
    bool told = j->cause_known || log_shows(LOG_INFO);
    for (int i = n > SHOWN_LINES ? n - SHOWN_LINES : 0; i < n && !told; i++) {
        size_t len;
        const char *line = last_lines_get(j->launcher_output, i, &len);
        AUTO(free) char *text = xasprintf("%s: %s\n", j->starter->program, line);
        (void)j->ev.line(j->arg, j->failure_rank, LAUNCH_STDERR, text, strlen(text) - 1);
    }
    report_not_started(j, j->failure_rank, j->failure_status, j->failure);
    for (int i = 0; i < j->plan->world_size; i++)
        report_not_started(j, i, j->failure_status, j->failure);
}

static bool is_reaped(const struct remote_rank *r)
{
    return r->state == REMOTE_RANK_DONE && r->cleared && !r->streams[0].io && !r->streams[1].io;
}

static void on_launcher_exit_timeout(uv_timer_t *t)
{
    struct remote_job *j = t->data;
    log_debug("%s has not ended by itself",
              j->starter->program ? j->starter->program : "a starter");
    engine_kill_tree(j->starting);
}

static void release(struct remote_job *j)
{
    j->released = true;
    remote_start_stop_listening(j);
    for (struct remote_peer *p = j->peers; p; p = p->next)
        control_send(p->link, json_pack("{s:s}", "t", "exit_agent"), NULL, 0);
    if (!j->starting)
        return;
    if (j->launchers_running == 0)
        engine_kill_tree(j->starting);
    else
        uv_timer_start(&j->deadline, on_launcher_exit_timeout,
                       j->failed && j->starter->lingers ? FAILED_LEAVE_MS : LEAVE_MS, 0);
}

/* Nothing of the ranks is left: the agents may go, then mpirun, then it is done. */
static void continue_reaping(struct remote_job *j)
{
    for (int i = 0; i < j->plan->world_size; i++)
        if (!is_reaped(&j->ranks[i]))
            return;
    if (!j->released)
        release(j);
    if (j->starting)
        return;
    uv_timer_stop(&j->deadline);
    j->clearing = false;
    j->ev.cleared(j->arg);
}

static void on_soon(uv_timer_t *t)
{
    struct remote_job *j = t->data;
    if (j->failure[0] && !j->started) {
        j->started = true; /* or as good as that: once */
        uv_timer_stop(&j->deadline);
        report_start_failure(j);
    }
    if (j->clearing)
        continue_reaping(j);
}

void engine_remote_check_reaped(struct remote_job *j)
{
    if (j->clearing)
        soon(j);
}

/* ---- output ------------------------------------------------------------------------------------
 */

static void send_credit(struct remote_rank *r)
{
    if (r->uncredited_bytes == 0 || !r->peer || r->job->paused)
        return;
    control_send(r->peer->link,
                 json_pack("{s:s,s:I}", "t", "credit", "bytes", (json_int_t)r->uncredited_bytes),
                 NULL, 0);
    r->uncredited_bytes = 0;
}

void engine_remote_output(struct remote_rank *r, enum launch_stream from, const char *bytes,
                          size_t len)
{
    struct remote_stream *s = &r->streams[from == LAUNCH_STDOUT ? 0 : 1];
    r->uncredited_bytes += len;
    if (s->io)
        rank_output_feed(s->io, bytes, len);
    if (r->uncredited_bytes >= CONTROL_WINDOW / 4)
        send_credit(r);
}

void engine_remote_output_eof(struct remote_rank *r)
{
    for (int i = 0; i < REMOTE_STREAMS; i++)
        if (r->streams[i].io)
            rank_output_feed_end(r->streams[i].io);
}

static bool on_line(void *arg, const char *text, size_t len)
{
    struct remote_stream *s = arg;
    struct remote_job *j = s->rank->job;
    if (j->ev.line(j->arg, s->rank->rank, s->from, text, len))
        return true;
    j->paused = true;
    j->resume_from = (s->rank->rank + 1) % j->plan->world_size;
    for (int i = 0; i < j->plan->world_size; i++)
        for (int k = 0; k < REMOTE_STREAMS; k++)
            if (j->ranks[i].streams[k].io)
                rank_output_pause(j->ranks[i].streams[k].io);
    return false;
}

static void on_begun(void *arg, const char *text, size_t len)
{
    struct remote_stream *s = arg;
    struct remote_job *j = s->rank->job;
    j->ev.begun(j->arg, s->rank->rank, s->from, text, len);
}

static void on_stream_ended(void *arg)
{
    struct remote_stream *s = arg;
    struct remote_rank *r = s->rank;
    rank_output_close(TAKE(s->io));
    if (r->streams[0].io || r->streams[1].io)
        return;
    r->job->ev.quiet(r->job->arg, r->rank);
    engine_remote_check_reaped(r->job);
}

static int open_stream(struct remote_stream *s, char *scratch, struct err *e)
{
    struct remote_job *j = s->rank->job;
    const struct rank_output_events ev = {
        .line = on_line, .begun = j->ev.begun ? on_begun : NULL, .ended = on_stream_ended};
    const char *name = s->from == LAUNCH_STDOUT ? "stdout" : "stderr";
    AUTO(fd) int file = -1;
    int rc = engine_open_file(&file, j->spec->output_dir, s->rank->rank, name, e);
    if (rc < 0)
        return rc;
    char who[64];
    snprintf(who, sizeof who, "rank %d's %s", s->rank->rank, name);
    struct rank_output_source from = {-1, fd_take(&file), scratch, who};
    return rank_output_open(&s->io, j->loop, &from, &ev, s, e);
}

/* ---- what is asked for -------------------------------------------------------------------------
 */

static void say(struct remote_rank *r, json_t *head)
{
    if (r->peer)
        control_send(r->peer->link, head, NULL, 0);
    else
        json_decref(head);
}

static void remote_signal(struct engine_job *job, int rank, int sig)
{
    struct remote_job *j = (struct remote_job *)job;
    bool ends =
        sig == SIGTERM || sig == SIGINT || sig == SIGQUIT || sig == SIGHUP || sig == SIGKILL;
    if (!j->started && ends)
        engine_remote_fail_start(j, 0, 126, "the job was ended before all its nodes were there");
    for (int i = 0; i < j->plan->world_size; i++)
        if ((rank < 0 || i == rank) && j->ranks[i].state == REMOTE_RANK_STARTED)
            say(&j->ranks[i], json_pack("{s:s,s:i}", "t", "signal", "signal", sig));
}

static bool remote_ask_stop(struct engine_job *job)
{
    struct remote_job *j = (struct remote_job *)job;
    bool asked = false;
    for (int i = 0; i < j->plan->world_size; i++) {
        struct remote_rank *r = &j->ranks[i];
        if (!r->uses_report_channel || r->state == REMOTE_RANK_DONE)
            continue;
        say(r, json_pack("{s:s}", "t", "stop"));
        asked = true;
    }
    return asked;
}

static void remote_resume(struct engine_job *job)
{
    struct remote_job *j = (struct remote_job *)job;
    int first = j->resume_from;
    j->paused = false;
    for (int n = 0; n < j->plan->world_size && !j->paused; n++) {
        struct remote_rank *r = &j->ranks[(first + n) % j->plan->world_size];
        for (int k = 0; k < REMOTE_STREAMS && !j->paused; k++)
            if (r->streams[k].io)
                rank_output_resume(r->streams[k].io);
        send_credit(r);
    }
}

static void remote_look(struct engine_job *job)
{
    struct remote_job *j = (struct remote_job *)job;
    for (int i = 0; i < j->plan->world_size; i++)
        if (j->ranks[i].state == REMOTE_RANK_STARTED)
            say(&j->ranks[i], json_pack("{s:s}", "t", "status_request"));
}

static void remote_ask_stack(struct engine_job *job, int rank)
{
    struct remote_rank *r = &((struct remote_job *)job)->ranks[rank];
    if (r->state == REMOTE_RANK_STARTED)
        say(r, json_pack("{s:s}", "t", "stack"));
}

static void remote_finish_output(struct engine_job *job, int rank)
{
    struct remote_rank *r = &((struct remote_job *)job)->ranks[rank];
    if (r->peer)
        say(r, json_pack("{s:s}", "t", "finish_output"));
    else
        engine_remote_output_eof(r);
}

/* Agents that do not answer have processes that even SIGKILL does not end (a hung disk, a GPU). */
static void on_reap_timeout(uv_timer_t *t)
{
    struct remote_job *j = t->data;
    for (int i = 0; i < j->plan->world_size; i++) {
        struct remote_rank *r = &j->ranks[i];
        if (is_reaped(r))
            continue;
        log_error("rank %d on %s does not end: its processes are left to `drover rank` there", i,
                  engine_remote_host(j, i));
        r->cleared = true;
        if (r->state != REMOTE_RANK_DONE) {
            r->state = REMOTE_RANK_DONE;
            j->ev.lost(j->arg, i, "its processes do not end");
        }
        engine_remote_output_eof(r);
    }
    engine_remote_check_reaped(j);
}

static void remote_clear(struct engine_job *job)
{
    struct remote_job *j = (struct remote_job *)job;
    bool again = j->clearing || j->released;
    j->clearing = true;
    if (!again) {
        engine_remote_fail_start(j, 0, 126, "the job was ended before all its nodes were there");
        uv_timer_start(&j->deadline, on_reap_timeout, CLEAR_MS, 0);
        for (int i = 0; i < j->plan->world_size; i++) {
            struct remote_rank *r = &j->ranks[i];
            r->cleared |= !r->peer;
            say(r, json_pack("{s:s}", "t", "kill_tree"));
        }
    }
    engine_remote_check_reaped(j);
}

/* ---- the job -----------------------------------------------------------------------------------
 */

void engine_remote_unref(struct remote_job *j)
{
    if (--j->open_handles > 0)
        return;
    strbuf_free(&j->base);
    pmi1_free(j->pmi1);
    strv_free(j->base_env);
    strv_free(j->candidates);
    strv_free(j->names);
    free(j->named);
    plan_free(j->starter_plan);
    last_lines_free(j->launcher_output);
    free(j->ranks);
    free(j->nodes);
    free(j->hostfile);
    free(j->program);
    free(j);
}

static void on_closed(uv_handle_t *h)
{
    engine_remote_unref(h->data);
}

static void remote_free(struct engine_job *job)
{
    struct remote_job *j = (struct remote_job *)job;
    j->done = true;
    remote_start_stop_listening(j);
    while (j->peers)
        remote_peers_drop(j->peers);
    for (int i = 0; i < j->plan->world_size; i++)
        for (int k = 0; k < REMOTE_STREAMS; k++)
            rank_output_close(j->ranks[i].streams[k].io);
    stdin_reader_close(j->source);
    resolve_close(TAKE(j->resolve));
    engine_free(j->starting);
    session_dir_close(j->workdir);
    uv_close((uv_handle_t *)&j->deadline, on_closed);
    uv_close((uv_handle_t *)&j->lost_timer, on_closed);
    uv_close((uv_handle_t *)&j->launcher_exit_timer, on_closed);
    uv_close((uv_handle_t *)&j->soon, on_closed);
}

static int make_token(struct remote_job *j, struct err *e)
{
    unsigned char random[REMOTE_TOKEN_HEX / 2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return err_set(e, -errno, "no random numbers: %s", strerror(errno));
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(j->token + 2 * i, 3, "%02x", random[i]);
    return 0;
}

static struct remote_job *new_job(struct engine *en, const struct engine_start_opts *o,
                                  const struct engine_ops *ops)
{
    int n = o->plan->world_size;
    struct remote_job *j = xzalloc(sizeof *j);
    j->job.ops = ops;
    j->engine = en;
    j->loop = engine_loop(en);
    j->plan = o->plan;
    j->spec = o->spec;
    j->port_wanted = o->master_port;
    j->base_env = strv_copy(o->base_env);
    AUTO(strv) char **own = rank_spec_strip_launcher_env(o->base_env);
    rank_spec_base_env(&j->base, o->plan->engine == PLAN_ENGINE_EXTERNAL ? own : o->base_env);
    if (!o->spec->no_pmix)
        remote_peers_serve_pmi(j);
    j->master_addr_given = env_user_value(o->base_env, o->spec->env, "MASTER_ADDR") != NULL;
    j->ranks = xcalloc((size_t)n, sizeof *j->ranks);
    j->nodes = xcalloc((size_t)o->plan->node_count, sizeof *j->nodes);
    for (int i = 0; i < n; i++) {
        struct remote_rank *r = &j->ranks[i];
        *r = (struct remote_rank){.job = j, .rank = i};
        r->streams[0] = (struct remote_stream){r, LAUNCH_STDOUT, NULL};
        r->streams[1] = (struct remote_stream){r, LAUNCH_STDERR, NULL};
    }
    j->launcher_output = last_lines_new(REMOTE_LAUNCHER_LINES);
    uv_timer_init(j->loop, &j->deadline);
    uv_timer_init(j->loop, &j->lost_timer);
    uv_timer_init(j->loop, &j->launcher_exit_timer);
    uv_timer_init(j->loop, &j->soon);
    j->deadline.data = j->lost_timer.data = j->launcher_exit_timer.data = j->soon.data = j;
    j->open_handles = 4;
    return j;
}

char *engine_remote_join_ticket(const struct engine_job *job, const char **token)
{
    const struct remote_job *j = (const struct remote_job *)job;
    *token = j->token;
    return remote_start_addresses(j);
}

static void on_start_late(uv_timer_t *t)
{
    remote_start_timed_out(t->data);
}

int engine_remote_start(struct engine_job **out, struct engine *en,
                        const struct engine_start_opts *o, const struct engine_events *ev,
                        void *arg, struct err *e)
{
    static const struct engine_ops ops = {
        remote_free,          remote_signal, remote_ask_stop, remote_resume,
        remote_finish_output, remote_look,   remote_clear,    NULL,
        remote_ask_stack,     NULL};
    struct remote_job *j = new_job(en, o, &ops);
    j->ev = *ev;
    j->arg = arg;
    int rc = make_token(j, e);
    for (int i = 0; rc == 0 && i < REMOTE_STREAMS * o->plan->world_size; i++)
        rc = open_stream(&j->ranks[i / REMOTE_STREAMS].streams[i % REMOTE_STREAMS], j->scratch, e);
    if (rc == 0)
        rc = remote_start_listen(j, e);
    if (rc == 0)
        rc = remote_start_resolve(j, e);
    if (rc < 0) {
        remote_free(&j->job);
        return rc;
    }
    int limit_ms = o->spec->start_timeout_ms > 0 ? o->spec->start_timeout_ms : START_MS;
    uv_timer_start(&j->deadline, on_start_late, (uint64_t)limit_ms, 0);
    *out = &j->job;
    return 0;
}
