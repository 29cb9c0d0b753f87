"""What a job of `drover run` has used of its GPUs: the line at its end, the event `usage`, `drover ps --done`, and
--idle-timeout. The GPUs are those of tests/fake/nvml.c."""
import json
import re

import pytest
from cluster_kit import Engine
from conftest import BUILD, Runner

NVML = BUILD / "tests/fake/libnvidia-ml.so.1"
SECONDS = 5.4  # the shortest job with a report runs for 5 s
EIGHT = """gpus 8
gpu all utilization 76
gpu all memory 0
gpu 3 utilization 34
gpu 5 process 4711 62000
""" + "".join(f"gpu {i} energy 5000000+1800000\n" for i in range(8))
LINE = re.compile(r"^drover run: \d+ GPUs? · .*$", re.M)

# Of GPU 0, another process has 45 GiB and the job 1.1 GiB: the rank, and a worker of its loader, which also draws.
SHARED = "gpus 2\ngpu all utilization 50\ngpu 0 process 1 46080\ngpu 1 process 1 46080\n"
OWN = ["sh", "-c", 'g=GPU-0000000$LOCAL_RANK-0000-0000-0000-000000000000; [ $LOCAL_RANK = 1 ] && u=- || u=1024\n'
       f'sleep {SECONDS} & echo $g $$ $u >>$DROVER_FAKE_GPU_USERS; echo $g $! ${{u%24}}2 >>$DROVER_FAKE_GPU_USERS; wait']

# The second GPU fails: an uncorrectable error of its memory, of which its program dies.
BROKEN = "gpus 2\ngpu all utilization 90\ngpu 1 xid 48,45\ngpu 1 ecc_volatile 3+2\ngpu 1 reasons 0x40\ngpu 1 process 1 46080\n"

IDLE, BUSY, UNKNOWN = "gpus 1\ngpu 0 utilization 2\n", "gpus 1\ngpu 0 utilization 50\n", "gpus 1\n"
SLEEP, PRINT = ["sleep", SECONDS], ["sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do echo step; sleep 0.5; done"]

# name: (description of the machine or list of GPUs, options of drover run, program)
JOBS = {
    "eight": (EIGHT, ["-np", 8, "--price", "2.10", "--events", "events.json"], SLEEP),
    "quiet": (EIGHT, ["-np", 8, "-q"], SLEEP),
    "shared": (SHARED, ["-np", 1, "--events", "events.json"], OWN),
    "untold": (SHARED, ["-np", 2], OWN),
    "mig": ("GPU-aa,A100,1b,40960,40000,MIG-5a1f", ["-np", 1], SLEEP),
    "hangs": ("gpus 2\ngpu all utilization 50\ngpu all power hang\n", ["-np", 2], SLEEP),
    "none": ("gpus 0\n", ["-np", 1, "--price", 2, "--idle-timeout", 1], SLEEP),
    "batch": (BUSY, ["-np", 1, "--idle-timeout", 1], ["sh", "-c", f"sleep {SECONDS}", "train", "-b", 16]),
    "prints": (IDLE, ["-np", 1, "--idle-timeout", 3], PRINT),
    "unknown": (UNKNOWN, ["-np", 1, "--idle-timeout", 1], SLEEP),
    "fails": (BROKEN, ["-np", 2, "--events", "events.json"], ["sh", "-c", f"[ $RANK = 0 ] && sleep 60; sleep {SECONDS}; exit 3"]),
    "idle": (IDLE, ["-np", 1, "--idle-timeout", 1, "--max-restarts", 2, "--events", "events.json"], ["sleep", 60]),
}


def gpus(directory, text):
    """The environment in which NVML has these GPUs."""
    env = {"DROVER_NVML_LIB": str(NVML), "XDG_STATE_HOME": str(directory / "state")}
    if not text.startswith("gpus"):
        return {**env, "DROVER_FAKE_GPUS": text, "DROVER_FAKE_GPU_BUSY": "42"}
    (directory / "machine").write_text(text)
    return {**env, "DROVER_FAKE_NVML": str(directory / "machine")}


@pytest.fixture(scope="module", name="ended")
def run_jobs(tmp_path_factory):
    """{name: (job's end, its Runner)} of all JOBS, which run at the same time."""
    started = {}
    for name, (text, options, program) in JOBS.items():
        r = Runner(tmp_path_factory.mktemp(name))
        r.env |= gpus(r.cwd, text)
        if program is OWN:
            r.env["DROVER_FAKE_GPU_USERS"] = str(r.cwd / "users")
        started[name] = r, r.start("run", "--no-preflight", "--oversubscribe", *options, "--", *program, text=True, bufsize=-1)
    done = {}
    for name, (r, p) in started.items():
        _, err = p.communicate(timeout=60)
        done[name] = p.returncode, err, r
    return done


