"""`drover serve`: what it answers, to whom, and that faults of clients, sweeps and of itself stay where they are."""
import http.client
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import urllib.parse

import pytest
from serve_kit import SERVE, Server, make_sweep
from sweep_kit import DROVER, Place
from waiting import wait_until

pytestmark = pytest.mark.skipif(not SERVE.exists(), reason="drover-serve is not built")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A sweep of which three trials have ended and one runs. Tests only look at it."""
    p = Place(tmp_path_factory.mktemp("serve"))
    p.sweep = make_sweep(p)
    yield p
    p.clean_up()


@pytest.fixture(scope="module")
def server(place):
    return Server(place, "s")


def test_the_list_has_the_sweep_that_was_named(server):
    got = server.json("/api/sweeps")
    assert got["chosen"] == "s" and not got["control"]
    assert [(s["name"], s["state"], s["trials"]) for s in got["sweeps"]] == [("s", "running", 4)]


def test_columns_have_all_trials_and_later_only_what_has_changed(server):
    head, c = server.columns("/api/s/cols")
    assert c["id"] == [0, 1, 2, 3] and head["total"] == 4
    assert [head["states"][s] for s in c["state"]] == ["done", "failed", "done", "running"]
    assert c["value"][0] == pytest.approx(1 + 1 / 3)
    assert c["m0.max"][0] == pytest.approx(2) and c["steps"] == [3, 0, 3, 3]
    assert [p["name"] for p in head["params"]] == ["kind", "x"]
    later, c = server.columns(f"/api/s/cols?since={head['seq']}")
    assert c["id"] == [] and later["epoch"] == head["epoch"]
    _, c = server.columns("/api/s/cols?since=999999999")
    assert c["id"] == []


def test_a_trial_has_its_command_files_and_curves(server):
    t = server.json("/api/s/trial/0")
    assert t["command"].startswith("drover run -np 1 -- ") and "--x=1" in t["command"]
    assert len(t["curves"]["loss"]) == 3 and len(t["leases"]) == 1
    assert {"stdout", "config.yaml"} <= {f["name"] for f in t["files"]}
    assert server.ask("/api/s/trial/4")[0] == 404


def test_the_end_of_a_log_is_bounded_and_plain_text(server):
    status, headers, body = server.ask("/api/s/log/2/stdout?tail=1000")
    assert status == 200 and len(body) == 1000 and int(headers["x-log-size"]) > 1 << 20
    assert headers["content-type"].startswith("text/plain") and headers["x-content-type-options"] == "nosniff"
    assert b"<script>alert(3)" in server.ask("/api/s/log/1/stderr")[2]
    assert server.ask("/api/s/log/2/stdout?tail=99999999")[0] == 400
    assert server.ask("/api/s/log/2/params.json")[0] == 404 and server.ask("/api/s/log/9/stdout")[0] == 404
    status, headers, body = server.ask("/api/s/log/0/stderr")  # it wrote none
    assert status == 200 and body == b"" and "x-log-size" not in headers


def test_curves_and_density(server):
    head, c = server.columns("/api/s/density?width=20&height=10")
    assert head["curves"] == 3 and sum(c["count"]) >= 40
    head, c = server.columns("/api/s/curves?ids=0,2")
    assert c["start"] == [0, 3, 6] and c["step"][:3] == [1, 2, 3]
    assert server.ask("/api/s/curves?ids=x")[0] == 400
    assert "grid has no model" in server.json("/api/s/surface?x=0")["missing"]
    assert server.ask("/api/s/surface?x=9")[0] == 400


def test_the_overview_names_the_best_trial_and_the_running_state(server):
    o = server.json("/api/s/overview")
    assert o["best"]["id"] == 0 and o["state"] == "running" and o["counts"]["failed"] == 1
    assert o["importance"] is None and o["total_wanted"] == 4


def test_viewers_share_an_answer_until_the_sweep_is_read_again(server):
    def now():
        return server.json("/api/s/overview")["now_ms"]

    first = now()
    wait_until(lambda: now() == now(), "two viewers get the same answer")
    wait_until(lambda: now() > first, "a later one is made anew")
    assert server.ask("/api/s/cols")[2] == server.ask("/api/s/cols")[2]


def test_answers_to_other_hosts_methods_and_paths_are_refused(server):
    for host in ("evil.com", "127.0.0.1.nip.io", "localhost.evil.com"):
        assert server.ask("/api/s/cols", Host=host)[0] == 421
    assert server.ask("/", Host=f"localhost:{server.port}")[0] == 200
    for path in ("/..%2f..%2fsweep.db", "/../sweeps/s/sweep.db", "/api/%2e%2e/cols", "/sweep.db", "/api/s/nothing"):
        assert server.ask(path)[0] in (400, 404), path
    assert server.ask("/api/s/cols", "DELETE")[0] == 405
    assert server.ask("/api/s/control", "POST", '{"verb":"stop"}')[0] == 403
    assert server.ask("/api/none/cols")[0] == 404


def test_bytes_that_are_not_utf8_get_an_answer(place):
    server = Server(place, "s", "--control")
    queries = ["curves?metric={}&ids=0", "density?metric={}", "cols?since={}", "surface?x={}", "log/0/stdout?tail={}", "log/0/{}", "{}",
               "trial/{}"]
    bodies = ['{{"verb":"{}"}}', '{{"verb":"add","params":["{}"]}}', "{}"]
    for text in ("%ff", "%c3%28", "%ed%a0%80", "%f4%90%80%80", "%c3"):
        for path in [*(f"/api/s/{q}" for q in queries), "/api/{}/overview", "/{}"]:
            status, _, body = server.ask(path.format(text), Cookie=server.cookie)
            assert status in (200, 400, 404), (path, text, status)
            body.decode() if path.startswith("/api") and b"{" in body[:1] else None
        for form in bodies:
            raw = form.format("X").encode().replace(b"X", urllib.parse.unquote_to_bytes(text))
            assert server.ask("/api/s/control", "POST", raw, Cookie=server.cookie)[0] == 400, raw
    assert server.process.poll() is None


def test_every_answer_has_the_policy_that_allows_only_this_origin(server):
    for path in ("/", "/main.js", "/d3.min.js", "/api/sweeps", "/api/s/cols", "/nothing"):
        _, headers, _ = server.ask(path)
        assert headers["content-security-policy"].startswith("default-src 'self'"), path


def events(server):
    c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    c.request("GET", "/api/s/events")
    r = c.getresponse()
    assert r.status == 200 and r.getheader("content-type") == "text/event-stream"
    while line := r.readline():
        if line.startswith(b"data: "):
            yield json.loads(line[6:])
    c.close()


def test_more_idle_clients_than_places_leave_room_for_the_next_one(server):
    idle = []
    try:
        for _ in range(1000):
            s = socket.create_connection(("127.0.0.1", server.port), timeout=20)
            s.send(b"GET /api/s/cols HTTP/1.1\r\nHo")  # and never the rest
            idle.append(s)
        for _ in range(3):
            assert server.ask("/api/s/overview")[0] == 200
        assert len(list(os.scandir(f"/proc/{server.process.pid}/fd"))) < 110
        assert server.rss_mb() < 60
    finally:
        for s in idle:
            s.close()


def test_a_closed_stream_of_events_gives_its_place_back(place):
    server = Server(place, "s")

    def descriptors():
        return len(list(os.scandir(f"/proc/{server.process.pid}/fd")))

    before, streams = descriptors(), []
    for _ in range(20):
        s = socket.create_connection(("127.0.0.1", server.port), timeout=20)
        s.send(f"GET /api/s/events HTTP/1.1\r\nHost: localhost:{server.port}\r\n\r\n".encode())
        assert s.recv(100)
        streams.append(s)
    assert descriptors() >= before + 20
    for s in streams:
        s.close()
    wait_until(lambda: descriptors() < before + 5, descriptors, 5)


def test_clients_that_never_read_do_not_block_others(server):
    stuck = []
    try:
        for _ in range(40):
            s = socket.create_connection(("127.0.0.1", server.port), timeout=20)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.send(f"GET /api/s/log/2/stdout?tail=1048576 HTTP/1.1\r\nHost: localhost:{server.port}\r\n\r\n".encode())
            stuck.append(s)
        assert server.ask("/api/s/overview")[0] == 200
        assert server.rss_mb() < 60
    finally:
        for s in stuck:
            s.close()


def test_a_token_becomes_a_cookie_and_control_sends_the_commands_of_drover_sweep(place):
    server = Server(place, "s", "--control")
    assert server.ask("/api/sweeps")[0] == 401 and server.ask("/?token=0")[0] == 401
    status, headers, _ = server.ask(f"/?token={server.token}")
    assert status == 303 and headers["location"] == "./"
    assert headers["set-cookie"] == f"{server.cookie}; SameSite=Strict; HttpOnly"
    assert server.json("/api/sweeps", Cookie=server.cookie)["control"]

    def control(command, **headers):
        status, _, body = server.ask("/api/s/control", "POST", json.dumps(command), **headers)
        return status, json.loads(body)

    assert control({"verb": "pause", "finish": True})[0] == 401
    assert control({"verb": "pause"}, Cookie=server.cookie, Origin="http://evil.com")[0] == 403
    assert control({"verb": "rm"}, Cookie=server.cookie)[0] == 400
    same = f"http://127.0.0.1:{server.port}"
    assert control({"verb": "pause", "finish": True}, Cookie=server.cookie, Origin=same)[0] == 200
    assert server.json("/api/s/overview", Cookie=server.cookie)["state"] == "paused"
    assert control({"verb": "resume"}, Cookie=server.cookie)[0] == 200
    assert server.json("/api/s/overview", Cookie=server.cookie)["state"] == "running"
    status, said = control({"verb": "retry", "trials": [0]}, Cookie=server.cookie)
    assert status == 409 and "trial 0" in said["error"]
    assert server.ask("/api/s/control", "POST", "x" * 100000, Cookie=server.cookie)[0] == 413
    server.process.terminate()
    assert server.process.wait(10) == 0


def test_the_browser_gets_the_token_in_a_file_of_this_user(place, monkeypatch):
    tools, tmp = place.path / "tools", place.path / "tmp"
    tools.mkdir()
    tmp.mkdir()
    (tools / "xdg-open").write_text('#!/bin/sh\necho "$*" >argv.new; cp "$1" page; mv argv.new argv\n')
    (tools / "xdg-open").chmod(0o755)
    monkeypatch.setitem(place.env, "PATH", f"{tools}:{place.env.get('PATH', os.environ['PATH'])}")
    monkeypatch.setitem(place.env, "TMPDIR", str(tmp))
    server = Server(place, "s", "--control", "--open")
    argv = wait_until(lambda: (place.path / "argv").exists() and (place.path / "argv").read_text().strip(), "xdg-open")
    assert server.token not in argv
    assert f"url={server.url}\"" in (place.path / "page").read_text()
    assert os.stat(argv).st_mode & 0o777 == 0o600 and os.stat(os.path.dirname(argv)).st_mode & 0o777 == 0o700
    server.process.terminate()
    assert server.process.wait(10) == 0 and not list(tmp.iterdir())


def test_beyond_loopback_there_is_a_token_and_each_address_of_this_machine_is_accepted(place):
    server = Server(place, "s", "--listen", "0.0.0.0:0")
    assert server.token and f"//{socket.gethostname()}:" in server.url
    own = subprocess.run(["hostname", "-I"], text=True, capture_output=True, check=False).stdout.split()
    for host in ["localhost", socket.gethostname(), *own]:
        host = f"[{host}]" if ":" in host else host
        assert server.ask("/api/sweeps", Host=f"{host}:{server.port}")[0] == 401, host
        assert server.ask("/api/sweeps", Host=f"{host}:{server.port}", Cookie=server.cookie)[0] == 200, host
    assert server.ask("/api/sweeps", Host="evil.com", Cookie=server.cookie)[0] == 421


ASK_AS = """
import http.client, os, sys
host, port, user, path, cookie = sys.argv[1:]
os.setgid(int(user)), os.setuid(int(user))
c = http.client.HTTPConnection(host, int(port), timeout=20)
c.request("GET", path, headers={"Cookie": cookie})
r = c.getresponse()
print(r.status, r.read().decode())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_on_loopback_another_user_needs_the_token(place, host):
    name = f"[{host}]" if ":" in host else host
    try:
        socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except OSError as e:
        pytest.skip(f"{host}: {e}")
    server = Server(place, "s", "--listen", f"{name}:0")
    token, = re.findall(r"^drover serve: for other users of this machine: http://\S+/\?token=(\w+)$", server.log.read_text(), re.M)
    assert server.token is None

    def ask(user, path="/api/sweeps", cookie=""):
        argv = ["/usr/bin/python3", "-c", ASK_AS, host, str(server.port), str(user), path, cookie]
        status, body = subprocess.run(argv, text=True, capture_output=True, check=True, timeout=30).stdout.split(" ", 1)
        return int(status), body

    assert ask(0)[0] == 200
    for path in ["/", "/api/sweeps", "/api/s/overview", "/api/s/log/0/stdout", "/?token=0"]:
        status, body = ask(65534, path)
        assert status == 401 and "'drover serve' printed for the user who started it" in body, path
    assert ask(65534, f"/?token={token}")[0] == 303
    assert ask(65534, cookie=f"drover_{server.port}={token}")[0] == 200
    assert ask(0)[0] == 200


