"""`drover why`: what changed between a run that went wrong and the last good one."""
import json
import shutil
from pathlib import Path

import pytest

TRAIN = """import argparse, os, time
p = argparse.ArgumentParser()
p.add_argument("--data", default="data.txt")
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--key")
a = p.parse_args()
for step in range(3):
    print({"step": step, "loss": 1 / (step + 1)}, flush=True)
    time.sleep(float(os.environ.get("NAP", "0.1")))
if open(a.data).read() != "good": raise ValueError(f"{a.data}: bad magic")
if a.batch_size > 64: raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
if os.environ.get("LEVEL") == "9": raise KeyError("LEVEL")
"""


@pytest.fixture(autouse=True)
def program(drover):
    (drover.cwd / "train.py").write_text(TRAIN)
    (drover.cwd / "data.txt").write_text("good")


def train(drover, name, *args, status=0, **env):
    done = drover.run("run", "-np", 1, "--name", name, "python3", "train.py", *args, env=env)
    assert done.returncode == status, done.stderr


def why(drover, *args):
    done = drover.run("why", *args, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def first(drover, name):
    change = why(drover, name)["changes"][0]
    return change["fact"], change["good"], change["bad"]


def test_the_change_that_made_a_run_fail_is_first(drover):
    for i in range(3):
        train(drover, f"good{i}", "--data", "data.txt", "--batch-size", "8", SESSION_ID=str(7000 + i), LEVEL="1")
    base = {"SESSION_ID": "8000", "LEVEL": "1", "status": 1}
    train(drover, "option", "--data", "data.txt", "--batch-size", "128", **base)
    assert first(drover, "option") == ("command --batch-size", "8", "128")
    train(drover, "path", "--data", "nowhere/data.txt", "--batch-size", "8", **base)
    assert first(drover, "path") == ("command --data", "data.txt", "nowhere/data.txt")
    train(drover, "variable", "--data", "data.txt", "--batch-size", "8", **{**base, "LEVEL": "9"})
    assert first(drover, "variable") == ("variable LEVEL", "1", "9")
    (drover.cwd / "data.txt").write_text("damaged")
    train(drover, "file", "--data", "data.txt", "--batch-size", "8", **base)
    assert first(drover, "file")[0] == "file data.txt"
    text = drover.run("why", "option").stdout.splitlines()
    assert text[0].startswith("drover-") and text[0].endswith(": out of GPU memory") and " failed after " in text[0]
    assert "3 earlier runs that ended well" in text[1] and text[2].split() == ["FACT", "GOOD", "BAD", "WHY"]
    assert text[3].startswith("command --batch-size ") and "relates to GPU memory" in text[3]
    assert "variable SESSION_ID" in text[-1]


def test_a_slow_run_is_compared_with_a_faster_one(drover):
    train(drover, "good")
    train(drover, "slow", NAP="1.5")
    found = why(drover, "slow")
    assert "times slower than the good run" in found["sentence"]
    assert "variable NAP" in [c["fact"] for c in found["changes"][:3]]
    done = drover.run("why", "good")
    assert done.returncode == 2 and "no earlier run of this program is known" in done.stderr
    assert "variable NAP" in drover.run("why", "good", "--good", "slow").stdout


def test_a_run_that_hangs_says_so(drover):
    (drover.cwd / "train.py").write_text("import os, time\ntime.sleep(float(os.environ.get('WAIT', '0')))\n")
    train(drover, "good")
    done = drover.run("run", "-np", 1, "--name", "hung", "--hang-timeout", 2, "python3", "train.py", env={"WAIT": "1000"})
    assert done.returncode == 124, done.stderr
    assert ": the job hangs: " in why(drover, "hung")["sentence"]
    assert first(drover, "hung") == ("variable WAIT", None, "1000")
    assert "the job hangs: " in drover.run("runs").stdout


def test_many_runs_of_other_programs_do_not_hide_the_good_one(drover):
    train(drover, "good")
    drover.run("run", "-np", 1, "--name", "other", "true")
    other = max(Path(drover.env["XDG_STATE_HOME"]).glob("drover/runs/*.db"), key=lambda p: p.stat().st_mtime_ns)
    for i in range(70):
        shutil.copy(other, other.with_name(f"copy-{i}.db"))
    train(drover, "bad", "--data", "none", status=1)
    found = why(drover, "bad")
    assert found["earlier"] == 64 and found["changes"][0]["fact"] == "command --data"


def test_secrets_are_not_shown(drover):
    train(drover, "good", "--key", "hidden1", API_KEY="hidden2")
    train(drover, "bad", "--key", "hidden3", "--data", "none", status=1, API_KEY="hidden4", OTHER_TOKEN="hidden5")
    shown = drover.run("why", "bad", "--all").stdout
    assert "variable OTHER_TOKEN" in shown and "masked" in shown
    assert "hidden" not in shown and "--key" not in shown and "API_KEY" not in shown


def test_what_is_missing_is_said(drover):
    train(drover, "bad", "--data", "none", status=1)
    train(drover, "bad2", "--data", "none", status=1)
    for args, text in [(["nothing"], "you have no run of this id or name"), ([], "the run is missing"),
                       (["bad2"], "no earlier run of this program ended well"),
                       (["bad2", "--good", "nothing"], "you have no run of this id or name"),
                       (["bad2", "--good", "bad2"], "it is the bad run itself")]:
        done = drover.run("why", *args)
        assert (done.returncode, done.stdout) == (2, "") and text in done.stderr, done.stderr
