"""Pages of classifiers, under node and in Chromium: they answer what the run answers."""

import json
from dataclasses import replace

import pytest
import tokenizers
import torch

from subquad.data.tokenizers import Tokenizer
from subquad.errors import UsageError
from subquad.export.check import ask, check
from subquad.export.chromium import Chromium
from subquad.export.web import web
from subquad.tasks.calibration import Calibration
from subquad.tasks.regress import Regress
from tests.browser.classifiers import LABELS, classifier
from tests.browser.test_chromium import fill, opened, status
from tests.browser.test_node import HOSTILE, changed

MIXERS = ["fnet", "fastformer", "linear", "convolution", "none"]
#: Every other choice that a page implements, each with some mixer.
MODELS = [
    ("fnet", {"norm": "pre", "positions": "sinusoidal", "pooling": "cls"}),
    ("fnet", {"projection": True, "types": 4, "pooling": "pooler", "norm_eps": 1e-2}),
    ("fastformer", {"mixer_dense": True, "gelu": "exact", "pooling": "attention"}),
    ("fastformer", {"share_mixers": True, "positions": "none"}),
    ("linear", {"mixer_options": {"linear": {"feature_map": "relu"}}, "norm": "pre"}),
    ("linear", {"mixer_options": {"linear": {"feature_map": "relu^2", "heads": 1}}}),
    ("linear", {"mixer_options": {"linear": {"feature_map": "softmax"}}, "d": 30, "ff": 7}),
    ("linear", {"mixer_options": {"linear": {"feature_map": "hedgehog"}}, "pooling": "first"}),
    ("linear", {"mixer_options": {"linear": {"feature_map": "t2r"}}, "types": 2}),
    ("convolution", {"mixer_options": {"convolution": {"width": 5}}}),
    ("none", {"mixers": ("convolution", "fnet", "linear"), "layers": 4, "positions": "sinusoidal"}),
]
TEXTS = [*HOSTILE, "what a match, what a GOAL " * 30, "t", "?" * 41, "isn't"]


def answers(run, texts):
    """The run's probabilities, in fp32 whatever the processor prefers."""
    with torch.inference_mode():
        return [list(a["probabilities"].values()) for a in run.task.predict(run.model, texts)]


def agrees(run, page, texts=TEXTS):
    found = ask(page, {"kind": "check"}, *({"kind": "classify", "text": t} for t in texts))
    assert found[1]["passed"], found[1]
    chances = torch.tensor([a["chances"] for a in found[2:]])
    torch.testing.assert_close(chances, torch.tensor(answers(run, texts)), atol=1e-5, rtol=0)
    assert chances.max() - chances.min() > 0.1, "all the same: nothing was compared"
    return found[1]


@pytest.mark.usefixtures("need_node")
@pytest.mark.parametrize("kind", ["words", "chars", "bytes", "bpe", "unigram"])
@pytest.mark.parametrize("mixer", MIXERS)
def test_it_answers_what_the_run_answers(tmp_path, mixer, kind):
    run = classifier(tmp_path / "run", mixer, kind)
    web(run, tmp_path / "page.html", "f32")
    assert agrees(run, tmp_path / "page.html")["worst"] < 1e-5


@pytest.mark.usefixtures("need_node")
@pytest.mark.parametrize(("mixer", "model"), MODELS)
def test_every_choice_of_a_model(tmp_path, mixer, model):
    run = classifier(tmp_path / "run", mixer, **model)
    agrees(run, web(run, tmp_path / "page.html", "f32").out)


@pytest.mark.usefixtures("need_node")
def test_its_probabilities_are_calibrated(tmp_path):
    run = classifier(tmp_path / "run")
    plain = answers(run, TEXTS)
    run.task.way.calibration = Calibration(2.5, 1000)
    page = web(run, tmp_path / "page.html", "f32").out
    assert agrees(run, page)["worst"] < 1e-5, "the self-test compares logits"
    assert not torch.allclose(torch.tensor(answers(run, TEXTS)), torch.tensor(plain), atol=0.01)


@pytest.mark.usefixtures("need_node")
@pytest.mark.parametrize("length", [1, 2, 127, 512])
def test_every_length(tmp_path, length):
    """A prime one for the Fourier transform, and the longest that are usual."""
    run = classifier(tmp_path / "run", "fnet", "chars", length, mixers=("fnet", "linear"))
    web(run, tmp_path / "page.html", "f32")
    agrees(run, tmp_path / "page.html", ["a", "what a match", "é goal 🦊" * 100])


