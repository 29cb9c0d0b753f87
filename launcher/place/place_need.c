#include "launcher/place/place_need.h"

#include "common/strbuf.h"

int place_need_batch(const struct place_job *j, int gpus)
{
    if (j->batch_per_gpu)
        return j->batch_per_gpu;
    return j->batch ? (j->batch + gpus - 1) / gpus : 1;
}

int place_need_of(struct place_need *out, const struct place_job *j, int gpus, struct err *e)
{
    *out = (struct place_need){.known = j->memory_bytes > 0 || j->has_model};
    out->low_bytes = out->high_bytes = j->memory_bytes;
    if (j->memory_bytes > 0 || !j->has_model)
        return 0;
    struct estimate_opts o = j->model;
    o.batch = place_need_batch(j, gpus);
    o.ranks = gpus;
    int rc = estimate_job(&out->estimate, &o, e);
    if (rc < 0)
        return err_wrap(e, "estimate");
    estimate_correct(&out->estimate, j->peaks, j->peak_count);
    out->estimated = true;
    out->low_bytes = out->estimate.low_bytes;
    out->high_bytes = out->estimate.high_bytes;
    return 0;
}

uint64_t place_need_usable(const struct place_job *j, uint64_t gpu_bytes)
{
    return (uint64_t)((double)gpu_bytes * j->memory_threshold);
}

int place_need_advise(const struct place_need *n, const struct place_job *j, uint64_t gpu_bytes,
                      struct err *e)
{
    if (!n->estimated)
        return e->code;
    AUTO(strv) char **lines = estimate_advice(&n->estimate, place_need_usable(j, gpu_bytes));
    AUTO(strbuf) struct strbuf b = {0};
    for (char **l = lines; l && *l && b.len < 160; l++)
        strbuf_printf(&b, "%s%s", b.len ? "; or " : "", *l);
    return b.len ? err_hint(e, "%s", strbuf_str(&b)) : e->code;
}
