#include "launcher/doctor/core/kernel_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/mem.h"
#include "launcher/doctor/core/sysroot.h"

enum { RECORD_MAX = 8192 }; /* the kernel's records are shorter */

struct reader {
    kernel_log_fn *fn;
    void *arg;
    double uptime_s;
};

/* One line: "PRIORITY,SEQUENCE,MICROSECONDS,FLAGS;TEXT". Lines that begin with a space continue a
 * record with its properties. */
static void take_line(const struct reader *r, char *line)
{
    unsigned priority;
    unsigned long long sequence, us;
    char *text = strchr(line, ';');
    if (line[0] != ' ' && text && sscanf(line, "%u,%llu,%llu", &priority, &sequence, &us) == 3)
        r->fn(r->arg, r->uptime_s - (double)us / 1e6, text + 1);
}

/* Takes the complete lines of the buffer. Returns the length of the rest, which moves to its
 * start. */
static size_t take_lines(const struct reader *r, char *buf, size_t len)
{
    char *line = buf, *end;
    while ((end = memchr(line, '\n', len - (size_t)(line - buf)))) {
        *end = '\0';
        take_line(r, line);
        line = end + 1;
    }
    size_t rest = len - (size_t)(line - buf);
    memmove(buf, line, rest);
    return rest == RECORD_MAX ? 0 : rest;
}

int kernel_log_read(kernel_log_fn *fn, void *arg)
{
    AUTO(free) char *path = sysroot_path("/dev/kmsg");
    AUTO(free) char *uptime = sysroot_read("/proc/uptime");
    AUTO(fd) int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    struct reader r = {fn, arg, uptime ? strtod(uptime, NULL) : 0};
    char buf[RECORD_MAX];
    size_t len = 0;
    ssize_t n;
    /* A read returns one record. EPIPE: the kernel has overwritten the next one; later ones
     * follow. */
    while ((n = read(fd, buf + len, sizeof buf - len)) > 0 ||
           (n < 0 && (errno == EPIPE || errno == EINTR)))
        len = n > 0 ? take_lines(&r, buf, len + (size_t)n) : len;
    return n < 0 && errno != EAGAIN ? -errno : 0;
}
