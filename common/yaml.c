#include "common/yaml.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "common/file.h"
#include "common/json.h"
#include "common/strbuf.h"
#include "common/yaml_scalar.h"

/* The position of a value in the file. `children` has the positions of the value's members or
 * elements, in the order of the JSON object or array. An alias and its anchor share this list; the
 * document owns all lists. */
struct position {
    int line, column;
    struct position_list *children; /* NULL for a scalar */
};

struct position_list {
    struct position *at;
    size_t count, cap;
    struct position_list *next;
};

struct yaml_doc {
    char *name;
    json_t *root;
    struct position position;
    struct position_list *lists;
};

/* A value that the reader has read. Holds a reference to `json`. */
struct value {
    json_t *json;
    struct position position;
    int height; /* 1 for a scalar */
    int nodes;  /* number of nodes in the value, including itself, with aliases expanded */
};

struct reader {
    yaml_parser_t parser;
    struct yaml_doc *doc;
    struct err *e;
    /* values of complete anchors; `names` maps an anchor's name to its index */
    struct value *anchors;
    size_t anchor_count;
    json_t *names;
    const char *text_key; /* the parameter of yaml_read() */
    bool in_text_key;     /* the reader is in the value of this key */
    int nodes;            /* number of nodes read, with aliases expanded */
};

static void auto_event(yaml_event_t *ev)
{
    yaml_event_delete(ev);
}

/* ---- positions ------------------------------------------------------------------------------ */

static struct position_list *position_list_new(struct yaml_doc *d)
{
    struct position_list *p = xzalloc(sizeof *p);
    p->next = d->lists;
    d->lists = p;
    return p;
}

static void position_list_add(struct position_list *p, struct position position)
{
    if (p->count == p->cap) {
        p->cap = p->cap ? 2 * p->cap : 4;
        p->at = xrealloc(p->at, p->cap, sizeof *p->at);
    }
    p->at[p->count++] = position;
}

void yaml_doc_free(struct yaml_doc *d)
{
    if (!d)
        return;
    while (d->lists) {
        struct position_list *p = d->lists;
        d->lists = p->next;
        free(p->at);
        free(p);
    }
    json_decref(d->root);
    free(d->name);
    free(d);
}

const json_t *yaml_root(const struct yaml_doc *d)
{
    return d->root;
}

/* Returns the index of the child of `v` that `part`, a part of a path, names. Returns -1 if there
 * is no such child. */
static int child_index(const json_t *v, const char *part)
{
    int i = 0;
    if (json_is_array(v)) {
        for (const char *s = part; *s; s++) {
            if (!isdigit((unsigned char)*s) || i > YAML_NODES_MAX)
                return -1;
            i = 10 * i + (*s - '0');
        }
        return *part && (size_t)i < json_array_size(v) ? i : -1;
    }
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)v, key, value) { /* the macro rejects const pointers */
        if (strcmp(key, part) == 0)
            return i;
        i++;
    }
    return -1;
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

