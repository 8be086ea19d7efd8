"""Texts: prompts, stop sequences, streaming, beams, saved states."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from subquad.data.tokenizers import Tokenizer
from subquad.errors import SubquadError, UsageError
from subquad.generation import Request, Sampling, Saved, TorchDecoder, images, write
from subquad.generation.beams import search
from subquad.generation.streaming import TextStream
from subquad.kernels import status
from subquad.run import load
from subquad.tasks import task_class
from subquad.training import train

GREEDY = Sampling(temperature=0.0)


def trained(folder, text, **model):
    (folder / "book.txt").write_text(text, encoding="utf-8")
    c = task_class("language").defaults()
    small = {"mixers": ("linear",), "layers": 1, "d": 32, "heads": 2, "ff": 32, "dropout": 0.0}
    small |= model
    c = replace(
        c,
        data=replace(c.data, path=str(folder / "book.txt"), length=32),
        model=replace(c.model, **small),
        training=replace(c.training, minutes=None, steps=120, lr=1e-2, batch=8),
    )
    return train(c, folder / "run")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("language"), "abcd " * 200)


@pytest.fixture(scope="module")
def endless(tmp_path_factory):
    """A run without learned positions."""
    return trained(tmp_path_factory.mktemp("endless"), "abcd " * 200, positions="none")


def texts(run, how=GREEDY, **request):
    return [t.text for t in write(run, Request(**request), how).texts]


def test_texts_begin_with_the_prompt_and_continue_it(run):
    made = write(run, Request(prompts=["abcd ab"], samples=2, length=10), GREEDY)
    assert [t.text for t in made.texts] == ["abcd abcd abcd ab"] * 2
    assert made.tokens == 20
    assert made.served_by == ("step engine" if status().native else "torch scan")


def test_many_prompts_are_each_as_if_alone(run):
    prompts = ["a", "abcd ab", "", "d abcd abcd"]
    how = Sampling(seed=4)
    together = texts(run, how, prompts=prompts, samples=2, length=12)
    assert [t[: len(p)] for t, p in zip(together[::2], prompts, strict=True)] == prompts
    for i, prompt in enumerate(prompts):
        assert together[2 * i : 2 * i + 2] == texts(
            run, how, prompts=[prompt], samples=2, length=12
        )
    assert len({t[len(p) :] for t, p in zip(together, np.repeat(prompts, 2), strict=True)}) > 1


def test_samples_of_a_prompt_differ_and_a_prompt_that_comes_twice_does_not(run):
    made = texts(
        run, Sampling(seed=4, temperature=4.0), prompts=["a", "b", "a"], samples=3, length=12
    )
    assert made[:3] == made[6:]
    assert len(set(made[:3])) > 1


def test_texts_beyond_the_positions_are_refused(run):
    """X13: past the trained length, both numbers are named."""
    with pytest.raises(UsageError, match="exceed the 32 positions"):
        texts(run, prompts=["ab"], length=31)
    assert write(run, Request(prompts=["ab"], length=30), Sampling()).tokens == 30


def test_a_text_ends_before_its_stop_sequence(run):
    made = write(run, Request(prompts=["abcd ab"], length=20, stop=["d a", "zz"]), GREEDY)
    assert made.texts[0].text == "abcd abc"
    assert made.texts[0].ended == "stop"
    assert made.texts[0].tokens < 20
    assert texts(run, prompts=["abcd ab"], length=5, stop=["nowhere"]) == ["abcd abcd ab"]


def test_texts_that_end_at_different_times_do_not_touch_each_other(run):
    """Each is what it would be without the stop sequence, up to there."""
    how, request = Sampling(seed=4, temperature=2.0), {"prompts": ["a", "bc"], "samples": 4}
    whole = write(run, Request(length=25, **request), how).texts
    cut = write(run, Request(length=25, stop=["d"], **request), how).texts
    assert len({text.tokens for text in cut}) > 2
    for one, other in zip(cut, whole, strict=True):
        follows = other.text.removeprefix(other.prompt)
        assert one.text == one.prompt + follows.partition("d")[0]


def test_the_state_of_a_stopped_text_has_read_no_further(endless):
    """The start and the prompt, then all that was drawn but the last."""
    request = Request(prompts=["abcd ab"], length=20, stop=["d a"], save=True)
    made = write(endless, request, GREEDY)
    assert made.texts[0].ended == "stop"
    assert int(made.saved.state.position[0]) == 1 + len("abcd ab") + made.texts[0].tokens - 1


def test_what_is_heard_is_what_is_written(run):
    heard = {0: "", 1: ""}

    def listen(number, piece):
        heard[number] += piece

    request = Request(prompts=["abcd a", "b"], length=12, stop=["cd abcd a"])
    made = write(run, request, GREEDY, listen=listen)
    assert [p + heard[i] for i, p in enumerate(request.prompts)] == [t.text for t in made.texts]


@pytest.mark.parametrize("kind", ["bytes", "chars", "words", "bpe", "unigram"])
def test_streamed_text_is_the_decoded_text(kind):
    """Characters of several bytes, cut anywhere, are held back until they are whole."""
    text = "Grüße 👩‍👩‍👧 你好, naïve café 🎉🎉 end. " * 20
    tokenizer = Tokenizer.train(kind, [text], 400)
    ids = tokenizer.encode([text])[0]
    stream = TextStream(tokenizer.decode)
    pieces = [stream.push(i) for i in ids] + [stream.finish()]
    assert "".join(pieces) == tokenizer.decode(ids)
    assert kind == "words" or not any("\ufffd" in piece for piece in pieces)
    assert sum(map(bool, pieces)) > 10  # it does stream


def test_bytes_that_are_no_text_are_shown_as_such():
    tokenizer = Tokenizer.train("bytes", [], 258)
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        ids = torch.randint(2, 258, (40,), generator=generator).tolist()
        stream = TextStream(tokenizer.decode)
        assert "".join(map(stream.push, ids)) + stream.finish() == tokenizer.decode(ids)


def test_a_stop_sequence_cut_by_tokens_is_found_and_hidden():
    tokenizer = Tokenizer.train("bytes", [], 258)
    ids = tokenizer.encode(["one END two"])[0]
    stream = TextStream(tokenizer.decode, stop=["END"])
    assert [stream.push(i) for i in ids][:6] == ["", "", "o", "n", "e", " "][:6]
    assert stream.stopped
    with pytest.raises(UsageError, match="empty"):
        TextStream(tokenizer.decode, stop=[""])


def test_beams_scores_equal_a_fresh_forward(run):
    """B16: the states are reordered with the beams, or the scores would not be those of the
    tokens."""
    prompt = torch.tensor([[run.task.start, 99, 100]])
    found = search(TorchDecoder(run.model), prompt, 8, beams=5, end=run.task.start)
    assert len({tuple(b.tokens) for b in found}) == 5
    assert [b.score for b in found] == sorted((b.score for b in found), reverse=True)
    for beam in found:
        whole = torch.cat([prompt, torch.tensor([beam.tokens])], dim=1)
        with torch.inference_mode():
            logp = run.model(whole[:, :-1]).double().log_softmax(-1)[0, prompt.shape[1] - 1 :]
        score = logp.gather(1, torch.tensor(beam.tokens).unsqueeze(1)).sum()
        assert beam.score == pytest.approx(float(score), abs=1e-4)


def test_a_wide_search_finds_the_best(run):
    """With as many beams as there are texts, the search is exhaustive."""
    prompt = torch.tensor([[run.task.start]])
    wide = search(TorchDecoder(run.model), prompt, 2, beams=300, end=run.task.start)[0]
    with torch.inference_mode():
        first = run.model(prompt)[0, -1].double().log_softmax(-1)
        rows = torch.stack([prompt[0, 0].expand(258), torch.arange(258)], dim=1)
        both = first[:258, None] + run.model(rows)[:, -1].double().log_softmax(-1)
    best = max(float(both.max()), float(first[run.task.start]))
    assert wide.score == pytest.approx(best, abs=1e-4)


def test_beams_through_the_door(run):
    made = write(run, Request(prompts=["abcd ab", "c"], beams=3, samples=2, length=6), Sampling())
    assert len(made.texts) == 4
    assert made.texts[0].score >= made.texts[1].score
    assert made.texts[0].text == "abcd abcd abc"


def test_a_saved_state_goes_on_as_if_never_stopped(endless, tmp_path):
    how = Sampling(seed=8)
    whole = texts(endless, how, prompts=["abcd"], length=30)[0]
    first = write(endless, Request(prompts=["abcd"], length=12, save=True), how)
    first.saved.save(tmp_path / "state")
    rest = write(endless, Request(length=18, state=Saved.load(tmp_path / "state")), how)
    assert first.texts[0].text + rest.texts[0].text == whole


def test_a_saved_state_goes_on_in_a_fresh_process(endless, tmp_path):
    how, place = Sampling(seed=3), tmp_path / "state"
    whole = texts(endless, how, prompts=["abcd"], length=25)[0]
    first = write(endless, Request(prompts=["abcd"], length=9, save=True), how)
    first.saved.save(place)
    command = [sys.executable, "-m", "subquad", "generate", str(endless.path), "--seed", "3"]
    command += ["--state", str(place), "--length", "16"]
    done = subprocess.run(command, capture_output=True, check=True)
    assert first.texts[0].text + done.stdout.decode().removesuffix("\n") == whole


def test_wrong_states_are_refused(run, endless, tmp_path):
    """Another model's state, other weights, a cut file, another kind of file."""
    saved = write(run, Request(length=3, save=True), GREEDY).saved
    with pytest.raises(UsageError, match="belongs to another model"):
        write(endless, Request(state=saved), GREEDY)
    with pytest.raises(UsageError, match="saved with weights fp32, not int8: use --weights fp32"):
        write(run, Request(state=saved, weights="int8"), GREEDY)
    saved.save(tmp_path / "state")
    data = (tmp_path / "state").read_bytes()
    for cut in (0, 7, 100, len(data) - 1):
        (tmp_path / "cut").write_bytes(data[:cut])
        with pytest.raises(SubquadError, match="cannot be read as a saved state"):
            Saved.load(tmp_path / "cut")
    with pytest.raises(SubquadError, match="not a saved state"):
        Saved.load(run.path / "model.safetensors")
    saved.state.save(tmp_path / "bare")
    with pytest.raises(SubquadError, match="not a file written by generate --save-state"):
        Saved.load(tmp_path / "bare")
    with pytest.raises(SubquadError, match="cannot be read"):
        Saved.load(tmp_path / "missing")