@pytest.mark.usefixtures("need_node")
def test_f16_is_smaller_and_holds_what_torch_says_of_the_rounded_weights(tmp_path):
    run = classifier(tmp_path / "run")
    sizes = [web(run, tmp_path / f"{p}.html", p).nbytes for p in ("f16", "f32")]
    assert sizes[0] < sizes[1]
    outcome = ask(tmp_path / "f16.html", {"kind": "check"})[-1]
    assert outcome["passed"]
    assert outcome["worst"] < 1e-5


@pytest.mark.usefixtures("need_node")
def test_one_wrong_weight_fails_and_tampering_is_refused(tmp_path):
    run = classifier(tmp_path / "run")
    page = web(run, tmp_path / "page.html", "f32").out
    outcome = ask(changed(page, tmp_path / "a.html", hashed=True), {"kind": "check"})[-1]
    assert (outcome["kind"], outcome["passed"]) == ("checked", False)
    assert outcome["worst"] > 1e-3
    (answer,) = ask(changed(page, tmp_path / "b.html", hashed=False))
    assert "weights of this page have been changed" in answer["message"]


@pytest.mark.usefixtures("need_node")
def test_another_token_fails(tmp_path):
    page = web(classifier(tmp_path / "run"), tmp_path / "page.html").out
    text = page.read_text("utf-8").replace('"match"', '"hctam"', 1)
    page.write_text(text, "utf-8")
    outcome = ask(page, {"kind": "check"})[-1]
    assert not outcome["ids"]
    assert not outcome["passed"]


@pytest.mark.usefixtures("need_node")
def test_half_a_character_and_a_pair_are_refused(tmp_path):
    page = web(classifier(tmp_path / "run", pooling="pooler"), tmp_path / "page.html").out
    for text, why in (("\ud83e", "unpaired surrogate"), ("a\x1fb", "would make it a pair")):
        assert why in ask(page, {"kind": "classify", "text": text})[-1]["message"]


def _foreign(path):
    run = classifier(path, kind="bpe")
    made = json.loads(run.task.tokenizer.to_json()) | {"normalizer": {"type": "NFC"}}
    run.task.tokenizer = Tokenizer(tokenizers.Tokenizer.from_str(json.dumps(made)))
    return run


def _pairs(path):
    run = classifier(path, pooling="pooler")
    run.task.config = replace(run.task.config, data=replace(run.task.config.data, pair="second"))
    return run


def _digits(path):
    run = classifier(path)
    run.task.tokenizer = None
    return run


REFUSED = [
    (
        lambda p: classifier(p, "softmax"),
        "layer 0 is SoftmaxAttention, but pages only support linear, fnet",
    ),
    (lambda p: classifier(p, "fnet", hybrid="top:1"), "layer 1 is SoftmaxAttention"),
    (lambda p: classifier(p, mixer_options={"fastformer": {"columns": 3}}), "non-default columns"),
    (
        lambda p: classifier(p, "fnet", mixer_options={"fnet": {"padding": "fixed"}}),
        "padding=fixed",
    ),
    (
        lambda p: classifier(p, "fnet", mixer_options={"fnet": {"transform": "dct"}}),
        "transform=dct",
    ),
    (_foreign, "this run has another"),
    (_pairs, "pairs of texts"),
    (_digits, "the run classifies pixels"),
    (lambda p: classifier(p, scale=1e9), "a weight exceeds 65504"),
]


@pytest.mark.parametrize(("make", "why"), REFUSED)
def test_what_no_page_can_do_is_refused(tmp_path, make, why):
    with pytest.raises(UsageError, match=why) as refused:
        web(make(tmp_path / "run"), tmp_path / "page.html")
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "page.html").exists()


def test_a_task_made_from_classification_is_refused(tmp_path):
    run = classifier(tmp_path / "run")
    number = Regress.__new__(Regress)
    number.__dict__ |= vars(run.task)
    config = replace(run.config, task="regress")
    with pytest.raises(UsageError, match="the task is regress"):
        web(replace(run, task=number, config=config), tmp_path / "page.html")


def test_int8_is_refused(tmp_path):
    with pytest.raises(UsageError, match="use --weights f16 or f32"):
        web(classifier(tmp_path / "run"), tmp_path / "page.html", "int8")


@pytest.fixture(scope="module")
def page(tmp_path_factory, need_chromium):  # noqa: ARG001
    folder = tmp_path_factory.mktemp("pages")
    return web(
        classifier(folder / "<img src=x onerror=document.title=1>"), folder / "page.html"
    ).out


