/* feature_spares - implements --spares, --exclude-file: which nodes take part in an attempt, and
 * which ones later jobs leave out.
 */
#include <errno.h>
#include <time.h>

#include "common/log.h"
#include "common/plural.h"
#include "launcher/doctor/active/node_health.h"
#include "launcher/job/restart.h"
#include "launcher/plan/exclude_file.h"
#include "launcher/plan/hosts.h"
#include "launcher/run/features/feature.h"

enum { FAILED_ATTEMPTS = 100 }; /* weigh more than all checks */

struct spares {
    FEATURE_STATE;
    struct hosts *kept;    /* hosts of the present attempt; the spec points to them */
    struct exclusions out; /* nodes that take part in no attempt */
};

/* ---- nodes that are left out ---------------------------------------------------------------- */

static void write_exclusion(const struct spares *r, const char *node, const char *reason)
{
    struct err e = {0};
    int64_t now_s = time(NULL);
    const char *file = r->run->set->spares.exclude_file;
    const struct exclusion x = {(char *)node, (char *)reason,
                                now_s + (int64_t)r->run->set->spares.exclude_for_s};
    if (file && exclude_file_add(file, &x, now_s, &e) < 0)
        log_warn("--exclude-file: %s", e.text);
}

static void leave_out(void *state, const char *node, const char *reason, bool now)
{
    struct spares *r = state;
    if (now && exclude_file_find(&r->out, node))
        return;
    if (now) {
        r->out.at = xrealloc(r->out.at, (size_t)r->out.count + 1, sizeof *r->out.at);
        r->out.at[r->out.count++] = (struct exclusion){xstrdup(node), xstrdup(reason), 0};
    }
    write_exclusion(r, node, reason);
}

/* ---- nodes of the next attempt -------------------------------------------------------------- */

/* Asks the nodes that may take part. */
static int ask(struct spares *r, struct node_health *health, struct err *e)
{
    const struct hosts *all = r->run->set->spares.candidates;
    const struct launch_spec *s = r->run->spec;
    AUTO(free) bool *asked = xcalloc((size_t)all->count, sizeof *asked);
    AUTO(strv) char **env = feature_mpirun_env(s);
    for (int i = 0; i < all->count; i++)
        asked[i] = !exclude_file_find(&r->out, all->at[i].name);
    AUTO(hosts) struct hosts *some = hosts_select(all, asked);
    AUTO(free) struct node_health *answers = xcalloc((size_t)some->count + 1, sizeof *answers);
    if (some->count == 0)
        return 0;
    int rc = node_health_ask(answers, some, s->per_node, s->argv, env, e);
    for (int i = 0, k = 0; rc == 0 && i < all->count; i++)
        if (asked[i])
            health[i] = answers[k++];
    return rc;
}

static void judge(struct spares *r, struct restart_node *nodes, struct node_health *health)
{
    const struct hosts *all = r->run->set->spares.candidates;
    for (int i = 0; i < all->count; i++) {
        const char *name = all->at[i].name;
        if (health[i].out)
            leave_out(r, name, health[i].problem, true);
        const struct exclusion *x = exclude_file_find(&r->out, name);
        bool failed = restart_is_bad_host(r->run->restart, name);
        nodes[i].out = x != NULL;
        nodes[i].faults = health[i].failures + (failed ? FAILED_ATTEMPTS : 0);
        if (x || (failed && !health[i].problem)) {
            free(health[i].problem);
            health[i].problem = xstrdup(x ? x->reason : FEATURE_SEVERAL_ATTEMPTS);
        }
    }
}

/* Says which nodes are not used although they are among the first, and what takes their places. */
static void report(const struct spares *r, const bool *chosen, const struct node_health *health)
{
    const struct hosts *all = r->run->set->spares.candidates;
    int spare = r->run->set->spares.nodes_max;
    for (int i = 0; i < all->count && i < r->run->set->spares.nodes_max; i++) {
        if (chosen[i])
            continue;
        while (spare < all->count && !chosen[spare])
            spare++;
        log_warn("%s is left out: %s; %s%s", all->at[i].name, health[i].problem,
                 spare < all->count ? all->at[spare].name : "the job runs with fewer nodes",
                 spare < all->count ? " takes its place" : "");
        spare++;
    }
}

static int too_few(const struct spares *r, const struct restart_node *nodes,
                   const struct node_health *health, int usable, struct err *e)
{
    const struct hosts *all = r->run->set->spares.candidates;
    AUTO(strbuf) struct strbuf b = {0};
    for (int i = 0; i < all->count; i++)
        if (nodes[i].out)
            strbuf_printf(&b, "; %s: %s", all->at[i].name, health[i].problem);
    return err_set(e, -ECANCELED, "the job needs %d node%s, and %d can take part%s",
                   r->run->set->spares.nodes_min, plural_s(r->run->set->spares.nodes_min), usable,
                   strbuf_str(&b));
}

/* Chooses the nodes of the next attempt, if the job has more than it needs: asks all of them,
 * leaves out those that do not answer or fail a check, and logs which and why. They stay out.
 * Blocks for a few seconds. */
static int choose_nodes(void *state, struct err *e)
{
    struct spares *r = state;
    const struct feature_settings *set = r->run->set;
    const struct hosts *all = set->spares.candidates;
    if (!all)
        return 0;
    AUTO(free) struct node_health *health = xcalloc((size_t)all->count, sizeof *health);
    AUTO(free) struct restart_node *nodes = xcalloc((size_t)all->count, sizeof *nodes);
    AUTO(free) bool *chosen = xcalloc((size_t)all->count, sizeof *chosen);
    int rc = ask(r, health, e);
    if (rc == 0) {
        judge(r, nodes, health);
        int n = restart_choose_nodes(chosen, nodes, all->count, set->spares.nodes_min,
                                     set->spares.nodes_max);
        rc = n < set->spares.nodes_min ? too_few(r, nodes, health, n, e) : 0;
    }
    if (rc == 0) {
        report(r, chosen, health);
        hosts_free(r->kept);
        r->run->spec->hosts = r->kept = hosts_select(all, chosen);
    }
    for (int i = 0; i < all->count; i++)
        free(health[i].problem);
    return rc;
}

static void free_hosts(void *state)
{
    struct spares *r = state;
    hosts_free(r->kept);
    exclude_file_free(&r->out);
}

#define T struct feature_settings
const struct feature feature_spares = {
    .options = {OPT_INT(0, "spares", "N", "use all hosts but N, and replace bad ones by these", T,
                        spares.count, 1, FEATURE_HOSTS_MAX),
                OPT_STR(0, "exclude-file", "FILE",
                        "file with nodes that jobs leave out, and until when", T,
                        spares.exclude_file),
                OPT_DURATION(0, "exclude-for", "DURATION",
                             "for how long bad nodes are in it (default: 1h)", T,
                             spares.exclude_for_s, 1, FEATURE_TIME_MAX_S)},
    .size = sizeof(struct spares),
    .prepare = choose_nodes,
    .leave_out = leave_out,
    .close = free_hosts,
};