def test_the_pages_prefix_and_another_name(place):
    server = Server(place, "s", "--prefix", "/a/b/", "--host", "proxy.example")
    assert server.url.endswith("/a/b/")
    assert server.ask("/a/b/api/sweeps", Host="proxy.example")[0] == 200
    assert server.ask("/api/sweeps", Host="proxy.example:443")[0] == 200


@pytest.mark.parametrize("args, said", [
    (["nothing"], "there is no such sweep"),
    (["s", "--listen", "256.0.0.1:1"], "--listen"),
    (["s", "--listen", "127.0.0.1:99999"], "port"),
    (["s", "t"], "unexpected argument 't'"),
    (["--prefx", "/"], "--prefix"),
])
def test_bad_arguments_end_with_status_2(place, args, said):
    done = subprocess.run([DROVER, "serve", *args], cwd=place.path, text=True, capture_output=True, timeout=20)
    assert done.returncode == 2 and said in done.stderr, done.stderr


def test_the_last_trial_is_an_event_and_the_sweeps_death_is_none_of_the_servers(place, server):
    """The last test of this sweep."""
    stream = events(server)
    first = next(stream)
    assert first["state"] == "running"
    os.kill(place.sweep.pid, signal.SIGKILL)
    place.sweep.wait()
    assert next(e for e in stream if e["state"] == "stopped")["seq"] >= first["seq"]
    (place.path / "go").touch()
    again = place.start("resume", "s")
    assert next(e for e in stream if e["state"] == "finished")["total"] == 4
    assert again.wait(30) == 0
    head, c = server.columns(f"/api/s/cols?since={first['seq']}")
    assert 3 in c["id"] and head["states"][c["state"][c["id"].index(3)]] == "done"
    assert next(events(server))["seq"] == head["seq"]


