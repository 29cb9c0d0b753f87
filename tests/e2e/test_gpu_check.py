"""scripts/gpu-check: its record, and that each step finds what it is there to find. The GPU is a stand-in here: NCCL and
CUDA's runtime of tests/fake, an NVML, an nvidia-smi, an nvcc that gives the libraries of tests/cudahost, and a compute-sanitizer that only runs the program."""
import importlib.machinery
import importlib.util
import json
import os
import re
import shutil
import signal
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
             "conform_2", "bootstrap_kill", "sweep", "ddp", "memcheck", "racecheck", "synccheck", "initcheck", "model_memory", "nccl_tests", "gpt_attention", "gpt_kernels", "gpt_curves", "gpt_124m", "gpt_350m"}
GPT_STEPS = {"gpt_attention", "gpt_kernels", "gpt_curves", "gpt_124m", "gpt_350m"}
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
# It sees a planted fault as tests/cudahost does, by the build that finds it, and says so in compute-sanitizer's words.
SANITIZER = f"""#!/bin/sh
asked=$*
while [ ! -x "$1" ]; do [ "$1" != --tool ] || tool=$2; shift; done
if [ "${{1##*/}}" = planted ]; then
    case $tool in
    memcheck) build=-asan said=heap-buffer-overflow report="Invalid __global__ write of size 4 bytes" ;;
    racecheck) build=-tsan said="shared memory that nothing has written" report="Error: Race reported between Write access and Read access" ;;
    synccheck) build= said=__syncthreads report="Barrier error detected. Divergent thread(s) in block." ;;
    initcheck) build=-tsan said="device memory that nothing has written" report="Uninitialized __global__ memory read of size 4 bytes" ;;
    esac
    [ -z "$FAKE_BLIND" ] || {{ echo "========= ERROR SUMMARY: 0 errors"; exit 0; }}
    found=$(TSAN_OPTIONS=atexit_sleep_ms=0 "{CUDAHOST}/planted$build" "$2" 2>&1) && exit 0
    case $found in *"$said"*) echo "========= $report"; echo "========= ERROR SUMMARY: 1 error"; exit 9 ;; esac
    echo "$found"
    exit 1
fi
echo "$asked" >>"$(dirname "$0")/asked"
[ -n "$FAKE_FAST" ] || "$@" || exit
[ "${{1##*/}}" != "$FAKE_HAZARD" ] || {{ echo "========= RACECHECK SUMMARY: 1 hazard"; exit 9; }}
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
    assert set(record) == {"schema", "git", "cpus", "gpu", "part", "steps", "summary"} and record["schema"] == 2
    for s in record["steps"]:
        assert set(s) == {"name", "ok", "skipped", "s", "metrics", "note", "driver_errors"}
        assert not s["driver_errors"] or not s["ok"]
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
    steps = ",".join(sorted(GPU_STEPS - GPT_STEPS - {"bench_local", "ddp", "memcheck", "racecheck", "synccheck", "initcheck", "model_memory", "nccl_tests"}))
    record = check(tmp_path, "--assume-gpu", "--only", steps, "--quick", **stand_ins)
    check_schema(record)
    assert record["summary"]["failed"] == [], json.dumps(record, indent=1)
    assert record["summary"]["skipped"] == 0 and record["gpu"] == "NVIDIA H200"
    got = {n: s["metrics"] for n, s in by_name(record).items()}
    assert got["bench_wrong"]["wrong"] >= 1
    assert got["bench_kernels"]["gpu"] == got["bench_kernels"]["host"] >= 12 and got["mps"]["two_ranks"] == "supported"
    assert got["one_gpu_2"]["plain"] == "unsupported" and "two ranks use the same GPU" in by_name(record)["one_gpu_2"]["note"]
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
    assert kernels["runs"] == 23 and kernels["wrong"] == kernels["different"] == 0
    assert 0 < kernels["fp32_error_by_limit"] < 1 and 0 < kernels["bf16_error_by_limit"] < 1
    assert steps["gpt_curves"]["metrics"]["fp32_apart"] < 1e-4
    assert 0 < steps["gpt_curves"]["metrics"]["bf16_apart"] < 3e-2


@long
def test_gpts_memory_is_what_it_allocates(tmp_path, stand_ins):
    steps = steps_of_gpt(tmp_path, stand_ins, "build,gpt_124m")
    got = steps["gpt_124m"]["metrics"]
    assert got["bf16_tokens_s"] > 0 and got["bf16_by_fp32"] > 0 and steps["gpt_124m"]["note"].startswith("without PyTorch: ")
    assert got["attention"].startswith(("cuDNN 9.", "own kernels: "))
    assert got["used"] - got["allocated"] == pytest.approx(32 << 20, rel=0.02)  # cuBLASLt's workspace, and the batches


@long
def test_a_hazard_names_the_program_that_has_it(tmp_path, stand_ins):
    record = check(tmp_path, "--assume-gpu", "--only", "build,memcheck,racecheck", "--quick", **stand_ins, FAKE_HAZARD="gpt")
    assert record["summary"]["failed"] == ["memcheck", "racecheck"]
    step = by_name(record)["memcheck"]
    assert "gpt_bf16: " in step["note"] and "gpt_fp32: " in step["note"] and "digits: " not in step["note"]
    assert "1 hazard" in step["metrics"]["gpt_bf16"] and "0 errors" in step["metrics"]["digits"]


REPORTS = {"memcheck": "Invalid __global__ write", "racecheck": "Race reported", "synccheck": "Barrier error", "initcheck": "Uninitialized"}


def test_each_tool_of_compute_sanitizer_reports_its_planted_fault(tmp_path, stand_ins):
    record = check(tmp_path, "--assume-gpu", "--only", "build," + ",".join(REPORTS), **stand_ins, FAKE_FAST="1")
    check_schema(record)
    assert record["summary"]["failed"] == [], json.dumps(record, indent=1)
    for name, report in REPORTS.items():
        assert by_name(record)[name]["metrics"]["planted"].startswith(("Error: " if name == "racecheck" else "") + report)
    asked = {tool: [line for line in (tmp_path / "cuda/bin/asked").read_text().splitlines() if f"--tool {tool} " in line] for tool in REPORTS}
    assert [len(lines) for lines in asked.values()] == [3, 1, 1, 1]
    for line in asked["racecheck"]:  # a training that ends within the limit: one step, without cuBLAS's kernels
        assert "--steps=1 " in line and "--kernel-name-exclude=kns=cublas " in line and "--layers=1 " in line


def test_a_tool_that_does_not_see_the_planted_fault_fails(tmp_path, stand_ins):
    record = check(tmp_path, "--assume-gpu", "--only", "build," + ",".join(REPORTS), **stand_ins, FAKE_FAST="1", FAKE_BLIND="1")
    assert sorted(record["summary"]["failed"]) == sorted(REPORTS)
    assert by_name(record)["memcheck"]["note"].startswith("memcheck does not report the planted fault 'bounds': status 0: ")
    assert not (tmp_path / "cuda/bin/asked").exists()


def test_without_nvcc_it_says_that_nothing_shows_that_the_tools_see_kernels(tmp_path, stand_ins):
    if not (BUILD / "examples/gpt/gpt_cuda.so").exists():
        pytest.skip("built without nvcc")
    record = check(tmp_path, "--assume-gpu", "--only", "racecheck", **stand_ins, FAKE_FAST="1")
    assert by_name(record)["racecheck"]["ok"] and "nothing shows that the tool sees kernels" in by_name(record)["racecheck"]["note"]


def tree_of_vectors(tmp_path, script):
    """A tree whose gpt_vectors is a script."""
    tree = tmp_path / "tree"
    for name in ("libexec/drover", "examples/gpt", "examples/digits", "bin"):
        (tree / name).mkdir(parents=True)
    (tree / "examples/gpt/gpt_cuda.so").touch()
    for name, text in (("bin/drover", "exit 1\n"), ("libexec/drover/gpt_vectors", script)):
        (tree / name).write_text(f"#!/bin/sh\n{text}")
        (tree / name).chmod(0o755)
    return tree


def test_a_wrong_kernel_is_named(tmp_path, stand_ins):
    """gpt_vectors as on a GPU where one operation is wrong."""
    shape = "2 x 33 rows, 64 channels, 2 heads"
    tree = tree_of_vectors(tmp_path, f"""echo "# attend y, fp32, {shape}: error 1e-06 at 5, at most 2e-05"
