"""The report in a real browser: everything is drawn, nothing complains, nothing is loaded; by keyboard and by phone."""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path

import pytest
from chromium import FOUND, chromium
from recorded_runs import episode, write_run
from test_report import HOSTILE

from leap_jax.report.__main__ import main

pytestmark = pytest.mark.skipif(FOUND is None, reason="no Chromium on the path: install the package chromium")

SIZES = {"desktop": (1400, 900, False), "dark": (1400, 900, True), "phone": (390, 844, False)}


@pytest.fixture(scope="module")
def browser():
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile, chromium(Path(profile)) as page:
        yield page


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Path:
    """A page of two methods and three runs, one of which writes hostile texts."""
    folder = tmp_path_factory.mktemp("runs")

    def hostile(task, outcomes):
        return episode(task, outcomes, texts=HOSTILE[3 * outcomes.endswith("c") :], feedback=HOSTILE[0] + HOSTILE[1])

    for seed in (0, 1):
        write_run(folder / "leap" / f"seed_{seed}", settings={"seed": seed})
    groups = [["iii", "iic", "ic", "c"]]
    settings = {"gate.mode": "always"}
    write_run(
        folder / "hostile-0", groups=lambda s: groups, heldout=lambda s: groups, episodes=hostile, settings=settings
    )
    assert main([str(folder), f"--out={folder / 'report.html'}"]) == 0
    return folder / "report.html"


def count(page, selector: str) -> int:
    return page.evaluate(f"document.querySelectorAll({selector!r}).length")


def text(page, selector: str) -> str:
    return page.evaluate(f"document.querySelector({selector!r}).textContent")


@pytest.mark.parametrize("size", SIZES)
def test_everything_is_drawn_and_nothing_complains(browser, report, size, tmp_path):
    width, height, dark = SIZES[size]
    browser.look(width=width, height=height, dark=dark)
    browser.open(report)
    plots = count(browser, ".plot")
    assert plots >= 10
    drawn = "[...plot.querySelectorAll('.trace path')].some(path => path.getBBox().width + path.getBBox().height > 0)"
    assert browser.evaluate(f"[...document.querySelectorAll('.plot')].every(plot => {drawn})")
    assert count(browser, "table tbody tr") >= 8
    assert count(browser, ".chip") == 2 * (16 + 6) + 8 + 4
    assert count(browser, ".turn") == 3 and count(browser, ".turn .code .line") >= 3
    assert browser.evaluate("document.documentElement.scrollWidth") <= width  # nothing sticks out
    background = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(18, 21, 27)" if dark else "rgb(255, 255, 255)")
    axis = browser.evaluate("getComputedStyle(document.querySelector('.plot .xtick text')).fill")
    assert axis == ("rgb(226, 230, 238)" if dark else "rgb(28, 35, 48)")
    assert (browser.messages, browser.requests) == ([], [report.absolute().as_uri()])
    picture = tmp_path / "page.png"
    browser.screenshot(picture)
    assert struct.unpack(">II", picture.read_bytes()[16:24]) == (width, height)


def test_a_view_of_a_plot_is_chosen(browser, report):
    browser.look(width=1400, height=900)
    browser.open(report)
    title = "document.querySelector('#plot-0 .xtitle').textContent"
    assert browser.evaluate(title) == "verifications"
    select = "document.querySelector('select[data-plot=\"0\"]')"
    browser.evaluate(f"{select}.value = 3; {select}.dispatchEvent(new Event('change'))")
    assert browser.evaluate(title) == "step"


def test_an_address_leads_to_a_rollout_and_keys_to_the_next(browser, report):
    browser.look(width=1400, height=900)
    browser.open(report)
    run = "leap/seed_1"
    browser.evaluate(
        f"location.hash = new URLSearchParams({{run: '{run}', kind: 'train', step: 2, prompt: 0, rollout: 1}})"
    )
    browser.evaluate("new Promise(resolve => setTimeout(resolve, 50))")
    assert text(browser, "#rollout-view h3") == (
        f"{run}, train, step 2, composed/20, rollout 1: passes in turn 3, reward -0.3333"
    )
    assert count(browser, ".turn") == 3
    assert count(browser, ".code .keyword") > 0 and count(browser, ".code .comment") > 0
    assert count(browser, ".code .added") == count(browser, ".code .removed") == 2  # a line in turns 2 and 3
    assert text(browser, ".line.named").startswith("    if (i < n)")  # line 4 of the source, as the feedback says
    assert text(browser, ".feedback") == "line 4: wrong"
    shades = "[...document.querySelectorAll('.turn:first-child .code span span')].map(s => s.style.backgroundColor)"
    assert browser.evaluate(shades)[0] == "rgba(224, 96, 70, 0)" != browser.evaluate(shades)[-1]
    address = browser.evaluate("location.hash")
    browser.press("j")
    assert "rollout 2: never passes" in text(browser, "#rollout-view h3")
    assert browser.evaluate("location.hash") != address
    browser.press("k")
    assert browser.evaluate("location.hash") == address
    browser.open(report, address)  # as somebody who was sent it
    assert "rollout 1: passes in turn 3" in text(browser, "#rollout-view h3")
    assert text(browser, ".chip[aria-pressed='true']") == "3"
    assert browser.messages == []


def test_the_list_is_filtered(browser, report):
    browser.look(width=1400, height=900)
    browser.open(report)

    def choose(name: str, value: str) -> int:
        browser.evaluate(
            f"document.querySelector('#filters').elements.{name}.value = {value!r};"
            "document.querySelector('#filters').dispatchEvent(new Event('input'))"
        )
        return count(browser, ".group")

    everything = count(browser, ".group")
    assert choose("outcome", "passes later") == everything - 2 - 2 - 2 - 2  # no such in a hopeless or an easy group
    assert choose("outcome", "") == everything
    assert choose("step", "1") == 5
    assert choose("kind", "held out") == 1 and "no group" in text(browser, ".group")
    assert choose("step", "") == 7
    assert choose("task", "COMPOSED/92") == 2


def test_hostile_text_is_shown_and_does_nothing(browser, report):
    browser.look(width=390, height=844)
    browser.open(report)
    browser.evaluate(
        "document.querySelector('#filters').elements.run.value = 'hostile-0';"
        "document.querySelector('#filters').dispatchEvent(new Event('input'))"
    )
    seen = set()
    for _ in range(16):
        browser.press("j")
        seen |= set(browser.evaluate("[...document.querySelectorAll('.line:not(.removed)')].map(l => l.textContent)"))
    assert HOSTILE[0] in seen and "x" * 8000 in seen
    assert count(browser, "img") == count(browser, "main script") == 0
    assert browser.evaluate("document.documentElement.scrollWidth") == 390
    assert (browser.messages, browser.requests) == ([], [report.absolute().as_uri()])
