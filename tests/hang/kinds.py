"""The kinds of hang, and what `drover run --hang-timeout` must say of each: kinds.py [--seeds N] [--only WORD ...] [--jobs N].

Runs every kind with some seeds, which choose the number of ranks and the victim, and prints a table."""
import argparse
import concurrent.futures
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("DROVER_BUILD", "build/dev")
PYTHON = "/usr/bin/python3"
LIMIT_S = 90

SPIN = "gpu {} utilization 100\ngpu {} memory_utilization 0\ngpu {} power 119000\n"
IDLE = "gpu {} utilization 0\ngpu {} memory_utilization 0\ngpu {} power 73000\n"
WORK = "gpu {} utilization 100\ngpu {} memory_utilization 12\ngpu {} power 505000\n"
LOST = "gpu {} utilization error 15\n"


def gpus(n, victim, others, own):
    """The description of a machine on which the victim's GPU does something else."""
    return f"gpus {n}\n" + "".join((own if i == victim else others).replace("{}", str(i)) for i in range(n))


# name: (job of ranks.py, class, culprits, more); more: sizes (numbers of ranks), victim (-1: not rank 0), harness, nvml (what
# the GPUs of the others do, and the victim's)
KINDS = {
    "rank sleeps, MPI": ("mpi:sleep", "missing", "victim", {}),
    "rank waits for a signal, MPI": ("mpi:pause", "missing", "victim", {}),
    "rank sleeps, gloo": ("gloo:sleep", "missing", "victim", {}),
    "opens a FIFO": ("mpi:open_fifo", "input", "victim", {}),
    "reads a FIFO": ("mpi:read_fifo", "input", "victim", {}),
    "reads a FIFO, gloo": ("gloo:read_fifo", "input", "victim", {}),
    "reads stdin": ("mpi:read_stdin", "input", "victim", {"victim": 0}),
    "worker reads a FIFO": ("mpi:worker_reads", "data", "victim", {}),
    "worker forked with a lock": ("mpi:worker_lock", "data", "victim", {}),
    "file system is dead": ("mpi:dead_disk", "file system", "victim", {}),
    "flock": ("lock:flock", "file lock", "victim", {}),
    "fcntl lock": ("lock:fcntl", "file lock", "victim", {}),
    "two locks": ("mpi:two_locks", "lock", "victim", {}),
    "loop in Python, gloo": ("gloo:loop_python", "loop", "victim", {}),
    "loop in C, gloo": ("gloo:loop_c", "loop", "victim", {}),
    "SIGSTOP": ("mpi:stop", "stopped", "victim", {}),
    "recv against barrier, gloo": ("gloo_calls", "different call", "victim", {"sizes": (3, 4)}),
    "exits with 0, others in the store": ("store:gone", "gone", "victim", {"victim": -1}),
    "the others are done": ("store:uneven", "uneven data", "others", {"sizes": (3, 4), "victim": 0}),
    "traceback, does not end": ("mpi:fail", "failed, not ended", "victim", {}),
    "all receive first, gloo": ("gloo_recv", "cycle", "none", {}),
    "no new_group, gloo": ("gloo_group:sleep", "start", "victim", {}),
    "no MPI_Init": ("mpi_init:sleep", "start", "victim", {}),
    "no init_process_group": ("gloo_init:sleep", "start", "victim", {"victim": -1}),
    "connection is not answered": ("mpi:connect", "network", "victim", {"harness": "full"}),
    "MPI_Recv without MPI_Send": ("mpi_receive:pause", "missing", "victim", {}),
    "all receive first, MPI": ("mpi_ring", "cycle", "none", {}),
    "MPI_Recv against MPI_Barrier": ("mpi_calls", "different call", "victim", {"sizes": (3, 4)}),
    "stdout is not read": ("mpi:stdout", "output", "victim", {"harness": "stdout"}),
    "disk is full": ("mpi:disk_full", "disk", "victim", {}),
    "subprocess.run does not end": ("mpi:child", "child", "victim", {}),
    "shell command does not end": ("mpi:shell_child", "child", "victim", {}),
    "download without time limit": ("mpi:download", "remote", "victim", {"harness": "server"}),
    "download with a long limit": ("mpi:download_poll", "remote", "victim", {"harness": "server"}),
    "GPU: rank sleeps": ("gpu:threads", "missing", "victim", {"nvml": (SPIN, IDLE)}),
    "GPU: rank reads a FIFO": ("gpu:read_fifo", "input", "victim", {"nvml": (SPIN, IDLE)}),
    "GPU: two ranks share one, one sleeps": ("gpu:threads", "missing", "victim", {"nvml": (SPIN, SPIN), "sizes": (2,)}),
    "GPU: all wait": ("gpu:none", "network", "none", {"nvml": (SPIN, SPIN)}),
    "RAS: rank is behind": ("ras:behind", "missing", "victim", {"nvml": (SPIN, SPIN)}),
    "RAS: rank calls another collective": ("ras:other", "different call", "victim", {"nvml": (SPIN, SPIN), "sizes": (3, 4)}),
    "RAS: rank has finalised": ("ras:left", "uneven data", "victim", {"nvml": (SPIN, SPIN)}),
    "RAS: rank does not answer": ("ras:gone", "gone", "victim", {"nvml": (SPIN, SPIN)}),
    "GPU: lost": ("gpu:threads", "GPU", "victim", {"nvml": (SPIN, LOST)}),
}
HEALTHY = {
    "rank 0 evaluates, MPI": ("evaluates:mpi", {}),
    "rank 0 evaluates, gloo": ("evaluates:gloo", {}),
    "uneven short steps, MPI": ("reduces:uneven", {}),
    "short steps, MPI": ("reduces:even", {}),
    "rank 0 writes a checkpoint": ("writes", {}),
    "rank 0 compiles in child processes": ("compiles", {}),
    "a line now and then": ("prints", {}),
    "rank 0 downloads slowly": ("downloads", {}),
    "GPUs work, CPUs do nothing": ("gpu_works", {"nvml": (WORK, WORK)}),
    "one GPU works, others wait": ("gpu_works", {"nvml": (SPIN, WORK)}),
}


