#include "launcher/job/collective_mismatch.h"

#include <inttypes.h>
#include <string.h>

#include "common/mem.h"
#include "common/plural.h"
#include "launcher/job/rank_list.h"

enum { ODD_SHOWN_MAX = 16 };

/* Returns the call in which the rank waits or has failed, or NULL if there is none. */
static const struct collective_mismatch_call *first_unfinished_call(
    const struct collective_position *a)
{
    for (int i = 0; i < a->count && (a->waits_ms || a->failed); i++)
        if (!a->calls[i].done)
            return &a->calls[i];
    return NULL;
}

static const struct collective_mismatch_call *find_call(const struct collective_position *a,
                                                        uint64_t nth)
{
    for (int i = 0; i < a->count; i++)
        if (a->calls[i].nth == nth)
            return &a->calls[i];
    return NULL;
}

/* Returns the number of the collective in which the rank is, or of its next collective. */
static uint64_t next_number(const struct collective_position *a)
{
    uint64_t last = 0;
    for (int i = 0; i < a->count; i++) {
        if (a->calls[i].nth && !a->calls[i].done)
            return a->calls[i].nth;
        last = a->calls[i].nth ? a->calls[i].nth : last;
    }
    return last + 1;
}

void collective_mismatch_describe(struct strbuf *b, const struct collective_position *a)
{
    const struct collective_mismatch_call *c = first_unfinished_call(a);
    if (!c)
        return;
    if (c->nth)
        strbuf_printf(b, "call %" PRIu64 " of '%s', ", c->nth, a->comm);
    strbuf_printf(b, "%s", c->what);
}

/* One communicator and one of its calls. */
struct comm_view {
    const struct collective_mismatch_rank *ranks;
    int n;
    const char *comm;
    int size;
    uint64_t k;           /* the number of the compared call */
    const char *majority; /* the call that most ranks made; NULL: no rank made call k */
    int made_by;          /* number of ranks that made it */
};

static bool uses_comm(const struct comm_view *view, int i)
{
    return strcmp(view->ranks[i].position->comm, view->comm) == 0;
}

/* Returns true if rank i belongs to the communicator. If the communicator is as large as the job,
 * every rank belongs to it. */
static bool belongs(const struct comm_view *view, int i)
{
    return uses_comm(view, i) || view->size == view->n;
}

/* Returns the k-th call of the rank, or NULL. */
static const char *call_of_rank(const struct comm_view *view, int i)
{
    const struct collective_mismatch_call *c =
        uses_comm(view, i) ? find_call(view->ranks[i].position, view->k) : NULL;
    return c ? c->what : NULL;
}

/* Returns the most frequent form of call k among the ranks that made it. */
static const char *majority_call(const struct comm_view *view)
{
    const char *majority = NULL;
    int best = 0;
    for (int i = 0; i < view->n; i++) {
        const char *what = call_of_rank(view, i);
        int same = 0;
        for (int j = 0; what && j < view->n; j++) {
            const char *other = call_of_rank(view, j);
            same += other && strcmp(what, other) == 0;
        }
        if (same > best) {
            best = same;
            majority = what;
        }
    }
    return majority;
}

/* Selects call k for the comparison. Returns true if ranks made different calls. */
static bool compare_call(struct comm_view *view, uint64_t k)
{
    bool same = true;
    view->k = k;
    view->majority = NULL;
    view->made_by = 0;
    for (int i = 0; i < view->n; i++) {
        const char *what = call_of_rank(view, i);
        view->made_by += what != NULL;
        if (what && !view->majority)
            view->majority = what;
        same = same && (!what || strcmp(what, view->majority) == 0);
    }
    if (!same)
        view->majority = majority_call(view);
    return !same;
}

static bool is_odd(const struct comm_view *view, int i)
{
    const char *what = call_of_rank(view, i);
    if (!belongs(view, i) || !view->majority)
        return false;
    if (uses_comm(view, i) && !what && next_number(view->ranks[i].position) != view->k)
        return false; /* the rank is ahead and has already made the call, or it is behind */
    return !what || strcmp(what, view->majority) != 0;
}

/* Selects the first call that not all ranks have completed. If no rank is missing from this call or
 * differs in it, selects the first later call in which ranks differ. Ranks that are behind have not
 * reached such a call yet. */
static void choose_call(struct comm_view *view)
{
    uint64_t first = UINT64_MAX;
    bool odd = false;
    for (int i = 0; i < view->n; i++)
        if (uses_comm(view, i) && next_number(view->ranks[i].position) < first)
            first = next_number(view->ranks[i].position);
    (void)compare_call(view, first);
    for (int i = 0; i < view->n; i++)
        odd = odd || is_odd(view, i);
    for (uint64_t i = 1; !odd && i < COLLECTIVE_MISMATCH_CALLS; i++)
        odd = compare_call(view, first + i);
    if (!odd)
        (void)compare_call(view, first);
}

