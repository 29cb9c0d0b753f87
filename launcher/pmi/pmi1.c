#include "launcher/pmi/pmi1.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/strbuf.h"

/* The first three limits are those of hydra, MPICH's own server. */
enum {
    JOB_BYTES = 256, /* each with its NUL */
    KEY_BYTES = 64,
    VALUE_BYTES = 1024,
    LINE_BYTES_MAX = 4096,
    STORE_ITEMS_MAX = 1024 /* per rank */
};

struct client {
    struct strbuf line; /* received so far */
    bool in_barrier;
    bool in_spawn; /* a spawn command was begun; it ends with "endcmd" */
    bool in_name;  /* waits for the answer to a request about a name, which is `name_request` */
    enum exchange_type name_request;
};

struct pmi1 {
    int size;           /* of the job */
    int ranks;          /* of this node */
    int *numbers;       /* of these ranks in the job */
    int in_barrier;     /* number of ranks */
    struct strbuf puts; /* since the last barrier: "KEY\0VALUE\0…" */
    struct client *clients;
    json_t *values; /* by key */
    char job[JOB_BYTES];
    struct pmi1_events ev;
    void *arg;
    struct rank_events of_ranks;
    void *of_ranks_arg;
};

/* Adds a value with the node of each rank: "(NODE,1,N)" for N consecutive ranks on a node. Without
 * this value, the ranks compare host names. It is omitted if it would be too long. */
static void add_mapping(struct pmi1 *p, const struct job_map *map)
{
    AUTO(strbuf) struct strbuf b = {0};
    for (int from = 0, to; from < map->ranks; from = to) {
        int node = map->rank_nodes[from];
        for (to = from; to < map->ranks && map->rank_nodes[to] == node;)
            to++;
        strbuf_printf(&b, ",(%d,1,%d)", node, to - from);
    }
    AUTO(free) char *text = xasprintf("(vector%s)", strbuf_str(&b));
    if (strlen(text) < VALUE_BYTES)
        json_object_set_new(p->values, "PMI_process_mapping", json_text(text));
}

struct pmi1 *pmi1_new(const struct job_map *map, const struct pmi1_events *ev, void *arg,
                      const struct rank_events *of_ranks, void *of_ranks_arg)
{
    struct pmi1 *p = xzalloc(sizeof *p);
    p->size = map->ranks;
    p->ranks = map->local_count;
    p->numbers = xcalloc((size_t)p->ranks, sizeof *p->numbers);
    for (int i = 0; i < p->ranks; i++)
        p->numbers[i] = map->local[i];
    p->clients = xcalloc((size_t)p->ranks, sizeof *p->clients);
    p->values = json_object();
    snprintf(p->job, sizeof p->job, "%s", map->job_id);
    p->ev = *ev;
    p->arg = arg;
    p->of_ranks = *of_ranks;
    p->of_ranks_arg = of_ranks_arg;
    add_mapping(p, map);
    return p;
}

void pmi1_free(struct pmi1 *p)
{
    if (!p)
        return;
    for (int i = 0; i < p->ranks; i++)
        strbuf_free(&p->clients[i].line);
    strbuf_free(&p->puts);
    json_decref(p->values);
    free(p->clients);
    free(p->numbers);
    free(p);
}

static void emit(const struct pmi1 *p, enum rank_event ev, int rank, int code)
{
    p->of_ranks.event(p->of_ranks_arg, ev, p->numbers[rank], code);
}

__attribute__((format(printf, 3, 4))) static void send_line(struct pmi1 *p, int rank,
                                                            const char *fmt, ...)
{
    char text[JOB_BYTES + VALUE_BYTES];
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    p->ev.send(p->arg, rank, text, (size_t)len);
}

/* Copies the value of "NAME=…" in a line, up to the next blank. Returns `out`, or NULL if the line
 * has no such value, or if the value with its NUL is longer than `size`. */
static const char *get_value(char *out, size_t size, const char *line, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = line; (at = strchr(at, ' '));) {
        at += strspn(at, " ");
        if (strncmp(at, name, n) != 0 || at[n] != '=')
            continue;
        size_t len = strcspn(at + n + 1, " ");
        if (len >= size)
            return NULL;
        memcpy(out, at + n + 1, len);
        out[len] = '\0';
        return out;
    }
    return NULL;
}

/* ---- commands ------------------------------------------------------------------------------- */

static int on_init(struct pmi1 *p, int rank, const char *line)
{
    char version[16];
    bool supported =
        get_value(version, sizeof version, line, "pmi_version") && strcmp(version, "1") == 0;
    send_line(p, rank, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=%d\n",
              supported ? 0 : -1);
    if (supported)
        emit(p, RANK_JOINED, rank, 0);
    return 0;
}

static int on_get_maxes(struct pmi1 *p, int rank, const char *line)
{
    send_line(p, rank, "cmd=maxes kvsname_max=%d keylen_max=%d vallen_max=%d\n", JOB_BYTES,
              KEY_BYTES, VALUE_BYTES);
    return 0;
}

