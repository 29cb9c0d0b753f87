#include "launcher/plan/gpu_assignment.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "common/strbuf.h"
#include "launcher/plan/env.h"

void gpu_assignment_free(struct gpu_assignment *c)
{
    if (c)
        free(c->at);
    free(c);
}

static struct gpu_assignment *none_picked(const struct topo *t)
{
    struct gpu_assignment *c = xzalloc(sizeof *c);
    c->at = xcalloc((size_t)topo_gpu_count(t) * (1 + GPU_MIG_MAX), sizeof *c->at);
    return c;
}

static bool is_part(const struct gpu_assignment_rank *p)
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

/* What CUDA_VISIBLE_DEVICES shows, by CUDA's rules (CUDA C++ Programming Guide, "CUDA Environment
 * Variables"): in its order, up to the first word that names no GPU; nothing where one stands
 * twice. */
static struct gpu_assignment *visible_gpus(const struct topo *t, const char *list)
{
    struct gpu_assignment *c = none_picked(t);
    if (!list) {
        for (int i = 0; i < topo_gpu_count(t); i++)
            c->at[c->n++] = (struct gpu_assignment_rank){topo_gpu(t, i), topo_gpu(t, i)->uuid};
        return c;
    }
    for (const char *p = list;;) {
        while (isspace((unsigned char)*p))
            p++;
        size_t len = strcspn(p, ", \t");
        struct gpu_assignment_rank one;
        if (!topo_find_gpu(&one.gpu, &one.uuid, t, p, len))
            return c;
        if (has(c, &one)) {
            c->n = 0;
            return c;
        }
        c->at[c->n++] = one;
        p += len;
        p += strspn(p, " \t");
        if (*p++ != ',')
            return c;
    }
}

/* Of the visible GPUs those that the job is given, in the order of `list` ("0,2", UUIDs; empty:
 * none). */
static int given_gpus(struct gpu_assignment **out, const struct topo *t,
                      const struct gpu_assignment *visible, const char *list, struct err *e)
{
    AUTO(gpu_assignment) struct gpu_assignment *c = none_picked(t);
    for (const char *p = list; *p;) {
        size_t len = strcspn(p, ",");
        struct gpu_assignment_rank one;
        if (!topo_find_gpu(&one.gpu, &one.uuid, t, p, len))
            return err_set(e, -EINVAL, "GPU '%.*s': '%s' has %d GPUs, and none of that name",
                           (int)len, p, topo_name(t), topo_gpu_count(t));
        /* A part of a GPU that is seen whole may be given. */
        struct gpu_assignment_rank whole = {one.gpu, one.gpu->uuid};
        if (!has(visible, &one) && !has(visible, &whole))
            return err_set(e, -EINVAL, "GPU '%.*s' is hidden by CUDA_VISIBLE_DEVICES", (int)len, p);
        if (has(c, &one))
            return err_set(e, -EINVAL, "GPU '%.*s' is named twice in '%s'", (int)len, p, list);
        c->at[c->n++] = one;
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
    AUTO(gpu_assignment)
    struct gpu_assignment *visible =
        visible_gpus(t, env_user_value(base, s->env, "CUDA_VISIBLE_DEVICES"));
    visible->seen = true;
    if (!s->gpus) {
        *out = TAKE(visible);
        return 0;
    }
    AUTO(gpu_assignment) struct gpu_assignment *given = NULL;
    if (given_gpus(&given, t, visible, s->gpus, e) < 0)
        return -EINVAL;
    given->seen = given->n == visible->n &&
                  memcmp(given->at, visible->at, (size_t)given->n * sizeof *given->at) == 0;
    *out = TAKE(given);
    return 0;
}

int gpu_assignment_check(const struct plan_node *n, const struct launch_spec *s,
                         const struct gpu_assignment *gpus, struct err *e)
{
    if (gpus->n == 0 || n->local_size <= gpus->n || s->oversubscribe)
        return 0;
    err_set(e, -EINVAL, "%d ranks, but the job has %d GPU%s on '%s'", n->local_size, gpus->n,
            gpus->n == 1 ? "" : "s", n->name);
    return err_hint(e,
                    "%s %d for one a GPU; --oversubscribe to share them; --gpus '' for a job that "
                    "uses none",
                    s->hosts ? "-N" : "-np", gpus->n);
}

void gpu_assignment_show(char ***env, const struct plan_rank *r, const struct launch_spec *s,
                         const struct topo *t, const struct gpu_assignment *gpus, char *const *base)
{
    bool mixed = false, parts = false;
    for (int i = 1; i < topo_gpu_count(t); i++)
        mixed |= strcmp(topo_gpu(t, i)->name, topo_gpu(t, 0)->name) != 0;
    for (int i = 0; i < gpus->n; i++)
        parts |= is_part(&gpus->at[i]);
    if (mixed && gpus->n > 0 && !env_user_value(base, s->env, "CUDA_DEVICE_ORDER"))
        env_set(env, "CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    if (parts)
        env_set(env, "CUDA_VISIBLE_DEVICES", "%s", r->gpu_uuid);
    if (parts || gpus->seen)
        return;
    AUTO(strbuf) struct strbuf list = {0};
    for (int i = 0; i < gpus->n; i++)
        strbuf_printf(&list, "%s%d", i ? "," : "", gpus->at[i].gpu->index);
    env_set(env, "CUDA_VISIBLE_DEVICES", "%s", strbuf_str(&list));
}
