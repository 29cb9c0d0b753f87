#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/file.h"
#include "common/log.h"
#include "common/own_process.h"
#include "launcher/engine/engine_local_internal.h"
#include "launcher/engine/ft_bridge.h"
#include "launcher/engine/trace_buffer.h"
#include "launcher/io/report_channel.h"
#include "launcher/io/stdin_broadcast.h"
#include "launcher/node/cgroup.h"
#include "launcher/node/limits.h"
#include "launcher/node/session_dir.h"
#include "launcher/plan/env.h"
#include "launcher/pmi/pmi1_server.h"

enum { NOT_RUN = 126, NOT_FOUND = 127 }; /* as in a shell */
enum { NOT_OPENED = -2 };
enum { LINE_SHOWN = 256 };         /* bytes of a script's first line */
enum { ERROR_FILE_MAX = 1 << 20 }; /* bytes; a longer text is cut */

static struct local_job *find(struct engine *en, uint32_t number)
{
    struct local_job *j = en->jobs;
    while (j && j->number != number)
        j = j->next;
    return j;
}

/* ---- events of the guardian ----------------------------------------------------------------- */

static void on_started(void *arg, uint32_t number, int rank, pid_t pid)
{
    struct local_job *j = find(arg, number);
    if (j && j->ev.started)
        j->ev.started(j->arg, rank, pid);
}

/* Returns true if execvp() fails with this error on every node that has the same files. */
static bool is_program_error(int error)
{
    static const int errors[] = {ENOENT, EACCES, ENOEXEC,      ENOTDIR,
                                 EISDIR, ELOOP,  ENAMETOOLONG, E2BIG};
    for (size_t i = 0; i < COUNT_OF(errors); i++)
        if (errors[i] == error)
            return true;
    return false;
}

