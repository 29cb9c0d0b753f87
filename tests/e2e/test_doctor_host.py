"""`drover doctor`: the checks of a machine and its programs under real limits, in namespaces, and with stub libraries."""
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import DROVER, compile_c
from sweep_kit import Place
from waiting import wait_until


def can(*words):
    return shutil.which(words[0]) and subprocess.run(words, capture_output=True, check=False).returncode == 0


needs_mounts = pytest.mark.skipif(not can("unshare", "-m", "true"), reason="no mount namespaces")
needs_network = pytest.mark.skipif(not can("unshare", "-n", "ip", "link", "add", "v0", "type", "veth", "peer", "name", "v1"),
                                   reason="no network namespaces, or no ip")


@pytest.fixture(name="doctor")
def use_doctor(drover):
    """doctor(options, wrap=words before the program) returns the checks by id."""
    drover.env = {k: v for k, v in drover.env.items() if not k.startswith(("NCCL_", "CUDA_", "LD_LIBRARY_PATH"))}

    def run(*args, wrap=(), env=None):
        done = subprocess.run([*wrap, DROVER, "doctor", "--json", *map(str, args)], cwd=drover.cwd, text=True, timeout=60,
                              stdin=subprocess.DEVNULL, capture_output=True, env={**drover.env, **(env or {})}, check=False)
        assert done.returncode in (0, 1), done.stderr
        checks = {c["id"]: c for c in json.loads(done.stdout)["nodes"][0]["checks"]}
        assert done.returncode == any(c["state"] == "fail" for c in checks.values())
        return checks
    return run


def shell(line, *kinds):
    """Words that run a line of a shell in new namespaces, and then the program."""
    return ("unshare", *kinds, "sh", "-ec", f'{line}; exec "$@"', "sh")


def judged(check, state, value, advice=""):
    assert check["state"] == state, check
    assert value in check["value"] and advice in (check["advice"] or ""), check


# ---- limits -----------------------------------------------------------------------------------------------------------


def test_a_low_limit_of_open_files_fails(doctor):
    judged(doctor("-N", 1, wrap=("prlimit", "--nofile=1000"))["host.nofile"], "fail", "1000", "65536")
    judged(doctor("-N", 15, wrap=("prlimit", "--nofile=2000"))["host.nofile"], "warn", "2000")
    judged(doctor("-N", 16, wrap=("prlimit", "--nofile=2000"))["host.nofile"], "fail", "2000")


def test_more_ranks_than_cpus_fail(doctor):
    one = ("taskset", "-c", str(min(os.sched_getaffinity(0))))
    judged(doctor("-N", 1, wrap=one)["host.cpus"], "ok", "1")
    judged(doctor("-N", 2, wrap=one)["host.cpus"], "fail", "1", "start at most 1 rank,")


@needs_mounts
def test_a_small_dev_shm_warns_and_fails_with_more_ranks(doctor):
    small = shell("mount -t tmpfs -o size=64m none /dev/shm", "-m")
    judged(doctor("-N", 1, wrap=small)["host.shm"], "warn", "64 MiB free of 64 MiB", "--shm-size=1g")
    judged(doctor("-N", 2, wrap=small)["host.shm"], "fail", "64 MiB", "--ipc=host")
    large = shell("mount -t tmpfs -o size=2g none /dev/shm", "-m")
    judged(doctor("-N", 2, wrap=large)["host.shm"], "ok", "2 GiB free of 2 GiB")


@needs_mounts
def test_a_segment_is_a_leftover_after_its_process_has_ended(doctor):
    shm = "mount -t tmpfs -o size=2g none /dev/shm"
    hold = 'python3 -c "import mmap; f = open(\'/dev/shm/nccl-x\', \'w+b\'); f.truncate(9); ' \
           'm = mmap.mmap(f.fileno(), 9); print(flush=True); input()"'
    used = f"mkfifo in out; {hold} <in >out & exec 9>in; read line <out"
    alone = shell(f"{shm}; {used}", "-m", "-i", "--kill-child", "--fork", "--pid", "--mount-proc")
    judged(doctor(wrap=alone)["host.shm_left"], "ok", "none")
    judged(doctor(wrap=shell(f"{shm}; echo >/dev/shm/nccl-x", "-m", "-i"))["host.shm_left"], "warn", "1 file", "rm /dev/shm/nccl-x")


def make_group(controller, files):
    """A cgroup with these limits, of version 1 or 2, or a reason to skip."""
    for base in (Path("/sys/fs/cgroup") / controller, Path("/sys/fs/cgroup")):
        leaf = base / f"drover-test-{os.getpid()}"
        try:
            leaf.mkdir()
            for name, text in files.items():
                if (leaf / name).exists():
                    (leaf / name).write_text(text)
            if any((leaf / name).exists() for name in files):
                return leaf
            leaf.rmdir()
        except OSError:
            if leaf.exists():
                leaf.rmdir()
    return pytest.skip(f"no cgroup of the controller {controller} can be made")


