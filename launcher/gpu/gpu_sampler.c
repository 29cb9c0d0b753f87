#include "launcher/gpu/gpu_sampler.h"

#include <errno.h>
#include <string.h>

#include "common/log.h"

enum { GPUS_MAX = 1024, SAMPLES_MAX = 512, REMOTE_GPU = 0, REMOTE_SWITCH = 2 };

/* The memory that the process shares. */
struct area {
    unsigned purposes;
    char *const *uuids; /* those of drover when the process started; NULL: all */
    uint64_t only;
    bool found;                       /* the next three are set */
    nvml_device devices[SAMPLES_MAX]; /* NULL: not asked so far, or lost */
    int count;
    struct gpu_sample samples[SAMPLES_MAX];
    atomic_int at;
    nvml_child_fn *fn;             /* of gpu_sampler_call() */
    char bytes[GPU_SAMPLER_BYTES]; /* the same */
};

struct gpu_sampler {
    struct nvml_child *child;
    struct area *area;
};

/* ---- in the process: what there is ----------------------------------------------------------- */

/* Returns true if a MIG instance stands for its GPU. */
static bool of_parts(const struct area *a)
{
    return a->purposes & (GPU_USE | GPU_SAMPLE);
}

static bool is_wanted(const struct area *a, const char *uuid)
{
    bool wanted = !a->uuids;
    for (size_t i = 0; a->uuids && a->uuids[i]; i++)
        wanted |= strcmp(a->uuids[i], uuid) == 0;
    return wanted;
}

/* Adds a GPU, or a MIG instance of `whole`, unless it is not wanted or, as a unit of use, has no
 * UUID. */
static void add(struct area *a, const struct nvml *n, unsigned index, nvml_device d,
                const struct gpu_sample *whole)
{
    if (a->count == SAMPLES_MAX)
        return;
    struct gpu_sample *s = &a->samples[a->count];
    *s = (struct gpu_sample){.gpu = {.index = (int)index, .numa = -1}};
    if (whole) {
        memcpy(s->gpu.bus_id, whole->gpu.bus_id, sizeof s->gpu.bus_id);
        s->known[GPU_FACT_PCI] = true;
    }
    if (of_parts(a)) {
        gpu_facts_read_one(n, d, s, GPU_FACT_UUID);
        if (!s->known[GPU_FACT_UUID] || !is_wanted(a, s->gpu.uuid))
            return;
    }
    a->devices[a->count++] = d;
}

/* Adds the MIG instances of a GPU. Returns false if it has none. */
static bool add_parts(struct area *a, const struct nvml *n, unsigned index, nvml_device d)
{
    struct gpu_sample whole = {0};
    nvml_device part = NULL;
    bool any = false;
    for (unsigned i = 0; n->mig_device && i < GPU_MIG_MAX; i++) {
        if (n->mig_device(d, i, &part) != NVML_SUCCESS)
            continue;
        if (!any)
            gpu_facts_read_one(n, d, &whole, GPU_FACT_PCI);
        any = true;
        add(a, n, index, part, &whole);
    }
    return any;
}

static void add_gpu(struct area *a, const struct nvml *n, unsigned index)
{
    nvml_device d = NULL;
    if (!of_parts(a))
        add(a, n, index, NULL, NULL);
    else if (n->by_index(index, &d) == NVML_SUCCESS && !add_parts(a, n, index, d))
        add(a, n, index, d, NULL);
}

static int find(struct area *a, const struct nvml *n, struct err *e)
{
    unsigned total = 0;
    int rc = n->count(&total);
    if (rc != NVML_SUCCESS)
        return err_set(e, -EIO, "NVIDIA driver: cannot count GPUs: %s", nvml_error(n, rc));
    if (total > GPUS_MAX)
        return err_set(e, -EIO, "NVIDIA driver: implausible number of GPUs: %u", total);
    a->count = 0;
    for (unsigned i = 0; i < total && a->count < SAMPLES_MAX; i++)
        add_gpu(a, n, i);
    if (a->count == 0 && (a->purposes & GPU_SAMPLE))
        return err_set(e, -ENODEV, "the NVIDIA driver lists none of the GPUs");
    a->found = true;
    return 0;
}

/* ---- in the process: values ------------------------------------------------------------------ */

static void add_mig_uuids(const struct nvml *n, nvml_device d, struct gpu *g)
{
    nvml_device part = NULL;
    for (unsigned i = 0, k = 0; n->mig_device && n->uuid && i < GPU_MIG_MAX; i++)
        if (n->mig_device(d, i, &part) == NVML_SUCCESS &&
            n->uuid(part, g->mig_uuids[k], sizeof g->mig_uuids[k]) == NVML_SUCCESS)
            k++;
}

/* Drivers before NVSwitch lack the remote type: then each remote end is a GPU. */
static void add_nvlink(const struct nvml *n, nvml_device d, unsigned link, struct gpu *g)
{
    unsigned active = 0, type = REMOTE_GPU;
    struct nvml_pci pci = {0};
    char to[sizeof g->bus_id] = GPU_NVLINK_SWITCH;
    if (!n->nvlink_state || n->nvlink_state(d, link, &active) != NVML_SUCCESS || !active)
        return;
    if (n->nvlink_remote_type && n->nvlink_remote_type(d, link, &type) != NVML_SUCCESS)
        return;
    if (type == REMOTE_GPU) {
        if (!n->nvlink_remote_pci || n->nvlink_remote_pci(d, link, &pci) != NVML_SUCCESS)
            return;
        gpu_facts_bus_id(to, sizeof to, &pci);
    }
    if (type == REMOTE_GPU || type == REMOTE_SWITCH)
        (void)gpu_count_nvlinks(g, to, 1); /* a GPU has fewer peers than entries */
}

