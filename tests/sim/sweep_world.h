/* sweep_world - the world around the scheduler: a virtual clock, links that carry messages, and
 * workers that run pretended trials. For test_sweep_sim.c alone. */
#ifndef DROVER_SWEEP_WORLD_H
#define DROVER_SWEEP_WORLD_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/json.h"
#include "common/rng.h"
#include "hpo/search/sched.h"
#include "hpo/search/spec.h"
#include "tests/unit/test.h"

enum { TRIALS_MAX = 32, JOBS_MAX = 64, UNSAID_MAX = 512 };

enum fault { /* a test's set of them */
             FAULT_COORDINATOR = 1,
             FAULT_WORKER = 2,
             FAULT_LINK = 4,
             FAULT_WILD =
                 8, /* messages late, twice, out of order, of old connections; false LOSTs */
             FAULT_DRAIN = 16,
};

enum kind { HELLO, REPORT, DONE, LOST, DRAIN, RUN, STOP, ACK, WORK, GREET, FAULT };

struct msg {
    int64_t at;
    enum kind kind;
    int worker, conn, epoch; /* epoch: of the coordinator, for its own timers */
    int64_t lease, seq;
    int trial;
    json_t *data;
};

struct job {
    int64_t lease;
    int trial, sent;
    bool stopping, finished;
};

struct worker {
    char id[16];
    bool alive;
    int places, conn, known_conn; /* known_conn: the coordinator's view; -1: none */
    int64_t seq, last_at[2];      /* of what was sent to the coordinator, and from it */
    struct job jobs[JOBS_MAX];
    int job_count;
    struct msg unsaid[UNSAID_MAX]; /* not acknowledged yet */
    int unsaid_count;
};

struct audit { /* what records and actions say, without asking the scheduler */
    int created, ended[TRIALS_MAX], held_by_lease[TRIALS_MAX]; /* 0: not out */
    char *params[TRIALS_MAX];
    int64_t leases, runs;
    int held[64]; /* by worker */
};

static struct sim {
    int seed;
    unsigned faults;
    struct rng rng;
    struct spec *spec;
    struct sched *sched, *shadow;
    struct sched_out out;
    struct sched_record *records;
    size_t record_count, record_cap;
    struct msg *queue;
    size_t queue_count, queue_cap;
    struct worker *workers;
    int worker_count, faults_left, epoch, steps, ends;
    bool drained;
    int64_t now;
    struct audit audit;
} m;

__attribute__((format(printf, 1, 2), noreturn)) static void bad(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "# seed %d, step %d, time %lld: ", m.seed, m.steps, (long long)m.now);
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, "; SIM_SEED=%d runs it again\n", m.seed);
    va_end(ap);
    exit(1);
}

static int below(int n)
{
    return (int)rng_below(&m.rng, (uint64_t)n);
}

/* ---- messages ----------------------------------------------------------------------------------
 */

static void push(struct msg x)
{
    if (m.queue_count == m.queue_cap) {
        m.queue_cap = m.queue_cap ? 2 * m.queue_cap : 64;
        m.queue = xrealloc(m.queue, m.queue_cap, sizeof *m.queue);
    }
    x.data = json_incref(x.data);
    m.queue[m.queue_count++] = x;
}

static void timer(enum kind kind, int worker, int64_t lease, int64_t delay)
{
    push((struct msg){
        .at = m.now + delay, .kind = kind, .worker = worker, .lease = lease, .epoch = m.epoch});
}

/* Over the link: in order, but for wild runs. */
static void send(struct msg x, int direction)
{
    struct worker *w = &m.workers[x.worker];
    x.conn = direction == 0 ? w->conn : w->known_conn;
    x.at = m.now + 1 + below(5);
    if (m.faults & FAULT_WILD) {
        x.at += below(10) == 0 ? below(3000) : 0;
        if (m.faults_left > 0 && below(10) == 0) {
            struct msg again = x;
            again.at += below(500);
            push(again);
        }
    } else {
        x.at = x.at > w->last_at[direction] ? x.at : w->last_at[direction];
        w->last_at[direction] = x.at;
    }
    push(x);
}

/* Of equal times the one that was sent first. There must be one. */
static size_t first_msg(void)
{
    size_t first = 0;
    for (size_t i = 1; i < m.queue_count; i++)
        if (m.queue[i].at < m.queue[first].at)
            first = i;
    return first;
}

static int64_t next_at(void)
{
    return m.queue_count ? m.queue[first_msg()].at : INT64_MAX;
}

static struct msg next_msg(void)
{
    size_t first = first_msg();
    struct msg x = m.queue[first];
    memmove(m.queue + first, m.queue + first + 1, (--m.queue_count - first) * sizeof x);
    return x;
}

/* ---- workers -----------------------------------------------------------------------------------
 */

/* What a trial does: a function of the trial alone. */
static int planned_reports(int trial)
{
    return (trial * 7 + m.seed) % 6;
}

static double value_at(int trial, int step)
{
    return (trial * 37 + m.seed) % 11 + 4.0 / (step + 1);
}