@pytest.mark.parametrize("controller, files, id, state, value", [
    ("pids", {"pids.max": "6"}, "host.nproc", "fail", " are left"),
    ("cpu", {"cpu.max": "100000 100000", "cpu.cfs_quota_us": "100000"}, "host.cpus", "warn", "the time of 1, throttled"),
])
def test_the_limit_of_a_cgroup_counts(doctor, controller, files, id, state, value):
    if controller == "cpu" and len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU")
    group = make_group(controller, files)
    try:
        enter = ("sh", "-ec", f'echo $$ >{group}/cgroup.procs; exec "$@"', "sh")
        judged(doctor("-N", 1, wrap=enter, env={"OMP_NUM_THREADS": "2"} if controller == "pids" else None)[id], state, value)
    finally:
        wait_until(lambda: not (group / "cgroup.procs").read_text(), "the end of the cgroup's processes")
        group.rmdir()


# ---- disks ------------------------------------------------------------------------------------------------------------


@needs_mounts
@pytest.mark.parametrize("options, fill, state, value", [
    ("size=4g", "true", "ok", ""),
    ("size=10m", "true", "fail", "10 MiB free (100.0%)"),
    ("size=4g,nr_inodes=20", "touch d/1 d/2 d/3 d/4 d/5 d/6 d/7 d/8 d/9 d/a d/b d/c d/d d/e d/f d/g d/h d/i", "warn", "inodes free"),
])
def test_a_full_disk_is_named(doctor, tmp_path, options, fill, state, value):
    (tmp_path / "d").mkdir()
    wrap = shell(f"mount -t tmpfs -o {options} none d; {fill}", "-m")
    check = doctor("--dir", tmp_path / "d", wrap=wrap)["host.disk"]
    judged(check, state, value)
    assert state == "ok" or str(tmp_path / "d") in check["value"]


@needs_mounts
def test_a_directory_whose_parent_is_missing_warns(doctor, tmp_path):
    judged(doctor("--dir", str(tmp_path / "scratch/run1"))["host.fs"], "warn", str(tmp_path / "scratch"), f"make it in {tmp_path}")
    judged(doctor("--dir", str(tmp_path / "run1"))["host.fs"], "ok", "writable")


def test_file_systems_that_cannot_be_used_fail(doctor, tmp_path):
    (tmp_path / "d").mkdir()
    read_only = shell("mount -t tmpfs -o ro none d", "-m")
    judged(doctor("--dir", "d", wrap=read_only)["host.fs"], "fail", "d: read-only file system")
    noexec = shell("mount -t tmpfs -o noexec none d; cp /bin/true d/p", "-m")
    judged(doctor("--", "d/p", wrap=noexec)["host.fs"], "fail", "noexec", "remount,exec")
    judged(doctor("--dir", "d", "--", "/bin/true")["host.fs"], "ok", "")


FUSE = """
import ctypes, os, subprocess, sys
f = os.open("/dev/fuse", os.O_RDWR)
os.set_inheritable(f, False)
libc = ctypes.CDLL(None, use_errno=True)
if libc.mount(b"nas:/export", sys.argv[1].encode(), b"fuse", 0, f"fd={f},rootmode=40000,user_id=0,group_id=0".encode()):
    sys.exit(77)
if sys.argv[2] == "dead":
    os.close(f)
sys.exit(subprocess.run(sys.argv[3:]).returncode)
"""


@needs_mounts
@pytest.mark.skipif(not os.access("/dev/fuse", os.W_OK), reason="no /dev/fuse")
@pytest.mark.parametrize("how, says", [("silent", "no answer within"), ("dead", "Transport endpoint is not connected")])
def test_a_mount_whose_server_does_not_answer_fails_and_the_other_checks_go_on(doctor, tmp_path, how, says):
    (tmp_path / "d").mkdir()
    (tmp_path / "fuse.py").write_text(FUSE)
    checks = doctor(wrap=("unshare", "-m", "python3", str(tmp_path / "fuse.py"), str(tmp_path / "d"), how))
    judged(checks["host.nfs_hang"], "fail", f"{tmp_path}/d (fuse from nas:/export): {says}")
    assert checks["host.clock"]["state"] in ("ok", "warn") and checks["soft.env"]["state"] == "ok"
    assert str(tmp_path) not in doctor()["host.nfs_hang"]["value"]  # other tests have mounts of their own


