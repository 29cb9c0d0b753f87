"""`drover place`: job files over fake GPUs, locks between processes, and the commands of other programs."""
import csv
import json
import os
import re
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import BUILD, DROVER
from test_examples_kubernetes import VERSIONS, faults
from waiting import wait_until

FLAT = """framework: pytorch
gpu_type: a100
batch_size: 256
precision: fp16
distributed: true
"""
SECTIONS = """task: {type: training, framework: paddlepaddle, model_name: ernie-gram, sequence_length: 512,
       batch_size_per_gpu: 16, num_gpus_estimate: auto}
resource_policy: {memory_threshold: 0.85, allow_mixed_precision: true, distributed_strategy: ddp,
                  preferred_devices: [A100-SXM4-40GB, V100-32GB, RTX_3090]}
scheduler: {algorithm: rl_based, timeout: 300}
"""
MODELS = {"a100": ("NVIDIA A100-SXM4-40GB", 40960), "v100": ("Tesla V100-SXM2-32GB", 32768),
          "3090": ("NVIDIA GeForce RTX 3090", 24576)}


class Machine:
    """Fake GPUs whose UUIDs no other test has, since locks are the machine's."""

    def __init__(self, runner, *models):
        self.runner, self.users = runner, runner.cwd / "users"
        self.uuids = [f"GPU-{runner.mark[:8]}-{i}" for i in range(len(models))]
        gpus = ";".join(f"{u},{MODELS[m][0]},{0x10 + i:x},{MODELS[m][1]},{MODELS[m][1]}"
                        for i, (u, m) in enumerate(zip(self.uuids, models)))
        self.users.write_text("")
        self.env = {"DROVER_NVML_LIB": str(BUILD / "tests/fake/libnvidia-ml.so.1"), "DROVER_FAKE_GPUS": gpus,
                    "DROVER_FAKE_GPU_USERS": str(self.users)}

    def job(self, text, name="job.yaml"):
        (self.runner.cwd / name).write_text(text)
        return name

    def place(self, *args, **kw):
        return self.runner.run("place", *args, env=self.env, **kw)

    def start(self, *args, **kw):
        return self.runner.start(*args, env=self.env, **kw)

    def choice(self, job, *args):
        done = self.place(job, "--dry-run", "--json", *args)
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    def selected(self, job, *args):
        return [g["index"] for g in self.choice(job, *args)["gpus"] if g["selected"]]

    def use(self, gpu, pid, mib=500):
        self.users.write_text(f"{self.uuids[gpu]} {pid} {mib}\n")


@pytest.fixture(name="machine")
def use_machine(drover):
    return lambda *models: Machine(drover, *models)


# ---- job files -------------------------------------------------------------------------------------------------------


def test_the_flat_file_runs_one_rank_per_selected_gpu(machine):
    m = machine("v100", "a100", "a100", "a100")
    done = m.place(m.job(FLAT), "--", "sh", "-c", "echo $RANK of $WORLD_SIZE on $CUDA_VISIBLE_DEVICES")
    assert done.returncode == 0 and sorted(done.stdout.splitlines()) == ["0 of 2 on 1,2", "1 of 2 on 1,2"], done.stderr
    assert "names no model" in done.stderr


def test_the_file_with_sections_prefers_its_devices_and_names_what_has_no_effect(machine):
    m = machine("3090", "v100", "a100")
    done = m.place(m.job(SECTIONS), "--dry-run")
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and "algorithm: rl_based has no effect" in done.stderr
    assert [line.split("  ")[-1] for line in lines[2:3]] == ["selected"]
    assert all(re.match(r"GPU\d .* not selected: its best set has a score of \d+$", line) for line in lines[:2])
    assert re.match(r"needs [\d.]+ GiB to [\d.]+ GiB per GPU$", lines[3]) and len(lines) == 5
    m.use(2, os.getpid())
    done = m.place(m.job(SECTIONS), "--dry-run")
    assert f"in use: process {os.getpid()} of " in done.stdout.splitlines()[2]
    assert done.stdout.splitlines()[1].endswith("  selected")


