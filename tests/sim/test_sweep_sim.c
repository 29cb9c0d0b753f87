/* test_sweep_sim - the scheduler among virtual workers, with a virtual clock and seeded faults.
 *
 * Workers keep to the rules of sched.h: they say again what was not acknowledged after each hello.
 * An auditor that knows only records and actions checks every step; a second scheduler is fed by
 * the records alone and has to agree with the first. A seed that fails is printed;
 * SIM_SEED=N runs that one in every test. */
#include "common/json.h"
#include "common/yaml.h"
#include "tests/sim/sweep_world.h"

enum { SEEDS = 300, STEPS_MAX = 20000 };

/* ---- the auditor -------------------------------------------------------------------------------
 */

static int index_of(const char *id)
{
    return atoi(id + 1);
}

static void audit_lease(const struct sched_record *r)
{
    struct audit *a = &m.audit;
    int w = index_of(json_string_value(json_object_get(r->data, "worker")));
    if (r->lease != ++a->leases)
        bad("lease %lld is given out of order", (long long)r->lease);
    if (a->held_by_lease[r->trial] || a->ended[r->trial])
        bad("trial %d is leased while it runs, or after its end", r->trial);
    a->held_by_lease[r->trial] = w + 1;
    if (++a->held[w] > m.workers[w].places)
        bad("worker %d holds %d trials on %d places", w, a->held[w], m.workers[w].places);
    int out = 0;
    for (int i = 0; i < m.worker_count; i++)
        out += a->held[i];
    if (m.spec->parallel && out > m.spec->parallel)
        bad("%d trials run at once, not %d", out, m.spec->parallel);
}

static int pauses; /* of all seeds */

static void audit_record(const struct sched_record *r)
{
    struct audit *a = &m.audit;
    if (r->trial < 0 || r->trial >= TRIALS_MAX || r->at_ms != m.now)
        bad("a record of trial %d at %lld", r->trial, (long long)r->at_ms);
    int *holder = &a->held_by_lease[r->trial];
    if (r->kind == SCHED_REC_CREATED) {
        AUTO(free) char *params = json_line(json_object_get(r->data, "params"));
        if (r->trial != a->created++)
            bad("trial %d is created out of order", r->trial);
        for (int i = 0; i < r->trial; i++)
            if (strcmp(a->params[i], params) == 0)
                bad("trials %d and %d are the same", i, r->trial);
        a->params[r->trial] = xstrdup(params);
    } else if (r->kind == SCHED_REC_LEASED) {
        audit_lease(r);
    } else if (r->kind == SCHED_REC_REQUEUED || r->kind == SCHED_REC_ENDED ||
               r->kind == SCHED_REC_PAUSED) {
        if (a->ended[r->trial] || (r->kind != SCHED_REC_ENDED && !*holder))
            bad("trial %d ends twice, or goes back without having been out", r->trial);
        pauses += r->kind == SCHED_REC_PAUSED;
        a->ended[r->trial] = r->kind == SCHED_REC_ENDED;
        if (*holder)
            a->held[*holder - 1]--;
        *holder = 0;
    } else if (a->ended[r->trial]) {
        bad("a record of trial %d after its end", r->trial);
    }
}

static void compare(const struct sched *x, const struct sched *y, const char *what)
{
    AUTO(json) json_t *a = sched_dump(x), *b = sched_dump(y);
    if (json_equal(a, b))
        return;
    AUTO(free) char *ta = json_line(a), *tb = json_line(b);
    bad("%s differs:\n%s\n%s", what, ta, tb);
}

/* ---- the coordinator ---------------------------------------------------------------------------
 */

static void commit(void)
{
    for (size_t i = 0; i < m.out.record_count; i++) {
        struct err e = {0};
        if (m.record_count == m.record_cap) {
            m.record_cap = m.record_cap ? 2 * m.record_cap : 64;
            m.records = xrealloc(m.records, m.record_cap, sizeof *m.records);
        }
        struct sched_record *r = &m.records[m.record_count++];
        *r = m.out.records[i];
        json_incref(r->data);
        audit_record(r);
        if (sched_replay(m.shadow, r, &e) < 0)
            bad("%s", e.text);
    }
}

