#include "hpo/coordinator/commit_batch.h"

#include <string.h>

#include "common/fnv_hash.h"

void commit_batch_free(struct commit_batch *b)
{
    commit_batch_clear(b);
    free(b->effects);
    free(b->table);
    free(b->records);
}

/* ---- effects -------------------------------------------------------------------------------- */

/* Hashes the key of an effect. Effects with the same kind, worker and lease are merged. */
static uint64_t hash(enum wire_kind kind, const char *worker, int64_t lease)
{
    uint64_t h = fnv_hash_bytes(fnv_hash_text(FNV_HASH_INIT, worker), &kind, sizeof kind);
    return fnv_hash_bytes(h, &lease, sizeof lease);
}

/* The entry of the hash table for such an effect; 0 in it: there is none yet. */
static size_t *entry_of(const struct commit_batch *b, enum wire_kind kind, const char *worker,
                        int64_t lease)
{
    size_t i = (size_t)(hash(kind, worker, lease) % (2 * b->effect_cap));
    for (; b->table[i]; i = (i + 1) % (2 * b->effect_cap)) {
        const struct commit_batch_effect *effect = &b->effects[b->table[i] - 1];
        if (effect->kind == kind && effect->lease == lease && strcmp(effect->worker, worker) == 0)
            break;
    }
    return &b->table[i];
}

static void grow(struct commit_batch *b)
{
    b->effect_cap = b->effect_cap ? b->effect_cap * 2 : 64;
    b->effects = xrealloc(b->effects, b->effect_cap, sizeof *b->effects);
    free(b->table);
    b->table = xcalloc(2 * b->effect_cap, sizeof *b->table);
    for (size_t i = 0; i < b->effect_count; i++)
        *entry_of(b, b->effects[i].kind, b->effects[i].worker, b->effects[i].lease) = i + 1;
}

static struct commit_batch_effect *add(struct commit_batch *b, enum wire_kind kind,
                                       const char *worker, int64_t lease)
{
    if (b->effect_count == b->effect_cap)
        grow(b);
    size_t *entry = entry_of(b, kind, worker, lease);
    if (*entry)
        return &b->effects[*entry - 1];
    struct commit_batch_effect *effect = &b->effects[b->effect_count++];
    *effect = (struct commit_batch_effect){.kind = kind, .lease = lease};
    snprintf(effect->worker, sizeof effect->worker, "%s", worker);
    *entry = b->effect_count;
    b->ack_count += kind == WIRE_ACK;
    return effect;
}

void commit_batch_request_reconnect(struct commit_batch *b, const char *worker)
{
    (void)add(b, WIRE_RECONNECT, worker, 0); /* it has no lease and no number */
}

void commit_batch_ack(struct commit_batch *b, const char *worker, int64_t lease, int64_t seq)
{
    struct commit_batch_effect *effect = add(b, WIRE_ACK, worker, lease);
    effect->seq = seq > effect->seq ? seq : effect->seq;
}

void commit_batch_add_action(struct commit_batch *b, const struct scheduler_action *a)
{
    static const enum wire_kind kinds[] = {[SCHEDULER_ACT_RUN] = WIRE_RUN,
                                           [SCHEDULER_ACT_RESERVE] = WIRE_RESERVE,
                                           [SCHEDULER_ACT_STOP] = WIRE_STOP,
                                           [SCHEDULER_ACT_KILL] = WIRE_KILL,
                                           [SCHEDULER_ACT_TEST] = WIRE_TEST};
    struct commit_batch_effect *effect = add(b, kinds[a->kind], a->worker, a->lease);
    effect->trial = a->trial;
    if (!effect->params)
        effect->params = json_incref(a->params);
    if (!effect->peers)
        effect->peers = json_incref(a->gang_nodes);
}

void commit_batch_record(struct commit_batch *b, const struct scheduler_record *r)
{
    b->records = xgrow(b->records, b->record_count, sizeof *b->records);
    b->records[b->record_count++] = (struct commit_batch_record){r->kind, r->trial};
}

void commit_batch_clear(struct commit_batch *b)
{
    for (size_t i = 0; i < b->effect_count; i++) {
        json_decref(b->effects[i].params);
        json_decref(b->effects[i].peers);
    }
    if (b->effect_count > 0)
        memset(b->table, 0, 2 * b->effect_cap * sizeof *b->table);
    b->effect_count = b->ack_count = b->record_count = 0;
}
