#include "launcher/elastic/rdzv_server.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <string.h>

#include "common/json.h"
#include "common/log.h"
#include "launcher/elastic/rdzv_policy.h"
#include "launcher/remote/control.h"

enum { BACKLOG = 128, STRANGERS_MAX = 64, RANKS_MAX = 1 << 30 /* of all nodes */ };

struct rdzv_peer {
    struct rdzv_server *host;
    struct control *link;
    struct rdzv_peer *next;
    int id;
    bool joined;
};

struct rdzv_server {
    uv_tcp_t listener;
    uv_timer_t timer;
    int open_handles;
    char *id, *name;
    int nodes_min, nodes_max;
    struct rdzv_policy *round;
    struct rdzv_peer *guests;
    int last_id, strangers;
};

static int64_t now_ms(const struct rdzv_server *h)
{
    return (int64_t)uv_now(h->timer.loop);
}

static void on_timer(uv_timer_t *t);

/* ---- what guests are told ----------------------------------------------------------------------
 */

static json_t *words(const struct rdzv_policy_action *a)
{
    switch (a->say) {
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

static void tell(struct rdzv_server *h, size_t actions)
{
    for (size_t i = 0; i < actions; i++) {
        const struct rdzv_policy_action *a = rdzv_policy_action(h->round, i);
        struct rdzv_peer *g = h->guests;
        while (g && g->id != a->id)
            g = g->next;
        if (g)
            control_send(g->link, words(a), NULL, 0);
    }
    int64_t due = rdzv_policy_deadline(h->round), now = now_ms(h);
    uv_timer_stop(&h->timer);
    if (due != INT64_MAX)
        uv_timer_start(&h->timer, on_timer, due > now ? (uint64_t)(due - now) : 0, 0);
}

static void on_timer(uv_timer_t *t)
{
    struct rdzv_server *h = t->data;
    tell(h, rdzv_policy_timeout(h->round, now_ms(h)));
}

/* ---- what guests say ---------------------------------------------------------------------------
 */

static void drop(struct rdzv_peer *g)
{
    struct rdzv_peer **at = &g->host->guests;
    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    g->host->strangers -= !g->joined;
    control_close(g->link);
    free(g);
}

/* One that takes part has left by it. */
static void leave(struct rdzv_peer *g, const char *why)
{
    struct rdzv_server *h = g->host;
    int id = g->id;
    drop(g);
    tell(h, rdzv_policy_left(h->round, id, why, now_ms(h)));
}

static void refuse(struct rdzv_peer *g, const char *why)
{
    control_send(g->link, json_pack("{s:s,s:o}", "t", "reject", "why", json_text(why)), NULL, 0);
    leave(g, why);
}

/* Why the guest is at the wrong door; NULL: it is not. To be freed. */
static char *mismatch(const struct rdzv_server *h, const char *id, int64_t least, int64_t most)
{
    if (!control_same_token(id, h->id))
        return xasprintf("another job meets here: --rdzv-id is not '%s'", id);
    if (least != h->nodes_min || most != h->nodes_max)
        return xasprintf("%s was started with --nnodes %d:%d, this node with %d:%d", h->name,
                         h->nodes_min, h->nodes_max, (int)least, (int)most);
    return NULL;
}

/* The address by which others reach a guest; one on this machine is reached as the endpoint is. */
static int address_of(struct rdzv_policy_node *n, struct rdzv_peer *g, const char *endpoint)
{
    struct control_endpoints ends;
    int rc = control_endpoints(&ends, g->link);
    if (rc == 0)
        snprintf(n->address, sizeof n->address, "%s", ends.same_host ? endpoint : ends.peer);
    return rc;
}

static int read_join(struct rdzv_policy_node *n, struct rdzv_peer *g, const json_t *head,
                     struct err *e)
{
    const char *id = "", *name = "", *endpoint = "";
    int64_t protocol = 0, least = 0, most = 0, ranks = 0, port = 0;
    bool host = false;
    if (json_optional_int(&protocol, head, "protocol", e) < 0)
        return -EINVAL;
    if (protocol != CONTROL_FRAME_PROTOCOL)
        return err_set(e, -EINVAL, "this node has another version of drover");
    if (json_require_str(&id, head, "id", e) < 0 || json_require_int(&least, head, "min", e) < 0 ||
        json_require_int(&most, head, "max", e) < 0 ||
        json_require_str(&name, head, "name", e) < 0 ||
        json_require_int(&ranks, head, "ranks", e) < 0 ||
        json_require_int(&port, head, "port", e) < 0 ||
        json_require_str(&endpoint, head, "endpoint", e) < 0 ||
        json_require_bool(&host, head, "host", e) < 0)
        return -EINVAL;
    const struct rdzv_server *h = g->host;
    AUTO(free) char *why = mismatch(h, id, least, most);
    if (why)
        return err_set(e, -EINVAL, "%s", why);
    if (ranks < 1 || ranks > RANKS_MAX / h->nodes_max || port < 1 || port > 65535 ||
        strlen(name) > RDZV_POLICY_NAME_MAX || address_of(n, g, endpoint) < 0)
        return err_set(e, -EINVAL, "not understood");
    n->id = g->id;
    n->ranks = (int)ranks;
    n->port = (int)port;
    n->host = host;
    snprintf(n->name, sizeof n->name, "%s", name);
    return 0;
}

static void join(struct rdzv_peer *g, const json_t *head)
{
    struct rdzv_server *h = g->host;
    struct rdzv_policy_node n = {0};
    struct err e = {0};
    if (read_join(&n, g, head, &e) < 0) {
        refuse(g, e.text);
        return;
    }
    if (!g->joined) {
        g->joined = true;
        h->strangers--;
        control_authenticate(g->link, CONTROL_SILENT_MS);
    }
    tell(h, rdzv_policy_join(h->round, &n, now_ms(h)));
}

static void ended(struct rdzv_peer *g, const json_t *head)
{
    struct rdzv_server *h = g->host;
    bool well = false;
    const char *why = "";
    if (json_require_bool(&well, head, "well", NULL) == 0 &&
        json_require_str(&why, head, "why", NULL) == 0)
        tell(h, rdzv_policy_ended(h->round, g->id, well, why, now_ms(h)));
}

static void on_frame(void *arg, const struct control_frame *f)
{
    struct rdzv_peer *g = arg;
    if (strcmp(f->type, "join") == 0)
        join(g, f->head);
    else if (strcmp(f->type, "ended") == 0 && g->joined)
        ended(g, f->head);
    else
        refuse(g, "not understood");
}

static void on_guest_gone(void *arg, const char *why)
{
    leave(arg, why);
}

static void on_guest(uv_stream_t *s, int status)
{
    static const struct control_events events = {.frame = on_frame, .ended = on_guest_gone};
    struct rdzv_server *h = s->data;
    struct rdzv_peer *g = xzalloc(sizeof *g);
    struct err e = {0};
    if (status < 0 || control_accept(&g->link, s, &events, g, &e) < 0) {
        free(g);
        return;
    }
    g->host = h;
    g->id = ++h->last_id;
    g->next = h->guests;
    h->guests = g;
    if (++h->strangers > STRANGERS_MAX)
        refuse(g, "too many connections");
}

/* ---- life --------------------------------------------------------------------------------------
 */

static bool is_loopback(const char *host)
{
    return strcmp(host, "localhost") == 0 || strcmp(host, "::1") == 0 ||
           strncmp(host, "127.", 4) == 0;
}

static int listen_at(struct rdzv_server *h, const struct rdzv_client_opts *want, int *bound,
                     struct err *e)
{
    bool inside = is_loopback(want->host);
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)want->port)};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)want->port)};
    four.sin_addr.s_addr = htonl(inside ? INADDR_LOOPBACK : INADDR_ANY);
    bool v6 = !inside || strcmp(want->host, "::1") == 0;
    if (inside)
        six.sin6_addr = in6addr_loopback;
    int rc = uv_tcp_bind(&h->listener, v6 ? (struct sockaddr *)&six : (struct sockaddr *)&four, 0);
    if (rc < 0 && rc != UV_EADDRINUSE && v6 && !inside) /* no IPv6 in this machine or container */
        rc = uv_tcp_bind(&h->listener, (struct sockaddr *)&four, 0);
    if (rc == 0)
        rc = uv_listen((uv_stream_t *)&h->listener, BACKLOG, on_guest);
    if (rc < 0)
        return err_set(e, rc, "--rdzv-endpoint %s:%d: %s", want->host, want->port, uv_strerror(rc));
    struct sockaddr_storage a = {0};
    int len = sizeof a;
    (void)uv_tcp_getsockname(&h->listener, (struct sockaddr *)&a, &len); /* it listens */
    *bound = ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port
                                           : ((struct sockaddr_in *)&a)->sin_port);
    return 0;
}

