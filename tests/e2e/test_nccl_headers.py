"""scripts/check-nccl-headers compiles the plug-in against a wheel's headers: here a wheel made of the headers at hand."""
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from kit_ranks import ROOT, clean_env

CUDA = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
HEADER = next((p for p in (CUDA / "include/nccl.h", Path("/usr/include/nccl.h")) if p.exists()), None)
pytestmark = pytest.mark.skipif(not HEADER or not (CUDA / "include/cuda_runtime.h").exists() or not shutil.which("cc"),
                                reason="no headers of NCCL and CUDA, or no compiler")


def wheel(folder, text):
    path = folder / "nvidia_nccl_cu13-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("nvidia/nccl/include/nccl.h", text)
    return path


def check(path):
    return subprocess.run([sys.executable, str(ROOT / "scripts/check-nccl-headers"), str(path)], env=clean_env(CUDA_HOME=str(CUDA)),
                          text=True, capture_output=True, timeout=120, check=False)


def test_the_plug_in_compiles_with_the_headers_at_hand(tmp_path):
    done = check(wheel(tmp_path, HEADER.read_text()))
    assert done.returncode == 0 and done.stdout.endswith(".whl: ok\n"), done.stdout + done.stderr


def test_headers_without_a_function_that_the_plug_in_needs_fail(tmp_path):
    done = check(wheel(tmp_path, HEADER.read_text().replace("ncclCommSplit", "ncclCommOther")))
    assert done.returncode == 1 and done.stdout.endswith(".whl: failed\n") and "ncclCommSplit" in done.stderr
