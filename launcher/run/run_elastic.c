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

struct cmd_run_meet {
    struct cmd_run_opts *opts;
    struct cmd_run_meet_needs needs;
    struct rdzv *rdzv;
    struct rdzv_want want;
    char *master_addr; /* what spec points to */
    enum state state;
    bool failure;  /* STOPPING: another node's; else one has come */
    bool leaving;  /* FAILED: no attempt follows */
    bool unwanted; /* DONE: the user has ended them */
};

static void say(const struct cmd_run_meet *m, const char *what, const char *why)
{
    AUTO(free) char *text = xasprintf("%s: %s%s\n", m->opts->who, why, what);
    m->needs.say(m->needs.arg, text);
}

/* Whether what the host says means something now; what does not, is logged and dropped. */
static bool is_due(const struct cmd_run_meet *m, enum state s, const char *what)
{
    if (m->state != s)
        log_warn("rendezvous: '%s' means nothing now and is dropped", what);
    return m->state == s;
}

static void on_place(void *arg, const struct rdzv_place *p)
{
    struct cmd_run_meet *m = arg;
    if (!is_due(m, WAITS, "place"))
        return;
    struct launch_spec *s = &m->opts->spec;
    free(m->master_addr);
    m->master_addr = xstrdup(p->master_addr);
    s->share =
        (struct launch_share){p->nodes, p->node, m->master_addr, p->first_rank, p->world_size};
    s->master_port = p->master_port;
    m->state = RUNS;
    m->needs.start(m->needs.arg);
}

static void on_stop(void *arg, bool failure, const char *why)
{
    struct cmd_run_meet *m = arg;
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
        cmd_run_meet_join(m);
    }
}

static void on_over(void *arg)
{
    struct cmd_run_meet *m = arg;
    if (!is_due(m, DONE, "over"))
        return;
    m->state = GONE;
    m->needs.over(m->needs.arg, true);
}

static void on_failed(void *arg, const struct err *e)
{
    struct cmd_run_meet *m = arg;
    bool runs = m->state == RUNS;
    bool ends = m->state == STOPPING; /* then that is how it ends */
    m->state = GONE;
    err_print(e, m->opts->who);
    if (runs)
        m->needs.stop(m->needs.arg);
    else if (!ends)
        m->needs.over(m->needs.arg, false);
}

bool cmd_run_meet_stopped(const struct cmd_run_meet *m)
{
    return m && (m->state == STOPPING || m->state == GONE);
}

enum cmd_run_meet_next cmd_run_meet_ended(struct cmd_run_meet *m, const char *failed, bool unwanted)
{
    if (m->state == STOPPING) {
        m->state = WAITS;
    } else if (m->state == RUNS) {
        m->state = failed ? FAILED : DONE;
        m->unwanted = unwanted;
        m->leaving = false;
        rdzv_ended(m->rdzv, !failed, failed ? failed : "");
        return failed ? CMD_RUN_MEET_FAILED : CMD_RUN_MEET_WAIT;
    }
    if (m->state == GONE || (unwanted && !m->failure))
        return CMD_RUN_MEET_ALONE;
    return m->failure ? CMD_RUN_MEET_FAILED : CMD_RUN_MEET_JOIN;
}

void cmd_run_meet_join(struct cmd_run_meet *m)
{
    struct err e = {0};
    m->state = WAITS;
    if (rdzv_join(m->rdzv, &e) < 0)
        on_failed(m, &e);
}

bool cmd_run_meet_leave(struct cmd_run_meet *m)
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

int cmd_run_meet_open(struct cmd_run_meet **out, uv_loop_t *loop, struct cmd_run_opts *o,
                      const struct topo *t, const struct cmd_run_meet_needs *needs, struct err *e)
{
    static const struct rdzv_events events = {on_place, on_stop, on_over, on_failed};
    AUTO(cmd_run_meet) struct cmd_run_meet *m = xzalloc(sizeof *m);
    m->opts = o;
    m->needs = *needs;
    m->want = *o->rdzv;
    m->want.name = topo_name(t);
    int rc = count_ranks(&m->want.ranks, &o->spec, t, e);
    if (rc == 0)
        rc = rdzv_open(&m->rdzv, loop, &m->want, &events, m, e);
    if (rc < 0)
        return rc;
    *out = TAKE(m);
    return 0;
}

void cmd_run_meet_close(struct cmd_run_meet *m)
{
    if (!m)
        return;
    rdzv_close(m->rdzv);
    free(m->master_addr);
    free(m);
}
