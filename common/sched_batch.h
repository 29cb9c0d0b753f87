/* sched_batch - lets a process yield the processor to the processes that it supervises.
 *
 * With SCHED_BATCH (sched(7)) a thread that wakes up does not preempt a computing program, but
 * runs when that program's time slice ends, some milliseconds later at most. By then more events
 * have arrived, and one wake-up handles all of them. */
#ifndef DROVER_SCHED_BATCH_H
#define DROVER_SCHED_BATCH_H

/* Sets SCHED_BATCH for this thread and for the threads and processes that it starts before
 * sched_batch_end(). A thread with another policy than the default keeps it. May be used by one
 * thread only. */
void sched_batch_begin(void);
void sched_batch_end(void);

#endif
