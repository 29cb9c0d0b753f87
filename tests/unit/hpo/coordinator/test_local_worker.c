/* test_local_worker - a worker on this host that exits whenever it is started. The worker is this
 * program: with a worker's arguments it runs no test and exits. */
#include "hpo/coordinator/local_worker.h"

#include "hpo/store/lockfile.h"
#include "tests/unit/test.h"

struct heard {
    char lock[64];
    int workers;     /* that were started, w1 first */
    char exited[32]; /* the last worker whose exit was reported */
    int failed;
};

/* Writes into the lock file what the next worker would. */
static void register_worker(struct heard *h)
{
    char id[32];
    int fd = -1;
    struct err e = {0};
    snprintf(id, sizeof id, "w%d", ++h->workers);
    CHECK_INT(lockfile_acquire(&fd, h->lock, id, &e), 0);
    close(fd);
}

static void on_exited(void *arg, const char *id)
{
    struct heard *h = arg;
    CHECK_INT(h->failed, 0);
    snprintf(h->exited, sizeof h->exited, "%s", id);
    register_worker(h);
}

static void on_failed(void *arg, const struct err *e)
{
    struct heard *h = arg;
    CHECK_HAS(e->text, "exits as soon as it is started");
    h->failed++;
}

static void on_released(void *arg)
{
}

TEST(the_exit_of_the_last_worker_is_reported_before_the_failure)
{
    static const struct local_worker_events events = {on_exited, on_failed, on_released};
    struct heard h = {.lock = "/tmp/test_local_worker.XXXXXX"};
    const struct local_worker_opts opts = {"ipc:///nowhere", h.lock, "/nowhere",
                                           "/dev/null",      1,      NULL};
    uv_loop_t loop;
    CHECK_INT(uv_loop_init(&loop), 0);
    int fd = mkstemp(h.lock);
    CHECK(fd >= 0);
    close(fd);
    struct local_worker *w = local_worker_new(&loop, &opts, &events, &h);
    register_worker(&h);
    local_worker_start(w);
    while (h.failed == 0)
        uv_run(&loop, UV_RUN_ONCE);
    CHECK_STR(h.exited, "w7"); /* w1 is of an earlier coordinator; this one has started six */
    local_worker_free(w);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&loop), 0);
    CHECK_INT(unlink(h.lock), 0);
}
