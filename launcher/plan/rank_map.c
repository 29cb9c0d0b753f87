#include "launcher/plan/rank_map.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "common/plural.h"
#include "common/strbuf.h"

enum { RANKS_MAX = 1 << 20, HOSTS_SHOWN = 4 };

/* A mapping while it is computed. */
struct mapping {
    const struct launch_spec *s;
    const struct rank_map_host *hosts;
    int count;
    int *assigned;  /* ranks of each host */
    int ranks;      /* number of requested ranks; 0: one per slot */
    int per_object; /* ranks per object (-N, PPR); 0: decided by slots */
};

/* Returns the maximum number of ranks of a host. Its slots are a limit only if the user gave
 * them. */
static long host_limit(const struct mapping *m, int host, bool oversubscribe)
{
    const struct rank_map_host *h = &m->hosts[host];
    if (!oversubscribe)
        return h->slots;
    if (!m->s->oversubscribe && h->slots_given)
        return h->slots;
    return h->max_slots ? h->max_slots : LONG_MAX;
}

static long total_slots(const struct mapping *m)
{
    long n = 0;
    for (int i = 0; i < m->count; i++)
        n += m->hosts[i].slots;
    return n;
}

/* ---- errors --------------------------------------------------------------------------------- */

/* Sets a hint with an -H list that has enough slots ("-H c01:8,c02:8"). A long list is cut. */
static int hint_slots(const struct mapping *m, struct err *e)
{
    AUTO(strbuf) struct strbuf list = {0};
    int per_object = (m->ranks + m->count - 1) / m->count;
    for (int i = 0; i < m->count && i < HOSTS_SHOWN; i++)
        strbuf_printf(&list, "%s%s:%d", i ? "," : "", m->hosts[i].name, per_object);
    return err_hint(
        e, "-H %s%s for more slots (slots=%d in a host file), or --oversubscribe to share them",
        strbuf_str(&list), m->count > HOSTS_SHOWN ? ",…" : "", per_object);
}

/* Sets the error for too few slots. `unmapped` is the number of ranks that do not fit even with
 * oversubscription. */
static int fail_too_few_slots(const struct mapping *m, int unmapped, struct err *e)
{
    long slots = m->s->oversubscribe ? m->ranks - unmapped : total_slots(m);
    const char *at_most = m->s->oversubscribe ? "at most " : "", *plural = plural_s(slots);
    if (m->count == 1)
        err_set(e, -EINVAL, "cannot map %d rank%s: host '%s' has %s%ld slot%s", m->ranks,
                plural_s(m->ranks), m->hosts[0].name, at_most, slots, plural);
    else
        err_set(e, -EINVAL, "cannot map %d rank%s: the %d hosts have %s%ld slot%s", m->ranks,
                plural_s(m->ranks), m->count, at_most, slots, plural);
    if (m->s->oversubscribe)
        return err_hint(e, "raise max_slots: it is the limit even with --oversubscribe");
    return hint_slots(m, e);
}

static int fail_unknown_ranks(const struct mapping *m, struct err *e)
{
    err_set(e, -EINVAL,
            "the number of ranks is unknown: the hosts ('%s', …) have no slots given, and none of "
            "them is this machine",
            m->hosts[0].name);
    return err_hint(e, "-np N, -N N (ranks per host), or slots=N in the host file");
}

/* ---- ranks per host ------------------------------------------------------------------------- */

/* Adds `left` ranks to the hosts, one rank per host in turn, up to the hosts' limits. Returns the
 * number of ranks that did not fit. */
static int spread_evenly(struct mapping *m, int left, bool oversubscribe)
{
    for (bool moved = true; left > 0 && moved;) {
        moved = false;
        for (int i = 0; i < m->count && left > 0; i++)
            if (m->assigned[i] < host_limit(m, i, oversubscribe)) {
                m->assigned[i]++;
                left--;
                moved = true;
            }
    }
    return left;
}

static int map_by_slots(struct mapping *m, struct err *e)
{
    long slots = total_slots(m);
    if (m->ranks == 0 && slots == 0)
        return fail_unknown_ranks(m, e);
    if (m->ranks == 0 && slots > RANKS_MAX)
        return err_set(e, -EINVAL, "the hosts have %ld slots: a job has at most %d ranks", slots,
                       RANKS_MAX);
    if (m->ranks == 0)
        m->ranks = (int)slots;
    int left = m->ranks;
    if (m->s->map_by == PLAN_MAP_NODE)
        left = spread_evenly(m, left, false);
    else
        for (int i = 0; i < m->count; i++) {
            m->assigned[i] = left < m->hosts[i].slots ? left : m->hosts[i].slots;
            left -= m->assigned[i];
        }
    left = spread_evenly(m, left, true);
    return left > 0 ? fail_too_few_slots(m, left, e) : 0;
}

/* Maps ranks for -N and PPR: each host gets the same number per object. If -np is smaller than the
 * total, the last hosts get fewer ranks. */
