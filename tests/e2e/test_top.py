"""`drover top`: GPUs, processes, jobs and sweeps on a terminal, in a pipe and as JSON. The GPUs are those of
tests/fake/nvml.c. DROVER_TEST_RECORD=1 writes the screen tests/e2e/top/screen.txt anew."""
import fcntl
import importlib.util
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest
from conftest import BUILD, DROVER, ROOT
from waiting import hear_signals, wait_until

GOLDEN = Path(__file__).resolve().parent / "top/screen.txt"
NVML = {"DROVER_NVML_LIB": str(BUILD / "tests/fake/libnvidia-ml.so.1"), "TERM": "xterm", "LC_ALL": "C.UTF-8"}
MACHINE = """gpus 4
gpu 0 utilization 97
gpu 0 power 650000
gpu 0 reasons 4
gpu 1 utilization 12
gpu 1 reasons 96
gpu 2 utilization 55
gpu 3 clock_sm error 3
gpu 3 power error 3
"""
# In their own namespace of processes, where no other job is listed: a job with two ranks, a sweep with one trial, and
# the display. Each process adds itself to the machine.
RANK = 'echo "gpu $LOCAL_RANK process $$ $((20000 + LOCAL_RANK))" >> machine; touch "on.$LOCAL_RANK"; sleep 60; :'
TRIAL = 'echo "gpu 2 process $$ 3000" >> machine; touch on.trial; sleep 60; :'
SWEEP = f"""command: [sh, -c, '{TRIAL}']
method: grid
metric: {{name: loss}}
parameters: {{x: {{values: [1]}}}}
"""
SCRIPT = """
echo 10000 > /proc/sys/kernel/ns_last_pid # all have five digits
drover=$1
$drover sweep s.yaml --here 1 > sweep.log 2>&1 &
while ! test -e on.trial; do sleep 0.05; done
$drover run -q -np 2 --oversubscribe -- sh -c "$2" 2> run.log &
while ! test -e on.0 || ! test -e on.1; do sleep 0.05; done
$drover top --interval 0.2
"""
COLOUR = re.compile(rb"\033\[[0-9;]*m")
FRAME = re.compile(rb"\033\[H(?P<text>(?:[^\033]|\033\[[0-9;]*m)*)")


class Terminal:
    """A program as the leader of a session on a terminal; `seen` is all that it wrote."""

    def __init__(self, drover, words):
        self.fd, self.own_end = pty.openpty()
        self.resize(80, 24)

        def take_terminal():
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            hear_signals()

        self.process = subprocess.Popen([*map(str, words)], cwd=drover.cwd, env=drover.env, stdin=self.own_end,
                                        stdout=self.own_end, stderr=self.own_end, start_new_session=True,
                                        preexec_fn=take_terminal)
        self.seen = b""

    def resize(self, columns, rows):
        fcntl.ioctl(self.own_end, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, wait_s=0.05):
        if select.select([self.fd], [], [], wait_s)[0]:
            self.seen += os.read(self.fd, 65536)

    def read_until(self, ready, what):
        def look():
            self.read(0)
            return ready()
        wait_until(look, lambda: f"{what}: {self.seen[-5000:].decode(errors='replace')}", 15)

    def frames(self):
        """The lines of each frame, without colours; the last one may be incomplete, and is left out."""
        return [COLOUR.sub(b"", f).decode().split("\r\n") for f in FRAME.findall(self.seen)[:-1]]

    def frame(self, shows, what):
        """The latest frame, once it shows this."""
        self.read_until(lambda: self.frames() and shows("\n".join(self.frames()[-1])), what)
        return self.frames()[-1]

    def keys(self, keys):
        os.write(self.fd, keys)

    def is_restored(self):
        modes = termios.tcgetattr(self.own_end)[3] & (termios.ICANON | termios.ECHO)
        return modes == termios.ICANON | termios.ECHO and self.seen.endswith(b"\033[?25h\033[?1049l")

    def end(self):
        self.read_until(lambda: self.process.poll() is not None and not select.select([self.fd], [], [], 0)[0], "the end")
        return self.process.returncode


