/* sched_batch - lets a process yield the processor to the processes that it supervises.
 *
 * With SCHED_BATCH (sched(7)) a thread that wakes up does not preempt a computing program. It runs
 * when the time slice of that program ends, at most some milliseconds later. By then more events
 * have arrived, and one wake-up handles all of them. */
#pragma once

/* Sets SCHED_BATCH for this thread and for the threads and processes that it starts before
 * sched_batch_end(). Has no effect if the thread's policy is not the default one. Only one thread
 * of a process may call this. */
void sched_batch_begin(void);
void sched_batch_end(void);
