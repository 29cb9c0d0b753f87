"""How ranks find each other without PMIx: under torchrun, beside torch.distributed, started by hand, and many of them.
NCCL is its stand-in (tests/fake/nccl.c)."""
import os
import re
import socket
import subprocess
import time

import pytest
from kit_ranks import BUILD, FAKE_NCCL, build_client_programs, clean_env

LIMIT_S = 90
HAS_TORCH = subprocess.run(["/usr/bin/python3", "-c", "import torch.distributed.run"], check=False,
                           capture_output=True).returncode == 0
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="python3-torch is not installed")

if not FAKE_NCCL.exists():
    pytest.skip("built without NCCL's and CUDA's headers", allow_module_level=True)


@pytest.fixture(scope="module", name="programs")
def build_programs(tmp_path_factory):
    return build_client_programs(tmp_path_factory.mktemp("progs"))


@pytest.fixture(name="env")
def make_env(tmp_path):
    return clean_env(DROVER_NCCL_LIB=str(FAKE_NCCL), DROVER_CUDART_LIB=str(FAKE_NCCL), FAKE_NCCL_DIR=str(tmp_path),
                     FAKE_NCCL="log")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def torchrun(n, *argv):
    """With the agent's store on MASTER_PORT, as people start it. Redirecting the output of a rank that there is not: by
    default, torch 1.13 does not start at all with Python 3.11."""
    return ["/usr/bin/python3", "-m", "torch.distributed.run", f"--nproc_per_node={n}", "--nnodes=1", "--node_rank=0",
            "--master_addr=127.0.0.1", f"--master_port={free_port()}", "--redirects=9:1", "--tee=9:1", *map(str, argv)]


def run(argv, env):
    return subprocess.run(argv, env=env, text=True, capture_output=True, timeout=LIMIT_S, check=False)


def ranks_that_passed(out):
    return sorted(re.findall(r"^rank (\d+) of (\d+): (?:[1-9]\d\d) checks over (\w+)$", out, re.M))


@needs_torch
def test_ranks_of_torchrun_find_each_other(programs, env):
    done = run(torchrun(3, "--no_python", programs / "comm_check", "nccl"), env)
    assert done.returncode == 0, done.stderr
    assert ranks_that_passed(done.stdout) == [(str(r), "3", "nccl") for r in range(3)]


BOTH = """
import ctypes, sys
import torch
import torch.distributed as dist

lib = ctypes.CDLL(sys.argv[1])
lib.drover_error.restype = ctypes.c_char_p

class Opts(ctypes.Structure):
    _fields_ = [("backend", ctypes.c_char_p), ("stream", ctypes.c_void_p), ("device", ctypes.c_int),
                ("open_ms", ctypes.c_int64), ("lib_path", ctypes.c_char_p)]

d, comms = ctypes.c_void_p(), []
assert lib.drover_init(ctypes.byref(d)) == 0

def sum_by_drover(x):
    c, o = ctypes.c_void_p(), Opts(b"nccl", None, -1, 20000, None)
    assert lib.drover_comm_open(ctypes.byref(c), d, ctypes.byref(o)) == 0, lib.drover_error(d)
    buf = (ctypes.c_float * 1)(x)
    assert lib.drover_all_reduce(c, buf, buf, ctypes.c_size_t(1), 7, 0) == 0, lib.drover_error(d)
    assert lib.drover_wait(c, ctypes.c_int64(20000)) == 0, lib.drover_error(d)
    lib.drover_comm_close(c)
    return buf[0]

if sys.argv[2] == "drover first":
    first = sum_by_drover(1)
dist.init_process_group("gloo")
if sys.argv[2] == "torch first":
    first = sum_by_drover(1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
model(torch.ones(2, 4)).sum().backward()
second = sum_by_drover(dist.get_rank() + 1)
n = dist.get_world_size()
assert (first, second) == (n, n * (n + 1) / 2), (first, second)
sys.stdout.write(f"rank {dist.get_rank()} has both\\n")
"""


def starts(tmp_path, order):
    script = tmp_path / "both.py"
    script.write_text(BOTH)
    return [script, BUILD / "lib" / "libdrover.so", order]


@needs_torch
@pytest.mark.parametrize("order", ["drover first", "torch first"])
def test_one_script_under_torchrun_uses_ddp_and_drover(tmp_path, env, order):
    done = run(torchrun(2, *starts(tmp_path, order)), env)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split("\n"))[1:] == ["rank 0 has both", "rank 1 has both"]


@needs_torch
@pytest.mark.parametrize("order", ["drover first", "torch first"])
def test_one_script_under_drover_without_pmix_uses_ddp_and_drover(tmp_path, env, order):
    done = run([BUILD / "bin/drover", "run", "-np", "2", "--oversubscribe", "--no-pmix", "/usr/bin/python3",
                *starts(tmp_path, order)], env)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split("\n"))[1:] == ["rank 0 has both", "rank 1 has both"]


def start_by_hand(programs, env, n, argv, **more):
    port = str(free_port())
    return [subprocess.Popen([str(programs / argv[0]), *argv[1:]], text=True, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE,
                             env={**env, **more, "RANK": str(r), "WORLD_SIZE": str(n), "LOCAL_RANK": str(r),
                                  "LOCAL_WORLD_SIZE": str(n), "MASTER_ADDR": "localhost", "MASTER_PORT": port})
            for r in range(n)]


