"""`drover run --hang-timeout`: jobs that stand still are told and ended, those that only look so are not."""
import json
import os
import re
import shutil
import signal

import pytest
from conftest import compile_c
from waiting import wait_until

RUN = ["run", "--oversubscribe"]


def table(stderr):
    """{rank: line} of the report's table."""
    return {int(m.group(1)): m.group(0) for m in re.finditer(r"^ +(\d+)  \S+ +[\d.]+ s +(?:\d+ s ago|none) .*$", stderr, re.M)}


def test_ranks_that_all_sleep_are_a_hang_with_status_124(drover, tmp_path):
    file = tmp_path / "ev.jsonl"
    (tmp_path / "t.py").write_text("import time\nprint('up')\ntime.sleep(100)\n")
    done = drover.run(*RUN, "-np", "2", "--hang-timeout", "2", "--events", file, "t.py")
    assert done.returncode == 124 and "seen: for 2 s, no rank has written output or used its CPU" in done.stderr
    rows = table(done.stderr)
    assert sorted(rows) == [0, 1] and all("python3" in row and ("nanosleep" in row or "select" in row)
                                          for row in rows.values())
    assert "differs" not in done.stderr
    assert "the job hangs: all ranks wait, and nothing tells one from the others [unknown]\n  seen: for 2 s" in done.stderr
    assert all(" s ago " in row for row in rows.values())
    hang = [e for e in map(json.loads, file.read_text().splitlines()) if e["event"] == "hang"]
    assert (hang[0]["class"], hang[0]["culprits"]) == ("unknown", [])
    assert len(hang) == 1 and hang[0]["why"] == "all idle" and [r["idle"] for r in hang[0]["ranks"]] == [True, True]
    drover.nothing_left()


def test_a_stopped_rank_is_named_though_the_others_work(drover):
    p = drover.start(*RUN, "-np", "3", "--hang-timeout", "2", "--grace", "1", "sh", "-c",
                     "echo $RANK $$; while :; do echo $RANK; sleep 0.2; done")
    os.set_blocking(p.stdout.fileno(), False)
    text = []

    def pid_of_rank_1():
        text.append(p.stdout.read() or b"")
        return re.search(rb"^1 (\d+)$", b"".join(text), re.M)
    os.kill(int(wait_until(pid_of_rank_1, "rank 1").group(1)), signal.SIGSTOP)
    os.set_blocking(p.stdout.fileno(), True)
    err = p.communicate(timeout=60)[1].decode()
    rows = table(err)
    assert p.returncode == 124 and "a rank is stopped" in err
    assert "stopped" in rows[1] and rows[1].endswith("<- differs") and "differs" not in rows[0] + rows[2]
    drover.nothing_left()


FUTEX = """
#include <linux/futex.h>
#include <mpi.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int rank;
    unsigned word = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 2)
        syscall(SYS_futex, &word, FUTEX_WAIT, 0, NULL, NULL, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
"""


@pytest.mark.skipif(not shutil.which("mpicc"), reason="mpicc is not installed")
def test_a_rank_in_a_futex_among_ranks_in_a_barrier_is_named_with_its_stack(drover, tmp_path):
    program = compile_c(tmp_path, "futex", FUTEX, "mpicc", "-g")
    done = drover.run(*RUN, "-np", "3", "--hang-timeout", "3", program, timeout=90)
    rows = table(done.stderr)
    assert done.returncode == 124
    assert "in futex" in rows[2] and rows[2].endswith("<- differs") and "differs" not in rows[0] + rows[1]
    if shutil.which("gdb"):
        stacks = re.split(r"^  stack of ranks? ([\d-]+):$", done.stderr, flags=re.M)
        stacks = dict(zip(stacks[1::2], stacks[2::2]))
        assert "main" in stacks["2"] and "Barrier" not in stacks["2"]
        assert "Barrier" in stacks.get("0-1", stacks.get("0", ""))
    drover.nothing_left()


LATE = """
#include <mpi.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    time_t end = time(NULL) + 6;
    if (atoi(getenv("RANK")) >= atoi(argv[1]))
        sleep(atoi(argv[2]));
    while (atoi(getenv("RANK")) >= atoi(argv[1]) && time(NULL) < end)
        ;
    MPI_Init(&argc, &argv);
    MPI_Finalize();
    return 0;
}
"""


@pytest.mark.skipif(not shutil.which("mpicc"), reason="mpicc is not installed")
@pytest.mark.parametrize("size, late", [(2, 1), (4, 2)])
def test_ranks_that_do_not_come_to_mpi_init_are_named(drover, tmp_path, size, late):
    program = compile_c(tmp_path, "late", LATE, "mpicc")
    file = tmp_path / "ev.jsonl"
    done = drover.run(*RUN, "-np", size, "--hang-timeout", "2", "--events", file, program, late, "100", timeout=90)
    assert done.returncode == 124 and "ranks wait in a collective" in done.stderr and "[start]" in done.stderr, done.stderr
    assert f"collectives of 'MPI_COMM_WORLD', {size} ranks, call 1: made by {late}\n" in done.stderr
    for rank, row in table(done.stderr).items():
        assert ("MPI_Init" in row) == (rank < late) and row.endswith("<- differs") == (rank >= late)
        assert (f"    rank {rank} on node" in done.stderr) == (rank >= late)
    (hang,) = [e for e in map(json.loads, file.read_text().splitlines()) if e["event"] == "hang"]
    assert hang["why"] == "collective" and [r["differs"] for r in hang["ranks"]] == [r >= late for r in range(size)]
    drover.nothing_left()


@pytest.mark.skipif(not shutil.which("mpicc"), reason="mpicc is not installed")
def test_a_rank_that_computes_before_mpi_init_is_no_hang(drover, tmp_path):
    program = compile_c(tmp_path, "late", LATE, "mpicc")
    done = drover.run(*RUN, "-np", "2", "--hang-timeout", "2", program, "1", "0", timeout=90)
    assert done.returncode == 0 and done.stderr == ""


def test_one_rank_that_computes_while_others_wait_is_no_hang(drover):
    done = drover.run(*RUN, "-np", "3", "--hang-timeout", "1", "sh", "-c",
                      "[ $RANK = 0 ] || exec sleep 4; end=$(($(date +%s) + 6)); while [ $(date +%s) -lt $end ]; do :; done")
    assert done.returncode == 0 and done.stderr == ""


def test_lines_now_and_then_are_no_hang(drover):
    done = drover.run(*RUN, "-np", "2", "--hang-timeout", "3", "sh", "-c",
                      "[ $RANK = 1 ] && exec sleep 5; for i in 1 2 3 4 5; do sleep 1; echo $i; done")
    assert done.returncode == 0 and done.stderr == ""


def test_a_bad_timeout_is_refused(drover):
    assert drover.run(*RUN, "--hang-timeout", "-3", "true").returncode == 2
