"""`import wandb` in a trial of drover: scripts for W&B's sweeps run unchanged, without an account.

Configuration and metrics work as in W&B's module. Media, artifacts and everything else for W&B's pages is accepted and
dropped. Uses the standard library only. With `drover: {wandb: real}` in the sweep file trials import W&B's module."""
import atexit
import json
import os
import sys

from wandb import data_types, errors, plot, sdk, sklearn, util
from wandb.data_types import (Audio, Classes, Graph, Histogram, Html, Image, JoinedTable, Molecule, Object3D, Plotly,
                              Table, Video)
from wandb.errors import CommError, Error, UsageError
from wandb.sdk.artifacts import Artifact, refuse
from wandb.sdk.lib import config_util, preinit
from wandb.sdk.wandb_config import Config
from wandb.sdk.wandb_run import Run, new_run
from wandb.sdk.wandb_settings import Settings

__version__ = "0.22.0+drover"
wandb_sdk = sdk
run = None
_CALLS = ("log", "save", "watch", "unwatch", "define_metric", "alert", "log_artifact", "use_artifact", "log_model",
          "use_model", "link_model", "log_code", "mark_preempting")


class AlertLevel:
    INFO, WARN, ERROR = "INFO", "WARN", "ERROR"


def _set_run(the_run):
    """Makes wandb.run, wandb.config, wandb.log, … those of a run; None: there is no run."""
    names = globals()
    names["run"] = the_run
    for name in ("config", "summary"):
        names[name] = getattr(the_run, name) if the_run else preinit.PreInitObject(f"wandb.{name}")
    for name in _CALLS:
        names[name] = getattr(the_run, name) if the_run else preinit.pre_init_call(f"wandb.{name}")


_set_run(None)


def run_finished(the_run):
    """Is called by a run that has finished."""
    if run is the_run:
        _set_run(None)


def fail_at_exit(status):
    """Makes the process exit with this status."""
    def end():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)

    atexit.register(end)


def _params():
    """Returns the trial's parameters; {} outside a trial, or if the script has removed the sweep's variables. The
    command that is printed for a trial sets them, too, if the trial leaves the file that says so."""
    if "WANDB_SWEEP_ID" not in os.environ or "WANDB_SWEEP_PARAM_PATH" not in os.environ:
        return {}
    directory = os.path.dirname(os.environ["WANDB_SWEEP_PARAM_PATH"])
    if "DROVER_TRIAL_DIR" in os.environ:
        open(os.path.join(directory, "wandb-stand-in"), "a").close()
    with open(os.path.join(directory, "..", "params.json"), encoding="utf-8") as f:
        return json.load(f)


def init(entity=None, project=None, dir=None, id=None, name=None, notes=None, tags=None, config=None,
         config_exclude_keys=None, config_include_keys=None, allow_val_change=None, group=None, job_type=None,
         mode=None, force=None, anonymous=None, reinit=None, resume=None, resume_from=None, fork_from=None,
         save_code=None, tensorboard=None, sync_tensorboard=None, monitor_gym=None, magic=None, settings=None):
    arguments = dict(locals())
    mine = run if run is not None and run._pid == os.getpid() else None
    if mine and reinit in (True, "finish_previous"):
        mine.finish()
    elif mine and reinit != "create_new":
        return mine
    if sync_tensorboard or tensorboard:
        util.log("WARNING sync_tensorboard has no effect in a trial of drover: log the sweep's metric", repeat=False)
    if resume is None:
        arguments["resume"] = os.environ.get("WANDB_RESUME")
    defaults = config_util.from_file("config-defaults.yaml") if os.path.exists("config-defaults.yaml") else {}
    given = config_util.as_dict(config, config_include_keys, config_exclude_keys)
    the_run = new_run(arguments, {**defaults, **given}, _params())
    if reinit != "create_new":
        _set_run(the_run)
    return the_run


def attach(attach_id=None, run_id=None):
    """Returns the trial's run, in another process of the trial."""
    if run is None:
        init(id=attach_id or run_id)
    return run


_attach = attach


def finish(exit_code=None, quiet=None):
    if run is not None:
        run.finish(exit_code, quiet)


join = finish


@atexit.register
def _finish_at_exit():
    if run is not None and run._pid == os.getpid():
        run.finish()


def restore(name, run_path=None, replace=False, root=None):
    if run is None:
        refuse(f"file '{name}'")
    return run.restore(name, run_path, replace, root)


def sweep(sweep, entity=None, project=None, prior_runs=None):
    """Returns the id of the running sweep. Its file, not the argument, defines the search."""
    return os.environ.get("WANDB_SWEEP_ID") or refuse("wandb.sweep()")


def agent(sweep_id, function=None, entity=None, project=None, count=None, forward_signals=None):
    """Runs the function once, with this trial's parameters. Other trials of the sweep run it as well."""
    if not callable(function):
        raise UsageError("wandb.agent() in a trial of drover needs a function: drover itself starts the trials")
    function()
    finish()


def controller(*args, **kwargs):
    refuse("wandb.controller()")


def Api(*args, **kwargs):
    refuse("wandb.Api()")


def login(*args, **kwargs):
    return True


def setup(*args, **kwargs):
    return sys.modules[__name__]


def teardown(exit_code=None):
    finish(exit_code)


def require(*args, **kwargs):
    """Accepts any arguments, without effect."""


ensure_configured = require


def termlog(string="", newline=True, repeat=True, **more):
    util.log(string, repeat)


def termwarn(string, newline=True, repeat=True, **more):
    util.log(f"WARNING {string}", repeat)


def termerror(string, newline=True, repeat=True, **more):
    util.log(f"ERROR {string}", repeat)


def plot_table(*args, **kwargs):
    return plot.CustomChart()


def __getattr__(name):
    raise AttributeError(util.missing(name))


class _Missing:
    """The last finder of modules: says of `import wandb.integration.sb3` what the AttributeError says of a name."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.startswith("wandb."):
            raise ModuleNotFoundError(util.missing(name[len("wandb."):]), name=name)


sys.meta_path.append(_Missing)
