#include "serve/report/sweep_report_slim.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/json.h"
#include "serve/data/serve_pack.h"

enum { DROPPED_BITS = 6 }; /* of the 24 of a float */

static const uint32_t missing = UINT32_MAX;

struct column {
    const char *type;
    size_t size, count;
    unsigned char *bytes; /* owned */
    size_t at;            /* in the output */
};

static size_t size_of(const char *type)
{
    return strcmp(type, "f64") == 0 ? 8 : strcmp(type, "u8") == 0 ? 1 : 4;
}

static bool is_time(const char *name)
{
    static const char *const names[] = {"created", "leased", "ended", "lease.begin", "lease.end"};
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static void to_differences(struct column *c)
{
    int32_t before = 0;
    for (size_t i = 0; i < c->count; i++) {
        float s;
        uint32_t code = missing;
        memcpy(&s, c->bytes + 4 * i, 4);
        double ms = round((double)s * 1000);
        if (fabs(ms) < INT32_MAX / 2.0) { /* 12 days; false if it is not a number */
            uint32_t d = (uint32_t)(int32_t)ms - (uint32_t)before;
            code = d << 1 ^ (d >> 31 ? missing : 0);
            before = (int32_t)ms;
        }
        memcpy(c->bytes + 4 * i, &code, 4);
    }
    c->type = "ms";
}

static void to_floats(struct column *c)
{
    for (size_t i = 0; i < c->count; i++) {
        double v;
        memcpy(&v, c->bytes + 8 * i, 8);
        float f = (float)v;
        memcpy(c->bytes + 4 * i, &f, 4);
    }
    c->type = "f32";
    c->size = 4;
}

static void round_floats(struct column *c)
{
    for (size_t i = 0; i < c->count; i++) {
        uint32_t bits;
        float f;
        memcpy(&f, c->bytes + 4 * i, 4);
        memcpy(&bits, &f, 4);
        if (isfinite(f))
            bits = (bits + (1U << (DROPPED_BITS - 1))) >> DROPPED_BITS << DROPPED_BITS;
        memcpy(c->bytes + 4 * i, &bits, 4);
    }
}

static struct column read_column(const char *name, const json_t *place, const char *data,
                                 bool rounds)
{
    const char *type = json_string_value(json_array_get(place, 0));
    size_t at = (size_t)json_integer_value(json_array_get(place, 1));
    struct column c = {type, size_of(type), (size_t)json_integer_value(json_array_get(place, 2)),
                       NULL, 0};
    c.bytes = xcalloc(c.count * c.size + 1, 1);
    memcpy(c.bytes, data + at, c.count * c.size);
    if (is_time(name))
        to_differences(&c);
    else if (rounds && strcmp(name, "value") == 0)
        to_floats(&c);
    if (rounds && strcmp(c.type, "f32") == 0)
        round_floats(&c);
    return c;
}

static const struct column *equal_column(const struct column *all, size_t n, const struct column *c)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(all[i].type, c->type) == 0 && all[i].count == c->count &&
            memcmp(all[i].bytes, c->bytes, c->count * c->size) == 0)
            return &all[i];
    return NULL;
}

static void add_bytes(struct strbuf *data, const struct column *c)
{
    for (size_t k = 0; k < c->size; k++)
        for (size_t i = 0; i < c->count; i++)
            strbuf_putc(data, (char)c->bytes[i * c->size + k]);
}

void sweep_report_slim(struct strbuf *out, const struct strbuf *body)
{
    AUTO(json) json_t *head = serve_pack_head(body);
    json_t *columns = json_object_get(head, "columns"), *place;
    bool rounds = json_integer_value(json_object_get(head, "total")) > SWEEP_REPORT_SLIM_FROM;
    AUTO(strbuf) struct strbuf data = {0};
    AUTO(free) struct column *all = xcalloc(json_object_size(columns) + 1, sizeof *all);
    json_t *places = json_object();
    const char *name;
    size_t n = 0;
    json_object_foreach (columns, name, place) {
        struct column c = read_column(name, place, serve_pack_data(body), rounds);
        const struct column *same = equal_column(all, n, &c);
        c.at = same ? same->at : data.len;
        if (!same)
            add_bytes(&data, &c);
        json_object_set_new(places, name,
                            json_pack("[s,I,I]", c.type, (json_int_t)c.at, (json_int_t)c.count));
        all[n++] = c;
    }
    json_object_set_new(head, "columns", places);
    serve_pack_join(out, head, strbuf_str(&data), data.len);
    while (n > 0)
        free(all[--n].bytes);
}
