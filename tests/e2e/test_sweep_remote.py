"""`drover worker`: workers that join a sweep over the network, leave, are lost and return; and unauthenticated peers."""
import json
import os
import signal
import socket
import struct
import subprocess
import time

import pytest
from raw_peer import GREETING, WIRE, Raw, frame
from sweep_kit import DROVER, Place, rss_mib
from waiting import hear_signals, wait_until

pytestmark = pytest.mark.skipif(not DROVER.exists(), reason="drover is not built")
HEAD = "method: grid\nmetric: {name: loss}\n"
# Writes that it was started and by which worker, saves its state on SIGTERM, and waits for the file "go".
PATIENT = """
echo "$DROVER_TRIAL_ID ${DROVER_RESUME:-0} $NODE $(cat "$DROVER_CKPT_DIR/saved" 2>/dev/null)" >> started
trap 'sleep 0.2; echo "$x" > "$DROVER_CKPT_DIR/saved"; exit 0' TERM
while ! test -e go && ! test -e "go.$x"; do sleep 0.02; done
echo "{\\"loss\\":$x}"
"""


def grid(n, more=""):
    return f"{HEAD}parameters: {{x: {{values: {list(range(n))}}}}}\n{more}"


class Remote(Place):
    """A sweep without a local worker that listens on loopback."""

    def __init__(self, path):
        super().__init__(path)
        self.script("t.sh", PATIENT)

    def coordinate(self, *args):
        p = self.start(*(args or (self.sweep(grid(6)),)), "--here", "0", "--listen", "127.0.0.1")
        self.endpoint()
        return p

    def endpoint(self, name="s"):
        key = self.path / "sweeps" / name / "worker.key"
        return wait_until(lambda: key.exists() and key.read_text().split()[1], "worker.key")

    def worker(self, node, *args, key="sweeps/s/worker.key", patience_s=3, wrap=()):
        args = (*(("--key", key) if key else ()), "--places", "1", "--patience", str(patience_s), *args)
        with open(self.path / f"{node}.txt", "a") as log:
            p = subprocess.Popen([*wrap, DROVER, "worker", *args], cwd=self.path, env=dict(self.env, NODE=node),
                                 stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=hear_signals)
        self.started.append(p)
        return p

    def told(self, node):
        return (self.path / f"{node}.txt").read_text()

    def runs(self):
        """[trial, resumed, node, saved…] of each trial run that was started."""
        path = self.path / "started"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def wait_for_runs(self, n):
        return wait_until(lambda: len(self.runs()) >= n and self.runs(), f"{n} trials to start")

    def go(self, x=None):
        (self.path / ("go" if x is None else f"go.{x}")).touch()

    def ends_well(self, coordinator, n):
        assert coordinator.wait(30) == 0, self.said()
        shown = self.show()
        assert [t["state"] for t in shown["trials"]] == ["done"] * n
        assert sorted(t for t, _, _ in self.records("ended")) == list(range(n))  # each trial once
        return shown


@pytest.fixture
def place(tmp_path):
    p = Remote(tmp_path)
    yield p
    p.clean_up()


# ---- workers join and leave -------------------------------------------------------------------------


def test_three_workers_join_and_are_shown(place):
    coordinator = place.coordinate()
    workers = [place.worker(n) for n in "abc"]
    place.wait_for_runs(3)
    listed = wait_until(lambda: [w for w in [place.show()["workers"]] if len(w) == 3], "three workers in the list")[0]
    assert all(w["places"] == 1 and w["slots"] >= 1 and w["running"] == 1 for w in listed)
    assert place.run("show", "s").stdout.count("1 of 1 trial,") == 3
    place.go()
    shown = place.ends_well(coordinator, 6)
    assert shown["workers"] == []
    assert [w.wait(10) for w in workers] == [0, 0, 0]
    assert {r[2] for r in place.runs()} == {"a", "b", "c"}
    for t in range(6):  # all workers share the directory here
        assert list((place.path / f"sweeps/s/trials/{t:06}").glob("*/stdout"))
    for name in ("server.key", "worker.key"):
        assert (place.path / "sweeps/s" / name).stat().st_mode & 0o777 == 0o600
    place.nothing_runs()


