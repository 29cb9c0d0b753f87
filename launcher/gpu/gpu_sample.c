#include "launcher/gpu/gpu_sample.h"

void gpu_sample_set(struct gpu_sample *s, enum gpu_fact f, int64_t value)
{
    s->known[f] = true;
    s->value[f] = value;
}

bool gpu_sample_get(int64_t *out, const struct gpu_sample *s, enum gpu_fact f)
{
    if (s->known[f] && out)
        *out = s->value[f];
    return s->known[f];
}

int64_t gpu_sample_value(const struct gpu_sample *s, enum gpu_fact f, int64_t otherwise)
{
    return s->known[f] ? s->value[f] : otherwise;
}

static const struct gpu_process *find(const struct gpu_process *list, int count, int pid)
{
    for (int i = 0; i < count; i++)
        if (list[i].pid == pid)
            return &list[i];
    return NULL;
}

int64_t gpu_sample_memory_of(const struct gpu_sample *s, bool (*is_one)(const void *arg, int pid),
                             const void *arg)
{
    int64_t sum = -1;
    if (gpu_sample_value(s, GPU_FACT_PROCESSES, 0) > s->process_count ||
        gpu_sample_value(s, GPU_FACT_GRAPHICS, 0) > s->graphics_count)
        return -1;
    for (int i = 0; i < s->process_count + s->graphics_count; i++) {
        const struct gpu_process *p =
            i < s->process_count ? &s->processes[i] : &s->graphics[i - s->process_count];
        if ((i >= s->process_count && find(s->processes, s->process_count, p->pid)) ||
            !is_one(arg, p->pid))
            continue;
        if (p->bytes < 0)
            return -1;
        sum = (sum < 0 ? 0 : sum) + p->bytes;
    }
    return sum;
}

bool gpu_sample_is_active(const struct gpu_sample *s)
{
    return gpu_sample_value(s, GPU_FACT_BUSY, 0) > 0 &&
           gpu_sample_value(s, GPU_FACT_MEMORY_BUSY, 0) > 0;
}

bool gpu_sample_has_users(const struct gpu_sample *s)
{
    static const int64_t idle_bytes = INT64_C(1) << 30;
    return gpu_sample_value(s, GPU_FACT_MEMORY_USED, 0) >
           idle_bytes + gpu_sample_value(s, GPU_FACT_MEMORY_TOTAL, 0) / 64;
}
