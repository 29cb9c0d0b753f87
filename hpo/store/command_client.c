#include "hpo/store/command_client.h"

#include <errno.h>
#include <time.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"
#include "common/wait_line.h"
#include "hpo/store/command_mailbox.h"
#include "hpo/store/stored_sweep.h"

enum { POLL_MS = 20 };

/* ---- without a coordinator ------------------------------------------------------------------ */

/* Applies a command; its records become part of the next commit. If the scheduler rejects the
 * command, `rejected` says why. */
static int apply(struct stored_sweep *v, const json_t *command, struct scheduler_out *out,
                 struct err *rejected, struct err *e)
{
    const struct scheduler_event ev = {.kind = SCHEDULER_EV_COMMAND, .data = (json_t *)command};
    if (sweep_dir_check_command(v->dir, command, rejected) < 0)
        return 0;
    /* The sender gets an error of the scheduler in the reply. */
    (void)scheduler_handle(v->sched, &ev, clock_ms_of(CLOCK_REALTIME), out, rejected);
    for (size_t i = 0; i < out->record_count; i++)
        if (event_store_append(v->dir->store, &out->records[i], 0, e) < 0)
            return e->code;
    /* A command that has records reopens a sweep that had ended. */
    return out->record_count > 0 ? event_store_put(v->dir->store, SWEEP_DIR_META_ENDED, "", e) : 0;
}

/* Applies all commands of the mailbox and replies to them. */
static int apply_all(struct stored_sweep *v, struct err *e)
{
    AUTO(command_mailbox) struct command_mailbox *m = command_mailbox_open(v->dir->path);
    struct scheduler_out out = {0};
    int rc = 0;
    for (size_t i = 0; m && i < command_mailbox_count(m) && rc == 0; i++) {
        struct err rejected = {0};
        rc = apply(v, command_mailbox_get(m, i), &out, &rejected, e);
        command_mailbox_set_reply(m, i, &rejected, v->sched, &out);
    }
    scheduler_out_free(&out);
    if (rc == 0)
        rc = event_store_commit(v->dir->store, e);
    if (rc == 0 && m)
        command_mailbox_commit(m);
    return rc;
}

/* ---- sending -------------------------------------------------------------------------------- */

struct request {
    const char *root, *name, *id;
    char *dir; /* the sweep's directory */
    struct sweep_owner_watch watch;
};

/* Makes one attempt to get the reply, or to apply the command. Returns 1 with the reply, or 0 if
 * there is none yet. */
static int attempt(struct request *r, json_t **reply, bool *applied_here, struct err *e)
{
    AUTO(stored_sweep) struct stored_sweep *v = NULL;
    *reply = command_mailbox_poll_reply(r->dir, r->id);
    if (*reply)
        return 1;
    int rc = stored_sweep_lock(&v, r->root, r->name, &r->watch, e);
    /* The reply of a coordinator that has just ended */
    *reply = command_mailbox_poll_reply(r->dir, r->id);
    if (rc < 0 && rc != -EBUSY && !*reply)
        return rc;
    *applied_here = rc == 0 && !*reply;
    if (*applied_here) {
        rc = apply_all(v, e);
        if (rc < 0)
            return rc;
        *reply = command_mailbox_poll_reply(r->dir, r->id);
    }
    return *reply != NULL;
}

static int no_reply(const struct request *r, struct err *e)
{
    struct lockfile_owner o = sweep_owner_read(r->dir);
    if (o.held && o.pid > 0)
        err_set(e, -ETIMEDOUT, "sweep '%s': its coordinator, process %d on %s, does not answer",
                r->name, (int)o.pid, o.host);
    else
        err_set(e, -ETIMEDOUT, "sweep '%s': its coordinator does not answer", r->name);
    command_mailbox_abandon(r->dir, r->id);
    return err_hint(e, "wait, since the command stays queued; or withdraw it: rm %s/commands/%s",
                    r->dir, r->id);
}

/* Sets the directory, and says in the command for which sweep it is. */
static int name_sweep(struct request *r, json_t *command, struct err *e)
{
    AUTO(sweep_dir) struct sweep_dir *d = NULL;
    int rc = sweep_dir_read(&d, r->root, r->name, e);
    if (rc < 0)
        return rc;
    r->dir = xstrdup(d->path);
    if (d->instance)
        json_object_set_new(command, "instance", json_integer(d->instance));
    return 0;
}

static int wait_for_reply(struct request *r, json_t **reply, bool *applied_here, struct err *e)
{
    const struct timespec pause = {.tv_nsec = POLL_MS * 1000000};
    int64_t end = clock_ms() + COMMAND_CLIENT_TIMEOUT_MS;
    struct wait_line wait;
    wait_line_begin(&wait, clock_ms());
    for (int rc = 0; clock_ms() < end || r->watch.undecided; nanosleep(&pause, NULL)) {
        struct err why = {0};
        rc = attempt(r, reply, applied_here, &why);
        /* Another machine may see for a moment files that the coordinator has removed. */
        if (rc < 0 && (rc != -EIO || clock_ms() + POLL_MS >= end)) {
            *e = why;
            return rc;
        }
        if (rc > 0) {
            log_status(NULL);
            return 0;
        }
        if (r->watch.undecided && wait_line_due(&wait, clock_ms()))
            wait_line_say(&wait, clock_ms(), "sweep '%s': another machine may work on it", r->name);
    }
    return no_reply(r, e);
}

int command_client_send(json_t **reply, bool *applied_here, const char *root, const char *name,
                        json_t *command, struct err *e)
{
    const char *id = command_mailbox_set_id(command, e);
    if (!id)
        return e->code;
    AUTO(json) json_t *received = NULL;
    struct request r = {.root = root, .name = name, .id = id};
    int rc = name_sweep(&r, command, e);
    if (rc == 0)
        rc = command_mailbox_submit(r.dir, command, e);
    if (rc == 0)
        rc = wait_for_reply(&r, &received, applied_here, e);
    free(r.dir);
    if (rc < 0)
        return rc;
    const char *error = json_string_value(json_object_get(received, "error"));
    const char *hint = json_string_value(json_object_get(received, "hint"));
    if (error) {
        err_set(e, -EINVAL, "%s", error);
        return hint && *hint ? err_hint(e, "%s", hint) : -EINVAL;
    }
    *reply = TAKE(received);
    return 0;
}
