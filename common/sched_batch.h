/* gentle - processes that give way to those that they look after.
 *
 * SCHED_BATCH (sched(7)): who wakes does not take the processor from a program that computes, but
 * comes as soon as its turn is over, some milliseconds at most. Until then more has arrived, and
 * one wake-up does for all of it. */
#ifndef DROVER_SCHED_BATCH_H
#define DROVER_SCHED_BATCH_H

/* For this thread and what it starts from now on: threads, and processes too, where
 * sched_batch_end() does not come first. Whoever was started with another policy than the usual one
 * keeps it. Of one thread only. */
void sched_batch_begin(void);
void sched_batch_end(void);

#endif