@pytest.fixture(name="gpus")
def use_gpus(drover):
    """The Runner, on the machine of the file `machine`."""
    (drover.cwd / "machine").write_text(MACHINE)
    (drover.cwd / "run").mkdir(mode=0o700)
    drover.env |= NVML | {"DROVER_FAKE_NVML": str(drover.cwd / "machine"), "XDG_RUNTIME_DIR": str(drover.cwd / "run"),
                          "XDG_STATE_HOME": str(drover.cwd / "state")}
    return drover


@pytest.fixture(name="start")
def use_terminals(gpus):
    """Starts a program on a terminal of its own."""
    started = []

    def start(*words):
        started.append(Terminal(gpus, words))
        return started[-1]

    yield start
    for t in started:
        t.process.kill()
        t.process.wait()
        os.close(t.own_end)
        os.close(t.fd)


@pytest.fixture(name="display")
def use_display(start):
    t = start(DROVER, "top", "--interval", "0.2")
    t.frame(lambda s: "H100" in s, "the GPUs")
    return t


def structure(lines):
    """The lines without what differs between two runs."""
    text = "\n".join(line.rstrip() for line in lines) + "\n"
    text = re.sub(r"drover-\d{5}-[0-9a-f]{8}", "drover-NNNNN-NNNNNNNN", text)
    text = re.sub(r"(?m)^(  \d) +\d{5}  ", r"\1  NNNNN  ", text)
    text = re.sub(r" +\d+s  ", lambda m: "NNs  ".rjust(len(m[0])), text)
    text = re.sub(r"sweep s in /.*", "sweep s in DIRECTORY", text)
    return re.sub(r"^drover top  \S+: (.*?) +sort", r"drover top  HOST: \1   sort", text)


@pytest.mark.skipif(subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "true"], capture_output=True,
                                   check=False).returncode != 0, reason="no namespaces of processes")
def test_the_screen_shows_gpus_processes_jobs_and_trials(gpus, start):
    (gpus.cwd / "s.yaml").write_text(SWEEP)
    t = start("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", SCRIPT, "sh", DROVER, RANK)
    lines = t.frame(lambda s: "3 processes, 1 job, 1 sweep, 1 trial " in s, "two ranks and a trial")
    assert len(lines) == 24 and all(len(line) == 80 for line in lines), lines
    shown = structure(lines)
    if os.environ.get("DROVER_TEST_RECORD"):
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(shown)
    assert shown == GOLDEN.read_text()


def test_a_frame_is_one_write_and_fills_the_screen(display):
    def writes():
        return int(re.search(r"syscw: (\d+)", Path(f"/proc/{display.process.pid}/io").read_text(encoding="ascii"))[1])

    def count():
        """The numbers of writes and of frames, at a moment in which nothing is written."""
        before = None
        while before != writes():
            before = writes()
            while select.select([display.fd], [], [], 0)[0]:
                display.read(0)
        return before, len(FRAME.findall(display.seen))

    first = count()
    wait_until(lambda: count()[1] - first[1] >= 5, "five frames", 15)
    last = count()
    assert last[0] - first[0] == last[1] - first[1]
    assert all(len(f) == 24 and all(len(line) == 80 for line in f) for f in display.frames())


def test_keys_sort_help_and_quit(display):
    display.keys(b"s")
    lines = display.frame(lambda s: "sort: utilisation" in s, "the sort")
    assert [line.split()[0] for line in lines[2:6]] == ["0", "2", "1", "3"]
    assert not display.is_restored()
    display.keys(b"h")
    display.frame(lambda s: "UTIL is the share of time" in s, "the help")
    display.keys(b"hq")
    assert display.end() == 0 and display.is_restored()