@pytest.fixture(scope="module")
def browser(need_chromium):  # noqa: ARG001
    with Chromium(width=390) as browser:
        yield browser


def typed(browser, text):
    """What the page shows once it has answered to this text."""
    fill(browser, "text", text)
    browser.run("document.getElementById('text').dispatchEvent(new Event('input'))")
    browser.wait("!working && waiting === null")
    rows = "[...document.querySelectorAll('#classes li')].map((e) => "
    return browser.run(rows + "[...e.children].map((c) => c.textContent))")


def test_the_self_test_passes_in_chromium(page):
    found = check(page)
    assert found["chromium"]["passed"], found
    assert found["chromium"]["ids"]


def test_hostile_labels_and_texts_stay_text(browser, page):
    opened(browser, page)
    before = browser.run("document.getElementsByTagName('*').length")
    for text in [*HOSTILE, "<img src=x onerror=\"document.title='taken'\">" * 2000, "what a match"]:
        rows = typed(browser, text)
        assert [row[0] for row in rows] == list(LABELS)
        assert browser.run("document.getElementsByTagName('*').length") == before
    assert browser.run("document.title") == "<img src=x onerror=document.title=1> · subquad"
    chances = [float(row[2].split()[0]) for row in rows]
    assert sum(chances) == pytest.approx(100, abs=0.2)
    assert browser.run("document.querySelectorAll('#classes .first').length") == 1


def test_nothing_typed_shows_no_answer_and_a_long_text_says_what_is_read(browser, page):
    opened(browser, page)
    typed(browser, "a b c " * 1000)
    note = "document.getElementById('note').textContent"
    assert browser.run(note).startswith("Reads the first 40 of 3,000 words and punctuation")
    assert [row[2] for row in typed(browser, "")] == ["–"] * 3
    assert "Type some text" in browser.run(note)
    typed(browser, " ")
    assert "has no tokens" in browser.run(note)


def test_only_the_last_of_many_texts_is_answered(browser, page):
    opened(browser, page)
    for text in ("what", "what a", "what a match"):
        rows = typed(browser, text)
    script = (
        "for (const t of ['a', 'b', 'what a match']) { $('text').value = t; $('text').oninput(); }"
    )
    browser.run(script)
    browser.wait("!working && waiting === null")
    assert typed(browser, "what a match") == rows


def test_half_a_character_is_said_and_the_next_text_is_answered(browser, page):
    opened(browser, page)
    browser.run("$('text').value = '\\ud83e'; $('text').oninput()")
    browser.wait("!working")
    assert status(browser) == "The text contains an incomplete character (an unpaired surrogate)."
    typed(browser, "what a match")
    assert status(browser) == ""


def test_tampering_is_said(browser, page, tmp_path):
    text = page.read_text("utf-8")
    at = text.index('<script id="weights"') + 500
    broken = tmp_path / "broken.html"
    broken.write_text(text[:at] + ("B" if text[at] == "A" else "A") + text[at + 1 :], "utf-8")
    opened(browser, broken)
    assert "have been changed or damaged" in status(browser)


def test_it_fits_a_phone_and_loads_nothing(browser, page):
    opened(browser, page)
    typed(browser, "what a match")
    browser.run("document.querySelectorAll('details').forEach(e => { e.open = true; })")
    nameless = browser.run(
        "[...document.querySelectorAll('textarea, button')].filter(e =>"
        " !(e.labels?.length || e.textContent.trim() || e.ariaLabel)).map(e => e.outerHTML)"
    )
    assert nameless == []
    assert browser.run("document.documentElement.scrollWidth") <= 390
    loaded = browser.run("performance.getEntriesByType('resource').map(e => e.name.slice(0, 5))")
    assert set(loaded) <= {"blob:"}
    spoken = browser.wait("document.getElementById('spoken').textContent")
    assert "%" in spoken


def test_of_many_classes_the_likeliest_are_shown(browser, tmp_path):
    run = classifier(tmp_path / "run", classes=40)
    opened(browser, web(run, tmp_path / "page.html").out)
    rows = typed(browser, "what a match")
    chances = torch.tensor(answers(run, ["what a match"])[0])
    best = [run.task.labels.names[int(i)] for i in chances.topk(12).indices]
    assert [row[0] for row in rows[:12]] == best
    text = browser.run("document.querySelector('#classes .rest').textContent")
    assert text.startswith("and 28 more")
    assert json.loads(text.split(", ")[1].split()[0]) == pytest.approx(
        100 * float(1 - chances.topk(12).values.sum()), abs=0.3
    )
