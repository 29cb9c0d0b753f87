#include "launcher/plan/gpu_assignment.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "common/plural.h"
#include "common/strbuf.h"
#include "launcher/node/topo_visible.h"
#include "launcher/plan/env.h"

void gpu_assignment_free(struct gpu_assignment *c)
{
    if (c)
        free(c->at);
    free(c);
}

static struct gpu_assignment *new_assignment(const struct topo *t)
{
    struct gpu_assignment *c = xzalloc(sizeof *c);
    c->at = xcalloc((size_t)topo_gpu_count(t) * (1 + GPU_MIG_MAX), sizeof *c->at);
    return c;
}

static bool is_mig_instance(const struct gpu_assignment_rank *p)
{
    return p->uuid != p->gpu->uuid;
}

static bool has(const struct gpu_assignment *c, const struct gpu_assignment_rank *p)
{
    for (int i = 0; i < c->n; i++)
        if (c->at[i].gpu == p->gpu && c->at[i].uuid == p->uuid)
            return true;
    return false;
}

/* Returns the GPUs that CUDA_VISIBLE_DEVICES shows, by CUDA's rules (CUDA C++ Programming Guide,
 * "CUDA Environment Variables"). They are in the order of `list`, up to the first word that is not
 * a GPU. If a GPU is listed twice, no GPU is visible. If `list` is NULL, all GPUs are. */
static struct gpu_assignment *visible_gpus(const struct topo *t, const char *list)
{
    struct gpu_assignment *c = new_assignment(t);
    if (!list) {
        for (int i = 0; i < topo_gpu_count(t); i++)
            c->at[c->n++] = (struct gpu_assignment_rank){topo_gpu(t, i), topo_gpu(t, i)->uuid};
        return c;
    }
    for (const char *p = list;;) {
        while (isspace((unsigned char)*p))
            p++;
        size_t len = strcspn(p, ", \t");
        struct gpu_assignment_rank entry;
        if (!topo_find_gpu(&entry.gpu, &entry.uuid, t, p, len))
            return c;
        if (has(c, &entry)) {
            c->n = 0;
            return c;
        }
        c->at[c->n++] = entry;
        p += len;
        p += strspn(p, " \t");
        if (*p++ != ',')
            return c;
    }
}

/* Selects those visible GPUs that are in `list`, in the order of `list`. `list` has indexes or
 * UUIDs ("0,2"); if it is empty, no GPU is selected. */
static int select_gpus(struct gpu_assignment **out, const struct topo *t,
                       const struct gpu_assignment *visible, const char *list, struct err *e)
{
    AUTO(gpu_assignment) struct gpu_assignment *c = new_assignment(t);
    for (const char *p = list; *p;) {
        size_t len = strcspn(p, ",");
        struct gpu_assignment_rank entry;
        if (!topo_find_gpu(&entry.gpu, &entry.uuid, t, p, len))
            return err_set(e, -EINVAL, "unknown GPU '%.*s': '%s' has %d GPU%s", (int)len, p,
                           topo_name(t), topo_gpu_count(t), plural_s(topo_gpu_count(t)));
        /* A MIG instance may be selected if its whole GPU is visible. */
        struct gpu_assignment_rank whole = {entry.gpu, entry.gpu->uuid};
        if (!has(visible, &entry) && !has(visible, &whole))
            return err_set(e, -EINVAL, "GPU '%.*s' is hidden by CUDA_VISIBLE_DEVICES", (int)len, p);
        if (has(c, &entry))
            return err_set(e, -EINVAL, "GPU '%.*s' is listed twice in '%s'", (int)len, p, list);
        c->at[c->n++] = entry;
        p += len;
        if (*p == ',' && !*++p)
            return err_set(e, -EINVAL, "GPUs '%s': the list ends with a comma", list);
    }
    *out = TAKE(c);
    return 0;
}

int gpu_assignment_make(struct gpu_assignment **out, const struct launch_spec *s,
                        const struct topo *t, char *const *base, struct err *e)
{
    const char *list = env_user_value(base, s->env, "CUDA_VISIBLE_DEVICES");
    int rc = s->gpus && !*s->gpus ? 0 : topo_check_visible(t, list, e);
    if (rc < 0)
        return rc;
    AUTO(gpu_assignment) struct gpu_assignment *visible = visible_gpus(t, list);
    visible->visible = true;
    if (!s->gpus) {
        *out = TAKE(visible);
        return 0;
    }
    AUTO(gpu_assignment) struct gpu_assignment *given = NULL;
    if (select_gpus(&given, t, visible, s->gpus, e) < 0)
        return -EINVAL;
    given->visible = given->n == visible->n &&
                     memcmp(given->at, visible->at, (size_t)given->n * sizeof *given->at) == 0;
    *out = TAKE(given);
    return 0;
}

int gpu_assignment_check(const struct plan_node *n, const struct launch_spec *s,
                         const struct gpu_assignment *gpus, struct err *e)
{
    if (gpus->n == 0 && s->needs_gpus) {
        err_set(e, -EINVAL, "one rank per GPU, but '%s' has no GPU that the job may use", n->name);
        return err_hint(e, "a number, or auto for one rank per core without GPUs");
    }
    if (gpus->n == 0 || n->local_size <= gpus->n || s->oversubscribe)
        return 0;
    err_set(e, -EINVAL, "cannot assign GPUs to %d rank%s: the job has %d GPU%s on '%s'",
            n->local_size, plural_s(n->local_size), gpus->n, plural_s(gpus->n), n->name);
    return err_hint(e,
                    "%s %d for one rank per GPU, --oversubscribe to share GPUs, or --gpus '' for a "
                    "job without GPUs",
                    s->hosts ? "-N" : "-np", gpus->n);
}

void gpu_assignment_show(char ***env, const struct plan_rank *r, const struct launch_spec *s,
                         const struct topo *t, const struct gpu_assignment *gpus, char *const *base)
{
    bool mixed = false, mig = false;
    for (int i = 1; i < topo_gpu_count(t); i++)
        mixed |= strcmp(topo_gpu(t, i)->name, topo_gpu(t, 0)->name) != 0;
    for (int i = 0; i < gpus->n; i++)
        mig |= is_mig_instance(&gpus->at[i]);
    const char *order = env_user_value(base, s->env, "CUDA_DEVICE_ORDER");
    bool by_index = !mixed || !order || strcmp(order, "PCI_BUS_ID") == 0;
    if (mixed && gpus->n > 0 && !order)
        env_set(env, "CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    if (mig)
        env_set(env, "CUDA_VISIBLE_DEVICES", "%s", r->gpu_uuid);
    if (mig || gpus->visible)
        return;
    AUTO(strbuf) struct strbuf list = {0};
    for (int i = 0; i < gpus->n; i++) {
        strbuf_puts(&list, i ? "," : "");
        if (by_index)
            strbuf_printf(&list, "%d", gpus->at[i].gpu->index);
        else
            strbuf_puts(&list, gpus->at[i].uuid);
    }
    env_set(env, "CUDA_VISIBLE_DEVICES", "%s", strbuf_str(&list));
}
