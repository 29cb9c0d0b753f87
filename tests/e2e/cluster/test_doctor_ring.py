"""`drover bench ring` and net.back of `drover doctor --full`: the links between neighbours."""
import json

from conftest import BUILD

DROVER = BUILD / "bin/drover"


def ring(cluster, *args):
    status, out, err = cluster.head.run(DROVER, "bench", "ring", "--hostfile", cluster.hostfile(1), "--npernode", 1, "--json", *args, timeout=90)
    return status, json.loads(out), err


def test_neighbours_reach_each_other_both_ways(cluster):
    status, record, err = ring(cluster)
    names = [n.name for n in cluster.nodes]
    assert status == 0, err
    assert [(r["from_host"], r["to_host"]) for r in record["rows"]] == [
        (names[i], names[j % 3]) for i in range(3) for j in (i + 1, i + 2)]
    assert all(r["error"] is None and r["gbps"] > 0 and r["latency_us"] > 0 for r in record["rows"]), record


def test_a_link_that_loses_packets_is_named_and_nothing_waits_for_it(cluster):
    one, two = cluster.nodes[1:3]
    one.check("sh", "-c", f"ip neigh replace {two.address} lladdr 02:00:00:00:00:99 dev $(ip -o route get {two.address} | sed 's/.* dev \\([^ ]*\\).*/\\1/') nud permanent")
    status, record, _ = ring(cluster)
    bad = {(r["from_host"], r["to_host"]): r["error"] for r in record["rows"] if r["error"]}
    assert status == 1 and set(bad) == {(one.name, two.name), (two.name, one.name)}, record
    assert "no answer within 300 ms: a firewall drops the packets" in bad[one.name, two.name]
    status, out, err = cluster.head.run(DROVER, "doctor", "--full", "--json", "--hostfile", cluster.hostfile(1), timeout=120)
    report = json.loads(out)
    checks = {n["node"]: {c["id"]: c for c in n["checks"]} for n in report["nodes"]}
    assert status == 1 and checks[one.name]["net.back"]["state"] == "fail", err
    assert f"{one.name} to {two.name} (" in checks[one.name]["net.back"]["value"]
    assert checks[cluster.nodes[0].name]["net.back"]["state"] == "ok"
    assert {c["act.allreduce"]["value"] for c in checks.values()} == {"needs net.back"}
    assert "net.back" in report["cause"]
