"""`make install` gives a tree that works from where it lies: programs, libdrover with its pkg-config file, drover.py."""
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = r"""
#include <drover.h>
#include <stdio.h>
int main(void)
{
    struct drover *d;
    struct drover_comm *c;
    if (drover_init(&d) < 0 || drover_comm_open(&c, d, NULL) < 0) {
        fprintf(stderr, "%s\n", drover_error(NULL));
        return 1;
    }
    float x = (float)(drover_rank(d) + 1), sum = 0;
    if (drover_all_reduce(c, &x, &sum, 1, DROVER_FLOAT, DROVER_SUM) < 0 || drover_wait(c, 30000) < 0)
        return 2;
    struct drover_metric m = {"sum", sum};
    printf("%d/%d %s sum=%g report=%d\n", drover_rank(d), drover_size(d), drover_comm_backend(c), sum,
           drover_report(d, 1, &m, 1));
    drover_comm_close(c);
    drover_close(d);
    return 0;
}
"""


def run(*argv, **kw):
    return subprocess.run(argv, cwd=ROOT, text=True, capture_output=True, timeout=180, **kw)


def strict():
    flags = ROOT / "build/dev/flags"  # with others, everything would be built anew
    return ["WERROR=1"] if flags.exists() and "-Werror" in flags.read_text().split() else []


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    p = tmp_path_factory.mktemp("prefix")
    done = run("make", "-s", "install", f"PREFIX={p}", *strict(),
               env={k: v for k, v in os.environ.items() if k != "MAKEFLAGS"})
    assert done.returncode == 0, done.stderr
    return p


@pytest.fixture(scope="module")
def program(prefix, tmp_path_factory):
    d = tmp_path_factory.mktemp("program")
    (d / "p.c").write_text(PROGRAM)
    env = dict(os.environ, PKG_CONFIG_PATH=f"{prefix}/lib/pkgconfig")
    flags = run("pkg-config", "--cflags", "--libs", "drover", env=env)
    assert flags.returncode == 0, flags.stderr
    done = run("cc", "-Wall", "-Werror", "-o", str(d / "p"), str(d / "p.c"), *flags.stdout.split(),
               f"-Wl,-rpath,{prefix}/lib")
    assert done.returncode == 0, done.stderr
    return d / "p"


def test_an_installed_drover_runs(prefix):
    done = run(f"{prefix}/bin/drover", "--version")
    assert done.returncode == 0 and "drover" in done.stdout


def test_links_lie_in_a_directory_of_their_own_and_run_drover(prefix):
    links = prefix / "libexec/drover/bin"
    assert [p.name for p in sorted(links.iterdir()) if not p.name.endswith(("_perf", "_perf_mpi"))] == [
        "ft_launcher", "mpiexec", "mpiexec.hydra", "mpirun", "mpirun.openmpi", "orterun", "torchrun"]
    perf = {p.name for p in links.iterdir() if p.name.endswith("_perf")}
    assert "alltoallv_perf" in perf and {f"{name}_mpi" for name in perf} <= {p.name for p in links.iterdir()}
    assert not (prefix / "bin/mpirun").exists()
    env = dict(os.environ, PATH=f"{links}:{os.environ['PATH']}")
    for name in ("mpirun", "mpiexec", "mpirun.openmpi", "orterun", "mpiexec.hydra"):
        done = run(name, "--allow-run-as-root", "--oversubscribe", "-np", "2", "sh", "-c", "echo $RANK", env=env)
        assert sorted(done.stdout.split()) == ["0", "1"], done.stderr
        assert "drover" in run(name, "--version", env=env).stdout
    done = run("torchrun", "--no-python", "sh", "-c", "echo $WORLD_SIZE", env=env)
    assert done.stdout == "1\n", done.stderr


def test_the_links_find_the_real_mpirun_behind_themselves(prefix, tmp_path):
    """A stand-in for mpirun, which tells what it was given, later in PATH than our link."""
    (tmp_path / "mpirun").write_text("#!/bin/sh\necho \"stand-in: $*\" >&2\nexit 3\n")
    (tmp_path / "mpirun").chmod(0o755)
    env = dict(os.environ, PATH=f"{prefix}/libexec/drover/bin:{tmp_path}:{os.environ['PATH']}")
    done = run("mpirun", "--engine", "openmpi", "-v", "-H", "me@127.0.0.1", "-np", "1", "--mca", "a", "b", "true", env=env)
    assert done.returncode != 0 and "stand-in: --hostfile" in done.stderr, done.stderr
    assert "--mca a b" in done.stderr and "DROVER_TOKEN" in done.stderr
    without = tmp_path / "none"
    without.mkdir()
    env["PATH"] = f"{prefix}/libexec/drover/bin:{without}"
    done = run("mpirun", "--engine", "openmpi", "-H", "me@127.0.0.1", "-np", "1", "true", env=env)
    assert done.returncode == 2 and "install openmpi-bin" in done.stderr, done.stderr


