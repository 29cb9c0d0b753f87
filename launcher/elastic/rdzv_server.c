#include "launcher/elastic/rdzv_server.h"

#include <errno.h>
#include <string.h>

#include "common/json.h"
#include "common/listen.h"
#include "launcher/elastic/rdzv_policy.h"
#include "launcher/remote/control/control.h"

enum { BACKLOG = 128, STRANGERS_MAX = 64, RANKS_MAX = 1 << 30 /* maximum of all nodes together */ };

struct rdzv_peer {
    struct rdzv_server *server;
    struct control *connection;
    struct rdzv_peer *next;
    int id;
    bool joined;
};

struct rdzv_server {
    uv_tcp_t listener;
    uv_timer_t timer;
    int open_handles;
    struct rdzv_client_opts opts;
    char *id; /* with the same escapes as in the nodes' messages */
    struct rdzv_policy *policy;
    struct rdzv_peer *peers;
    int last_id;
    int pending; /* number of peers that have not joined */
};

static int64_t now_ms(const struct rdzv_server *s)
{
    return (int64_t)uv_now(s->timer.loop);
}

static void on_timer(uv_timer_t *t);

/* ---- to the peers --------------------------------------------------------------------------- */

static json_t *frame_of(const struct rdzv_policy_action *a)
{
    switch (a->reply) {
    case RDZV_POLICY_ASSIGN:
        return json_pack("{s:s,s:i,s:i,s:i,s:i,s:o,s:i}", "t", "assignment", "node", a->node,
                         "nodes", a->nodes, "first", a->first_rank, "world", a->world_size,
                         "address", json_text(a->address), "port", a->port);
    case RDZV_POLICY_STOP:
        return json_pack("{s:s,s:b,s:o}", "t", "stop", "failure", a->failure, "why",
                         json_text(a->why));
    case RDZV_POLICY_JOB_DONE:
        return json_pack("{s:s}", "t", "job_done");
    default:
        return json_pack("{s:s,s:o}", "t", "reject", "why", json_text(a->why));
    }
}

static void perform(struct rdzv_server *s, size_t actions)
{
    for (size_t i = 0; i < actions; i++) {
        const struct rdzv_policy_action *a = rdzv_policy_action(s->policy, i);
        struct rdzv_peer *p = s->peers;
        while (p && p->id != a->id)
            p = p->next;
        if (p)
            control_send(p->connection, frame_of(a), NULL, 0);
    }
    int64_t due = rdzv_policy_deadline(s->policy), now = now_ms(s);
    uv_timer_stop(&s->timer);
    if (due != INT64_MAX)
        uv_timer_start(&s->timer, on_timer, due > now ? (uint64_t)(due - now) : 0, 0);
}

static void on_timer(uv_timer_t *t)
{
    struct rdzv_server *s = t->data;
    perform(s, rdzv_policy_timeout(s->policy, now_ms(s)));
}

/* ---- from the peers ------------------------------------------------------------------------- */

static void remove_peer(struct rdzv_peer *p)
{
    struct rdzv_peer **at = &p->server->peers;
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    p->server->pending -= !p->joined;
    control_close(p->connection);
    free(p);
}

/* Removes the peer; if it had joined, the policy learns of it. */
static void leave(struct rdzv_peer *p, const char *why)
{
    struct rdzv_server *s = p->server;
    int id = p->id;
    remove_peer(p);
    perform(s, rdzv_policy_left(s->policy, id, why, now_ms(s)));
}

static void reject(struct rdzv_peer *p, const char *why)
{
    control_send(p->connection, json_pack("{s:s,s:o}", "t", "reject", "why", json_text(why)), NULL,
                 0);
    leave(p, why);
}

/* Returns a text why the peer does not belong to this rendezvous, which the caller frees, or NULL
 * if the peer belongs to it. */
static char *mismatch(const struct rdzv_server *s, const char *id, int min, int max)
{
    if (!control_same_token(id, s->id))
        return xasprintf("this rendezvous belongs to another job: its --rdzv-id is not '%s'", id);
    if (min != s->opts.nodes_min || max != s->opts.nodes_max)
        return xasprintf("%s was started with --nnodes %d:%d, this node with %d:%d", s->opts.name,
                         s->opts.nodes_min, s->opts.nodes_max, min, max);
    return NULL;
}

/* Sets the address at which the nodes reach the peer. For a peer on this machine this is the
 * endpoint's address. */
static int address_of(struct rdzv_policy_node *n, struct rdzv_peer *p, const char *endpoint)
{
    struct control_endpoints ends;
    int rc = control_endpoints(&ends, p->connection);
    if (rc == 0)
        snprintf(n->address, sizeof n->address, "%s", ends.same_host ? endpoint : ends.peer);
    return rc;
}

static int read_join(struct rdzv_policy_node *n, struct rdzv_peer *p, json_t *head, struct err *e)
{
    const char *id, *name, *endpoint;
    int64_t protocol = 0;
    int min, max, host;
    json_error_t malformed;
    if (json_optional_int(&protocol, head, "protocol", e) < 0)
        return -EINVAL;
    if (protocol != CONTROL_FRAME_PROTOCOL)
        return err_set(e, -EINVAL, "version mismatch: this node has another version of drover");
    if (json_unpack_ex(head, &malformed, 0, "{s:s,s:i,s:i,s:s,s:i,s:i,s:s,s:b}", "id", &id, "min",
                       &min, "max", &max, "name", &name, "ranks", &n->ranks, "port", &n->port,
                       "endpoint", &endpoint, "host", &host) < 0)
        return err_set(e, -EINVAL, "%s", malformed.text);
    const struct rdzv_server *s = p->server;
    AUTO(free) char *why = mismatch(s, id, min, max);
    if (why)
        return err_set(e, -EINVAL, "%s", why);
    if (!json_fits_int(head, NULL) || n->ranks < 1 || n->ranks > RANKS_MAX / s->opts.nodes_max ||
        n->port < 1 || n->port > 65535 || strlen(name) > RDZV_POLICY_NAME_MAX ||
        address_of(n, p, endpoint) < 0)
        return err_set(e, -EINVAL, "invalid message");
    n->id = p->id;
    n->host = host;
    snprintf(n->name, sizeof n->name, "%s", name);
    return 0;
}

