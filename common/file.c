#include "common/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/durable.h"
#include "common/entropy.h"
#include "common/mem.h"

enum { BLOCK = 4096 };

/* ---- writing -------------------------------------------------------------------------------- */

int file_write_all(int fd, const void *bytes, size_t len)
{
    for (const char *at = bytes; len > 0;) {
        ssize_t n = write(fd, at, len);
        if (n < 0 && errno != EINTR)
            return -errno;
        at += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* A network file system may report only now that it could not write. */
static int close_after(int fd, int rc)
{
    return close(fd) < 0 && rc == 0 ? -errno : rc;
}

int file_write(const char *path, const void *bytes, size_t len, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    return fd < 0 ? -errno : close_after(fd, file_write_all(fd, bytes, len));
}

int file_create_tmp(char **tmp, const char *path, mode_t mode)
{
    uint32_t random = 0;
    int rc = entropy_fill(&random, sizeof random);
    if (rc < 0)
        return rc;
    AUTO(free) char *name = xasprintf("%s.%08" PRIx32 ".tmp", path, random);
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0)
        return -errno;
    *tmp = TAKE(name);
    return fd;
}

static int replace(const char *path, const void *bytes, size_t len, mode_t mode, bool durable)
{
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) /* such as /dev/null */
        return file_write(path, bytes, len, mode);
    AUTO(free) char *tmp = NULL;
    int fd = file_create_tmp(&tmp, path, mode ? 0600 : 0666);
    if (fd < 0)
        return fd;
    int rc = mode && fchmod(fd, mode) < 0 ? -errno : file_write_all(fd, bytes, len);
    if (rc == 0 && durable && fsync(fd) < 0 && errno != EINVAL) /* EINVAL: it cannot be synced */
        rc = -errno;
    rc = close_after(fd, rc);
    if (rc == 0 && durable)
        rc = durable_rename(tmp, path);
    else if (rc == 0 && rename(tmp, path) < 0)
        rc = -errno;
    if (rc < 0)
        (void)unlink(tmp);
    return rc;
}

int file_replace(const char *path, const void *bytes, size_t len, mode_t mode)
{
    return replace(path, bytes, len, mode, false);
}

int file_replace_durably(const char *path, const void *bytes, size_t len, mode_t mode)
{
    return replace(path, bytes, len, mode, true);
}

/* ---- reading -------------------------------------------------------------------------------- */

int file_read_fd(struct strbuf *out, int fd, size_t max)
{
    for (size_t left = max;;) {
        size_t block = out->len > BLOCK ? out->len : BLOCK;
        strbuf_reserve(out, block);
        ssize_t n = read(fd, out->data + out->len, block);
        int error = n < 0 ? errno : 0;
        bool more = n > 0 && (size_t)n > left;
        size_t taken = more ? left : n > 0 ? (size_t)n : 0;
        out->len += taken;
        out->data[out->len] = '\0';
        left -= taken;
        if (more || n == 0 || (error && error != EINTR))
            return more ? -EFBIG : -error;
    }
}

int file_read(struct strbuf *out, const char *path, size_t max)
{
    AUTO(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : file_read_fd(out, fd, max);
}

/* Returns at most `max` bytes of a file as text; NULL with errno. */
static char *read_text(const char *path, size_t max)
{
    AUTO(strbuf) struct strbuf b = {0};
    int rc = file_read(&b, path, max);
    if (rc == 0 || rc == -EFBIG)
        return strbuf_take(&b);
    errno = -rc;
    return NULL;
}

char *file_text(const char *path)
{
    return read_text(path, FILE_TEXT_MAX);
}

char *file_line(const char *path)
{
    char *text = read_text(path, FILE_LINE_MAX);
    if (text)
        text[strcspn(text, "\n")] = '\0';
    return text;
}

char *file_field(const char *path, const char *name)
{
    AUTO(free) char *text = file_text(path);
    size_t len = strlen(name);
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));)
        if (strncmp(line, name, len) == 0)
            return xstrdup(line + len + strspn(line + len, " \t"));
    return NULL;
}

int file_scan(const char *path, const char *fmt, ...)
{
    AUTO(free) char *text = read_text(path, FILE_LINE_MAX);
    va_list values;
    va_start(values, fmt);
    int n = text ? vsscanf(text, fmt, values) : 0;
    va_end(values);
    return n < 0 ? 0 : n;
}
