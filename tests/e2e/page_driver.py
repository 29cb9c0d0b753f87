"""Drives the dashboard in Chromium. Runs in the environment that has playwright:

    page_driver.py URL [--no-scripts] < STEPS > ANSWERS

A step is a line of JSON: {"do": "goto", "hash": "#view=table"}, {"do": "eval", "js": "…"}, {"do": "wait", "js": "…"},
{"do": "click", "on": SELECTOR}, {"do": "press", "on": SELECTOR, "key": "Delete"}, {"do": "fill", "on": SELECTOR, "text":
"…"}, {"do": "drag", "on": SELECTOR, "from": [x, y], "to": [x, y]} (shares of its box), {"do": "size", "width": 360},
{"do": "scheme", "name": "dark"}, {"do": "motion", "name": "reduce"}, {"do": "tree"} (role and name of each node of the
accessibility tree), {"do": "tabs"} (what the key Tab reaches, one after the other), {"do": "visible", "on": SELECTOR} (how
many), {"do": "faults"}. Each has an answer: a line of JSON. `faults` are the errors and
warnings of the console, the page's exceptions, and requests to another origin, since the last time it was asked."""
import json
import os
import sys

from playwright.sync_api import sync_playwright

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
LIMIT_MS = 60000
# null: the page has lost the focus, or Tab has come round.
FOCUSED = """() => {
    const e = document.activeElement, last = passed.at(-1)
    if (!e || e === document.body || passed.includes(e)) return null
    passed.push(e)
    const ringed = n => n && (parseFloat(getComputedStyle(n).outlineWidth) >= 2 && getComputedStyle(n).outlineStyle !== 'none')
    const box = e.getBoundingClientRect()
    return [e.tagName + ' ' + (e.getAttribute('aria-label') ?? e.textContent ?? '').slice(0, 40),
        !last || !!(last.compareDocumentPosition(e) & Node.DOCUMENT_POSITION_FOLLOWING),
        (ringed(e) || ringed(e.closest('.virtual'))) && box.width > 0 && box.height > 0]
}"""


class Driver:
    def __init__(self, play, url, scripts=True):
        self.url, self.faults, self.scripts = url, [], scripts
        self.browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=LIMIT_MS)
        self.page = self.browser.new_page(viewport={"width": 1280, "height": 900}, java_script_enabled=scripts)
        self.page.set_default_timeout(LIMIT_MS)
        origin = url if url.startswith("file:") else "/".join(url.split("/")[:3]) + "/"
        self.page.on("pageerror", lambda e: self.faults.append(f"exception: {e}"))
        self.page.on("console", lambda m: self.faults.append(f"{m.type}: {m.text}") if m.type in ("error", "warning") else None)
        self.page.on("request", lambda r: None if r.url.startswith((origin, "blob:")) else self.faults.append(f"foreign: {r.url}"))
        self.page.on("dialog", lambda d: (self.faults.append(f"dialog: {d.message}"), d.dismiss()))

    def goto(self, hash):
        self.page.goto("about:blank")
        self.page.goto(self.url + hash)
        if not self.scripts:
            return
        self.page.wait_for_function("() => !document.querySelector('#main .loading')")

    def eval(self, js):
        return self.page.evaluate(js)

    def wait(self, js):
        self.page.wait_for_function(js)

    def click(self, on):
        self.page.click(on)

    def press(self, on, key):
        self.page.press(on, key)

    def fill(self, on, text):
        self.page.fill(on, text)
        self.page.press(on, "Enter")

    def drag(self, on, **ends):
        box = self.page.locator(on).first.bounding_box()
        for (x, y), act in ((ends["from"], self.page.mouse.down), (ends["to"], self.page.mouse.up)):
            self.page.mouse.move(box["x"] + box["width"] * x, box["y"] + box["height"] * y, steps=4)
            act()

    def size(self, width):
        self.page.set_viewport_size({"width": width, "height": 800})

    def scheme(self, name):
        self.page.emulate_media(color_scheme=name)

    def motion(self, name):
        self.page.emulate_media(reduced_motion=name)

    def tree(self):
        nodes = self.page.context.new_cdp_session(self.page).send("Accessibility.getFullAXTree")["nodes"]
        return [[n["role"]["value"], n.get("name", {}).get("value", "")] for n in nodes if not n["ignored"]]

    def tabs(self):
        """[what, whether it follows the one before in the document, whether its focus is visible], …"""
        self.page.evaluate("() => { document.activeElement.blur(); window.passed = []; getSelection().removeAllRanges(); scrollTo(0, 0) }")
        found = []
        while len(found) < 200:
            self.page.keyboard.press("Tab")
            at = self.page.evaluate(FOCUSED)
            if at is None:
                return found
            found.append(at)
        raise AssertionError(f"Tab has no end: {found[-5:]}")

    def visible(self, on):
        return sum(node.is_visible() for node in self.page.locator(on).all())

    def take_faults(self):
        faults, self.faults = self.faults, []
        return faults


def main():
    with sync_playwright() as play:
        d = Driver(play, sys.argv[1], "--no-scripts" not in sys.argv)
        for line in sys.stdin:
            step = json.loads(line)
            what = step.pop("do")
            answer = {}
            try:
                answer["value"] = d.take_faults() if what == "faults" else getattr(d, what)(**step)
            except Exception as e:  # noqa: BLE001  the test says what was expected
                answer["failed"] = f"{type(e).__name__}: {e}"
            print(json.dumps(answer), flush=True)
        d.browser.close()


main()
