"""The terminal display of a running sweep, and what `drover worker` prints."""
import fcntl
import importlib.util
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
from importlib.machinery import SourceFileLoader

import pytest
from sweep_kit import DROVER, ROOT, use_place  # noqa: F401 (a fixture)
from waiting import wait_until

loader = SourceFileLoader("capture_display", str(ROOT / "scripts/capture-display"))
kit = importlib.util.module_from_spec(importlib.util.spec_from_loader("capture_display", loader))
loader.exec_module(kit)

# Trials end when there is a file "go".
TRIAL = 'echo "{\\"loss\\": $x}"; while [ ! -e go ]; do sleep 0.05; done\n'
TWO = "method: grid\nmetric: {name: loss, goal: minimize}\nparameters: {x: {values: [1, 2, 3, 4]}}\n"


@pytest.fixture(name="screen")
def use_screen(place):
    s = kit.Screen(place.path, 80, 24)
    s.keys("export " + place.mark, "Enter")
    yield s
    s.close()


def start(place, screen, *options):
    place.sweep(TWO)
    screen.keys(f"clear; {DROVER} sweep s.yaml --here 2 {' '.join(options)}", "Enter")
    screen.wait(lambda s: "2 running" in s, "two running trials")


def commands(place):
    return [d["verb"] for _, _, d in place.records("asked")]


def structure(text):
    """The lines without their numbers, times and the length of bars, and with single spaces."""
    text = re.sub(r"[▁▂▃▄▅▆▇█░]+", "#", text)
    text = re.sub(r"\d[\d.]*", "0", re.sub(r"\d+ min (\d+)", r"\1", text))
    return [re.sub(r" +", " ", line).rstrip() for line in text.strip("\n").split("\n")]


def test_the_page_shows_what_the_terminal_shows():
    shown = subprocess.run([ROOT / "scripts/capture-display", "--drover", DROVER], text=True, capture_output=True, timeout=90,
                           check=False)
    assert shown.returncode == 0, shown.stderr
    page = (ROOT / "docs/drover-sweep.md").read_text()
    block = re.search(r"^    digits  running.*\n(    .*\n)+", page, re.M).group(0)
    assert structure(re.sub(r"^    ", "", block, flags=re.M)) == structure(shown.stdout)
    assert all(len(line) < 80 for line in shown.stdout.split("\n"))


def test_the_keys_pause_resume_explain_and_stop(place, screen):
    start(place, screen)
    screen.keys("?")
    screen.wait(lambda s: "p  start no new trials" in s, "the help")
    screen.keys("?")
    screen.wait(lambda s: "p  start no new trials" not in s, "the trials")
    screen.keys("p")
    screen.wait(lambda s: "s  paused" in s and "p resume" in s, "that the sweep is paused")
    screen.keys("p")
    screen.wait(lambda s: "s  running" in s and "p pause" in s, "that the sweep runs")
    screen.keys("q")
    wait_until(lambda: commands(place) == ["pause", "resume", "stop"], lambda: f"three commands: {commands(place)}")
    (place.path / "go").touch()
    screen.wait(lambda s: "of 4 trials: " in s and "the sweep has ended" in s, "the end of the sweep")
    assert len(place.records("leased")) == 2 and not list((place.path / "sweeps/s").glob("answer.*"))


def test_the_block_survives_log_lines_a_resize_and_a_stop_of_the_job(place, screen):
    start(place, screen)
    (place.path / "sweeps/s/commands/x").write_text("no JSON\n")
    screen.wait(lambda s: "dropped a command that is not JSON" in s.replace("\n", ""), "the warning")
    screen.wait(lambda s: re.fullmatch(r"(.+\n)+s  running(.*\n)+q stop .*", s) and s.count("s  running") == 1, "one block")
    # A terminal wraps lines before it tells its new size: what was painted until then may stay above the block.
    screen.tmux("resize-window", "-x", "60", "-y", "20")
    screen.wait(lambda s: re.search(r"(^|\n)s  running(.*\n){4}trial  state          value       time\n(.*\n){2}q stop .*$", s),
                "a block of the new width")
    screen.tmux("resize-window", "-x", "100", "-y", "30")
    screen.wait(lambda s: re.search(r"(^|\n)s  running(.*\n){4} trial  state         step .*\n(.*\n){2}q stop .*$", s),
                "a block of the new width")
    screen.keys("C-z")
    screen.wait(lambda s: "topped" in s, "the shell")
    screen.keys("clear; stty -a | tr ' ;' '\\n\\n' | grep icanon; echo typed", "Enter")
    screen.wait(lambda s: "icanon\ntyped" in s and "-icanon" not in s, "the terminal's own modes")
    screen.keys("fg", "Enter")
    screen.wait(lambda s: s.count("s  running") == 1, "one block")
    screen.keys("p")
    screen.wait(lambda s: "s  paused" in s, "that keys are read again")
    screen.keys("C-c")
    screen.wait(lambda s: "continue with" in s and s.count("s  running") + s.count("s  paused") == 0, "no block")