def test_the_numbers_of_the_explanation_are_those_of_the_choice(machine):
    m = machine("3090", "v100", "a100", "a100")
    c = m.choice(m.job("num_gpus: 2\npreferred_devices: [a100]\n"))
    assert c["score"] == sum(t["weight"] * t["points"] for t in c["terms"]) == c["gpus"][2]["best_score"]
    text = m.place("job.yaml", "--dry-run").stdout
    shown = re.findall(r"(\d+) x (\d+) (\w+)", text)
    assert f"score {c['score']} = " in text and sum(int(w) * int(p) for w, p, _ in shown) == c["score"]
    assert [(t["name"], t["points"]) for t in c["terms"] if t["points"]] == [(n, int(p)) for _, p, n in shown]


def test_labels_choose_and_exclude(machine):
    m = machine("a100", "a100", "v100")
    (m.runner.cwd / "labels.yaml").write_text("1: [own, rack-a]\nV100: own\nB200: other\n")
    args = ("--labels", "labels.yaml")
    assert m.selected(m.job("preferred_devices: [own]\n"), *args) == [2]  # the smaller one of both
    assert m.selected(m.job("labels: [own, rack-a]\n"), *args) == [1]
    assert m.selected(m.job("labels: own\nexcluded_devices: V100\n"), *args) == [1]
    done = m.place(m.job("labels: theirs\n"), *args, "--", "true")
    assert done.returncode == 2 and "3 without the labels" in done.stderr
    (m.runner.cwd / "labels.yaml").write_text("7: own\n")
    done = m.place("job.yaml", *args)
    assert done.returncode == 2 and "labels.yaml:1:1: this machine has no GPU 7" in done.stderr


@pytest.mark.parametrize("args, says", [
    (["job.yaml", "--json"], "--json needs --dry-run"), ([], "the job file is missing"), (["none.yaml"], "none.yaml"),
    (["bad.yaml"], "unknown key 'framwork'"), (["job.yaml", "--emit", "podman", "--", "true"], "unknown program 'podman'"),
    (["job.yaml", "--emit", "docker"], "the command is missing"), (["job.yaml", "--dry-rum"], "unknown option '--dry-rum'")])
def test_bad_words_are_named_and_nothing_starts(machine, args, says):
    m = machine("a100")
    m.job("framework: pytorch\n")
    m.job("framwork: pytorch\n", "bad.yaml")
    done = m.place(*args)
    assert (done.returncode, done.stdout) == (2, "") and says in done.stderr


