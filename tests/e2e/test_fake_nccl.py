"""The stand-in for NCCL and CUDA (tests/fake/nccl.c) is as strict as they are: what would not work there fails here."""
import ctypes
import threading

import pytest
from kit_ranks import FAKE_NCCL, clean_env
from waiting import wait_until

SUCCESS, INVALID_USAGE, IN_PROGRESS = 0, 5, 7
UNHANDLED_CUDA_ERROR = 1
UINT64, FLOAT, SUM = 5, 7, 0
NON_BLOCKING = 1  # of a stream
GLOBAL, THREAD_LOCAL, RELAXED = range(3)
NOT_PERMITTED, INVALIDATED, UNMATCHED, WRONG_THREAD = 900, 901, 903, 908


class Id(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


class Config(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("magic", ctypes.c_uint), ("version", ctypes.c_uint), ("blocking", ctypes.c_int),
                ("rest", ctypes.c_int * 24)]


@pytest.fixture(name="lib", params=["nccl.so", "nccl_old.so"])
def load(request, tmp_path, monkeypatch):
    path = FAKE_NCCL.with_name(request.param)
    if not path.exists():
        pytest.skip("built without NCCL's and CUDA's headers")
    for name in ("FAKE_NCCL", "FAKE_NCCL_RECORD"):
        monkeypatch.delenv(name, raising=False)
    for name, value in clean_env(FAKE_NCCL_DIR=str(tmp_path), FAKE_NCCL_RECORD=str(tmp_path / "calls")).items():
        if name.startswith("FAKE_"):
            monkeypatch.setenv(name, value)
    return ctypes.CDLL(str(path))


def open_one(lib, blocking):
    """A communicator of one rank, and what its creation returned."""
    unique, comm = Id(), ctypes.c_void_p()
    assert lib.ncclGetUniqueId(ctypes.byref(unique)) == SUCCESS
    rc = lib.ncclCommInitRankConfig(ctypes.byref(comm), 1, unique, 0, ctypes.byref(Config(blocking=blocking)))
    return comm, rc


def state(lib, comm):
    value = ctypes.c_int()
    assert lib.ncclCommGetAsyncError(comm, ctypes.byref(value)) == SUCCESS
    return value.value


def all_reduce(lib, comm, x, stream=None):
    return lib.ncclAllReduce(ctypes.byref(x), ctypes.byref(x), ctypes.c_size_t(1), FLOAT, SUM, comm, stream)


def test_each_call_on_a_non_blocking_communicator_is_in_progress(lib, tmp_path):
    comm, rc = open_one(lib, 0)
    x = ctypes.c_float(3)
    assert rc == IN_PROGRESS
    assert wait_until(lambda: state(lib, comm) == SUCCESS, "the call to complete")
    for _ in range(3):
        assert all_reduce(lib, comm, x) == IN_PROGRESS
        assert wait_until(lambda: state(lib, comm) == SUCCESS, "the call to complete")
    assert lib.cudaStreamSynchronize(None) == SUCCESS
    assert (tmp_path / "calls").read_text() == "0 ncclAllReduce 0/1\n0 ncclAllReduce 1/2\n0 ncclAllReduce 2/3\n"
    assert lib.ncclCommFinalize(comm) == IN_PROGRESS
    assert wait_until(lambda: state(lib, comm) == SUCCESS, "the call to complete")
    assert lib.ncclCommDestroy(comm) == SUCCESS


def test_a_call_before_the_last_one_is_complete_is_an_invalid_usage(lib, monkeypatch):
    comm, _ = open_one(lib, 0)
    assert wait_until(lambda: state(lib, comm) == SUCCESS, "the call to complete")
    monkeypatch.setenv("FAKE_NCCL", "stuck")
    x = ctypes.c_float(3)
    assert all_reduce(lib, comm, x) == IN_PROGRESS
    assert state(lib, comm) == IN_PROGRESS
    assert all_reduce(lib, comm, x) == INVALID_USAGE
    assert lib.ncclCommAbort(comm) == SUCCESS


def test_a_call_on_a_blocking_communicator_is_on_the_stream_when_it_returns(lib, tmp_path):
    comm, rc = open_one(lib, 1)
    x = ctypes.c_float(3)
    assert rc == SUCCESS
    assert [all_reduce(lib, comm, x) for _ in range(3)] == [SUCCESS] * 3
    assert (tmp_path / "calls").read_text() == "0 ncclAllReduce 1/1\n0 ncclAllReduce 2/2\n0 ncclAllReduce 3/3\n"
    assert lib.ncclCommFinalize(comm) == SUCCESS
    assert lib.ncclCommDestroy(comm) == SUCCESS


def test_the_product_of_one_rank_lacks_the_elements_that_nccl_leaves_out(lib):
    """As NCCL 2.28 did on an H100."""
    comm, _ = open_one(lib, 1)
    for kind, number, counts in ((ctypes.c_uint64, UINT64, {100: 0, 2049: 1, 65536: 0, 65537: 1, 131074: 2, 140001: 0}),
                                 (ctypes.c_uint8, 1, {131072: 0, 524293: 5}), (ctypes.c_int32, 2, {131073: 1, 1000001: 0})):
        for n, lacking in counts.items():
            op, two, x, y = ctypes.c_int(), kind(2), (kind * n)(*[3] * n), (kind * n)()
            assert lib.ncclRedOpCreatePreMulSum(ctypes.byref(op), ctypes.byref(two), number, 1, comm) == SUCCESS
            assert lib.ncclAllReduce(x, y, ctypes.c_size_t(n), number, op, comm, None) == SUCCESS
            assert lib.ncclRedOpDestroy(op, comm) == SUCCESS and lib.cudaStreamSynchronize(None) == SUCCESS
            assert (n, list(y)) == (n, [6] * (n - lacking) + [0] * lacking)
    assert lib.ncclCommFinalize(comm) == SUCCESS and lib.ncclCommDestroy(comm) == SUCCESS


class Gpu:
    """A stream, what a graph was made of, and a stream and memory that have nothing to do with it.

    At its end both streams are idle: their threads read the environment, which pytest changes, and write to `x`."""

    def __init__(self, lib):
        self.lib, (self.comm, _), self.x = lib, open_one(lib, 1), ctypes.c_float(3)
        self.stream, self.other, self.memory, self.graph, self.launchable = (ctypes.c_void_p() for _ in range(5))
        for stream in (self.stream, self.other):
            assert lib.cudaStreamCreateWithFlags(ctypes.byref(stream), NON_BLOCKING) == SUCCESS
        assert lib.cudaMalloc(ctypes.byref(self.memory), ctypes.c_size_t(8)) == SUCCESS
        self.begin(THREAD_LOCAL)
        assert self.end() == SUCCESS and self.graph
        assert lib.cudaGraphInstantiateWithFlags(ctypes.byref(self.launchable), self.graph, ctypes.c_ulonglong(0)) == SUCCESS

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        assert kind or self.lib.cudaStreamSynchronize(self.stream) == self.lib.cudaStreamSynchronize(self.other) == SUCCESS

    def begin(self, mode):
        assert self.lib.cudaStreamBeginCapture(self.stream, mode) == SUCCESS
        assert all_reduce(self.lib, self.comm, self.x, self.stream) == SUCCESS

    def end(self):
        return self.lib.cudaStreamEndCapture(self.stream, ctypes.byref(self.graph))


def somewhere():
    return ctypes.byref(ctypes.c_void_p())


AROUND = {  # around streams: memory, graphs, kernels
    "cudaMalloc": lambda g: g.lib.cudaMalloc(somewhere(), ctypes.c_size_t(8)),
    "cudaFree": lambda g: g.lib.cudaFree(g.memory),
    "cudaHostAlloc": lambda g: g.lib.cudaHostAlloc(somewhere(), ctypes.c_size_t(8), 0),
    "cudaFreeHost": lambda g: g.lib.cudaFreeHost(g.memory),
    "cudaGraphInstantiateWithFlags": lambda g: g.lib.cudaGraphInstantiateWithFlags(somewhere(), g.graph, ctypes.c_ulonglong(0)),
    "cudaGraphLaunch": lambda g: g.lib.cudaGraphLaunch(g.launchable, g.other),
    "cudaGraphExecDestroy": lambda g: g.lib.cudaGraphExecDestroy(g.launchable),
    "cudaGraphDestroy": lambda g: g.lib.cudaGraphDestroy(g.graph),
    "nccl_kernels_usable": lambda g: g.lib.nccl_kernels_usable(0),
}
ON_STREAM = {  # of the stream that is captured
    "cudaStreamQuery": lambda g: g.lib.cudaStreamQuery(g.stream),
    "cudaStreamSynchronize": lambda g: g.lib.cudaStreamSynchronize(g.stream),
    "cudaStreamDestroy": lambda g: g.lib.cudaStreamDestroy(g.stream),
    "cudaMemcpyAsync": lambda g: g.lib.cudaMemcpyAsync(g.memory, ctypes.byref(g.x), ctypes.c_size_t(4), 1, g.stream),
    "cudaGraphLaunch": lambda g: g.lib.cudaGraphLaunch(g.launchable, g.stream),
    "cudaStreamBeginCapture": lambda g: g.lib.cudaStreamBeginCapture(g.stream, THREAD_LOCAL),
}
ALL = [(name, call) for calls in (AROUND, ON_STREAM) for name, call in calls.items()]


def in_a_thread(call, *args):
    out = []
    thread = threading.Thread(target=lambda: out.append(call(*args)))
    thread.start()
    thread.join()
    return out[0]


@pytest.mark.parametrize("call", [call for _, call in ALL], ids=[name for name, _ in ALL])
def test_what_a_capture_forbids_is_refused_and_makes_the_graph_invalid(lib, call):
    with Gpu(lib) as gpu:
        gpu.begin(THREAD_LOCAL)
        assert call(gpu) == NOT_PERMITTED
        assert all_reduce(lib, gpu.comm, gpu.x, gpu.stream) == UNHANDLED_CUDA_ERROR  # nothing is recorded any more
        lost = ctypes.c_void_p(1)
        assert lib.cudaStreamEndCapture(gpu.stream, ctypes.byref(lost)) == INVALIDATED and not lost
        assert call(gpu) == SUCCESS
        gpu.end()  # what the last call may have begun


@pytest.mark.parametrize("mode", [GLOBAL, THREAD_LOCAL, RELAXED])
def test_another_thread_and_another_mode_may_do_what_cuda_says(lib, mode):
    for calls, here, there in ((AROUND, mode != RELAXED, mode == GLOBAL), (ON_STREAM, True, True)):
        for name, call in calls.items():
            for refused, run in ((here, lambda f, g: f(g)), (there, in_a_thread)):
                with Gpu(lib) as gpu:
                    gpu.begin(mode)
                    assert (name, run(call, gpu)) == (name, NOT_PERMITTED if refused else SUCCESS)
                    assert (name, gpu.end()) == (name, INVALIDATED if refused else SUCCESS)


def test_waiting_for_another_stream_does_not_disturb_a_capture(lib):
    with Gpu(lib) as gpu:
        gpu.begin(THREAD_LOCAL)
        assert lib.cudaStreamSynchronize(gpu.other) == lib.cudaStreamQuery(None) == SUCCESS
        assert gpu.end() == SUCCESS


def test_a_capture_begins_on_a_stream_of_its_own_and_ends_there_in_its_thread(lib):
    with Gpu(lib) as gpu:
        assert lib.cudaStreamBeginCapture(None, THREAD_LOCAL) == NOT_PERMITTED
        assert gpu.end() == UNMATCHED
        gpu.begin(THREAD_LOCAL)
        assert lib.cudaStreamEndCapture(gpu.other, ctypes.byref(gpu.graph)) == UNMATCHED
        assert in_a_thread(gpu.end) == WRONG_THREAD
        assert gpu.end() == SUCCESS
        gpu.begin(RELAXED)
        assert in_a_thread(gpu.end) == SUCCESS
