"""The functions of other libraries that drover replaces (launcher/pmi/interpose.h): each library that is available calls
them, drover's are found, and everything works without them."""
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import BUILD, DROVER, compile_c
from kit_ranks import ROOT
from sweep_kit import use_place  # noqa: F401  a fixture
from test_run_mpi import GREET, MPI, RUN, compile_pmix
from test_sweep import GRID, TRIAL  # noqa: F401  use_place has the trial
from waiting import at_best

OFF = {"DROVER_NO_INTERPOSE": "1"}
IN_DROVER = "bind", "accept", "pmix_ptl_base_send_blocking"


def of_loader(name):
    """The files of a library that the dynamic linker knows."""
    known = subprocess.run(["/sbin/ldconfig", "-p"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return re.findall(rf"^\s*{re.escape(name)} .*x86-64.* => (\S+)$", known, re.MULTILINE)


LIBPMIX = sorted({str(Path(p).resolve()) for p in [*of_loader("libpmix.so.2"), *ROOT.glob("build/mpis/*/lib*/**/libpmix.so.2")]})


def calls(library):
    """The functions that a library calls through its relocations: those that a program can replace."""
    said = subprocess.run(["readelf", "-rW", library], stdout=subprocess.PIPE, text=True, check=True).stdout
    return {m[1].partition("@")[0] for m in re.finditer(r"R_X86_64_(?:JUMP_SLO\w*|GLOB_DAT)\s+\S+\s+(\S+)", said)}


def defines(library):
    said = subprocess.run(["nm", "-D", "--defined-only", library], stdout=subprocess.PIPE, text=True, check=True).stdout
    return {line.split()[-1].partition("@")[0] for line in said.splitlines()}


@pytest.fixture(scope="module", name="greet")
def build_greet(tmp_path_factory):
    return compile_pmix(tmp_path_factory.mktemp("greet"), "greet", GREET)


@pytest.fixture(scope="module", name="mpi_program")
def build_mpi_program(tmp_path_factory):
    if not shutil.which("mpicc"):
        pytest.skip("mpicc is not installed")
    return compile_c(tmp_path_factory.mktemp("mpi"), "mpi", MPI, "mpicc")


# ---- the libraries ------------------------------------------------------------------------------


@pytest.mark.parametrize("library", LIBPMIX)
def test_libpmix_calls_what_drover_replaces(library):
    assert set(IN_DROVER) <= calls(library)
    assert "pmix_ptl_base_send_blocking" in defines(library)


def test_libquadmath_calls_what_drover_replaces_and_glibc_has_it():
    for library in of_loader("libquadmath.so.0"):
        assert "register_printf_type" in calls(library)
    for library in of_loader("libc.so.6"):
        assert {"register_printf_type", "bind", "accept", "getpwuid_r"} <= defines(library)


def test_each_program_replaces_its_own_functions_and_libdrover_none():
    replaced = {*IN_DROVER, "register_printf_type"}
    for program, own in (("bin/drover", IN_DROVER), ("libexec/drover/drover-bench", IN_DROVER),
                         ("libexec/drover/drover-hpo", replaced), ("lib/libdrover.so.0", ())):
        assert defines(BUILD / program) & replaced == set(own), program


# ---- drover's are found -------------------------------------------------------------------------


def test_libpmix_finds_drovers_functions(drover, greet):
    """drover writes to a pipe without waiting, and the dynamic linker drops a line that does not fit: so tries again."""
    def check(_):
        assert bindings_of_libpmix(drover, greet) == dict.fromkeys(IN_DROVER, "drover")
    at_best(check, 1, 2, 3)


def bindings_of_libpmix(drover, greet):
    """{function: the file that libpmix has it from}"""
    done = drover.run(*RUN, "-np", "2", "-x", "LD_DEBUG=", greet, env={"LD_DEBUG": "bindings"})
    assert done.returncode == 0 and sorted(done.stdout.split()) == ["0", "1", "rank", "rank"], done.stderr[-2000:]
    found = {}
    for line in done.stderr.splitlines():
        m = re.search(r"binding file (\S*libpmix\.so\S*) .* to (\S+) .*: normal symbol `(\w+)'", line)
        if m and m[3] in IN_DROVER:
            found[m[3]] = Path(m[2]).name
    return found


# ---- without them -------------------------------------------------------------------------------


@pytest.mark.parametrize("size", (1, 3))
def test_mpi_runs_without_interposition(drover, mpi_program, size):
    done = drover.run(*RUN, "-np", size, mpi_program, env=OFF)
    assert done.returncode == 0, done.stderr
    assert len(re.findall(rf"\d/{size} from \d sum {size * (size - 1) // 2}\n", done.stdout)) == size
    drover.nothing_left()


def test_a_job_that_fails_without_interposition_ends(drover, mpi_program):
    done = drover.run(*RUN, "-np", "3", mpi_program, "abort", env=OFF)
    assert done.returncode == 3, done.stderr
    done = drover.run(*RUN, "-np", "3", mpi_program, "segfault", env=OFF)
    assert done.returncode == 139, done.stderr
    drover.nothing_left()


def test_a_program_without_mpi_runs_without_interposition(drover):
    done = drover.run(*RUN, "-np", "2", "sh", "-c", "echo $RANK", env=OFF)
    assert (done.returncode, sorted(done.stdout.split()), done.stderr) == (0, ["0", "1"], "")


def test_agents_run_without_interposition(drover, mpi_program):
    if not shutil.which("mpirun"):
        pytest.skip("mpirun is not installed")
    done = drover.run(*RUN, "--engine", "openmpi", "-np", "2", mpi_program, env=OFF)
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"\d/2 from \d sum 1\n", done.stdout)) == 2


def test_a_sweep_runs_without_interposition(place):  # noqa: F811
    place.env.update(OFF)
    done = place.run(place.sweep(GRID))
    assert done.returncode == 0 and "6 of 6 trials: 6 done" in done.stdout, done.stderr


def test_suggest_runs_without_interposition():
    asked = [{"op": "init", "space": [{"name": "x", "type": "float", "low": 0.0, "high": 1.0}], "seed": 3, "method": "random"},
             {"op": "ask"}]
    done = subprocess.run([DROVER, "suggest"], input="".join(json.dumps(line) + "\n" for line in asked), text=True,
                          capture_output=True, timeout=60, check=False, env={**os.environ, **OFF})
    assert done.returncode == 0 and '"x"' in done.stdout, done
