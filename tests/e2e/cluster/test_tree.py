"""`drover run` over three nodes whose agents are a chain (--tree-radix 1): the launcher reaches node 3 through node 2, and
node 2 through node 1."""
import os
import re
import signal
import time

import pytest
from cluster_kit import Engine
from conftest import BUILD, compile_c
from test_nodes import MPI
from waiting import wait_until

CHAIN = ["--tree-radix", "1", "--grace", "2"]
SLEEP = ["sh", "-c", "exec sleep 100"]
LOST_AFTER = 3


@pytest.fixture(name="engine", params=["ssh", "openmpi"])
def make_engine(cluster, request):
    e = Engine(cluster, request.param)
    yield e
    e.close()
    cluster.nothing_left()


def agent_on(cluster, name):
    """The agent of a node: its child is the guardian, and its parent is what the launcher has started."""
    parts = {p.pid: p for p in cluster.running().values() if p.node == name and "/drover agent" in p.command and "drover" in p.name}
    (found,) = [p for p in parts.values() if p.parent in parts and any(c.parent == p.pid for c in parts.values())]
    return found.pid


def test_a_job_has_its_ranks_its_output_and_its_failure(engine):
    status, out, err = engine.run(*CHAIN, "-np", "6", "sh", "-c", "echo $RANK of $WORLD_SIZE")
    assert (status, sorted(out.splitlines()), err) == (0, [f"{r} of 6" for r in range(6)], "")
    status, _, err = engine.run(*CHAIN, "-np", "6", "sh", "-c", "[ $RANK != 5 ] || exit 7; exec sleep 100")
    assert status == 7 and "rank 5 on node3 exited with status 7" in err, err


def test_a_program_of_open_mpi_meets_along_the_chain(engine, tmp_path):
    program = compile_c(tmp_path, "mpi", MPI, "mpicc")
    [(status, out, err)] = engine.run_mpi(*CHAIN, "-np", "6", program)
    assert (status, sorted(out.splitlines())) == (0, [f"{r}/6 15" for r in range(6)]), err


def test_all_output_arrives_through_the_chain_and_waits_for_a_slow_reader(engine):
    """3 x 20 MB, of which nobody can hold more than the windows of the ranks."""
    job = engine.start(*CHAIN, "-np", "3", "-N", "1", "sh", "-c", "yes $RANK | head -c 20000000")
    lines = {b"0": 0, b"1": 0, b"2": 0}
    time.sleep(1)
    rest = b""
    while chunk := job.popen.stdout.read(1 << 20):
        *whole, rest = (rest + chunk).split(b"\n")
        for x in whole:
            lines[x.rpartition(b" ")[2]] += 1  # without the node and rank before it
    status, _, err = job.end()
    assert status == 0 and lines == {b"0": 10000000, b"1": 10000000, b"2": 10000000}, (lines, err)


def test_the_input_reaches_the_end_of_the_chain(engine):
    job = engine.start(*CHAIN, "-np", "3", "-N", "1", "--stdin", "2", "sh", "-c", "[ $RANK != 2 ] || wc -c",
                       stdin=(BUILD / "bin/drover").open("rb"))
    status, out, err = job.end()
    assert status == 0 and out.decode().split()[-1] == str((BUILD / "bin/drover").stat().st_size), err


@pytest.mark.parametrize("victim", ["node1", "node2", "node3"])
def test_a_killed_agent_ends_the_job_and_is_named(engine, victim):
    job = engine.start(*CHAIN, "-np", "6", *SLEEP)
    cluster = engine.cluster
    wait_until(lambda: sum(p.command == "sleep 100 " for p in cluster.running().values()) == 6 or None, "6 ranks")
    os.kill(agent_on(cluster, victim), signal.SIGKILL)
    status, _, err = job.end(30)
    assert status != 0 and f"its agent on {victim} disconnected".encode() in err, err
    cluster.nothing_left(5)


def test_a_node_without_power_in_the_middle_is_named_and_not_those_behind_it(engine):
    cluster = engine.cluster
    job = engine.start(*CHAIN, "-np", "6", "--lost-after", LOST_AFTER, *SLEEP)
    wait_until(lambda: sum(p.command == "sleep 100 " for p in cluster.running().values()) == 6 or None, "6 ranks")
    cluster.nodes[1].stop()
    began = time.monotonic()
    status, _, err = job.end(30)
    assert status != 0 and time.monotonic() - began < LOST_AFTER + 7
    first = re.search(rb"rank \d on (node\d)[^\n]*", err)
    assert first and first[1] == b"node2", err
    cluster.nothing_left(LOST_AFTER + 12)
