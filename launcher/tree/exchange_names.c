/* Published names, and the lookups that wait for them. Both are at the launcher. */
#include "launcher/tree/exchange_internal.h"

struct exchange_name {
    struct exchange_name *next;
    enum exchange_kind kind;
    char *key;
    int rank;  /* that has published it */
    bool once; /* removed when it is read */
    struct strbuf data;
};

/* Who gets an answer. */
struct asker {
    enum exchange_kind kind;
    int node;
    uint64_t id;
};

struct exchange_lookup {
    struct exchange_lookup *next;
    struct asker from;
    char **keys;      /* strv */
    int64_t until_ms; /* INT64_MAX: no limit */
};

/* Removes the name that `*at` points to. */
static void drop(struct exchange_name **at)
{
    struct exchange_name *n = *at;
    *at = n->next;
    free(n->key);
    strbuf_free(&n->data);
    free(n);
}

static void drop_lookup(struct exchange_lookup **at)
{
    struct exchange_lookup *l = *at;
    *at = l->next;
    strv_free(l->keys);
    free(l);
}

void exchange_names_free_all(struct exchange *x)
{
    while (x->names)
        drop(&x->names);
    while (x->lookups)
        drop_lookup(&x->lookups);
}

static struct asker asker_of(const struct exchange_message *m)
{
    return (struct asker){m->kind, m->node, m->id};
}

static struct exchange_name **find(struct exchange *x, enum exchange_kind kind, const char *key)
{
    struct exchange_name **at = &x->names;
    while (*at && ((*at)->kind != kind || strcmp((*at)->key, key) != 0))
        at = &(*at)->next;
    return at;
}

static void answer(struct exchange *x, struct asker to, int status, const struct strbuf *data)
{
    struct exchange_message m = {.type = EXCHANGE_FOUND,
                                 .kind = to.kind,
                                 .node = to.node,
                                 .rank = -1,
                                 .id = to.id,
                                 .status = status,
                                 .data = data ? data->data : NULL,
                                 .len = data ? data->len : 0};
    exchange_route(x, to.node, &m);
}

/* Answers with the names that are published, and removes those that may be read only once. */
static void answer_with_names(struct exchange *x, struct asker to, char *const *keys)
{
    AUTO(strbuf) struct strbuf data = {0};
    bool found = false;
    for (; *keys; keys++) {
        struct exchange_name **at = find(x, to.kind, *keys);
        if (!*at)
            continue;
        found = true;
        strbuf_add(&data, (*at)->data.data, (*at)->data.len);
        if ((*at)->once)
            drop(at);
    }
    answer(x, to, found ? EXCHANGE_OK : EXCHANGE_NOT_FOUND, &data);
}

static bool all_published(struct exchange *x, enum exchange_kind kind, char *const *keys)
{
    while (*keys && *find(x, kind, *keys))
        keys++;
    return !*keys;
}

static void answer_waiting(struct exchange *x)
{
    for (struct exchange_lookup **at = &x->lookups; *at;) {
        struct exchange_lookup *l = *at;
        if (!all_published(x, l->from.kind, l->keys)) {
            at = &l->next;
            continue;
        }
        answer_with_names(x, l->from, l->keys);
        drop_lookup(at);
    }
}

void exchange_names_publish(struct exchange *x, const struct exchange_message *m)
{
    if (*find(x, m->kind, m->keys[0])) {
        answer(x, asker_of(m), EXCHANGE_DUPLICATE, NULL);
        return;
    }
    struct exchange_name *n = xzalloc(sizeof *n);
    *n = (struct exchange_name){.next = x->names,
                                .kind = m->kind,
                                .key = xstrdup(m->keys[0]),
                                .rank = m->rank,
                                .once = m->once};
    strbuf_add(&n->data, m->data, m->len);
    x->names = n;
    answer(x, asker_of(m), EXCHANGE_OK, NULL);
    answer_waiting(x);
}

static bool is_named(const struct exchange_message *m, const char *key)
{
    for (size_t i = 0; i < m->key_count; i++)
        if (strcmp(m->keys[i], key) == 0)
            return true;
    return m->key_count == 0;
}

void exchange_names_unpublish(struct exchange *x, const struct exchange_message *m)
{
    size_t dropped = 0;
    for (struct exchange_name **at = &x->names; *at;) {
        if ((*at)->kind != m->kind || (*at)->rank != m->rank || !is_named(m, (*at)->key)) {
            at = &(*at)->next;
            continue;
        }
        drop(at);
        dropped++;
    }
    answer(x, asker_of(m), dropped < m->key_count ? EXCHANGE_NOT_FOUND : EXCHANGE_OK, NULL);
}

void exchange_names_lookup(struct exchange *x, const struct exchange_message *m, int64_t now_ms)
{
    AUTO(strv) char **keys = NULL;
    for (size_t i = 0; i < m->key_count; i++)
        strv_push(&keys, xstrdup(m->keys[i]));
    if (m->wait_ms == 0 || all_published(x, m->kind, keys)) {
        answer_with_names(x, asker_of(m), keys);
        return;
    }
    struct exchange_lookup *l = xzalloc(sizeof *l);
    *l = (struct exchange_lookup){.from = asker_of(m), .keys = TAKE(keys)};
    if (m->wait_ms < 0 || __builtin_add_overflow(now_ms, m->wait_ms, &l->until_ms))
        l->until_ms = INT64_MAX;
    struct exchange_lookup **end = &x->lookups;
    while (*end)
        end = &(*end)->next;
    *end = l;
}

int64_t exchange_expire(struct exchange *x, int64_t now_ms)
{
    int64_t next_ms = INT64_MAX;
    for (struct exchange_lookup **at = &x->lookups; *at;) {
        struct exchange_lookup *l = *at;
        if (l->until_ms > now_ms) {
            next_ms = l->until_ms < next_ms ? l->until_ms : next_ms;
            at = &l->next;
            continue;
        }
        answer(x, l->from, EXCHANGE_TIMEOUT, NULL);
        drop_lookup(at);
    }
    return next_ms;
}

void exchange_names_lose(struct exchange *x)
{
    for (struct exchange_lookup **at = &x->lookups; *at;)
        if (exchange_is_lost(x, (*at)->from.node))
            drop_lookup(at);
        else
            at = &(*at)->next;
}
