"""A sweep over three nodes while its processes are killed, cut off and given a wrong clock.

DROVER_TEST_KILLS says how many kills (200 with a partition of 30 s: four minutes), DROVER_TEST_SEED which."""
import os
import random
import sqlite3
import subprocess
import time

import pytest
from sweep_kit import DROVER, Place
from waiting import wait_until

pytestmark = pytest.mark.skipif(not DROVER.exists(), reason="drover is not built")
KILLS = int(os.environ.get("DROVER_TEST_KILLS", 16))
LONG = KILLS >= 100
CUT_S = 30 if LONG else 4
PATIENCE_S = 60 if LONG else 9  # of workers; they ping six times in it, and are lost after three pings
TRIALS = max(8, KILLS // 3)
PLACES = 2
SWEEP = f"""
method: random
run_cap: {TRIALS}
metric: {{name: loss}}
parameters: {{x: {{min: 0.0, max: 1.0}}}}
drover: {{retries: 100000, retry_failed: true, lost_after: 3, timeout: 7200, grace: 2}}
"""
# Reports in bursts until its share of the kills has happened, and writes its reports to a log of its own.
TRIAL = f"""
step=0 kills=0
while test $step -lt 60 || test $kills -lt $(((DROVER_TRIAL_ID + 1) * {KILLS} / {TRIALS})); do
    step=$((step + 1))
    echo $step >> "$DROVER_TRIAL_DIR/said"
    echo "{{\\"step\\":$step,\\"loss\\":$x}}"
    test $((step % 20)) -gt 0 || sleep 0.$((3 + $$ % 5))
    read kills < kills
done
"""
# Moves the wall clock of a process that preloads it ahead by the seconds in a file.
CLOCK = r"""
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile long *ahead;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("CLOCK_FILE");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, fd, 0);
    ahead = at == MAP_FAILED ? NULL : at;
    if (fd >= 0)
        close(fd);
}

int clock_gettime(clockid_t id, struct timespec *t)
{
    int rc = (int)syscall(SYS_clock_gettime, id, t);
    if (rc == 0 && ahead && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        t->tv_sec += *ahead;
    return rc;
}

int gettimeofday(struct timeval *v, void *zone)
{
    struct timespec t;
    int rc = clock_gettime(CLOCK_REALTIME, &t);
    *v = (struct timeval){t.tv_sec, t.tv_nsec / 1000};
    return rc;
}

time_t time(time_t *out)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (out)
        *out = t.tv_sec;
    return t.tv_sec;
}
"""


class Clock:
    """A wall clock that can be set, for processes with its `env`."""

    def __init__(self, path):
        (path / "clock.c").write_text(CLOCK)
        subprocess.run(["cc", "-O1", "-Wall", "-shared", "-fPIC", "-o", path / "clock.so", path / "clock.c"], check=True)
        self.file = path / "clock"
        self.file.write_bytes(bytes(8))
        self.env = {"LD_PRELOAD": str(path / "clock.so"), "CLOCK_FILE": str(self.file)}

    def set(self, seconds):
        with self.file.open("r+b") as f:
            f.write(seconds.to_bytes(8, "little", signed=True))


def count_kills(place, n):
    (place.path / "kills.new").write_text(f"{n}\n")
    (place.path / "kills.new").rename(place.path / "kills")


def test_a_clock_that_is_set_ends_no_trial_and_takes_no_time_back(tmp_path):
    place = Place(tmp_path)
    clock = Clock(tmp_path)
    place.env.update(clock.env)
    place.script("t.sh", 'while ! test -e go; do echo "{\\"loss\\":$x}"; sleep 0.02; done\n')
    sweep = place.sweep("method: grid\nmetric: {name: loss}\nparameters: {x: {value: 1}}\ndrover: {timeout: 60}\n")
    coordinator = place.start(sweep)
    try:
        wait_until(lambda: place.records("report"), "a report")
        clock.set(86400)
        before = len(place.records("report"))
        wait_until(lambda: len(place.records("report")) > before + 3, "reports of the next day")
        clock.set(-86400)
        coordinator.kill()
        coordinator.wait()
        coordinator = place.start(sweep)
        (tmp_path / "go").touch()
        assert coordinator.wait(30) == 0, place.said()
        assert place.states() == ["done"] and not place.records("stopping")
        check_time(place)
    finally:
        place.clean_up()


def check_time(place):
    with sqlite3.connect(place.db()) as db:
        times = [ms for ms, in db.execute("SELECT at_ms FROM record ORDER BY seq")]
    assert times == sorted(times)


class Torture:
    """The sweep, its processes on the nodes, and the faults."""

    def __init__(self, place, cluster, rng):
        self.place, self.cluster, self.rng = place, cluster, rng
        self.clock = Clock(place.path)
        self.done = dict.fromkeys(("trial", "worker", "coordinator", "node", "clock"), 0)
        place.script("t.sh", TRIAL)
        count_kills(place, 0)
        place.sweep(SWEEP)
        self.coordinator = None
        self.coordinate("s.yaml", "--listen", ":")
        wait_until((place.path / "sweeps/s/worker.key").exists, "worker.key")
        self.workers = {n: self.worker(n) for n in cluster.nodes}

    def start(self, node, log, *args):
        with open(self.place.path / log, "ab") as out:
            return node.start_job(DROVER, *args, cwd=self.place.path, env=self.clock.env, stdout=out, stderr=out)

    def coordinate(self, *args):
        self.coordinator = self.start(self.cluster.head, "coordinator.txt", "sweep", *args, "--here", "0")

    def worker(self, node):
        return self.start(node, f"{node.name}.txt", "worker", "--key", "sweeps/s/worker.key", "--places", PLACES,
                          "--patience", PATIENCE_S)

    def heal(self):
        """Every process that should run is running again."""
        if self.coordinator.popen.poll() is not None:
            status = self.coordinator.popen.returncode
            assert status == -9 or status == 137, f"the coordinator ended with {status}\n{self.said('coordinator')}"
            self.coordinate("--name", "s", "--resume")
        for node, worker in self.workers.items():
            if worker.popen.poll() is not None:
                self.workers[node] = self.worker(node)

    def said(self, who):
        return (self.place.path / f"{who}.txt").read_text()[-3000:]

    def kill(self, job):
        job.kill()
        job.popen.wait(10)

    def hurt(self, what):
        if what == "trial":
            trials = wait_until(lambda: [p for p in self.cluster.running().values() if p.command.startswith("/bin/sh ./t.sh")],
                              "a trial to kill")
            try:
                os.kill(self.rng.choice(trials).pid, 9)
            except ProcessLookupError:
                pass  # it has just ended
        elif what == "worker":
            self.kill(self.workers[self.rng.choice(self.cluster.nodes)])
        elif what == "coordinator":
            self.kill(self.coordinator)
        elif what == "node":
            node = self.rng.choice(self.cluster.nodes)
            node.stop()
            self.workers[node].popen.wait(10)
            if node is self.cluster.head:
                self.coordinator.popen.wait(10)
            node.start()
            node.join(self.cluster.switch)
        else:
            self.clock.set(self.rng.randrange(-3600, 3600))
        self.done[what] += 1


def check_reports(place, trial, lease):
    """The reports in the trial's own log are in the store."""
    said = [int(w) for w in (place.path / f"sweeps/s/trials/{trial:06}/{lease}/said").read_text().split()]
    stored = [d["step"] for t, n, d in place.records("report") if (t, n) == (trial, lease)]
    assert stored == said, f"trial {trial}, lease {lease}"
    return len(said)


def test_kills_a_partition_and_a_clock_that_is_set_lose_no_trial_and_no_report(cluster, tmp_path):
    seed = int(os.environ.get("DROVER_TEST_SEED", time.time_ns() % (1 << 30)))
    print(f"DROVER_TEST_SEED={seed} DROVER_TEST_KILLS={KILLS}")
    rng = random.Random(seed)
    place = Place(tmp_path)
    t = Torture(place, cluster, rng)
    cut, mend_at = None, 0.0
    for n in range(1, KILLS + 1):
        time.sleep(rng.uniform(0.01, 0.6))  # the moments are the subject of the test
        if n == KILLS // 2:
            cut, mend_at = rng.choice(cluster.nodes), time.monotonic() + CUT_S
            cut.cut()
        if cut and time.monotonic() >= mend_at:
            cut.mend()
            cut = None
        t.hurt(rng.choices(list(t.done), (8, 5, 5, 1, 2))[0])
        t.heal()
        count_kills(place, n)
    if cut:
        wait_until(lambda: time.monotonic() >= mend_at, "the end of the partition")
        cut.mend()

    try:
        t.coordinator.popen.wait(120)
    except subprocess.TimeoutExpired:
        pytest.fail(f"the sweep does not end: {place.states()}\n{t.said('coordinator')}")
    print(t.done, len(place.records("leased")), "leases")
    assert t.coordinator.popen.returncode == 0, t.said("coordinator")
    trials = place.show()["trials"]
    assert [x["state"] for x in trials] == ["done"] * TRIALS
    ended = {trial: lease for trial, lease, _ in place.records("ended")}
    assert len(place.records("ended")) == len(ended) == TRIALS  # each trial once
    print(sum(check_reports(place, trial, lease) for trial, lease in ended.items()), "reports count")
    assert all(x["value"] == x["params"]["x"] for x in trials)
    check_time(place)
    for node, worker in t.workers.items():  # a worker that started too late has found no coordinator
        assert worker.popen.wait(PATIENCE_S + 30) == 0 or "never reached" in t.said(node.name), t.said(node.name)
    cluster.nothing_left(5)
