"""`drover run`: unmodified MPI programs, mpi4py and PyTorch. Sizes are checked everywhere: without a PMIx server that
it likes, Open MPI 4.1 silently starts N jobs of one rank."""
import os
import pty
import re
import shlex
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import DROVER, compile_c
from test_run_ends import family_of

PYTHON = "/usr/bin/python3"
RUN = ["run", "--oversubscribe"]
MPI = r"""
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int rank, size, from = -1, sum = 0;
    const char *what = argc > 1 ? argv[1] : "";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 0, &from, 1, MPI_INT, (rank + size - 1) % size, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("%d/%d from %d sum %d\n", rank, size, from, sum);
    fflush(stdout);
    if (!strcmp(what, "abort") && rank == 1)
        MPI_Abort(MPI_COMM_WORLD, 3);
    if (!strcmp(what, "segfault") && rank == 1)
        raise(SIGSEGV);
    if (!strcmp(what, "try"))
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (!strcmp(what, "spawn") || !strcmp(what, "try")) {
        MPI_Comm other;
        int code;
        if (MPI_Comm_spawn("true", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other, &code) != MPI_SUCCESS)
            puts("refused");
    }
    if (*what && strcmp(what, "try"))
        for (;;)
            pause();
    MPI_Finalize();
    return 0;
}
"""
LATE = r"""
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0 && puts("up") > 0)
        fflush(stdout);
    while (access(argv[1], F_OK))
        usleep(1000);
    if (rank == 1)
        raise(SIGKILL);
    usleep(200000);
    if (rank == 0)
        MPI_Abort(MPI_COMM_WORLD, 3);
    for (;;)
        pause();
}
"""
MORTAL = r"""
#include <mpi.h>
#include <stdlib.h>
#include <sys/time.h>
int main(int argc, char **argv)
{
    srand(atoi(argv[1]) + atoi(getenv("RANK")));
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {0, 5000 + rand() % 90000}}, NULL);
    MPI_Init(&argc, &argv);
    MPI_Finalize();
    return 0;
}
"""
SPAWN = """
import sys
from mpi4py import MPI
world = MPI.COMM_WORLD
comm = world.Split(eval(sys.argv[1]))
refused = 0
for spawn in (lambda: comm.Spawn("true", maxprocs=2, root=comm.size - 1),
              lambda: comm.Spawn_multiple(["true", "false"], maxprocs=[1, 1])):
    try:
        spawn()
    except MPI.Exception:
        refused += 1
assert comm.allreduce(refused) == 2 * comm.size
print("refused", refused, "on", world.rank)
"""
DDP = """
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo", init_method="env://")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
model(torch.full((2, 4), float(rank))).sum().backward()
total = torch.tensor([float(rank)])
dist.all_reduce(total)
print(rank, size, total.item(), model.module.weight.grad.sum().item(), flush=True)
dist.destroy_process_group()
"""
MEET = """
from mpi4py import MPI
import os, signal, sys

world = MPI.COMM_WORLD
rank = world.rank
halves = world.Split(rank % 2, rank)
if rank == 0:
    port = MPI.Open_port()
    MPI.Publish_name("ocean", port)
world.Barrier()
if "crash" in sys.argv and rank == 1:
    os.kill(os.getpid(), signal.SIGSEGV)
if rank % 2 == 0:
    other = halves.Accept(port if rank == 0 else None)
else:
    other = halves.Connect(MPI.Lookup_name("ocean") if rank == 1 else None)
print(rank, other.size, other.remote_size, other.allreduce(rank), flush=True)
other.Disconnect()
world.Barrier()
if rank == 0:
    MPI.Unpublish_name("ocean", port)
    try:
        MPI.Lookup_name("ocean")
    except MPI.Exception as e:
        print("gone", e.Get_error_class() == MPI.ERR_NAME, flush=True)
"""
LOOKUP = r"""
#include <pmix.h>
#include <stdio.h>
int main(void)
{
    pmix_proc_t me;
    pmix_pdata_t wanted;
    pmix_info_t info[2];
    int all = 0, limit_s = 1;
    if (PMIx_Init(&me, NULL, 0) != PMIX_SUCCESS)
        return 1;
    PMIX_PDATA_CONSTRUCT(&wanted);
    PMIX_LOAD_KEY(wanted.key, "what nobody publishes");
    PMIX_INFO_LOAD(&info[0], PMIX_WAIT, &all, PMIX_INT);
    PMIX_INFO_LOAD(&info[1], PMIX_TIMEOUT, &limit_s, PMIX_INT);
    puts(PMIx_Error_string(PMIx_Lookup(&wanted, 1, info, 2)));
    return PMIx_Finalize(NULL, 0) != PMIX_SUCCESS;
}
"""


