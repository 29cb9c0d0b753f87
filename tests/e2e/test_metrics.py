"""--metrics of run, sweep and worker: what is served, to whom, and that Prometheus and its alerts understand it."""
import json
import re
import shutil
import signal
import socket
import subprocess
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from sweep_kit import BUILD, DROVER, ROOT, Place
from waiting import wait_until

NVML = BUILD / "tests/fake/libnvidia-ml.so.1"
SHARE = ROOT / "launcher/metrics"
# dcgm-exporter's etc/default-counters.csv and etc/dcp-metrics-included.csv: the fields that NVML has
DCGM = set("""DCGM_FI_DEV_SM_CLOCK DCGM_FI_DEV_MEM_CLOCK DCGM_FI_DEV_MEMORY_TEMP DCGM_FI_DEV_GPU_TEMP DCGM_FI_DEV_POWER_USAGE
 DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION DCGM_FI_DEV_PCIE_REPLAY_COUNTER DCGM_FI_DEV_GPU_UTIL DCGM_FI_DEV_MEM_COPY_UTIL
 DCGM_FI_DEV_ENC_UTIL DCGM_FI_DEV_DEC_UTIL DCGM_FI_DEV_XID_ERRORS DCGM_FI_DEV_FB_FREE DCGM_FI_DEV_FB_USED
 DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL DCGM_FI_PROF_PCIE_TX_BYTES DCGM_FI_PROF_PCIE_RX_BYTES""".split())
DCGM_LABELS = {"gpu", "UUID", "pci_bus_id", "device", "modelName", "Hostname"}
NAME = re.compile(r"\b(?:drover_[a-z_]+|DCGM_FI_[A-Z_]+)\b")
MACHINE = "gpus 2\ngpu all utilization 3\ngpu all energy 5000+100\ngpu all pcie_tx 10\ngpu all pcie_rx 20\n" \
          "gpu all nvlink_tx 10\ngpu all nvlink_rx 20\n"
WAIT = "while ! test -e go; do sleep 0.02; done"
TRIAL = f'case $x in 0) ;; 1) exit 3 ;; *) {WAIT} ;; esac\necho "{{\\"loss\\":$x}}"\n'


def program(name):
    """Debian's, from scripts/setup --test."""
    found = ROOT / "build/prometheus/usr/bin" / name
    return str(found) if found.exists() else shutil.which(name)


needs_prometheus = pytest.mark.skipif(not program("promtool") or not program("prometheus"),
                                      reason="promtool is not installed (scripts/setup --test)")


def url_in(file):
    """The address that drover prints, once it is there."""
    found = wait_until(lambda: re.search(r"metrics at (http://\S+)\n", file.read_text() if file.exists() else ""), "the URL")
    return found.group(1)


def get(url, method="GET", data=None):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method=method, data=data), timeout=20) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.headers, e.read().decode()


def values(url):
    """{"name{labels}": value}"""
    lines = get(url)[2].splitlines()
    return {k: float(v) for k, v in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}


def one(found, name):
    """The value of a metric, whatever its labels; None if it has none."""
    return next((v for k, v in found.items() if k.split("{")[0] == name), None)


def promtool(*args, stdin=None):
    done = subprocess.run([program("promtool"), *map(str, args)], input=stdin, text=True, capture_output=True, check=False)
    assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr


@pytest.fixture
def place(tmp_path):
    p = Place(tmp_path)
    (tmp_path / "machine").write_text(MACHINE)
    p.env.update(DROVER_NVML_LIB=str(NVML), DROVER_FAKE_NVML=str(tmp_path / "machine"))
    p.env.pop("CUDA_VISIBLE_DEVICES", None)
    p.script("t.sh", TRIAL)
    yield p
    p.clean_up()


def start_run(place, *args):
    with open(place.path / "run.txt", "w") as log:
        place.started.append(subprocess.Popen([DROVER, "run", "--metrics", "0", "-np", "2", *args], cwd=place.path, env=place.env,
                                              stdin=subprocess.DEVNULL, stdout=log, stderr=log))
    return place.started[-1], url_in(place.path / "run.txt")