def done_jobs(r):
    listed = r.run("ps", "--done", "--json")
    assert listed.returncode == 0 and listed.stderr == "", listed.stderr
    return [json.loads(line) for line in listed.stdout.splitlines()]


def test_the_line_has_utilisation_memory_energy_and_cost(ended):
    status, err, _ = ended["eight"]
    lines = LINE.findall(err)
    assert status == 0 and len(lines) == 1, err
    found = re.fullmatch(r"drover run: 8 GPUs · utilisation 71 % \(rank 3: 34 %\) · "
                         r"peak 60.6 of 80 GiB \(of all processes on the GPU\) · ([\d.]+) Wh · "
                         r"0.0\d at 2.10/GPU-h", lines[0])
    assert found, lines
    assert float(found[1]) >= 8 * 0.5  # 0.5 Wh per GPU between two samples


def test_the_event_has_the_same_figures(ended):
    _, _, r = ended["eight"]
    events = [json.loads(line) for line in (r.cwd / "events.json").read_text().splitlines()]
    usage = events[-1]
    assert usage["event"] == "usage" and [e["event"] for e in events].count("usage") == 1
    assert usage["gpus"] == 8 and usage["price"] == 2.1 and usage["utilisation"] == pytest.approx((7 * .76 + .34) / 8)
    assert usage["cost"] == pytest.approx(usage["gpu_hours"] * 2.1)
    assert usage["gpu_hours"] >= 8 * 5 / 3600
    assert usage["advice"] == [] and len(usage["devices"]) == 8
    third = usage["devices"][3]
    assert third["rank"] == 3 and third["utilisation"] == .34 and third["idle_share"] == 0
    assert usage["energy_j"] == pytest.approx(sum(d["energy_j"] for d in usage["devices"]))


def test_finished_jobs_are_listed(ended):
    _, err, r = ended["eight"]
    job, = done_jobs(r)
    assert job["program"] == "sleep" and job["gpus"] == 8 and job["status"] == 0
    assert job["gpu"] == "NVIDIA H100 80GB HBM3" and len(job["hash"]) == 16
    assert job["peak_bytes"] == 62005 << 20 and job["peak_of"] == "gpu" and job["peaks"] == {}
    assert job["cost"] > 0 and job["energy_j"] > 0 and job["end_ms"] - job["begin_ms"] >= 5000
    assert "batch" not in job
    table = r.run("ps", "--done").stdout.splitlines()
    assert len(table) == 4 and table[0].split()[:4] == ["JOB", "ENDED", "FOR", "STATUS"]
    assert job["job"] in table[1] and " 71 % " in table[1] and " 60.6 GiB* " in table[1]
    assert table[2] == "* of all processes on the GPU: the driver did not list those of the job"
    assert (r.cwd / "state/drover/baselines.db").stat().st_mode & 0o777 == 0o600


def test_the_peak_is_that_of_the_jobs_processes(ended):
    status, err, r = ended["shared"]
    assert status == 0 and " · peak 1.1 of 80 GiB" in err and "of all processes" not in err, err
    job, = done_jobs(r)
    assert job["peak_bytes"] == (1024 + 102) << 20 and job["peak_of"] == "job" and job["peaks"] == {"0": job["peak_bytes"]}
    table = r.run("ps", "--done").stdout
    assert " 1.1 GiB " in table and "*" not in table, table
    device, = json.loads((r.cwd / "events.json").read_text().splitlines()[-1])["devices"]
    assert device["peak_bytes"] == job["peak_bytes"] and device["peak_of"] == "job"


def test_a_peak_that_the_driver_does_not_tell_is_that_of_the_gpu_and_marked(ended):
    """Of rank 1's processes the memory is not available."""
    status, err, r = ended["untold"]
    assert status == 0 and " · peak 45.0 of 80 GiB (of all processes on the GPU)" in err, err
    job, = done_jobs(r)
    assert job["peak_of"] == "gpu" and job["peaks"] == {"0": (1024 + 102) << 20}


def test_quiet_hides_the_line_and_stores_the_job(ended):
    status, err, r = ended["quiet"]
    assert status == 0 and err == ""
    job, = done_jobs(r)
    assert job["utilisation"] == pytest.approx(.7075) and "cost" not in job


def test_a_mig_instance_has_no_utilisation(ended):
    _, err, r = ended["mig"]
    job, = done_jobs(r)
    assert "utilisation" not in job and "energy_j" not in job and job["gpus"] == 1
    assert "utilisation" not in err and "Wh" not in err, err


