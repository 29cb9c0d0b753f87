/* sweep_world - the world around the scheduler: a virtual clock, links that carry messages, and
 * workers that simulate trials. For test_sweep_sim.c. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/json.h"
#include "common/rng.h"
#include "hpo/coordinator/message_dedup.h"
#include "hpo/scheduler/scheduler.h"
#include "hpo/spec/spec.h"
#include "tests/unit/kit_scheduler_dump.h"
#include "tests/unit/test.h"

enum { TRIALS_MAX = 4096, LEASES_MAX = 65536, NO_CONN = -2 };

enum fault { /* a bit set per test */
             FAULT_COORDINATOR = 1,
             FAULT_WORKER = 2,
             FAULT_LINK = 4,
             FAULT_WILD = 8, /* messages late, twice, out of order, or old; false LOSTs */
             FAULT_DRAIN = 16,
             FAULT_SLOTS = 32,   /* a foreign process takes a worker's GPUs, and releases them */
             FAULT_COMMAND = 64, /* the user stops, pauses, resumes, retries and adds */
             FAULT_NODE = 128,   /* nodes cannot start trials, and disks fill up; some recover */
};

enum kind {
    HELLO,
    HELD,
    DROP,
    TESTED,
    REPORT,
    DONE,
    LOST,
    DRAIN,
    RUN,
    HOLD,
    STOP,
    TEST,
    ACK,
    WHO,
    WORK,
    GREET,
    FAULT,
    RECOVER,
    ASK
};

struct msg {
    int64_t at, order; /* of messages at the same time the first sent comes first */
    enum kind kind;
    int worker, conn, epoch; /* epoch: of the coordinator, for its own timers */
    int64_t lease, seq;
    int trial;
    json_t *data;
};

struct job {
    int64_t lease, seq; /* of its last message */
    int trial, sent;
    bool hold; /* a reservation: nothing runs */
    bool begun, stopping, finished;
};

enum illness { /* of a node */
               WELL,
               CANNOT_START,
               CANNOT_START_BUT_PASSES, /* its self-test does not find the cause */
               DISK_FULL,               /* trials that run fail too */
};

struct sim_worker {
    char id[16];
    bool alive;
    int slots, conn;
    int known_slots, known_conn; /* the coordinator's view; -1: none */
    int64_t last_at[2];          /* of what was sent to the coordinator, and from it */
    struct job *jobs;
    int job_count;
    enum illness illness;
    bool was_ill;       /* since the coordinator's start by the user */
    struct msg *unsaid; /* not acknowledged yet */
    int unsaid_count;
};

struct stored { /* what the store has of a record */
    struct scheduler_record r;
    int64_t seq; /* the message that caused it */
};

struct audit { /* what follows from records and actions, without the scheduler */
    int created, out, ended[TRIALS_MAX], held_by_lease[TRIALS_MAX]; /* 0: not active */
    json_t *params;                                                 /* that are tried */
    int64_t leases;
    bool ran[LEASES_MAX];
    json_t *gang_workers[TRIALS_MAX]; /* while it is active */
    uint64_t digest;                  /* of all records */
    int *held;                        /* by worker */
    bool paused, stopped;
};

