"""Pages in a real browser, over file://: what a person sees and can do."""

import json
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from subquad.export.check import check
from subquad.export.chromium import Chromium
from subquad.export.web import web
from tests.browser.conftest import language
from tests.browser.test_node import HOSTILE, changed

pytestmark = pytest.mark.usefixtures("need_chromium")


@pytest.fixture(scope="module")
def browser(need_chromium):  # noqa: ARG001
    with Chromium(width=390) as browser:
        yield browser


def opened(browser, page, query=""):
    browser.open("about:blank")
    browser.wait("document.URL === 'about:blank'")
    browser.open(page.as_uri() + query)
    browser.wait("document.documentElement.dataset.ready || document.documentElement.dataset.error")


def status(browser):
    return browser.run("document.getElementById('status').textContent")


def click(browser, name):
    browser.run(f"document.getElementById('{name}').click()")


def fill(browser, name, value):
    browser.run(f"document.getElementById('{name}').value = {json.dumps(value)}")


def finished(browser):
    browser.wait("!document.getElementById('go').disabled")


@pytest.mark.parametrize("name", ["bytes", "chars", "grey", "mixture"])
def test_the_self_test_passes(pages, name):
    found = check(pages[name])
    assert found["chromium"]["passed"], found
    assert found["chromium"]["worst"] < 1e-4


def test_over_http(browser, pages):
    handler = partial(SimpleHTTPRequestHandler, directory=str(pages["bytes"].parent))
    handler.log_message = lambda *_: None
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser.open(f"http://127.0.0.1:{server.server_port}/bytes.html?selftest=1")
        browser.wait("document.documentElement.dataset.selftest === 'passed'")
        server.shutdown()


def test_one_wrong_weight_fails_and_tampering_is_refused(browser, pages, tmp_path):
    opened(browser, changed(pages["grey"], tmp_path / "a.html", hashed=True), "?selftest=1")
    browser.wait("document.documentElement.dataset.selftest === 'failed'")
    assert "FAILED" in status(browser)
    opened(browser, changed(pages["grey"], tmp_path / "b.html", hashed=False))
    assert "have been changed or damaged" in status(browser)
    assert browser.run("document.getElementById('go').disabled")


def test_hostile_prompts_stay_text(browser, pages):
    opened(browser, pages["bytes"])
    before = browser.run("document.getElementsByTagName('*').length")
    for prompt in [*HOSTILE, "<img src=x onerror=\"document.title='taken'\">" * 2000]:
        fill(browser, "prompt", prompt)
        fill(browser, "length", "20")
        click(browser, "go")
        finished(browser)
        assert " tokens " in status(browser)  # the rate is not shown of a text that ended early
        shown = browser.run("document.getElementById('output').textContent")
        lines = browser.run("document.getElementById('prompt').value")
        assert shown.startswith(lines)
        assert browser.run("document.getElementsByTagName('*').length") == before + 1
    assert browser.run("document.title") == "bytes · subquad"


def test_hostile_names_and_tokens_stay_text(browser, tmp_path):
    name = "<img src=x onerror=document.title=1>&amp;'\""
    texts = ("<!--<script></script>-->",)
    run = language(tmp_path / name, "chars", texts=texts)
    web(run, tmp_path / "page.html")
    opened(browser, tmp_path / "page.html")
    assert browser.run("document.querySelector('h1').textContent") == name
    assert browser.run("document.images.length") == 0
    assert status(browser) == "Ready."


def test_wrong_settings_are_named_and_nothing_runs(browser, pages):
    opened(browser, pages["bytes"])
    for name, value, says in (
        ("temperature", "-1", "Temperature must be 0 or a positive number."),
        ("top_p", "1.5", "Top-p must be above 0 and at most 1."),
        ("seed", "0.5", "Seed must be a whole number of at least 0."),
    ):
        usual = browser.run(f"document.getElementById('{name}').value")
        fill(browser, name, value)
        click(browser, "go")
        assert status(browser) == says
        fill(browser, name, usual)


def test_stop_stops(browser, pages):
    opened(browser, pages["bytes"])
    fill(browser, "length", "1000000")
    click(browser, "go")
    browser.wait("document.getElementById('output').textContent.length > 100")
    click(browser, "stop")
    finished(browser)
    assert "stopped by you" in status(browser) or "the model ended" in status(browser)


def test_a_picture_is_begun_by_keyboard_and_completed(browser, pages):
    opened(browser, pages["grey"])
    click(browser, "mine")
    browser.run("document.getElementById('canvas').focus()")
    for key in ("Space", "ArrowDown", "Space"):
        browser.press(key)
    assert status(browser) == "Row 2, column 3, painted."
    top = browser.run("Array.from(picture.subarray(0, 15))")
    assert max(top) == 8
    click(browser, "go")
    finished(browser)
    assert browser.run("Array.from(picture.subarray(0, 15))") == top
    assert "20 pixels" in status(browser)
    assert browser.run("document.getElementById('shelf').children.length") == 1


@pytest.mark.parametrize("name", ["bytes", "grey"])
def test_everything_has_a_name_and_fits_a_phone(browser, pages, name):
    opened(browser, pages[name])
    for box in ("details", "#begin"):
        browser.run(f"document.querySelectorAll('{box}').forEach(e => {{ e.open = true; }})")
    nameless = browser.run(
        "[...document.querySelectorAll('input, textarea, button, canvas, [tabindex]')].filter(e =>"
        " !(e.labels?.length || e.textContent.trim() || e.ariaLabel)).map(e => e.outerHTML)"
    )
    assert nameless == []
    assert browser.run("document.documentElement.scrollWidth") <= 390
    loaded = browser.run("performance.getEntriesByType('resource').map(e => e.name.slice(0, 5))")
    assert set(loaded) <= {"blob:"}