def test_the_key_may_come_in_the_environment_and_trials_do_not_see_it(place):
    place.script("t.sh", 'env > env.$x\necho "{\\"loss\\":$x}"\n')
    coordinator = place.coordinate(place.sweep(grid(2)))
    place.env["DROVER_SWEEP_KEY"] = (place.path / "sweeps/s/worker.key").read_text()
    worker = place.worker("a", key=None)
    place.ends_well(coordinator, 2)
    assert worker.wait(10) == 0
    assert "DROVER_TRIAL_ID=0" in (place.path / "env.0").read_text()
    assert "SWEEP_KEY" not in (place.path / "env.0").read_text()


def test_a_worker_that_is_told_to_end_gives_its_trial_back_with_its_checkpoint(place):
    coordinator = place.coordinate(place.sweep(grid(1)))
    first = place.worker("a")
    place.wait_for_runs(1)
    second = place.worker("b", patience_s=30)
    first.send_signal(signal.SIGTERM)
    first.send_signal(signal.SIGHUP)  # at once: the same request
    assert first.wait(10) == 0
    assert place.wait_for_runs(2)[1] == ["0", "1", "b", "0"]
    place.go()
    place.ends_well(coordinator, 1)
    assert [d["why"] for _, _, d in place.records("requeued")] == ["preempted"]
    assert second.wait(10) == 0


def test_a_worker_that_may_finish_ends_after_its_trial(place):
    coordinator = place.coordinate(place.sweep(grid(2)))
    first = place.worker("a", "--finish")
    place.wait_for_runs(1)
    first.send_signal(signal.SIGTERM)
    wait_until(lambda: "1 running trial; another signal stops it" in place.told("a"), "the worker to say so")
    place.go(0)
    assert first.wait(10) == 0
    assert place.runs() == [["0", "0", "a"]] and place.states() == ["done"]
    second = place.worker("b")
    place.go()
    place.ends_well(coordinator, 2)
    assert second.wait(10) == 0 and not place.records("requeued")


def test_what_does_not_end_within_the_grace_is_killed(place):
    place.script("t.sh", 'trap "" TERM; echo "$x 0 $NODE" >> started\nwhile ! test -e go; do sleep 0.02; done\n'
                 'echo "{\\"loss\\":$x}"\n')
    coordinator = place.coordinate(place.sweep(grid(1, "drover: {grace: 60}\n")))
    first = place.worker("a", "--grace", "1")
    place.wait_for_runs(1)
    first.send_signal(signal.SIGTERM)
    assert first.wait(15) == 0
    assert "killing 1 trial" in place.told("a")
    place.go()
    place.worker("b")
    place.ends_well(coordinator, 1)


def test_a_worker_without_work_ends_by_itself(place):
    coordinator = place.coordinate(place.sweep(grid(1)))
    busy = place.worker("a", "--idle-exit", "1")
    place.wait_for_runs(1)
    idle = place.worker("b", "--idle-exit", "1")
    assert idle.wait(10) == 0 and busy.poll() is None
    wait_until(lambda: len(place.show()["workers"]) == 1, "one worker less in the list")
    place.go()
    place.ends_well(coordinator, 1)
    assert busy.wait(10) == 0


# ---- workers and coordinators are lost ----------------------------------------------------------------


LOSES = "drover: {lost_after: 3}\n"


def test_the_trials_of_a_worker_that_is_killed_run_elsewhere(place):
    coordinator = place.coordinate(place.sweep(grid(4, LOSES)))
    workers = {n: place.worker(n) for n in "abc"}
    runs = place.wait_for_runs(3)
    victim = next(r for r in runs if r[0] == "0")[2]
    workers[victim].kill()
    place.go()
    place.ends_well(coordinator, 4)
    assert [d["why"] for _, _, d in place.records("requeued")] == ["lost"]
    again = [r for r in place.runs() if r[0] == "0"]
    assert len(again) == 2 and again[1][2] != victim
    assert sorted(w.wait(10) for w in workers.values()) == [-signal.SIGKILL, 0, 0]
    place.nothing_runs()


