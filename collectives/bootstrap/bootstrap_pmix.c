/* bootstrap_pmix - bootstrap over PMIx: put, commit, fence, get. */

#include <errno.h>
#include <pmix.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collectives/bootstrap/bootstrap.h"
#include "collectives/bootstrap/bootstrap_missing.h"
#include "collectives/bootstrap/task.h"
#include "common/clock.h"
#include "common/strbuf.h"

enum { GET_MS = 10000, MISSING_MS = 1000, HERE_BYTES = 24 };

/* A process attaches to PMIx once and stays attached until it exits. With Open MPI 4.1 it cannot
 * attach a second time, even after a finalize. */
static struct session {
    bool attached;
    pid_t pid; /* process that attached: a forked child inherits this variable, but not the
                  connection */
    pmix_proc_t me;
    /* number of rounds so far; it is part of every key, since keys are never removed */
    unsigned rounds;
} session;

struct pmix_bootstrap {
    int rank, size;
    unsigned round;  /* 0: not attached yet */
    unsigned fences; /* number of fences of this round */
};

/* An answer that PMIx's thread delivers to this thread. */
struct answer {
    struct task task; /* first */
    pmix_status_t status;
};

static struct answer *answer_new(void)
{
    struct answer *a = xzalloc(sizeof *a);
    task_open(&a->task);
    return a;
}

static void answered(pmix_status_t status, void *arg)
{
    struct answer *a = arg;
    a->status = status;
    task_done(&a->task);
}

/* Completes an answer if PMIx returned the result immediately. Then no callback follows. */
static void answered_at_once(struct answer *a, pmix_status_t status)
{
    if (status != PMIX_SUCCESS)
        answered(status == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : status, a);
}

static void answered_value(pmix_status_t status, pmix_value_t *value, void *arg)
{
    answered(status, arg);
}

/* Waits for the answer and frees it. Returns false after timeout_ms. */
static bool await_answer(struct answer *a, int64_t timeout_ms, pmix_status_t *status)
{
    bool done = task_wait(&a->task, timeout_ms);
    if (done)
        *status = a->status;
    task_free(&a->task);
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

static int check_job(const struct pmix_bootstrap *p, struct err *e)
{
    pmix_proc_t job;
    PMIX_LOAD_PROCID(&job, session.me.nspace, PMIX_RANK_WILDCARD);
    pmix_value_t *value = NULL;
    pmix_status_t status = PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &value);
    if (status != PMIX_SUCCESS)
        return pmix_failed(e, status, "get the job size");
    unsigned size = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    if (size != (unsigned)p->size || session.me.rank != (unsigned)p->rank) {
        err_set(e, -EPROTO, "PMIx reports rank %u of %u, the environment rank %d of %d",
                session.me.rank, size, p->rank, p->size);
        return err_hint(e, "start no launcher inside a rank of another one");
    }
    return 0;
}

static int attach(struct pmix_bootstrap *p, struct err *e)
{
    if (p->round)
        return 0;
    if (!session.attached || session.pid != getpid()) {
        pmix_status_t status = PMIx_Init(&session.me, NULL, 0);
        if (status != PMIX_SUCCESS)
            return pmix_failed(e, status, "attach");
        session.attached = true;
        session.pid = getpid();
        atexit(detach);
    }
    int rc = check_job(p, e);
    if (rc == 0)
        p->round = ++session.rounds;
    return rc;
}

static void full_key(char out[PMIX_MAX_KEYLEN + 1], const struct pmix_bootstrap *p, const char *key)
{
    snprintf(out, PMIX_MAX_KEYLEN + 1, "drover.%u.%s", p->round, key);
}

static int attach_for(char out[PMIX_MAX_KEYLEN + 1], struct pmix_bootstrap *p, const char *key,
                      struct err *e)
{
    int rc = attach(p, e);
    if (rc == 0)
        full_key(out, p, key);
    return rc;
}

static int pmix_put(void *arg, const char *key, const void *bytes, size_t len, struct err *e)
{
    char full[PMIX_MAX_KEYLEN + 1];
    int rc = attach_for(full, arg, key, e);
    if (rc < 0)
        return rc;
    AUTO(free) char *copy = xzalloc(len); /* PMIx's struct has no const pointer */
    memcpy(copy, bytes, len);
    pmix_value_t value = {.type = PMIX_BYTE_OBJECT, .data.bo = {.bytes = copy, .size = len}};
    pmix_status_t status = PMIx_Put(PMIX_GLOBAL, full, &value);
    return status == PMIX_SUCCESS ? 0 : pmix_failed(e, status, "put");
}

/* Writes the node of a rank to `out`, or leaves `out` unchanged if it is unknown. Uses the job's
 * data, which are local after attaching. */
