#include "launcher/doctor/facts/gpu_findings.h"

#include <stdarg.h>

#include "common/mem.h"

void gpu_findings_free(struct gpu_findings *f)
{
    strbuf_free(&f->fail);
    strbuf_free(&f->warn);
}

enum { TEXT_MAX = 4000 }; /* bytes; a result is one message */

void gpu_findings_add(struct gpu_findings *f, enum check_state s, int gpu, const char *fmt, ...)
{
    struct strbuf *b = s == CHECK_FAIL ? &f->fail : &f->warn;
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

void gpu_findings_report(struct check_result *r, const struct gpu_findings *f, const char *want,
                         const char *source, const char *ok)
{
    if (f->fail.len)
        check_bad(r, CHECK_FAIL, want, source, "%s", strbuf_str(&f->fail));
    else if (f->warn.len)
        check_bad(r, CHECK_WARN, want, source, "%s", strbuf_str(&f->warn));
    else if (f->known)
        check_ok(r, source, "%s", ok);
    else
        check_skip(r, "%s is not available", source);
}

const struct gpu_sample *gpu_findings_facts(struct check_result *r, struct check_env *env,
                                            int *count)
{
    int gpu, ms;
    enum gpu_fact fact;
    const struct gpu_sample *g = gpu_health_read(env, count);
    if (g && !gpu_health_stuck(&gpu, &fact, &ms))
        return g;
    check_skip(r, g ? "a GPU does not answer" : "no GPU");
    return NULL;
}
