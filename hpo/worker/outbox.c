#include "hpo/worker/outbox.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "common/log.h"

struct item {
    struct item *next;
    struct wire_msg m;
};

struct outbox {
    struct outbox_opts opts;
    char *path;
    int64_t last_seq;
    struct item *oldest, *newest; /* sent, not acknowledged */
    int count;
    int fd;                  /* -1: there is no file yet */
    bool no_file;            /* a write failed: nothing more goes to the file */
    off_t read_at, write_at; /* the messages between wait, each after its length */
};

struct outbox *outbox_new(const struct outbox_opts *opts)
{
    struct outbox *o = xzalloc(sizeof *o);
    o->opts = *opts;
    o->path = xstrdup(opts->path);
    o->fd = -1;
    return o;
}

static void drop_oldest(struct outbox *o)
{
    struct item *i = o->oldest;
    o->oldest = i->next;
    if (!o->oldest)
        o->newest = NULL;
    o->count--;
    wire_msg_clear(&i->m);
    free(i);
}

void outbox_free(struct outbox *o)
{
    if (!o)
        return;
    while (o->oldest)
        drop_oldest(o);
    auto_fd(&o->fd);
    free(o->path);
    free(o);
}

/* Takes the reference to its data. */
static void send_message(struct outbox *o, const struct wire_msg *m)
{
    struct item *i = xzalloc(sizeof *i);
    i->m = *m;
    if (o->newest)
        o->newest->next = i;
    else
        o->oldest = i;
    o->newest = i;
    o->count++;
    o->opts.send(o->opts.arg, &i->m);
}

/* ---- the file ------------------------------------------------------------------------------- */

/* Opens the file and removes its name, since no other process can use the file: if this process
 * ends, the trial runs again. */
static int open_file(struct outbox *o)
{
    if (o->fd >= 0)
        return 0;
    o->fd = open(o->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return o->fd < 0 ? -errno : unlink(o->path);
}

static int write_message(struct outbox *o, const struct wire_msg *m)
{
    AUTO(strbuf) struct strbuf b = {0};
    uint32_t len = 0;
    struct wire_msg numbered = *m;
    numbered.conn = 1; /* wire_encode() requires one */
    strbuf_add(&b, &len, sizeof len);
    if (wire_encode(&b, &numbered, NULL) < 0)
        return -EINVAL;
    len = (uint32_t)(b.len - sizeof len);
    memcpy(b.data, &len, sizeof len);
    int rc = open_file(o);
    if (rc < 0)
        return rc;
    ssize_t n = pwrite(o->fd, b.data, b.len, o->write_at);
    if (n != (ssize_t)b.len)
        return n < 0 ? -errno : -ENOSPC;
    o->write_at += n;
    return 0;
}

/* Reads the message at `*at`, and moves `*at` behind it. Returns false if no message is left, or
 * none can be read. */
static bool read_message(const struct outbox *o, off_t *at, struct wire_msg *m)
{
    uint32_t len;
    if (*at >= o->write_at)
        return false;
    struct err e = {0};
    AUTO(free) char *bytes = NULL;
    if (pread(o->fd, &len, sizeof len, *at) != sizeof len || len > WIRE_MAX_BYTES ||
        pread(o->fd, bytes = xcalloc(1, len), len, *at + (off_t)sizeof len) != (ssize_t)len ||
        wire_decode(m, bytes, len, &e) < 0) {
        log_error("lease %lld: cannot read back its reports: %s", (long long)o->opts.lease,
                  e.code ? e.text : strerror(errno));
        *at = o->write_at;
        return false;
    }
    m->conn = 0;
    *at += (off_t)(sizeof len + len);
    return true;
}

/* Sends messages from the file while fewer than `in_flight_max` are not acknowledged. */
static void send_next(struct outbox *o, int in_flight_max)
{
    struct wire_msg m;
    while (o->count < in_flight_max && read_message(o, &o->read_at, &m))
        send_message(o, &m);
    if (o->read_at < o->write_at || o->write_at == 0)
        return;
    o->read_at = o->write_at = 0;
    if (ftruncate(o->fd, 0) < 0) /* the next message overwrites the old ones */
        log_debug("outbox of lease %lld: %s", (long long)o->opts.lease, strerror(errno));
}

/* ---- messages ------------------------------------------------------------------------------- */

void outbox_push(struct outbox *o, enum wire_kind kind, json_t *data)
{
    struct wire_msg m = {.kind = kind,
                         .instance = o->opts.instance,
                         .lease = o->opts.lease,
                         .seq = ++o->last_seq,
                         .data = data};
    if (!o->no_file && (o->count >= o->opts.in_flight_max || o->read_at < o->write_at)) {
        int rc = write_message(o, &m);
        if (rc == 0) {
            wire_msg_clear(&m);
            return;
        }
        log_warn("lease %lld: %s: %s: its reports are kept in memory", (long long)o->opts.lease,
                 o->path, strerror(-rc));
        o->no_file = true;
        send_next(o, INT32_MAX);
    }
    send_message(o, &m);
}

bool outbox_acknowledge(struct outbox *o, int64_t seq)
{
    while (o->oldest && o->oldest->m.seq <= seq)
        drop_oldest(o);
    send_next(o, o->opts.in_flight_max);
    return !o->oldest;
}

void outbox_each_sent(const struct outbox *o, outbox_fn *fn, void *arg)
{
    for (const struct item *i = o->oldest; i; i = i->next)
        fn(arg, &i->m);
}

void outbox_each(const struct outbox *o, outbox_fn *fn, void *arg)
{
    outbox_each_sent(o, fn, arg);
    struct wire_msg m;
    for (off_t at = o->read_at; read_message(o, &at, &m); wire_msg_clear(&m))
        fn(arg, &m);
}