static void on_closed(uv_handle_t *x)
{
    struct rdzv_server *h = x->data;
    if (--h->open_handles > 0)
        return;
    rdzv_policy_free(h->round);
    free(h->id);
    free(h->name);
    free(h);
}

void rdzv_server_close(struct rdzv_server *h)
{
    if (!h)
        return;
    while (h->guests)
        drop(h->guests);
    uv_close((uv_handle_t *)&h->listener, on_closed);
    uv_close((uv_handle_t *)&h->timer, on_closed);
}

int rdzv_server_open(struct rdzv_server **out, uv_loop_t *loop, const struct rdzv_client_opts *want,
                     int *bound, struct err *e)
{
    AUTO(rdzv_server) struct rdzv_server *h = xzalloc(sizeof *h);
    uv_tcp_init(loop, &h->listener);
    uv_timer_init(loop, &h->timer);
    h->listener.data = h->timer.data = h;
    h->open_handles = 2;
    int rc = listen_at(h, want, bound, e);
    if (rc < 0)
        return rc;
    AUTO(json) json_t *id = json_text(want->id); /* as the nodes say it */
    h->id = xstrdup(json_string_value(id));
    h->name = xstrdup(want->name);
    h->nodes_min = want->nodes_min;
    h->nodes_max = want->nodes_max;
    const struct rdzv_policy_opts round = {want->nodes_min, want->nodes_max,
                                           want->port ? want->last_call_ms : 0, want->join_ms};
    h->round = rdzv_policy_new(&round, now_ms(h));
    *out = TAKE(h);
    return 0;
}