@pytest.fixture
def alone(tmp_path):
    p = Place(tmp_path)
    yield p
    p.clean_up()


def test_a_damaged_and_a_newer_store_are_errors_that_name_them(alone):
    alone.script("t.sh", 'echo "{\\"loss\\": $x}"\n')
    assert alone.run(alone.sweep("method: grid\nmetric: {name: loss}\nparameters: {x: {values: [1, 2]}}\n"), "-q").returncode == 0
    server = Server(alone)
    assert server.json("/api/sweeps")["sweeps"][0]["trials"] == 2
    server.columns("/api/s/cols")
    with sqlite3.connect(alone.db()) as db:
        db.execute("UPDATE record SET data='{\"state\":\"done\"}' WHERE kind='ended' AND trial=1")
    other = Server(alone)
    status, _, body = other.ask("/api/s/cols")
    assert status == 500 and "record" in json.loads(body)["error"]
    assert "error" in other.json("/api/sweeps")["sweeps"][0]
    with sqlite3.connect(alone.db()) as db:
        db.execute("PRAGMA user_version=999")
    status, _, body = Server(alone).ask("/api/s/cols")
    assert status == 409 and "newer" in json.loads(body)["error"]


def test_a_sweep_that_starts_anew_under_its_name_is_read_anew(alone):
    alone.script("t.sh", 'echo "{\\"loss\\": $x}"\n')
    file = alone.sweep("method: grid\nmetric: {name: loss}\nparameters: {x: {values: [1, 2]}}\n")
    server = Server(alone)
    assert server.json("/api/sweeps")["sweeps"] == []
    assert alone.run(file, "-q").returncode == 0
    head, _ = server.columns("/api/s/cols")
    file = alone.sweep("method: grid\nmetric: {name: loss}\nparameters: {x: {values: [1]}}\n")
    assert alone.run(file, "-q", "--restart").returncode == 0
    again, c = server.columns(f"/api/s/cols?since={head['seq']}")
    assert again["epoch"] != head["epoch"] and again["total"] == 1
    assert {s["name"] for s in server.json("/api/sweeps")["sweeps"]} == {"s", "s.1"}


