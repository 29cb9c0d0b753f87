"""What the steps of scripts/gpu-check share: where things are, how programs run, and their logs."""
import contextlib
import itertools
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

HERE = Path(__file__).resolve().parent.parent.parent
NOTE_MAX = 400
# Each trainer: its GPU library and what that is linked with.
TRAINERS = {"digits": ("mlp_cuda", "cublas"), "gpt": ("gpt_cuda", "cublasLt")}
# Shapes of examples/gpt, as its options: GPT-2 small and medium, two for compute-sanitizer, and --quick's for all. The validation
# at the end has 160 sequences: five batches of `least`.
SHAPES = {name: dict(zip(("layers", "channels", "heads", "context", "batch"), numbers)) for name, numbers in
          (("124m", (12, 768, 12, 1024, 16)), ("350m", (24, 1024, 16, 1024, 8)), ("tiny", (1, 64, 2, 48, 2)), ("least", (1, 32, 2, 33, 32)), ("quick", (1, 32, 2, 16, 2)))}
LOG_MAX = 4000
# What --part failed asks of the libraries; each file is a command's own, and NCCL's a process's.
ALL_LOGS = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": "{log}.nccl.%p", "CUBLASLT_LOG_LEVEL": "2", "CUBLASLT_LOG_FILE": "{log}.cublaslt.%i",
            "CUDNN_LOGLEVEL_DBG": "2", "CUDNN_LOGDEST_DBG": "{log}.cudnn", "CUDNN_FRONTEND_LOG_INFO": "1",
            "CUDNN_FRONTEND_LOG_FILE": "{log}.cudnn_frontend", "DROVER_LOG": "debug"}


class Failed(Exception):
    """What a step checks is not so."""


class Skipped(Exception):
    """A step cannot be done here; the reason."""


class Ended(BaseException):
    """A signal has told the check to end; its name."""


def last_words(text, lines=3):
    kept = [line.strip() for line in text.strip().splitlines() if line.strip() and "try: drover runs" not in line]
    return " | ".join(kept[-lines:])[-NOTE_MAX:]


def need(condition, why):
    if not condition:
        raise Failed(why)


