#include "launcher/guardian/guardian_msg.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ_BYTES = 64 << 10 };

/* The beginning of a payload. The strings follow, each with its NUL: argv, env, then wdir, cpus,
 * mems and cgroup, which are "" if they are not set. */
struct rank_head {
    uint32_t argc, envc;
    uint32_t has_report, has_pmi;
};

void guardian_msg_close_fds(struct guardian_msg_fds *f)
{
    for (int i = 0; i < f->count; i++)
        close(f->fd[i]);
    f->count = 0;
}

/* Appends the string with its NUL; "" if it is NULL. */
static void put_string(struct strbuf *to, const char *s)
{
    strbuf_add(to, s ? s : "", s ? strlen(s) + 1 : 1);
}

int guardian_msg_encode_rank(struct strbuf *to, uint32_t job, const struct guardian_rank *r,
                             struct err *e)
{
    const char *const names[] = {r->wdir, r->cpus, r->mems, r->cgroup};
    struct rank_head rh = {.argc = (uint32_t)strv_len(r->argv),
                           .envc = (uint32_t)strv_len(r->env),
                           .has_report = r->report_fd >= 0,
                           .has_pmi = r->pmi_fd >= 0};
    struct guardian_msg_head h = {.type = GUARDIAN_MSG_SPAWN, .job = job, .rank = r->rank};
    size_t from = to->len + sizeof h;
    strbuf_add(to, &h, sizeof h);
    strbuf_add(to, &rh, sizeof rh);
    for (uint32_t i = 0; i < rh.argc; i++)
        put_string(to, r->argv[i]);
    for (uint32_t i = 0; i < rh.envc; i++)
        put_string(to, r->env[i]);
    for (size_t i = 0; i < COUNT_OF(names); i++)
        put_string(to, names[i]);
    size_t bytes = to->len - from;
    if (bytes > GUARDIAN_MSG_PAYLOAD_MAX) {
        strbuf_free(to);
        return err_set(e, -E2BIG,
                       "rank %d: arguments and environment have %zu bytes; the limit is %d",
                       r->rank, bytes, GUARDIAN_MSG_PAYLOAD_MAX);
    }
    h.payload = (uint32_t)bytes;
    memcpy(to->data + from - sizeof h, &h, sizeof h);
    return 0;
}

/* Returns the string at *at and moves *at past it. Returns NULL if the string does not end before
 * `end`. */
static char *get_string(char **at, const char *end)
{
    char *s = *at;
    char *nul = memchr(s, '\0', (size_t)(end - s));
    if (nul)
        *at = nul + 1;
    return nul ? s : NULL;
}

/* Reads `n` strings into v[0...n-1], and sets v[n] to NULL. */
static bool get_strings(char **v, uint32_t n, char **at, const char *end)
{
    for (uint32_t i = 0; i < n; i++)
        if (!(v[i] = get_string(at, end)))
            return false;
    v[n] = NULL;
    return true;
}

int guardian_msg_decode_rank(struct guardian_rank *r, char ***strings,
                             const struct guardian_msg_head *h, char *payload,
                             const struct guardian_msg_fds *f)
{
    struct rank_head rh;
    if (h->payload < sizeof rh)
        return -EBADMSG;
    memcpy(&rh, payload, sizeof rh);
    char *at = payload + sizeof rh;
    const char *end = payload + h->payload;
    if ((uint64_t)rh.argc + rh.envc > (uint64_t)(end - at)) /* each string has at least one byte */
        return -EBADMSG;
    AUTO(free) char **v = try_calloc((size_t)rh.argc + rh.envc + 2, sizeof *v);
    if (!v)
        return -ENOMEM;
    char **env = v + rh.argc + 1;
    char *names[4];
    bool ok = get_strings(v, rh.argc, &at, end) && get_strings(env, rh.envc, &at, end);
    for (size_t i = 0; ok && i < COUNT_OF(names); i++)
        ok = (names[i] = get_string(&at, end));
    if (!ok || at != end || rh.argc == 0)
        return -EBADMSG;
    int report = GUARDIAN_REPORT_FD, pmi = rh.has_report ? report + 1 : report;
    if (f->count != (rh.has_pmi ? pmi + 1 : pmi))
        return -EMFILE;
    *r = (struct guardian_rank){.rank = h->rank,
                                .argv = v,
                                .env = env,
                                .wdir = *names[0] ? names[0] : NULL,
                                .cpus = *names[1] ? names[1] : NULL,
                                .mems = *names[2] ? names[2] : NULL,
                                .cgroup = *names[3] ? names[3] : NULL,
                                .fds = {f->fd[0], f->fd[1], f->fd[2]},
                                .report_fd = rh.has_report ? f->fd[report] : -1,
                                .pmi_fd = rh.has_pmi ? f->fd[pmi] : -1};
    *strings = TAKE(v);
    return 0;
}

void guardian_msg_buffer_free(struct guardian_msg_buffer *in)
{
    for (size_t i = 0; i < in->fds_count; i++)
        guardian_msg_close_fds(&in->fds[i]);
    free(in->fds);
    strbuf_free(&in->bytes);
    *in = (struct guardian_msg_buffer){0};
}

/* Stores received descriptors. The kernel ends a read after one set of descriptors, so each entry
 * belongs to one message. A set that was cut is stored, too, to keep the order. */
static void keep_fds(struct guardian_msg_buffer *in, struct msghdr *m)
{
    struct guardian_msg_fds f = {0};
    bool any = (m->msg_flags & MSG_CTRUNC) != 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        any = true;
        f.count = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(f.fd, CMSG_DATA(c), (size_t)f.count * sizeof(int));
    }
    if (!any)
        return;
    in->fds = xrealloc(in->fds, in->fds_count + 1, sizeof *in->fds);
    in->fds[in->fds_count++] = f;
}

int guardian_msg_read(struct guardian_msg_buffer *in, int sock)
{
    strbuf_consume(&in->bytes, in->decoded);
    in->decoded = 0;
    char bytes[READ_BYTES];
    union {
        char space[CMSG_SPACE(GUARDIAN_RANK_FDS * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec iov = {.iov_base = bytes, .iov_len = sizeof bytes};
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = control.space,
                       .msg_controllen = sizeof control.space};
    ssize_t n = recvmsg(sock, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    if (n == 0)
        return -ECONNRESET;
    keep_fds(in, &m);
    strbuf_add(&in->bytes, bytes, (size_t)n);
    return 1;
}

int guardian_msg_recv(struct guardian_msg_buffer *in, struct guardian_msg_head *h, char **payload,
                      struct guardian_msg_fds *f)
{
    size_t available = in->bytes.len - in->decoded;
    if (available < sizeof *h)
        return 0;
    struct guardian_msg_head head;
    memcpy(&head, in->bytes.data + in->decoded, sizeof head);
    if (head.type < GUARDIAN_MSG_SPAWN || head.type > GUARDIAN_MSG_REAPED ||
        head.payload > GUARDIAN_MSG_PAYLOAD_MAX)
        return -EBADMSG;
    if (available < sizeof head + head.payload)
        return 0;
    *h = head;
    *payload = in->bytes.data + in->decoded + sizeof head;
    in->decoded += sizeof head + head.payload;
    *f = (struct guardian_msg_fds){0};
    if (head.type == GUARDIAN_MSG_SPAWN && in->fds_count > 0) {
        *f = in->fds[0];
        memmove(in->fds, in->fds + 1, --in->fds_count * sizeof *in->fds);
    }
    return 1;
}
