#include "hpo/worker/self_test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "common/file.h"
#include "common/json.h"
#include "hpo/worker/run_result.h"
#include "hpo/worker/trial_dir.h"
#include "launcher/engine/launch.h"
#include "launcher/node/cgroup.h"
#include "launcher/plan/plan.h"

enum { FILE_BYTES = 1 << 20, GRACE_MS = 1000, LEASE = 1 };

struct self_test {
    const struct lease_context *context;
    self_test_done_fn *done;
    void *arg;
    bool running;
    char *dir; /* as the directory of a trial; NULL: this worker has no trial's directory yet */
    uv_work_t work;
    struct err error; /* of the thread; read by on_written() */
    char *cgroup;     /* NULL: none */
    struct launch *job;
};

struct self_test *self_test_new(const struct lease_context *c, self_test_done_fn *done, void *arg)
{
    struct self_test *t = xzalloc(sizeof *t);
    t->context = c;
    t->done = done;
    t->arg = arg;
    return t;
}

void self_test_free(struct self_test *t)
{
    free(t);
}

bool self_test_is_running(const struct self_test *t)
{
    return t->running;
}

static void finish(struct self_test *t, const char *cause)
{
    cgroup_delegate_remove(t->cgroup);
    free(TAKE(t->cgroup));
    free(TAKE(t->dir));
    t->running = false;
    t->done(t->arg, cause);
}

/* ---- files, in a thread --------------------------------------------------------------------- */

static int write_file(const char *path, struct err *e)
{
    AUTO(fd) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    AUTO(free) char *bytes = xzalloc(FILE_BYTES);
    int rc = fd < 0 ? -errno : file_write_all(fd, bytes, FILE_BYTES);
    if (rc == 0 && fsync(fd) < 0)
        rc = -errno;
    return rc < 0 ? err_set(e, rc, "%s: %s", path, strerror(-rc)) : 0;
}

/* Removes what trial_dir_make() and write_file() have made. Paths that do not exist are skipped. */
static void remove_files(const char *dir)
{
    static const char *const paths[] = {"/1/ckpt/file", "/1/ckpt",      "/1/config.yaml",
                                        "/1",           "/params.json", ""};
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        AUTO(free) char *path = xasprintf("%s%s", dir, paths[i]);
        (void)remove(path); /* what remains is small, and the next test removes it */
    }
}

static void write_files(uv_work_t *w)
{
    struct self_test *t = w->data;
    const struct trial_dir_opts opts = {t->dir, LEASE, "{}\n", "{}\n"};
    AUTO(free) char *path = xasprintf("%s/%d/ckpt/file", t->dir, LEASE);
    bool resumed;
    int64_t from;
    if (trial_dir_make(&opts, &resumed, &from, &t->error) == 0)
        (void)write_file(path, &t->error);
    remove_files(t->dir);
}

/* ---- the job -------------------------------------------------------------------------------- */

static void on_ended(void *arg, const struct job_end *end)
{
    struct self_test *t = arg;
    AUTO(json) json_t *result = run_result_json(end, false);
    bool failed = end->first_failed >= 0 && end->first.start_node_fault;
    launch_free(TAKE(t->job));
    finish(t, failed ? json_string_value(json_object_get(result, "error")) : NULL);
}

static const struct launch_events events = {.ended = on_ended};

static void start_job(struct self_test *t)
{
    static char *argv[] = {"true", NULL};
    const struct lease_context *c = t->context;
    struct err e = {0};
    t->cgroup = lease_context_make_cgroup(c, 0);
    const struct launch_spec spec = {.ranks = c->need->ranks,
                                     .argv = argv,
                                     .wdir = c->paths ? c->paths->wdir : NULL,
                                     .oversubscribe = true,
                                     .bind_to = PLAN_BIND_NONE,
                                     .grace_ms = GRACE_MS,
                                     .node.reports = true,
                                     .no_traces = true,
                                     .stdin_null = true,
                                     .cgroup = t->cgroup};
    if (launch_start(&t->job, c->launcher, &spec, &events, t, &e) < 0)
        finish(t, e.text);
}

static void on_written(uv_work_t *w, int status)
{
    struct self_test *t = w->data;
    if (t->error.code < 0)
        finish(t, t->error.text);
    else
        start_job(t);
}

void self_test_start(struct self_test *t)
{
    const struct lease_context *c = t->context;
    if (t->running)
        return;
    t->running = true;
    t->error = (struct err){0};
    if (!c->paths) {
        start_job(t);
        return;
    }
    t->dir = xasprintf("%s/trials/self-test.%s.%d", c->paths->sweep, topo_name(c->launcher->topo),
                       (int)getpid());
    t->work.data = t;
    if (uv_queue_work(c->loop, &t->work, write_files, on_written) < 0)
        finish(t, "cannot start a thread");
}
