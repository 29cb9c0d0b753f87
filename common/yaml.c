#include "common/yaml.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "common/file.h"
#include "common/json.h"
#include "common/strbuf.h"
#include "common/utf8.h"
#include "common/yaml_scalar.h"

/* The position of a value is [line, column, children]. `children` has the positions of the value's
 * members or items, as an object or a list; it is null for a scalar. An alias and its anchor share
 * it. */
enum { POSITION_LINE, POSITION_COLUMN, POSITION_CHILDREN };

struct yaml_doc {
    char *name;
    json_t *root, *position;
};

/* A value that the reader has read. */
struct value {
    json_t *json, *position;
    int height; /* 1 for a scalar */
};

struct reader {
    yaml_parser_t parser;
    struct yaml_doc *doc;
    struct err *e;
    json_t *anchors;      /* name of a complete anchor: [value, children, height, nodes] */
    const char *text_key; /* the parameter of yaml_read() */
    bool in_text_key;     /* the reader is in the value of this key */
    int nodes;            /* number of nodes read, with aliases expanded */
};

AUTO_DEFINE_STRUCT(event, yaml_event_t, yaml_event_delete)

static void auto_value(struct value *v)
{
    json_decref(v->json);
    json_decref(v->position);
}

void yaml_doc_free(struct yaml_doc *d)
{
    if (!d)
        return;
    json_decref(d->root);
    json_decref(d->position);
    free(d->name);
    free(d);
}

const json_t *yaml_root(const struct yaml_doc *d)
{
    return d->root;
}

/* ---- positions ------------------------------------------------------------------------------ */

/* Returns a position (new reference). `children` is borrowed; NULL for a scalar. */
static json_t *position_new(yaml_mark_t at, json_t *children)
{
    return json_pack("[i, i, O?]", (int)at.line + 1, (int)at.column + 1, children);
}

static int position_part(const json_t *position, size_t part)
{
    return (int)json_integer_value(json_array_get(position, part));
}

/* Reads the next part of a JSON pointer (RFC 6901) into `part`, without its escapes. Returns the
 * rest of the pointer. */
static const char *next_part(const char *path, struct strbuf *part)
{
    strbuf_reset(part);
    for (path++; *path && *path != '/'; path++) {
        bool escape = *path == '~' && (path[1] == '0' || path[1] == '1');
        strbuf_putc(part, !escape ? *path : path[1] == '0' ? '~' : '/');
        path += escape;
    }
    return path;
}

static const json_t *find_position(const struct yaml_doc *d, const char *path)
{
    const json_t *position = d->position, *next = position;
    AUTO(strbuf) struct strbuf part = {0};
    for (; next && *path == '/'; position = next ? next : position) {
        path = next_part(path, &part);
        const char *key = strbuf_str(&part);
        const json_t *children = json_array_get(position, POSITION_CHILDREN);
        bool number = *key && !key[strspn(key, "0123456789")];
        next = number && json_is_array(children) ? json_array_get(children, strtoul(key, NULL, 10))
                                                 : json_object_get(children, key);
    }
    return position;
}

