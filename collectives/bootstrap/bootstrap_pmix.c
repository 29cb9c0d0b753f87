/* bootstrap_pmix_new - over PMIx: put, commit, fence, get. */

#include <errno.h>
#include <pmix.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collectives/bootstrap/bootstrap.h"
#include "collectives/bootstrap/bootstrap_missing.h"
#include "common/clock.h"
#include "common/strbuf.h"

enum { GET_MS = 10000, ASK_MS = 1000 };

/* A rank attaches to PMIx once in its life: a second time fails in Open MPI 4.1, even after a
 * finalize. So the process stays attached until it ends. */
static struct session {
    bool attached;
    pid_t pid; /* a forked child has the variable but not the connection */
    pmix_proc_t me;
    unsigned rounds; /* that were begun; part of every key, since keys are never taken back */
} session;

struct way {
    int rank, size;
    unsigned round; /* 0: not attached yet */
};

/* An answer that PMIx's thread brings. Whoever of the two comes last frees it. */
struct answer {
    pthread_mutex_t lock;
    pthread_cond_t came;
    bool done, left;
    pmix_status_t status;
};

static struct answer *answer_new(void)
{
    struct answer *a = xzalloc(sizeof *a);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->came, &attr);
    pthread_condattr_destroy(&attr);
    return a;
}

static void answer_free(struct answer *a)
{
    pthread_cond_destroy(&a->came);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

static void answered(pmix_status_t status, void *arg)
{
    struct answer *a = arg;
    pthread_mutex_lock(&a->lock);
    a->done = true;
    a->status = status;
    bool left = a->left;
    pthread_cond_signal(&a->came);
    pthread_mutex_unlock(&a->lock);
    if (left)
        answer_free(a);
}

static void answered_value(pmix_status_t status, pmix_value_t *value, void *arg)
{
    answered(status, arg);
}

/* Takes the answer over. False at the deadline. */
static bool await(struct answer *a, const struct timespec *end, pmix_status_t *status)
{
    pthread_mutex_lock(&a->lock);
    while (!a->done && pthread_cond_timedwait(&a->came, &a->lock, end) != ETIMEDOUT)
        ;
    bool done = a->done;
    *status = a->status;
    a->left = !done;
    pthread_mutex_unlock(&a->lock);
    if (done)
        answer_free(a);
    return done;
}

static void detach(void)
{
    if (session.attached && session.pid == getpid())
        PMIx_Finalize(NULL, 0);
}

static int pmix_failed(struct err *e, pmix_status_t status, const char *what)
{
    int code = status == PMIX_ERR_NOMEM ? -ENOMEM : -EIO;
    return err_set(e, code, "PMIx: %s: %s", what, PMIx_Error_string(status));
}

static int check_job(const struct way *x, struct err *e)
{
    pmix_proc_t job;
    PMIX_LOAD_PROCID(&job, session.me.nspace, PMIX_RANK_WILDCARD);
    pmix_value_t *value = NULL;
    pmix_status_t status = PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &value);
    if (status != PMIX_SUCCESS)
        return pmix_failed(e, status, "the job's size");
    unsigned size = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    if (size != (unsigned)x->size || session.me.rank != (unsigned)x->rank) {
        err_set(e, -EPROTO, "PMIx says rank %u of %u, the environment rank %d of %d",
                session.me.rank, size, x->rank, x->size);
        return err_hint(e, "do not start a launcher inside a rank of another one");
    }
    return 0;
}

static int attach(struct way *x, struct err *e)
{
    if (x->round)
        return 0;
    if (!session.attached || session.pid != getpid()) {
        pmix_status_t status = PMIx_Init(&session.me, NULL, 0);
        if (status != PMIX_SUCCESS)
            return pmix_failed(e, status, "attach");
        session.attached = true;
        session.pid = getpid();
        atexit(detach);
    }
    int rc = check_job(x, e);
    if (rc == 0)
        x->round = ++session.rounds;
    return rc;
}

static void full_key(char out[PMIX_MAX_KEYLEN + 1], const struct way *x, const char *key)
{
    snprintf(out, PMIX_MAX_KEYLEN + 1, "drover.%u.%s", x->round, key);
}

static int attach_for(char out[PMIX_MAX_KEYLEN + 1], struct way *x, const char *key, struct err *e)
{
    int rc = attach(x, e);
    if (rc == 0)
        full_key(out, x, key);
    return rc;
}

static int pmix_put(void *arg, const char *key, const void *bytes, size_t len, struct err *e)
{
    char full[PMIX_MAX_KEYLEN + 1];
    int rc = attach_for(full, arg, key, e);
    if (rc < 0)
        return rc;
    AUTO(free) char *copy = xzalloc(len); /* PMIx's struct is not const */
    memcpy(copy, bytes, len);
    pmix_value_t value = {.type = PMIX_BYTE_OBJECT, .data.bo = {.bytes = copy, .size = len}};
    pmix_status_t status = PMIx_Put(PMIX_GLOBAL, full, &value);
    return status == PMIX_SUCCESS ? 0 : pmix_failed(e, status, "put");
}

