"""The preflight of `drover run` over several nodes: each one checks itself while the job starts."""
import pytest
from conftest import BUILD

RUN = [BUILD / "bin/drover", "run"]
GPUS = {"DROVER_NVML_LIB": str(BUILD / "tests/fake/libnvidia-ml.so.1"), "DROVER_FAKE_NVML": "/tmp/machine"}


def set_faults(node, *lines):
    """Changes the GPUs of a node."""
    node.check("sh", "-c", 'printf "%s\\n" "$@" >/tmp/machine', "sh", "gpus 2", *lines)


def put_gpus(cluster):
    """Gives each node two GPUs. Returns the file that does it."""
    shell = cluster.home / ".bashrc"  # of the shell that ssh starts
    shell.write_text("".join(f"export {name}={value}\n" for name, value in GPUS.items()))
    for n in cluster.nodes:
        set_faults(n)
    return shell


@pytest.fixture(name="gpu_nodes")
def gpu_nodes_(cluster):
    shell = put_gpus(cluster)
    yield cluster
    shell.unlink()


def run(cluster, *args):
    return cluster.head.run(*RUN, "--hostfile", cluster.hostfile(1), *args, "echo", "started", env=GPUS)


def test_nodes_without_a_fault_start_without_a_line(gpu_nodes):
    status, out, err = run(gpu_nodes)
    assert (status, out.count("started"), err) == (0, 3, "")


def test_a_node_that_would_break_the_job_is_named_and_no_rank_starts(gpu_nodes):
    odd = gpu_nodes.nodes[1]
    set_faults(odd, "gpu 1 temperature hang")
    status, out, err = run(gpu_nodes)
    assert (status, out) == (1, ""), err
    assert f"on {odd.name} could not be started: gpu.answers: " in err and f" on {odd.name}, " in err
    assert "--no-preflight" in err
    status, out, err = run(gpu_nodes, "--no-preflight")
    assert (status, out.count("started"), err) == (0, 3, "")


def test_nodes_with_the_same_failure_share_a_line(gpu_nodes):
    for n in gpu_nodes.nodes[:2]:
        set_faults(n, "gpu 0 temperature 95")
    status, out, err = run(gpu_nodes)
    assert (status, out.count("started")) == (0, 3), err
    assert len(err.splitlines()) == 1 and "gpu.temp: " in err and " on 2 of 3 nodes, " in err
