"""Two views of one directory that do not share locks: one of the coordinators writes, whatever is killed or stopped.

The second view is bindfs. A coordinator in a PID namespace of its own is, for the other one, on another machine: only its
counter says that it runs.
"""
import os
import shutil
import signal
import sqlite3
import subprocess
import time

import pytest
from serve_kit import Server
from sweep_kit import DROVER, Place
from waiting import wait_until

pytestmark = pytest.mark.skipif(not shutil.which("bindfs") or not os.path.exists("/dev/fuse") or os.geteuid() != 0,
                                reason="two views of a directory need bindfs, FUSE and root")
SWEEP = """
method: random
run_cap: {cap}
metric: {{name: loss}}
parameters: {{x: {{min: 0, max: 1.0}}}}
drover: {{parallel: 2, lost_after: 2}}
"""
TRIAL = 'sleep 0.1; test -e go || sleep {wait}\necho "{{\\"loss\\": $x}}"\n'
ALONE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]


@pytest.fixture
def views(tmp_path):
    """(real, view): Places of one directory."""
    real, view = Place(tmp_path / "real"), Place(tmp_path / "view")
    real.path.mkdir()
    view.path.mkdir()
    if subprocess.run(["bindfs", real.path, view.path]).returncode != 0:
        pytest.skip("FUSE file systems cannot be mounted here")
    yield real, view
    real.clean_up()
    view.clean_up()
    subprocess.run(["umount", "-l", view.path], check=True)


def start(place, *args, alone=False):
    with open(place.path / f"err-{time.monotonic_ns()}.txt", "w") as err:
        p = subprocess.Popen([*(ALONE if alone else []), DROVER, "sweep", *args], cwd=place.path, env=place.env, stdout=err,
                             stderr=err, stdin=subprocess.DEVNULL, start_new_session=True)
    p.said = err.name
    place.started.append(p)
    return p


def coordinator_of(p):
    """The process drover-hpo that `p` is, or that runs in its namespace."""
    children = open(f"/proc/{p.pid}/task/{p.pid}/children").read().split()
    is_unshare = open(f"/proc/{p.pid}/comm").read().strip() == "unshare"
    return int(children[0]) if is_unshare and children else p.pid


def is_intact(place, trials):
    with sqlite3.connect(f"file:{place.db()}?mode=ro", uri=True, timeout=10) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        ends = db.execute("SELECT trial, count(*) FROM record WHERE kind='ended' GROUP BY trial").fetchall()
        seqs = [n for (n,) in db.execute("SELECT seq FROM record ORDER BY seq")]
    assert seqs == list(range(1, len(seqs) + 1))
    assert sorted(ends) == [(t, 1) for t in range(trials)]
    assert place.states() == ["done"] * trials


@pytest.mark.parametrize("alone", [False, True])
def test_commands_reach_the_coordinator_from_the_other_view(views, alone):
    real, view = views
    real.script("t.sh", TRIAL.format(wait=0.3))
    sweep = start(view, view.sweep(SWEEP.format(cap=1000)), alone=alone)
    wait_until(lambda: real.db().exists() and (real.path / "sweeps/s/trials/000002").exists(), lambda: open(sweep.said).read())
    second = real.run("s.yaml", "--name", "s")
    assert second.returncode == 2 and "is being worked on" in second.stderr, second.stderr
    assert f"process {1 if alone else sweep.pid} on {os.uname().nodename}" in second.stderr
    for words in (["pause", "s"], ["add", "s", "--trials", "2"], ["resume", "s"]):
        done = real.run(*words)
        assert done.returncode == 0 and "no coordinator" not in done.stdout + done.stderr, done
    server = Server(real, "s", "--control")
    status, _, body = server.ask("/api/s/control", "POST", '{"verb":"pause"}', Cookie=server.cookie)
    assert status == 200, (status, body)
    assert "no coordinator" not in str(body)
    assert real.run("cancel", "s").returncode == 0
    assert sweep.wait(30) in (0, 1), open(sweep.said).read()
    assert not list((real.path / "sweeps/s/commands").iterdir())


@pytest.mark.parametrize("words", [["cancel", "s", "--now"], ["stop", "s"]])
def test_a_sweep_is_ended_and_removed_from_the_other_view(views, words):
    real, view = views
    real.script("t.sh", TRIAL.format(wait=0.3))
    sweep = start(real, real.sweep(SWEEP.format(cap=1000)))
    wait_until(lambda: (real.path / "sweeps/s/trials/000002").exists(), lambda: open(sweep.said).read())
    done = view.run(*words)
    assert done.returncode == 0, done.stderr
    assert sweep.wait(30) in (0, 1), open(sweep.said).read()
    done = view.run("rm", "s", "-y")
    assert done.returncode == 0 and not (real.path / "sweeps/s").exists(), done.stderr


def test_kills_and_starts_at_random_leave_one_writer(views, seed):
    trials, places = 24, list(views)
    places[0].script("t.sh", TRIAL.format(wait=0.1))
    places[0].sweep(SWEEP.format(cap=trials))
    statuses, end = [], time.monotonic() + 20
    running = []
    while time.monotonic() < end and (not places[0].db().exists() or len(places[0].records("ended")) < trials // 2):
        running.append(start(seed.choice(places), "s.yaml", "--name", "s"))
        time.sleep(seed.uniform(0, 0.6))
        for p in running:
            if p.poll() is None and seed.random() < 0.3:
                os.kill(p.pid, seed.choice((signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT)))
        statuses += [p.returncode for p in running if p.poll() is not None]
        running = [p for p in running if p.poll() is None]
        assert len(running) <= 3
    for p in running:
        os.kill(p.pid, signal.SIGCONT)
    assert set(statuses) <= {0, 2, -signal.SIGKILL}, statuses
    for p in running:
        assert p.wait(60) in (0, 2, -signal.SIGKILL), open(p.said).read()
    places[0].run("s.yaml", "--name", "s")
    is_intact(places[0], trials)


def test_a_coordinator_that_stood_still_writes_nothing_after_its_successor_has_begun(views):
    real, view = views
    real.script("t.sh", TRIAL.format(wait=0.2))
    first = start(view, view.sweep(SWEEP.format(cap=60)), alone=True)
    wait_until(lambda: (real.path / "sweeps/s/trials/000003").exists(), lambda: open(first.said).read())
    pid, journal = coordinator_of(first), real.path / "sweeps/s/sweep.db-journal"
    for _ in range(100):
        os.kill(pid, signal.SIGSTOP)
        if not journal.exists() or journal.stat().st_size == 0:
            break  # it is not within a commit, which is the moment that no check covers
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.01)
    (real.path / "go").touch()
    done = real.run("s.yaml", "--name", "s", limit_s=90)
    assert done.returncode == 0 and "another machine may work on this sweep" in done.stderr, done.stderr
    os.kill(pid, signal.SIGCONT)
    assert first.wait(60) == 1
    said = open(first.said).read()
    assert "has taken over this sweep" in said or "nothing more is stored" in said, said
    is_intact(real, 60)
