#include "launcher/jobs/job_events.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/log.h"

struct job_events {
    char *path;
    int fd;
    bool torn;   /* the last line is incomplete: the next one begins with a newline */
    bool warned; /* of a failed write */
};

int job_events_open(struct job_events **out, const char *path, struct err *e)
{
    /* Non-blocking: a pipe without a reader must not stop a job. */
    AUTO(fd) int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (fd < 0) {
        err_set(e, -errno, "events file '%s': %s", path,
                errno == ENXIO ? "the pipe has no reader" : strerror(errno));
        return err_hint(e, "--events FILE, in a directory that exists and is writable");
    }
    struct job_events *ev = xzalloc(sizeof *ev);
    ev->path = xstrdup(path);
    ev->fd = fd_take(&fd);
    *out = ev;
    return 0;
}

void job_events_close(struct job_events *ev)
{
    if (!ev)
        return;
    close(ev->fd);
    free(ev->path);
    free(ev);
}

void job_events_time(char out[25], int64_t unix_ms)
{
    time_t s = unix_ms / 1000;
    struct tm t;
    gmtime_r(&s, &t);
    size_t n = strftime(out, 25, "%Y-%m-%dT%H:%M:%S", &t);
    snprintf(out + n, 25 - n, ".%03uZ", (unsigned)(unix_ms % 1000) % 1000);
}

static void write_line(struct job_events *ev, const char *line, size_t len)
{
    ssize_t n = write(ev->fd, line, len);
    bool whole = n == (ssize_t)len;
    if (!whole && !ev->warned) {
        ev->warned = true;
        log_warn("events file '%s': %s; events are lost, the job continues", ev->path,
                 n < 0 ? strerror(errno) : strerror(ENOSPC));
    }
    if (n > 0)
        ev->torn = !whole;
}

void job_events_write(struct job_events *ev, const char *event, const char *job, json_t *fields)
{
    AUTO(json) json_t *own = fields;
    if (!ev)
        return;
    char when[25];
    job_events_time(when, clock_ms_of(CLOCK_REALTIME));
    AUTO(json) json_t *all = json_pack("{s:s, s:s, s:s}", "time", when, "event", event, "job", job);
    if (own)
        json_object_update(all, own);
    AUTO(free) char *text = json_line(all);
    AUTO(free) char *line = xasprintf("%s%s\n", ev->torn ? "\n" : "", text);
    write_line(ev, line, strlen(line));
}
