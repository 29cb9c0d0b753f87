"""`drover bench`: its table is nccl-tests' (read here by the layout's description, column by column), its figures follow
from its times, and wrong data are found."""
import json
import math
import os
import re
import signal
import subprocess
import time

import pytest
from bench_kit import DROVER, bench
from kit_ranks import FAKE_NCCL, MPIRUN, ROOT, clean_env, started, under_mpirun
from waiting import hear_signals

FACTORS = {"all_reduce": lambda n: 2 * (n - 1) / n, "all_gather": lambda n: (n - 1) / n,
           "reduce_scatter": lambda n: (n - 1) / n, "alltoall": lambda n: (n - 1) / n, "broadcast": lambda n: 1,
           "reduce": lambda n: 1}
TITLES = ["size", "count", "type", "redop", "root"] + ["time", "algbw", "busbw", "#wrong"] * 2
TYPE_BYTES = {"int8": 1, "uint8": 1, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8, "half": 2, "float": 4,
              "double": 8, "bfloat16": 2}


def bench_under_mpirun(ranks, *args, **env):
    return subprocess.run(under_mpirun(ranks, [DROVER, "bench", *args], env), env=clean_env(**env), text=True,
                          capture_output=True, timeout=60, check=False)


def half(fields):
    return {"time": float(fields[0]), "algbw": float(fields[1]), "busbw": float(fields[2]),
            "wrong": None if fields[3] == "N/A" else float(fields[3])}


def parse(text):
    """nccl-tests' layout: head lines with '#', rows of 13 columns, three foot lines."""
    lines = text.splitlines()
    titles = [i for i, line in enumerate(lines) if line[1:].split() == TITLES]
    assert len(titles) == 1, text
    assert lines[titles[0] - 1].split() == ["#", "out-of-place", "in-place"]
    assert lines[titles[0] + 1].split() == ["#", "(B)", "(elements)", "(us)", "(GB/s)", "(GB/s)", "(us)", "(GB/s)",
                                            "(GB/s)"]
    rows = []
    for line in lines[titles[0] + 2:]:
        if line.startswith("#"):
            break
        size, count, kind, redop, root = line[:12], line[14:26], line[28:36], line[38:44], line[46:52]
        rest = line[52:].split()
        assert len(rest) == 8, line
        rows.append({"size": int(size), "count": int(count), "type": kind.strip(), "redop": redop.strip(),
                     "root": int(root), "out": half(rest[:4]), "in": half(rest[4:])})
    bad = re.search(r"^# Out of bounds values : (\d+) (OK|FAILED)$", text, re.M)
    average = re.search(r"^# Avg bus bandwidth    : (\S+) $", text, re.M)
    devices = re.findall(r"^#  Rank +(\d+) Group +0 Pid +(\d+) on +(\S+) device +(\d+) "
                         r"\[([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2})\] (.*)$", text, re.M)
    return {"rows": rows, "bad": (int(bad.group(1)), bad.group(2)), "average": float(average.group(1)),
            "devices": devices, "program": re.search(r"^# Collective test starting: (\S+)$", text, re.M).group(1)}


def check_figures(table, ranks, op):
    """algbw and busbw follow from size and time, within what the columns show."""
    for row in table["rows"]:
        for way in (row["out"], row["in"]):
            if way["time"] < 1:
                continue  # too few digits are left
            for column, want in (("algbw", 1), ("busbw", FACTORS[op](ranks))):
                want *= row["size"] / way["time"] / 1e3
                assert abs(way[column] - want) <= 0.006 + 0.01 * want, row  # both are rounded, and the time is


