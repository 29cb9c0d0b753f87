"""libdrover's communicators, by programs that are linked with it as a user's are: over MPI, alone, and over NCCL's
stand-in (tests/fake/nccl.c), whose failures can be chosen."""
import os
import re
import subprocess
import time
from pathlib import Path

import pytest
from kit_ranks import BUILD, FAKE_NCCL, MPIRUN, build_client_programs, clean_env
from kit_ranks import under_mpirun as mpirun_line

LIMIT_S = 60


@pytest.fixture(scope="module", name="programs")
def build_programs(tmp_path_factory):
    return build_client_programs(tmp_path_factory.mktemp("progs"))


def run(argv, **env):
    return subprocess.run([str(a) for a in argv], env=clean_env(**env), text=True, capture_output=True,
                          timeout=LIMIT_S, check=False)


def under_mpirun(n, argv, **env):
    return run(mpirun_line(n, argv, env), **env)


@pytest.fixture(name="fake")
def make_fake(tmp_path):
    """The variables that put the stand-in in place of NCCL and CUDA."""
    if not FAKE_NCCL.exists():
        pytest.skip("built without NCCL's and CUDA's headers")

    def variables(**env):
        return {"DROVER_NCCL_LIB": str(FAKE_NCCL), "DROVER_CUDART_LIB": str(FAKE_NCCL), "FAKE_NCCL_DIR": str(tmp_path),
                **env}
    return variables


def under_drover(n, argv, **env):
    return run([BUILD / "bin" / "drover", "run", "-np", n, "--oversubscribe", *argv], **env)


def ranks_that_passed(done):
    return sorted(re.findall(r"^rank (\d+) of (\d+): (?:[1-9]\d\d) checks over (\w+)$", done.stdout, re.M))


def test_one_rank_needs_nothing(programs):
    done = run([programs / "comm_check"])
    assert done.returncode == 0, done.stderr
    assert ranks_that_passed(done) == [("0", "1", "self")]


@pytest.mark.parametrize("start", [under_mpirun, under_drover])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_every_collective_type_and_operation_over_mpi(programs, n, start):
    done = start(n, [programs / "comm_check", "mpi"])
    assert done.returncode == 0, done.stderr
    assert ranks_that_passed(done) == [(str(r), str(n), "mpi") for r in range(n)]


@pytest.mark.parametrize("n, how, start", [(1, "", under_drover), (2, "", under_mpirun), (2, "slow", under_drover),
                                           (3, "slow", under_mpirun)])
def test_every_collective_type_and_operation_over_nccl(programs, fake, n, how, start):
    done = start(n, [programs / "comm_check", "nccl"], **fake(FAKE_NCCL=f"log,{how}"))
    assert done.returncode == 0, done.stderr
    assert ranks_that_passed(done) == [(str(r), str(n), "nccl") for r in range(n)]
    assert done.stderr.count("fake: destroyed\n") == 2 * n  # each communicator was ended in good order


def test_a_gpus_memory_is_refused_by_an_mpi_that_knows_none(programs, tmp_path):
    """With a driver whose every pointer is a GPU's; this machine's Open MPI is not built for one."""
    (tmp_path / "cuda.c").write_text("int cuPointerGetAttribute(void *a, int w, unsigned long long p)"
                                     " { *(unsigned *)a = 2; return 0; }")
    driver = tmp_path / "libcuda.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", str(driver), str(tmp_path / "cuda.c")],
                   check=True)
    done = run([programs / "comm_check", "mpi"], LD_PRELOAD=str(driver))
    assert done.returncode == 1
    assert re.search(r"all_reduce: Open MPI \S+ does not support GPU buffers \(try: backend nccl", done.stderr)


def test_ranks_without_a_launcher_that_mpi_knows_are_told_so(programs):
    done = run([programs / "comm_check"], RANK="0", WORLD_SIZE="2")
    assert done.returncode == 1
    assert "MPI runs alone, as rank 0 of 1" in done.stderr and "drover run" in done.stderr


def test_ranks_that_nobody_told_where_the_others_are_say_so(programs, fake):
    done = run([programs / "comm_check", "nccl"], RANK="0", WORLD_SIZE="2", **fake())
    assert done.returncode == 1
    assert "no PMIx server" in done.stderr and "MASTER_ADDR" in done.stderr and "drover run" in done.stderr


def test_another_launchers_rank_is_noticed(programs):
    done = under_mpirun(2, [programs / "comm_check", "mpi"], RANK="0", WORLD_SIZE="2")
    assert done.returncode != 0
    assert "MPI reports rank 1 of 2" in done.stderr or "rank 0 of 2: backend mpi" in done.stderr


