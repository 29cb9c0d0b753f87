/* pmix_server_exchange - on the loop: requests of ranks go to the exchange, and its answers to
 * libpmix. A job with one node has an exchange for itself. */
#include "common/clock.h"
#include "common/log.h"
#include "launcher/pmi/pmix_server_internal.h"

/* ---- on libpmix's thread -------------------------------------------------------------------- */

static void on_finish(pmix_status_t status, void *arg)
{
    struct pmix_request *q = arg;
    struct pmix_server *r = q->owner;
    pmix_request_finish(q);
    pmix_wait_answer(PMIX_SUCCESS, &r->pending);
}

/* The data of a rank of this node, for another node. */
static void on_data(pmix_status_t status, char *data, size_t len, void *arg)
{
    struct pmix_request *q = arg;
    if (status != PMIX_SUCCESS)
        q->m.status = EXCHANGE_NOT_FOUND;
    else if (len > 0)
        pmix_request_take_data(q, memcpy(xcalloc(1, len), data, len), len);
    pmix_server_send(q->owner, &(struct pmix_event){.from = q->procs[0], .request = q});
}

/* ---- on the loop ---------------------------------------------------------------------------- */

/* Gives the answer, if one is awaited, to libpmix on its own thread, since ranks may be answered
 * only there. For this, it makes a request about a process that does not exist: libpmix calls the
 * request's callback on its thread. */
static void finish(struct pmix_server *r, struct pmix_request *q)
{
    pmix_proc_t none;
    if (q->answer == PMIX_ANSWER_NONE) {
        pmix_request_free(q);
        return;
    }
    PMIX_LOAD_PROCID(&none, "nobody", 0);
    q->owner = r;
    pmix_wait_open(&r->pending);
    PMIx_server_deregister_client(&none, on_finish, q);
}

static void remove_request(struct pmix_server_job *j, struct pmix_request *q)
{
    struct pmix_request **at = &j->requests;
    while (*at != q)
        at = &(*at)->next;
    *at = q->next;
    q->next = NULL;
}

static void ask_libpmix(struct pmix_request *q)
{
    pmix_status_t rc = PMIx_server_dmodex_request(q->procs, on_data, q);
    if (rc != PMIX_SUCCESS)
        on_data(rc, NULL, 0, q);
}

static void append(struct pmix_request **at, struct pmix_request *q)
{
    while (*at)
        at = &(*at)->next;
    *at = q;
}

/* Another node asks for the data of a rank. The rank may not have put them yet, or not even have
 * connected: libpmix answers when it has them. */
static void on_get(struct pmix_server_job *j, const struct exchange_message *m)
{
    struct pmix_request *q = pmix_request_new(EXCHANGE_GOT);
    q->m.node = m->node;
    q->m.id = m->id;
    q->m.rank = m->rank;
    q->owner = j->owner;
    q->procs = xcalloc(1, sizeof *q->procs);
    PMIX_LOAD_PROCID(q->procs, j->name, (pmix_rank_t)m->rank);
    if (j->phase != PMIX_JOB_NEW)
        ask_libpmix(q);
    else
        append(&j->early, q);
}

void pmix_server_serve_early(struct pmix_server_job *j)
{
    while (j->early) {
        struct pmix_request *q = j->early;
        j->early = q->next;
        q->next = NULL;
        ask_libpmix(q);
    }
}

void pmix_server_deliver(void *job, const struct exchange_message *m)
{
    struct pmix_server_job *j = job;
    if (m->type == EXCHANGE_GET) {
        on_get(j, m);
        return;
    }
    struct pmix_request *q = j->requests;
    while (q && !pmix_request_is_answered_by(q, m))
        q = q->next;
    if (!q) {
        log_debug("PMIx: no rank waits for message %d, %d", (int)m->type, (int)m->kind);
        return;
    }
    remove_request(j, q);
    pmix_request_set_answer(q, m);
    finish(j->owner, q);
}

/* ---- the exchange of a job with one node ---------------------------------------------------- */

void pmix_server_open_exchange(struct pmix_server_job *j)
{
    static const struct exchange_events ev = {.deliver = pmix_server_deliver};
    j->exchange = exchange_new(NULL, 0, j->map->rank_nodes, j->map->ranks, &ev, j);
}

/* Answers the lookups of all jobs whose wait has ended, and sets the timer for the next one. */
static void on_expiry(uv_timer_t *t)
{
    struct pmix_server *r = t->data;
    int64_t now_ms = clock_ms(), next_ms = INT64_MAX;
    for (struct pmix_server_job *j = r->jobs; j; j = j->next) {
        int64_t ms = j->exchange ? exchange_expire(j->exchange, now_ms) : INT64_MAX;
        next_ms = ms < next_ms ? ms : next_ms;
    }
    if (next_ms == INT64_MAX)
        return;
    uv_timer_start(t, on_expiry, (uint64_t)(next_ms - now_ms) + 1, 0);
    uv_unref((uv_handle_t *)t);
}

/* Returns a negative errno if the message is refused. */
static int send_local(struct pmix_server_job *j, const struct exchange_message *m)
{
    bool lookup = m->type == EXCHANGE_LOOKUP; /* `m` may be freed by its answer */
    struct err e = {0};
    int rc = exchange_submit(j->exchange, m, clock_ms(), &e);
    if (rc < 0)
        log_debug("PMIx: %s", e.text);
    if (lookup)
        on_expiry(&j->owner->expiry);
    return rc;
}

/* ---- requests ------------------------------------------------------------------------------- */

/* Returns true if this server has to have what the request asks for. */
static bool is_for_own_node(const struct pmix_server_job *j, const struct exchange_message *m)
{
    return m->type == EXCHANGE_GET &&
           (m->rank < 0 || m->rank >= j->map->ranks || j->map->rank_nodes[m->rank] == j->map->node);
}

static void fail(struct pmix_server_job *j, struct pmix_request *q, pmix_status_t status)
{
    q->status = status;
    finish(j->owner, q);
}

void pmix_server_submit(struct pmix_server_job *j, struct pmix_request *q)
{
    struct exchange_message *m = &q->m;
    bool answered = m->type != EXCHANGE_GOT;
    if (is_for_own_node(j, m)) {
        fail(j, q, PMIX_ERR_NOT_FOUND);
        return;
    }
    if (m->rank_count == (size_t)j->map->ranks)
        m->rank_count = 0; /* the exchange's name for all ranks */
    if (answered) {
        m->id = ++j->last_id;
        append(&j->requests, q);
    }
    int rc = 0;
    if (j->ev.exchange)
        j->ev.exchange(j->arg, m);
    else
        rc = send_local(j, m);
    if (!answered)
        pmix_request_free(q);
    else if (rc < 0) { /* a refused message has had no effect: the request still waits */
        remove_request(j, q);
        fail(j, q, PMIX_ERR_BAD_PARAM);
    }
}
