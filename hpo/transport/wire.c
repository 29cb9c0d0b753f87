#include "hpo/transport/wire.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "common/mem.h"

enum type { T_INT, T_REAL, T_BOOL, T_STR, T_OBJECT, T_LEASES, T_WORDS, T_PEERS };

struct field {
    const char *name;
    enum type type;
    bool optional;
    int64_t min, max; /* range of an integer, of a string's length in bytes, or of the size of a
                         list or object */
};

static const struct field hello_fields[] = {
    {"node", T_STR, false, 1, 255},
    {"slots", T_INT, false, 0, WIRE_SLOTS_MAX},
    {"running", T_LEASES, false, 0, WIRE_SLOTS_MAX},
    {"cpus", T_INT, false, 1, 1 << 20},
    {"gpus", T_INT, false, 0, 1 << 16},
    {"ping_ms", T_INT, false, 1, WIRE_PING_MAX_MS},
    {0},
};
static const struct field slots_fields[] = {
    {"slots", T_INT, false, 0, WIRE_SLOTS_MAX}, {"why", T_STR, true, 1, 1000}, {0}};
static const struct field requirements_fields[] = {{"nodes", T_INT, false, 1, 1024},
                                                   {"ranks", T_INT, false, 1, 1 << 20},
                                                   {"gpus", T_REAL, false, 0, 0},
                                                   {"cpus", T_INT, false, 0, 1 << 20},
                                                   {"memory", T_INT, false, 0, INT64_MAX},
                                                   {"sweep", T_STR, true, 1, 255},
                                                   {0}};
static const struct field done_fields[] = {
    {"status", T_INT, false, -1, 255},    {"signal", T_INT, false, 0, 128},
    {"oom", T_BOOL, false, 0, 0},         {"seconds", T_REAL, false, 0, 0},
    {"error", T_STR, true, 0, 64 * 1024}, {"preempted", T_BOOL, true, 0, 0},
    {"stopped", T_BOOL, true, 0, 0},      {"not_started", T_BOOL, true, 0, 0},
    {"node_fault", T_INT, true, 0, 1023}, {0},
};
static const struct field tested_fields[] = {{"why", T_STR, true, 1, 1000}, {0}};
static const struct field reserved_fields[] = {
    {"cpus", T_STR, true, 0, 1 << 12}, {"gpus", T_STR, true, 0, 1 << 12}, {0}};
static const struct field join_ticket_fields[] = {{"address", T_STR, false, 1, 4095},
                                                  {"token", T_STR, false, 1, 255},
                                                  {"node", T_INT, true, 0, 1023},
                                                  {0}};
/* An entry of `peers`: a node on which a slot is reserved for a trial over several nodes. */
static const struct field peer_fields[] = {
    {"node", T_STR, false, 1, 255}, {"resources", T_OBJECT, false, 0, 2}, {0}};
/* `dir` is the absolute path of the trial's directory. `patterns` is {metric: regular
 * expression}. */
static const struct field run_fields[] = {
    {"trial", T_INT, false, 0, INT32_MAX},
    {"sweep", T_STR, false, 1, 255},
    {"dir", T_STR, false, 1, 4095},
    {"wdir", T_STR, false, 1, 4095},
    {"argv", T_WORDS, false, 1, 1 << 16},
    {"env", T_WORDS, false, 0, 1 << 16},
    {"params", T_OBJECT, false, 0, 1 << 16},
    {"grace_ms", T_INT, false, 1, INT32_MAX},
    {"patterns", T_OBJECT, true, 1, 64},
    {"peers", T_PEERS, true, 1,
     1024}, /* the other nodes of the trial, in the order of their ranks */
    {"wandb_real", T_BOOL, true, 0, 0}, /* trials import W&B's own module */
    {0},
};

