"""The conformance kit (tests/conform) over every backend: MPI with real ranks, one rank alone, and NCCL's stand-ins of
two ages (tests/fake/nccl.c). And that it finds what is wrong, or slow."""
import json
import re
import subprocess
from pathlib import Path

import pytest
from kit_ranks import BUILD, FAKE_NCCL, MPIRUN, WHEELS, clean_env

CONFORM = BUILD / "tests" / "conform"
OLD_NCCL = FAKE_NCCL.with_name("nccl_old.so")
TRUE_NCCL = next((p for p in (Path("/usr/local/cuda/lib64/libnccl.so.2"), Path("/usr/lib/x86_64-linux-gnu/libnccl.so.2"),
                              WHEELS / "nccl/lib/libnccl.so.2") if p.exists()), None)
LIMIT_S = 120


def run(argv, **env):
    return subprocess.run([str(a) for a in argv], env=clean_env(**env), text=True, capture_output=True,
                          timeout=LIMIT_S, check=False)


def conform(ranks, *options, **env):
    return run([BUILD / "bin" / "drover", "run", "-np", ranks, "--oversubscribe", CONFORM, *options], **env)


def fake(tmp_path, lib=FAKE_NCCL, **env):
    if not lib.exists():
        pytest.skip("built without NCCL's and CUDA's headers")
    return {"DROVER_NCCL_LIB": str(lib), "DROVER_CUDART_LIB": str(lib), "FAKE_NCCL_DIR": str(tmp_path), **env}


def all_right(done, ranks):
    """Every line of TAP is ok, and as many were promised; returns the last line's numbers."""
    assert done.returncode == 0, done.stdout + done.stderr
    lines = re.findall(r"^(not ok|ok) (\d+) - (\S.*): \d+ checks", done.stdout, re.M)
    assert [ok for ok, _, _ in lines] == ["ok"] * len(lines)
    assert f"1..{len(lines)}\n" in done.stdout and f", {ranks} ranks," in done.stdout
    assert {"all_reduce", "alltoall", "gather", "counts", "messages and groups", "splits"} <= {name for _, _, name in lines}
    return re.search(r"^# (\d+) checks, 0 wrong, (\d+) calls refused", done.stdout, re.M)


def test_one_rank_alone_passes():
    done = run([CONFORM])
    assert int(all_right(done, 1)[1]) > 2000


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_mpi_passes(ranks):
    done = conform(ranks, "--backend", "mpi")
    assert int(all_right(done, ranks)[1]) > 1500 * ranks
    assert "# shrink: done" in done.stdout and "shrunk: " in done.stdout


@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
def test_nccl_passes(tmp_path, ranks):
    done = conform(ranks, "--backend", "nccl", **fake(tmp_path, FAKE_NCCL="log"))
    all_right(done, ranks)
    assert "without finalize" not in done.stderr
    assert not list(tmp_path.iterdir())
    assert "# shrink: done" in done.stdout and "shrunk: " in done.stdout


@pytest.mark.parametrize("kernels", [None, FAKE_NCCL, BUILD / "tests/cudahost/nccl_kernels.so"],
                         ids=["host", "stand-in", "cudahost"])
def test_one_rank_over_nccl_has_each_product_and_refuses_nothing(tmp_path, kernels):
    if kernels and not kernels.exists():
        pytest.skip("built without the headers of CUDA and cuBLAS")
    done = conform(1, "--backend", "nccl", **fake(tmp_path, DROVER_NCCL_KERNELS=str(kernels or "")))
    assert int(all_right(done, 1)[2]) == 0


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_an_nccl_without_the_younger_calls_passes(tmp_path, ranks):
    done = conform(ranks, "--backend", "nccl", **fake(tmp_path, OLD_NCCL))
    assert int(all_right(done, ranks)[2]) > 50 * ranks  # 8-bit floats
    assert "NCCL 2.19.3" in done.stdout
    if ranks > 1:
        assert "# shrink: rank 0 of" in done.stdout and "cannot shrink a communicator" in done.stdout


def test_an_nccl_that_takes_its_time_passes(tmp_path):
    all_right(conform(2, "--backend", "nccl", "--max", "4K", **fake(tmp_path, FAKE_NCCL="slow")), 2)


def test_a_slow_rank_is_waited_for(tmp_path):
    rank = [CONFORM, "--backend", "nccl", "--max", "4K"]
    done = run([*MPIRUN, "-np", "1", *rank, ":", "-np", "1", "-x", "FAKE_NCCL=late", *rank], **fake(tmp_path))
    all_right(done, 2)


def test_without_8_bit_floats_on_the_gpu_they_are_refused(tmp_path):
    done = conform(1, "--backend", "nccl", "--max", "4K", **fake(tmp_path, FAKE_NCCL="ampere"))
    assert int(all_right(done, 1)[2]) > 50


def test_wrong_elements_are_found_and_the_rank_is_named(tmp_path):
    rank = [CONFORM, "--backend", "nccl", "--max", "4K"]
    done = run([*MPIRUN, "-np", "1", *rank, ":", "-np", "1", "-x", "FAKE_NCCL=wrong", *rank], **fake(tmp_path))
    assert done.returncode == 1
    assert re.search(r"^not ok 1 - all_reduce", done.stdout, re.M), done.stdout
    found = re.search(r"^# rank 1: all_reduce of 17 int8, sum, root \d: element 0 is (-?\d+), expected (-?\d+) \(",
                      done.stdout, re.M)
    assert found and int(found[1]) - int(found[2]) == 1, done.stdout
    assert "\nok 4 - broadcast" in done.stdout


def test_one_line_of_json_says_the_same(tmp_path):
    done = conform(2, "--backend", "nccl", "--max", "4K", "--json", **fake(tmp_path, FAKE_NCCL="wrong"))
    assert done.returncode == 1
    record = json.loads(done.stdout)
    assert record["backend"] == "nccl" and record["ranks"] == 2 and record["version"].startswith("NCCL 2.28")
    assert 0 < record["failed"] < record["checks"]


def true_nccl(**env):
    """The real library on a stand-in's GPU, which it does not see."""
    if not TRUE_NCCL or not FAKE_NCCL.exists():
        pytest.skip("there is no libnccl here")
    if Path("/dev/nvidiactl").exists():
        pytest.skip("this machine has a driver")
    return {"DROVER_NCCL_LIB": str(TRUE_NCCL), "DROVER_CUDART_LIB": str(FAKE_NCCL), "NCCL_SOCKET_IFNAME": "lo", **env}


@pytest.mark.parametrize("ranks", [1, 2])
def test_the_true_nccl_makes_an_id_and_says_that_the_driver_is_missing(ranks):
    done = conform(ranks, "--backend", "nccl", **true_nccl())
    assert done.returncode == 1
    assert re.search(r"NCCL: connecting the ranks: .*CUDA driver version is insufficient", done.stderr), done.stderr


def test_the_true_nccl_on_an_interface_that_there_is_not_says_which():
    done = conform(1, "--backend", "nccl", **true_nccl(NCCL_SOCKET_IFNAME="nosuch0"))
    assert done.returncode == 1
    assert "NCCL_SOCKET_IFNAME=nosuch0 matches no interface of this node" in done.stderr


@pytest.mark.parametrize("options", [["--nosuch"], ["--wait", "0"], ["word"]])
def test_options_that_make_no_sense_are_refused(options):
    done = run([CONFORM, *options])
    assert done.returncode == 2 and "conform: " in done.stderr
