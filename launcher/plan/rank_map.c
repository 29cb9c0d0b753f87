#include "launcher/plan/rank_map.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "common/strbuf.h"

enum { RANKS_MAX = 1 << 20, HOSTS_SHOWN = 4 };

/* What is being seated. */
struct seating {
    const struct launch_spec *s;
    const struct rank_map_host *hosts;
    int count;
    int *taken; /* seats of each host */
    int ranks;  /* asked for; 0: as many as there are seats */
    int each;   /* with -N and ppr: to each host's object; 0: as the slots say */
};

static bool in_turn(enum plan_map by)
{
    return by == PLAN_MAP_NODE;
}

/* The most that a host may get: what nobody has said is no limit. */
static long limit_of(const struct seating *t, int host, bool oversubscribe)
{
    const struct rank_map_host *h = &t->hosts[host];
    if (!oversubscribe)
        return h->slots;
    if (!t->s->oversubscribe && h->slots_given)
        return h->slots;
    return h->max_slots ? h->max_slots : LONG_MAX;
}

static long slots_of(const struct seating *t)
{
    long n = 0;
    for (int i = 0; i < t->count; i++)
        n += t->hosts[i].slots;
    return n;
}

/* ---- what cannot be -------------------------------------------------------------------------- */

/* "-H c01:8,c02:8" with room for all; of many hosts the first ones. */
static int hint_room(const struct seating *t, struct err *e)
{
    AUTO(strbuf) struct strbuf list = {0};
    int each = (t->ranks + t->count - 1) / t->count;
    for (int i = 0; i < t->count && i < HOSTS_SHOWN; i++)
        strbuf_printf(&list, "%s%s:%d", i ? "," : "", t->hosts[i].name, each);
    return err_hint(
        e, "-H %s%s gives them room (slots=%d in a host file); --oversubscribe lets them share",
        strbuf_str(&list), t->count > HOSTS_SHOWN ? ",…" : "", each);
}

/* `unseated`: ranks for which there is no room even where hosts may share. */
static int too_few_slots(const struct seating *t, int unseated, struct err *e)
{
    long slots = t->s->oversubscribe ? t->ranks - unseated : slots_of(t);
    const char *most = t->s->oversubscribe ? "at most " : "", *plural = slots == 1 ? "" : "s";
    if (t->count == 1)
        err_set(e, -EINVAL, "%d ranks, but host '%s' has %s%ld slot%s", t->ranks, t->hosts[0].name,
                most, slots, plural);
    else
        err_set(e, -EINVAL, "%d ranks, but the %d hosts have %s%ld slot%s", t->ranks, t->count,
                most, slots, plural);
    if (t->s->oversubscribe)
        return err_hint(e, "max_slots is the limit also with --oversubscribe: raise it");
    return hint_room(t, e);
}

static int nothing_says_how_many(const struct seating *t, struct err *e)
{
    err_set(e, -EINVAL,
            "how many ranks? The hosts ('%s', …) have no slots given, and none of them "
            "is this machine",
            t->hosts[0].name);
    return err_hint(e, "-np N, -N ranks a host, or slots=N in the host file");
}

/* ---- how many to each host ------------------------------------------------------------------- */

/* Spreads what is left evenly, one a host and turn, up to the hosts' limits. Returns what found no
 * seat. */
static int spread(struct seating *t, int left, bool oversubscribe)
{
    for (bool moved = true; left > 0 && moved;) {
        moved = false;
        for (int i = 0; i < t->count && left > 0; i++)
            if (t->taken[i] < limit_of(t, i, oversubscribe)) {
                t->taken[i]++;
                left--;
                moved = true;
            }
    }
    return left;
}

static int by_slots(struct seating *t, struct err *e)
{
    long slots = slots_of(t);
    if (t->ranks == 0 && slots == 0)
        return nothing_says_how_many(t, e);
    if (t->ranks == 0 && slots > RANKS_MAX)
        return err_set(e, -EINVAL, "the hosts have %ld slots; %d ranks are possible", slots,
                       RANKS_MAX);
    if (t->ranks == 0)
        t->ranks = (int)slots;
    int left = t->ranks;
    if (in_turn(t->s->map_by))
        left = spread(t, left, false);
    else
        for (int i = 0; i < t->count; i++) {
            t->taken[i] = left < t->hosts[i].slots ? left : t->hosts[i].slots;
            left -= t->taken[i];
        }
    left = spread(t, left, true);
    return left > 0 ? too_few_slots(t, left, e) : 0;
}

/* -N and ppr: the same number to each, the last ones get what is left of -np. */
static int by_number(struct seating *t, struct err *e)
{
    long most = 0, left = t->ranks ? t->ranks : LONG_MAX;
    for (int i = 0; i < t->count; i++) {
        long its = (long)t->each * t->hosts[i].objects;
        most += its;
        its = its < left ? its : left;
        if (its > limit_of(t, i, true)) {
            err_set(e, -EINVAL, "%ld ranks a host, but host '%s' has %d slot%s", its,
                    t->hosts[i].name, t->hosts[i].slots, t->hosts[i].slots == 1 ? "" : "s");
            return err_hint(e, "-H %s:%ld, slots=%ld in the host file, or --oversubscribe",
                            t->hosts[i].name, its, its);
        }
        t->taken[i] = (int)its;
        left -= its;
    }
    if (most > RANKS_MAX)
        return err_set(e, -EINVAL, "%ld ranks; %d are possible", most, RANKS_MAX);
    if (t->ranks > most) {
        err_set(e, -EINVAL, "%d ranks, but %d to each %s make %ld on %d host%s", t->ranks, t->each,
                t->s->per_node > 0 || t->s->ppr_of == PLAN_MAP_NODE ? "host" : "such object", most,
                t->count, t->count == 1 ? "" : "s");
        return err_hint(e, "-np %ld, or more hosts", most);
    }
    t->ranks = t->ranks ? t->ranks : (int)most;
    return 0;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static struct rank_map *number_seats(const struct seating *t)
{
    enum plan_map by = t->s->rank_by == PLAN_MAP_DEFAULT ? t->s->map_by : t->s->rank_by;
    struct rank_map *seats = xcalloc((size_t)t->ranks, sizeof *seats);
    int rank = 0;
    if (!in_turn(by)) {
        for (int i = 0; i < t->count; i++)
            for (int k = 0; k < t->taken[i]; k++)
                seats[rank++] = (struct rank_map){i, k};
        return seats;
    }
    for (int k = 0; rank < t->ranks; k++)
        for (int i = 0; i < t->count; i++)
            if (k < t->taken[i])
                seats[rank++] = (struct rank_map){i, k};
    return seats;
}

int rank_map_make(struct rank_map **out, const struct launch_spec *s,
                  const struct rank_map_host *hosts, int host_count, struct err *e)
{
    AUTO(free) int *taken = xcalloc((size_t)host_count, sizeof *taken);
    struct seating t = {
        .s = s, .hosts = hosts, .count = host_count, .taken = taken, .ranks = s->ranks};
    t.each = s->map_by == PLAN_MAP_PPR ? s->ppr : s->per_node;
    int rc = t.each > 0 ? by_number(&t, e) : by_slots(&t, e);
    if (rc < 0)
        return -EINVAL;
    *out = number_seats(&t);
    return t.ranks;
}
