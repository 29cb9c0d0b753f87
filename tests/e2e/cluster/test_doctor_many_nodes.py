"""`drover doctor` over 32 nodes, of which one is off and one has another driver. With DROVER_TEST_CASES."""
import os
import re
import time

import pytest
from cluster_kit import SHORTER, CannotStart, Cluster
from conftest import BUILD

NODES, DEAD, ODD = 32, 19, 7
pytestmark = SHORTER


@pytest.fixture(name="many")
def many_(tmp_path_factory):
    c = Cluster(tmp_path_factory.mktemp("many"), [], NODES)
    try:
        c.start()
        yield c
    except CannotStart as e:
        pytest.skip(f"no cluster here: {e}")
    finally:
        c.stop()


def test_nodes_that_agree_share_a_line_and_the_others_are_named(many):
    (many.home / ".bashrc").write_text("export DROVER_SYSROOT=/tmp/root\n")
    for i, n in enumerate(many.nodes, 1):
        n.check("sh", "-c", f"mkdir -p /tmp/root/sys/module/nvidia && echo {570 if i == ODD else 580} >/tmp/root/sys/module/nvidia/version")
    many.nodes[DEAD - 1].cut()
    began = time.monotonic()
    status, out, err = many.head.run(BUILD / "bin/drover", "doctor", "--hostfile", many.hostfile(1),
                                     env={"DROVER_SYSROOT": "/tmp/root"}, timeout=120)
    took_s = time.monotonic() - began
    print(out, err, f"{took_s:.1f} s")
    assert status == 1
    assert re.search(rf"^warn  net\.skew: versions: driver 570 on node{ODD}, wanted: driver 580, as on {NODES - 2} others ", out, re.M), out
    assert re.search(rf"^fail  node{DEAD}: ", out, re.M) and re.search(rf"^cause: node{DEAD}: ", out, re.M), out
    assert f" on {NODES} nodes in " in out
    assert took_s < 5 or "DROVER_TEST_PERF" not in os.environ
