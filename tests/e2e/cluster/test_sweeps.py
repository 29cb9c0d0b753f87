"""`drover sweep --hostfile`, and inside an allocation: a worker on every node, what is killed is replaced, nothing is left."""
import os
import signal
import subprocess

import pytest
from sweep_kit import DROVER, Place
from waiting import wait_until

pytestmark = pytest.mark.skipif(not DROVER.exists(), reason="drover is not built")
TRIAL = """echo "$DROVER_TRIAL_ID $(hostname) ${DROVER_RESUME:-0}" >> started
while ! test -e go; do sleep 0.05; done
echo "{\\"loss\\":$x}"
"""
SWEEP = "method: grid\nmetric: {name: loss}\nparameters: {x: {values: [0, 1, 2, 3, 4, 5]}}\ndrover: {lost_after: 15}\n"


class Spread(Place):
    """A sweep on the head, over all nodes of an engine, two trials on each."""

    def __init__(self, path, engine):
        super().__init__(path)
        self.engine = engine
        self.script("t.sh", TRIAL)
        self.file = self.sweep(SWEEP)

    def go_on(self, *args, here=2):
        words = (DROVER, "sweep", self.file, *self.engine.words[2:], "--here", str(here), *args)
        with open(self.path / "err.txt", "a") as err:
            return self.engine.cluster.head.start_job(*words, env=self.engine.env, cwd=self.path, stderr=err,
                                                      stdout=subprocess.DEVNULL)

    def starts(self):
        path = self.path / "started"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def wait_for_starts(self, n):
        try:
            return wait_until(lambda: len(self.starts()) >= n and self.starts(), f"{n} trials to start", 40)
        except AssertionError:
            print(self.said(), *(f.read_text() for f in self.path.glob("sweeps/s/worker.*.log")))
            raise

    def go(self):
        (self.path / "go").touch()

    def ends_well(self, job):
        status, _, _ = job.end(60)
        assert status == 0, self.said()
        assert self.states() == ["done"] * 6
        assert sorted(t for t, _, _ in self.records("ended")) == list(range(6))  # each once
        self.engine.cluster.nothing_left(5)

    def worker(self, node):
        """Its process: the first of those that have its command line, which forks its guardian."""
        found = [p for p in self.engine.cluster.running().values()
                 if p.node == node.name and "drover-hpo worker" in p.command]
        (first,) = [p for p in found if p.parent not in {q.pid for q in found}]
        return first


@pytest.fixture
def spread(tmp_path, engine):
    return Spread(tmp_path, engine)


def test_every_node_has_a_worker_and_none_is_left(spread):
    sweep = spread.go_on()
    wait_until(lambda: {node for _, node, _ in spread.starts()} == {"node1", "node2", "node3"}, "trials on all nodes", 40)
    wait_until(lambda: {w["node"] for w in spread.show()["workers"]} == {"node1", "node2", "node3"}, "workers in `show`")
    for p in spread.engine.cluster.running().values():
        assert (spread.path / "sweeps/s/worker.key").read_text().split()[3] not in p.command
    spread.go()
    spread.ends_well(sweep)


def test_a_worker_that_is_killed_is_started_again(spread):
    sweep = spread.go_on()
    wait_until(lambda: "node2" in [s[1] for s in spread.starts()], "a trial on node2", 40)
    victim = spread.worker(spread.engine.cluster.nodes[1])
    before = len([s for s in spread.starts() if s[1] == "node2"])
    os.kill(victim.pid, signal.SIGKILL)
    wait_until(lambda: "the worker on node2 has exited" in spread.said(), "its end", 20)
    wait_until(lambda: len([s for s in spread.starts() if s[1] == "node2"]) > before, "a trial on the same node", 30)
    spread.go()
    spread.ends_well(sweep)
    assert {d["why"] for _, _, d in spread.records("requeued")} == {"lost"}


def test_a_node_that_dies_is_done_without(spread):
    sweep = spread.go_on()
    wait_until(lambda: "node3" in [s[1] for s in spread.starts()], "a trial on node3", 40)
    spread.engine.cluster.nodes[2].stop()
    wait_until(lambda: "node3" in spread.said(), "a word on its node", 40)
    spread.go()
    spread.ends_well(sweep)


def test_nothing_outlives_a_coordinator_that_is_killed_and_the_next_one_goes_on(spread):
    sweep = spread.go_on(here=0)
    spread.wait_for_starts(2)
    os.kill(sweep.pid, signal.SIGKILL)
    sweep.end(10)
    spread.engine.cluster.nothing_left(20)
    spread.go()
    spread.ends_well(spread.go_on("--resume"))


def test_a_node_that_is_not_there_is_given_up_and_the_rest_goes_on(spread):
    if spread.engine.name == "slurm":
        pytest.skip("an allocation has no such node")
    spread.engine.words = [*spread.engine.words[:2], "-H", "node2:2,gone:2"]
    sweep = spread.go_on(here=0)
    wait_until(lambda: "the worker on gone has exited" in spread.said(), "a word on the node", 40)
    spread.go()
    spread.ends_well(sweep)