def start_sweep(place, *args):
    sweep = place.sweep("method: grid\nmetric: {name: loss, goal: minimize}\nparameters: {x: {values: [0, 1, 2, 3, 4, 5]}}\n"
                        "drover: {lost_after: 3}\n")
    return place.start(sweep, "--metrics", "0", *args), url_in(place.path / "err.txt")


def test_a_job_its_ranks_and_its_gpus_are_served(place):
    job, url = start_run(place, "--budget", "8gpuh", "--max-restarts", "1", "sh", "-c",
                         f'echo one; echo two; [ -e again ] || {{ touch again; exit 5; }}; {WAIT}')
    found = wait_until(lambda: (lambda v: v if one(v, "drover_job_restarts_total") == 1
                                and v.get('drover_rank_output_lines_total{rank="1",node="%s"}' % socket.gethostname()) == 2
                                and one(v, "DCGM_FI_DEV_GPU_UTIL") else None)(values(url)), "the second attempt")
    assert one(found, "drover_job_ranks") == one(found, "drover_job_ranks_running") == one(found, "drover_job_gpus") == 2
    assert one(found, "drover_job_rank_failures_total") >= 1
    assert one(found, "drover_job_gpu_time_limit_seconds") == 8 * 3600
    assert one(found, "drover_job_gpu_time_seconds_total") > 0
    gpu = [k for k in found if k.startswith("DCGM_FI_DEV_GPU_UTIL")]
    assert len(gpu) == 2 and all(found[k] == 3 for k in gpu)
    assert set(re.findall(r'(\w+)="', gpu[0])) == DCGM_LABELS
    assert 'device="nvidia0"' in gpu[0] and 'pci_bus_id="00000000:1B:00.0"' in gpu[0]
    assert {k.split("{")[0] for k in found if k.startswith("DCGM")} <= DCGM
    (place.path / "go").touch()
    assert job.wait(20) == 0
    with pytest.raises(urllib.error.URLError):
        get(url)
    place.nothing_runs()


