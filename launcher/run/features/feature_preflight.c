/* feature_preflight - implements --preflight, --no-preflight: checks the nodes of a job before it
 * starts. */
#include <errno.h>
#include <string.h>

#include "launcher/doctor/preflight.h"
#include "launcher/run/features/feature.h"

struct checks {
    FEATURE_STATE;
    struct doctor_report found;
};

static int on_option(void *into, char *const *values, struct err *e)
{
    struct feature_settings *set = into;
    set->preflight.full = strcmp(values[0], "full") == 0;
    if (set->preflight.full || strcmp(values[0], "quick") == 0)
        return 0;
    err_set(e, -EINVAL, "unknown preflight '%s'", values[0]);
    return err_hint(e, "quick, full, or --no-preflight");
}

static int check(struct feature_settings *set, struct launch_spec *spec, struct err *e)
{
    spec->preflight = !set->preflight.off;
    return set->preflight.full && set->preflight.off
               ? err_set(e, -EINVAL, "--preflight full and --no-preflight exclude each other")
               : 1;
}

/* Checks this machine. Other nodes check themselves when they have connected. */
static int check_here(void *state, struct err *e)
{
    struct checks *c = state;
    return preflight_check_job(&c->found, c->run->topo, c->run->spec, e);
}

static int on_node_checked(void *arg, int node, const char *text, size_t len, struct err *e)
{
    struct checks *c = arg;
    AUTO(free) char *line = xstrndup(text, len);
    return preflight_import(&c->found, c->run->plan->nodes[node].name, line, e);
}

/* A node that would break the job is left out of later attempts. */
static int on_nodes_ready(void *arg, int *node, struct err *e)
{
    struct checks *c = arg;
    const struct plan *p = c->run->plan;
    AUTO(free) char *name = NULL;
    int rc = preflight_judge(&c->found, &name, e);
    if (name)
        feature_leave_out(c->run, name, e->text, true);
    while (name && *node < p->node_count - 1 && strcmp(p->nodes[*node].name, name) != 0)
        (*node)++;
    return rc;
}

/* Measures the nodes of the first attempt (--preflight full). */
static int measure(void *state, struct err *e)
{
    struct checks *c = state;
    const struct launch_spec *s = c->run->spec;
    if (!c->run->set->preflight.full || c->run->attempt > 0)
        return 0;
    AUTO(strv) char **env = feature_mpirun_env(s);
    int rc = preflight_measure(&c->found, c->run->topo, s->hosts, s->per_node, env, e);
    return rc < 0 ? rc : preflight_judge(&c->found, NULL, e);
}

static void free_found(void *state)
{
    doctor_report_free(&((struct checks *)state)->found);
}

const struct feature feature_preflight = {
    .options = {OPT_CALL(0, "preflight", "quick|full", "full: also measure nodes and pairs",
                         on_option),
                OPT_FLAG(0, "no-preflight", "do not check the GPUs of the nodes",
                         struct feature_settings, preflight.off)},
    .check = check,
    .size = sizeof(struct checks),
    .open = check_here,
    .prepare = measure,
    .events = {.node_checked = on_node_checked, .nodes_ready = on_nodes_ready},
    .close = free_found,
};