def test_a_resize_gets_a_frame_of_the_new_size(display):
    display.resize(50, 8)
    lines = display.frame(lambda s: len(s.split("\n")) == 8, "eight rows")
    assert {len(line) for line in lines} == {50} and "MODEL" not in lines[1] and "SM CLOCK" in lines[1]
    assert re.search(r"lines 1-6 of \d+$", lines[-1])
    display.keys(b"\033[B\033OBj")
    lines = display.frame(lambda s: "lines 4-9 of" in s, "that the arrow keys scroll")
    assert lines[1].split()[0] == "2"  # GPU 2 follows the titles and two GPUs


@pytest.mark.parametrize("sig, status", [(signal.SIGTERM, 143), (signal.SIGINT, 0), (signal.SIGHUP, 129),
                                         (signal.SIGABRT, -signal.SIGABRT)])
def test_the_terminal_is_restored(display, sig, status):
    display.process.send_signal(sig)
    assert display.end() == status and display.is_restored()


def test_stopped_output_blocks_no_end(display):
    display.keys(b"\x13")
    wait_until(lambda: not select.select([], [display.own_end], [], 0)[1], "that Ctrl-S has stopped the output")
    display.process.send_signal(signal.SIGTERM)
    assert display.end() == 143 and display.is_restored()


def test_a_stop_of_the_job_shows_the_shell(gpus):
    loader = SourceFileLoader("capture_display", str(ROOT / "scripts/capture-display"))
    kit = importlib.util.module_from_spec(importlib.util.spec_from_loader("capture_display", loader))
    loader.exec_module(kit)
    screen = kit.Screen(gpus.cwd, 80, 24)
    try:
        screen.keys(f"export DROVER_NVML_LIB={NVML['DROVER_NVML_LIB']} DROVER_FAKE_NVML={gpus.cwd}/machine; clear", "Enter")
        screen.keys(f"{DROVER} top", "Enter")
        screen.wait(lambda s: s.startswith("drover top  "), "the display")
        screen.keys("C-z")
        screen.wait(lambda s: "topped" in s and "sort: index" not in s, "the shell")
        screen.keys("clear; stty -a | tr ' ;' '\\n\\n' | grep icanon; echo typed", "Enter")
        screen.wait(lambda s: "icanon\ntyped" in s and "-icanon" not in s, "the terminal's own modes")
        screen.keys("fg", "Enter")
        screen.wait(lambda s: s.startswith("drover top  "), "the display")
        screen.keys("q")
        screen.wait(lambda s: "typed" in s and "sort: index" not in s, "the shell, with its earlier lines")
    finally:
        screen.close()


def test_a_driver_that_hangs_does_not_hang_the_display(gpus, start):
    (gpus.cwd / "machine").write_text("gpus 1\ngpu 0 power hang\n")
    t = start(DROVER, "top", "--interval", "0.1")
    t.frame(lambda s: "GPUs: none" in s, "a frame")
    t.keys(b"q")
    assert t.end() == 0 and t.is_restored()


def test_a_pipe_gets_one_table(gpus):
    done = gpus.run("top")
    lines = done.stdout.split("\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert lines[:5] == ["GPU  MODEL            UTIL         MEMORY      POWER  SM CLOCK  TEMP  THROTTLE",
                         "  0  H100 80GB HBM3   97 %   0.0/79.6 GiB  650/700 W  1980 MHz  35 C  cap",
                         "  1  H100 80GB HBM3   12 %   0.0/79.6 GiB  120/700 W  1980 MHz  35 C  heat",
                         "  2  H100 80GB HBM3   55 %   0.0/79.6 GiB  120/700 W  1980 MHz  35 C  no",
                         "  3  H100 80GB HBM3      -   0.0/79.6 GiB    -/700 W         -  35 C  no"]
    assert gpus.run("top", "--once").stdout.split("\n")[:5] == lines[:5]


