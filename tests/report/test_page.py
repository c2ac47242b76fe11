"""The page in a real browser: it draws without an error, on light and dark, with one capture and with 5,000, quickly,
and reacts to clicks.

Screenshots are kept in build/report for people to look at. Skipped where there is no Chromium.
"""

from __future__ import annotations

import copy
import html
import json
import pathlib
import random
import re
import shutil
import subprocess

import pytest
import torch

import stator
from stator import recording

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
OUT = pathlib.Path(__file__).resolve().parents[2] / "build" / "report"
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium: apt-get install chromium")
OPTIONS = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--host-resolver-rules=MAP * ~NOTFOUND"]
THEMES = {"light": ["--blink-settings=preferredColorScheme=1"], "dark": ["--blink-settings=preferredColorScheme=0"]}


def inner(y):
    print(end="")
    return y.relu()


def outer(x, k):
    y = inner(x + 1)
    if y.sum() > 1000:
        y = y + 1
    return y * k


def _data(calls):
    stator.reset()
    compiled = stator.compile(outer, backend="eager")
    simple = stator.compile(lambda x: x + 1, backend="eager")
    with stator.report() as report:
        simple(torch.ones(2))
        for rows in range(3, 3 + calls):
            compiled(torch.randn(rows, 4), 2)
        return report.data()


def _many(data, count):
    """As of a long program: so many captures of 200 functions."""
    pick = random.Random(0)
    process = data["processes"][0]
    kinds = [copy.deepcopy(one) for one in process["captures"]]
    known = len(process["functions"])
    process["functions"] += [{**pick.choice(process["functions"][:known]), "name": f"function_{n}"} for n in range(200)]
    process["captures"] = []
    now = 0.0
    for _ in range(count):
        one = copy.deepcopy(pick.choice(kinds))
        one.update(start=now, capture_seconds=pick.expovariate(500), backend_seconds=pick.expovariate(50), function=known + pick.randrange(200),
                   thread=pick.choice(["MainThread"] * 9 + ["worker"]))  # fmt: skip
        one["guards"] = [[text, cost and cost * pick.random()] for text, cost in one["guards"]]
        now += one["capture_seconds"] + one["backend_seconds"] + pick.expovariate(100)
        process["captures"].append(one)
    process["seconds"] = now
    process["recompiles"] += [
        {**pick.choice(process["recompiles"]), "place": f"/a/b.py:{n} in function_{n}"} for n in range(300)
    ]
    return data


@pytest.fixture(scope="module", params=["one", "few", "many", "ranks"])
def page(request, tmp_path_factory):
    data = _data({"one": 0, "few": 2, "many": 2, "ranks": 1}[request.param])
    if request.param == "many":
        data = _many(data, 5000)
    if request.param == "ranks":
        other = json.loads(json.dumps(data))
        other["processes"][0].update(
            rank=1, breaks=[], captures=[{**one, "break": None} for one in other["processes"][0]["captures"]]
        )
        data = recording.merge([data, other])
    path = tmp_path_factory.mktemp("page") / "page.html"
    return request.param, data, recording.write(data, str(path))


def _browser(*options):
    done = subprocess.run([BROWSER, *OPTIONS, *options], capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


def _dom(path, *options):
    return _browser(*options, "--virtual-time-budget=8000", "--dump-dom", f"file://{path}")


def _attribute(dom, name):
    found = re.search(rf'<html[^>]* data-{name}="([^"]*)"', dom)
    return html.unescape(found.group(1)) if found else None


def test_it_opens_quickly_and_without_an_error(page):
    name, data, path = page
    dom = _dom(path)
    assert _attribute(dom, "error") is None
    ready = int(_attribute(dom, "ready"))
    print(f"{name}: {ready} ms to draw, {pathlib.Path(path).stat().st_size / 2**20:.1f} MiB")
    assert ready < 2000
    dom = dom.partition('<script id="data"')[0]
    process = data["processes"][0]
    for section in (
        "time",
        "functions",
        "guards",
        *(["breaks"] if process["breaks"] else []),
        *(["recompiles"] if process["recompiles"] else []),
    ):
        assert f'id="{section}"' in dom
    assert ("Nothing to mend" in dom) == (name == "one")
    # lists are made a piece at a time
    assert dom.count('class="row') < 5000 and dom.count('class="item"') <= 60


@pytest.mark.parametrize("theme", THEMES)
def test_screenshots(page, theme):
    name, _, path = page
    OUT.mkdir(parents=True, exist_ok=True)
    shot = OUT / f"{name}-{theme}.png"
    shot.unlink(missing_ok=True)
    _browser(
        *THEMES[theme],
        "--window-size=1280,2400",
        "--virtual-time-budget=8000",
        f"--screenshot={shot}",
        f"file://{path}",
    )
    assert shot.stat().st_size > 20_000


CLICKS = """
<script>
// By a timer, which the browser's own clock waits for; frames may be left out on a busy machine.
const act = (tries) => {
  const seen = {}, at = (query) => document.querySelector(query);
  const canvas = at("#timeline");
  const painted = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  seen.painted = painted.some((value) => value > 0);
  if (!seen.painted && tries > 0) return setTimeout(act, 100, tries - 1);
  const entries = document.querySelectorAll(".entry");
  entries[entries.length - 1].click();
  seen.chosen = at(".entry.on b").textContent;
  seen.source = document.querySelectorAll(".detail .pane .row").length;
  const pills = document.querySelectorAll(".pills .pill");
  pills[pills.length - 1].click();
  seen.pill = [...document.querySelectorAll(".pills .pill")].findIndex((one) => one.classList.contains("on")) === pills.length - 1;
  const green = at(".pane .row.in");
  green.dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
  seen.lit = document.querySelectorAll(".graph .row.lit").length;
  const search = at("input");
  search.value = "inner";
  search.oninput();
  seen.filtered = [...document.querySelectorAll(".entry b")].map((one) => one.textContent);
  const guard = at("#guards details");
  guard.open = true;
  guard.ontoggle();
  seen.guards = guard.querySelectorAll(".inner .guard").length;
  document.documentElement.dataset.seen = JSON.stringify(seen);
};
setTimeout(act, 100, 40);
</script>
"""


def test_it_reacts(tmp_path):
    data = _data(2)
    path = tmp_path / "page.html"
    recording.write(data, str(path))
    path.write_text(path.read_text().replace("</body>", CLICKS + "</body>"))
    dom = _dom(path, "--window-size=1280,2400")
    assert _attribute(dom, "error") is None
    seen = json.loads(_attribute(dom, "seen"))
    assert seen["painted"] and seen["pill"] and seen["source"] > 3 and seen["lit"] > 0 and seen["guards"] > 1
    assert seen["filtered"] == ["inner"] and seen["chosen"]


def test_notebook_fragments():
    OUT.mkdir(parents=True, exist_ok=True)
    stator.reset()
    compiled = stator.compile(outer, backend="eager")
    found = stator.explain(outer)(torch.randn(3, 4), 2)
    text = f"<meta charset=utf-8>{found._repr_html_()}<hr>{stator.guards(compiled)(torch.randn(3, 4), 2)._repr_html_()}"
    path = OUT / "notebook.html"
    path.write_text(text)
    _browser("--window-size=1000,800", f"--screenshot={OUT / 'notebook.png'}", f"file://{path}")
    assert (OUT / "notebook.png").stat().st_size > 10_000
