"""scripts/gpu-check: its record, and that each step finds what it is there to find. The GPU is a stand-in here: NCCL and
CUDA's runtime of tests/fake, an NVML, an nvidia-smi and an nvcc that compiles the kernels for the CPU."""
import importlib.machinery
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from kit_ranks import BUILD, FAKE_NCCL, ROOT, WHEELS, clean_env
from waiting import wait_until

CHECK = ROOT / "scripts/gpu-check"
TOOLKIT = next((p for p in (Path("/usr/local/cuda"), WHEELS / "cu13") if (p / "bin/nvcc").exists()), None)
GPU_STEPS = {"device", "build", "plan", "libraries", "bench", "bench_modes", "bench_wrong", "bench_kernels", "mps", "conform", "digits", "one_gpu_2", "one_gpu_4",
             "conform_2", "bootstrap_kill", "sweep", "ddp", "memcheck", "racecheck", "nccl_tests"}
UUID = "GPU-12345678-1234-1234-1234-123456789abc"
SMI = f"""#!/bin/sh
case $1 in
*index,uuid*) echo "0, {UUID}" ;;
*=compute_cap) echo 9.0 ;;
*power* | *temperature* | *clocks* | *mig*) echo "Field is not a valid field to query." >&2; exit 2 ;;
*) echo "NVIDIA H200, {UUID}, 580.1, 143771, 4, 00000000:07:00.0" ;;
esac
"""
NVCC = f"""#!{sys.executable}
import re, subprocess, sys
out = sys.argv[sys.argv.index("-o") + 1]
source = next(a for a in sys.argv if a.endswith(".cu"))
if source.endswith("nccl_kernels.cu"):
    sys.exit(subprocess.run(["g++", "-std=c++17", "-O1", "-shared", "-fPIC", "-I{ROOT}", "{ROOT}/tests/fake/nccl_kernels.cc", "-o",
                             out]).returncode)
text = re.sub(r"(\\w+)<<<(.+), (\\w+), 0, m->stream>>>\\(", r"launch(\\1, \\2, \\3, ", open(source).read())
folder = source.rsplit("/", 1)[0]
flags = subprocess.run(["pkg-config", "--cflags", "--libs", "openblas"], text=True, capture_output=True).stdout.split()
open(out + ".cc", "w").write(re.sub(r"#include <(cuda_runtime|cublas_v2).h>", "", text))
sys.exit(subprocess.run(["g++", "-std=c++17", "-O1", "-shared", "-fPIC", "-D__CUDACC__", "-include", "{ROOT}/tests/fake/cuda.h",
                         "-I" + folder, out + ".cc", "-o", out, *flags]).returncode)
"""
pytestmark = pytest.mark.skipif(BUILD.name.startswith("san-"), reason="what it checks is checked by the other tests")


def check(tmp_path, *options, **env):
    """-> (the finished process, its record)"""
    out = tmp_path / "record.json"
    done = subprocess.run([sys.executable, str(CHECK), "--tree", str(BUILD), "--out", str(out), *options], cwd=tmp_path,
                          env=clean_env(**env), text=True, capture_output=True, timeout=400, check=False)
    assert done.stdout, done.stderr
    record = json.loads(done.stdout)
    assert json.loads(out.read_text()) == record
    assert done.returncode == (1 if record["summary"]["failed"] else 0)
    return record


def by_name(record):
    return {s["name"]: s for s in record["steps"]}


def check_schema(record):
    assert set(record) == {"schema", "git", "cpus", "gpu", "steps", "summary"} and record["schema"] == 1
    for s in record["steps"]:
        assert set(s) == {"name", "ok", "skipped", "s", "metrics", "note"}
        assert isinstance(s["ok"], bool) and isinstance(s["skipped"], bool) and not (s["ok"] and s["skipped"])
        assert isinstance(s["metrics"], dict) and isinstance(s["note"], str) and 0 <= s["s"] < 540
        assert s["ok"] or s["note"], f"{s['name']}: no reason"
    total = record["summary"]
    assert total["ok"] + total["skipped"] + len(total["failed"]) == len(record["steps"])


@pytest.fixture
def stand_ins(tmp_path):
    """The environment in which there seems to be an H200."""
    if not FAKE_NCCL.exists():
        pytest.skip("built without NCCL's and CUDA's headers")
    home = tmp_path / "cuda"
    for name, text in (("bin/nvidia-smi", SMI), ("bin/nvcc", NVCC), ("bin/nvidia-cuda-mps-control", "#!/bin/sh\n"),
                       ("lib64/libcublas.so.13", "")):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
        (home / name).chmod(0o755)
    met = tmp_path / "met"
    met.mkdir()
    return {"CUDA_HOME": str(home), "PATH": f"{home}/bin:{os.environ['PATH']}", "FAKE_NCCL_DIR": str(met),
            "DROVER_NCCL_LIB": str(FAKE_NCCL), "DROVER_CUDART_LIB": str(FAKE_NCCL),
            "DROVER_NVML_LIB": str(FAKE_NCCL.with_name("libnvidia-ml.so.1")), "FAKE_NCCL": "one_gpu",
            "DROVER_FAKE_GPUS": f"{UUID},NVIDIA H200,7,143771,143767"}


