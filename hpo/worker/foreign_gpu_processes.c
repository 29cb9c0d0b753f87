#include "hpo/worker/foreign_gpu_processes.h"

#include <stdio.h>

#include "common/byte_size.h"
#include "common/log.h"
#include "launcher/gpu/gpu_lock.h"
#include "launcher/gpu/gpu_sampler.h"
#include "launcher/guardian/process_tree.h"

enum { PATIENCE_MS = 30000 }; /* for an answer of the driver */

struct foreign_gpu_processes {
    uv_loop_t *loop;
    uv_timer_t timer;
    uv_work_t work;
    int period_ms;
    foreign_gpu_processes_fn *fn; /* NULL: closed */
    void *arg;
    bool working, failed;
    int64_t asked_ms;
    /* Owned by the thread while it works. */
    struct foreign_gpu_process *list;
    int count;
    struct err error;
};

/* ---- in the thread -------------------------------------------------------------------------- */

/* Returns false if no process outside drover uses the GPU. */
static bool read_use(struct foreign_gpu_process *out, const struct gpu_sample *g)
{
    *out = (struct foreign_gpu_process){0};
    snprintf(out->uuid, sizeof out->uuid, "%s", g->gpu.uuid);
    if (gpu_lock_is_held(g->gpu.uuid) && !process_tree_is_ancestor(gpu_lock_owner(g->gpu.uuid))) {
        out->seen = true;
        gpu_users_describe_lock(out->text, sizeof out->text, g->gpu.uuid);
        return true;
    }
    for (int i = 0; i < g->process_count; i++) {
        struct process_tree_proc w;
        pid_t pid = g->processes[i].pid;
        if (process_tree_is_descendant(pid) || process_tree_read(&w, pid) < 0)
            continue; /* without an entry in /proc, it is in another namespace, or has ended */
        out->seen = true;
        gpu_users_describe(out->text, sizeof out->text, pid);
        return true;
    }
    char size[16];
    snprintf(out->text, sizeof out->text, "%s of its memory are in use",
             byte_size_format(size, sizeof size,
                              (uint64_t)gpu_sample_value(g, GPU_FACT_MEMORY_USED, 0)));
    return gpu_sample_has_users(g);
}

static void scan(uv_work_t *w)
{
    struct foreign_gpu_processes *s = w->data;
    AUTO(free) struct gpu_sample *gpus = NULL;
    int n = 0;
    s->error = (struct err){0};
    /* on_scanned() reports the error */
    (void)gpu_sampler_once(&gpus, &n, GPU_USE, GPU_DRIVER_MS, &s->error);
    s->list = xcalloc((size_t)n, sizeof *s->list);
    s->count = 0;
    for (int i = 0; i < n; i++)
        s->count += read_use(&s->list[s->count], &gpus[i]);
}

/* ---- on the loop ---------------------------------------------------------------------------- */

static void on_timer(uv_timer_t *t);

static void on_closed(uv_handle_t *h)
{
    free(h->data);
}

static void on_scanned(uv_work_t *w, int status)
{
    struct foreign_gpu_processes *s = w->data;
    AUTO(free) struct foreign_gpu_process *list = TAKE(s->list);
    s->working = false;
    if (!s->fn) {
        uv_close((uv_handle_t *)&s->timer, on_closed);
        return;
    }
    if (s->error.code < 0 && !s->failed)
        log_warn("cannot tell which processes use the GPUs: %s", s->error.text);
    s->failed = s->error.code < 0;
    uv_timer_start(&s->timer, on_timer, (uint64_t)s->period_ms, 0);
    s->fn(s->arg, list, s->failed ? -1 : s->count, s->asked_ms); /* may close it */
}

static void on_timer(uv_timer_t *t)
{
    struct foreign_gpu_processes *s = t->data;
    if (s->working) {
        log_warn("the NVIDIA driver did not report the processes on the GPUs within %d s",
                 PATIENCE_MS / 1000);
        s->fn(s->arg, NULL, -1, s->asked_ms);
        return; /* the answer may still arrive */
    }
    s->asked_ms = (int64_t)uv_now(s->loop);
    s->working = uv_queue_work(s->loop, &s->work, scan, on_scanned) == 0;
    /* If no thread can be started, try again in a period. */
    uv_timer_start(t, on_timer, s->working ? PATIENCE_MS : (uint64_t)s->period_ms, 0);
}

struct foreign_gpu_processes *foreign_gpu_processes_open(uv_loop_t *loop, int period_ms,
                                                         foreign_gpu_processes_fn *fn, void *arg)
{
    struct foreign_gpu_processes *s = xzalloc(sizeof *s);
    s->loop = loop;
    s->period_ms = period_ms;
    s->fn = fn;
    s->arg = arg;
    uv_timer_init(loop, &s->timer);
    s->timer.data = s->work.data = s;
    on_timer(&s->timer);
    return s;
}

void foreign_gpu_processes_close(struct foreign_gpu_processes *s)
{
    if (!s)
        return;
    s->fn = NULL;
    uv_timer_stop(&s->timer);
    if (!s->working) /* else on_scanned() closes it */
        uv_close((uv_handle_t *)&s->timer, on_closed);
}
