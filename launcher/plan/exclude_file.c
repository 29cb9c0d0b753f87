#include "launcher/plan/exclude_file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/file.h"
#include "common/strbuf.h"
#include "launcher/plan/hostfile.h"

void exclude_file_free(struct exclusions *x)
{
    for (int i = 0; i < x->count; i++) {
        free(x->at[i].node);
        free(x->at[i].reason);
    }
    free(x->at);
    *x = (struct exclusions){0};
}

static const char *without_user(const char *node)
{
    const char *at = strrchr(node, '@');
    return at ? at + 1 : node;
}

static bool is_same_node(const char *a, const char *b)
{
    return strcmp(without_user(a), without_user(b)) == 0;
}

const struct exclusion *exclude_file_find(const struct exclusions *x, const char *node)
{
    for (int i = 0; i < x->count; i++)
        if (is_same_node(x->at[i].node, node))
            return &x->at[i];
    return NULL;
}

/* ---- lines ---------------------------------------------------------------------------------- */

static bool parse_time(int64_t *out, const char *text)
{
    struct tm t = {0};
    if (strcmp(text, "-") == 0) {
        *out = 0;
        return true;
    }
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%SZ", &t);
    *out = end && !*end ? (int64_t)timegm(&t) : 0;
    return *out > 0;
}

/* Parses a line, which it changes. Returns false if the line is empty or a comment. `*problem` is
 * what is wrong with it. */
static bool parse_line(struct exclusion *out, const char **problem, char *line)
{
    line[strcspn(line, "\r\n")] = '\0';
    char *rest, *node = strtok_r(line, " \t", &rest), *until = strtok_r(NULL, " \t", &rest);
    *problem = NULL;
    if (!node || *node == '#')
        return false;
    if (!until)
        *problem = "the time is missing";
    else if (!parse_time(&out->until_s, until))
        *problem = "the time is malformed";
    out->node = node;
    out->reason = rest + strspn(rest, " \t");
    return true;
}

static bool has_expired(const struct exclusion *x, int64_t now_s)
{
    return x->until_s && x->until_s <= now_s;
}

int exclude_file_parse(struct exclusions *out, const char *what, const char *text, int64_t now_s,
                       struct err *e)
{
    AUTO(free) char *copy = xstrdup(text);
    int number = 0;
    *out = (struct exclusions){0};
    for (char *rest = copy, *line; (line = strsep(&rest, "\n"));) {
        struct exclusion x;
        const char *problem;
        number++;
        if (!parse_line(&x, &problem, line))
            continue;
        if (problem) {
            exclude_file_free(out);
            err_set(e, -EINVAL, "%s:%d: %s", what, number, problem);
            return err_hint(e, "a line is: NODE 2026-11-26T14:30:00Z REASON, or NODE - REASON");
        }
        if (has_expired(&x, now_s))
            continue;
        out->at = xrealloc(out->at, (size_t)out->count + 1, sizeof *out->at);
        out->at[out->count++] = (struct exclusion){xstrdup(x.node), xstrdup(x.reason), x.until_s};
    }
    return 0;
}

int exclude_file_read(struct exclusions *out, const char *path, int64_t now_s, struct err *e)
{
    AUTO(free) char *text = NULL;
    *out = (struct exclusions){0};
    if (access(path, F_OK) < 0 && errno == ENOENT)
        return 0;
    int rc = hostfile_text(&text, path, e);
    return rc < 0 ? rc : exclude_file_parse(out, path, text, now_s, e);
}

/* ---- writing -------------------------------------------------------------------------------- */

/* Copies the lines that stay: comments, and other nodes whose time has not come. */
static void keep_lines(struct strbuf *out, const char *text, const char *node, int64_t now_s)
{
    for (const char *line = text; *line;) {
        size_t len = strcspn(line, "\n");
        AUTO(free) char *copy = xstrndup(line, len);
        struct exclusion x;
        const char *problem;
        bool is_line = parse_line(&x, &problem, copy) && !problem;
        if (!is_line || (!is_same_node(x.node, node) && !has_expired(&x, now_s))) {
            strbuf_add(out, line, len);
            strbuf_puts(out, "\n");
        }
        line += len + (line[len] == '\n');
    }
}

static void put_line(struct strbuf *out, const struct exclusion *x)
{
    char until[32] = "-";
    time_t t = (time_t)x->until_s;
    struct tm utc;
    if (t && gmtime_r(&t, &utc))
        strftime(until, sizeof until, "%Y-%m-%dT%H:%M:%SZ", &utc);
    strbuf_printf(out, "%s %s ", without_user(x->node), until);
    for (const char *c = x->reason; *c; c++)
        strbuf_putc(out, iscntrl((unsigned char)*c) ? ' ' : *c);
    strbuf_puts(out, "\n");
}

/* Opens the file and locks it. Another process that had the lock may have replaced it. Returns a
 * descriptor or a negative errno. */
static int open_locked(const char *path)
{
    for (;;) {
        AUTO(fd) int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        struct stat locked, now;
        if (fd < 0 || flock(fd, LOCK_EX) < 0 || fstat(fd, &locked) < 0)
            return -errno;
        if (stat(path, &now) == 0 && now.st_dev == locked.st_dev && now.st_ino == locked.st_ino)
            return fd_take(&fd);
    }
}

int exclude_file_add(const char *path, const struct exclusion *x, int64_t now_s, struct err *e)
{
    AUTO(fd) int fd = open_locked(path);
    AUTO(free) char *text = NULL, *file = realpath(path, NULL); /* a link stays */
    AUTO(strbuf) struct strbuf b = {0};
    struct stat st;
    if (fd < 0 || !file || fstat(fd, &st) < 0)
        return err_set(e, fd < 0 ? fd : -errno, "%s: %s", path, strerror(fd < 0 ? -fd : errno));
    int rc = hostfile_text(&text, path, e);
    if (rc < 0)
        return rc;
    keep_lines(&b, text, x->node, now_s);
    put_line(&b, x);
    rc = file_replace_durably(file, b.data, b.len, st.st_mode & 0777);
    return rc < 0 ? err_set(e, rc, "%s: %s", path, strerror(-rc)) : 0;
}