echo "# attend dqkv, bf16, {shape}: error nan at 7, at most 0.04"
echo '{{"runs": 2, "wrong": 1, "different": 0}}'
exit 1
""")
    step = by_name(check(tmp_path, "--tree", str(tree), "--assume-gpu", "--only", "gpt_kernels", **stand_ins))["gpt_kernels"]
    assert not step["ok"] and step["metrics"] == {"fp32_error_by_limit": 0.05, "runs": 2, "wrong": 1, "different": 0}
    assert step["note"] == f"1 results are wrong, 0 runs differ: attend dqkv, bf16, {shape}: error nan at 7, at most 0.04"


def attention_with(tmp_path, stand_ins, lines, status):
    tree = tree_of_vectors(tmp_path, "".join(f"echo '{line}'\n" for line in lines) + f"[ $2 = attention ] || exit 9\nexit {status}\n")
    return by_name(check(tmp_path, "--tree", str(tree), "--assume-gpu", "--only", "gpt_attention", **stand_ins))["gpt_attention"]


OWN = '"own_ms": 0.55, "own_back_ms": 1.65'
BY_CUDNN = f'{{"shape": "2x3x4x8", {OWN}, "ms": 0.1, "back_ms": 0.3, "deterministic_back_ms": 0.34, "same_bits": true, "attention": "cuDNN 9.19"}}'


def test_attention_by_cudnn_is_measured_next_to_the_own_kernels(tmp_path, stand_ins):
    step = attention_with(tmp_path, stand_ins, [BY_CUDNN], 0)
    assert step["ok"] and step["note"] == "" and step["metrics"]["2x3x4x8"]["by_own"] == 0.2


def test_a_refusal_of_cudnn_is_told_and_a_wrong_result_fails(tmp_path, stand_ins):
    step = attention_with(tmp_path, stand_ins, [f'{{"shape": "1x1x1x8", {OWN}, "attention": "own kernels: no libcudnn"}}'], 0)
    assert step["ok"] and step["note"] == "1x1x1x8: own kernels: no libcudnn" and step["metrics"]["1x1x1x8"]["own_ms"] == 0.55
    shutil.rmtree(tmp_path / "tree")
    step = attention_with(tmp_path, stand_ins, [BY_CUDNN], 1)
    assert not step["ok"] and step["note"].startswith("gpt_vectors: status 1: ") and step["metrics"]["2x3x4x8"]["same_bits"]


DRIVER_ERROR = "[12:00:00.123][77][CUDA][E] Returning 900 (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) from cuGraphExecDestroy"


@pytest.mark.parametrize("status", [0, 3])
def test_the_driver_call_that_failed_is_in_the_record_of_a_failed_step(tmp_path, stand_ins, status):
    tree = tree_of_vectors(tmp_path, f"""echo "{DRIVER_ERROR}" >>"$CUDA_LOG_FILE"
