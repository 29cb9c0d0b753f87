#include "hpo/store/command_client.h"

#include <errno.h>
#include <stdio.h>
#include <sys/random.h>
#include <time.h>

#include "common/clock.h"
#include "common/json.h"
#include "hpo/store/command_mailbox.h"
#include "hpo/store/lockfile.h"
#include "hpo/store/sweep_reader.h"

enum { LOOK_MS = 20 };

/* ---- where nobody holds the sweep ----------------------------------------------------------- */

/* What follows from an ask, as part of the next commit. */
static int step(struct sweep_reader *v, const json_t *ask, struct scheduler_out *out,
                struct err *why, struct err *e)
{
    const struct scheduler_event ev = {.kind = SCHEDULER_EV_COMMAND, .data = (json_t *)ask};
    (void)scheduler_handle(v->sched, &ev, clock_ms_of(CLOCK_REALTIME), out,
                           why); /* who asked is told */
    for (size_t i = 0; i < out->record_count; i++)
        if (event_store_append(v->dir->store, &out->records[i], 0, e) < 0)
            return e->code;
    return 0;
}

/* Answers all asks that lie there. */
static int answer_all(struct sweep_reader *v, struct err *e)
{
    AUTO(command_mailbox) struct command_mailbox *d = command_mailbox_open(v->dir->path);
    struct scheduler_out out = {0};
    int rc = 0;
    for (size_t i = 0; d && i < command_mailbox_count(d) && rc == 0; i++) {
        struct err why = {0};
        rc = step(v, command_mailbox_get(d, i), &out, &why, e);
        command_mailbox_set_reply(d, i, &why, v->sched, &out);
    }
    scheduler_out_free(&out);
    if (rc == 0)
        rc = event_store_commit(v->dir->store, e);
    if (rc == 0 && d)
        command_mailbox_commit(d);
    return rc;
}

/* ---- asking --------------------------------------------------------------------------------- */

struct asking {
    const char *root, *name, *id;
    char *dir;
    json_t *ask;
    bool laid; /* on the desk */
};

/* One attempt. Returns 1 with the answer, or 0: it is not there yet. */
static int attempt(struct asking *a, json_t **answer, bool *here, struct err *e)
{
    if (!a->laid) {
        int rc = command_mailbox_submit(a->dir, a->ask, e);
        if (rc < 0)
            return rc == -EBUSY ? 0 : rc;
        a->laid = true;
    }
    AUTO(sweep_reader) struct sweep_reader *v = NULL;
    int rc = sweep_reader_open_locked(&v, a->root, a->name, e);
    if (rc < 0 && rc != -EBUSY)
        return rc;
    *answer = command_mailbox_poll_reply(a->dir, a->id); /* of who held it until then */
    *here = rc == 0 && !*answer;
    if (*here) {
        rc = answer_all(v, e);
        if (rc < 0)
            return rc;
        *answer = command_mailbox_poll_reply(a->dir, a->id);
    }
    return *answer != NULL;
}

static int no_answer(const struct asking *a, struct err *e)
{
    AUTO(free) char *path = xasprintf("%s/lock", a->dir);
    struct lockfile_owner o = {0};
    if (lockfile_read_owner(&o, path, NULL) == 0 && o.held && o.pid > 0)
        err_set(e, -ETIMEDOUT, "sweep '%s': its coordinator, process %d on %s, does not answer",
                a->name, (int)o.pid, o.host);
    else
        err_set(e, -ETIMEDOUT, "sweep '%s': whoever holds it does not answer", a->name);
    command_mailbox_abandon(a->dir, a->id);
    return a->laid ? err_hint(e,
                              "what was asked is done once it answers again, or by the next one; "
                              "rm %s/asks  takes it back",
                              a->dir)
                   : -ETIMEDOUT;
}

static int wait_for(struct asking *a, json_t **answer, bool *here, struct err *e)
{
    const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000};
    int64_t end = clock_ms() + COMMAND_CLIENT_TIMEOUT_MS;
    for (int rc = 0; clock_ms() < end; nanosleep(&pause, NULL)) {
        struct err why = {0};
        rc = attempt(a, answer, here, &why);
        if (rc < 0) {
            *e = why;
            return rc;
        }
        if (rc > 0)
            return 0;
    }
    return no_answer(a, e);
}

int command_client_send(json_t **answer, bool *here, const char *root, const char *name,
                        json_t *ask, struct err *e)
{
    char id[24];
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return err_set(e, -errno, "no random number can be had");
    snprintf(id, sizeof id, "%016llx", (unsigned long long)random);
    json_object_set_new(ask, "ask", json_string(id));
    AUTO(json) json_t *got = NULL;
    struct asking a = {.root = root, .name = name, .id = id, .ask = ask};
    int rc = sweep_dir_find(&a.dir, root, name, e);
    if (rc == 0)
        rc = wait_for(&a, &got, here, e);
    free(a.dir);
    if (rc < 0)
        return rc;
    const char *error = json_string_value(json_object_get(got, "error"));
    const char *hint = json_string_value(json_object_get(got, "hint"));
    if (error) {
        err_set(e, -EINVAL, "%s", error);
        return hint && *hint ? err_hint(e, "%s", hint) : -EINVAL;
    }
    *answer = TAKE(got);
    return 0;
}
