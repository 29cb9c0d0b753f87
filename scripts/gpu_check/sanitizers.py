"""Steps of scripts/gpu-check: compute-sanitizer over the trainers, and over faults that it has to report."""
import glob
import os
import re
import shutil

from gpu_check.kit import HERE, TRAINERS, Failed, Skipped, last_words, need
from gpu_check.machine import site
from gpu_check.trainers import KINDS

# NVIDIA's kernels: none of ours, and racecheck needs minutes for them. Each is a part of their mangled names.
VENDOR = ("cublas", "cutlass", "xmma", "nvjet", "gemm", "gemv", "splitK", "cudnn", "fmha")
OURS = [f"--kernel-name-exclude=kns={name}" for name in VENDOR]
ALL, ONE = ("tiny", 2, ("gpt_bf16", "gpt_fp32", "digits")), ("least", 1, ("gpt_bf16",))  # shape, steps, trainings
# Each tool: the fault of tests/cudahost/planted.cc that it has to report, how it does, the trainings, its options.
TOOLS = {
    # Errors that cuBLAS's own calls get, and deal with, are none of ours.
    "memcheck": ("bounds", r"Invalid __global__ write", ALL, ["--report-api-errors", "no"]),
    "racecheck": ("race", r"Race reported|hazard", ONE, OURS),
    "synccheck": ("barrier", r"Barrier error|Divergent thread", ONE, OURS),
    "initcheck": ("unwritten", r"Uninitialized __global__ memory read", ONE, OURS),
}


def find(c):
    """compute-sanitizer: the bundle's, whose version is known, or the toolkit's, PATH's, or a wheel's."""
    wheels = (f"{site(c)}/nvidia/*/compute-sanitizer", f"{HERE}/build/sanitizer/lib/python3*/site-packages/nvidia/*/compute-sanitizer")
    folders = (f"{c.tree}/libexec/compute-sanitizer", f"{os.environ.get('CUDA_HOME', '/usr/local/cuda')}/bin", c.env["PATH"],
               *(folder for wheel in wheels for folder in glob.glob(wheel)))
    program = shutil.which("compute-sanitizer", path=":".join(folders))
    if not program:
        raise Skipped("compute-sanitizer is not installed, and the bundle has none")
    return program


def trainings(c, shape, steps):
    """{name: (trainer, its options)}"""
    gpt = [*c.shape(shape)[1], f"--steps={steps}", "--device=cuda"]
    return {"gpt_bf16": ("gpt", [*gpt, "--precision=bf16"]), "gpt_fp32": ("gpt", gpt),
            "digits": ("digits", [*KINDS["gelu"], "--epochs=1", "--batch=400", "--device=cuda"])}


def sanitizer(c, tool):
    """A tool of compute-sanitizer reports a planted fault, and nothing in the trainers."""
    c.needs_gpu()
    fault, report, (shape, steps, names), options = TOOLS[tool]
    command = (find(c), "--tool", tool, *options, "--error-exitcode", 9)
    if c.planted:
        done = c.run(*command, c.planted, fault, ok=None, limit_s=20)
        seen = [line.strip("= ") for line in done.out.splitlines() if re.search(report, line)]
        need(seen and done.returncode != 0, f"{tool} does not report the planted fault '{fault}': status {done.returncode}: "
             f"{last_words(done.out + done.err, 6)}")
        c.metrics["planted"] = seen[0]
    wrong, ran = [], False
    for name, (trainer, arguments) in trainings(c, shape, steps).items():
        if name not in names or not c.trainer[trainer].with_name(f"{TRAINERS[trainer][0]}.so").exists():
            continue  # the step `build` says so
        ran = True
        try:
            done = c.run(*command, c.trainer[trainer], *arguments, ok=None)
        except Failed as e:
            wrong.append(f"{name}: {e}")
            continue
        c.metrics[name] = last_words("\n".join(re.findall(r"=+ .*SUMMARY.*", done.out)), 1)
        if done.returncode != 0:
            wrong.append(f"{name}: {last_words(done.out + done.err, 6)}")
    need(ran, "no trainer's GPU library is here")
    need(not wrong, "; ".join(wrong))
    return c.metrics, "" if c.planted else "without nvcc there is no planted fault to report, so nothing shows that the tool sees kernels"
