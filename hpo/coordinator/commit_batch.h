/* turn - what one commit of the coordinator stands for: what is said to workers and shown to people
 * once it is on the disk.
 *
 * Pure: it keeps lists. Nobody is told the same twice in a turn, however often there is cause: one
 * that says much has little to read. */
#ifndef DROVER_COMMIT_BATCH_H
#define DROVER_COMMIT_BATCH_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/mem.h"
#include "hpo/scheduler/scheduler.h"
#include "hpo/transport/wire.h"

/* An effect that waits for the commit. */
struct turn_todo {
    enum wire_kind kind; /* WIRE_RUN, WIRE_HOLD, WIRE_STOP, WIRE_KILL, WIRE_ACK, WIRE_WHO */
    char worker[WIRE_WORKER_MAX + 1];
    int trial;
    int64_t lease, seq;
    json_t *params, *others; /* owned; NULL: none */
};

/* A record, for those who watch. */
struct turn_fact {
    enum sched_record_kind kind;
    int trial;
};

struct turn;
struct turn *turn_new(void);
void turn_free(struct turn *t);
AUTO_DEFINE(turn, struct turn *, turn_free)

/* `worker` is asked to say all again. */
void turn_who(struct turn *t, const char *worker);
/* `worker` is told that the lease's messages up to `seq` are stored: once, with the highest. */
void turn_ack(struct turn *t, const char *worker, int64_t lease, int64_t seq);
/* All but SCHED_ACT_END. */
void turn_act(struct turn *t, const struct sched_action *a);
void turn_fact(struct turn *t, const struct sched_record *r);

/* Whether all that follows are acknowledgements: they may wait for more. */
bool turn_can_wait(const struct turn *t);

/* In order; borrowed until turn_clear() or the next addition. NULL after the last. */
const struct turn_todo *turn_todo_at(const struct turn *t, size_t i);
const struct turn_fact *turn_fact_at(const struct turn *t, size_t i);
/* The next turn begins. */
void turn_clear(struct turn *t);

#endif
