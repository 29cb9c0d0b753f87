"""The torture: 60 trials while coordinator and worker are killed with SIGKILL, 50 times at random moments."""
import os
import random
import signal
import sqlite3
import time

import pytest
from sweep_kit import DROVER, Place, wait_for

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
# Three reports, a tenth to three tenths of a second.
TRIAL = """
for step in 1 2 3; do
    echo "{\\"step\\":$step,\\"loss\\":$x}"
    sleep 0.$((3 + $$ % 7))
done | while read line; do echo "$line"; done
"""


@pytest.fixture
def place(tmp_path):
    p = Place(tmp_path)
    p.script("t.sh", TRIAL.replace("0.$((3 + $$ % 7))", "0.0$((3 + $$ % 7))"))
    yield p
    p.clean_up()


def test_nothing_is_lost_and_nothing_ends_twice(place):
    seed = int(os.environ.get("DROVER_KILLS_SEED", time.time()))
    print(f"DROVER_KILLS_SEED={seed}")
    rng = random.Random(seed)
    sweep = place.sweep(SWEEP)
    coordinator = place.start(sweep)
    killed = {"worker": 0, "coordinator": 0}
    while sum(killed.values()) < KILLS and coordinator.poll() is None:
        time.sleep(rng.uniform(0.02, 0.4))
        worker = place.worker_pid()
        if worker and rng.random() < 0.5:
            os.kill(worker, signal.SIGKILL)
            killed["worker"] += 1
        else:
            coordinator.kill()
            coordinator.wait()
            killed["coordinator"] += 1
            coordinator = place.start(sweep)
    assert coordinator.wait(60) == 0, place.said()[-2000:]
    print(killed, len(place.records("leased")), "leases")

    trials = place.show()["trials"]
    assert [t["state"] for t in trials] == ["done"] * TRIALS
    ended = [trial for trial, _, _ in place.records("ended")]
    assert sorted(ended) == list(range(TRIALS))  # each once
    for t in trials:
        assert t["value"] == t["params"]["x"] and t["steps"] == 3
    with sqlite3.connect(place.db()) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    place.nothing_runs()
    assert sum(killed.values()) >= KILLS // 2, "the sweep was over too soon for a test"
    wait_for(lambda: place.worker_pid() == 0, "the worker's end", 5)