def test_a_short_silence_of_a_worker_costs_nothing(place):
    """Also a silence that is longer than the worker's own patience: it was stopped and did not wait."""
    coordinator = place.coordinate(place.sweep(grid(2, "drover: {lost_after: 60}\n")))
    worker = place.worker("a")
    place.wait_for_runs(1)
    worker.send_signal(signal.SIGSTOP)
    silence(4)
    worker.send_signal(signal.SIGCONT)
    place.go()
    place.ends_well(coordinator, 2)
    assert worker.wait(10) == 0
    assert len(place.runs()) == 2 and not place.records("requeued")


def silence(seconds):
    time.sleep(seconds)  # the silence is the subject of the test


def test_after_a_long_silence_the_first_end_counts_and_the_other_copy_is_stopped(place):
    place.script("t.sh", PATIENT.replace("exit 0", "sleep 1; exit 0"))  # the first copy ends after the sweep
    coordinator = place.coordinate(place.sweep(grid(2, LOSES)))
    worker = place.worker("a")
    place.wait_for_runs(1)
    worker.send_signal(signal.SIGSTOP)  # its trial continues
    other = place.worker("b")
    place.go(1)
    assert place.wait_for_runs(3)[1:] == [["1", "0", "b"], ["0", "1", "b"]]
    worker.send_signal(signal.SIGCONT)
    first, second = [lease for t, lease, _ in place.records("leased") if t == 0]
    saved = place.path / f"sweeps/s/trials/000000/{first}/ckpt/saved"
    wait_until(saved.exists, "the first copy to be stopped")
    place.go()
    place.ends_well(coordinator, 2)
    assert [lease for t, lease, _ in place.records("ended") if t == 0] == [second]
    assert (worker.wait(10), other.wait(10)) == (0, 0)
    place.nothing_runs()


def test_trials_run_on_while_the_coordinator_is_away_and_its_successor_listens_on_the_same_port(place):
    coordinator = place.coordinate(place.sweep(grid(3)))
    endpoint = place.endpoint()
    workers = [place.worker(n, patience_s=30) for n in "abc"]
    place.wait_for_runs(3)
    coordinator.kill()
    coordinator.wait()
    place.go(0)
    wait_until(lambda: "loss" in "".join(p.read_text() for p in place.path.glob("sweeps/s/trials/000000/*/stdout")),
             "the end of a trial without a coordinator")
    coordinator = place.start("--name", "s", "--resume", "--here", "0")
    wait_until(lambda: len(place.show()["workers"]) == 3, "three workers to be back")
    place.go()
    place.ends_well(coordinator, 3)
    assert place.endpoint() == endpoint
    assert len(place.runs()) == 3 and [w.wait(10) for w in workers] == [0, 0, 0]


# ---- nodes without the sweep's directory ----------------------------------------------------------------


def can_unshare():
    return subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0


@pytest.mark.skipif(not can_unshare(), reason="no mount namespaces")
def test_without_the_sweeps_directory_the_files_of_trials_stay_on_the_node(place):
    program = '#!/bin/sh\ncat "$1" > "$DROVER_TRIAL_DIR/read"; echo "{\\"loss\\":1}"\n'
    (place.path / "t.sh").write_text(program)
    (place.path / "s.yaml").write_text('program: t.sh\ncommand: ["./t.sh", "${args_json_file}"]\n' + grid(2))
    coordinator = place.coordinate("s.yaml")
    (place.path / "far").mkdir()
    key = place.path / "far/worker.key"
    key.write_bytes((place.path / "sweeps/s/worker.key").read_bytes())
    key.chmod(0o600)
    hide = ("unshare", "-m", "sh", "-c", 'mount -t tmpfs none sweeps && exec "$@"', "sh")
    worker = place.worker("a", "--dir", "far", key=key, wrap=hide)
    place.ends_well(coordinator, 2)
    assert worker.wait(10) == 0 and "is not on this node" in place.told("a")
    assert not list((place.path / "sweeps/s").glob("trials/*"))
    read = sorted((place.path / "far").glob("s-*/trials/*/*/read"))
    assert [json.loads(p.read_text()) for p in read] == [{"x": 0}, {"x": 1}]