echo '{{"runs": 1, "wrong": 0, "different": 0}}'
exit {status}
""")
    step = by_name(check(tmp_path, "--tree", str(tree), "--assume-gpu", "--only", "gpt_kernels", **stand_ins))["gpt_kernels"]
    assert step["ok"] == (status == 0) and step["driver_errors"] == (DRIVER_ERROR + "\n" if status else "")


def test_a_signal_leaves_what_was_done_and_ends_what_runs(tmp_path, stand_ins):
    tree = tree_of_vectors(tmp_path, f"echo $$ >'{tmp_path}/pid.new'; mv '{tmp_path}/pid.new' '{tmp_path}/pid'; exec sleep 100\n")
    out, pid = tmp_path / "record.json", tmp_path / "pid"
    with subprocess.Popen(["nohup", sys.executable, str(CHECK), "--tree", str(tree), "--assume-gpu", "--only", "device,gpt_kernels,plan", "--out", str(out)],
                          cwd=tmp_path, env=clean_env(**stand_ins), text=True, stdout=subprocess.PIPE) as p:
        wait_until(pid.exists, "the start of gpt_vectors", 20)
        p.send_signal(signal.SIGHUP)  # which nohup makes it ignore
        p.send_signal(signal.SIGTERM)
        said = p.communicate(timeout=20)[0]
    record = json.loads(said)
    check_schema(record)
    assert p.returncode == 1 and record == json.loads(out.read_text())
    steps = by_name(record)
    assert set(steps) == {"device", "gpt_kernels"} and steps["device"]["ok"] and steps["gpt_kernels"]["note"] == "SIGTERM ended the check"
    wait_until(lambda: not Path(f"/proc/{int(pid.read_text())}").exists(), "the end of gpt_vectors", 5)


def record_with(tmp_path, name, failed):
    (tmp_path / name).write_text(json.dumps({"summary": {"failed": failed}}))
    return str(tmp_path / name)


def test_failed_steps_are_repeated_with_all_logs(tmp_path, stand_ins):
    tree = tree_of_vectors(tmp_path, """: >"${NCCL_DEBUG_FILE%.%p}"; echo $NCCL_DEBUG $DROVER_LOG >"$CUDNN_LOGDEST_DBG"; echo why >"$CUDA_LOG_FILE"
