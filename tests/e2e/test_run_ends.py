"""`drover run`: how jobs end. The first failure's status, told last; nothing left behind, whatever is killed."""
import os
import pty
import re
import select
import signal
import subprocess
import time

import pytest
from conftest import DROVER, HEARD
from waiting import at_best, check_time, request_again, wait_until

RUN = ["run", "--oversubscribe"]
HEARTBEAT = "exec sleep 100"


def ranks_running(drover, n, command="sleep 100"):
    return wait_until(lambda: sum(c.startswith(command) for c in drover.left().values()) == n, f"{n} ranks")


def state(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        return f.read().rpartition(")")[2].split()[0]


def name(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="ascii") as f:
            return f.read().strip()
    except OSError:  # it has ended, perhaps while this read
        return None


def family_of(drover, pid):
    """The guardian and the monitor, its parent."""
    found = {name(p): p for p, command in drover.left().items() if command.startswith(DROVER) and p != pid}
    assert set(found) == {"drover-guardian", "drover-monitor"}
    return found["drover-guardian"], found["drover-monitor"]


def test_the_first_failure_ends_the_job_at_once_with_its_status(drover):
    def check(_):
        began = time.monotonic()
        done = drover.run(*RUN, "-np", "4", "--", "sh", "-c",
                          "[ $RANK = 2 ] && { echo out; echo 'last words' >&2; exit 7; }; sleep 100")
        took = time.monotonic() - began
        assert done.returncode == 7 and done.stdout == "out\n"
        check_time(took < 0.5, f"{took:.2f} s")
        return done
    done = at_best(check, *"12345")
    lines = done.stderr.splitlines()
    assert lines[0] == "last words"
    assert re.fullmatch(r"drover run: rank 2 on \S+ exited with status 7 after \d+\.\d s", lines[1])
    assert lines[2:4] == ["  its last lines:", "    last words"]
    assert len(lines) == 5 and re.fullmatch(r"  try: drover runs show drover-\d+-[0-9a-f]{8}", lines[4])
    drover.nothing_left()


@pytest.mark.parametrize("how, status, words", [
    ("kill -SEGV $$", 139, ["signal 11", "SIGSEGV"]),
    ("kill -KILL $$", 137, ["signal 9", "SIGKILL"]),
    ("kill -BUS $$", 135, ["SIGBUS", "cause: ", "/dev/shm", "try: "]),
    ("echo 'RuntimeError: CUDA out of memory. Tried to allocate 2 GiB' >&2; exit 1", 1,
     ["status 1", "cause: out of GPU memory", "try: a smaller batch"]),
    ("seq 1 100 >&2; exit 9", 9, ["    81\n", "    100\n"]),
    ("echo said on stdout; exit 4", 4, ["    said on stdout\n"]),
])
def test_the_report_says_how_it_ended_and_why(drover, how, status, words):
    done = drover.run(*RUN, "-np", "2", "sh", "-c", f"[ $RANK = 1 ] || {HEARTBEAT}; {how}")
    report = done.stderr[done.stderr.index("drover run: rank 1"):]
    assert done.returncode == status
    for word in words:
        assert word in report
    assert len(report.splitlines()) <= 25 and "    80\n" not in report
    drover.nothing_left()


def test_quiet_leaves_the_report_out(drover):
    done = drover.run(*RUN, "-q", "-np", "2", "sh", "-c", "exit 3")
    assert done.returncode == 3 and done.stderr == ""


def test_a_program_that_is_not_there_is_127_and_one_that_is_none_126(drover, tmp_path):
    done = drover.run(*RUN, "-np", "3", "no-such-program")
    assert done.returncode == 127
    assert "could not be started" in done.stderr and "no-such-program" in done.stderr and "PATH" in done.stderr
    (tmp_path / "file").write_text("x")
    done = drover.run(*RUN, "-np", "3", "./file")
    assert done.returncode == 126 and "try: chmod +x ./file" in done.stderr
    drover.nothing_left()


def test_ranks_that_ignore_sigterm_are_killed_after_the_grace(drover):
    began = time.monotonic()
    done = drover.run(*RUN, "-np", "3", "--grace", "1", "sh", "-c",
                      "trap '' TERM; [ $RANK = 0 ] && { sleep 0.2; exit 3; }; sleep 100 & wait; sleep 100")
    assert done.returncode == 3
    assert 1.0 <= time.monotonic() - began < 3.0
    drover.nothing_left()


def test_ranks_get_time_to_save(drover, tmp_path):
    done = drover.run(*RUN, "-np", "2", "sh", "-c",
                      "trap 'sleep 0.5; echo saved > saved.$RANK; exit 0' TERM; touch ready.$RANK\n"
                      "[ $RANK = 0 ] && { until [ -e ready.1 ]; do sleep 0.01; done; exit 5; }; sleep 100 & wait")
    assert done.returncode == 5
    assert (tmp_path / "saved.1").read_text() == "saved\n"
    drover.nothing_left()


def test_what_a_rank_leaves_behind_is_ended_and_does_not_hold_the_job(drover):
    began = time.monotonic()
    done = drover.run(*RUN, "-np", "2", "sh", "-c", "echo start; setsid sleep 100 & sleep 100 & exit 0")
    assert (done.returncode, done.stdout) == (0, "start\nstart\n")
    assert time.monotonic() - began < 5
    drover.nothing_left()


def test_the_end_of_time_is_124_and_said(drover):
    began = time.monotonic()
    done = drover.run(*RUN, "-np", "2", "--timeout", "0.3", "sleep", "100")
    assert done.returncode == 124 and "--timeout" in done.stderr
    assert 0.3 <= time.monotonic() - began < 3
    drover.nothing_left()


@pytest.mark.parametrize("sig, status", [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129),
                                         (signal.SIGQUIT, 131)])
