"""`drover bench --pairs` over four nodes with cables of the same rate, of which a link or a node is made slower.
DROVER_PAIRS_TIMES says how many links and nodes (default: two of each)."""
import itertools
import json
import os

import pytest
from cluster_kit import SHORTER, CannotStart, Cluster
from kit_ranks import BUILD
from waiting import at_best

NODES, USUAL, SLOW = 4, "40mbit", "12mbit"
LINKS = list(itertools.combinations(range(NODES), 2))


def times(of):
    """As many of `of`, again and again, as the environment says. The first two are the first and the last link."""
    n = int(os.environ.get("DROVER_PAIRS_TIMES", "2"))
    return [(k, *of[5 * k % len(of)]) for k in range(n)]


def limit(node, device, rate):
    node.check("tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", rate, "burst", "20k", "latency", "400ms")


class Cables:
    """Each node's cable to the switch has the usual rate both ways; a link gets a cable of its own."""

    def __init__(self, cluster):
        self.cluster = cluster
        for i in range(NODES):
            self.node(i, USUAL)

    def node(self, i, rate):
        n = self.cluster.nodes[i]
        limit(n, "eth0", rate)
        limit(self.cluster.switch, f"v{n.number}", rate)

    def link(self, i, j, rate):
        """Past the switch, between the same addresses."""
        a, b = self.cluster.nodes[i], self.cluster.nodes[j]
        a.ip("link", "add", "direct", "type", "veth", "peer", "name", "direct", "netns", str(b.pid))
        for n, other in ((a, b), (b, a)):
            n.ip("link", "set", "direct", "up")
            limit(n, "direct", rate)
            n.ip("route", "add", f"{other.address}/32", "dev", "direct", "src", n.address)

    def unlink(self, i):
        self.cluster.nodes[i].ip("link", "del", "direct")


@pytest.fixture(scope="module", name="cables")
def lay_cables(tmp_path_factory):
    c = Cluster(tmp_path_factory.mktemp("pairs"), [tmp_path_factory.getbasetemp()], NODES)
    try:
        c.start()
        yield Cables(c)
    except CannotStart as e:
        pytest.skip(f"no cluster here: {e}")
    finally:
        c.stop()


def pairs(cables, *args, ranks=1):
    words = [BUILD / "bin/drover", "bench", "--pairs", "--hostfile", cables.cluster.hostfile(ranks), "--backend", "mpi", "--mca",
             "btl", "tcp,self", "--mca", "btl_tcp_if_include", "eth0", "-e", "128K", "-n", "3", *args]
    return cables.cluster.head.run(*words)


def found(cables):
    status, out, err = pairs(cables, "--json")
    assert out, err
    d = json.loads(out)
    assert status == (1 if d["slow_nodes"] or d["slow_links"] else 0), err
    return d


def test_where_all_are_alike_nothing_is_named(cables):
    def check(_):
        d = found(cables)
        assert d["nodes"] == [f"node{i + 1}" for i in range(NODES)]
        assert (d["slow_nodes"], d["slow_links"]) == ([], []), d
        assert 0.5 * 0.005 < d["usual_gbps"] < 1.5 * 0.005
    at_best(check, 1, 2, 3)


def test_bisection_finds_the_slow_node_or_link_and_measures_its_pairs(cables):
    def check(_):
        status, out, err = pairs(cables, "--json", "--bisect", 4)
        d = json.loads(out)
        assert status == 0 and d["nodes"] == [] and d["bisected"]["rounds"] == 1, (out, err)
    at_best(check, 1, 2, 3)

    def check_slow(place):
        (cables.node(place, SLOW) if isinstance(place, int) else cables.link(*place, SLOW))
        try:
            d = json.loads(pairs(cables, "--json", "--bisect", 4)[1])
        finally:
            (cables.node(place, USUAL) if isinstance(place, int) else [cables.unlink(i) for i in place[:1]])
        names = {f"node{i + 1}" for i in ([place] if isinstance(place, int) else place)}
        assert names <= set(d["nodes"]) and d["bisected"]["nodes"] == 4 and d["bisected"]["rounds"] <= 6, d
        slow = {d["nodes"][i] for i in d["slow_nodes"]} | {d["nodes"][i] for link in d["slow_links"] for i in link}
        assert slow == names, d
    for place in (2, (0, 3)):
        at_best(check_slow, place, place, place)


def test_each_rank_of_a_node_is_in_a_rail(cables):
    _, out, err = pairs(cables, "--json", ranks=2)
    assert out, err
    d = json.loads(out)
    assert d["nodes"] == [f"node{i + 1}" for i in range(NODES)] and len(d["rails"]) == 2
    for rail in d["rails"]:
        assert all(rail["gbps"][i][j] > 0 for i in range(NODES) for j in range(NODES) if i != j), rail
    _, out, err = pairs(cables, ranks=2)
    assert "# rail 1: rank 1 of each node\n" in out, out + err


@pytest.mark.parametrize("time, i, j", times(LINKS))
def test_a_slow_link_is_named(cables, time, i, j):
    def check(_):
        d = found(cables)
        assert (d["slow_nodes"], d["slow_links"]) == ([], [[i, j]]), (time, d)
    cables.link(i, j, SLOW)
    try:
        at_best(check, 1, 2, 3)
    finally:
        cables.unlink(i)


@pytest.mark.parametrize("time, i", times([(i,) for i in range(NODES)]))
def test_a_node_whose_every_link_is_slow_is_named_and_no_link(cables, time, i):
    def check(_):
        status, out, err = pairs(cables)
        assert status == 1, (time, out, err)
        assert f"# slow node: {i} node{i + 1}: " in out and "slow link" not in out, (time, out)
    cables.node(i, SLOW)
    try:
        at_best(check, 1, 2, 3)
    finally:
        cables.node(i, USUAL)


@SHORTER
def test_a_preflight_names_a_slow_link_and_the_job_runs(cables):
    i, j = LINKS[1]
    cables.link(i, j, SLOW)
    try:
        status, out, err = cables.cluster.head.run(
            BUILD / "bin/drover", "run", "--hostfile", cables.cluster.hostfile(1), "--preflight", "full", "--mca", "btl", "tcp,self",
            "--mca", "btl_tcp_if_include", "eth0", "echo", "started")
    finally:
        cables.unlink(i)
    assert status == 0 and out.count("started") == NODES, err
    assert f"act.pair: pairs of nodes: node{i + 1} to node{j + 1}: 0.00" in err and len(err.splitlines()) == 1, err