static void start_worker(void)
{
    if (m.worker_count >= (int)COUNT_OF(m.audit.held))
        bad("more workers than expected");
    m.workers = xrealloc(m.workers, (size_t)m.worker_count + 1, sizeof *m.workers);
    struct worker *w = &m.workers[m.worker_count];
    *w = (struct worker){.alive = true, .places = 1 + below(3), .known_conn = -1};
    snprintf(w->id, sizeof w->id, "w%d", m.worker_count);
    timer(GREET, m.worker_count++, 0, 1 + below(50));
}

/* A report or an end: kept until it is acknowledged. Takes over `data`. */
static void say(int worker, enum kind kind, const struct job *j, json_t *data)
{
    struct worker *w = &m.workers[worker];
    struct msg x = {.kind = kind,
                    .worker = worker,
                    .lease = j->lease,
                    .trial = j->trial,
                    .seq = ++w->seq,
                    .data = data};
    if (w->unsaid_count == UNSAID_MAX)
        bad("too many messages without an answer");
    w->unsaid[w->unsaid_count++] = x;
    send(x, 0);
}

static struct job *job_of(struct worker *w, int64_t lease)
{
    for (int i = 0; i < w->job_count; i++)
        if (w->jobs[i].lease == lease)
            return &w->jobs[i];
    return NULL;
}

/* A new connection: hello, then all that was not acknowledged. */
static void greet(int worker)
{
    struct worker *w = &m.workers[worker];
    if (!w->alive)
        return;
    w->conn++;
    AUTO(json) json_t *running = json_array();
    for (int i = 0; i < w->job_count; i++)
        json_array_append_new(running, json_integer(w->jobs[i].lease));
    AUTO(json)
    json_t *data =
        json_pack("{s:i, s:s, s:O}", "places", w->places, "node", "n", "running", running);
    send((struct msg){.kind = HELLO, .worker = worker, .data = data}, 0);
    for (int i = 0; i < w->unsaid_count; i++)
        send(w->unsaid[i], 0);
}

static void finish(int worker, struct job *j)
{
    j->finished = true;
    int how = (j->trial * 5 + m.seed) % 8; /* 0: fails, 1: runs out of memory, others succeed */
    bool preempted = !j->stopping && m.faults && below(12) == 0;
    int status = j->stopping ? 0 : how <= 1;
    say(worker, DONE, j,
        json_pack("{s:i, s:i, s:b, s:f, s:b, s:b}", "status", status, "signal",
                  j->stopping ? 15 : 0, "oom", !j->stopping && how == 1, "seconds", 1.5,
                  "preempted", preempted, "stopped", j->stopping));
}

static void work(const struct msg *x)
{
    struct job *j = job_of(&m.workers[x->worker], x->lease);
    if (!m.workers[x->worker].alive || !j || j->finished)
        return;
    if (j->stopping || j->sent == planned_reports(j->trial)) {
        finish(x->worker, j);
        return;
    }
    say(x->worker, REPORT, j,
        json_pack("{s:i, s:f}", "step", j->sent, "loss", value_at(j->trial, j->sent)));
    j->sent++;
    timer(WORK, x->worker, x->lease, 1 + below(200));
}

static void acknowledged(struct worker *w, int64_t seq)
{
    for (int i = 0; i < w->unsaid_count; i++) {
        if (w->unsaid[i].seq != seq)
            continue;
        struct job *j = w->unsaid[i].kind == DONE ? job_of(w, w->unsaid[i].lease) : NULL;
        if (j)
            *j = w->jobs[--w->job_count];
        json_decref(w->unsaid[i].data);
        memmove(w->unsaid + i, w->unsaid + i + 1,
                (size_t)(--w->unsaid_count - i) * sizeof *w->unsaid);
        return;
    }
}

/* How many reports a trial has behind it when it starts: all that are known, fewer, or none. */
static int checkpoint_of(int trial)
{
    AUTO(json) json_t *t = sched_trial_json(m.sched, trial);
    return below((int)json_integer_value(json_object_get(t, "steps")) + 1);
}

static void to_worker(const struct msg *x)
{
    struct worker *w = &m.workers[x->worker];
    if (!w->alive || (x->conn != w->conn && !(m.faults & FAULT_WILD)))
        return;
    struct job *j = job_of(w, x->lease);
    if (x->kind == ACK) {
        acknowledged(w, x->seq);
    } else if (x->kind == STOP && j && !j->finished) {
        j->stopping = true;
        timer(WORK, x->worker, x->lease, 1 + below(20));
    } else if (x->kind == RUN && !j) {
        if (w->job_count == JOBS_MAX)
            bad("a worker holds too many jobs");
        w->jobs[w->job_count++] =
            (struct job){.lease = x->lease, .trial = x->trial, .sent = checkpoint_of(x->trial)};
        timer(WORK, x->worker, x->lease, 1 + below(100));
    }
}

static void kill_worker(int worker)
{
    struct worker *w = &m.workers[worker];
    w->alive = false;
    for (int i = 0; i < w->unsaid_count; i++)
        json_decref(w->unsaid[i].data);
    w->unsaid_count = w->job_count = 0;
}

#endif
