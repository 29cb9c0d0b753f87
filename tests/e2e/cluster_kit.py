"""A cluster on one machine: nodes that have a network, a host name, processes, /tmp, /run and /dev/shm of their own.

A node is a few namespaces, held by its first process. That one ends when its standard input does, and the kernel then
ends all others of the node and takes its interfaces down: a test run that is killed leaves nothing behind. Nodes are
joined by a bridge in a namespace that has nothing else, so the machine's own network is never touched, and two runs
don't meet. They share the rest of the file system, as clusters share /home.

Each node has a bridge docker0 with 172.17.0.1 on it, as Docker leaves it everywhere: an address that is the same
on all nodes and leads nowhere."""
import os
import re
import shutil
import signal
import subprocess
import time
import typing
from pathlib import Path

import pytest
from kit_ranks import BUILD, ROOT, clean_env
from waiting import hear_signals, wait_until, without_waits

NETWORK = "10.77.0."
DECOY = "172.17.0.1"
UNPACKED = ROOT / "build/cluster/usr"  # what `scripts/setup --test` unpacked because it is not installed
PROGRAMS = ("ip", "sshd", "ssh", "ssh-keygen")
SERVICES = ("sshd: /usr/sbin/sshd", "munged ", "slurmctld ", ": slurmscriptd", "slurmd ")  # run when no job does
SLURM_PROGRAMS = ("slurmctld", "slurmd", "srun", "salloc", "munged")

# The first process of a node, in its namespaces: NAME WORK USR SHARED …
INIT = r"""
set -e
name=$1 work=$2 usr=$3
shift 3
stage=$work/stage.$name
mkdir "$stage"
hostname "$name"
mount -t proc proc /proc
mount --rbind /sys/fs/cgroup "$stage"  # a new /sys shows the node's interfaces, but no cgroups
mount -t sysfs sysfs /sys
mount --move "$stage" /sys/fs/cgroup
[ -z "$usr" ] || mount -t overlay -o "ro,lowerdir=$usr:/usr" overlay /usr
mount -t tmpfs -o mode=1777 tmpfs "$stage"
for d; do
    case $d in /tmp/*) mkdir -p "$stage${d#/tmp}"; mount --bind "$d" "$stage${d#/tmp}" ;; esac
done
mount --move "$stage" /tmp
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t tmpfs -o mode=755 tmpfs /run
mkdir /run/sshd /run/munge /run/slurmd /run/slurmctld
for f in hosts passwd ssh/ssh_config; do mount --bind "$work/etc/$f" "/etc/$f"; done
ip link set lo up
exec /usr/bin/python3 -ISc '
import os, signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # what is orphaned here leaves no zombie
print("up", flush=True)
os.read(0, 1)'
"""
SSH_CONFIG = """Host *
    IdentityFile {work}/key
    IdentitiesOnly yes
    BatchMode yes
    StrictHostKeyChecking no
    UserKnownHostsFile /dev/null
    LogLevel ERROR
    ConnectTimeout 5
"""
SSHD_CONFIG = """Port 22
HostKey {work}/hostkey
AuthorizedKeysFile {work}/key.pub
StrictModes no
UsePAM no
UseDNS no
PasswordAuthentication no
PermitRootLogin prohibit-password
PidFile /run/sshd.pid
MaxStartups 200
MaxSessions 200
"""
SLURM_CONF = """ClusterName=drover
SlurmctldHost=node1({network}1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=cred_expire={cred_expire_s}
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
SlurmdParameters=config_overrides
SchedulerParameters=bf_interval=1
ReturnToService=2
SlurmdTimeout=30
KillWait=10
StateSaveLocation=/run/slurmctld
SlurmdSpoolDir=/run/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile={work}/slurmctld.log
SlurmdLogFile={work}/slurmd.%n.log
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:64
"""


class CannotStart(Exception):
    """Why there can be no cluster on this machine."""


class Process(typing.NamedTuple):
    pid: int
    parent: int
    name: str
    command: str
    node: str