@pytest.mark.parametrize(
    ("request_", "how", "why"),
    [
        (Request(samples=2, save=True), GREEDY, "a saved state belongs to a single text"),
        (Request(stop=[""]), GREEDY, "stop sequence is empty"),
        (Request(beams=2, stop=["x"]), Sampling(), "--beams cannot be combined with --state"),
        (Request(beams=2), Sampling(top_k=3), "--beams cannot be combined with --temperature"),
        (Request(beams=2, samples=3), Sampling(), "--samples 3 is more than --beams 2"),
        (Request(prompts=["\ud800"]), GREEDY, "not valid UTF-8"),
    ],
)
def test_what_does_not_go_together_is_refused(run, request_, how, why):
    with pytest.raises(UsageError, match=why):
        write(run, request_, how)


@pytest.mark.skipif(not status().native, reason=f"no native core: {status().reason}")
@pytest.mark.parametrize("weights", ["bf16", "int8"])
def test_narrow_weights_write_too(run, weights):
    made = write(run, Request(prompts=["abcd ab"], length=10, weights=weights), GREEDY)
    assert made.texts[0].text == "abcd abcd abcd ab"


def test_torch_serves_softmax_and_says_so(tmp_path):
    run = trained(tmp_path, "abcd " * 200, mixers=("softmax",))
    made = write(run, Request(prompts=["abcd ab"], length=10), GREEDY)
    assert made.served_by == "torch scan"
    assert made.texts[0].text == "abcd abcd abcd ab"
    with pytest.raises(UsageError, match="needs the step engine, which cannot run this model"):
        write(run, Request(weights="int8"), GREEDY)
    again = load(run.path)
    assert write(again, Request(prompts=["abcd ab"], length=10), GREEDY).texts == made.texts


def test_images_need_a_pixel_run(run):
    with pytest.raises(UsageError, match="is a language run, which cannot generate images"):
        images(run, 1, Sampling())
