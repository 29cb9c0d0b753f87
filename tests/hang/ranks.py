"""A rank of a job that hangs, or only seems to: ranks.py KIND VICTIM DIR. kinds.py says what each kind must show.

Ranks wait for each other in MPI (Open MPI by ctypes, which spins), in gloo (torch, whose ranks are idle), or for a GPU
(a loop like cudaStreamSynchronize's, while NVML's stand-in reports what the GPU does)."""
import ctypes
import datetime
import fcntl
import json
import multiprocessing
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

FOREVER_S = 1000
HEALTHY_S = 7
RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
KIND, VICTIM, DIR = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])


class Mpi:
    """What the kinds call of Open MPI."""

    def __init__(self):
        self.lib = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
        self.world, self.int = (ctypes.addressof(ctypes.c_char.in_dll(self.lib, f"ompi_mpi_{n}"))
                                for n in ("comm_world", "int"))
        self.buffer = (ctypes.c_int * 4)()
        self.lib.MPI_Init(None, None)

    def barrier(self):
        self.lib.MPI_Barrier(ctypes.c_void_p(self.world))

    def broadcast(self):
        self.lib.MPI_Bcast(self.buffer, 1, ctypes.c_void_p(self.int), 0, ctypes.c_void_p(self.world))

    def receive(self, source):
        self.lib.MPI_Recv(self.buffer, 1, ctypes.c_void_p(self.int), source, 0, ctypes.c_void_p(self.world), None)

    def end(self):
        self.barrier()
        self.lib.MPI_Finalize()


def use_gloo(init=True):
    import torch.distributed as dist
    if init:
        dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=FOREVER_S))
    return dist


def all_reduce(dist, times=1):
    import torch
    for _ in range(times):
        dist.all_reduce(torch.ones(4))


def wait_for_gpu():
    """The main thread polls as cudaStreamSynchronize does."""
    ctypes.CDLL(None).sched_yield.argtypes = []
    while True:
        os.sched_yield()


def burn_in_thread(share=0.4):
    """NCCL's and PyTorch's threads use the CPU of a rank that does nothing."""
    def burn():
        while True:
            end = time.monotonic() + 0.01 * share
            while time.monotonic() < end:
                pass
            time.sleep(0.01 * (1 - share))
    threading.Thread(target=burn, daemon=True).start()


# ---- what a victim does ----------------------------------------------------------------------

def sleep():
    time.sleep(FOREVER_S)


def pause():
    signal.pause()


def open_fifo():
    os.mkfifo(DIR / "fifo")
    os.open(DIR / "fifo", os.O_RDONLY)


def read_fifo():
    os.mkfifo(DIR / "fifo")
    os.read(os.open(DIR / "fifo", os.O_RDWR), 1)


def read_stdin():
    sys.stdin.readline()


def wait_for_worker(target):
    q = multiprocessing.Queue()
    multiprocessing.Process(target=target, args=(q,), daemon=True).start()
    while True:
        try:
            return q.get(timeout=5)
        except queue.Empty:
            pass


def worker_reads():
    wait_for_worker(lambda q: read_fifo())


def worker_lock():
    lock = threading.Lock()
    lock.acquire()
    wait_for_worker(lambda q: lock.acquire())


def use_dead_disk():
    libc = ctypes.CDLL(None, use_errno=True)
    os.mkdir(DIR / "data")
    libc.unshare(0x20000)
    libc.mount(b"none", b"/", None, 0x44000, None)
    fd = os.open("/dev/fuse", os.O_RDWR)
    if libc.mount(b"fuse", os.fsencode(DIR / "data"), b"fuse", 0, f"fd={fd},rootmode=40000,user_id=0,group_id=0".encode()):
        print("no FUSE here:", os.strerror(ctypes.get_errno()), flush=True)
    os.stat(DIR / "data" / "x")


def two_locks():
    a, b = threading.Lock(), threading.Lock()

    def other():
        with b:
            time.sleep(0.2)
            with a:
                pass
    threading.Thread(target=other, daemon=True).start()
    with a:
        time.sleep(0.2)
        with b:
            pass


def loop_python():
    while True:
        pass


def loop_c():
    re.match("(a+)+$", "a" * 40 + "b")


