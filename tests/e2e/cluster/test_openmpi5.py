"""The openmpi engine with Open MPI 5 below it: PRRTE starts a `drover agent` on each node, whose PMIx serves the ranks."""
import pytest
from cluster_kit import Engine
from conftest import compile_c
from test_nodes import MPI
from test_run_mpis import prefix_of


@pytest.fixture(name="prefix")
def find_prefix():
    return prefix_of("openmpi5")


@pytest.fixture(name="nodes5")
def make_engine(cluster, prefix):
    engine = Engine(cluster, "openmpi")
    engine.env = {"PATH": f"{prefix}/bin:{cluster.env['PATH']}"}
    yield engine
    cluster.restore()


def test_its_programs_have_all_their_ranks_on_three_nodes(nodes5, cluster, prefix, tmp_path_factory):
    program = compile_c(tmp_path_factory.mktemp("mpi"), "mpi", MPI, str(prefix / "bin/mpicc"), f"-Wl,-rpath,{prefix}/lib")
    status, out, err = nodes5.run("-np", "6", "--mca", "btl_tcp_if_include", "eth0", program)
    assert (status, sorted(out.splitlines())) == (0, [f"{r}/6 15" for r in range(6)]), err
    cluster.nothing_left()


def test_a_failed_rank_gives_the_job_its_status(nodes5, cluster):
    status, _, err = nodes5.run("-np", "6", "sh", "-c", "[ $RANK = 4 ] && exit 7; exec sleep 1000")
    assert status == 7
    assert "rank 4 on node3 exited with status 7" in err
    cluster.nothing_left()


def test_a_host_that_cannot_be_reached_is_named(nodes5, cluster):
    cluster.nodes[2].cut()
    status, _, err = nodes5.run("--start-timeout", "20", "-np", "6", "true")
    assert status != 0
    assert "node3" in err
    cluster.nodes[2].mend()
    cluster.nothing_left(10)


def test_a_killed_drover_leaves_nothing_on_any_node(nodes5, cluster):
    job = nodes5.start("-np", "6", "sh", "-c", "echo up; exec sleep 1000")
    for _ in range(6):
        assert b"up" in job.popen.stdout.readline()
    job.kill()
    job.end()
    cluster.nothing_left()
