// Shared by both kinds of pages that generate: reads the settings, stops, and summarises the result.

function busy(on) {
  document.body.classList.toggle("busy", on);
  $("go").disabled = on;
  $("stop").disabled = !on;
}

// The settings; throws an error that names an invalid one.
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
    temperature: number("temperature", 1, (x) => x >= 0 && x < Infinity, "0 or a positive number"),
    top_k: number("top_k", 0, (x) => whole(0)(x) && x < 2 ** 31, "a whole number, or 0 for all"),
    top_p: number("top_p", 1, (x) => x > 0 && x <= 1, "above 0 and at most 1"),
    seed: number("seed", Math.floor(Math.random() * 1e9), whole(0), "a whole number of at least 0"),
    length: number("length", 200, (x) => whole(1)(x) && x <= 1e6, "a whole number from 1 to 1,000,000"),
  };
}

function summary(done, unit, seed) {
  const rate = done.seconds > 0 ? `${count(done.tokens / done.seconds)} ${unit} per second` : "";
  const why = { length: "", end: "the model ended the text", stop: "reached the stop text",
    stopped: "stopped by you" }[done.ended];
  return [`${count(done.tokens)} ${unit}`, rate, why, `seed ${seed}`].filter(Boolean).join(" · ");
}

handlers.reading = ({ done, of }) => say(`Reading the prompt: ${count(done)} of ${count(of)} tokens…`);

function begin({ state }) {
  $("state").textContent = `${count(state)} bytes`;
}

function verdict(result) {
  if (result.passed) return `, and ${result.tokens[0]} greedy and ${result.tokens[1]} sampled tokens are the same`;
  return `; greedy tokens ${result.likeliest ? "are the same" : "differ"}, `
    + `sampled tokens ${result.drawn ? "are the same" : "differ"}`;
}

$("stop").onclick = () => worker.postMessage({ kind: "stop" });
busy(true);
$("stop").disabled = true;
