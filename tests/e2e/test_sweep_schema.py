"""The JSON Schema of the sweep file, which editors read, agrees with the program: the same keys, words, and judgement of files."""
import json
import re
import subprocess

import pytest
from kit_ranks import BUILD, ROOT, clean_env

jsonschema = pytest.importorskip("jsonschema")
yaml = pytest.importorskip("yaml")

SCHEMA = json.loads((ROOT / "hpo/spec/sweep.schema.json").read_text())
CHECK = jsonschema.Draft202012Validator(SCHEMA)
DEFS = SCHEMA["$defs"]
PUBLISHED = dict(re.findall(r"^--- # (\S+)\n(.*?)(?=^--- # |\Z)", (ROOT / "tests/e2e/sweep_files.yaml").read_text(), re.M | re.S))
EXAMPLES = {str(f.relative_to(ROOT)): f.read_text() for f in sorted((ROOT / "examples").rglob("*.yaml")) if "\nmethod:" in f.read_text()}


class Loader(yaml.SafeLoader):
    """YAML as drover and editors read it: 1e-4 is a number, a date is text, and so is each key."""

    def construct_mapping(self, node, deep=True):
        self.flatten_mapping(node)
        return {self.construct_scalar(key): self.construct_object(value, deep=True) for key, value in node.value}


Loader.yaml_implicit_resolvers = {c: [(tag, r) for tag, r in rows if not tag.endswith(":timestamp")]
                                  for c, rows in yaml.SafeLoader.yaml_implicit_resolvers.items()}
Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789"))
Loader.add_constructor("tag:yaml.org,2002:map", lambda loader, node: loader.construct_mapping(node))


def faults(text):
    return [e.message for e in CHECK.iter_errors(yaml.load(text, Loader))]


def sources(folder):
    return "\n".join(f.read_text() for f in sorted((ROOT / folder).glob("*.c")))


def words(text):
    return set(re.findall(r'"([^"]+)"', text))


def keys_in(folder, where):
    """The keys that config_node_only_keys() is given for a mapping of this name."""
    call = re.search(rf'config_node_only_keys\(\s*\S+ keys, COUNT_OF\(keys\), "{where}"', sources(folder))
    assert call, f"no mapping {where} in {folder}"
    return words(re.findall(r"const keys\[\] = \{(.*?)\}", sources(folder)[:call.start()], re.S)[-1])


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("folder,where,mapping", [
    ("hpo/spec", "a sweep file", SCHEMA), ("hpo/spec", "metric", DEFS["metric"]), ("hpo/spec", "drover", DEFS["drover"]),
    ("hpo/spec", "resources", DEFS["resources"]), ("hpo/spec", "an observation", DEFS["observation"]),
    ("hpo/spec", "an outcome constraint", DEFS["outcome_constraint"]), ("hpo/space", "a condition", DEFS["condition"])], ids=lambda x: x if isinstance(x, str) else "")
def test_a_mapping_has_the_keys_that_the_program_reads(folder, where, mapping):
    assert set(mapping["properties"]) == keys_in(folder, where) - {"scheduler"}  # known, and always an error


def test_early_stopping_has_the_types_and_keys_of_the_program():
    rows = dict(re.findall(r'\.name = "(\w+)",.*?\.keys = \{(.*?)\}', sources("hpo/stoppers"), re.S))
    listed = [DEFS[d["$ref"].rsplit("/", 1)[1]] for d in DEFS["early_terminate"]["oneOf"]]
    assert {d["properties"]["type"]["const"]: set(d["properties"]) for d in listed} == {n: words(k) | {"type"} for n, k in rows.items()}


def test_methods_and_distributions_are_those_of_the_program():
    assert set(SCHEMA["properties"]["method"]["enum"]) == set(re.findall(r'\.method = \{\.name = "(\w+)"', sources("hpo/samplers")))
    parse = (ROOT / "hpo/space/distribution_parse.c").read_text()
    rows = re.search(r"\} rows\[\] = \{(.*?)\n\};", parse, re.S)[1]
    assert set(DEFS["parameter"]["properties"]["distribution"]["enum"]) == words(rows)
    shapes = re.search(r"shape_keys\[\]\[2\] = \{(.*?)\n\};", parse, re.S)[1]
    assert set(DEFS["parameter"]["properties"]) == words(shapes) | {"q", "distribution", "parameters"}


@pytest.mark.parametrize("name", [*EXAMPLES, *PUBLISHED])
def test_files_that_the_program_reads_are_valid(name):
    assert faults({**EXAMPLES, **PUBLISHED}[name]) == []