@pytest.mark.parametrize("memory", [1, 0])
def test_work_of_a_gpu_is_activity_and_kernels_that_only_wait_are_not(place, memory):
    """NCCL's kernels that wait: 100 %, and no use of memory. The energy counts the samples."""
    (place.path / "machine").write_text("gpus 2\ngpu all utilization 100\ngpu all energy 0+1\n"
                                        f"gpu 1 memory_utilization {memory}\n")
    job, url = start_run(place, "sh", "-c", WAIT)
    found = wait_until(lambda: (lambda v: v if (one(v, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION") or 0) >= 3 else None)(values(url)),
                       "four samples")
    silent_s = one(found, "drover_job_last_activity_time_seconds") - one(found, "drover_job_start_time_seconds")
    assert silent_s >= 1 if memory else silent_s == 0
    (place.path / "go").touch()
    assert job.wait(20) == 0


def test_only_get_of_metrics_is_answered_and_clients_cannot_hold_a_job_up(place):
    job, url = start_run(place, "sh", "-c", WAIT)
    status, headers, text = get(url)
    assert (status, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert "\n# TYPE drover_build_info gauge\n" in text
    assert get(url + "/x")[0] == get(url.replace("metrics", ""))[0] == 404
    assert get(url, "POST", b"x")[0] == get(url, "DELETE")[0] == 405
    assert get(url, "PUT")[1]["Allow"] == "GET"
    port = int(url.split(":")[2].split("/")[0])
    silent = []
    for i in range(80):  # more than are accepted: some say nothing, some too much, none reads
        silent.append(socket.create_connection(("127.0.0.1", port)))
        silent[-1].setblocking(False)
        if i % 3:
            silent[-1].send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n" + (b"\r\n" if i % 3 == 1 else b"X: " + b"y" * 60_000))
    (place.path / "go").touch()
    assert job.wait(20) == 0
    for s in silent:
        s.close()
    place.nothing_runs()


def test_a_wrong_address_is_refused_before_anything_starts(place):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        sweep = place.sweep("method: grid\nmetric: {name: loss}\nparameters: {x: {values: [0]}}\n")
        for command in (["run", "-np", "1"], ["sweep"], ["worker"]):
            for address, status, text in ((port, 1, f"--metrics: {port}: Address already in use"),
                                          ("nowhere:80", 2, "--metrics: 'nowhere:80' is not an address")):
                words = {"run": ["touch", "started"], "sweep": [sweep], "worker": ["ipc:///nowhere"]}[command[0]]
                done = subprocess.run([DROVER, *command, "--metrics", str(address), *words], cwd=place.path, env=place.env,
                                      text=True, capture_output=True, timeout=30, check=False, stdin=subprocess.DEVNULL)
                assert (done.returncode, text in done.stderr) == (status, True), (command, done.stderr)
    assert not (place.path / "started").exists() and not (place.path / "sweeps").exists()


def test_slow_requests_do_not_keep_prometheus_from_its_page(place):
    job, url = start_run(place, "sh", "-c", WAIT)
    port, slow, end = int(url.split(":")[2].split("/")[0]), [], threading.Event()

    def feed():  # 64 unfinished requests at any time, each of which grows
        while not end.is_set():
            for s in list(slow):
                try:
                    s.send(b"1")
                except OSError:
                    slow.remove(s)
            while len(slow) < 64:
                slow.append(socket.create_connection(("127.0.0.1", port)))
                slow[-1].send(b"GET /metrics HTTP/1.1\r\nX: ")
            end.wait(0.2)

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        wait_until(lambda: len(slow) == 64, "the slow requests")
        assert [get(url)[0] for _ in range(5)] == [200] * 5
    finally:
        end.set()
        feeder.join()
    (place.path / "go").touch()
    assert job.wait(20) == 0
    for s in slow:
        s.close()


def prometheus(place, urls):
    """Prometheus, which scrapes each second, with alerts that need not wait; its API."""
    rules = (SHARE / "alerts.yml").read_text()
    assert "for: 15m" in rules and "[5m]" in rules
    (place.path / "alerts.yml").write_text(rules.replace("for: 15m", "for: 1s").replace("[5m]", "[4s]"))
    targets = json.dumps([u.split("/")[2] for u in urls])
    (place.path / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [alerts.yml]\n"
        f"scrape_configs: [{{job_name: drover, static_configs: [{{targets: {targets}}}]}}]\n")
    with socket.socket() as free, open(place.path / "prometheus.txt", "w") as log:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        free.close()
        place.started.append(subprocess.Popen(
            [program("prometheus"), "--config.file=prometheus.yml", "--storage.tsdb.path=tsdb", f"--web.listen-address={address}"],
            cwd=place.path, env=place.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
    return place.started[-1], f"http://{address}/api/v1/"


def ask(api, query):
    """The results of a query; none while Prometheus starts."""
    try:
        return json.loads(get(f"{api}query?query={urllib.request.quote(query)}")[2])["data"]["result"]
    except (urllib.error.URLError, ValueError, KeyError):
        return []


@needs_prometheus
def test_prometheus_scrapes_a_running_sweep_and_the_idle_alert_fires(place):
    coordinator, url = start_sweep(place, "--here", "2")
    end = wait_until(lambda: (place.path / "sweeps/s/endpoint").exists() and (place.path / "sweeps/s/endpoint").read_text().strip(),
                     "the endpoint")
    with open(place.path / "worker.txt", "w") as log:
        worker = subprocess.Popen([DROVER, "worker", "--metrics", "0", "--places", "1", "--gpus", "1", "--patience", "6", end],
                                  cwd=place.path, env=place.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    place.started.append(worker)
    of_worker = url_in(place.path / "worker.txt")
    server, api = prometheus(place, [url, of_worker])
    place.env["DROVER_FAKE_GPU_USERS"] = str(place.path / "users")
    uses_gpu = "test -e show && test ! -e users && echo GPU-00000000-0000-0000-0000-000000000000 $$ 100 >users; "
    job, of_job = start_run(place, "--deadline", "1h", "--budget", "5gpuh", "sh", "-c", WAIT.replace("do ", f"do {uses_gpu}"))

    def settled():
        s, w = values(url), values(of_worker)
        return (s, w) if one(s, "drover_sweep_workers") == 2 and one(w, "drover_worker_trials_running") == 1 \
            and s['drover_sweep_trials{sweep="s",state="running"}'] == 3 and one(w, "DCGM_FI_DEV_GPU_UTIL") else None

    s, w = wait_until(settled, "three running trials")
    assert s['drover_sweep_trials{sweep="s",state="done"}'] == s['drover_sweep_trials{sweep="s",state="failed"}'] == 1
    assert s['drover_sweep_trials_ended_total{sweep="s",state="failed"}'] == 1
    assert (one(s, "drover_sweep_trials_wanted"), one(s, "drover_sweep_best_value"), one(s, "drover_sweep_slots")) == (6, 0, 3)
    assert one(s, "drover_sweep_reports_total") == 1 and one(s, "drover_sweep_commits_total") > 0
    assert one(s, "drover_sweep_workers_lost_total") == 0
    assert len([k for k in s if k.startswith("DCGM_FI_DEV_GPU_UTIL")]) == 2  # of this host's worker
    assert [k for k in w if "GPU_UTIL" in k][0].startswith('DCGM_FI_DEV_GPU_UTIL{gpu="1"')  # its own only
    assert (one(w, "drover_worker_slots"), one(w, "drover_worker_info")) == (1, 1)
    assert not re.search(r'\btrial(_id)?="', "".join([*s, *w])), "a label per trial"

    (place.path / "show").touch()
    wait_until(lambda: one(values(of_job), "drover_gpu_job_memory_bytes") == 100 << 20, "the memory of a rank")
    texts = [get(u)[2] for u in (url, of_worker, of_job)]
    for text in texts:  # dcgm-exporter's labels are not Prometheus' style
        promtool("check", "metrics", stdin="".join(x + "\n" for x in text.splitlines() if "DCGM_FI_" not in x))
    served = {m for text in texts for m in re.findall(r"^# TYPE (\S+)", text, re.M)}
    rows = set(re.findall(r'^    \[METRICS_\w+\] = \{"(\w+)"', (SHARE / "metrics_text.c").read_text(), re.M))
    rows |= set(re.findall(r'\.metric = \{"(\w+)"', (SHARE.parent / "gpu/gpu_facts.c").read_text()))
    rows_while_it_runs = rows - {"drover_job_exit_status"}
    assert served == rows_while_it_runs, "a metric that no command serves"
    documented = re.findall(r"^\| `((?:drover_|DCGM_)\w+)`", (ROOT / "docs/metrics.md").read_text(), re.M)
    assert sorted(documented) == sorted(rows)
    used = {n for f in ("grafana.json", "alerts.yml") for n in NAME.findall((SHARE / f).read_text())}
    assert used <= rows, f"not served: {used - rows}"

    worker.send_signal(signal.SIGKILL)
    wait_until(lambda: one(values(url), "drover_sweep_workers_lost_total") == 1, "the lost worker", 20)
    assert wait_until(lambda: ask(api, 'drover_sweep_trials{state="done"}'), "the scraped sweep")[0]["value"][1] == "1"
    fired = wait_until(lambda: ask(api, 'ALERTS{alertname="DroverGpuIdle",alertstate="firing",gpu="0"}'), "the alert")
    assert fired[0]["metric"]["modelName"] == "NVIDIA H100 80GB HBM3"
    assert ask(api, 'up == 1'), "no target is up"
    (place.path / "go").touch()
    assert job.wait(20) == 0
    assert coordinator.wait(40) == 0, place.said()
    server.send_signal(signal.SIGTERM)
    assert server.wait(20) == 0


@needs_prometheus
def test_a_hang_and_the_failure_are_scraped_after_the_end_and_their_alerts_fire(place):
    job, url = start_run(place, "--hang-timeout", "3", "sh", "-c", f"echo started; {WAIT}; sleep 100")
    server, api = prometheus(place, [url])
    wait_until(lambda: ask(api, "drover_job_hangs_total == 0"), "the first scrapes")
    (place.path / "go").touch()  # from now on no rank does anything
    assert job.wait(60) == 124, (place.path / "run.txt").read_text()
    assert "metrics are served until the next scrape, for " in (place.path / "run.txt").read_text()
    for alert in ("DroverJobHang", "DroverJobFailed"):
        wait_until(lambda a=alert: ask(api, f'ALERTS{{alertname="{a}",alertstate="firing"}}'), alert)
    assert ask(api, "max_over_time(drover_job_exit_status[5m])")[0]["value"][1] == "124"
    server.send_signal(signal.SIGTERM)
    assert server.wait(20) == 0
    place.nothing_runs()


def test_a_failed_job_without_a_scraper_ends_at_once_and_a_signal_ends_the_wait(place):
    fails = ["sh", "-c", f"{WAIT}; exit 3"]
    (place.path / "go").touch()
    job, _ = start_run(place, *fails)
    assert job.wait(20) == 3 and "until the next scrape" not in (place.path / "run.txt").read_text()
    (place.path / "go").unlink()
    job, url = start_run(place, *fails)
    assert one(values(url), "drover_job_exit_status") is None
    (place.path / "go").touch()
    wait_until(lambda: "until the next scrape, for 60 s" in (place.path / "run.txt").read_text(), "the wait")
    job.send_signal(signal.SIGINT)
    assert job.wait(20) == 3
    place.nothing_runs()


def test_a_file_for_node_exporter_has_the_state_of_a_job_that_is_over(place):
    file = place.path / "job.prom"
    done = subprocess.run([DROVER, "run", "--metrics-file", file, "-np", "2", "--max-restarts", "1", "sh", "-c",
                           'echo x; [ $RANK = 0 ] && exit 7; sleep 60'],
                          cwd=place.path, env=place.env, text=True, capture_output=True, timeout=60, check=False)
    assert done.returncode == 7, done.stderr
    text = file.read_text()
    found = {k.split("{")[0]: v for k, v in (line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")}
    assert found["drover_job_exit_status"] == "7" and found["drover_job_ranks_running"] == "0"
    assert found["drover_job_restarts_total"] == "1" and int(found["drover_job_rank_failures_total"]) >= 2
    assert file.stat().st_mode & 0o777 == 0o644
    if program("promtool"):
        promtool("check", "metrics", stdin=text)
    refused = subprocess.run([DROVER, "run", "--metrics-file", "none/job.prom", "touch", "started"], cwd=place.path,
                             env=place.env, text=True, capture_output=True, timeout=60, check=False)
    assert refused.returncode == 1 and "--metrics-file none/job.prom: No such file or directory" in refused.stderr
    assert not (place.path / "started").exists()


@needs_prometheus
def test_the_rules_are_clean_and_fire_when_they_must(tmp_path):
    promtool("check", "rules", SHARE / "alerts.yml")
    shutil.copy(SHARE / "alerts.yml", tmp_path)
    shutil.copy(Path(__file__).parent / "alerts_test.yml", tmp_path)
    done = subprocess.run([program("promtool"), "test", "rules", "alerts_test.yml"], cwd=tmp_path, text=True, capture_output=True,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_dashboard_has_queries_in_each_panel():
    panels = [p for p in json.loads((SHARE / "grafana.json").read_text())["panels"] if p["type"] != "row"]
    assert len({p["id"] for p in panels}) == len(panels) > 10
    for p in panels:
        assert p["targets"] and all(NAME.search(t["expr"]) for t in p["targets"]), p["title"]
        box = p["gridPos"]
        assert box["x"] + box["w"] <= 24
        others = [q["gridPos"] for q in panels if q is not p]
        assert not any(box["x"] < o["x"] + o["w"] and o["x"] < box["x"] + box["w"] and
                       box["y"] < o["y"] + o["h"] and o["y"] < box["y"] + box["h"] for o in others), f"{p['title']} overlaps"
