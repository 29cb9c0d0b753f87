#include "hpo/reader/sweep_status.h"

#include <stddef.h>

#include "common/utf8.h"
#include "hpo/trial/stop_reason.h"

static const char *known(const char *text)
{
    return text && *text ? text : NULL;
}

struct sweep_status sweep_status_of(const struct sweep_status_facts *f)
{
    if (f->stopped)
        return (struct sweep_status){"stopped", stop_reason_text(STOP_REASON_STOP)};
    if (!f->coordinated && f->done)
        return (struct sweep_status){"finished", known(f->ended)};
    if (f->paused || f->coordinated)
        return (struct sweep_status){f->paused ? "paused" : "running", NULL};
    const char *left = known(f->left);
    return (struct sweep_status){"stopped", left ? left : "no coordinator runs"};
}

void sweep_status_text(struct strbuf *out, const struct sweep_status *s)
{
    strbuf_puts(out, s->state);
    if (!s->reason)
        return;
    strbuf_puts(out, ": ");
    utf8_add_line(out, s->reason);
}
