"""The Python client, drover.py: the same results and packets as the C client."""
import ast
import importlib.util
import json
import os
import socket
import subprocess
import sys

import pytest
from kit_ranks import ROOT, clean_env

CLIENT = ROOT / "launcher" / "client" / "drover.py"
def client_env(**more):
    return clean_env(PYTHONPATH=str(CLIENT.parent), **more)


def run(code, channel=None, **env):
    """Runs a program that imports drover; returns what it prints, decoded from JSON."""
    if channel is not None:
        env["DROVER_REPORT_FD"] = str(channel.fileno())
    done = subprocess.run([sys.executable, "-c", "import drover, json\n" + code], env=client_env(**env), text=True,
                          pass_fds=[channel.fileno()] if channel is not None else [], capture_output=True, timeout=30,
                          check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if done.stdout else None


WHO = ("print(json.dumps([drover.rank(), drover.world_size(), drover.local_rank(), drover.local_world_size(), "
       "drover.node_rank()]))")


@pytest.fixture(name="pair")
def make_pair():
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    yield ends
    for s in ends:
        s.close()


@pytest.fixture(name="module")
def load_module():
    spec = importlib.util.spec_from_file_location("drover_under_test", CLIENT)
    m = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(m)
    return m


def packets(end):
    got = []
    end.setblocking(False)
    try:
        while True:
            got.append(end.recv(65536))
    except BlockingIOError:
        return got


def test_nobody_around_means_rank_0_of_1():
    assert run(WHO) == [0, 1, 0, 1, 0]


def test_the_variables_of_torchrun_mpirun_and_a_slurm_step_are_read():
    assert run(WHO, RANK="13", WORLD_SIZE="16", LOCAL_RANK="5", LOCAL_WORLD_SIZE="8", GROUP_RANK="1") == \
        [13, 16, 5, 8, 1]
    assert run(WHO, OMPI_COMM_WORLD_RANK="5", OMPI_COMM_WORLD_SIZE="8", OMPI_COMM_WORLD_LOCAL_RANK="1",
               OMPI_COMM_WORLD_LOCAL_SIZE="4", OMPI_COMM_WORLD_NODE_RANK="3") == [5, 8, 1, 4, 1]
    slurm = {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4", "SLURM_LOCALID": "1", "SLURM_NODEID": "1"}
    assert run(WHO, **slurm, SLURM_STEP_ID="0") == [3, 4, 1, 4, 1]
    assert run(WHO, **slurm) == [0, 1, 0, 1, 0]


# The same cases as for the C client, in tests/unit/test_rank_identity.c.
@pytest.mark.parametrize("env, words", [
    ({"RANK": "4", "WORLD_SIZE": "4"}, "RANK is 4, but WORLD_SIZE is 4"),
    ({"RANK": "x", "WORLD_SIZE": "4"}, "RANK: 'x' is not a number"),
    ({"RANK": "0"}, "the number of ranks is not"),
    ({"PMIX_RANK": "0"}, "the number of ranks is not"),
    ({"RANK": "0", "WORLD_SIZE": "4", "LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "2"}, "LOCAL_RANK is 2"),
])
def test_contradictions_are_refused_as_the_c_client_refuses_them(module, env, words):
    with pytest.raises(ValueError, match=words):
        module._identity(env)


def test_without_a_launcher_reports_are_discarded():
    assert run("print(json.dumps([drover.report(loss=1), drover.should_stop(), drover.checkpoint_dir()]))") == \
        [False, False, None]


def test_a_report_is_one_packet_and_steps_count_up(pair):
    run('drover.report(loss=0.5)\ndrover.report({"val/loss": 0.1}, acc=1)\ndrover.report(step=70, loss=2)', pair[1])
    assert [json.loads(p) for p in packets(pair[0])] == [
        {"step": 0, "loss": 0.5}, {"step": 1, "val/loss": 0.1, "acc": 1}, {"step": 70, "loss": 2}]


def test_values_that_json_lacks_are_words_and_doubles_come_back(pair):
    run('drover.report({"größe \\"x\\"": float("nan")}, a=float("inf"), b=-float("inf"), c=1/3)', pair[1])
    (packet,) = packets(pair[0])
    assert json.loads(packet) == {"step": 0, 'größe "x"': "nan", "a": "inf", "b": "-inf", "c": 1 / 3}


def test_numbers_of_numpy_and_torch_are_taken(pair):
    run("import numpy, fractions\ndrover.report(a=numpy.float32(0.5), b=numpy.int64(3), c=fractions.Fraction(1, 4), "
        "d=True, step=numpy.int64(7))", pair[1])
    (packet,) = packets(pair[0])
    assert json.loads(packet) == {"step": 7, "a": 0.5, "b": 3, "c": 0.25, "d": 1}


def test_stop_is_seen_and_stays(pair):
    pair[0].send(b'{"hello":1}')
    pair[0].send(b'{"stop":true}')
    assert run("print(json.dumps([drover.report(loss=1), drover.should_stop(), drover.report(loss=2)]))", pair[1]) == \
        [True, True, True]


def test_a_launcher_that_is_gone_leaves_the_program_alone(pair):
    pair[0].close()
    assert run("print(json.dumps([drover.report(loss=i) for i in range(3)]))", pair[1]) == [False] * 3


def test_a_bad_report_sends_nothing_and_does_not_count(pair):
    run('''
for bad in ({"": 1}, {"step": 1}, {3: 1}, {"x": "y" * 3}, {"x" * 70000: 1}):
    try:
        drover.report(bad)
    except ValueError:
        continue
    raise SystemExit(f"{bad} was taken")
for step in (-1, 2**63, int(1e300)):
    try:
        drover.report(step=step, x=1)
    except ValueError:
        continue
    raise SystemExit(f"step {step} was taken")
drover.report(x=1)''', pair[1])
    assert packets(pair[0]) == [b'{"step":0,"x":1.0}']


def test_a_name_that_is_no_unicode_is_refused_and_nothing_is_sent(pair):
    run('''
try:
    drover.report({"\\udcff": 1})
except ValueError:
    drover.report(x=2)''', pair[1])
    assert packets(pair[0]) == [b'{"step":0,"x":2.0}']


def test_sections_and_heartbeats_are_packets_with_a_kind(pair):
    launcher, rank = pair
    launcher.send(b'{"stop":true}')
    assert run("""
with drover.section("a \\"b\\""), drover.section("c"):
    stop = drover.heartbeat()
print(json.dumps(stop))""", rank) is True
    got = [json.loads(p) for p in packets(launcher)]
    assert [(p["kind"], p.get("section")) for p in got] == [
        ("section_begin", 'a "b"'), ("section_begin", "c"), ("heartbeat", None), ("section_end", "c"),
        ("section_end", 'a "b"')]
    assert 0 <= got[3]["s"] <= got[4]["s"] < 30


@pytest.mark.parametrize("name", ["''", "3", "None", "'x' * 201", "'\\ud800'", "'open'"])
def test_a_section_without_a_valid_name_is_refused_and_nothing_is_sent(pair, name):
    launcher, rank = pair
    assert run(f"""
with drover.section("open"):
    try:
        with drover.section({name}):
            print("1")
    except ValueError as e:
        print("2")""", rank) == 2
    assert [json.loads(p)["section"] for p in packets(launcher)] == ["open", "open"]


def test_children_of_the_program_do_not_inherit_the_channel(pair):
    fd = pair[1].fileno()
    assert run(f"drover.rank()\nimport os\nprint(json.dumps(os.get_inheritable({fd})))", pair[1]) is False


def test_some_other_file_under_the_number_is_left_alone():
    r, w = os.pipe()
    code = ("import drover, os, sys\nfd = int(os.environ['DROVER_REPORT_FD'])\ndrover.report(loss=1)\n"
            "assert os.get_inheritable(fd)\nos.write(fd, b'mine')")
    for text in (str(w), "999", "x", "-1", ""):
        env = client_env(DROVER_REPORT_FD=text)
        if text == str(w):
            subprocess.run([sys.executable, "-c", code], env=env, pass_fds=[w], timeout=30, check=True)
            assert os.read(r, 100) == b"mine"
        else:
            subprocess.run([sys.executable, "-c", "import drover; assert drover.report(loss=1) is False"], env=env,
                           timeout=30, check=True)
    os.close(r)
    os.close(w)


def test_it_imports_nothing_but_the_standard_library():
    tree = ast.parse(CLIENT.read_text())
    names = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    names |= {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    names.discard("pandas")  # of a notebook that asks for a DataFrame
    assert names and {n.split(".")[0] for n in names} <= sys.stdlib_module_names


def test_a_trial_whose_channel_was_closed_on_the_way_reports_by_lines():
    code = "import drover; drover.report(step=1, loss=0.5); drover.report(loss=float('nan'))"
    closed = {"DROVER_REPORT_FD": "77", "DROVER_TRIAL_ID": "3"}
    for env, out in ((closed, '\n{"step":1,"loss":0.5}\n\n{"step":1,"loss":"nan"}\n'),
                     ({**closed, "RANK": "1", "WORLD_SIZE": "2"}, ""), ({"DROVER_REPORT_FD": "77"}, ""),
                     ({"DROVER_TRIAL_ID": "3"}, "")):
        done = subprocess.run([sys.executable, "-c", code], env=client_env(**env), text=True, capture_output=True,
                              timeout=30, check=False)
        assert (done.returncode, done.stdout) == (0, out), done.stderr
