"""The plans of examples/gpt/attend_cudnn.so, by the real cuDNN without a GPU: the device is a description, the driver's library
a stand-in (tests/fake/cuda_driver.c), and cudnnBackendExecute() prints the addresses it gets (tests/fake/cudnn_execute.c).
What is computed is the business of scripts/gpu-check."""
import ctypes
import json
import os
import subprocess
import sys

import pytest
from kit_ranks import BUILD, clean_env

LIBRARY = BUILD / "examples/gpt/attend_cudnn.so"
STAND_INS = BUILD / "tests/fake/cudnn"
# An H100: published figures, by the names of cuDNN 9.19 and 9.28.
H100 = {"deviceName": "NVIDIA H100 80GB HBM3", "deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0, "pciDeviceId": 0, "isTccDriver": 0,
        "multiProcessorCount": 132, "maxCtasPerSM": 32, "maxRegistersPerSM": 65536, "regsPerBlock": 65536, "maxSharedMemoryPerBlock": 49152,
        "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048,
        "warpSize": 32, "l2CacheSize": 52428800, "memClockRateKHz": 2619000, "smClockRateKHz": 1980000, "totalGlobalMem": 85027979264,
        "memoryBusWidth": 5120, "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "supportCoopLaunch": 1}
Q, K, V, Y, LSE, DY, DQ, DK, DV = range(1, 10)
TEXT = 400


class Shape(ctypes.Structure):
    _fields_ = [(n, ctypes.c_int) for n in ("B", "T", "H", "D", "backward", "deterministic")]


class Arrays(ctypes.Structure):
    _fields_ = [(n, ctypes.c_void_p) for n in ("qkv", "dy", "y", "dqkv", "lse")]


class Library(ctypes.Structure):
    p, why = ctypes.c_void_p, (ctypes.c_char_p, ctypes.c_size_t)
    _fields_ = [("abi", ctypes.c_uint), ("needs", ctypes.c_char_p * 2),
                ("open", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(p), ctypes.c_int, p, ctypes.c_char_p, *why)),
                ("close", ctypes.CFUNCTYPE(None, p)),
                ("version", ctypes.CFUNCTYPE(ctypes.c_int, p)),
                ("plan", ctypes.CFUNCTYPE(ctypes.c_int, p, ctypes.POINTER(Shape), ctypes.POINTER(ctypes.c_size_t), *why)),
                ("run", ctypes.CFUNCTYPE(ctypes.c_int, p, ctypes.c_int, ctypes.POINTER(Arrays), p, *why))]


def work(argument):
    """In a process of its own, since the loader's path is of the process. Prints a line of JSON for each request."""
    asked = json.loads(argument)
    library = Library.in_dll(ctypes.CDLL(str(LIBRARY)), "attend_cudnn_library")
    cudnn, why = ctypes.c_void_p(), ctypes.create_string_buffer(TEXT)
    device = json.dumps(H100 | {"deviceVer": 10 * asked["sm"]}).encode() if asked["described"] else None
    rc = library.open(ctypes.byref(cudnn), asked["sm"], None, device, why, TEXT)
    print(json.dumps([rc, why.value.decode()]), flush=True)
    for shape in asked["shapes"] if rc == 0 else []:
        bytes_ = ctypes.c_size_t()
        rc = library.plan(cudnn, ctypes.byref(Shape(*shape)), ctypes.byref(bytes_), why, TEXT)
        print(json.dumps([rc, bytes_.value if rc >= 0 else why.value.decode()]), flush=True)
        if asked["run"]:
            assert library.run(cudnn, rc, ctypes.byref(Arrays(*asked["run"])), 1 << 40, why, TEXT) == 0, why.value
    if cudnn:
        library.close(cudnn)


