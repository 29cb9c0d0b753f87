#include "serve/data/serve_pack.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "common/json.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "columns are sent as they are in memory");

enum { ALIGN = 8 };

static const struct {
    const char *name;
    size_t size;
} types[] = {
    [SERVE_PACK_F32] = {"f32", 4},
    [SERVE_PACK_F64] = {"f64", 8},
    [SERVE_PACK_U8] = {"u8", 1},
    [SERVE_PACK_U32] = {"u32", 4},
};

static void add_zeroes(struct strbuf *b, size_t count)
{
    strbuf_reserve(b, count);
    memset(b->data + b->len, 0, count);
    b->len += count;
}

/* Drops the bytes of the newest column if an earlier one has the same: both have one offset. */
static void share_newest(struct serve_pack *p)
{
    const char *name;
    json_t *place, *count = json_array_get(p->newest, 2);
    size_t at = (size_t)json_integer_value(json_array_get(p->newest, 1));
    json_object_foreach (p->columns, name, place) {
        if (place == p->newest)
            return;
        json_t *old = json_array_get(place, 1);
        if (json_equal(json_array_get(place, 0), json_array_get(p->newest, 0)) &&
            json_equal(json_array_get(place, 2), count) &&
            memcmp(p->data.data + json_integer_value(old), p->data.data + at, p->data.len - at) ==
                0) {
            json_array_set(p->newest, 1, old);
            p->data.len = at;
            return;
        }
    }
}

void *serve_pack_add(struct serve_pack *p, const char *name, enum serve_pack_type type,
                     size_t count)
{
    if (!p->columns)
        p->columns = json_object();
    share_newest(p);
    add_zeroes(&p->data, (ALIGN - p->data.len % ALIGN) % ALIGN);
    size_t at = p->data.len;
    add_zeroes(&p->data, count * types[type].size);
    p->newest = json_pack("[s,I,I]", types[type].name, (json_int_t)at, (json_int_t)count);
    json_object_set_new(p->columns, name, p->newest);
    return p->data.data + at;
}

void serve_pack_join(struct strbuf *out, const json_t *head, const char *data, size_t len)
{
    AUTO(free) char *text = json_line(head);
    size_t length = strlen(text), pad = (ALIGN - (sizeof(uint32_t) + length) % ALIGN) % ALIGN;
    uint32_t total = (uint32_t)(length + pad);
    strbuf_add(out, &total, sizeof total);
    strbuf_add(out, text, length);
    for (size_t i = 0; i < pad; i++)
        strbuf_putc(out, ' ');
    strbuf_add(out, data, len);
}

void serve_pack_finish(struct strbuf *out, struct serve_pack *p, json_t *head)
{
    share_newest(p);
    json_object_set_new(head, "columns", p->columns ? p->columns : json_object());
    serve_pack_join(out, head, p->data.data ? p->data.data : "", p->data.len);
    strbuf_free(&p->data);
    json_decref(head);
    *p = (struct serve_pack){0};
}

static uint32_t head_length(const struct strbuf *body)
{
    uint32_t len;
    memcpy(&len, body->data, sizeof len);
    return len;
}

json_t *serve_pack_head(const struct strbuf *body)
{
    return json_loadb(body->data + sizeof(uint32_t), head_length(body), 0, NULL);
}

const char *serve_pack_data(const struct strbuf *body)
{
    return body->data + sizeof(uint32_t) + head_length(body);
}

void serve_pack_planes(struct strbuf *body)
{
    AUTO(json) json_t *head = serve_pack_head(body);
    size_t start = (size_t)(serve_pack_data(body) - body->data);
    AUTO(strbuf) struct strbuf copy = {0};
    strbuf_add(&copy, body->data, body->len);
    char *data = body->data + start;
    const char *from = copy.data + start;
    const char *name;
    json_t *place;
    json_object_foreach (json_object_get(head, "columns"), name, place) {
        const char *type = json_string_value(json_array_get(place, 0));
        size_t at = (size_t)json_integer_value(json_array_get(place, 1));
        size_t count = (size_t)json_integer_value(json_array_get(place, 2)), t = 0;
        while (strcmp(types[t].name, type) != 0)
            t++;
        for (size_t i = 0; i < count; i++)
            for (size_t k = 0; k < types[t].size; k++)
                data[at + k * count + i] = from[at + i * types[t].size + k];
    }
}