static const struct kind {
    const char *name;
    bool lease, seq, data;
    /* the fields of `data`; NULL: any names, with numbers or strings as values */
    const struct field *fields;
} kinds[WIRE_KINDS] = {
    [WIRE_HELLO] = {"hello", false, false, true, hello_fields},
    [WIRE_SLOTS] = {"slots", false, false, true, slots_fields},
    [WIRE_REPORT] = {"report", true, true, true, NULL},
    [WIRE_DONE] = {"done", true, true, true, done_fields},
    [WIRE_RESERVED] = {"reserved", true, false, true, reserved_fields},
    [WIRE_REVOKE] = {"revoke", true, false, false, NULL},
    [WIRE_JOIN_TICKET] = {"join_ticket", true, false, true, join_ticket_fields},
    [WIRE_TESTED] = {"tested", false, false, true, tested_fields},
    [WIRE_PING] = {"ping", false, false, false, NULL},
    [WIRE_LEAVING] = {"leaving", false, false, false, NULL},
    [WIRE_BYE] = {"bye", false, false, false, NULL},
    [WIRE_REQUIREMENTS] = {"requirements", false, false, true, requirements_fields},
    [WIRE_RUN] = {"run", true, false, true, run_fields},
    [WIRE_RESERVE] = {"reserve", true, false, false, NULL},
    [WIRE_STOP] = {"stop", true, false, false, NULL},
    [WIRE_KILL] = {"kill", true, false, false, NULL},
    [WIRE_TEST] = {"test", false, false, false, NULL},
    [WIRE_DRAIN] = {"drain", false, false, false, NULL},
    [WIRE_PONG] = {"pong", false, false, false, NULL},
    [WIRE_ACK] = {"ack", true, true, false, NULL},
    [WIRE_RECONNECT] = {"reconnect", false, false, false, NULL},
    [WIRE_FOREIGN] = {"foreign", false, false, false, NULL},
};

enum { REPORT_VALUES_MAX = 4096 };

void wire_msg_clear(struct wire_msg *m)
{
    json_decref(m->data);
    m->data = NULL;
}

const char *wire_kind_name(enum wire_kind kind)
{
    return kinds[kind].name;
}

static bool in_range(int64_t n, const struct field *f)
{
    return n >= f->min && n <= f->max;
}

static int check_fields(const json_t *data, const struct field *fields, struct err *e);

static bool is_peer(const json_t *v)
{
    return json_is_object(v) && check_fields(v, peer_fields, NULL) == 0 &&
           check_fields(json_object_get(v, "resources"), reserved_fields, NULL) == 0;
}

static bool is_list(const json_t *v, const struct field *f)
{
    if (!json_is_array(v) || !in_range((int64_t)json_array_size(v), f))
        return false;
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *item = json_array_get(v, i);
        bool fits = f->type == T_WORDS   ? json_is_string(item)
                    : f->type == T_PEERS ? is_peer(item)
                                         : json_is_integer(item) && json_integer_value(item) > 0;
        if (!fits)
            return false;
    }
    return true;
}

static bool fits(const json_t *v, const struct field *f)
{
    switch (f->type) {
    case T_INT:
        return json_is_integer(v) && in_range(json_integer_value(v), f);
    case T_REAL:
        return json_is_number(v) && json_number_value(v) >= 0;
    case T_BOOL:
        return json_is_boolean(v);
    case T_STR:
        return json_is_string(v) && in_range((int64_t)json_string_length(v), f);
    case T_OBJECT:
        return json_is_object(v) && in_range((int64_t)json_object_size(v), f);
    case T_LEASES:
    case T_WORDS:
    case T_PEERS:
        return is_list(v, f);
    }
    return false;
}

/* Checks that every required field is present, that all fields are valid, and that no field is
 * unknown. */
static int check_fields(const json_t *data, const struct field *fields, struct err *e)
{
    size_t known = 0;
    for (const struct field *f = fields; f->name; f++) {
        const json_t *v = json_object_get(data, f->name);
        if (!v && f->optional)
            continue;
        if (!v)
            return err_set(e, -EPROTO, "'%s' is missing", f->name);
        if (!fits(v, f))
            return err_set(e, -EPROTO, "'%s' has a wrong type or is out of range", f->name);
        known++;
    }
    if (known != json_object_size(data))
        return err_set(e, -EPROTO, "unknown key");
    return 0;
}

static int check_report(json_t *data, struct err *e)
{
    if (json_object_size(data) > REPORT_VALUES_MAX)
        return err_set(e, -EPROTO, "more than %d values in a report", REPORT_VALUES_MAX);
    const char *name;
    json_t *v;
    json_object_foreach (data, name, v)
        if (!json_is_number(v) && !json_is_string(v))
            return err_set(e, -EPROTO, "a value of a report is neither a number nor a string");
    return 0;
}

/* Whether the instance is there, and is positive, where the kind of message has one. */
static bool instance_fits(const struct wire_msg *m)
{
    switch (m->kind) {
    case WIRE_HELLO:
        return m->instance >= 0;
    case WIRE_REPORT:
    case WIRE_DONE:
    case WIRE_REQUIREMENTS:
        return m->instance > 0;
    default:
        return m->instance == 0;
    }
}

