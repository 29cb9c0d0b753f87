#include "launcher/place/placement.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/strbuf.h"
#include "launcher/guardian/process_tree.h"
#include "launcher/jobs/history_command.h"
#include "launcher/jobs/history_jobs.h"

/* A lock is looked at often, since that is cheap. The driver is asked less often, or when a lock
 * has changed. */
enum { LOCK_POLL_MS = 50, DRIVER_POLL_MS = 1000 };

static void set_gpus(struct placement *p)
{
    AUTO(strbuf) struct strbuf b = {0};
    for (int i = 0; i < p->choice.count; i++)
        strbuf_printf(&b, "%s%s", i ? "," : "", p->inventory.gpus[p->choice.gpus[i]].now.gpu.uuid);
    free(p->gpus);
    p->gpus = strbuf_take(&b);
}

/* Joins the queue for the GPUs that would suit the job if they were idle. */
static void join_queue(struct placement *p, const struct place_choice *idle)
{
    const char *uuids[PLACE_GPUS_MAX];
    int count = 0;
    for (int i = 0; i < p->inventory.count && i < PLACE_GPUS_MAX; i++)
        if (idle->each[i].rule < 0)
            uuids[count++] = p->inventory.gpus[i].now.gpu.uuid;
    p->wait_fd = gpu_lock_wait(uuids, count, p->arrived_ns);
}

/* Selects from the present inventory. If the job would not fit even on idle GPUs, the error is
 * -ENOSPC, with what would fit; if they are busy, and the job `waits`, it joins the queue. */
static int select_gpus(struct placement *p, bool waits, struct err *e)
{
    const struct place_inventory *in = &p->inventory;
    AUTO(free) struct place_choice *idle = xzalloc(sizeof *idle);
    struct err never = {0};
    int rc = place_select(&p->choice, p->job, in->gpus, in->count, false, e);
    if (rc != -EBUSY)
        return rc;
    if (place_select(idle, p->job, in->gpus, in->count, true, &never) == 0) {
        if (waits && p->wait_fd < 0)
            join_queue(p, idle);
        return rc;
    }
    p->choice = *idle; /* the verdicts that never change */
    *e = never;
    e->code = -ENOSPC;
    return place_select_advise(idle, p->job, in->gpus, in->count, e);
}

/* Locks the selected GPUs in the order of their UUIDs, so that of two placements that want the same
 * ones, one gets all. */
static int lock_gpus(struct placement *p, struct err *e)
{
    const struct place_choice *c = &p->choice;
    const char *last = "";
    int rc = 0;
    for (int i = 0; rc == 0 && i < c->count; i++) {
        const char *next = NULL;
        for (int k = 0; k < c->count; k++) {
            const char *uuid = p->inventory.gpus[c->gpus[k]].now.gpu.uuid;
            if (strcmp(uuid, last) > 0 && (!next || strcmp(uuid, next) < 0))
                next = uuid;
        }
        last = next ? next : "";
        rc = gpu_locks_add(&p->locks, last, e);
    }
    if (rc < 0)
        gpu_locks_free(&p->locks);
    return rc;
}

/* Selects and locks. While it does, no other placement of this machine selects. */
static int try_now(struct placement *p, struct err *e)
{
    AUTO(fd) int selection = gpu_lock_selection();
    p->lock_state = gpu_lock_state();
    place_inventory_update_locks(&p->inventory, p->arrived_ns);
    int rc = select_gpus(p, p->job->timeout_s > 0, e);
    return rc < 0 ? rc : lock_gpus(p, e);
}

/* Waits until the GPUs may have become free, or the deadline has passed. */
static void await_change(uint64_t lock_state, int64_t deadline)
{
    int64_t next = clock_ms() + DRIVER_POLL_MS;
    next = next < deadline ? next : deadline;
    while (clock_ms() < next && gpu_lock_state() == lock_state)
        usleep(LOCK_POLL_MS * 1000);
}