/* The job's own data has it, which was there when this process attached. */
static void node_of(char out[BOOTSTRAP_NODE_BYTES], int rank)
{
    pmix_proc_t who;
    PMIX_LOAD_PROCID(&who, session.me.nspace, (pmix_rank_t)rank);
    pmix_info_t only_here;
    bool yes = true;
    PMIX_INFO_LOAD(&only_here, PMIX_OPTIONAL, &yes, PMIX_BOOL);
    pmix_value_t *value = NULL;
    if (PMIx_Get(&who, PMIX_HOSTNAME, &only_here, 1, &value) != PMIX_SUCCESS)
        return;
    if (value->type == PMIX_STRING && value->data.string)
        snprintf(out, BOOTSTRAP_NODE_BYTES, "%s", value->data.string);
    PMIX_VALUE_RELEASE(value);
}

/* Appends the ranks that have not put their "here"; says how many. They are asked all at once. */
static int missing_ranks(const struct way *x, struct strbuf *names)
{
    char key[PMIX_MAX_KEYLEN + 1];
    full_key(key, x, "here");
    AUTO(free) struct answer **asked = xcalloc((size_t)x->size, sizeof(struct answer *));
    pmix_info_t only_now;
    bool yes = true;
    PMIX_INFO_LOAD(&only_now, PMIX_IMMEDIATE, &yes, PMIX_BOOL);
    for (int r = 0; r < x->size; r++) {
        pmix_proc_t who;
        PMIX_LOAD_PROCID(&who, session.me.nspace, (pmix_rank_t)r);
        asked[r] = answer_new();
        pmix_status_t status = PMIx_Get_nb(&who, key, &only_now, 1, answered_value, asked[r]);
        if (status != PMIX_SUCCESS) /* answered here and now; no callback follows */
            answered(status == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : status, asked[r]);
    }
    AUTO(free) struct bootstrap_rank_location *seats = xcalloc((size_t)x->size, sizeof *seats);
    struct timespec end = clock_in_ms(ASK_MS);
    for (int r = 0; r < x->size; r++) {
        pmix_status_t status = PMIX_ERROR;
        seats[r].here = await(asked[r], &end, &status) && status == PMIX_SUCCESS;
        if (!seats[r].here)
            node_of(seats[r].node, r);
    }
    return bootstrap_missing(names, seats, x->size);
}

static int timed_out(const struct way *x, int64_t timeout_ms, struct err *e)
{
    AUTO(strbuf) struct strbuf names = {0};
    int count = missing_ranks(x, &names);
    bool known = count > 0 && count < x->size; /* this rank is here; else PMIx cannot tell */
    err_set(e, -ETIMEDOUT, "not every rank came here in %lld ms%s%s", (long long)timeout_ms,
            known ? "; missing: " : "", known ? strbuf_str(&names) : "");
    return err_hint(e, "see what the missing ranks do; a deadline can be raised by open_ms");
}

static int pmix_fence(void *arg, int64_t timeout_ms, struct err *e)
{
    struct way *x = arg;
    int rc = pmix_put(x, "here", "", 1, e);
    if (rc < 0)
        return rc;
    pmix_status_t status = PMIx_Commit();
    if (status != PMIX_SUCCESS)
        return pmix_failed(e, status, "commit");
    pmix_proc_t job;
    PMIX_LOAD_PROCID(&job, session.me.nspace, PMIX_RANK_WILDCARD);
    pmix_info_t collect;
    bool yes = true;
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    struct timespec end = clock_in_ms(timeout_ms);
    struct answer *a = answer_new();
    status = PMIx_Fence_nb(&job, 1, &collect, 1, answered, a);
    if (status != PMIX_SUCCESS)
        answered(status == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : status, a);
    if (!await(a, &end, &status))
        return timed_out(x, timeout_ms, e);
    return status == PMIX_SUCCESS ? 0 : pmix_failed(e, status, "fence");
}

static int pmix_get(void *arg, int rank, const char *key, void *out, size_t len, struct err *e)
{
    char full[PMIX_MAX_KEYLEN + 1];
    int rc = attach_for(full, arg, key, e);
    if (rc < 0)
        return rc;
    pmix_proc_t who;
    PMIX_LOAD_PROCID(&who, session.me.nspace, (pmix_rank_t)rank);
    pmix_info_t limit;
    int seconds = GET_MS / 1000;
    PMIX_INFO_LOAD(&limit, PMIX_TIMEOUT, &seconds, PMIX_INT);
    pmix_value_t *value = NULL;
    pmix_status_t status = PMIx_Get(&who, full, &limit, 1, &value);
    if (status != PMIX_SUCCESS)
        return pmix_failed(e, status, "get");
    bool fits = value->type == PMIX_BYTE_OBJECT && value->data.bo.size == len;
    if (fits)
        memcpy(out, value->data.bo.bytes, len);
    PMIX_VALUE_RELEASE(value);
    return fits ? 0 : err_set(e, -EPROTO, "rank %d put a '%s' of another size", rank, key);
}

void bootstrap_pmix_new(struct bootstrap *x, const struct rank_identity *who)
{
    struct way *w = xzalloc(sizeof *w);
    *w = (struct way){.rank = who->rank, .size = who->size};
    *x = (struct bootstrap){{w, pmix_put, pmix_fence, pmix_get}, free};
}