def test_without_a_gpu_its_steps_are_skipped_and_the_others_run(tmp_path):
    if Path("/dev/nvidiactl").exists():
        pytest.skip("there is a GPU")
    record = check(tmp_path)
    check_schema(record)
    steps = by_name(record)
    assert {n for n, s in steps.items() if s["skipped"]} - {"ddp_cpu"} == GPU_STEPS
    assert all("/dev/nvidiactl" in steps[n]["note"] for n in GPU_STEPS)
    assert steps["cpu"]["ok"] and steps["cpu"]["metrics"]["conform_checks"] > 1000
    assert steps["cpu_sweep"]["ok"] and steps["cpu_sweep"]["metrics"]["trials"] == 4
    assert record["summary"]["failed"] == []


def test_with_stand_ins_every_step_passes(tmp_path, stand_ins):
    steps = ",".join(sorted(GPU_STEPS - {"ddp", "memcheck", "racecheck", "nccl_tests"}))
    record = check(tmp_path, "--assume-gpu", "--only", steps, "--quick", **stand_ins)
    check_schema(record)
    assert record["summary"]["failed"] == [], json.dumps(record, indent=1)
    assert record["summary"]["skipped"] == 0 and record["gpu"] == "NVIDIA H200"
    got = {n: s["metrics"] for n, s in by_name(record).items()}
    assert got["bench_wrong"]["wrong"] >= 1
    assert got["bench_kernels"]["gpu"] == got["bench_kernels"]["host"] >= 12 and got["mps"]["two_ranks"] == "supported"
    assert got["one_gpu_2"]["plain"] == "unsupported" and "have the same GPU" in by_name(record)["one_gpu_2"]["note"]
    assert got["one_gpu_2"]["hostid"] == "supported" and got["conform_2"]["checks"] > 100
    assert got["build"]["kernels"] == "built" and max(got["digits"][f"{k}_apart"] for k in ("gelu", "tanh", "relu")) < 1e-4
    assert got["bootstrap_kill"]["before_s"] < 10 and 5 < got["bootstrap_kill"]["away_s"] < 15
    assert got["sweep"]["trials"] == 8


def test_what_fails_is_named_and_costs_the_others_nothing(tmp_path, stand_ins):
    record = check(tmp_path, "--assume-gpu", "--quick", "--only", "libraries,bench,conform,cpu_sweep,plan",
                   **{**stand_ins, "FAKE_NCCL": "wrong,one_gpu", "DROVER_FAKE_GPUS": "GPU-other,NVIDIA H200,7,143771,143767"})
    check_schema(record)
    steps = by_name(record)
    assert record["summary"]["failed"] == ["plan", "conform", "bench"]
    assert "wrong elements" in steps["bench"]["note"] or "status 1" in steps["bench"]["note"]
    assert steps["bench"]["metrics"]["broadcast_algbw_gbps"] > 0 and "all_reduce_algbw_gbps" not in steps["bench"]["metrics"]
    assert steps["plan"]["note"] == f"drover says GPU-other, nvidia-smi {UUID}"
    assert steps["cpu_sweep"]["ok"] and steps["libraries"]["ok"]


def test_without_a_driver_the_reason_is_in_the_record(tmp_path, stand_ins):
    record = check(tmp_path, "--assume-gpu", "--only", "libraries,one_gpu_2", **{**stand_ins, "FAKE_NCCL": "no_driver"})
    assert record["summary"]["failed"] == ["libraries", "one_gpu_2"]
    assert "no usable GPU" in by_name(record)["libraries"]["note"]


def test_nccl_that_gets_no_virtual_memory_is_told_to_do_without(tmp_path, stand_ins):
    record = check(tmp_path, "--assume-gpu", "--only", "libraries,bench_wrong", **{**stand_ins, "FAKE_NCCL": "no_cumem,one_gpu"})
    assert record["summary"]["failed"] == []
    libraries = by_name(record)["libraries"]
    assert libraries["metrics"]["cumem"] == "off" and libraries["note"].startswith("only with NCCL_CUMEM_ENABLE=0")


