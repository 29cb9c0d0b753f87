#include "launcher/elastic/rdzv_client.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "common/json.h"
#include "common/wait_line.h"
#include "launcher/elastic/rdzv_server.h"
#include "launcher/node/netif.h"
#include "launcher/node/port_hold.h"
#include "launcher/node/resolve.h"
#include "launcher/remote/control/control.h"

enum { RETRY_MS = 300, TICK_MS = 1000, ADDRESSES_MAX = 8 };

struct rdzv_client {
    struct rdzv_client_opts opts;
    struct rdzv_client_events ev;
    void *arg;
    uv_loop_t *loop;
    struct resolve *resolve;
    struct rdzv_server *server; /* NULL: another node runs it */
    struct sockaddr_storage to[ADDRESSES_MAX];
    int to_count, to_next;
    int port;              /* of the server */
    uv_timer_t timer;      /* before the connection: on_try(); after it: on_notice() */
    uint64_t started_ms;   /* when the first name resolution was started */
    struct dial *dial;     /* the present try to connect */
    struct wait_line wait; /* for a server, then for the other nodes */
    bool trying;           /* a lookup or a connection is in progress */
    const char *error;     /* why no server answered so far */
    bool warned;           /* it was said that no server answers */
    struct control *connection;
    int port_fd; /* holds a port for MASTER_PORT until the assignment */
};

/* A try to connect. It may outlive its client until the loop has closed it. */
struct dial {
    uv_tcp_t tcp;
    uv_connect_t req;
    struct rdzv_client *rdzv; /* NULL: the client was closed */
};

static void fail(struct rdzv_client *r, const struct err *e)
{
    control_close(TAKE(r->connection));
    uv_timer_stop(&r->timer);
    r->ev.failed(r->arg, e);
}

static void fail_text(struct rdzv_client *r, int code, const char *why)
{
    struct err e = {0};
    err_set(&e, code, "rendezvous at %s:%d: %s", r->opts.host, r->port, why);
    fail(r, &e);
}

/* ---- frames of the server ------------------------------------------------------------------- */

static void free_port(struct rdzv_client *r)
{
    auto_fd(&r->port_fd);
    r->port_fd = -1;
}

static void on_notice(uv_timer_t *t)
{
    struct rdzv_client *r = t->data;
    int64_t now_ms = (int64_t)uv_now(r->loop);
    if (wait_line_due(&r->wait, now_ms))
        wait_line_say(&r->wait, now_ms, "rendezvous at %s:%d: not all nodes have joined",
                      r->opts.host, r->port);
}

static int read_assignment(struct rdzv_client *r, json_t *head)
{
    struct rdzv_client_assignment a;
    if (json_unpack(head, "{s:i,s:i,s:i,s:i,s:i,s:s}", "node", &a.node, "nodes", &a.nodes, "first",
                    &a.first_rank, "world", &a.world_size, "port", &a.master_port, "address",
                    &a.master_addr) < 0 ||
        !json_fits_int(head, NULL) || a.nodes < 1 || a.nodes > r->opts.nodes_max || a.node < 0 ||
        a.node >= a.nodes || a.first_rank < 0 || a.world_size < r->opts.ranks ||
        a.first_rank > a.world_size - r->opts.ranks || a.master_port < 1 || a.master_port > 65535)
        return -EBADMSG;
    uv_timer_stop(&r->timer);
    free_port(r); /* node 0's launcher now binds this port */
    r->ev.assigned(r->arg, &a);
    return 0;
}

static int read_stop(struct rdzv_client *r, json_t *head)
{
    int failure;
    const char *why;
    if (json_unpack(head, "{s:b,s:s}", "failure", &failure, "why", &why) < 0)
        return -EBADMSG;
    r->ev.stop(r->arg, failure, why);
    return 0;
}

static void on_frame(void *arg, const struct control_frame *f)
{
    struct rdzv_client *r = arg;
    const char *why = "invalid message";
    if (strcmp(f->type, "job_done") == 0) {
        r->ev.job_done(r->arg);
        return;
    }
    if (strcmp(f->type, "reject") == 0) {
        /* If there is no reason, the default text stays */
        (void)json_optional_str(&why, f->head, "why", NULL);
        fail_text(r, -EPERM, why);
        return;
    }
    int rc = strcmp(f->type, "assignment") == 0 ? read_assignment(r, f->head)
             : strcmp(f->type, "stop") == 0     ? read_stop(r, f->head)
                                                : -EBADMSG;
    if (rc < 0)
        fail_text(r, rc,
                  "invalid message from its server; all nodes need the same version of drover");
}

