"""`drover run`: the first failure is the first cause, and a job is restarted by its cause."""
import json
import re

import pytest

RUN = ["run", "--oversubscribe"]
CLOSED = "RuntimeError: [gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:36016"
MEMORY = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
GONE = "until [ -e pid ]; do sleep 0.02; done; while kill -0 $(cat pid) 2>/dev/null; do sleep 0.02; done"
NOTICES = f"echo $$ >pid; until [ -e printed ]; do sleep 0.05; done; echo '{CLOSED}' >&2; exit 3"  # rank 0


def run(drover, others, ranks=2, options=(), first=NOTICES):
    """Rank 0 notices that another rank has gone; the others run `others`."""
    return drover.run(*RUN, "-np", ranks, *options, "sh", "-c", f"[ $RANK = 0 ] || {{ {others}; }}; {first}")


def told(done, rank):
    """What is said last: of this rank, and of its cause."""
    begin = done.stderr.rindex(f"drover run: rank {rank} on ")
    return done.stderr[begin:]


@pytest.mark.parametrize("end, words", [
    (f"{GONE}; exit 1", "failed first: it exited with status 1"),
    ("exec sleep 100", "failed first: it had printed an error, and was then stopped"),
])
def test_a_slower_rank_with_the_first_cause_is_named(drover, end, words):
    done = run(drover, f"echo '{MEMORY}' >&2; >printed; {end}")
    assert done.returncode == 3, done.stderr
    assert re.search(r"rank 0 on \S+ exited with status 3", done.stderr)
    last = told(done, 1)
    assert words in last and MEMORY in last and "cause: out of GPU memory" in last
    assert "ended first" not in done.stderr
    drover.nothing_left()


def test_a_rank_that_crashes_while_others_notice_is_named(drover):
    done = run(drover, f">printed; {GONE}; kill -SEGV $$")
    assert done.returncode == 3
    assert re.search(r"rank 1 on \S+ failed first: it was ended by signal 11 \(SIGSEGV", done.stderr), done.stderr


def test_an_exception_in_an_error_file_is_heard(drover):
    error = json.dumps({"message": {"message": "ValueError: bad row", "extraInfo": {}}})
    done = drover.run("torchrun", "--no-python", "--nproc-per-node", "2", "sh", "-c",
                      f"[ $RANK = 0 ] || {{ >printed; {GONE}; echo '{error}' >$TORCHELASTIC_ERROR_FILE; exit 1; }}; {NOTICES}")
    assert "cause: ValueError: bad row\n" in done.stderr and "failed first" in done.stderr, done.stderr


@pytest.mark.parametrize("ranks, words", [(2, "rank 1 had exited with status 0, and this rank still needed it"),
                                          (4, "ranks 1-3 had exited with status 0, and this rank still needed them")])
def test_ranks_that_left_are_named(drover, ranks, words):
    done = run(drover, "exit 0", ranks=ranks, first=f"sleep 1; echo '{CLOSED}' >&2; exit 3")
    assert done.returncode == 3 and f"cause: {words}\n" in told(done, 0), done.stderr


def test_what_a_rank_prints_because_it_is_stopped_is_no_cause(drover):
    done = run(drover, f"trap 'echo \"{MEMORY}\" >&2; exit 1' TERM; >printed; sleep 100 & wait")
    assert MEMORY in done.stderr and "failed first" not in done.stderr
    assert "cause: another process of the job ended first" in told(done, 0)
    drover.nothing_left()


def test_a_rank_with_a_first_hand_failure_is_the_cause_whatever_others_have_printed(drover):
    done = run(drover, f"echo '{MEMORY}' >&2; >printed; exec sleep 100",
               first="until [ -e printed ]; do sleep 0.05; done; echo 'x.so: undefined symbol: f' >&2; exit 3")
    assert "failed first" not in done.stderr and "the versions of two libraries do not fit" in told(done, 0)


# ---- restarts -----------------------------------------------------------------------------------

def python(drover, text, *options, command="run"):
    with open(f"{drover.cwd}/t.py", "w", encoding="ascii") as f:
        f.write("open('attempts', 'a').write('x')\n" + text + "\n")
    return drover.run(command, *options, *(["-np", 1] if command == "run" else []), "t.py")


def attempts(drover):
    with open(f"{drover.cwd}/attempts", encoding="ascii") as f:
        return len(f.read())


@pytest.mark.parametrize("text, named", [
    ("undefined", "NameError"),
    ("import no_such_module", "a Python module is missing"),
    ("raise ModuleNotFoundError(\"No module named 'wandb'\")", "W&B's Python module is missing: pip install wandb"),
    ("open('no-such-file')", "FileNotFoundError"),
    ("import argparse; p = argparse.ArgumentParser(); p.parse_args(['--no-such-option'])", "an option of the program is wrong"),
    (f"import sys; sys.exit('{MEMORY}')", "out of GPU memory"),
])
@pytest.mark.parametrize("command", ["run", "torchrun"])
def test_what_a_restart_does_not_cure_is_not_restarted(drover, command, text, named):
    done = python(drover, text, "--max-restarts=3", command=command)
    assert done.returncode in (1, 2) and attempts(drover) == 1
    assert (f"drover {command}: not restarted: a restart does not cure this ({named})\n"
            "  try: --restart-always, which restarts in any case\n  try: drover runs show ") in done.stderr, done.stderr


@pytest.mark.parametrize("command", ["run", "torchrun"])
def test_the_user_may_have_it_restarted_in_any_case(drover, command):
    done = python(drover, "undefined", "--max-restarts=1", "--restart-always", command=command)
    assert done.returncode == 1 and attempts(drover) == 2 and "not restarted" not in done.stderr


@pytest.mark.parametrize("command", ["run", "torchrun"])
def test_restarts_in_any_case_need_a_number(drover, command):
    done = python(drover, "undefined", "--restart-always", command=command)
    assert done.returncode == 2 and "--restart-always needs --max-restarts N" in done.stderr, done.stderr


def test_without_restarts_nothing_is_said_of_them(drover):
    assert "restarted" not in python(drover, "undefined").stderr


def test_the_same_failure_twice_without_progress_is_the_end(drover, tmp_path):
    events = tmp_path / "events"
    done = python(drover, "import os; raise RuntimeError(f'node {os.getpid()} is odd')", "--max-restarts=5", "--events", events)
    assert attempts(drover) == 2
    assert "not restarted: the job failed twice without progress (RuntimeError)\n" in done.stderr, done.stderr
    (refused,) = [e for e in map(json.loads, events.read_text().splitlines()) if e["event"] == "not_restarted"]
    assert refused["cause"] == "RuntimeError"


def test_other_failures_are_restarted(drover):
    done = python(drover, "n = len(open('attempts').read()); assert n == 4, 'abcd'[n]", "--max-restarts=5")
    assert done.returncode == 0 and attempts(drover) == 4, done.stderr