def test_it_compares_with_nccl_tests_when_it_is_told_where_they_are(tmp_path, stand_ins):
    binary = tmp_path / "all_reduce_perf"
    binary.write_text("""#!/bin/sh
for size in 1048576; do
    echo "  $size  $((size / 4))  float  sum  -1  0.001  1.0  0.0  N/A  0.001  1.0  0.0  N/A"
done
""")
    binary.chmod(0o755)
    record = check(tmp_path, "--assume-gpu", "--only", "nccl_tests", "--nccl-tests", str(tmp_path), "--quick",
                   **stand_ins)
    note = by_name(record)["nccl_tests"]["note"]
    assert note.startswith("bench's time by nccl-tests'") and "1048576" in note
    record = check(tmp_path, "--assume-gpu", "--only", "nccl_tests", **stand_ins)
    assert by_name(record)["nccl_tests"] | {"s": 0} == {"name": "nccl_tests", "ok": False, "skipped": True, "s": 0, "metrics": {},
                                                        "note": "--nccl-tests DIR was not given"}


def module():
    loader = importlib.machinery.SourceFileLoader("gpu_check", str(CHECK))
    spec = importlib.util.spec_from_loader("gpu_check", loader)
    m = importlib.util.module_from_spec(spec)
    loader.exec_module(m)
    return m


def test_a_step_that_hangs_is_ended_with_all_that_it_started(tmp_path):
    m = module()
    o = type("Options", (), {"assume_gpu": False, "quick": True})
    c = m.Check(BUILD, tmp_path, o)

    def hang(c):
        c.run(c.drover, "run", "-np", 2, "--oversubscribe", "sh", "-c", "echo $$ >pid.$RANK; exec sleep 100")
    began = time.monotonic()
    step = m.do(c, "hang", 3, hang, began + 60)
    assert 2.5 < time.monotonic() - began < 10
    assert not step["ok"] and not step["skipped"] and "drover run -np: no end after 3 s" in step["note"]
    for rank in (0, 1):
        pid = int((tmp_path / f"pid.{rank}").read_text())
        wait_until(lambda pid=pid: not Path(f"/proc/{pid}").exists(), f"the end of rank {rank}", 5)
    assert m.do(c, "late", 3, hang, time.monotonic() + 1)["skipped"]


def test_neither_what_cannot_be_ended_nor_an_answer_that_nobody_expects_ends_the_check(tmp_path):
    m = module()
    c = m.Check(BUILD, tmp_path, type("Options", (), {"assume_gpu": False, "quick": True}))
    began = time.monotonic()
    step = m.do(c, "held", 2, lambda c: c.run("sh", "-c", "setsid sh -c 'echo $$ >pid; exec sleep 60' & exec sleep 60"), began + 60)
    os.kill(int((tmp_path / "pid").read_text()), 9)
    assert not step["ok"] and "cannot be ended" in step["note"] and time.monotonic() - began < 20

    def odd(c):
        c.metrics["before"] = 1
        return None.nothing
    step = m.do(c, "odd", 3, odd, time.monotonic() + 60)
    assert not step["ok"] and step["note"].startswith("AttributeError") and step["metrics"] == {"before": 1}


def test_a_glibc_that_is_too_old_is_named_and_the_record_is_whole(tmp_path):
    program = tmp_path / "tree/bin/drover"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\nfor v in 2.36 2.4; do echo \"drover: libc.so.6: version \\`GLIBC_$v' not found\" >&2; done\nexit 1\n")
    program.chmod(0o755)
    record = check(tmp_path, "--tree", str(tmp_path / "tree"), "--only", "program,cpu,cpu_sweep")
    check_schema(record)
    assert record["summary"]["failed"] == ["program", "cpu", "cpu_sweep"]
    assert "needs glibc 2.36 or younger" in by_name(record)["program"]["note"]


def test_options_that_make_no_sense_are_refused(tmp_path):
    for options in (["--only", "nosuch"], ["--nosuch"], ["--tree", str(tmp_path)]):
        done = subprocess.run([sys.executable, str(CHECK), *options], cwd=tmp_path, text=True, capture_output=True, timeout=20,
                              check=False)
        assert done.returncode == 2 and "gpu-check: " in done.stderr


@pytest.mark.skipif(not TOOLKIT and not shutil.which("nvcc"), reason="no nvcc")
def test_the_plug_in_and_the_kernels_are_built_where_the_tree_has_none(tmp_path, stand_ins):
    """By the true nvcc, from the sources alone."""
    tree = tmp_path / "tree"
    shutil.copytree(BUILD / "bin", tree / "bin")
    (tree / "lib").mkdir()
    (tree / "examples/digits").mkdir(parents=True)
    shutil.copy(BUILD / "examples/digits/digits", tree / "examples/digits")
    env = {k: v for k, v in stand_ins.items() if k not in ("CUDA_HOME", "PATH")}
    if TOOLKIT:
        env["CUDA_HOME"] = str(TOOLKIT)
    record = check(tmp_path, "--tree", str(tree), "--assume-gpu", "--only", "build", **env)
    assert by_name(record)["build"]["metrics"] == {"plugin": "built", "kernels": "built", "nccl_kernels": "built"}, record
