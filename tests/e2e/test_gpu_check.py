"""scripts/gpu-check: its record, and that each step finds what it is there to find. The GPU is a stand-in here: NCCL and
CUDA's runtime of tests/fake, an NVML, an nvidia-smi, an nvcc that gives the libraries of tests/cudahost, and a compute-sanitizer that only runs the program."""
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
# These take 13 s and more each.
long = pytest.mark.skipif(not os.environ.get("DROVER_TEST_GPU_CHECK"), reason="with DROVER_TEST_GPU_CHECK=1, as .ci/run does")
GPU_STEPS = {"device", "build", "plan", "libraries", "bench", "bench_modes", "bench_local", "bench_wrong", "bench_kernels", "mps", "conform", "digits", "one_gpu_2", "one_gpu_4",
             "conform_2", "bootstrap_kill", "sweep", "ddp", "memcheck", "racecheck", "nccl_tests", "gpt_kernels", "gpt_curves", "gpt_124m", "gpt_350m"}
GPT_STEPS = {"gpt_kernels", "gpt_curves", "gpt_124m", "gpt_350m"}
UUID = "GPU-12345678-1234-1234-1234-123456789abc"
SMI = f"""#!/bin/sh
case $1 in
*index,uuid*) echo "0, {UUID}" ;;
*=compute_cap) echo 9.0 ;;
*=memory.used) echo 4 ;;
*power* | *temperature* | *clocks* | *mig*) echo "Field is not a valid field to query." >&2; exit 2 ;;
*) echo "NVIDIA H200, {UUID}, 580.1, 143771, 4, 00000000:07:00.0" ;;
esac
"""
CUDAHOST = BUILD / "tests/cudahost"  # the same CUDA sources, compiled for the CPU
NVCC = f"""#!/bin/sh
while [ "$1" != -o ]; do shift; done
exec cp "{CUDAHOST}/${{2##*/}}" "$2"
"""
SANITIZER = """#!/bin/sh
while [ ! -x "$1" ]; do shift; done
"$@" || exit
[ "${1##*/}" != "$FAKE_HAZARD" ] || { echo "========= RACECHECK SUMMARY: 1 hazard"; exit 9; }
echo "========= ERROR SUMMARY: 0 errors"
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
    if not FAKE_NCCL.exists() or not CUDAHOST.is_dir():
        pytest.skip("built without NCCL's and CUDA's headers")
    home = tmp_path / "cuda"
    for name, text in (("bin/nvidia-smi", SMI), ("bin/nvcc", NVCC), ("bin/nvidia-cuda-mps-control", "#!/bin/sh\n"),
                       ("bin/compute-sanitizer", SANITIZER), ("lib64/libcublas.so.13", ""), ("lib64/libcublasLt.so.13", "")):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
        (home / name).chmod(0o755)
    met = tmp_path / "met"
    met.mkdir()
    return {"CUDA_HOME": str(home), "PATH": f"{home}/bin:{os.environ['PATH']}", "FAKE_NCCL_DIR": str(met),
            "DROVER_NCCL_LIB": str(FAKE_NCCL), "DROVER_CUDART_LIB": str(FAKE_NCCL),
            "DROVER_NVML_LIB": str(FAKE_NCCL.with_name("libnvidia-ml.so.1")), "FAKE_NCCL": "one_gpu", "OPENBLAS_NUM_THREADS": "1",
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


def test_the_gpu_by_itself_multiplies_and_copies(tmp_path, stand_ins):
    libs = {name: str(CUDAHOST / "cuda_libs.so") for name in ("DROVER_CUDART_LIB", "DROVER_CUBLASLT_LIB")}
    record = check(tmp_path, "--assume-gpu", "--only", "bench_local", **{**stand_ins, **libs, "FAKE_GPU_MEMORY": str(64 << 20)})
    step = by_name(record)["bench_local"]
    assert step["ok"], step
    assert all(step["metrics"][name] > 0 for name in ("bfloat16_tflops", "half_tflops", "float_tflops", "to_gbps", "from_gbps", "within_gbps"))


def test_with_stand_ins_every_step_passes(tmp_path, stand_ins):
    steps = ",".join(sorted(GPU_STEPS - GPT_STEPS - {"bench_local", "ddp", "memcheck", "racecheck", "nccl_tests"}))
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


def steps_of_gpt(tmp_path, stand_ins, names):
    record = check(tmp_path, "--assume-gpu", "--only", names, "--quick", **stand_ins)
    check_schema(record)
    assert record["summary"]["failed"] == [], json.dumps(record, indent=1)
    assert record["summary"]["skipped"] == 0
    return by_name(record)


@long
def test_gpts_kernels_and_curves_are_right(tmp_path, stand_ins):
    steps = steps_of_gpt(tmp_path, stand_ins, "build,gpt_kernels,gpt_curves")
    kernels = steps["gpt_kernels"]["metrics"]
    assert kernels["runs"] == 18 and kernels["wrong"] == kernels["different"] == 0
    assert 0 < kernels["fp32_error_by_limit"] < 1 and 0 < kernels["bf16_error_by_limit"] < 1
    assert steps["gpt_curves"]["metrics"]["fp32_apart"] < 1e-4
    assert 0 < steps["gpt_curves"]["metrics"]["bf16_apart"] < 3e-2


@long
def test_gpts_memory_is_what_it_allocates(tmp_path, stand_ins):
    steps = steps_of_gpt(tmp_path, stand_ins, "build,gpt_124m")
    got = steps["gpt_124m"]["metrics"]
    assert got["bf16_tokens_s"] > 0 and got["bf16_by_fp32"] > 0 and steps["gpt_124m"]["note"].startswith("without PyTorch: ")
    assert got["used"] - got["allocated"] == pytest.approx(32 << 20, rel=0.02)  # cuBLASLt's workspace, and the batches


@long
def test_a_hazard_names_the_program_that_has_it(tmp_path, stand_ins):
    record = check(tmp_path, "--assume-gpu", "--only", "build,memcheck,racecheck", "--quick", **stand_ins, FAKE_HAZARD="gpt")
    assert record["summary"]["failed"] == ["memcheck", "racecheck"]
    step = by_name(record)["racecheck"]
    assert "gpt_bf16: " in step["note"] and "gpt_fp32: " in step["note"] and "digits: " not in step["note"]
    assert "1 hazard" in step["metrics"]["gpt_bf16"] and "0 errors" in step["metrics"]["digits"]


def test_a_wrong_kernel_is_named(tmp_path, stand_ins):
    """gpt_vectors as on a GPU where one operation is wrong."""
    tree = tmp_path / "tree"
    (tree / "libexec/drover").mkdir(parents=True)
    (tree / "examples/gpt").mkdir(parents=True)
    (tree / "bin").mkdir()
    (tree / "bin/drover").touch()
    (tree / "examples/gpt/gpt_cuda.so").touch()
    shape = "2 x 33 rows, 64 channels, 2 heads"
    (tree / "libexec/drover/gpt_vectors").write_text(f"""#!/bin/sh
