/* agent - the process that starts and watches one rank on its node: `drover rank`.
 *
 * mpirun or srun starts `drover rank` once per rank. `drover rank` consists of two processes: a
 * parent (rank_main.c) and the agent. mpirun knows only the parent. The parent ignores SIGTERM,
 * waits for the agent, and always exits with status 0, so that mpirun never ends the job by itself.
 * The agent is in a session of its own. It connects to the launcher, runs its rank as a local job
 * with one rank, and forwards the events of this job. The agent's guardian has no monitor: the
 * parent cleans up if the agent and the guardian are killed.
 *
 * If mpirun sends SIGKILL to the parent, the agent survives and tells the launcher, which ends the
 * job. If the connection to the launcher ends or is silent, the agent immediately kills the rank
 * and its process tree. */
#ifndef DROVER_AGENT_H
#define DROVER_AGENT_H

/* Runs the agent until the launcher releases it or disconnects. Returns the exit status of the
 * process. The process must not have other threads; the agent changes its properties. Takes over
 * `parent_fd`, a pipe whose other end closes when the parent dies. */
int agent_main(int parent_fd);

#endif