static int check(const struct wire_msg *m, struct err *e)
{
    const struct kind *k = &kinds[m->kind];
    if (m->conn < 1)
        return err_set(e, -EPROTO, "'conn' is missing or not positive");
    if (!instance_fits(m))
        return err_set(e, -EPROTO, "'instance' is missing, not positive or unexpected");
    if (k->lease ? m->lease < 1 : m->lease != 0)
        return err_set(e, -EPROTO, "'lease' is missing, not positive or unexpected");
    if (k->seq ? m->seq < 1 : m->seq != 0)
        return err_set(e, -EPROTO, "'seq' is missing, not positive or unexpected");
    if (k->data != (m->data != NULL) || (m->data && !json_is_object(m->data)))
        return err_set(e, -EPROTO, "'data' is missing, not an object or unexpected");
    if (!k->data)
        return 0;
    return k->fields ? check_fields(m->data, k->fields, e) : check_report(m->data, e);
}

int wire_encode(struct strbuf *out, const struct wire_msg *m, struct err *e)
{
    if (check(m, e) < 0)
        return err_wrap(e, "message '%s'", kinds[m->kind].name);
    const char *kind = kinds[m->kind].name;
    AUTO(free) char *data = m->data ? json_dumps(m->data, JSON_COMPACT) : NULL;
    if (m->data && !data)
        return err_set(e, -EINVAL, "message '%s': cannot be written as JSON", kind);
    AUTO(strbuf) struct strbuf b = {0};
    strbuf_printf(&b, "{\"v\":%d,\"kind\":\"%s\",\"conn\":%" PRId64, WIRE_VERSION, kind, m->conn);
    if (m->instance)
        strbuf_printf(&b, ",\"instance\":%" PRId64, m->instance);
    if (m->lease)
        strbuf_printf(&b, ",\"lease\":%" PRId64, m->lease);
    if (m->seq)
        strbuf_printf(&b, ",\"seq\":%" PRId64, m->seq);
    if (data) {
        strbuf_puts(&b, ",\"data\":");
        strbuf_puts(&b, data);
    }
    strbuf_putc(&b, '}');
    if (b.len > WIRE_MAX_BYTES)
        return err_set(e, -EMSGSIZE, "message '%s': %zu bytes exceed the limit of %d", kind, b.len,
                       WIRE_MAX_BYTES);
    strbuf_add(out, b.data, b.len);
    return 0;
}

static int kind_of(const json_t *name)
{
    for (int k = 0; json_is_string(name) && k < WIRE_KINDS; k++)
        if (strcmp(kinds[k].name, json_string_value(name)) == 0)
            return k;
    return -1;
}

/* Returns the member `name`, a number from 1. Returns 0 if the member is missing, and -1 if it is
 * invalid. Adds 1 to `*keys` if the member exists. */
static int64_t number(const json_t *j, const char *name, size_t *keys)
{
    const json_t *v = json_object_get(j, name);
    if (!v)
        return 0;
    ++*keys;
    return json_is_integer(v) && json_integer_value(v) > 0 ? json_integer_value(v) : -1;
}

static int read_message(struct wire_msg *m, const json_t *j, struct err *e)
{
    if (!json_is_object(j))
        return err_set(e, -EPROTO, "not an object");
    const json_t *v = json_object_get(j, "v");
    if (!json_is_integer(v))
        return err_set(e, -EPROTO, "the protocol version is missing");
    if (json_integer_value(v) != WIRE_VERSION)
        return err_set(e, -EPROTONOSUPPORT, "protocol version %d is required", WIRE_VERSION);
    int kind = kind_of(json_object_get(j, "kind"));
    if (kind < 0)
        return err_set(e, -EPROTO, "unknown kind of message");
    size_t keys = 2;
    *m = (struct wire_msg){.kind = (enum wire_kind)kind};
    m->conn = number(j, "conn", &keys);
    m->instance = number(j, "instance", &keys);
    m->lease = number(j, "lease", &keys);
    m->seq = number(j, "seq", &keys);
    m->data = json_incref(json_object_get(j, "data"));
    keys += m->data != NULL;
    if (keys != json_object_size(j))
        return err_set(e, -EPROTO, "unknown key");
    return check(m, e);
}

int wire_decode(struct wire_msg *out, const void *bytes, size_t len, struct err *e)
{
    if (len > WIRE_MAX_BYTES)
        return err_set(e, -EMSGSIZE, "message of %zu bytes exceeds the limit of %d", len,
                       WIRE_MAX_BYTES);
    json_error_t why;
    json_t *j = json_loadb(bytes, len, JSON_REJECT_DUPLICATES, &why);
    if (!j)
        return err_set(e, -EPROTO, "message is not JSON: %s", why.text);
    struct wire_msg m = {0};
    int rc = read_message(&m, j, e);
    json_decref(j);
    if (rc < 0) {
        wire_msg_clear(&m);
        return err_wrap(e, "message");
    }
    *out = m;
    return 0;
}
