/* agent - the process that starts and watches the ranks of one node, for a launcher on another.
 *
 * mpirun, srun, ssh or a sweep's worker starts `drover agent` once per node. `drover agent`
 * consists of two processes: a parent (cmd_agent.c) and the agent. mpirun knows only the parent.
 * The parent ignores SIGTERM, waits for the agent, and always exits with status 0, so that mpirun
 * never ends the job by itself. The agent is in a session of its own. It connects to the launcher,
 * runs the ranks of its node as one local job, serves PMIx to them, and forwards the events of this
 * job. The agent's guardian has no monitor: the parent cleans up if the agent and the guardian are
 * killed.
 *
 * If mpirun sends SIGKILL to the parent, the agent survives and tells the launcher, which ends the
 * job. If the connection to the launcher ends or is silent, the agent immediately kills the ranks
 * and their process trees. */
#pragma once

/* Runs the agent until the launcher releases it or disconnects. Returns the exit status of the
 * process. The process must not have other threads; the agent changes its properties and its
 * environment. Takes over `parent_fd`, a pipe whose other end closes when the parent dies. */
int agent_main(int parent_fd);
