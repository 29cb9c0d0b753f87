#include "hpo/worker/slots.h"

#include <string.h>

#include "common/strbuf.h"
#include "launcher/node/port_hold.h"

struct place {
    const void *who;  /* NULL: free */
    int port_fd;      /* holds its share's port; -1: nothing does */
    int64_t freed_ms; /* when it was given back last */
    bool blocked;
};

struct slots {
    struct node_slice *shares;
    struct place *at;
    int count;
    char **left_out; /* strv: the GPUs that strangers have */
};

int slots_new(struct slots **out, const struct topo *t, const struct node_slice_opts *w,
              struct err *e)
{
    AUTO(slots) struct slots *p = xzalloc(sizeof *p);
    int rc = node_slice_make(&p->shares, &p->count, t, w, e);
    if (rc < 0)
        return rc;
    p->at = xcalloc((size_t)p->count, sizeof *p->at);
    for (int i = 0; i < p->count; i++) {
        p->at[i].freed_ms = INT64_MIN;
        p->at[i].port_fd = -1;
        (void)port_hold(&p->at[i].port_fd, &p->shares[i].port, 0,
                        NULL); /* else the trial says why */
    }
    *out = TAKE(p);
    return 0;
}

void slots_free(struct slots *p)
{
    if (!p)
        return;
    node_slice_free(p->shares, p->count);
    for (int i = 0; i < p->count; i++)
        auto_fd(&p->at[i].port_fd);
    strv_free(p->left_out);
    free(p->at);
    free(p);
}

/* Trials on the GPUs of place i. Parts of one GPU have the same list. */
static int trials_beside(const struct slots *p, int i)
{
    int n = 0;
    for (int k = 0; p->shares[i].gpus && k < p->count; k++)
        n += p->at[k].who && strcmp(p->shares[k].gpus, p->shares[i].gpus) == 0;
    return n;
}

const struct node_slice *slots_acquire(struct slots *p, const void *who)
{
    int best = -1, fewest = 0;
    for (int i = 0; i < p->count && (best < 0 || fewest > 0); i++) {
        if (p->at[i].who || p->at[i].blocked)
            continue;
        int beside = trials_beside(p, i);
        if (best < 0 || beside < fewest) {
            best = i;
            fewest = beside;
        }
    }
    if (best < 0)
        return NULL;
    p->at[best].who = who;
    return &p->shares[best];
}

void slots_release(struct slots *p, const void *who, int64_t now_ms)
{
    for (int i = 0; i < p->count; i++)
        if (p->at[i].who == who) {
            p->at[i].who = NULL;
            p->at[i].freed_ms = now_ms;
        }
}

int slots_usable(const struct slots *p)
{
    int n = 0;
    for (int i = 0; i < p->count; i++)
        n += p->at[i].who || !p->at[i].blocked;
    return n;
}

bool slots_have_gpus(const struct slots *p)
{
    return p->shares[0].gpus && p->shares[0].gpus[0];
}

/* ---- strangers ------------------------------------------------------------------------------ */

/* Whether the stranger has it for itself. */
static bool takes(const struct slots *p, const struct foreign_gpu_process *s, int64_t asked_ms)
{
    bool has = false;
    for (int i = 0; i < p->count; i++) {
        if (!node_slice_has_gpu(&p->shares[i], s->uuid))
            continue;
        has = true;
        if (!s->seen && (p->at[i].who || p->at[i].freed_ms >= asked_ms))
            return false;
    }
    return has;
}

static bool listed(char *const *names, const char *name)
{
    for (; names && *names; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

char *slots_set_foreign(struct slots *p, const struct foreign_gpu_process *list, int count,
                        int64_t asked_ms)
{
    AUTO(strv) char **before = TAKE(p->left_out);
    AUTO(strbuf) struct strbuf b = {0};
    for (int i = 0; i < p->count; i++)
        p->at[i].blocked = false;
    for (int k = 0; k < count; k++) {
        const struct foreign_gpu_process *s = &list[k];
        if (!takes(p, s, asked_ms))
            continue;
        strv_push(&p->left_out, xstrdup(s->uuid));
        for (int i = 0; i < p->count; i++)
            p->at[i].blocked |= node_slice_has_gpu(&p->shares[i], s->uuid);
        if (!listed(before, s->uuid))
            strbuf_printf(&b, "%s%s is left out: %s", b.len ? "; " : "", s->uuid, s->who);
    }
    for (char **u = before; u && *u; u++)
        if (!listed(p->left_out, *u))
            strbuf_printf(&b, "%s%s is taken up again", b.len ? "; " : "", *u);
    return b.len ? strbuf_take(&b) : NULL;
}
