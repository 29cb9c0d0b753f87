"""drover for Python: which rank am I, here are my metrics, where do I keep checkpoints.

    import drover
    for step in range(1000):
        ...
        if drover.report(step=step, loss=loss):     # True: save and end, please
            break

One file, standard library only: trials of a sweep find it; else import it from where drover installed it, or copy it
beside the program. Without drover around it, it is rank 0 of 1 (or what torchrun, mpirun or Slurm say) and reports go
nowhere. One thread at a time."""
import json
import math
import os
import select
import socket
import sys

__all__ = ["rank", "world_size", "local_rank", "local_world_size", "node_rank", "report", "should_stop",
           "checkpoint_dir"]

# Rank, size, rank on the node, ranks on the node, index of the node. OMPI_COMM_WORLD_NODE_RANK is no index of a node.
_FAMILIES = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", ("NODE_RANK", "GROUP_RANK")),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", ()),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", ()),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", None, ("SLURM_NODEID",)),
)
_REPORT_BYTES_MAX = 60 * 1024


def _number(env, name):
    text = env.get(name) if name else None
    if not text:
        return None
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{name} is '{text}', which is no count")
    return int(text)


def _in_slurm_step(env):
    """A batch script has SLURM_PROCID too; only a step's tasks have a true step number."""
    step = env.get("SLURM_STEP_ID", "")
    return step.isdigit() and int(step) < 0xFFFFFFF0


def _identity(env):
    """(rank, size, local rank, local size, node) of the first family that names both rank and size."""
    lone = None
    for rank_name, size_name, local_name, local_size_name, node_names in _FAMILIES:
        if rank_name == "SLURM_PROCID" and not _in_slurm_step(env):
            continue
        my_rank, size = _number(env, rank_name), _number(env, size_name)
        if my_rank is not None and size is None:
            lone = rank_name
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
            raise ValueError(f"{local_name} is {local}, but only {local_size} ranks are on this node")
        nodes = [n for n in (_number(env, name) for name in node_names) if n is not None]
        return my_rank, size, local, local_size, nodes[0] if nodes else my_rank // max(local_size, 1)
    if lone is None and "PMIX_RANK" in env:
        lone = "PMIX_RANK"
    if lone:
        raise ValueError(f"{lone} is set, but nothing says how many ranks there are: start the program with "
                         "drover run, mpirun or srun, or set RANK and WORLD_SIZE")
    return 0, 1, 0, 1, 0


def _report_channel(env):
    """The launcher's socket, or None. Some other file may have that number in a program further down."""
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
        channel.detach()  # not ours to close
    return None


class _Drover:
    def __init__(self, env):
        self.rank, self.size, self.local_rank, self.local_size, self.node = _identity(env)
        self.channel = _report_channel(env)
        # Some who start processes close the channel (multiprocessing's spawn, torchrun): a trial has another way.
        self.lines = self.channel is None and self.rank == 0 and {"DROVER_REPORT_FD", "DROVER_TRIAL_ID"} <= env.keys()
        self.stop = False
        self.reports = 0

    def alone(self):
        self.channel.close()
        self.channel = None

    def send(self, packet):
        if self.lines:
            os.write(1, b"\n" + packet + b"\n")  # in front: what else is written may not have ended its line
        while self.channel is not None:
            try:
                self.channel.send(packet, socket.MSG_NOSIGNAL)
                return
            except BlockingIOError:  # someone made it non-blocking; the launcher reads on
                select.select([], [self.channel], [])
            except (BrokenPipeError, ConnectionError):
                self.alone()

    def should_stop(self):
        while self.channel is not None:
            try:
                packet = self.channel.recv(4096, socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            except ConnectionError:
                packet = b""
            if not packet:
                self.alone()
            else:
                self.stop = self.stop or _is_stop(packet)
        return self.stop


_this = None


def _drover():
    global _this
    if _this is None:
        _this = _Drover(os.environ)
    return _this


def _is_stop(packet):
    try:
        said = json.loads(packet)
    except ValueError:
        return False
    return isinstance(said, dict) and said.get("stop") is True


def _plain(value):
    """What JSON can carry; anything that float() takes is a number (numpy's, a tensor of one element)."""
    value = float(value)
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value


def rank():
    return _drover().rank


def world_size():
    return _drover().size


def local_rank():
    return _drover().local_rank


def local_world_size():
    return _drover().local_size


def node_rank():
    return _drover().node


def report(metrics=None, /, *, step=None, **more):
    """Reports numbers: report(step=3, loss=0.41) or report({"val/loss": 0.41}, step=3).

    Without `step`, the number of reports so far counts. Only rank 0's are looked at; the others may call it.
    Returns True when the job should save and end. Nothing is dropped, and it never waits for the sweep's coordinator:
    a report waits at most for the launcher or worker beside us to read, which keeps what the coordinator has not had."""
    d = _drover()
    numbers = {**(metrics or {}), **more}
    step = d.reports if step is None else int(step)
    if step < 0:
        raise ValueError(f"step {step} is negative")
    packet = {"step": step}
    for name, value in numbers.items():
        if not isinstance(name, str) or not name or name == "step":
            raise ValueError(f"{name!r} is no name for a metric")
        packet[name] = _plain(value)
    line = json.dumps(packet, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    if len(line) > _REPORT_BYTES_MAX:
        raise ValueError(f"a report has more than {_REPORT_BYTES_MAX} bytes")
    d.reports += 1
    d.send(line)
    return d.should_stop()


def should_stop():
    """True when the job should save and end."""
    return _drover().should_stop()


def checkpoint_dir():
    """A directory for this job's checkpoints, the same across restarts of a trial; None where nobody gave one."""
    return os.environ.get("DROVER_CKPT_DIR") or None


if __name__ == "__main__":
    sys.exit("drover.py is a module: import drover")
