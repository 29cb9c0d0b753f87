"""Steps of scripts/gpu-check: the machine, what is built on it, and its libraries. Each returns its metrics, or (metrics, note)."""
import concurrent.futures
import glob
import json
import os
import re
import shutil
import sys
from pathlib import Path

from gpu_check.kit import TRAINERS, Failed, last_words, need


def device(c):
    c.needs_gpu()
    def ask(fields, ok):
        done = c.run("nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits", ok=ok)
        return [dict(zip(fields, (v.strip() for v in line.split(",")))) for line in done.out.strip().splitlines()]

    gpus = ask(("name", "uuid", "driver_version", "memory.total", "memory.used", "pci.bus_id"), (0,))
    need(gpus, "nvidia-smi shows no GPU")
    metrics = {"gpus": len(gpus), **gpus[0]}
    for field in ("compute_cap", "mig.mode.current", "clocks.sm", "clocks.mem", "clocks_throttle_reasons.active",
                  "temperature.gpu", "power.draw"):  # not each driver knows each
        for row in ask((field,), None)[:1]:
            metrics.update(row)
    return metrics


def program(c):
    """That drover starts here at all; where it does not, each step that follows fails at once and says so."""
    here = os.confstr("CS_GNU_LIBC_VERSION") or "no glibc"
    done = c.run(c.drover, "--version", ok=None)
    wanted = re.findall(r"version `GLIBC_([\d.]+)' not found", done.err)
    if wanted:
        newest = max(wanted, key=lambda v: [int(n) for n in v.split(".")])
        raise Failed(f"this machine has {here}, and this drover needs glibc {newest} or younger: build it on a system as old "
                     "as this one, or check on Debian 12, Ubuntu 24.04 or younger")
    need(done.returncode == 0, f"drover --version: status {done.returncode}: {last_words(done.err or done.out)}")
    return {"glibc": here, "version": last_words(done.out)}


def plan(c):
    """What drover sees of the GPU, by its own declarations of NVML, is what nvidia-smi says."""
    c.needs_gpu()
    shown = json.loads(c.run(c.drover, "run", "-np", 1, "--dry-run", "--json", "true").out)
    rank = shown["ranks"][0]
    need(rank["gpu_uuid"], "drover sees no GPU")
    out = c.run("nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader").out
    seen = dict(reversed(line.split(", ")) for line in out.strip().splitlines())
    need(rank["gpu_uuid"] in seen, f"drover says {rank['gpu_uuid']}, nvidia-smi {', '.join(seen)}")
    need(int(seen[rank["gpu_uuid"]]) == rank["gpu"], f"drover numbers it {rank['gpu']}, nvidia-smi {seen[rank['gpu_uuid']]}")
    return {"gpu": rank["gpu"], "cpus": rank["cpus"], "mems": rank["mems"]}


def arch_of(c):
    return "-arch=sm_90" if c.options.assume_gpu else "-arch=native"