@pytest.mark.parametrize("start", [under_mpirun, under_drover])
@pytest.mark.parametrize("where, words", [
    ("open", "MPI_Init: other ranks did not call it within 700 ms"),
    ("wait", "call 1, all_reduce of 1 float: not complete after 500 ms"),
])
def test_a_rank_that_stays_away_is_noticed_in_time_over_mpi(programs, where, words, start):
    begin = time.monotonic()
    done = start(2, [programs / "comm_missing", where])
    assert words in done.stderr
    assert done.returncode == 3
    assert time.monotonic() - begin < 20


@pytest.mark.parametrize("start", [under_mpirun, under_drover])
def test_a_rank_that_stays_away_is_named_before_nccl_waits_for_it(programs, fake, start):
    done = start(3, [programs / "comm_missing", "fence"], **fake())
    node = re.escape(os.uname().nodename)
    assert re.search(rf"not all ranks connected within 700 ms; missing: node {node}: rank 2\b(?!,)", done.stderr), done.stderr
    assert done.returncode == 3


def test_without_a_driver_nccl_fails_quickly_and_says_why(programs, fake):
    start = time.monotonic()
    done = run([programs / "comm_check", "nccl"], **fake(FAKE_NCCL="no_driver"))
    assert done.returncode == 1
    assert "no usable GPU: CUDA driver version is insufficient" in done.stderr
    assert "backend mpi needs no GPU" in done.stderr
    assert time.monotonic() - start < 5


def test_a_driver_that_is_older_than_the_cuda_that_was_found_is_told(programs, fake):
    done = run([programs / "comm_check", "nccl"], **fake(FAKE_NCCL="old_driver"))
    assert done.returncode == 1
    assert "the driver supports CUDA 11.8, libcudart is 13.0; set DROVER_CUDART_LIB" in done.stderr


@pytest.mark.parametrize("n", [1, 2])
def test_connecting_that_never_ends_is_given_up(programs, fake, n):
    done = under_mpirun(n, [programs / "comm_missing", "connect"], **fake(FAKE_NCCL="init_hang,log"))
    assert done.returncode == 3, done.stderr
    assert "NCCL: connecting the ranks: timed out after 700 ms" in done.stderr
    assert "do not reach each other" in done.stderr


def test_a_rank_that_stops_while_nccl_connects_is_named(programs, fake):
    done = under_drover(3, [programs / "comm_missing", "connect"], **fake(FAKE_NCCL="init_stop"))
    assert done.returncode == 3, done.stderr
    assert re.search(r"connecting the ranks: timed out: not all ranks connected within 700 ms; missing: (node \S+: )?rank 2\b(?!,)",
                     done.stderr), done.stderr


def test_connecting_that_fails_is_told(programs, fake):
    done = run([programs / "comm_check", "nccl"], **fake(FAKE_NCCL="init_error"))
    assert done.returncode == 1
    assert "NCCL: connecting the ranks: fake NCCL error" in done.stderr


OLD_NCCL = FAKE_NCCL.with_name("nccl_old.so")
EITHER_NCCL = pytest.mark.parametrize("lib, end", [(FAKE_NCCL, "fake: revoked"), (OLD_NCCL, "fake: aborted")],
                                      ids=["2.28", "2.19"])


@EITHER_NCCL
def test_peers_that_are_lost_end_the_communicator(programs, fake, lib, end):
    done = run([programs / "comm_check", "nccl"],
               **fake(FAKE_NCCL="async_error,log", DROVER_NCCL_LIB=str(lib), DROVER_CUDART_LIB=str(lib)))
    assert done.returncode == 1
    assert re.search(r"call 3, .*remote process exited.*: the fake peer is gone", done.stderr), done.stderr
    assert "second line" not in done.stderr
    assert end in done.stderr


@EITHER_NCCL
def test_a_collective_that_never_ends_is_aborted(programs, fake, lib, end):
    done = under_mpirun(2, [programs / "comm_missing", "nowhere"],
                        **fake(FAKE_NCCL="hang,log", DROVER_NCCL_LIB=str(lib), DROVER_CUDART_LIB=str(lib)))
    assert done.returncode == 3, done.stderr
    assert "not complete after 500 ms" in done.stderr
    assert end in done.stderr


def test_a_first_call_that_does_not_return_is_aborted_not_revoked(programs, fake):
    done = under_mpirun(2, [programs / "comm_missing", "first"], **fake(FAKE_NCCL="stuck,log"))
    assert done.returncode == 3, done.stderr
    assert "NCCL: all_reduce: timed out after 3000 ms" in done.stderr and "fake: aborted" in done.stderr
    assert "fake: revoked" not in done.stderr and "fake: wrong" not in done.stderr


