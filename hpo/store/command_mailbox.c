#include "hpo/store/command_mailbox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/durable.h"
#include "common/entropy.h"
#include "common/file.h"
#include "common/json.h"
#include "common/log.h"
#include "hpo/store/event_store.h"

enum { BYTES_MAX = 16 << 20 };

struct received {
    char *path;
    struct timespec at; /* when it was sent: commands are done in this order */
    json_t *command;
};

struct command_mailbox {
    char *dir;
    struct received *list;
    size_t count;
    json_t *replies; /* [id or null, reply] */
};

static char *reply_path(const char *dir, const char *id)
{
    return xasprintf("%s/answer.%s", dir, id);
}

static char *commands_dir(const char *dir)
{
    return xasprintf("%s/commands", dir);
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
    AUTO(free) char *reply = reply_path(dir, id), *commands = commands_dir(dir);
    AUTO(free) char *path = xasprintf("%s/%s", commands, id);
    AUTO(fd) int reply_fd = open(reply, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (reply_fd < 0)
        return err_set(e, -errno, "%s: %s", reply, strerror(errno));
    (void)mkdir(commands, 0755); /* if this fails, the next call says why */
    int rc = file_replace_durably(path, line, strlen(line), 0600);
    if (rc < 0)
        command_mailbox_abandon(dir, id);
    return rc < 0 ? err_set(e, rc, "%s: %s", path, strerror(-rc)) : 0;
}

json_t *command_mailbox_poll_reply(const char *dir, const char *id)
{
    AUTO(free) char *path = reply_path(dir, id);
    json_t *reply = json_load_file(path, 0, NULL); /* NULL: the file is empty */
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

static int by_age(const void *a, const void *b)
{
    const struct received *x = a, *y = b;
    if (x->at.tv_sec != y->at.tv_sec)
        return x->at.tv_sec < y->at.tv_sec ? -1 : 1;
    if (x->at.tv_nsec != y->at.tv_nsec)
        return x->at.tv_nsec < y->at.tv_nsec ? -1 : 1;
    return strcmp(x->path, y->path);
}

/* Files that are being written end in .tmp. */
static int is_command(const struct dirent *d)
{
    return !strchr(d->d_name, '.');
}

/* Reads a command. Removes a file that has no command. */
static bool read_command(struct received *r)
{
    AUTO(strbuf) struct strbuf b = {0};
    struct err e = {0};
    struct stat st = {0};
    int rc = stat(r->path, &st) < 0 ? -errno
             : !S_ISREG(st.st_mode) ? -EINVAL /* opening a pipe would wait for its writer */
                                    : file_read(&b, r->path, BYTES_MAX);
    if (rc < 0 && rc != -EFBIG) {
        log_debug("%s: %s", r->path, strerror(-rc));
        return false;
    }
    r->at = st.st_mtim;
    if (rc == 0 && json_parse(&r->command, strbuf_str(&b), b.len, &e) == 0)
        return true;
    log_warn("%s: dropped a command that is not JSON: %s", r->path, rc ? strerror(-rc) : e.text);
    (void)unlink(r->path); /* otherwise it is dropped again */
    return false;
}

struct command_mailbox *command_mailbox_open(const char *dir)
{
    AUTO(free) char *commands = commands_dir(dir);
    struct dirent **files = NULL;
    if (durable_network(dir)) /* NFS then asks the server for the directory's files */
        (void)utimensat(AT_FDCWD, commands, NULL, 0);
    int n = scandir(commands, &files, is_command, NULL);
    if (n < 0 && errno == ENOENT)
        (void)mkdir(commands, 0755); /* a sender does it too */
    AUTO(command_mailbox) struct command_mailbox *m = xzalloc(sizeof *m);
    m->dir = xstrdup(dir);
    m->replies = json_array();
    for (int i = 0; i < n; free(files[i++])) {
        struct received r = {.path = xasprintf("%s/%s", commands, files[i]->d_name)};
        if (!read_command(&r)) {
            free(r.path);
            continue;
        }
        m->list = xrealloc(m->list, m->count + 1, sizeof *m->list);
        m->list[m->count++] = r;
    }
    free(files);
    if (m->count == 0)
        return NULL;
    qsort(m->list, m->count, sizeof *m->list, by_age);
    return TAKE(m);
}

void command_mailbox_close(struct command_mailbox *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->count; i++) {
        free(m->list[i].path);
        json_decref(m->list[i].command);
    }
    free(m->list);
    free(m->dir);
    json_decref(m->replies);
    free(m);
}

size_t command_mailbox_count(const struct command_mailbox *m)
{
    return m->count;
}

const json_t *command_mailbox_get(const struct command_mailbox *m, size_t i)
{
    return m->list[i].command;
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
    int rc = access(path, F_OK) < 0 ? 0 : file_replace_durably(path, line, strlen(line), 0600);
    if (rc < 0)
        log_warn("%s: %s", path, strerror(-rc));
}

void command_mailbox_commit(struct command_mailbox *m)
{
    for (size_t i = 0; i < json_array_size(m->replies); i++) {
        const json_t *a = json_array_get(m->replies, i);
        const char *id = json_string_value(json_array_get(a, 0));
        if (id && !strchr(id, '/'))
            write_reply(m->dir, id, json_array_get(a, 1));
    }
    for (size_t i = 0; i < m->count; i++)
        if (unlink(m->list[i].path) < 0) /* harmless, since a repeated command has no effect */
            log_warn("%s: %s", m->list[i].path, strerror(errno));
}
