/* agent - the process that starts and watches one rank on its node: `drover rank`.
 *
 * mpirun or srun starts `drover rank` per rank. It consists of two processes. The parent
 * (rank_main.c) is the one that mpirun knows: it ignores SIGTERM, waits for the agent, and exits
 * with 0 whatever happens, so that mpirun ends nothing by itself. The agent is in a session of its
 * own. It connects to the launcher, runs the rank as a local job of one, and forwards its events.
 * Its guardian has no monitor, since the parent cleans up if both are killed.
 *
 * mpirun's SIGKILL to the parent ends nothing either: the agent tells the launcher, which ends the
 * job. If the connection to the launcher ends or is silent, the agent kills everything at once. */
#ifndef DROVER_AGENT_H
#define DROVER_AGENT_H

/* Runs the agent until the launcher releases it or disconnects. Returns the exit status of the
 * process. The process must have no threads and may be changed. Takes over `parent_fd`, a pipe
 * whose other end closes when the parent dies. */
int agent_main(int parent_fd);

#endif
