"""For tests that start ranks: where the build is, a clean environment, and mpirun's usual words."""
import contextlib
import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("DROVER_BUILD", ROOT / "build" / "dev")).resolve()
FAKE_NCCL = BUILD / "tests" / "fake" / "nccl.so"
WHEELS = next(ROOT.glob("build/cuda/lib/python3*/site-packages/nvidia"), Path("/none"))  # scripts/setup --with-cuda
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
_RANK = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK")


def clean_env(**more):
    """This environment without what a launcher around the tests may have put there."""
    env = {k: v for k, v in os.environ.items() if k not in _RANK and
           not k.startswith(("OMPI_", "PMIX_", "PMI_", "SLURM_", "DROVER_"))}
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    env["ASAN_OPTIONS"] = "detect_leaks=0"  # Open MPI and libpmix leave memory behind when they end …
    env["TSAN_OPTIONS"] = "detect_deadlocks=0"  # … and Open MPI locks in two orders while it connects
    return {**env, **more}


def under_mpirun(ranks, argv, env):
    """The command line; `env` is passed on to the ranks."""
    return [*MPIRUN, "-np", str(ranks), *(x for name in env for x in ("-x", name)), *map(str, argv)]


@contextlib.contextmanager
def started(args, env=None, **how):
    """A running program, which ends here with its ranks: after a failed assertion, `with Popen()` would wait for an endless one."""
    how = {"text": True, "stdout": subprocess.PIPE, "env": env or clean_env(), **how}
    with subprocess.Popen([str(a) for a in args], **how) as job:
        try:
            yield job
        finally:
            job.terminate()  # at which a launcher ends its ranks
            with contextlib.suppress(subprocess.TimeoutExpired, ValueError):  # ValueError: a pipe was closed
                job.communicate(timeout=20)
            job.kill()


def build_client_programs(d):
    """Into directory `d`, as a user would: from the headers that are installed and libdrover."""
    for header in ("launcher/client/client.h", "collectives/drover.h"):
        shutil.copy(ROOT / header, d)
    sanitize = BUILD.name.startswith("san-") and re.match(r"san-(.*?)(-clang)?$", BUILD.name).group(1).replace("-", ",")
    compiler = "clang" if BUILD.name.endswith("clang") else "gcc"
    for name in ("comm_check", "comm_flight", "comm_missing", "comm_shrink", "comm_slow", "comm_stuck"):
        subprocess.run([compiler if sanitize else "gcc", "-Wall", "-Wextra", "-Werror", f"-I{d}",
                        *([f"-fsanitize={sanitize}"] if sanitize else []), str(ROOT / f"tests/e2e/progs/{name}.c"),
                        "-o", str(d / name), f"-L{BUILD}/lib", f"-Wl,-rpath,{BUILD}/lib", "-ldrover"], check=True)
    return d
