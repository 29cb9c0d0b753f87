"""`drover bench -G` records each of its operations in a CUDA graph, on the stand-in (tests/fake/nccl.c), which refuses what
CUDA refuses meanwhile; and mulsum of one rank, in graphs and without, with and without kernels."""
import json
import re
import subprocess

import pytest
from kit_ranks import BUILD, FAKE_NCCL, clean_env

DROVER = BUILD / "bin/drover"
OPERATIONS = re.search(r"OP is one of:\n((?:.*,\n)*.*)\n", subprocess.run([DROVER, "bench", "--help"], text=True, capture_output=True,
                                                                        check=True).stdout)[1].replace("\n", " ").split(", ")
GRAPHED = [op for op in OPERATIONS if op not in ("gemm", "copy", "ring")]
CUDAHOST = BUILD / "tests/cudahost/nccl_kernels.so"
pytestmark = pytest.mark.skipif(not FAKE_NCCL.exists(), reason="built without NCCL's and CUDA's headers")


@pytest.fixture(name="bench")
def on_the_stand_in(tmp_path):
    def run(*args, ranks=2, words="log", kernels=FAKE_NCCL, **env):
        env = clean_env(DROVER_NCCL_LIB=str(FAKE_NCCL), DROVER_CUDART_LIB=str(FAKE_NCCL), FAKE_NCCL_DIR=str(tmp_path),
                        FAKE_NCCL=words, DROVER_NCCL_KERNELS=str(kernels or ""), **env)
        return subprocess.run([DROVER, "bench", *args, "--backend", "nccl", "-n", "2", "-np", str(ranks), "--oversubscribe"], env=env,
                              text=True, capture_output=True, timeout=120, check=False)
    return run


def rows_of(done):
    """The rows of a run in which each element was right."""
    assert done.returncode == 0 and "fake: wrong" not in done.stderr, done.stdout + done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert rows and all(not row[way]["wrong"] for row in rows for way in ("out_of_place", "in_place")), rows
    return rows


def graphs_in(done):
    return len(re.findall("fake: a graph of [1-9]", done.stderr))


@pytest.mark.parametrize("op", GRAPHED)
def test_every_operation_type_reduction_and_root_is_right_from_a_graph(bench, op):
    done = bench(op, "-b", "512", "-e", "512", "-d", "all", "-o", "all", "-r", "all", "-G", "1", "--json")
    rows = rows_of(done)
    assert {row["type"] for row in rows} >= {"int8", "uint64", "bfloat16", "f8e5m2"}
    assert graphs_in(done) >= len(rows) * 2 * 2, done.stderr  # both placements, on both ranks


@pytest.mark.parametrize("options, env", [
    (["-R", "1"], {}), (["-R", "2"], {}), (["-m", "3"], {}), (["-c", "3"], {}), (["-c", "0"], {}), (["-w", "0"], {}), (["-N", "2"], {}),
    (["-u", "1"], {}), (["-C", "1"], {}), (["-a", "0"], {}), (["-a", "2"], {}), (["-a", "3"], {}), (["-z", "1", "-I", "1", "-K", "1"], {}),
    (["--stable", "50%", "--max-time", "0.1"], {}), (["-b", "8", "-e", "64K", "-f", "16"], {}), ([], {"NCCL_TESTS_SPLIT": "MOD 2"})],
    ids=lambda words: " ".join(words))
def test_every_mode_of_the_benchmark_works_with_a_graph(bench, options, env):
    done = bench("all_reduce", "-b", "1K", "-e", "1K", "-o", "all", "-G", "2", "--json", *options, **env)
    assert {row["op"] for row in rows_of(done)} == {"sum", "prod", "min", "max", "avg", "mulsum"}
    assert graphs_in(done) > 0


def test_a_failure_while_a_graph_is_recorded_is_told_and_ends_in_good_order(bench):
    """The third call is the first one of a graph, after a barrier and a call to warm up."""
    done = bench("all_reduce", "-b", "1K", "-e", "1K", "-w", "1", "-c", "1", "-G", "2", words="async_error,log")
    assert done.returncode == 1 and "call 3, all_reduce" in done.stderr and "the fake peer is gone" in done.stderr and "fake: wrong" not in done.stderr, done.stderr
    assert "fake: revoked" in done.stderr


@pytest.mark.parametrize("kernels, word", [("", "compared on the host"), (FAKE_NCCL, "fake: a kernel"), (CUDAHOST, "launch of premul")],
                         ids=["host", "stand-in", "cudahost"])
@pytest.mark.parametrize("op", ["all_reduce", "reduce", "reduce_scatter"])
def test_one_rank_multiplies_each_element(bench, op, kernels, word):
    """1,048,592 bytes are 131,074 elements of 8 bytes, of which NCCL itself leaves out the last two."""
    if kernels and not kernels.exists():
        pytest.skip("built without the headers of CUDA and cuBLAS")
    done = bench(op, "-b", "16", "-e", "1048592", "-i", "1048576", "-d", "all", "-o", "mulsum", "-m", "2", "--json", ranks=1,
                 kernels=kernels, CUDAHOST_LOG="1", DROVER_LOG="debug")
    rows = rows_of(done)
    assert len(rows) == 2 * 12 and {row["count"] for row in rows if row["type"] == "double"} == {2, 131074}
    assert word in done.stderr, done.stderr


def test_one_rank_multiplies_in_a_graph_by_a_kernel(bench):
    """Without a call to warm up, the kernels are first needed in the graph, where CUDA refuses to load them."""
    done = bench("all_reduce", "-b", "64K", "-e", "64K", "-d", "all", "-o", "mulsum", "-w", "0", "-G", "3", "--json", ranks=1)
    assert len(rows_of(done)) == 12
    assert graphs_in(done) == 12 * 2 * (1 + 3 + 2)  # a checked one, three launches, and -n samples


def test_without_a_kernel_one_rank_cannot_multiply_in_a_graph_and_says_so(bench):
    done = bench("all_reduce", "-b", "1K", "-e", "1K", "-o", "mulsum", "-G", "2", ranks=1, kernels=None)
    assert done.returncode == 1 and done.stdout.count("mulsum") <= 1
    assert "a graph cannot hold mulsum with one rank: no kernel for this GPU" in done.stderr, done.stderr
    assert "nccl_kernels.so" in done.stderr and "fake: destroyed\n" in done.stderr and "fake: wrong" not in done.stderr
