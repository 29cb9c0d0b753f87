"""The documents of `drover bench`, -J and --json: whole at any moment and whatever ends the run; and its output when nobody can
read it any more."""
import json
import os
import re
import signal
import subprocess
import time

import pytest
from bench_kit import DROVER, bench
from kit_ranks import BUILD, clean_env, started
from waiting import wait_until


def test_an_output_file_is_not_written_over(tmp_path):
    out = tmp_path / "out.json"
    out.write_text("mine")
    assert bench(1, "all_reduce", "-b", "8", "-e", "8", "-J", out).returncode == 0
    assert out.read_text() == "mine" and json.loads((tmp_path / "out.json.0").read_text())["version"] == 3
    done = bench(1, "all_reduce", "-b", "8", "-e", "8", "-J", tmp_path / "no" / "out.json")
    assert done.returncode == 2 and "-J: '" in done.stderr and "No such file" in done.stderr
    assert "busbw" not in done.stdout  # before anything is measured


def when_rows_are_there(job, path, count):
    """Reads the head of the table of a running bench, and waits for rows in -J's file. Returns the ranks' processes."""
    pids = []
    for line in iter(job.stdout.readline, ""):
        if line.startswith("#  Rank"):
            pids.append(int(line.split()[6]))
        if "(elements)" in line:
            break
    limit = time.monotonic() + 30
    while not path.exists() or len(json.loads(path.read_text())["results"]) < count:
        assert time.monotonic() < limit
        job.stdout.readline()
    return pids


@pytest.mark.parametrize("what, status", [("interrupt", 130), ("kill 0", 137), ("kill 1", 137), ("stop 1", 1)])
def test_an_output_file_is_whole_whatever_ends_the_run(tmp_path, what, status):
    out = tmp_path / "out.json"
    args = [DROVER, "bench", "all_reduce", "-np", "2", "-b", "8", "-e", "8K", "-f", "2", "-n", "2", "-N", "0", "-T", "2", "-J", out]
    with started(args, stderr=subprocess.PIPE) as job:
        pids = when_rows_are_there(job, out, 3)
        word, *rank = what.split()
        if word == "interrupt":
            job.send_signal(signal.SIGINT)
        else:
            os.kill(pids[int(rank[0])], signal.SIGKILL if word == "kill" else signal.SIGSTOP)
        _, err = job.communicate(timeout=30)
        assert job.returncode == status
        assert ("rank 1 is stopped (process" in err) == (what == "stop 1"), err
    d = json.loads(out.read_text())
    assert len(d["results"]) >= 3 and d["results"][0]["size"] == 8
    assert {"out_of_bounds", "average_bus_bandwidth", "errors", "end_time"} <= d.keys()
    assert d["average_bus_bandwidth"]["bandwidth"] > 0


@pytest.mark.parametrize("what, status", [("interrupt", 130), ("kill 1", 137), ("stop 1", 1)])
def test_a_document_on_stdout_is_whole_whatever_ends_the_run(tmp_path, what, status):
    """-J's file shows how far the run is, without a word on stdout."""
    out = tmp_path / "out.json"
    args = [DROVER, "bench", "all_reduce", "-np", "2", "-b", "8", "-e", "8K", "-f", "2", "-n", "2", "-N", "0", "-T", "2", "--json", "-J", out]
    with started(args, stderr=subprocess.DEVNULL) as job:
        limit = time.monotonic() + 30
        text = ""
        while not out.exists() or len(json.loads(out.read_text())["results"]) < 3:
            assert time.monotonic() < limit
            text += job.stdout.readline()
        pids = [d["pid"] for d in json.loads(out.read_text())["config"]["devices"]]
        word, *rank = what.split()
        if word == "interrupt":
            job.send_signal(signal.SIGINT)
        else:
            os.kill(pids[int(rank[0])], signal.SIGKILL if word == "kill" else signal.SIGSTOP)
        text += job.stdout.read()
        assert job.wait(timeout=30) == status
    d = json.loads(text)
    assert len(d["rows"]) >= 3 and d["wrong"] == 0 and d["avg_busbw_gbps"] > 0


