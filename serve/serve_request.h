/* serve_request - what a request asks for, and whether its sender may ask: route, Host, token.
 * Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"

enum serve_route_kind {
    SERVE_ROUTE_NONE, /* no such address */
    SERVE_ROUTE_FILE, /* a file of the page; `file` is its name */
    SERVE_ROUTE_SWEEPS,
    SERVE_ROUTE_JOBS,
    SERVE_ROUTE_OVERVIEW, /* this and all following ones have `sweep` */
    SERVE_ROUTE_COLUMNS,
    SERVE_ROUTE_CURVES,
    SERVE_ROUTE_DENSITY,
    SERVE_ROUTE_SURFACE,
    SERVE_ROUTE_EVENTS,
    SERVE_ROUTE_CONTROL,
    SERVE_ROUTE_TRIAL, /* has `trial` */
    SERVE_ROUTE_LOG,   /* has `trial` and `stream` */
    SERVE_ROUTE_KINDS
};

enum { SERVE_ROUTE_NAME_MAX = 64 };

struct serve_route {
    enum serve_route_kind kind;
    char file[SERVE_ROUTE_NAME_MAX + 1];
    char sweep[SERVE_ROUTE_NAME_MAX + 1];
    int trial;
    char stream[8]; /* "stdout" or "stderr" */
};

/* Returns the route of a path. `prefix` ("" or "/a/b") is removed first; a proxy may have removed
 * it already. */
struct serve_route serve_route_of(const char *path, const char *prefix);

/* Reads a number of a query: the whole text must be an integer in [min, max]. Returns `otherwise`
 * if the text is NULL.
 *   -EINVAL  it is not */
int serve_request_number(int64_t *out, const char *text, int64_t min, int64_t max,
                         int64_t otherwise);

/* Returns true if the header Host names one of `hosts` (a strv), with any port. A page of another
 * name that resolves to this machine must not read the answers (DNS rebinding). */
bool serve_request_host_ok(const char *header, char *const *hosts);

/* Returns true if an Origin header is missing, or names the same host and port as Host does. */
bool serve_request_origin_ok(const char *origin, const char *host);

/* Returns true if `given` is the token. Takes the same time for every wrong token of its length. */
bool serve_request_token_ok(const char *given, const char *token);

/* Returns true if the header Cookie has a cookie `name` with the token as its value. */
bool serve_request_cookie_ok(const char *header, const char *name, const char *token);
