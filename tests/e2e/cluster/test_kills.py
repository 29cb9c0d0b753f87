"""`drover run` over three nodes when what carries it is killed: the job ends, in time and with a word, and not one
process of it is left on any node."""
import contextlib
import itertools
import os
import re
import signal
import subprocess
import time

import pytest
from cluster_kit import ONE_ENGINE, SHORTER
from waiting import wait_until

RANKS = ["-np", "6", "--grace", "2"]
# Each rank has a child, and one in a session of its own, whom nobody's group or session reaches.
FAMILY = ["sh", "-c", "setsid sleep 100 & sleep 100 & exec sleep 100"]
KILLS = int(os.environ.get("DROVER_TEST_KILLS", "1"))
COMMON = ["drover", "guardian", "agent", "agent's guardian", "rank"]
LOST_AFTER = 3
VICTIMS = [*(("openmpi", v) for v in [*COMMON, "agent's parent", "mpirun", "orted", "sshd"]), ("slurm", "drover"), ("slurm", "srun"),
           ("ssh", "drover"), ("ssh", "ssh"), ("ssh", "sshd"), ("ssh", "agent's parent"),
           ("slurm", "agent's guardian"), ("slurm", "slurmstepd"), *(pytest.param(*which, marks=SHORTER) for which in (
               ("openmpi", "ssh"), ("slurm", "guardian"), ("slurm", "agent"), ("slurm", "agent's parent"),
               ("slurm", "rank")))]
PAIRS = [pytest.param(pair, id="-then-".join(pair), marks=() if pair == ("agent", "parent") else SHORTER)
         for pair in itertools.permutations(["guardian", "agent", "parent"], 2)]


def all_ranks_run(cluster):
    return wait_until(lambda: sum(p.command == "sleep 100 " for p in cluster.running().values()) == 18 or None,
                      "18 processes of 6 ranks")


def find(running, victim, job):
    """Processes that are this victim."""
    def children(of):
        return [p for p in running.values() if p.parent == of.pid and "drover" in p.name]
    heads = [running[job.pid]]
    parts = {p.pid for p in running.values() if "/drover agent " in p.command and p.name == "drover"}
    parents = [running[pid] for pid in parts if running[pid].parent not in parts]
    agents = [c for p in parents for c in children(p)]
    monitors = [c for h in heads for c in children(h)]
    return {
        "drover": heads,
        "monitor": monitors,
        "guardian": [c for k in monitors for c in children(k)],
        "agent's parent": parents,
        "agent": agents,
        "agent's guardian": [c for a in agents for c in children(a)],
        "rank": [p for p in running.values() if p.command == "sleep 100 " and
                 p.parent in running and "drover" in running[p.parent].name],
        "mpirun": [p for p in running.values() if p.name in ("mpirun", "orterun", "prterun")],
        "orted": [p for p in running.values() if p.name == "orted"],
        "sshd": [p for p in running.values() if p.command.startswith("sshd:")],
        "ssh": [p for p in running.values() if p.name == "ssh"],
        "srun": [p for p in running.values() if p.name == "srun" and
                 running[p.parent].name != "srun"],
        "slurmstepd": [p for p in running.values() if p.name == "slurmstepd"],
    }[victim]


def kill_one(engine, victim, choose):
    """-> (status, stderr) of the job."""
    job = engine.start(*RANKS, *FAMILY)
    all_ranks_run(engine.cluster)
    found = find(engine.cluster.running(), victim, job)
    assert found, f"no {victim} in {list(engine.cluster.running().values())}"
    os.kill(choose(found).pid, signal.SIGKILL)
    status, _, err = job.end(30)
    return status, err.decode(errors="replace")


@pytest.mark.parametrize("engine, victim", VICTIMS, indirect=["engine"])
def test_whoever_is_killed_nothing_is_left_on_any_node(engine, victim, seed):
    began = time.monotonic()
    status, err = kill_one(engine, victim, seed.choice)
    assert status != 0
    if victim == "rank":
        assert status == 137 and re.search(r"rank \d on node\d .*SIGKILL", err), err
    elif victim != "drover":
        assert "drover run: " in err, f"{victim}: nothing said"
    engine.cluster.nothing_left(5)
    assert time.monotonic() - began < 25