static int wait_for_gpus(struct placement *p, const char *labels_file, struct err *e)
{
    double timeout_s = p->job->timeout_s;
    int64_t deadline = clock_ms() + (int64_t)(timeout_s * 1000);
    int rc = try_now(p, e);
    if (rc == -EBUSY && timeout_s > 0)
        log_warn("waiting up to %g s for GPUs: %s", timeout_s, e->text);
    while (rc == -EBUSY && clock_ms() < deadline) {
        await_change(p->lock_state, deadline);
        place_inventory_free(&p->inventory);
        rc = place_inventory_read(&p->inventory, labels_file, e);
        rc = rc < 0 ? rc : try_now(p, e);
    }
    auto_fd(&p->wait_fd);
    p->wait_fd = -1;
    if (rc == -EBUSY && timeout_s > 0)
        err_wrap(e, "after %g s", timeout_s);
    else if (rc == -EBUSY && !e->hint[0])
        err_hint(e, "scheduler: {timeout: 300} waits for them");
    return rc;
}

/* Adds the peaks of earlier jobs of the program. Without a history, the formula has to suffice. */
static void read_peaks(struct place_job *j, const struct placement_opts *o)
{
    AUTO(free) char *cwd = getcwd(NULL, 0);
    struct history_command c;
    struct err e = {0};
    if (!o->argv || !o->argv[0] || !j->has_model)
        return;
    history_command_read(&c, o->argv, o->wdir ? o->wdir : cwd ? cwd : "/");
    if (history_jobs_read(&j->earlier, &c, &e) < 0)
        log_info("earlier jobs do not correct the estimate: %s", e.text);
    history_command_end(&c);
}

static int open_job(struct placement **out, const struct placement_opts *o, struct err *e)
{
    AUTO(placement) struct placement *p = xzalloc(sizeof *p);
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    p->wait_fd = -1;
    p->arrived_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    int rc = place_job_read(&p->job, o->file, e);
    if (rc == 0)
        rc = place_inventory_read(&p->inventory, o->labels_file, e);
    if (rc < 0)
        return rc;
    read_peaks(p->job, o);
    for (char **n = p->job->notes; n && *n; n++)
        log_warn("%s", *n);
    *out = TAKE(p);
    return 0;
}

int placement_open(struct placement **out, const struct placement_opts *o, struct err *e)
{
    AUTO(placement) struct placement *p = NULL;
    int rc = open_job(&p, o, e);
    if (rc < 0)
        return rc;
    rc = wait_for_gpus(p, o->labels_file, e);
    if (rc < 0)
        return err_wrap(e, "%s", o->file);
    set_gpus(p);
    *out = TAKE(p);
    return 0;
}

static void set_idle(struct place_gpu *g)
{
    g->locked = g->reserved = g->used = false;
    gpu_sample_set(&g->now, GPU_FACT_MEMORY_USED, 0);
    gpu_sample_set(&g->now, GPU_FACT_MEMORY_FREE, (int64_t)place_gpu_memory(g));
}

int placement_preview(struct placement **out, const struct placement_opts *o, struct err *e)
{
    *out = NULL;
    int rc = open_job(out, o, e);
    if (rc < 0)
        return rc;
    place_inventory_update_locks(&(*out)->inventory, (*out)->arrived_ns);
    for (int i = 0; o->idle && i < (*out)->inventory.count; i++)
        set_idle(&(*out)->inventory.gpus[i]);
    rc = select_gpus(*out, false, e);
    if (rc == 0)
        set_gpus(*out);
    else if (rc != -EBUSY && rc != -ENOSPC)
        placement_close(TAKE(*out));
    return rc < 0 ? err_wrap(e, "%s", o->file) : 0;
}

void placement_warn(const struct plan *p)
{
    char owner[200];
    const char *last = "";
    for (int i = 0; plan_is_local(p) && i < p->world_size; i++) {
        const char *uuid = p->ranks[i].gpu_uuid;
        if (!uuid || strcmp(uuid, last) == 0 || !gpu_lock_is_held(uuid) ||
            process_tree_is_ancestor(gpu_lock_owner(uuid)))
            continue;
        last = uuid;
        gpu_users_describe_lock(owner, sizeof owner, uuid);
        log_warn("GPU%d is locked by %s; this job uses it, too", p->ranks[i].gpu, owner);
    }
}

void placement_close(struct placement *p)
{
    if (!p)
        return;
    place_job_free(p->job);
    place_inventory_free(&p->inventory);
    gpu_locks_free(&p->locks);
    auto_fd(&p->wait_fd);
    free(p->gpus);
    free(p);
}