class Terminal:
    """drover as the leader of a session on a terminal; `seen` is all that it wrote."""

    def __init__(self, place, env, *words):
        self.fd, self.own_end = pty.openpty()
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.process = subprocess.Popen([DROVER, *words], cwd=place.path, env=dict(place.env, **env), stdin=self.own_end,
                                        stdout=self.own_end, stderr=self.own_end, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        place.started.append(self.process)
        self.seen = b""

    def read_until(self, ready, what):
        while not ready():
            if select.select([self.fd], [], [], 0.05)[0]:
                self.seen += os.read(self.fd, 65536)
            else:
                wait_until(lambda: ready() or select.select([self.fd], [], [], 0)[0], lambda: f"{what}: {self.seen}", 30)

    def read_until_started(self):
        self.read_until(lambda: b"2 running" in self.seen, "two running trials")

    def is_canonical(self):
        return termios.tcgetattr(self.own_end)[3] & (termios.ICANON | termios.ECHO) == termios.ICANON | termios.ECHO

    def end(self):
        self.read_until(lambda: self.process.poll() is not None, "the end of the sweep")
        while select.select([self.fd], [], [], 0)[0]:
            self.seen += os.read(self.fd, 65536)
        os.close(self.own_end)
        os.close(self.fd)
        return self.process.returncode


XTERM = {"TERM": "xterm", "NO_COLOR": "", "CLICOLOR_FORCE": "", "LC_ALL": "C.UTF-8"}


@pytest.mark.parametrize("sig, status", [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129),
                                         (signal.SIGABRT, -signal.SIGABRT), (signal.SIGSEGV, -signal.SIGSEGV)])
def test_the_modes_of_the_terminal_are_restored(place, sig, status):
    place.sweep(TWO)
    t = Terminal(place, XTERM, "sweep", "s.yaml", "--here", "2")
    t.read_until_started()
    assert not t.is_canonical()
    t.process.send_signal(sig)
    t.read_until(lambda: t.process.poll() is not None, "the end of the sweep")
    assert t.is_canonical()
    assert t.end() == status


def test_colours_are_shown_unless_the_user_wants_none(place):
    place.sweep(TWO)
    t = Terminal(place, XTERM, "sweep", "s.yaml", "--here", "2")
    t.read_until_started()
    (place.path / "go").touch()
    assert t.end() == 0 and b"\x1b[32mrunning\x1b[m" in t.seen
    plain = Terminal(place, dict(XTERM, NO_COLOR="1"), "sweep", "s.yaml", "--name", "plain", "--here", "2")
    assert plain.end() == 0 and b"plain  running" in plain.seen and not re.search(rb"\x1b\[[\d;]*m", plain.seen)


@pytest.mark.parametrize("env", [{"TERM": "dumb"}, {"TERM": ""}])
def test_a_terminal_that_cannot_move_its_cursor_gets_lines(place, env):
    place.sweep(TWO)
    (place.path / "go").touch()
    t = Terminal(place, dict(XTERM, **env), "sweep", "s.yaml", "--here", "2")
    assert t.end() == 0 and b"\x1b" not in t.seen and t.seen.count(b"\r\ntrial ") + t.seen.startswith(b"trial ") == 4, t.seen


def test_a_worker_prints_what_it_runs(place):
    place.sweep(TWO)
    place.start("s.yaml", "--here", "1")
    endpoint = place.path / "sweeps/s/endpoint"
    wait_until(lambda: endpoint.exists() and endpoint.read_text(), "the sweep's endpoint")
    with open(place.path / "worker.txt", "w") as out:
        worker = subprocess.Popen([DROVER, "worker", endpoint.read_text().strip(), "--places", "1"], cwd=place.path,
                                  env=place.env, stdout=out, stdin=subprocess.DEVNULL, start_new_session=True)
    place.started.append(worker)

    def lines():
        return (place.path / "worker.txt").read_text().splitlines()
    wait_until(lambda: len(lines()) >= 2, "a trial")
    (place.path / "go").touch()
    assert worker.wait(timeout=60) == 0
    trial = re.fullmatch(r"drover worker: started trial (\d+)", lines()[1]).group(1)
    assert lines()[0] == f"drover worker: joined sweep s at {endpoint.read_text().strip()} with 1 slot"
    assert re.fullmatch(rf"drover worker: trial {trial} ended after [\d.]+ s: exit status 0", lines()[2])


def test_a_worker_on_a_terminal_shows_its_running_trials(place, screen):
    place.sweep(TWO)
    place.start("s.yaml", "--here", "1")
    endpoint = place.path / "sweeps/s/endpoint"
    wait_until(lambda: endpoint.exists() and endpoint.read_text(), "the sweep's endpoint")
    screen.keys(f"clear; {DROVER} worker {endpoint.read_text().strip()} --places 1", "Enter")
    screen.wait(lambda s: re.search(r"started trial (\d+)\n(.*\n)*s  1 of 1 slot  0 ended\n  trial \1  ", s), "its trial")
    (place.path / "go").touch()
    screen.wait(lambda s: "ended after" in s and " slots  " not in s, "the worker's end")