echo "# attend y, fp32, {shape}: error 1e-06 at 5, at most 2e-05"
echo "# attend dqkv, bf16, {shape}: error nan at 7, at most 0.04"
echo '{{"runs": 2, "wrong": 1, "different": 0}}'
exit 1
""")
    (tree / "libexec/drover/gpt_vectors").chmod(0o755)
    step = by_name(check(tmp_path, "--tree", str(tree), "--assume-gpu", "--only", "gpt_kernels", **stand_ins))["gpt_kernels"]
    assert not step["ok"] and step["metrics"] == {"fp32_error_by_limit": 0.05, "runs": 2, "wrong": 1, "different": 0}
    assert step["note"] == f"1 results are wrong, 0 runs differ: attend dqkv, bf16, {shape}: error nan at 7, at most 0.04"


def test_pytorchs_peer_measures_its_speed():
    torch = pytest.importorskip("torch", reason="the peer is PyTorch")
    done = subprocess.run([sys.executable, ROOT / "tests/e2e/gpt_peer.py", "speed", "cpu", "1", "32", "2", "16", "2"], text=True,
                          capture_output=True, timeout=200, env=clean_env(), check=False)
    assert done.returncode == 0, done.stderr
    compiled = "compiled" if hasattr(torch, "compile") else "not compiled"
    assert f"PyTorch {torch.__version__}, {compiled}, loss " in done.stdout and "tokens/s" in done.stdout


def test_a_gpu_library_that_cannot_be_loaded_is_named_and_one_that_is_missing_is_skipped(tmp_path, stand_ins):
    tree = tmp_path / "tree"
    for name in ("bin", "lib", "libexec", "examples"):
        shutil.copytree(BUILD / name, tree / name, symlinks=True)
    shutil.copy(BUILD / "tests/gpt_vectors", tree / "libexec/drover")
    library = tree / "examples/gpt/gpt_cuda.so"
    library.write_text("no library")
    record = check(tmp_path, "--tree", str(tree), "--assume-gpu", "--only", "gpt_kernels,gpt_curves", **stand_ins)
    assert record["summary"]["failed"] == ["gpt_kernels", "gpt_curves"]
    assert "gpt_cuda.so: " in by_name(record)["gpt_kernels"]["note"]
    if (BUILD / "examples/gpt/gpt_cuda.so").exists() and not Path("/dev/nvidiactl").exists():  # and one that finds no GPU
        shutil.copy(BUILD / "examples/gpt/gpt_cuda.so", library)
        record = check(tmp_path, "--tree", str(tree), "--assume-gpu", "--only", "gpt_kernels", **stand_ins)
        assert "bf16: no GPU: " in by_name(record)["gpt_kernels"]["note"]
    library.unlink()
    record = check(tmp_path, "--tree", str(tree), "--assume-gpu", "--only", "gpt_kernels,gpt_curves,gpt_350m", **stand_ins)
    assert record["summary"]["skipped"] == 3 and "no gpt_cuda.so" in by_name(record)["gpt_350m"]["note"]


def test_what_fails_is_named_and_costs_the_others_nothing(tmp_path, stand_ins):
    record = check(tmp_path, "--assume-gpu", "--quick", "--only", "libraries,bench,conform,cpu_sweep,plan",
                   **{**stand_ins, "FAKE_NCCL": "wrong,one_gpu", "DROVER_FAKE_GPUS": "GPU-other,NVIDIA H200,7,143771,143767"})
    check_schema(record)
    steps = by_name(record)
    assert record["summary"]["failed"] == ["plan", "conform", "bench"]
    note = steps["bench"]["note"]
    assert note.startswith("types: drover bench all_reduce: status 1: ") and "wrong elements" in note, note
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
@long
def test_the_plug_in_and_the_kernels_are_built_where_the_tree_has_none(tmp_path, stand_ins):
    """By the true nvcc, from the sources alone."""
    tree = tmp_path / "tree"
    shutil.copytree(BUILD / "bin", tree / "bin")
    (tree / "lib").mkdir()
    for name in ("digits", "gpt"):
        (tree / "examples" / name).mkdir(parents=True)
        shutil.copy(BUILD / "examples" / name / name, tree / "examples" / name)
    env = {k: v for k, v in stand_ins.items() if k not in ("CUDA_HOME", "PATH")}
    if TOOLKIT:
        env["CUDA_HOME"] = str(TOOLKIT)
    record = check(tmp_path, "--tree", str(tree), "--assume-gpu", "--only", "build", **env)
    assert by_name(record)["build"]["metrics"] == {"plugin": "built", "kernels": "built", "nccl_kernels": "built"}, record
