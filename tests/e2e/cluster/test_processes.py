"""`drover run` over three nodes: what runs there besides the ranks, and how many connections the launcher holds. Both are
counted per node, however many ranks a node has."""
import os
import re
from collections import Counter
from pathlib import Path

import pytest
from cluster_kit import WITH_SSH
from waiting import wait_until

RANKS = "sleep 100 "
# What mpirun, srun and ssh themselves start on another node.
THEIRS = {"openmpi": {"sshd", "sshd-session", "orted", "sh", "bash"}, "slurm": {"slurmstepd"}, "ssh": {"sshd", "sshd-session"}}


def ranks_run(cluster, size):
    return wait_until(lambda: sum(p.command == RANKS for p in cluster.running().values()) == size or None, f"{size} ranks")


def sockets(pid):
    """Inodes of the sockets of a process."""
    found = set()
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        try:
            number = re.match(r"socket:\[(\d+)\]", os.readlink(fd))
        except OSError:
            continue
        if number:
            found.add(number[1])
    return found


def connections(pid):
    """How many connections over TCP a process has accepted."""
    own, listening, local_ports = sockets(pid), set(), []
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]:
            words = line.split()
            port, state, inode = words[1].rpartition(":")[2], words[3], words[9]
            if inode in own and state == "0A":
                listening.add(port)
            elif inode in own and state == "01":
                local_ports.append(port)
    return sum(port in listening for port in local_ports)


def drovers_on(cluster, node):
    return [p for p in cluster.running().values() if p.node == node.name and "drover" in p.name]


@WITH_SSH
@pytest.mark.parametrize("per_node", [2, 8])
def test_a_node_has_one_agent_and_the_launcher_one_connection_per_node(engine, per_node):
    cluster, size = engine.cluster, 3 * per_node
    job = engine.start("-np", size, "-N", per_node, "--oversubscribe", "sleep", "100")
    ranks_run(cluster, size)
    running = cluster.running().values()
    assert connections(job.pid) == len(cluster.nodes)
    for node in cluster.nodes[1:]:
        here = Counter("rank" if p.command == RANKS else "drover" if "drover" in p.name else p.name
                       for p in running if p.node == node.name)
        assert here.pop("rank") == per_node
        # the agent, its guardian, and the parent that mpirun, srun or sshd know
        assert here.pop("drover") == 3, here
        assert set(here) <= THEIRS[engine.name], here
    job.kill(15)
    job.end(20)
    cluster.nothing_left()
