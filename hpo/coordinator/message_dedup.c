#include "hpo/coordinator/message_dedup.h"

#include <string.h>

struct last { /* of a lease's messages */
    int64_t seq;
    bool given; /* else there is no such lease */
    bool all;   /* none before it is missing */
};

struct taken {
    struct last *last; /* by lease */
    size_t cap;
};

struct taken *taken_new(void)
{
    return xzalloc(sizeof(struct taken));
}

void taken_free(struct taken *t)
{
    if (t)
        free(t->last);
    free(t);
}

static struct last *last_of(struct taken *t, int64_t lease)
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

void taken_lease(struct taken *t, int64_t lease)
{
    last_of(t, lease)->all = true;
}

void taken_replay(struct taken *t, int64_t lease, int64_t seq)
{
    struct last *l = last_of(t, lease);
    l->seq = seq > l->seq ? seq : l->seq;
}

enum taken_verdict taken_message(struct taken *t, int64_t lease, int64_t seq)
{
    struct last *l = (uint64_t)lease < t->cap ? &t->last[lease] : NULL;
    if (!l || !l->given || seq <= l->seq)
        return TAKEN_BEFORE;
    if (l->all && seq > l->seq + 1)
        return TAKEN_GAP;
    l->seq = seq;
    l->all = true;
    return TAKEN_NEW;
}
