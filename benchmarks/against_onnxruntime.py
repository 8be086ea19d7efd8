"""Generation token by token: the step engine against ONNX Runtime on the exported graph.

    python benchmarks/against_onnxruntime.py --out results/onnxruntime.json
    python benchmarks/against_onnxruntime.py --web DIST     # also in Chromium, one thread each

The model is that of ``subquad bench``: 8 layers of width 256, random weights. Candidates take
turns; ratios are medians over rounds. DIST is the folder ``dist`` of onnxruntime-web (npm).
Needs ``subquad[onnx]``, and Chromium for the second form.
"""

import argparse
import json
import re
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch

from subquad.data.tokenizers import Tokenizer
from subquad.export.chromium import Chromium
from subquad.export.onnx import onnx
from subquad.export.web import web
from subquad.generation import EngineDecoder, Sampling, Streams, TorchDecoder
from subquad.lab.instruments import machine
from subquad.lab.instruments.timing import Times
from subquad.models import CausalModel
from subquad.run import Run
from subquad.tasks import task_class
from subquad.tasks.language import Language

#: Tokens generated in one timed call.
TOGETHER = 128
#: Seconds to wait between two candidates: ONNX Runtime's threads keep spinning for 60 ms after a
#: call, which would take a core away from the next candidate.
PAUSE = 0.2
WEB_TOKENS = 200
ORT = "ONNX Runtime"
PAGE = Path(__file__).with_name("onnxruntime_web.html")


def language_run(path: Path) -> Run:
    """The model of ``subquad bench`` as an untrained language run on bytes."""
    torch.manual_seed(0)
    config = task_class("language").defaults()
    model = replace(
        config.model,
        mixers=("linear",),
        layers=8,
        d=256,
        heads=8,
        ff=1024,
        positions="sinusoidal",
        dropout=0.0,
    )
    task = Language(replace(config, model=model), Tokenizer.train("bytes", [""], 300))
    return Run(path, task.config, task, task.model().eval())


