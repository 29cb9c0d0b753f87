"""`drover bench` prints what scripts for nccl-tests read: head, titles, rows and foot, read here line by line as nccl-tests'
src/util.cu prints them; and its options mean what they mean there, on NCCL's stand-in, which says what it was asked for."""
import json
import re
import subprocess

import pytest
from bench_kit import DROVER, bench
from kit_ranks import BUILD, FAKE_NCCL, clean_env

RUN = re.compile(r"# nThread (\d+) nGpus (\d+) minBytes (\d+) maxBytes (\d+) step: (\d+)\((factor|bytes)\) warmup iters: (\d+) "
                 r"iters: (\d+) agg iters: (\d+) validation: (\d+) graph: (\d+) unalign: (\d+)")
DEVICE = re.compile(r"#  Rank ([ \d]\d) Group ([ \d]\d) Pid ([ \d]{5}\d) on +(\S+) device ([ \d]\d) "
                    r"\[([0-9a-f]{4}):([0-9a-f]{2}):([0-9a-f]{2})\] (.+)")
PLAIN = ["time", "algbw", "busbw", "#wrong"]
PER_ITER = ["i_min", "i_max", "i_p99", "i_cv%"]
WIDTHS = {"time": 7, "algbw": 6, "busbw": 6, "#wrong": 6, "i_min": 7, "i_max": 7, "i_p99": 7, "i_cv%": 7}


