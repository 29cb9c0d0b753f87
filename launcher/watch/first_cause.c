#include "launcher/watch/first_cause.h"

#include <signal.h>
#include <string.h>

#include "common/mem.h"
#include "launcher/job/rank_list.h"

enum {
    LISTEN_MS = 1000,
    LISTEN_RANKS_MAX = 64 /* of thousands, a few are searched while others still run */
};

static bool ended_by_itself(const struct job_witness *w)
{
    return w->end && !w->end->told_to_stop;
}

static bool has_failed(const struct job_witness *w)
{
    return ended_by_itself(w) && job_rank_status(w->end) != 0;
}

static bool has_left(const struct job_witness *w)
{
    return ended_by_itself(w) && job_rank_status(w->end) == 0;
}

/* Finds the cause of one rank. */
static void hear(struct first_cause *out, int rank, const struct job_witness *w)
{
    static const struct rank_end runs = {0};
    *out = (struct first_cause){.rank = rank};
    out->written = w->error ? failure_cause_error_file(w->error) : NULL;
    if (w->end && w->end->lost) { /* its lines do not tell why its node is lost */
        out->cause.remedy = FAILURE_ELSEWHERE;
        return;
    }
    out->known = failure_cause_find(&out->cause, ended_by_itself(w) ? w->end : &runs, w->lines,
                                    out->written);
}

/* Returns true if the end of a rank shows by itself that the rank failed first-hand. */
static bool tells_by_its_end(const struct rank_end *end)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGKILL, SIGXCPU, SIGXFSZ};
    bool tells = end->lost || end->start_status || end->oom_killed || end->mpi_fault;
    for (size_t i = 0; i < COUNT_OF(signals); i++) /* or of a process that a shell started */
        tells |= job_rank_status(end) == 128 + signals[i];
    return tells;
}

enum { SILENT = 1, FIRST_HAND }; /* weights: of a failure without a word, and at least */

/* Returns how well the failure of a rank explains those of others; 0: not at all. A known cause
 * explains more than an unknown exception, which may have followed from a failure, too. A rank that
 * has not ended may have survived what its lines say, unless an exception or an error of a library
 * says it. */
static int weight(const struct first_cause *c, const struct job_witness *w)
{
    bool failed = has_failed(w), tells = failed && tells_by_its_end(w->end);
    if (has_left(w) || (c->known && c->cause.second_hand && !tells))
        return 0;
    if (!tells && (!c->known || (!failed && c->cause.trust >= FAILURE_LINE)))
        return failed ? SILENT : 0;
    return FIRST_HAND + failed + 2 * (tells || c->cause.advice);
}

static bool is_earlier(const struct job_witness *a, const struct job_witness *b)
{
    return has_failed(a) && has_failed(b) && a->end->seconds < b->end->seconds;
}

/* Replaces `*best` by the best explanation among the other ranks, of weight `least` or more. With
 * `ended`, only ranks that have failed by themselves count. Returns its weight, or 0 if there is
 * none. */
static int search(struct first_cause *best, int first, const struct job_witness *ranks, int count,
                  bool ended, int least)
{
    int found = least - 1, searched = 0;
    for (int i = 0; i < count && searched < (ended ? LISTEN_RANKS_MAX : count); i++) {
        if (i == first || (ended && !has_failed(&ranks[i])))
            continue;
        struct first_cause c;
        hear(&c, i, &ranks[i]);
        searched++;
        int w = weight(&c, &ranks[i]);
        if (w > found || (w >= least && w == found && is_earlier(&ranks[i], &ranks[best->rank]))) {
            first_cause_clear(best);
            *best = c;
            best->silent = w < FIRST_HAND;
            found = w;
        } else {
            first_cause_clear(&c);
        }
    }
    return found < least ? 0 : found;
}

static void find_left(struct first_cause *out, const struct job_witness *ranks, int count)
{
    out->left = xcalloc((size_t)count, sizeof *out->left);
    bool any = false;
    for (int i = 0; i < count; i++)
        any |= out->left[i] = has_left(&ranks[i]);
    if (!any)
        free(TAKE(out->left));
}

static bool follows(const struct first_cause *c, const struct job_witness *w)
{
    return c->known && c->cause.second_hand && !tells_by_its_end(w->end);
}

void first_cause_find(struct first_cause *out, int first, const struct job_witness *ranks,
                      int count)
{
    *out = (struct first_cause){.rank = -1};
    if (first < 0)
        return;
    hear(out, first, &ranks[first]);
    if (!follows(out, &ranks[first]) || search(out, first, ranks, count, false, FIRST_HAND))
        return;
    find_left(out, ranks, count);
    if (!out->left)
        (void)search(out, first, ranks, count, false, SILENT);
}

void first_cause_clear(struct first_cause *c)
{
    free(c->written);
    free(c->left);
    *c = (struct first_cause){.rank = -1};
}

int first_cause_listen_ms(int first, const struct job_witness *ranks, int count)
{
    struct first_cause c;
    hear(&c, first, &ranks[first]);
    bool listen =
        follows(&c, &ranks[first]) && search(&c, first, ranks, count, true, FIRST_HAND) == 0;
    first_cause_clear(&c);
    return listen ? LISTEN_MS : 0;
}

void first_cause_write(struct strbuf *b, const struct first_cause *c, int count, int first_rank)
{
    int n = 0;
    for (int i = 0; c->left && i < count; i++)
        n += c->left[i];
    if (c->left) {
        rank_list_write(b, c->left, count, first_rank);
        strbuf_printf(b, " had exited with status 0, and this rank still needed %s",
                      n == 1 ? "it" : "them");
    } else if (c->known) {
        strbuf_puts(b, c->cause.what);
    }
}

/* Addresses, ports and times differ from attempt to attempt. */
char *first_cause_signature(const struct first_cause *c)
{
    AUTO(strbuf) struct strbuf b = {0};
    if (c->left)
        return xstrdup("ranks have left");
    if (!c->known || c->cause.second_hand)
        return NULL;
    for (const char *p = c->cause.what; *p; p++) {
        bool hex = p[0] == '0' && p[1] == 'x';
        size_t number = hex ? 2 + strspn(p + 2, "0123456789abcdefABCDEF") : strspn(p, "0123456789");
        strbuf_putc(&b, number ? '#' : *p);
        p += number ? number - 1 : 0;
    }
    return strbuf_take(&b);
}
