#include "serve/serve_api.h"

#include <errno.h>
#include <string.h>

#include "common/json.h"
#include "launcher/jobs/registry.h"
#include "serve/data/serve_curves.h"
#include "serve/data/serve_overview.h"
#include "serve/data/serve_pack.h"
#include "serve/data/serve_surface.h"
#include "serve/serve_command.h"

enum {
    HTTP_OK = 200,
    HTTP_SEE_OTHER = 303,
    HTTP_BAD_REQUEST = 400,
    HTTP_UNAUTHORIZED = 401,
    HTTP_FORBIDDEN = 403,
    HTTP_NOT_FOUND = 404,
    HTTP_METHOD_NOT_ALLOWED = 405,
    HTTP_CONFLICT = 409,
    HTTP_MISDIRECTED = 421,
    HTTP_INTERNAL_ERROR = 500,
    HTTP_UNAVAILABLE = 503,
    LOG_TAIL = 64 << 10,
    LOG_TAIL_MAX = 1 << 20
};

static const char type_json[] = "application/json", type_binary[] = "application/octet-stream",
                  type_text[] = "text/plain; charset=utf-8";

void serve_answer_free(struct serve_answer *a)
{
    strbuf_free(&a->body);
    free(a->location);
    free(a->set_cookie);
    json_decref(a->command);
    *a = (struct serve_answer){0};
}

void serve_answer_json(struct serve_answer *a, json_t *value)
{
    AUTO(free) char *text = json_line(value);
    strbuf_reset(&a->body);
    strbuf_puts(&a->body, text);
    a->kind = SERVE_ANSWER_BODY;
    a->status = HTTP_OK;
    a->type = type_json;
    json_decref(value);
}

void serve_answer_error(struct serve_answer *a, int status, const struct err *e)
{
    json_t *o = json_pack("{s:o}", "error", json_text(e->text));
    if (*e->hint)
        json_object_set_new(o, "hint", json_text(e->hint));
    serve_answer_json(a, o);
    a->status = status;
}

static void refuse(struct serve_answer *a, int status, const char *text, const char *hint)
{
    struct err e = {0};
    err_set(&e, -EPERM, "%s", text);
    if (hint)
        err_hint(&e, "%s", hint);
    serve_answer_error(a, status, &e);
}

/* ---- the answers ---------------------------------------------------------------------------- */

struct asked {
    const struct serve_context *context;
    const struct serve_request *request;
    const struct serve_route *route;
    struct serve_sweep *sweep; /* NULL: the route has none */
};

static const char *query(const struct asked *q, const char *name)
{
    return q->request->query(q->request->arg, name);
}

/* Each sets the answer and returns 0, or fails. */

static int answer_sweeps(struct serve_answer *a, const struct asked *q, struct err *e)
{
    json_t *list = serve_sweeps_list(q->context->sweeps, e);
    if (!list)
        return e->code;
    json_object_set_new(list, "control", json_boolean(q->context->control));
    json_object_set_new(list, "version", json_string(DROVER_VERSION));
    serve_answer_json(a, list);
    return 0;
}

static int answer_jobs(struct serve_answer *a, const struct asked *q, struct err *e)
{
    struct registry_list l;
    json_t *list = json_array();
    registry_read(&l);
    for (size_t i = 0; i < l.count; i++)
        json_array_append_new(list, registry_json(&l.at[i]));
    registry_end(&l);
    serve_answer_json(a, list);
    return 0;
}

static int answer_overview(struct serve_answer *a, const struct asked *q, struct err *e)
{
    a->type = type_json;
    if (serve_sweep_add_kept(&a->body, q->sweep, SERVE_KEPT_OVERVIEW))
        return 0;
    serve_answer_json(a, serve_overview_json(q->sweep));
    serve_sweep_keep(q->sweep, SERVE_KEPT_OVERVIEW, &a->body);
    return 0;
}

/* Reads a number of the address. `*out` stays if there is none. */
static int number(int64_t *out, const struct asked *q, const char *name, int64_t min, int64_t max,
                  struct err *e)
{
    int rc = serve_request_number(out, query(q, name), min, max, *out);
    return rc < 0 ? err_set(e, rc, "'%s' of the address is not a number in its range", name) : 0;
}

static int answer_columns(struct serve_answer *a, const struct asked *q, struct err *e)
{
    int64_t since = 0, planes = 0;
    if (number(&since, q, "since", 0, INT64_MAX, e) < 0 ||
        number(&planes, q, "planes", 0, 1, e) < 0)
        return -EINVAL;
    a->type = type_binary;
    if (!serve_sweep_add_kept(&a->body, q->sweep, since)) {
        serve_overview_columns(&a->body, q->sweep, since);
        serve_sweep_keep(q->sweep, since, &a->body);
    }
    if (planes)
        serve_pack_planes(&a->body);
    return 0;
}

