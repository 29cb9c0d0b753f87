"""drover for Python: rank and world size, metrics, checkpoint directory.

    import drover
    for step in range(1000):
        ...
        if drover.report(step=step, loss=loss):     # True: save a checkpoint and exit
            break

One file that needs only the standard library. Trials of a sweep and ranks of `drover run` can import it; other programs
import it from drover's folder share/drover, or from a copy. Without drover the program is rank 0 of 1 (or what torchrun, mpirun or Slurm have
set), and its reports are discarded. Call it from one thread at a time.

The first call reads the environment. It raises ValueError if the variables of the launcher are invalid."""
import contextlib
import json
import math
import os
import select
import socket
import sys
import time

__all__ = ["rank", "world_size", "local_rank", "local_world_size", "node_rank", "report", "should_stop",
           "section", "heartbeat", "checkpoint_dir", "Study", "sweep"]

# Rank, world size, local rank, local world size, node number. OMPI_COMM_WORLD_NODE_RANK is not a node number.
_FAMILIES = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", ("NODE_RANK", "GROUP_RANK")),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", ()),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", ()),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", None, ("SLURM_NODEID",)),
)
_REPORT_BYTES_MAX = 60 * 1024
_SECTION_BYTES_MAX = 200


def _number(env, name):
    """The variable as an int; None if it is not set or empty."""
    text = env.get(name) if name else None
    if not text:
        return None
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{name}: '{text}' is not a number")
    return int(text)


def _in_slurm_step(env):
    """True in a task of a Slurm step. A batch script has SLURM_PROCID too, but no real step number."""
    step = env.get("SLURM_STEP_ID", "")
    return step.isdigit() and int(step) < 0xFFFFFFF0


def _identity(env):
    """(rank, size, local rank, local size, node number) from the first family that has both rank and size."""
    rank_without_size = None
    for rank_name, size_name, local_name, local_size_name, node_names in _FAMILIES:
        if rank_name == "SLURM_PROCID" and not _in_slurm_step(env):
            continue
        my_rank, size = _number(env, rank_name), _number(env, size_name)
        if my_rank is not None and size is None:
            rank_without_size = rank_name
        if my_rank is None or size is None:
            continue
        if my_rank >= size:
            raise ValueError(f"{rank_name} is {my_rank}, but {size_name} is {size}")
        local, local_size = _number(env, local_name), _number(env, local_size_name)
        if local_size is None:
            local_size = size
        if local is None:
            local = my_rank % local_size if local_size else 0
        elif local >= local_size:
            raise ValueError(f"{local_name} is {local}, but this node has {local_size} rank{'' if local_size == 1 else 's'}")
        nodes = [n for n in (_number(env, name) for name in node_names) if n is not None]
        return my_rank, size, local, local_size, nodes[0] if nodes else my_rank // max(local_size, 1)
    if rank_without_size is None and "PMIX_RANK" in env:
        rank_without_size = "PMIX_RANK"
    if rank_without_size:
        raise ValueError(f"{rank_without_size} is set, but the number of ranks is not: start the program with "
                         "drover run, mpirun or srun, or set RANK and WORLD_SIZE")
    return 0, 1, 0, 1, 0


def _report_channel(env):
    """The report channel, or None. In a descendant of a rank, another file may have this number."""
    text = env.get("DROVER_REPORT_FD", "")
    if not text.isdigit():
        return None
    channel = None
    try:
        channel = socket.socket(fileno=int(text))
        if channel.family == socket.AF_UNIX and channel.type == socket.SOCK_SEQPACKET:
            channel.set_inheritable(False)
            return channel
    except OSError:
        pass
    if channel is not None:
        channel.detach()  # another file: it stays open
    return None