@pytest.mark.parametrize("args", [[], ["--csv"], ["--json"]])
def test_output_on_a_full_disk_is_a_failure(args):
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run([str(DROVER), "bench", "all_reduce", "-np", "1", "-b", "8", "-e", "8", *args], env=clean_env(), text=True,
                              stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
    assert done.returncode == 1 and done.stderr.count("No space left on device") == 1


def test_a_comparison_and_a_help_on_a_full_disk_are_failures(tmp_path):
    result = tmp_path / "a.json"
    result.write_text(bench(2, "all_reduce", "-b", "8", "-e", "8", "--json").stdout)
    for words in (["diff", result, result], ["--help"], ["diff", "--help"]):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([DROVER, "bench", *words], env=clean_env(), text=True, stdout=full, stderr=subprocess.PIPE, timeout=60,
                                  check=False)
        assert (done.returncode, done.stderr) == (1, "drover: stdout: No space left on device\n"), words


def test_a_saved_result_is_replaced_in_one_step(tmp_path):
    """Who has opened the file before reads the old result to its end."""
    save = ["all_reduce", "-b", "8", "-e", "8", "-n", "1", "--save", "golden"]
    assert bench(1, *save, XDG_DATA_HOME=str(tmp_path)).returncode == 0
    kept, = tmp_path.glob("drover/bench/*/all_reduce-golden.json")
    before = kept.read_text()
    with open(kept, encoding="utf-8") as reader:
        assert bench(1, *save, XDG_DATA_HOME=str(tmp_path)).returncode == 0
        assert reader.read() == before != kept.read_text()
    assert list(kept.parent.iterdir()) == [kept]


@pytest.mark.skipif("san-" in BUILD.name, reason="a sanitizer keeps memory that is freed")
@pytest.mark.parametrize("form", ["--json", "-J"])
def test_a_bench_without_an_end_keeps_no_rows(tmp_path, form):
    """The peak of rank 0 with 8,000 rows of some KiB each, and with what reads them at the end."""
    def peak_mib(passes, *more):
        done = bench(1, "all_reduce", "-b", "8", "-e", "8", "-n", "1", "-w", "0", "-c", "0", "-M", "1", "-N", passes, *more,
                     XDG_DATA_HOME=str(tmp_path))
        assert done.returncode == 0, done.stderr
        return float(re.search(r"memory: peak of rank 0's process: (\S+) MiB", done.stderr).group(1))
    words = ["-J", tmp_path / "out.json"] if form == "-J" else ["--json"]
    few, many = peak_mib(10, *words), peak_mib(8000, *words)
    assert many - few < 4, (few, many)
    assert peak_mib(8000, *words, "--save", "golden") - few > 8  # the test sees rows that are kept


@pytest.mark.parametrize("form", [[], ["--csv"], ["--json"]], ids=["table", "csv", "json"])
def test_a_reader_that_goes_away_ends_the_bench(tmp_path, form):
    out = tmp_path / "out.json"
    args = [DROVER, "bench", "all_reduce", "-np", "2", "-b", "8", "-e", "8K", "-f", "2", "-n", "2", "-N", "0", "-J", out, *form]
    with started(args, stderr=subprocess.PIPE) as job:
        job.stdout.readline()
        wait_until(out.exists, "the file")
        job.stdout.close()
        _, err = job.communicate(timeout=60)
        assert (job.returncode, err) == (141, "drover bench: error: the output has no reader any more: stopping the ranks\n")
    for device in json.loads(out.read_text())["config"]["devices"]:
        with pytest.raises(ProcessLookupError):
            os.kill(device["pid"], 0)


def test_a_reader_of_the_first_lines_gets_them():
    line = f"set -o pipefail; {DROVER} bench all_reduce -np 2 --oversubscribe -b 8 -e 8 -N 0 | head -2"
    done = subprocess.run(["bash", "-c", line], env=clean_env(), text=True, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.count("\n")) == (141, 2) and done.stderr.count("no reader") == 1, done.stderr


def test_rows_of_one_document_are_counted_and_a_run_that_went_wrong_is_not_as_good(tmp_path):
    def diff(a, b):
        for name, d in (("a", a), ("b", b)):
            (tmp_path / name).write_text(json.dumps(d))
        return subprocess.run([DROVER, "bench", "diff", "a", "b"], cwd=tmp_path, env=clean_env(), text=True, capture_output=True, timeout=60,
                              check=False)
    times = [60 + i % 7 for i in range(40)]
    row = {"type": "float", "op": "sum", "root": -1, "out_of_place": {"samples_us": times}, "in_place": {"samples_us": times}}
    d = {"collective": "all_reduce", "ranks": 2, "rows": [{**row, "size_bytes": size} for size in (8, 16)], "wrong": 0}
    part = {**d, "rows": d["rows"][1:]}
    for a, b, words in ((d, part, "2 rows only in A, 0 only in B"), (part, d, "0 rows only in A, 2 only in B")):
        assert diff(a, b).returncode == 0 and f"# not compared: {words}\n" in diff(a, b).stdout
    assert diff(d, d).returncode == 0 and diff(d, d).stdout.endswith("# 0 of 4 rows are worse by more than 5 %\n")
    for wrong, words in (({"error": "rank 1 failed"}, "failed: rank 1 failed"), ({"wrong": 3}, "had wrong elements"),
                         ({"error": "no rank", "rows": []}, "failed: no rank")):
        done = diff(d, {**d, **wrong})
        assert done.returncode == 1 and f"# the run of B {words}\n" in done.stdout, done.stderr
    assert diff({**d, "wrong": 3}, d).returncode == 0 and "# the run of A had wrong elements\n" in diff({**d, "wrong": 3}, d).stdout
    peer = {"args": ["all_reduce_perf"], "config": {"devices": [0, 1]}, "results": [
        {"size": 8, "type": "float", "redop": "sum", "root": "-1", "out_of_place": {"time": 60}, "out_of_place_per_iter": {"times_us": times}}]}
    for wrong, words in (({"errors": ["no memory"]}, "failed: no memory"), ({"out_of_bounds": {"count": 2, "okay": False}}, "had wrong elements")):
        done = diff(peer, {**peer, **wrong})
        assert done.returncode == 1 and f"# the run of B {words}\n" in done.stdout, done.stderr
