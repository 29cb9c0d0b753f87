"""Artifacts: accepted but not stored. A trial keeps files by writing them itself, or with wandb.save()."""
import contextlib
import os

from wandb import errors, util


def refuse(what):
    """Raises an error for a call that needs W&B's servers."""
    raise errors.CommError(f"{what}: a trial of drover does not contact W&B's servers. Pass the path of the data as a "
                           "parameter of the sweep, or set `drover: {wandb: real}` in its file, which needs an account")


class Artifact:
    def __init__(self, name, type, description=None, metadata=None, **more):
        self.name, self.type, self.description = name, type, description
        self.metadata = dict(metadata or {})
        self.aliases, self.version, self.ttl, self.files_added = [], "v0", None, []

    def _add(self, name):
        self.files_added.append(name)
        return name

    def add_file(self, local_path, name=None, **more):
        if not os.path.isfile(local_path):
            raise ValueError(f"Path is not a file: {local_path}")
        return self._add(name or os.path.basename(local_path))

    def add_dir(self, local_path, name=None, **more):
        if not os.path.isdir(local_path):
            raise ValueError(f"Path is not a directory: {local_path}")
        self._add(name or local_path)

    def add_reference(self, uri, name=None, **more):
        return [self._add(name or str(uri))]

    def add(self, obj, name, **more):
        return self._add(name)

    @contextlib.contextmanager
    def new_file(self, name, mode="x", encoding=None):
        with open(os.devnull, mode.replace("x", "w"), encoding=encoding) as f:
            yield f
        self._add(name)

    def wait(self, timeout=None):
        return self

    def save(self, **more):
        """Has no effect."""

    delete = link = save

    def is_draft(self):
        return False

    def download(self, root=None, **more):
        refuse(f"artifact '{self.name}'")

    get_path = get = get_entry = checkout = download


def accept(artifact, name=None, type=None, aliases=None):
    """Returns the artifact for log_artifact()."""
    if not isinstance(artifact, Artifact):
        artifact = Artifact(name or os.path.basename(str(artifact)), type or "unspecified")
    artifact.aliases = list(aliases or ["latest"])
    util.log(f"WARNING drover does not store artifacts: '{artifact.name}' stays where your program wrote it",
             repeat=False)
    return artifact
