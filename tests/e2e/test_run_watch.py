"""`drover run --events`, what failures say, and MPI programs whose ranks do not find each other."""
import json
import os
import re
import shutil
from datetime import datetime, timezone

import pytest
from conftest import compile_c
from waiting import wait_until

RUN = ["run", "--oversubscribe"]


def events(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def of_kind(all_events, kind):
    return [e for e in all_events if e["event"] == kind]


def test_the_end_of_a_job_has_the_rank_that_explains_the_failure_and_its_cause(drover, tmp_path):
    file = tmp_path / "ev.jsonl"
    (tmp_path / "t.py").write_text(
        "import os, time\n"
        "if os.environ['RANK'] == '0':\n"
        "    raise RuntimeError('[2] Connection closed by peer [10.0.0.2]:3000')\n"
        "time.sleep(0.5)\n"
        "raise ValueError('a bad batch')\n")
    done = drover.run(*RUN, "-np", "2", "--events", file, "t.py")
    (ended,) = of_kind(events(file), "ended")
    assert (ended["first_failed"], ended["cause_rank"], ended["cause"]) == (0, 1, "ValueError: a bad batch"), done.stderr
    assert "  cause: ValueError: a bad batch\n" in done.stderr


def test_every_event_of_a_job_is_a_line_of_json(drover, tmp_path):
    began = datetime.now(timezone.utc)
    file = tmp_path / "ev.jsonl"
    done = drover.run(*RUN, "-np", "3", "--events", file, "sh", "-c",
                      "echo a; echo b >&2; [ $RANK = 1 ] && echo c; exit 0")
    assert done.returncode == 0
    all_events = events(file)
    assert [e["event"] for e in all_events][0] == "planned" and all_events[-1]["event"] == "ended"
    assert len({e["job"] for e in all_events}) == 1 and all_events[0]["job"].startswith("drover-")
    for e in all_events:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", e["time"])
        when = datetime.strptime(e["time"], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)
        assert -1 < (when - began).total_seconds() < 60
    planned = all_events[0]
    assert planned["ranks"] == 3 and planned["attempt"] == 0 and planned["command"].startswith("sh -c echo a;")
    assert sum(n["ranks"] for n in planned["nodes"]) == 3
    assert sorted(e["rank"] for e in of_kind(all_events, "started")) == [0, 1, 2]
    assert all(e["pid"] > 0 and e["node"] for e in of_kind(all_events, "started"))
    ends = of_kind(all_events, "exit")
    assert all(e["ms"] == int(e["seconds"] * 1000) for e in ends)
    assert sorted(e["rank"] for e in ends) == [0, 1, 2] and all(e["status"] == 0 for e in ends)
    counts = {e["rank"]: (e["stdout"], e["stderr"]) for e in of_kind(all_events, "lines")}
    assert counts == {0: (1, 1), 1: (2, 1), 2: (1, 1)}
    assert all_events[-1]["status"] == 0 and all_events[-1]["first_failed"] is None and all_events[-1]["cause"] is None


def test_a_failure_is_in_the_events_with_its_rank_and_signal(drover, tmp_path):
    file = tmp_path / "ev.jsonl"
    done = drover.run(*RUN, "-np", "2", "--events", file, "sh", "-c", "[ $RANK = 1 ] && kill -SEGV $$; sleep 100")
    assert done.returncode == 139
    failed = [e for e in of_kind(events(file), "exit") if not e["told_to_stop"]]
    assert [(e["rank"], e["status"], e["signal"]) for e in failed] == [(1, 139, "SIGSEGV")]
    assert events(file)[-1]["first_failed"] == 1 and events(file)[-1]["status"] == 139


def test_secrets_are_not_in_the_events(drover, tmp_path):
    file = tmp_path / "ev.jsonl"
    drover.run(*RUN, "-np", "1", "-x", "HF_TOKEN=hidden1", "--events", file, "sh", "-c", "exit 0", "--api-key", "hidden2")
    text = file.read_text()
    assert "hidden" not in text and "--api-key ***" in text


def test_jobs_append_to_one_file(drover, tmp_path):
    file = tmp_path / "ev.jsonl"
    for _ in range(2):
        assert drover.run(*RUN, "-np", "1", "--events", file, "true").returncode == 0
    assert len(of_kind(events(file), "planned")) == 2 and len({e["job"] for e in events(file)}) == 2


def test_a_full_disk_is_said_once_and_the_job_goes_on(drover):
    done = drover.run(*RUN, "-np", "4", "--events", "/dev/full", "echo", "done")
    assert done.returncode == 0 and done.stdout == "done\n" * 4
    assert done.stderr.count("No space left") == 1 and "/dev/full" in done.stderr


def test_an_events_file_that_cannot_be_opened_starts_nothing(drover, tmp_path):
    done = drover.run(*RUN, "-np", "1", "--events", tmp_path / "no/such/file", "touch", "started")
    assert done.returncode == 2 and "no/such/file" in done.stderr and "try: " in done.stderr
    assert not (tmp_path / "started").exists()


def test_a_traceback_without_a_known_cause_is_told_by_its_exception(drover, tmp_path):
    (tmp_path / "t.py").write_text("def f():\n    raise ValueError('the batch is odd')\nf()\n")
    done = drover.run(*RUN, "-np", "1", "t.py")
    assert done.returncode == 1 and "  cause: ValueError: the batch is odd\n" in done.stderr


def test_a_core_dump_is_found_where_the_report_says(drover, tmp_path):
    pattern = open("/proc/sys/kernel/core_pattern", encoding="ascii").read()
    if pattern.startswith(("|", "/")):
        pytest.skip(f"core dumps go to {pattern}")
    done = drover.run(*RUN, "-np", "1", "sh", "-c", "ulimit -c unlimited; kill -SEGV $$")
    assert done.returncode == 139 and "core dumped" in done.stderr
    core = re.search(r"^  core: (.*)$", done.stderr, re.M).group(1)
    assert (tmp_path / core).stat().st_size > 0


PROGRAM = """
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    printf("%d of %d\\n", rank, size);
    fflush(stdout);
    if (argc > 1)
        pause();
    MPI_Finalize();
    return 0;
}
"""


@pytest.fixture
def mpi(tmp_path):
    if not shutil.which("mpicc"):
        pytest.skip("mpicc is not installed")
    return compile_c(tmp_path, "mpi_size", PROGRAM, "mpicc")


def test_ranks_that_do_not_find_each_other_are_told(drover, mpi, tmp_path):
    file = tmp_path / "ev.jsonl"
    done = drover.run(*RUN, "-np", "2", "--no-pmix", "--events", file, mpi)
    assert done.returncode == 0 and done.stdout == "0 of 1\n" * 2  # the classic failure
    assert done.stderr.count("2 jobs of one rank each") == 1 and "libmpi" in done.stderr
    assert len(of_kind(events(file), "apart")) == 1


def test_a_long_job_that_fell_apart_is_told_while_it_runs(drover, mpi):
    p = drover.start(*RUN, "-np", "2", "--no-pmix", mpi, "stay")
    os.set_blocking(p.stderr.fileno(), False)
    said = []

    def heard():
        said.append(p.stderr.read() or b"")
        return b"2 jobs of one rank each" in b"".join(said)
    wait_until(heard, "the warning", 30)
    p.terminate()
    p.communicate(timeout=30)


def test_ranks_that_find_each_other_are_not_warned_about(drover, mpi):
    done = drover.run(*RUN, "-np", "2", mpi)
    assert done.returncode == 0 and sorted(done.stdout.splitlines()) == ["0 of 2", "1 of 2"]
    assert done.stderr == ""


def test_one_rank_alone_is_no_job_that_fell_apart(drover, mpi):
    done = drover.run(*RUN, "-np", "1", "--no-pmix", mpi)
    assert done.returncode == 0 and done.stderr == ""