def test_a_check_that_hangs_is_named_and_the_next_ones_run(doctor, tmp_path):
    (tmp_path / "proc").mkdir()
    os.mkfifo(tmp_path / "proc/meminfo")
    checks = doctor(env={"DROVER_SYSROOT": str(tmp_path)})
    judged(checks["host.mem"], "fail", "no answer within")
    judged(checks["host.thp"], "fail", "no answer within")
    assert checks["host.oom"]["state"] == "skip" and checks["host.disk"]["value"]


# ---- network ----------------------------------------------------------------------------------------------------------

LINKS = "ip link set lo up; ip link add eth1 mtu 9000 type veth peer name p1; ip link add eth10 type veth peer name p10; " \
        "ip addr add 10.9.0.1/24 dev eth1; ip addr add 10.10.0.1/24 dev eth10; ip link set p1 up; ip link set p10 up"
UP = LINKS + "; ip link set eth1 up; ip link set eth10 up"


@needs_network
def test_an_interface_that_is_down_or_ambiguous_is_named(doctor):
    for name in ("eth1", "eth"):
        judged(doctor(wrap=shell(LINKS, "-n"), env={"NCCL_SOCKET_IFNAME": name})["net.if"], "fail", "is down")
    up = shell(UP, "-n")
    judged(doctor(wrap=up, env={"NCCL_SOCKET_IFNAME": "eth1"})["net.if"], "warn", "also means eth1,eth10", "NCCL_SOCKET_IFNAME==eth1")
    judged(doctor(wrap=up, env={"NCCL_SOCKET_IFNAME": "=eth1"})["net.if"], "ok", "eth1")
    judged(doctor(wrap=up, env={"NCCL_SOCKET_IFNAME": "^lo,eth10,p"})["net.if"], "ok", "eth1")
    judged(doctor(wrap=up, env={"NCCL_SOCKET_IFNAME": "ib"})["net.if"], "fail", "NCCL_SOCKET_IFNAME=ib: no interface")
    judged(doctor(wrap=("unshare", "-n"))["net.if"], "skip", "no interface")


@needs_network
def test_two_interfaces_in_one_network_warn(doctor):
    twice = shell(UP + "; ip addr add 10.9.0.2/24 dev eth10", "-n")
    judged(doctor("--launcher", "10.9.0.1:9", wrap=twice)["net.if"], "warn", "eth1 and eth10")


@needs_network
def test_the_way_back_says_what_stops_it(doctor):
    lines = UP + "; ip route add unreachable 10.8.0.0/16; ip neigh add 10.9.0.9 lladdr 02:00:00:00:00:09 dev eth1"
    back = {to: doctor("--launcher", f"{to}:4711", wrap=shell(lines, "-n"))["net.back"] for to in ("10.9.0.1", "10.8.0.1", "10.9.0.9")}
    judged(back["10.9.0.1"], "fail", "Connection refused", "port 4711")
    judged(back["10.8.0.1"], "fail", "No route to host", "ip route get")
    judged(back["10.9.0.9"], "fail", "a firewall drops the packets", "port 4711")


@needs_network
def test_the_mtu_is_that_of_the_interface_unless_the_path_has_a_smaller_one(doctor):
    lines = UP + "; ip route add 10.7.0.0/16 dev eth1 mtu 1400"
    judged(doctor("--launcher", "10.9.0.9:9", wrap=shell(lines, "-n"))["net.mtu"], "ok", "9000")
    judged(doctor("--launcher", "10.7.0.9:9", wrap=shell(lines, "-n"))["net.mtu"], "fail", "1400 on the path", "eth1 mtu 1400")


# ---- libraries --------------------------------------------------------------------------------------------------------


def nccl(directory, version):
    directory.mkdir(parents=True)
    compile_c(directory, "libnccl.so.2", f"int ncclGetVersion(int *v) {{ *v = {version}; return 0; }}", "cc", "-shared", "-fPIC")
    return str(directory)


def test_an_nccl_that_hides_another_version_fails(doctor, tmp_path):
    one, same, other = nccl(tmp_path / "a", 22105), nccl(tmp_path / "b", 22105), nccl(tmp_path / "c", 2708)
    judged(doctor(env={"LD_LIBRARY_PATH": one})["soft.nccl"], "ok", f"2.21.5 ({one}/libnccl.so.2)")
    judged(doctor(env={"LD_LIBRARY_PATH": f"{one}:{same}"})["soft.nccl"], "ok", "2.21.5")
    judged(doctor(env={"LD_LIBRARY_PATH": f"{one}:{other}"})["soft.nccl"], "fail", "2.7.8", "LD_LIBRARY_PATH")
    judged(doctor(env={"LD_LIBRARY_PATH": one})["net.skew"], "ok", "NCCL 2.21.5")
    Path(other, "libnccl.so.2").write_text("no library")
    judged(doctor(env={"LD_LIBRARY_PATH": other})["soft.nccl"], "fail", "cannot be loaded")