static const char *metric_of(const struct asked *q)
{
    const char *name = query(q, "metric");
    name = name ? name : q->sweep->reader->spec->metrics[0].name;
    return name ? name : "";
}

static int answer_density(struct serve_answer *a, const struct asked *q, struct err *e)
{
    int64_t width = 400, height = 200, log = 0;
    if (number(&width, q, "width", 2, SERVE_CURVES_SIDE_MAX, e) < 0 ||
        number(&height, q, "height", 2, SERVE_CURVES_SIDE_MAX, e) < 0 ||
        number(&log, q, "log", 0, 1, e) < 0)
        return -EINVAL;
    const struct serve_curves_grid g = {metric_of(q), (size_t)width, (size_t)height, log != 0};
    serve_curves_density(&a->body, q->sweep->reader->columns, &g,
                         sweep_columns_maximizes(q->sweep->reader->columns, g.metric));
    a->type = type_binary;
    return 0;
}

static int answer_curves(struct serve_answer *a, const struct asked *q, struct err *e)
{
    int ids[SERVE_CURVES_TRIALS_MAX];
    size_t n = 0;
    const char *text = query(q, "ids");
    for (const char *p = text ? text : ""; *p && n < SERVE_CURVES_TRIALS_MAX;) {
        char *end;
        long id = strtol(p, &end, 10);
        if (end == p || id < 0 || id > INT32_MAX || (*end && *end != ','))
            return err_set(e, -EINVAL, "'ids' of the address is not a list of trials: 3,17");
        ids[n++] = (int)id;
        p = *end ? end + 1 : end;
    }
    serve_curves_of(&a->body, q->sweep->reader->columns, metric_of(q), ids, n);
    a->type = type_binary;
    return 0;
}

static int answer_surface(struct serve_answer *a, const struct asked *q, struct err *e)
{
    int64_t x = 0, y = -1, cells = 64, at = -1;
    if (number(&x, q, "x", 0, INT32_MAX, e) < 0 || number(&y, q, "y", -1, INT32_MAX, e) < 0 ||
        number(&cells, q, "cells", 2, SERVE_SURFACE_CELLS_MAX, e) < 0 ||
        number(&at, q, "at", -1, INT32_MAX, e) < 0)
        return -EINVAL;
    const struct serve_surface_plan plan = {(int)x, (int)y, (int)at, (size_t)cells};
    int rc = serve_surface_body(&a->body, q->sweep->reader, &plan, e);
    a->type = type_binary;
    if (rc != -ENOTSUP)
        return rc;
    serve_answer_json(a, json_pack("{s:o}", "missing", json_text(e->text))); /* not a failure */
    return 0;
}

static int answer_trial(struct serve_answer *a, const struct asked *q, struct err *e)
{
    json_t *t = serve_overview_trial(q->sweep, q->route->trial, e);
    if (!t)
        return e->code;
    serve_answer_json(a, t);
    return 0;
}

static int answer_log(struct serve_answer *a, const struct asked *q, struct err *e)
{
    int64_t tail = LOG_TAIL;
    off_t size = 0;
    if (number(&tail, q, "tail", 0, LOG_TAIL_MAX, e) < 0)
        return -EINVAL;
    int rc = serve_overview_log(&a->body, &size, q->sweep, q->route->trial, q->route->stream,
                                (size_t)tail, e);
    a->log_size = rc == 0 ? (int64_t)size : -1;
    a->type = type_text;
    return rc == -ENODATA ? 0 : rc; /* the trial exists, and its log does not: an empty answer */
}

static int answer_events(struct serve_answer *a, const struct asked *q, struct err *e)
{
    a->kind = SERVE_ANSWER_EVENTS;
    return 0;
}

static int answer_control(struct serve_answer *a, const struct asked *q, struct err *e)
{
    a->command = serve_command_read(q->request->body, q->request->body_len, e);
    a->kind = SERVE_ANSWER_COMMAND;
    return a->command ? 0 : e->code;
}

static int (*const answers[SERVE_ROUTE_KINDS])(struct serve_answer *a, const struct asked *q,
                                               struct err *e) = {
    [SERVE_ROUTE_SWEEPS] = answer_sweeps,     [SERVE_ROUTE_JOBS] = answer_jobs,
    [SERVE_ROUTE_OVERVIEW] = answer_overview, [SERVE_ROUTE_COLUMNS] = answer_columns,
    [SERVE_ROUTE_CURVES] = answer_curves,     [SERVE_ROUTE_DENSITY] = answer_density,
    [SERVE_ROUTE_SURFACE] = answer_surface,   [SERVE_ROUTE_EVENTS] = answer_events,
    [SERVE_ROUTE_CONTROL] = answer_control,   [SERVE_ROUTE_TRIAL] = answer_trial,
    [SERVE_ROUTE_LOG] = answer_log,
};

