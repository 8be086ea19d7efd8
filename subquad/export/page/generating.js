// What both kinds of generating pages do: read the settings, stop, sum up.

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

function summary(done, unit, seed) {
  const rate = done.seconds > 0 ? `${count(done.tokens / done.seconds)} ${unit} a second` : "";
  const why = { length: "", end: "it ended by itself", stop: "the stop text came",
    stopped: "you stopped it" }[done.ended];
  return [`${count(done.tokens)} ${unit}`, rate, why, `seed ${seed}`].filter(Boolean).join(" · ");
}

handlers.reading = ({ done, of }) => say(`Reading the prompt: ${count(done)} of ${count(of)} tokens…`);

function begin({ state }) {
  $("state").textContent = `${count(state)} bytes`;
}

function verdict(result) {
  if (result.passed) return `, and ${result.tokens[0]} + ${result.tokens[1]} tokens are torch's`;
  return `; likeliest tokens ${result.likeliest ? "equal" : "differ"}, `
    + `drawn tokens ${result.drawn ? "equal" : "differ"}`;
}

$("stop").onclick = () => worker.postMessage({ kind: "stop" });
busy(true);
$("stop").disabled = true;