def test_the_nccl_of_a_python_program_is_that_of_its_wheel(doctor, tmp_path):
    python = tmp_path / "venv/bin/python3"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    wheel = nccl(tmp_path / "venv/lib/python3.11/site-packages/nvidia/nccl/lib", 22005)
    other = nccl(tmp_path / "other", 21903)
    judged(doctor("--", python, "-m", "x")["soft.nccl"], "ok", f"2.20.5 ({wheel}/libnccl.so.2)")
    judged(doctor("--", python, "-m", "x", env={"LD_LIBRARY_PATH": other})["soft.nccl"], "fail", "2.19.3) hides",
           f"remove {other} from it")


def mpi(prefix):
    (prefix / "bin").mkdir(parents=True)
    (prefix / "lib").mkdir()
    compile_c(prefix / "lib", "libmpi.so.99", "int MPI_Init(void) { return 0; }", "cc", "-shared", "-fPIC", "-Wl,-soname,libmpi.so.99")
    (prefix / "bin/mpirun").write_text("#!/bin/sh\n")
    (prefix / "bin/mpirun").chmod(0o755)
    return prefix


def test_the_mpirun_in_path_belongs_to_the_programs_mpi(doctor, tmp_path):
    a, b = mpi(tmp_path / "a"), mpi(tmp_path / "b")
    program = compile_c(tmp_path, "p", "int MPI_Init(void); int main(void) { return MPI_Init(); }", "cc",
                        f"{a}/lib/libmpi.so.99", f"-Wl,-rpath,{a}/lib")
    path = os.environ["PATH"]
    judged(doctor("--", program, env={"PATH": f"{a}/bin:{path}"})["soft.mpi"], "ok", f"{a}/lib/libmpi.so.99")
    judged(doctor("--", program, env={"PATH": f"{b}/bin:{path}"})["soft.mpi"], "fail", f"mpirun is {b}/bin/mpirun", "module load")
    judged(doctor("--", "/bin/true")["soft.mpi"], "skip", "no MPI")
    (a / "lib/libmpi.so.99").unlink()
    judged(doctor("--", program)["soft.mpi"], "fail", "libmpi.so.99: not found", "load the module")


def test_a_program_that_this_node_lacks_fails(doctor, tmp_path):
    judged(doctor("--", "./train")["soft.prog"], "fail", "./train: No such file")
    (tmp_path / "train").write_text("#!/bin/sh\n")
    judged(doctor("--", "./train")["soft.prog"], "fail", "Permission denied", "chmod +x ./train")
    (tmp_path / "train").chmod(0o755)
    judged(doctor("--", "./train")["soft.prog"], "ok", "./train")
    (tmp_path / "train.py").write_text("print(1)\n")
    judged(doctor("--", "train.py")["soft.prog"], "ok", "python3")  # as drover run starts it
    judged(doctor("--", "other.py")["soft.prog"], "fail", "other.py")


# ---- sweeps -----------------------------------------------------------------------------------------------------------


def test_the_store_of_a_killed_coordinator_fails_until_it_is_resumed(doctor, tmp_path):
    place = Place(tmp_path)
    try:
        directory = tmp_path / "sweeps/s"
        place.script("t.sh", "while test ! -e go; do sleep 0.02; done; echo '{\"step\":1,\"loss\":1}'")
        sweep = place.sweep("method: random\nrun_cap: 1\nmetric: {name: loss}\nparameters:\n  x: {min: 0.0, max: 1.0}\n")
        coordinator = place.start(sweep)
        wait_until(lambda: place.records("leased"), "a trial")
        judged(doctor("--sweep", directory)["store.ok"], "ok", "sweep.db")
        coordinator.send_signal(signal.SIGKILL)
        coordinator.wait()
        judged(doctor("--sweep", directory)["store.ok"], "fail", "is dead, and the sweep has not ended", "drover sweep resume s")
        (tmp_path / "go").touch()
        assert place.run("resume", "s").returncode == 0
        judged(doctor("--sweep", directory)["store.ok"], "ok", "sweep.db")
    finally:
        place.clean_up()


def test_full_measures_through_bench(doctor):
    checks = doctor("--full")
    for name in ("act.mem", "act.allreduce", "act.pair"):
        assert checks[name]["state"] == "ok" and checks[name]["value"].endswith(" GB/s"), checks[name]
    assert checks["act.gemm"]["state"] == "ok" and checks["act.gemm"]["value"].endswith(" TFLOP/s"), checks["act.gemm"]
    judged(checks["act.bits"], "ok", "200 equal results")
    judged(checks["act.pcie"], "skip", "no GPU")
