"""`drover topo`: recorded machines as text, the matrix of `nvidia-smi topo -m`, NVML's links, and several nodes."""
import json
import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
MACHINES = ROOT / "tests/plan/machines"
GOLDEN = Path(__file__).resolve().parent / "topo"  # DROVER_TEST_RECORD=1 writes these files anew
BUILD = ROOT / os.environ.get("DROVER_BUILD", "build/dev")
# NVIDIA's user guide of the DGX A100 prints this for GPUs and the adapters of the fabric, in their order.
GROUPS = ((0, 1), (2, 3), (4, 5), (6, 7))


@pytest.mark.parametrize("name", ["dgx-a100", "dgx-a100-fabric", "dgx-h100", "workstation-4gpu", "a100-mig", "lost-gpu", "xeon-2s"])
def test_a_recorded_machine_is_shown_as_it_was(drover, name):
    done = drover.run("topo", "--machine", MACHINES / f"{name}.xml")
    assert (done.returncode, done.stderr) == (0, "")
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("DROVER_TEST_RECORD"):
        golden.write_text(done.stdout)
    assert done.stdout == golden.read_text()
    assert all(len(line) <= 180 for line in done.stdout.splitlines())


def test_the_matrix_is_that_of_nvidia_smi(drover):
    done = drover.run("topo", "--machine", MACHINES / "dgx-a100-fabric.xml", "--json")
    (machine,) = json.loads(done.stdout)["machines"]
    names = [f"GPU{g['index']}" for g in machine["gpus"]] + [n["name"] for n in machine["nics"]]
    path = {(a, b): machine["paths"][i][k] for i, a in enumerate(names) for k, b in enumerate(names)}
    together = {i: set(group) for group in GROUPS for i in group}
    for a in range(8):
        assert machine["gpus"][a]["nic"] == f"mlx5_{a}"
        for b in range(8):
            assert path[f"GPU{a}", f"GPU{b}"] == ("X" if a == b else "NV12")
            assert path[f"GPU{a}", f"mlx5_{b}"] in (("PIX", "PXB") if b in together[a] else ("SYS",))
            assert path[f"mlx5_{a}", f"mlx5_{b}"] == ("X" if a == b else "PXB" if b in together[a] else "SYS")
    assert all(path[a, b] == path[b, a] for a, b in path)
    assert machine["gpus"][2]["cpus"] == "16-31,144-159" and machine["gpus"][2]["numa"] == 1


def test_gpus_that_have_the_same_nearest_adapters_share_them_in_turn(drover, tmp_path):
    xml = (MACHINES / "dgx-a100-fabric.xml").read_text()
    # Without the adapters near GPU 4 to 7, all others are equally far from these.
    far = re.sub(r'<object type="OSDev"[^>]*name="mlx5_[4-7]"[^>]*/>', "", xml)
    (tmp_path / "far.xml").write_text(far)
    (tmp_path / "far.gpus.json").write_text((MACHINES / "dgx-a100-fabric.gpus.json").read_text())
    done = drover.run("topo", "--machine", tmp_path / "far.xml", "--json")
    nics = [g["nic"] for g in json.loads(done.stdout)["machines"][0]["gpus"]]
    assert nics[:4] == [f"mlx5_{i}" for i in range(4)] and sorted(nics[4:]) == nics[:4]


def test_links_are_those_that_nvml_reports(drover):
    gpus = ";".join(f"GPU-{i},NVIDIA A,{bus},100,100" for i, bus in enumerate(("07", "0f", "47")))
    links = ["0 0 0f", "0 1 0f", "0 2 down", "1 0 07", "1 1 07", "1 2 switch", "1 3 switch", "2 0 switch"]
    env = {"DROVER_NVML_LIB": str(BUILD / "tests/fake/libnvidia-ml.so.1"), "DROVER_FAKE_GPUS": gpus,
           "DROVER_FAKE_NVLINKS": ";".join(links)}
    done = drover.run("topo", "--json", env=env)
    assert [row[:3] for row in json.loads(done.stdout)["machines"][0]["paths"][:3]] == \
        [["X", "NV2", "SYS"], ["NV2", "X", "NV1"], ["SYS", "NV1", "X"]], done.stderr
    assert "GPU1    NV2    X      NV1" in drover.run("topo", env=env).stdout


@pytest.mark.parametrize("args, says", [(["--machine", "none.xml"], "none.xml"), (["c01"], "unexpected argument 'c01'"),
                                        (["--hostfile", "none"], "host file 'none'"), (["-H", "a:x"], "a:x"),
                                        (["--machine", "a.xml", "-H", "a"], "exclude each other")])
def test_bad_words_are_named(drover, args, says):
    done = drover.run("topo", *args)
    assert (done.returncode, done.stdout) == (2, "") and says in done.stderr
