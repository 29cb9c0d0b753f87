"""What the page of `drover serve` asks for is in proportion to the news: answers are compressed, also for a client on this
machine, which may be the end of a tunnel; the density of curves is asked for only now and then."""
import struct
import zlib

import pytest
from serve_kit import Server
from sweep_kit import Place
from test_page import Browser, pytestmark  # noqa: F401  the marks skip these tests, too
from waiting import wait_until

TRIAL = """
import json, os, time
step = 0
while not os.path.exists("enough"):
    step += 1
    print(json.dumps({"step": step, "loss": 1 / step}), flush=True)
    time.sleep(0.1)
"""
SWEEP = """
program: t.py
command: ["/usr/bin/python3", "t.py"]
method: random
run_cap: 1
metric: {name: loss}
parameters: {x: {min: 0.0, max: 1.0}}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    p = Place(tmp_path_factory.mktemp("traffic"))
    (p.path / "t.py").write_text(TRIAL)
    (p.path / "live.yaml").write_text(SWEEP)
    p.start("live.yaml")
    wait_until(lambda: len(p.records("report", "live")) > 3, p.said)
    yield p
    p.clean_up()


def test_a_running_sweep_is_asked_for_its_density_every_five_seconds_at_most(place):
    page = Browser(place, Server(place).url)
    page("goto", hash="#sweep=live&view=curves")
    asked = "performance.getEntriesByType('resource').filter(e => e.name.includes('/density')).map(e => e.startTime)"
    page("wait", js=f"() => {asked}.length > 2")
    times = page("eval", js=asked)
    assert min(b - a for a, b in zip(times, times[1:])) > 4900, times
    (place.path / "enough").touch()
    page("wait", js="() => drover.overview.state === 'finished' && document.querySelector('main').innerText"
         ".includes(`1 curves, ${drover.study.get('steps')[0]} points`)")
    page.process.stdin.close()
    page.process.wait(20)


def test_answers_are_compressed_if_the_client_accepts_that(place):
    server = Server(place)
    path = "/api/live/density?metric=loss&width=1200&height=384&log=0"
    _, headers, packed = server.ask(path, Accept_Encoding="gzip")
    assert headers["content-encoding"] == "gzip" and len(packed) < 20000
    assert zlib.decompress(packed, 31) == server.ask(path)[2]
    assert "content-encoding" not in server.ask("/api/live/density?metric=loss")[1]


def test_the_planes_of_columns_are_the_same_numbers(place):
    server = Server(place)
    head, plain = server.columns("/api/live/cols")
    status, _, body = server.ask("/api/live/cols?planes=1")
    size, base = {"f32": 4, "f64": 8, "u8": 1, "u32": 4}, 4 + int.from_bytes(body[:4], "little")
    form = {"f32": "f", "f64": "d", "u8": "B", "u32": "I"}
    assert status == 200 and len(plain) > 20
    for name, (kind, at, count) in head["columns"].items():
        data, step = body[base + at:base + at + count * size[kind]], size[kind]
        back = b"".join(bytes(data[k * count + i] for k in range(step)) for i in range(count))
        assert back == struct.pack(f"<{count}{form[kind]}", *plain[name]), name
    assert server.ask("/api/live/cols?planes=2")[0] == 400