/* Explains the ENOENT of a program that is there: it is about the interpreter in its first line. */
static void explain_interpreter(struct err *e, const char *program, const char *wdir)
{
    AUTO(free)
    char *path =
        *program == '/' ? xstrdup(program) : xasprintf("%s/%s", wdir ? wdir : ".", program);
    AUTO(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    char line[LINE_SHOWN] = "";
    ssize_t n = fd < 0 || !strchr(program, '/') ? 0 : read(fd, line, sizeof line - 1);
    size_t len = strcspn(line, "\n");
    bool crlf = len > 0 && line[len - 1] == '\r';
    line[len - crlf] = '\0';
    if (n < 3 || strncmp(line, "#!", 2) != 0)
        return;
    err_set(e, -ENOENT, "exec '%s': the interpreter of its first line, '%s%s', does not exist",
            program, line, crlf ? "\\r" : "");
    if (crlf)
        err_hint(e, "its lines end as on Windows: sed -i 's/\\r$//' %s", program);
}

/* Returns a text that says why a rank was not started: the step that failed, the object of the
 * step, the error, and the limit that causes it. The caller frees the text. */
static char *start_error(const struct local_job *j, int rank, int error, const char *step)
{
    const struct plan_rank *p = &j->plan->ranks[rank];
    const struct {
        const char *step, *object; /* NULL: none */
    } objects[] = {{"exec", plan_rank_argv(j->plan, p)[0]},
                   {"chdir", plan_rank_wdir(j->plan, p)},
                   {"cgroup", j->cgroup},
                   {"bind", p->cpus}};
    const char *object = NULL;
    for (size_t i = 0; i < COUNT_OF(objects); i++)
        if (strcmp(step, objects[i].step) == 0)
            object = objects[i].object;
    struct err e = {0};
    err_set(&e, -error, "%s%s%s%s: %s", step, object ? " '" : "", object ? object : "",
            object ? "'" : "", strerror(error));
    limits_explain(&e, "");
    if (error == ENOENT && strcmp(step, "exec") == 0)
        explain_interpreter(&e, object, plan_rank_wdir(j->plan, p));
    return xasprintf("%s%s%s", e.text, e.hint[0] ? "; try: " : "", e.hint);
}

static void on_not_started(void *arg, uint32_t number, int rank, int error, const char *step)
{
    struct local_job *j = find(arg, number);
    if (!j || j->ranks[rank].done)
        return;
    struct engine_rank *r = &j->ranks[rank];
    r->done = true;
    for (int i = 0; i < ENGINE_LOCAL_STREAMS; i++)
        rank_output_close(TAKE(r->streams[i].io));
    AUTO(free) char *why = start_error(j, rank, error, step);
    bool exec = strcmp(step, "exec") == 0;
    j->ev.not_started(j->arg, rank, exec && error == ENOENT ? NOT_FOUND : NOT_RUN,
                      !exec || !is_program_error(error), why);
}

/* Returns the count of OOM kills for the job. Opens the counter of this process's cgroup only for
 * the first job, since a worker moves to another cgroup before it starts a job. */
static long count_oom_kills(const struct local_job *j)
{
    struct engine *en = j->engine;
    if (!j->cgroup && en->oom == NOT_OPENED) {
        AUTO(free) char *dir = cgroup_dir("", "memory");
        en->oom = cgroup_oom_open(dir);
    }
    return cgroup_oom_count(j->cgroup ? j->oom : en->oom);
}

/* Returns the path of the file in which the rank describes the exception that ends it
 * (TORCHELASTIC_ERROR_FILE; "Error Propagation" in PyTorch's manual of torch.distributed.elastic).
 * The caller frees it. */
static char *error_file(const struct local_job *j, int rank)
{
    return xasprintf("%s-%u-%d.json", j->engine->error_files, j->number, rank);
}

/* Reads and removes the rank's error file. Returns its text, which the caller frees, or NULL if the
 * rank has not written the file. */
static char *take_error(const struct local_job *j, int rank)
{
    AUTO(free) char *path = error_file(j, rank);
    AUTO(strbuf) struct strbuf text = {0};
    int rc = file_read(&text, path, ERROR_FILE_MAX);
    if (rc < 0 && rc != -EFBIG)
        return NULL;
    (void)unlink(path);
    return strbuf_take(&text);
}

static void rank_exited(struct local_job *j, int rank, int wait_status)
{
    struct engine_rank *r = &j->ranks[rank];
    if (r->done)
        return;
    r->done = true;
    if (r->channel)
        report_channel_drain(r->channel); /* the rank's reports are emitted before its exit */
    if (j->pmi1)
        pmi1_server_drain(j->pmi1, j->map->local[rank]); /* so is the rank's MPI_Abort */
    bool oom = WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL &&
               j->oom_kills_count >= 0 && count_oom_kills(j) > j->oom_kills_count;
    AUTO(free) char *error = j->has_error_files ? take_error(j, rank) : NULL;
    j->ev.exited(j->arg, rank, wait_status, oom, wait_status ? error : NULL);
}

static void on_exited(void *arg, uint32_t number, int rank, int wait_status, bool reaped)
{
    struct local_job *j = find(arg, number);
    if (!j)
        return;
    j->reaped = reaped;
    rank_exited(j, rank, wait_status);
}

static void on_cleared(void *arg, uint32_t number)
{
    struct local_job *j = find(arg, number);
    if (j)
        j->ev.reaped(j->arg);
}

static void on_reaped_timer(uv_timer_t *t)
{
    struct engine *en = t->data;
    for (struct local_job *j = en->jobs, *next; j; j = next) {
        next = j->next;
        if (!j->kill_requested || !(en->guardian_ended || j->reaped))
            continue;
        j->kill_requested = false;
        j->ev.reaped(j->arg);
    }
}

static bool all_done(const struct local_job *j)
{
    int done = 0;
    while (done < j->count && j->ranks[done].done)
        done++;
    return done == j->count;
}

/* The guardian has ended, and with it all ranks: local_kill_tree() has nothing left to do. The jobs
 * are told first, so that no rank counts as the cause. */
static void on_guardian_ended(void *arg)
{
    static const char why[] = "drover's guardian process was killed, and all ranks with it";
    struct engine *en = arg;
    bool told = false;
    en->guardian_ended = true;
    for (struct local_job *j = en->jobs, *next; j; j = next) {
        next = j->next;
        if (j->ev.broken && !all_done(j)) {
            j->ev.broken(j->arg, why);
            told = true;
        }
        for (int i = 0; i < j->count; i++)
            rank_exited(j, i, SIGKILL);
    }
    if (!told)
        log_error("%s", why);
    uv_timer_start(&en->reaped_timer, on_reaped_timer, 0, 0);
}

/* ---- PMI-1 ---------------------------------------------------------------------- */

void engine_local_deliver(struct engine_job *job, const struct exchange_message *m)
{
    struct local_job *j = (struct local_job *)job;
    if (j->pmi1)
        pmi1_server_deliver(j->pmi1, m);
}

/* ---- end ------------------------------------------------------------------------------------ */

static void local_signal(struct engine_job *job, int rank, int sig)
{
    struct local_job *j = (struct local_job *)job;
    guardian_signal(j->engine->guardian, j->number, rank, sig);
}

static void local_last_collective(const struct engine_job *job, int rank,
                                  struct collective_position *out)
{
    trace_buffer_read(((const struct local_job *)job)->traces, rank, out);
}

/* All ranks are on this node, where launch.c samples their status itself. */
static void local_request_status(struct engine_job *job)
{
}

static bool local_request_stop(struct engine_job *job)
{
    struct local_job *j = (struct local_job *)job;
    bool requested = false;
    for (int i = 0; i < j->count; i++) {
        struct report_channel *c = j->ranks[i].channel;
        if (!c || !report_channel_used(c) || j->ranks[i].done)
            continue;
        report_channel_send_stop(c);
        requested = true;
    }
    return requested;
}

static void local_kill_tree(struct engine_job *job)
{
    struct local_job *j = (struct local_job *)job;
    j->kill_requested = true;
    if (j->engine->guardian_ended || j->reaped)
        uv_timer_start(&j->engine->reaped_timer, on_reaped_timer, 0, 0);
    else
        guardian_kill_tree(j->engine->guardian, j->number);
}

static void local_free(struct engine_job *job)
{
    struct local_job *j = (struct local_job *)job;
    for (struct local_job **at = &j->engine->jobs; *at; at = &(*at)->next)
        if (*at == j) {
            *at = j->next;
            break;
        }
    for (int i = 0; i < j->count; i++) {
        for (int k = 0; k < ENGINE_LOCAL_STREAMS; k++) {
            rank_output_close(j->ranks[i].streams[k].io);
            auto_fd(&j->ranks[i].streams[k].file);
        }
        report_channel_close(j->ranks[i].channel);
    }
    ft_bridge_close(j->ft);
    pmi1_server_close(j->pmi1);
    trace_buffer_close(j->traces);
    auto_fd(&j->oom);
    free(j->cgroup);
    stdin_broadcast_close(j->broadcast);
    strv_free(j->common_env);
    free(j->ranks);
    free(j);
}

/* ---- start ---------------------------------------------------------------------------------- */

static int spawn_rank(struct local_job *j, const struct engine_start_opts *o, int rank,
                      const int fds[3], int report_fd, struct err *e)
{
    const struct plan_rank *p = &j->plan->ranks[rank];
    AUTO(strv) char **own = strv_copy(p->env);
    AUTO(fd) int pmi = -1;
    if (report_fd >= 0)
        env_set(&own, "DROVER_REPORT_FD", "%d", GUARDIAN_REPORT_FD);
    if (j->traces) {
        AUTO(free) char *address = trace_buffer_env(j->traces, rank);
        env_set(&own, "DROVER_NOTES", "%s", address);
    }
    if (j->ft) {
        AUTO(free) char *path = ft_bridge_socket(j->ft, rank);
        env_set(&own, "FT_RANK_MONITOR_IPC_SOCKET", "%s", path);
    }
    if (j->has_error_files) {
        AUTO(free) char *path = error_file(j, rank);
        env_set(&own, "TORCHELASTIC_ERROR_FILE", "%s", path);
    }
    if (o->pmix_env)
        env_set(&own, "PMIX_RANK", "%d", j->map->local[rank]);
    int rc = j->pmi1 ? pmi1_server_rank(j->pmi1, j->map->local[rank], &pmi, &own, e) : 0;
    if (rc < 0)
        return rc;
    if (pmi >= 0)
        env_set(&own, "PMI_FD", "%d", GUARDIAN_PMI_FD);
    AUTO(free) char **env = env_overlay(j->common_env, own);
    struct guardian_rank g = {.rank = rank,
                              .argv = plan_rank_argv(j->plan, p),
                              .env = env,
                              .wdir = plan_rank_wdir(j->plan, p),
                              .cpus = p->cpus,
                              .mems = p->mems,
                              .cgroup = j->cgroup,
                              .fds = {fds[0], fds[1], fds[2]},
                              .report_fd = report_fd,
                              .pmi_fd = pmi};
    return guardian_spawn(j->engine->guardian, j->number, &g, e);
}

/* Opens a rank's streams and asks the guardian to start the rank. The guardian starts the first
 * ranks while this process opens the streams of the next ones. */
static int start_rank(struct local_job *j, const struct engine_start_opts *o, int rank,
                      int stdin_fd, struct err *e)
{
    struct engine_rank *r = &j->ranks[rank];
    AUTO(fd) int out = -1;
    AUTO(fd) int err = -1;
    AUTO(fd) int report = -1;
    const struct report_channel_events events = {rank, j->ev.report, j->arg};
    int rc = engine_local_open_stream(&r->streams[0], !o->spec->node.no_pty, &out, e);
    if (rc == 0)
        rc = engine_local_open_stream(&r->streams[1], !o->spec->node.no_pty, &err, e);
    if (rc == 0 && o->spec->node.reports)
        rc = report_channel_open(&r->channel, &report, j->engine->loop, &events, e);
    return rc < 0 ? rc : spawn_rank(j, o, rank, (int[]){stdin_fd, out, err}, report, e);
}

/* Opens a pipe that contains `text` and then ends. */
static int text_pipe(int *out, const char *text, struct err *e)
{
    AUTO(fd) int write_end = -1;
    int ends[2];
    if (strlen(text) > PIPE_BUF) /* so that the write does not block */
        return err_set(e, -E2BIG, "stdin: more than %d bytes", PIPE_BUF);
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_set(e, -errno, "stdin: %s", strerror(errno));
    *out = ends[0];
    write_end = ends[1];
    return write(write_end, text, strlen(text)) < 0
               ? err_set(e, -errno, "stdin: %s", strerror(errno))
               : 0;
}

static bool gives_stdin(const struct launch_spec *s)
{
    return !s->stdin_null && s->stdin_fd >= 0;
}

static int start_next(struct local_job *j, const struct engine_start_opts *o, struct err *e)
{
    int i = j->started++, in = j->engine->dev_null;
    AUTO(fd) int own = j->broadcast ? stdin_broadcast_take(j->broadcast, i) : -1;
    int rc = o->stdin_text ? text_pipe(&own, o->stdin_text, e) : 0;
    if (own >= 0)
        in = own;
    else if (gives_stdin(o->spec) && i == o->spec->node.stdin_rank)
        in = o->spec->stdin_fd;
    return rc < 0 ? rc : start_rank(j, o, i, in, e);
}

/* The remote launcher and the agents run as a job too, but without torchrun's variables. */
static bool is_users_program(const struct plan *p)
{
    return env_get(p->env, "TORCHELASTIC_RUN_ID");
}

/* Makes Python find drover.py, after all that the user's PYTHONPATH names. */
static void add_python_path(char ***env)
{
    AUTO(free) char *file = NULL;
    if (own_process_share(&file, "drover.py", NULL) < 0 || access(file, R_OK) < 0)
        return;
    *strrchr(file, '/') = '\0';
    const char *old = env_get(*env, "PYTHONPATH");
    env_set(env, "PYTHONPATH", "%s%s%s", old ? old : "", old && *old ? ":" : "", file);
}

static int start_ranks(struct local_job *j, const struct engine_start_opts *o, struct err *e)
{
    int now = o->at_once > 0 && o->at_once < j->count ? o->at_once : j->count, rc = 0;
    j->common_env = env_merge(o->base_env, o->plan->env, o->pmix_env);
    env_set(&j->common_env, "MASTER_PORT", "%d", o->master_port);
    if (is_users_program(o->plan))
        add_python_path(&j->common_env);
    if (gives_stdin(o->spec) && o->spec->stdin_all)
        rc = stdin_broadcast_open(&j->broadcast, j->engine->loop, o->spec->stdin_fd, j->count, e);
    while (rc == 0 && j->started < now)
        rc = start_next(j, o, e);
    if (rc < 0)
        guardian_kill_tree(j->engine->guardian, j->number); /* kills the ranks that were started */
    return rc;
}

int engine_local_start_next(struct engine_job *job, const struct engine_start_opts *o,
                            struct err *e)
{
    struct local_job *j = (struct local_job *)job;
    j->reaped = false;
    return start_next(j, o, e);
}

static bool wants_error_files(const struct plan *p)
{
    return is_users_program(p) && !env_get(p->env, "TORCHELASTIC_ERROR_FILE");
}

int engine_local_start(struct engine_job **out, struct engine *en,
                       const struct engine_start_opts *o, const struct engine_events *ev, void *arg,
                       struct err *e)
{
    static const struct engine_ops ops = {local_free,
                                          local_signal,
                                          local_request_stop,
                                          engine_local_resume,
                                          engine_local_finish_output,
                                          local_request_status,
                                          local_kill_tree,
                                          local_last_collective,
                                          NULL};
    if (en->guardian_ended)
        return err_set(e, -EPIPE, "the guardian process has ended");
    struct local_job *j = xzalloc(sizeof *j);
    j->job.ops = &ops;
    j->engine = en;
    j->plan = o->plan;
    j->cgroup = o->spec->cgroup ? xstrdup(o->spec->cgroup) : NULL;
    j->oom = cgroup_oom_open(j->cgroup);
    j->oom_kills_count = count_oom_kills(j);
    j->number = ++en->last_number;
    j->count = o->plan->world_size;
    j->ranks = xcalloc((size_t)j->count, sizeof *j->ranks);
    j->ev = *ev;
    j->arg = arg;
    struct err why = {0};
    if (wants_error_files(o->plan) && !en->error_files &&
        session_dir_beside(&en->error_files, SESSION_DIR_ERROR, &why) < 0)
        log_info("no TORCHELASTIC_ERROR_FILE: %s", why.text);
    j->has_error_files = wants_error_files(o->plan) && en->error_files;
    if (!o->spec->no_traces && trace_buffer_open(&j->traces, j->count, &why) < 0)
        log_info("no collective traces: %s", why.text);
    j->map = o->map;
    if (o->pmix_env)
        j->pmi1 = pmi1_server_open(en->loop, j->map, j->ev.of_ranks, j->arg);
    const struct report_channel_events from_ft = {0, j->ev.report, j->arg};
    int rc = engine_local_open_files(j, o->spec, o->plan, e);
    if (rc == 0 && o->spec->node.ft_config) {
        AUTO(strv) char **env = env_merge(o->base_env, o->plan->env, NULL);
        rc = ft_bridge_open(&j->ft, en->loop, o->spec->node.ft_config, env, j->count, &from_ft, e);
    }
    if (rc == 0)
        rc = start_ranks(j, o, e);
    if (rc < 0) {
        local_free(&j->job);
        return rc;
    }
    j->next = en->jobs;
    en->jobs = j;
    *out = &j->job;
    return 0;
}

int engine_open(struct engine **out, uv_loop_t *loop, struct guardian *g, struct err *e)
{
    static const struct guardian_events ev = {on_started, on_not_started, on_exited, on_cleared,
                                              on_guardian_ended};
    struct engine *en = xzalloc(sizeof *en);
    en->loop = loop;
    en->guardian = g;
    en->dev_null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int rc = en->dev_null < 0 ? err_set(e, -errno, "/dev/null: %s", strerror(errno))
                              : guardian_attach(g, loop, &ev, en, e);
    if (rc < 0) {
        auto_fd(&en->dev_null);
        free(en);
        return rc;
    }
    en->scratch = xrealloc(NULL, RANK_OUTPUT_READ_BYTES, 1);
    en->oom = NOT_OPENED;
    uv_timer_init(loop, &en->reaped_timer);
    en->reaped_timer.data = en;
    *out = en;
    return 0;
}

bool engine_has_ended(const struct engine *en)
{
    return en->guardian_ended;
}

uv_loop_t *engine_loop(const struct engine *en)
{
    return en->loop;
}

static void on_closed(uv_handle_t *h)
{
    struct engine *en = h->data;
    free(en->scratch);
    free(en);
}

void engine_close(struct engine *en)
{
    if (!en)
        return;
    assert(!en->jobs);
    guardian_detach(en->guardian);
    free(en->error_files);
    auto_fd(&en->oom);
    auto_fd(&en->dev_null);
    uv_close((uv_handle_t *)&en->reaped_timer, on_closed);
}
