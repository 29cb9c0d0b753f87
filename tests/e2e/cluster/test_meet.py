"""`drover torchrun` on three nodes, each by its own command, that meet at the first one's name."""
import signal

from conftest import DROVER
from waiting import wait_until

SHOW = "echo $TORCHELASTIC_RESTART_COUNT $RANK $WORLD_SIZE $GROUP_RANK $MASTER_ADDR $(hostname)"
WAITS = SHOW + " | tee -a {log}; [ -e {go} ] || exec sleep 60"


def start(nodes, text, *options, nnodes="3", endpoint="node1", **kw):
    """The same line on each; the first node has the endpoint's address."""
    line = [DROVER, "torchrun", "--nnodes", nnodes, "--nproc-per-node", "2", "--rdzv-id", "j", "--grace", "5", *options,
            "--rdzv-endpoint", f"{endpoint}:29400", "--no-python", "sh", "-c", text]
    return [n.start_job(*line, **kw) for n in nodes]


def ended(job):
    status, out, err = job.end()
    return status, out.decode().splitlines(), err.decode()


def test_three_nodes_are_one_world_and_node_0_is_where_all_reach_it(cluster):
    first, *rest = reversed(start(list(reversed(cluster.nodes)), SHOW))  # the host comes last
    ends = [ended(j) for j in (first, *rest)]
    lines = sorted(line for _, out, _ in ends for line in out)
    assert [e[0] for e in ends] == [0, 0, 0], ends
    assert lines == [f"0 {2 * n + i} 6 {n} node1 node{n + 1}" for n in range(3) for i in range(2)]
    cluster.nothing_left()


def test_a_name_that_comes_later_is_waited_for(cluster, tmp_path):
    """Of a pod, say, that is not there yet: its name is, later."""
    names, said = cluster.work / "etc/hosts", tmp_path / "stderr"
    before = names.read_text()
    try:
        with open(said, "w") as err:
            jobs = start(cluster.nodes, SHOW, endpoint="late", stderr=err)
        wait_until(lambda: said.read_text().count("rendezvous at late:29400: no server yet: ") >= 3, "all three")
        names.write_text(before.replace("node1", "node1 late"))
        ends = [j.end() for j in jobs]
    finally:
        names.write_text(before)
    lines = sorted(line for _, out, _ in ends for line in out.decode().splitlines())
    assert [e[0] for e in ends] == [0, 0, 0], said.read_text()
    assert lines == [f"0 {2 * n + i} 6 {n} late node{n + 1}" for n in range(3) for i in range(2)]
    cluster.nothing_left()


def test_a_node_that_is_cut_off_is_named_and_the_rest_goes_on_without_it(cluster, tmp_path):
    log, go = tmp_path / "log", tmp_path / "go"
    jobs = start(cluster.nodes, WAITS.format(log=log, go=go), "--max-restarts", "1", "--rdzv-conf", "last_call_timeout=1",
                 nnodes="2:3")
    wait_until(lambda: log.exists() and log.read_text().count("\n") == 6, "six ranks")
    go.touch()
    cluster.nodes[2].cut()
    ends = [ended(j) for j in jobs[:2]]
    assert [e[0] for e in ends] == [0, 0], ends
    assert "node3: silent for 15 s: stopping the ranks of this node" in ends[0][2], ends[0][2]
    again = sorted(line for _, out, _ in ends for line in out if line.startswith("1 "))
    assert again == [f"1 {2 * n + i} 4 {n} node1 node{n + 1}" for n in range(2) for i in range(2)]
    status, _, err = ended(jobs[2])  # it ends its ranks, too
    assert status == 1 and "its server disconnected: silent for 15 s" in err, err
    cluster.nothing_left()


def test_a_killed_torchrun_is_replaced_by_another_one(cluster, tmp_path):
    log, go = tmp_path / "log", tmp_path / "go"
    text = WAITS.format(log=log, go=go)
    jobs = start(cluster.nodes, text, "--max-restarts", "1")
    wait_until(lambda: log.exists() and log.read_text().count("\n") == 6, "six ranks")
    go.touch()
    jobs[1].kill(signal.SIGKILL)
    ended(jobs[1])
    (jobs[1],) = start(cluster.nodes[1:2], text, "--max-restarts", "1")
    ends = [ended(j) for j in jobs]
    assert [e[0] for e in ends] == [0, 0, 0], ends
    assert "node2: the connection was closed: stopping the ranks of this node" in ends[0][2], ends[0][2]
    worlds = [line.split()[1:3] for line in log.read_text().splitlines()[6:]]
    assert sorted(worlds) == [[str(r), "6"] for r in range(6)]
    cluster.nothing_left()
