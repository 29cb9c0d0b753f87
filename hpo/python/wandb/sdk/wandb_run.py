"""A run: its log() sends the trial's reports.

A log() without `step` completes a row and increments the step. One with `step` sends its numbers at once, and a later
one with the same step adds to them or replaces them. With commit=False the numbers wait until the row is complete.
Steps are the run's own, or the values of the x-axis that define_metric() set. Only rank 0 of a trial reports."""
import glob as globbing
import os
import shutil
import signal
import sys
import time
from collections.abc import Mapping

import drover
import wandb
from wandb import errors, util
from wandb.sdk import artifacts, wandb_metric
from wandb.sdk.wandb_config import Config
from wandb.sdk.wandb_settings import Settings
from wandb.sdk.wandb_summary import Summary

_NAMES_A_REPORT = 200  # a packet of 60 KB holds this many names of _NAME_MAX
_NAME_MAX = 200


def _is_first_rank():
    try:
        return drover.rank() == 0
    except ValueError as error:  # the program has set some of RANK, WORLD_SIZE, …, but not all
        util.log(f"WARNING this process sends no reports: {error}", repeat=False)
        return False


class Run:
    def __init__(self, config, settings):
        """Creates a run. `settings`: the arguments of init() by name."""
        env = os.environ
        self._pid = os.getpid()
        self._finished = False
        # Without a sweep's id the run is separate: the script has removed W&B's variables from this process.
        self._reports = "WANDB_SWEEP_ID" in env and settings.mode != "disabled" and _is_first_rank()
        self.settings = settings
        self.id = env.get("WANDB_RUN_ID") or settings.id or util.generate_id()
        self.name = settings.name or env.get("WANDB_NAME") or self.id
        self.project = settings.project or env.get("WANDB_PROJECT") or "uncategorized"
        self.entity = settings.entity or env.get("WANDB_ENTITY") or "drover"
        self.group = settings.group or env.get("WANDB_RUN_GROUP")
        self.job_type = settings.job_type
        self.tags = tuple([settings.tags] if isinstance(settings.tags, str) else settings.tags or ())
        self.notes = settings.notes
        self.sweep_id = env.get("WANDB_SWEEP_ID")
        self.start_time = time.time()
        self.offline, self.disabled = True, settings.mode == "disabled"
        self.resumed = bool(settings.resume) and settings.resume != "never" and "DROVER_RESUME" in env
        self.config, self.summary = config, Summary()
        self._metrics = wandb_metric.Metrics()
        self._pending, self._last = {}, {}
        self._exit_code = 0
        self._step_file = None
        if settings.resume and self._reports:
            self._step_file = os.open(os.path.join(self.dir, ".step"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        self.starting_step = self._step = self._resume_step() if self.resumed else 0

    # ---- properties

    @property
    def dir(self):
        """A directory next to the checkpoints: its files are there again when a lost trial resumes."""
        base = os.environ.get("DROVER_CKPT_DIR")
        path = os.path.join(base, "wandb") if base else os.path.join(os.getcwd(), "wandb", self.id)
        os.makedirs(path, exist_ok=True)
        return path

    @property
    def step(self):
        return self._step

    @property
    def url(self):
        return "file://" + os.environ.get("DROVER_TRIAL_DIR", os.getcwd())

    project_url = sweep_url = url

    @property
    def path(self):
        return f"{self.entity}/{self.project}/{self.id}"

    @property
    def config_static(self):
        return Config(self.config, self.config)

    @property
    def mode(self):
        return "disabled" if self.disabled else "offline"

    @property
    def _attach_id(self):
        return self.id

    def get_url(self):
        return self.url

    get_project_url = get_sweep_url = get_url

    def project_name(self):
        return self.project

    def __reduce__(self):
        return wandb.attach, (self.id,)

    # ---- reporting

    def log(self, data, step=None, commit=None, sync=None):
        if self._finished:
            raise errors.UsageError(f"Run ({self.id}) is finished. The call to `log` will be ignored. "
                                    "Please make sure that you are using an active run.")
        if not isinstance(data, Mapping):
            raise ValueError("wandb.log must be passed a dictionary")
        if any(not isinstance(key, str) for key in data):
            raise ValueError("Key values passed to `wandb.log` must be strings.")
        if step is not None and not self._set_step(int(step)):
            return
        found = util.numbers(data)
        self._pending.update(found)
        self._last.update(found)
        self._summarize(data, found)
        if commit is not False:
            self._send()
        if commit or (commit is None and step is None):
            self._step += 1

    def _set_step(self, step):
        if step < self._step:
            util.log(f"WARNING Tried to log to step {step} that is less than the current step {self._step}. Steps must "
                     "be monotonically increasing, so this data will be ignored.")
            return False
        if step > self._step:
            self._send()
            self._step = step
        return True

    def _summarize(self, data, found):
        if self._metrics.defined:
            shown = {key: self._metrics.summary(key, found[key]) if key in found else value
                     for key, value in data.items()}
        else:
            shown = {key: found.get(key, value) for key, value in data.items()}
        shown["_step"], shown["_runtime"] = self._step, time.time() - self.start_time
        self.summary.logged(shown)

    def _send(self):
        if not self._pending:
            return
        found, self._pending = self._pending, {}
        if not self._reports:
            return
        at = {}  # step: its numbers
        for name, x in found.items():
            if name != "step" and name[:1] not in ("", "_") and len(name) <= _NAME_MAX:
                at.setdefault(self._step_of(name), {})[name] = x
        stop = False
        for step, numbers in at.items():
            names = list(numbers)
            for i in range(0, len(names), _NAMES_A_REPORT):
                part = {n: numbers[n] for n in names[i:i + _NAMES_A_REPORT]}
                stop = drover.report(part, step=step) or stop
        if self._step_file is not None:
            os.pwrite(self._step_file, b"%020d" % self._step, 0)
        if stop:
            self._stop()

    def _step_of(self, name):
        if self._metrics.defined:
            x = self._last.get(self._metrics.axis(name))
            if x is not None and x >= 0 and x == int(x):
                return int(x)
        return self._step

    def _resume_step(self):
        """Returns the first step that the trial's earlier run has not reported."""
        if self._step_file is None:
            return 0
        reported = os.pread(self._step_file, 20, 0)
        return int(reported) + 1 if reported else 0

    def _stop(self):
        """Stops the process as W&B's agent does. A script that handles SIGTERM gets it from drover a second later."""
        if os.getpid() == self._pid and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            sys.stdout.flush()
            os.kill(self._pid, signal.SIGTERM)

    def define_metric(self, name, step_metric=None, step_sync=None, hidden=None, summary=None, goal=None,
                      overwrite=None):
        return self._metrics.define(name, step_metric, summary, goal, overwrite)

    # ---- the end

    def finish(self, exit_code=None, quiet=None):
        """Finishes the run. An exit code other than 0 makes the trial fail when the process ends."""
        if self._finished:
            return
        self._send()
        own = util.numbers({k: v for k, v in self.summary.items() if k in self.summary.chosen or isinstance(v, dict)})
        self._pending = {k: v for k, v in own.items() if k not in self._last or k in self.summary.chosen}
        self._send()
        self._finished = True
        if self._step_file is not None:
            os.close(self._step_file)
            self._step_file = None
        if exit_code:
            wandb.fail_at_exit(int(exit_code))
        wandb.run_finished(self)

    def join(self, exit_code=None):
        self.finish(exit_code)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        failed = kind is not None and not (issubclass(kind, SystemExit) and not error.code)
        self.finish(1 if failed else None)
        return False

    # ---- files

    def save(self, glob_str=None, base_path=None, policy="live"):
        """Copies files next to the trial's checkpoints, where they are kept. Returns the new paths."""
        if glob_str is None:
            return True
        saved = []
        for path in globbing.glob(os.fspath(glob_str)):
            base = base_path or ("." if not os.path.isabs(path) else os.path.dirname(path))
            to = os.path.join(self.dir, os.path.relpath(path, base))
            if os.path.realpath(path) == os.path.realpath(to) or not os.path.isfile(path):
                continue
            os.makedirs(os.path.dirname(to), exist_ok=True)
            shutil.copy2(path, to + ".tmp")
            os.replace(to + ".tmp", to)
            saved.append(to)
        return saved

    def restore(self, name, run_path=None, replace=False, root=None):
        """Opens a file that save() has kept; None: the trial has not saved it."""
        if run_path not in (None, self.path, self.id):
            artifacts.refuse(f"file '{name}' of run '{run_path}'")
        kept = os.path.join(self.dir, name)
        if not os.path.exists(kept):
            return None
        to = os.path.join(root, name) if root else kept
        if to != kept and (replace or not os.path.exists(to)):
            os.makedirs(os.path.dirname(to) or ".", exist_ok=True)
            shutil.copy2(kept, to)
        return open(to)

    # ---- not used by a sweep

    def log_artifact(self, artifact_or_path, name=None, type=None, aliases=None, tags=None):
        return artifacts.accept(artifact_or_path, name, type, aliases)

    upsert_artifact = finish_artifact = log_artifact

    def log_model(self, path, name=None, aliases=None):
        return artifacts.accept(path, name, "model", aliases)

    def use_artifact(self, artifact_or_name, *args, **kwargs):
        if isinstance(artifact_or_name, artifacts.Artifact):
            return artifact_or_name
        return artifacts.refuse(f"artifact '{artifact_or_name}'")

    def use_model(self, name):
        return artifacts.refuse(f"model '{name}'")

    def alert(self, title, text="", level=None, wait_duration=None):
        util.log(f"ALERT {title}: {text}")

    def watch(self, *args, **kwargs):
        """Has no effect: gradients and graphs are not recorded."""

    unwatch = link_artifact = link_model = mark_preempting = display = status = log_code = watch
    _label = _set_config = watch

    def to_html(self, *args, **kwargs):
        return ""

    def __getattr__(self, name):
        raise AttributeError(util.missing(f"run.{name}"))


def new_run(arguments, config, params):
    """Creates a run from the arguments of init(); `params` are the parameters of the trial."""
    settings = Settings(**{k: v for k, v in arguments.items() if k != "settings"})
    given = arguments.get("settings")
    given = dict(given) if isinstance(given, Mapping) else vars(given) if given else {}
    for name, value in given.items():
        name = {"run_id": "id", "run_name": "name", "run_group": "group", "run_tags": "tags", "run_notes": "notes",
                "run_job_type": "job_type"}.get(name, name)
        if getattr(settings, name, None) is None:
            setattr(settings, name, value)
    configuration = Config(config)
    configuration.lock(params)
    return Run(configuration, settings)