def _session(folder: Path, threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    path = str(folder / "step.onnx")
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _state_shapes(session: Any) -> dict[str, list[int]]:
    """Shapes of the decoder state of one sequence, by the names of the graph's inputs."""
    return {
        i.name: [n if isinstance(n, int) else 1 for n in i.shape]
        for i in session.get_inputs()
        if i.name.startswith("layers.")
    }


def _graph(folder: Path, threads: int) -> Callable[[], list[int]]:
    """Greedy decoding of ``TOGETHER`` tokens with ONNX Runtime, feeding the states back."""
    session = _session(folder, threads)
    states = _state_shapes(session)
    results = [o.name for o in session.get_outputs()]

    def run() -> list[int]:
        feed: dict[str, Any] = {name: np.zeros(shape, np.float32) for name, shape in states.items()}
        feed |= {"tokens": np.zeros(1, np.int64), "position": np.zeros(1, np.int64)}
        made = []
        for _ in range(TOGETHER):
            found = dict(zip(results, session.run(None, feed), strict=True))
            token = found["logits"].argmax(-1).astype(np.int64)
            made.append(int(token[0]))
            feed = {name: found[f"next_{name}"] for name in states}
            feed |= {"tokens": token, "position": found["next_position"]}
        return made

    return run


def _interleave(ways: dict[str, Callable[[], object]], seconds: float) -> Times:
    """Like ``lab.instruments.timing.interleave``, with a pause before each candidate."""
    rounds: dict[str, list[float]] = {name: [] for name in ways}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(rounds[ORT]) < 3:
        for name, run in ways.items():
            time.sleep(PAUSE)
            run()  # warm the caches up again after the pause
            begun = time.perf_counter()
            run()
            rounds[name].append(time.perf_counter() - begun)
    return Times(rounds)


def native(run: Run, folder: Path, seconds: float) -> dict[str, Any]:
    """Milliseconds per token, and how many times as long ONNX Runtime takes."""
    greedy, threads, model = Sampling(temperature=0.0), torch.get_num_threads(), run.model
    assert isinstance(model, CausalModel)
    decoders = {
        "engine bf16": EngineDecoder(model, rows=1, weights="bf16"),
        "engine fp32": EngineDecoder(model, rows=1),
        "torch scan": TorchDecoder(model),
    }
    start = torch.zeros(1, dtype=torch.long)
    ways: dict[str, Callable[[], object]] = {
        name: partial(decoder.run, start, TOGETHER, greedy, Streams.fresh(1))
        for name, decoder in decoders.items()
    }
    graph = _graph(folder, threads)
    made = decoders["engine fp32"].run(start, TOGETHER, greedy, Streams.fresh(1))
    if made[0].tolist() != graph():
        raise SystemExit("the graph and the engine do not generate the same tokens")
    times = _interleave({**ways, ORT: graph}, seconds)
    return {
        "threads": threads,
        "ms_per_token": {name: 1e3 * times.median(name) / TOGETHER for name in times.rounds},
        "onnxruntime_over": {name: times.ratio(ORT, name) for name in ways},
    }


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


def _page_rate(browser: Chromium, url: str) -> float:
    """Tokens/s that an exported page reports for ``WEB_TOKENS`` greedy tokens."""
    browser.open(url)
    browser.wait(f"document.documentElement.dataset.ready && location.href === '{url}'")
    browser.run(
        "document.getElementById('temperature').value = 0;"
        f"document.getElementById('length').value = {WEB_TOKENS};"
        "document.getElementById('go').click()"
    )
    status = browser.wait(
        "!document.getElementById('go').disabled && "
        "/[0-9] tokens per second/.test(document.getElementById('status').textContent) && "
        "document.getElementById('status').textContent"
    )
    found = re.search(r"([\d.,]+) tokens per second", status)
    assert found is not None, status
    return float(found[1].replace(",", ""))


def _graph_rate(browser: Chromium, url: str) -> float:
    browser.open(url)
    browser.wait("window.bench !== undefined")
    browser.run(f"window.rate = null; bench({WEB_TOKENS}).then(rate => window.rate = rate)")
    return float(browser.wait("window.rate"))


def in_browser(run: Run, folder: Path, dist: Path, rounds: int) -> dict[str, Any]:
    """Tokens/s of exported pages (f16 and f32 weights) and of onnxruntime-web, one thread each."""
    (folder / "dist").symlink_to(dist.resolve())
    shapes = _state_shapes(_session(folder / "graphs", threads=1))
    (folder / "ort.html").write_text(
        PAGE.read_text(encoding="utf-8").replace("SHAPES", json.dumps(shapes)), encoding="utf-8"
    )
    web(run, folder / "f16.html", "f16")
    web(run, folder / "f32.html", "f32")
    rates: dict[str, list[float]] = {"page, f16": [], "page, f32": [], "onnxruntime-web": []}
    with _served(folder) as base, Chromium() as browser:
        for _ in range(rounds):
            rates["page, f16"].append(_page_rate(browser, base + "f16.html"))
            rates["page, f32"].append(_page_rate(browser, base + "f32.html"))
            rates["onnxruntime-web"].append(_graph_rate(browser, base + "ort.html"))
    ratios = {
        name: statistics.median(a / b for a, b in zip(found, rates["onnxruntime-web"], strict=True))
        for name, found in rates.items()
    }
    return {"tokens_per_second": rates, "over_onnxruntime_web": ratios}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--web", type=Path, metavar="DIST", help="onnxruntime-web's dist folder")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="subquad-") as home:
        folder = Path(home)
        run = language_run(folder / "run")
        onnx(run, folder / "graphs")
        found: dict[str, Any] = {
            "machine": machine.facts("fp32"),
            "onnxruntime": onnxruntime.__version__,
        }
        found["native"] = native(run, folder / "graphs", given.seconds)
        if given.web:
            found["browser"] = in_browser(run, folder, given.web, given.rounds)
    text = json.dumps(found, indent=2)
    print(text)
    if given.out:
        given.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