static void node_of(char out[BOOTSTRAP_NODE_BYTES], int rank)
{
    pmix_proc_t peer;
    PMIX_LOAD_PROCID(&peer, session.me.nspace, (pmix_rank_t)rank);
    pmix_info_t only_here;
    bool yes = true;
    PMIX_INFO_LOAD(&only_here, PMIX_OPTIONAL, &yes, PMIX_BOOL);
    pmix_value_t *value = NULL;
    if (PMIx_Get(&peer, PMIX_HOSTNAME, &only_here, 1, &value) != PMIX_SUCCESS)
        return;
    if (value->type == PMIX_STRING && value->data.string)
        snprintf(out, BOOTSTRAP_NODE_BYTES, "%s", value->data.string);
    PMIX_VALUE_RELEASE(value);
}

/* What a rank puts before its present fence. */
static void here_key(char out[HERE_BYTES], const struct pmix_bootstrap *p)
{
    snprintf(out, HERE_BYTES, "here%u", p->fences);
}

/* Appends the ranks that have not put the key of this fence and returns their number. Asks for all
 * ranks at the same time. */
static int missing_ranks(const struct pmix_bootstrap *p, struct strbuf *names)
{
    char key[PMIX_MAX_KEYLEN + 1], here[HERE_BYTES];
    here_key(here, p);
    full_key(key, p, here);
    AUTO(free) struct answer **answers = xcalloc((size_t)p->size, sizeof(struct answer *));
    pmix_info_t only_now;
    bool yes = true;
    PMIX_INFO_LOAD(&only_now, PMIX_IMMEDIATE, &yes, PMIX_BOOL);
    for (int r = 0; r < p->size; r++) {
        pmix_proc_t peer;
        PMIX_LOAD_PROCID(&peer, session.me.nspace, (pmix_rank_t)r);
        answers[r] = answer_new();
        answered_at_once(answers[r],
                         PMIx_Get_nb(&peer, key, &only_now, 1, answered_value, answers[r]));
    }
    AUTO(free)
    struct bootstrap_rank_location *locations = xcalloc((size_t)p->size, sizeof *locations);
    int64_t end_ms = clock_ms() + MISSING_MS;
    for (int r = 0; r < p->size; r++) {
        pmix_status_t status = PMIX_ERROR;
        bool has_answer = await_answer(answers[r], end_ms - clock_ms(), &status);
        locations[r].connected = has_answer && status == PMIX_SUCCESS;
        if (!locations[r].connected)
            node_of(locations[r].node, r);
    }
    return bootstrap_missing(names, locations, p->size);
}

static int timed_out(const struct pmix_bootstrap *p, int64_t timeout_ms, struct err *e)
{
    AUTO(strbuf) struct strbuf names = {0};
    int count = missing_ranks(p, &names);
    bool known =
        count > 0 &&
        count < p->size; /* this rank is connected: if all ranks seem missing, PMIx does not know */
    err_set(e, -ETIMEDOUT, "not all ranks connected within %lld ms%s%s", (long long)timeout_ms,
            known ? "; missing: " : "", known ? strbuf_str(&names) : "");
    return err_hint(e, "check the missing ranks; open_ms raises the deadline");
}

static int pmix_fence(void *arg, int64_t timeout_ms, struct err *e)
{
    struct pmix_bootstrap *p = arg;
    char here[HERE_BYTES];
    p->fences++;
    here_key(here, p);
    int rc = pmix_put(p, here, "", 1, e);
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
    struct answer *a = answer_new();
    answered_at_once(a, PMIx_Fence_nb(&job, 1, &collect, 1, answered, a));
    if (!await_answer(a, timeout_ms, &status))
        return timed_out(p, timeout_ms, e);
    return status == PMIX_SUCCESS ? 0 : pmix_failed(e, status, "fence");
}

static int pmix_get(void *arg, int rank, const char *key, void *out, size_t len, struct err *e)
{
    char full[PMIX_MAX_KEYLEN + 1];
    int rc = attach_for(full, arg, key, e);
    if (rc < 0)
        return rc;
    pmix_proc_t peer;
    PMIX_LOAD_PROCID(&peer, session.me.nspace, (pmix_rank_t)rank);
    pmix_info_t limit;
    int seconds = GET_MS / 1000;
    PMIX_INFO_LOAD(&limit, PMIX_TIMEOUT, &seconds, PMIX_INT);
    pmix_value_t *value = NULL;
    pmix_status_t status = PMIx_Get(&peer, full, &limit, 1, &value);
    if (status != PMIX_SUCCESS)
        return pmix_failed(e, status, "get");
    bool fits = value->type == PMIX_BYTE_OBJECT && value->data.bo.size == len;
    if (fits)
        memcpy(out, value->data.bo.bytes, len);
    PMIX_VALUE_RELEASE(value);
    return fits ? 0 : err_set(e, -EPROTO, "rank %d has put a '%s' of another size", rank, key);
}

void bootstrap_pmix_new(struct bootstrap *b, const struct rank_identity *identity)
{
    struct pmix_bootstrap *p = xzalloc(sizeof *p);
    *p = (struct pmix_bootstrap){.rank = identity->rank, .size = identity->size};
    *b = (struct bootstrap){{p, pmix_put, pmix_fence, pmix_get}, free};
}
