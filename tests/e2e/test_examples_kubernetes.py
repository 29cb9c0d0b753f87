"""examples/kubernetes, without a cluster: fields and types, what must agree inside of a file, and that drover accepts the
commands. The schema has the fields that the files use, as Kubernetes' OpenAPI (1.37) and the MPI Operator's types have them."""
import json
import subprocess

import pytest
from conftest import DROVER
from kit_ranks import ROOT, clean_env

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

FOLDER = ROOT / "examples/kubernetes"
TEXTS = {str: str}  # names with texts
SCHEMA = {
    "Service": {"apiVersion": str, "kind": str, "metadata": "Meta", "spec": "ServiceSpec"},
    "ServiceSpec": {"clusterIP": str, "publishNotReadyAddresses": bool, "selector": TEXTS, "ports": ["ServicePort"]},
    "ServicePort": {"name": str, "port": int},
    "Job": {"apiVersion": str, "kind": str, "metadata": "Meta", "spec": "JobSpec"},
    "JobSpec": {"completionMode": {"Indexed", "NonIndexed"}, "completions": int, "parallelism": int, "backoffLimit": int,
                "podFailurePolicy": "FailurePolicy", "template": "Template"},
    "FailurePolicy": {"rules": ["FailureRule"]},
    "FailureRule": {"action": {"Ignore", "FailJob", "FailIndex", "Count"}, "onPodConditions": ["PodCondition"]},
    "PodCondition": {"type": str, "status": {"True", "False", "Unknown"}},
    "MPIJob": {"apiVersion": str, "kind": str, "metadata": "Meta", "spec": "MPIJobSpec"},
    "MPIJobSpec": {"slotsPerWorker": int, "runPolicy": "RunPolicy", "mpiReplicaSpecs": "Replicas", "sshAuthMountPath": str},
    "RunPolicy": {"cleanPodPolicy": {"All", "Running", "None"}, "backoffLimit": int},
    "Replicas": {"Launcher": "Replica", "Worker": "Replica"},
    "Replica": {"replicas": int, "restartPolicy": {"Never", "OnFailure"}, "template": "Template"},
    "Template": {"metadata": "Meta", "spec": "PodSpec"},
    "Meta": {"name": str, "labels": TEXTS},
    "PodSpec": {"subdomain": str, "restartPolicy": {"Never", "OnFailure"}, "terminationGracePeriodSeconds": int,
                "containers": ["Container"], "volumes": ["Volume"], "nodeSelector": TEXTS},
    "Container": {"name": str, "image": str, "workingDir": str, "command": [str], "args": [str], "env": ["EnvVar"],
                  "resources": "Resources", "volumeMounts": ["Mount"]},
    "EnvVar": {"name": str, "value": str},
    "Resources": {"limits": TEXTS, "requests": TEXTS},
    "Mount": {"name": str, "mountPath": str},
    "Volume": {"name": str, "emptyDir": "EmptyDir", "persistentVolumeClaim": "Claim"},
    "EmptyDir": {"medium": {"", "Memory"}, "sizeLimit": str},
    "Claim": {"claimName": str},
}
VERSIONS = {"Service": "v1", "Job": "batch/v1", "MPIJob": "kubeflow.org/v2beta1"}


def faults(value, kind, where):
    """What does not fit the schema: a list of texts."""
    if isinstance(kind, list):
        return [f for i, x in enumerate(value) for f in faults(x, kind[0], f"{where}[{i}]")] if isinstance(value, list) else \
            [f"{where}: not a list"]
    if isinstance(kind, set):
        return [] if value in kind else [f"{where}: {value!r}"]
    if isinstance(kind, type):
        return [] if type(value) is kind else [f"{where}: {value!r} is not a {kind.__name__}"]
    if not isinstance(value, dict):
        return [f"{where}: not a mapping"]
    fields = SCHEMA[kind] if isinstance(kind, str) else dict.fromkeys(value, kind[str])
    return [f"{where}: unknown field '{name}'" for name in value if name not in fields] + \
        [f for name, x in value.items() if name in fields for f in faults(x, fields[name], f"{where}.{name}")]


