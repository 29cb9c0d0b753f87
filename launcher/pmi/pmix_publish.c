#include "launcher/pmi/pmix_publish.h"

#include <string.h>

#include "common/strbuf.h"
#include "launcher/pmi/pmix_loader.h"

struct name {
    struct name *next;
    pmix_proc_t owner;
    pmix_key_t key;
    pmix_value_t value;
    bool once; /* removed when it is read */
};

struct waiting {
    struct waiting *next;
    pmix_proc_t requestor;
    char **keys;
    int64_t until_ms;
    pmix_lookup_cbfunc_t done;
    void *arg;
};

struct pmix_publish {
    struct name *all;
    struct waiting *waiting; /* the oldest first */
};

struct pmix_publish *pmix_publish_new(void)
{
    return xzalloc(sizeof(struct pmix_publish));
}

/* Removes the name that `*at` points to. */
static void drop(struct name **at)
{
    struct name *name = *at;
    *at = name->next;
    PMIX_VALUE_DESTRUCT(&name->value);
    free(name);
}

void pmix_publish_free(struct pmix_publish *n)
{
    if (!n)
        return;
    while (n->all)
        drop(&n->all);
    while (n->waiting) {
        struct waiting *w = n->waiting;
        n->waiting = w->next;
        strv_free(w->keys);
        free(w);
    }
    free(n);
}

static struct name **find(struct pmix_publish *n, const char *nspace, const char *key)
{
    struct name **at = &n->all;
    while (*at && !(PMIX_CHECK_NSPACE((*at)->owner.nspace, nspace) && PMIX_CHECK_KEY(*at, key)))
        at = &(*at)->next;
    return at;
}

/* Answers with the published values of `keys`. Removes the names that may be read only once. The
 * receiver of the answer may free the keys. */
static void answer(struct pmix_publish *n, const struct pmix_publish_lookup *l)
{
    size_t found = 0;
    AUTO(free) pmix_pdata_t *data = xcalloc(strv_len(l->keys), sizeof *data);
    for (size_t i = 0; l->keys[i]; i++) {
        struct name **at = find(n, l->requestor->nspace, l->keys[i]);
        if (!*at)
            continue;
        data[found].proc = (*at)->owner;
        PMIX_LOAD_KEY(data[found].key, l->keys[i]);
        /* Cannot fail, since the value was copied before */
        (void)PMIx_Value_xfer(&data[found].value, &(*at)->value);
        found++;
        if ((*at)->once)
            drop(at);
    }
    l->done(found ? PMIX_SUCCESS : PMIX_ERR_NOT_FOUND, data, found, l->arg);
    while (found > 0)
        PMIX_VALUE_DESTRUCT(&data[--found].value);
}

/* Answers a waiting lookup and removes it. The answer has the names, or only `status` if that is an
 * error. */
static void end_wait(struct pmix_publish *n, struct waiting **at, pmix_status_t status)
{
    struct waiting *w = *at;
    *at = w->next;
    struct pmix_publish_lookup l = {&w->requestor, w->keys, 0, w->done, w->arg};
    if (status == PMIX_SUCCESS)
        answer(n, &l);
    else
        w->done(status, NULL, 0, w->arg);
    strv_free(w->keys);
    free(w);
}

static bool all_published(struct pmix_publish *n, const char *nspace, char *const *keys)
{
    for (; *keys; keys++)
        if (!*find(n, nspace, *keys))
            return false;
    return true;
}

static void answer_waiting(struct pmix_publish *n)
{
    for (struct waiting **at = &n->waiting; *at;)
        if (all_published(n, (*at)->requestor.nspace, (*at)->keys))
            end_wait(n, at, PMIX_SUCCESS);
        else
            at = &(*at)->next;
}

static bool is_directive(const pmix_info_t *i)
{
    return strncmp(i->key, "pmix.", 5) == 0; /* reserved by the standard */
}

