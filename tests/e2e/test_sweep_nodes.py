"""Trials over several nodes: workers in network namespaces, each with some ranks of every trial."""
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import compile_c
from sweep_kit import DROVER, ROOT, Place
from test_run_mpis import KINDS
from waiting import wait_until

pytestmark = pytest.mark.skipif(not DROVER.exists(), reason="drover is not built")
# Ranks connect to MASTER_ADDR, exchange their nodes, write them down and wait for "go"; then rank 0 reports.
TRIAL = r"""
import json, os, signal, socket, sys, time
from pathlib import Path
env = os.environ
rank, size = int(env["RANK"]), int(env["WORLD_SIZE"])
x = [a.split("=")[1] for a in sys.argv if a.startswith("--x=")][0]
me = [rank, int(env["LOCAL_RANK"]), int(env["NODE_RANK"]), socket.gethostname()]
if rank == 0:
    master = socket.create_server(("", int(env["MASTER_PORT"])))
    peers = [master.accept()[0] for _ in range(size - 1)]
    met = sorted([me] + [json.loads(p.makefile().readline()) for p in peers])
    for p in peers:
        p.sendall(json.dumps(met).encode() + b"\n")
else:
    while True:
        try:
            s = socket.create_connection((env["MASTER_ADDR"], int(env["MASTER_PORT"])), 5)
            break
        except OSError:
            time.sleep(0.02)
    s.sendall(json.dumps(me).encode() + b"\n")
    met = json.loads(s.makefile().readline())
note = {"trial": int(env["DROVER_TRIAL_ID"]), "lease": Path(env["DROVER_TRIAL_DIR"]).name, "rank": rank, "size": size,
        "dir": Path(env["DROVER_TRIAL_DIR"]).is_dir(), "met": met, "pmix": "PMIX_RANK" in env}
with open("noted", "a") as f:
    f.write(json.dumps(note) + "\n")
def save(number, frame):
    if os.path.exists("deaf"):
        return
    Path(env["DROVER_CKPT_DIR"], f"rank{rank}").touch()
    sys.exit(1)
signal.signal(signal.SIGTERM, save)
print("rank", rank, "on", socket.gethostname(), flush=True)
step = 0
while not os.path.exists("go") and not os.path.exists("go." + x):
    step += 1
    if rank == 0 and os.path.exists("report." + x):
        print(json.dumps({"step": step, "loss": float(x)}), flush=True)
    time.sleep(0.05)
if rank == int(env.get("FAILS", -1)):
    sys.exit("rank %d gives up" % rank)
if rank == 0:
    print(json.dumps({"step": step + 1, "loss": float(x)}), flush=True)
"""
HEAD = "method: grid\nmetric: {name: loss}\n"
NODES = "resources: {nodes: 2, ranks: 2, cpus: 1}, grace: 5"


