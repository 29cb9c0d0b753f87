"""The page of `drover serve` says what the data say, and no more: states of trials, what lies beyond an axis, rungs, names in
the filter, the trial that runs, the server that hangs."""
import html
import json
import os
import signal
import subprocess

import pytest
from serve_kit import SERVE, Server, make_sweep
from sweep_kit import BUILD, Place
from test_page import EMPTY, Browser, pytestmark  # noqa: F401  the marks skip these tests, too
from waiting import wait_until

TRIAL = """
import json, math, os, sys, time
a = dict(x[2:].split("=", 1) for x in sys.argv[1:])
if os.environ["DROVER_TRIAL_ID"] == "5":
    sys.exit("Traceback: the-very-cause of " + 20 * "a long text ")
for step in range(1, 9):
    print(json.dumps({"step": 10 * step, "loss": float(a["x"]) + 2 * .7 ** step + (step == 8), "size": float(a["x"])}), flush=True)
    if step == 4 and float(a["x"]) > 0.9:
        time.sleep(3)  # time to be pruned: the others may end first on a busy machine
"""
MIXED = """
program: m.py
command: ["/usr/bin/python3", "m.py", "${args}"]
method: random
run_cap: 80
metric: {name: loss}
parameters: {x: {min: 0.0, max: 1.0}, a: {values: [p, q]}, b: {values: [u, v]}, m: {min: 0.0, max: 0.9}, n: {values: [1, 2]}}
early_terminate: {type: hyperband, min_iter: 2, eta: 2}
drover:
  seed: 2
  retries: 0
  give_up_after: 0
  when:
    m: {param: a, in: [p]}
    n:
      - {param: b, in: [u, v]}
  constraints: ["m < 0.8 or x < 0.9", "x < 2"]
"""
TWO = """
program: m.py
command: ["/usr/bin/python3", "m.py", "${args}"]
method: random
run_cap: 6
metrics: [{name: loss}, {name: size, goal: maximize}]
parameters: {x: {min: 0.0, max: 1.0}}
drover: {give_up_after: 0}
"""
SECTION = "[...document.querySelectorAll('main section')].find(s => s.innerText.startsWith('%s'))"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    p = Place(tmp_path_factory.mktemp("truth"))
    (p.path / "m.py").write_text(TRIAL)
    for name, text in (("mixed", MIXED), ("two", TWO), ("empty", EMPTY)):
        (p.path / f"{name}.yaml").write_text(text)
    for name in ("mixed", "two"):
        done = p.run(f"{name}.yaml", "-q")
        assert done.returncode == 0, done.stderr
    empty = p.start("empty.yaml", "--here", "0", "--listen", "127.0.0.1:0")
    wait_until(p.db("empty").exists, p.said)
    make_sweep(p, "running")
    yield p
    empty.kill()
    p.clean_up()


@pytest.fixture(scope="module")
def server(place):
    return Server(place)


@pytest.fixture(scope="module")
def page(place, server):
    b = Browser(place, server.url)
    yield b
    b.process.stdin.close()
    b.process.wait(20)


def test_the_history_tells_done_pruned_and_failed_trials_apart_and_hides_a_kind(page):
    page("goto", hash="#sweep=mixed&view=overview")
    kinds = page("eval", js="[...document.querySelectorAll('.kind')].map(b => b.textContent)")
    count = page("eval", js="drover.overview.counts")
    assert kinds == [f"○ pruned {count['pruned']}", f"● done {count['done']}", "✕ failed 1"]
    page("click", on=".kind:has(.sign-pruned)")
    page("wait", js="() => document.querySelector('.kind:has(.sign-pruned)').getAttribute('aria-pressed') === 'false'")
    address = page("eval", js="location.hash")
    page("goto", hash=address)
    assert page("eval", js="[...document.querySelectorAll('.kind[aria-pressed=false]')].length") == 1
    page.clean()


@pytest.mark.parametrize("view", ["overview", "slices"])
def test_what_lies_beyond_an_axis_is_counted(page, view):
    page("goto", hash=f"#sweep=mixed&view={view}")
    page("wait", js="() => [...document.querySelectorAll('main section small')].some(s => /▲ 1 trial lies above the axis/.test(s.innerText))"
         if view == "slices" else "() => drover.study.beyond(drover.study.valueAxis(false)) === 1")
    cut = """import('./plot.js').then(m => { const s = drover.study, a = s.valueAxis(false), n = {...a, lo: a.hi, hi: a.lo};
        return Array.from(s.order).filter(i => Number.isNaN(m.positions(s, n, 0, 100, true)[i])).length })"""
    assert page("eval", js=cut) == 1
    page.clean()