echo no luck >&2
exit 1
""")
    records = [record_with(tmp_path, "a.json", ["gpt_kernels"]), record_with(tmp_path, "b.json", ["conform_2"])]
    record = check(tmp_path, "--tree", str(tree), "--assume-gpu", "--part", "failed", "--of", *records, **stand_ins)
    check_schema(record)
    assert list(by_name(record)) == ["device", "program", "build", "libraries", "gpt_kernels", "one_gpu_2", "conform_2"]
    step, logs = by_name(record)["gpt_kernels"], tmp_path / "record.logs/gpt_kernels"
    assert not step["ok"] and step["driver_errors"] == "why\n"
    names = {re.sub(r"^\d+\.gpt_vectors\.", "", p.name): p for p in logs.iterdir()}
    assert names.keys() == {"txt", "cuda", "cudnn", "nccl"} and names["cudnn"].read_text() == "INFO debug\n"
    assert "gpt_vectors" in names["txt"].read_text() and "# status 1\n" in names["txt"].read_text() and "no luck" in names["txt"].read_text()
    assert (tmp_path / "record.logs/device").is_dir()


def test_without_a_failed_step_nothing_is_repeated(tmp_path):
    for given, status, says in (([record_with(tmp_path, "a.json", [])], 0, "no step failed"), ([str(tmp_path / "none.json")], 2, "none.json: No such file"),
                                ([str(CHECK)], 2, "not a record"), ([], 2, "--of FILE")):
        done = subprocess.run([sys.executable, str(CHECK), "--tree", str(BUILD), "--part", "failed", *(["--of", *given] if given else [])],
                              cwd=tmp_path, text=True, capture_output=True, timeout=20, check=False)
        assert done.returncode == status and says in done.stderr, done.stderr
    assert not (tmp_path / "gpu-check-failed.json").exists()


def test_the_parts_have_all_steps_and_their_limits_are_above_what_an_h100_took():
    m = module()
    def names(**o):
        return [[s.name for s in steps] for steps in m.plan(type("Options", (), {"only": None, "part": None, **o}))]
    (one,), (two,), both = names(part="1"), names(part="2"), names()
    first = [s.name for s in m.STEPS if s.part == 0]
    assert one[:len(first)] == two[:len(first)] == first and set(one) & set(two) == set(first)
    assert both == [one, two[len(first):]] and set(one) | set(two) == {s.name for s in m.STEPS}
    took = {}
    for record in (ROOT / "docs/measurements").glob("h100-check-*.json"):
        for s in json.loads(record.read_text())["steps"]:
            took[s["name"]] = max(s["s"], took.get(s["name"], 0))
    assert len(took) > 20
    for s in m.STEPS:
        assert s.limit_s >= 1.3 * took.get(s.name, 0) and (s.limit_s <= 3 * took.get(s.name, 99) or s.limit_s <= 40), s.name
    for part in (one, two):
        assert sum(took.get(name, 0) for name in part) < m.PART_S < 240 - 6


def test_the_page_has_each_step_with_its_part_and_its_limit():
    told = {}
    for names, parts, limits in re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| ([012, ]+) \| ([\d, ]+) \|", (ROOT / "docs/gpu-check.md").read_text(), re.M):
        names, parts, limits = re.findall(r"\w+", names), parts.split(", "), limits.split(", ")
        for i, name in enumerate(names):
            told[name] = int(parts[i % len(parts)]), int(limits[i % len(limits)])
    assert told == {s.name: (s.part, s.limit_s) for s in module().STEPS}


MODELS = """#!/bin/sh
case $* in
*model_memory.py*) exec {python} {write} "$2" "$3" ;;
*transformers*) exit {missing} ;;
*"import torch"*) exit 0 ;;
esac
exit 1
"""
WRITE = """import json, os, sys
from pathlib import Path
out, folder = sys.argv[1:]
Path(folder).mkdir()
gpt2 = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 50257, "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024}
with open(out, "w") as f:
    print(json.dumps({"context_mib": 610, "torch": "2", "transformers": "5", "import_s": 1}), file=f)
    for case, mode, used, error in (("gpt2", "amp", 16.5, None), ("large", "pure", float(os.environ["FAKE_USED"]), None), ("none", "amp", 1, os.environ.get("FAKE_ERROR"))):
        if case == "none" and not error:
            continue
        (Path(folder) / f"{case}.json").write_text(json.dumps(gpt2))
        print(json.dumps({"case": case, "b": 16, "s": 1024, "mode": mode, "recompute": False, "params": 124439808, "alloc_gib": used - 1,
                          "reserved_gib": used - 0.6, "used_gib": used, "error": error}), file=f)
