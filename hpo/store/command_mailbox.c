#include "hpo/store/command_mailbox.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/entropy.h"
#include "common/file.h"
#include "common/json.h"
#include "common/log.h"

enum { BYTES_MAX = 16 << 20 };

struct command_mailbox {
    char *dir;
    FILE *file; /* the file `asks` with the commands; locked while it is open */
    json_t *commands;
    json_t *replies; /* [id or null, reply] */
};

static char *reply_path(const char *dir, const char *id)
{
    return xasprintf("%s/answer.%s", dir, id);
}

/* Opens and locks the file of commands. Returns -EBUSY if another process has it open. */
static int open_locked(int *out, const char *dir, int flags, struct err *e)
{
    AUTO(free) char *path = xasprintf("%s/asks", dir);
    AUTO(fd) int fd = open(path, O_RDWR | O_CLOEXEC | flags, 0600);
    if (fd < 0)
        return err_set(e, -errno, "%s: %s", path, strerror(errno));
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(fd, F_OFD_SETLK, &lock) < 0)
        return err_set(e, errno == EACCES || errno == EAGAIN ? -EBUSY : -errno, "%s: lock: %s",
                       path, strerror(errno));
    *out = fd_take(&fd);
    return 0;
}

static int write_synced(int fd, const char *text, const char *path, struct err *e)
{
    int rc = file_write_all(fd, text, strlen(text));
    if (rc == 0 && fsync(fd) < 0)
        rc = -errno;
    return rc < 0 ? err_set(e, rc, "%s: %s", path, strerror(-rc)) : 0;
}

/* ---- the sender ----------------------------------------------------------------------------- */

const char *command_mailbox_set_id(json_t *command, struct err *e)
{
    char id[24];
    uint64_t random = 0;
    int rc = entropy_fill(&random, sizeof random);
    if (rc < 0) {
        err_set(e, rc, "cannot get a random number: %s", strerror(-rc));
        return NULL;
    }
    snprintf(id, sizeof id, "%016llx", (unsigned long long)random);
    json_object_set_new(command, "ask", json_string(id));
    return json_string_value(json_object_get(command, "ask"));
}

int command_mailbox_submit(const char *dir, const json_t *command, struct err *e)
{
    const char *id = json_string_value(json_object_get(command, "ask"));
    AUTO(free) char *text = json_line(command), *line = xasprintf("%s\n", text);
    AUTO(free) char *path = reply_path(dir, id);
    AUTO(fd) int fd = -1, reply_fd = -1;
    int rc = open_locked(&fd, dir, O_CREAT, e);
    if (rc < 0)
        return rc;
    reply_fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    off_t end = lseek(fd, 0, SEEK_END);
    if (reply_fd < 0 || end < 0)
        return err_set(e, -errno, "%s: %s", path, strerror(errno));
    rc = write_synced(fd, line, path, e);
    if (rc < 0) {
        if (ftruncate(fd, end) < 0) /* the reader drops the partial line */
            log_debug("%s: %s", path, strerror(errno));
        command_mailbox_abandon(dir, id);
    }
    return rc;
}

json_t *command_mailbox_poll_reply(const char *dir, const char *id)
{
    AUTO(free) char *path = reply_path(dir, id);
    json_t *reply = json_load_file(path, 0, NULL); /* NULL if the reply is only partly written */
    if (reply)
        command_mailbox_abandon(dir, id);
    return reply;
}

void command_mailbox_abandon(const char *dir, const char *id)
{
    AUTO(free) char *path = reply_path(dir, id);
    (void)unlink(path); /* it may not exist */
}

/* ---- the receiver --------------------------------------------------------------------------- */

static void read_commands(struct command_mailbox *m)
{
    AUTO(free) char *line = NULL;
    size_t cap = 0;
    for (ssize_t n; (n = getline(&line, &cap, m->file)) > 0;) {
        struct err e = {0};
        json_t *command = NULL;
        if (json_parse(&command, line, (size_t)n, &e) < 0)
            log_warn("%s/asks: dropped a line that is not JSON: %s", m->dir, e.text);
        else
            json_array_append_new(m->commands, command);
    }
}

struct command_mailbox *command_mailbox_open(const char *dir)
{
    AUTO(fd) int fd = -1;
    if (open_locked(&fd, dir, 0, NULL) < 0)
        return NULL;
    struct stat st;
    if (fstat(fd, &st) < 0 || st.st_size == 0 || st.st_size > BYTES_MAX)
        return NULL;
    FILE *f = fdopen(fd, "r+");
    if (!f)
        return NULL;
    fd = -1;
    struct command_mailbox *m = xzalloc(sizeof *m);
    m->file = f;
    m->dir = xstrdup(dir);
    m->commands = json_array();
    m->replies = json_array();
    read_commands(m);
    return m;
}

void command_mailbox_close(struct command_mailbox *m)
{
    if (!m)
        return;
    fclose(m->file);
    free(m->dir);
    json_decref(m->commands);
    json_decref(m->replies);
    free(m);
}

size_t command_mailbox_count(const struct command_mailbox *m)
{
    return json_array_size(m->commands);
}

const json_t *command_mailbox_get(const struct command_mailbox *m, size_t i)
{
    return json_array_get(m->commands, i);
}

/* The trials that a command added, requeued or cancelled, if it is not one for the whole sweep. */
static json_t *affected_trials(const json_t *command, const struct scheduler_out *out)
{
    json_t *named = json_object_get(command, "trials");
    const char *verb = json_string_value(json_object_get(command, "verb"));
    if (verb && strcmp(verb, "cancel") == 0)
        return json_incref(named);
    json_t *list = json_array();
    for (size_t i = 0; i < out->record_count; i++) {
        const struct scheduler_record *r = &out->records[i];
        if (r->kind == SCHEDULER_REC_RETRIED || json_is_true(json_object_get(r->data, "added")))
            json_array_append_new(list, json_integer(r->trial));
    }
    return list;
}

void command_mailbox_set_reply(struct command_mailbox *m, size_t i, const struct err *error,
                               const struct scheduler *s, const struct scheduler_out *out)
{
    const json_t *command = command_mailbox_get(m, i), *id = json_object_get(command, "ask");
    struct scheduler_counts c = scheduler_counts(s);
    json_t *reply =
        error->code < 0
            ? json_pack("{s:s, s:s}", "error", error->text, "hint", error->hint)
            : json_pack("{s:b, s:o, s:i, s:b}", "ok", 1, "trials", affected_trials(command, out),
                        "running", c.running + c.stopping, "over", scheduler_is_done(s));
    json_array_append_new(m->replies, json_pack("[O?, o]", id, reply));
}

/* Writes a reply if its file still exists. If not, the sender no longer waits for the reply. */
static void write_reply(const char *dir, const char *id, const json_t *reply)
{
    AUTO(free) char *path = reply_path(dir, id), *line = json_line(reply);
    AUTO(fd) int fd = open(path, O_WRONLY | O_CLOEXEC);
    struct err e = {0};
    if (fd >= 0 && write_synced(fd, line, path, &e) < 0)
        log_warn("%s", e.text);
}

void command_mailbox_commit(struct command_mailbox *m)
{
    for (size_t i = 0; i < json_array_size(m->replies); i++) {
        const json_t *a = json_array_get(m->replies, i);
        const char *id = json_string_value(json_array_get(a, 0));
        if (id && !strchr(id, '/'))
            write_reply(m->dir, id, json_array_get(a, 1));
    }
    if (ftruncate(fileno(m->file), 0) < 0)
        log_warn("%s/asks: %s", m->dir,
                 strerror(errno)); /* harmless, since a repeated command has no effect */
}
