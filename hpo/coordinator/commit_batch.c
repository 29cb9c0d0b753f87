#include "hpo/coordinator/commit_batch.h"

#include <string.h>

#include "common/fnv_hash.h"

struct turn {
    struct turn_todo *todo;
    size_t todo_count, todo_cap, ack_count;
    size_t *slots; /* a hash table of 2 todo_cap: places in `todo` from 1; 0: free */
    struct turn_fact *facts;
    size_t fact_count, fact_cap;
};

struct turn *turn_new(void)
{
    return xzalloc(sizeof(struct turn));
}

void turn_free(struct turn *t)
{
    if (!t)
        return;
    turn_clear(t);
    free(t->todo);
    free(t->slots);
    free(t->facts);
    free(t);
}

/* ---- what follows --------------------------------------------------------------------------- */

/* Of what makes two effects the same. */
static uint64_t hash(enum wire_kind kind, const char *worker, int64_t lease)
{
    uint64_t h = fnv_bytes(fnv_add(FNV_START, worker), &kind, sizeof kind);
    return fnv_bytes(h, &lease, sizeof lease);
}

/* Where such an effect is noted, or would be. */
static size_t *slot_of(const struct turn *t, enum wire_kind kind, const char *worker, int64_t lease)
{
    size_t i = (size_t)(hash(kind, worker, lease) % (2 * t->todo_cap));
    for (; t->slots[i]; i = (i + 1) % (2 * t->todo_cap)) {
        const struct turn_todo *d = &t->todo[t->slots[i] - 1];
        if (d->kind == kind && d->lease == lease && strcmp(d->worker, worker) == 0)
            break;
    }
    return &t->slots[i];
}

static void grow(struct turn *t)
{
    t->todo_cap = t->todo_cap ? t->todo_cap * 2 : 64;
    t->todo = xrealloc(t->todo, t->todo_cap, sizeof *t->todo);
    free(t->slots);
    t->slots = xcalloc(2 * t->todo_cap, sizeof *t->slots);
    for (size_t i = 0; i < t->todo_count; i++)
        *slot_of(t, t->todo[i].kind, t->todo[i].worker, t->todo[i].lease) = i + 1;
}

static struct turn_todo *add(struct turn *t, enum wire_kind kind, const char *worker, int64_t lease)
{
    if (t->todo_count == t->todo_cap)
        grow(t);
    size_t *slot = slot_of(t, kind, worker, lease);
    if (*slot)
        return &t->todo[*slot - 1];
    struct turn_todo *d = &t->todo[t->todo_count++];
    *d = (struct turn_todo){.kind = kind, .lease = lease};
    snprintf(d->worker, sizeof d->worker, "%s", worker);
    *slot = t->todo_count;
    t->ack_count += kind == WIRE_ACK;
    return d;
}

void turn_who(struct turn *t, const char *worker)
{
    (void)add(t, WIRE_WHO, worker, 0); /* it has no more to it */
}

void turn_ack(struct turn *t, const char *worker, int64_t lease, int64_t seq)
{
    struct turn_todo *d = add(t, WIRE_ACK, worker, lease);
    d->seq = seq > d->seq ? seq : d->seq;
}

void turn_act(struct turn *t, const struct sched_action *a)
{
    static const enum wire_kind kinds[] = {[SCHED_ACT_RUN] = WIRE_RUN,
                                           [SCHED_ACT_HOLD] = WIRE_HOLD,
                                           [SCHED_ACT_STOP] = WIRE_STOP,
                                           [SCHED_ACT_KILL] = WIRE_KILL};
    struct turn_todo *d = add(t, kinds[a->kind], a->worker, a->lease);
    d->trial = a->trial;
    if (!d->params)
        d->params = json_incref(a->params);
    if (!d->others)
        d->others = json_incref(a->others);
}

void turn_fact(struct turn *t, const struct sched_record *r)
{
    if (t->fact_count == t->fact_cap) {
        t->fact_cap = t->fact_cap ? t->fact_cap * 2 : 16;
        t->facts = xrealloc(t->facts, t->fact_cap, sizeof *t->facts);
    }
    t->facts[t->fact_count++] = (struct turn_fact){r->kind, r->trial};
}

bool turn_can_wait(const struct turn *t)
{
    return t->todo_count == t->ack_count;
}

const struct turn_todo *turn_todo_at(const struct turn *t, size_t i)
{
    return i < t->todo_count ? &t->todo[i] : NULL;
}

const struct turn_fact *turn_fact_at(const struct turn *t, size_t i)
{
    return i < t->fact_count ? &t->facts[i] : NULL;
}

void turn_clear(struct turn *t)
{
    for (size_t i = 0; i < t->todo_count; i++) {
        json_decref(t->todo[i].params);
        json_decref(t->todo[i].others);
    }
    if (t->todo_count > 0)
        memset(t->slots, 0, 2 * t->todo_cap * sizeof *t->slots);
    t->todo_count = t->ack_count = t->fact_count = 0;
}
