#include "launcher/hang/hang_culprit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/engine/process_wait_kind.h"
#include "launcher/job/rank_list.h"

struct facts {
    const struct hang_rank *ranks;
    int count, first_rank;
    enum process_wait_kind *kinds; /* by rank */
    int running;
    bool *in;             /* the culprits */
    struct strbuf *claim; /* what the sentence says of them */
};

/* A rule marks the culprits and writes the claim; false: it finds none. */
struct rule {
    const char *class;
    bool (*find)(struct facts *f, const struct rule *r);
    int what; /* of waits_in(): a kind of wait; of nccl_says(): its answer */
    const char *one, *several, *text; /* of these two: the claim */
};

static bool runs(const struct facts *f, int rank)
{
    return !f->ranks[rank].ended;
}

static void unmark(struct facts *f)
{
    for (int i = 0; i < f->count; i++)
        f->in[i] = false;
}

/* Ends a rule that has marked ranks. A rule that marks all running ranks has found no difference,
 * unless `all_too`. Unmarks them then. */
static bool has_culprits(struct facts *f, bool all_too)
{
    int marked = 0;
    for (int i = 0; i < f->count; i++)
        marked += f->in[i];
    if (marked > 0 && (all_too || marked < f->count))
        return true;
    unmark(f);
    return false;
}

static int culprits(const struct facts *f)
{
    int n = 0;
    for (int i = 0; i < f->count; i++)
        n += f->in[i];
    return n;
}

/* Appends the verb that fits the number of culprits. */
static void write_verb(struct facts *f, const char *of_one, const char *of_several)
{
    strbuf_puts(f->claim, culprits(f) == 1 ? of_one : of_several);
}

static int first_culprit(const struct facts *f)
{
    for (int i = 0; i < f->count; i++)
        if (f->in[i])
            return i;
    return -1;
}

static const struct process_wait *wait_of(const struct facts *f)
{
    return &f->ranks[first_culprit(f)].status->at;
}

/* Returns the collective in which most of the other ranks are, or NULL. */
static const char *awaited(const struct facts *f)
{
    const char *best = NULL;
    int most = 0;
    for (int i = 0; i < f->count; i++) {
        int n = 0;
        if (f->in[i] || !runs(f, i) || !f->ranks[i].collective[0])
            continue;
        for (int k = 0; k < f->count; k++)
            n += !f->in[k] && strcmp(f->ranks[k].collective, f->ranks[i].collective) == 0;
        if (n > most) {
            most = n;
            best = f->ranks[i].collective;
        }
    }
    return best;
}

static void write_target(const struct facts *f, const char *before)
{
    const char *target = wait_of(f)->target;
    if (target[0])
        strbuf_printf(f->claim, "%s%s", before, target);
}

/* ---- what a rank waits for alone ------------------------------------------------------------ */

static bool is_stopped(struct facts *f, const struct rule *r)
{
    for (int i = 0; i < f->count; i++)
        f->in[i] = runs(f, i) &&
                   (f->kinds[i] == PROCESS_WAIT_STOPPED || f->ranks[i].status->child.state == 'T');
    if (!has_culprits(f, true))
        return false;
    strbuf_printf(f->claim, "%s stopped (SIGSTOP or SIGTSTP)", culprits(f) > 1 ? "are" : "is");
    return true;
}

static bool has_lost_gpu(struct facts *f, const struct rule *r)
{
    for (int i = 0; i < f->count; i++)
        f->in[i] = runs(f, i) && f->ranks[i].gpu_lost;
    if (!has_culprits(f, true))
        return false;
    strbuf_puts(f->claim, "lost the GPU: the driver does not reach it any more");
    return true;
}

