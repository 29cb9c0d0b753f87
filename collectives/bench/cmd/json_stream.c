#include "collectives/bench/cmd/json_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"
#include "common/strbuf.h"

struct json_stream {
    int fd;
    char *path; /* NULL: stdout */
    char *tmp;  /* the name of the file until it has a whole document; then NULL */
    bool any;   /* the array has items */
    off_t at;   /* for a file: offset of the end of the document */
    char *tail; /* the end of the document; NULL: nothing is written */
};

/* The document on stdout, for the signal handler. Only the thread that has set `busy` may use it,
 * since a signal may arrive in any thread. */
static struct json_stream *on_stdout;
static atomic_flag busy = ATOMIC_FLAG_INIT;

static void on_signal(int number)
{
    while (atomic_flag_test_and_set(&busy))
        ;
    if (on_stdout && on_stdout->tail)
        (void)file_write_all(on_stdout->fd, on_stdout->tail, strlen(on_stdout->tail));
    signal(number, SIG_DFL);
    raise(number);
}

static void handle(int number)
{
    struct sigaction old, action = {.sa_handler = on_signal};
    if (sigaction(number, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
        (void)sigaction(number, &action, NULL);
}

struct json_stream *json_stream_open_stdout(void)
{
    on_stdout = xzalloc(sizeof *on_stdout);
    on_stdout->fd = STDOUT_FILENO;
    handle(SIGINT);
    handle(SIGTERM);
    return on_stdout;
}

int json_stream_open_file(struct json_stream **out, const char *path, struct err *e)
{
    AUTO(json_stream) struct json_stream *s = xzalloc(sizeof *s);
    s->path = xstrdup(path);
    s->fd = file_create_tmp(&s->tmp, path, 0666);
    if (s->fd < 0)
        return err_set(e, s->fd == -ENOSPC ? -ENOSPC : -EINVAL, "'%s': %s", path, strerror(-s->fd));
    *out = TAKE(s);
    return 0;
}

/* Renames a file, but does not overwrite one. Returns 0 or a negative errno. */
static int rename_new(const char *from, const char *to)
{
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EEXIST && link(from, to) == 0) /* NFS has no such rename() */
        return unlink(from) < 0 ? -errno : 0;
    if (errno == EEXIST || access(to, F_OK) == 0)
        return -EEXIST;
    return rename(from, to) < 0 ? -errno : 0; /* a file system without links */
}

/* Gives the file its name, or path.0, path.1, … if that exists. */
static int publish(struct json_stream *s, struct err *e)
{
    AUTO(free) char *path = xstrdup(s->path);
    int rc;
    for (int i = 0; (rc = rename_new(s->tmp, s->path)) == -EEXIST; i++) {
        free(s->path);
        s->path = xasprintf("%s.%d", path, i);
    }
    free(rc < 0 ? TAKE(s->tail) : TAKE(s->tmp));
    return rc < 0 ? err_set(e, -EINVAL, "'%s': %s", s->path, strerror(-rc)) : 0;
}

/* Returns the text between the braces of an object. */
static char *keys(const json_t *object)
{
    AUTO(free) char *text = json_dumps(object, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    size_t len = strlen(text);
    return len > 3 ? xstrndup(text + 1, len - 3) : xstrdup(""); /* without "{" and "\n}" */
}

static char *tail_text(const json_t *tail)
{
    AUTO(free) char *inside = keys(tail);
    return xasprintf("\n ]%s%s\n}\n", *inside ? "," : "", inside);
}

/* Replaces the end of a file by `text`. Blanks cover what is left of a longer end, so that the
 * document is whole before the file is cut, too. */
static int replace_end(struct json_stream *s, const char *text)
{
    off_t end = s->at + (off_t)strlen(text), old = lseek(s->fd, 0, SEEK_END);
    if (old < 0 || lseek(s->fd, s->at, SEEK_SET) < 0)
        return -errno;
    /* A full disk shows before anything is overwritten, if the file system can reserve blocks */
    if (fallocate(s->fd, FALLOC_FL_KEEP_SIZE, s->at, end - s->at) < 0 && errno == ENOSPC)
        return -ENOSPC;
    AUTO(free) char *covering = xasprintf("%s%*s", text, old > end ? (int)(old - end) : 0, "");
    int rc = file_write_all(s->fd, covering, strlen(covering));
    return rc < 0 ? rc : ftruncate(s->fd, end) < 0 ? -errno : 0;
}

/* Writes `text` and after it `tail`, the end of the document. If that fails, a file stays as it
 * was. */
static int write_part(struct json_stream *s, const char *text, char *tail)
{
    size_t len = strlen(text);
    AUTO(free) char *whole = s->path ? xasprintf("%s%s", text, tail) : NULL;
    int rc = whole ? replace_end(s, whole) : file_write_all(s->fd, text, len);
    if (rc < 0) {
        if (whole)
            (void)replace_end(s, s->tail ? s->tail : "");
        free(tail);
        return rc;
    }
    s->at += (off_t)len;
    free(s->tail);
    s->tail = tail;
    return 0;
}

/* Calls write_part() while no signal handler can use the document. Takes over `tail`. */
static int put(struct json_stream *s, const char *text, char *tail, struct err *e)
{
    sigset_t signals, before;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, &before);
    while (atomic_flag_test_and_set(&busy))
        ;
    int rc = write_part(s, text, tail);
    atomic_flag_clear(&busy);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc < 0 ? err_set(e, rc, "'%s': %s", s->path ? s->path : "stdout", strerror(-rc)) : 0;
}

int json_stream_begin(struct json_stream *s, const json_t *head, const char *list,
                      const json_t *tail, struct err *e)
{
    AUTO(free) char *inside = keys(head);
    AUTO(free)
    char *text = xasprintf("{%s%s\n \"%s\": [", inside, *inside ? "," : "", list);
    int rc = put(s, text, tail_text(tail), e);
    return rc == 0 && s->tmp ? publish(s, e) : rc;
}

int json_stream_add(struct json_stream *s, const json_t *item, const json_t *tail, struct err *e)
{
    if (!s->tail)
        return 0;
    AUTO(free) char *text = json_dumps(item, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    AUTO(strbuf) struct strbuf indented = {0};
    strbuf_puts(&indented, s->any ? ",\n  " : "\n  ");
    for (const char *at = text; *at; at++) {
        strbuf_putc(&indented, *at);
        if (*at == '\n')
            strbuf_puts(&indented, "  ");
    }
    s->any = true;
    return put(s, strbuf_str(&indented), tail_text(tail), e);
}

int json_stream_end(struct json_stream *s, const json_t *tail, struct err *e)
{
    if (!s->tail)
        return 0;
    AUTO(free) char *text = tail_text(tail);
    return put(s, text, xstrdup(""), e);
}

void json_stream_close(struct json_stream *s)
{
    if (!s)
        return;
    while (atomic_flag_test_and_set(&busy))
        ;
    on_stdout = s == on_stdout ? NULL : on_stdout;
    atomic_flag_clear(&busy);
    if (s->path && s->fd >= 0)
        close(s->fd);
    if (s->tmp)
        (void)unlink(s->tmp);
    free(s->tmp);
    free(s->path);
    free(s->tail);
    free(s);
}
