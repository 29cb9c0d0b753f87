/* serve_api - answers requests, without a connection: who may ask, and what the answer is. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/strbuf.h"
#include "serve/data/serve_files.h"
#include "serve/data/serve_sweeps.h"
#include "serve/serve_request.h"

struct serve_context {
    struct serve_sweeps *sweeps;
    const struct serve_files *files;
    char *const *hosts; /* strv: the names that Host may have */
    const char *prefix; /* "" or "/a/b" */
    const char *token;
    const char *cookie; /* name of the cookie that has the token */
    bool own_reads;     /* processes of this user and of root need no token */
    bool control;       /* POST may change sweeps */
};

struct serve_request {
    const char *method, *path;
    const char *host, *cookie, *origin; /* headers; NULL: missing */
    const char *body;                   /* of POST; NUL-terminated */
    size_t body_len;
    bool own;                                          /* the sender needs no token */
    const char *(*query)(void *arg, const char *name); /* NULL: it is missing */
    void *arg;
};

enum serve_answer_kind {
    SERVE_ANSWER_BODY,
    SERVE_ANSWER_FILE,
    SERVE_ANSWER_EVENTS, /* a stream of events of the sweep, which begins with its present state */
    SERVE_ANSWER_COMMAND /* send `command` to the sweep, then answer */
};

struct serve_answer { /* zeroes are an empty answer */
    enum serve_answer_kind kind;
    int status; /* of HTTP */
    const char *type;
    struct strbuf body;
    const struct serve_file *file; /* borrowed */
    char *location, *set_cookie;   /* headers; NULL: none */
    int64_t log_size;              /* header X-Log-Size; -1: none */
    char sweep[SERVE_ROUTE_NAME_MAX + 1];
    json_t *command;
};

/* Makes the answer to a request. */
void serve_api_answer(struct serve_answer *out, const struct serve_context *x,
                      const struct serve_request *r);
void serve_answer_free(struct serve_answer *a);

/* Sets the answer to {"error", "hint"?} with this status of HTTP. */
void serve_answer_error(struct serve_answer *a, int status, const struct err *e);
/* Sets the answer to a JSON value, and takes its ownership. */
void serve_answer_json(struct serve_answer *a, json_t *value);

/* Appends the data of an event: {"seq","epoch","state","total"}, or {"error"} if the sweep cannot
 * be read. Sets *seq to the last record; -1: it cannot be read. */
void serve_api_event(struct strbuf *out, int64_t *seq, struct serve_sweeps *sweeps,
                     const char *name);
