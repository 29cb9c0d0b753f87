"""`drover run`: ranks of MPI programs that exit with status 0 too early. The same program runs under drover and under the
MPI's own launcher, which must agree if it notices: Open MPI's mpirun does, MPICH's hydra gives status 0."""
import os
import re
import shutil
import subprocess

import pytest
from conftest import compile_c
from test_run_mpi import RUN, compile_pmix
from test_run_mpis import prefix_of

PROGRAM = r"""
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void finalize(void)
{
    MPI_Finalize();
}
int main(int argc, char **argv)
{
    const char *how = argv[1];
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!strcmp(how, "atexit") && atexit(finalize) == 0)
        return 0;
    if (!strcmp(how, "all"))
        _exit(0);
    if (!strcmp(how, "one") && rank == 1)
        exit(0);
    if (!strcmp(how, "late")) { /* all have met before */
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 1)
            _exit(0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return !strcmp(how, "status") && rank == 1 ? 3 : 0;
}
"""
PMIX = r"""
#include <pmix.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    pmix_proc_t me;
    if (PMIx_Init(&me, NULL, 0) != PMIX_SUCCESS)
        return 9;
    if (!strcmp(argv[1], "finalize") && PMIx_Finalize(NULL, 0) != PMIX_SUCCESS)
        return 9;
    _exit(0);
}
"""
ROOT_MAY = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PRTE_ALLOW_RUN_AS_ROOT": "1",
            "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@pytest.fixture(scope="module", name="mpi", params=["openmpi", "openmpi5", "mpich"])
def build_program(request, tmp_path_factory):
    """(program, its own launcher)"""
    work = tmp_path_factory.mktemp("exits")
    if request.param == "openmpi":
        compiler, own = shutil.which("mpicc.openmpi"), shutil.which("mpirun.openmpi")
        if not compiler or not own:
            pytest.skip("Open MPI is not installed")
        return compile_c(work, "exits", PROGRAM, compiler), [own, "--oversubscribe"]
    prefix = prefix_of(request.param)
    own = [str(prefix / "bin/mpirun"), "--oversubscribe"] if request.param == "openmpi5" else [
        str(prefix / "bin/mpiexec.hydra")]
    return compile_c(work, "exits", PROGRAM, str(prefix / "bin/mpicc"), f"-Wl,-rpath,{prefix}/lib"), own


def own_status(drover, own, ranks, *command):
    done = subprocess.run([*own, "-n", str(ranks), *command], env={**drover.env, **ROOT_MAY}, timeout=60, check=False,
                          cwd=drover.cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode


@pytest.mark.parametrize("how, status, rank", [("atexit", 0, None), ("ok", 0, None), ("status", 3, "1"), ("one", 1, "1"),
                                               ("late", 1, "1"), ("all", 1, r"\d")])
def test_a_rank_that_exits_without_mpi_finalize_fails_the_job_and_is_named(drover, mpi, how, status, rank):
    program, own = mpi
    done = drover.run(*RUN, "-np", "3", program, how)
    assert done.returncode == status, done.stderr
    if rank is None:
        assert done.stderr == ""
    elif how != "status":
        assert re.search(rf"drover run: rank {rank} on \S+ exited with status 0 without MPI_Finalize after", done.stderr)
        assert "try: call MPI_Finalize" in done.stderr
    if "hydra" not in own[0] or how in ("atexit", "ok", "status"):
        assert own_status(drover, own, 3, program, how) == status
    drover.nothing_left()


def test_a_rank_that_is_a_shell_counts_as_its_program(drover, mpi):
    program, _ = mpi
    done = drover.run(*RUN, "-np", "2", "sh", "-c", f"{program} ok; true")
    assert (done.returncode, done.stderr) == (0, "")
    done = drover.run(*RUN, "-np", "2", "sh", "-c", f"{program} one; true")
    assert done.returncode == 1 and re.search(r"rank 1 on \S+ exited with status 0 without MPI_Finalize", done.stderr)


@pytest.mark.parametrize("first", ["exit", "init"])
def test_a_rank_that_exits_without_mpi_init_ends_those_that_wait_there(drover, mpi, tmp_path, first):
    """Open MPI's mpirun ends the job only if the exit comes second, and waits forever if it comes first."""
    program, _ = mpi
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    other = "" if first == "exit" else f"read x <{fifo}; "
    then = "" if first == "exit" else f"(sleep 1; echo x >{fifo}) & "
    done = drover.run(*RUN, "-np", "2", "sh", "-c", f"[ $RANK = 0 ] || {{ {other}exit 0; }}; {then}exec {program} ok")
    assert done.returncode == 1
    assert re.search(r"drover run: rank 1 on \S+ exited with status 0 without MPI_Init after", done.stderr), done.stderr
    drover.nothing_left()


def test_a_rank_that_saves_on_a_signal_need_not_finalize(drover, mpi):
    program, _ = mpi
    job = drover.start(*RUN, "-np", "2", "sh", "-c", f"trap 'exit 0' TERM; {program} ok; echo up; sleep 60 & wait")
    assert job.stdout.readline() + job.stdout.readline() == b"up\nup\n"
    job.terminate()
    job.communicate(timeout=20)
    assert job.returncode == 0


@pytest.mark.parametrize("how, status", [("finalize", 0), ("leave", 1)])
def test_a_program_of_pmix_without_mpi_is_treated_as_mpirun_does(drover, tmp_path, how, status):
    program = compile_pmix(tmp_path, "greet", PMIX)
    assert drover.run(*RUN, "-np", "2", program, how).returncode == status
    own = shutil.which("mpirun.openmpi")
    if not own:
        pytest.skip("Open MPI is not installed: there is nothing to compare with")
    assert own_status(drover, [own, "--oversubscribe"], 2, program, how) == status


def test_a_program_of_pmix_on_one_rank_needs_no_other_rank(drover, tmp_path):
    program = compile_pmix(tmp_path, "greet", PMIX)
    done = drover.run(*RUN, "-np", "3", "sh", "-c", f"[ $RANK != 1 ] || exec {program} finalize")
    assert (done.returncode, done.stderr) == (0, "")


def test_the_hang_report_names_ranks_that_have_exited(drover):
    done = drover.run(*RUN, "-np", "4", "--hang-timeout", "1", "--grace", "1", "sh", "-c",
                      "[ $RANK = 1 ] || exec sleep 100")
    assert done.returncode == 124
    assert re.search(r"the job hangs: rank 1 on \S+ has ended with status 0 while the other ranks wait \[gone\]", done.stderr)
