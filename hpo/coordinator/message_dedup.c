#include "hpo/coordinator/message_dedup.h"

#include <string.h>

struct last { /* of a lease's messages */
    int64_t seq;
    bool given; /* else there is no such lease */
    bool all;   /* none before it is missing */
};

struct message_dedup {
    struct last *last; /* by lease */
    size_t cap;
};

struct message_dedup *message_dedup_new(void)
{
    return xzalloc(sizeof(struct message_dedup));
}

void message_dedup_free(struct message_dedup *t)
{
    if (t)
        free(t->last);
    free(t);
}

static struct last *last_of(struct message_dedup *t, int64_t lease)
{
    size_t i = (size_t)lease;
    if (i >= t->cap) {
        size_t cap = (i + 1) * 2;
        t->last = xrealloc(t->last, cap, sizeof *t->last);
        memset(t->last + t->cap, 0, (cap - t->cap) * sizeof *t->last);
        t->cap = cap;
    }
    t->last[i].given = true;
    return &t->last[i];
}

void message_dedup_lease(struct message_dedup *t, int64_t lease)
{
    last_of(t, lease)->all = true;
}

void message_dedup_replay(struct message_dedup *t, int64_t lease, int64_t seq)
{
    struct last *l = last_of(t, lease);
    l->seq = seq > l->seq ? seq : l->seq;
}

enum message_dedup_verdict message_dedup_check(struct message_dedup *t, int64_t lease, int64_t seq)
{
    struct last *l = (uint64_t)lease < t->cap ? &t->last[lease] : NULL;
    if (!l || !l->given || seq <= l->seq)
        return MESSAGE_DEDUP_DUPLICATE;
    if (l->all && seq > l->seq + 1)
        return MESSAGE_DEDUP_GAP;
    l->seq = seq;
    l->all = true;
    return MESSAGE_DEDUP_NEW;
}
