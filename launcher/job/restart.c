#include "launcher/job/restart.h"

#include <string.h>

enum {
    PAUSE_FIRST_MS = 1000,
    PAUSE_MAX_MS = 30000,
    LONG_ATTEMPT_S = 300, /* a failure after this time is a new one: the pause starts again */
    FAILURES_MAX = 2,     /* a host is excluded after this many failures … */
    BY_HOST = 1000,       /* … or one that it caused, which counts as many more */
    FURTHER_S = 10        /* an attempt has got further if it took 1.5 times as long and this */
};

struct failures {
    char *host;
    int count;
    bool by_host; /* it was the cause of one */
};

struct restart {
    int max, count, pause_ms;
    bool always;
    enum restart_refusal refusal;
    char *cause, *host; /* of the attempt before; NULL: unknown */
    double seconds;
    struct failures *failures;
    size_t failures_count;
};

struct restart *restart_new(int restarts_max, bool always)
{
    struct restart *r = xzalloc(sizeof *r);
    r->max = restarts_max;
    r->always = always;
    return r;
}

void restart_free(struct restart *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->failures_count; i++)
        free(r->failures[i].host);
    free(r->failures);
    free(r->cause);
    free(r->host);
    free(r);
}

static struct failures *failures_of(const struct restart *r, const char *host)
{
    for (size_t i = 0; i < r->failures_count; i++)
        if (strcmp(r->failures[i].host, host) == 0)
            return &r->failures[i];
    return NULL;
}

static void count_failure(struct restart *r, const char *host, bool by_host)
{
    struct failures *f = failures_of(r, host);
    if (!f) {
        r->failures = xrealloc(r->failures, r->failures_count + 1, sizeof *r->failures);
        f = &r->failures[r->failures_count++];
        *f = (struct failures){.host = xstrdup(host)};
    }
    f->count++;
    f->by_host |= by_host;
}

static bool equal(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

/* Returns true if the attempt has failed as the one before, and has not got further. */
static bool is_same_again(const struct restart *r, const struct restart_attempt *end)
{
    return equal(r->cause, end->cause) && (!end->by_host || equal(r->host, end->host)) &&
           end->seconds < LONG_ATTEMPT_S && end->seconds <= r->seconds * 1.5 + FURTHER_S;
}

static void remember(struct restart *r, const struct restart_attempt *end)
{
    free(r->cause);
    free(r->host);
    r->cause = end->cause ? xstrdup(end->cause) : NULL;
    r->host = end->host ? xstrdup(end->host) : NULL;
    r->seconds = end->seconds;
}

int restart_after(struct restart *r, const struct restart_attempt *end)
{
    if (end->host && end->status)
        count_failure(r, end->host, end->by_host);
    r->refusal = RESTART_NOT_REFUSED;
    if (end->status == 0 || end->by_user || end->not_started || r->count >= r->max)
        return -1;
    if (!r->always)
        r->refusal = end->hopeless           ? RESTART_HOPELESS
                     : is_same_again(r, end) ? RESTART_SAME_AGAIN
                                             : RESTART_NOT_REFUSED;
    if (r->refusal)
        return -1;
    remember(r, end);
    bool first = r->count++ == 0 || end->seconds >= LONG_ATTEMPT_S;
    r->pause_ms = first && !end->hopeless     ? 0
                  : first || r->pause_ms == 0 ? PAUSE_FIRST_MS
                                              : r->pause_ms * 2;
    if (r->pause_ms > PAUSE_MAX_MS)
        r->pause_ms = PAUSE_MAX_MS;
    return r->pause_ms;
}

enum restart_refusal restart_refusal(const struct restart *r)
{
    return r->refusal;
}

int restart_count(const struct restart *r)
{
    return r->count;
}

bool restart_is_bad_host(const struct restart *r, const char *host)
{
    const struct failures *f = failures_of(r, host);
    return f && f->count >= FAILURES_MAX;
}

static int slots_of(const struct host *h, int per_node)
{
    return per_node > 0 ? per_node : h->slots > 0 ? h->slots : 1;
}

/* Returns the host that is excluded next: the one with the most failures, if they are
 * enough; -1 if there is none. */
static int worst(const struct restart *r, const struct hosts *all, const bool *excluded)
{
    int found = -1, most = FAILURES_MAX - 1;
    for (int i = 0; i < all->count; i++) {
        const struct failures *f = failures_of(r, all->at[i].name);
        int failures = f ? f->count + (f->by_host ? BY_HOST : 0) : 0;
        if (!excluded[i] && failures > most) {
            most = failures;
            found = i;
        }
    }
    return found;
}

struct hosts *restart_hosts(const struct restart *r, const struct hosts *all, int slots_needed,
                            int per_node, char ***names)
{
    AUTO(free) bool *excluded = xcalloc((size_t)all->count + 1, sizeof *excluded);
    int slots = 0;
    for (int i = 0; i < all->count; i++)
        slots += slots_of(&all->at[i], per_node);
    for (int i; (i = worst(r, all, excluded)) >= 0;) {
        if (slots - slots_of(&all->at[i], per_node) < slots_needed)
            break;
        slots -= slots_of(&all->at[i], per_node);
        excluded[i] = true;
        strv_push(names, xstrdup(all->at[i].name));
    }
    for (int i = 0; i < all->count; i++)
        excluded[i] = !excluded[i]; /* those that are kept */
    return hosts_select(all, excluded);
}

static int best(const bool *chosen, const struct restart_node *nodes, int count)
{
    int found = -1;
    for (int i = 0; i < count; i++)
        if (!nodes[i].out && !chosen[i] && (found < 0 || nodes[i].faults < nodes[found].faults))
            found = i;
    return found;
}

int restart_choose_nodes(bool *chosen, const struct restart_node *nodes, int count, int min,
                         int max)
{
    int usable = 0, n = 0;
    for (int i = 0; i < count; i++) {
        usable += !nodes[i].out;
        chosen[i] = false;
    }
    if (usable < min)
        return usable;
    for (int i; n < max && (i = best(chosen, nodes, count)) >= 0; n++)
        chosen[i] = true;
    return n;
}
