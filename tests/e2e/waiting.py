"""How tests wait, and how often they try what has a time limit. A machine may stand still for seconds, because others have
its processors; that is no fault of what is tested."""
import os
import random
import re
import signal
import time
from pathlib import Path

import pytest

NAP_S = 0.01
SILENCES_S = (3, 6, 12)  # for at_best: on some machines the start alone takes 3 s, in which nobody says anything


def wait_until(condition, what, limit_s=60.0):
    """Looks again and again until the condition gives something true, which it returns. `what` is waited for: words, or a
    function that gives them when the wait was in vain. The limit is one of naps: one that the machine makes longer, and the
    time that a look takes, count no more than others."""
    for _ in range(round(limit_s / NAP_S) + 1):
        value = condition()
        if value:
            return value
        time.sleep(NAP_S)
    raise AssertionError(f"waited {limit_s} s for {what() if callable(what) else what}")


WAITS = re.compile(r"^[\w ]+: warn: waiting \d+ s: (?:no agent has connected|no topology arrived|the ranks are not ready|"
                   r"no name server|rendezvous at|measurement) .*\n", re.M)


def without_waits(text):
    """A start that takes 2 s says what it waits for. On a machine that stands still each one may."""
    return WAITS.sub("", text)


def check_time(within_limit, text):
    """Checks a limit on time, which a busy machine breaks without a fault of the program: only `tests/run --perf` does."""
    assert within_limit or "DROVER_TEST_PERF" not in os.environ, text


def at_best(check, *tries):
    """What check(t) gives with the first of the tries that passes: a machine that stands still only ever makes things
    late, so what is too slow fails with all of them. The last failure is the one that is told; others are printed."""
    for t in tries[:-1]:
        try:
            return check(t)
        except AssertionError as e:
            print(f"try {t}: {e}")
    return check(tries[-1])


def request_again(process, number):
    """Sends a signal to a process that has obeyed one: what comes within a second would repeat the first request."""
    time.sleep(1.1)
    process.send_signal(number)


HEARD = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)


def hear_signals():
    """For Popen's preexec_fn. What a shell's background job ignores (nohup, `... &`) would stay so in drover."""
    for number in HEARD:
        signal.signal(number, signal.SIG_DFL)


def skip_unless_reachable(program):
    """Another user runs a program only if all directories above it let them pass."""
    for d in Path(program).resolve().parents:
        if not d.stat().st_mode & 0o001:
            pytest.skip(f"another user cannot run {program}: {d} is private")


@pytest.fixture(name="seed")
def use_seed():
    value = int(os.environ.get("DROVER_TEST_SEED", random.SystemRandom().randrange(1 << 30)))
    print(f"seed {value} (DROVER_TEST_SEED={value} to repeat)")
    return random.Random(value)