def test_a_driver_that_hangs_stops_neither_the_job_nor_its_end(ended):
    status, err, r = ended["hangs"]
    assert status == 0 and not LINE.search(err), err
    job, = done_jobs(r)
    assert job["gpus"] == 2 and "utilisation" not in job


def test_a_job_without_gpus_has_no_line(ended):
    status, err, r = ended["none"]
    assert status == 0 and not LINE.search(err), err
    assert done_jobs(r) == []


def test_the_batch_is_stored_apart_from_the_other_options(ended):
    _, _, r = ended["batch"]
    job, = done_jobs(r)
    assert job["batch"] == 16 and job["program"] == "sh"


def test_a_short_job_has_no_line(drover, tmp_path):
    done = drover.run("run", "--no-preflight", "--oversubscribe", "-np", 2, "--price", 2, "true", env=gpus(tmp_path, EIGHT))
    assert done.returncode == 0 and done.stderr == ""
    listed = drover.run("ps", "--done", env=gpus(tmp_path, EIGHT))
    assert listed.returncode == 0 and listed.stdout.count("\n") == 2
    assert listed.stdout.splitlines()[1].startswith("only jobs with GPUs that ran for 5 s or more are listed"), listed


def test_a_failure_report_says_what_the_gpu_of_the_rank_did(ended):
    status, err, r = ended["fails"]
    assert status == 3
    found = re.search(r"^drover run: rank 1 on \S+ exited with status 3 after .*\n(?:    .*\n)*"
                      r"  GPU 1 \(NVIDIA H100 80GB HBM3\): Xid 48 at \d\d:\d\d:\d\d: uncorrectable memory error; "
                      r"Xid 45 at \d\d:\d\d:\d\d: a program was ended, often after another error; "
                      r"(\d+) new uncorrected ECC errors; throttled 100 % of the time \(hot\); "
                      r"memory peak 45.0 of 80 GiB \(of all processes\)$", err, re.M)
    assert found, err
    events = [json.loads(line) for line in (r.cwd / "events.json").read_text().splitlines()]
    failed, = [e["failed_gpu"] for e in events if e["event"] == "ended"]
    assert [x["code"] for x in failed["xids"]] == [48, 45] and failed["ecc_errors"] == int(found[1]) >= 2
    assert (failed["gpu"], failed["hot_share"], failed["memory_bytes"]) == (1, 1, 81559 << 20)


def test_a_job_that_uses_no_gpu_and_prints_nothing_is_stopped(ended):
    status, err, r = ended["idle"]
    assert status == 124, err
    assert "it used no GPU and printed nothing for 1 s (--idle-timeout)" in err and "restart" not in err
    events = [json.loads(line)["event"] for line in (r.cwd / "events.json").read_text().splitlines()]
    assert "idle" in events and events.index("idle") < events.index("ended")


@pytest.mark.parametrize("name", ["prints", "batch", "unknown"])
def test_a_job_that_prints_or_uses_a_gpu_is_not_idle(ended, name):
    status, err, _ = ended[name]
    assert status == 0 and "idle" not in err, err


def test_idle_timeout_without_gpus_has_no_effect_and_says_so(ended):
    assert "--idle-timeout has no effect: the job has no GPU" in ended["none"][1]


def test_without_sqlite_the_job_runs_and_ps_names_the_package(drover, tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libsqlite3.so.0").write_text("")
    env = {"LD_LIBRARY_PATH": str(tmp_path / "lib"), **gpus(tmp_path, EIGHT)}
    (tmp_path / "state/drover").mkdir(parents=True, mode=0o700)
    assert drover.run("run", "--no-preflight", "-np", 1, "true", env=env).returncode == 0
    done = drover.run("ps", "--done", env=env)
    assert done.returncode == 1 and "SQLite: " in done.stderr and "try: apt install libsqlite3-0" in done.stderr, done.stderr


def test_a_job_whose_gpus_are_not_all_sampled_says_how_many_are(slurm, tmp_path):
    """srun passes the environment to all nodes, so the GPUs of all have the same UUIDs: those of one node are known."""
    engine = Engine(slurm, "slurm")
    env = gpus(tmp_path, "gpus 2\ngpu all utilization 76\n")
    status, _, err = engine.run("-N", 2, "--oversubscribe", "--price", 200, "sleep", SECONDS, env=env)
    engine.close()
    assert status == 0 and re.search(rf"^drover run: {2 * len(slurm.nodes)} GPUs \(2 measured\) · utilisation 76 % · .*"
                                     r" · [\d.]+ at 200.00/GPU-h$", err, re.M), err