@pytest.fixture(scope="module", name="mpi_program")
def build_mpi_program(tmp_path_factory):
    return compile_c(tmp_path_factory.mktemp("mpi"), "mpi", MPI, "mpicc")


@pytest.mark.parametrize("size", [1, 2, 4])
def test_an_open_mpi_program_has_all_its_ranks(drover, mpi_program, size):
    done = drover.run(*RUN, "-np", size, mpi_program)
    assert done.returncode == 0, done.stderr
    total = size * (size - 1) // 2
    assert sorted(done.stdout.splitlines()) == [f"{r}/{size} from {(r - 1) % size} sum {total}" for r in range(size)]
    assert done.stderr == ""


def test_without_a_network_interface_the_way_out_is_said(drover):
    if subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no network namespaces here")

    def alone(*args):
        return subprocess.run(["unshare", "--net", DROVER, *RUN, "-np", "1", *args, "true"], env=drover.env, cwd=drover.cwd,
                              text=True, capture_output=True, timeout=60, check=False)

    done = alone()
    assert done.returncode == 2 and "ip link set lo up" in done.stderr, done.stderr
    assert alone("--no-pmix").returncode == 0


GREET = r"""
#include <pmix.h>
#include <stdio.h>
int main(void)
{
    pmix_proc_t me;
    if (PMIx_Init(&me, NULL, 0) != PMIX_SUCCESS)
        return 1;
    printf("rank %u\n", me.rank);
    return PMIx_Finalize(NULL, 0) != PMIX_SUCCESS;
}
"""


def compile_pmix(directory, name, text):
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "pmix"], stdout=subprocess.PIPE, text=True, check=True)
    return compile_c(directory, name, text, "cc", *flags.stdout.split())


@pytest.fixture(scope="module", name="greet")
def build_greet(tmp_path_factory):
    return compile_pmix(tmp_path_factory.mktemp("greet"), "greet", GREET)


def test_libpmix_is_loaded_when_the_first_rank_asks_for_it(drover, greet):
    p = drover.start(*RUN, "-np", "2", "sh", "-c", f"[ $RANK = 0 ] || exec sleep 100; echo up; read x; {greet}; "
                     "echo over; exec sleep 100", stdin=subprocess.PIPE)

    def has_it():
        return "libpmix" in Path(f"/proc/{p.pid}/maps").read_text()
    assert p.stdout.readline() == b"up\n" and not has_it()
    p.stdin.write(b"\n")
    assert p.stdout.readline() == b"rank 0\n" and p.stdout.readline() == b"over\n" and has_it()
    p.send_signal(signal.SIGINT)
    err = p.communicate(timeout=60)[1]
    assert err == b"drover run: warn: stopping 2 ranks, up to 30 s\n" and p.returncode == 130
    drover.nothing_left()