"""


def models(tmp_path, stand_ins, missing=0, **env):
    """-> (the step model_memory, the lines that it wrote), with a Python that only says what it measured"""
    (tmp_path / "write.py").write_text(WRITE)
    python = Path(stand_ins["CUDA_HOME"]) / "bin/python3"
    python.write_text(MODELS.format(python=sys.executable, write=tmp_path / "write.py", missing=missing))
    python.chmod(0o755)
    record = check(tmp_path, "--assume-gpu", "--only", "model_memory", **stand_ins, **env)
    lines = tmp_path / "record-memory.jsonl"
    return by_name(record)["model_memory"], [json.loads(line) for line in lines.read_text().splitlines()] if lines.exists() else []


def test_the_memory_of_models_is_compared_with_the_estimate(tmp_path, stand_ins):
    step, lines = models(tmp_path, stand_ins, FAKE_USED="14")
    assert step["ok"], step
    assert step["metrics"]["file"] == "record-memory.jsonl" and step["metrics"]["gpt2"]["used_gib"] == 16.5
    recorded = [json.loads(line) for line in (ROOT / "docs/measurements/h100-memory.jsonl").read_text().splitlines()]
    assert [set(line) for line in lines] == [set(line) for line in (recorded[0], recorded[1], recorded[1])]
    assert lines[1]["est_params"] == 124439808 and set(lines[1]["parts"]) >= set(recorded[1]["parts"])
    amp, pure = lines[1:]
    assert pure["parts"]["master weights"] == [0, 0] != amp["parts"]["master weights"]
    step, lines = models(tmp_path, stand_ins, FAKE_USED="99", FAKE_ERROR="OutOfMemoryError: none left")
    assert not step["ok"] and step["note"].startswith("large: 99.0 GiB are used, but `drover estimate` says ")
    assert step["note"].endswith("; none: OutOfMemoryError: none left") and len(lines) == 4


def test_the_models_are_those_of_the_record(tmp_path):
    """By the number of parameters that was counted on the H100; PyTorch and transformers are not needed for that."""
    module()
    from gpu_check.model_memory import CASES, FIVE  # pylint: disable=import-outside-toplevel
    recorded = {line["case"]: line for line in map(json.loads, (ROOT / "docs/measurements/h100-memory.jsonl").read_text().splitlines()[1:])}
    assert CASES.keys() == recorded.keys() and len(FIVE) == 5
    for name, (kind, told, model, batch, tokens, mode, recompute) in CASES.items():
        line = recorded[name]
        assert (batch, tokens, mode, recompute) == (line["b"], line["s"], line["mode"], line["recompute"])
        defaults = {"vocab_size": 50257, "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024} if kind == "GPT2Config" else {}
        if kind == "BertConfig":
            defaults = {"vocab_size": 30522, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
                        "max_position_embeddings": 512, "type_vocab_size": 2}
        config = tmp_path / f"{name}.json"
        config.write_text(json.dumps({"model_type": kind.removesuffix("Config").lower(), "architectures": [model], **defaults, **told}))
        got = subprocess.run([BUILD / "bin/drover", "estimate", config, "--json"], text=True, capture_output=True, timeout=20, check=True).stdout
        assert json.loads(got)["model"]["params"] == line["params"], name


def test_without_transformers_the_memory_of_models_is_skipped(tmp_path, stand_ins):
    step, lines = models(tmp_path, stand_ins, missing=1)
    assert step["skipped"] and step["note"].endswith("/python3 has no transformers") and lines == []


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
    assert record["summary"]["failed"] == ["conform", "bench", "plan"]
    note = steps["bench"]["note"]
    assert note.startswith("types: drover bench all_reduce: status 1: ") and "1 wrong element;" in note, note
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
    binary.write_text(f"""#!/bin/sh
