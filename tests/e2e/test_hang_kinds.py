"""Kinds of hang of unmodified programs: `drover run --hang-timeout` names the culprit and the class, and healthy jobs end.
tests/hang/kinds.py has all kinds; here are some of each sort, with another number of ranks and another victim each time."""
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "hang"))
from kinds import judge

if not shutil.which("mpirun"):
    pytest.skip("Open MPI is not installed", allow_module_level=True)
HAS_TORCH = subprocess.run(["/usr/bin/python3", "-c", "import torch.distributed"], check=False, stderr=subprocess.DEVNULL).returncode == 0

SOME = ["rank sleeps, MPI", "reads a FIFO", "worker reads a FIFO", "flock", "SIGSTOP", "traceback, does not end",
        "connection is not answered", "subprocess.run does not end", "download without time limit", "disk is full",
        "GPU: rank sleeps", "GPU: two ranks share one, one sleeps", "GPU: all wait",
        "RAS: rank is behind", "RAS: rank has finalised"]
HEALTHY = ["rank 0 evaluates, MPI", "rank 0 writes a checkpoint", "rank 0 compiles in child processes",
           "one GPU works, others wait"]


@pytest.mark.parametrize("kind", SOME)
def test_the_culprit_and_the_class_of_a_hang_are_named(kind):
    r = judge(kind, 1)
    assert r["found"] and r["status"] == 124, r["text"]
    assert (r["class"], r["culprits"]) == (r["want_class"], r["want"]), r["text"]
    assert f"the job hangs: {r['verdict']} [{r['class']}]" in r["text"]


@pytest.mark.skipif(not HAS_TORCH, reason="python3-torch is not installed")
def test_a_rank_of_gloo_that_reads_a_file_is_named():
    r = judge("reads a FIFO, gloo", 1)
    assert (r["class"], r["culprits"]) == ("input", r["want"]), r["text"]


@pytest.mark.parametrize("kind", HEALTHY)
def test_a_job_in_which_some_ranks_wait_for_work_does_not_hang(kind):
    r = judge(kind, 1)
    assert not r["found"] and r["status"] == 0, r["text"]