static struct position find_position(const struct yaml_doc *d, const char *path)
{
    struct position position = d->position;
    const json_t *v = d->root;
    AUTO(strbuf) struct strbuf part = {0};
    while (*path == '/' && position.children) {
        path = next_part(path, &part);
        int i = child_index(v, strbuf_str(&part));
        if (i < 0)
            break;
        v = json_is_array(v) ? json_array_get(v, (size_t)i) : json_object_get(v, strbuf_str(&part));
        position = position.children->at[i];
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
    struct position at = find_position(d, path);
    return err_set(e, code, "%s:%d:%d: %s", d->name, at.line, at.column, text);
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
    json_t *v = is_plain(ev) && !r->in_text_key ? yaml_scalar(text, &why)
                : tag                           ? yaml_scalar_tagged(tag, text, &why)
                                                : json_string(text);
    AUTO(json) json_t *is_utf8 = v ? NULL : json_string(written);
    if (!v && !why && is_utf8)
        return unsupported_tag(r, ev, ev->data.scalar.tag);
    if (!v)
        return fail(r, ev->start_mark, -EINVAL, "'%.100s' %s", written,
                    why ? why : "is not text in UTF-8");
    out->json = v;
    return 0;
}

/* ---- collections ---------------------------------------------------------------------------- */

static int read_node(struct reader *r, const yaml_event_t *ev, int depth, struct value *out);

static int read_sequence(struct reader *r, int depth, struct value *out)
{
    AUTO(json) json_t *list = json_array();
    struct position_list *children = position_list_new(r->doc);
    for (;;) {
        AUTO(event) yaml_event_t ev = {0};
        struct value item;
        int rc = next_event(r, &ev);
        if (rc < 0)
            return rc;
        if (ev.type == YAML_SEQUENCE_END_EVENT)
            break;
        rc = read_node(r, &ev, depth + 1, &item);
        if (rc < 0)
            return rc;
        if (json_array_append_new(list, item.json) < 0)
            return err_set(r->e, -ENOMEM, "%s: out of memory", r->doc->name);
        position_list_add(children, item.position);
        out->height = item.height >= out->height ? item.height + 1 : out->height;
    }
    out->position.children = children;
    out->json = TAKE(list);
    return 0;
}

/* A mapping while it is read: its members and their positions. */
struct mapping {
    json_t *obj;
    struct position_list *positions;
};

/* The members that a mapping has from merge keys. `index` maps a key to its index in
 * `positions`. */
struct merged {
    struct mapping members;
    json_t *index;
};

/* Adds the members of `from`. A member that exists gets the new value and keeps its place, as in a
 * dictionary of Python. */
static void add_members(struct merged *to, json_t *from, const struct position_list *positions)
{
    const char *key;
    json_t *value;
    size_t i = 0;
    json_object_foreach (from, key, value) {
        const json_t *at = json_object_get(to->index, key);
        if (at) {
            to->members.positions->at[json_integer_value(at)] = positions->at[i];
        } else {
            json_object_set_new(to->index, key,
                                json_integer((json_int_t)to->members.positions->count));
            position_list_add(to->members.positions, positions->at[i]);
        }
        json_object_set(to->members.obj, key, value);
        i++;
    }
}

/* Handles "<<: *mapping" and "<<: [*first, *second]": earlier mappings take precedence
 * (yaml.org/type/merge.html), so they are added last. */
static int merge(struct reader *r, struct merged *into, const struct value *v, yaml_mark_t at)
{
    if (json_is_object(v->json)) {
        add_members(into, v->json, v->position.children);
        return 0;
    }
    size_t i = json_array_size(v->json);
    bool mappings = json_is_array(v->json);
    while (mappings && i-- > 0) {
        json_t *item = json_array_get(v->json, i);
        mappings = json_is_object(item);
        if (mappings)
            add_members(into, item, v->position.children->at[i].children);
    }
    return mappings ? 0 : fail(r, at, -EINVAL, "'<<' needs a mapping, or a list of mappings");
}

static int read_key(struct reader *r, const yaml_event_t *ev, const struct mapping *own)
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
    int i = json_object_get(own->obj, key) ? child_index(own->obj, key) : -1;
    if (i >= 0)
        return fail(r, ev->start_mark, -EINVAL, "duplicate key '%.100s', first in line %d", key,
                    own->positions->at[i].line);
    return 0;
}

/* Reads one key and its value. Members from a merge key go into `merged`. */
static int read_member(struct reader *r, const yaml_event_t *key, int depth, struct mapping *own,
                       struct merged *merged, struct value *out)
{
    int rc = read_key(r, key, own);
    AUTO(event) yaml_event_t ev = {0};
    if (rc == 0)
        rc = next_event(r, &ev);
    if (rc < 0)
        return rc;
    struct value v;
    const char *name = (const char *)key->data.scalar.value;
    bool is_text = depth == 1 && r->text_key && strcmp(name, r->text_key) == 0;
    r->in_text_key |= is_text;
    rc = read_node(r, &ev, depth + 1, &v);
    if (rc < 0)
        return rc;
    r->in_text_key &= !is_text;
    AUTO(json) json_t *value = v.json;
    out->height = v.height >= out->height ? v.height + 1 : out->height;
    if (is_plain(key) && strcmp(name, "<<") == 0)
        return merge(r, merged, &v, ev.start_mark);
    v.position.line = (int)key->start_mark.line + 1;
    v.position.column = (int)key->start_mark.column + 1;
    if (json_object_set(own->obj, name, value) < 0)
        return fail(r, key->start_mark, -EINVAL, "key '%.100s' is not text in UTF-8", name);
    position_list_add(own->positions, v.position);
    return 0;
}

