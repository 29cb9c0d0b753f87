"""`drover run` over three nodes: hangs and restarts, wherever the ranks are."""
import re

from cluster_kit import ONE_ENGINE


def test_a_stopped_rank_on_a_far_node_is_named(engine):
    status, _, err = engine.run("-np", "3", "-N", "1", "--hang-timeout", "2", "--grace", "1", "sh", "-c",
                                "[ $RANK = 2 ] && kill -STOP $$; while :; do echo $RANK; sleep 0.3; done", timeout=90)
    rows = {int(m[1]): m[0] for m in re.finditer(r"^ +(\d+)  \S+ .* s ago .*$", err, re.M)}
    assert status == 124 and "a rank is stopped" in err
    assert sorted(rows) == [0, 1, 2] and rows[2].endswith("stopped   <- differs")
    assert len({row.split()[1] for row in rows.values()}) == 3
    engine.cluster.nothing_left()


@ONE_ENGINE
def test_ranks_that_sleep_on_all_nodes_are_a_hang(engine):
    status, _, err = engine.run("-np", "3", "-N", "1", "--hang-timeout", "2", "sleep", "100", timeout=90)
    assert status == 124 and "none has used its CPU" in err and err.count("nanosleep (") >= 3
    engine.cluster.nothing_left()


def test_a_job_over_nodes_is_started_again(engine, tmp_path):
    status, out, err = engine.run("-np", "3", "-N", "1", "--wdir", tmp_path, "--max-restarts", "1", "sh", "-c",
                                  "[ $RANK = 1 ] || exit 0; echo $DROVER_RESTART_COUNT $MASTER_PORT; "
                                  "[ $DROVER_RESTART_COUNT = 1 ]", timeout=90)
    lines = [line.split() for line in out.splitlines()]
    assert status == 0, err
    assert [n for n, _ in lines] == ["0", "1"]
    assert "restart 1 of 1" in err
    engine.cluster.nothing_left()


@ONE_ENGINE
def test_a_host_that_failed_twice_is_left_out(engine):
    status, out, _ = engine.run("-np", "2", "-N", "1", "sh", "-c", "[ $RANK = 0 ] && hostname; exit 0")
    bad = out.strip()
    status, out, err = engine.run("-np", "2", "-N", "1", "--max-restarts", "3", "sh", "-c",
                                  f"[ $(hostname) != {bad} ] && echo $(hostname)", timeout=90)
    assert status == 0, err
    names = set(out.splitlines()) - {bad}
    assert len(names) == 2 and f"host {bad} has failed twice or more: left out" in err
    assert "restart 2 of 3" in err and "restart 3 of 3" not in err
    engine.cluster.nothing_left()