pmix_status_t pmix_publish_add(struct pmix_publish *n, const pmix_proc_t *owner,
                               const pmix_info_t info[], size_t info_n)
{
    bool once = false;
    for (size_t i = 0; i < info_n; i++) {
        if (PMIX_CHECK_KEY(&info[i], PMIX_PERSISTENCE))
            once = info[i].value.data.persist == PMIX_PERSIST_FIRST_READ;
        else if (!is_directive(&info[i]) && *find(n, owner->nspace, info[i].key))
            return PMIX_ERR_DUPLICATE_KEY;
    }
    for (size_t i = 0; i < info_n; i++) {
        if (is_directive(&info[i]))
            continue;
        struct name *new = xzalloc(sizeof *new);
        *new = (struct name){.next = n->all, .owner = *owner, .once = once};
        PMIX_LOAD_KEY(new->key, info[i].key);
        if (PMIx_Value_xfer(&new->value, &info[i].value) != PMIX_SUCCESS) {
            free(new);
            return PMIX_ERR_BAD_PARAM;
        }
        n->all = new;
    }
    answer_waiting(n);
    return PMIX_SUCCESS;
}

pmix_status_t pmix_publish_remove(struct pmix_publish *n, const pmix_proc_t *owner,
                                  char *const *keys)
{
    bool any = !keys;
    for (struct name **at = &n->all; *at;) {
        bool wanted = !keys;
        for (char *const *k = keys; k && *k; k++)
            wanted = wanted || PMIX_CHECK_KEY(*at, *k);
        if (wanted && PMIX_CHECK_PROCID(&(*at)->owner, owner)) {
            drop(at);
            any = true;
        } else {
            at = &(*at)->next;
        }
    }
    return any ? PMIX_SUCCESS : PMIX_ERR_NOT_FOUND;
}

bool pmix_publish_lookup(struct pmix_publish *n, const struct pmix_publish_lookup *l)
{
    if (l->until_ms == PMIX_PUBLISH_NO_WAIT || all_published(n, l->requestor->nspace, l->keys)) {
        answer(n, l);
        return true;
    }
    struct waiting **at = &n->waiting;
    while (*at)
        at = &(*at)->next;
    *at = xzalloc(sizeof **at);
    **at = (struct waiting){.requestor = *l->requestor,
                            .keys = strv_copy(l->keys),
                            .until_ms = l->until_ms,
                            .done = l->done,
                            .arg = l->arg};
    return false;
}

int64_t pmix_publish_deadline(const pmix_info_t info[], size_t info_n, int64_t now_ms)
{
    bool waits = false;
    int64_t limit_s = 0;
    for (size_t i = 0; i < info_n; i++) {
        const pmix_value_t *v = &info[i].value;
        /* PMIx's standard defines a number; Open MPI sends a bool */
        if (PMIX_CHECK_KEY(&info[i], PMIX_WAIT))
            waits = v->type != PMIX_BOOL || v->data.flag;
        else if (PMIX_CHECK_KEY(&info[i], PMIX_TIMEOUT))
            limit_s = v->data.integer;
    }
    if (!waits)
        return PMIX_PUBLISH_NO_WAIT;
    return limit_s > 0 ? now_ms + limit_s * 1000 : INT64_MAX;
}

int64_t pmix_publish_expire(struct pmix_publish *n, int64_t now_ms)
{
    int64_t next = INT64_MAX;
    for (struct waiting **at = &n->waiting; *at;) {
        if ((*at)->until_ms <= now_ms) {
            end_wait(n, at, PMIX_ERR_TIMEOUT);
            continue;
        }
        next = (*at)->until_ms < next ? (*at)->until_ms : next;
        at = &(*at)->next;
    }
    return next;
}

void pmix_publish_drop_namespace(struct pmix_publish *n, const char *nspace)
{
    for (struct name **at = &n->all; *at;)
        if (PMIX_CHECK_NSPACE((*at)->owner.nspace, nspace))
            drop(at);
        else
            at = &(*at)->next;
    for (struct waiting **at = &n->waiting; *at;)
        if (PMIX_CHECK_NSPACE((*at)->requestor.nspace, nspace))
            end_wait(n, at, PMIX_ERR_NOT_FOUND);
        else
            at = &(*at)->next;
}
