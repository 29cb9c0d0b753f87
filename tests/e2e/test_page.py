"""The page of `drover serve` in Chromium: every view over a finished, a running and an empty sweep, with a clean console
and no request to another origin; the shared selection, addresses, keyboard, narrow screens, both themes, and names and
roles for screen readers."""
import json
import os
import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest
from serve_kit import SERVE, Server, make_sweep
from sweep_kit import Place
from waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / "build/playwright/bin/python"
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
pytestmark = [pytest.mark.skipif(not SERVE.exists(), reason="drover-serve is not built"),
              pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="Chromium is not installed"),
              pytest.mark.skipif(not PYTHON.exists(), reason="playwright is not installed (scripts/setup --test)"),
              pytest.mark.skipif(not Path("/usr/share/nodejs/d3/dist/d3.min.js").exists(), reason="node-d3 is not installed")]
VIEWS = "overview parallel slices curves pareto timeline table machine runs".split()
# bayes, so that there is a model; the kind `b` has a parameter of its own, and trial 7 fails.
FINISHED = """
program: f.py
command: ["/usr/bin/python3", "f.py", "${args}"]
method: bayes
run_cap: 24
metric: {name: loss}
parameters:
  lr: {distribution: log_uniform_values, min: 0.001, max: 1.0}
  kind: {values: [a, b]}
  beta: {min: 0.0, max: 1.0}
drover: {when: {beta: {param: kind, in: [b]}}, give_up_after: 0}
"""
TRIAL = """
import json, math, os, sys
a = dict(x[2:].split("=", 1) for x in sys.argv[1:])
loss = abs(math.log10(float(a["lr"])) + 2) + float(a.get("beta", 0.5))
if os.environ["DROVER_TRIAL_ID"] == "7":
    sys.exit("no such device")
for step in range(1, 5):
    print(json.dumps({"step": step, "loss": loss + 1 / step, "size": 10 - loss}), flush=True)
"""
EMPTY = "command: [\"true\"]\nmethod: bayes\nrun_cap: 5\nmetric: {name: loss}\nparameters: {x: {min: 0.0, max: 1.0}, y: {min: 0.0, max: 1.0}}\n"