/* The traceback is the last thing that the rank has written, and the process has not ended. */
static bool has_failed(struct facts *f, const struct rule *r)
{
    const char *error = "";
    for (int i = 0; i < f->count; i++) {
        f->in[i] = runs(f, i) && f->ranks[i].lines.traceback != HANG_TRACEBACK_NONE;
        error = f->in[i] && !error[0] ? f->ranks[i].lines.error : error;
    }
    if (!has_culprits(f, true))
        return false;
    strbuf_printf(f->claim, "failed with a traceback%s%s, and the process has not ended",
                  error[0] ? ": " : "", error);
    return true;
}

static bool waits_for_full_disk(struct facts *f, const struct rule *r)
{
    for (int i = 0; i < f->count; i++)
        f->in[i] = runs(f, i) && f->ranks[i].lines.disk_full;
    if (!has_culprits(f, true))
        return false;
    strbuf_puts(f->claim, "found no space on a disk, and waits since then");
    return true;
}

static bool waits_for_file_lock(struct facts *f, const struct rule *r)
{
    const struct rank_status *waiter = NULL;
    AUTO(free) bool *waiting = xcalloc((size_t)f->count, sizeof *waiting);
    for (int i = 0; i < f->count; i++) {
        const struct rank_status *s = f->ranks[i].status;
        waiting[i] = runs(f, i) && (f->kinds[i] == PROCESS_WAIT_FILE_LOCK ||
                                    process_wait_kind(&s->child) == PROCESS_WAIT_FILE_LOCK);
        waiter = waiting[i] && (!waiter || s->holder_root) ? s : waiter;
    }
    if (!waiter)
        return false;
    const struct process_wait *w =
        process_wait_kind(&waiter->at) == PROCESS_WAIT_FILE_LOCK ? &waiter->at : &waiter->child;
    for (int i = 0; i < f->count; i++)
        for (int k = 0; k < f->count; k++) {
            const struct rank_status *s = f->ranks[k].status;
            f->in[i] |= waiting[k] && s->holder_root > 0 &&
                        s->holder_root == f->ranks[i].status->root &&
                        strcmp(f->ranks[i].node, f->ranks[k].node) == 0;
        }
    const char *file = w->target[0] ? w->target : "a file";
    if (culprits(f) > 0) {
        strbuf_printf(f->claim, "%s the lock of %s, for which ", culprits(f) > 1 ? "hold" : "holds",
                      file);
        rank_list_write(f->claim, waiting, f->count, f->first_rank);
        strbuf_puts(f->claim, waiter->holder_root ? " waits" : " wait");
        return true;
    }
    memcpy(f->in, waiting, (size_t)f->count * sizeof *waiting);
    strbuf_printf(f->claim, "%s for the lock of %s, which ", culprits(f) > 1 ? "wait" : "waits",
                  file);
    if (waiter->holder > 0)
        strbuf_printf(f->claim, "process %d holds", (int)waiter->holder);
    else
        strbuf_puts(f->claim, "another process holds");
    return true;
}

static bool waits_for_disk(struct facts *f, const struct rule *r)
{
    for (int i = 0; i < f->count; i++)
        f->in[i] =
            runs(f, i) && f->ranks[i].idle &&
            (f->kinds[i] == PROCESS_WAIT_DISK || strstr(f->ranks[i].status->at.wchan, "nfs_") ||
             strcmp(f->ranks[i].status->at.wchan, "request_wait_answer") == 0);
    if (!has_culprits(f, true))
        return false;
    write_verb(f, "waits", "wait");
    strbuf_puts(f->claim, " for a file system that does not answer");
    write_target(f, ": ");
    return true;
}

static bool waits_in(struct facts *f, const struct rule *r)
{
    for (int i = 0; i < f->count; i++)
        f->in[i] = runs(f, i) && (int)f->kinds[i] == r->what && !f->ranks[i].status->at_rendezvous;
    if (!has_culprits(f, true))
        return false;
    write_verb(f, r->one, r->several);
    strbuf_puts(f->claim, r->text);
    write_target(f, ": ");
    return true;
}