def stop():
    os.kill(os.getpid(), signal.SIGSTOP)


def fail():
    threading.Thread(target=sleep).start()
    raise ValueError("a bad batch")


def fill_disk():
    first = True
    while True:
        try:
            with open("/dev/full", "w") as f:
                f.write("x" * 10000)
        except OSError as e:
            if first:
                print(f"checkpoint not written: {e.strerror}, trying again", flush=True)
            first = False
        time.sleep(1)


def run_child():
    subprocess.run(["sleep", str(FOREVER_S)], check=False)


def run_shell_child():
    os.system(f"sleep {FOREVER_S}; :")


def download(timeout=None):
    s = socket.create_connection(("127.0.0.1", int((DIR / "port").read_text())), timeout=timeout)
    s.sendall(b"GET / HTTP/1.0\r\n\r\n")
    s.recv(1000)


def connect_full():
    socket.create_connection(("127.0.0.1", int((DIR / "full_port").read_text())))


def fill_stdout():
    while True:
        print("x" * 1000)


def sleep_with_threads():
    burn_in_thread()
    sleep()


VICTIMS = {"sleep": sleep, "pause": pause, "open_fifo": open_fifo, "read_fifo": read_fifo, "read_stdin": read_stdin,
           "worker_reads": worker_reads, "worker_lock": worker_lock, "dead_disk": use_dead_disk, "two_locks": two_locks,
           "loop_python": loop_python, "loop_c": loop_c, "stop": stop, "fail": fail, "disk_full": fill_disk,
           "child": run_child, "shell_child": run_shell_child, "download": download,
           "download_poll": lambda: download(FOREVER_S), "connect": connect_full, "stdout": fill_stdout,
           "threads": sleep_with_threads}


# ---- jobs ------------------------------------------------------------------------------------

def job_mpi(what):
    mpi = Mpi()
    mpi.barrier()
    if RANK == VICTIM:
        VICTIMS[what]()
    mpi.end()


def job_gloo(what):
    dist = use_gloo()
    all_reduce(dist, 3)
    if RANK == VICTIM:
        VICTIMS[what]()
    all_reduce(dist)


def job_gpu(what):
    """The others' GPUs are said to spin."""
    if RANK == VICTIM and what != "none":
        VICTIMS[what]()
    wait_for_gpu()


def ras_answer(what):
    """What NCCL's RAS service says when the victim is behind, calls something else, has finalised, or is gone."""
    ranks = []
    for r in range(SIZE):
        victim = r == VICTIM
        counts = {"AllReduce": 4020 if victim and what != "left" else 4021, "AllGather": int(victim and what == "other")}
        ranks.append({"rank": r, "host": "127.0.0.1", "pid": int((DIR / f"pid.{r}").read_text()), "collective_counts": counts,
                      "status": {"init_state": 0, "async_error": 0, "finalize_called": victim and what == "left",
                                 "destroy_flag": False, "abort_flag": False}})
    missing = []
    if what == "gone":
        missing = [{**ranks.pop(VICTIM), "status": {"unresponsive": True, "considered_dead": False}}]
    return json.dumps({"nccl_version": "2.30.7", "communicators": [{"hash": "1", "ranks": ranks, "missing_ranks": missing}]})


def serve_ras(server, what):
    while True:
        client, _ = server.accept()
        with client, client.makefile("rw") as f:
            for line in f:
                f.write("SERVER PROTOCOL 2\n" if "PROTOCOL" in line else ras_answer(what) if "STATUS" in line else "OK\n")
                f.flush()
                if "STATUS" in line:
                    break


def job_ras(what):
    """All GPUs and CPUs spin, and NCCL's RAS service, whose stand-in is here, says how ranks differ."""
    (DIR / f"pid.{RANK}").write_text(str(os.getpid()))
    if RANK == 0:
        host, port = os.environ["NCCL_RAS_ADDR"].split(":")
        threading.Thread(target=serve_ras, args=(socket.create_server((host, int(port))), what), daemon=True).start()
    wait_for_gpu()


