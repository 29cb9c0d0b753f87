"""60 trials while coordinator and worker are killed with SIGKILL, 50 times at random moments. Two more workers are ill:
the disk of one is full, the other cannot start a process."""
import os
import random
import signal
import sqlite3
import time

import pytest
from sweep_kit import DROVER, use_ill_workers, use_place  # noqa: F401  a fixture
from waiting import wait_until

pytestmark = pytest.mark.skipif(not DROVER.exists(), reason="drover is not built")
TRIALS = 60
KILLS = 50
SWEEP = f"""
method: random
run_cap: {TRIALS}
metric: {{name: loss}}
parameters:
  x: {{min: 0.0, max: 1.0}}
drover: {{parallel: 8, retries: 1000}}
"""
# Runs for 0.1 to 0.3 s, and does not end before its share of the kills has happened.
TRIAL = f"""
for step in 1 2; do
    echo "{{\\"step\\":$step,\\"loss\\":$x}}"
    sleep 0.0$((5 + $$ % 5))
done
while test $(cat kills) -lt $(((DROVER_TRIAL_ID + 1) * {KILLS} / {TRIALS})); do sleep 0.02; done
echo "{{\\"step\\":3,\\"loss\\":$x}}"
"""


def count_kills(place, n):
    (place.path / "kills.new").write_text(str(n))
    (place.path / "kills.new").rename(place.path / "kills")


@use_ill_workers
def test_nothing_is_lost_and_nothing_ends_twice(place):
    seed = int(os.environ.get("DROVER_KILLS_SEED", time.time()))
    print(f"DROVER_KILLS_SEED={seed}")
    rng = random.Random(seed)
    sweep = place.sweep(SWEEP)
    killed = {"worker": 0, "coordinator": 0}
    count_kills(place, 0)
    coordinator = place.start(sweep, "--listen", "127.0.0.1")
    ill = [place.worker("full", wrap=place.small_disk("16k")), place.worker("few")]
    wait_until(lambda: place.records("leased") and len(place.show()["workers"]) == 3, "three workers")
    place.starve(ill[1].pid)
    for n in range(1, KILLS + 1):
        time.sleep(rng.uniform(0.01, 0.3))  # the moments are the subject of the test
        assert coordinator.poll() is None, place.said()[-2000:]
        worker = place.worker_pid()
        if worker and rng.random() < 0.5:
            os.kill(worker, signal.SIGKILL)
            killed["worker"] += 1
        else:
            coordinator.kill()
            coordinator.wait()
            killed["coordinator"] += 1
            coordinator = place.start(sweep)
        count_kills(place, n)
    assert coordinator.wait(60) == 0, place.said()[-2000:]
    print(killed, len(place.records("leased")), "leases")

    trials = place.show()["trials"]
    assert [t["state"] for t in trials] == ["done"] * TRIALS
    ended = [trial for trial, _, _ in place.records("ended")]
    assert sorted(ended) == list(range(TRIALS))  # each trial once
    for t in trials:
        assert t["value"] == t["params"]["x"] and t["metrics"]["loss"] == t["params"]["x"]
    with sqlite3.connect(place.db()) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    requeued = [data for _, _, data in place.records("requeued")]
    assert not any(d["spent"] for d in requeued if d["why"] == "node")
    assert sum(d["why"] == "node" for d in requeued) >= len(ill)
    for worker in ill:
        worker.wait(60)
    place.nothing_runs()
