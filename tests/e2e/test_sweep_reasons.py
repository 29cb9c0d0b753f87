"""Why a sweep has ended or is left: `show`, `ls`, the served API and the report say the same, from the first case to the last."""
import json
import re
import signal
import subprocess

import pytest
from serve_kit import Server
from sweep_kit import DROVER, use_place  # noqa: F401 (a fixture)
from waiting import wait_until

# The loss is lr. The trial with lr=9 fails, and the one with lr=5 runs until the file `go` exists.
TRIAL = """echo "{\\"loss\\": $lr}"
[ $lr = 9 ] && exit 1
while [ $lr = 5 ] && ! [ -e go ]; do sleep 0.05; done
exit 0
"""
GRID = "method: grid\nmetric: {name: loss%s}\nparameters: {lr: {values: [%s]}}\ndrover: {parallel: 1, give_up_after: 1}\n"
WAITS = GRID % ("", 5)


def stop(*verb):
    def end(place, coordinator):
        assert place.run(*verb).returncode == 0
    return end


def send(number):
    return lambda place, coordinator: coordinator.send_signal(number)


CASES = {
    "all tried": (GRID % ("", "1, 2"), [], None, "finished", "every point of the space is tried"),
    "cap": ("run_cap: 1\n" + GRID % ("", "1, 2"), [], None, "finished", "run_cap is reached"),
    "target": (GRID % (", target: 1", "1, 2"), [], None, "finished", "the metric's target is reached"),
    "gave up": (GRID % ("", "9, 1"), [], None, "finished",
                "gave up: the first trials all failed (drover: {give_up_after: …})"),
    "deadline": (WAITS, ["--deadline", "2"], None, "stopped", "it was stopped at its deadline (--deadline 2)"),
    "cancelled": (WAITS, [], stop("cancel", "s"), "stopped", "the user stopped it"),
    "signal": (WAITS, [], send(signal.SIGINT), "stopped", "SIGINT stopped its coordinator"),
    "killed": (WAITS, [], send(signal.SIGKILL), "stopped", "its coordinator failed or was killed"),
}


def all_say(place, state, reason):
    """The state and the reason are the same wherever the sweep is shown."""
    text = f"{state}: {reason}" if reason else state
    shown = place.show()
    listed, = json.loads(place.run("ls", "--json").stdout)
    served = Server(place, "sweeps")
    views = [shown, listed, served.json("/api/s/overview"), served.json("/api/sweeps")["sweeps"][0]]
    assert [(v["state"], v["reason"]) for v in views] == [(state, reason)] * len(views)
    assert text in place.run("show", "s").stdout.splitlines()
    line = place.run("ls").stdout
    assert f" {state} " in line and (reason is None or line.endswith(f"  {reason}\n"))
    for name, said in (("r.md", re.sub(r"([_{}])", r"\\\1", text)), ("r.html", text.replace("'", "&#39;"))):
        done = subprocess.run([DROVER, "report", "s", "-o", name], cwd=place.path, env=place.env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert f"The sweep is {said}. " in (place.path / name).read_text()
    served.process.kill()
    served.process.wait()


@pytest.mark.parametrize("case", CASES)
def test_all_views_say_why_a_sweep_has_ended(place, case):
    file, options, end, state, reason = CASES[case]
    coordinator = place.start(place.sweep(file), *options)
    if end:
        wait_until(lambda: place.records("report"), place.said)
        all_say(place, "running", None)
        end(place, coordinator)
    coordinator.wait(60)
    all_say(place, state, reason)


def test_a_sweep_that_is_continued_has_its_last_reason(place):
    coordinator = place.start(place.sweep(WAITS))
    wait_until(lambda: place.records("report"), place.said)
    coordinator.send_signal(signal.SIGTERM)
    coordinator.wait(60)
    all_say(place, "stopped", "SIGTERM stopped its coordinator")
    coordinator = place.start("resume", "s")
    wait_until(lambda: len(place.records("leased")) == 2, place.said)
    all_say(place, "running", None)
    (place.path / "go").touch()
    assert coordinator.wait(60) == 0
    all_say(place, "finished", "every point of the space is tried")
    assert place.run("add", "s", "--param", "lr=5").returncode == 0
    all_say(place, "stopped", "no coordinator runs")