def job_lock(what):
    mpi = Mpi()
    f = open(DIR / "cache.lock", "w")
    take = fcntl.flock if what == "flock" else fcntl.lockf
    if RANK == VICTIM:
        take(f, fcntl.LOCK_EX)
    mpi.barrier()
    if RANK != VICTIM:
        take(f, fcntl.LOCK_EX)
    mpi.end()


def job_mpi_receive(what):
    mpi = Mpi()
    if RANK == VICTIM:
        VICTIMS[what]()
    mpi.receive(VICTIM)


def job_mpi_ring(what):
    """Each rank receives first, and spins."""
    mpi = Mpi()
    mpi.receive((RANK + 1) % SIZE)


def job_mpi_calls(what):
    """The victim waits for a message, the others wait for the victim."""
    mpi = Mpi()
    if RANK == VICTIM:
        mpi.receive((RANK + 1) % SIZE)
    else:
        mpi.barrier()


def job_mpi_init(what):
    if RANK == VICTIM:
        VICTIMS[what]()
    Mpi()


def job_gloo_init(what):
    if RANK == VICTIM:
        VICTIMS[what]()
    use_gloo()


def job_gloo_group(what):
    dist = use_gloo()
    if RANK == VICTIM:
        VICTIMS[what]()
    dist.new_group(list(range(SIZE)))


def job_store(what):
    """Ranks wait for a key that the victim does not set, or for one that each of the others sets."""
    dist = use_gloo(init=False)
    port = int(os.environ["MASTER_PORT"])
    store = dist.TCPStore("127.0.0.1", port, SIZE, RANK == 0, datetime.timedelta(seconds=FOREVER_S))
    if (RANK == VICTIM) == (what == "gone"):
        os._exit(0)
    store.get("never")


def job_gloo_recv(what):
    """Each rank receives first: a ring."""
    import torch
    dist = use_gloo()
    dist.recv(torch.ones(4), src=(RANK + 1) % SIZE)


def job_gloo_calls(what):
    import torch
    dist = use_gloo()
    if RANK == VICTIM:
        dist.recv(torch.ones(4), src=(RANK + 1) % SIZE)
    else:
        dist.barrier()


# ---- jobs that do not hang -------------------------------------------------------------------

def until(what):
    end = time.monotonic() + HEALTHY_S
    while time.monotonic() < end:
        what()


def job_evaluates(what):
    """Rank 0 computes, without a line, while the others wait."""
    mpi = Mpi() if what == "mpi" else None
    dist = use_gloo() if what == "gloo" else None
    if RANK == 0:
        until(lambda: sum(len(str(i)) for i in [bytearray(1 << 20) for _ in range(10)]))
    if mpi:
        mpi.end()
    else:
        all_reduce(dist)


def job_reduces(what):
    """The ranks compute a little, and meet: without a line, new memory or bytes."""
    mpi = Mpi()
    end = time.monotonic() + HEALTHY_S
    while True:
        sum(range(50000 * (RANK + 1)) if what == "uneven" else range(200000))
        mpi.buffer[0] = time.monotonic() < end
        mpi.broadcast()
        if not mpi.buffer[0]:
            break
    mpi.end()


def job_writes(what):
    mpi = Mpi()
    if RANK == 0:
        with open(DIR / "checkpoint", "wb") as f:
            until(lambda: (f.seek(0), f.write(b"x" * (1 << 20)), f.flush(), time.sleep(0.1)))
    mpi.end()


def job_compiles(what):
    """As torch.compile does: its child processes compute."""
    mpi = Mpi()
    if RANK == 0:
        until(lambda: subprocess.run(["sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"], check=False))
    mpi.end()


def job_prints(what):
    until(lambda: (print("step", flush=True), time.sleep(1)))


def job_downloads(what):
    """Slowly: 64 KiB every 0.1 s, which are written to a file."""
    mpi = Mpi()
    if RANK == 0:
        out = open(DIR / "weights", "wb")
        until(lambda: (out.write(b"x" * 65536), out.flush(), time.sleep(0.1)))
    mpi.end()


def job_gpu_works(what):
    until(lambda: time.sleep(0.5))


JOBS = {name[4:]: f for name, f in globals().items() if name.startswith("job_")}

if __name__ == "__main__":
    job, _, what = KIND.partition(":")
    JOBS[job](what)
