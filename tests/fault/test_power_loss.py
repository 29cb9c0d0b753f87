"""The power fails while a sweep runs: what was not synced is lost, but nothing that drover has acknowledged.

Each fsync() and each message is recorded (preload/record_syncs.c). Up to a random event, files have the bytes and
directories the names of their last sync; the sync in progress has written any of its pages. DROVER_TEST_SEED repeats
the cuts, DROVER_TEST_CUTS says how many (default: 12)."""
import os
import re
import shutil
import signal
import sqlite3
import subprocess

import pytest
from sweep_kit import BUILD, DROVER, Place
from waiting import wait_until

CUTS = int(os.environ.get("DROVER_TEST_CUTS", 12))
PAGE = 4096
ACK = re.compile(rb'"kind":"ack"[^{}]*"lease":(\d+),"seq":(\d+)')
RUN = re.compile(rb'"kind":"run"[^{}]*"lease":(\d+)')
SWEEP = """method: grid
metric: {name: loss}
parameters: {x: {values: [1, 2, 3, 4]}}
drover: {retries: 5, retry_failed: true, lost_after: 1}
"""
# The first lease leaves a checkpoint and fails.
TRIAL = """
for step in 1 2 3 4 5; do echo "{\\"step\\":$step,\\"loss\\":$x}"; done
test ! -e "$DROVER_CKPT_DIR/big" || exit 0
mkdir "$DROVER_CKPT_DIR/sub"
head -c 300000 /dev/zero | tr '\\0' x >"$DROVER_CKPT_DIR/big"
echo small >"$DROVER_CKPT_DIR/sub/small"
exit 1
"""


def identity(path):
    """As preload/record_syncs.c has it."""
    ino, created = subprocess.run(["stat", "-c", "%i %.9W", path], text=True, capture_output=True, check=True).stdout.split()
    seconds, nanoseconds = created.split(".")
    return f"{ino}.{seconds}.{int(nanoseconds)}"


class Recording:
    """The events, and the directory as it was before them."""

    def __init__(self, place, log):
        self.place, self.log = place, log
        self.root = identity(place.path)
        self.base = {f.name: (f.read_bytes(), f.stat().st_mode) for f in place.path.iterdir() if f.is_file()}
        place.env.update(LD_PRELOAD=str(BUILD / "tests/fault/preload/record_syncs.so"), SYNC_LOG=str(log))
        self.events = []

    def end(self):
        """Reads the events, and removes the directory's contents."""
        del self.place.env["LD_PRELOAD"], self.place.env["SYNC_LOG"]
        text, at = self.log.read_bytes(), 0
        while at < len(text):
            head, at = text[at:text.index(b"\n", at)], text.index(b"\n", at) + 1
            kind, who, size = head.decode().split()
            self.events.append((kind, who, text[at:at + int(size)]))
            at += int(size)

    def sent(self, n, what):
        return [tuple(map(int, m)) if isinstance(m, tuple) else int(m)
                for kind, _, b in self.events[:n] if kind == "send" for m in what.findall(b)]

    def cut(self, n, rng=None):
        """Makes the directory as it is if the power fails in event n."""
        synced = {}
        for kind, who, b in self.events[:n]:
            if kind != "send":
                synced[who] = b
        if n < len(self.events) and rng:
            kind, who, b = self.events[n]
            if kind == "sync":
                synced[who] = mix(synced.get(who, b""), b, rng)
            elif kind == "dir" and rng.random() < 0.5:
                synced[who] = b
        shutil.rmtree(self.place.path)
        self.place.path.mkdir()
        self.fill(self.place.path, self.root, synced)
        for name, (b, mode) in self.base.items():
            (self.place.path / name).write_bytes(b)
            (self.place.path / name).chmod(mode)

    def fill(self, path, who, synced):
        for line in synced.get(who, b"").decode().splitlines():
            of, kind, name = line.split(" ", 2)
            if kind == "d":
                (path / name).mkdir()
                self.fill(path / name, of, synced)
            elif kind == "f":
                (path / name).write_bytes(synced.get(of, b""))
                (path / name).chmod(0o600)


def mix(old, new, rng):
    pages = range(0, max(len(old), len(new)), PAGE)
    return b"".join(rng.choice((old, new))[at:at + PAGE].ljust(min(PAGE, len(new) - at) if at < len(new) else 0, b"\0")
                    for at in pages)


def records(place, what):
    if not place.db().exists():
        return []
    with sqlite3.connect(place.db()) as db:
        if not db.execute("SELECT 1 FROM sqlite_master WHERE name='record'").fetchone():
            return []
        return db.execute(what).fetchall()


