"""`import wandb` in a trial of drover: scripts written for W&B's sweeps run as they are, without an account.

Configuration and metrics do what they do there; media, artifacts and what else is for W&B's pages is accepted and goes
nowhere. Standard library only. A sweep file with `drover: {wandb: real}` leaves W&B's own module in place."""
import atexit
import json
import os
import sys

from wandb import data_types, errors, plot, sdk, util
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


def _point_to(the_run):
    """wandb.run, wandb.config, wandb.log, … are this run's; None: there is no run."""
    names = globals()
    names["run"] = the_run
    for name in ("config", "summary"):
        names[name] = getattr(the_run, name) if the_run else preinit.PreInitObject(f"wandb.{name}")
    for name in _CALLS:
        names[name] = getattr(the_run, name) if the_run else preinit.pre_init_call(f"wandb.{name}")


_point_to(None)


def forget(the_run):
    """It is finished."""
    if run is the_run:
        _point_to(None)


def fail_at_exit(status):
    def end():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)

    atexit.register(end)


def _params():
    """The trial's parameters; none outside of a trial, or where the script took the sweep's variables away."""
    if "WANDB_SWEEP_ID" not in os.environ or "DROVER_TRIAL_DIR" not in os.environ:
        return {}
    with open(os.path.join(os.environ["DROVER_TRIAL_DIR"], "..", "params.json"), encoding="utf-8") as f:
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
        util.say("WARNING sync_tensorboard has no effect in a trial of drover: log the sweep's metric", repeat=False)
    if resume is None:
        arguments["resume"] = os.environ.get("WANDB_RESUME")
    defaults = config_util.from_file("config-defaults.yaml") if os.path.exists("config-defaults.yaml") else {}
    given = config_util.as_dict(config, config_include_keys, config_exclude_keys)
    the_run = new_run(arguments, {**defaults, **given}, _params())
    if reinit != "create_new":
        _point_to(the_run)
    return the_run


def attach(attach_id=None, run_id=None):
    """The trial's run in another process of its."""
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
    """The sweep that runs; its file, not the argument, says what is searched."""
    return os.environ.get("WANDB_SWEEP_ID") or refuse("wandb.sweep()")


def agent(sweep_id, function=None, entity=None, project=None, count=None, forward_signals=None):
    """Runs the function once, with this trial's parameters; the sweep has the other trials run it, too."""
    if not callable(function):
        raise UsageError("wandb.agent() in a trial of drover needs a function: the trial itself is what a sweep runs")
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
    """Whatever it is, it has no effect here."""


ensure_configured = require


def termlog(string="", newline=True, repeat=True, **more):
    util.say(string, repeat)


def termwarn(string, newline=True, repeat=True, **more):
    util.say(f"WARNING {string}", repeat)


def termerror(string, newline=True, repeat=True, **more):
    util.say(f"ERROR {string}", repeat)


def __getattr__(name):
    raise AttributeError(f"drover's stand-in for wandb has no '{name}': for W&B's own module say "
                         "`drover: {wandb: real}` in the sweep file")
