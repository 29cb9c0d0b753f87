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
    struct outbox_opts ask;
    char *path;
    int64_t last_seq;
    struct item *oldest, *newest; /* said */
    int count;
    int fd;         /* -1: no file so far */
    bool no_file;   /* it could not be written: nothing more goes there */
    off_t from, to; /* of the file: what waits in it, each with its length before it */
};

struct outbox *outbox_new(const struct outbox_opts *ask)
{
    struct outbox *u = xzalloc(sizeof *u);
    u->ask = *ask;
    u->path = xstrdup(ask->path);
    u->fd = -1;
    return u;
}

static void drop_oldest(struct outbox *u)
{
    struct item *i = u->oldest;
    u->oldest = i->next;
    if (!u->oldest)
        u->newest = NULL;
    u->count--;
    wire_msg_clear(&i->m);
    free(i);
}

void outbox_free(struct outbox *u)
{
    if (!u)
        return;
    while (u->oldest)
        drop_oldest(u);
    auto_fd(&u->fd);
    free(u->path);
    free(u);
}

/* Takes over its data. */
static void say(struct outbox *u, const struct wire_msg *m)
{
    struct item *i = xzalloc(sizeof *i);
    i->m = *m;
    if (u->newest)
        u->newest->next = i;
    else
        u->oldest = i;
    u->newest = i;
    u->count++;
    u->ask.say(u->ask.arg, &i->m);
}

/* ---- the file ------------------------------------------------------------------------------- */

/* It is of no use to anybody else: should we end, the trial is run again. */
static int open_file(struct outbox *u)
{
    if (u->fd >= 0)
        return 0;
    u->fd = open(u->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return u->fd < 0 ? -errno : unlink(u->path);
}

static int write_message(struct outbox *u, const struct wire_msg *m)
{
    AUTO(strbuf) struct strbuf b = {0};
    uint32_t len = 0;
    struct wire_msg said = *m;
    said.conn = 1; /* a message has one */
    strbuf_add(&b, &len, sizeof len);
    if (wire_encode(&b, &said, NULL) < 0)
        return -EINVAL;
    len = (uint32_t)(b.len - sizeof len);
    memcpy(b.data, &len, sizeof len);
    int rc = open_file(u);
    if (rc < 0)
        return rc;
    ssize_t n = pwrite(u->fd, b.data, b.len, u->to);
    if (n != (ssize_t)b.len)
        return n < 0 ? -errno : -ENOSPC;
    u->to += n;
    return 0;
}

/* The message at `*at`, which moves behind it. False: there is none (any more). */
static bool read_message(const struct outbox *u, off_t *at, struct wire_msg *m)
{
    uint32_t len;
    if (*at >= u->to)
        return false;
    struct err e = {0};
    AUTO(free) char *bytes = NULL;
    if (pread(u->fd, &len, sizeof len, *at) != sizeof len || len > WIRE_MAX_BYTES ||
        pread(u->fd, bytes = xcalloc(1, len), len, *at + (off_t)sizeof len) != (ssize_t)len ||
        wire_decode(m, bytes, len, &e) < 0) {
        log_error("lease %lld: what it reported cannot be read again: %s", (long long)u->ask.lease,
                  e.code ? e.text : strerror(errno));
        *at = u->to;
        return false;
    }
    m->conn = 0;
    *at += (off_t)(sizeof len + len);
    return true;
}

/* Says what waits in the file, as long as no more than `most` are out. */
static void say_next(struct outbox *u, int most)
{
    struct wire_msg m;
    while (u->count < most && read_message(u, &u->from, &m))
        say(u, &m);
    if (u->from < u->to || u->to == 0)
        return;
    u->from = u->to = 0;
    (void)ftruncate(u->fd, 0); /* what is written next lies at its beginning all the same */
}

/* ---- */

void outbox_push(struct outbox *u, enum wire_kind kind, json_t *data)
{
    struct wire_msg m = {.kind = kind, .lease = u->ask.lease, .seq = ++u->last_seq, .data = data};
    if (!u->no_file && (u->count >= u->ask.most || u->from < u->to)) {
        int rc = write_message(u, &m);
        if (rc == 0) {
            wire_msg_clear(&m);
            return;
        }
        log_warn("lease %lld: %s: %s: what it reports is kept in memory", (long long)u->ask.lease,
                 u->path, strerror(-rc));
        u->no_file = true;
        say_next(u, INT32_MAX);
    }
    say(u, &m);
}

bool outbox_acknowledge(struct outbox *u, int64_t seq)
{
    while (u->oldest && u->oldest->m.seq <= seq)
        drop_oldest(u);
    say_next(u, u->ask.most);
    return !u->oldest;
}

void outbox_each_sent(const struct outbox *u, outbox_fn *fn, void *arg)
{
    for (const struct item *i = u->oldest; i; i = i->next)
        fn(arg, &i->m);
}

void outbox_each(const struct outbox *u, outbox_fn *fn, void *arg)
{
    outbox_each_sent(u, fn, arg);
    struct wire_msg m;
    for (off_t at = u->from; read_message(u, &at, &m); wire_msg_clear(&m))
        fn(arg, &m);
}
