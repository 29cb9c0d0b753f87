#include "hpo/coordinator/message_dedup.h"

#include <string.h>

struct message_dedup_last { /* accepted message of a lease */
    int64_t seq;
    bool known; /* the lease exists */
    bool whole; /* no message before it is missing */
};

void message_dedup_clear(struct message_dedup *d)
{
    free(d->last);
    *d = (struct message_dedup){0};
}

static struct message_dedup_last *last_of(struct message_dedup *d, int64_t lease)
{
    size_t i = (size_t)lease;
    if (i >= d->cap) {
        size_t cap = (i + 1) * 2;
        d->last = xrealloc(d->last, cap, sizeof *d->last);
        memset(d->last + d->cap, 0, (cap - d->cap) * sizeof *d->last);
        d->cap = cap;
    }
    d->last[i].known = true;
    return &d->last[i];
}

void message_dedup_lease(struct message_dedup *d, int64_t lease)
{
    last_of(d, lease)->whole = true;
}

void message_dedup_replay(struct message_dedup *d, int64_t lease, int64_t seq)
{
    struct message_dedup_last *l = last_of(d, lease);
    l->seq = seq > l->seq ? seq : l->seq;
}

enum message_dedup_verdict message_dedup_check(struct message_dedup *d, int64_t lease, int64_t seq)
{
    struct message_dedup_last *l = (uint64_t)lease < d->cap ? &d->last[lease] : NULL;
    if (!l || !l->known || seq <= l->seq)
        return MESSAGE_DEDUP_DUPLICATE;
    if (l->whole && seq > l->seq + 1)
        return MESSAGE_DEDUP_GAP;
    l->seq = seq;
    l->whole = true;
    return MESSAGE_DEDUP_NEW;
}