def test_the_lines_of_sweep_files_in_the_tables_for_users_of_other_tools_are_valid():
    page = (ROOT / "docs/coming-from.md").read_text()
    lines = [s for s in re.findall(r"`((?:drover|early_terminate|metrics?|method|run_cap): [^`]+)`", page) if "…" not in s]
    assert len(lines) > 12
    for line in lines:
        (key, value), = yaml.load(line, Loader).items()
        errors = CHECK.evolve(schema={**SCHEMA["properties"][key], "$defs": DEFS}).iter_errors(value)
        assert not [e.message for e in errors], line


def test_there_are_files_to_check():
    assert len(EXAMPLES) >= 4 and len(PUBLISHED) >= 20


GOOD = "program: t.sh\nmethod: bayes\nmetric: {name: loss, goal: minimize}\nparameters: {x: {min: 0.0, max: 1.0}}\n"
BROKEN = {
    "no method": GOOD.replace("method: bayes\n", ""),
    "no parameters": re.sub("parameters.*\n", "", GOOD),
    "no program": GOOD.replace("program: t.sh\n", ""),
    "an unknown key": GOOD + "run_capp: 3\n",
    "an unknown method": GOOD.replace("bayes", "bayess"),
    "a goal that is none": GOOD.replace("minimize", "min"),
    "an unknown distribution": GOOD.replace("{min:", "{distribution: unifrom, min:"),
    "an unknown key of a parameter": GOOD.replace("max:", "maxx:"),
    "a parameter that is a number": GOOD.replace("{min: 0.0, max: 1.0}", "3"),
    "a run_cap of 0": GOOD + "run_cap: 0\n",
    "both metric and metrics": GOOD + "metrics: [{name: a}, {name: b}]\n",
    "one of metrics": GOOD.replace("metric: {name: loss, goal: minimize}", "metrics: [{name: a}]"),
    "a metric without a name": GOOD.replace("name: loss, ", ""),
    "an unknown type of early stopping": GOOD + "early_terminate: {type: hyperbnd, min_iter: 3}\n",
    "hyperband without bands": GOOD + "early_terminate: {type: hyperband, eta: 3}\n",
    "a key of another type": GOOD + "early_terminate: {type: median, keep: 0.5}\n",
    "a share above 1": GOOD + "early_terminate: {type: curve, keep: 1.5}\n",
    "an unknown key of drover": GOOD + "drover: {retrys: 3}\n",
    "a negative number of retries": GOOD + "drover: {retries: -1}\n",
    "a value that is none": GOOD + "drover: {value: worst}\n",
    "an unknown resource": GOOD + "drover: {resources: {gpu: 1}}\n",
    "a fraction of a rank": GOOD + "drover: {resources: {ranks: 1.5}}\n",
    "a condition without values": GOOD + "drover: {when: {x: {param: x, in: []}}}\n",
    "an observation with two kinds of values": GOOD + "drover: {prior: [{params: {x: 0.5}, value: 1, values: {loss: 1}}]}\n",
    "start that is no list": GOOD + "drover: {start: {x: 0.5}}\n",
    "an outcome constraint without bounds": GOOD + "drover: {outcome_constraints: [{metric: ms}]}\n",
    "an outcome constraint without a metric": GOOD + "drover: {outcome_constraints: [{max: 5}]}\n",
    "an outcome constraint in a mapping": GOOD + "drover: {outcome_constraints: {metric: ms, max: 5}}\n",
    "a command that is text": GOOD + "command: ./t.sh\n",
}


@pytest.fixture(scope="module")
def dry_run(tmp_path_factory):
    d = tmp_path_factory.mktemp("schema")
    (d / "t.sh").write_text("#!/bin/sh\n")
    (d / "t.sh").chmod(0o755)

    def run(text):
        (d / "s.yaml").write_text(text)
        return subprocess.run([BUILD / "bin/drover", "sweep", "--dry-run", "s.yaml"], cwd=d, env=clean_env(), text=True,
                              capture_output=True, timeout=20, check=False)
    return run


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_file_is_rejected_by_the_schema_and_by_the_program(what, dry_run):
    assert BROKEN[what] != GOOD and faults(BROKEN[what])
    assert dry_run(BROKEN[what]).returncode == 2


def test_the_file_that_is_broken_in_these_ways_is_good(dry_run):
    assert faults(GOOD) == []
    assert dry_run(GOOD).returncode == 0, dry_run(GOOD).stderr
