#include "launcher/pmi/pmix_request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/pmi/pmix_loader.h"

struct pmix_request *pmix_request_new(enum exchange_type type)
{
    struct pmix_request *q = xzalloc(sizeof *q);
    q->m.type = type;
    q->status = PMIX_SUCCESS;
    return q;
}

void pmix_request_free(struct pmix_request *q)
{
    if (!q)
        return;
    free(q->ranks);
    strv_free(q->keys);
    free(q->data);
    free(q->procs);
    free(q->answer_data);
    free(q);
}

/* ---- making a request ----------------------------------------------------------------------- */

static int by_number(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

bool pmix_request_set_procs(struct pmix_request *q, const pmix_proc_t procs[], size_t n)
{
    bool all = false;
    q->ranks = xcalloc(n, sizeof *q->ranks);
    for (size_t i = 0; i < n; i++) {
        if (!PMIX_CHECK_NSPACE(procs[i].nspace, procs[0].nspace))
            return false;
        all = all || procs[i].rank == PMIX_RANK_WILDCARD;
        q->ranks[i] = (int32_t)procs[i].rank;
    }
    qsort(q->ranks, n, sizeof *q->ranks, by_number);
    q->m.ranks = q->ranks;
    q->m.rank_count = all ? 0 : n;
    return true;
}

void pmix_request_take_data(struct pmix_request *q, char *data, size_t len)
{
    q->data = data;
    q->m.data = data;
    q->m.len = data ? len : 0;
}

void pmix_request_add_key(struct pmix_request *q, const char *key)
{
    strv_push(&q->keys, xstrdup(key));
    q->m.keys = (const char *const *)q->keys;
    q->m.key_count++;
}

void pmix_request_set_wait(struct pmix_request *q, const pmix_info_t info[], size_t n)
{
    bool waits = false;
    int64_t limit_s = 0;
    for (size_t i = 0; i < n; i++) {
        const pmix_value_t *v = &info[i].value;
        /* PMIx's standard defines a number; Open MPI sends a bool */
        if (PMIX_CHECK_KEY(&info[i], PMIX_WAIT))
            waits = v->type != PMIX_BOOL || v->data.flag;
        else if (PMIX_CHECK_KEY(&info[i], PMIX_TIMEOUT))
            limit_s = v->data.integer;
    }
    q->m.wait_ms = !waits ? 0 : limit_s > 0 ? limit_s * 1000 : -1;
}

int pmix_request_publish(struct pmix_request **out, const pmix_proc_t *owner, const char *key,
                         const pmix_value_t *value, bool once)
{
    /* only packed, so the value's data are shared */
    pmix_pdata_t name = {.proc = *owner, .value = *value};
    PMIX_LOAD_KEY(name.key, key);
    pmix_data_buffer_t b = PMIX_DATA_BUFFER_STATIC_INIT;
    if (PMIx_Data_pack(NULL, &b, &name, 1, PMIX_PDATA) != PMIX_SUCCESS) {
        PMIX_DATA_BUFFER_DESTRUCT(&b);
        return -EINVAL;
    }
    struct pmix_request *q = pmix_request_new(EXCHANGE_PUBLISH);
    q->m.rank = (int)owner->rank;
    q->m.once = once;
    pmix_request_add_key(q, key);
    pmix_request_take_data(q, b.base_ptr, b.bytes_used);
    *out = q;
    return 0;
}

/* ---- the answer ----------------------------------------------------------------------------- */

bool pmix_request_is_answered_by(const struct pmix_request *q, const struct exchange_message *m)
{
    if (m->type == EXCHANGE_FENCE_DONE)
        return q->m.type == EXCHANGE_FENCE && exchange_message_same_fence(&q->m, m);
    return q->m.type != EXCHANGE_FENCE && q->m.id == m->id;
}

static pmix_status_t status_of(int exchange_status)
{
    static const pmix_status_t of[] = {[EXCHANGE_OK] = PMIX_SUCCESS,
                                       [EXCHANGE_NOT_FOUND] = PMIX_ERR_NOT_FOUND,
                                       [EXCHANGE_DUPLICATE] = PMIX_ERR_DUPLICATE_KEY,
                                       [EXCHANGE_TIMEOUT] = PMIX_ERR_TIMEOUT,
                                       [EXCHANGE_FAILED] = PMIX_ERR_LOST_CONNECTION};
    return exchange_status >= 0 && exchange_status < (int)COUNT_OF(of) ? of[exchange_status]
                                                                       : PMIX_ERROR;
}

void pmix_request_set_answer(struct pmix_request *q, const struct exchange_message *m)
{
    if (q->status == PMIX_SUCCESS)
        q->status = status_of(m->status);
    if (q->then)
        q->then->status = q->status;
    q->id = m->id;
    q->answer_len = m->len;
    if (m->len > 0)
        q->answer_data = memcpy(xcalloc(1, m->len), m->data, m->len);
}

/* A pmix_release_cbfunc_t. */
static void release(void *arg)
{
    pmix_request_free(arg);
}

static void answer_with_names(struct pmix_request *q)
{
    size_t n = 0;
    AUTO(free) pmix_pdata_t *names = xcalloc(q->m.key_count + 1, sizeof *names);
    pmix_data_buffer_t b = PMIX_DATA_BUFFER_STATIC_INIT;
    PMIX_DATA_BUFFER_LOAD(&b, q->answer_data, q->answer_len); /* takes the bytes */
    q->answer_data = NULL;
    int32_t one = 1;
    while (n < q->m.key_count &&
           PMIx_Data_unpack(NULL, &b, &names[n], &one, PMIX_PDATA) == PMIX_SUCCESS)
        n++;
    PMIX_DATA_BUFFER_DESTRUCT(&b);
    if (n == 0 && q->status == PMIX_SUCCESS)
        q->status = PMIX_ERR_NOT_FOUND;
    q->done.names(q->status, names, n, q->arg);
    while (n > 0)
        PMIX_VALUE_DESTRUCT(&names[--n].value);
    pmix_request_free(q);
}

struct group_answer {
    struct pmix_request *q;
    pmix_info_t info[3];
    size_t n;
};

static void release_group(void *arg)
{
    struct group_answer *g = arg;
    for (size_t i = 0; i < g->n; i++)
        PMIX_INFO_DESTRUCT(&g->info[i]);
    pmix_request_free(g->q);
    free(g);
}

/* libpmix 4 reads the context id and the data; later versions also read the members. */
static void answer_with_group(struct pmix_request *q)
{
    struct group_answer *g = xzalloc(sizeof *g);
    g->q = q;
    if (q->m.kind == EXCHANGE_GROUP && q->status == PMIX_SUCCESS) {
        size_t context = (size_t)q->id;
        pmix_byte_object_t data = {.bytes = q->answer_data, .size = q->answer_len};
        pmix_data_array_t members = {.type = PMIX_PROC, .size = q->proc_count, .array = q->procs};
        PMIX_INFO_LOAD(&g->info[g->n++], PMIX_GROUP_CONTEXT_ID, &context, PMIX_SIZE);
        PMIX_INFO_LOAD(&g->info[g->n++], PMIX_GROUP_MEMBERSHIP, &members, PMIX_DATA_ARRAY);
        if (q->answer_len > 0)
            PMIX_INFO_LOAD(&g->info[g->n++], PMIX_GROUP_ENDPT_DATA, &data, PMIX_BYTE_OBJECT);
    }
    q->done.group(q->status, g->info, g->n, q->arg, release_group, g);
}

void pmix_request_finish(struct pmix_request *q)
{
    if (q->answer == PMIX_ANSWER_DATA) {
        q->done.data(q->status, q->answer_data, q->answer_len, q->arg, release, q);
    } else if (q->answer == PMIX_ANSWER_NAMES) {
        answer_with_names(q);
    } else if (q->answer == PMIX_ANSWER_GROUP) {
        answer_with_group(q);
    } else {
        if (q->answer == PMIX_ANSWER_STATUS)
            q->done.status(q->status, q->arg);
        pmix_request_free(q);
    }
}
