"""What libraries read in a rank's environment to find their ranks. Most are too large to install for a test, so each has a
program here that reads the variables of that library's own detection, in its order; the source stands above it."""
import os
import shutil
import subprocess
import sys

import pytest
from conftest import DROVER

# test/utils/common.py of Horovod, mpi_env_rank_and_size(): what hvd.rank() and hvd.size() must be under an MPI launcher. The
# local rank is MPI's; programs select their GPU by OMPI_COMM_WORLD_LOCAL_RANK before hvd.init().
HOROVOD = """
for rank, size in zip(["PMI_RANK", "OMPI_COMM_WORLD_RANK"], ["PMI_SIZE", "OMPI_COMM_WORLD_SIZE"]):
    if rank in env and size in env:
        found(env[rank], env[size], env["OMPI_COMM_WORLD_LOCAL_RANK"])
"""

# deepspeed/comm/comm.py, init_distributed(): without one of these it asks mpi4py, and takes port 29500.
DEEPSPEED = """
if all(name in env for name in ["RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK"]):
    found(env["RANK"], env["WORLD_SIZE"], env["LOCAL_RANK"])
"""

# accelerate/state.py with use_cpu, for MPI launchers: first the test of a launcher, then rank, size and local rank. The number
# of ranks on this node is compared with the size, and MASTER_ADDR must be set if they differ.
ACCELERATE = """
def first(names):
    return next((int(env[name]) for name in names if int(env.get(name, -1)) >= 0), 0)
if first(["PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "WORLD_SIZE"]) > 1:
    size = first(["WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE"])
    if first(["MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE"]) == size or env["MASTER_ADDR"]:
        found(first(["RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK"]), size,
              first(["LOCAL_RANK", "MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK"]))
"""

# lightning/fabric/connector.py tries SLURMEnvironment (SLURM_NTASKS), then TorchElasticEnvironment, whose detect() is
# torch.distributed.is_torchelastic_launched(): TORCHELASTIC_RUN_ID.
LIGHTNING = """
if "SLURM_NTASKS" not in env and env.get("TORCHELASTIC_RUN_ID") is not None:
    assert int(env.get("GROUP_RANK", 0)) == 0 and env["MASTER_ADDR"] and int(env["MASTER_PORT"]) > 0
    found(env["RANK"], env["WORLD_SIZE"], env["LOCAL_RANK"])
"""

# transformers' TrainingArguments asks accelerate's PartialState, which tests LOCAL_RANK != -1 and calls init_process_group():
# torch/distributed/rendezvous.py reads the rest for "env://".
HUGGING_FACE_TRAINER = """
if int(env.get("LOCAL_RANK", -1)) != -1:
    assert env["MASTER_ADDR"] and int(env["MASTER_PORT"]) > 0
    found(env["RANK"], env["WORLD_SIZE"], env["LOCAL_RANK"])
"""

# jax/_src/clusters/ompi_cluster.py. The number before the '.' is a multiple of 2^12; 12 bits of it select the port.
JAX = """
import re
number, uri = env["OMPI_MCA_orte_hnp_uri"].split(".", maxsplit=1)
address = re.search(r"tcp://(.+?)[,:]|tcp6://\\[(.+?)[,\\]]", uri)
assert address[1] == env["MASTER_ADDR"] and int(number) % 2**12 == 0
found(env["OMPI_COMM_WORLD_RANK"], env["OMPI_COMM_WORLD_SIZE"], env["OMPI_COMM_WORLD_LOCAL_RANK"])
"""

PROGRAM = """
import os
import sys
env = os.environ
def found(*numbers):
    print(*map(int, numbers))
    sys.exit(0)
{}
sys.exit("the library finds no launcher")
"""
LIBRARIES = {"horovod": HOROVOD, "deepspeed": DEEPSPEED, "accelerate": ACCELERATE, "lightning": LIGHTNING,
             "hugging face trainer": HUGGING_FACE_TRAINER, "jax": JAX}
LAUNCHERS = {"run": ["run", "-np", "2", "--oversubscribe"], "torchrun": ["torchrun", "--nproc-per-node", "2"],
             "nodes": ["run", "--engine", "openmpi", "-H", "localhost:2", "--oversubscribe", "--tag", "none"]}


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_library_finds_its_ranks(drover, tmp_path, library, launcher):
    if launcher == "nodes" and not shutil.which("mpirun"):
        pytest.skip("there is no mpirun")
    (tmp_path / "t.py").write_text(PROGRAM.format(LIBRARIES[library]))
    pod = {"MASTER_ADDR": "other-job", "RANK": "7", "WORLD_SIZE": "9", "LOCAL_RANK": "5"}  # of another launcher
    env = {k: v for k, v in drover.env.items() if not k.startswith("SLURM_")}
    done = subprocess.run([DROVER, *LAUNCHERS[launcher], "t.py"], cwd=tmp_path, text=True, timeout=60, check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env={**env, **pod, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
    assert (done.returncode, sorted(done.stdout.splitlines())) == (0, ["0 2 0", "1 2 1"]), done.stderr


def test_jax_itself_finds_its_ranks(drover, tmp_path):
    python = os.environ.get("DROVER_TEST_JAX_PYTHON", sys.executable)
    if subprocess.run([python, "-c", "import jax"], check=False, capture_output=True).returncode:
        pytest.skip("JAX is not installed (DROVER_TEST_JAX_PYTHON names a Python that has it)")
    (tmp_path / "t").write_text("import jax\njax.distributed.initialize()\n"
                                "print(jax.process_index(), jax.process_count(), len(jax.devices()))\n")
    done = drover.run(*LAUNCHERS["run"], python, "t", env={"JAX_PLATFORMS": "cpu"})
    assert (done.returncode, sorted(done.stdout.splitlines())) == (0, ["0 2 2", "1 2 2"]), done.stderr