def test_ranks_that_need_more_than_1024_descriptors_leave_pmix_its_low_ones(drover, greet):
    done = drover.run(*RUN, "-np", "300", "sh", "-c", f"[ $RANK != 299 ] || exec {greet}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "rank 299\n", "")


def test_two_mpi_jobs_at_once_keep_apart(drover, mpi_program):
    jobs = [drover.start(*RUN, "-np", "3", mpi_program) for _ in range(2)]
    for job in jobs:
        out, err = job.communicate(timeout=60)
        assert job.returncode == 0, err
        assert len(re.findall(rb"\d/3 from \d sum 3\n", out)) == 3


def test_an_abort_gives_the_job_its_code_and_ends_the_others(drover, mpi_program):
    done = drover.run(*RUN, "-np", "3", mpi_program, "abort")
    assert done.returncode == 3
    assert re.search(r"drover run: rank 1 on \S+ called MPI_Abort\(3\) after", done.stderr)
    drover.nothing_left()


@pytest.fixture(name="traces")
def make_traces(tmp_path):
    """-> (options that put shared memory and session directories under tmp_path, their environment, what is left)"""
    for d in ("shm", "tmp"):
        (tmp_path / d).mkdir()
    return (["--mca", "btl_vader_backing_directory", tmp_path / "shm"], {"TMPDIR": str(tmp_path / "tmp")},
            lambda: [*(tmp_path / "shm").iterdir(), *(tmp_path / "tmp").rglob("run-*")])


def test_files_of_others_beside_the_segments_of_shared_memory_stay(drover, mpi_program, traces):
    """libpmix empties its own directory with the job, and follows the links in it."""
    options, env, left = traces
    others = options[-1] / "of somebody else"
    others.write_text("precious")
    done = drover.run(*RUN, "-np", "2", *options, mpi_program, env=env)
    assert done.returncode == 0, done.stderr
    assert left() == [others]


def test_a_crash_leaves_no_segments_of_shared_memory(drover, mpi_program, traces):
    options, env, left = traces
    done = drover.run(*RUN, "-np", "3", *options, mpi_program, "segfault", env=env)
    assert done.returncode == 139
    drover.nothing_left()
    assert left() == []


def test_a_killed_drover_leaves_no_segments_of_shared_memory(drover, mpi_program, traces):
    options, env, left = traces
    job = drover.start(*RUN, "-np", "2", *options, mpi_program, "wait", env=env)
    assert [job.stdout.readline() != b"" for _ in range(2)] == [True, True]
    assert len(left()) == 3  # a segment of each rank, and the directory of PMIx
    job.kill()
    job.wait()
    drover.nothing_left()  # and then the monitor, which removes them, has ended too
    assert left() == []


def test_spawning_more_ranks_is_an_error_and_no_hang(drover, mpi_program):
    done = drover.run(*RUN, "-np", "2", mpi_program, "spawn")
    assert done.returncode not in (0, 124) and "An error occurred in MPI_Comm_spawn" in done.stderr
    assert "rank 0 cannot start more ranks: drover does not support MPI_Comm_spawn; try: " in done.stderr
    drover.nothing_left()


def test_a_rank_that_died_before_another_aborted_is_the_first_even_where_its_end_is_told_later(drover, tmp_path):
    """The guardian, who tells ends, stands still meanwhile; the abort comes by another way."""
    program = compile_c(tmp_path, "late", LATE, "mpicc")
    job = drover.start(*RUN, "-np", "3", program, tmp_path / "go")
    assert job.stdout.readline() == b"up\n"
    guardian, _ = family_of(drover, job.pid)
    os.kill(guardian, signal.SIGSTOP)
    (tmp_path / "go").touch()
    time.sleep(0.5)
    os.kill(guardian, signal.SIGCONT)
    _, err = job.communicate(timeout=20)
    assert job.returncode == 137 and re.search(rb"drover run: rank 1 on \S+ .*SIGKILL", err), err
    drover.nothing_left()


def test_ranks_that_die_anywhere_in_mpi_init_leave_a_job_that_ends(drover, tmp_path, seed):
    """libpmix frees twice what it knows of a rank that dies while it is greeted, and of a fence that loses two."""
    mortal = compile_c(tmp_path, "mortal", MORTAL, "mpicc")
    for _ in range(int(os.environ.get("DROVER_KILLS", "50"))):
        done = drover.run(*RUN, "-np", "4", "--grace", "1", mortal, seed.randrange(1 << 30), timeout=15)
        # A rank's sockets close before its death can be seen: another rank may notice them and exit first.
        by_peer = done.returncode == 1 and "MPI_ERRORS_ARE_FATAL" in done.stderr
        assert by_peer or done.returncode in (0, 128 + signal.SIGALRM), done.stderr
        assert by_peer or done.returncode == 0 or re.search(r"rank \d on \S+ was ended by signal 14", done.stderr), done.stderr
    drover.nothing_left()


def test_ranks_share_processors_with_their_server_and_have_no_terminal(drover):
    """Of a session of their own, ranks that wait for it by sched_yield(2) would not make way (sched(7), autogroup)."""
    script = "cat /proc/self/autogroup 2>&-; (: </dev/tty) 2>&- && echo a terminal; true"
    pid, fd = pty.fork()
    if pid == 0:
        os.system(f"cat /proc/self/autogroup 2>&-; {shlex.quote(str(DROVER))} run -np 2 sh -c '{script}' 2>&-; echo over")
        os._exit(0)
    said = b""
    while b"over" not in said:
        said += os.read(fd, 4096)
    os.waitpid(pid, 0)
    os.close(fd)
    *groups, over = said.split()
    assert over == b"over" and b"terminal" not in said
    if groups:
        assert groups == groups[:3] * 3


@pytest.mark.parametrize("ranks, color", [(3, 0), (4, "world.rank // 2"), (2, "world.rank")])
def test_each_rank_that_spawns_has_the_error_and_goes_on(drover, ranks, color):
    """Open MPI 4 itself leaves all but the root waiting."""
    done = drover.run(*RUN, "-np", ranks, PYTHON, "-c", SPAWN, color)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"refused 2 on {r}" for r in range(ranks)]