int yaml_error_at(const struct yaml_doc *d, const char *path, struct err *e, int code,
                  const char *fmt, ...)
{
    char text[sizeof e->text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    const json_t *at = find_position(d, path);
    return err_set(e, code, "%s:%d:%d: %s", d->name, position_part(at, POSITION_LINE),
                   position_part(at, POSITION_COLUMN), text);
}

/* ---- errors while reading ------------------------------------------------------------------- */

__attribute__((format(printf, 4, 5))) static int fail(struct reader *r, yaml_mark_t at, int code,
                                                      const char *fmt, ...)
{
    char text[sizeof r->e->text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_set(r->e, code, "%s:%zu:%zu: %s", r->doc->name, at.line + 1, at.column + 1, text);
}

/* Returns the line and column of an offset in bytes, which is all that libyaml reports for an
 * encoding error. */
static yaml_mark_t mark_of_offset(const unsigned char *text, size_t offset)
{
    yaml_mark_t at = {0};
    for (size_t i = 0; i < offset; i++) {
        at.column = text[i] == '\n' ? 0 : at.column + ((text[i] & 0xC0) != 0x80);
        at.line += text[i] == '\n';
    }
    return at;
}

static int syntax_error(struct reader *r)
{
    const yaml_parser_t *p = &r->parser;
    const char *what = p->problem ? p->problem : "not YAML";
    if (p->error == YAML_MEMORY_ERROR)
        return err_set(r->e, -ENOMEM, "%s: out of memory", r->doc->name);
    if (p->error == YAML_READER_ERROR)
        return fail(r, mark_of_offset(p->input.string.start, p->problem_offset), -EINVAL, "%s",
                    what);
    if (p->context && p->context_mark.line != p->problem_mark.line)
        return fail(r, p->problem_mark, -EINVAL, "%s (%s that starts in line %zu)", what,
                    p->context, p->context_mark.line + 1);
    return fail(r, p->problem_mark, -EINVAL, "%s%s%s", what, p->context ? ", " : "",
                p->context ? p->context : "");
}

static int next_event(struct reader *r, yaml_event_t *ev)
{
    return yaml_parser_parse(&r->parser, ev) ? 0 : syntax_error(r);
}

/* Adds `nodes` to the number of nodes, and fails if a limit is exceeded. Callers count one more
 * node per KiB of text, which also limits the size of the result. */
static int count_nodes(struct reader *r, yaml_mark_t at, int nodes, int depth)
{
    if (depth > YAML_DEPTH_MAX)
        return fail(r, at, -E2BIG, "nested deeper than %d", YAML_DEPTH_MAX);
    r->nodes += nodes; /* no overflow: both are at most YAML_NODES_MAX */
    if (r->nodes > YAML_NODES_MAX)
        return fail(r, at, -E2BIG, "more than %d values, including those that aliases expand to",
                    YAML_NODES_MAX);
    return 0;
}

/* ---- scalars and keys ----------------------------------------------------------------------- */

/* Returns true if a scalar has neither quotes nor a tag. Its text then determines its type. */
static bool is_plain(const yaml_event_t *ev)
{
    return ev->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && !ev->data.scalar.tag;
}

/* Rejects NUL bytes, which C strings cannot contain; libyaml has checked the encoding. */
static int check_text(struct reader *r, const yaml_event_t *ev)
{
    if (memchr(ev->data.scalar.value, '\0', ev->data.scalar.length))
        return fail(r, ev->start_mark, -EINVAL, "a NUL byte in a string");
    return 0;
}

static int unsupported_tag(struct reader *r, const yaml_event_t *ev, const yaml_char_t *tag)
{
    static const char core[] = "tag:yaml.org,2002:";
    const char *text = (const char *)tag;
    bool is_core = strncmp(text, core, sizeof core - 1) == 0;
    return fail(r, ev->start_mark, -EINVAL, "unsupported tag '%s%s'", is_core ? "!!" : "",
                is_core ? text + sizeof core - 1 : text);
}

static int check_tag(struct reader *r, const yaml_event_t *ev, const yaml_char_t *tag,
                     const char *allowed)
{
    return !tag || strcmp((const char *)tag, allowed) == 0 ? 0 : unsupported_tag(r, ev, tag);
}

static int read_scalar(struct reader *r, const yaml_event_t *ev, struct value *out)
{
    int rc = check_text(r, ev);
    if (rc < 0)
        return rc;
    char *text = (char *)ev->data.scalar.value;
    const char *tag = (const char *)ev->data.scalar.tag, *why = NULL;
    AUTO(free) char *written = xstrdup(text);
    if (!utf8_valid(text))
        return fail(r, ev->start_mark, -EINVAL, "'%.100s' is not text in UTF-8", text);
    json_t *v = is_plain(ev) && !r->in_text_key ? yaml_scalar(text, &why)
                : tag                           ? yaml_scalar_tagged(tag, text, &why)
                                                : json_string(text);
    if (!v && !why)
        return unsupported_tag(r, ev, ev->data.scalar.tag);
    if (!v)
        return fail(r, ev->start_mark, -EINVAL, "'%.100s' %s", written, why);
    out->json = v;
    return 0;
}

/* ---- collections ---------------------------------------------------------------------------- */

static int read_node(struct reader *r, const yaml_event_t *ev, int depth, struct value *out);

static int read_sequence(struct reader *r, int depth, struct value *out)
{
    json_t *children = json_array_get(out->position, POSITION_CHILDREN);
    for (;;) {
        AUTO(event) yaml_event_t ev = {0};
        AUTO(value) struct value item = {0};
        int rc = next_event(r, &ev);
        if (rc < 0 || ev.type == YAML_SEQUENCE_END_EVENT)
            return rc;
        rc = read_node(r, &ev, depth + 1, &item);
        if (rc < 0)
            return rc;
        if (json_array_append(out->json, item.json) < 0 ||
            json_array_append(children, item.position) < 0)
            return err_set(r->e, -ENOMEM, "%s: out of memory", r->doc->name);
        out->height = item.height >= out->height ? item.height + 1 : out->height;
    }
}

/* The members of a mapping and their positions, both as objects with the same keys. A mapping has
 * its own members and the members from merge keys. */
struct members {
    json_t *values, *positions;
};

/* Adds members. A member that exists gets the new value and keeps its place, as in a dictionary of
 * Python. */
static void add_members(struct members *to, json_t *values, json_t *positions)
{
    json_object_update(to->values, values);
    json_object_update(to->positions, positions);
}

/* Handles "<<: *mapping" and "<<: [*first, *second]": earlier mappings take precedence
 * (yaml.org/type/merge.html), so they are added last. */
static int merge(struct reader *r, struct members *into, const struct value *v, yaml_mark_t at)
{
    json_t *children = json_array_get(v->position, POSITION_CHILDREN);
    if (json_is_object(v->json)) {
        add_members(into, v->json, children);
        return 0;
    }
    bool mappings = json_is_array(v->json);
    for (size_t i = json_array_size(v->json); mappings && i-- > 0;) {
        json_t *item = json_array_get(v->json, i);
        mappings = json_is_object(item);
        add_members(into, item, json_array_get(json_array_get(children, i), POSITION_CHILDREN));
    }
    return mappings ? 0 : fail(r, at, -EINVAL, "'<<' needs a mapping, or a list of mappings");
}

static int read_key(struct reader *r, const yaml_event_t *ev, const struct members *own)
{
    if (ev->type != YAML_SCALAR_EVENT)
        return fail(r, ev->start_mark, -EINVAL, "a key must be text, not %s",
                    ev->type == YAML_ALIAS_EVENT ? "an alias" : "a list or a mapping");
    int rc = check_text(r, ev);
    if (rc == 0)
        rc = check_tag(r, ev, ev->data.scalar.tag, YAML_STR_TAG);
    if (rc == 0)
        rc = count_nodes(r, ev->start_mark, (int)(ev->data.scalar.length >> 10), 0);
    if (rc < 0)
        return rc;
    const char *key = (const char *)ev->data.scalar.value;
    if (!*key && is_plain(ev))
        return fail(r, ev->start_mark, -EINVAL, "a key is missing");
    const json_t *first = json_object_get(own->positions, key);
    if (first)
        return fail(r, ev->start_mark, -EINVAL, "duplicate key '%.100s', first in line %d", key,
                    position_part(first, POSITION_LINE));
    return 0;
}

/* Reads one key and its value. Members from a merge key go into `merged`. */
static int read_member(struct reader *r, const yaml_event_t *key, int depth, struct members *own,
                       struct members *merged, struct value *out)
{
    int rc = read_key(r, key, own);
    AUTO(event) yaml_event_t ev = {0};
    AUTO(value) struct value v = {0};
    if (rc == 0)
        rc = next_event(r, &ev);
    if (rc < 0)
        return rc;
    const char *name = (const char *)key->data.scalar.value;
    bool is_text = depth == 1 && r->text_key && strcmp(name, r->text_key) == 0;
    r->in_text_key |= is_text;
    rc = read_node(r, &ev, depth + 1, &v);
    if (rc < 0)
        return rc;
    r->in_text_key &= !is_text;
    out->height = v.height >= out->height ? v.height + 1 : out->height;
    if (is_plain(key) && strcmp(name, "<<") == 0)
        return merge(r, merged, &v, ev.start_mark);
    json_t *children = json_array_get(v.position, POSITION_CHILDREN);
    if (json_object_set(own->values, name, v.json) < 0 ||
        json_object_set_new(own->positions, name, position_new(key->start_mark, children)) < 0)
        return fail(r, key->start_mark, -EINVAL, "key '%.100s' is not text in UTF-8", name);
    return 0;
}

static int read_mapping(struct reader *r, int depth, struct value *out)
{
    AUTO(json) json_t *values = json_object(), *positions = json_object();
    struct members own = {values, positions};
    struct members all = {out->json, json_array_get(out->position, POSITION_CHILDREN)};
    for (;;) {
        AUTO(event) yaml_event_t key = {0};
        int rc = next_event(r, &key);
        if (rc < 0)
            return rc;
        if (key.type == YAML_MAPPING_END_EVENT)
            break;
        rc = read_member(r, &key, depth, &own, &all, out);
        if (rc < 0)
            return rc;
    }
    add_members(&all, values, positions); /* the own members take precedence over merged ones */
    return 0;
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static int read_alias(struct reader *r, const yaml_event_t *ev, int depth, struct value *out)
{
    const char *name = (const char *)ev->data.alias.anchor;
    json_t *children = NULL;
    int nodes = 0;
    if (json_unpack(json_object_get(r->anchors, name), "[O, o, i, i]", &out->json, &children,
                    &out->height, &nodes) < 0)
        return fail(r, ev->start_mark, -EINVAL, "alias '*%.100s': no complete anchor has this name",
                    name);
    out->position = position_new(ev->start_mark, children);
    return count_nodes(r, ev->start_mark, nodes, depth + out->height - 1);
}

/* Reads a node that is not an alias. Sets `*anchor` to the name of its anchor, borrowed, or to
 * NULL. */
static int read_content(struct reader *r, const yaml_event_t *ev, int depth, struct value *out,
                        const yaml_char_t **anchor)
{
    size_t length = ev->type == YAML_SCALAR_EVENT ? ev->data.scalar.length : 0;
    AUTO(json) json_t *children = NULL;
    int rc = count_nodes(r, ev->start_mark, 1 + (int)(length >> 10), depth);
    out->height = 1;
    if (rc < 0)
        return rc;
    switch (ev->type) {
    case YAML_SCALAR_EVENT:
        *anchor = ev->data.scalar.anchor;
        out->position = position_new(ev->start_mark, NULL);
        return read_scalar(r, ev, out);
    case YAML_SEQUENCE_START_EVENT:
        *anchor = ev->data.sequence_start.anchor;
        out->json = json_array();
        children = json_array();
        out->position = position_new(ev->start_mark, children);
        rc = check_tag(r, ev, ev->data.sequence_start.tag, YAML_SEQ_TAG);
        return rc < 0 ? rc : read_sequence(r, depth, out);
    case YAML_MAPPING_START_EVENT:
        *anchor = ev->data.mapping_start.anchor;
        out->json = json_object();
        children = json_object();
        out->position = position_new(ev->start_mark, children);
        rc = check_tag(r, ev, ev->data.mapping_start.tag, YAML_MAP_TAG);
        return rc < 0 ? rc : read_mapping(r, depth, out);
    default:
        return fail(r, ev->start_mark, -EINVAL, "a value is expected");
    }
}

/* Reads the node that starts with `ev`, at `depth` (1 for the root). An anchor is registered only
 * when its node is complete, so no node can contain itself. `*out` holds its references also after
 * a failure. */
static int read_node(struct reader *r, const yaml_event_t *ev, int depth, struct value *out)
{
    const yaml_char_t *anchor = NULL;
    int before = r->nodes;
    int rc = ev->type == YAML_ALIAS_EVENT ? read_alias(r, ev, depth, out)
                                          : read_content(r, ev, depth, out, &anchor);
    if (rc == 0 && anchor)
        json_object_set_new(r->anchors, (const char *)anchor,
                            json_pack("[O, O, i, i]", out->json,
                                      json_array_get(out->position, POSITION_CHILDREN), out->height,
                                      r->nodes - before));
    return rc;
}

static int read_document(struct reader *r)
{
    AUTO(event) yaml_event_t stream = {0};
    AUTO(event) yaml_event_t start = {0};
    AUTO(event) yaml_event_t first = {0};
    AUTO(event) yaml_event_t end = {0};
    AUTO(event) yaml_event_t after = {0};
    AUTO(value) struct value root = {0};
    int rc = next_event(r, &stream);
    if (rc == 0)
        rc = next_event(r, &start);
    if (rc == 0 && start.type == YAML_STREAM_END_EVENT)
        return fail(r, start.start_mark, -EINVAL, "the document is empty");
    if (rc == 0)
        rc = next_event(r, &first);
    if (rc == 0)
        rc = read_node(r, &first, 1, &root);
    if (rc == 0)
        rc = next_event(r, &end);
    if (rc == 0)
        rc = next_event(r, &after);
    if (rc == 0 && after.type != YAML_STREAM_END_EVENT)
        return fail(r, after.start_mark, -EINVAL, "a second document; only one is expected");
    r->doc->root = TAKE(root.json);
    r->doc->position = TAKE(root.position);
    return rc;
}

int yaml_read(struct yaml_doc **out, const char *text, size_t len, const char *name,
              const char *text_key, struct err *e)
{
    if (len > YAML_SIZE_MAX)
        return err_set(e, -E2BIG, "%s: larger than %d MiB", name, YAML_SIZE_MAX >> 20);
    AUTO(yaml_doc) struct yaml_doc *d = xzalloc(sizeof *d);
    d->name = xstrdup(name);
    struct reader r = {.doc = d, .e = e, .text_key = text_key};
    if (!yaml_parser_initialize(&r.parser))
        return err_set(e, -ENOMEM, "%s: out of memory", name);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, len);
    r.anchors = json_object();
    int rc = read_document(&r);
    yaml_parser_delete(&r.parser);
    json_decref(r.anchors);
    if (rc < 0)
        return rc;
    *out = TAKE(d);
    return 0;
}

int yaml_read_file(struct yaml_doc **out, const char *path, struct err *e)
{
    AUTO(strbuf) struct strbuf text = {0};
    int rc = file_read(&text, path, YAML_SIZE_MAX + 1); /* yaml_read() refuses more */
    if (rc < 0 && rc != -EFBIG)
        return err_set(e, rc, "%s: %s", path, strerror(-rc));
    return yaml_read(out, strbuf_str(&text), text.len, path, NULL, e);
}
