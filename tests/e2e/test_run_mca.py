"""Launcher parameters of Open MPI (--mca, variables, parameter files): each line runs under drover's mpirun link and,
where Open MPI 4.1 is installed, under its own mpirun, with the same outcome."""
import os
import shutil
import subprocess

import pytest
from conftest import DROVER

MPIRUN = shutil.which("mpirun")
HAS_OPEN_MPI = MPIRUN and "Open MPI) 4.1" in subprocess.run([MPIRUN, "--version"], stdout=subprocess.PIPE, text=True,
                                                            check=False).stdout
CPUS = "grep Cpus_allowed_list /proc/self/status"
ALL_CPUS = next(line.split()[1] for line in open("/proc/self/status", encoding="utf-8") if line.startswith("Cpus_allowed_list"))


@pytest.fixture(params=["drover", pytest.param("mpirun", marks=pytest.mark.skipif(
    not HAS_OPEN_MPI, reason="there is no mpirun of Open MPI 4.1"))])
def launch(request, drover, tmp_path):
    link = tmp_path / "mpirun"
    link.symlink_to(DROVER)
    program = link if request.param == "drover" else MPIRUN

    def run(*args, files=None, **variables):
        for name, text in (files or {}).items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        env = {**drover.env, "HOME": str(tmp_path), "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return subprocess.run([program, *args], cwd=tmp_path, env={**env, **variables}, text=True, timeout=60, check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    run.is_open_mpi = program == MPIRUN
    return run


@pytest.mark.parametrize("how", ["option", "variable", "file", "tune"])
def test_more_ranks_than_slots_run_as_a_parameter_allows(launch, how):
    options = {"option": ["--mca", "rmaps_base_oversubscribe", "1"], "tune": ["--tune", "tune.txt"]}.get(how, [])
    files = {"file": {".openmpi/mca-params.conf": "rmaps_base_oversubscribe = 1\n"},
             "tune": {"tune.txt": "--mca rmaps_base_oversubscribe 1\n-x A=1\n"}}.get(how, {})
    variables = {"OMPI_MCA_rmaps_base_oversubscribe": "true"} if how == "variable" else {}
    done = launch("-H", "localhost:1", "-np", "3", *options, "echo", "hi", files=files, **variables)
    assert (done.returncode, done.stdout) == (0, "hi\n" * 3), done.stderr
    refused = launch("-H", "localhost:1", "-np", "3", "echo", "hi", files={name: "" for name in files})
    assert refused.returncode != 0 and refused.stdout == ""


def test_an_option_overrides_a_variable_and_a_variable_a_file(launch):
    file = {".openmpi/mca-params.conf": "orte_tag_output = 1\n"}
    assert launch("-np", "1", "echo", "hi", files=file).stdout == "[1,0]<stdout>:hi\n"
    off = {"OMPI_MCA_orte_tag_output": "0"}
    assert launch("-np", "1", "echo", "hi", files=file, **off).stdout == "hi\n"
    done = launch("-np", "1", "--mca", "orte_tag_output", "1", "echo", "hi", files=file, **off)
    assert done.stdout == "[1,0]<stdout>:hi\n", done.stderr
    done = launch("-np", "1", "--tag-output", "echo", "hi", **off)
    assert done.stdout == "[1,0]<stdout>:hi\n", done.stderr


@pytest.mark.parametrize("options, variables", [
    (["--mca", "hwloc_base_binding_policy", "none"], {}), ([], {"OMPI_MCA_hwloc_base_binding_policy": "none"}),
    (["--bind-to", "none"], {"OMPI_MCA_hwloc_base_binding_policy": "core"})])
def test_ranks_are_not_bound_if_a_parameter_says_so(launch, options, variables):
    done = launch("-np", "2", *options, "sh", "-c", CPUS, **variables)
    assert [line.split()[1] for line in done.stdout.splitlines()] == [ALL_CPUS] * 2, done.stderr


def test_ranks_are_bound_as_a_parameter_says(launch):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU")
    done = launch("-np", "1", "--bind-to", "none", "--mca", "hwloc_base_binding_policy", "core", "sh", "-c", CPUS)
    if done.returncode == 0:  # Open MPI refuses the contradiction; under drover the option wins
        assert done.stdout.split()[1] == ALL_CPUS
    done = launch("-np", "1", "sh", "-c", CPUS, OMPI_MCA_hwloc_base_binding_policy="core")
    assert done.stdout.split()[1] != ALL_CPUS, done.stderr


def test_a_list_of_variables_reaches_the_ranks(launch):
    done = launch("-np", "1", "--mca", "mca_base_env_list", "A=1;B;C=x y", "sh", "-c", "echo $A-$B-$C", B="b")
    assert done.stdout == "1-b-x y\n", done.stderr
    done = launch("-np", "1", "sh", "-c", "echo $A-$B", OMPI_MCA_mca_base_env_list="A=1;2,B=3",
                  OMPI_MCA_mca_base_env_list_delimiter=",")
    assert done.stdout == "1;2-3\n", done.stderr


def test_the_mpi_library_is_told_of_a_set_of_parameters(launch):
    done = launch("-np", "1", "-am", "own.conf", "printenv", "OMPI_MCA_mca_base_param_file_prefix")
    assert done.stdout == "own.conf\n", done.stderr


def test_streams_are_merged_and_bindings_reported_as_parameters_say(launch):
    done = launch("-np", "1", "--mca", "iof_base_redirect_app_stderr_to_stdout", "1", "sh", "-c", "echo e >&2")
    assert done.stdout == "e\n", done.stderr
    done = launch("-np", "1", "echo", "hi", OMPI_MCA_hwloc_base_report_bindings="1")
    assert done.stdout == "hi\n" and done.stderr


@pytest.mark.parametrize("how", ["option", "variable"])
def test_a_rank_that_fails_leaves_the_others_alone_as_a_parameter_says(launch, how):
    options = ["--mca", "orte_abort_on_non_zero_status", "0"] if how == "option" else []
    variables = {} if options else {"OMPI_MCA_orte_abort_on_non_zero_status": "false"}
    line = "[ $OMPI_COMM_WORLD_RANK = 0 ] && exit 3; sleep 0.5; echo finished"
    done = launch("--oversubscribe", "-np", "2", *options, "sh", "-c", line, **variables)
    assert done.stdout == "finished\n", done.stderr
    assert done.returncode == (0 if launch.is_open_mpi else 3)  # Open MPI 4.1 forgets the status


def test_the_launchers_own_variable_limits_the_time(launch):
    done = launch("-np", "1", "sleep", "30", MPIEXEC_TIMEOUT="1")
    assert done.returncode not in (0, 143), done.stderr
    assert "1 s" in done.stderr or "timeout" in done.stderr.lower(), done.stderr


def test_a_parameter_that_drover_cannot_apply_is_named(drover, tmp_path):
    quiet = {"OMPI_MCA_mca_base_param_files": "/none"}
    done = drover.run("run", "-np", "1", "--mca", "rmaps_rank_file_path", "x", "true", env=quiet)
    assert done.returncode == 0
    assert done.stderr == "drover run: warn: --mca rmaps_rank_file_path x is ignored: drover has no option that does this\n"
    conf = tmp_path / "mca.conf"
    conf.write_text("orte_xml_output = 1\nbtl_base_verbose = 1\nrmaps_base_mapping_policy = moon\n")
    done = drover.run("run", "-np", "1", "true", env={"OMPI_MCA_mca_base_param_files": str(conf)})
    assert done.returncode == 0 and done.stderr.count(f"({conf}) is ignored: ") == 2 and "btl" not in done.stderr
    done = drover.run("run", "-np", "1", "--mca", "rmaps_base_mapping_policy", "moon", "touch", "started", env=quiet)
    assert done.returncode == 2 and "rmaps_base_mapping_policy moon" in done.stderr
    assert not (tmp_path / "started").exists()


def test_a_job_inside_a_rank_has_no_parameters_of_the_outer_launcher(launch):
    done = launch("-np", "1", "--mca", "orte_tag_output", "1", DROVER, "run", "-np", "1", "echo", "hi")
    assert done.stdout == "[1,0]<stdout>:hi\n", done.stderr


def test_an_mpirun_that_drover_starts_does_not_apply_them_again(drover):
    if not HAS_OPEN_MPI:
        pytest.skip("there is no mpirun of Open MPI 4.1")
    env = {"OMPI_MCA_mca_base_env_list": "A=1", "OMPI_MCA_rmaps_base_pernode": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1",
           "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = drover.run("run", "--engine", "openmpi", "-H", "localhost:1", "--mca", "hwloc_base_binding_policy", "core",
                      "sh", "-c", "echo $RANK $A", env=env)
    assert (done.returncode, done.stdout) == (0, "0 1\n"), done.stderr
