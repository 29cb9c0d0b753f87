/* kit_columns - a sweep's columns from records that a test writes. */
#pragma once

#include <string.h>

#include "hpo/reader/sweep_columns.h"
#include "hpo/store/stored_sweep.h"
#include "serve/data/serve_pack.h"
#include "tests/unit/test.h"

struct kit {
    struct spec *spec;
    struct sweep_columns *columns;
    int64_t seq;
};

static inline struct kit kit_new(const char *sweep)
{
    struct kit k = {0};
    struct err e = {0};
    if (stored_sweep_spec(&k.spec, sweep, "s.yaml", &e) < 0)
        FAIL("%s", e.text);
    k.columns = sweep_columns_new(k.spec);
    return k;
}

static inline void kit_free(struct kit *k)
{
    sweep_columns_free(k->columns);
    spec_free(k->spec);
}

static inline void kit_record(struct kit *k, enum scheduler_record_kind kind, int trial,
                              int64_t lease, const char *data)
{
    struct err e = {0};
    const struct event_store_row r = {.seq = ++k->seq,
                                      .at_ms = 1000 * k->seq,
                                      .lease = lease,
                                      .kind = kind,
                                      .trial = trial,
                                      .data = data,
                                      .len = strlen(data)};
    if (sweep_columns_record(k->columns, &r, &e) < 0)
        FAIL("%s", e.text);
}

/* Reads a body of serve_pack.h. */
struct body {
    json_t *head;
    const char *data;
    size_t len;
};

static inline struct body body_read(const struct strbuf *b)
{
    uint32_t len;
    CHECK(b->len >= sizeof len);
    memcpy(&len, b->data, sizeof len);
    CHECK_INT((len + sizeof len) % 8, 0);
    struct body out = {json_loadb(b->data + sizeof len, len, 0, NULL), b->data + sizeof len + len,
                       b->len - len - sizeof len};
    CHECK(out.head);
    return out;
}

/* Returns the column, and sets *count. Fails if its type is another one. */
static inline const void *body_column(const struct body *b, const char *name, const char *type,
                                      size_t *count)
{
    const json_t *c = json_object_get(json_object_get(b->head, "columns"), name);
    if (!c)
        FAIL("there is no column '%s'", name);
    CHECK_STR(json_string_value(json_array_get(c, 0)), type);
    *count = (size_t)json_integer_value(json_array_get(c, 2));
    size_t at = (size_t)json_integer_value(json_array_get(c, 1));
    CHECK(at <= b->len);
    return b->data + at;
}
