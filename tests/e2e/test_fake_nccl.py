"""The stand-in for NCCL (tests/fake/nccl.c) is as strict as NCCL: what would not work there fails here."""
import ctypes

import pytest
from kit_ranks import FAKE_NCCL, clean_env
from waiting import wait_until

SUCCESS, INVALID_USAGE, IN_PROGRESS = 0, 5, 7
FLOAT, SUM = 7, 0


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


def all_reduce(lib, comm, x):
    return lib.ncclAllReduce(ctypes.byref(x), ctypes.byref(x), ctypes.c_size_t(1), FLOAT, SUM, comm, None)


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
