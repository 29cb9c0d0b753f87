#include "launcher/doctor/facts/gpu_health.h"

#include <poll.h>
#include <stdarg.h>

#include "common/clock.h"

enum {
    DEADLINE_MS = 1000,
    RESERVE_MS = 50, /* of a check's deadline, to report a call that does not return */
    GROWTH_MS = 300,
    TEXT_MAX = 4000 /* bytes of findings; a result is one message */
};

/* The state of the process of the checks. */
static struct {
    struct gpu_sampler *sampler;
    const struct gpu_sample *gpus; /* NULL: not read */
    int count, waited_ms;
    int64_t end_ms;
    bool stuck;
} health;

static int deadline_of(const struct check_env *env)
{
    return env->deadline_ms ? env->deadline_ms : DEADLINE_MS;
}

static int nothing(const struct nvml *n, void *inout, struct err *e)
{
    return 0;
}

int gpu_health_open(const struct check_env *env, struct err *why)
{
    const struct gpu_sampler_opts o = {.purposes = GPU_HEALTH |
                                                   (env->least == CHECK_LONG ? GPU_HEALTH_LONG : 0),
                                       .only = env->gpus};
    if (env->driver_failed || (!health.sampler && gpu_sampler_open(&health.sampler, &o, NULL) < 0))
        return -1;
    int code = gpu_sampler_init_code(health.sampler);
    if (code == NVML_SUCCESS)
        return code;
    /* A check that waits for longer than its deadline fails without a result. */
    (void)gpu_sampler_call(health.sampler, nothing, NULL, 0, 2 * deadline_of(env), why);
    return gpu_sampler_init_code(health.sampler);
}

const struct gpu_sample *gpu_health_read(const struct check_env *env, int *count)
{
    *count = 0;
    if (gpu_health_open(env, NULL) != NVML_SUCCESS)
        return NULL;
    if (!health.gpus) {
        int64_t begin = clock_ms();
        health.stuck = gpu_sampler_read(health.sampler, &health.gpus, &health.count,
                                        deadline_of(env) - RESERVE_MS, NULL) < 0;
        health.end_ms = clock_ms();
        health.waited_ms = (int)(health.end_ms - begin);
    }
    *count = health.count < GPU_HEALTH_GPUS_MAX ? health.count : GPU_HEALTH_GPUS_MAX;
    return *count || health.stuck ? health.gpus : NULL;
}

bool gpu_health_stuck(int *gpu, enum gpu_fact *fact, int *waited_ms)
{
    *fact = gpu_sampler_at(health.sampler, gpu);
    *waited_ms = health.waited_ms;
    return health.stuck;
}

bool gpu_health_get(long long *out, const struct gpu_sample *s, enum gpu_fact f)
{
    if (out)
        *out = gpu_sample_value(s, f, *out);
    return s->known[f];
}

bool gpu_health_call(gpu_sampler_fn *fn, void *inout, size_t size)
{
    return gpu_sampler_call(health.sampler, fn, inout, size, DEADLINE_MS, NULL) == 0;
}

struct again {
    enum gpu_fact fact;
    int index;
    int64_t links; /* the active ones, which errors of links are read from */
    bool known;
    int64_t value;
};

static int read_again(const struct nvml *n, void *inout, struct err *e)
{
    struct again *a = inout;
    struct gpu_sample s = {.gpu = {.index = a->index}};
    nvml_device d = NULL;
    gpu_sample_set(&s, GPU_FACT_NVLINKS_ACTIVE, a->links);
    if (n->by_index((unsigned)a->index, &d) == NVML_SUCCESS)
        gpu_facts_read_one(n, d, &s, a->fact);
    a->known = gpu_sample_get(&a->value, &s, a->fact);
    return 0;
}

bool gpu_health_again(long long *out, const struct gpu_sample *s, enum gpu_fact f)
{
    struct again a = {
        .fact = f, .index = s->gpu.index, .links = gpu_sample_value(s, GPU_FACT_NVLINKS_ACTIVE, 0)};
    if (!gpu_health_call(read_again, &a, sizeof a) || !a.known)
        return false;
    *out = a.value;
    return true;
}

void gpu_health_let_counters_grow(const struct check_env *env)
{
    int64_t left = health.end_ms + (env->growth_ms ? env->growth_ms : GROWTH_MS) - clock_ms();
    if (left > 0)
        (void)poll(NULL, 0, (int)left); /* a signal only makes the wait shorter */
}

/* ---- findings ------------------------------------------------------------------------------- */

void gpu_health_free(struct gpu_health *h)
{
    strbuf_free(&h->fail);
    strbuf_free(&h->warn);
}

void gpu_health_add(struct gpu_health *h, enum check_state s, int gpu, const char *fmt, ...)
{
    struct strbuf *b = s == CHECK_FAIL ? &h->fail : &h->warn;
    if (b->len > TEXT_MAX)
        return;
    va_list args;
    va_start(args, fmt);
    AUTO(free) char *text = xvasprintf(fmt, args);
    va_end(args);
    strbuf_puts(b, b->len ? "; " : "");
    if (gpu >= 0)
        strbuf_printf(b, "GPU %d: ", gpu);
    strbuf_puts(b, text);
    if (b->len > TEXT_MAX)
        strbuf_puts(b, "; and others");
}

void gpu_health_report(struct check_result *r, const struct gpu_health *h, const char *want,
                       const char *source, const char *ok)
{
    if (h->fail.len)
        check_bad(r, CHECK_FAIL, want, source, "%s", strbuf_str(&h->fail));
    else if (h->warn.len)
        check_bad(r, CHECK_WARN, want, source, "%s", strbuf_str(&h->warn));
    else if (h->known)
        check_ok(r, source, "%s", ok);
    else
        check_skip(r, "%s is not available", source);
}

bool gpu_health_begin(struct gpu_health *h, struct check_result *r, const struct check_env *env)
{
    int gpu, ms;
    enum gpu_fact fact;
    h->env = env;
    h->gpus = gpu_health_read(env, &h->count);
    if (h->gpus && !gpu_health_stuck(&gpu, &fact, &ms))
        return true;
    check_skip(r, h->gpus ? "a GPU does not answer" : "no GPU");
    return false;
}

void gpu_health_check_each(struct check_result *r, struct check_env *env)
{
    const struct gpu_health_check *c = env->row->each;
    AUTO(gpu_health) struct gpu_health h = {0};
    if (!gpu_health_begin(&h, r, env))
        return;
    for (int i = 0; i < h.count; i++)
        c->look(&h, &h.gpus[i], i);
    if (c->none && !h.known)
        check_skip(r, "%s", c->none);
    else
        gpu_health_report(r, &h, c->want, gpu_rows[c->source].function, c->ok);
}
