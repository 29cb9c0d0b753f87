"""What the tests of `drover serve` share: a server, requests, and bodies of columns."""
import http.client
import json
import re
import struct
import subprocess
from pathlib import Path

from sweep_kit import BUILD
from waiting import wait_until

SERVE = BUILD / "libexec/drover/drover-serve"
SWEEP = """
method: grid
metric: {name: loss}
parameters: {x: {values: [1, 2, 3, 4]}, kind: {values: ["<img src=x onerror=alert(2)>"]}}
drover: {parallel: 1}
"""
# The last trial waits for a file. Values, metrics and errors look like HTML; a line of the log is 1 MiB long.
TRIAL = """
import json, os, sys, time
x = int(next(a for a in sys.argv if a.startswith("--x=")).split("=")[1])
if x == 2:
    sys.exit("<script>alert(3)</script> out of memory")
if x == 3:
    print("a" * (1 << 20))
for step in range(1, 4):
    print(json.dumps({"step": step, "loss": x + 1 / step, "<b>acc": step}), flush=True)
if x == 4:
    while not os.path.exists("go"):
        time.sleep(0.02)
"""


def make_sweep(place, name="s"):
    """Starts the sweep; its last trial runs until the file `go` exists."""
    (place.path / "t.py").write_text(TRIAL)
    (place.path / f"{name}.yaml").write_text('program: t.py\ncommand: ["/usr/bin/python3", "t.py", "${args}"]\n' + SWEEP)
    sweep = place.start(f"{name}.yaml")
    wait_until(lambda: len(place.records("ended", name)) == 3 and len(place.records("report", name)) == 9, place.said)
    return sweep


class Server:
    def __init__(self, place, *args):
        self.log = place.path / "serve.txt"
        with open(self.log, "w") as log:
            listen = [] if "--listen" in args else ["--listen", "127.0.0.1:0"]
            self.process = subprocess.Popen([SERVE, "serve", *listen, *args], cwd=place.path, env=place.env,
                                            stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        place.started.append(self.process)
        wait_until(lambda: "http://" in self.log.read_text() and self.log.read_text().endswith("\n"), self.log.read_text)
        self.url = re.search(r"http://\S+", self.log.read_text()).group()
        self.port = int(re.search(r":(\d+)/", self.url).group(1))
        self.token = (re.search(r"token=(\w+)", self.url) or [None, None])[1]
        self.cookie = f"drover_{self.port}={self.token}"

    def ask(self, path, method="GET", body=None, timeout=20, **headers):
        """(status, headers, body)."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            c.request(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
            r = c.getresponse()
            return r.status, dict((k.lower(), v) for k, v in r.getheaders()), r.read()
        finally:
            c.close()

    def json(self, path, **headers):
        status, _, body = self.ask(path, **headers)
        assert status == 200, (path, status, body)
        return json.loads(body)

    def columns(self, path, **headers):
        status, _, body = self.ask(path, **headers)
        assert status == 200, (path, status, body)
        length, = struct.unpack_from("<I", body)
        head, at = json.loads(body[4:4 + length]), 4 + length
        forms = {"f32": "f", "f64": "d", "u8": "B", "u32": "I"}
        return head, {k: list(struct.unpack_from(f"<{n}{forms[t]}", body, at + offset)) for k, (t, offset, n) in head["columns"].items()}

    def rss_mb(self):
        return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{self.process.pid}/status").read_text()).group(1)) / 1024
