"""Metrics that are NaN or infinite: the event `not_finite`, and --stop-on-nan."""
import json
import re

import pytest
from conftest import ROOT

# Rank 1 reports what is not finite, and then waits for the end; rank 0 saves when it is told to stop.
REPORTS = f"""
import os, signal, sys, time
sys.path.insert(0, {str(ROOT / "launcher/client")!r})
import drover
if drover.rank() == 1:
    while not os.path.exists("ready"):
        time.sleep(0.02)
    for step in range(4):
        drover.report(step=step, loss=0.5 if step < 2 else float("nan"), grad=1.0, lr=float("-inf") if step == 3 else 0.1)
else:
    signal.signal(signal.SIGTERM, lambda *_: (print("saved", flush=True), sys.exit(0)))
    open("ready", "w").close()
    time.sleep(float(sys.argv[1]))
"""
LINES = ["{'epoch': 1, 'loss': 0.4}", "not a mapping: loss nan, inf", '{"step": 7, "eval": {"loss": Infinity}, "info": 3}',
         "{'loss': np.float64(nan), 'nan': 3}", '{"loss": NaN}']


def events_of(drover, name="not_finite"):
    return [e for e in map(json.loads, (drover.cwd / "events").read_text().splitlines()) if e["event"] == name]


def test_a_metric_that_is_nan_stops_the_job_and_the_others_have_the_grace_period(drover):
    done = drover.run("run", "-np", 2, "--oversubscribe", "--stop-on-nan", "--max-restarts", 3, "--events", "events",
                      "python3", "-c", REPORTS, "60")
    assert done.returncode == 1, done.stderr
    assert "saved" in done.stdout and "restart" not in done.stderr
    assert re.search(r"^drover run: the job was stopped: rank 1 on \S+ reported loss = nan at step 2 \(--stop-on-nan\)$",
                     done.stderr, re.M), done.stderr
    first = events_of(drover)[0]
    assert (first["rank"], first["metric"], first["value"], first["step"]) == (1, "loss", "nan", 2)
    ended, = events_of(drover, "ended")
    assert ended["status"] == 1 and ended["stopped"]


def test_without_the_option_each_such_metric_is_an_event_once(drover):
    done = drover.run("run", "-np", 2, "--oversubscribe", "--events", "events", "python3", "-c", REPORTS, "0")
    assert (done.returncode, done.stderr) == (0, "")
    assert [(e["metric"], e["value"], e["step"]) for e in events_of(drover)] == [("loss", "nan", 2), ("lr", "-inf", 3)]


@pytest.mark.parametrize("stop", [False, True])
def test_lines_that_are_mappings_are_reports(drover, stop):
    script = "\n".join(f"printf '%s\\n' \"{line}\"" for line in (x.replace('"', '\\"') for x in LINES))
    done = drover.run("run", "-np", 1, *["--stop-on-nan"] * stop, "--events", "events", "sh", "-c", script)
    assert done.returncode == stop and done.stdout.splitlines()[:3] == LINES[:3], done.stderr
    found = [(e["metric"], e["value"], e.get("step")) for e in events_of(drover)]
    assert found[0] == ("eval.loss", "inf", 7)
    assert stop or found[1:] == [("loss", "nan", None)]


def test_a_job_without_such_a_metric_is_not_stopped(drover):
    done = drover.run("run", "-np", 1, "--stop-on-nan", "echo", '{"loss": 0.5, "name": "nan-free", "inflight": 3}')
    assert (done.returncode, done.stderr) == (0, "")
