/* agent - `drover rank` (rank_main.c): what mpirun or srun starts on a node for each rank of a job.
 *
 * Two processes. The parent is the one that mpirun knows: it ignores SIGTERM, waits for the other,
 * and always says 0, so that mpirun ends nothing on its own. The agent is in a session of its own,
 * with a guardian that has no keeper, as the parent ends what is left when both are killed: it
 * connects to the launcher, runs the rank as a local job of one, and forwards what happens.
 * mpirun's SIGKILL to the parent ends nothing either: the launcher is told, and ends the job. When
 * the launcher is gone or silent, the agent ends everything at once. */
#ifndef DROVER_AGENT_H
#define DROVER_AGENT_H

/* The agent, from its environment to its end. Called in a process without threads, which it
 * changes as it likes; returns the process's exit status. `parent` is a pipe, taken over, that is
 * at its end when the parent is. */
int agent_main(int parent);

#endif
