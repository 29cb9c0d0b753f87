"""`drover doctor` over several nodes: nodes that agree share a line, and a node that does not answer is named."""
import json
import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent.parent
DROVER = ROOT / os.environ.get("DROVER_BUILD", "build/dev") / "bin/drover"


def test_each_node_is_checked(cluster):
    status, out, err = cluster.head.run(DROVER, "doctor", "--hostfile", cluster.hostfile(2), "--json", "--", "/bin/true")
    report = json.loads(out)
    assert [n["node"] for n in report["nodes"]] == [n.name for n in cluster.nodes], err
    for node in report["nodes"]:
        by_id = {c["id"]: c for c in node["checks"]}
        assert by_id["soft.prog"]["state"] == "ok" and by_id["host.shm"]["state"] in ("ok", "warn", "fail"), by_id
    assert (status == 0) == (report["cause"] == [])


def test_a_program_that_one_node_lacks_and_a_node_that_is_not_there_are_named(cluster, tmp_path):
    odd = cluster.nodes[1]
    for n in cluster.nodes:
        if n is not odd:
            n.check("cp", "/bin/true", "/tmp/only-here")
    names = ",".join(n.name for n in cluster.nodes)
    status, out, err = cluster.head.run(DROVER, "doctor", "-H", f"{names},no-such-node.invalid", "--", "/tmp/only-here", timeout=90)
    assert status == 1, out + err
    assert re.search(rf"^fail  soft\.prog: .* on {odd.name}\b", out, re.M), out + err
    assert re.search(r"^fail  no-such-node\.invalid: ", out, re.M), out + err
    assert re.search(r"^cause: no-such-node\.invalid: ", out, re.M) and " on 4 nodes in " in out, out