static bool nccl_says(struct facts *f, const struct rule *r)
{
    for (int i = 0; i < f->count; i++)
        f->in[i] = (int)f->ranks[i].ras == r->what;
    if (!has_culprits(f, true))
        return false;
    write_verb(f, r->one, r->several);
    strbuf_puts(f->claim, r->text);
    return true;
}

static bool waits_for_child(struct facts *f, const struct rule *r)
{
    for (int i = 0; i < f->count; i++) {
        const struct rank_status *s = f->ranks[i].status;
        f->in[i] = runs(f, i) && (f->kinds[i] == PROCESS_WAIT_CHILD || s->parent[0]);
    }
    if (!has_culprits(f, true))
        return false;
    const struct rank_status *s = f->ranks[first_culprit(f)].status;
    write_verb(f, "waits", "wait");
    if (s->parent[0])
        strbuf_printf(f->claim, " for the child process %d (%s)", (int)s->at.pid, s->at.name);
    else
        strbuf_puts(f->claim, " for child processes");
    return true;
}

/* A worker that waits for a lock counts only if its rank does not wait for one. */
static bool has_waiting_worker(struct facts *f, const struct rule *r)
{
    bool lock = r->what == PROCESS_WAIT_FUTEX;
    for (int i = 0; i < f->count; i++)
        f->in[i] = runs(f, i) && (int)process_wait_kind(&f->ranks[i].status->child) >= r->what &&
                   (!lock || f->kinds[i] != PROCESS_WAIT_FUTEX);
    if (!has_culprits(f, !lock))
        return false;
    const struct process_wait *w = &f->ranks[first_culprit(f)].status->child;
    write_verb(f, "waits", "wait");
    strbuf_printf(f->claim, " for data of the process %d (%s), which waits ", (int)w->pid, w->name);
    process_wait_describe(f->claim, w);
    return true;
}

/* ---- differences between ranks -------------------------------------------------------------- */

static bool has_ended(struct facts *f, const struct rule *r)
{
    for (int i = 0; i < f->count; i++)
        f->in[i] = f->ranks[i].ended;
    if (f->running * 2 < f->count || !has_culprits(f, false))
        return false;
    write_verb(f, "has", "have");
    strbuf_puts(f->claim, " ended with status 0 while the other ranks wait");
    return true;
}

/* Most ranks are done, and those that are left make another call. */
static bool has_fewer_steps(struct facts *f, const struct rule *r)
{
    for (int i = 0; i < f->count; i++)
        f->in[i] = f->ranks[i].ended;
    if (!has_culprits(f, false))
        return false;
    strbuf_puts(f->claim,
                "ended with status 0, and the other ranks still wait for them: these have "
                "more steps or batches");
    return true;
}

/* Marks those that make another call than most of the ranks whose call is known; both of two. */
static bool makes_other_call(struct facts *f, const struct rule *r)
{
    int known = 0, most = 0, best = -1;
    for (int i = 0; i < f->count; i++) {
        int n = 0;
        if (!runs(f, i) || !f->ranks[i].collective[0])
            continue;
        known++;
        for (int k = 0; k < f->count; k++)
            n += strcmp(f->ranks[k].collective, f->ranks[i].collective) == 0;
        if (n > most) {
            most = n;
            best = i;
        }
    }
    if (known < 2 || most == known)
        return false;
    bool majority = most * 2 > known;
    for (int i = 0; i < f->count; i++)
        f->in[i] = runs(f, i) && f->ranks[i].collective[0] &&
                   (!majority || strcmp(f->ranks[i].collective, f->ranks[best].collective) != 0);
    int one = first_culprit(f);
    strbuf_printf(f->claim, "%s %s", culprits(f) > 1 ? "are in different calls:" : "is in",
                  f->ranks[one].collective);
    if (majority) {
        strbuf_printf(f->claim, " while most ranks are in %s", f->ranks[best].collective);
        return true;
    }
    for (int i = one + 1; i < f->count; i++)
        if (f->in[i])
            strbuf_printf(f->claim, " and %s", f->ranks[i].collective);
    return true;
}

