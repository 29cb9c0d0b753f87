"""`drover run`: programs of other MPIs than Debian's Open MPI. MPICH is found by PMI-1, Open MPI 5 by PMIx. Debian's
MPICH is tried where its library is installed; PyPI's of both where `scripts/setup --test` has put them."""
import os
import re
import subprocess

import pytest
from conftest import DROVER, compile_c
from kit_ranks import ROOT
from test_run_mpi import MPI, RUN

# Enough of MPICH's mpi.h, whose ABI is the same from 3.1 on: Debian has it in a package that is in Open MPI's way.
MPICH_H = """
#define MPI_COMM_WORLD 0x44000000
#define MPI_INFO_NULL 0x1c000000
#define MPI_INT 0x4c000405
#define MPI_SUM 0x58000003
#define MPI_ARGV_NULL ((char **)0)
#define MPI_STATUS_IGNORE ((void *)1)
#define MPI_ERRORS_RETURN 0x54000001
#define MPI_SUCCESS 0
typedef int MPI_Comm;
int MPI_Init(int *, char ***), MPI_Finalize(void), MPI_Comm_rank(int, int *), MPI_Comm_size(int, int *);
int MPI_Sendrecv(void *, int, int, int, int, void *, int, int, int, int, int, void *);
int MPI_Allreduce(void *, void *, int, int, int, int), MPI_Abort(int, int), MPI_Comm_set_errhandler(int, int);
int MPI_Comm_spawn(const char *, char **, int, int, int, int, int *, int *);
"""
KINDS = "mpich", "openmpi5"


def prefix_of(kind):
    prefix = ROOT / "build/mpis" / kind
    if not (prefix / "whole").exists():
        pytest.skip(f"{kind}: PyPI did not give it to scripts/setup --test")
    return prefix


@pytest.fixture(scope="module", name="program", params=["debian's mpich", *KINDS])
def build_program(request, tmp_path_factory):
    work = tmp_path_factory.mktemp("mpi")
    if request.param in KINDS:
        prefix = prefix_of(request.param)
        return compile_c(work, "mpi", MPI, str(prefix / "bin/mpicc"), f"-Wl,-rpath,{prefix}/lib")
    there = subprocess.run(["ldconfig", "-p"], stdout=subprocess.PIPE, text=True, check=False,
                           env={"PATH": "/usr/sbin:/sbin:/usr/bin"}).stdout
    if "libmpich.so.12 " not in there:
        pytest.skip("libmpich12 is not installed")
    (work / "mpi.h").write_text(MPICH_H)
    return compile_c(work, "mpi", MPI, "cc", f"-I{work}", "-l:libmpich.so.12")


def meeting(size):
    return [f"{r}/{size} from {(r - 1) % size} sum {size * (size - 1) // 2}" for r in range(size)]


@pytest.mark.parametrize("size", range(1, 9))
def test_a_program_of_another_mpi_has_all_its_ranks(drover, program, size):
    done = drover.run(*RUN, "-np", size, program)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == meeting(size)
    assert done.stderr == ""


def test_its_abort_gives_the_job_its_code_and_ends_the_others(drover, program):
    done = drover.run(*RUN, "-np", "3", program, "abort")
    assert done.returncode == 3
    assert re.search(r"drover run: rank 1 on \S+ called MPI_Abort\(3\) after", done.stderr)
    drover.nothing_left()


def test_its_spawn_is_an_error_and_no_hang(drover, program):
    done = drover.run(*RUN, "-np", "2", program, "spawn")
    assert done.returncode not in (0, 124), done.stderr
    drover.nothing_left()


def test_each_rank_that_spawns_has_the_error(drover, program):
    done = drover.run(*RUN, "-np", "3", program, "try")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [*meeting(3), *["refused"] * 3]


def test_it_runs_in_a_job_in_a_rank_of_a_job(drover, program):
    done = drover.run("run", "-np", "1", DROVER, *RUN, "-np", "3", program)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == meeting(3)


@pytest.mark.parametrize("kind", KINDS)
def test_mpi4py_of_another_mpi_says_hello(drover, kind):
    done = drover.run(*RUN, "-np", "4", prefix_of(kind) / "bin/python", "-m", "mpi4py.bench", "helloworld")
    assert done.returncode == 0, done.stderr
    assert [re.sub(" on .*", "", x) for x in done.stdout.splitlines()] == \
        [f"Hello, World! I am process {r} of 4" for r in range(4)]


def test_mpichs_own_mpiexec_runs_inside_a_rank(drover, tmp_path):
    prefix = prefix_of("mpich")
    program = compile_c(tmp_path, "mpi", MPI, str(prefix / "bin/mpicc"), f"-Wl,-rpath,{prefix}/lib")
    done = drover.run("run", "-np", "1", prefix / "bin/mpiexec", "-n", "2", program)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == meeting(2)


@pytest.mark.parametrize("size", [1, 3])
def test_open_mpi_5s_mpirun_starts_the_ranks(drover, tmp_path, size):
    prefix = prefix_of("openmpi5")
    program = compile_c(tmp_path, "mpi", MPI, str(prefix / "bin/mpicc"),
                        f"-Wl,-rpath,{prefix}/lib")
    env = {"PATH": f"{prefix}/bin:{os.environ['PATH']}"}
    done = drover.run(*RUN, "--engine", "openmpi", "-np", size, program, env=env)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == meeting(size)
    failed = drover.run(*RUN, "--engine", "openmpi", "-np", "2", "sh", "-c", "exit $((3 + 4 * RANK))", env=env)
    assert failed.returncode in (3, 7), failed.stderr
    drover.nothing_left(5)