@pytest.mark.parametrize("op", FACTORS)
def test_every_collective_gives_nccl_tests_table(op):
    done = bench(2, op, "-b", "8", "-e", "256K", "-f", "4", "-n", "5", "-d", "float")
    assert done.returncode == 0, done.stderr
    table = parse(done.stdout)
    assert table["program"] == f"{op}_perf"
    assert [d[0] for d in table["devices"]] == ["0", "1"]
    parts = op in ("all_gather", "reduce_scatter", "alltoall")
    assert [r["size"] for r in table["rows"]] == [s // 32 * 32 if parts else s for s in (8 * 4 ** k for k in range(8))]
    for r in table["rows"]:
        assert r["count"] == r["size"] // 4 // (2 if parts else 1)
        assert r["type"] == "float"
        assert r["redop"] == ("sum" if "reduce" in op else "none")
        assert r["root"] == (0 if op in ("broadcast", "reduce") else -1)
        assert r["out"]["wrong"] == 0 and r["in"]["wrong"] == 0
    assert table["bad"] == (0, "OK")
    check_figures(table, 2, op)
    mean = sum(r[way]["busbw"] for r in table["rows"] for way in ("out", "in")) / 2 / len(table["rows"])
    assert table["average"] == pytest.approx(mean, abs=0.01)


def test_the_command_line_of_nccl_tests_is_taken():
    done = bench(2, "all_reduce_perf", "-b", "1M", "-e", "3M", "-i", "1M", "-g", "1", "-t", "1", "-n", "2", "-w", "0",
                 "-c", "0", "-o", "max", "-d", "half", "-z", "1", "-a", "3", "-T", "50")
    assert done.returncode == 0, done.stderr
    table = parse(done.stdout)
    assert [r["size"] for r in table["rows"]] == [1 << 20, 2 << 20, 3 << 20]
    assert all(r["out"]["wrong"] is None and r["redop"] == "max" for r in table["rows"])
    assert "step: 1048576(bytes) warmup iters: 0 iters: 2 agg iters: 1 validation: 0" in done.stdout


def test_long_options_of_nccl_tests_may_be_abbreviated():
    done = bench(2, "all_reduce", "--min", "8", "--max", "64", "--stepf", "8", "--warmup", "2", "--iter=3", "--data", "half")
    assert done.returncode == 0, done.stderr
    assert [(r["size"], r["type"]) for r in parse(done.stdout)["rows"]] == [(8, "half"), (64, "half")]
    assert "warmup iters: 2 iters: 3 " in done.stdout


@pytest.mark.parametrize("args, sizes", [
    (["-b", "4K", "-e", "4K", "-f", "1"], [4096]), (["-b", "4K", "-e", "4K", "-f", "1", "-i", "0"], [4096]),
    (["-b", "1K", "-e", "3K", "-f", "1", "-i", "1K"], [1024, 2048, 3072]), (["-b", "1K", "-e", "3K", "-i", "1K"], [1024, 2048, 3072])])
def test_a_step_factor_of_1_means_that_the_step_is_added(args, sizes):
    done = bench(2, "all_reduce", *args, "-n", "1", "-T", "0")
    assert done.returncode == 0, done.stderr
    assert [r["size"] for r in parse(done.stdout)["rows"]] == sizes and "(bytes)" in done.stdout


@pytest.mark.parametrize("args, words", [
    (["-I", "1", "-K", "5"], "-K 5 is ignored: it must be below -n 5"), (["-I", "1", "-K", "-1"], "-K -1 is ignored"),
    (["-K", "2"], "-K is ignored: it needs -I 1"), (["-V", "0"], "-V 0 is ignored"), (["-V", "129"], "-V 129 is ignored"),
    (["-I", "2"], "-I 2 is ignored: it is 0 or 1")])
def test_values_that_nccl_tests_corrects_are_warned_of(args, words):
    done = bench(2, "all_reduce", "-b", "8", "-e", "8", "-n", "5", *args)
    assert done.returncode == 0 and done.stderr.count(f"warn: {words}") == 1, done.stderr
    assert "skips" not in done.stdout and ("i_min" in done.stdout) == (args[:2] == ["-I", "1"])


@pytest.mark.parametrize("values", [
    dict.fromkeys(("SPLIT", "SPLIT_MASK", "MIN_BW", "DEVICE"), ""), {"DEVICE": "-1", "MIN_BW": "-1", "SPLIT_MASK": "0"},
    {"ALLTOALLV_SPREAD": "-1", "ALLTOALLV_PRINT_SUMMARY": "0", "ALLTOALLV_MATRIX_FILE": "", "ALLTOALLV_MATRIX_SCALE": ""}])
def test_variables_of_nccl_tests_with_a_value_for_not_set_are_not_set(values):
    op = "alltoallv" if "ALLTOALLV_SPREAD" in values else "all_reduce"
    done = bench(2, op, "-b", "1K", "-e", "1K", "-n", "1", **{f"NCCL_TESTS_{name}": value for name, value in values.items()})
    assert done.returncode == 0 and "NCCL_TESTS" not in done.stderr, done.stderr
    assert len(parse(done.stdout)["devices"]) == 2 and "FAILED" not in done.stdout
    if op == "alltoallv":  # all peers get the same, as with a spread of 0
        assert parse(done.stdout)["rows"][0]["size"] == 1024


@pytest.mark.parametrize("args, ranks", [(["-g", "1"], 1), (["-t", "1", "-g", "1"], 1), (["-t", "2"], 2)])
def test_a_number_of_gpus_or_threads_alone_is_the_number_of_ranks(args, ranks):
    done = subprocess.run([str(DROVER), "bench", "all_reduce", "-b", "8", "-e", "8", "-n", "1", "--oversubscribe", *args],
                          env=clean_env(), text=True, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert len(parse(done.stdout)["devices"]) == ranks


def test_every_type_operation_and_root_is_checked_over_three_ranks():
    done = bench(3, "reduce", "-b", "1K", "-e", "600K", "-f", "600", "-n", "1", "-d", "all", "-o", "all", "-r", "all")
    assert done.returncode == 0, done.stderr
    rows = parse(done.stdout)["rows"]
    assert len(rows) == 10 * 6 * 3 * 2
    assert {r["type"] for r in rows} == set(TYPE_BYTES) and {r["root"] for r in rows} == {0, 1, 2}
    assert all(r["out"]["wrong"] == 0 and r["in"]["wrong"] == 0 for r in rows)


def test_one_rank_has_no_bus():
    done = bench(1, "all_reduce", "-b", "1K", "-e", "1K")
    assert done.returncode == 0, done.stderr
    table = parse(done.stdout)
    assert table["average"] == 0 and len(table["devices"]) == 1


@pytest.mark.parametrize("where, rows_wrong", [("1:0", 4), ("0:200000", 2), ("1:99999999", 0), ("7:0", 0)])
def test_an_injected_wrong_element_is_counted_and_fails_the_command(where, rows_wrong):
    done = bench(2, "all_reduce", "-b", "256K", "-e", "1M", "-f", "4", "-n", "1", DROVER_BENCH_INJECT=where)
    table = parse(done.stdout)
    assert sum(r[way]["wrong"] for r in table["rows"] for way in ("out", "in")) == rows_wrong
    assert table["bad"] == (rows_wrong, "FAILED" if rows_wrong else "OK")
    assert done.returncode == (1 if rows_wrong else 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_ends_the_ranks_too(number):
    with started([DROVER, "bench", "all_reduce", "-np", "2", "-b", "4M", "-e", "4M", "-n", "1000000"],
                 preexec_fn=hear_signals) as job:
        pids = []
        for line in job.stdout:
            if line.startswith("#  Rank"):
                pids.append(int(line.split()[6]))
            if "(elements)" in line:
                break
        assert len(pids) == 2
        job.send_signal(number)
        job.send_signal(number)
        assert job.wait(timeout=20) == 128 + number  # not of SIGKILL
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_json_holds_what_the_table_shows():
    done = bench(2, "all_gather", "-b", "64K", "-e", "64K", "-n", "3", "--json")
    assert done.returncode == 0, done.stderr
    d = json.loads(done.stdout)
    (row,) = d["rows"]
    assert (d["collective"], d["ranks"], row["size_bytes"], row["type"]) == ("all_gather", 2, 65536, "float")
    for way in (row["out_of_place"], row["in_place"]):
        assert way["wrong"] == 0 and way["rank_min_us"] <= way["time_us"] <= way["rank_max_us"]
        assert math.isclose(way["algbw_gbps"], 65536 / way["time_us"] / 1e3, rel_tol=1e-3)
        assert math.isclose(way["busbw_gbps"], way["algbw_gbps"] / 2, rel_tol=1e-3)


def test_it_runs_as_ranks_of_mpirun_too():
    done = bench_under_mpirun(2, "all_reduce", "-b", "8", "-e", "64K", "-f", "8")
    assert done.returncode == 0, done.stderr
    table = parse(done.stdout)
    assert len(table["rows"]) == 5 and len(table["devices"]) == 2
    check_figures(table, 2, "all_reduce")


def test_it_runs_over_nccl(tmp_path):
    if not FAKE_NCCL.exists():
        pytest.skip("built without NCCL's and CUDA's headers")
    env = {"DROVER_NCCL_LIB": str(FAKE_NCCL), "DROVER_CUDART_LIB": str(FAKE_NCCL), "FAKE_NCCL_DIR": str(tmp_path)}
    done = bench(2, "all_reduce", "-b", "1K", "-e", "1M", "-f", "32", "--backend", "nccl", FAKE_NCCL="slow", **env)
    assert done.returncode == 0, done.stderr
    table = parse(done.stdout)
    assert "# Backend: nccl, NCCL 2." in done.stdout
    assert [d[3:] for d in table["devices"]] == [("0", "0000:3b:00", "Fake GPU"), ("1", "0000:3c:00", "Fake GPU")]
    assert table["bad"] == (0, "OK")
    done = bench(2, "alltoall", "-b", "1K", "-e", "1K", "--backend", "nccl", **env)
    assert done.returncode == 0, done.stderr
    (row,) = parse(done.stdout)["rows"]
    assert row["out"]["wrong"] == 0 and row["in"]["wrong"] is None and row["in"]["time"] > 0  # timed, but not defined
    done = bench(2, "all_reduce", "-b", "1K", "-e", "1K", "--backend", "nccl", FAKE_NCCL="wrong", **env)
    assert done.returncode == 1
    assert parse(done.stdout)["bad"] == (4, "FAILED")


def test_ranks_that_do_not_reach_each_other_are_no_table_of_one():
    done = subprocess.run([str(DROVER), "bench", "all_reduce", "-b", "8", "-e", "8"], text=True, capture_output=True,
                          env=clean_env(RANK="0", WORLD_SIZE="4"), timeout=60, check=False)
    assert done.returncode == 1
    assert "MPI runs alone" in done.stderr and "busbw" not in done.stdout


def test_a_number_of_ranks_that_is_not_the_launchers_is_refused():
    done = bench_under_mpirun(2, "all_reduce", "-np", "4", "-b", "8", "-e", "8")
    assert done.returncode != 0
    assert "-np 4: this process is already rank 0 of 2" in done.stderr


@pytest.mark.parametrize("args, words", [
    (["foo"], "unknown collective 'foo'"),
    (["all_reduc"], "try: all_reduce"),
    ([], "the collective is missing"),
    (["all_reduce", "more"], "unexpected argument 'more'"),
    (["all_reduce", "-d", "flot"], "unknown type 'flot'"),
    (["all_reduce", "-o", "mulsam"], "try: mulsum"),
    (["all_reduce", "-b", "8", "-e", "4"], "invalid sizes: 8 to 4 bytes"),
    (["all_reduce", "-b", "0"], "invalid sizes: 0 to"),
    (["all_reduce", "-b", "x"], "'x' is not a size"),
    (["all_reduce", "-f", "-1"], "'-f': -1 is out of range (at least 0)"),
    (["all_reduce", "--expect", "0"], "--expect 0: must be more than 0 GB/s"),
    (["all_reduce", "-T", "-1"], "'-T'"),
    (["all_reduce", "-b", "8", "-e", "16", "-i", "0"], "-i 0: the step must be at least 1 byte"),
    (["all_reduce", "-g", "0"], "'-g': 0 is out of range (1 to "),
    (["all_reduce", "-n", "0"], "'-n': 0 is out of range (at least 1)"),
    (["all_reduce", "-z", "9"], "'-z': 9 is out of range (0 to 3)"),
    (["all_reduce", "-Q", "1"], "unknown option '-Q'"),
    (["all_reduce", "--hostfile", "/nosuch/file"], "/nosuch/file"),
    (["all_reduce", "--json", "--csv"], "--json and --csv exclude each other"),
    (["all_reduce", "-b", "9E"], "-b 9E: exceeds the address space"),
    (["broadcast", "-r", "-1"], "-r: -1 is out of range (0 to "),
])
def test_a_wrong_command_line_starts_nothing_and_says_why(args, words):
    done = subprocess.run([str(DROVER), "bench", *args], env=clean_env(), text=True, capture_output=True, timeout=20,
                          check=False)
    assert done.returncode == 2 and done.stdout == ""
    assert words in done.stderr


def test_help_lists_the_options():
    done = subprocess.run([str(DROVER), "bench", "--help"], env=clean_env(), text=True, capture_output=True, timeout=20,
                          check=False)
    assert done.returncode == 0 and "-b, --minbytes" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80 and "\nExamples:\n" in done.stdout


def test_a_root_that_there_is_not_is_refused():
    done = bench(2, "broadcast", "-r", "5", "-b", "8", "-e", "8")
    assert done.returncode != 0 and "-r: 5 is out of range (0 to 1)" in done.stderr


def test_a_backend_that_cannot_be_opened_ends_the_job_at_once():
    start = time.monotonic()
    done = bench(2, "all_reduce", "-b", "8", "-e", "8", "--backend", "nosuch")
    assert done.returncode == 1 and "unknown backend 'nosuch'" in done.stderr
    assert time.monotonic() - start < 20


def test_gpus_and_threads_of_a_rank_are_ranks_and_it_says_so():
    done = subprocess.run([str(DROVER), "bench", "all_reduce", "-g", "2", "-t", "2", "-b", "1K", "-e", "1K", "--oversubscribe"],
                          env=clean_env(), text=True, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "4 ranks, one per GPU, for -g times -t = 4" in done.stderr
    assert len(parse(done.stdout)["devices"]) == 4


@pytest.mark.parametrize("args", [["-np", "2"], ["-np", "1"]])
def test_processes_of_another_launcher_times_gpus_are_ranks_of_one_job(args):
    ranks = 2 * int(args[1])
    for launcher in (MPIRUN, [str(DROVER), "run", "--oversubscribe"]):
        done = subprocess.run([*launcher, *args, str(DROVER), "bench", "all_reduce", "-b", "8", "-e", "64", "-f", "8", "-g", "2",
                               "-n", "2"], env=clean_env(), text=True, capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        table = parse(done.stdout)
        assert [int(d[0]) for d in table["devices"]] == list(range(ranks)) and table["bad"] == (0, "OK")
        assert done.stderr.count(f"{ranks} ranks, one per GPU, for -g times -t = 2") >= 1


def test_each_process_of_another_launcher_has_gpus_of_its_own(tmp_path):
    """As a wrapper gives them to it; the rank that fails is named, and its status is the job's."""
    if not FAKE_NCCL.exists():
        pytest.skip("built without NCCL's and CUDA's headers")
    wrapper = tmp_path / "wrapper"
    wrapper.write_text("#!/bin/sh\nexport NCCL_TESTS_DEVICE=$((5 - OMPI_COMM_WORLD_LOCAL_RANK * 3))\n"
                       f"exec {DROVER} bench all_reduce --backend nccl -b 8 -e 8 -n 1 -t 2 \"$@\"\n")
    wrapper.chmod(0o755)
    env = clean_env(DROVER_NCCL_LIB=str(FAKE_NCCL), DROVER_CUDART_LIB=str(FAKE_NCCL), FAKE_NCCL_DIR=str(tmp_path))
    line = [str(DROVER), "run", "-np", "2", "--oversubscribe", str(wrapper)]
    done = subprocess.run(line, env=env, text=True, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert [d[3] for d in parse(done.stdout)["devices"]] == ["5", "6", "2", "3"]
    with started([*line, "-N", "0"], env, stderr=subprocess.PIPE) as job:
        pids = [int(line.split()[6]) for line in iter(job.stdout.readline, "#\n") if line.startswith("#  Rank")]
        while not pids:
            pids = [int(line.split()[6]) for line in iter(job.stdout.readline, "#\n") if line.startswith("#  Rank")]
        os.kill(pids[3], signal.SIGKILL)
        _, err = job.communicate(timeout=30)
        assert job.returncode == 137 and "rank 3 was killed by signal 9" in err
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_gpus_of_processes_on_several_nodes_need_gpus():
    env = clean_env(RANK="0", WORLD_SIZE="2", LOCAL_RANK="0", LOCAL_WORLD_SIZE="1")
    done = subprocess.run([str(DROVER), "bench", "all_reduce", "-g", "2", "--backend", "mpi"], env=env, text=True,
                          capture_output=True, timeout=60, check=False)
    assert done.returncode == 2 and "without GPUs, it must be 1" in done.stderr and "and 2 times as many ranks" in done.stderr


def test_a_lone_process_of_another_launcher_has_the_gpu_that_it_names(tmp_path):
    """NCCL_TESTS_DEVICE is the device of each process itself; the local rank is not added."""
    if not FAKE_NCCL.exists():
        pytest.skip("built without NCCL's and CUDA's headers")
    env = {"DROVER_NCCL_LIB": str(FAKE_NCCL), "DROVER_CUDART_LIB": str(FAKE_NCCL), "FAKE_NCCL_DIR": str(tmp_path)}
    done = bench_under_mpirun(2, "all_reduce", "--backend", "nccl", "-b", "8", "-e", "8", NCCL_TESTS_DEVICE="3", **env)
    assert done.returncode != 0 and "have the same GPU" in done.stderr


@pytest.mark.parametrize("op", ["alltoallv", "gather", "scatter", "sendrecv", "hypercube"])
def test_the_other_operations_of_nccl_tests_are_there(op):
    done = bench(2, op, "-b", "4K", "-e", "256K", "-f", "8", "-n", "4")
    assert done.returncode == 0, done.stderr
    table = parse(done.stdout)
    assert table["program"] == f"{op}_perf" and table["bad"] == (0, "OK")
    for row, way in ((row, row[way]) for row in table["rows"] for way in ("out", "in")):
        assert (way["wrong"] is None) == (way is row["in"] and op in ("sendrecv", "alltoallv")), row
        if way["time"] < 1:
            continue
        rate = row["size"] / way["time"] / 1e3
        algbw = rate / 2 if op == "hypercube" else rate  # count·size·(n-1)/t, of a size of count·size·n
        busbw = rate if op == "sendrecv" else rate / 2
        assert abs(way["algbw"] - algbw) <= 0.006 + 0.01 * algbw, row
        assert abs(way["busbw"] - busbw) <= 0.006 + 0.01 * busbw, row


def test_a_hypercube_needs_a_power_of_two():
    done = bench(3, "hypercube", "-b", "1K", "-e", "1K")
    assert done.returncode != 0 and "hypercube needs a power of 2" in done.stderr


@pytest.mark.parametrize("name", ["all_gather_perf_mpi", "hypercube_perf"])
def test_a_program_of_nccl_tests_may_have_a_suffix(tmp_path, name):
    (tmp_path / name).symlink_to(DROVER)
    done = subprocess.run([str(tmp_path / name), "-b", "1K", "-e", "1K", "-g", "2", "-n", "1"], env=clean_env(), text=True,
                          capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert parse(done.stdout)["program"] == name.removesuffix("_mpi")


def test_the_links_are_nccl_tests_programs(tmp_path):
    """With all of its letters; the link lies two levels below the tree, as in libexec/drover/bin."""
    link, out = tmp_path / "all_gather_perf", tmp_path / "out.json"
    link.symlink_to(DROVER)
    done = subprocess.run([str(link), "-b", "1K", "-e", "4K", "-f", "2", "-g", "2", "-t", "1", "-n", "3", "-w", "1", "-o", "sum",
                           "-d", "half", "-r", "0", "-c", "1", "-p", "1", "-R", "0", "-G", "0", "-z", "0", "-a", "1", "-m",
                           "3", "-N", "2", "-C", "1", "-T", "30", "-M", "1", "-J", out], env=clean_env(), text=True,
                          capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "agg iters: 3 validation: 1" in done.stdout and "cputime" in done.stdout
    assert len(parse(done.stdout.replace("cputime", "time"))["rows"]) == 6  # two cycles
    assert "memory: peak of rank 0's process" in done.stderr
    d = json.loads(out.read_text())
    assert [r["size"] for r in d["results"]] == [1024, 2048, 4096] * 2
    assert d["config"]["aggregated_iterations"] == 3 and d["config"]["step_factor"] == 2
    assert d["results"][0]["out_of_place"].keys() == {"cpu_time", "alg_bw", "bus_bw", "nwrong"}
    assert d["out_of_bounds"] == {"count": 0, "okay": "true"}


def test_an_alltoallv_has_nccl_tests_traffic(tmp_path):
    done = bench(3, "alltoallv", "-b", "64K", "-e", "64K", "-n", "2")
    (row,) = parse(done.stdout)["rows"]
    assert (row["size"], row["count"], row["out"]["wrong"]) == (65520, 5460, 0)  # 3 parts of 5460, shared out by distance
    done = bench(3, "alltoallv", "-b", "64K", "-e", "64K", "-n", "2", "-d", "all", NCCL_TESTS_ALLTOALLV_SPREAD="0.5")
    assert done.returncode == 0 and parse(done.stdout)["bad"] == (0, "OK"), done.stderr
    matrix = tmp_path / "matrix"
    matrix.write_text("1024 3072 0 9\n512 0 0 9\n64 64 4096 9\n9 9 9 9\n")
    env = {"NCCL_TESTS_ALLTOALLV_MATRIX_FILE": str(matrix), "NCCL_TESTS_ALLTOALLV_MATRIX_SCALE": "2"}
    done = bench(3, "alltoallv", "-b", "64K", "-e", "64K", "-n", "2", "-d", "all", **env)
    assert done.returncode == 0, done.stderr
    table = parse(done.stdout)
    assert {(r["size"], r["count"], r["out"]["wrong"]) for r in table["rows"]} == {(2 * (64 + 64 + 4096), 0, 0)}
    assert len(table["rows"]) == len(TYPE_BYTES)
    done = bench(5, "alltoallv", "-b", "64K", "-e", "64K", **env)
    assert done.returncode == 2 and "4 rows, but 5 ranks" in done.stderr
    for args, text, word in ((["-b", "8"], "1", "-b and -e differ"), ([], "1 2\n3", "row 2 has 1 column,")):
        matrix.write_text(text)
        done = bench(2, "alltoallv", *args, **env)
        assert done.returncode == 2 and done.stdout == "" and word in done.stderr
    done = bench(2, "alltoallv", NCCL_TESTS_ALLTOALLV_SPREAD="wide")
    assert done.returncode == 2 and "NCCL_TESTS_ALLTOALLV_SPREAD: 'wide' is not a number" in done.stderr
    done = bench(2, "alltoall", "-b", "64K", "-e", "64K", "-n", "1", NCCL_TESTS_ALLTOALLV_SPREAD="wide")
    assert done.returncode == 0  # has no such traffic


def test_the_cpus_time_changes_no_bandwidth():
    args = ["all_reduce", "-b", "4M", "-e", "4M", "-n", "5", "-c", "0", "-C", "1"]
    done = bench(2, *args, "--json")
    way = json.loads(done.stdout)["rows"][0]["out_of_place"]
    assert way["cpu_time_us"] < way["time_us"]
    assert math.isclose(way["algbw_gbps"], (4 << 20) / way["time_us"] / 1e3, rel_tol=1e-3)
    for more, env in ((["--expect", "3000"], {}), ([], {"NCCL_TESTS_MIN_BW": "3000"})):  # the start is as fast as that
        assert bench(2, *args, *more, **env).returncode == 1


def test_a_full_shared_memory_is_no_end():
    """In a mount namespace of its own, with /dev/shm of 256 KiB: Open MPI warns and uses TCP."""
    if subprocess.run(["unshare", "-m", "true"], stderr=subprocess.DEVNULL, check=False).returncode:
        pytest.skip("no mount namespaces here")
    line = f"mount -t tmpfs -o size=256k tmpfs /dev/shm && exec {DROVER} bench all_reduce -np 2 --oversubscribe -b 8 -e 64 -f 8 -n 2"
    done = subprocess.run(["unshare", "-m", "sh", "-c", line], env=clean_env(), text=True, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0 and len(parse(done.stdout)["rows"]) == 2, done.stderr
    assert "not enough space for /dev/shm" in done.stderr


def test_what_is_not_done_is_warned_of():
    done = bench(1, "all_reduce", "-b", "8", "-e", "8", "-G", "2", "-R", "1")
    assert done.returncode == 0 and "graph: 0" in done.stdout
    assert "-G 2 is ignored: backend self has no CUDA graphs" in done.stderr and "-R 1 is ignored: backend self" in done.stderr


@pytest.mark.parametrize("where, words", [
    ("1:0:absent", "rank 1's contribution is missing"),
    ("1:12:before", "1 byte was written outside, the nearest 12 before the start of the output"),
    ("0:5:after", "rank 0: 1 byte was written outside, the nearest 5 after the end of the output"),
    ("1:77", "rank 1 of 3 has 1 wrong element; element 77 is"),
])
def test_what_is_wrong_is_told_with_its_place_and_its_rank(where, words):
    done = bench(3, "all_reduce", "-b", "64K", "-e", "64K", "-n", "1", DROVER_BENCH_INJECT=where)
    assert done.returncode == 1 and words in done.stderr


def test_json_has_single_times_and_what_is_wrong():
    done = bench(2, "all_reduce", "-b", "64K", "-e", "64K", "-n", "7", "--json", DROVER_BENCH_INJECT="1:0:absent")
    way = json.loads(done.stdout)["rows"][0]["in_place"]
    assert len(way["samples_us"]) == 7 and way["min_us"] == min(way["samples_us"])
    assert way["median_low_us"] <= way["median_us"] <= way["median_high_us"] <= way["p99_us"]
    wrong = way["first_wrong"]
    assert (wrong["cause"], wrong["cause_rank"], wrong["index"], wrong["elements"]) == ("missing", 1, 0, 16384)


def test_csv_has_a_line_for_each_half():
    done = bench(2, "all_reduce", "-b", "1K", "-e", "4K", "-f", "2", "-n", "3", "--csv")
    lines = [line.split(",") for line in done.stdout.splitlines()]
    assert len(lines) == 7 and len({len(line) for line in lines}) == 1
    assert [(line[0], line[5]) for line in lines[1:]] == [(s, w) for s in ("1024", "2048", "4096") for w in "01"]


def test_a_verdict_passes_or_fails_the_command_with_reasons():
    args = ["all_reduce", "-b", "1M", "-e", "1M", "-n", "3"]
    done = bench(2, *args, "--expect", "0.0001")
    assert done.returncode == 0 and re.search(r"^# Verdict              : PASS, ", done.stdout, re.M), done.stderr
    assert parse(done.stdout)["bad"] == (0, "OK")
    done = bench(2, *args, "--expect", "100000", NCCL_SHM_DISABLE="1")
    assert done.returncode == 1 and "as given by --expect\n#   1. the best row has 1 MiB" in done.stdout
    assert "NCCL_SHM_DISABLE is set" in done.stdout
    done = bench(2, *args, "--verdict", "--json")
    d = json.loads(done.stdout)["verdict"]
    assert done.returncode == (0 if d["pass"] else 1) and d["limit"].startswith("memory copies at ")
    assert "# Verdict" in done.stderr and (d["source"], d["date"]) == ("copies of memory before this run", "")
    assert "\n# Expected by          : copies of memory before this run\n" in done.stderr
    done = bench(1, *args, "--verdict")
    assert done.returncode == 0 and "none, a single rank has no bus" in done.stdout


def test_bisection_takes_few_rounds_and_can_be_switched_off():
    args = ["--pairs", "-e", "64K", "-n", "1", "--json"]
    done = bench(6, *args, "--bisect", "6")
    d = json.loads(done.stdout)
    assert d["bisected"]["nodes"] == 6 and 1 <= d["bisected"]["rounds"] <= 2 * math.log2(6) + 2, done.stderr
    assert d["bisected"]["usual_gbps"] > 0 and len(d["nodes"]) <= 6
    for more in (["--bisect", "0"], ["--bisect", "4"], []):
        d = json.loads(bench(3, *args, *more).stdout)
        assert "bisected" not in d and len(d["nodes"]) == 3


def test_the_published_figures_are_those_of_the_records():
    code = (ROOT / "collectives/bench/analysis/verdict.c").read_text()
    rows = re.findall(r'\{"([^"]+)", (\d+), (\d+), ([\d.]+), "(\d{4}-\d\d)", "([^"]+)"\}', code)
    page = (ROOT / "docs/measurements/collectives.md").read_text()
    listed = re.findall(r"^\| (\d+) x ([^,|]+?)(?:, [^|]*)? \| (\d+) \| ([\d.]+) \| ([\d-]+) \| ([^|]+) \| yes \|$", page, re.M)
    assert len(rows) == len(set(rows)) == 10
    assert {(gpu, n, nodes, gbps, date, source) for n, gpu, nodes, gbps, date, source in listed} == set(rows)


def test_it_goes_on_until_it_is_stable_or_its_time_is_over():
    done = bench(2, "all_reduce", "-b", "64K", "-e", "64K", "-n", "10", "--json", "--stable", "0.00001%", "--max-time", "0.2")
    way = json.loads(done.stdout)["rows"][0]["out_of_place"]
    assert not way["stable"] and len(way["samples_us"]) > 10 and len(way["samples_us"]) % 10 == 0
    done = bench(2, "all_reduce", "-b", "64K", "-e", "64K", "--stable", "x%")
    assert done.returncode == 2 and "--stable 'x%': not a share" in done.stderr


def diff(*args):
    return subprocess.run([str(DROVER), "bench", "diff", *map(str, args)], env=clean_env(), text=True, capture_output=True,
                          timeout=20, check=False)


def test_two_runs_are_compared_size_by_size(tmp_path):
    done = bench(2, "all_reduce", "-b", "1K", "-e", "64K", "-f", "64", "-n", "40", "--json")
    a, b, c = tmp_path / "a.json", tmp_path / "b.json", tmp_path / "c.json"
    d = json.loads(done.stdout)
    for path, factor in ((a, 1), (b, 1.5)):
        d["rows"][1]["in_place"]["samples_us"] = [factor * (60 + i % 7) for i in range(40)]  # as on a quiet machine
        path.write_text(json.dumps(d))
    same, slower = diff(a, a), diff("--tolerance", "10%", a, b)
    assert same.returncode == 0 and "# 0 of 4 rows are worse" in same.stdout, same.stderr
    assert slower.returncode == 1 and [line.split()[4] for line in slower.stdout.splitlines() if "WORSE" in line] == ["in_place"]
    assert "better" in diff(b, a).stdout and diff(b, a).returncode == 0
    assert diff(a, b, "--tolerance", "60%").returncode == 0
    d["ranks"] = 3
    c.write_text(json.dumps(d))
    for args, words in [((a, c), "the documents differ in 'ranks'"), ((a,), "expected two files, not 1"), ((a, tmp_path / "no"), "No such"),
                        ((a, a, "--tolerance", "x"), "not a share")]:
        done = diff(*args)
        assert done.returncode == 2 and words in done.stderr and done.stdout == ""
    c.write_text("{}")
    assert "is neither a document of drover bench --json nor of nccl-tests' -J" in diff(a, c).stderr


def test_documents_of_nccl_tests_are_compared(tmp_path):
    """With its own keys: a name with a suffix, the root as text, no time in place."""
    def document(name, times, per_iter=True):
        row = {"size": 1024, "count": 256, "type": "float", "redop": "sum", "root": "    -1", "experiment_name": "",
               "out_of_place": {"time": sum(times) / len(times), "alg_bw": 1.0, "bus_bw": 1.0, "nwrong": 0}, "in_place": {"nwrong": "N/A"}}
        if per_iter:
            row["out_of_place_per_iter"] = {"skipped_iterations": 0, "times_us": times}
        config = {"nthreads": 1, "ngpus": 1, "devices": [{"rank": r} for r in range(2)]}
        path = tmp_path / name
        path.write_text(json.dumps({"version": 3, "args": ["./build/all_reduce_perf_mpi", "-I", "1"], "config": config, "results": [row]}))
        return path
    times = [10 + i / 100 for i in range(40)]
    a, b = document("a", times), document("b", [1.5 * t for t in times])
    done = diff(a, b)
    assert done.returncode == 1 and "# 1 of 1 row is worse" in done.stdout and "out_of_place" in done.stdout, done.stderr
    assert diff(b, a).returncode == 0 and diff(a, a).returncode == 0
    done = diff(document("c", times, False), document("d", [1.5 * t for t in times], False))
    assert done.returncode == 2 and "+50.0%" in done.stdout and "no row can be judged" in done.stderr
    own = tmp_path / "own.json"
    own.write_text(bench(2, "all_reduce", "-b", "1K", "-e", "1K", "-n", "40", "--json").stdout)
    assert "# 1 of" not in diff(own, a).stderr and "out_of_place" in diff(own, a).stdout
    assert bench(2, "all_reduce", "-b", "1K", "-e", "1K", "-n", "9", "-I", "1", "-J", tmp_path / "j").returncode == 0
    assert "of 2 rows are worse" in diff(tmp_path / "j", tmp_path / "j").stdout
    own.write_text(bench(2, "all_gather", "-b", "1K", "-e", "1K", "-n", "2", "--json").stdout)
    assert "differ in 'collective'" in diff(own, a).stderr
    own.write_text(bench(3, "all_reduce", "-b", "1K", "-e", "1K", "-n", "40", "--json").stdout)
    assert "differ in 'ranks'" in diff(own, a).stderr


def test_a_baseline_is_kept_for_the_cluster(tmp_path):
    args = ["all_reduce", "-b", "4K", "-e", "4K", "-n", "50"]
    env = {"XDG_DATA_HOME": str(tmp_path)}
    done = bench(2, *args, "--baseline", "golden", **env)
    assert done.returncode == 2 and "--baseline" in done.stderr and "No such file" in done.stderr
    assert "busbw" not in done.stdout  # before anything is measured
    assert bench(2, *args, "--save", "golden", **env).returncode == 0
    (kept,) = tmp_path.glob("drover/bench/*/all_reduce-golden.json")
    done = bench(2, *args, "--baseline", "golden", "--tolerance", "900%", **env)
    assert done.returncode == 0 and "# 0 of 2 rows are worse" in done.stdout, done.stderr
    d = json.loads(kept.read_text())
    for way in ("out_of_place", "in_place"):
        d["rows"][0][way]["samples_us"] = [0.001] * 50
    kept.write_text(json.dumps(d))
    done = bench(2, *args, "--baseline", "golden", **env)
    assert done.returncode == 1 and done.stdout.count("WORSE") == 2
    done = bench(2, *args, "--save", "../x", **env)
    assert done.returncode == 2 and "--save '../x': not usable in a file name" in done.stderr
