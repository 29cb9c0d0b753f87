#include "hpo/store/command_mailbox.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/json.h"
#include "common/log.h"

enum { BYTES_MAX = 16 << 20 };

struct command_mailbox {
    char *dir;
    FILE *file; /* of the asks, locked */
    json_t *asks, *answers;
};

static char *answer_path(const char *dir, const char *id)
{
    return xasprintf("%s/answer.%s", dir, id);
}

/* -EBUSY: somebody else has them. */
static int open_asks(int *out, const char *dir, int flags, struct err *e)
{
    AUTO(free) char *path = xasprintf("%s/asks", dir);
    AUTO(fd) int fd = open(path, O_RDWR | O_CLOEXEC | flags, 0666);
    if (fd < 0)
        return err_set(e, -errno, "%s: %s", path, strerror(errno));
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(fd, F_OFD_SETLK, &lock) < 0)
        return err_set(e, errno == EACCES || errno == EAGAIN ? -EBUSY : -errno, "%s: lock: %s",
                       path, strerror(errno));
    *out = fd_take(&fd);
    return 0;
}

static int write_all(int fd, const char *text, const char *path, struct err *e)
{
    size_t len = strlen(text);
    ssize_t n = write(fd, text, len);
    if (n == (ssize_t)len && fsync(fd) == 0)
        return 0;
    int code = n < 0 || n == (ssize_t)len ? errno : ENOSPC;
    return err_set(e, -code, "%s: %s", path, strerror(code));
}

/* ---- who asks ------------------------------------------------------------------------------- */

int command_mailbox_submit(const char *dir, const json_t *ask, struct err *e)
{
    const char *id = json_string_value(json_object_get(ask, "ask"));
    AUTO(free) char *text = json_line(ask), *line = xasprintf("%s\n", text);
    AUTO(free) char *path = answer_path(dir, id);
    AUTO(fd) int fd = -1, sheet = -1;
    int rc = open_asks(&fd, dir, O_CREAT, e);
    if (rc < 0)
        return rc;
    sheet = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    off_t end = lseek(fd, 0, SEEK_END);
    if (sheet < 0 || end < 0)
        return err_set(e, -errno, "%s: %s", path, strerror(errno));
    rc = write_all(fd, line, path, e);
    if (rc < 0) {
        (void)ftruncate(fd, end); /* half a line is dropped by who reads it */
        command_mailbox_abandon(dir, id);
    }
    return rc;
}

json_t *command_mailbox_poll_reply(const char *dir, const char *id)
{
    AUTO(free) char *path = answer_path(dir, id);
    json_t *answer = json_load_file(path, 0, NULL); /* half of one is none */
    if (answer)
        command_mailbox_abandon(dir, id);
    return answer;
}

void command_mailbox_abandon(const char *dir, const char *id)
{
    AUTO(free) char *path = answer_path(dir, id);
    (void)unlink(path); /* may not have been made */
}

/* ---- who answers ---------------------------------------------------------------------------- */

static void read_asks(struct command_mailbox *d)
{
    AUTO(free) char *line = NULL;
    size_t cap = 0;
    for (ssize_t n; (n = getline(&line, &cap, d->file)) > 0;) {
        struct err e = {0};
        json_t *ask = NULL;
        if (json_parse(&ask, line, (size_t)n, &e) < 0)
            log_warn("%s/asks: a line is dropped: %s", d->dir, e.text);
        else
            json_array_append_new(d->asks, ask);
    }
}

struct command_mailbox *command_mailbox_open(const char *dir)
{
    AUTO(fd) int fd = -1;
    if (open_asks(&fd, dir, 0, NULL) < 0)
        return NULL;
    struct stat st;
    if (fstat(fd, &st) < 0 || st.st_size == 0 || st.st_size > BYTES_MAX)
        return NULL;
    FILE *f = fdopen(fd, "r+");
    if (!f)
        return NULL;
    fd = -1;
    struct command_mailbox *d = xzalloc(sizeof *d);
    d->file = f;
    d->dir = xstrdup(dir);
    d->asks = json_array();
    d->answers = json_array();
    read_asks(d);
    return d;
}

void command_mailbox_close(struct command_mailbox *d)
{
    if (!d)
        return;
    fclose(d->file);
    free(d->dir);
    json_decref(d->asks);
    json_decref(d->answers);
    free(d);
}

size_t command_mailbox_count(const struct command_mailbox *d)
{
    return json_array_size(d->asks);
}

const json_t *command_mailbox_get(const struct command_mailbox *d, size_t i)
{
    return json_array_get(d->asks, i);
}

/* Trials that the user has brought in. */
static json_t *brought(const struct scheduler_out *out)
{
    json_t *list = json_array();
    for (size_t i = 0; i < out->record_count; i++) {
        const struct scheduler_record *r = &out->records[i];
        if (r->kind == SCHEDULER_REC_RETRIED || json_is_true(json_object_get(r->data, "added")))
            json_array_append_new(list, json_integer(r->trial));
    }
    return list;
}

void command_mailbox_set_reply(struct command_mailbox *d, size_t i, const struct err *error,
                               const struct scheduler *s, const struct scheduler_out *out)
{
    const json_t *id = json_object_get(command_mailbox_get(d, i), "ask");
    struct scheduler_counts c = scheduler_counts(s);
    json_t *answer =
        error->code < 0
            ? json_pack("{s:s, s:s}", "error", error->text, "hint", error->hint)
            : json_pack("{s:b, s:o, s:i, s:b}", "ok", 1, "trials", brought(out), "running",
                        c.running + c.stopping, "over", scheduler_is_done(s));
    json_array_append_new(d->answers, json_pack("[O?, o]", id, answer));
}

/* Only where a sheet lies: nobody waits for other answers. */
static void answer(const char *dir, const char *id, const json_t *text)
{
    AUTO(free) char *path = answer_path(dir, id), *line = json_line(text);
    AUTO(fd) int fd = open(path, O_WRONLY | O_CLOEXEC);
    struct err e = {0};
    if (fd >= 0 && write_all(fd, line, path, &e) < 0)
        log_warn("%s", e.text);
}

void command_mailbox_commit(struct command_mailbox *d)
{
    for (size_t i = 0; i < json_array_size(d->answers); i++) {
        const json_t *a = json_array_get(d->answers, i);
        const char *id = json_string_value(json_array_get(a, 0));
        if (id && !strchr(id, '/'))
            answer(d->dir, id, json_array_get(a, 1));
    }
    if (ftruncate(fileno(d->file), 0) < 0)
        log_warn("%s/asks: %s", d->dir, strerror(errno)); /* taken again they change nothing */
}