def test_a_sweep_starts_its_server_and_survives_it(alone):
    sweep = make_sweep_with_server(alone)
    said = wait_until(lambda: next((x for x in alone.said().splitlines() if "http://" in x), None), alone.said)
    port = int(said.rsplit(":", 1)[1].strip("/"))
    server, = alone.running("drover-serve")
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    c.request("GET", "/api/sweeps")
    assert json.loads(c.getresponse().read())["chosen"] == "s"
    c.close()
    os.kill(server, signal.SIGKILL)
    (alone.path / "go").touch()
    assert sweep.wait(30) == 0


def test_a_killed_sweep_takes_its_server_along(alone):
    sweep = make_sweep_with_server(alone)
    wait_until(lambda: "http://" in alone.said(), alone.said)
    os.kill(sweep.pid, signal.SIGKILL)
    sweep.wait()
    wait_until(lambda: not alone.running("drover-serve"), "the server's end")


def make_sweep_with_server(place):
    place.script("t.sh", 'echo "{\\"loss\\": 1}"; while [ ! -e go ]; do sleep 0.02; done\n')
    return place.start(place.sweep("method: grid\nmetric: {name: loss}\nparameters: {x: {values: [1]}}\n"), "--serve")


def test_secrets_of_a_sweep_are_shown_to_its_user_only(place):
    hidden = [f"ghost{i}" for i in range(10)]
    (place.path / "q.yaml").write_text(json.dumps({
        "method": "grid", "metric": {"name": "loss"}, "description": "x --token ghost0 and password=ghost1",
        "command": ["sh", "-c", 'echo "$@" >>ran; echo "bad --api-key ghost2 at http://h/?token=ghost3" >&2; exit 3', "t", "${args}"],
        "parameters": {"key_dim": {"values": [32, 64]}, "token_dropout": {"value": 0.125}, "n_pass": {"value": 3},
                       "apiKey": {"value": "ghost4"}, "Password": {"value": "ghost5 ghost6"}, "secret": {"value": ["ghost7"]},
                       "cred": {"parameters": {"client_secret": {"value": "ghost8"}}}, "kind": {"value": "--token ghost9"}},
        "drover": {"give_up_after": 0}}))
    dry = place.run("q.yaml", "--dry-run", "--json")
    commands = [t["command"] for t in json.loads(dry.stdout)["trials"]]
    place.run("q.yaml", "--quiet")
    first = (place.path / "ran").read_text().splitlines()
    (place.path / "ran").unlink()
    shown = json.loads(place.run("show", "q", "0", "--json").stdout)
    for command in commands:
        subprocess.run(["sh", "-c", command], cwd=place.path, check=False, stderr=subprocess.DEVNULL, timeout=60)
    assert sorted((place.path / "ran").read_text().splitlines()) == sorted(first) and "ghost2" in json.dumps(shown)
    server = Server(place)
    bodies = [server.ask(f"/api/q/{path}")[2].decode(errors="replace") for path in ("overview", "trial/0", "cols")]
    for file in ("r.md", "r.html"):
        subprocess.run([DROVER, "report", "q", "-o", file], cwd=place.path, check=True, env=place.env, timeout=60)
    bodies.append((place.path / "r.md").read_text())
    for body in bodies:
        assert not [h for h in hidden if h in body], body
    assert all(f" --{number}" in bodies[1] for number in ("key_dim=32", "n_pass=3", "token_dropout=0.125")), bodies[1]
