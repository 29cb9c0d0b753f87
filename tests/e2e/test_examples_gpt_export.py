"""examples/gpt/export.py: the model in ONNX has the program's loss. Needs onnx and onnxruntime, which scripts/setup --test
installs into build/onnx."""
import os
import re
import subprocess

import pytest
from kit_ranks import BUILD, ROOT, clean_env
from readme_kit import can_import

GPT = BUILD / "examples/gpt/gpt"
EXPORT = ROOT / "examples/gpt/export.py"
PYTHON = os.environ.get("DROVER_TEST_ONNX_PYTHON", str(ROOT / "build/onnx/bin/python"))
RUN = """
import sys
import numpy
import onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1])
logits, = session.run(None, {"tokens": numpy.full((3, 32), 65)})
print(*logits.shape)
"""


@pytest.fixture(scope="module", name="checkpoint")
def train_gpt(tmp_path_factory):
    if not os.path.exists(PYTHON) or not can_import(PYTHON, "onnx, onnxruntime"):
        pytest.skip("onnx and onnxruntime are not installed (scripts/setup --test, or DROVER_TEST_ONNX_PYTHON)")
    directory = tmp_path_factory.mktemp("gpt")
    subprocess.run([GPT, "--device=cpu", "--steps=40", "--layers=3", "--context=32", "--heads=2", f"--checkpoint={directory}"],
                   env=clean_env(), stdout=subprocess.DEVNULL, check=True, timeout=100)
    return directory


def export(checkpoint, output, *options, program=GPT):
    return subprocess.run([PYTHON, EXPORT, checkpoint, f"--output={output}", f"--gpt={program}",
                           f"--data={GPT.parent}/paradise_lost.txt", *options], env=clean_env(), text=True, capture_output=True,
                          timeout=100, check=False)


def test_the_loss_in_onnx_is_that_of_the_program(checkpoint, tmp_path):
    losses, sizes = {}, {}
    for options in ((), ("--int8",)):
        file = tmp_path / f"gpt{len(options)}.onnx"
        done = export(checkpoint, file, *options)
        assert done.returncode == 0, done.stderr
        size, *loss = re.fullmatch(r"\S+: (\d+) bytes, loss (\S+) \(gpt: (\S+)\)\n", done.stdout).groups()
        losses[options], sizes[options] = list(map(float, loss)), int(size)
        assert int(size) == file.stat().st_size
        shape = subprocess.run([PYTHON, "-c", RUN, file], text=True, capture_output=True, timeout=100, check=True).stdout
        assert shape == "3 32 256\n"
    (mine, its), (int8, _) = losses[()], losses["--int8",]
    assert mine == pytest.approx(its, abs=1e-4) and int8 == pytest.approx(its, abs=0.05) and int8 != mine
    assert sizes["--int8",] < sizes[()] / 2


def test_another_loss_and_a_damaged_checkpoint_are_errors(checkpoint, tmp_path):
    (tmp_path / "other").write_text("#!/bin/sh\necho val_loss 1.5\n")
    (tmp_path / "other").chmod(0o755)
    done = export(checkpoint, tmp_path / "gpt.onnx", program=tmp_path / "other")
    assert done.returncode == 1 and "the losses differ by more than" in done.stderr
    (tmp_path / "gpt.ckpt").write_bytes((checkpoint / "gpt.ckpt").read_bytes()[:-1])
    done = export(tmp_path, tmp_path / "gpt.onnx")
    assert done.returncode == 1 and "not a complete checkpoint" in done.stderr
    done = export(tmp_path / "nowhere", tmp_path / "gpt.onnx")
    assert done.returncode == 2 and "gpt.ckpt: not found" in done.stderr