def test_json_is_a_line_per_node_and_interval(gpus):
    done = gpus.run("top", "--json")
    node = json.loads(done.stdout)
    assert done.stdout.count("\n") == 1 and node["v"] == 1 and node["problem"] is None
    assert [g["sm_clock_mhz"] for g in node["gpus"]] == [1980, 1980, 1980, None]
    with gpus.start("top", "--json", "--interval", 0.1, text=True, bufsize=-1) as p:
        ages = [json.loads(p.stdout.readline())["age_ms"] for _ in range(3)]
        p.stdout.close()  # as `| head -3` does
        assert p.wait(10) in (0, 1, -signal.SIGPIPE) and len(ages) == 3


def test_a_machine_without_gpus_has_jobs(gpus):
    done = gpus.run("top", env={"DROVER_FAKE_NVML_INIT": "9"})
    assert done.returncode == 0 and "NVIDIA driver: " in done.stdout and "GPUs: none" in done.stdout


@pytest.mark.parametrize("args, says", [(["c01"], "unexpected argument 'c01'"), (["--hostfile", "none"], "host file 'none'"),
                                        (["--interval", 0], "--interval"), (["-H", "a:x"], "a:x")])
def test_bad_words_are_named(drover, args, says):
    done = drover.run("top", *args)
    assert (done.returncode, done.stdout) == (2, "") and says in done.stderr


# A rank adds itself to its node's machine; the nodes have a /tmp of their own.
NODE_RANK = 'printf "gpus 1\\ngpu 0 utilization 80\\ngpu 0 process $$ 20000\\n" > /tmp/machine; echo up; sleep 60; :'


def test_nodes_are_shown_together_and_a_lost_one_does_not_delay_them(cluster):
    env = {**NVML, "DROVER_FAKE_NVML": "/tmp/machine"}
    job = cluster.head.start_job(DROVER, "run", "-H", "node1:1,node2:1", "-np", 2, "--", "sh", "-c", NODE_RANK, env=env)
    up = b""
    while up.count(b"up") < 2:
        up += os.read(job.popen.stdout.fileno(), 4096)
    status, out, err = cluster.head.run(DROVER, "top", "-H", "node1,node2,node9", env=env)
    gpus, processes, jobs = (part.split("\n")[1:] for part in out.strip().split("\n\n")[1:])
    assert status == 1 and out.startswith("node9: no answer: "), (out, err)
    assert [line.split()[:3] for line in gpus] == [["node1", "0", "H100"], ["node2", "0", "H100"]]
    assert [re.match(r"node\d", line)[0] + re.search(r"  (drover-\S+  rank \d)", line)[1][-7:] for line in processes] == \
        ["node1 rank 0", "node2 rank 1"]
    assert len(jobs) == 1 and re.match(r"node1  drover-\S+ +2 ranks +2 +80 %", jobs[0]), out
    status, out, _ = cluster.head.run(DROVER, "top", "-H", "node1,node2", "--json", env=env)
    assert status == 0 and [json.loads(line)["node"] for line in out.split("\n")[:2]] == ["node1", "node2"]
    job.kill(signal.SIGTERM)
    job.end()


def test_a_node_that_falls_silent_is_named_and_the_others_go_on(cluster):
    job = cluster.head.start_job(DROVER, "top", "-H", "node1,node2", "--json", "--interval", 0.5,
                                 env={**NVML, "DROVER_FAKE_NVML": "/dev/null"})

    def problem_of(name):
        """The node's problem in its next line."""
        return next(node["problem"] or "" for node in map(json.loads, job.stdout) if node["node"] == name)

    wait_until(lambda: "no answer" not in problem_of("node2") + problem_of("node1"), "two nodes")
    cluster.nodes[1].cut()
    wait_until(lambda: "no answer for" in problem_of("node2"), "the silence of node2")
    assert "no answer" not in problem_of("node1")
    job.kill(signal.SIGTERM)
    assert job.end()[0] == 143