def test_a_program_built_by_pkg_config_runs_alone(program):
    done = run(program)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "0/1 self sum=1 report=0\n"


def test_a_program_built_by_pkg_config_runs_under_the_installed_drover(prefix, program):
    done = run(f"{prefix}/bin/drover", "run", "-np", "2", str(program))
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["0/2 mpi sum=3 report=0", "1/2 mpi sum=3 report=0"]


def test_the_python_module_is_one_file_that_works_alone(prefix):
    code = "import drover; print(drover.rank(), drover.world_size(), drover.report(step=1, loss=0.5))"
    done = run("/usr/bin/python3", "-I", "-c", f"import sys; sys.path.insert(0, '{prefix}/share/drover'); {code}")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "0 1 False\n"


def test_an_installed_sweeps_trials_find_the_stand_in_for_wandb(prefix, tmp_path):
    (tmp_path / "t.py").write_text("import drover, wandb\nwandb.init()\nwandb.log({'loss': 3})\nprint(wandb.__file__)\n")
    (tmp_path / "s.yaml").write_text("program: t.py\nmethod: grid\nmetric: {name: loss}\nparameters: {x: {value: 1}}\n")
    done = subprocess.run([f"{prefix}/bin/drover", "sweep", "s.yaml"], cwd=tmp_path, text=True, capture_output=True, timeout=60)
    assert done.returncode == 0 and "best: trial 0, loss 3" in done.stdout, done.stderr
    (out,) = tmp_path.glob("sweeps/s/trials/*/*/stdout")
    assert out.read_text() == f"{prefix}/share/drover/trial/wandb/__init__.py\n"
    assert not (prefix / "share/drover/wandb").exists()
    for name in ("sweep.schema.json", "llms.txt", "skill/SKILL.md"):
        assert (prefix / "share/drover" / name).exists(), name


def test_the_installed_bench_finds_its_plug_in(prefix):
    done = run(f"{prefix}/bin/drover", "bench", "all_reduce", "-np", "2", "-b", "8", "-e", "64", "-f", "2", "-n", "5")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# Out of bounds values : 0 OK" in done.stdout


def test_the_installed_dashboard_has_its_page(prefix):
    web = prefix / "share/drover/web"
    if not (prefix / "libexec/drover/drover-serve").exists():
        pytest.skip("built without libmicrohttpd")
    assert {p.name for p in (ROOT / "serve/web").iterdir()} <= {p.name for p in web.iterdir()}
    done = run(f"{prefix}/bin/drover", "serve", "nothing")
    assert done.returncode == 2 and "there is no such sweep" in done.stderr
    if (web / "d3.min.js").exists():
        assert "Copyright" in (web / "d3.LICENSE.txt").read_text()


def test_only_the_programs_of_sweeps_link_gsl(prefix):
    for f in ["bin/drover", "libexec/drover/drover-bench", "lib/libdrover.so.0", "lib/drover/backend_mpi.so"]:
        out = run("ldd", f"{prefix}/{f}").stdout
        assert "libgsl" not in out, f"{f} links GSL"


def test_only_the_dashboard_links_an_http_server(prefix):
    programs = [prefix / "bin/drover", *(p for p in (prefix / "libexec/drover").glob("drover-*") if p.name != "drover-serve")]
    for p in programs:
        assert not set(("libmicrohttpd", "libgnutls")) & {x.split(".so")[0].strip() for x in run("ldd", p).stdout.splitlines()}, p
    done = run(prefix / "bin/drover", "run", "-np", "1", "--metrics", "0", "true")
    assert done.returncode == 0 and "metrics at http://127.0.0.1:" in done.stderr
    assert (prefix / "share/drover/alerts.yml").exists() and (prefix / "share/drover/grafana.json").exists()


def test_an_agent_is_not_a_command_for_users(prefix):
    done = run(f"{prefix}/bin/drover", "agent")
    assert done.returncode == 2 and "drover run -H host1,host2" in done.stderr


def test_uninstall_removes_every_file_that_install_has_brought_and_no_other(prefix, tmp_path):
    """In a copy of the installed tree, since the other tests use it."""
    copy = tmp_path / "copy"
    shutil.copytree(prefix, copy, symlinks=True)
    (copy / "bin/other").touch()
    (copy / "share/drover/__pycache__").mkdir(exist_ok=True)  # what Python leaves there
    (copy / "share/drover/__pycache__/drover.pyc").touch()
    assert (copy / "share/man/man1/drover-run.1").exists() and (copy / "share/zsh/site-functions/_drover").exists()
    done = run("make", "-s", "uninstall", f"PREFIX={copy}", *strict(), env={k: v for k, v in os.environ.items() if k != "MAKEFLAGS"})
    assert done.returncode == 0, done.stderr
    assert [str(p.relative_to(copy)) for p in copy.rglob("*") if not p.is_dir() or p.is_symlink()] == ["bin/other"]
    assert not list(copy.rglob("*drover*"))