def test_calls_are_on_the_stream_when_they_return(programs, fake, tmp_path):
    """Each one, also before anything was waited for or polled."""
    done = under_drover(2, [programs / "comm_flight"], **fake(FAKE_NCCL_RECORD=str(tmp_path / "calls")))
    assert done.returncode == 0, done.stderr
    calls = sorted((tmp_path / "calls").read_text().splitlines())
    assert [c for c in calls if c.startswith("0 ")] == [f"0 ncclAllReduce {i}/{i}" for i in range(1, 9)], calls


def test_a_split_that_never_ends_is_given_up_before_its_memory_is(programs, fake):
    done = under_mpirun(2, [programs / "comm_missing", "split"], **fake(FAKE_NCCL="part_hang,log", MALLOC_PERTURB_="165"))
    assert done.returncode == 3, done.stderr
    assert "NCCL: splitting: timed out" in done.stderr and "fake: aborted" in done.stderr
    assert "fake: wrong" not in done.stderr


@pytest.mark.parametrize("backend", ["mpi", "nccl"])
def test_the_ranks_that_are_left_go_on_without_the_one_that_hangs(programs, fake, backend, tmp_path):
    os.mkfifo(tmp_path / "over")
    done = under_drover(3, [programs / "comm_shrink", backend, tmp_path / "over"], **fake(FAKE_NCCL="log"))
    assert done.stdout.count("not complete after 300 ms; then 2 ranks, and their sum is 1\n") == 2, done.stdout + done.stderr
    assert done.returncode == 0
    assert done.stderr.count("fake: revoked") == (2 if backend == "nccl" else 0)


def test_ranks_with_different_nccls_are_told(programs, fake):
    done = run([*MPIRUN, "-np", "1", "-x", "FAKE_NCCL=old", programs / "comm_check", "nccl", ":", "-np", "1",
                programs / "comm_check", "nccl"], **fake())
    assert done.returncode != 0
    assert re.search(r"rank 0 on node \S+ has NCCL 2\.19\.3, rank 1 on node \S+ has NCCL 2\.2[0-9]", done.stderr), done.stderr


def test_a_library_that_is_not_there_is_told(programs, fake):
    env = fake()
    done = run([programs / "comm_check", "nccl"], **{**env, "DROVER_NCCL_LIB": "/nowhere/libnccl.so.2"})
    assert done.returncode == 1 and "/nowhere/libnccl.so.2" in done.stderr
    done = run([programs / "comm_check", "nccl"], **{**env, "DROVER_NCCL_LIB": str(BUILD / "lib" / "libdrover.so.0")})
    assert done.returncode == 1 and "ncclGetVersion" in done.stderr


def test_a_backend_that_there_is_not_is_told(programs):
    done = run([programs / "comm_check", "foo"])
    assert done.returncode == 1 and "unknown backend 'foo'" in done.stderr
    done = run([programs / "comm_check", "../../x"])
    assert done.returncode == 1 and "unknown backend" in done.stderr


@pytest.mark.parametrize("code, words", [
    ("#include <stdint.h>\nstruct backend { uint32_t abi; };\nconst struct backend drover_backend = {4711};",
     "has ABI 4711, expected"),
    ("int nothing;", "has no drover_backend"),
    ("int missing(void); int call(void) { return missing(); }", "undefined symbol: missing"),
])
def test_a_plug_in_that_does_not_fit_is_told(programs, tmp_path, code, words):
    (tmp_path / "p.c").write_text(code)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(tmp_path / "backend_odd.so"), str(tmp_path / "p.c")], check=True)
    done = run([programs / "comm_check", "odd"], DROVER_PLUGIN_DIR=str(tmp_path))
    assert done.returncode == 1 and words in done.stderr


def test_the_true_libraries_on_a_machine_without_a_driver_say_so(programs):
    if Path("/dev/nvidiactl").exists():
        pytest.skip("this machine has a driver")
    if not (BUILD / "lib" / "drover" / "backend_nccl.so").exists():
        pytest.skip("built without NCCL's and CUDA's headers")
    start = time.monotonic()
    done = run([programs / "comm_check", "nccl"])
    assert done.returncode == 1
    if (BUILD.parent / "cuda").exists() or "no libcudart" not in done.stderr:
        assert "nccl: no usable GPU: CUDA driver version is insufficient" in done.stderr, done.stderr
    assert time.monotonic() - start < 10