static int read_mapping(struct reader *r, int depth, struct value *out)
{
    AUTO(json) json_t *obj = json_object();
    AUTO(json) json_t *all = json_object();
    AUTO(json) json_t *index = json_object();
    struct mapping own = {obj, position_list_new(r->doc)};
    struct merged merged = {{all, position_list_new(r->doc)}, index};
    for (;;) {
        AUTO(event) yaml_event_t key = {0};
        int rc = next_event(r, &key);
        if (rc < 0)
            return rc;
        if (key.type == YAML_MAPPING_END_EVENT)
            break;
        rc = read_member(r, &key, depth, &own, &merged, out);
        if (rc < 0)
            return rc;
    }
    bool merges = json_object_size(all) > 0;
    if (merges) /* the own members take precedence */
        add_members(&merged, obj, own.positions);
    out->position.children = merges ? merged.members.positions : own.positions;
    out->json = merges ? TAKE(all) : TAKE(obj);
    return 0;
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static int read_alias(struct reader *r, const yaml_event_t *ev, int depth, struct value *out)
{
    const char *name = (const char *)ev->data.alias.anchor;
    const json_t *index = json_object_get(r->names, name);
    if (!index)
        return fail(r, ev->start_mark, -EINVAL, "alias '*%.100s': no complete anchor has this name",
                    name);
    const struct value *a = &r->anchors[json_integer_value(index)];
    int rc = count_nodes(r, ev->start_mark, a->nodes, depth + a->height - 1);
    if (rc < 0)
        return rc;
    out->json = json_incref(a->json);
    out->position.children = a->position.children;
    out->height = a->height;
    return 0;
}

static void add_anchor(struct reader *r, const yaml_char_t *anchor, const struct value *v)
{
    r->anchors = xrealloc(r->anchors, r->anchor_count + 1, sizeof *r->anchors);
    r->anchors[r->anchor_count] = *v;
    json_incref(v->json);
    json_object_set_new(r->names, (const char *)anchor, json_integer((json_int_t)r->anchor_count));
    r->anchor_count++;
}

/* Reads the node that starts with `ev`, at `depth` (1 for the root). An anchor is registered only
 * when its node is complete, so no node can contain itself. */
static int read_node(struct reader *r, const yaml_event_t *ev, int depth, struct value *out)
{
    struct value v = {
        .position = {(int)ev->start_mark.line + 1, (int)ev->start_mark.column + 1, NULL},
        .height = 1};
    const yaml_char_t *anchor = NULL;
    int before = r->nodes;
    int rc = 0;
    if (ev->type == YAML_SCALAR_EVENT)
        rc = count_nodes(r, ev->start_mark, 1 + (int)(ev->data.scalar.length >> 10), depth);
    else if (ev->type != YAML_ALIAS_EVENT)
        rc = count_nodes(r, ev->start_mark, 1, depth);
    if (rc < 0)
        return rc;
    switch (ev->type) {
    case YAML_SCALAR_EVENT:
        anchor = ev->data.scalar.anchor;
        rc = read_scalar(r, ev, &v);
        break;
    case YAML_SEQUENCE_START_EVENT:
        anchor = ev->data.sequence_start.anchor;
        rc = check_tag(r, ev, ev->data.sequence_start.tag, YAML_SEQ_TAG);
        rc = rc < 0 ? rc : read_sequence(r, depth, &v);
        break;
    case YAML_MAPPING_START_EVENT:
        anchor = ev->data.mapping_start.anchor;
        rc = check_tag(r, ev, ev->data.mapping_start.tag, YAML_MAP_TAG);
        rc = rc < 0 ? rc : read_mapping(r, depth, &v);
        break;
    case YAML_ALIAS_EVENT:
        rc = read_alias(r, ev, depth, &v);
        break;
    default:
        rc = fail(r, ev->start_mark, -EINVAL, "a value is expected");
    }
    if (rc < 0)
        return rc;
    v.nodes = r->nodes - before;
    if (anchor)
        add_anchor(r, anchor, &v);
    *out = v;
    return 0;
}

static int read_document(struct reader *r)
{
    AUTO(event) yaml_event_t stream = {0};
    AUTO(event) yaml_event_t start = {0};
    AUTO(event) yaml_event_t first = {0};
    AUTO(event) yaml_event_t end = {0};
    AUTO(event) yaml_event_t after = {0};
    int rc = next_event(r, &stream);
    if (rc == 0)
        rc = next_event(r, &start);
    if (rc == 0 && start.type == YAML_STREAM_END_EVENT)
        return fail(r, start.start_mark, -EINVAL, "the document is empty");
    if (rc == 0)
        rc = next_event(r, &first);
    struct value root = {0};
    if (rc == 0)
        rc = read_node(r, &first, 1, &root);
    if (rc < 0)
        return rc;
    r->doc->root = root.json;
    r->doc->position = root.position;
    rc = next_event(r, &end);
    if (rc == 0)
        rc = next_event(r, &after);
    if (rc == 0 && after.type != YAML_STREAM_END_EVENT)
        return fail(r, after.start_mark, -EINVAL, "a second document; only one is expected");
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
    r.names = json_object();
    int rc = read_document(&r);
    yaml_parser_delete(&r.parser);
    for (size_t i = 0; i < r.anchor_count; i++)
        json_decref(r.anchors[i].json);
    free(r.anchors);
    json_decref(r.names);
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