def test_a_signal_ends_the_job_in_good_order(drover, sig, status):
    job = drover.start(*RUN, "-np", "3", "sleep", "100")
    ranks_running(drover, 3)
    job.send_signal(sig)
    out, err = job.communicate(timeout=10)
    assert (job.returncode, out, err) == (status, b"", b"drover run: warn: stopping 3 ranks, up to 30 s\n")
    drover.nothing_left()


@pytest.mark.parametrize("command", [["run", "--oversubscribe", "-np", "2"],
                                     ["run", "--oversubscribe", "-np", "2", "--engine", "openmpi"],
                                     ["torchrun", "--no-python", "--nproc-per-node", "2"]],
                         ids=["run", "remote", "torchrun"])
@pytest.mark.parametrize("first, second", [(signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGINT),
                                           (signal.SIGHUP, signal.SIGTERM), (signal.SIGQUIT, signal.SIGQUIT)])
def test_a_signal_to_the_process_and_then_to_its_group_lets_ranks_save(drover, command, first, second):
    """As timeout(1) sends it, or a shell whose terminal closes. The group has drover's own helpers in it, too."""
    job = drover.start(*command, "sh", "-c", "trap 'sleep 0.3; echo saved; exit 0' TERM INT QUIT; echo up; "
                       "while :; do sleep 0.02; done", start_new_session=True)
    assert job.stdout.readline() + job.stdout.readline() == b"up\nup\n"
    os.kill(job.pid, first)
    os.killpg(job.pid, second)
    out, err = job.communicate(timeout=20)
    assert (job.returncode, out) == (0, b"saved\nsaved\n"), err
    assert err.count(b"stopping 2 ranks") == 1 and b"again" not in err
    drover.nothing_left()


def test_ranks_that_are_killed_after_the_grace_time_are_named(drover):
    job = drover.start(*RUN, "-np", "4", "--grace", "0.5", "sh", "-c",
                       "[ $RANK = 1 ] || trap '' TERM; echo up; while :; do sleep 0.05; done")
    assert [job.stdout.readline() for _ in range(4)] == [b"up\n"] * 4
    job.send_signal(signal.SIGTERM)
    _, err = job.communicate(timeout=20)
    assert err == (b"drover run: warn: stopping 4 ranks, up to 0.5 s\n"
                   b"drover run: warn: killing ranks 0 and 2-3, which still run 0.5 s after SIGTERM\n")
    assert job.returncode == 143
    drover.nothing_left()


