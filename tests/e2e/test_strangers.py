"""Other processes and users of this machine connect to the ports of a job: the job does not notice."""
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sweep_kit import Place
from test_interpose import build_mpi_program  # noqa: F401  a fixture
from test_run_mpi import RUN
from waiting import wait_until

# Before rank 0 calls MPI_Init, another process connects to the PMIx server and keeps its connections.
STRANGER = r"""
import os, socket, sys, time
port = int(os.environ["PMIX_SERVER_URI4"].rsplit(":", 1)[1])
connected, write_end = os.pipe()
if os.fork():
    os.close(write_end)
    assert os.read(connected, 1)
    os.execv(sys.argv[2], sys.argv[2:])
os.setsid()
for out in (1, 2):
    os.dup2(os.open("/dev/null", os.O_WRONLY), out)
if sys.argv[1] == "user":
    os.setresuid(12345, 12345, 12345)
kept = []
for i in range(40):
    s = socket.socket()
    s.connect(("127.0.0.1", port))
    kept.append(s)
    try:
        if sys.argv[1] == "garbage":
            s.send(os.urandom(300) if i % 2 else b"\xff" * 16 + b"native\0")
        elif sys.argv[1] == "user":
            s.send(b"\xff" * 8 + (8).to_bytes(8, "little") + b"native\0\0")
    except OSError:
        pass  # it was closed
os.write(write_end, b"c")
time.sleep(100)
"""


@pytest.mark.parametrize("what", ["silent", "garbage", "user"])
def test_strangers_at_the_pmix_port_delay_no_rank(drover, mpi_program, tmp_path, what):  # noqa: F811
    if what == "user" and os.geteuid() != 0:
        pytest.skip("needs root, to connect as another user")
    (tmp_path / "stranger.py").write_text(STRANGER)
    script = f"[ $RANK != 0 ] || exec python3 stranger.py {what} {mpi_program}; exec {mpi_program}"
    done = drover.run(*RUN, "-np", "3", "sh", "-c", script, timeout=60)
    assert done.returncode == 0 and done.stdout.count("/3 from ") == 3, done.stderr
    assert "PMIX" not in done.stderr and "PMIx ERROR" not in done.stderr
    assert ("rejected a connection of user 12345" in done.stderr) == (what == "user"), done.stderr
    drover.nothing_left()


# Another user tries all files, sockets and ports, and prints what it could do.
OTHER_USER = r"""
import os, socket, sys
roots, pids, ports = (a.split() for a in sys.argv[1:])
def attempt(what, action):
    try:
        action()
        print(what)
    except OSError:
        pass
def connect(path):
    socket.socket(socket.AF_UNIX).connect(path)
def answered(port):
    s = socket.create_connection(("127.0.0.1", int(port)), 5)
    s.settimeout(5)
    s.sendall(b"GET / HTTP/1.0\r\n\r\n" + os.urandom(64))
    if not s.recv(1):
        raise OSError("closed")
for root in roots:
    attempt(f"list {root}", lambda: os.listdir(root))
    for folder, folders, files in os.walk(root):
        attempt(f"make {folder}/x", lambda: os.close(os.open(f"{folder}/x", os.O_CREAT | os.O_WRONLY)))
        for path in (f"{folder}/{f}" for f in files):
            if os.path.exists(path) and not os.path.isfile(path):
                attempt(f"connect {path}", lambda: connect(path))
            else:
                attempt(f"write {path}", lambda: os.close(os.open(path, os.O_WRONLY)))
                attempt(f"read {path}", lambda: os.close(os.open(path, os.O_RDONLY)))
for pid in pids:
    for name in ("environ", "mem", "maps", "fd"):
        attempt(f"read {pid} {name}", lambda: (os.listdir if name == "fd" else lambda p: open(p, "rb").read(1))(f"/proc/{pid}/{name}"))
    attempt(f"signal {pid}", lambda: os.kill(int(pid), 0))
for port in ports:
    attempt(f"answer of port {port}", lambda: answered(port))
"""


def listening_ports(pids):
    """The TCP ports at which these processes listen, as numbers in texts."""
    inodes = set()
    for pid in pids:
        for fd in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                inodes.add(os.readlink(fd))
            except OSError:
                pass
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return [str(int(r[1].rsplit(":", 1)[1], 16)) for r in rows if r[3] == "0A" and f"socket:[{r[9]}]" in inodes]


def what_another_user_can_do(path, roots, pids):
    (path / "other.py").write_text(OTHER_USER)
    ports = listening_ports(pids)
    assert ports
    args = (" ".join(map(str, x)) for x in (roots, pids, ports))
    done = subprocess.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", sys.executable, path / "other.py", *args],
                          text=True, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def temporary_directories(path):
    """drover's temporary directories in `path`, as its environment names them."""
    env = {"TMPDIR": path / "tmp", "XDG_RUNTIME_DIR": path / "run"}
    for d in env.values():
        d.mkdir(mode=0o755)
    return {name: str(d) for name, d in env.items()}


def test_another_user_reaches_nothing_of_a_running_job(drover, mpi_program, open_path):  # noqa: F811
    drover.cwd = open_path
    env = temporary_directories(open_path)
    script = f"[ -e go ] || touch go.$RANK; until [ -e go ]; do sleep 0.02; done; exec {mpi_program}"
    job = drover.start(*RUN, "-np", "2", "--events", "events", "sh", "-c", script, env=env, umask=0o022)
    wait_until(lambda: len(list(open_path.glob("go.?"))) == 2, "both ranks")
    # The user's own files follow the umask; the directories of drover are private.
    could = what_another_user_can_do(open_path, [open_path], drover.left())
    (open_path / "go").touch()
    out, err = job.communicate(timeout=60)
    assert job.returncode == 0, err
    seen = {f"read {open_path}/{name}" for name in ("other.py", "events", "go.0", "go.1")}
    allowed = seen | {f"list {open_path}"}
    assert not set(could) - allowed, could
    assert f"read {open_path}/other.py" in could  # it has tried


def test_another_user_reaches_nothing_of_a_running_sweep(open_path):
    place = Place(open_path)
    place.env.update(temporary_directories(open_path))
    place.script("t.sh", 'echo "{\\"loss\\":$x}"; until [ -e go ]; do sleep 0.02; done\n')
    sweep = place.sweep("method: grid\nmetric: {name: loss}\nparameters: {x: {value: 1}}\n")
    old = os.umask(0o022)
    try:
        coordinator = place.start(sweep, "--listen", "127.0.0.1:")
        wait_until(lambda: place.records("report") and (open_path / "sweeps/s/listen").exists(), place.said)
        port = (open_path / "sweeps/s/listen").read_text().split()[0].rsplit(":", 1)[1]
        could = what_another_user_can_do(open_path, [open_path], place.alive())
        (open_path / "go").touch()
        assert coordinator.wait(60) == 0, place.said()
    finally:
        os.umask(old)
        place.clean_up()
    # ZeroMQ may greet a peer before it requires the key. The user's own files follow the umask.
    assert {c for c in could if not c.startswith(("read ", "list "))} <= {f"answer of port {port}"}
    secret = [c for c in could if c.startswith("read ") and c.split("/")[-1] in ("server.key", "worker.key", "environ", "mem", "maps", "fd")]
    assert not secret and f"read {open_path}/other.py" in could, could