static void write_majority(struct strbuf *b, const struct comm_view *view)
{
    int64_t longest = 0;
    AUTO(free) bool *in = xcalloc((size_t)view->n, sizeof *in);
    for (int i = 0; i < view->n; i++) {
        const char *what = call_of_rank(view, i);
        in[i] = what && strcmp(what, view->majority) == 0;
        if (in[i] && view->ranks[i].position->waits_ms > longest)
            longest = view->ranks[i].position->waits_ms;
    }
    strbuf_puts(b, "    ");
    rank_list_write(b, in, view->n, view->ranks[0].rank);
    strbuf_printf(b, ": %s", view->majority);
    if (longest)
        strbuf_printf(b, ", for %.1f s", (double)longest / 1000);
    strbuf_putc(b, '\n');
}

static void write_odd(struct strbuf *b, const struct comm_view *view, int i)
{
    const struct collective_mismatch_rank *r = &view->ranks[i];
    const struct collective_position *a = r->position;
    const char *what = call_of_rank(view, i);
    strbuf_printf(b, "    rank %d on node %s: ", r->rank, r->node);
    if (what) {
        strbuf_printf(b, "%s%s   <- different call\n", what, a->failed ? " (failed)" : "");
        return;
    }
    AUTO(strbuf) struct strbuf where = {0};
    collective_mismatch_describe(&where, a);
    const struct collective_mismatch_call *last = a->count ? &a->calls[a->count - 1] : NULL;
    strbuf_puts(b, r->exited ? "has exited without making it" : "has not made it");
    if (where.len)
        strbuf_printf(b, ", but is in %s", strbuf_str(&where));
    else if (last)
        strbuf_printf(b, "; its last call was %s%s%s, done %.1f s ago", last->what,
                      uses_comm(view, i) ? "" : " of ", uses_comm(view, i) ? "" : a->comm,
                      (double)last->ms / 1000);
    else
        strbuf_puts(b, "; it has made no call yet");
    strbuf_puts(b, "   <- missing\n");
}

/* Names the ranks that have exited with status 0 while other ranks wait for them. */
static void write_exited(struct strbuf *b, const struct comm_view *view)
{
    AUTO(free) bool *exited = xcalloc((size_t)view->n, sizeof *exited);
    AUTO(free) bool *waiting = xcalloc((size_t)view->n, sizeof *waiting);
    bool any = false;
    for (int i = 0; i < view->n; i++) {
        const char *what = call_of_rank(view, i);
        exited[i] = view->ranks[i].exited && !what && is_odd(view, i);
        waiting[i] = !view->ranks[i].exited && what && strcmp(what, view->majority) == 0;
        any = any || exited[i];
    }
    if (!any)
        return;
    strbuf_puts(b, "    ");
    rank_list_write(b, exited, view->n, view->ranks[0].rank);
    strbuf_puts(b, " exited with status 0 while ");
    rank_list_write(b, waiting, view->n, view->ranks[0].rank);
    strbuf_printf(b, " wait in %.*s\n", (int)strcspn(view->majority, " "), view->majority);
}

static bool is_reported(const struct collective_position *a)
{
    return a->comm[0] && (a->waits_ms > 0 || a->failed);
}

static bool is_repeated(const struct collective_mismatch_rank *ranks, int i)
{
    for (int k = 0; k < i; k++)
        if (is_reported(ranks[k].position) &&
            strcmp(ranks[k].position->comm, ranks[i].position->comm) == 0)
            return true;
    return false;
}

int collective_mismatch_write(struct strbuf *b, bool *odd,
                              const struct collective_mismatch_rank *ranks, int n)
{
    int comms = 0;
    for (int i = 0; i < n; i++) {
        const struct collective_position *a = ranks[i].position;
        if (!is_reported(a) || is_repeated(ranks, i))
            continue;
        struct comm_view view = {.ranks = ranks, .n = n, .comm = a->comm, .size = a->size};
        choose_call(&view);
        strbuf_printf(b, "  collectives of '%s', %d rank%s, call %" PRIu64 ": made by %d\n",
                      view.comm, view.size, plural_s(view.size), view.k, view.made_by);
        comms++;
        if (!view.majority)
            continue;
        write_exited(b, &view);
        write_majority(b, &view);
        int shown = 0;
        for (int k = 0; k < n; k++) {
            if (!is_odd(&view, k))
                continue;
            odd[k] = true;
            if (shown++ < ODD_SHOWN_MAX)
                write_odd(b, &view, k);
        }
        if (shown > ODD_SHOWN_MAX)
            strbuf_printf(b, "    and %d more that are missing or differ\n", shown - ODD_SHOWN_MAX);
    }
    return comms;
}