def test_ranks_that_end_well_on_a_signal_make_a_job_that_ended_well(drover):
    job = drover.start(*RUN, "-np", "2", "sh", "-c", "trap 'echo saved; exit 0' TERM; echo up; sleep 100 & wait")
    assert job.stdout.readline() + job.stdout.readline() == b"up\nup\n"
    job.send_signal(signal.SIGTERM)
    out, _ = job.communicate(timeout=10)
    assert (job.returncode, out) == (0, b"saved\nsaved\n")
    drover.nothing_left()


def test_a_second_signal_kills_at_once(drover):
    job = drover.start(*RUN, "-np", "2", "sh", "-c", "trap 'echo told' INT TERM; echo up; while :; do sleep 0.05; done")
    assert job.stdout.readline() + job.stdout.readline() == b"up\nup\n"
    job.send_signal(signal.SIGINT)
    assert job.stdout.readline() + job.stdout.readline() == b"told\ntold\n"
    request_again(job, signal.SIGINT)
    _, err = job.communicate(timeout=5)
    assert job.returncode == 130 and b"again" in err
    drover.nothing_left()


def test_control_c_twice_in_a_terminal_kills(drover):
    """A person presses it again within half a second, which counts; both lines tell what happens."""
    pid, terminal = pty.fork()
    if pid == 0:
        for sig in HEARD:
            signal.signal(sig, signal.SIG_DFL)
        os.execve(DROVER, [DROVER, *RUN, "-np", "2", "sh", "-c", "trap '' INT; echo up; while :; do sleep 0.05; done"],
                  drover.env)
    seen = b""

    def read_until(word, times=1):
        nonlocal seen
        while seen.count(word) < times:
            assert select.select([terminal], [], [], 20)[0], seen
            seen += os.read(terminal, 4096)
    read_until(b"up\r\n", 2)
    os.write(terminal, b"\x03")
    read_until(b"stopping 2 ranks, up to 30 s; press Ctrl-C again to kill them")
    time.sleep(0.2)  # as long as a person needs; more is right, too
    os.write(terminal, b"\x03")
    read_until(b"again: killing the ranks")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130
    os.close(terminal)
    drover.nothing_left()


def test_user_signals_reach_every_rank_and_the_job_goes_on(drover):
    job = drover.start(*RUN, "-np", "3", "sh", "-c",
                       "trap 'echo usr1; n=1' USR1; trap 'echo usr2; exit 0' USR2; echo up; "
                       "while :; do sleep 0.02; done")
    assert [job.stdout.readline() for _ in range(3)] == [b"up\n"] * 3
    job.send_signal(signal.SIGUSR1)
    assert [job.stdout.readline() for _ in range(3)] == [b"usr1\n"] * 3
    job.send_signal(signal.SIGUSR2)
    out, _ = job.communicate(timeout=10)
    assert (job.returncode, out) == (0, b"usr2\n" * 3)


@pytest.mark.parametrize("options", [["--keep-going"], ["-disable-auto-cleanup"]])
def test_a_job_that_keeps_going_ends_with_its_ranks(drover, tmp_path, options):
    line = "[ $RANK = 1 ] && exit 7; sleep 0.3; touch done.$RANK"
    done = drover.run(*RUN, "-np", "3", *options, "sh", "-c", line)
    assert done.returncode == 7 and "rank 1 on" in done.stderr, done.stderr
    assert (tmp_path / "done.0").exists() and (tmp_path / "done.2").exists()
    done = drover.run(*RUN, "-np", "2", *options, "sh", "-c", "[ $RANK = 0 ] && kill -9 $$; exec sleep 100")
    assert done.returncode == 137


@pytest.mark.parametrize("sent", ["XCPU", "ALRM", "XFSZ", "PROF", "VTALRM", "PWR"])
def test_what_batch_systems_and_limits_send_reaches_every_rank(drover, sent):
    job = drover.start(*RUN, "-np", "2", "bash", "-c",
                       f"trap 'sleep 0.1; echo saved; exit 0' {sent}; echo up; while :; do sleep 0.02; done")
    assert [job.stdout.readline() for _ in range(2)] == [b"up\n"] * 2
    job.send_signal(getattr(signal, f"SIG{sent}"))
    out, _ = job.communicate(timeout=10)
    assert (job.returncode, out) == (0, b"saved\n" * 2)


