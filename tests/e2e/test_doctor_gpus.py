"""`drover doctor` on machines with GPUs: NVML's stand-in reports them, and their files are those of an empty root."""
import json
import os
import subprocess

import pytest
from kit_ranks import BUILD

GROUPS = "drv.", "gpu.", "link."


def doctor(tmp_path, machine, *args):
    (tmp_path / "machine").write_text(machine)
    (tmp_path / "root").mkdir()
    env = {**os.environ, "DROVER_NVML_LIB": str(BUILD / "tests/fake/libnvidia-ml.so.1"),
           "DROVER_FAKE_NVML": str(tmp_path / "machine"), "DROVER_SYSROOT": str(tmp_path / "root")}
    env.pop("CUDA_VISIBLE_DEVICES", None)
    p = subprocess.run([BUILD / "bin/drover", "doctor", "--json", *args], env=env, capture_output=True, text=True,
                       timeout=60)
    report = json.loads(p.stdout)
    checks = {c["id"]: c for c in report["nodes"][0]["checks"] if c["id"].startswith(GROUPS)}
    return p.returncode, report, checks


def test_healthy_gpus_have_no_fault(tmp_path):
    _, report, checks = doctor(tmp_path, "gpus 8\n")
    assert {c["state"] for c in checks.values()} == {"ok", "skip"}
    assert not any(cause.startswith(GROUPS) for cause in report["cause"])
    assert checks["gpu.count"]["value"] == "8 GPUs"
    assert checks["gpu.same"]["value"].startswith("8 x NVIDIA H100 80GB HBM3, VBIOS ")


@pytest.mark.parametrize("line, check, value, advice", [
    ("gpu 3 remap_pending 1", "gpu.remap", "GPU 3: the remapping of a row is pending", "when the node is free"),
    ("gpu 0 temperature error 15", "gpu.answers", "GPU 0: nvmlDeviceGetTemperature: GPU_IS_LOST", "--gpu-reset"),
    ("gpu 2 temperature hang", "gpu.answers", "GPU 2: nvmlDeviceGetTemperature does not answer", "restart the machine"),
    ("system init error 18", "drv.match", "another version than the kernel module", "restart the machine"),
    ("gpu 3 nvlink5 down", "link.nvlink", "GPU 3: link 5 is inactive", "nvidia-smi nvlink -s"),
])
def test_a_fault_is_the_cause_and_what_needs_its_check_is_skipped(tmp_path, line, check, value, advice):
    status, report, checks = doctor(tmp_path, f"gpus 8\n{line}\n")
    assert status == 1
    assert [cause for cause in report["cause"] if cause.startswith(GROUPS)] == [check]
    assert [c for c in checks if checks[c]["state"] in ("warn", "fail")] == [check]
    assert value in checks[check]["value"]
    assert advice in checks[check]["advice"]


def test_all_commands_have_one_figure_of_memory_in_use(tmp_path):
    (tmp_path / "machine").write_text("gpus 1\ngpu 0 reserved 600\ngpu 0 process 0 6000\n")
    env = {**os.environ, "DROVER_NVML_LIB": str(BUILD / "tests/fake/libnvidia-ml.so.1"),
           "DROVER_FAKE_NVML": str(tmp_path / "machine")}
    env.pop("CUDA_VISIBLE_DEVICES", None)

    def drover(*args):
        return subprocess.run([BUILD / "bin/drover", *args], env=env, capture_output=True, text=True, timeout=60).stdout

    used = 6005 << 20  # 5 MiB without a process, and not the 600 that the driver reserves
    assert json.loads(drover("topo", "--inventory", "--json"))["gpus"][0]["used_bytes"] == used
    assert json.loads(drover("top", "--json"))["gpus"][0]["memory_used_bytes"] == used
    _, _, checks = doctor(tmp_path, (tmp_path / "machine").read_text())
    assert checks["gpu.busy"]["value"].startswith("GPU 0: 6005 MiB in use without a visible process")
