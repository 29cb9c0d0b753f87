#include "launcher/run/run_elastic.h"

#include "common/log.h"
#include "launcher/elastic/rdzv_client.h"

enum state {
    WAITS,    /* for the next attempt */
    RUNS,     /* the ranks do */
    DONE,     /* they ended well */
    FAILED,   /* they failed; the host is to answer that all know */
    STOPPING, /* they are ended because of another node */
    GONE      /* there is no rendezvous any more */
};

struct run_elastic {
    struct run_options *opts;
    struct run_elastic_events needs;
    struct rdzv_client *rdzv;
    struct rdzv_client_opts want;
    char *master_addr; /* what spec points to */
    enum state state;
    bool failure;  /* STOPPING: another node's; else one has come */
    bool leaving;  /* FAILED: no attempt follows */
    bool unwanted; /* DONE: the user has ended them */
};

static void say(const struct run_elastic *m, const char *what, const char *why)
{
    AUTO(free) char *text = xasprintf("%s: %s%s\n", m->opts->who, why, what);
    m->needs.say(m->needs.arg, text);
}

/* Whether what the host says means something now; what does not, is logged and dropped. */
static bool is_due(const struct run_elastic *m, enum state s, const char *what)
{
    if (m->state != s)
        log_warn("rendezvous: '%s' means nothing now and is dropped", what);
    return m->state == s;
}

static void on_place(void *arg, const struct rdzv_client_assignment *p)
{
    struct run_elastic *m = arg;
    if (!is_due(m, WAITS, "assignment"))
        return;
    struct launch_spec *s = &m->opts->spec;
    free(m->master_addr);
    m->master_addr = xstrdup(p->master_addr);
    s->external_part = (struct launch_external_part){p->nodes, p->node, m->master_addr,
                                                     p->first_rank, p->world_size};
    s->master_port = p->master_port;
    m->state = RUNS;
    m->needs.start(m->needs.arg);
}

static void on_stop(void *arg, bool failure, const char *why)
{
    struct run_elastic *m = arg;
    enum state was = m->state;
    m->failure = failure;
    if (was == FAILED) { /* the answer: all know */
        m->state = WAITS;
        if (m->leaving)
            m->needs.over(m->needs.arg, false);
    } else if (was == RUNS) {
        m->state = STOPPING;
        say(m, ": the ranks here are ended", why);
        m->needs.stop(m->needs.arg);
    } else if (was == DONE && failure) {
        m->state = WAITS;
        say(m, "", why);
        m->needs.failed(m->needs.arg);
    } else if (was == DONE && m->unwanted) {
        m->needs.over(m->needs.arg, false);
    } else if (was == DONE) {
        run_elastic_join(m);
    }
}

static void on_over(void *arg)
{
    struct run_elastic *m = arg;
    if (!is_due(m, DONE, "job_done"))
        return;
    m->state = GONE;
    m->needs.over(m->needs.arg, true);
}

static void on_failed(void *arg, const struct err *e)
{
    struct run_elastic *m = arg;
    bool runs = m->state == RUNS;
    bool ends = m->state == STOPPING; /* then that is how it ends */
    m->state = GONE;
    err_print(e, m->opts->who);
    if (runs)
        m->needs.stop(m->needs.arg);
    else if (!ends)
        m->needs.over(m->needs.arg, false);
}

bool run_elastic_was_stopped(const struct run_elastic *m)
{
    return m && (m->state == STOPPING || m->state == GONE);
}

enum run_elastic_next run_elastic_ranks_ended(struct run_elastic *m, const char *failed,
                                              bool unwanted)
{
    if (m->state == STOPPING) {
        m->state = WAITS;
    } else if (m->state == RUNS) {
        m->state = failed ? FAILED : DONE;
        m->unwanted = unwanted;
        m->leaving = false;
        rdzv_client_ranks_ended(m->rdzv, !failed, failed ? failed : "");
        return failed ? RUN_ELASTIC_FAILED : RUN_ELASTIC_WAIT_FOR_PEERS;
    }
    if (m->state == GONE || (unwanted && !m->failure))
        return RUN_ELASTIC_FINISHED;
    return m->failure ? RUN_ELASTIC_FAILED : RUN_ELASTIC_REJOIN;
}

void run_elastic_join(struct run_elastic *m)
{
    struct err e = {0};
    m->state = WAITS;
    if (rdzv_client_join(m->rdzv, &e) < 0)
        on_failed(m, &e);
}

bool run_elastic_leave(struct run_elastic *m)
{
    m->leaving = true;
    return m->state == FAILED;
}

/* How many ranks this node will have: what a job of its own would. */
static int count_ranks(int *out, const struct launch_spec *s, const struct topo *t, struct err *e)
{
    AUTO(plan) struct plan *p = NULL;
    int rc = plan_make(&p, s, t, environ, e);
    if (rc == 0)
        *out = p->world_size;
    return rc;
}

int run_elastic_open(struct run_elastic **out, uv_loop_t *loop, struct run_options *o,
                     const struct topo *t, const struct run_elastic_events *needs, struct err *e)
{
    static const struct rdzv_client_events events = {on_place, on_stop, on_over, on_failed};
    AUTO(run_elastic) struct run_elastic *m = xzalloc(sizeof *m);
    m->opts = o;
    m->needs = *needs;
    m->want = *o->rdzv;
    m->want.name = topo_name(t);
    int rc = count_ranks(&m->want.ranks, &o->spec, t, e);
    if (rc == 0)
        rc = rdzv_client_open(&m->rdzv, loop, &m->want, &events, m, e);
    if (rc < 0)
        return rc;
    *out = TAKE(m);
    return 0;
}

void run_elastic_close(struct run_elastic *m)
{
    if (!m)
        return;
    rdzv_client_close(m->rdzv);
    free(m->master_addr);
    free(m);
}