static bool traced_call_differs(struct facts *f, const struct rule *r)
{
    int different = 0;
    const struct collective_position *best = NULL;
    for (int i = 0; i < f->count; i++) {
        const struct collective_position *at = &f->ranks[i].status->collective;
        f->in[i] = runs(f, i) && f->ranks[i].odd && at->waits_ms > 0;
        different += f->in[i];
        best = at->waits_ms > 0 && !f->ranks[i].odd ? at : best;
    }
    if (different == 0)
        return false;
    write_verb(f, "makes", "make");
    strbuf_puts(f->claim, " another call than the other ranks: ");
    collective_mismatch_describe(f->claim, &f->ranks[first_culprit(f)].status->collective);
    if (best) {
        strbuf_puts(f->claim, "; they make ");
        collective_mismatch_describe(f->claim, best);
    }
    return true;
}

static bool has_not_started(struct facts *f, const struct rule *r)
{
    static const char *const starts[] = {
        "MPI_Init", "MPI_Init_thread",  "init_process_group",    "new_group",
        "store",    "ncclCommInitRank", "ncclCommInitRankConfig"};
    int waiting = 0;
    for (int i = 0; i < f->count; i++) {
        const struct collective_position *at = &f->ranks[i].status->collective;
        bool waits = f->ranks[i].status->at_rendezvous ||
                     (at->count > 0 && at->waits_ms > 0 &&
                      strcmp(at->calls[at->count - 1].what, "MPI_Init") == 0);
        for (size_t k = 0; k < COUNT_OF(starts); k++)
            waits |= strcmp(f->ranks[i].collective, starts[k]) == 0;
        waiting += runs(f, i) && waits;
        f->in[i] = runs(f, i) && !waits;
    }
    if (waiting == 0 || !has_culprits(f, false))
        return false;
    strbuf_puts(f->claim, "did not come to the start of the job (MPI_Init, init_process_group or a "
                          "new group), where the other ranks wait");
    return true;
}

static void write_not_reached(struct facts *f)
{
    const char *call = awaited(f);
    const struct collective_position *at = NULL;
    for (int i = 0; i < f->count && !at; i++)
        if (!f->in[i] && runs(f, i) && f->ranks[i].status->collective.waits_ms > 0)
            at = &f->ranks[i].status->collective;
    strbuf_puts(f->claim, "did not reach ");
    if (at)
        collective_mismatch_describe(f->claim, at);
    else if (call)
        strbuf_puts(f->claim, call);
    else
        strbuf_puts(f->claim, "the point where the other ranks wait");
}

static bool is_missing(struct facts *f, const struct rule *r)
{
    for (int i = 0; i < f->count; i++)
        f->in[i] = f->ranks[i].odd;
    if (!has_culprits(f, false))
        return false;
    write_not_reached(f);
    return true;
}

static bool sleeps(struct facts *f, const struct rule *r)
{
    for (int i = 0; i < f->count; i++)
        f->in[i] = runs(f, i) && f->kinds[i] == PROCESS_WAIT_SLEEP;
    if (!has_culprits(f, false))
        return false;
    write_not_reached(f);
    return true;
}

/* The stacks of the other ranks are in a collective, and its stack is not. */
static bool is_outside_of_collective(struct facts *f, bool futex, bool running)
{
    int inside = 0;
    for (int i = 0; i < f->count; i++) {
        const struct hang_rank *r = &f->ranks[i];
        inside += r->collective[0] != '\0';
        f->in[i] = runs(f, i) && r->has_stack && !r->collective[0] &&
                   (f->kinds[i] == PROCESS_WAIT_FUTEX) == futex &&
                   (f->kinds[i] == PROCESS_WAIT_RUNS) == running;
    }
    return inside > 0 && has_culprits(f, false);
}

