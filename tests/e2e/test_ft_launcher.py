"""`drover ft_launcher`: lines of NVIDIA's ft_launcher, and its unmodified RankMonitorClient.

The tests with the client need nvidia-resiliency-ext, which scripts/setup --test installs into build/nvrx."""
import json
import re

import pytest
from kit_ranks import ROOT

VENV = ROOT / "build/nvrx/bin"
needs_client = pytest.mark.skipif(not (VENV / "python3").exists(), reason="nvidia-resiliency-ext is missing: "
                                  "scripts/setup --test")


def test_without_the_package_nothing_is_started(drover, tmp_path):
    (tmp_path / "t.py").write_text("print('started')\n")
    done = drover.run("ft_launcher", "t.py", env={"PYTHON_EXEC": "/usr/bin/python3"})
    assert done.returncode == 2 and not done.stdout, done.stderr
    assert "has no module nvidia_resiliency_ext" in done.stderr and "pip install nvidia-resiliency-ext" in done.stderr
    done = drover.run("ft_launcher", "t.py", env={"PYTHON_EXEC": "/none/python3"})
    assert done.returncode == 2 and "/none/python3" in done.stderr and not done.stdout


def test_its_options_are_accepted_as_it_spells_them(drover, tmp_path):
    (tmp_path / "ft.yaml").write_text("fault_tolerance:\n  rank_section_timeouts: {setup: 600}\n")
    done = drover.run("ft_launcher", "--dry-run", "--nnodes=1", "--nproc-per-node=2", "--max-restarts=3",
                      "--ft-cfg-path=ft.yaml", "--ft-rank_section_timeouts=setup:600,step:180,checkpointing:420",
                      "--ft-rank-out-of-section-timeout=300", "--ft-rank_heartbeat_timeout=null",
                      "--ft-param-initial_rank_heartbeat_timeout=100", "--ft-workload_check_interval=5",
                      "--ft-safety_factor=3", "--ft-rank_termination_signal=SIGUSR1", "--ft-log_level=DEBUG",
                      "--ft-node_health_check_interval=5", "--ft-enable-nic-monitor=False", "--ft-restart-policy=any-failed",
                      "--term-timeout=10", "--workers-stop-timeout=5", "--ignore-missing-fault-tol-cfg", "t.py", "--lr=1")
    assert done.returncode == 0 and "t.py --lr=1" in done.stdout, done.stderr
    done = drover.run("ft_launcher", "--dry-run", "t.py", env={"PET_FT_CFG_PATH": "none.yaml"})
    assert done.returncode == 2 and "none.yaml" in done.stderr
    done = drover.run("torchrun", "--dry-run", "t.py", env={"PET_FT_CFG_PATH": "none.yaml"})
    assert done.returncode == 0


@pytest.mark.parametrize("option", ["--ft-rank_section_timeouts=step", "--ft-rank_heartbeat_timeout=x",
                                    "--ft-restart-policy=never", "--ft-unknown=1", "--ft-cfg-path=none"])
def test_a_malformed_option_starts_nothing(drover, option):
    done = drover.run("ft_launcher", option, "t.py")
    assert done.returncode == 2 and done.stderr.startswith("drover ft_launcher: "), done.stderr


def test_torchrun_has_none_of_them(drover):
    done = drover.run("torchrun", "--ft-rank_heartbeat_timeout=3", "t.py")
    assert done.returncode == 2 and "unknown option" in done.stderr


CLIENT = """
import json, os, sys, time
import torch.distributed as dist
import nvidia_resiliency_ext.fault_tolerance as ft
attempt, rank = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), int(os.environ["RANK"])
dist.init_process_group("gloo")
c = ft.RankMonitorClient()
if os.path.exists("state.json"):
    c.load_state_dict(json.load(open("state.json")))
c.init_workload_monitoring()
c.send_heartbeat()
if attempt == 0:                                 # learns a limit, and exceeds it
    with open(f"limits.{rank}", "w") as f:
        json.dump([c.section_timeouts.section, c.hb_timeouts.subsequent, c.cfg.safety_factor], f)
    for i in range(4):
        c.start_section("step")
        time.sleep(0.2)
        c.end_section("step")
    c.calculate_and_set_section_timeouts(selected_sections=["step"], calc_out_of_section=False)
    dist.barrier()
    if rank == 0:
        with open("state.json", "w") as f:
            json.dump(c.state_dict(), f)
    try:
        c.end_section("step")
    except ft.RankMonitorClientError as e:
        print("refused", flush=True)
    dist.barrier()
    if rank == 1:
        c.start_section("step")
    time.sleep(60)
assert attempt == 1 and c.section_timeouts.section["step"] < 10
c.start_section("step")
c.end_all_sections()
c.shutdown_workload_monitoring()
time.sleep(3)                                    # longer than a heartbeat's limit, but it is not watched any more
print("end", rank, flush=True)
"""


@needs_client
def test_the_unmodified_client_has_its_limits_enforced_and_learns_new_ones(drover, tmp_path):
    (tmp_path / "t.py").write_text(CLIENT)
    (tmp_path / "ft.yaml").write_text("x:\n  - fault_tolerance:\n      rank_section_timeouts: {setup: 5, other: 3}\n"
                                      "      rank_heartbeat_timeout: 77\n      safety_factor: 4\n")
    env = {"PATH": str(VENV), "OMP_NUM_THREADS": "1"}  # without gdb, which needs seconds to read torch
    done = drover.run("ft_launcher", "--nproc-per-node", "2", "--max-restarts", "1", "--ft-cfg-path", "ft.yaml",
                      "--ft-rank_section_timeouts=setup:50,step:60", "--grace", "1", "t.py", env=env, timeout=240)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split()) == sorted("refused refused end 0 end 1".split())
    assert json.loads((tmp_path / "limits.0").read_text()) == [{"setup": 50.0, "step": 60.0}, 77.0, 4.0]
    (hang,) = re.findall(r"the job hangs: rank 1 on \S+ has been in section 'step' for [\d.]+ s, longer than ([\d.]+) s "
                         r"\(rank_section_timeouts\)", done.stderr)
    assert 0.8 <= float(hang) < 10  # 4 times the longest of its steps
    drover.nothing_left()