static void act(void)
{
    for (size_t i = 0; i < m.out.action_count; i++) {
        const struct sched_action *a = &m.out.actions[i];
        if (a->kind == SCHED_ACT_END) {
            m.ends++;
            m.drained = strcmp(a->why, "drained") == 0;
            continue;
        }
        if (a->kind == SCHED_ACT_RUN && (a->lease <= m.audit.runs || a->lease > m.audit.leases))
            bad("lease %lld is run twice, or was not given", (long long)a->lease);
        if (a->kind == SCHED_ACT_RUN)
            m.audit.runs = a->lease;
        send((struct msg){.kind = a->kind == SCHED_ACT_RUN ? RUN : STOP,
                          .worker = index_of(a->worker),
                          .lease = a->lease,
                          .trial = a->trial},
             1);
    }
}

/* The coordinator is gone and comes back: what is in the store is all that there is. */
static void crash(void)
{
    sched_free(m.sched);
    m.sched = NULL;
    if (sched_new(&m.sched, m.spec, NULL) < 0)
        bad("no scheduler");
    for (size_t i = 0; i < m.record_count; i++)
        if (sched_replay(m.sched, &m.records[i], NULL) < 0)
            bad("record %zu is not taken back", i);
    compare(m.sched, m.shadow, "after a crash, what was replayed");
    sched_replayed(m.sched, m.now);
    m.epoch++;
    for (int i = 0; i < m.worker_count; i++) {
        m.workers[i].known_conn = -1;
        timer(GREET, i, 0, 1 + below(below(4) ? 2000 : 200000));
    }
}

/* Gives the scheduler an event; false: the coordinator died over it. */
static bool step(enum sched_event_kind kind, const struct msg *x)
{
    struct sched_event ev = {.kind = kind};
    struct err e = {0};
    if (x) {
        ev.worker = m.workers[x->worker].id;
        ev.lease = x->lease;
        ev.data = x->data;
    }
    if (++m.steps > STEPS_MAX)
        bad("the sweep does not end");
    if (sched_step(m.sched, &ev, m.now, &m.out, &e) < 0)
        bad("%s", e.text);
    bool dies = (m.faults & FAULT_COORDINATOR) && m.faults_left > 0 && below(25) == 0;
    bool before_commit = dies && below(2);
    if (!before_commit)
        commit();
    if (!dies) {
        act();
        if (m.steps % 16 == 0)
            compare(m.sched, m.shadow, "what the records alone give");
        return true;
    }
    m.faults_left--;
    crash();
    return false;
}

static void to_coordinator(const struct msg *x)
{
    static const enum sched_event_kind kinds[] = {
        [HELLO] = SCHED_EV_HELLO, [REPORT] = SCHED_EV_REPORT, [DONE] = SCHED_EV_DONE};
    struct worker *w = &m.workers[x->worker];
    if (x->kind == HELLO)
        w->known_conn = x->conn;
    if (x->kind == HELLO && !w->alive) /* it will be silent */
        timer(LOST, x->worker, 0, m.spec->lost_after_ms);
    if (x->kind != HELLO && x->conn != w->known_conn && !(m.faults & FAULT_WILD))
        return;
    if (step(kinds[x->kind], x) && x->kind != HELLO)
        send((struct msg){.kind = ACK, .worker = x->worker, .lease = x->lease, .seq = x->seq}, 1);
}

static void lose(const struct msg *x)
{
    if (x->epoch != m.epoch)
        return;
    m.workers[x->worker].known_conn = -1;
    step(SCHED_EV_LOST, x);
}

/* ---- faults ------------------------------------------------------------------------------------
 */