static void on_disconnected(void *arg, const char *why)
{
    struct rdzv_client *r = arg;
    AUTO(free) char *text = xasprintf("its server disconnected: %s", why);
    fail_text(r, -ECONNRESET, text);
}

/* ---- connect -------------------------------------------------------------------------------- */

static void on_closed(uv_handle_t *h)
{
    free(h->data);
}

static int start_resolving(struct rdzv_client *r, struct err *e);

static void say_no_server(struct rdzv_client *r)
{
    r->warned = true;
    wait_line_say(&r->wait, (int64_t)uv_now(r->loop), "rendezvous at %s:%d: no server yet: %s",
                  r->opts.host, r->port, r->error);
}

/* Until there is a connection: ends the wait at its deadline, says what it waits for, and tries
 * again after a failure. The deadline also ends a lookup or a connection that gets no answer. */
static void on_try(uv_timer_t *t)
{
    struct rdzv_client *r = t->data;
    int64_t now_ms = (int64_t)uv_now(r->loop);
    struct err e = {0};
    if (now_ms - (int64_t)r->started_ms >= r->opts.join_ms) {
        AUTO(free)
        char *why = xasprintf("no server in %g s: %s", (double)r->opts.join_ms / 1000, r->error);
        fail_text(r, -ETIMEDOUT, why);
        return;
    }
    if (wait_line_due(&r->wait, now_ms))
        say_no_server(r);
    if (!r->trying && start_resolving(r, &e) < 0)
        fail(r, &e);
}

/* on_try() tries again. It repeats the name resolution, which may then succeed or give another
 * address. `error` is a string of the C library or of libuv. */
static void try_failed(struct rdzv_client *r, const char *error)
{
    r->trying = false;
    r->error = error;
    /* A name that is unknown may be a typing error: the user learns of it at once */
    if (r->to_count == 0 && !r->warned)
        say_no_server(r);
}

static int open_connection(struct rdzv_client *r, const struct dial *d, struct err *e)
{
    static const struct control_events events = {.frame = on_frame, .ended = on_disconnected};
    uv_os_fd_t fd = -1;
    int rc = uv_fileno((const uv_handle_t *)&d->tcp, &fd);
    int own = rc == 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (own < 0)
        return err_set(e, rc ? rc : -errno, "rendezvous: cannot keep the connection");
    rc = control_open(&r->connection, r->loop, own, NULL, &events, r, e);
    if (rc < 0)
        return rc;
    control_authenticate(r->connection, CONTROL_SILENT_MS);
    control_tolerate_frozen(r->connection);
    return 0;
}

static void connect_next(struct rdzv_client *r);

static void connect_other(struct rdzv_client *r, int error)
{
    if (r->to_next < r->to_count)
        connect_next(r);
    else
        try_failed(r, uv_strerror(error));
}

static void on_connected(uv_connect_t *req, int status)
{
    struct dial *d = req->data;
    struct rdzv_client *r = d->rdzv;
    struct err e = {0};
    if (!r) /* rdzv_client_close() has closed it */
        return;
    r->dial = NULL;
    if (status < 0)
        connect_other(r, status);
    else if (open_connection(r, d, &e) < 0 || rdzv_client_join(r, &e) < 0)
        fail(r, &e);
    uv_close((uv_handle_t *)&d->tcp, on_closed);
}

static void connect_next(struct rdzv_client *r)
{
    struct dial *d = xzalloc(sizeof *d);
    uv_tcp_init(r->loop, &d->tcp);
    d->tcp.data = d->req.data = d;
    d->rdzv = r;
    const struct sockaddr *to = (const struct sockaddr *)&r->to[r->to_next++];
    int rc = uv_tcp_connect(&d->req, &d->tcp, to, on_connected);
    if (rc == 0) {
        r->dial = d;
        return;
    }
    uv_close((uv_handle_t *)&d->tcp, on_closed);
    connect_other(r, rc);
}

/* ---- resolve -------------------------------------------------------------------------------- */

static bool is_own_address(const struct addrinfo *found)
{
    for (const struct addrinfo *a = found; a; a = a->ai_next) {
        char text[64];
        if (getnameinfo(a->ai_addr, a->ai_addrlen, text, sizeof text, NULL, 0, NI_NUMERICHOST))
            continue;
        AUTO(free) char *interface = netif_by_address(text, NULL);
        if (interface)
            return true;
    }
    return false;
}