def build(c):
    """What needs nvcc: the trainer's kernels for this very GPU, and the plug-in where the bundle has none."""
    c.needs_gpu()
    metrics = {"plugin": "as it came", "kernels": "as they came", "nccl_kernels": "as they came"}
    home = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
    nvcc = shutil.which("nvcc", path=f"{home}/bin:{c.env['PATH']}")
    if not nvcc:
        missing = [f"{library}.so" for name, (library, _) in TRAINERS.items() if not c.trainer[name].with_name(f"{library}.so").exists()]
        need(not missing, f"no nvcc here, and no {', '.join(missing)} in the bundle")
        return metrics, "no nvcc: nothing is built"
    home = Path(nvcc).resolve().parent.parent
    wheels = [Path(p) for p in glob.glob(f"{site(c)}/nvidia/*")]
    if home.parent.name == "nvidia":  # the compiler is a wheel's itself
        wheels += home.parent.iterdir()
    include = [f"-I{p}/include" for p in (home, *wheels) if (p / "include").is_dir()]
    libs = [f"-L{p}" for p in (home / "lib64", home / "lib", *(w / "lib" for w in wheels)) if p.is_dir()]
    (c.work / "lib").symlink_to(c.tree / "lib")
    shared, jobs, trainers = ("-shared", "-Xcompiler", "-fPIC,-fvisibility=hidden"), [], {}
    for name, (library, blas) in TRAINERS.items():
        found = [p for flag in libs for p in sorted(glob.glob(f"{flag[2:]}/lib{blas}.so.1[0-9]"))]  # the compiler's own first
        if not found:
            continue
        folder = c.work / "examples" / name
        shutil.copytree(c.trainer[name].parent, folder, ignore=shutil.ignore_patterns("*_cuda.so", "data"))
        (folder / "data").symlink_to(c.examples / name / "data")
        jobs.append(("-lineinfo", *shared, "-o", folder / f"{library}.so", c.examples / name / f"{library}.cu", *libs, f"-l:{Path(found[0]).name}"))
        trainers[name] = folder / name
    if not (c.tree / "lib/drover/backend_nccl.so").exists():
        plugins = c.work / "plugins"
        plugins.mkdir()
        common = [c.sources / f"{name}.c" for name in ("common/dl", "common/durable", "common/entropy", "common/err", "common/file", "common/mem",
                                                       "common/log", "common/strbuf", "collectives/bootstrap/task",
                                                       "collectives/comm/cuda_loader",
                                                       "collectives/comm/collective")]
        c.run("cc", "-std=gnu17", "-D_GNU_SOURCE", "-DDROVER_BUILD", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-z,defs",
              f"-I{c.sources}", *include, "-o", plugins / "backend_nccl.so", *c.sources.glob("collectives/backends/nccl/*.c"),
              *common, "-ldl", "-lpthread")
        c.env["DROVER_PLUGIN_DIR"] = str(plugins)
        metrics["plugin"] = "built"
    kernels, planted, compilers = c.work / "nccl_kernels.so", c.work / "planted", []
    jobs += [(*shared, "-o", kernels, c.sources / "collectives/backends/nccl/nccl_kernels.cu"),
             ("-lineinfo", "-o", planted, "-x", "cu", c.sources / "tests/cudahost/planted.cc", *libs)]
    with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:  # one core each; the largest takes most of the time
        for job in jobs:
            compilers.append(pool.submit(c.run, nvcc, "-O3", arch_of(c), "-std=c++17", f"-I{c.sources}", f"-I{c.examples.parent}", *include, *job))
    for compiler in compilers:
        compiler.result()
    c.env["DROVER_NCCL_KERNELS"], c.planted = str(kernels), planted
    c.trainer.update(trainers)
    metrics.update(nccl_kernels="built", **({"kernels": "built"} if trainers else {}))
    return metrics


def libraries(c):
    """That NCCL and CUDA are found; if not by drover itself, the steps that follow are told of Python's wheels."""
    c.needs_gpu()
    command = (c.drover, "bench", "all_reduce", "-np", 1, "--backend", "nccl", "--json", "-b", 8, "-e", 8, "-n", 1, "-c", 0)
    done = c.run(*command, ok=None)
    if done.returncode == 0:
        return {"library": json.loads(done.out)["library"], "found_by": "drover"}
    folders = glob.glob(f"{site(c)}/nvidia/*/lib")
    missing = "was found on the loader's path" in done.err
    if not missing and "NCCL" in done.err:  # as in a virtual machine that keeps the driver's virtual memory from it
        again = c.run(*command, ok=None, NCCL_CUMEM_ENABLE="0")
        if again.returncode == 0:
            c.env["NCCL_CUMEM_ENABLE"] = "0"
            return ({"library": json.loads(again.out)["library"], "found_by": "drover", "cumem": "off"},
                    f"only with NCCL_CUMEM_ENABLE=0, as all that follows: {last_words(done.err)}")
    if not missing or not folders:
        raise Failed(last_words(done.err or done.out) or f"drover bench: status {done.returncode}")
    c.env["LD_LIBRARY_PATH"] = ":".join([*folders, c.env.get("LD_LIBRARY_PATH", "")]).rstrip(":")
    return {"library": json.loads(c.run(*command).out)["library"], "found_by": "LD_LIBRARY_PATH"}, last_words(done.err)


def site(c):
    """The folder of Python's packages that has NVIDIA's wheels, or one that is not there."""
    code = "import site, sys; print(*site.getsitepackages(), site.getusersitepackages(), *sys.path, sep='\\n')"
    for program in ("python3", sys.executable):
        done = c.run(program, "-c", code, ok=None, limit_s=10)
        for folder in done.out.splitlines():
            if folder and os.path.isdir(f"{folder}/nvidia"):
                return folder
    return "/nonexistent"