@ONE_ENGINE
def test_ranks_live_on_without_the_monitor_and_end_at_our_word(engine):
    job = engine.start(*RANKS, *FAMILY)
    all_ranks_run(engine.cluster)
    (monitor,) = find(engine.cluster.running(), "monitor", job)
    os.kill(monitor.pid, signal.SIGKILL)
    time.sleep(2)  # whoever dies of it has died
    all_ranks_run(engine.cluster)
    assert monitor.pid not in engine.cluster.running()
    job.kill(signal.SIGTERM)
    status, _, err = job.end(20)
    assert status != 0, err
    engine.cluster.nothing_left(5)


def guards(cluster, job):
    """Who guard one rank: {name: Process}."""
    running = cluster.running()
    guardian = find(running, "agent's guardian", job)[-1]
    agent = running[guardian.parent]
    return {"guardian": guardian, "agent": agent, "parent": running[agent.parent]}


def ends_with_nothing_left(engine, job):
    try:
        status, _, err = job.popen.wait(5), *job.popen.communicate()
    except subprocess.TimeoutExpired:  # who was killed was nobody's whom the job needs
        job.kill(signal.SIGTERM)
        status, _, err = job.end(40)
    assert status != 0, err
    engine.cluster.nothing_left(8)


@ONE_ENGINE
@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("_", range(max(KILLS // 6, 1)))
def test_two_of_the_three_who_guard_a_rank_are_killed_at_once(engine, pair, seed, _):
    job = engine.start(*RANKS, *FAMILY)
    all_ranks_run(engine.cluster)
    three = guards(engine.cluster, job)
    for who in pair:
        with contextlib.suppress(ProcessLookupError):  # the first one's end was its own, too
            os.kill(three[who].pid, signal.SIGKILL)
        time.sleep(seed.choice([0, seed.uniform(0, 0.05)]))
    ends_with_nothing_left(engine, job)


@pytest.mark.parametrize("_", range(KILLS))
def test_random_kills_at_random_moments_leave_nothing(engine, seed, _):
    """One to three of the job's processes, at a moment that may be before, in and after its start."""
    job = engine.start(*RANKS, *FAMILY)
    time.sleep(seed.uniform(0, 2))  # the moment is what is being tried
    for _ in range(seed.randint(1, 3)):
        running = [p for p in engine.cluster.running().values()
                   if "drover" in p.name or p.name in ("mpirun", "orted", "ssh", "sshd", "srun", "slurmstepd", "sleep")]
        if running:
            victim = seed.choice(running)
            print("killed:", victim, "of", *running, sep="\n    ")
            with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(victim.pid, signal.SIGKILL)
    ends_with_nothing_left(engine, job)


def test_a_node_that_falls_silent_is_lost_and_named_and_its_ranks_end(engine):
    """A cut cable tells nobody: not the head, nor the node, whose ranks would burn on for ever."""
    cluster, node = engine.cluster, engine.cluster.nodes[2]
    job = engine.start(*RANKS, "--lost-after", LOST_AFTER, *FAMILY)
    all_ranks_run(cluster)
    node.cut()
    began = time.monotonic()
    wait_until(lambda: not [p for p in cluster.running().values() if p.command == "sleep 100 "], "the end of all ranks", 30)
    status, _, err = job.end(20)
    assert time.monotonic() - began < LOST_AFTER + 10
    assert status != 0 and b"node node3 is lost: silent for 3 s" in err, err
    assert not re.search(rb"rank \d on node[12]", err), err
    node.mend()
    cluster.nothing_left(20)


def test_a_node_without_power_is_lost_and_named(engine):
    cluster, node = engine.cluster, engine.cluster.nodes[1]
    job = engine.start(*RANKS, "--lost-after", LOST_AFTER, *FAMILY)
    all_ranks_run(cluster)
    node.stop()
    began = time.monotonic()
    status, _, err = job.end(30)
    assert time.monotonic() - began < LOST_AFTER + 7
    assert status != 0 and b"node2" in err, err
    cluster.nothing_left(5)
