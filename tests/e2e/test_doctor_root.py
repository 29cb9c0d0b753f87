"""`drover doctor` reads a recorded machine only below its root, and does not wait for what hangs."""
import json
import os
import re
import shutil
import subprocess
import time

import pytest
from conftest import BUILD, DROVER

PERF = "DROVER_TEST_PERF" in os.environ
LIBRARY = r"/(usr/|usr/local/)?lib(32|64)?/.*|.*\.so(\.\d+)*|/etc/ld\.so\.(cache|preload)|.*/lib/bundled/.*"
PROCESS = r"/dev/(null|urandom)|/proc/self/(exe|fd/\d+|maps)|/usr/share/zoneinfo/.*|.*/locale.*|/usr/lib/ssl/.*"
# What drover itself may use on this machine, not what a check reads: hwloc, the cache of its result, and the cgroup.
TOPOLOGY = (r"/proc/self/(cgroup|cpuset|status)|/?/proc/mounts|/proc/sys/kernel/random/boot_id|/sys/fs/cgroup/.*"
            r"|/sys/devices/system/(cpu|node)/.*|/sys/bus/.*|.*/cache/.*|topology-.*\.xml")
ALLOWED = re.compile("|".join((LIBRARY, PROCESS, TOPOLOGY)))


def doctor(tmp_path, *args, wrap=(), env=None):
    env = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), **(env or {})}
    began = time.monotonic()
    p = subprocess.run([*wrap, DROVER, "doctor", "--json", *args], env=env, capture_output=True, text=True, timeout=60,
                       stdin=subprocess.DEVNULL, check=False)
    assert p.returncode in (0, 1), p.stderr
    return {c["id"]: c for c in json.loads(p.stdout)["nodes"][0]["checks"]}, time.monotonic() - began


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
@pytest.mark.skipif("san-" in BUILD.name, reason="sanitizers read /proc")
def test_no_path_outside_the_recorded_root_is_opened(tmp_path):
    root, trace = tmp_path / "root", tmp_path / "trace"
    (root / "proc").mkdir(parents=True)
    (root / "proc/meminfo").write_text("MemTotal: 1000000 kB\nMemAvailable: 900000 kB\n")
    env = {"DROVER_SYSROOT": str(root)}
    doctor(tmp_path, env=env)  # fills the cache of the topology
    doctor(tmp_path, "--", "/bin/true", wrap=("strace", "-f", "-qq", "-e", "trace=open,openat", "-o", str(trace)), env=env)
    opened = set(re.findall(r'(?:open|openat)\([^"]*"([^"]*)"', trace.read_text()))
    assert any(path.startswith(str(root)) for path in opened)
    outside = {p for p in opened if not p.startswith((str(root), str(tmp_path / ".nccl.conf"), "/bin/true"))}
    assert not (found := sorted(p for p in outside if not ALLOWED.fullmatch(p))), found


def can_mount():
    return (os.geteuid() == 0 and os.access("/dev/fuse", os.R_OK | os.W_OK) and shutil.which("bindfs") and
            subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode == 0)


@pytest.mark.skipif(not can_mount(), reason="no bindfs, no /dev/fuse, or no namespaces")
def test_a_file_system_that_does_not_answer_is_named_at_the_deadline(tmp_path):
    line = (f"cd {tmp_path}; mkdir from to; bindfs -f from to & until mountpoint -q to; do sleep 0.02; done; "
            'kill -STOP $!; exec "$@"')
    checks, took_s = doctor(tmp_path, wrap=("unshare", "-m", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", line, "sh"))
    assert checks["host.nfs_hang"]["state"] == "fail" and "/to" in checks["host.nfs_hang"]["value"], checks["host.nfs_hang"]
    assert checks["store.ok"]["state"] == "skip"  # those that follow are run
    assert took_s < 3 or not PERF


@pytest.mark.parametrize("fault, check", [("system init hang", "drv.loads"), ("gpu 3 handle hang", "gpu.answers"),
                                          ("gpu 5 power hang", "gpu.answers")])
def test_a_driver_that_does_not_answer_is_named_at_the_deadline(tmp_path, fault, check):
    (tmp_path / "machine").write_text(f"gpus 8\n{fault}\n")
    checks, took_s = doctor(tmp_path, env={"DROVER_NVML_LIB": str(BUILD / "tests/fake/libnvidia-ml.so.1"),
                                           "DROVER_FAKE_NVML": str(tmp_path / "machine"), "DROVER_SYSROOT": str(tmp_path)})
    assert checks[check]["state"] == "fail" and "answer" in checks[check]["value"]
    assert [c for c in checks if c.startswith(("drv.", "gpu.", "link.")) and checks[c]["state"] == "fail"] == [check]
    assert all(c["ms"] < 1500 for c in checks.values())
    assert took_s < 3 or not PERF
