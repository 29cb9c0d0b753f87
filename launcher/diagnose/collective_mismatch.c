#include "launcher/diagnose/collective_mismatch.h"

#include <inttypes.h>
#include <string.h>

#include "common/mem.h"

enum { ODD_SHOWN_MAX = 16, RUNS_MAX = 16 };

static const struct collective_mismatch_call *last_of(const struct collective_position *a)
{
    return a->count ? &a->calls[a->count - 1] : NULL;
}

/* What it waits in, or has failed in; NULL: nothing. */
static const struct collective_mismatch_call *first_open(const struct collective_position *a)
{
    for (int i = 0; i < a->count && (a->waits_ms || a->failed); i++)
        if (!a->calls[i].done)
            return &a->calls[i];
    return NULL;
}

static const struct collective_mismatch_call *nth_of(const struct collective_position *a,
                                                     uint64_t nth)
{
    for (int i = 0; i < a->count; i++)
        if (a->calls[i].nth == nth)
            return &a->calls[i];
    return NULL;
}

/* The number of the collective that it is in, or that comes next. */
static uint64_t next_of(const struct collective_position *a)
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
    const struct collective_mismatch_call *c = first_open(a);
    if (!c)
        return;
    if (c->nth)
        strbuf_printf(b, "call %" PRIu64 " of '%s', ", c->nth, a->comm);
    strbuf_printf(b, "%s", c->what);
}

struct view { /* of one communicator */
    const struct collective_mismatch_rank *ranks;
    int n;
    const char *comm;
    int size;
    uint64_t k;       /* the call that is looked at */
    const char *most; /* what most of those that made it say it is; NULL: nobody did */
    int made;         /* by so many */
};

static bool is_in(const struct view *v, int i)
{
    return strcmp(v->ranks[i].position->comm, v->comm) == 0;
}

/* Of a communicator as large as the job every rank is one. */
static bool belongs(const struct view *v, int i)
{
    return is_in(v, i) || v->size == v->n;
}

/* What the rank calls the k-th, or NULL. */
static const char *its_call(const struct view *v, int i)
{
    const struct collective_mismatch_call *c =
        is_in(v, i) ? nth_of(v->ranks[i].position, v->k) : NULL;
    return c ? c->what : NULL;
}

/* What most of those that made call k say it is. */
static const char *most_of(const struct view *v)
{
    const char *most = NULL;
    int best = 0;
    for (int i = 0; i < v->n; i++) {
        const char *one = its_call(v, i);
        int same = 0;
        for (int j = 0; one && j < v->n; j++) {
            const char *other = its_call(v, j);
            same += other && strcmp(one, other) == 0;
        }
        if (same > best) {
            best = same;
            most = one;
        }
    }
    return most;
}

/* Looks at call k; whether it is not the same of all that made it. */
static bool differs(struct view *v, uint64_t k)
{
    bool same = true;
    v->k = k;
    v->most = NULL;
    v->made = 0;
    for (int i = 0; i < v->n; i++) {
        const char *one = its_call(v, i);
        v->made += one != NULL;
        if (one && !v->most)
            v->most = one;
        same = same && (!one || strcmp(one, v->most) == 0);
    }
    if (!same)
        v->most = most_of(v);
    return !same;
}

static bool is_odd(const struct view *v, int i)
{
    const char *one = its_call(v, i);
    if (!belongs(v, i) || !v->most)
        return false;
    if (is_in(v, i) && !one && next_of(v->ranks[i].position) != v->k)
        return false; /* it is far ahead, and has made the call, or behind */
    return !one || strcmp(one, v->most) != 0;
}

/* Looks at the first call that not all have done; or, where nobody is odd in that, at the first
 * after it that differs: who is behind has not come to it. */
static void look(struct view *v)
{
    uint64_t first = UINT64_MAX;
    bool odd = false;
    for (int i = 0; i < v->n; i++)
        if (is_in(v, i) && next_of(v->ranks[i].position) < first)
            first = next_of(v->ranks[i].position);
    (void)differs(v, first);
    for (int i = 0; i < v->n; i++)
        odd = odd || is_odd(v, i);
    for (uint64_t i = 1; !odd && i < COLLECTIVE_MISMATCH_CALLS; i++)
        odd = differs(v, first + i);
    if (!odd)
        (void)differs(v, first);
}