def ends_of(ranks):
    return [(p.communicate(timeout=LIMIT_S), p.returncode) for p in ranks]


def test_ranks_started_by_hand_find_each_other(programs, env):
    ends = ends_of(start_by_hand(programs, env, 3, ["comm_check", "nccl"]))
    assert [code for _, code in ends] == [0, 0, 0], ends
    assert ranks_that_passed("".join(out for (out, _), _ in ends)) == [(str(r), "3", "nccl") for r in range(3)]


def test_more_ranks_than_one_id_is_good_for_share_three(programs, env):
    """They connect; the stand-in's collectives are for eight."""
    room = os.statvfs("/dev/shm")
    ends = ends_of(start_by_hand(programs, env, 257, ["comm_missing", "nowhere"], NCCL_MULTI_RANK_GPU_ENABLE="1"))
    assert "fake: 3 ids\n" in ends[0][0][1]
    assert {r: (err, code) for r, ((_, err), code) in enumerate(ends) if "call 1, all_reduce of 1 float: " not in err} == {}
    small = room.f_bavail * room.f_frsize < 257 * 64 << 20
    assert sum("ranks of this node need 16448 MiB" in err for (_, err), _ in ends) == small


def test_a_collective_that_fails_and_ends_between_two_looks_is_no_success(programs, env):
    """Nine ranks: one more than the stand-in's collectives are for."""
    ends = ends_of(start_by_hand(programs, env, 9, ["comm_missing", "nowhere"], NCCL_MULTI_RANK_GPU_ENABLE="1",
                                 FAKE_NCCL="log,late,between"))
    assert {r: (err, code) for r, ((_, err), code) in enumerate(ends) if "call 1, all_reduce of 1 float: " not in err} == {}


def test_ranks_that_have_the_same_gpu_are_named_at_each(programs, env):
    ends = ends_of(start_by_hand(programs, env, 2, ["comm_check", "nccl"], FAKE_NCCL="one_gpu"))
    for (_, err), code in ends:
        assert code == 1
        assert re.search(r"ranks 0 and 1 on node \S+ have the same GPU, 0000:3B:00.0 \(try: use one GPU per rank", err), err


@pytest.mark.parametrize("script", ["echo {line} >&2; exec {check}", "{check}; s=$?; echo {line} >&2; exit $s"])
def test_the_cause_is_drovers_error_and_not_a_text_of_another_line(programs, env, script):
    line = "'/opt/plugin/libnccl-net.so: undefined symbol: ncclProfiler'"
    done = run([BUILD / "bin/drover", "run", "--no-preflight", "--oversubscribe", "-np", "2", "--", "sh", "-c",
                script.format(line=line, check=f"{programs}/comm_check nccl")], {**env, "FAKE_NCCL": "one_gpu"})
    assert done.returncode == 1 and "undefined symbol" in done.stderr and "have the same GPU" in done.stderr, done.stderr
    assert re.findall(r"^  cause: (.*)$", done.stderr, re.M) == ["two ranks use the same GPU"], done.stderr


@pytest.mark.parametrize("what, words", [
    ({"NCCL_SOCKET_IFNAME": "nosuch0"}, "NCCL_SOCKET_IFNAME=nosuch0 matches no interface of this node with an address"),
    ({"FAKE_NCCL": "no_driver"}, "no usable GPU: CUDA driver version is insufficient"),
    ({"DROVER_NCCL_LIB": "/nowhere/libnccl.so"}, "/nowhere/libnccl.so"),
    ({"FAKE_NCCL": "old"}, None),
])
def test_one_rank_that_cannot_take_part_is_named_at_all_at_once(programs, env, what, words):
    begin = time.monotonic()
    port = str(free_port())
    ranks = [subprocess.Popen([str(programs / "comm_check"), "nccl"], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE,
                              env={**env, **(what if r == 2 else {}), "RANK": str(r), "WORLD_SIZE": "3",
                                   "MASTER_ADDR": "localhost", "MASTER_PORT": port}) for r in range(3)]
    for r, ((_, err), code) in enumerate(ends_of(ranks)):
        assert code == 1
        if not words:
            assert re.search(r"rank 0 on node \S+ has NCCL 2\S+, rank 2 on node \S+ has NCCL 2\.19\.3", err), err
        elif r == 2:
            assert words in err and "cannot participate" not in err
        else:
            assert re.search(r"rank 2 on node \S+ cannot participate: .*" + re.escape(words), err), err
    assert time.monotonic() - begin < 15  # the deadline is 60 s


@pytest.mark.parametrize("start", ["by hand", "drover run --no-pmix"])
def test_a_rank_that_stays_away_is_named_with_its_node(programs, env, start):
    if start == "by hand":
        ranks = start_by_hand(programs, env, 3, ["comm_missing", "fence"])
        texts = [p.communicate(timeout=LIMIT_S)[1] for p in ranks[:2]]
        ranks[2].kill()
        ranks[2].communicate()
        assert [p.returncode for p in ranks[:2]] == [3, 3], texts
    else:
        done = run([BUILD / "bin/drover", "run", "-np", "3", "--oversubscribe", "--no-pmix", programs / "comm_missing",
                    "fence"], env)
        texts = [done.stderr]
        assert done.returncode == 3
    for text in texts:
        assert re.search(rf"missing: node {re.escape(os.uname().nodename)}: rank 2\b", text), text
