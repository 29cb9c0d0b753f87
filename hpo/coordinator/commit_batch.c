#include "hpo/coordinator/commit_batch.h"

#include <string.h>

#include "common/fnv_hash.h"

struct commit_batch {
    struct commit_batch_effect *todo;
    size_t todo_count, todo_cap, ack_count;
    size_t *slots; /* a hash table of 2 todo_cap: places in `todo` from 1; 0: free */
    struct commit_batch_record *facts;
    size_t fact_count, fact_cap;
};

struct commit_batch *commit_batch_new(void)
{
    return xzalloc(sizeof(struct commit_batch));
}

void commit_batch_free(struct commit_batch *t)
{
    if (!t)
        return;
    commit_batch_clear(t);
    free(t->todo);
    free(t->slots);
    free(t->facts);
    free(t);
}

/* ---- what follows --------------------------------------------------------------------------- */

/* Of what makes two effects the same. */
static uint64_t hash(enum wire_kind kind, const char *worker, int64_t lease)
{
    uint64_t h = fnv_hash_bytes(fnv_hash_text(FNV_HASH_INIT, worker), &kind, sizeof kind);
    return fnv_hash_bytes(h, &lease, sizeof lease);
}

/* Where such an effect is noted, or would be. */
static size_t *slot_of(const struct commit_batch *t, enum wire_kind kind, const char *worker,
                       int64_t lease)
{
    size_t i = (size_t)(hash(kind, worker, lease) % (2 * t->todo_cap));
    for (; t->slots[i]; i = (i + 1) % (2 * t->todo_cap)) {
        const struct commit_batch_effect *d = &t->todo[t->slots[i] - 1];
        if (d->kind == kind && d->lease == lease && strcmp(d->worker, worker) == 0)
            break;
    }
    return &t->slots[i];
}

static void grow(struct commit_batch *t)
{
    t->todo_cap = t->todo_cap ? t->todo_cap * 2 : 64;
    t->todo = xrealloc(t->todo, t->todo_cap, sizeof *t->todo);
    free(t->slots);
    t->slots = xcalloc(2 * t->todo_cap, sizeof *t->slots);
    for (size_t i = 0; i < t->todo_count; i++)
        *slot_of(t, t->todo[i].kind, t->todo[i].worker, t->todo[i].lease) = i + 1;
}

static struct commit_batch_effect *add(struct commit_batch *t, enum wire_kind kind,
                                       const char *worker, int64_t lease)
{
    if (t->todo_count == t->todo_cap)
        grow(t);
    size_t *slot = slot_of(t, kind, worker, lease);
    if (*slot)
        return &t->todo[*slot - 1];
    struct commit_batch_effect *d = &t->todo[t->todo_count++];
    *d = (struct commit_batch_effect){.kind = kind, .lease = lease};
    snprintf(d->worker, sizeof d->worker, "%s", worker);
    *slot = t->todo_count;
    t->ack_count += kind == WIRE_ACK;
    return d;
}

void commit_batch_request_reconnect(struct commit_batch *t, const char *worker)
{
    (void)add(t, WIRE_RECONNECT, worker, 0); /* it has no more to it */
}

void commit_batch_ack(struct commit_batch *t, const char *worker, int64_t lease, int64_t seq)
{
    struct commit_batch_effect *d = add(t, WIRE_ACK, worker, lease);
    d->seq = seq > d->seq ? seq : d->seq;
}

void commit_batch_add_action(struct commit_batch *t, const struct scheduler_action *a)
{
    static const enum wire_kind kinds[] = {[SCHEDULER_ACT_RUN] = WIRE_RUN,
                                           [SCHEDULER_ACT_RESERVE] = WIRE_RESERVE,
                                           [SCHEDULER_ACT_STOP] = WIRE_STOP,
                                           [SCHEDULER_ACT_KILL] = WIRE_KILL};
    struct commit_batch_effect *d = add(t, kinds[a->kind], a->worker, a->lease);
    d->trial = a->trial;
    if (!d->params)
        d->params = json_incref(a->params);
    if (!d->others)
        d->others = json_incref(a->gang_nodes);
}

void commit_batch_record(struct commit_batch *t, const struct scheduler_record *r)
{
    if (t->fact_count == t->fact_cap) {
        t->fact_cap = t->fact_cap ? t->fact_cap * 2 : 16;
        t->facts = xrealloc(t->facts, t->fact_cap, sizeof *t->facts);
    }
    t->facts[t->fact_count++] = (struct commit_batch_record){r->kind, r->trial};
}

bool commit_batch_can_wait(const struct commit_batch *t)
{
    return t->todo_count == t->ack_count;
}

const struct commit_batch_effect *commit_batch_effect_at(const struct commit_batch *t, size_t i)
{
    return i < t->todo_count ? &t->todo[i] : NULL;
}

const struct commit_batch_record *commit_batch_record_at(const struct commit_batch *t, size_t i)
{
    return i < t->fact_count ? &t->facts[i] : NULL;
}

void commit_batch_clear(struct commit_batch *t)
{
    for (size_t i = 0; i < t->todo_count; i++) {
        json_decref(t->todo[i].params);
        json_decref(t->todo[i].others);
    }
    if (t->todo_count > 0)
        memset(t->slots, 0, 2 * t->todo_cap * sizeof *t->slots);
    t->todo_count = t->ack_count = t->fact_count = 0;
}