def test_two_categories_scatter_independently(page):
    page("goto", hash="#sweep=mixed&view=slices")
    within = """Promise.all([import('./study.js'), import('./plot.js')]).then(([s, p]) => ['place', 'positions'].map(how => {
        const [x, y] = ['p:a', 'p:b'].map(k => { const a = drover.study.axis(k), bins = a.values.length
            return Array.from(how === 'place' ? s.place(drover.study, a) : p.positions(drover.study, a, 0, 1), v => v * bins % 1) })
        const mean = d => d.reduce((a, b) => a + b) / d.length, mx = mean(x), my = mean(y), cov = (u, v, a, b) => mean(u.map((w, i) => (w - a) * (v[i] - b)))
        return Math.abs(cov(x, y, mx, my)) / Math.sqrt(cov(x, x, mx, mx) * cov(y, y, my, my)) }))"""
    assert max(page("eval", js=within)) < .5


def test_the_front_comes_first_with_two_objectives(page):
    page("goto", hash="#sweep=two&view=overview")
    text = page("eval", js=SECTION % "Best" + ".innerText")
    assert "loss (minimized)" in text and "size (maximized)" in text and "not beaten" in text
    three = """import('./view_pareto.js').then(m => m.front([0, 1, 2, 3, 4], [[1, 2, 3, 3, 1], [3, 2, 1, 3, 3], [5, 5, 5, 4, 6]], [1, 1, -1]))"""
    assert page("eval", js=three) == [4, 1, 2]


def test_a_name_means_in_the_filter_what_it_means_as_a_column(page):
    """Trials end one above their best value."""
    page("goto", hash="#sweep=mixed&view=table")
    shown = page("eval", js="(() => { const head = [...document.querySelectorAll('.virtual th')].findIndex(t => t.innerText.startsWith('loss'))"
                 "; return document.querySelector('.virtual tbody tr').children[head].innerText })()")
    page("fill", on="input.wide", text=f"loss <= {float(shown) + .0001}")
    page("wait", js="() => drover.selection.count === 1")
    page("fill", on="input.wide", text="sizes > 3")
    page("wait", js="() => /there are size, a, b, m, n, x, loss/.test(document.querySelector('[role=alert]').innerText)")
    page("fill", on="input.wide", text="")
    page.clean()


RUNGS = [({"type": "median", "min_iter": 3, "min_trials": 5}, [3], True),
         ({"type": "hyperband", "min_iter": 3, "eta": 3}, [3, 9, 27, 81], True),
         ({"type": "hyperband", "max_iter": 27, "s": 2, "eta": 3}, [9, 3], True),
         ({"type": "hyperband", "min_iter": 2, "max_iter": 8, "eta": 2}, [2, 4], True),
         ({"type": "asha", "min_iter": 1, "max_iter": 8, "eta": 2, "s": 1, "like": "optuna"}, [2, 4, 8], False),
         ({"type": "asha", "eta": 4, "s": 0, "like": "ray"}, [1, 4, 16, 64], False),
         ({"type": "asha", "eta": 4, "s": 0, "like": "optuna"}, [], False),
         ({"type": "curve", "min_iter": 2, "max_iter": 16, "eta": 2, "keep": .33}, [2, 4, 8], False)]


def test_rungs_are_where_each_rule_judges(page):
    page("goto", hash="#sweep=mixed&view=curves")
    for rule, at, reports in RUNGS:
        found = page("eval", js=f"import('./view_curves.js').then(m => m.rungs({json.dumps(rule)}, 100))")
        assert (found["at"], found["reports"]) == (at, reports), rule
    page("wait", js="() => /bands of hyperband, counted in reports/.test(document.querySelector('main').innerText)")
    page.clean()


def test_a_tooltip_has_state_and_parameters(page):
    page("goto", hash="#sweep=mixed&view=overview")
    for trial in (5, page("eval", js="drover.study.best")):
        text = page("eval", js=f"import('./format.js').then(m => m.describe(drover.study, {trial}))")
        assert f"trial {trial}, {'failed' if trial == 5 else 'done'}" in text and "\nx = " in text and "\na = " in text
    hit = "(() => { const r = document.querySelector('g.hit rect'), b = r.getBoundingClientRect(); for (let x = 2; x < b.width; x += 6) for (let y = 2; y < b.height; y += 6) {" \
          "r.dispatchEvent(new PointerEvent('pointermove', {clientX: b.left + x, clientY: b.top + y, bubbles: true})); const t = document.querySelector('.tip'); if (!t.hidden) return t.innerText } })()"
    assert "x = " in page("eval", js=hit)


def test_a_failed_trial_opens_with_its_stderr_and_its_cause_is_not_cut(page):
    page("goto", hash="#sweep=mixed&view=overview&trial=5")
    page("wait", js="() => /the-very-cause/.test(document.querySelector('#panel pre.log')?.textContent)")
    cut = page("eval", js="[...document.querySelectorAll('main td')].filter(t => /the-very-cause/.test(t.textContent)).map(t => t.scrollWidth - t.clientWidth)")
    assert cut and max(cut) <= 1
    page("press", on="#panel", key="Escape")