echo $* >>'{tmp_path}/rounds'
for size in 1048576; do
    echo "  $size  $((size / 4))  float  sum  -1  0.001  1.0  0.0  N/A  0.001  1.0  0.0  N/A"
done
""")
    binary.chmod(0o755)
    record = check(tmp_path, "--assume-gpu", "--only", "nccl_tests", "--nccl-tests", str(tmp_path), "--quick",
                   **stand_ins)
    step = by_name(record)["nccl_tests"]
    assert step["note"].startswith("bench's time by nccl-tests'") and "1048576" in step["note"]
    assert step["metrics"]["ratio"]["1048576"] > 1.03 and step["metrics"]["rounds"] == len((tmp_path / "rounds").read_text().splitlines()) == 7
    record = check(tmp_path, "--assume-gpu", "--only", "nccl_tests", **stand_ins)
    assert by_name(record)["nccl_tests"] | {"s": 0} == {"name": "nccl_tests", "ok": False, "skipped": True, "s": 0, "metrics": {}, "driver_errors": "",
                                                        "note": "--nccl-tests DIR was not given"}


def module():
    if str(CHECK.parent) not in sys.path:
        sys.path.insert(0, str(CHECK.parent))
    loader = importlib.machinery.SourceFileLoader("gpu_check_script", str(CHECK))
    spec = importlib.util.spec_from_loader("gpu_check_script", loader)
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
    step = m.do(c, m.Step("hang", 1, 3, hang), began + 60)
    assert 2.5 < time.monotonic() - began < 10
    assert not step["ok"] and not step["skipped"] and "drover run -np: no end after 3 s" in step["note"]
    for rank in (0, 1):
        pid = int((tmp_path / f"pid.{rank}").read_text())
        wait_until(lambda pid=pid: not Path(f"/proc/{pid}").exists(), f"the end of rank {rank}", 5)
    assert m.do(c, m.Step("late", 1, 3, hang), time.monotonic() + 1)["skipped"]


def test_neither_what_cannot_be_ended_nor_an_answer_that_nobody_expects_ends_the_check(tmp_path):
    m = module()
    c = m.Check(BUILD, tmp_path, type("Options", (), {"assume_gpu": False, "quick": True}))
    began = time.monotonic()
    step = m.do(c, m.Step("held", 1, 2, lambda c: c.run("sh", "-c", "setsid sh -c 'echo $$ >pid; exec sleep 60' & exec sleep 60")), began + 60)
    os.kill(int((tmp_path / "pid").read_text()), 9)
    assert not step["ok"] and "cannot be ended" in step["note"] and time.monotonic() - began < 20

    def odd(c):
        c.metrics["before"] = 1
        return None.nothing
    step = m.do(c, m.Step("odd", 1, 3, odd), time.monotonic() + 60)
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
    for options in (["--only", "nosuch"], ["--nosuch"], ["--tree", str(tmp_path)], ["--part", "3"], ["--part", "1", "--only", "cpu"], ["--of", "a.json"]):
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
