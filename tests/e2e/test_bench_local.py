"""`drover bench gemm` and `copy`: the CPU, and GPUs of tests/cudahost through drover's own declarations of CUDA; the
active checks of `drover doctor --full` that use them."""
import json

import pytest
from kit_ranks import BUILD

LIBS = BUILD / "tests/cudahost/cuda_libs.so"
GPUS = {"DROVER_CUDART_LIB": str(LIBS), "DROVER_CUBLASLT_LIB": str(LIBS), "FAKE_GPUS": "4", "FAKE_GPU_MEMORY": str(36 << 20),
        "OPENBLAS_NUM_THREADS": "1"}
needs_cuda = pytest.mark.skipif(not LIBS.exists(), reason="built without CUDA's headers")


def bench(drover, *args, status=0, **env):
    done = drover.run("bench", *args, "--json", "--oversubscribe", env=env)
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout)


def test_the_cpu_is_measured_by_each_rank(drover):
    record = bench(drover, "gemm", "-np", 2, "-b", "64K", "-n", 3)
    assert [(r["rank"], r["n"], r["type"], r["wrong"]) for r in record["rows"]] == [(0, 128, "float", 0), (1, 128, "float", 0)]
    assert all(r["tflops"] > 0 and r["time_us"] > 0 for r in record["rows"])
    record = bench(drover, "copy", "-np", 2, "-b", "64K", "-e", "256K", "-f", 2, "-n", 3)
    assert [(r["rank"], r["size"]) for r in record["rows"]] == [(k, s << 10) for k in (0, 1) for s in (64, 128, 256)]
    assert all(r["within_gbps"] > 0 and r["to_gbps"] is None and r["link"] is None for r in record["rows"])


@needs_cuda
@pytest.mark.parametrize("what, keys", [("gemm", ["tflops"]), ("copy", ["to_gbps", "from_gbps", "within_gbps"])])
def test_one_rank_measures_all_gpus_and_several_share_them(drover, what, keys):
    record = bench(drover, what, "-np", 1, "--backend", "nccl", "-b", "64K", "-n", 2, **GPUS)
    assert [(r["rank"], r["device"], r["pci"]) for r in record["rows"]] == [(0, i, f"0000:{i + 1:02x}:00.0") for i in range(4)]
    assert all(r[k] > 0 for r in record["rows"] for k in keys) and record["wrong"] == 0
    record = bench(drover, what, "-np", 3, "--backend", "nccl", "-b", "64K", "-n", 2, **GPUS)
    assert [(r["rank"], r["device"]) for r in record["rows"]] == [(0, 0), (0, 3), (1, 1), (2, 2)]


@needs_cuda
@pytest.mark.parametrize("kind, n", [("bfloat16", 176), ("half", 176), ("float", 128)])
def test_products_are_right_in_each_type(drover, kind, n):
    record = bench(drover, "gemm", "-np", 1, "--backend", "nccl", "-d", kind, "-b", "64K", "-n", 2, "-c", 3, **GPUS)
    assert {(r["n"], r["type"], r["wrong"]) for r in record["rows"]} == {(n, kind, 0)}


@needs_cuda
@pytest.mark.parametrize("what", ["gemm", "copy"])
def test_a_wrong_result_is_counted_and_is_the_status(drover, what):
    record = bench(drover, what, "-np", 2, "--backend", "nccl", "-b", "64K", "-n", 1, status=1, **GPUS, DROVER_BENCH_INJECT="1:1234")
    assert [(r["rank"], r["wrong"]) for r in record["rows"]] == [(0, 0), (0, 0), (1, 1), (1, 1)] and record["wrong"] == 2


@needs_cuda
def test_what_is_missing_is_named(drover):
    done = drover.run("bench", "gemm", "-np", 1, "--backend", "nccl", env={**GPUS, "FAKE_GPUS": "0"})
    assert done.returncode == 1 and "CUDA shows no GPU" in done.stderr
    done = drover.run("bench", "gemm", "-np", 1, "--backend", "nccl", env={**GPUS, "DROVER_CUBLASLT_LIB": "/nowhere.so"})
    assert done.returncode != 0 and "DROVER_CUBLASLT_LIB: /nowhere.so" in done.stderr
    done = drover.run("bench", "gemm", "-np", 1, "--backend", "nccl", "-b", "32M", env=GPUS)
    assert done.returncode == 1 and "GPU 0: CUDA: allocating memory: out of memory" in done.stderr
    done = drover.run("bench", "gemm", "--verdict")
    assert done.returncode == 2 and "--verdict: not possible with gemm" in done.stderr
    done = drover.run("bench", "gemm", "-np", 1, "--backend", "self", "-d", "half")
    assert done.returncode == 1 and "a CPU multiplies float, not half" in done.stderr and "-d float" in done.stderr


def doctor_full(drover, tmp_path, fault="", **env):  # on three GPUs, the least that are compared
    (tmp_path / "machine").write_text(f"gpus 3\n{fault}\n")
    done = drover.run("doctor", "--full", "--json", timeout=300,
                      env={"DROVER_NVML_LIB": str(BUILD / "tests/fake/libnvidia-ml.so.1"), "DROVER_FAKE_NVML": str(tmp_path / "machine"),
                           **GPUS, "FAKE_GPUS": "3", **env})
    return {c["id"]: c for c in json.loads(done.stdout)["nodes"][0]["checks"]}


@needs_cuda
def test_doctor_names_the_gpu_that_is_slow_or_computes_wrong(drover, tmp_path):
    checks = doctor_full(drover, tmp_path, FAKE_GPU_SLOW="2:30", DROVER_BENCH_INJECT="1:1234")
    for name in ("act.mem", "act.pcie"):
        assert checks[name]["state"] == "fail" and "GPU 2: " in checks[name]["value"], checks[name]
        assert checks[name]["source"] == "drover bench copy"
    assert "as fast as the others" in checks["act.pcie"]["want"] and "0 wrong bytes" in checks["act.mem"]["want"]
    assert "GPU 1: 1 wrong bytes" in checks["act.mem"]["value"]
    assert checks["act.gemm"]["state"] == "fail" and "GPU 1: 1 wrong rows" in checks["act.gemm"]["value"]
    assert "nvidia-smi -q -d PERFORMANCE" in checks["act.gemm"]["advice"]
    assert checks["act.bits"]["state"] == "fail" and checks["act.bits"]["value"] == "GPU 1: 1 wrong elements"


@needs_cuda
def test_doctor_skips_what_cannot_be_measured_and_what_needs_a_failed_check(drover, tmp_path):
    checks = doctor_full(drover, tmp_path, DROVER_CUDART_LIB="/nowhere.so")
    for name in ("act.mem", "act.pcie", "act.gemm", "act.bits"):
        assert checks[name]["state"] == "skip" and "DROVER_CUDART_LIB: /nowhere.so" in checks[name]["value"], checks[name]
    checks = doctor_full(drover, tmp_path, "gpu 0 temperature error 15")
    assert checks["gpu.answers"]["state"] == "fail"
    for name in ("act.mem", "act.pcie", "act.gemm", "act.bits"):
        assert (checks[name]["state"], checks[name]["value"]) == ("skip", "needs gpu.answers"), checks[name]