class _Drover:
    """The state of this process: its identity, and its connection to the launcher."""

    def __init__(self, env):
        self.rank, self.size, self.local_rank, self.local_size, self.node = _identity(env)
        self.channel = _report_channel(env)
        # multiprocessing's spawn and torchrun close the channel: rank 0 of a trial then reports by lines on stdout.
        self.lines = self.channel is None and self.rank == 0 and {"DROVER_REPORT_FD", "DROVER_TRIAL_ID"} <= env.keys()
        self.stop = False
        self.reports = 0
        self.sections = set()  # those that are open

    def close_channel(self):
        self.channel.close()
        self.channel = None

    def report(self, packet):
        if self.lines:
            os.write(1, b"\n" + packet + b"\n")  # newline first: earlier output may be an unfinished line
        self.send(packet)

    def progress(self, kind, **fields):
        if self.channel is not None:
            self.send(json.dumps({"kind": kind, **fields}, ensure_ascii=False, separators=(",", ":")).encode())

    def send(self, packet):
        while self.channel is not None:
            try:
                self.channel.send(packet, socket.MSG_NOSIGNAL)
                return
            except BlockingIOError:  # the program made it non-blocking; the launcher will read
                select.select([], [self.channel], [])
            except (BrokenPipeError, ConnectionError):
                self.close_channel()

    def should_stop(self):
        while self.channel is not None:
            try:
                packet = self.channel.recv(4096, socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            except ConnectionError:
                packet = b""
            if not packet:
                self.close_channel()
            else:
                self.stop = self.stop or _is_stop(packet)
        return self.stop


_instance = None


def _drover():
    global _instance
    if _instance is None:
        _instance = _Drover(os.environ)
    return _instance


def _is_stop(packet):
    try:
        message = json.loads(packet)
    except ValueError:
        return False
    return isinstance(message, dict) and message.get("stop") is True


def _plain(value):
    """The value in JSON's terms. Accepts anything that float() accepts: numpy's numbers, a tensor of one element."""
    value = float(value)
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value


def _json(value):
    """json.dumps() asks for what it does not know: NumPy's numbers and arrays, a tensor."""
    for convert in ("__index__", "tolist", "__float__"):
        if hasattr(value, convert):
            return getattr(value, convert)()
    raise TypeError(f"{value!r} is not a value of JSON")


def _id(trial):
    """The id of a trial as ask() and best() give it. Other values stay as they are."""
    return trial["id"] if isinstance(trial, dict) and isinstance(trial.get("params"), dict) and "id" in trial else trial


def rank():
    """This process's rank in the job, 0 … world_size() - 1."""
    return _drover().rank


def world_size():
    """The number of ranks in the job."""
    return _drover().size


def local_rank():
    """This process's rank on its node, 0 … local_world_size() - 1."""
    return _drover().local_rank


def local_world_size():
    """The number of the job's ranks on this node."""
    return _drover().local_size


def node_rank():
    """The number of this node in the job, from 0 on."""
    return _drover().node


def report(metrics=None, /, *, step=None, **more):
    """Reports metrics of a training step: report(step=3, loss=0.41) or report({"val/loss": 0.41}, step=3).

    metrics, more: names and values; a value is anything that float() accepts, NaN and infinities included.
    step: an integer from 0 to 2**63 - 1; None: the number of reports so far.
    Returns True if the program should save a checkpoint and exit.
    Raises ValueError if the step is outside this range, a name is empty, "step" or not Unicode, or the report is longer than
    60 KiB, and float()'s error if a value is not a number. Such a report is not sent and not counted.

    Only rank 0's reports count; other ranks may call it. No report is dropped. It may wait for the launcher or worker
    on this node, but never for the sweep's coordinator."""
    d = _drover()
    numbers = {**(metrics or {}), **more}
    step = d.reports if step is None else int(step)
    if not 0 <= step < 1 << 63:
        raise ValueError(f"step {step} is {'negative' if step < 0 else 'beyond 64 bits'}")
    packet = {"step": step}
    for name, value in numbers.items():
        if not isinstance(name, str) or not name or name == "step":
            raise ValueError(f"{name!r} is not a valid name for a metric")
        packet[name] = _plain(value)
    line = json.dumps(packet, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    if len(line) > _REPORT_BYTES_MAX:
        raise ValueError(f"a report is longer than {_REPORT_BYTES_MAX} bytes")
    d.reports += 1
    d.report(line)
    return d.should_stop()


def should_stop():
    """Returns True if the program should save a checkpoint and exit, without a report."""
    return _drover().should_stop()


@contextlib.contextmanager
def section(name):
    """Tells the launcher that this rank is in a section of the program: with drover.section("step"): …

    Under drover run with --section-timeouts, a section that takes too long is reported as a hang, with the rank and the
    section. With --stragglers, ranks whose sections take longer than those of the other ranks are reported. Sections
    may be nested or overlap.
    Raises ValueError if the name is empty, not a str, longer than 200 bytes, or that of an open section."""
    d = _drover()
    if not isinstance(name, str) or not name or len(name.encode()) > _SECTION_BYTES_MAX:
        raise ValueError(f"{name!r} is not a valid name for a section")
    if name in d.sections:
        raise ValueError(f"section '{name}' is already open")
    d.sections.add(name)
    begun = time.monotonic()
    d.progress("section_begin", section=name)
    try:
        yield
    finally:
        d.sections.discard(name)
        d.progress("section_end", section=name, s=time.monotonic() - begun)


def heartbeat():
    """Tells the launcher that this rank makes progress (--heartbeat-timeout). Returns what should_stop() returns."""
    d = _drover()
    d.progress("heartbeat")
    return d.should_stop()


def checkpoint_dir():
    """The directory for this job's checkpoints as a str, the same after a restart of a trial; None: none is set."""
    return os.environ.get("DROVER_CKPT_DIR") or None


# ---- search and results, for notebooks and loops of one's own ------------------------------------------------------------

def _start(*args, streams=()):
    """Starts the program `drover`: the one next to this file's share/drover, or that in PATH."""
    import subprocess  # here, since a rank that only reports does not need it, and its import takes 10 ms
    beside = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bin/drover"))
    program = beside if os.access(beside, os.X_OK) else "drover"
    try:
        return subprocess.Popen([program, *args], stdout=subprocess.PIPE, **dict.fromkeys(streams, subprocess.PIPE))
    except FileNotFoundError:
        raise FileNotFoundError(f"the program drover is needed: it is neither '{beside}' nor in PATH") from None


class Study:
    """A search without a sweep: ask for parameters, tell what they were worth. `drover suggest` decides.

        study = drover.Study({"lr": {"min": 1e-5, "max": 0.1}}, goal="minimize")
        for trial in study.ask(4):
            study.tell(trial["id"], train(**trial["params"]))
        study.best()["params"]

    space: the `parameters` of a sweep file as a mapping, or the list of docs/drover-suggest.md. Further keyword
    arguments are keys of its `init`: method, goal, metrics, seed, budget, constraints, outcome_constraints,
    early_terminate …. `note` is what the last ask() said about the search, such as that it explores, or None.
    All methods raise ValueError with drover's message if a request is refused; nothing has changed then.
    Usable as a context manager; close() ends the process. Call it from one thread at a time."""

    def __init__(self, space, **options):
        self._search, self.note = _start("suggest", streams=["stdin"]), None
        try:
            self.notices = self._request(op="init", space=space, **options).get("notices", [])
        except ValueError:
            self.close()
            raise

    def _request(self, **fields):
        if self._search is None:
            raise ValueError("the study is closed")
        try:
            self._search.stdin.write(json.dumps(fields, default=_json).encode() + b"\n")
            self._search.stdin.flush()
            line = self._search.stdout.readline()
        except BrokenPipeError:
            line = b""
        if not line:
            raise RuntimeError(f"'drover suggest' has ended, with status {self._search.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise ValueError(answer["error"])
        return answer

    def ask(self, n=1):
        """Up to n trials to run, each {"id": int, "params": {…}}; fewer, even none, if no new point is left."""
        answer = self._request(op="ask", n=n)
        self.note = answer.get("note")
        return answer["trials"]

    def report(self, trial, value, step=None):
        """Reports a value during a trial, by its id or what ask() gave. Returns "go", "stop" or "pause" (with early_terminate)."""
        return self._request(op="report", id=_id(trial), value=_plain(value), **({} if step is None else {"step": step}))["action"]

    def tell(self, trial, value=None, state="done", **more):
        """Ends a trial: a number, or with several metrics a mapping of their values. state: done, pruned, failed, oom.
        values={…}: what outcome_constraints need, if `value` is a number; else they are among the values.
        `trial`: its id, or what ask() gave; or a mapping of parameters that were run elsewhere. Returns the trial's id."""
        trial = _id(trial)
        result = {"params" if isinstance(trial, dict) else "id": trial, "state": state, **more}
        if isinstance(value, dict):
            result["values"] = {name: _plain(number) for name, number in value.items()}
        elif value is not None:
            result["value"] = _plain(value)
        answer = self._request(op="tell", results=[result])
        return answer["ids"][0] if isinstance(trial, dict) else trial

    def best(self):
        """The best trial {"id", "params", "value"}, or None; with several metrics the list of the Pareto set."""
        answer = self._request(op="best")
        return answer["pareto"] if "pareto" in answer else answer["best"]

    def close(self):
        """Ends the search."""
        search, self._search = self._search, None
        if search:
            search.stdin.close()
            search.stdout.close()
            search.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class _Sweep:
    def __init__(self, name, directory):
        self.name, self.directory = name, directory

    @property
    def trials(self):
        """All trials as they are now, a list of mappings: id, state, params, value, metrics, curves, seconds, node ….
        Raises ValueError with drover's message if there is no such sweep."""
        export = _start("export", self.name, "--dir", self.directory, "--jsonl", "-", streams=["stderr"])
        lines, said = export.communicate()
        if export.returncode:
            raise ValueError(said.decode(errors="replace").strip())
        return [json.loads(line) for line in lines.splitlines()]

    def to_pandas(self):
        """The trials as a DataFrame: one row per trial, params.* and metrics.* as columns. Needs pandas."""
        import pandas
        rows = [{key: value for key, value in trial.items() if key != "curves"} for trial in self.trials]
        return pandas.json_normalize(rows).set_index("id")


def sweep(name, directory="sweeps"):
    """A sweep on disk, which may be running: sweep("digits").trials, sweep("digits").to_pandas()."""
    return _Sweep(name, os.fspath(directory))


if __name__ == "__main__":
    sys.exit("drover.py is a module: import drover")
