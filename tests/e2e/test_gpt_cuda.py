"""The GPU part of examples/gpt, compiled from the same source for the CPU (tests/cudahost): it trains as the CPU's part
does, alone and with ranks, and resumes with the same bits."""
import shutil
import signal
import subprocess

import pytest
from kit_ranks import BUILD, clean_env
from test_gpt import GPT, curve, finish, weights

SMALL = ["--layers=1", "--channels=32", "--heads=2", "--context=16", "--batch=2", "--log-every=1", "--lr=0.01", "--device=cuda"]
DROVER = BUILD / "bin" / "drover"


@pytest.fixture(scope="module", name="on_fake_gpu")
def gpt_on_fake_gpu(tmp_path_factory):
    """The program next to the CUDA code that runs on the host, in a folder of its own."""
    library = BUILD / "tests" / "cudahost" / "gpt_cuda.so"
    if not library.exists():
        pytest.skip("built without CUDA's headers")
    d = tmp_path_factory.mktemp("fake_gpu")
    shutil.copy(library, d)
    shutil.copy(GPT, d)
    return d / "gpt"


def command(program, *options, ranks=1):
    launch = [] if ranks == 1 else [DROVER, "run", "-np", ranks, "--oversubscribe", "--gpus", "", "--"]
    return [str(a) for a in [*launch, program, *SMALL, *options]]


ENV = {"LD_LIBRARY_PATH": str(BUILD / "lib"), "DROVER_PLUGIN_DIR": str(BUILD / "lib" / "drover"), "OPENBLAS_NUM_THREADS": "1"}


def gpt(program, *options, ranks=1):
    done = finish(command(program, *options, ranks=ranks), **ENV)
    assert done.returncode == 0, done.stderr
    return done.stdout


def apart(a, b):
    assert len(a) == len(b) > 0
    return max(abs(x - y) for x, y in zip(a, b))


@pytest.mark.parametrize("precision, tolerance", [("fp32", 1e-4), ("bf16", 3e-2)])
def test_the_gpus_source_trains_as_the_cpus_does(on_fake_gpu, precision, tolerance):
    options = ["--steps=8", f"--precision={precision}"]
    gpu = curve(gpt(on_fake_gpu, *options))
    assert apart(gpu, curve(gpt(GPT, *options, "--device=cpu"))) <= tolerance
    assert gpu[-1] < gpu[0]


def test_two_gpu_ranks_train_as_one_does(on_fake_gpu):
    alone = curve(gpt(on_fake_gpu, "--steps=4", "--global-batch=4", "--accumulate=2"))
    two = curve(gpt(on_fake_gpu, "--steps=4", "--global-batch=4", "--accumulate=1", "--comm=mpi", ranks=2))
    assert apart(alone, two) <= 1e-4


def test_a_training_that_resumes_on_the_gpu_has_the_same_bits(on_fake_gpu, tmp_path):
    options = ["--precision=bf16", "--steps=16"]
    keep = [*options, f"--checkpoint={tmp_path}", "--checkpoint-every=100"]
    with subprocess.Popen(command(on_fake_gpu, *keep), env=clean_env(**ENV), text=True, stdout=subprocess.PIPE) as p:
        line = next(line for line in p.stdout if line.startswith("step"))
        p.send_signal(signal.SIGTERM)
        said = line + p.stdout.read()
    assert 0 < len(curve(said)) < 16, said
    resumed = gpt(on_fake_gpu, *keep, "--resume")
    whole = gpt(on_fake_gpu, *options)
    assert curve(said) + curve(resumed) == curve(whole) and weights(resumed) == weights(whole)