def test_back_closes_the_trial_and_closing_keeps_what_was_selected(page):
    page("goto", hash="#sweep=mixed&view=overview")
    page("click", on="#nav [data-view=table]")
    page("click", on=".virtual tbody tr")
    page("wait", js="() => document.querySelector('#panel h2')")
    page("eval", js="history.back()")
    page("wait", js="() => document.querySelector('#panel').hidden && drover.view === 'table'")
    page("click", on=".virtual tbody tr")
    page("wait", js="() => !document.querySelector('#panel').hidden")
    page("eval", js="drover.setFilter('x < 0.5')")
    page("wait", js="() => location.hash.includes('filter')")
    page("click", on="#panel button:text('Close')")
    page("wait", js="() => !location.hash.includes('trial=')")
    assert page("eval", js="[drover.view, drover.selection.filter, location.hash.includes('filter')]") == ["table", "x < 0.5", True]
    page("eval", js="drover.setFilter('')")
    page.clean()


@pytest.mark.parametrize("works", [True, False])
def test_copied_is_said_only_if_so(page, works):
    page("goto", hash="#sweep=mixed&view=overview")
    page("eval", js="Object.defineProperty(navigator, 'clipboard', {value: undefined, configurable: true}); document.execCommand = () => %s" % json.dumps(works))
    page("click", on=".command button")
    said = "Copied" if works else "Selected: press Ctrl+C"
    page("wait", js=f"() => document.querySelector('.command button').textContent === {json.dumps(said)}")


# The file has its conditions in lines; the second one in brackets.
@pytest.mark.parametrize("flow", [False, True])
def test_a_narrowed_file_has_no_condition_that_never_holds(page, place, flow):
    page("goto", hash="#sweep=mixed&view=parallel&range=p%253Aa,1,1&range=p%253Ab,0,0")
    file = page("eval", js="import('./selection.js').then(m => m.narrowedFile(%s, drover.study, drover.selection))" % (
        "drover.overview.file" if not flow else "drover.overview.file.replace(/when:[^]*?constraints/, 'when: {m: {param: a, in: [p]}, n: [{param: b, in: [u, v]}]}\\n  constraints')"))
    assert '"m"' not in file and '{"n":{"param":"b","in":["u"]}}' in file and "constraints: [\"x < 2\"]" in file, file
    (place.path / "narrow.yaml").write_text(file)
    said = subprocess.run([BUILD / "libexec/drover/drover-hpo", "sweep", "narrow.yaml", "--dry-run"], cwd=place.path, env=place.env,
                          capture_output=True, text=True, timeout=60)
    assert said.returncode == 0, said.stderr + file
    page("eval", js="drover.selection.ranges.clear(); drover.select(() => {}); 0")


def test_a_sweep_without_workers_says_how_one_joins(page):
    page("goto", hash="#sweep=empty&view=overview")
    text = page("eval", js="document.querySelector('main').innerText")
    assert "No worker runs trials" in text and "empty/worker.key" in text and "drover worker --key worker.key" in text
    assert "trials per minute" not in text


def test_a_running_trial_grows_in_its_panel_and_its_end_is_seen(page, place):
    log = next((place.path / "sweeps/running/trials").glob("000003/*/stdout"))
    page("goto", hash="#sweep=running&view=overview&trial=3")
    page("wait", js="() => /loss/.test(document.querySelector('#panel pre.log')?.textContent)")
    with open(log, "a") as f:
        f.write("a line that came later\n")
    page("wait", js="() => /came later/.test(document.querySelector('#panel pre.log').textContent)")
    (place.path / "go").touch()
    page("wait", js="() => /done/.test(document.querySelector('#panel table').innerText)")
    page("press", on="#panel", key="Escape")


def test_the_age_of_the_data_is_shown_and_a_server_that_hangs_is_noticed(page, server):
    page("goto", hash="#sweep=mixed&view=overview")
    page("wait", js="() => /data of .*\\d/.test(document.querySelector('#age').innerText)")
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        page("wait", js="() => /has not answered since/.test(document.querySelector('#notice').innerText)")
    finally:
        os.kill(server.process.pid, signal.SIGCONT)
    page("wait", js="() => document.querySelector('#notice').hidden")


def test_the_sentences_are_the_same_on_the_page_in_show_and_in_reports(page, place):
    page("goto", hash="#sweep=mixed&view=overview")
    said = page("eval", js="[...document.querySelectorAll('.insight p')].map(p => p.textContent)")
    assert said[0].startswith("The best loss is ") and "under the next" in said[0] and any("1 of 80 trials failed" in s for s in said)
    show = place.run("show", "mixed").stdout.splitlines()
    assert [s for s in said if s not in show] == []
    for kind in ("r.md", "r.html"):
        made = subprocess.run([SERVE, "report", "mixed", "-o", kind], cwd=place.path, env=place.env, capture_output=True, text=True, timeout=60)
        assert made.returncode == 0, made.stderr
        text = html.unescape((place.path / kind).read_text()).replace("\\", "")
        assert [s for s in said if s.split(";")[0] not in text] == [], kind