/* Ranks in a futex, among ranks that spin or wait for events. */
static bool waits_for_lock(struct facts *f, const struct rule *r)
{
    int others = 0;
    bool found = is_outside_of_collective(f, true, false);
    if (!found) {
        for (int i = 0; i < f->count; i++) {
            f->in[i] = runs(f, i) && f->ranks[i].idle && f->kinds[i] == PROCESS_WAIT_FUTEX;
            others += runs(f, i) && !f->in[i];
        }
        found = others >= culprits(f) && has_culprits(f, false);
    }
    if (!found)
        return false;
    write_verb(f, "waits", "wait");
    strbuf_puts(f->claim, " for a lock or a thread of the same process");
    return true;
}

/* The others are idle or wait on their GPU, and it uses its CPU. */
static bool loops(struct facts *f, const struct rule *r)
{
    for (int i = 0; i < f->count; i++)
        f->in[i] = runs(f, i) && !f->ranks[i].idle && !f->ranks[i].gpu_spins &&
                   f->kinds[i] == PROCESS_WAIT_RUNS && f->ranks[i].has_stack &&
                   !f->ranks[i].collective[0];
    if (!has_culprits(f, false))
        return false;
    write_verb(f, "uses", "use");
    strbuf_puts(f->claim, " the CPU and nothing else: an endless loop, or a long "
                          "computation without output");
    return true;
}

static bool is_elsewhere(struct facts *f, const struct rule *r)
{
    int idle = 0;
    if (is_outside_of_collective(f, false, false)) {
        write_not_reached(f);
        return true;
    }
    for (int i = 0; i < f->count; i++)
        idle += f->in[i] = runs(f, i) && f->ranks[i].idle && !f->ranks[i].gpu_spins;
    if (idle * 2 > f->running || !has_culprits(f, false)) {
        unmark(f);
        return false;
    }
    write_not_reached(f);
    return true;
}

static bool is_cycle(struct facts *f, const struct rule *r)
{
    static const char *const receives[] = {
        "MPI_Recv", "MPI_Sendrecv", "MPI_Ssend", "MPI_Send", "MPI_Wait",    "MPI_Waitall",
        "recv",     "send",         "ncclRecv",  "ncclSend", "drover_recv", "drover_send"};
    int n = 0;
    for (int i = 0; i < f->count; i++)
        for (size_t k = 0; k < COUNT_OF(receives); k++)
            n += runs(f, i) && strcmp(f->ranks[i].collective, receives[k]) == 0;
    unmark(f);
    if (n < 2 || n < f->running)
        return false;
    strbuf_puts(f->claim, "all ranks wait for a message of each other");
    return true;
}

static bool is_network(struct facts *f, const struct rule *r)
{
    int spinning = 0;
    unmark(f);
    for (int i = 0; i < f->count; i++)
        spinning += runs(f, i) && f->ranks[i].gpu_spins;
    if (spinning == 0 || spinning < f->running)
        return false;
    strbuf_puts(f->claim, "all GPUs wait in a collective, and no rank differs: the network between "
                          "them may have failed");
    return true;
}

static bool is_unknown(struct facts *f, const struct rule *r)
{
    strbuf_puts(f->claim, "all ranks wait, and nothing tells one from the others");
    return true;
}