def ask(sm, shapes, described=True, run=None, path=STAND_INS, cudart=str(STAND_INS / "libcuda.so.1")):
    """-> the lines of work(): [code, text] of open(), then [code, bytes or text] of each plan()"""
    if not LIBRARY.exists():
        pytest.skip("built without the headers of cuDNN and its frontend (scripts/setup --with-cuda)")
    if not (STAND_INS / "libcudnn.so.9").exists():
        pytest.skip("built without libcudnn")
    argument = json.dumps({"sm": sm, "shapes": shapes, "described": described, "run": run})
    env = clean_env(LD_LIBRARY_PATH=str(path), CUDNN_FRONTEND_CUDART_LIB_NAME=cudart)
    done = subprocess.run([sys.executable, __file__, argument], env=env, text=True,
                          capture_output=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) if line[0] == "[" else line for line in done.stdout.splitlines()]


def test_an_h100s_plans_need_the_memory_that_is_known():
    """Recorded with 9.19.0 and 9.28.1. The deterministic gradients keep B * H * T * T numbers in bfloat16."""
    opened, *plans = ask(90, [(16, 1024, 12, 64, 0, 0), (16, 1024, 12, 64, 1, 0), (16, 1024, 12, 64, 1, 1), (8, 1024, 16, 64, 1, 1)])
    assert opened[0] == 0, opened
    assert plans == [[0, 256], [1, 51_118_336], [2, 403_439_872], [3, 268_960_000]]


@pytest.mark.parametrize("sm", [80, 100, 120])
def test_other_gpus_have_plans_for_sizes_that_the_own_kernels_do_not_have(sm):
    opened, forward, backward, same_bits = ask(sm, [(3, 100, 5, 24, 0, 1), (3, 100, 5, 24, 1, 0), (3, 100, 5, 24, 1, 1)])
    assert opened[0] == 0, opened
    assert forward[0] == 0 and backward[0] == 1, (forward, backward)
    if sm == 120:
        assert same_bits[0] < 0 and same_bits[1].startswith("on compute capability 12.0") and "--deterministic=off" in same_bits[1]
    else:
        assert same_bits[0] == 2, same_bits


def test_each_tensor_gets_its_address():
    """The parts of qkv and of its gradient begin C numbers of 2 bytes after each other."""
    B, T, H, D = 2, 64, 3, 32
    qkv, dy, y, dqkv, lse = arrays = [n << 32 for n in range(1, 6)]
    part = 2 * H * D
    lines = ask(90, [(B, T, H, D, 0, 1), (B, T, H, D, 1, 1)], run=arrays)
    opened, forward, backward = (line for line in lines if isinstance(line, list))
    assert [opened[0], forward[0], backward[0]] == [0, 0, 1]
    ends = [i for i, line in enumerate(lines) if "workspace" in line]
    there, back = (dict(map(int, line.split()) for line in lines[i:j] if isinstance(line, str) and line.split()[0].isdigit())
                   for i, j in ((0, ends[0]), (ends[0], ends[1])))
    expected = {Q: qkv, K: qkv + part, V: qkv + 2 * part, Y: y, LSE: lse}
    assert {n: there[n] for n in expected} == expected
    expected |= {DY: dy, DQ: dqkv, DK: dqkv + part, DV: dqkv + 2 * part}
    assert {n: back[n] for n in expected} == expected
    for i, (_, size) in zip(ends, (forward, backward)):
        assert 0 <= int(lines[i].split()[1]) - (1 << 40) < size


def test_a_library_that_is_missing_is_named():
    (code, why), = ask(90, [], cudart="libcudart.so.99")
    assert code < 0 and why.startswith("libcudart.so.99 was not found (try: LD_LIBRARY_PATH, or pip install nvidia-cudnn-cu1"), why


def test_without_a_gpu_it_is_refused_with_the_reason():
    if os.path.exists("/dev/nvidiactl"):
        pytest.skip("there is a GPU")
    (code, why), = ask(90, [(2, 64, 2, 64, 0, 0)], described=False)
    assert code < 0 and why == "cudnnCreate: CUDNN_STATUS_NOT_INITIALIZED"


if __name__ == "__main__":
    work(sys.argv[1])
