// What both kinds of pages do: start the worker, read the settings, say what happens.
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

function busy(on) {
  document.body.classList.toggle("busy", on);
  $("go").disabled = on;
  $("stop").disabled = !on;
}

// The settings, or an error that names the one that is wrong.
function settings() {
  const number = (id, usual, good, right) => {
    const box = $(id);
    if (!box) return usual;
    const text = box.value.trim(), value = text === "" && !box.validity.badInput ? usual : Number(text || NaN);
    const fine = good(value);
    box.setAttribute("aria-invalid", String(!fine));
    if (!fine) { box.focus(); throw new Error(`${box.labels[0].firstChild.textContent.trim()} must be ${right}.`); }
    return value;
  };
  const whole = (least) => (x) => Number.isSafeInteger(x) && x >= least;
  return {
    temperature: number("temperature", 1, (x) => x >= 0 && x < Infinity, "a number of at least 0"),
    top_k: number("top_k", 0, (x) => whole(0)(x) && x < 2 ** 31, "a whole number, or 0 for all"),
    top_p: number("top_p", 1, (x) => x > 0 && x <= 1, "above 0 and at most 1"),
    seed: number("seed", Math.floor(Math.random() * 1e9), whole(0), "a whole number from 0 on"),
    length: number("length", 200, (x) => whole(1)(x) && x <= 1e6, "a whole number from 1 to 1,000,000"),
  };
}

function ask(message) {
  busy(true);
  worker.postMessage(message);
}

function summary(done, unit, seed) {
  const rate = done.seconds > 0 ? `${count(done.tokens / done.seconds)} ${unit} a second` : "";
  const why = { length: "", end: "it ended by itself", stop: "the stop text came",
    stopped: "you stopped it" }[done.ended];
  return [`${count(done.tokens)} ${unit}`, rate, why, `seed ${seed}`].filter(Boolean).join(" · ");
}

handlers.ready = ({ state }) => {
  $("state").textContent = `${count(state)} bytes`;
  document.documentElement.dataset.ready = String(Math.round(performance.now() - opened));
  busy(false);
  say("Ready.");
  if (new URLSearchParams(location.search).get("selftest") === "1") ask({ kind: "check" });
};
handlers.checked = (result) => {
  busy(false);
  document.documentElement.dataset.selftest = result.passed ? "passed" : "failed";
  document.documentElement.dataset.selftestResult = JSON.stringify(result);
  const off = `outputs differ by at most ${result.worst.toExponential(1)}`;
  say(result.passed
    ? `Self-test passed: ${off}, and ${result.tokens[0]} + ${result.tokens[1]} tokens are torch's.`
    : `Self-test FAILED: ${off}; likeliest tokens ${result.likeliest ? "equal" : "differ"}, `
      + `drawn tokens ${result.drawn ? "equal" : "differ"}.`, !result.passed);
};
handlers.reading = ({ done, of }) => say(`Reading the prompt: ${count(done)} of ${count(of)} tokens…`);
handlers.error = ({ during, message }) => {
  busy(false);
  if (during === "load") {
    $("go").disabled = $("selftest").disabled = true;
    document.documentElement.dataset.selftest = "failed";
  }
  document.documentElement.dataset.error = message;
  say(message, true);
};

worker.onmessage = ({ data }) => handlers[data.kind](data);
worker.onerror = (event) => handlers.error({ during: "load", message: `This browser cannot run the page: ${event.message}` });
$("stop").onclick = () => worker.postMessage({ kind: "stop" });
$("selftest").onclick = () => ask({ kind: "check" });
busy(true);
$("stop").disabled = true;
say("Loading…");
worker.postMessage({ kind: "load", about: $("about").textContent, weights: $("weights").textContent,
  engine: $("engine").textContent });