static int on_get_appnum(struct pmi1 *p, int rank, const char *line)
{
    send_line(p, rank, "cmd=appnum appnum=0\n");
    return 0;
}

static int on_get_my_kvsname(struct pmi1 *p, int rank, const char *line)
{
    send_line(p, rank, "cmd=my_kvsname kvsname=%s\n", p->job);
    return 0;
}

static int on_get_universe_size(struct pmi1 *p, int rank, const char *line)
{
    send_line(p, rank, "cmd=universe_size size=%d\n", p->size);
    return 0;
}

static int on_put(struct pmi1 *p, int rank, const char *line)
{
    char key[KEY_BYTES], value[VALUE_BYTES];
    const char *why = "success";
    int rc = -1;
    if (!get_value(key, sizeof key, line, "key") || !get_value(value, sizeof value, line, "value"))
        why = "missing_or_too_long";
    else if (json_object_size(p->values) >= (size_t)p->size * STORE_ITEMS_MAX)
        why = "store_is_full";
    else
        rc = json_object_set_new_nocheck(p->values, key, json_string_nocheck(value));
    if (rc == 0) {
        strbuf_add(&p->puts, key, strlen(key) + 1);
        strbuf_add(&p->puts, value, strlen(value) + 1);
    }
    send_line(p, rank, "cmd=put_result rc=%d msg=%s\n", rc, why);
    return 0;
}

static int on_get(struct pmi1 *p, int rank, const char *line)
{
    char key[KEY_BYTES];
    const char *value = NULL;
    if (get_value(key, sizeof key, line, "key"))
        value = json_string_value(json_object_get(p->values, key));
    if (value)
        send_line(p, rank, "cmd=get_result rc=0 msg=success value=%s\n", value);
    else
        send_line(p, rank, "cmd=get_result rc=-1 msg=not_found value=unknown\n");
    return 0;
}

/* ---- names ---------------------------------------------------------------------------------- */

/* Answers a request about a name. `port` is that of a lookup. */
static void send_name_result(struct pmi1 *p, int rank, const char *why, const char *port, int len)
{
    static const char *const results[EXCHANGE_TYPES] = {[EXCHANGE_PUBLISH] = "publish_result",
                                                        [EXCHANGE_UNPUBLISH] = "unpublish_result",
                                                        [EXCHANGE_LOOKUP] = "lookup_result"};
    struct client *c = &p->clients[rank];
    const char *result = results[c->name_request];
    int rc = strcmp(why, "success") == 0 ? 0 : -1;
    c->in_name = false;
    if (c->name_request != EXCHANGE_LOOKUP)
        send_line(p, rank, "cmd=%s rc=%d msg=%s\n", result, rc, why);
    else if (rc == 0)
        send_line(p, rank, "cmd=%s rc=0 msg=%s port=%.*s\n", result, why, len, port);
    else
        send_line(p, rank, "cmd=%s rc=-1 msg=%s port=unknown\n", result, why);
}

static void answer_name(struct pmi1 *p, const struct exchange_message *found)
{
    static const char *const whys[] = {[EXCHANGE_OK] = "success",
                                       [EXCHANGE_NOT_FOUND] = "not_found",
                                       [EXCHANGE_DUPLICATE] = "already_published"};
    const char *why = "failed";
    if (found->status >= 0 && found->status < (int)COUNT_OF(whys))
        why = whys[found->status];
    if (found->id < (uint64_t)p->ranks && p->clients[found->id].in_name && found->len < VALUE_BYTES)
        send_name_result(p, (int)found->id, why, found->data, (int)found->len);
}

static int on_name(struct pmi1 *p, int rank, const char *line)
{
    enum exchange_type type = strncmp(line, "cmd=publish", 11) == 0  ? EXCHANGE_PUBLISH
                              : strncmp(line, "cmd=lookup", 10) == 0 ? EXCHANGE_LOOKUP
                                                                     : EXCHANGE_UNPUBLISH;
    struct client *c = &p->clients[rank];
    char service[VALUE_BYTES], port[VALUE_BYTES] = "";
    const char *keys[] = {service};
    if (c->in_name)
        return -EPROTO;
    c->in_name = true;
    c->name_request = type;
    if (!get_value(service, sizeof service, line, "service") ||
        (type == EXCHANGE_PUBLISH && !get_value(port, sizeof port, line, "port"))) {
        send_name_result(p, rank, "missing_or_too_long", NULL, 0);
        return 0;
    }
    p->ev.exchange(p->arg, &(struct exchange_message){.type = type,
                                                      .kind = EXCHANGE_PMI1,
                                                      .rank = p->numbers[rank],
                                                      .id = (uint64_t)rank,
                                                      .keys = keys,
                                                      .key_count = 1,
                                                      .data = port,
                                                      .len = strlen(port)});
    return 0;
}

/* ---- barriers and the end ------------------------------------------------------------------- */