class Browser:
    def __init__(self, place, url):
        self.process = subprocess.Popen([PYTHON, ROOT / "tests/e2e/page_driver.py", url], text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, env=place.env)
        place.started.append(self.process)

    def __call__(self, do, **step):
        self.process.stdin.write(json.dumps({"do": do, **step}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        assert "failed" not in answer, (do, step, answer["failed"], self.text())
        return answer.get("value")

    def text(self):
        self.process.stdin.write(json.dumps({"do": "eval", "js": "document.body?.innerText"}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline()).get("value")

    def clean(self):
        assert self("faults") == []


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    p = Place(tmp_path_factory.mktemp("page"))
    (p.path / "f.py").write_text(TRIAL)
    (p.path / "finished.yaml").write_text(FINISHED)
    done = p.run("finished.yaml", "-q")
    assert done.returncode == 0, done.stderr
    (p.path / "empty.yaml").write_text(EMPTY)
    empty = p.start("empty.yaml", "--here", "0", "--listen", "127.0.0.1:0")
    wait_until(p.db("empty").exists, p.said)
    make_sweep(p, "running")
    yield p
    empty.kill()
    p.clean_up()


@pytest.fixture(scope="module")
def page(place):
    b = Browser(place, Server(place).url)
    yield b
    b.process.stdin.close()
    b.process.wait(20)


@pytest.mark.parametrize("sweep", ["finished", "running", "empty"])
def test_every_view_is_clean(page, sweep):
    page("goto", hash=f"#sweep={sweep}&view={VIEWS[-1]}")
    for view in VIEWS:
        page("eval", js=f"drover.go('{view}')")
        page("wait", js="() => document.querySelector('#main section') && !document.querySelector('.loading')")
        assert page("eval", js="document.querySelector('.failed')?.innerText ?? ''") == "", (sweep, view)
        shown = page("eval", js="document.querySelector('#main').innerText")
        assert not re.search(r"\b(null|undefined|NaN|\[object)\b", shown), (sweep, view, shown)
        page.clean()


def test_what_is_empty_says_so_and_what_is_not_is_drawn(page):
    page("goto", hash="#sweep=empty&view=parallel")
    assert "No trials yet" in page("eval", js="document.querySelector('#main').innerText")
    page("goto", hash="#sweep=finished&view=overview")
    drawn = "(() => { const c = document.querySelector('.plot canvas'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; return d.some(v => v > 0) })()"
    assert page("eval", js=drawn)
    text = page("eval", js="document.querySelector('#main').innerText")
    assert "24" in text and "no such device" in text and "drover run -np 1" in text


def test_names_and_roles(page):
    """Each control has a name, each plot a role and a label and a table behind it, and ids are unique."""
    page("goto", hash="#sweep=finished&view=overview")
    for view in VIEWS:
        page("eval", js=f"drover.go('{view}')")
        bad = page("eval", js="""[...document.querySelectorAll('button, select, input, a, textarea, [role=button], .plot, section, canvas, th')].filter(e => e.offsetParent !== null || e.closest('svg')).filter(e => {
            if (e.matches('canvas')) return !e.closest('[role]')
            if (e.matches('.plot')) return !e.getAttribute('role') || !e.getAttribute('aria-label')
            const label = e.labels && e.labels.length ? [...e.labels].map(l => l.textContent).join('') : ''
            return !(e.getAttribute('aria-label') || label.trim() || e.textContent.trim() || e.title)
        }).map(e => e.outerHTML.slice(0, 120))""")
        assert bad == [], (view, bad)
        ids = page("eval", js="[...document.querySelectorAll('[id]')].map(e => e.id)")
        assert len(ids) == len(set(ids))
        plots, tables = page("eval", js="[document.querySelectorAll('.plot').length, document.querySelectorAll('.plot ~ details').length]")
        assert tables >= plots
    assert page("eval", js="document.documentElement.lang") == "en"


CONTROLS = {"button", "link", "checkbox", "combobox", "textbox", "slider", "searchbox", "image", "img", "region", "grid", "navigation",
            "complementary", "DisclosureTriangle", "columnheader", "heading"}


def test_the_accessibility_tree_names_every_control_and_plot(page):
    page("goto", hash="#sweep=finished&view=overview&trial=1")
    for view in VIEWS:
        page("eval", js=f"drover.go('{view}')")
        tree = page("tree")
        roles = {role for role, _ in tree}
        assert {"main", "navigation", "complementary", "link", "heading", "button"} <= roles, (view, roles)
        unnamed = [role for role, name in tree if role in CONTROLS and not name.strip()]
        assert unnamed == [], (view, unnamed)
        assert [name for role, name in tree if role == "navigation"] == ["Views"]
    page("press", on="#panel", key="Escape")


def test_tab_reaches_everything_in_the_order_of_the_page_and_shows_where_it_is(page):
    for view in ("overview", "parallel", "curves", "table"):
        page("goto", hash=f"#sweep=finished&view={view}")
        passed = page("tabs")
        assert [what for what, in_order, _ in passed if not in_order] == [], view
        assert [what for what, _, ringed in passed if not ringed] == [], view
        assert passed[0][0] == "A To the content"
        reachable = page("eval", js="[...document.querySelectorAll('a[href], button, select, input, summary, textarea, [tabindex=\"0\"]')]"
                         ".filter(e => e.checkVisibility() && !e.disabled && !passed.includes(e)).map(e => e.outerHTML.slice(0, 90))")
        assert reachable == [], view


def test_the_table_and_the_ranges_work_by_keyboard(page):
    page("goto", hash="#sweep=finished&view=table")
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        page("press", on="[role=grid]", key=key)
    page("wait", js="() => !document.querySelector('#panel').hidden && drover.trial === drover.study.order[1]")
    assert page("eval", js="document.getElementById(document.querySelector('[role=grid]').getAttribute('aria-activedescendant')).firstChild.innerText"
                ) == str(page("eval", js="drover.study.order[1]"))
    page("press", on="#panel", key="Escape")
    assert page("eval", js="document.activeElement.getAttribute('role')") == "grid"
    page("press", on="th button:text('lr')", key="Enter")
    assert page("eval", js="document.querySelector('th[aria-sort]').innerText.split(' ')[0]") == "lr"
    page("goto", hash="#sweep=finished&view=parallel")
    page("press", on="summary:text('Ranges by keyboard')", key="Enter")
    page("fill", on="input[aria-label='largest of lr']", text="0.05")
    page("wait", js="() => drover.selection.ranges.get('p:lr')?.[1] === .05 && drover.selection.count < 24")
    page("eval", js="drover.selection.ranges.clear(); drover.select(() => {}); 0")
    page.clean()


def test_nothing_moves_for_those_who_want_less_motion(page):
    moving = """(() => { const p = document.createElement('p'); p.className = 'loading'; document.body.append(p)
        const names = [...document.querySelectorAll('*')].map(e => getComputedStyle(e)).filter(s => s.animationName !== 'none' || s.transitionDuration !== '0s').length
        p.remove(); return names })()"""
    page("goto", hash="#sweep=finished&view=overview")
    assert page("eval", js=moving) == 1
    page("motion", name="reduce")
    assert page("eval", js=moving) == 0
    page("motion", name="no-preference")


def test_colours_have_contrast(page):
    """Every text and its background, by WCAG's formula: 4.5 and more, in both themes."""
    script = """(() => {
        const light = c => { const [r, g, b] = c.match(/[\\d.]+/g).map(v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4 }); return .2126 * r + .7152 * g + .0722 * b }
        const ground = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (!/, 0\\)|transparent/.test(c)) return c } return getComputedStyle(document.body).backgroundColor }
        const texts = [...document.querySelectorAll('body *')].filter(e => e.checkVisibility() && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()))
        return texts.map(e => { const s = getComputedStyle(e), a = light(e.closest('svg') ? s.fill : s.color), b = light(ground(e)); return [(Math.max(a, b) + .05) / (Math.min(a, b) + .05), e.outerHTML.slice(0, 90)] }).filter(x => !(x[0] >= 4.5))
    })()"""
    for scheme in ("light", "dark"):
        page("scheme", name=scheme)
        page("goto", hash="#sweep=finished&view=overview&trial=7")
        for view in VIEWS:
            page("eval", js=f"drover.go('{view}')")
            assert page("eval", js=script) == [], (scheme, view)
    page("press", on="#panel", key="Escape")
    page("scheme", name="light")
    page.clean()


def test_the_worst_of_a_few_trials_stands_at_its_value(page):
    """Only from 51 trials on the worst 2 % share the end of the axis."""
    page("goto", hash="#sweep=finished&view=overview")
    assert page("eval", js="drover.study.valueAxis(false).lo === drover.study.get('value')[drover.study.order.at(-1)]")
    axis = """(n => { const s = Object.assign(Object.create(Object.getPrototypeOf(drover.study)), { order: Uint32Array.from({ length: n }, (_, i) => i),
        get: () => Float64Array.from({ length: n }, (_, i) => i + 1) }); return s.valueAxis(false).lo })"""
    assert [page("eval", js=f"{axis}({n})") for n in (2, 8, 50, 51, 101)] == [2, 8, 50, 50, 99]
    page.clean()


def test_a_brush_selects_for_all_views_and_the_address_restores_it(page):
    page("goto", hash="#sweep=finished&view=parallel")
    page("drag", on="g.axis:has(text.name:text('lr')) .overlay", **{"from": [.5, .99], "to": [.5, .5]})
    page("wait", js="() => drover.selection.ranges.size === 1 && !document.querySelector('#selection').hidden")
    count = page("eval", js="drover.selection.count")
    assert 0 < count < 24
    page("eval", js="drover.go('table')")
    assert page("eval", js="document.querySelector('#main small').innerText") == f"{count} of 24"
    address = page("eval", js="location.hash")
    page("goto", hash=address)
    assert page("eval", js="[drover.view, drover.selection.count]") == ["table", count]
    file = page("eval", js="import('./selection.js').then(m => m.narrowedFile(drover.overview.file, drover.study, drover.selection))")
    assert "run_cap: 24" in file and '"lr": {"distribution":"log_uniform_values","min":0.00' in file and "program: f.py" in file
    page("click", on="#selection button:text('Clear')")
    page("wait", js="() => drover.selection.count === 24")
    page.clean()


def test_a_filter_is_an_expression_and_its_fault_is_named(page):
    page("goto", hash="#sweep=finished&view=table")
    page("fill", on="input.wide", text="kind == 'b' and beta < 1 and state == 'done'")
    page("wait", js="() => drover.selection.count > 0 && drover.selection.count < 24")
    page("fill", on="input.wide", text="kind = 'b'")
    page("wait", js="() => /column 6/.test(document.querySelector('[role=alert]').innerText)")
    page("fill", on="input.wide", text="")
    page("wait", js="() => drover.selection.count === 24")
    page.clean()


EXPRESSIONS = [("1 + 2 * 3 == 7", True), ("-2 ** 2 == -4", True), ("2 ** 3 ** 2 == 512", True), ("7 // 2 == 3 and -7 % 3 == 2", True),
               ("1 < 2 <= 2 < 3", True), ("1 < 3 < 2", False), ("not 1 == 2 or 1 / 0 == 1", True), ("1 / 0 < 1", False),
               ("log(0) < 1", False), ("max(1, 2, 3) == 3 and round(2.5) == 2", True), ("'a' == \"a\"", True), ("'a' < 1", False),
               ("trial == 3 and state == 'done'", True), ("true", True), ("x.y", None), ("1 +", None), ("foo(1)", None), ("(1", None), ("1 2", None), ("constructor(1)", None)]


def test_expressions_mean_what_they_mean_in_python(page):
    page("goto", hash="#sweep=finished&view=table")
    got = page("eval", js=f"""import('./expression.js').then(m => {json.dumps([e for e, _ in EXPRESSIONS])}.map(e => {{
        try {{ return m.compile(e, m.namesOf(drover.study))(3) }} catch {{ return null }} }}))""")
    assert got == [want for _, want in EXPRESSIONS]


def test_axes_move_and_hide_by_keyboard(page):
    page("goto", hash="#sweep=finished&view=parallel")
    names = "[...document.querySelectorAll('g.axis text.name')].sort((a, b) => a.getBoundingClientRect().x - b.getBoundingClientRect().x).map(e => e.textContent)"
    before = page("eval", js=names)
    page("press", on="g.axis:has(text.name:text('beta')) text.name", key="ArrowRight")
    assert page("eval", js=names) == [before[1], before[0], *before[2:]]
    page("press", on="g.axis:has(text.name:text('beta')) text.name", key="Delete")
    page("wait", js=f"() => document.querySelectorAll('g.axis').length === {len(before) - 1}")
    page("goto", hash=page("eval", js="location.hash"))
    assert page("eval", js=names) == [before[1], *before[2:]]
    page.clean()


def test_a_trial_shows_its_log_as_text_and_compares(page):
    page("goto", hash="#sweep=running&view=table&trial=1")
    page("wait", js="() => document.querySelector('#panel pre') && !/Loading/.test(document.querySelector('#panel pre').innerText)")
    page("click", on="#panel button:text('stderr')")
    page("wait", js="() => document.querySelector('#panel pre').innerText.includes('<script>alert(3)')")
    page("fill", on="#panel input[placeholder=trial]", text="0")
    page("wait", js="() => document.querySelectorAll('#panel tr.differs').length > 0")
    page("press", on="#panel", key="Escape")
    assert page("eval", js="document.querySelector('#panel').hidden && !location.hash.includes('trial')")
    page.clean()


def test_a_running_sweep_changes_by_itself(page, place):
    page("goto", hash="#sweep=running&view=overview")
    assert page("eval", js="document.querySelector('#state').innerText") == "running"
    (place.path / "go").touch()
    page("wait", js="() => document.querySelector('#state').innerText === 'finished' && drover.overview.counts.done === 3")
    page.clean()


def test_a_narrow_screen_and_the_dark_theme(page):
    page("size", width=360)
    page("scheme", name="dark")
    page("goto", hash="#sweep=finished&view=overview")
    for view in VIEWS:
        page("eval", js=f"drover.go('{view}')")
        wide = page("eval", js="document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, (view, wide)
        assert page("eval", js="document.documentElement.dataset.theme") == "dark"
        page.clean()
    page("size", width=1280)
    page("scheme", name="light")


def test_control_pauses_and_resumes_from_the_page(place):
    server = Server(place, "empty", "--control")
    b = Browser(place, server.url)
    b("goto", hash="")
    b("click", on="button:text('Pause')")
    b("wait", js="() => document.querySelector('#state').innerText === 'paused'")
    b("click", on="button:text('Resume')")
    b("wait", js="() => document.querySelector('#state').innerText === 'running'")
    b.clean()
    b.process.stdin.close()
    b.process.wait(20)
    server.process.terminate()


def test_buttons_save_what_is_drawn(page):
    page("goto", hash="#sweep=finished&view=overview")
    page("eval", js="window.saved = []; URL.createObjectURL = b => { saved.push(b); return 'data:,' }; HTMLAnchorElement.prototype.click = function () {}; 0")
    page("click", on="section[aria-label=History] button:text('CSV')")
    page("click", on="section[aria-label=History] button:text('SVG')")
    csv, svg = page("eval", js="Promise.all(saved.map(b => b.text()))")
    assert csv.splitlines()[0] == "trial,state,loss,best so far" and len(csv.splitlines()) == 25
    assert svg.startswith("<svg") and ">trial<" in svg
    assert svg.count("a3 3 0 1 0 6 0") == 23  # a circle per trial with a value
    for view, shapes in (("parallel", "path"), ("slices", "path"), ("curves", "path"), ("pareto", "path"), ("timeline", "rect")):
        page("eval", js=f"saved.length = 0; drover.go('{view}')")
        page("wait", js="() => document.querySelector('.plot canvas').width > 0 && drover.view && !/loading/.test(document.querySelector('#main').innerText)")
        page("click", on="#main section button:text('SVG') >> nth=0")
        svg = ElementTree.fromstring(page("eval", js="saved[0].text()"))
        names = [e.tag.rpartition("}")[2] for e in svg.iter()]
        assert "image" not in names and shapes in names and "text" in names, (view, names)
    page.clean()


def test_very_many_marks_are_an_image_in_the_svg_and_it_says_so(page):
    page("goto", hash="#sweep=finished&view=overview")
    said = page("eval", js="""import('./plot.js').then(async ({ Plot }) => {
        const saved = [], make = URL.createObjectURL, click = HTMLAnchorElement.prototype.click
        URL.createObjectURL = b => { saved.push(b); return 'data:,' }
        HTMLAnchorElement.prototype.click = () => {}
        const p = new Plot({ title: 'Many' })
        document.querySelector('#main').append(p.card)
        const f = p.frame()
        for (let k = 0; k < 20000; k++) f.ctx.fillRect(k % 300, k % 200, 1, 1)
        p.saveSvg()
        p.card.remove()
        URL.createObjectURL = make
        HTMLAnchorElement.prototype.click = click
        return saved[0].text() })""")
    assert "<image" in said and "too many for shapes" in said and said.count("<rect") == 1


def test_a_server_that_dies_is_named_and_the_page_stays(place):
    server = Server(place, "finished")
    b = Browser(place, server.url)
    b("goto", hash="#view=overview")
    server.process.kill()
    server.process.wait()
    b("wait", js="() => /connection to the server is lost/.test(document.querySelector('#notice').innerText)")
    assert "no such device" in b("eval", js="document.querySelector('#main').innerText")
    b("eval", js="drover.go('curves')")
    b("wait", js="() => /does not answer/.test(document.querySelector('#main').innerText)")
    b.process.stdin.close()
    b.process.wait(20)


def test_a_sweep_that_cannot_be_read_is_a_failure_with_its_reason(page, place):
    broken = place.path / "sweeps/broken"
    broken.mkdir()
    (broken / "sweep.db").write_bytes(b"not a store" * 1000)
    page("goto", hash="#sweep=broken&view=overview")
    page("wait", js="() => document.querySelector('.failed')")
    assert "broken" in page("eval", js="document.querySelector('.failed').innerText")
    page("faults")  # the console has the answer's status