def test_what_the_shell_ignores_stays_ignored(drover):
    with subprocess.Popen(["sh", "-c", f"trap '' HUP; exec {DROVER} run -np 1 sh -c 'echo up; read x; echo $x'"],
                          env=drover.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as job:
        assert job.stdout.readline() == b"up\n"
        job.send_signal(signal.SIGHUP)
        out, _ = job.communicate(b"on\n", timeout=10)
    assert (job.returncode, out) == (0, b"on\n")


def test_a_reader_that_goes_away_ends_the_job(drover):
    began = time.monotonic()
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {DROVER} run -np 2 --oversubscribe yes | head -1"],
                          env=drover.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=30, check=False,
                          stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout, done.stderr) == (141, b"y\n", b"")
    assert time.monotonic() - began < 5
    drover.nothing_left()


def test_whoever_is_killed_at_whatever_moment_nothing_is_left(drover, seed):
    """Ranks that ignore SIGTERM, with a child of their own and one in a session of its own, which nobody's group or
    session reaches. DROVER_KILLS=1000 to try that often."""
    script = "trap '' TERM; setsid sleep 100 & sleep 100 & sleep 100; sleep 100"
    for _ in range(int(os.environ.get("DROVER_KILLS", "60"))):
        whom = seed.choice(["drover", "guardian", "monitor", "drover and guardian", "rank"])
        job = drover.start(*RUN, "-np", "4", "--grace", "0.1", "sh", "-c", script, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
        time.sleep(seed.uniform(0, 0.15))  # the moment is what is being tried
        left = drover.left()
        ours = {name(p): p for p, command in left.items() if command.startswith(DROVER) and p != job.pid}
        victims = [ours.get("drover-" + who) for who in ("guardian", "monitor") if who in whom]
        victims += [p for p, command in left.items() if whom == "rank" and command.startswith("sh -c")][:1]
        for pid in filter(None, victims):
            os.kill(pid, signal.SIGKILL)
        if "drover" in whom or None in victims or not victims:  # or nobody was there yet
            job.kill()
        elif whom == "monitor":  # which the job does not need
            time.sleep(seed.uniform(0, 0.05))
            job.kill()
        job.wait(10)
        try:
            drover.nothing_left()
        except AssertionError as e:
            raise AssertionError(f"kill of {whom}") from e


def test_jobs_of_32_very_short_ranks_end_every_time(drover):
    """DROVER_LAUNCHES=1000 to try that often."""
    for _ in range(int(os.environ.get("DROVER_LAUNCHES", "10"))):
        assert drover.run(*RUN, "-np", "32", "true", timeout=20).returncode == 0


def test_jobs_at_the_same_time_have_ports_of_their_own(drover):
    """DROVER_JOBS=200 for so many."""
    jobs = [drover.start("run", "--no-pmix", "-np", "1", "sh", "-c", "echo $MASTER_PORT; read x", stdin=subprocess.PIPE)
            for _ in range(int(os.environ.get("DROVER_JOBS", "20")))]
    ports = [int(job.stdout.readline()) for job in jobs]
    assert len(set(ports)) == len(jobs)
    for job in jobs:
        job.communicate(b"\n", timeout=60)
        assert job.returncode == 0


def test_a_port_that_another_job_has_is_refused_and_its_holder_named(drover):
    job = drover.start("run", "--no-pmix", "-np", "1", "sh", "-c", "echo $MASTER_PORT; read x", stdin=subprocess.PIPE)
    port = job.stdout.readline().decode().strip()
    done = drover.run("run", "--no-pmix", "--master-port", port, "-np", "1", "true")
    assert done.returncode == 2 and f"MASTER_PORT {port}" in done.stderr and f"process {job.pid} (drover)" in done.stderr
    job.communicate(b"\n", timeout=10)
    assert drover.run("run", "--no-pmix", "--master-port", port, "-np", "1", "true").returncode == 0


def test_a_killed_guardian_takes_its_ranks_along_and_is_reported(drover):
    job = drover.start(*RUN, "-np", "2", "sh", "-c", "setsid sleep 100 & exec sleep 100")
    ranks_running(drover, 4)
    os.kill(family_of(drover, job.pid)[0], signal.SIGKILL)
    _, err = job.communicate(timeout=10)
    assert job.returncode == 137 and b"the job was stopped: drover's guardian process was killed" in err, err
    assert b"rank" not in err.replace(b"all ranks with it", b""), err
    drover.nothing_left()


def test_of_two_that_died_while_nobody_looked_the_first_is_named(drover):
    """The guardian stands still meanwhile; the kernel hands out the ended in the order of their birth."""
    job = drover.start(*RUN, "-np", "3", "sh", "-c", "echo $RANK $$; exec sleep 100")
    pids = dict(map(int, job.stdout.readline().split()) for _ in range(3))
    guardian, _ = family_of(drover, job.pid)
    os.kill(guardian, signal.SIGSTOP)
    for rank in (2, 0, 1):
        os.kill(pids[rank], signal.SIGKILL)
        wait_until(lambda pid=pids[rank]: state(pid) == "Z", f"the end of rank {rank}")
    os.kill(guardian, signal.SIGCONT)
    _, err = job.communicate(timeout=10)
    assert job.returncode == 137 and re.search(rb"drover run: rank 2 on \S+ .*SIGKILL", err), err
    drover.nothing_left()


def test_a_terminal_feeds_rank_0_and_suspends_and_interrupts_the_job(drover):
    """drover as a shell has it: leader of a foreground process group on a terminal."""
    pid, terminal = pty.fork()
    if pid == 0:
        for sig in HEARD:
            signal.signal(sig, signal.SIG_DFL)
        os.execve(DROVER, [DROVER, *RUN, "-np", "2", "sh", "-c",
                           "[ $RANK = 1 ] && exec sleep 100; echo up; read x; echo got $x; exec sleep 100"], drover.env)
    seen = b""

    def read_until(word):
        nonlocal seen
        while word not in seen:
            assert select.select([terminal], [], [], 20)[0], seen
            seen += os.read(terminal, 4096)
    read_until(b"up\r\n")
    os.write(terminal, b"typed\n")
    read_until(b"got typed\r\n")
    ranks_running(drover, 2)
    os.write(terminal, b"\x1a")  # ^Z, and the shell's `fg`
    family = family_of(drover, pid)
    wait_until(lambda: all(state(p) == "T" for p in drover.left() if p not in family), "all to be stopped")
    os.kill(pid, signal.SIGCONT)
    wait_until(lambda: all(state(p) == "S" for p in drover.left()), "all to go on")
    os.write(terminal, b"\x03")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130
    os.close(terminal)
    drover.nothing_left()


def test_text_typed_ahead_stays_for_the_shell_if_no_rank_reads_it(drover):
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], drover.env)
    seen = b""

    def read_until(word):
        nonlocal seen
        while word not in seen:
            assert select.select([terminal], [], [], 20)[0], seen
            seen += os.read(terminal, 4096)
    script = "echo u''p; while [ ! -e go ]; do sleep 0.1; done; read x; echo got $x; touch read; sleep 0.3"
    os.write(terminal, f"cd '{drover.cwd}'; '{DROVER}' run -np 1 sh -c \"{script.replace('$', chr(92) + '$')}\"\n".encode())
    read_until(b"up\r\n")
    os.write(terminal, b"input\necho for-the-$((6 * 7))\n")
    (drover.cwd / "go").touch()
    read_until(b"got input\r\n")
    read_until(b"for-the-42\r\n")
    os.write(terminal, b"exit\n")
    os.waitpid(pid, 0)
    os.close(terminal)
    drover.nothing_left()


@pytest.mark.parametrize("words", [
    [*RUN, "--engine", "openmpi"],
    ["torchrun", "--no-python", "--nnodes", "1:2", "--rdzv-endpoint", "localhost:0"],
], ids=["other nodes", "nodes that meet"])
def test_what_is_typed_reaches_rank_0_also_where_ranks_start_later(drover, words):
    pid, terminal = pty.fork()
    if pid == 0:
        for sig in HEARD:
            signal.signal(sig, signal.SIG_DFL)
        os.execve(DROVER, [DROVER, *words, "sh", "-c", "[ $RANK = 0 ] || exit 0; read x; echo got $x"], drover.env)
    os.write(terminal, b"typed\n")
    seen = b""
    while b"got typed" not in seen:
        assert select.select([terminal], [], [], 20)[0], seen
        seen += os.read(terminal, 4096)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(terminal)
    drover.nothing_left()
