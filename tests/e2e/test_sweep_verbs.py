"""`drover sweep stop, pause, resume, retry, add, ls`: what is asked of a sweep while it runs, and when nobody works on it."""
import json
import os
import signal
import time

import pytest
from sweep_kit import DROVER, use_place  # noqa: F401
from waiting import wait_until

pytestmark = pytest.mark.skipif(not DROVER.exists(), reason="drover is not built")
RANDOM = """
method: random
run_cap: 4
metric: {name: loss}
parameters: {x: {min: 0, max: 999}, opt: {parameters: {k: {values: [a, b]}}}}
"""
TRIAL = 'while ! test -e go; do sleep 0.02; done; echo "{\\"loss\\": $x}"\n'


def running(place, n):
    """The sweep once n trials run: their processes are there."""
    sweep = place.start(place.sweep(RANDOM), "--parallel", str(n))
    wait_until(lambda: len(list(place.path.glob("sweeps/s/trials/*/*/stdout"))) == n, "trials")
    return sweep


def verb(place, *args, status=0):
    began = time.monotonic()
    done = place.run(*args)
    assert done.returncode == status, done.stdout + done.stderr
    assert time.monotonic() - began < 5
    return done.stdout + done.stderr


def test_a_sweep_that_runs_is_stopped(place):
    sweep = running(place, 2)
    assert "s is stopped, 2 trials are still running" in verb(place, "stop", "s")
    assert sweep.wait(30) == 1  # none had a value
    assert place.states() == ["cancelled", "cancelled"] and place.show()["state"] == "stopped"
    assert "it was stopped (drover sweep resume continues it)" in place.said()
    place.nothing_runs()
    assert "the sweep has ended" in verb(place, "stop", "s", status=2)
    (place.path / "go").touch()
    done = place.run("s.yaml")  # it stays over until it is resumed
    assert done.returncode == 1 and place.states() == ["cancelled"] * 2
    assert "2 trials wait" not in verb(place, "retry", "s", "0") and place.show()["state"] == "stopped"
    done = place.run("resume", "s")
    assert done.returncode == 0, done.stderr
    assert place.states() == ["done", "cancelled", "done", "done"]


def test_a_stop_now_waits_for_no_grace(place):
    place.script("t.sh", "trap '' TERM\n" + TRIAL)
    sweep = running(place, 2)
    assert "s is stopped" in verb(place, "stop", "s", "--now")
    assert sweep.wait(10) == 1  # the grace is 30 s
    place.nothing_runs()


def test_a_paused_sweep_stays_so_over_a_restart(place):
    place.script("t.sh", 'echo "run" >> "$DROVER_CKPT_DIR/runs"; cat "$DROVER_CKPT_DIR/runs"\n' + TRIAL)
    sweep = running(place, 2)
    assert "s is paused" in verb(place, "pause", "s")
    wait_until(lambda: place.states() == ["waiting"] * 2, "a pause")
    shown = json.loads(place.run("ls", "--json").stdout)[0]
    assert shown["state"] == "paused" and shown["states"] == {"waiting": 2} and shown["coordinator"]["pid"]
    os.killpg(sweep.pid, signal.SIGTERM)
    assert sweep.wait(30) == 128 + signal.SIGTERM
    hint = "to continue: drover sweep resume s"
    before = place.said().count(hint)
    sweep = place.start("s.yaml")
    wait_until(lambda: place.said().count(hint) > before, "what it says")
    (place.path / "go").touch()
    assert place.states() == ["waiting"] * 2
    assert verb(place, "resume", "s") == "s is resumed\n"
    assert sweep.wait(30) == 0
    assert place.states() == ["done"] * 4
    outputs = [p.read_text().count("run\n") for p in sorted(place.path.glob("sweeps/s/trials/*/*/stdout"))]
    assert outputs == [1, 2, 1, 2, 1, 1]  # two of them from their checkpoints


def test_a_pause_may_let_trials_finish(place):
    sweep = running(place, 2)
    verb(place, "pause", "s", "--finish")
    (place.path / "go").touch()
    wait_until(lambda: place.states() == ["done"] * 2, "two ends")
    verb(place, "resume", "s")
    assert sweep.wait(30) == 0 and place.states() == ["done"] * 4


