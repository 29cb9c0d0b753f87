"""`drover topo` over several nodes."""
import json
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent.parent
DROVER = ROOT / os.environ.get("DROVER_BUILD", "build/dev") / "bin/drover"


def test_nodes_that_are_the_same_are_shown_once(cluster):
    status, out, err = cluster.head.run(DROVER, "topo", "--hostfile", cluster.hostfile(2))
    names = [n.name for n in cluster.nodes]
    assert status == 0, err
    assert out.splitlines()[0] == f"{', '.join(names)} ({len(names)} identical nodes)"
    status, out, err = cluster.head.run(DROVER, "topo", "-H", ",".join(names[1:]), "--json")
    (machine,) = json.loads(out)["machines"]
    assert status == 0 and machine["nodes"] == names[1:], err


def test_a_node_that_does_not_answer_is_named(cluster):
    status, out, err = cluster.head.run(DROVER, "topo", "-H", f"{cluster.nodes[1].name},no-such-node.invalid", timeout=90)
    assert status == 1 and out.startswith(f"{cluster.nodes[1].name}\n") and "no-such-node.invalid: resolve: " in err, err