static void fault(void)
{
    if (m.faults_left <= 0)
        return;
    m.faults_left--;
    int w = below(m.worker_count);
    int64_t lost_after = m.spec->lost_after_ms;
    unsigned which = 1u << below(5);
    if (!m.workers[w].alive) {
        which = 0; /* nothing more happens to it */
    } else if (which & m.faults & FAULT_WORKER) {
        kill_worker(w);
        timer(LOST, w, 0, below(2) ? 1 : lost_after);
        start_worker();
    } else if (which & m.faults & FAULT_LINK) {
        int64_t away = below(3) ? below(1000) : lost_after + below(100000);
        m.workers[w].conn++;
        timer(GREET, w, 0, away);
        if (away >= lost_after)
            timer(LOST, w, 0, lost_after);
    } else if (which & m.faults & FAULT_WILD) {
        if (below(2))
            timer(LOST, w, 0, below(500));
        timer(GREET, w, 0, 1 + below(2000));
    } else if (which & m.faults & FAULT_DRAIN) {
        timer(DRAIN, w, 0, 1);
    }
    timer(FAULT, 0, 0, 1 + below(400));
}

/* Wild messages may leave a worker and the coordinator apart: they meet again at the next hello. */
static void calm(void)
{
    if (m.faults_left <= 0 && (m.faults & FAULT_WILD))
        for (int i = 0; i < m.worker_count; i++)
            timer(GREET, i, 0, 1 + below(1000));
}

/* ---- a run -------------------------------------------------------------------------------------
 */

static void make_spec(void)
{
    static const char *const stops[] = {
        "",
        "",
        "early_terminate: {type: median, min_trials: 2}\n",
        "early_terminate: {type: hyperband, min_iter: 2, eta: 2}\n",
        "early_terminate: {type: asha, eta: 2}\n",
        "early_terminate: {type: curve, keep: 0.4}\n",
        "early_terminate: {type: curve, min_iter: 1, max_iter: 6, keep: 0.6}\n"};
    int trials = 2 + below(10);
    struct err e = {0};
    AUTO(free)
    char *method =
        below(2) ? xasprintf("method: grid\nparameters: {x: {min: 1, max: %d}}\n", trials)
                 : xasprintf("method: random\nrun_cap: %d\nparameters: {x: {min: 1, max: %d}, y: "
                             "{min: 0, max: 1}}\n",
                             trials, trials);
    AUTO(free) char *parallel = below(3) ? xstrdup("") : xasprintf(", parallel: %d", 1 + below(3));
    AUTO(free)
    char *yaml =
        xasprintf("%sprogram: t\nmetric: {name: loss%s}\n%s"
                  "drover: {seed: %d, retries: %d, retry_failed: %s, give_up_after: %d%s%s}\n",
                  method, below(6) ? "" : ", target: 2.5", stops[below((int)COUNT_OF(stops))],
                  m.seed, below(4), below(2) ? "true" : "false", below(4) ? 0 : 3,
                  below(3) ? "" : ", timeout: 0.4", parallel);
    AUTO(yaml_doc) struct yaml_doc *d = NULL;
    if (yaml_read(&d, yaml, strlen(yaml), "sim", &e) < 0 || spec_read(&m.spec, d, &e) < 0)
        bad("%s\n%s", e.text, yaml);
}

/* All that was wanted has ended, or there is a reason. */
static void check_end(void)
{
    struct sched_counts c = sched_counts(m.sched);
    int ended = c.done + c.pruned + c.failed + c.oom + c.invalid + c.cancelled;
    bool cut = m.spec->metrics[0].has_target || m.spec->give_up_after;
    compare(m.sched, m.shadow, "at the end, what the records alone give");
    if (c.waiting + c.running + c.stopping + c.paused > 0 || ended != sched_trial_count(m.sched))
        bad("the sweep is over, but trials have not ended");
    if (!cut && ended != c.total_wanted)
        bad("%d trials ended, %d were wanted", ended, c.total_wanted);
    for (int i = 0; i < ended; i++) {
        AUTO(json) json_t *t = sched_trial_json(m.sched, i);
        const char *state = json_string_value(json_object_get(t, "state"));
        int steps = (int)json_integer_value(json_object_get(t, "steps"));
        if (!m.audit.ended[i])
            bad("trial %d has no record of its end", i);
        if (strcmp(state, "done") == 0 && !(m.faults & FAULT_WILD) && steps != planned_reports(i))
            bad("trial %d is done with %d reports of %d", i, steps, planned_reports(i));
    }
}