@pytest.mark.skipif(not can_unshare(), reason="no mount namespaces")
def test_a_node_without_the_directory_to_run_in_says_so_and_its_trials_go_elsewhere(place):
    outer, home = place.path, place.path / "mnt/home"
    home.mkdir(parents=True)
    place.path = home
    place.script("t.sh", PATIENT)
    coordinator = place.coordinate(place.sweep(grid(1, "drover: {retries: 1}\n")))
    key = outer / "worker.key"
    key.write_bytes((home / "sweeps/s/worker.key").read_bytes())
    key.chmod(0o600)
    hide = ("unshare", "-m", "sh", "-c", f'mount -t tmpfs none {outer}/mnt && cd {outer} && exec "$@"', "sh")
    for _ in range(3):  # as a supervisor would do, more often than the trial may be retried
        assert place.worker("a", key=key, wrap=hide).wait(10) == 2
    assert f"'{home}'" in place.told("a") and "--wdir" in place.told("a")
    good = place.worker("b", key=key)
    place.go()
    place.ends_well(coordinator, 1)
    assert good.wait(10) == 0
    assert [(d["why"], d["spent"]) for _, _, d in place.records("requeued")] == [("preempted", False)] * 3


# ---- nodes of a cluster -------------------------------------------------------------------------------------