def documents(file):
    return {d["kind"]: d for d in yaml.safe_load_all((FOLDER / file).read_text())}


def plan(command, **env):
    """What `--dry-run --json` says about a container's command."""
    done = subprocess.run([DROVER, command[1], "--dry-run", "--json", *command[2:]], cwd=ROOT, env=clean_env(**env), text=True,
                          capture_output=True, timeout=60, check=False)
    assert command[0] == "drover" and done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("file", [f.name for f in FOLDER.glob("*.yaml")])
def test_fields_and_types_are_those_of_the_api(file):
    for kind, document in documents(file).items():
        assert document["apiVersion"] == VERSIONS[kind] and not faults(document, kind, kind)
        broken = {**document, "spec": {**document["spec"], "slots": 1}}
        assert faults(broken, kind, kind) == [f"{kind}.spec: unknown field 'slots'"]


def pods(document):
    """The pods' specifications: {role: spec}"""
    spec = document["spec"]
    return {role: r["template"]["spec"] for role, r in spec.get("mpiReplicaSpecs", {"Pod": spec}).items()}


@pytest.mark.parametrize("file, kind", [("mpijob.yaml", "MPIJob"), ("job.yaml", "Job")])
def test_volumes_exist_and_drover_ends_the_ranks_before_kubernetes_ends_drover(file, kind):
    for pod in pods(documents(file)[kind]).values():
        container, = pod["containers"]
        assert {m["name"] for m in container.get("volumeMounts", [])} == {v["name"] for v in pod.get("volumes", [])}
        command = " ".join(container.get("command", [])).replace("--grace ", "--grace=")
        assert not command or int(command.partition("--grace=")[2].split()[0]) < pod["terminationGracePeriodSeconds"]


def test_the_mpijob_is_one_rank_per_slot_of_the_operators_host_file(tmp_path):
    job = documents("mpijob.yaml")["MPIJob"]["spec"]
    launcher, worker = (job["mpiReplicaSpecs"][r]["template"]["spec"]["containers"][0] for r in ("Launcher", "Worker"))
    slots, workers = job["slotsPerWorker"], job["mpiReplicaSpecs"]["Worker"]["replicas"]
    assert worker["resources"]["limits"]["nvidia.com/gpu"] == str(slots)
    hosts = [f"train-worker-{i}.train.default.svc" for i in range(workers)]
    (tmp_path / "hostfile").write_text("".join(f"{h} slots={slots}\n" for h in hosts))
    found = plan(launcher["command"], OMPI_MCA_orte_default_hostfile=str(tmp_path / "hostfile"),
                 OMPI_MCA_orte_keep_fqdn_hostnames="true")
    assert found["world_size"] == slots * workers
    assert list(dict.fromkeys(r["node"] for r in found["ranks"])) == hosts


def test_the_job_meets_at_its_first_pod():
    service, job = (documents("job.yaml")[k] for k in ("Service", "Job"))
    name, spec = job["metadata"]["name"], job["spec"]
    pod = spec["template"]["spec"]
    container, = pod["containers"]
    options = dict(x.split("=", 1) for x in container["command"] if x.startswith("--"))
    assert spec["completions"] == spec["parallelism"] == int(options["--nnodes"])
    assert container["resources"]["limits"]["nvidia.com/gpu"] == options["--nproc-per-node"]
    assert service["metadata"]["name"] == pod["subdomain"] and service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"batch.kubernetes.io/job-name": name}
    assert options["--rdzv-endpoint"] == f"{name}-0.{pod['subdomain']}:{service['spec']['ports'][0]['port']}"
    found = plan(container["command"])  # of one pod: the rendezvous assigns the ranks
    assert found["world_size"] == int(options["--nproc-per-node"]) and found["argv"][-2:] == container["command"][-2:]