class Nodes(Place):
    """A coordinator on the first node of a cluster, a worker on each."""

    def __init__(self, path, cluster):
        super().__init__(path)
        self.cluster = cluster
        (path / "t.py").write_text(TRIAL)
        self.env_more, self.workers = {}, []

    def write(self, values, more=""):
        head = f"program: t.py\ncommand: [/usr/bin/python3, t.py, '${{args}}']\n{HEAD}"
        (self.path / "s.yaml").write_text(f"{head}parameters: {{x: {{values: {values}}}}}\n{more}drover: {{{NODES}}}\n")

    def coordinate(self):
        self.coordinator = self.on(self.cluster.head, "sweep", "s.yaml", "--here", "0", "--listen", ":")

    def begin(self, values, more="", env=None, places=2, nodes=None):
        if values is not None:  # else a test has written the sweep file itself
            self.write(values, more)
        self.env_more = env or {}
        self.coordinate()
        key = self.path / "sweeps/s/worker.key"
        wait_until(lambda: key.exists() and key.read_text().split()[1:], "worker.key")
        self.workers = [self.worker(n, places) for n in self.cluster.nodes[:nodes]]

    def on(self, node, *args):
        with open(self.path / f"{args[0]}.{node.name}.txt", "a") as log:
            return node.start_job(DROVER, *args, cwd=self.path, env=self.env_more, stdout=log, stderr=subprocess.STDOUT)

    def worker(self, node, places):
        return self.on(node, "worker", "--key", "sweeps/s/worker.key", "--places", str(places), "--patience", "12")

    def said(self):
        return "".join(f"--- {p.name}\n{p.read_text()}" for p in sorted(self.path.glob("*.txt")))

    def notes(self):
        path = self.path / "noted"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def wait_for_ranks(self, n):
        try:
            return wait_until(lambda: len(self.notes()) >= n and self.notes(), f"{n} ranks", 30)
        except AssertionError:
            print(self.said())
            raise

    def go(self, x=None):
        (self.path / ("go" if x is None else f"go.{x}")).touch()

    def ends(self, status=0):
        got = self.coordinator.end(40)[0]
        assert got == status, self.said()
        for w in self.workers:
            if w.popen.poll() is None:
                w.end(20)
        self.cluster.nothing_left()
        return self.show()["trials"]


@pytest.fixture
def nodes(cluster, tmp_path):
    return Nodes(tmp_path, cluster)


def test_each_rank_of_a_trial_over_two_nodes_finds_all_the_others(nodes):
    nodes.begin([0, 1, 2, 3], places=1)
    nodes.wait_for_ranks(4)  # three workers with one slot each have room for one trial over two nodes
    assert {n["trial"] for n in nodes.notes()} == {0}
    nodes.go()
    trials = nodes.ends()
    assert [t["state"] for t in trials] == ["done"] * 4, nodes.said()
    assert [t["value"] for t in trials] == [0, 1, 2, 3]
    notes = nodes.notes()
    assert sorted((n["trial"], n["rank"]) for n in notes) == [(t, r) for t in range(4) for r in range(4)]
    for n in notes:
        assert n["size"] == 4 and n["dir"] and n["pmix"]
        assert [m[:3] for m in n["met"]] == [[0, 0, 0], [1, 1, 0], [2, 0, 1], [3, 1, 1]]
        assert len({m[3] for m in n["met"]}) == 2 and n["met"][0][3] == n["met"][1][3]
    for t, lease, data in nodes.records("leased"):
        out = (nodes.path / f"sweeps/s/trials/{t:06}/{lease}/stdout").read_text()
        assert all(f"[{r}] rank {r} on node" in out for r in range(4)), out
        assert len(data["with"]) == 1 and data["with"][0] != data["worker"]


def test_workers_that_mpirun_has_started_launch_trials_over_several_nodes_without_it(nodes):
    nodes.write([5, 6])
    nodes.go()
    nodes.coordinator = nodes.on(nodes.cluster.head, "sweep", "s.yaml", "--hostfile", nodes.cluster.hostfile(2))
    assert [t["state"] for t in nodes.ends()] == ["done"] * 2, nodes.said()
    assert [n["size"] for n in nodes.notes()] == [4] * 8 and all(n["pmix"] for n in nodes.notes())


def programs_of_mpi(directory):
    """The C program of MPI checks for each MPI here, and mpi4py's for Debian's: {name: command}."""
    found = {"openmpi": str(shutil.which("mpicc.openmpi")),
             **{kind: str(ROOT / f"build/mpis/{kind}/bin/mpicc") for kind in KINDS if (ROOT / f"build/mpis/{kind}/whole").exists()}}
    text = (ROOT / "tests/e2e/progs/mpi_check.c").read_text()
    return {name: compile_c(directory, name, text, compiler, f"-Wl,-rpath,{Path(compiler).parents[1]}/lib")
            for name, compiler in found.items()}