static const struct rule rules[] = {
    {.class = "stopped", .find = is_stopped},
    {.class = "GPU", .find = has_lost_gpu},
    {.class = "file lock", .find = waits_for_file_lock},
    {.class = "failed, not ended", .find = has_failed},
    {.class = "disk", .find = waits_for_full_disk},
    {.class = "file system", .find = waits_for_disk},
    {.class = "different call", .find = traced_call_differs},
    {"network", waits_in, PROCESS_WAIT_CONNECT, "gets", "get", " no connection"},
    {"output", waits_in, PROCESS_WAIT_OUTPUT, "waits", "wait", " until the output is read"},
    {"input", waits_in, PROCESS_WAIT_INPUT, "waits", "wait", " for input"},
    {"remote", waits_in, PROCESS_WAIT_REMOTE, "waits", "wait",
     " for data from another machine or service"},
    {.class = "child", .find = waits_for_child},
    {.class = "data", .find = has_waiting_worker, .what = PROCESS_WAIT_REMOTE},
    {"gone", nccl_says, RAS_GONE, "does", "do", " not answer NCCL any more"},
    {.class = "gone", .find = has_ended},
    {.class = "uneven data", .find = has_fewer_steps},
    {"uneven data", nccl_says, RAS_LEFT, "has", "have",
     " finished a communicator while the other ranks still use it"},
    {.class = "start", .find = has_not_started},
    {.class = "missing", .find = is_missing},
    {"different call", nccl_says, RAS_OTHER_CALL, "makes", "make",
     " another collective than the other ranks, as NCCL counts them"},
    {.class = "different call", .find = makes_other_call},
    {.class = "missing", .find = sleeps},
    {"missing", nccl_says, RAS_BEHIND, "is", "are",
     " behind the other ranks in NCCL's collectives"},
    {.class = "data", .find = has_waiting_worker, .what = PROCESS_WAIT_FUTEX},
    {.class = "loop", .find = loops},
    {.class = "lock", .find = waits_for_lock},
    {.class = "missing", .find = is_elsewhere},
    {.class = "cycle", .find = is_cycle},
    {.class = "network", .find = is_network},
    {.class = "unknown", .find = is_unknown},
};

/* ---- the sentence --------------------------------------------------------------------------- */

/* "; it has waited in read of FIFO /x for 312 s (train.py:212)"; what is waited for is told once */
static void write_evidence(struct strbuf *b, const struct hang_rank *r)
{
    const struct process_wait *w = &r->status->at;
    if (r->ended || w->pid == 0)
        return;
    if (w->state == 'R')
        strbuf_printf(b, "; it has %s", r->collective[0] ? "polled there" : "run");
    else if (w->state == 'T')
        strbuf_puts(b, "; it has stood still");
    else {
        struct process_wait told = *w;
        if (told.target[0] && strstr(strbuf_str(b), told.target))
            told.target[0] = '\0';
        strbuf_puts(b, "; it has waited ");
        process_wait_describe(b, &told);
    }
    strbuf_printf(b, " for %.0f s", (double)r->still_ms / 1000);
    if (r->place[0])
        strbuf_printf(b, " (%s)", r->place);
}

void hang_culprit_find(struct hang_culprit *out, const struct hang_rank *ranks, int count,
                       int first_rank)
{
    AUTO(strbuf) struct strbuf claim = {0};
    AUTO(free) enum process_wait_kind *kinds = xcalloc((size_t)count, sizeof *kinds);
    struct facts f = {.ranks = ranks,
                      .count = count,
                      .first_rank = first_rank,
                      .kinds = kinds,
                      .in = out->culprits,
                      .claim = &claim};
    for (int i = 0; i < count; i++) {
        kinds[i] = process_wait_kind(&ranks[i].status->at);
        f.running += !ranks[i].ended;
    }
    for (size_t i = 0; i < COUNT_OF(rules); i++)
        if (rules[i].find(&f, &rules[i])) {
            out->class = rules[i].class;
            break;
        }
    int n = culprits(&f), one = first_culprit(&f);
    if (n > 0) {
        rank_list_write(&out->sentence, f.in, count, first_rank);
        strbuf_printf(&out->sentence, "%s%s ", n == 1 ? " on " : "", n == 1 ? ranks[one].node : "");
    }
    strbuf_puts(&out->sentence, strbuf_str(&claim));
    if (n == 1)
        write_evidence(&out->sentence, &ranks[one]);
}
