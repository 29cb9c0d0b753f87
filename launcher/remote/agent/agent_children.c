#include "launcher/remote/agent/agent_children.h"

#include <string.h>

#include "common/log.h"

enum { STRANGERS_MAX = 64 }; /* connections that have not said hello, besides one per child */

/* ---- children ------------------------------------------------------------------------------- */

struct child {
    struct agent_children *all;
    struct child *next;
    struct control *control;
    int node; /* < 0: it has not said hello */
};

struct agent_children {
    uv_tcp_t listener;
    int listener_fd; /* holds its port */
    struct tree tree;
    int node;
    int silent_ms; /* for children, 0: CONTROL_SILENT_MS */
    char *token;
    struct child *children;
    struct agent_children_events ev;
    void *arg;
};

static struct child *find(const struct agent_children *c, int node)
{
    struct child *child = c->children;
    while (child && child->node != node)
        child = child->next;
    return child;
}

static void drop(struct child *child)
{
    struct child **at = &child->all->children;
    while (*at != child)
        at = &(*at)->next;
    *at = child->next;
    control_close(child->control);
    free(child);
}

static void reject(struct child *child, const char *why)
{
    log_info("a connection of another agent is rejected: %s", why);
    control_send(child->control, json_pack("{s:s,s:s}", "t", "reject", "why", why), NULL, 0);
    drop(child);
}

/* Output may wait for other frames; so may the end of output, which must not overtake it. */
static bool is_bulk(const struct control_frame *f)
{
    return strcmp(f->type, "output") == 0 || strcmp(f->type, "eof") == 0 ||
           json_is_true(json_object_get(f->head, "bulk"));
}

/* Sends a frame of a child up, with the child's number. */
static void send_up(struct child *child, const struct control_frame *f)
{
    const struct agent_children *c = child->all;
    AUTO(strbuf) struct strbuf b = {0};
    bool bulk = is_bulk(f);
    json_t *head = control_frame_relay(&b, child->node, json_incref(f->head), f->payload, f->len);
    if (bulk)
        json_object_set_new(head, "bulk", json_true());
    c->ev.up(c->arg, head, b.data, b.len, bulk);
}

/* Handles a child's first frame. The launcher checks the version and the host. */
static void on_hello(struct child *child, const struct control_frame *f)
{
    const struct agent_children *c = child->all;
    int64_t node = -1;
    if (strcmp(f->type, "hello") != 0 || json_require_int(&node, f->head, "node", NULL) < 0) {
        reject(child, "the first frame is not hello");
    } else if (node < 0 || node >= c->tree.nodes || tree_parent(&c->tree, (int)node) != c->node) {
        reject(child, "this agent is not the parent of that node");
    } else if (find(c, (int)node)) {
        reject(child, "an agent is already connected for this node");
    } else {
        child->node = (int)node;
        control_authenticate(child->control, c->silent_ms ? c->silent_ms : CONTROL_SILENT_MS);
        send_up(child, f);
        c->ev.joined(c->arg, child->node);
    }
}

static void on_frame(void *arg, const struct control_frame *f)
{
    struct child *child = arg;
    struct agent_children *c = child->all;
    if (child->node < 0)
        on_hello(child, f);
    else if (strcmp(f->type, "exchange") == 0)
        c->ev.exchange(c->arg, child->node, f->payload, f->len);
    else if (strcmp(f->type, "relay") == 0 || strcmp(f->type, "lost") == 0)
        c->ev.up(c->arg, json_incref(f->head), f->payload, f->len, is_bulk(f));
    else
        send_up(child, f);
}

static void on_ended(void *arg, const char *why)
{
    struct child *child = arg;
    struct agent_children *c = child->all;
    int node = child->node;
    bool silent = control_is_silent(child->control);
    drop(child);
    if (node < 0)
        return;
    c->ev.up(c->arg,
             json_pack("{s:s,s:i,s:b,s:o}", "t", "lost", "node", node, "silent", silent, "why",
                       json_text(why)),
             NULL, 0, false);
    c->ev.lost(c->arg, node);
}

/* Drops the oldest connection that has not said hello, if there are too many. */
static void limit_strangers(struct agent_children *c)
{
    struct child *oldest = NULL;
    int strangers = 0;
    for (struct child *child = c->children; child; child = child->next)
        if (child->node < 0) {
            strangers++;
            oldest = child;
        }
    if (strangers > c->tree.radix + STRANGERS_MAX)
        drop(oldest);
}

static void on_connection(uv_stream_t *listener, int status)
{
    static const struct control_events ev = {.frame = on_frame, .ended = on_ended};
    struct agent_children *c = listener->data;
    struct err e = {0};
    struct child *child = xzalloc(sizeof *child);
    if (status < 0 || control_accept(&child->control, listener, c->token, &ev, child, &e) < 0) {
        free(child); /* the peer has disconnected again */
        return;
    }
    child->all = c;
    child->node = -1;
    child->next = c->children;
    c->children = child;
    limit_strangers(c);
}

/* ---- start, frames from above, and end ------------------------------------------------------ */

static void on_closed(uv_handle_t *h)
{
    struct agent_children *c = h->data;
    auto_fd(&c->listener_fd);
    free(c->token);
    free(c);
}

int agent_children_open(struct agent_children **out, uv_loop_t *loop,
                        const struct agent_children_opts *o, const struct agent_children_events *ev,
                        void *arg, struct err *e)
{
    struct agent_children *c = xzalloc(sizeof *c);
    c->tree = o->tree;
    c->node = o->node;
    c->token = xstrdup(o->token);
    c->ev = *ev;
    c->arg = arg;
    int rc = control_listen(&c->listener, &c->listener_fd, loop, o->ports, on_connection, e);
    c->listener.data = c;
    if (rc < 0)
        agent_children_close(c);
    else
        *out = c;
    return rc;
}

int agent_children_port(const struct agent_children *c)
{
    return control_listener_port(&c->listener);
}

int agent_children_count(const struct agent_children *c)
{
    int n = 0;
    for (const struct child *child = c->children; child; child = child->next)
        n += child->node >= 0;
    return n;
}

void agent_children_close(struct agent_children *c)
{
    if (!c)
        return;
    while (c->children)
        drop(c->children);
    uv_close((uv_handle_t *)&c->listener, on_closed);
}

void agent_children_relay(struct agent_children *c, const struct control_frame *f)
{
    int64_t node = CONTROL_FRAME_TO_ALL;
    if (json_require_int(&node, f->head, "node", NULL) < 0)
        return;
    int hop = node < 0 ? CONTROL_FRAME_TO_ALL : tree_next_hop(&c->tree, c->node, (int)node);
    for (struct child *child = c->children; child; child = child->next)
        if (child->node >= 0 && (node < 0 || child->node == hop))
            control_send(child->control, json_incref(f->head), f->payload, f->len);
}

void agent_children_send(struct agent_children *c, int child, json_t *head, const char *payload,
                         size_t len)
{
    const struct child *to = find(c, child);
    if (to)
        control_send(to->control, head, payload, len);
    else
        json_decref(head);
}

void agent_children_set_silence(struct agent_children *c, int silent_ms)
{
    c->silent_ms = silent_ms;
    for (struct child *child = c->children; child; child = child->next)
        if (child->node >= 0)
            control_authenticate(child->control, silent_ms);
}