static int on_barrier_in(struct pmi1 *p, int rank, const char *line)
{
    if (p->clients[rank].in_barrier)
        return -EPROTO;
    p->clients[rank].in_barrier = true;
    if (++p->in_barrier < p->ranks)
        return 0;
    AUTO(strbuf) struct strbuf puts = p->puts;
    p->puts = (struct strbuf){0};
    p->ev.exchange(p->arg, &(struct exchange_message){.type = EXCHANGE_FENCE,
                                                      .kind = EXCHANGE_PMI1,
                                                      .data = puts.data,
                                                      .len = puts.len});
    return 0;
}

/* Returns the length of a text in `data` without its NUL, or -1 if it has none. */
static ssize_t text_len(const char *data, size_t len)
{
    const char *end = memchr(data, '\0', len);
    return end ? end - data : -1;
}

static void add_values(struct pmi1 *p, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t key = text_len(data, len);
        ssize_t value = key < 0 ? -1 : text_len(data + key + 1, len - (size_t)key - 1);
        if (value < 0)
            return;
        (void)json_object_set_new_nocheck(p->values, data,
                                          json_string_nocheck(data + key + 1)); /* no memory */
        data += key + 1 + value + 1;
        len -= (size_t)(key + 1 + value + 1);
    }
}

static void end_barrier(struct pmi1 *p, const char *data, size_t len)
{
    add_values(p, data, len);
    p->in_barrier = 0;
    for (int i = 0; i < p->ranks; i++)
        p->clients[i].in_barrier = false;
    for (int i = 0; i < p->ranks; i++)
        send_line(p, i, "cmd=barrier_out\n");
}

void pmi1_deliver(struct pmi1 *p, const struct exchange_message *m)
{
    if (m->type == EXCHANGE_FENCE_DONE && m->status == EXCHANGE_OK)
        end_barrier(p, m->data, m->len);
    else if (m->type == EXCHANGE_FOUND)
        answer_name(p, m);
}

static int on_finalize(struct pmi1 *p, int rank, const char *line)
{
    emit(p, RANK_FINALIZED, rank, 0);
    send_line(p, rank, "cmd=finalize_ack\n");
    return 0;
}

static int on_abort(struct pmi1 *p, int rank, const char *line)
{
    char code[16] = "";
    (void)get_value(code, sizeof code, line, "exitcode"); /* missing: 0 */
    emit(p, RANK_ABORTED, rank, atoi(code));
    return 0;
}

static int on_line(struct pmi1 *p, int rank, const char *line)
{
    static const struct {
        const char *name;
        int (*handle)(struct pmi1 *p, int rank, const char *line);
    } commands[] = {
        {"init", on_init},
        {"get_maxes", on_get_maxes},
        {"get_appnum", on_get_appnum},
        {"get_my_kvsname", on_get_my_kvsname},
        {"get_universe_size", on_get_universe_size},
        {"put", on_put},
        {"get", on_get},
        {"barrier_in", on_barrier_in},
        {"publish_name", on_name},
        {"lookup_name", on_name},
        {"unpublish_name", on_name},
        {"finalize", on_finalize},
        {"abort", on_abort},
    };
    struct client *c = &p->clients[rank];
    if (strncmp(line, "mcmd=spawn", 10) == 0) { /* for each program, lines with one word follow */
        c->in_spawn = true;
        return 0;
    }
    if (c->in_spawn) {
        if (strcmp(line, "endcmd") != 0)
            return 0;
        c->in_spawn = false;
        emit(p, RANK_SPAWNS, rank, 0);
        send_line(p, rank, "cmd=spawn_result rc=-1 msg=not_served\n");
        return 0;
    }
    size_t len = strcspn(line, " ");
    for (size_t i = 0; i < COUNT_OF(commands); i++)
        if (len == strlen(commands[i].name) + 4 && strncmp(line, "cmd=", 4) == 0 &&
            strncmp(line + 4, commands[i].name, len - 4) == 0)
            return commands[i].handle(p, rank, line);
    return -EPROTO;
}

/* Returns the number of bytes of a line that a message may show. */
static int printable(const char *line)
{
    int n = 0;
    while (n < 40 && isprint((unsigned char)line[n]))
        n++;
    return n;
}

int pmi1_recv(struct pmi1 *p, int rank, const char *bytes, size_t len, struct err *e)
{
    struct strbuf *line = &p->clients[rank].line;
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] != '\n') {
            if (line->len == LINE_BYTES_MAX)
                return err_set(e, -EMSGSIZE, "rank %d: a line of PMI-1 exceeds %d bytes",
                               p->numbers[rank], LINE_BYTES_MAX);
            strbuf_putc(line, bytes[i]);
            continue;
        }
        if (on_line(p, rank, strbuf_str(line)) < 0)
            return err_set(e, -EPROTO, "rank %d: unexpected PMI-1 line '%.*s'", p->numbers[rank],
                           printable(strbuf_str(line)), strbuf_str(line));
        strbuf_reset(line);
    }
    return 0;
}