static void keep_addresses(struct rdzv_client *r, const struct addrinfo *found)
{
    r->to_count = r->to_next = 0;
    for (const struct addrinfo *a = found; a && r->to_count < ADDRESSES_MAX; a = a->ai_next) {
        struct sockaddr_storage *to = &r->to[r->to_count];
        if (a->ai_addrlen > sizeof *to)
            continue;
        memcpy(to, a->ai_addr, a->ai_addrlen);
        in_port_t port = htons((uint16_t)r->port);
        if (a->ai_family == AF_INET)
            ((struct sockaddr_in *)to)->sin_port = port;
        else
            ((struct sockaddr_in6 *)to)->sin6_port = port;
        r->to_count++;
    }
}

static void on_resolved(void *arg, int i, int status, const struct addrinfo *found)
{
    struct rdzv_client *r = arg;
    struct err e = {0};
    if (status != 0) {
        try_failed(r, gai_strerror(status));
        return;
    }
    bool serve =
        !r->server && (r->opts.is_host == 1 || (r->opts.is_host < 0 && is_own_address(found)));
    int rc = serve ? rdzv_server_open(&r->server, r->loop, &r->opts, &r->port, &e) : 0;
    /* The port may belong to the server of another node on this machine. The client then connects
     * to that server. */
    if (rc < 0 && (rc != -EADDRINUSE || r->opts.is_host == 1)) {
        fail(r, &e);
        return;
    }
    keep_addresses(r, found);
    connect_next(r);
}

static int start_resolving(struct rdzv_client *r, struct err *e)
{
    char *names[] = {(char *)r->opts.host, NULL};
    resolve_close(TAKE(r->resolve));
    r->trying = true;
    r->to_count = r->to_next = 0;
    return resolve_open(&r->resolve, r->loop, names, on_resolved, r, e);
}

/* ---- open and close ------------------------------------------------------------------------- */

int rdzv_client_join(struct rdzv_client *r, struct err *e)
{
    int port = 0;
    free_port(r);
    int rc = port_hold_in(&r->port_fd, &port, r->opts.ports, e);
    if (rc < 0)
        return rc;
    wait_line_begin(&r->wait, (int64_t)uv_now(r->loop));
    uv_timer_start(&r->timer, on_notice, TICK_MS, TICK_MS);
    if (r->connection)
        control_send(r->connection,
                     json_pack("{s:s,s:i,s:o,s:i,s:i,s:o,s:i,s:i,s:o,s:b}", "t", "join", "protocol",
                               CONTROL_FRAME_PROTOCOL, "id", json_text(r->opts.id), "min",
                               r->opts.nodes_min, "max", r->opts.nodes_max, "name",
                               json_text(r->opts.name), "ranks", r->opts.ranks, "port", port,
                               "endpoint", json_text(r->opts.host), "host", r->server != NULL),
                     NULL, 0);
    return 0;
}

void rdzv_client_ranks_ended(struct rdzv_client *r, bool well, const char *reason, bool final)
{
    if (r->connection)
        control_send(r->connection,
                     json_pack("{s:s,s:b,s:o,s:b}", "t", "ended", "well", well, "why",
                               json_text(reason), "final", final),
                     NULL, 0);
}

void rdzv_client_close(struct rdzv_client *r)
{
    if (!r)
        return;
    resolve_close(r->resolve);
    if (r->dial) {
        r->dial->rdzv = NULL;
        uv_close((uv_handle_t *)&r->dial->tcp, on_closed);
    }
    control_close(r->connection);
    rdzv_server_close(r->server);
    free_port(r);
    uv_close((uv_handle_t *)&r->timer, on_closed);
}

int rdzv_client_open(struct rdzv_client **out, uv_loop_t *loop, const struct rdzv_client_opts *opts,
                     const struct rdzv_client_events *ev, void *arg, struct err *e)
{
    AUTO(rdzv_client) struct rdzv_client *r = xzalloc(sizeof *r);
    r->opts = *opts;
    r->ev = *ev;
    r->arg = arg;
    r->loop = loop;
    r->port = opts->port;
    r->port_fd = -1;
    uv_timer_init(loop, &r->timer);
    r->timer.data = r;
    r->started_ms = uv_now(loop);
    wait_line_begin(&r->wait, (int64_t)r->started_ms);
    r->error = "no answer yet";
    uv_timer_start(&r->timer, on_try, RETRY_MS, RETRY_MS);
    int rc = start_resolving(r, e);
    if (rc < 0)
        return rc;
    *out = TAKE(r);
    return 0;
}
