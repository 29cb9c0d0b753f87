#include "launcher/doctor/preflight.h"

#include <errno.h>
#include <string.h>

#include "common/log.h"
#include "launcher/doctor/active/active_checks.h"
#include "launcher/doctor/core/check_run.h"

enum { CHECK_MS = 5000, GPUS_MAX = 64 }; /* without persistence mode, NVML loads in seconds */

static struct doctor_node *add_node(struct doctor_report *r, const char *name)
{
    r->nodes = xrealloc(r->nodes, (size_t)r->count + 1, sizeof *r->nodes);
    r->nodes[r->count] = (struct doctor_node){.name = xstrdup(name)};
    return &r->nodes[r->count++];
}

/* ---- this machine --------------------------------------------------------------------------- */

/* Returns the GPUs of the list, a bit per index. */
static uint64_t listed_gpus(const struct topo *t, const char *list)
{
    uint64_t gpus = 0;
    for (const char *word = list; *word;) {
        const struct gpu *gpu;
        const char *uuid;
        size_t len = strcspn(word, ",");
        if (topo_find_gpu(&gpu, &uuid, t, word, len) && gpu->index < GPUS_MAX)
            gpus |= UINT64_C(1) << gpu->index;
        word += len + (word[len] == ',');
    }
    return gpus;
}

/* Returns true if a job may use GPUs here: those of `*gpus`, 0 for all. If the driver does not
 * respond, the topology has none. */
static bool uses_gpus(uint64_t *gpus, const struct topo *t, const char *list)
{
    *gpus = 0;
    if (list && !*list)
        return false;
    if (topo_gpu_count(t) > 0)
        return !list || (*gpus = listed_gpus(t, list)) != 0;
    return topo_driver_failed(t) && !(list && strcmp(list, "-1") == 0);
}

int preflight_check_here(struct doctor_report *r, const struct topo *t,
                         const struct preflight_job *j, struct err *e)
{
    struct check_env env = {.topo = t,
                            .ranks = j->ranks,
                            .command = j->command,
                            .dirs = j->dirs,
                            .least = CHECK_REPORT,
                            .deadline_ms = CHECK_MS};
    if (!uses_gpus(&env.gpus, t, j->gpus))
        return 0;
    struct doctor_node *n = add_node(r, topo_name(t));
    n->results = xcalloc(CHECKS, sizeof *n->results);
    return check_run(n->results, check_table(), CHECKS, &env, e);
}

int preflight_check_job(struct doctor_report *r, const struct topo *t, const struct launch_spec *s,
                        struct err *e)
{
    const char *dirs[] = {s->output_dir, NULL};
    const struct preflight_job job = {.ranks = s->ranks,
                                      .gpus = s->gpus ? s->gpus : getenv("CUDA_VISIBLE_DEVICES"),
                                      .command = s->argv,
                                      .dirs = dirs};
    if (!s->preflight || !plan_spec_is_local(s))
        return 0;
    int rc = preflight_check_here(r, t, &job, e);
    return rc < 0 ? rc : preflight_judge(r, NULL, e);
}

/* ---- other nodes ---------------------------------------------------------------------------- */

void preflight_export(struct strbuf *out, const struct doctor_report *r)
{
    if (r->count == 0)
        return;
    AUTO(json) json_t *j = doctor_report_json(r);
    AUTO(free) char *line = json_line(j);
    strbuf_printf(out, "%s\n", line);
}

int preflight_import(struct doctor_report *r, const char *node, const char *text, struct err *e)
{
    struct doctor_node read = {0};
    int rc = doctor_report_read_node(&read, text, e);
    if (rc < 0) {
        err_wrap(e, "%s: checks", node);
        return rc;
    }
    add_node(r, node)->results = read.results;
    return 0;
}

/* ---- measurements --------------------------------------------------------------------------- */

int preflight_measure(struct doctor_report *r, const struct topo *t, const struct hosts *hosts,
                      int per_node, char *const *env, struct err *e)
{
    int gpus = topo_gpu_count(t);
    const struct active_opts o = {.hosts = hosts,
                                  .per_node = per_node > 0 ? per_node : gpus,
                                  .gpus = gpus > 0,
                                  .brief = true,
                                  .env = env};
    for (int i = 0; i < (hosts ? hosts->count : 1); i++) {
        struct doctor_node *n = add_node(r, hosts ? hosts->at[i].name : topo_name(t));
        n->results = xcalloc(CHECKS, sizeof *n->results);
    }
    return active_checks_run(r, &o, e);
}

/* ---- the verdict ---------------------------------------------------------------------------- */

/* Logs a failure, or makes it the error if it is the first failure that breaks the job. */
static void take_failure(const struct doctor_report *r, int node, size_t row, char **name,
                         struct err *e)
{
    const struct check *c = &check_table()[row];
    AUTO(strbuf) struct strbuf b = {0};
    const char *advice = doctor_report_put_finding(&b, r, node, row);
    if (c->when != CHECK_STOP || e->code) {
        log_warn("%s; try: %s", strbuf_str(&b), advice);
        return;
    }
    err_set(e, -ECANCELED, "%s", strbuf_str(&b));
    err_hint(e, "%.190s; --no-preflight starts the job nevertheless", advice);
    if (name)
        *name = xstrdup(r->nodes[node].name);
}

int preflight_judge(struct doctor_report *r, char **node, struct err *e)
{
    struct err found = {0};
    for (size_t row = 0; row < CHECKS; row++)
        for (int i = 0; i < r->count; i++)
            if (doctor_report_is_first(r, i, row) && r->nodes[i].results[row].state == CHECK_FAIL)
                take_failure(r, i, row, node, &found);
    doctor_report_free(r);
    if (found.code && e)
        *e = found;
    return found.code;
}