def test_ranks_meet_by_a_published_name(drover):
    done = drover.run(*RUN, "-np", "4", PYTHON, "-c", MEET)
    assert done.returncode == 0, done.stderr
    # of the other side: ranks 0 and 2, or 1 and 3
    assert sorted(done.stdout.splitlines()) == ["0 2 2 4", "1 2 2 2", "2 2 2 4", "3 2 2 2", "gone True"]


def test_a_wait_for_a_name_ends_at_its_deadline(drover, tmp_path):
    program = compile_pmix(tmp_path, "lookup", LOOKUP)
    done = drover.run(*RUN, "-np", "2", program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["TIMEOUT"] * 2


def test_a_rank_that_waits_for_a_crashed_one_ends_with_the_job(drover):
    done = drover.run(*RUN, "-np", "2", PYTHON, "-c", MEET, "crash")
    assert done.returncode == 139
    assert "rank 1 on" in done.stderr and "SIGSEGV" in done.stderr
    drover.nothing_left()


def test_mpi4py_says_hello(drover):
    done = drover.run(*RUN, "-np", "4", PYTHON, "-m", "mpi4py.bench", "helloworld")
    assert done.returncode == 0, done.stderr
    assert [re.sub(" on .*", "", x) for x in done.stdout.splitlines()] == \
        [f"Hello, World! I am process {r} of 4" for r in range(4)]


def test_an_mpi_program_runs_under_mpirun_inside_a_rank(drover, mpi_program):
    done = drover.run("run", "-np", "1", "mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", mpi_program)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["0/2 from 1 sum 1", "1/2 from 0 sum 1"]


def test_a_pytorch_ddp_script_runs_unmodified(drover, tmp_path):
    (tmp_path / "ddp.py").write_text(DDP)
    env = {"PATH": f"/usr/bin:{os.environ['PATH']}"}  # the python3 that has PyTorch
    done = drover.run(*RUN, "-np", "2", "ddp.py", env=env, timeout=120)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["0 2 1.0 4.0", "1 2 1.0 4.0"]