def test_run_has_the_same_option_and_its_own_checks(machine):
    m = machine("a100", "v100")
    m.job("gpu_type: v100\nmemory: 20G\n")
    done = m.runner.run("run", "--place", "job.yaml", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES", env=m.env)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
    plan = m.runner.run("run", "--place", "job.yaml", "--dry-run", "--json", "true", env=m.env)
    assert [r["gpu"] for r in json.loads(plan.stdout)["ranks"]] == [1], plan.stderr
    for words, says in ((["--gpus", "0"], "exclude each other"), (["-H", "a,b"], "other hosts")):
        done = m.runner.run("run", "--place", "job.yaml", *words, "true", env=m.env)
        assert done.returncode == 2 and says in done.stderr
    done = m.runner.run("run", "--labels", "x", "true")
    assert done.returncode == 2 and "--labels needs --place" in done.stderr


def test_mig_instances_are_placed_as_gpus_of_their_own(machine):
    m = machine("a100", "a100")
    mig = f"MIG-{m.runner.mark[:8]}"
    first, second = m.env["DROVER_FAKE_GPUS"].split(";")
    m.env["DROVER_FAKE_GPUS"] = f"{first},{mig};{second}"
    c = m.choice(m.job("excluded_devices: [GPU-]\n"))
    assert [(g["uuid"], g["selected"]) for g in c["gpus"]] == [(mig, True), (m.uuids[1], False)]
    done = m.place("job.yaml", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
    assert (done.returncode, done.stdout) == (0, f"{mig}\n"), done.stderr
    assert m.place("job.yaml", "--emit", "mpirun", "--", "a").stdout == f"mpirun -np 1 -x CUDA_VISIBLE_DEVICES={mig} a\n"
    hidden = {"CUDA_VISIBLE_DEVICES": m.uuids[1]}
    done = m.runner.run("place", "job.yaml", env={**m.env, **hidden})
    assert done.returncode == 2 and "1 hidden by CUDA_VISIBLE_DEVICES; 1 in excluded_devices" in done.stderr


# ---- what cannot start -----------------------------------------------------------------------------------------------


def test_a_job_that_can_never_fit_is_refused_at_once_with_advice(machine):
    m = machine("a100", "3090")
    job = m.job("params: 7B\nnum_gpus: 1\nprecision: bf16\ntimeout: 1h\n")
    done = m.place(job, "--", "touch", "started")
    assert done.returncode == 2 and "2 too small" in done.stderr and "  try: " in done.stderr
    assert not (m.runner.cwd / "started").exists() and "waiting" not in done.stderr
    assert "the job needs up to" in m.place(job, "--dry-run").stdout


@pytest.mark.parametrize("models, job, keys", [
    (["a100", "3090"], "model_name: llama-2-7b, num_gpus: 1, precision: bf16, batch_size: 4", None),
    (["a100"] * 4, "params: 2B, num_gpus: 1, precision: bf16", "num_gpus: 4"),
    (["a100"] * 3, "params: 2B, num_gpus: 1, precision: bf16", "offload"),  # as many as the machine has
    (["a100"] * 3, "model_name: llama-2-7b, num_gpus: auto, batch_size: 48", None),
    (["a100"] * 3, "model_name: llama-3-8b, num_gpus: 3, batch_size: 12, distributed_strategy: zero3, precision: bf16",
     "loss: fused, recompute: block"),
    (["a100"] * 3, "model_name: llama-2-7b, num_gpus: 3", "offload_params: true"),
    (["a100", "3090", "3090"], "params: 3B, num_gpus: 2, precision: bf16", "distributed_strategy"),
    (["a100"], "model_name: bert-base, batch_size: 4096", "batch_size"),
    (["3090"], "model_name: gpt2, batch_size_per_gpu: 64, sequence_length: 1024", "batch_size_per_gpu"),
])
def test_each_hint_is_one_for_the_job_file_and_true(machine, models, job, keys):
    m = machine(*models)
    done = m.place(m.job(f"{{{job}}}"), "--dry-run")
    hints = re.findall(r"\{([^}]*)\}: [\d.]+ to [\d.]+ GiB", done.stderr)
    assert done.returncode == 2 and hints, done.stderr
    assert keys is None or any(keys in h for h in hints), hints
    for hint in hints:
        whole = dict(pair.split(": ") for pair in [*job.split(", "), *hint.split(", ")])
        assert int(whole["num_gpus"] if whole.get("num_gpus", "auto") != "auto" else 1) <= len(models), hint
        again = m.place(m.job("".join(f"{k}: {v}\n" for k, v in whole.items())), "--dry-run")
        assert again.returncode == 0, (hint, again.stderr)


def test_a_busy_gpu_is_waited_for_with_one_line_and_until_the_timeout(machine):
    m = machine("a100")
    m.use(0, os.getpid())
    done = m.place(m.job("timeout: 0.6\n"), "--", "true")
    assert done.returncode == 1 and done.stderr.count("waiting up to 0.6 s for GPUs: ") == 1, done.stderr
    assert "after 0.6 s: the job needs 1 GPU: 0 of 1 can be used; 1 in use" in done.stderr
    done = m.place(m.job("framework: own\n"), "--", "true")
    assert done.returncode == 1 and "timeout: 300" in done.stderr and "waiting" not in done.stderr
    waiting = m.start("place", m.job("timeout: 60\n"), "--", "echo", "started")
    wait_until(lambda: b"waiting" in waiting.stderr.readline(), "the line")
    m.users.write_text("")
    assert waiting.communicate(timeout=60)[0] == b"started\n" and waiting.returncode == 0


# ---- the queue -------------------------------------------------------------------------------------------------------


def wait_in_order(m, jobs, more=""):
    """Starts jobs that wait, one after the other: [process]."""
    started = []
    for k, (gpus, line) in enumerate(jobs):
        p = m.start("place", m.job(f"memory: 1G\nnum_gpus: {gpus}\ntimeout: 100\n{more}", f"{k}.yaml"), "--", "sh", "-c", line)
        wait_until(lambda p=p: b"waiting up to" in p.stderr.readline(), "the line of a job that waits")
        started.append(p)
    return started


def test_jobs_that_wait_are_served_in_the_order_of_their_arrival(machine):
    m = machine("a100")
    first, _ = start_placed(m)
    waiting = wait_in_order(m, [(1, f"echo {k} >>order") for k in range(6)])
    first.terminate()
    assert [p.wait(60) for p in waiting] == [0] * 6
    assert (m.runner.cwd / "order").read_text().split() == list("012345")


def test_small_jobs_do_not_overtake_one_that_waits_for_several_gpus(machine):
    """The job of two GPUs waits for the first one; jobs of one GPU, which the second could serve, come later."""
    m = machine("a100", "a100", "3090")
    first, _ = start_placed(m, "memory: 1G\ngpu_type: a100\n")
    large, small = wait_in_order(m, [(2, "test $RANK != 0 || echo large >>order"), (1, "echo small >>order")], "gpu_type: a100\n")
    listed = m.place(m.job("memory: 1G\n", "look.yaml"), "--dry-run").stdout
    assert "GPU1" in listed and listed.count("not selected: reserved for a job that waits for it") == 1, listed
    done = m.place(m.job("memory: 1G\ngpu_type: RTX 3090\n", "other.yaml"), "--", "echo", "at once")
    assert done.stdout == "at once\n", done.stderr  # the large job cannot use this GPU
    late = m.place(m.job("memory: 1G\ngpu_type: a100\n", "late.yaml"), "--", "true")
    assert late.returncode == 1 and "1 locked by a placed job; 1 reserved for a job that waits for it" in late.stderr, late.stderr
    first.terminate()
    assert large.wait(60) == 0 and small.wait(60) == 0
    assert (m.runner.cwd / "order").read_text().split() == ["large", "small"]


def test_a_job_that_is_killed_while_it_waits_leaves_its_place(machine):
    m = machine("a100", "a100")
    first, _ = start_placed(m)
    large, small = wait_in_order(m, [(2, "true"), (1, "echo started")])
    large.kill()
    assert small.communicate(timeout=60)[0] == b"started\n"
    first.terminate()


# ---- locks -----------------------------------------------------------------------------------------------------------


def locked(m, gpu=0):
    return m.choice(m.job("framework: own\n", "look.yaml"))["gpus"][gpu]["reason"].startswith("not selected: locked")


def start_placed(m, text="memory: 1G\n"):
    """A placed job whose rank prints its pid and sleeps: (process, pid of the rank)."""
    p = m.start("place", m.job(text), "--", "sh", "-c", "echo $$; exec sleep 1000")
    return p, int(p.stdout.readline())


def parent_of(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        return int(f.read().rsplit(")", 1)[1].split()[1])


def test_a_placed_job_is_named_and_others_go_elsewhere(machine):
    m = machine("a100", "a100")
    p, _ = start_placed(m)
    assert f"locked by a placed job: the placed job of process {p.pid} of " in m.place("job.yaml", "--dry-run").stdout
    assert m.selected("job.yaml") == [1]
    listed = json.loads(m.runner.run("topo", "--inventory", "--json", env=m.env).stdout)["gpus"]
    assert [bool(g["users"]) for g in listed] == [True, False]
    plain = m.runner.run("run", "-np", "2", "true", env=m.env)
    assert plain.returncode == 0 and f"GPU0 is locked by the placed job of process {p.pid}" in plain.stderr
    p.terminate()
    p.wait()
    assert not locked(m)
    plain = m.runner.run("run", "-np", "2", "true", env=m.env)
    assert "locked" not in plain.stderr


CONTAINER = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc",
             "sh", "-c", 'ip link set lo up; exec "$@"', "sh"]


def in_container(m, *args):
    return subprocess.run([*CONTAINER, DROVER, "place", *args], cwd=m.runner.cwd, env={**m.runner.env, **m.env}, text=True,
                          capture_output=True, stdin=subprocess.DEVNULL, timeout=60, check=False)


@pytest.mark.skipif(subprocess.run([*CONTAINER, "ip", "link"], capture_output=True, check=False).returncode != 0,
                    reason="no network and process namespaces")
def test_containers_see_each_others_locks(machine):
    """A container of today has its own network, and the host's NVML library."""
    m = machine("a100", "a100")
    with subprocess.Popen([*CONTAINER, DROVER, "place", m.job("memory: 1G\n"), "--", "sh", "-c", "echo up; exec sleep 1000"],
                          cwd=m.runner.cwd, env={**m.runner.env, **m.env}, stdout=subprocess.PIPE,
                          stdin=subprocess.DEVNULL) as first:
        assert first.stdout.readline() == b"up\n"
        assert "locked by a placed job: the placed job of another container" in m.place("job.yaml", "--dry-run").stdout
        assert m.selected("job.yaml") == [1]
        second = in_container(m, "job.yaml", "--", "sh", "-c", "echo on $CUDA_VISIBLE_DEVICES")
        assert second.stdout == "on 1\n", second.stderr
        plain = m.runner.run("run", "-np", "2", "true", env=m.env)
        assert plain.returncode == 0 and "GPU0 is locked by the placed job of another container" in plain.stderr
        first.kill()
    wait_until(lambda: not locked(m), "the lock's end", 10)
    held, _ = start_placed(m)
    assert "the placed job of another container" in in_container(m, "job.yaml", "--dry-run").stdout
    held.terminate()
    held.wait()
    together = [subprocess.Popen([*CONTAINER, DROVER, "place", "job.yaml", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; sleep 3"],
                                 cwd=m.runner.cwd, env={**m.runner.env, **m.env}, stdout=subprocess.PIPE,
                                 stdin=subprocess.DEVNULL, text=True) for _ in range(2)]
    assert sorted(p.communicate(timeout=60)[0] for p in together) == ["0\n", "1\n"]


SQUAT = """
import os, socket, sys
os.setgid(65534), os.setuid(65534)
held = [socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in sys.argv[1:]]
for s, name in zip(held, sys.argv[1:]):
    s.bind("\\0" + name)
print("bound", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_holds_no_lock_in_the_name_of_somebody_elses_process(machine):
    m = machine("a100")
    names = [f"drover-gpu/{m.uuids[0]}", f"drover-gpu/{os.getpid()}.01234567/{m.uuids[0]}", f"drover-gpu/1.01234567/{m.uuids[0]}"]
    with subprocess.Popen(["/usr/bin/python3", "-c", SQUAT, *names], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as squatter:
        assert squatter.stdout.readline() == b"bound\n"
        done = m.place(m.job("memory: 1G\n"), "--", "echo", "started")
        assert done.stdout == "started\n", done.stderr
        squatter.stdin.close()


def test_a_job_inside_of_a_placed_job_is_not_warned_of_its_own_lock(machine):
    m = machine("a100")
    done = m.place(m.job("framework: own\nmemory: 1G\n"), "--", DROVER, "run", "-np", "1", "true")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("victims", [["launcher"], ["guardian"], ["rank"], ["monitor", "launcher"], ["monitor", "guardian"]])
def test_kill_9_of_a_placed_job_frees_its_gpu_at_once(machine, victims):
    m = machine("a100")
    p, rank = start_placed(m)
    guardian = parent_of(rank)
    pids = {"launcher": p.pid, "guardian": guardian, "monitor": parent_of(guardian), "rank": rank}
    assert locked(m)
    for k, victim in enumerate(victims):
        os.kill(pids[victim], 9)
        if k + 1 < len(victims):  # the job runs without its guardian's monitor
            assert locked(m) and rank in m.runner.left()
    wait_until(lambda: not locked(m), "the lock's end", 10)
    assert rank not in m.runner.left()  # not before its rank has ended
    p.wait(timeout=10)
    m.runner.nothing_left(10)


# `set -C` makes > fail (O_EXCL) if another job uses the GPU at the same time.
USE = """set -C
echo $$ > gpu.$CUDA_VISIBLE_DEVICES || exit 9
echo $CUDA_VISIBLE_DEVICES >> count
rm gpu.$CUDA_VISIBLE_DEVICES
"""


def test_200_placements_from_8_processes_never_share_a_gpu(machine):
    m = machine("a100", "a100", "a100", "a100", "v100")
    m.job("gpu_type: a100\nmemory: 1G\ntimeout: 300\n")
    (m.runner.cwd / "use.sh").write_text(USE)
    loop = f"for k in $(seq 25); do {DROVER} place job.yaml -- sh use.sh || exit; done"

    def place_25(_):
        return subprocess.run(["sh", "-c", loop], cwd=m.runner.cwd, env={**m.runner.env, **m.env}, text=True,
                              capture_output=True, timeout=300, check=False)

    with ThreadPoolExecutor(8) as pool:
        for done in pool.map(place_25, range(8)):
            assert done.returncode == 0, done.stderr
    used = (m.runner.cwd / "count").read_text().split()
    assert len(used) == 200 and set(used) <= {"0", "1", "2", "3"}


# ---- sweeps ----------------------------------------------------------------------------------------------------------

SWEEP = """program: t.sh
command: [sh, "${program}", "${args}"]
method: grid
metric: {name: loss}
parameters: {x: {values: [1, 2, 3, 4]}}
"""
TRIAL = 'echo "$CUDA_VISIBLE_DEVICES" >> gpus\nwhile ! test -e go; do sleep 0.02; done\necho "{\\"loss\\":1}"\n'


def start_sweep(m, *args):
    (m.runner.cwd / "s.yaml").write_text(SWEEP)
    (m.runner.cwd / "t.sh").write_text(TRIAL)
    return m.start("sweep", *args, "s.yaml", "-q")


def test_the_trials_of_a_sweep_run_on_the_gpus_that_its_workers_have_locked(machine):
    m = machine("v100", "a100", "a100", "a100")
    m.job("gpu_type: a100\nnum_gpus: 2\nexcluded_devices: 1\n")
    p = start_sweep(m, "--place", "job.yaml")
    ran = m.runner.cwd / "gpus"
    wait_until(lambda: ran.exists() and ran.read_text().count("\n") == 2, "two trials")
    assert [locked(m, i) for i in range(4)] == [False, False, True, True]
    (m.runner.cwd / "go").touch()
    assert p.wait(timeout=60) == 0, p.stderr.read()
    assert sorted(set(ran.read_text().split())) == m.uuids[2:]
    wait_until(lambda: not locked(m, 2), "the lock's end", 10)


def test_a_sweep_without_a_placement_leaves_locked_gpus_out(machine):
    m = machine("a100", "a100")
    placed, _ = start_placed(m)
    (m.runner.cwd / "go").touch()
    p = start_sweep(m)
    assert p.wait(timeout=60) == 0, p.stderr.read()
    assert set((m.runner.cwd / "gpus").read_text().split()) == {m.uuids[1]}
    placed.terminate()
    placed.wait()


def test_a_sweep_with_a_wrong_job_file_starts_nothing(machine):
    m = machine("a100")
    p = start_sweep(m, "--place", m.job("framwork: own\n"))
    assert p.wait(timeout=60) == 2 and b"unknown key 'framwork'" in p.stderr.read()
    p = start_sweep(m, "--labels", "x")
    assert p.wait(timeout=60) == 2 and b"--labels needs --place" in p.stderr.read()
    assert not (m.runner.cwd / "sweeps").exists()


# ---- inventory -------------------------------------------------------------------------------------------------------


def test_the_inventory_lists_model_memory_speed_links_load_and_users(machine):
    m = machine("a100", "a100", "3090")
    m.use(2, os.getpid(), 2048)
    env = {**m.env, "DROVER_FAKE_GPU_BUSY": "37", "DROVER_FAKE_NVLINKS": "0 0 11;0 1 11;1 0 10;1 1 10"}
    done = m.runner.run("topo", "--inventory", "--json", env=env)
    gpus = json.loads(done.stdout)["gpus"]
    assert [g["tflops_fp16"] for g in gpus] == [312, 312, 71]
    assert [g["nvlinks"] for g in gpus] == [2, 2, 0]
    assert [g["memory_bytes"] >> 30 for g in gpus] == [40, 40, 24]
    assert gpus[2]["used_bytes"] == 2 << 30 and f"process {os.getpid()} of" in gpus[2]["users"]
    assert all(g["busy_percent"] == 37 for g in gpus)
    lines = m.runner.run("topo", "--inventory", env=env).stdout.splitlines()
    assert len(lines) == 4 and "NV2 to 1" in lines[1] and "37 %" in lines[3] and lines[1].endswith("free")
    assert m.runner.run("topo", "--inventory").stdout == "no GPUs\n"
    bad = m.runner.run("topo", "--inventory", "-H", "a")
    assert bad.returncode == 2 and "this machine only" in bad.stderr


# ---- other programs --------------------------------------------------------------------------------------------------

# Options of `docker run` as its reference has them: with and without a value.
DOCKER_VALUES = {"--gpus", "--ipc", "--ulimit", "--volume", "--workdir", "--env", "--network", "--shm-size", "--name"}
DOCKER_FLAGS = {"--rm", "--init", "--interactive", "--tty", "--privileged"}


def parse_docker(line):
    """`docker run [OPTIONS] IMAGE [COMMAND] [ARG…]` -> ({option: values}, image, command)."""
    words = shlex.split(line)
    assert words[:2] == ["docker", "run"]
    words, options = words[2:], {}
    while words[0].startswith("-"):
        name = words.pop(0)
        assert name in DOCKER_VALUES | DOCKER_FLAGS, name
        options.setdefault(name, []).append(words.pop(0) if name in DOCKER_VALUES else True)
    assert re.fullmatch(r"[a-z0-9]+([._/-][a-z0-9]+)*(:[\w][\w.-]*)?", words[0]), words[0]
    return options, words[0], words[1:]


def test_the_line_for_docker_parses(machine):
    m = machine("a100", "a100", "v100")
    done = m.place(m.job(FLAT), "--emit", "docker", "--", "python3", "train.py", "it's a test")
    options, image, command = parse_docker(done.stdout)
    (fields,) = csv.reader(options["--gpus"])  # docker reads the value as CSV: "device=A,B" is one field
    assert fields == [f"device={','.join(m.uuids[:2])}"]
    assert image == "pytorch/pytorch:latest" and command == ["torchrun", "--nproc-per-node", "2", "train.py", "it's a test"]
    for limit in options["--ulimit"]:
        assert re.fullmatch(r"(memlock|stack)=-?\d+(:-?\d+)?", limit)


def test_the_manifest_for_kubernetes_fits_the_schema(machine):
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    m = machine("a100", "a100")
    done = m.place(m.job(FLAT, "My job_1.yaml"), "--emit", "k8s", "--", "python3", "train.py", "a: b")
    job = yaml.safe_load(done.stdout)
    assert job["kind"] == "Job" and job["apiVersion"] == VERSIONS["Job"] and faults(job, "Job", "Job") == []
    pod = job["spec"]["template"]["spec"]
    assert job["metadata"]["name"] == "my-job-1"
    assert pod["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "2"}
    assert pod["containers"][0]["command"][-1] == "a: b"


def test_gpus_in_use_do_not_matter_to_programs_that_queue(machine):
    m = machine("a100", "a100")
    m.use(0, os.getpid())
    m.job(FLAT)
    for program, status in (("docker", 1), ("mpirun", 1), ("sbatch", 0), ("k8s", 0)):
        done = m.place("job.yaml", "--emit", program, "--", "train.py")
        assert done.returncode == status and bool(done.stdout) == (status == 0), done.stderr


def test_the_line_for_mpirun_runs_in_open_mpi(machine):
    m = machine("a100", "v100", "a100")
    done = m.place(m.job(FLAT), "--emit", "mpirun", "--", "sh", "-c", "echo $OMPI_COMM_WORLD_RANK $CUDA_VISIBLE_DEVICES")
    line = done.stdout.replace("mpirun ", "mpirun --allow-run-as-root --oversubscribe ", 1)
    ran = subprocess.run(["sh", "-c", line], cwd=m.runner.cwd, env=m.runner.env, text=True, capture_output=True, timeout=60,
                         check=False)
    gpus = f"{m.uuids[0]},{m.uuids[2]}"
    assert sorted(ran.stdout.splitlines()) == [f"0 {gpus}", f"1 {gpus}"], ran.stderr


def test_the_line_for_sbatch_runs_in_slurm(slurm, machine):
    m = machine("a100", "a100")
    script = f'echo $RANK $SLURM_JOB_GRES $(hostname) >> {slurm.home}/ran'
    line = m.place(m.job(FLAT), "--emit", "sbatch", "--", "sh", "-c", script).stdout
    status, out, err = slurm.head.run("sh", "-c", f"PATH={BUILD}/bin:$PATH {line}")
    assert status == 0, err
    number = re.search(r"Submitted batch job (\d+)", out)[1]
    ran = slurm.home / "ran"
    wait_until(lambda: ran.exists() and ran.read_text().count("\n") == 2,
               lambda: slurm.head.run("scontrol", "show", "job", number)[1] + "".join(f.read_text() for f in slurm.home.glob("slurm-*")))
    lines = sorted(line.split() for line in ran.read_text().splitlines())
    assert [words[0] for words in lines] == ["0", "1"] and lines[0][-1] == lines[1][-1]
    wait_until(lambda: slurm.head.run("squeue", "-h")[1] == "", "the end of the job")
