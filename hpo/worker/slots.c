#include "hpo/worker/slots.h"

#include <string.h>

#include "common/strbuf.h"
#include "launcher/node/port_hold.h"

struct slot {
    const void *owner;   /* NULL: free */
    int port_fd;         /* holds the slice's port; -1: the port is not held */
    int64_t released_ms; /* the last time */
    bool blocked;
};

struct slots {
    struct node_slice *slices;
    struct slot *at;
    int count;
    char **blocked_gpus; /* strv: those that foreign processes use */
};

int slots_new(struct slots **out, const struct topo *t, const struct node_slice_opts *opts,
              struct err *e)
{
    AUTO(slots) struct slots *s = xzalloc(sizeof *s);
    int rc = node_slice_make(&s->slices, &s->count, t, opts, e);
    if (rc < 0)
        return rc;
    s->at = xcalloc((size_t)s->count, sizeof *s->at);
    for (int i = 0; i < s->count; i++) {
        s->at[i].released_ms = INT64_MIN;
        s->at[i].port_fd = -1;
        (void)port_hold(&s->at[i].port_fd, &s->slices[i].port, 0,
                        NULL); /* without a port, the launch of the trial reports the cause */
    }
    *out = TAKE(s);
    return 0;
}

void slots_free(struct slots *s)
{
    if (!s)
        return;
    node_slice_free(s->slices, s->count);
    for (int i = 0; i < s->count; i++)
        auto_fd(&s->at[i].port_fd);
    strv_free(s->blocked_gpus);
    free(s->at);
    free(s);
}

/* Trials on the GPUs of slot i. Slices that share one GPU have the same list. */
static int trials_on_gpus_of(const struct slots *s, int i)
{
    int n = 0;
    for (int k = 0; s->slices[i].gpus && k < s->count; k++)
        n += s->at[k].owner && strcmp(s->slices[k].gpus, s->slices[i].gpus) == 0;
    return n;
}

const struct node_slice *slots_acquire(struct slots *s, const void *owner)
{
    int best = -1, fewest = 0;
    for (int i = 0; i < s->count && (best < 0 || fewest > 0); i++) {
        if (s->at[i].owner || s->at[i].blocked)
            continue;
        int trials = trials_on_gpus_of(s, i);
        if (best < 0 || trials < fewest) {
            best = i;
            fewest = trials;
        }
    }
    if (best < 0)
        return NULL;
    s->at[best].owner = owner;
    return &s->slices[best];
}

bool slots_release(struct slots *s, const void *owner, int64_t now_ms)
{
    bool found = false;
    for (int i = 0; i < s->count; i++)
        if (s->at[i].owner == owner) {
            s->at[i].owner = NULL;
            s->at[i].released_ms = now_ms;
            found = true;
        }
    return found;
}

int slots_usable(const struct slots *s)
{
    int n = 0;
    for (int i = 0; i < s->count; i++)
        n += s->at[i].owner || !s->at[i].blocked;
    return n;
}

bool slots_have_gpus(const struct slots *s)
{
    return s->slices[0].gpus && s->slices[0].gpus[0];
}

/* ---- foreign processes ---------------------------------------------------------------------- */

/* Whether the process blocks a GPU of this worker. Memory whose user is unknown may belong to a
 * trial that ran after the driver was asked. */
static bool blocks(const struct slots *s, const struct foreign_gpu_process *p, int64_t asked_ms)
{
    bool found = false;
    for (int i = 0; i < s->count; i++) {
        if (!node_slice_has_gpu(&s->slices[i], p->uuid))
            continue;
        found = true;
        if (!p->seen && (s->at[i].owner || s->at[i].released_ms >= asked_ms))
            return false;
    }
    return found;
}

char *slots_set_foreign(struct slots *s, const struct foreign_gpu_process *list, int count,
                        int64_t asked_ms)
{
    AUTO(strv) char **before = TAKE(s->blocked_gpus);
    AUTO(strbuf) struct strbuf b = {0};
    for (int i = 0; i < s->count; i++)
        s->at[i].blocked = false;
    for (int k = 0; k < count; k++) {
        const struct foreign_gpu_process *p = &list[k];
        if (!blocks(s, p, asked_ms))
            continue;
        strv_push(&s->blocked_gpus, xstrdup(p->uuid));
        for (int i = 0; i < s->count; i++)
            s->at[i].blocked |= node_slice_has_gpu(&s->slices[i], p->uuid);
        if (!strv_has((const char *const *)before, p->uuid))
            strbuf_printf(&b, "%s%s is left out: %s", b.len ? "; " : "", p->uuid, p->text);
    }
    for (char **u = before; u && *u; u++)
        if (!strv_has((const char *const *)s->blocked_gpus, *u))
            strbuf_printf(&b, "%s%s is used again", b.len ? "; " : "", *u);
    return b.len ? strbuf_take(&b) : NULL;
}