class Harness:
    """What is outside of the job: a server that answers nothing, one whose queue is full, a stdin or stdout."""

    def __init__(self, kind, directory):
        self.open, self.stdin, self.stdout = [], subprocess.DEVNULL, None
        s = socket.socket()
        s.bind(("127.0.0.1", 0))
        s.listen(0 if kind == "full" else 5)
        self.open.append(s)
        (directory / "port").write_text(str(s.getsockname()[1]))
        (directory / "full_port").write_text(str(s.getsockname()[1]))
        for _ in range(2 if kind == "full" else 0):
            c = socket.socket()
            c.setblocking(False)
            c.connect_ex(s.getsockname())
            self.open.append(c)

    def close(self):
        for s in self.open:
            s.close()


def run_job(job, more, seed, directory):
    """Runs a job under drover -> (number of ranks, victim, exit status, event of the hang or None, stderr)."""
    rng = random.Random(f"{seed} {job}")
    n = rng.choice(more.get("sizes", (2, 3, 4)))
    victim = more.get("victim", rng.randrange(n))
    victim = victim if victim >= 0 else rng.randrange(1, n)
    harness = Harness(more.get("harness"), directory)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMIX_", "DROVER_", "MAKE"))}
    env |= {"XDG_STATE_HOME": str(directory / "state"), "OMP_NUM_THREADS": "1", "TMPDIR": str(directory)}
    if "nvml" in more:
        (directory / "machine").write_text(gpus(n, victim, *more["nvml"]))
        env |= {"DROVER_NVML_LIB": str(BUILD / "tests/fake/libnvidia-ml.so.1"), "DROVER_FAKE_NVML": str(directory / "machine")}
    p = subprocess.Popen([BUILD / "bin/drover", "run", "--oversubscribe", "-np", str(n), "--no-preflight", "--grace", "1",
                          "--hang-timeout", str(more.get("timeout", 3)), "--events", directory / "events",
                          PYTHON, Path(__file__).with_name("ranks.py"), job, str(victim), directory], cwd=directory, env=env,
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=open(directory / "stderr", "wb"))
    try:
        if more.get("harness") != "stdout":
            drain(p.stdout)
        p.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        p.kill()
        p.wait()
    harness.close()
    lines = (directory / "events").read_text().splitlines() if (directory / "events").exists() else []
    hangs = [e for e in map(json.loads, lines) if e["event"] == "hang"]
    return n, victim, p.returncode, hangs[0] if hangs else None, (directory / "stderr").read_text(errors="replace")


def drain(stream):
    threading.Thread(target=lambda: [None for _ in iter(lambda: stream.read(65536), b"")], daemon=True).start()


def judge(name, seed):
    """Runs one kind -> dict with what was found, and if it is right."""
    directory = Path(tempfile.mkdtemp(prefix="drover-hang-"))
    healthy = name in HEALTHY
    job, klass, who, more = (HEALTHY[name][0], None, None, HEALTHY[name][1]) if healthy else KINDS[name]
    try:
        n, victim, status, hang, text = run_job(job, more, seed, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    want = {"victim": [victim], "others": [r for r in range(n) if r != victim], "none": [], None: None}[who]
    got = hang and hang.get("culprits")
    right_class = bool(hang) and hang["class"] == klass
    print(f"{name}, seed {seed}: {hang and hang['class']} {got}", file=sys.stderr, flush=True)
    right = (hang is None and status == 0) if healthy else right_class and got == want
    return {"kind": name, "seed": seed, "ranks": n, "victim": victim, "status": status, "found": bool(hang), "class":
            hang and hang["class"], "want_class": klass, "culprits": got, "want": want, "right": right,
            "right_class": right_class, "right_culprits": got == want, "verdict": hang and hang["verdict"], "text": text}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    names = [n for n in [*KINDS, *HEALTHY] if not args.only or any(w in n for w in args.only)]
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        results = list(pool.map(lambda t: judge(*t), [(n, s) for s in range(args.seeds) for n in names]))
    print("| kind | class | found | class right | culprits right |\n| --- | --- | --- | --- | --- |")
    for name in names:
        mine = [r for r in results if r["kind"] == name]
        if name in HEALTHY:
            print(f"| {name} | healthy | {sum(r['found'] for r in mine)} of {len(mine)} | – | – |")
            continue
        print(f"| {name} | {mine[0]['want_class']} | " +
              " | ".join(f"{sum(bool(r[k]) for r in mine)} of {len(mine)}" for k in ("found", "right_class", "right_culprits")) + " |")
    hung = [r for r in results if r["kind"] in KINDS]
    fine = [r for r in results if r["kind"] in HEALTHY]
    print(f"\n{len({r['kind'] for r in hung})} kinds, {len(hung)} jobs: {sum(r['right'] for r in hung)} right; "
          f"{len(fine)} healthy jobs: {sum(r['found'] for r in fine)} alarms; {time.monotonic() - begin:.0f} s")
    for r in results:
        if args.verbose or not r["right"]:
            print(f"- {r['kind']}, seed {r['seed']}: {r['ranks']} ranks, victim {r['victim']}, status {r['status']}, class "
                  f"{r['class']}, culprits {r['culprits']}, wanted {r['want']}: {r['verdict']}")
            if args.verbose:
                print(r["text"])
    return 0 if all(r["right"] for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
