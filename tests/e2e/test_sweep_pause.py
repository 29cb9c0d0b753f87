"""Sweeps whose early stopping pauses trials, and the recorded curves that show what it is worth."""
import json
import subprocess
import sys

import pytest
from sweep_kit import DROVER, ROOT
from waiting import wait_until

pytestmark = pytest.mark.skipif(not DROVER.exists(), reason="drover is not built")
# Its checkpoint is the last epoch that it said.
TRAIN = """
i=0; test ! -f $DROVER_CKPT_DIR/epoch || i=$(cat $DROVER_CKPT_DIR/epoch)
echo "starts after $i, resumed: ${DROVER_RESUME:-0}"
while test $i -lt 8; do
    i=$((i + 1))
    echo "{\\"step\\":$i,\\"loss\\":$((100 * x + 80 / i))}"
    echo $i > $DROVER_CKPT_DIR/tmp; mv $DROVER_CKPT_DIR/tmp $DROVER_CKPT_DIR/epoch
    sleep 0.3
done
"""
CURVE = """
method: grid
metric: {name: loss}
early_terminate: {type: curve, min_iter: 2, max_iter: 8, keep: 0.5}
parameters: {x: {values: [2, 1, 4, 3]}}
drover: {parallel: 1}
"""


def said(place, trial):
    """What a trial's program wrote, lease by lease."""
    folder = place.path / f"sweeps/s/trials/{trial:06}"
    leases = sorted((d for d in folder.iterdir() if d.name.isdigit()), key=lambda d: int(d.name))
    return [(d / "stdout").read_text().splitlines() for d in leases]


def check_ended(place):
    trials = place.show()["trials"]
    assert {t["state"] for t in trials} == {"done", "pruned"}
    assert trials[1]["state"] == "done" and trials[1]["value"] == 110
    runs = said(place, 1)  # it paused where it was the first to come
    assert len(runs) > 1 and runs[1][0].endswith("resumed: 1") and "after 0" not in runs[1][0]
    steps = [json.loads(line)["step"] for run in runs for line in run if line[0] == "{"]
    assert set(steps) == set(range(1, 9)) and len(steps) <= 8 + len(runs)  # it went on where it was
    assert all(t["steps"] < 8 and t["why"] == "curve" for t in trials if t["state"] == "pruned")
    assert [t["state"] for t in trials].count("done") == 1 and len(said(place, 0)) > 1
    place.nothing_runs()


def test_trials_pause_and_the_best_goes_on_from_its_checkpoint(place):
    place.script("t.sh", TRAIN)
    done = place.run(place.sweep(CURVE), limit_s=50)
    assert done.returncode == 0, done.stderr
    check_ended(place)


def test_paused_trials_outlive_the_coordinator(place):
    place.script("t.sh", TRAIN)
    p = place.start(place.sweep(CURVE))
    wait_until(lambda: len(place.records("paused")) >= 2, "two pauses")
    p.kill()
    p.wait()
    assert "paused" in place.states()
    assert "paused" in place.run("show", "s").stdout.splitlines()[0]
    done = place.run("--name", "s", "--resume", limit_s=50)
    assert done.returncode == 0, done.stderr
    check_ended(place)


def test_the_recorded_curves_show_what_pausing_is_worth():
    pytest.importorskip("numpy")
    done = subprocess.run([sys.executable, ROOT / "scripts/bench/earlystop", "--seeds", "2", "--only", "drover curve"],
                          text=True, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(done.stdout.splitlines()) == 4 and "0 of 2" in done.stdout
