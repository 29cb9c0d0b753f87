"""The GPUs of all nodes of a job: agents sample those of their ranks, and the launcher reports, serves and judges them."""
import json
import re

import pytest
from conftest import BUILD
from waiting import wait_until

RUN = [BUILD / "bin/drover", "run", "--no-preflight"]
GPUS = {"DROVER_NVML_LIB": str(BUILD / "tests/fake/libnvidia-ml.so.1"), "DROVER_FAKE_NVML": "/tmp/machine"}
SECONDS = 5.4  # the shortest job with a report runs for 5 s


def set_gpus(node, busy):
    """The GPUs of all nodes have UUIDs of their own."""
    node.check("sh", "-c", f'printf "gpus 2\\ngpu all utilization {busy}\\ngpu all memory_utilization 1\\n'
                           f'gpu 0 uuid GPU-{node.name}-a\\ngpu 1 uuid GPU-{node.name}-b\\n" >/tmp/machine')


@pytest.fixture(name="gpu_nodes")
def gpu_nodes_(cluster):
    """Each node has two GPUs, which ssh's shell finds, too."""
    shell = cluster.home / ".bashrc"
    shell.write_text("".join(f"export {name}={value}\n" for name, value in GPUS.items()))
    for i, n in enumerate(cluster.nodes):
        set_gpus(n, 20 * (i + 1))
    yield cluster
    shell.unlink()


def run(cluster, *args):
    state = {"XDG_STATE_HOME": "/tmp/state"}
    return cluster.head.run(*RUN, "--hostfile", cluster.hostfile(2), *args, env={**GPUS, **state})


def test_the_report_at_the_end_has_the_gpus_of_all_nodes(gpu_nodes):
    status, out, err = run(gpu_nodes, "--events", "/dev/stdout", "sleep", SECONDS)
    assert status == 0, err
    assert re.search(r"^drover run: 6 GPUs · utilisation 40 % \(rank [01]: 20 %\) · ", err, re.M), err
    usage, = [e for e in map(json.loads, out.splitlines()) if e["event"] == "usage"]
    found = {(d["node"], d["uuid"], d["rank"], round(d["utilisation"], 6)) for d in usage["devices"]}
    assert found == {(n.name, f"GPU-{n.name}-{'ab'[k]}", 2 * i + k, round(.2 * (i + 1), 6))
                     for i, n in enumerate(gpu_nodes.nodes) for k in (0, 1)}


def test_metrics_has_the_gpus_of_all_nodes_with_their_host(gpu_nodes):
    port = 9411
    job = gpu_nodes.head.start_job(*RUN, "--hostfile", gpu_nodes.hostfile(2), "--metrics", f"{port}", "sleep", 100, env=GPUS)

    def hosts():
        _, text, _ = gpu_nodes.head.run("/usr/bin/python3", "-c", "import urllib.request as u; "
                                        f"print(u.urlopen('http://127.0.0.1:{port}/metrics').read().decode())")
        return sorted(re.findall(r'^DCGM_FI_DEV_GPU_UTIL\{.*UUID="([^"]+)".*Hostname="([^"]+)".* (\d+)$', text, re.M))

    names = [n.name for n in gpu_nodes.nodes]
    wait_until(lambda: hosts() == [(f"GPU-{n}-{k}", n, str(20 * (i + 1))) for i, n in enumerate(names) for k in "ab"],
               "all GPUs", 30)
    job.kill(15)
    job.end()
    gpu_nodes.nothing_left()


def test_a_failure_report_has_the_gpu_on_the_node_of_the_rank(gpu_nodes):
    bad = gpu_nodes.nodes[1]
    bad.check("sh", "-c", 'printf "gpu 1 xid 79\ngpu 1 ecc_volatile 0+1\n" >>/tmp/machine')
    status, _, err = run(gpu_nodes, "sh", "-c", f"sleep {SECONDS}; [ $RANK = 3 ] && exit 3; sleep 60")
    assert status == 3
    assert re.search(rf"^drover run: rank 3 on {bad.name} exited with status 3 .*\n(?:    .*\n)*"
                     r"  GPU 1 \(NVIDIA H100 80GB HBM3\): Xid 79 at \d\d:\d\d:\d\d: the GPU has fallen off the bus, "
                     r"restart the machine; \d+ new uncorrected ECC error", err, re.M), err
    gpu_nodes.nothing_left()


def test_a_job_is_idle_only_if_the_gpus_of_all_nodes_are(gpu_nodes):
    for n in gpu_nodes.nodes[:2]:
        set_gpus(n, 0)
    status, _, err = run(gpu_nodes, "--idle-timeout", 2, "sleep", SECONDS)
    assert status == 0 and "idle" not in err, err
    set_gpus(gpu_nodes.nodes[2], 2)
    status, _, err = run(gpu_nodes, "--idle-timeout", 2, "sleep", 100)
    assert status == 124 and "it used no GPU and printed nothing for 2 s (--idle-timeout)" in err, err
    gpu_nodes.nothing_left()