def test_failed_trials_are_run_again(place):
    place.script("t.sh", 'test -e go || exit 3; echo "{\\"loss\\": $x}"\n')
    assert place.run(place.sweep(RANDOM + "drover: {give_up_after: 0}\n")).returncode == 1
    assert place.states() == ["failed"] * 4
    assert "no trial 9" in verb(place, "retry", "s", "9", status=2)
    assert "trial numbers, or --failed" in verb(place, "retry", "s", status=2)
    assert "trial 2 waits; no coordinator is running: drover sweep resume s" in verb(place, "retry", "s", "2")
    (place.path / "go").touch()
    assert place.run("resume", "s").returncode == 0
    assert place.states() == ["failed", "failed", "done", "failed"]
    verb(place, "retry", "--failed", "s")
    assert place.run("--resume", "s.yaml").returncode == 0
    assert place.states() == ["done"] * 4
    assert "no trial has failed" in verb(place, "retry", "--failed", "s", status=2)


def test_trials_are_added(place):
    sweep = running(place, 1)
    assert "trial 1 waits" in verb(place, "add", "s", "--param", "x=1", "--param", "opt.k=b")
    said = verb(place, "add", "s", "--param", "x=1000", "--param", "opt.k=b", status=2)
    assert "'x' cannot be 1000" in said
    assert "one of --param" in verb(place, "add", "s", status=2)
    assert "NAME=VALUE" in verb(place, "add", "s", "--param", "x", status=2)
    (place.path / "go").touch()
    assert sweep.wait(30) == 0
    params = [t["params"] for t in place.show()["trials"]]
    assert len(params) == 5 and params[1] == {"x": 1, "opt": {"k": "b"}}
    verb(place, "add", "s", "--trials", "2")
    verb(place, "add", "s", "--json", '[{"x": 3, "opt": {"k": "a"}}, {"x": 4, "opt": {"k": "a"}}]')
    assert place.run("resume", "s").returncode == 0
    assert place.states() == ["done"] * 9
    assert [t["params"]["x"] for t in place.show()["trials"]][5:7] == [3, 4]
    verb(place, "add", "s", "--param", "opt.k=b")
    assert place.run("resume", "s").returncode == 0
    assert place.show()["trials"][9]["params"]["opt"] == {"k": "b"}


def test_a_coordinator_that_does_not_answer_is_named_and_does_it_later(place):
    sweep = running(place, 1)
    os.kill(sweep.pid, signal.SIGSTOP)
    said = verb(place, "stop", "s", status=1)
    assert f"process {sweep.pid} on {os.uname().nodename}, does not answer" in said and "/asks" in said
    os.kill(sweep.pid, signal.SIGCONT)
    assert sweep.wait(30) == 1
    assert place.states() == ["cancelled"]


def test_a_stop_of_a_sweep_whose_coordinator_was_killed_counts_at_its_next_start(place):
    sweep = running(place, 1)
    sweep.kill()
    sweep.wait()
    assert "1 trial is still running; no coordinator is running" in verb(place, "stop", "s")
    assert place.run("s.yaml").returncode == 1
    assert place.states() == ["cancelled"]
    place.nothing_runs()


def test_what_is_asked_of_no_sweep_names_the_nearest(place):
    (place.path / "go").touch()
    assert place.run(place.sweep(RANDOM)).returncode == 0
    for words in (["stop", "t"], ["pause", "t"], ["resume", "t"], ["retry", "t", "--failed"], ["add", "t", "--trials", "1"]):
        said = verb(place, *words, status=2)
        assert f"drover sweep {words[0]}: there is no sweep 't' in 'sweeps'" in said.replace(
            "drover sweep:", f"drover sweep {words[0]}:")
    assert "no sweep name given" in verb(place, "stop", status=2)
    assert "unexpected argument" in verb(place, "stop", "s", "t", status=2)
    (line,) = place.run("ls").stdout.splitlines()
    assert line.startswith("s ") and "finished" in line and "4 of 4 trials: 4 done" in line and " s old" in line