/* ---- who may ask ---------------------------------------------------------------------------- */

/* The token of the address becomes a cookie, so that it is in no later address. */
static void take_token(struct serve_answer *a, const struct serve_context *x)
{
    a->status = HTTP_SEE_OTHER;
    a->type = type_text;
    a->location = xstrdup("./"); /* relative, and a cookie without a path: a proxy may add a path */
    a->set_cookie = xasprintf("%s=%s; SameSite=Strict; HttpOnly", x->cookie, x->token);
}

/* Returns false after it has refused the request or has set the cookie. */
static bool admit(struct serve_answer *a, const struct serve_context *x,
                  const struct serve_request *r, const struct serve_route *route)
{
    bool changes = route->kind == SERVE_ROUTE_CONTROL, post = strcmp(r->method, "POST") == 0;
    const char *given = r->query(r->arg, "token");
    if (!serve_request_host_ok(r->host, x->hosts)) {
        refuse(a, HTTP_MISDIRECTED, "this server does not have the name in the address",
               "--host NAME allows another name");
    } else if (given && route->kind == SERVE_ROUTE_FILE &&
               serve_request_token_ok(given, x->token)) {
        take_token(a, x);
    } else if (!r->own && !serve_request_cookie_ok(r->cookie, x->cookie, x->token)) {
        refuse(a, HTTP_UNAUTHORIZED, "the token is missing or wrong",
               "open the address with '?token=' that 'drover serve' printed for the user who "
               "started it");
    } else if (changes && !x->control) {
        refuse(a, HTTP_FORBIDDEN, "this server only reads", "start 'drover serve' with --control");
    } else if (changes && !serve_request_origin_ok(r->origin, r->host)) {
        refuse(a, HTTP_FORBIDDEN, "the request comes from another site", NULL);
    } else if (changes ? !post : strcmp(r->method, "GET") != 0 && strcmp(r->method, "HEAD") != 0) {
        refuse(a, HTTP_METHOD_NOT_ALLOWED, changes ? "POST is needed" : "only GET is possible",
               NULL);
    } else {
        return true;
    }
    return false;
}

/* ENOTSUP: a store of a newer drover. */
static int status_of(int rc)
{
    return rc == -ENOENT                    ? HTTP_NOT_FOUND
           : rc == -EINVAL || rc == -ERANGE ? HTTP_BAD_REQUEST
           : rc == -EBUSY                   ? HTTP_UNAVAILABLE
           : rc == -ENOTSUP                 ? HTTP_CONFLICT
                                            : HTTP_INTERNAL_ERROR;
}

void serve_api_answer(struct serve_answer *out, const struct serve_context *x,
                      const struct serve_request *r)
{
    const struct serve_route route = serve_route_of(r->path, x->prefix);
    struct asked q = {x, r, &route, NULL};
    struct err e = {0};
    *out = (struct serve_answer){.status = HTTP_OK, .log_size = -1};
    if (!admit(out, x, r, &route))
        return;
    if (route.kind == SERVE_ROUTE_FILE)
        out->file = serve_files_find(x->files, route.file);
    if (out->file) {
        out->kind = SERVE_ANSWER_FILE;
        out->type = out->file->type;
        return;
    }
    if (!answers[route.kind]) {
        refuse(out, HTTP_NOT_FOUND, "there is nothing at this address", NULL);
        return;
    }
    memcpy(out->sweep, route.sweep, sizeof out->sweep);
    int rc = *route.sweep ? serve_sweeps_get(&q.sweep, x->sweeps, route.sweep, &e) : 0;
    if (rc == 0)
        rc = answers[route.kind](out, &q, &e);
    if (rc < 0)
        serve_answer_error(out, status_of(rc), &e);
}

void serve_api_event(struct strbuf *out, int64_t *seq, struct serve_sweeps *sweeps,
                     const char *name)
{
    struct serve_sweep *s = NULL;
    struct err e = {0};
    *seq = -1;
    json_t *data;
    if (serve_sweeps_get(&s, sweeps, name, &e) == 0) {
        *seq = s->reader->columns->seq;
        data = json_pack("{s:I,s:I,s:I}", "seq", (json_int_t)*seq, "epoch", (json_int_t)s->epoch,
                         "total", (json_int_t)s->reader->columns->count);
        sweep_reader_set_status(s->reader, data);
    } else {
        data = json_pack("{s:o}", "error", json_text(e.text));
    }
    AUTO(free) char *text = json_line(data);
    strbuf_puts(out, text);
    json_decref(data);
}
