"""`drover run --spares`, `--exclude-file`: a job on four of five nodes, of which one is bad."""
import re
import time

import pytest
from cluster_kit import SHORTER, CannotStart, Cluster
from conftest import BUILD
from test_preflight_nodes import GPUS, put_gpus, set_faults

RUN = [BUILD / "bin/drover", "run"]
LIMIT_S = 10
ANSWER = r"no answer|No route to host"


@pytest.fixture(scope="module", name="running_five")
def running_five_(tmp_path_factory):
    c = Cluster(tmp_path_factory.mktemp("five"), [tmp_path_factory.getbasetemp()], 5)
    try:
        c.start()
        yield c
    except CannotStart as e:
        pytest.skip(f"no cluster here: {e}")
    finally:
        c.stop()


@pytest.fixture(name="five")
def five_(running_five):
    put_gpus(running_five)
    for n in running_five.nodes:
        n.check("sh", "-c", "cp /bin/hostname /tmp/program && chmod +x /tmp/program")
    yield running_five
    running_five.restore()


def run(cluster, *args, nodes=5):
    words = [*RUN, "--hostfile", cluster.hostfile(1, cluster.nodes[:nodes]), "--tag", "none", *args]
    began = time.monotonic()
    status, out, err = cluster.head.run(*words, "/tmp/program", env=GPUS)
    return status, sorted(out.split()), err, time.monotonic() - began


def put_gpu_fault(line):
    return lambda n: set_faults(n, line)


def in_shell(line):
    return lambda n: n.check("sh", "-c", line)


FAULTS = {  # what is done to the node, how it is undone (None: by the fixtures), and what is said about it
    "mute": (in_shell("kill -STOP $(cat /run/sshd.pid)"), in_shell("kill -CONT $(cat /run/sshd.pid)"), "no answer within"),
    "hung GPU": (put_gpu_fault("gpu 1 temperature hang"), None, "gpu.answers: "),
    "cut": (lambda n: n.cut(), None, ANSWER),
    "no program": (in_shell("rm /tmp/program"), None, "soft.prog: "),
    "down": (lambda n: n.stop(), None, ANSWER),
    "lost GPU": (put_gpu_fault("gpu 0 power error 15"), None, "gpu.answers: .*GPU_IS_LOST"),
    "driver": (put_gpu_fault("system init error 18"), None, "drv.match: "),
    "compute mode": (put_gpu_fault("gpu 1 compute_mode 2"), None, "gpu.mode: "),
    "heat": (put_gpu_fault("gpu 0 temperature 95"), None, "gpu.temp: "),
    "no shared memory": (in_shell("mount -o remount,size=16m /dev/shm"), in_shell("mount -o remount,size=50% /dev/shm"),
                         "host.shm: "),
    "leaked memory": (put_gpu_fault("gpu 1 process 0 9000"), None, "gpu.busy: "),
    "fabric": (put_gpu_fault("gpu 1 fabric_state 2"), None, "drv.fabric: "),
    "no handle": (put_gpu_fault("gpu 0 handle error 15"), None, "gpu.answers: "),
    "silent GPU": (put_gpu_fault("gpu 1 temperature 0\ngpu 1 power 0\ngpu 1 clock_sm 0"), None, "gpu.answers: "),
    "slowdown": (put_gpu_fault("gpu 1 reasons 0x48"), None, "gpu.slow: "),
    "stranger": (put_gpu_fault("gpu 1 process 4194300 500"), None, "gpu.busy: "),
    "NVLink": (put_gpu_fault("gpu 1 nvlink5 down"), None, "link.nvlink: "),
    "few files": (in_shell("prlimit --pid $(cat /run/sshd.pid) --nofile=512:"),
                  in_shell("prlimit --pid $(cat /run/sshd.pid) --nofile=$(ulimit -Hn):"), "host.nofile: "),
    "noexec": (in_shell("cd /tmp && mount --bind program program && mount -o remount,bind,noexec program"),
               in_shell("umount /tmp/program"), "host.fs: .*noexec|soft.prog: "),
    "not executable": (in_shell("chmod -x /tmp/program"), None, "soft.prog: "),
}
OFTEN = 2  # of these 20 are always tried, the others with DROVER_TEST_CASES


@pytest.mark.parametrize("fault", [pytest.param(f, marks=SHORTER) if i >= OFTEN else f for i, f in enumerate(FAULTS)])
def test_a_bad_node_is_named_and_the_job_runs_on_the_others(five, fault):
    inject, undo, said = FAULTS[fault]
    odd = five.nodes[2]
    inject(odd)
    status, out, err, took_s = run(five, "--spares", 1)
    if undo:
        undo(odd)
    assert (status, out) == (0, ["node1", "node2", "node4", "node5"]), err
    assert re.search(rf"{odd.name} is left out: .*({said}).*; node5 takes its place", err), err
    assert took_s < LIMIT_S


def test_too_few_nodes_are_an_error_that_names_the_bad_ones(five):
    for n in five.nodes[1:3]:
        set_faults(n, "system init error 18")
    status, out, err, _ = run(five, "--spares", 1)
    assert (status, out) == (1, []), err
    assert "the job needs 4 nodes, and 3 can take part; node2: drv.match: " in err and "; node3: drv.match: " in err


def test_the_next_job_leaves_out_what_an_earlier_one_found(five):
    file = five.work / "excluded"
    status, out, err, _ = run(five, "--spares", 1, "--exclude-file", file, nodes=3)
    assert (status, out, err, file.exists()) == (0, ["node1", "node2"], "", False)
    set_faults(five.nodes[0], "gpu 1 compute_mode 2")
    status, out, err, _ = run(five, "--spares", 1, "--exclude-file", file, "--exclude-for", "10m", nodes=3)
    assert status == 0 and "node1 is left out: gpu.mode: " in err, err
    assert re.fullmatch(r"node1 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ gpu\.mode: .*\n", file.read_text())
    set_faults(five.nodes[0])
    status, out, err, _ = run(five, "--exclude-file", file, nodes=3)
    assert (status, out) == (0, ["node2", "node3"]), err
    assert "node1 is left out: gpu.mode: " in err and str(file) in err
    file.write_text("node1 whenever broken\n")
    status, out, err, _ = run(five, "--exclude-file", file, nodes=3)
    assert (status, out) == (2, []) and f"{file}:1: the time is malformed" in err, err


def test_a_node_that_fails_attempts_is_replaced(five):
    for n in five.nodes[:3]:
        n.check("sh", "-c", "printf '#!/bin/sh\\nhostname\\n' >/tmp/program")
    five.nodes[1].check("sh", "-c", "printf '#!/bin/sh\\nexit 3\\n' >/tmp/program")
    status, out, err, _ = run(five, "--spares", 1, "--max-restarts", 3, nodes=3)
    assert status == 0 and "node3" in out and "node2" not in out, (out, err)
    assert "node2 is left out: several attempts failed there first; node3 takes its place" in err, err