static struct sim {
    int seed;
    unsigned faults;
    bool large; /* 2,000 workers */
    int nodes;  /* that a trial needs */
    struct rng rng;
    struct spec *spec;
    struct scheduler *sched, *shadow;
    struct scheduler_out out;
    struct message_dedup taken;
    struct stored *records;
    size_t record_count, record_cap;
    struct msg *queue; /* a heap */
    size_t queue_count, queue_cap;
    int64_t order;
    struct sim_worker *workers;
    int worker_count, faults_left, epoch, steps, ends;
    bool drained, stopped, lacking; /* why it ended */
    int asks;
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

/* ---- messages ------------------------------------------------------------------------------- */

static bool before(const struct msg *a, const struct msg *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void swap(size_t i, size_t k)
{
    struct msg x = m.queue[i];
    m.queue[i] = m.queue[k];
    m.queue[k] = x;
}

static void rise(size_t i)
{
    for (; i > 0 && before(&m.queue[i], &m.queue[(i - 1) / 2]); i = (i - 1) / 2)
        swap(i, (i - 1) / 2);
}

static void sink(size_t i)
{
    for (size_t k; (k = 2 * i + 1) < m.queue_count; i = k) {
        if (k + 1 < m.queue_count && before(&m.queue[k + 1], &m.queue[k]))
            k++;
        if (!before(&m.queue[k], &m.queue[i]))
            return;
        swap(i, k);
    }
}

static void push(struct msg x)
{
    if (m.queue_count == m.queue_cap) {
        m.queue_cap = m.queue_cap ? 2 * m.queue_cap : 64;
        m.queue = xrealloc(m.queue, m.queue_cap, sizeof *m.queue);
    }
    json_incref(x.data);
    x.order = m.order++;
    m.queue[m.queue_count] = x;
    rise(m.queue_count++);
}

static int64_t next_at(void)
{
    return m.queue_count ? m.queue[0].at : INT64_MAX;
}

/* There must be one. */
static struct msg next_msg(void)
{
    struct msg x = m.queue[0];
    m.queue[0] = m.queue[--m.queue_count];
    sink(0);
    return x;
}

/* Breaks the connection. Messages on their way to the worker are lost. Some of the worker's own
 * were still queued, and are sent on the next connection, before its hello. */
static void tear(int worker)
{
    int64_t from = m.now + below(4), to = from + 1 + below(4);
    for (size_t i = 0; i < m.queue_count; i++) {
        struct msg *x = &m.queue[i];
        bool ours = x->worker == worker && x->kind >= HELLO && x->kind <= DONE;
        bool theirs = x->worker == worker && x->kind >= RUN && x->kind <= WHO;
        if (theirs || (ours && x->at >= from && x->at < to))
            x->conn = NO_CONN; /* it is not delivered */
    }
}

static void timer(enum kind kind, int worker, int64_t lease, int64_t delay)
{
    push((struct msg){
        .at = m.now + delay, .kind = kind, .worker = worker, .lease = lease, .epoch = m.epoch});
}

/* Sends over the link: in order, except with FAULT_WILD. */
static void send(struct msg x, int direction)
{
    struct sim_worker *w = &m.workers[x.worker];
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

/* ---- workers -------------------------------------------------------------------------------- */

/* The behaviour of a trial: a function of the trial alone. */
static int planned_reports(int trial)
{
    return m.large ? trial % 3 : (trial * 7 + m.seed) % 6;
}

static double value_at(int trial, int step)
{
    return (trial * 37 + m.seed) % 11 + 4.0 / (step + 1);
}

static void start_worker(void)
{
    m.workers = xrealloc(m.workers, (size_t)m.worker_count + 1, sizeof *m.workers);
    m.audit.held = xrealloc(m.audit.held, (size_t)m.worker_count + 1, sizeof(int));
    m.audit.held[m.worker_count] = 0;
    struct sim_worker *w = &m.workers[m.worker_count];
    *w = (struct sim_worker){.alive = true, .slots = 1 + below(3), .known_conn = -1};
    snprintf(w->id, sizeof w->id, "w%d", m.worker_count);
    timer(GREET, m.worker_count++, 0, 1 + below(50));
}

/* A report or an end: kept until it is acknowledged. Takes over `data`. */
static void say(int worker, enum kind kind, struct job *j, json_t *data)
{
    struct sim_worker *w = &m.workers[worker];
    struct msg x = {.kind = kind,
                    .worker = worker,
                    .lease = j->lease,
                    .trial = j->trial,
                    .seq = ++j->seq,
                    .data = data};
    w->unsaid = xrealloc(w->unsaid, (size_t)w->unsaid_count + 1, sizeof *w->unsaid);
    w->unsaid[w->unsaid_count++] = x;
    send(x, 0);
}

static struct job *job_of(struct sim_worker *w, int64_t lease)
{
    for (int i = 0; i < w->job_count; i++)
        if (w->jobs[i].lease == lease)
            return &w->jobs[i];
    return NULL;
}

static void say_held(int worker, int64_t lease)
{
    AUTO(json) json_t *data = json_pack("{s:i}", "cpus", worker);
    send((struct msg){.kind = HELD, .worker = worker, .lease = lease, .data = data}, 0);
}

/* Connects anew: hello, then every message that is not acknowledged. */
static void greet(int worker)
{
    struct sim_worker *w = &m.workers[worker];
    if (!w->alive)
        return;
    w->conn++;
    AUTO(json) json_t *running = json_array();
    for (int i = 0; i < w->job_count; i++)
        json_array_append_new(running, json_integer(w->jobs[i].lease));
    AUTO(json)
    json_t *data =
        json_pack("{s:i, s:s, s:O}", "slots", w->slots, "node", w->id, "running", running);
    send((struct msg){.kind = HELLO, .worker = worker, .data = data}, 0);
    for (int i = 0; i < w->unsaid_count; i++)
        send(w->unsaid[i], 0);
    for (int i = 0; i < w->job_count; i++)
        if (w->jobs[i].hold)
            say_held(worker, w->jobs[i].lease);
}

static void finish(int worker, struct job *j)
{
    j->finished = true;
    int how = (j->trial * 5 + m.seed) % 8; /* 0: fails, 1: runs out of memory, others succeed */
    bool preempted = !j->stopping && m.faults && below(12) == 0;
    int status = j->stopping ? 0 : how <= 1;
    say(worker, DONE, j,
        json_pack("{s:i, s:i, s:b, s:f, s:b, s:b}", "status", status, "signal",
                  j->stopping ? 15 : 0, "oom", !j->stopping && how == 1, "seconds", 0.01,
                  "preempted", preempted, "stopped", j->stopping));
}

/* Returns the node that is too ill to run the job now: 0 is its own, 1 … those of its gang. -1: all
 * are well enough. */
static int ill_node(int worker, const struct job *j)
{
    for (int i = 0;; i++) {
        const char *id =
            json_string_value(json_array_get(m.audit.gang_workers[j->trial], (size_t)(i - 1)));
        if (i > 0 && !id)
            return -1;
        enum illness illness = m.workers[i == 0 ? worker : atoi(id + 1)].illness;
        if (j->begun ? illness == DISK_FULL && below(2) : illness != WELL)
            return i;
    }
}

static const char ill_text[] = "disk full";
static int node_faults; /* of all seeds */

static void finish_by_node(int worker, struct job *j, int node)
{
    j->finished = true;
    node_faults++;
    say(worker, DONE, j,
        json_pack("{s:i, s:i, s:b, s:f, s:b, s:b, s:i, s:s}", "status", 1, "signal", 0, "oom", 0,
                  "seconds", 0.01, "stopped", 0, "not_started", !j->begun, "node_fault", node,
                  "error", ill_text));
}

static void work(const struct msg *x)
{
    struct job *j = job_of(&m.workers[x->worker], x->lease);
    if (!m.workers[x->worker].alive || !j || j->finished || j->hold)
        return;
    int ill = j->stopping ? -1 : ill_node(x->worker, j);
    if (ill >= 0) {
        finish_by_node(x->worker, j, ill);
        return;
    }
    j->begun = true;
    if (j->stopping || j->sent == planned_reports(j->trial)) {
        finish(x->worker, j);
        return;
    }
    say(x->worker, REPORT, j,
        json_pack("{s:i, s:f}", "step", j->sent, "loss", value_at(j->trial, j->sent)));
    j->sent++;
    timer(WORK, x->worker, x->lease, below(3) ? 0 : 1 + below(200)); /* in bursts */
}

/* All up to `seq` of a lease. Wild acks come out of order, and say no more than their own. */
static void acknowledged(struct sim_worker *w, int64_t lease, int64_t seq)
{
    int kept = 0;
    bool done = false;
    for (int i = 0; i < w->unsaid_count; i++) {
        struct msg x = w->unsaid[i];
        if (x.lease != lease || (m.faults & FAULT_WILD ? x.seq != seq : x.seq > seq)) {
            w->unsaid[kept++] = x;
            continue;
        }
        done = done || x.kind == DONE;
        json_decref(x.data);
    }
    w->unsaid_count = kept;
    struct job *j = done ? job_of(w, lease) : NULL;
    if (j)
        *j = w->jobs[--w->job_count];
}

/* The number of reports before the checkpoint from which a trial starts: all known ones, fewer, or
 * none. */
static int checkpoint_of(int trial)
{
    AUTO(json) json_t *t = scheduler_trial_json(m.sched, trial);
    return below((int)json_integer_value(json_object_get(t, "steps")) + 1);
}

static void to_worker(const struct msg *x)
{
    struct sim_worker *w = &m.workers[x->worker];
    if (!w->alive || (x->conn != w->conn && !(m.faults & FAULT_WILD)))
        return;
    struct job *j = job_of(w, x->lease);
    if (x->kind == ACK) {
        acknowledged(w, x->lease, x->seq);
    } else if (x->kind == WHO) {
        greet(x->worker);
    } else if (x->kind == TEST) {
        bool fails = w->illness == CANNOT_START || w->illness == DISK_FULL;
        AUTO(json) json_t *data = json_pack("{s:s*}", "why", fails ? ill_text : NULL);
        send((struct msg){.kind = TESTED, .worker = x->worker, .data = data}, 0);
    } else if (x->kind == STOP && j && j->hold) {
        *j = w->jobs[--w->job_count];
    } else if (x->kind == STOP && j && !j->finished) {
        j->stopping = true;
        timer(WORK, x->worker, x->lease, 1 + below(20));
    } else if ((x->kind == RUN || x->kind == HOLD) && !j) {
        bool hold = x->kind == HOLD;
        w->jobs = xrealloc(w->jobs, (size_t)w->job_count + 1, sizeof *w->jobs);
        w->jobs[w->job_count++] = (struct job){.lease = x->lease,
                                               .trial = x->trial,
                                               .hold = hold,
                                               .sent = hold ? 0 : checkpoint_of(x->trial)};
        if (hold)
            say_held(x->worker, x->lease);
        else
            timer(WORK, x->worker, x->lease, 1 + below(100));
    }
}

static void kill_worker(int worker)
{
    struct sim_worker *w = &m.workers[worker];
    w->alive = false;
    for (int i = 0; i < w->unsaid_count; i++)
        json_decref(w->unsaid[i].data);
    w->unsaid_count = w->job_count = 0;
    free(w->unsaid);
    free(w->jobs);
    w->unsaid = NULL;
    w->jobs = NULL;
}
