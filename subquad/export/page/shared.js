// Shared by all pages: starts the worker and shows its status. Each kind of page defines `busy`,
// `begin`, and `verdict`, which describes the result of the self-test.
"use strict";

const $ = (id) => document.getElementById(id);
const about = JSON.parse($("about").textContent);
const worker = new Worker(URL.createObjectURL(new Blob([$("worker").textContent],
  { type: "text/javascript" })));
const handlers = {};
const count = (n) => Math.round(n).toLocaleString("en");
const opened = performance.now();

function say(text, wrong = false) {
  $("status").textContent = text;
  $("status").classList.toggle("wrong", wrong);
}

function ask(message) {
  busy(true);
  worker.postMessage(message);
}

handlers.ready = (found) => {
  document.documentElement.dataset.ready = String(Math.round(performance.now() - opened));
  busy(false);
  say("Ready.");
  begin(found);
  if (new URLSearchParams(location.search).get("selftest") === "1") ask({ kind: "check" });
};
handlers.checked = (result) => {
  busy(false);
  document.documentElement.dataset.selftest = result.passed ? "passed" : "failed";
  document.documentElement.dataset.selftestResult = JSON.stringify(result);
  const off = `outputs differ from torch's by at most ${result.worst.toExponential(1)}`;
  say(`Self-test ${result.passed ? "passed" : "FAILED"}: ${off}${verdict(result)}.`, !result.passed);
};
handlers.error = ({ during, message }) => {
  busy(false);
  if (during === "load") {
    for (const box of document.querySelectorAll("#go, #selftest")) box.disabled = true;
    document.documentElement.dataset.selftest = "failed";
  }
  document.documentElement.dataset.error = message;
  say(message, true);
};

worker.onmessage = ({ data }) => handlers[data.kind](data);
worker.onerror = (event) => handlers.error({ during: "load", message: `This browser cannot run the page: ${event.message}` });
$("selftest").onclick = () => ask({ kind: "check" });
say("Loading…");
worker.postMessage({ kind: "load", about: $("about").textContent, weights: $("weights").textContent,
  engine: $("engine")?.textContent });