def test_a_node_that_the_network_loses_is_replaced_and_comes_back(cluster, tmp_path):
    """Coordinator and workers on different nodes; workers get the name of the coordinator's node."""
    place = Remote(tmp_path)
    sweep = place.sweep(grid(4, LOSES))
    one, two, three = cluster.nodes
    run = {"cwd": tmp_path, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    coordinator = one.start_job(DROVER, "sweep", sweep, "--here", "0", "--listen", ":", **run)
    assert place.endpoint().startswith(f"tcp://{one.name}:")
    ask = (DROVER, "worker", "--key", "sweeps/s/worker.key", "--places", "1", "--patience", "12")
    near = two.start_job(*ask, env={"NODE": "two"}, **run)
    place.wait_for_runs(1)
    two.cut()
    far = three.start_job(*ask, env={"NODE": "three"}, **run)
    for x in (1, 2, 3):
        place.go(x)
    assert wait_until(lambda: [r for r in place.runs() if r[:3] == ["0", "1", "three"]], "the lost trial to run again")
    two.mend()
    leases = [lease for t, lease, _ in place.records("leased") if t == 0]
    saved = place.path / f"sweeps/s/trials/000000/{leases[0]}/ckpt/saved"
    wait_until(saved.exists, "the first copy to be stopped, when its node is back")
    place.go()
    assert [j.end(30)[0] for j in (coordinator, near, far)] == [0, 0, 0]
    assert [(t, lease) for t, lease, _ in place.records("ended") if t == 0] == [(0, leases[-1])]
    assert sorted(t for t, _, _ in place.records("ended")) == [0, 1, 2, 3]
    nodes = {d["node"] for _, _, d in place.records("leased")}
    assert nodes == {two.name, three.name}


# ---- unauthenticated peers --------------------------------------------------------------------------------


def test_unauthenticated_peers_are_rejected_and_the_sweep_continues(place):
    coordinator = place.coordinate(place.sweep(grid(2)))
    endpoint = place.endpoint()
    place.worker("a")
    place.wait_for_runs(1)
    host, port = endpoint.removeprefix("tcp://").rsplit(":", 1)
    held = []
    for i in range(60):  # port scans, garbage, greetings without a handshake, long lengths
        s = socket.create_connection((host, int(port)), 10)
        if i % 4:
            s.sendall((os.urandom(4000), GREETING, b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 9)[i % 4])
        if i % 8 < 4:
            s.close()
        else:
            held.append(s)
    with pytest.raises(ConnectionError):  # without a key, the connection ends after the greeting
        Raw(endpoint)
    no_key = place.worker("n", endpoint, "--plain", key=None)
    wrong = place.path / "wrong.key"
    word = (place.path / "sweeps/s/worker.key").read_text().split()
    wrong.write_text(" ".join((*word[:3], "1" * 64)))
    wrong.chmod(0o600)
    wrong_key = place.worker("w", key=wrong)
    wrong.with_name("other.key").write_text(" ".join((*word[:2], "2" * 64, word[3])))
    wrong.with_name("other.key").chmod(0o600)
    other = place.worker("o", key="other.key")
    assert wrong_key.wait(20) == 2 and "rejects the key" in place.told("w")
    assert no_key.wait(20) == 1 and other.wait(20) == 1 and "closes the connection" in place.told("n")
    assert "worker.key" in place.told("o")
    place.go()
    place.ends_well(coordinator, 2)
    assert 1 <= place.said().count("rejected a connection") <= 2, place.said()
    assert len(place.said()) < 3000
    for s in held:
        s.close()


def plain(place, sweep):
    """A sweep that accepts workers without keys: (coordinator, endpoint)."""
    coordinator = place.start(sweep, "--here", "0", "--listen", "127.0.0.1", "--plain")
    listen = place.path / "sweeps/s/listen"
    wait_until(listen.exists, "the address")
    return coordinator, listen.read_text().split()[0]


def test_what_was_under_way_when_a_connection_broke_is_not_taken_for_stored(place):
    """ZeroMQ sends what is left in its queue on the next connection, before the hello: with a gap."""
    coordinator, endpoint = plain(place, place.sweep(grid(1)))
    raw = Raw(endpoint, b"broken")
    raw.hello(1)
    lease = raw.hear("run")["lease"]
    raw.report(lease, 1)
    assert raw.hear("ack")["seq"] == 1
    raw.s.close()  # reports 2 and 3 were on their way
    raw = Raw(endpoint, b"broken", raw.instance)
    for seq in (4, 5):
        raw.report(lease, seq)
    assert raw.hear("reconnect")["conn"] == 1
    raw.hello(1, [lease], conn=2)
    for seq in (2, 3, 4, 5):
        raw.report(lease, seq, conn=2)
    raw.done(lease, 6, conn=2)
    while raw.hear("ack")["seq"] < 6:
        pass
    raw.say("bye", conn=2)
    place.ends_well(coordinator, 1)
    assert [d["step"] for _, _, d in place.records("report")] == [1, 2, 3, 4, 5]
    assert len(place.records("leased")) == 1


def test_after_a_restart_what_follows_on_a_report_without_a_record_is_taken(place):
    coordinator, endpoint = plain(place, place.sweep(grid(1)))
    raw = Raw(endpoint, b"w")
    raw.hello(1)
    lease = raw.hear("run")["lease"]
    for seq in (1, 2):
        raw.say("report", {"step": 1, "loss": 0.5}, instance=raw.instance, lease=lease, seq=seq)  # twice the same: one record
    while raw.hear("ack")["seq"] < 2:
        pass
    coordinator.kill()
    coordinator.wait()
    coordinator = place.start("--name", "s", "--resume", "--here", "0", "--listen", endpoint.removeprefix("tcp://"), "--plain")
    raw = again(endpoint, b"w", raw.instance)
    raw.hello(1, [lease], conn=2)
    raw.report(lease, 3, conn=2)
    raw.done(lease, 4, conn=2)
    while raw.hear("ack")["seq"] < 4:
        pass
    raw.say("bye", conn=2)
    place.ends_well(coordinator, 1)
    assert [d["step"] for _, _, d in place.records("report")] == [1, 3]


def again(endpoint, name, instance):
    """A peer of a coordinator that is about to listen."""
    def connected():
        try:
            return Raw(endpoint, name, instance)
        except OSError:
            return None

    return wait_until(connected, "the coordinator to listen")


def test_a_lease_that_was_never_given_costs_nothing(place):
    coordinator, endpoint = plain(place, place.sweep(grid(1)))
    before = rss_mib(coordinator.pid)
    raw = Raw(endpoint, b"w")
    raw.hello(1)
    lease = raw.hear("run")["lease"]
    for far in (10**7, 10**12, 2**53, 2**63 - 1):
        raw.report(far, 1)
        assert raw.hear("ack")["lease"] == far  # a worker that has it may forget it
    assert rss_mib(coordinator.pid) - before < 10
    raw.done(lease, 1)
    raw.hear("ack")
    raw.say("bye")
    assert coordinator.wait(30) == 1 and place.states() == ["invalid"], place.said()


def test_who_reports_much_after_a_stop_is_told_to_stop_once_a_turn(place):
    """Otherwise the answers would fill its queue, and it would count as lost together with its trials."""
    coordinator, endpoint = plain(place, place.sweep(grid(2, "drover: {timeout: 1}\n")))
    raw = Raw(endpoint, b"busy")
    raw.hello(1)
    lease, n = raw.hear("run")["lease"], 20000
    assert raw.hear("stop")["lease"] == lease
    raw.report_all(lease, n)
    said = []
    while not said or said[-1].get("seq", 0) < n:
        said.append(raw.hear("ack", "stop"))
    stops = [m for m in said if m["kind"] == "stop"]
    assert stops and len(stops) < n / 10, len(stops)
    coordinator.kill()


def test_a_coordinator_without_keys_takes_no_harm_from_what_it_is_told(place):
    """A message that is too long, garbage, another version, repeated messages, and a peer that reads nothing."""
    coordinator, endpoint = plain(place, place.sweep(grid(2)))
    before = rss_mib(coordinator.pid)
    long = Raw(endpoint, b"long")
    long.s.sendall(b"\2" + struct.pack(">Q", 1 << 30))
    with pytest.raises(OSError):  # closed at once, not after a gigabyte
        while True:
            long.s.sendall(bytes(1 << 16))
    old = Raw(endpoint, b"old")
    old.s.sendall(frame(b'{"v":4,"kind":"ping","conn":1}'))
    assert old.hear("reconnect")["v"] == WIRE
    deaf = Raw(endpoint, b"deaf")
    deaf.hello(0)
    deaf.s.setblocking(False)
    pings, at, sent = 1000 * frame(b'{"v":%d,"kind":"ping","conn":1}' % WIRE), 0, 0

    def noticed():
        nonlocal at, sent
        try:
            while sent < 400 * len(pings):
                n = deaf.s.send(pings[at:])
                at, sent = (at + n) % len(pings), sent + n
        except OSError:
            pass  # the socket accepts no more than the coordinator reads
        return "worker deaf" in place.said()
    wait_until(noticed, "the deaf one to be noticed")
    assert rss_mib(coordinator.pid) - before < 50
    bad = Raw(endpoint, b"bad")
    for text in (b"", b"[" * 100000, b"\0" * 300, b'{"v":%d,"kind":"run","conn":1}' % WIRE):
        bad.s.sendall(frame(text))
    bad.hello(1)
    lease = bad.hear("run")["lease"]
    for _ in range(2):
        bad.report(lease, 1)
        bad.done(lease, 2)
    bad.say("bye")
    place.go()
    worker = place.worker("a", endpoint, "--plain", key=None)
    place.ends_well(coordinator, 2)
    assert len(place.records("report")) == 2
    assert worker.wait(10) == 0


def test_a_worker_that_says_much_at_once_has_little_to_read(place):
    """One ack per lease and batch: 30,000 acks would fill the worker's queue."""
    coordinator, endpoint = plain(place, place.sweep(grid(1)))
    busy = Raw(endpoint, b"busy")
    busy.hello(1)
    lease, n = busy.hear("run")["lease"], 30000
    busy.s.settimeout(60)
    busy.report_all(lease, n)
    busy.done(lease, n + 1)
    acks = [0]
    while acks[-1] <= n:
        acks.append(busy.hear("ack")["seq"])
    assert acks == sorted(set(acks)) and len(acks) < n / 10, len(acks)
    busy.say("bye")
    place.ends_well(coordinator, 1)
    assert len(place.records("report")) == n


def test_what_is_wrong_about_keys_and_addresses_is_said_before_anything_starts(place):
    sweep = place.sweep(grid(1))
    for args, said in (((sweep, "--listen", ":0", "--plain"), "not on loopback"),
                       ((sweep, "--plain"), "--listen"),
                       ((sweep, "--listen", "a:b"), "port"),
                       ((sweep, "--here", "0"), "--listen")):
        done = place.run(*args)
        assert done.returncode == 2 and said in done.stderr, done.stderr
    assert not (place.path / "sweeps").exists()
    for args, said in ((("tcp://10.0.0.1:1",), "requires a key"), (("tcp://127.0.0.1:1",), "--plain"),
                       (("tcp://10.0.0.1:1", "--plain"), "not a loopback address"), ((), "no endpoint"),
                       (("--key", "none.key"), "none.key"), (("--key", "s.yaml"), "chmod 600")):
        worker = place.worker("x", *args, key=None)
        assert worker.wait(10) == 2 and said in place.told("x"), place.told("x")