def check_acknowledged(place, recording, n):
    leased = {lease for lease, in records(place, "SELECT lease FROM record WHERE kind='leased'")}
    stored = dict(records(place, "SELECT lease, max(msg) FROM record WHERE kind IN ('report', 'ended', 'requeued') GROUP BY lease"))
    assert leased >= set(recording.sent(n, RUN))
    for lease, last in recording.sent(n, ACK):
        assert stored.get(lease, 0) >= last, f"lease {lease}: {last} is acknowledged, {stored.get(lease)} is stored"


@pytest.fixture
def place(tmp_path):
    (tmp_path / "place").mkdir()
    p = Place(tmp_path / "place")
    p.script("t.sh", TRIAL)
    yield p
    p.clean_up()


def test_what_is_acknowledged_survives_a_power_failure(place, tmp_path, seed):
    place.sweep(SWEEP)
    recording = Recording(place, tmp_path / "log")
    done = place.run("s.yaml", "--here", "2")
    assert done.returncode == 0, done.stderr
    assert place.states() == ["done"] * 4
    recording.end()
    total = len(recording.events)
    assert recording.sent(total, ACK) and len(set(recording.sent(total, RUN))) >= 8
    for n in [total, *sorted(seed.randrange(total) for _ in range(CUTS))]:
        print("event", n, "of", total)
        recording.cut(n, seed)
        check_acknowledged(place, recording, n)
        for ckpt in place.path.glob("sweeps/s/trials/*/[2-9]/ckpt"):
            assert (ckpt / "big").stat().st_size == 300000 and (ckpt / "sub/small").read_text() == "small\n"
        again = ["--name", "s", "--resume"] if recording.sent(n, RUN) else ["s.yaml"]
        done = place.run(*again)
        assert done.returncode == 0, f"{again} {done.stderr}"
        assert place.states() == ["done"] * 4
        assert sorted(t for t, _, _ in place.records("ended")) == [0, 1, 2, 3]


def test_keys_and_leftovers_survive_a_power_failure(place, tmp_path):
    place.script("t.sh", 'echo "{\\"step\\":1,\\"loss\\":$x}"; while ! test -e go; do sleep 0.02; done; echo "{\\"step\\":2,\\"loss\\":$x}"\n')
    place.sweep("method: grid\nmetric: {name: loss}\nparameters: {x: {value: 1}}\n")
    recording = Recording(place, tmp_path / "log")
    coordinator = place.start("s.yaml", "--here", "0", "--listen", "127.0.0.1:")
    sweep = place.path / "sweeps/s"
    wait_until((sweep / "coord.sock").exists, "the coordinator")
    left = sweep / "worker.x.left"
    worker = subprocess.Popen([DROVER, "worker", f"ipc://{sweep}/coord.sock", "--places", "1", "--patience", "1", "--left", left],
                              cwd=place.path, env=place.env, stderr=subprocess.PIPE, text=True)
    place.started.append(worker)
    wait_until(lambda: place.records("report"), "a report")
    wait_until((sweep / "worker.key").exists, "worker.key")
    keys = {f.name: f.read_bytes() for f in sweep.glob("*.key")}
    coordinator.send_signal(signal.SIGKILL)
    coordinator.wait()
    worker.communicate(timeout=60)
    whole = left.read_bytes()
    assert b'"done"' in whole
    recording.end()
    recording.cut(len(recording.events))
    assert left.read_bytes() == whole
    assert {f.name: f.read_bytes() for f in sweep.glob("*.key")} == keys and len(keys) == 2


def test_a_trainers_checkpoint_survives_a_power_failure(place, tmp_path, seed):
    argv = [BUILD / "examples/digits/digits", "--hidden=16", "--epochs=4", "--checkpoint=new", "--checkpoint-every=1", "--resume"]

    def train():
        done = subprocess.run(argv, cwd=place.path, env=place.env, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        resumed = re.search(r"^resumed after epoch (\d+), step 0$", done.stdout, re.M)
        return int(resumed[1]) if resumed else 0, done.stdout.splitlines()[-1]
    recording = Recording(place, tmp_path / "log")
    resumed, weights = train()
    assert resumed == 0
    recording.end()
    total = len(recording.events)
    saved = [sum(kind == "dir" and b.endswith(b" f digits.ckpt\n") for kind, _, b in recording.events[:n]) for n in range(total + 1)]
    assert saved[-1] == 4
    for n in range(total + 1):
        recording.cut(n, seed)
        resumed, again = train()
        assert saved[n] <= resumed <= saved[n] + 1 and again == weights, f"event {n} of {total}"