def test_mpi_programs_in_trials_over_two_nodes_are_one_job(nodes, tmp_path):
    programs = programs_of_mpi(tmp_path)
    nodes.script("t.sh", "".join(f'[ "$x" != {i} ] || {program} || exit\n' for i, program in enumerate(programs.values())) +
                 "[ $RANK != 0 ] || echo '{\"loss\": 1}'\n")
    nodes.sweep(f"{HEAD}parameters: {{x: {{values: {list(range(len(programs)))}}}}}\ndrover: {{{NODES}}}\n")
    nodes.begin(None)
    assert [t["state"] for t in nodes.ends()] == ["done"] * len(programs), nodes.said()
    for trial, lease, _ in nodes.records("leased"):
        out = (nodes.path / f"sweeps/s/trials/{trial:06}/{lease}/stdout").read_text()
        for rank in range(4):
            assert re.search(rf"{rank}/4 on node\d from {(rank - 1) % 4} sum 6 shared 2$", out, re.M), out


def test_a_sweep_with_a_hostfile_that_is_interrupted_twice_ends_at_once_and_leaves_nothing(nodes):
    nodes.write([5])
    (nodes.path / "deaf").touch()
    nodes.coordinator = nodes.on(nodes.cluster.head, "sweep", "s.yaml", "--hostfile", nodes.cluster.hostfile(2))
    nodes.wait_for_ranks(4)
    nodes.coordinator.kill(signal.SIGINT)
    time.sleep(1.1)  # sooner it would repeat the first request
    nodes.coordinator.kill(signal.SIGINT)
    assert [t["state"] for t in nodes.ends(130)] == ["waiting"], nodes.said()


def test_a_trial_over_several_nodes_outlives_its_coordinator(nodes):
    nodes.begin([3])
    nodes.wait_for_ranks(4)
    nodes.coordinator.kill(signal.SIGKILL)
    nodes.coordinator.end(10)
    nodes.coordinate()
    nodes.go()
    assert [t["state"] for t in nodes.ends()] == ["done"], nodes.said()
    assert len(nodes.records("leased")) == 1 and len(nodes.notes()) == 4


def test_coordinators_that_are_killed_while_trials_start_over_several_nodes_cost_no_retry(nodes):
    seed = int(os.environ.get("DROVER_KILLS_SEED", time.time()))
    print(f"DROVER_KILLS_SEED={seed}")
    rng = random.Random(seed)
    nodes.go()
    nodes.begin(list(range(12)), places=2)
    for _ in range(12):
        time.sleep(rng.uniform(0.05, 0.6))
        if nodes.coordinator.popen.poll() is not None:
            break
        nodes.coordinator.kill(signal.SIGKILL)
        nodes.coordinator.end(10)
        nodes.coordinate()
    assert [t["state"] for t in nodes.ends()] == ["done"] * 12, nodes.said()
    assert not [d for _, _, d in nodes.records("requeued") if d["spent"]], nodes.said()


def test_a_holder_that_was_away_when_the_launcher_invited_it_brings_its_ranks_later(nodes):
    nodes.begin([7], nodes=1)
    runner = nodes.workers[0]
    listed = nodes.path / "sweeps/s/workers.json"
    wait_until(lambda: listed.exists() and [w for w in json.loads(listed.read_text()) if w["places"]], "the first worker")
    runner.kill(signal.SIGSTOP)
    holder = nodes.worker(nodes.cluster.nodes[1], 2)
    nodes.workers.append(holder)
    wait_until(lambda: nodes.records("leased"), "a lease")
    time.sleep(0.5)  # the slot is reserved, and the first worker's WIRE_RUN is in its socket
    nodes.coordinator.kill(signal.SIGKILL)
    nodes.coordinator.end(10)
    holder.kill(signal.SIGSTOP)
    nodes.coordinate()
    runner.kill(signal.SIGCONT)
    wait_until((nodes.path / "sweeps/s/trials/000000/1/stdout").exists, "the trial's launcher")
    time.sleep(1)  # it sends its join ticket
    holder.kill(signal.SIGCONT)
    nodes.wait_for_ranks(4)
    nodes.go()
    assert [t["state"] for t in nodes.ends()] == ["done"]
    assert len(nodes.records("leased")) == 1, nodes.said()