class Check:
    """What the steps share: where things are, the environment, and the present step's deadline."""

    def __init__(self, tree, work, options):
        self.tree, self.work, self.options = tree, work, options
        self.drover = tree / "bin/drover"
        self.conform = next((p for p in (tree / "libexec/drover/conform", tree / "tests/conform") if p.exists()), None)
        self.examples = tree / "examples" if (tree / "examples/digits/main.c").exists() else HERE / "examples"
        self.sources = tree / "src" if (tree / "src").is_dir() else HERE
        self.trainer = {name: tree / "examples" / name / name for name in TRAINERS}
        self.vectors, self.peer = (next((p for p in (tree / "libexec/drover" / name, *others) if p.exists()), None) for name, *others in
                                   (("gpt_vectors", tree / "tests/gpt_vectors"), ("gpt_peer.py", HERE / "tests/e2e/gpt_peer.py")))
        self.with_torch = None  # a Python
        self.planted = None  # the program with planted faults, once `build` has made it
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMIX_", "SLURM_"))}
        # The last is where containers have nvidia-smi.
        self.env["PATH"] = f"{tree / 'bin'}:{self.env.get('PATH', '/usr/bin:/bin')}:/usr/local/nvidia/bin"
        self.gpu = options.assume_gpu or Path("/dev/nvidiactl").exists()
        # The largest messages: of one rank, and of ranks that talk through the loopback interface.
        self.largest, self.shared = ("1M", "64K") if options.quick else ("256M", "16M")
        self.end = 0.0
        self.metrics = {}  # the present step's, kept also when it fails
        self.logs = work / "logs"  # the present step's, a folder
        self.kept = None  # where all logs stay, with --part failed
        self.numbers = itertools.count(1)
        self.running = set()
        self.hostids = False  # whether NCCL takes two ranks on one GPU when each says that it is another host

    def keep_all_logs(self, folder):
        """From now on each command leaves its output and all logs in FOLDER/STEP."""
        shutil.rmtree(folder, ignore_errors=True)
        self.kept = folder

    def folder_of_logs(self, step):
        return (self.kept or self.work / "logs") / step

    def left(self):
        """Seconds that the present step has left."""
        return self.end - time.monotonic()

    def logging(self, words):
        """-> (where this command's logs begin, the variables that ask CUDA's driver and the libraries for them)"""
        self.logs.mkdir(parents=True, exist_ok=True)
        log = self.logs / f"{next(self.numbers):03}.{Path(words[0]).name}"
        wanted = {"CUDA_LOG_FILE": "{log}.cuda", **(ALL_LOGS if self.kept else {})}
        return log, {name: value.replace("{log}", str(log)) for name, value in wanted.items()}

    def run(self, *argv, limit_s=None, ok=(0,), **env):
        """Runs a program to its end, or to the step's; Failed unless it ends with a status of `ok` (None: any)."""
        limit = max(1.0, min(self.left(), limit_s or self.left()))
        words = [str(a) for a in argv]
        name = " ".join(Path(w).name if "/" in w else w for w in words[:3])
        log, logged = self.logging(words)
        try:
            p = subprocess.Popen(words, cwd=self.work, env={**self.env, **logged, **env}, text=True, errors="replace",
                                 start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE)
        except OSError as e:
            raise Failed(f"{name}: {e.strerror}") from e
        p.out, p.err, over = "", "", False
        self.running.add(p)
        try:
            p.out, p.err = p.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            over = True
            p.out, p.err = self.end_group(p)
        except BaseException:
            self.end_group(p)
            raise
        finally:
            self.running.discard(p)
            if self.kept:
                Path(f"{log}.txt").write_text(f"$ {shlex.join(words)}\n# status {p.returncode}\n{p.out}\n# stderr\n{p.err}\n")
        if over:
            raise Failed(f"{name}: no end after {limit:.0f} s: {last_words(p.err)}")
        if ok is not None and p.returncode not in ok:
            raise Failed(f"{name}: status {p.returncode}: {last_words(p.err or p.out)}")
        return p

    def end_running(self):
        """Tells all that runs to end, as also what other threads have started."""
        for p in list(self.running):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(p.pid, signal.SIGTERM)

    @staticmethod
    def end_group(p):
        """Ends a program with all that it started -> (its stdout, its stderr)"""
        said = ("", "")
        with contextlib.suppress(ProcessLookupError):
            os.killpg(p.pid, signal.SIGTERM)
        for wait_s, then in ((3, signal.SIGKILL), (3, None)):
            try:
                return p.communicate(timeout=wait_s)
            except subprocess.TimeoutExpired:
                if then:
                    os.killpg(p.pid, then)
                else:  # stuck inside the driver, or something of its has our pipe
                    said = ("", "and it cannot be ended")
        return said

    def driver_errors(self):
        """What CUDA's driver wrote into the present step's CUDA_LOG_FILEs: which call failed, and why."""
        return "".join(p.read_text(errors="replace") for p in sorted(self.logs.glob("*.cuda")))[-LOG_MAX:]

    def needs_gpu(self):
        if not self.gpu:
            raise Skipped("no GPU: /dev/nvidiactl is not there")

    def bench(self, op, *options, ok=(0,), **env):
        """One rank's table -> the JSON document."""
        done = self.run(self.drover, "bench", op, "-np", 1, "--backend", "nccl", "--json", *options, ok=ok, **env)
        return json.loads(done.out)

    def train(self, *options, **env):
        """examples/digits -> ([(loss, val_loss), …], checksum of the weights)"""
        out = self.run(self.trainer["digits"], *options, **env).out
        rows = re.findall(r"^epoch +\d+  loss (\S+)  val_loss (\S+)", out, re.M)
        need(rows, f"digits printed no losses: {last_words(out)}")
        return [tuple(map(float, r)) for r in rows], re.search(r"^weights (\w+)", out, re.M)[1]

    def shape(self, name):
        """-> (a shape of examples/gpt, its options)"""
        shape = SHAPES["quick" if self.options.quick else name]
        return shape, [f"--{k}={v}" for k, v in shape.items()]

    def gpt(self, *options):
        """examples/gpt -> its losses, the checksum of its weights, tokens/s, MFU in percent, what computes attention (None: no
        choice), and bytes: activations, all that it allocates for the model, the device"""
        out = self.run(self.trainer["gpt"], *options).out
        losses = [(float(x),) for x in re.findall(r"^step +\d+  loss (\S+)", out, re.M)]
        rate = re.search(r"^throughput (\d+) tokens/s, MFU (\S+)", out, re.M)
        memory = re.search(r"^memory (\d+) bytes of activations, (\d+) bytes of optimizer state, (\d+) bytes of the device.*\n"
                           r"parameters (\d+) bytes, gradients (\d+) bytes", out, re.M)
        need(losses and rate and memory, f"gpt printed no results: {last_words(out)}")
        attention = re.search(r"^attention by (.*)$", out, re.M)
        return SimpleNamespace(losses=losses, weights=re.search(r"^weights (\w+)", out, re.M)[1], tokens_s=int(rate[1]),
                               mfu=float(rate[2]) if rate[2] != "unknown" else None, activations=int(memory[1]),
                               attention=attention and attention[1],
                               allocated=sum(int(memory[i]) for i in (1, 2, 4, 5)), used=int(memory[3]))

    def needs_gpt_cuda(self):
        self.needs_gpu()
        if not self.trainer["gpt"].with_name("gpt_cuda.so").exists():
            raise Skipped("no nvcc, and no gpt_cuda.so in the bundle")

    def python(self):
        """The Python that has torch, or Skipped. Looks once: the import takes seconds."""
        if self.with_torch:
            return self.with_torch
        for program in dict.fromkeys(filter(None, (shutil.which("python3"), sys.executable, "/usr/bin/python3"))):
            if os.access(program, os.X_OK) and self.run(program, "-c", "import torch", ok=None).returncode == 0:
                self.with_torch = program
                return program
        raise Skipped("no python3 here has PyTorch")

    def two_on_one(self, ranks, *argv):
        """A job whose ranks share the GPU, each of them on a host of its own as far as NCCL knows."""
        return [self.drover, "run", "-np", ranks, "--oversubscribe", "sh", "-c",
                'NCCL_HOSTID=check-$RANK exec "$@"', "sh", *argv]


LOOPBACK = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_MAX_CTAS": "2", "NCCL_IB_DISABLE": "1"}


def rows_of(record):
    """Its last row, when there are no wrong elements."""
    need(record["rows"] and record["wrong"] == 0, f"{record['collective']}: {record['wrong']} wrong elements")
    return record["rows"][-1]
def apart(a, b):
    need(len(a) == len(b), f"{len(a)} losses and {len(b)}")
    return max(abs(x - y) for p, q in zip(a, b) for x, y in zip(p, q))

