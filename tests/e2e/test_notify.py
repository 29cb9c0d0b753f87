"""`drover run --notify`: a failure, a hang and the end of a job are told to a command or a URL."""
import http.server
import json
import threading
import time

import pytest
from waiting import check_time

KEEP = 'printf "%s %s [%s] %s" $DROVER_NOTIFY_EVENT $DROVER_NOTIFY_STATUS "$DROVER_NOTIFY_TEXT" "$(cat)" >$DROVER_NOTIFY_EVENT'


def told(drover):
    return {f.name: f.read_text() for f in drover.cwd.iterdir() if f.name in ("failure", "hang", "end")}


def test_a_command_gets_what_drover_prints(drover):
    done = drover.run("run", "--oversubscribe", "-np", 2, "--notify", KEEP, "sh", "-c",
                      "[ $RANK = 0 ] && exec sleep 100; echo CUDA out of memory; exit 3")
    assert done.returncode == 3 and "--notify" not in done.stderr
    t = told(drover)
    assert set(t) == {"failure", "end"}
    assert t["failure"].startswith("failure 3 [drover run: rank 1 on ") and "exited with status 3 after" in t["failure"]
    printed = done.stderr[done.stderr.index("drover run: rank 1"):done.stderr.index("  try: drover runs")].strip()
    assert t["end"] == f"end 3 [{printed}\n] {printed}"


def test_an_end_without_a_failure_is_told_once(drover):
    assert drover.run("run", "-np", 1, "--notify", KEEP, "true").stderr == ""
    assert list(told(drover)) == ["end"] and "the job has ended with status 0" in told(drover)["end"]


def test_a_hang_is_told_with_its_verdict(drover):
    done = drover.run("run", "-np", 1, "--grace", 1, "--hang-timeout", 1, "--notify", KEEP, "sleep", 100)
    assert done.returncode == 124
    verdict = next(line for line in done.stderr.splitlines() if line.startswith("drover run: the job hangs: ")).rsplit(" [", 1)[0]
    assert verdict in told(drover)["hang"] and "end" in told(drover)


class Server(http.server.BaseHTTPRequestHandler):
    def do_POST(self):  # noqa: N802  the base class looks it up by this name
        self.server.got.append((self.path, dict(self.headers), self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.mark.parametrize("status", [200, 500])
def test_a_url_gets_json_for_slack_and_headers_for_ntfy(drover, status):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    server.got, server.status = [], status
    threading.Thread(target=server.serve_forever, daemon=True).start()
    done = drover.run("run", "-np", 1, "--notify", f"http://127.0.0.1:{server.server_port}/topic?x=\\\"", "sh", "-c",
                      "echo 'a \"quoted\" \\line' >&2; exit 4")
    server.shutdown()
    assert done.returncode == 4 and done.stderr.count("warn: --notify") == 2 * (status == 500)
    assert len(server.got) == 2
    by_title = {headers["Title"]: (headers, json.loads(body)) for _, headers, body in server.got}
    assert set(by_title) == {"drover: failure", "drover: end"}
    headers, body = by_title["drover: end"]
    assert 'a "quoted" \\line' in body["text"] and list(body) == ["text"]
    assert headers["Content-Type"] == "application/json" and headers["Message"] == "{{.text}}"


def test_what_cannot_be_sent_changes_no_status_and_is_said(drover):
    assert "warn: --notify" in drover.run("run", "-np", 1, "--notify", "exit 1", "true").stderr
    empty = drover.cwd / "empty"
    empty.mkdir()
    done = drover.run("run", "-np", 1, "--notify", "http://127.0.0.1:1/", "/bin/true", env={"PATH": str(empty)})
    assert done.returncode == 0 and "curl" in done.stderr and "nothing is sent" in done.stderr


def test_a_command_that_does_not_end_is_ended_after_10_seconds(drover):
    began = time.monotonic()
    done = drover.run("run", "-np", 1, "--notify", "sleep 100", "true")
    took = time.monotonic() - began
    assert done.returncode == 0 and "took more than 10 s" in done.stderr and took > 9
    check_time(took < 12, f"{took} s")
    drover.nothing_left()


@pytest.mark.parametrize("to", ["", "ftp://host/x"])
def test_what_is_no_url_and_no_command_is_refused(drover, to):
    done = drover.run("run", "-np", 1, "--notify", to, "touch", "started")
    assert done.returncode == 2 and "--notify" in done.stderr and not (drover.cwd / "started").exists()