def test_a_holder_that_is_told_to_end_while_no_coordinator_is_there_has_the_trial_save_what_it_has(nodes):
    nodes.begin([7])
    nodes.wait_for_ranks(4)
    holder = nodes.notes()[0]["met"][2][3]
    told = nodes.workers[int(holder[-1]) - 1]
    nodes.coordinator.kill(signal.SIGKILL)
    nodes.coordinator.end(10)
    told.kill(signal.SIGTERM)
    time.sleep(0.5)
    nodes.coordinate()
    wait_until(lambda: [n for n in nodes.notes() if n["lease"] == "2"], "the trial to run again", 40)
    assert told.end(10)[0] == 0
    ckpt = nodes.path / "sweeps/s/trials/000000/1/ckpt"
    assert sorted(p.name for p in ckpt.iterdir()) == [f"rank{r}" for r in range(4)]
    nodes.go()
    assert [t["state"] for t in nodes.ends()] == ["done"]


def test_a_rank_that_fails_on_the_other_node_ends_the_trial_and_is_named(nodes):
    nodes.begin([7], env={"FAILS": "3"})
    nodes.wait_for_ranks(4)
    nodes.go()
    trial, = nodes.ends(1)
    assert trial["state"] == "failed" and "rank 3" in trial["error"] and "gives up" in trial["error"]


def test_the_end_of_a_worker_that_holds_a_place_sends_the_trial_back(nodes):
    nodes.begin([7])
    nodes.wait_for_ranks(4)
    (_, first, data), = nodes.records("leased")
    holder = nodes.notes()[0]["met"][2][3]
    nodes.workers[int(holder[-1]) - 1].kill(signal.SIGKILL)
    again = wait_until(lambda: [n for n in nodes.notes() if int(n["lease"]) > first], "the trial to run again", 40)
    assert holder not in {m[3] for m in again[0]["met"]}
    nodes.go()
    trial, = nodes.ends()
    assert trial["state"] == "done"
    assert [d["why"] for _, _, d in nodes.records("requeued")][0] == "preempted"


def test_a_worker_that_is_told_to_end_lets_the_trials_it_holds_places_for_save_what_they_have(nodes):
    nodes.begin([7])
    nodes.wait_for_ranks(4)
    holder = nodes.notes()[0]["met"][2][3]
    told = nodes.workers[int(holder[-1]) - 1]
    told.kill(signal.SIGTERM)
    again = wait_until(lambda: [n for n in nodes.notes() if n["lease"] == "2"], "the trial to run again", 40)
    assert told.end(10)[0] == 0 and holder not in {m[3] for m in again[0]["met"]}
    ckpt = nodes.path / "sweeps/s/trials/000000/1/ckpt"
    assert sorted(p.name for p in ckpt.iterdir()) == [f"rank{r}" for r in range(4)]  # each rank got SIGTERM
    nodes.go()
    assert [t["state"] for t in nodes.ends()] == ["done"]
    assert [d["why"] for _, _, d in nodes.records("stopping")] == ["preempted"]


def test_a_trial_over_several_nodes_that_is_stopped_early_ends_everywhere(nodes):
    nodes.begin([1, 2], "early_terminate: {type: median, min_trials: 1}\n", places=1)
    nodes.wait_for_ranks(4)
    (nodes.path / "report.1").touch()
    wait_until(lambda: len(nodes.records("report")) > 2, "reports")
    nodes.go(1)
    nodes.wait_for_ranks(8)
    (nodes.path / "report.2").touch()
    assert [t["state"] for t in nodes.ends()] == ["done", "pruned"], nodes.said()