static void join(struct rdzv_peer *p, json_t *head)
{
    struct rdzv_server *s = p->server;
    struct rdzv_policy_node n = {0};
    struct err e = {0};
    if (read_join(&n, p, head, &e) < 0) {
        reject(p, e.text);
        return;
    }
    if (!p->joined) {
        p->joined = true;
        s->pending--;
        control_authenticate(p->connection, CONTROL_SILENT_MS);
    }
    perform(s, rdzv_policy_join(s->policy, &n, now_ms(s)));
}

static void ended(struct rdzv_peer *p, json_t *head)
{
    struct rdzv_server *s = p->server;
    int well, final = 0;
    const char *why;
    if (json_unpack(head, "{s:b,s:s,s?b}", "well", &well, "why", &why, "final", &final) < 0)
        return;
    perform(s, rdzv_policy_ended(s->policy, p->id, well, why, now_ms(s)));
    if (final && !well)
        perform(s, rdzv_policy_finish(s->policy));
}

static void on_frame(void *arg, const struct control_frame *f)
{
    struct rdzv_peer *p = arg;
    if (strcmp(f->type, "join") == 0)
        join(p, f->head);
    else if (strcmp(f->type, "ended") == 0 && p->joined)
        ended(p, f->head);
    else
        reject(p, "invalid message");
}

static void on_disconnected(void *arg, const char *why)
{
    leave(arg, why);
}

/* The list has the newest peer first. */
static void drop_oldest_pending(struct rdzv_server *s)
{
    struct rdzv_peer *oldest = NULL;
    for (struct rdzv_peer *p = s->peers; p; p = p->next)
        oldest = p->joined ? oldest : p;
    if (oldest)
        reject(oldest, "too many connections");
}

static void on_connection(uv_stream_t *listener, int status)
{
    static const struct control_events events = {.frame = on_frame, .ended = on_disconnected};
    struct rdzv_server *s = listener->data;
    struct rdzv_peer *p = xzalloc(sizeof *p);
    struct err e = {0};
    if (status < 0 || control_accept(&p->connection, listener, NULL, &events, p, &e) < 0) {
        free(p);
        return;
    }
    p->server = s;
    p->id = ++s->last_id;
    p->next = s->peers;
    s->peers = p;
    if (++s->pending > s->opts.nodes_max + STRANGERS_MAX)
        drop_oldest_pending(s);
}

/* ---- open and close ------------------------------------------------------------------------- */

static int listen_at(struct rdzv_server *s, const struct rdzv_client_opts *opts, int *bound,
                     struct err *e)
{
    struct listen_address at;
    if (listen_address_read(&at, opts->host, opts->port) < 0 || !listen_is_loopback(&at.at.any))
        at = listen_everywhere(opts->port);
    AUTO(fd) int fd = listen_bind(&at, LISTEN_REUSE);
    int rc = fd < 0 ? fd : uv_tcp_open(&s->listener, fd);
    if (rc == 0)
        (void)fd_take(&fd); /* the handle has it */
    if (rc == 0)
        rc = uv_listen((uv_stream_t *)&s->listener, BACKLOG, on_connection);
    if (rc < 0)
        return err_set(e, rc, "--rdzv-endpoint %s:%d: %s", opts->host, opts->port, uv_strerror(rc));
    *bound = listen_port(&at.at.any);
    return 0;
}

static void on_closed(uv_handle_t *x)
{
    struct rdzv_server *s = x->data;
    if (--s->open_handles > 0)
        return;
    rdzv_policy_free(s->policy);
    free(s->id);
    free(s);
}

void rdzv_server_close(struct rdzv_server *s)
{
    if (!s)
        return;
    while (s->peers)
        remove_peer(s->peers);
    uv_close((uv_handle_t *)&s->listener, on_closed);
    uv_close((uv_handle_t *)&s->timer, on_closed);
}

int rdzv_server_open(struct rdzv_server **out, uv_loop_t *loop, const struct rdzv_client_opts *opts,
                     int *bound, struct err *e)
{
    AUTO(rdzv_server) struct rdzv_server *s = xzalloc(sizeof *s);
    uv_tcp_init(loop, &s->listener);
    uv_timer_init(loop, &s->timer);
    s->listener.data = s->timer.data = s;
    s->open_handles = 2;
    int rc = listen_at(s, opts, bound, e);
    if (rc < 0)
        return rc;
    AUTO(json) json_t *id = json_text(opts->id);
    s->id = xstrdup(json_string_value(id));
    s->opts = *opts;
    const struct rdzv_policy_opts policy = {opts->nodes_min, opts->nodes_max,
                                            opts->port ? opts->last_call_ms : 0, opts->join_ms};
    s->policy = rdzv_policy_new(&policy, now_ms(s));
    *out = TAKE(s);
    return 0;
}
