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

bool gpu_sample_has_users(const struct gpu_sample *s)
{
    static const int64_t idle_bytes = INT64_C(1) << 30;
    return gpu_sample_value(s, GPU_FACT_MEMORY_USED, 0) >
           idle_bytes + gpu_sample_value(s, GPU_FACT_MEMORY_TOTAL, 0) / 64;
}