static void write_most(struct strbuf *b, const struct view *v)
{
    int named = 0, runs = 0, all = 0;
    int64_t longest = 0;
    AUTO(strbuf) struct strbuf list = {0};
    for (int i = 0; i < v->n; i++) {
        const char *one = its_call(v, i);
        if (!one || strcmp(one, v->most) != 0)
            continue;
        int end = i;
        while (end + 1 < v->n && its_call(v, end + 1) && strcmp(its_call(v, end + 1), one) == 0)
            end++;
        for (int j = i; j <= end; j++)
            longest =
                v->ranks[j].position->waits_ms > longest ? v->ranks[j].position->waits_ms : longest;
        all += end - i + 1;
        if (runs++ < RUNS_MAX) {
            strbuf_printf(&list, "%s%d", named ? ", " : "", v->ranks[i].rank);
            if (end > i)
                strbuf_printf(&list, "-%d", v->ranks[end].rank);
            named += end - i + 1;
        }
        i = end;
    }
    strbuf_printf(b, "    rank%s %s", all > 1 ? "s" : "", strbuf_str(&list));
    if (all > named)
        strbuf_printf(b, " and %d more", all - named);
    strbuf_printf(b, ": %s", v->most);
    if (longest)
        strbuf_printf(b, ", for %.1f s", (double)longest / 1000);
    strbuf_putc(b, '\n');
}

static void write_odd(struct strbuf *b, const struct view *v, int i)
{
    const struct collective_mismatch_rank *r = &v->ranks[i];
    const struct collective_position *a = r->position;
    const char *one = its_call(v, i);
    strbuf_printf(b, "    rank %d on node %s: ", r->rank, r->node);
    if (one) {
        strbuf_printf(b, "%s%s   <- another call\n", one, a->failed ? ", which has failed" : "");
        return;
    }
    AUTO(strbuf) struct strbuf where = {0};
    collective_mismatch_describe(&where, a);
    const struct collective_mismatch_call *last = last_of(a);
    strbuf_puts(b, r->exited ? "has ended without it" : "has not made it");
    if (where.len)
        strbuf_printf(b, ", but is in %s", strbuf_str(&where));
    else if (last)
        strbuf_printf(b, "; its last was %s%s%s, done %.1f s ago", last->what,
                      is_in(v, i) ? "" : " of ", is_in(v, i) ? "" : a->comm,
                      (double)last->ms / 1000);
    else
        strbuf_puts(b, "; it has made no call yet");
    strbuf_puts(b, "   <- missing\n");
}

static bool is_worth_a_look(const struct collective_position *a)
{
    return a->comm[0] && (a->waits_ms > 0 || a->failed);
}

static bool was_seen(const struct collective_mismatch_rank *ranks, int i)
{
    for (int k = 0; k < i; k++)
        if (is_worth_a_look(ranks[k].position) &&
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
        if (!is_worth_a_look(a) || was_seen(ranks, i))
            continue;
        struct view v = {.ranks = ranks, .n = n, .comm = a->comm, .size = a->size};
        look(&v);
        strbuf_printf(b, "  collectives of '%s', %d ranks, call %" PRIu64 ": made by %d\n", v.comm,
                      v.size, v.k, v.made);
        comms++;
        if (!v.most)
            continue;
        write_most(b, &v);
        int shown = 0;
        for (int k = 0; k < n; k++) {
            if (!is_odd(&v, k))
                continue;
            odd[k] = true;
            if (shown++ < ODD_SHOWN_MAX)
                write_odd(b, &v, k);
        }
        if (shown > ODD_SHOWN_MAX)
            strbuf_printf(b, "    and %d more that are missing or differ\n", shown - ODD_SHOWN_MAX);
    }
    return comms;
}