static void clean_up(void)
{
    for (size_t i = 0; i < m.record_count; i++)
        json_decref(m.records[i].data);
    for (size_t i = 0; i < m.queue_count; i++)
        json_decref(m.queue[i].data);
    for (int i = 0; i < m.worker_count; i++)
        kill_worker(i);
    for (int i = 0; i < TRIALS_MAX; i++)
        free(m.audit.params[i]);
    sched_free(m.sched);
    sched_free(m.shadow);
    sched_out_free(&m.out);
    spec_free(m.spec);
    free(m.records);
    free(m.queue);
    free(m.workers);
}

static void handle(struct msg *x)
{
    switch (x->kind) {
    case HELLO:
    case REPORT:
    case DONE:
        to_coordinator(x);
        break;
    case LOST:
        lose(x);
        break;
    case DRAIN:
        step(SCHED_EV_DRAIN, NULL);
        break;
    case RUN:
    case STOP:
    case ACK:
        to_worker(x);
        break;
    case WORK:
        work(x);
        break;
    case GREET:
        greet(x->worker);
        break;
    case FAULT:
        fault();
        calm();
        break;
    }
}

static void run_seed(int seed, unsigned faults)
{
    memset(&m, 0, sizeof m);
    m.seed = seed;
    m.faults = faults;
    rng_seed(&m.rng, (uint64_t)seed, faults);
    m.faults_left = faults ? below(12) : 0;
    make_spec();
    if (sched_new(&m.sched, m.spec, NULL) < 0 || sched_new(&m.shadow, m.spec, NULL) < 0)
        bad("no scheduler");
    for (int i = 1 + below(3); i > 0; i--)
        start_worker();
    timer(FAULT, 0, 0, below(500));
    while (!m.ends) {
        int64_t due = sched_deadline(m.sched);
        if (m.queue_count == 0 && due == INT64_MAX)
            bad("nothing will happen any more");
        int64_t at = next_at();
        if (at > due) {
            m.now = due > m.now ? due : m.now;
            step(SCHED_EV_TICK, NULL);
        } else {
            m.now = at > m.now ? at : m.now;
            struct msg x = next_msg();
            handle(&x);
            json_decref(x.data);
        }
        if (m.ends && m.drained) { /* the user starts it again */
            m.ends = 0;
            crash();
        }
    }
    check_end();
    clean_up();
}

static void run_all(unsigned faults)
{
    const char *one = getenv("SIM_SEED");
    for (int seed = one ? atoi(one) : 0; seed < (one ? atoi(one) + 1 : SEEDS); seed++)
        run_seed(seed, faults);
    CHECK(one || pauses > SEEDS / 10);
}

TEST(without_faults_every_trial_ends_once)
{
    run_all(0);
}

TEST(a_coordinator_that_dies_at_any_point_goes_on_where_it_was)
{
    run_all(FAULT_COORDINATOR);
}

TEST(workers_that_die_lose_no_trial)
{
    run_all(FAULT_WORKER);
}

TEST(broken_links_lose_and_repeat_no_trial)
{
    run_all(FAULT_LINK);
}

TEST(late_repeated_and_reordered_messages_do_no_harm)
{
    run_all(FAULT_WILD);
}

TEST(a_drained_sweep_is_taken_up_again)
{
    run_all(FAULT_DRAIN | FAULT_COORDINATOR);
}

TEST(workers_links_and_the_coordinator_may_fail_together)
{
    run_all(FAULT_COORDINATOR | FAULT_WORKER | FAULT_LINK | FAULT_DRAIN);
}

TEST(all_of_it_at_once_still_ends)
{
    run_all(FAULT_COORDINATOR | FAULT_WORKER | FAULT_LINK | FAULT_WILD | FAULT_DRAIN);
}