/* Returns the handle of a GPU; NULL: it is not asked, or the driver has lost it. */
static nvml_device handle_of(struct area *a, const struct nvml *n, int i)
{
    struct gpu_sample *s = &a->samples[i];
    unsigned index = (unsigned)s->gpu.index;
    if (!a->devices[i] && (!a->only || (index < 64 && a->only >> index & 1))) {
        atomic_store(&a->at, (int)index * GPU_FACTS + GPU_FACT_HANDLE);
        s->rc[GPU_FACT_HANDLE] = n->by_index(index, &a->devices[i]);
        if (s->rc[GPU_FACT_HANDLE] != NVML_SUCCESS)
            a->devices[i] = NULL;
    }
    return a->devices[i];
}

static int read_all(const struct nvml *n, void *memory, struct err *e)
{
    struct area *a = memory;
    if (!a->found && find(a, n, e) < 0)
        return e->code;
    for (int i = 0; i < a->count; i++) {
        nvml_device d = handle_of(a, n, i);
        if (!d)
            continue;
        gpu_facts_read(n, d, &a->samples[i], a->purposes, &a->at);
        if (a->purposes & GPU_LIST)
            add_mig_uuids(n, d, &a->samples[i].gpu);
        for (unsigned link = 0; a->purposes & GPU_LINKS && link < NVML_NVLINKS_MAX; link++)
            add_nvlink(n, d, link, &a->samples[i].gpu);
    }
    return 0;
}

/* ---- in drover ------------------------------------------------------------------------------- */

int gpu_sampler_open(struct gpu_sampler **out, const struct gpu_sampler_opts *o, struct err *e)
{
    void *memory;
    struct nvml_child *c;
    int rc = nvml_child_start(&c, &memory, sizeof(struct area), e);
    if (rc < 0)
        return rc;
    struct gpu_sampler *s = xzalloc(sizeof *s);
    *s = (struct gpu_sampler){.child = c, .area = memory};
    s->area->purposes = o->purposes;
    s->area->uuids = o->uuids;
    s->area->only = o->only;
    *out = s;
    return 0;
}

void gpu_sampler_close(struct gpu_sampler *s)
{
    if (s)
        nvml_child_stop(s->child);
    free(s);
}

int gpu_sampler_read(struct gpu_sampler *s, const struct gpu_sample **out, int *count,
                     int deadline_ms, struct err *e)
{
    int rc = nvml_child_run(s->child, read_all, deadline_ms, e);
    *out = s->area->samples;
    *count = s->area->count;
    return rc;
}

enum gpu_fact gpu_sampler_at(const struct gpu_sampler *s, int *gpu)
{
    int at = atomic_load(&s->area->at);
    *gpu = at / GPU_FACTS;
    return (enum gpu_fact)(at % GPU_FACTS);
}

static int call(const struct nvml *n, void *memory, struct err *e)
{
    struct area *a = memory;
    return a->fn(n, a->bytes, e);
}

int gpu_sampler_call(struct gpu_sampler *s, nvml_child_fn *fn, void *inout, size_t size,
                     int deadline_ms, struct err *e)
{
    s->area->fn = fn;
    if (size > 0)
        memcpy(s->area->bytes, inout, size);
    int rc = nvml_child_run(s->child, call, deadline_ms, e);
    if (rc == 0 && size > 0)
        memcpy(inout, s->area->bytes, size);
    return rc;
}

int gpu_sampler_init_code(const struct gpu_sampler *s)
{
    return nvml_child_init_code(s->child);
}

int gpu_sampler_once(struct gpu_sample **out, int *count, unsigned purposes, int deadline_ms,
                     struct err *e)
{
    AUTO(gpu_sampler) struct gpu_sampler *s = NULL;
    const struct gpu_sample *found = NULL;
    struct err why = {0};
    *out = NULL;
    *count = 0;
    int n = 0, rc = gpu_sampler_open(&s, &(struct gpu_sampler_opts){.purposes = purposes}, &why);
    rc = rc < 0 ? rc : gpu_sampler_read(s, &found, &n, deadline_ms, &why);
    if (rc == -ENODEV && s)
        log_info("GPUs are not used: %s", why.text);
    if (rc < 0 && rc != -ENODEV && e)
        *e = why;
    if (rc < 0)
        return rc == -ENODEV ? 0 : rc;
    *out = n ? xcalloc((size_t)n, sizeof **out) : NULL;
    for (int i = 0; i < n; i++) {
        int code = found[i].rc[GPU_FACT_HANDLE];
        if (code == NVML_SUCCESS)
            (*out)[(*count)++] = found[i];
        else if (purposes & GPU_LIST)
            log_warn("GPU %d is skipped: %s", found[i].gpu.index, nvml_code_name(code));
    }
    return 0;
}
