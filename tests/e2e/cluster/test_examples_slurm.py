"""examples/slurm: a job that gets SIGTERM saves, is queued again, and continues where it was; one that fails is not."""
import json
import re

import pytest
from cluster_kit import CannotStart
from readme_kit import can_import, commands, prepare
from waiting import wait_until

SMALL = ["--cpus-per-task=1", "--export=ALL"]


class Queue:
    """The line of the README in a directory that all nodes share, and what Slurm says about its job."""

    def __init__(self, cluster, directory):
        self.node, self.directory, self.env = cluster.head, directory, prepare(directory)
        self.line, = (x.split() for x in commands("slurm") if x.startswith("sbatch"))

    def submit(self, *more):
        path = {"PATH": f"{self.directory}/bin:{self.node.cluster.env['PATH']}"}
        program = self.line.index("examples/slurm/train.sbatch")
        status, out, err = self.node.run(*self.line[:program], "--parsable", *SMALL, *self.line[program:], *more, cwd=self.directory,
                                         env={**path, "OMP_NUM_THREADS": "1"})
        assert status == 0, err
        return out.strip()

    def log(self, job):
        path = self.directory / f"train-{job}.log"
        return path.read_text() if path.exists() else ""

    def state(self, job):
        shown = self.node.run("scontrol", "show", "job", job)[1]
        return re.search(r"JobState=(\S+)", shown)[1], int(re.search(r"Restarts=(\d+)", shown)[1])

    def wait_for(self, job, state, restarts):
        wait_until(lambda: self.state(job) == (state, restarts), lambda: f"{state}: {self.state(job)}\n{self.log(job)}", 20)


@pytest.fixture(scope="session", name="running_slurm")
def start_slurm_with_short_credentials(running_cluster):
    try:
        running_cluster.start_slurm(cred_expire_s=10)
    except CannotStart as e:
        pytest.skip(f"no Slurm here: {e}")
    return running_cluster


@pytest.fixture(name="queue")
def make_queue(slurm, tmp_path):
    if not can_import("/usr/bin/python3", "torch"):
        pytest.skip("PyTorch is not installed for /usr/bin/python3")
    return Queue(slurm, tmp_path)


def steps(text):
    return [json.loads(x)["step"] for x in re.findall(r'{"step": .*}', text)]


def test_a_job_that_gets_the_signal_is_queued_again_and_continues_until_it_is_cancelled(queue):
    job = queue.submit()
    wait_until(lambda: len(steps(queue.log(job))) >= 2, lambda: f"two epochs: {queue.log(job)}")
    queue.node.check("scancel", "--batch", "--signal=TERM", job)  # as --signal=B:TERM does
    queue.wait_for(job, "PENDING", 1)
    before = steps(queue.log(job))
    wait_until(lambda: len(steps(queue.log(job))) >= len(before) + 2, lambda: f"its continuation: {queue.log(job)}")
    queue.node.check("scancel", job)
    seen = steps(queue.log(job))
    assert seen == list(range(1, len(seen) + 1))
    assert [d.name for d in (queue.directory / "checkpoints").iterdir()] == [job]
    queue.wait_for(job, "CANCELLED", 1)


def test_a_job_that_fails_is_not_queued_again(queue):
    job = queue.submit("--batch=0")
    queue.wait_for(job, "FAILED", 0)
    assert "--batch=0: not a multiple of 2 ranks" in queue.log(job)
