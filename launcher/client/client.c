#include "launcher/client/client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/clock.h"
#include "common/err.h"
#include "common/mem.h"
#include "launcher/client/client_internal.h"
#include "launcher/client/report_packet.h"

struct section {
    char *name;
    double begun_s;
};

struct drover {
    struct rank_identity identity;
    char *ckpt_dir;
    int report_fd; /* -1: no launcher */
    bool stop;
    int64_t reports;          /* number of reports so far */
    struct section *sections; /* those that are open */
    size_t section_count;
    struct err err;
};

static _Thread_local struct err init_err; /* used while there is no struct drover */

struct err *client_err(struct drover *d)
{
    return d ? &d->err : &init_err;
}

const struct rank_identity *client_identity(const struct drover *d)
{
    return &d->identity;
}

bool client_is_rank(const struct drover *d)
{
    return d->identity.source != NULL;
}

static const char *environment(const char *name)
{
    return getenv(name);
}

static bool socket_has(int fd, int option, int value)
{
    int found = -1;
    socklen_t len = sizeof found;
    return getsockopt(fd, SOL_SOCKET, option, &found, &len) == 0 && found == value;
}

/* Returns the report channel, or -1. In a descendant of a rank the inherited variable may name
 * another file, so the kind of socket is checked. */
static int report_channel(void)
{
    const char *text = getenv("DROVER_REPORT_FD");
    char *end = NULL;
    long fd = text && *text ? strtol(text, &end, 10) : -1;
    bool ours = fd >= 0 && fd <= 1 << 20 && !*end && socket_has((int)fd, SO_TYPE, SOCK_SEQPACKET) &&
                socket_has((int)fd, SO_DOMAIN, AF_UNIX) && fcntl((int)fd, F_SETFD, FD_CLOEXEC) == 0;
    return ours ? (int)fd : -1;
}

int drover_init(struct drover **out)
{
    init_err = (struct err){0};
    struct rank_identity identity;
    int rc = rank_identity_read(&identity, environment, &init_err);
    if (rc < 0)
        return rc;
    struct drover *d = xzalloc(sizeof *d);
    d->identity = identity;
    const char *dir = getenv("DROVER_CKPT_DIR");
    d->ckpt_dir = dir && *dir ? xstrdup(dir) : NULL;
    d->report_fd = report_channel();
    *out = d;
    return 0;
}

void drover_close(struct drover *d)
{
    if (!d)
        return;
    if (d->report_fd >= 0)
        close(d->report_fd);
    for (size_t i = 0; i < d->section_count; i++)
        free(d->sections[i].name);
    free(d->sections);
    free(d->ckpt_dir);
    free(d);
}

int drover_rank(const struct drover *d)
{
    return d->identity.rank;
}

int drover_size(const struct drover *d)
{
    return d->identity.size;
}

int drover_local_rank(const struct drover *d)
{
    return d->identity.local_rank;
}

int drover_local_size(const struct drover *d)
{
    return d->identity.local_size;
}

int drover_node_rank(const struct drover *d)
{
    return d->identity.node;
}

/* Stops reporting, after the launcher has closed the channel. */
static void close_channel(struct drover *d)
{
    close(d->report_fd);
    d->report_fd = -1;
}

static bool is_disconnect(int error)
{
    return error == EPIPE || error == ECONNRESET || error == ENOTCONN;
}

int drover_should_stop(struct drover *d)
{
    char packet[256];
    while (d->report_fd >= 0) {
        ssize_t n = recv(d->report_fd, packet, sizeof packet, MSG_DONTWAIT);
        if (n > 0)
            d->stop |= report_packet_is_stop(packet, (size_t)n);
        else if (n == 0 || is_disconnect(errno))
            close_channel(d);
        else if (errno != EINTR)
            break;
    }
    return d->stop ? DROVER_STOP : DROVER_GO;
}

static int send_packet(struct drover *d, const char *bytes, size_t len)
{
    while (send(d->report_fd, bytes, len, MSG_NOSIGNAL) < 0) {
        if (errno == EINTR)
            continue;
        /* The program made the channel non-blocking; the launcher will read it */
        if (errno == EAGAIN) {
            (void)poll(&(struct pollfd){.fd = d->report_fd, .events = POLLOUT}, 1, -1);
            continue;
        }
        if (is_disconnect(errno)) {
            close_channel(d);
            return 0;
        }
        return err_set(&d->err, -errno, "report of %zu bytes: %s", len, strerror(errno));
    }
    return 0;
}

int drover_report(struct drover *d, int64_t step, const struct drover_metric *m, size_t n)
{
    AUTO(strbuf) struct strbuf packet = {0};
    int rc = report_packet_encode(&packet, step >= 0 ? step : d->reports, m, n, &d->err);
    if (rc < 0)
        return rc;
    d->reports++;
    if (d->report_fd >= 0 && (rc = send_packet(d, strbuf_str(&packet), packet.len)) < 0)
        return rc;
    return drover_should_stop(d);
}

static int send_progress(struct drover *d, const char *kind, const char *section, double seconds)
{
    AUTO(strbuf) struct strbuf packet = {0};
    int rc = report_packet_progress(&packet, kind, section, seconds, &d->err);
    return rc < 0 || d->report_fd < 0 ? rc : send_packet(d, strbuf_str(&packet), packet.len);
}

/* Returns the section with this name, or NULL if it is not open. */
static struct section *find_section(const struct drover *d, const char *name)
{
    for (size_t i = 0; name && i < d->section_count; i++)
        if (strcmp(d->sections[i].name, name) == 0)
            return &d->sections[i];
    return NULL;
}

int drover_section_begin(struct drover *d, const char *section)
{
    if (find_section(d, section))
        return err_set(&d->err, -EALREADY, "section '%s' is already open", section);
    int rc = send_progress(d, "section_begin", section ? section : "", -1);
    if (rc < 0)
        return rc;
    d->sections = xrealloc(d->sections, d->section_count + 1, sizeof *d->sections);
    struct section *s = &d->sections[d->section_count++];
    s->name = xstrdup(section);
    s->begun_s = clock_s();
    return 0;
}

int drover_section_end(struct drover *d, const char *section)
{
    struct section *s = find_section(d, section);
    if (!s)
        return err_set(&d->err, -EINVAL, "section '%s' is not open", section ? section : "");
    int rc = send_progress(d, "section_end", section, clock_s() - s->begun_s);
    free(s->name);
    *s = d->sections[--d->section_count];
    return rc;
}

int drover_heartbeat(struct drover *d)
{
    int rc = send_progress(d, "heartbeat", NULL, -1);
    return rc < 0 ? rc : drover_should_stop(d);
}

const char *drover_checkpoint_dir(const struct drover *d)
{
    return d->ckpt_dir;
}

const char *drover_error(const struct drover *d)
{
    static _Thread_local char text[sizeof(struct err)];
    const struct err *e = d ? &d->err : &init_err;
    snprintf(text, sizeof text, e->hint[0] ? "%s (try: %s)" : "%s", e->text, e->hint);
    return text;
}