class Table:
    """Fails on the first line that is not where nccl-tests has it."""

    def __init__(self, text):
        self.lines = iter(text.splitlines())
        assert re.fullmatch(r"# \S+ version \S+ nccl-headers=\d+ nccl-library=\d+", next(self.lines))
        self.program = re.fullmatch(r"# Collective test starting: (\S+)", next(self.lines))[1]
        run = RUN.fullmatch(next(self.lines))
        self.run = dict(zip(("threads", "gpus", "min", "max", "step", "by", "warmup", "iters", "agg", "checks", "graph",
                             "unalign"), run.groups()))
        self.modes = list(iter(lambda: next(self.lines), "#"))  # lines that are there with some options only
        assert all(line.startswith("# ") for line in self.modes)
        assert next(self.lines) == "# Using devices"
        self.devices = [DEVICE.fullmatch(line).groups() for line in iter(lambda: next(self.lines), "#")]
        self.read_titles()
        self.rows = []
        for line in self.lines:
            if line.startswith("#"):
                break
            self.rows.append(self.row(line))
        self.bad = re.fullmatch(r"# Out of bounds values : (\d+) (OK|FAILED)", line).groups()
        average, self.enough = re.fullmatch(r"# Avg bus bandwidth    : (\S+) (OK|FAILED|)", next(self.lines)).groups()
        self.average = float(average)
        assert next(self.lines) == "#"
        assert next(self.lines) == f"# Collective test concluded: {self.program}"

    def read_titles(self):
        assert re.fullmatch(r"# +out-of-place( \(\+ per-iteration\))? +in-place( \(\+ per-iteration\))? *", next(self.lines))
        titles = next(self.lines)
        words = titles[1:].split()
        assert words[:5] == ["size", "count", "type", "redop", "root"]
        assert titles[:52] == "# %10s  %12s  %8s  %6s  %6s" % tuple(words[:5])
        self.stamps = words[-1] == "timestamp"
        words = words[5:-1] if self.stamps else words[5:]
        self.columns = words[:len(words) // 2]
        self.clock = self.columns[0]
        self.columns[0] = "time"
        assert self.clock in ("time", "cputime") and words[len(words) // 2:][1:] == self.columns[1:]
        assert self.columns in (PLAIN, PLAIN + PER_ITER)
        units = next(self.lines).split()
        assert units[:3] == ["#", "(B)", "(elements)"] and "(GB/s)" in units
        assert (units[-2:] == ["%Y-%m-%d", "%H:%M:%S"]) == self.stamps

    def row(self, line):
        """By columns: each is right-aligned in its width, two blanks before it."""
        at, out = 0, {}
        for name, width in (("size", 12), ("count", 14), ("type", 10), ("redop", 8), ("root", 8)):
            out[name] = line[at:at + width].strip()
            at += width
        assert at == 52
        for half in ("out", "in"):
            out[half] = {}
            for name in self.columns:
                field = line[at:at + 2 + WIDTHS[name]]
                if name == "#wrong" and field.startswith("    N/A"):
                    field = field[:7]  # a blank less than the others
                assert field.startswith("  "), (line, at)
                out[half][name] = None if field.strip() == "N/A" else float(field)
                at += len(field)
        if self.stamps:
            assert re.fullmatch(r"  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d", line[at:]), line
        else:
            assert line[at:] == ""
        return out


@pytest.mark.parametrize("args, run, modes", [
    (["all_reduce", "-b", "8", "-e", "8K", "-f", "4"], {"min": "8", "step": "4", "by": "factor"}, []),
    (["all_gather", "-b", "1M", "-e", "3M", "-n", "2", "-c", "0"], {"step": "1048576", "by": "bytes", "checks": "0"}, []),
    (["reduce", "-b", "1K", "-e", "1K", "-z", "1", "-C", "1"], {}, ["wait and barrier after each inner iteration (-m) "]),
    (["broadcast", "-b", "1K", "-e", "1K", "-z", "2", "-S", "1"], {}, ["wait after each inner iteration (-m), no barrier "]),
    (["all_reduce", "-b", "1K", "-e", "1K", "-z", "3", "-m", "2"], {"agg": "2"},
     ["wait and barrier after each outer iteration (-n); time excludes barrier "]),
    (["all_reduce", "-b", "1K", "-e", "4K", "-f", "2", "-I", "1", "-K", "3", "-S", "1", "-u", "3"], {"unalign": "3"},
     ["summary skips first 3 iterations "]),
    (["alltoall", "-b", "4K", "-e", "4K", "--per_iter_timing", "1", "-d", "int8", "--unalign", "1"], {"unalign": "1"}, []),
    (["sendrecv", "-b", "4K", "-e", "4K", "--report_timestamps", "1", "--memory", "1"], {}, []),
])
def test_a_parser_of_nccl_tests_reads_every_form_of_the_table(args, run, modes):
    done = bench(2, *args)
    assert done.returncode == 0, done.stderr
    t = Table(done.stdout)
    assert t.program == f"{args[0]}_perf" and t.run.items() >= run.items() and len(t.devices) == 2
    assert len(t.rows) >= 1 and t.bad == ("0", "OK")
    blocking = [m for m in t.modes if "Enabled" in m or "skips" in m]
    assert len(blocking) == len(modes) and all(m.endswith(e) for m, e in zip(blocking, modes))
    assert [m for m in t.modes if m.startswith("# Backend: mpi, ")]
    assert t.stamps == ("-S" in args or "--report_timestamps" in args)
    assert t.clock == ("cputime" if "-C" in args else "time")
    for row in t.rows:
        for half in (row["out"], row["in"]):
            if "i_min" in half and half["i_min"] is not None:
                assert half["i_min"] <= half["i_p99"] <= half["i_max"]


@pytest.fixture(name="nccl")
def on_the_stand_in(tmp_path):
    if not FAKE_NCCL.exists():
        pytest.skip("no NCCL headers")

    def run(*args, lib=FAKE_NCCL, **env):
        return bench(2, "all_reduce", "-b", "1K", "-e", "4K", "-f", "4", "-n", "3", "--backend", "nccl", *args,
                     DROVER_NCCL_LIB=str(lib), DROVER_CUDART_LIB=str(lib), FAKE_NCCL_DIR=str(tmp_path), FAKE_NCCL="log", **env)
    return run


def test_g_launches_a_graph_of_all_iterations_and_checks_one(nccl):
    done = nccl("-G", "5", "-m", "2", "-c", "1")
    assert done.returncode == 0, done.stderr
    t = Table(done.stdout)
    assert t.run["graph"] == "5" and t.bad == ("0", "OK")
    graphs = re.findall(r"fake: a graph of (\d+)$", done.stderr, re.M)  # begun together, -m operations are one work
    assert sorted(graphs) == ["1"] * (2 * 2 * 2) + ["3"] * (2 * 2 * 2 * 5)


def test_a_largest_size_that_no_gpu_holds_is_lowered_with_a_word(tmp_path):
    if not FAKE_NCCL.exists():
        pytest.skip("no NCCL headers")
    done = bench(2, "all_reduce", "-b", "1M", "-e", "64G", "-f", "2", "-n", "1", "--backend", "nccl", DROVER_NCCL_LIB=str(FAKE_NCCL),
                 DROVER_CUDART_LIB=str(FAKE_NCCL), FAKE_NCCL_DIR=str(tmp_path), FAKE_NCCL="full")
    assert done.returncode == 0, done.stderr
    t = Table(done.stdout)
    assert [int(row["size"]) for row in t.rows] == [1 << 20, 2 << 20, 4 << 20] and t.run["max"] == str((7 << 20) - 512)
    assert done.stderr.count("-e 64 GiB is lowered to 7.0 MiB") == 1, done.stderr


def test_a_graph_whose_recording_never_ends_is_given_up(nccl, tmp_path):
    done = bench(2, "all_reduce", "-b", "1K", "-e", "1K", "--backend", "nccl", "-G", "2", "-T", "2", DROVER_NCCL_LIB=str(FAKE_NCCL),
                 DROVER_CUDART_LIB=str(FAKE_NCCL), FAKE_NCCL_DIR=str(tmp_path), FAKE_NCCL="stuck_graph,log")
    assert done.returncode == 1 and "all_reduce: timed out after 2000 ms" in done.stderr
    assert "fake: aborted" in done.stderr and "fake: wrong" not in done.stderr


def test_a_wrong_element_is_found_in_a_graph_too(nccl, tmp_path):
    done = bench(2, "all_reduce", "-b", "1K", "-e", "1K", "--backend", "nccl", "-G", "2", DROVER_NCCL_LIB=str(FAKE_NCCL),
                 DROVER_CUDART_LIB=str(FAKE_NCCL), FAKE_NCCL_DIR=str(tmp_path), FAKE_NCCL="wrong,slow")
    assert done.returncode == 1 and Table(done.stdout).bad[1] == "FAILED", done.stderr


@pytest.mark.parametrize("older, types", [("0", 10), ("1", 10), ("2", 12)])
def test_gpus_of_several_generations_have_the_types_that_all_have(older, types, tmp_path):
    """Rank `older` of 2 has a GPU without 8-bit floats."""
    if not FAKE_NCCL.exists():
        pytest.skip("no NCCL headers")
    line = f'[ "$RANK" = {older} ] && export FAKE_NCCL=ampere; exec drover bench all_reduce -b 64 -e 64 -n 1 -d all -T 20 --backend nccl'
    env = clean_env(DROVER_NCCL_LIB=str(FAKE_NCCL), DROVER_CUDART_LIB=str(FAKE_NCCL), FAKE_NCCL_DIR=str(tmp_path))
    env["PATH"] = f"{BUILD / 'bin'}:{env['PATH']}"
    done = subprocess.run([DROVER, "run", "-np", "2", "--oversubscribe", "sh", "-c", line], env=env, text=True,
                          capture_output=True, timeout=60, check=False)
    assert done.returncode == 0 and len(Table(done.stdout).rows) == types, done.stderr


@pytest.mark.parametrize("fault, text", [
    ("wrong_p2p", "P2P between GPUs (NVLink or PCIe) is at fault"), ("stuck_p2p", "P2P between GPUs (NVLink or PCIe) is at fault"),
    ("wrong_shm", "shared memory is at fault"), ("wrong", "neither P2P nor shared memory is at fault")])
def test_a_verdict_run_that_fails_is_followed_by_control_runs(fault, text, tmp_path):
    if not FAKE_NCCL.exists():
        pytest.skip("no NCCL headers")
    done = bench(2, "all_reduce", "-b", "1K", "-e", "4M", "-f", "64", "-n", "1", "-T", "2", "--backend", "nccl", "--verdict",
                 "--save", "faulty", DROVER_NCCL_LIB=str(FAKE_NCCL), DROVER_CUDART_LIB=str(FAKE_NCCL), FAKE_NCCL_DIR=str(tmp_path),
                 XDG_DATA_HOME=str(tmp_path), FAKE_NCCL=fault)
    assert done.returncode == 1 and done.stderr.count(text) == 1, done.stderr
    assert done.stdout.count("# Collective test starting") <= 1  # control runs print nothing


def test_a_run_without_a_verdict_or_a_fault_has_no_control_runs(nccl):
    for args, env in ((["--verdict"], {}), ([], {"DROVER_BENCH_INJECT": "0:0"})):
        assert "control runs" not in nccl(*args, **env).stderr


def test_results_that_cannot_be_written_are_no_fault_of_a_transport(nccl, tmp_path):
    assert nccl("--save", "results", XDG_DATA_HOME=str(tmp_path)).returncode == 0
    saved, = tmp_path.glob("drover/bench/*/*-results.json")
    saved.unlink()
    saved.mkdir()
    done = nccl("--verdict", "--save", "results", XDG_DATA_HOME=str(tmp_path))
    assert done.returncode == 1 and "Is a directory" in done.stderr, done.stderr
    assert "control runs" not in done.stderr


def test_the_processes_of_another_launcher_have_no_control_runs(tmp_path):
    if not FAKE_NCCL.exists():
        pytest.skip("no NCCL headers")
    env = clean_env(DROVER_NCCL_LIB=str(FAKE_NCCL), DROVER_CUDART_LIB=str(FAKE_NCCL), FAKE_NCCL_DIR=str(tmp_path), FAKE_NCCL="wrong")
    line = [DROVER, "bench", "all_reduce", "-b", "1K", "-e", "1K", "-n", "1", "--backend", "nccl", "--verdict", "-g", "2"]
    done = subprocess.run([DROVER, "run", "-np", "2", "--oversubscribe", *line], env=env, text=True,
                          capture_output=True, timeout=60, check=False)
    assert Table(done.stdout).bad[1] == "FAILED"
    assert done.returncode == 1 and "control runs" not in done.stderr, done.stderr


KERNELS = BUILD / "tests/cudahost/nccl_kernels.so"
needs_kernels = pytest.mark.skipif(not KERNELS.exists(), reason="built without the headers of CUDA and cuBLAS")


@needs_kernels
@pytest.mark.parametrize("inject", ["1:0", "0:65521", "1:99999", "1:0:absent"])
def test_a_kernel_finds_the_wrong_elements_that_the_host_finds(nccl, inject):
    """The same number, the same first one, the same diagnosis; 70,000 elements are more than a period."""
    found = []
    for kernels in ("", str(KERNELS)):
        done = nccl("-b", "400K", "-e", "400K", "-c", "1", "--json", DROVER_BENCH_INJECT=inject, DROVER_NCCL_KERNELS=kernels,
                    CUDAHOST_LOG="1")
        assert ("launch of compare" in done.stderr) == bool(kernels), done.stderr
        found.append([{k: v for k, v in half.items() if "wrong" in k} for row in json.loads(done.stdout)["rows"]
                      for half in (row["out_of_place"], row["in_place"])])
    assert found[0] == found[1] and found[0]


@needs_kernels
@pytest.mark.parametrize("op, more", [("all_reduce", ["-d", "all", "-o", "all"]), ("alltoallv", ["-d", "all"]), ("gather", ["-u", "1"])])
def test_a_kernel_compares_every_type_and_operation(op, more, tmp_path):
    if not FAKE_NCCL.exists():
        pytest.skip("no NCCL headers")
    done = bench(3, op, "-b", "1K", "-e", "1K", "-n", "1", "--backend", "nccl", *more, DROVER_NCCL_LIB=str(FAKE_NCCL),
                 DROVER_CUDART_LIB=str(FAKE_NCCL), FAKE_NCCL_DIR=str(tmp_path), DROVER_NCCL_KERNELS=str(KERNELS))
    assert done.returncode == 0 and Table(done.stdout).bad == ("0", "OK"), done.stderr


@needs_kernels
def test_a_gpu_without_kernels_is_checked_by_the_host(nccl):
    done = nccl(DROVER_NCCL_KERNELS=str(KERNELS), FAKE_GPU_OLD="1")
    assert done.returncode == 0 and Table(done.stdout).bad == ("0", "OK"), done.stderr


@pytest.mark.parametrize("level, first, last", [("1", "registered", "deregistered"), ("2", "in a window", "out of the window")])
def test_r_registers_both_buffers_until_the_end(nccl, level, first, last):
    done = nccl("-R", level)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"fake: memory (.*)$", done.stderr, re.M) == [first] * 2 + [last] * 2


def test_symmetric_memory_needs_an_nccl_that_has_it(nccl):
    done = nccl("-R", "2", lib=FAKE_NCCL.with_name("nccl_old.so"))
    assert done.returncode == 1 and "this NCCL does not support symmetric memory" in done.stderr
    assert "NCCL 2.27; or drover bench -R 1" in done.stderr


def test_what_has_no_meaning_here_is_said_once(nccl):
    done = nccl("-D", "1", "-R", "2", "-V", "8", "-G", "1", "-I", "1", "-z", "1", "-y", "0")
    assert done.returncode == 0, done.stderr
    for what in ("-D is ignored: ", "-I is ignored: ", "-z is ignored: "):
        assert done.stderr.count(f"warn: {what}") == 1, done.stderr
    done = bench(2, "all_reduce", "-b", "1K", "-e", "1K", "-G", "2", "-R", "1", "-x", "1")
    assert done.returncode == 0 and Table(done.stdout).run["graph"] == "0"
    for what in ("-G 2 is ignored: backend mpi", "-R 1 is ignored: backend mpi", "-x and -y "):
        assert done.stderr.count(f"warn: {what}") == 1, done.stderr


@pytest.mark.parametrize("args, text", [
    (["-D", "1"], "-D 1: needs -R 2"), (["-R", "3"], "'-R': 3 is out of range (0 to 2)"),
    (["-u", "-1"], "'-u': -1 is out of range (0 to "), (["-x", "7"], "nor a CTA policy"),
    (["-G", "2", "-y", "1"], "-G with -y 1"), (["--cudagrph", "1"], "cudagraph"), (["--step", "2"], "--stepfactor")])
def test_a_wrong_value_is_refused_before_anything_starts(args, text):
    done = bench(2, "all_reduce", *args)
    assert done.returncode == 2 and text in done.stderr and done.stdout == ""


def test_j_has_the_single_iterations(nccl, tmp_path):
    done = nccl("-I", "1", "-K", "1", "-J", tmp_path / "out.json")
    assert done.returncode == 0, done.stderr
    d = json.loads((tmp_path / "out.json").read_text())
    assert d["config"]["per_iter_timing"] == "true" and d["config"]["per_iter_skip"] == 1 and d["config"]["graph"] == 0
    for row in d["results"]:
        for key in ("out_of_place_per_iter", "in_place_per_iter"):
            times = row[key]["times_us"]
            assert len(times) == 3 and row[key]["skipped_iterations"] == 1
            assert row[key]["min_us"] == pytest.approx(min(times[1:])) and row[key]["max_us"] == pytest.approx(max(times[1:]))
            assert row[key]["p95_us"] == row[key]["p99_us"] == row[key]["max_us"]  # of two
            assert row[key]["avg_us"] == pytest.approx(sum(times[1:]) / 2)
            ranks = row[key]["per_process_max_times_us"]
            assert len(ranks) == 2 and [max(pair) for pair in zip(*ranks)] == times


@pytest.mark.parametrize("op, env, want", [
    ("all_reduce", {}, {"NCCL_NVLINK_UTIL_CENTRIC_SCHED_ENABLE": "1"}),
    ("sendrecv", {}, {"NCCL_NVLINK_UTIL_CENTRIC_SCHED_ENABLE": "1", "NCCL_P2P_MAX_PEERS": "2"}),
    ("sendrecv", {"NCCL_NVLINK_UTIL_CENTRIC_SCHED_ENABLE": "0", "NCCL_P2P_MAX_PEERS": "8"},
     {"NCCL_NVLINK_UTIL_CENTRIC_SCHED_ENABLE": "0", "NCCL_P2P_MAX_PEERS": "8"})])
def test_nccl_is_configured_as_nccl_tests_configures_it(tmp_path, op, env, want):
    out = tmp_path / "out.json"
    assert bench(2, op, "-b", "8", "-e", "8", "-n", "1", "-J", out, **env).returncode == 0
    got = dict(text.split("=", 1) for text in json.loads(out.read_text())["env"])
    assert {name: got[name] for name in got if name in ("NCCL_NVLINK_UTIL_CENTRIC_SCHED_ENABLE", "NCCL_P2P_MAX_PEERS")} == want


@pytest.mark.parametrize("how, groups", [
    ({"NCCL_TESTS_SPLIT": "MOD 2"}, "0101"), ({"NCCL_TESTS_SPLIT": "/ 0b10"}, "0011"), ({"NCCL_TESTS_SPLIT": "OR 0x1"}, "1133"),
    ({"NCCL_TESTS_SPLIT_MASK": "2"}, "0022")])
def test_ranks_work_in_groups_as_the_environment_says(how, groups):
    done = bench(4, "all_gather", "-b", "64K", "-e", "64K", "-n", "4", "--json", **how)
    assert done.returncode == 0, done.stderr
    d = json.loads(done.stdout)
    assert "".join(str(r["group"]) for r in d["devices"]) == groups and (d["ranks"], d["groups"]) == (4, 2)
    (row,) = d["rows"]
    assert row["count"] == 64 * 1024 // 4 // 2  # a part for each rank of a group
    way = row["out_of_place"]
    assert way["wrong"] == 0 and way["busbw_gbps"] == pytest.approx(way["algbw_gbps"] / 2, rel=1e-3)


def test_a_groups_wrong_element_is_told_by_the_jobs_ranks():
    done = bench(4, "all_reduce", "-b", "1K", "-e", "1K", "-n", "1", NCCL_TESTS_SPLIT="MOD 2",
                 DROVER_BENCH_INJECT="3:0:absent")
    assert done.returncode == 1 and Table(done.stdout).bad == ("4", "FAILED")  # ranks 1 and 3, twice
    assert re.search(r"rank 1 of 4 has \d+ wrong.*: rank 3's contribution is missing", done.stderr), done.stderr


def test_groups_of_unlike_sizes_walk_alike():
    done = bench(4, "broadcast", "-b", "8", "-e", "64K", "-f", "64", "-n", "2", "-r", "all",
                 NCCL_TESTS_SPLIT="DIV 3")
    assert done.returncode == 0, done.stderr
    assert [r["root"] for r in Table(done.stdout).rows] == ["0"] * 3  # the one that every group has
    done = bench(4, "hypercube", "-b", "8", "-e", "8", NCCL_TESTS_SPLIT="DIV 3")
    assert done.returncode == 2 and "a group has 3" in done.stderr


@pytest.mark.parametrize("least, word, status", [("1e9", "FAILED", 1), ("1e-9", "OK", 0)])
def test_an_average_below_nine_tenths_of_the_least_fails(least, word, status):
    done = bench(2, "all_reduce", "-b", "64K", "-e", "64K", "-n", "2", NCCL_TESTS_MIN_BW=least)
    assert done.returncode == status and Table(done.stdout).enough == word


@pytest.mark.parametrize("name, text, word", [
    ("NCCL_TESTS_SPLIT", "MOD 0", "invalid operation"), ("NCCL_TESTS_SPLIT_MASK", "x", "not a hexadecimal number"),
    ("NCCL_TESTS_MIN_BW", "much", "not a rate"), ("NCCL_TESTS_DEVICE", "-2", "NCCL_TESTS_DEVICE"),
    ("NCCL_TESTS_MIN_BW", "-2", "not a rate")])
def test_a_variable_that_makes_no_sense_is_refused(name, text, word):
    done = bench(2, "all_reduce", **{name: text})
    assert done.returncode == 2 and word in done.stderr and done.stdout == ""


def test_the_first_gpu_can_be_chosen(nccl):
    for device, want in (("2", ["2", "3"]), ("-1", ["0", "1"])):
        done = nccl(NCCL_TESTS_DEVICE=device)
        assert done.returncode == 0, done.stderr
        assert [d[4].strip() for d in Table(done.stdout).devices] == want
