#include "launcher/place/place_inventory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/byte_size.h"
#include "common/json.h"
#include "common/yaml.h"
#include "launcher/gpu/gpu_lock.h"
#include "launcher/gpu/gpu_sampler.h"
#include "launcher/node/topo.h"
#include "launcher/plan/gpu_assignment.h"

/* Says who uses a GPU or MIG instance. */
static void set_users(struct place_gpu *p)
{
    char size[16];
    const struct gpu_sample *s = &p->now;
    p->used = s->process_count > 0 || gpu_sample_has_users(s);
    if (s->process_count > 0)
        gpu_users_describe(p->users, sizeof p->users, s->processes[0].pid);
    else if (p->used)
        snprintf(p->users, sizeof p->users, "invisible processes with %s",
                 byte_size_format(size, sizeof size,
                                  (uint64_t)gpu_sample_value(s, GPU_FACT_MEMORY_USED, 0)));
    size_t len = strlen(p->users);
    if (s->process_count > 1)
        snprintf(p->users + len, sizeof p->users - len, " and %d more", s->process_count - 1);
}

/* Adds a GPU, or a MIG instance of it, with what it does (NULL: unknown). */
static void add(struct place_inventory *to, const struct gpu *g, const char *uuid,
                const struct gpu_sample *now)
{
    to->gpus = xrealloc(to->gpus, (size_t)to->count + 1, sizeof *to->gpus);
    struct place_gpu *p = &to->gpus[to->count++];
    *p = (struct place_gpu){.mig = strcmp(uuid, g->uuid) != 0};
    if (now)
        p->now = *now;
    p->now.gpu = *g;
    snprintf(p->now.gpu.uuid, sizeof p->now.gpu.uuid, "%s", uuid);
    if (p->mig) /* the NVLinks are those of no instance */
        memset(p->now.gpu.nvlinks, 0, sizeof p->now.gpu.nvlinks);
    set_users(p);
}

static const struct gpu_sample *find(const struct gpu_sample *samples, int n, const char *uuid)
{
    for (int i = 0; i < n; i++)
        if (strcmp(samples[i].gpu.uuid, uuid) == 0)
            return &samples[i];
    return NULL;
}

/* Marks the GPUs that CUDA_VISIBLE_DEVICES does not show. */
static int set_hidden(struct place_inventory *to, const struct topo *t, struct err *e)
{
    AUTO(gpu_assignment) struct gpu_assignment *visible = NULL;
    const struct launch_spec all = {.gpus = NULL};
    int rc = gpu_assignment_make(&visible, &all, t, environ, e);
    for (int i = 0; rc == 0 && i < to->count; i++) {
        struct place_gpu *p = &to->gpus[i];
        p->hidden = true;
        for (int k = 0; k < visible->n; k++)
            if (strcmp(visible->at[k].uuid, p->now.gpu.uuid) == 0 ||
                (p->mig && visible->at[k].gpu->index == p->now.gpu.index &&
                 strcmp(visible->at[k].uuid, visible->at[k].gpu->uuid) == 0))
                p->hidden = false;
    }
    return rc;
}

static int list_gpus(struct place_inventory *to, struct err *e)
{
    AUTO(topo) struct topo *t = NULL;
    AUTO(free) struct gpu_sample *now = NULL;
    int n = 0;
    int rc = topo_load(&t, e);
    if (rc == 0 && topo_gpu_count(t) == 0)
        return 0;
    rc = rc < 0 ? rc : topo_add_nvlinks(t, e);
    rc = rc < 0 ? rc : gpu_sampler_once(&now, &n, GPU_USE, GPU_DRIVER_MS, e);
    if (rc < 0)
        return rc;
    for (int i = 0; i < topo_gpu_count(t); i++) {
        const struct gpu *g = topo_gpu(t, i);
        if (!g->mig_uuids[0][0])
            add(to, g, g->uuid, find(now, n, g->uuid));
        for (int k = 0; k < GPU_MIG_MAX && g->mig_uuids[k][0]; k++)
            add(to, g, g->mig_uuids[k], find(now, n, g->mig_uuids[k]));
    }
    return set_hidden(to, t, e);
}

/* ---- labels --------------------------------------------------------------------------------- */

static int add_label(struct place_gpu *g, const json_t *v)
{
    if (!json_is_string(v) || !json_string_length(v))
        return -EINVAL;
    strv_push(&g->labels, xstrdup(json_string_value(v)));
    return 0;
}

static int add_labels_of(struct place_inventory *in, const struct yaml_doc *d, const char *word,
                         const json_t *v, struct err *e)
{
    AUTO(free) char *path = xasprintf("/%s", word);
    bool any = false;
    int rc = 0;
    for (int i = 0; rc == 0 && i < in->count; i++) {
        struct place_gpu bare = in->gpus[i];
        bare.labels = NULL; /* a label cannot name GPUs in this file */
        if (!place_gpu_is(&bare, word))
            continue;
        any = true;
        for (size_t k = 0; rc == 0 && json_is_array(v) && k < json_array_size(v); k++)
            rc = add_label(&in->gpus[i], json_array_get(v, k));
        if (!json_is_array(v))
            rc = add_label(&in->gpus[i], v);
    }
    if (rc < 0)
        return yaml_error_at(d, path, e, rc, "the labels of '%s' must be a word or a list of words",
                             word);
    /* A model that is not here is not an error: one file may be for many machines. */
    if (!any && *word && strspn(word, "0123456789") == strlen(word))
        return yaml_error_at(d, path, e, -EINVAL, "this machine has no GPU %s", word);
    return 0;
}

static int read_labels(struct place_inventory *in, const char *file, struct err *e)
{
    AUTO(yaml_doc) struct yaml_doc *d = NULL;
    const char *word;
    json_t *v;
    int rc = yaml_read_file(&d, file, e);
    if (rc < 0)
        return rc;
    if (!json_is_object(yaml_root(d))) {
        yaml_error_at(d, "", e, -EINVAL, "a file of labels must be a mapping, not %s",
                      json_type_name(yaml_root(d)));
        return err_hint(e, "0: [own, rack-a]");
    }
    json_object_foreach ((json_t *)yaml_root(d), word, v) {
        if ((rc = add_labels_of(in, d, word, v, e)) < 0)
            return rc;
    }
    return 0;
}

/* ---- all ------------------------------------------------------------------------------------ */

int place_inventory_read(struct place_inventory *out, const char *labels_file, struct err *e)
{
    *out = (struct place_inventory){0};
    int rc = list_gpus(out, e);
    if (rc < 0)
        err_wrap(e, "NVIDIA GPUs");
    else if (labels_file)
        rc = read_labels(out, labels_file, e);
    if (rc < 0)
        place_inventory_free(out);
    else
        place_inventory_update_locks(out, 0);
    return rc;
}

void place_inventory_update_locks(struct place_inventory *i, uint64_t arrived_ns)
{
    for (int k = 0; k < i->count; k++) {
        struct place_gpu *g = &i->gpus[k];
        g->locked = gpu_lock_is_held(g->now.gpu.uuid);
        g->reserved = gpu_lock_is_awaited(g->now.gpu.uuid, arrived_ns);
        if (g->locked)
            gpu_users_describe_lock(g->users, sizeof g->users, g->now.gpu.uuid);
    }
}

void place_inventory_free(struct place_inventory *i)
{
    for (int k = 0; k < i->count; k++)
        strv_free(i->gpus[k].labels);
    free(i->gpus);
    *i = (struct place_inventory){0};
}
