"""Limits on files, processes and threads: each is named with its value, and nothing crashes."""
import os
import resource

import pytest
from sweep_kit import DROVER
from waiting import skip_unless_reachable

SWEEP = """program: /bin/true
method: random
name: s
metric: {name: loss}
parameters: {x: {min: 0, max: 1}}
run_cap: 1
"""
FREE_UID = 64177  # a user without other processes


def with_files(n):
    return lambda: [resource.setrlimit(resource.RLIMIT_NOFILE, (n, n)), resource.setrlimit(resource.RLIMIT_CORE, (0, 0))]


@pytest.mark.parametrize("command", [("run", "-np", "2", "--oversubscribe", "true"), ("sweep", "s.yaml", "--quiet"),
                                     ("torchrun", "--nproc-per-node", "2", "--no-python", "true"), ("ps",)])
@pytest.mark.parametrize("files", [*range(4, 13), 16, 25, 40, 63])
def test_few_files_are_an_error_that_says_how_many_are_needed(drover, tmp_path, command, files):
    (tmp_path / "s.yaml").write_text(SWEEP)
    done = drover.run(*command, preexec_fn=with_files(files))
    assert done.returncode == 1, done
    assert f"only {files} files (ulimit -n)" in done.stderr and "try: ulimit -n" in done.stderr


@pytest.mark.parametrize("files", [64, 70, 90])
def test_the_least_number_of_files_is_enough(drover, tmp_path, files):
    assert drover.run("run", "-np", "2", "--oversubscribe", "true", preexec_fn=with_files(files)).returncode == 0
    (tmp_path / "s.yaml").write_text(SWEEP)
    done = drover.run("sweep", "s.yaml", "--quiet", preexec_fn=with_files(files))
    assert done.returncode == 1 and "1 of 1 trials" in done.stdout  # the trial reports no metric


def test_ranks_that_need_more_files_do_not_start(drover, tmp_path):
    done = drover.run("run", "-np", "60", "--oversubscribe", "touch", "started", preexec_fn=with_files(128))
    assert done.returncode != 0 and not (tmp_path / "started").exists()
    assert "60 ranks" in done.stderr and "the limit is 128 open files per process (ulimit -n)" in done.stderr


def test_ranks_have_the_users_limit_and_not_drovers(drover):
    def soft():
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    done = drover.run("run", "-np", "2", "--oversubscribe", "sh", "-c", "ulimit -Sn", preexec_fn=soft)
    assert done.stdout.split() == ["512", "512"]


def few_processes(drover, path, n):
    """The limit does not bind root, so the command runs as another user, in `path`."""
    skip_unless_reachable(DROVER)
    path.chmod(0o777)
    drover.cwd = path
    drover.env.update(HOME=str(path), TMPDIR=str(path))
    drover.env.pop("XDG_RUNTIME_DIR", None)
    return lambda: [os.setgroups([]), os.setgid(65534), resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
                    resource.setrlimit(resource.RLIMIT_NPROC, (n, n)), os.setuid(FREE_UID)]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 8])
def test_a_rank_that_cannot_be_forked_names_the_limit(drover, open_path, n):
    done = drover.run("run", "--oversubscribe", "-np", "10", "sleep", "0.2", preexec_fn=few_processes(drover, open_path, n))
    assert done.returncode in (1, 2, 126, 137) and "''" not in done.stderr
    assert f"the limit is {n} processes and threads of this user (ulimit -u)" in done.stderr, done.stderr
    assert "limits.conf" in done.stderr


@pytest.mark.parametrize("n", [1, 2, 3, 4, 6])
def test_a_sweep_without_threads_names_the_limit(drover, open_path, n):
    (open_path / "s.yaml").write_text(SWEEP)
    done = drover.run("sweep", "s.yaml", "--quiet", preexec_fn=few_processes(drover, open_path, n))
    assert done.returncode == 1, done.stderr
    assert f"the limit is {n} processes and threads of this user (ulimit -u)" in done.stderr, done.stderr
