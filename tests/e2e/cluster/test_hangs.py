"""`drover run` over three nodes: hangs and restarts, wherever the ranks are."""
import os
import re
import shutil

import pytest
from cluster_kit import ONE_ENGINE
from kit_ranks import BUILD, ROOT, build_client_programs
from waiting import SILENCES_S, at_best

NVRX = ROOT / "build/nvrx/bin"  # scripts/setup --test
STUCK = {  # rank 2, on node2, as the others see it
    "away": r"has not made it; its last call was all_reduce of 1024 float, sum, .*<- missing",
    "stop": r"has not made it; its last call was .*<- missing",
    "order": r"barrier.*<- different call",
    "hang": r"has not made it, but is in recv of 1 float, rank 0   <- missing",
}


@pytest.fixture(scope="module", name="stuck")
def build_stuck(tmp_path_factory):
    return build_client_programs(tmp_path_factory.mktemp("progs")) / "comm_stuck"


def test_a_stopped_rank_on_a_far_node_is_named(engine):
    status, _, err = engine.run("-np", "3", "-N", "1", "--hang-timeout", "2", "--grace", "1", "sh", "-c",
                                "[ $RANK = 2 ] && kill -STOP $$; while :; do echo $RANK; sleep 0.3; done", timeout=90)
    rows = {int(m[1]): m[0] for m in re.finditer(r"^ +(\d+)  \S+ +[\d.]+ s +(?:\d+ s ago|none) .*$", err, re.M)}
    assert status == 124 and "a rank is stopped" in err
    assert sorted(rows) == [0, 1, 2] and rows[2].endswith("stopped   <- differs")
    assert len({row.split()[1] for row in rows.values()}) == 3
    engine.cluster.nothing_left()


@ONE_ENGINE
def test_a_far_rank_that_is_too_long_in_a_section_is_named_with_its_node(engine, tmp_path):
    (tmp_path / "t.py").write_text(f"""
import os, sys, time
sys.path.insert(0, {str(ROOT / "launcher/client")!r})
import drover
with drover.section("step"):
    time.sleep(60 if drover.rank() == 2 else 0)
time.sleep(60)
""")
    status, _, err = engine.run("-np", "3", "-N", "1", "--section-timeouts", "step:1", "--grace", "1", "python3",
                                tmp_path / "t.py", timeout=90)
    told = re.search(r"the job hangs: rank 2 on (\S+) has been in section 'step' for [\d.]+ s, longer than 1 s", err)
    row = re.search(r"^ +2  (\S+) .*  in \w+ .*<- differs$", err, re.M)  # what it waits in has come from its node
    assert status == 124 and told and row and told.group(1) == row.group(1), err
    engine.cluster.nothing_left()


@pytest.mark.skipif(not NVRX.exists(), reason="nvidia-resiliency-ext is missing: scripts/setup --test")
def test_the_client_of_the_resiliency_extension_is_heard_on_a_far_node(cluster, tmp_path):
    """The bridge there is run by the Python of the rank, which the agent's own environment does not have."""
    (tmp_path / "t.py").write_text("""
import os, time
import nvidia_resiliency_ext.fault_tolerance as ft
c = ft.RankMonitorClient()
c.init_workload_monitoring()
c.start_section("step")
time.sleep(60 if os.environ["RANK"] == "1" else 0.1)
c.end_section("step")
time.sleep(60)
""")
    status, _, err = cluster.head.run(BUILD / "bin/drover", "ft_launcher", "--hostfile", cluster.hostfile(2), "--nnodes", "2",
                                      "--nproc-per-node", "1", "--ft-rank_section_timeouts=step:1", "--grace", "1",
                                      tmp_path / "t.py", env={"PATH": f"{NVRX}:{os.environ['PATH']}"}, timeout=150)
    assert status == 124 and re.search(r"the job hangs: rank 1 on \S+ has been in section 'step' for [\d.]+ s", err), err
    cluster.nothing_left()


@pytest.mark.parametrize("how", STUCK)
@ONE_ENGINE
def test_a_far_rank_out_of_step_is_named_with_its_node_and_what_differs(engine, stuck, how):
    def check(seconds):
        status, _, text = engine.run("-np", "4", "--grace", "1", "--hang-timeout", seconds, stuck, how, "60000", timeout=120)
        found = re.search(r"collectives of 'world', 4 ranks, call 6: made by \d\n    ranks 0-1 and 3: all_reduce of 1024 float, "
                          r"sum, for ([\d.]+) s\n    rank 2 on node node2: " + STUCK[how], text)
        assert status == 124 and found, text
        assert float(found[1]) < seconds + 1, text
    at_best(check, *SILENCES_S)
    engine.cluster.nothing_left()


@pytest.mark.parametrize("how", ["away", "order"])
@ONE_ENGINE
def test_after_a_far_ranks_own_deadline_it_is_said_who_is_out_of_step(engine, stuck, how):
    status, _, err = engine.run("-np", "4", "--grace", "1", stuck, how, "1500", timeout=90)
    assert status == 3 and re.search(r"^drover run: rank \d failed in a collective: Connection timed out$", err, re.M), err
    assert re.search(rf"^    rank 2 on node node2: {STUCK[how]}$", err, re.M), err
    engine.cluster.nothing_left()


@ONE_ENGINE
def test_another_size_on_a_far_node_is_named(engine, stuck):
    """Open MPI ends the job for it: mpirun's and srun's, not ours."""
    status, _, err = engine.run("-np", "4", "--grace", "1", stuck, "size", "60000", timeout=90)
    assert status != 0 and re.search(r"^    rank 2 on node node2: all_reduce of 512 float, sum   <- different call$", err, re.M), err
    engine.cluster.nothing_left()


def test_ranks_that_sleep_on_all_nodes_are_a_hang_and_each_has_its_stack(engine):
    status, _, err = engine.run("-np", "3", "-N", "1", "--hang-timeout", "2", "sleep", "100", timeout=90)
    assert status == 124 and "or used its CPU" in err and len(re.findall(r"  in \w*nanosleep\n", err)) == 3, err
    if shutil.which("gdb"):
        stacks = dict(re.findall(r"^  stack of ranks? ([\d-]+):\n((?:    .*\n)+)", err, re.M))
        assert list(stacks) == ["0-2"] and "nanosleep" in stacks["0-2"], err
    engine.cluster.nothing_left()


@ONE_ENGINE
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
    assert len(names) == 2 and f"excluding host {bad}: it failed twice or more" in err
    assert "restart 2 of 3" in err and "restart 3 of 3" not in err
    engine.cluster.nothing_left()