static int map_fixed_number(struct mapping *m, struct err *e)
{
    long total = 0, left = m->ranks ? m->ranks : LONG_MAX;
    for (int i = 0; i < m->count; i++) {
        long host_ranks = (long)m->per_object * m->hosts[i].objects;
        total += host_ranks;
        host_ranks = host_ranks < left ? host_ranks : left;
        if (host_ranks > host_limit(m, i, true)) {
            err_set(e, -EINVAL, "cannot map %ld rank%s per host: host '%s' has %d slot%s",
                    host_ranks, plural_s(host_ranks), m->hosts[i].name, m->hosts[i].slots,
                    plural_s(m->hosts[i].slots));
            return err_hint(e, "-H %s:%ld, slots=%ld in the host file, or --oversubscribe",
                            m->hosts[i].name, host_ranks, host_ranks);
        }
        m->assigned[i] = (int)host_ranks;
        left -= host_ranks;
    }
    if (total > RANKS_MAX)
        return err_set(e, -EINVAL, "%ld ranks: a job has at most %d", total, RANKS_MAX);
    if (m->ranks > total) {
        err_set(e, -EINVAL, "cannot map %d rank%s: %d per %s are %ld on %d host%s", m->ranks,
                plural_s(m->ranks), m->per_object,
                m->s->per_node > 0 || m->s->ppr_of == PLAN_MAP_NODE ? "host" : "object", total,
                m->count, plural_s(m->count));
        return err_hint(e, "-np %ld, or more hosts", total);
    }
    m->ranks = m->ranks ? m->ranks : (int)total;
    return 0;
}

/* ---- rank numbers --------------------------------------------------------------------------- */

static struct rank_map *number_ranks(const struct mapping *m)
{
    enum plan_map by = m->s->rank_by == PLAN_MAP_DEFAULT ? m->s->map_by : m->s->rank_by;
    struct rank_map *map = xcalloc((size_t)m->ranks, sizeof *map);
    int rank = 0;
    if (by != PLAN_MAP_NODE) {
        for (int i = 0; i < m->count; i++)
            for (int k = 0; k < m->assigned[i]; k++)
                map[rank++] = (struct rank_map){i, k};
        return map;
    }
    for (int k = 0; rank < m->ranks; k++)
        for (int i = 0; i < m->count; i++)
            if (k < m->assigned[i])
                map[rank++] = (struct rank_map){i, k};
    return map;
}

int rank_map_make(struct rank_map **out, const struct launch_spec *s,
                  const struct rank_map_host *hosts, int host_count, struct err *e)
{
    AUTO(free) int *assigned = xcalloc((size_t)host_count, sizeof *assigned);
    struct mapping m = {
        .s = s, .hosts = hosts, .count = host_count, .assigned = assigned, .ranks = s->ranks};
    m.per_object = s->map_by == PLAN_MAP_PPR ? s->ppr : s->per_node;
    int rc = m.per_object > 0 ? map_fixed_number(&m, e) : map_by_slots(&m, e);
    if (rc < 0)
        return -EINVAL;
    *out = number_ranks(&m);
    return m.ranks;
}

/* ---- several programs ----------------------------------------------------------------------- */

/* Writes the hosts where program `p` may run to `part`, with the slots that it may still use, and
 * their indexes to `index`. Returns their number. */
static int hosts_of(struct rank_map_host *part, int *index, const struct rank_map_program *p,
                    const struct rank_map_host *hosts, int host_count, const int *used,
                    bool oversubscribe)
{
    int n = 0;
    for (int i = 0; i < host_count; i++) {
        int slots = hosts[i].slots > used[i] ? hosts[i].slots - used[i] : 0;
        bool full = hosts[i].max_slots > 0 && hosts[i].max_slots <= used[i];
        full |= hosts[i].slots_given && slots == 0 && !oversubscribe;
        if (full || (p->slots && p->slots[i] == 0))
            continue;
        part[n] = hosts[i];
        part[n].slots = p->slots && p->slots[i] < slots ? p->slots[i] : slots;
        part[n].max_slots -= hosts[i].max_slots ? used[i] : 0;
        index[n++] = i;
    }
    return n;
}

int rank_map_programs(struct rank_map **out, const struct launch_spec *s,
                      const struct rank_map_program *programs, int n,
                      const struct rank_map_host *hosts, int host_count, struct err *e)
{
    AUTO(free) struct rank_map *map = xcalloc((size_t)s->ranks, sizeof *map);
    AUTO(free) struct rank_map_host *part = xcalloc((size_t)host_count, sizeof *part);
    AUTO(free) int *index = xcalloc((size_t)host_count, sizeof *index);
    AUTO(free) int *used = xcalloc((size_t)host_count, sizeof *used);
    int rank = 0;
    for (int k = 0; k < n; k++) {
        AUTO(free) struct rank_map *ranks = NULL;
        struct launch_spec spec = *s;
        spec.ranks = programs[k].ranks;
        int count = hosts_of(part, index, &programs[k], hosts, host_count, used, s->oversubscribe);
        if (count == 0) {
            err_set(e, -EINVAL, "program %d: none of its hosts has a free slot", k + 1);
            return err_hint(e, "-H HOST:SLOTS in front of the program");
        }
        int made = rank_map_make(&ranks, &spec, part, count, e);
        if (made < 0) {
            err_wrap(e, "program %d", k + 1);
            return -EINVAL;
        }
        for (int i = 0; i < made; i++) {
            int host = index[ranks[i].host];
            map[rank++] = (struct rank_map){host, used[host] + ranks[i].local_rank};
        }
        for (int i = 0; i < made; i++)
            used[index[ranks[i].host]]++;
    }
    *out = TAKE(map);
    return rank;
}