def running_in(nodes):
    """Processes on these nodes: {pid: Process}. Zombies do not count."""
    spaces = {n.namespace: n.name for n in nodes}
    found = {}
    for p in Path("/proc").iterdir():
        if not p.name.isdigit():
            continue
        try:
            node = spaces.get(os.stat(p / "ns/pid").st_ino)
            command = node and (p / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if command:
                before, _, after = (p / "stat").read_text().rpartition(")")
                found[int(p.name)] = Process(int(p.name), int(after.split()[1]), before.partition("(")[2], command, node)
        except OSError:
            pass
    return found


class Job:
    """A program started on a node. `pid` is its own; nsenter, which brought it there, ends as it does."""

    def __init__(self, popen):
        self.popen = popen
        self.stdout, self.stderr, self.stdin = popen.stdout, popen.stderr, popen.stdin
        self.pid = self._child(time.monotonic() + 10)

    def _child(self, end):
        children = Path(f"/proc/{self.popen.pid}/task/{self.popen.pid}/children")
        while self.popen.poll() is None:
            try:
                pid = int(children.read_text().split()[0])
                if not Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"nsenter"):
                    return pid
            except (OSError, IndexError):
                pass
            assert time.monotonic() < end, "nsenter started nothing"
            time.sleep(0.001)
        return None

    def kill(self, number=signal.SIGKILL):
        os.kill(self.pid, number)
        if number == signal.SIGCONT:  # nsenter stops when its child does
            self.popen.send_signal(number)

    def end(self, timeout=60):
        """(status as a shell gives it, stdout, stderr)."""
        try:
            out, err = self.popen.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            raise
        status = self.popen.returncode
        if err is not None:
            err = without_waits(err.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        return 128 - status if status < 0 else status, out, err


class Node:
    def __init__(self, cluster, number):
        self.cluster, self.number = cluster, number
        self.name = f"node{number}"
        self.address = f"{NETWORK}{number}"
        self.init = None

    def start(self):
        c = self.cluster
        stage = c.work / f"stage.{self.name}"
        if stage.exists():
            stage.rmdir()
        usr = str(UNPACKED) if UNPACKED.is_dir() else ""
        path = f"{usr}/sbin:{usr}/bin:" if usr else ""
        self.init = subprocess.Popen(
            ["unshare", "--fork", "--kill-child", "--pid", "--mount", "--uts", "--net", "--ipc", "--propagation",
             "private", "sh", "-c", INIT, "sh", self.name, str(c.work), usr, *map(str, c.shared)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**c.env, "PATH": path + c.env["PATH"]})
        if self.init.stdout.readline() != "up\n":
            raise CannotStart(f"no namespaces for {self.name}: {self.init.communicate()[1].strip()}")
        children = Path(f"/proc/{self.init.pid}/task/{self.init.pid}/children").read_text(encoding="ascii")
        self.pid = int(children.split()[0])
        self.namespace = os.stat(f"/proc/{self.pid}/ns/pid").st_ino

    def join(self, switch):
        """A cable from the switch to our eth0."""
        n = str(self.number)
        switch.ip("link", "add", f"v{n}", "type", "veth", "peer", "name", "eth0", "address",
                  f"02:00:00:00:00:{self.number:02x}", "netns", str(self.pid))  # known by it to the others after a restart, too
        switch.ip("link", "set", f"v{n}", "master", "br0", "up")
        self.ip("addr", "add", f"{self.address}/24", "dev", "eth0")
        self.ip("link", "set", "eth0", "up")
        # a host that is down is known to be in 0.2 s, not in 3
        self.check("sh", "-c", "cd /proc/sys/net/ipv4/neigh/eth0 && echo 100 >retrans_time_ms && echo 2 >mcast_solicit")
        self.ip("link", "add", "docker0", "type", "bridge")
        self.ip("addr", "add", f"{DECOY}/16", "dev", "docker0")
        self.ip("link", "set", "docker0", "up")
        self.check("/usr/sbin/sshd", "-f", self.cluster.work / "sshd_config", "-E",
                   self.cluster.work / f"sshd.{self.name}.log")

    def stop(self):
        """The power is off: everything here ends at once, and nobody hears of it."""
        if self.init:
            if self.number:
                self.cluster.switch.ip("link", "del", f"v{self.number}")
            self.init.kill()  # the first process dies with unshare, everything else with the first process
            self.init.communicate()
            self.init = None

    def ip(self, *args):
        """In our network, but with the machine's process numbers."""
        done = subprocess.run(["nsenter", "-t", str(self.pid), "--net", "--mount", "--root", "ip", *args], text=True,
                              capture_output=True, env=self.cluster.env, check=False)
        if done.returncode != 0:
            raise CannotStart(f"ip {' '.join(args)}: {done.stderr.strip()}")

    def cut(self):
        self.cluster.switch.ip("link", "set", f"v{self.number}", "down")

    def mend(self):
        self.cluster.switch.ip("link", "set", f"v{self.number}", "up")

    def start_job(self, *argv, env=None, **kw):
        for stream in ("stdout", "stderr"):
            kw.setdefault(stream, subprocess.PIPE)
        kw.setdefault("stdin", subprocess.DEVNULL)
        kw.setdefault("preexec_fn", hear_signals)
        cwd = kw.pop("cwd", self.cluster.home)
        return Job(subprocess.Popen(
            ["nsenter", "-t", str(self.pid), "--pid", "--mount", "--uts", "--net", "--ipc", "--root",
             f"--wdns={cwd}", *map(str, argv)], env={**self.cluster.env, **(env or {})}, bufsize=0, **kw))

    def run(self, *argv, timeout=60, **kw):
        """(status, stdout, stderr), as text."""
        status, out, err = self.start_job(*argv, **kw).end(timeout)
        return status, *(x.decode(errors="replace") if x is not None else None for x in (out, err))

    def check(self, *argv):
        status, out, err = self.run(*argv, stdin=subprocess.DEVNULL)
        if status != 0:
            raise CannotStart(f"{self.name}: {argv[0]} ended with {status}: {(out + err).strip()}")
        return out


class Cluster:
    """`work` is a directory that is kept to the end; `shared` are the others below /tmp that nodes shall see."""

    def __init__(self, work, shared=(), count=3):
        self.work, self.shared = Path(work), [Path(work), ROOT, *shared]
        self.home = self.work / "home"
        self.env = clean_env(HOME=str(self.home), PATH="/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin")
        self.env.pop("TMPDIR", None)
        self.nodes = [Node(self, i + 1) for i in range(count)]
        self.switch = Node(self, 0)
        self.slurm = False

    @property
    def head(self):
        return self.nodes[0]

    def start(self):
        if os.geteuid() != 0:
            raise CannotStart("namespaces need root")
        self._need(PROGRAMS)
        self._write_files()
        self.switch.start()
        self.switch.ip("link", "add", "br0", "type", "bridge")
        self.switch.ip("link", "set", "br0", "up")
        for n in self.nodes:
            n.start()
            n.join(self.switch)
        self._answer()

    def _need(self, programs):
        places = f"{self.env['PATH']}:{UNPACKED}/bin:{UNPACKED}/sbin"
        missing = [p for p in programs if not shutil.which(p, path=places)]
        if missing:
            raise CannotStart(f"without {' '.join(missing)}: scripts/setup --test brings them")

    def _write_files(self):
        self.home.mkdir()
        etc = self.work / "etc"
        (etc / "ssh").mkdir(parents=True)
        (etc / "hosts").write_text("127.0.0.1 localhost\n" + "".join(
            f"{n.address} {n.name}\n" for n in self.nodes) + f"{NETWORK}99 gone\n")  # a host that is down
        # a home of its own: ssh's shell would else run what the user's .bashrc starts, and leave its locks there
        passwd = re.sub(r"^root:.*", f"root:x:0:0:root:{self.home}:/bin/bash", Path("/etc/passwd").read_text(), flags=re.M)
        if "\nsshd:" not in passwd:
            passwd += "sshd:x:64999:65534::/run/sshd:/usr/sbin/nologin\n"
        (etc / "passwd").write_text(passwd)
        (etc / "ssh/ssh_config").write_text(SSH_CONFIG.format(work=self.work))
        (self.work / "sshd_config").write_text(SSHD_CONFIG.format(work=self.work))
        for key in ("key", "hostkey"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.work / key)], check=True)
        self.hostfile(2)

    def hostfile(self, slots, nodes=None):
        path = self.work / f"hosts.{slots}"
        path.write_text("".join(f"{n.name} slots={slots}\n" for n in nodes or self.nodes))
        return path

    def _answer(self):
        """Until each node lets the head in."""
        for n in self.nodes:
            end = time.monotonic() + 10
            while self.head.run("ssh", n.name, "hostname")[1] != n.name + "\n":
                if time.monotonic() > end:
                    raise CannotStart(f"{n.name}: no answer by ssh: {self.head.run('ssh', n.name, 'true')[2]}")

    def running(self):
        """What runs on the nodes and is no service of theirs: {pid: Process}."""
        on = [n for n in self.nodes if n.init]
        firsts = {n.pid for n in on}
        return {p.pid: p for p in running_in(on).values() if p.pid not in firsts and not p.command.startswith(SERVICES)}

    def nothing_left(self, limit_s=10.0):
        """orted takes 2 s when it has lost mpirun; a node that is given up for lost is so after 15."""
        wait_until(lambda: not self.running(), lambda: f"the end of {list(self.running().values())}", limit_s)

    def restore(self):
        """After a test: nothing runs that it started, every node is on and has its cable."""
        for pid in self.running():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        off = [n for n in self.nodes if not n.init]
        for n in self.nodes:
            if n.init:
                n.mend()
        for n in off:
            n.start()
            n.join(self.switch)
            if self.slurm:
                self._start_slurmd(n)
        if off:
            self._answer()

    def start_slurm(self, cred_expire_s=120):
        """A Slurm over the nodes, its controller on the head. Takes seconds. A job that is queued again starts when the
        credential of its first run has expired."""
        self._need(SLURM_PROGRAMS)
        (self.work / "slurm.conf").write_text(SLURM_CONF.format(
            network=NETWORK, work=self.work, cred_expire_s=cred_expire_s, nodes="\n".join(
                f"NodeName={n.name} NodeAddr={n.address} CPUs=8 Gres=gpu:a100:4 State=UNKNOWN" for n in self.nodes)))
        # slurmd wants a cgroup plug-in though it uses none; this one asks neither systemd nor the kernel for anything
        (self.work / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        for i in range(4):  # slurmd counts the files of devices; there are no GPUs
            (self.work / f"gpu{i}").touch()
        (self.work / "gres.conf").write_text(f"Name=gpu Type=a100 File={self.work}/gpu[0-3]\n")
        self.env["SLURM_CONF"] = str(self.work / "slurm.conf")
        (self.work / "munge.key").write_bytes(os.urandom(128))
        (self.work / "munge.key").chmod(0o400)
        self._start_munge(self.head)
        self.head.check("slurmctld")
        for n in self.nodes:
            self._start_slurmd(n)
        end = time.monotonic() + 20
        while self.head.run("sinfo", "-h", "-o", "%t")[1].split() != ["idle"]:
            if time.monotonic() > end:
                raise CannotStart("the nodes of Slurm did not come up: " + self.head.run("sinfo", "-l", "-N")[1])
            time.sleep(0.05)
        self.slurm = True

    def allocate(self, slots=2):
        """The environment that a program finds inside an allocation of all nodes."""
        words = ["salloc", f"-N{len(self.nodes)}", f"--ntasks-per-node={slots}"]
        _, env, _ = self.head.run(*words, "-Q", "env")
        granted = self.head.run(*words, "--no-shell")[2]
        found = dict(line.split("=", 1) for line in env.splitlines() if line.startswith("SLURM_"))
        return {**found, **dict.fromkeys(("SLURM_JOB_ID", "SLURM_JOBID"), re.search(r"allocation (\d+)", granted)[1])}

    def _start_munge(self, node):
        node.check("munged", "--force", f"--key-file={self.work}/munge.key", "--seed-file=/run/munge.seed",
                   "--pid-file=/run/munge.pid", f"--log-file={self.work}/munge.{node.name}.log")

    def _start_slurmd(self, node):
        if node is not self.head:
            self._start_munge(node)
        node.check("slurmd", "-N", node.name)

    def stop(self):
        for n in [*self.nodes, self.switch]:
            n.stop()


# What takes minutes, and what one engine does as the other: when somebody asks for more cases than usual.
LONG = any(f"DROVER_TEST_{x}" in os.environ for x in ("CASES", "KILLS", "LAUNCHES"))
SHORTER = pytest.mark.skipif(not LONG, reason="with DROVER_TEST_CASES=N, _KILLS=N or _LAUNCHES=N")
ONE_ENGINE = pytest.mark.parametrize("engine", ["openmpi", pytest.param("slurm", marks=SHORTER)], indirect=True)
WITH_SSH = pytest.mark.parametrize("engine", ["openmpi", "slurm", "ssh"], indirect=True)  # where ssh differs from both


def untagged(text):
    return re.sub(r"^node\d:\d\| ?", "", text, flags=re.M)


class Engine:
    """`drover run` on the head, over all nodes: with a host file by mpirun or ssh, or in an allocation by srun."""

    def __init__(self, cluster, name):
        self.cluster, self.name = cluster, name
        self.words = [BUILD / "bin/drover", "run"]
        if name != "slurm":
            self.words += ["--hostfile", cluster.hostfile(2), "--engine", name]
        self.env = cluster.allocate() if name == "slurm" else {}

    def start(self, *args, env=None, **kw):
        return self.cluster.head.start_job(*self.words, *args, env={**self.env, **(env or {})}, **kw)

    def run(self, *args, env=None, **kw):
        """(status, stdout, stderr), as text, the latter two without the node and rank before each line."""
        status, out, err = self.cluster.head.run(*self.words, *args, env={**self.env, **(env or {})}, **kw)
        return status, untagged(out), untagged(err)

    def run_mpi(self, *args, jobs=1):
        """As run(), of so many jobs at once: a list."""
        ends = [j.end() for j in [self.start(*args) for _ in range(jobs)]]
        return [(status, untagged(out.decode()), untagged(err.decode())) for status, out, err in ends]

    def close(self):
        if self.env:
            self.cluster.head.check("scancel", self.env["SLURM_JOB_ID"])


@pytest.fixture(scope="session", name="running_cluster")
def start_cluster(tmp_path_factory):
    base = tmp_path_factory.getbasetemp()
    c = Cluster(tmp_path_factory.mktemp("cluster"), [base])
    try:
        c.start()
        yield c
    except CannotStart as e:
        pytest.skip(f"no cluster here: {e}")
    finally:
        c.stop()


@pytest.fixture(scope="session", name="running_slurm")
def start_slurm(running_cluster):
    try:
        running_cluster.start_slurm()
    except CannotStart as e:
        pytest.skip(f"no Slurm here: {e}")
    return running_cluster


@pytest.fixture(name="cluster")
def use_cluster(running_cluster):
    yield running_cluster
    running_cluster.restore()


@pytest.fixture(name="slurm")
def use_slurm(running_slurm):
    yield running_slurm
    running_slurm.restore()


@pytest.fixture(params=["openmpi", "slurm", pytest.param("ssh", marks=SHORTER)], name="engine")
def use_engine(request):
    e = Engine(request.getfixturevalue("slurm" if request.param == "slurm" else "cluster"), request.param)
    yield e
    e.close()
