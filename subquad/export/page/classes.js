// A page that classifies: shows probabilities while the user types.

const MANY = 12; // up to this many classes are all shown, in fixed order
const QUIET = 900; // milliseconds without a key before the answer is read out
const UNITS = { words: ["word", "words and punctuation marks"], chars: ["character", "characters"], bytes: ["byte", "bytes"] }[about.vocabulary.kind] ?? ["token", "tokens"];
let working = true, waiting = null, spoken = 0, rows = [], rest = null;

function busy(on) {
  working = on;
  $("selftest").disabled = on;
  if (on || waiting === null) return;
  const text = waiting;
  waiting = null;
  ask({ kind: "classify", text });
}

// Classifies the current text, after the previous request has finished.
function answer() {
  waiting = $("text").value;
  if (!working) busy(false);
}

function begin() {
  rows = about.labels.slice(0, MANY).map(() => {
    const row = document.createElement("li"), found = { row };
    for (const name of ["label", "bar", "chance"]) {
      found[name] = row.appendChild(document.createElement("span"));
      found[name].className = name;
    }
    found.bar.ariaHidden = "true";
    found.fill = found.bar.appendChild(document.createElement("span"));
    return found;
  });
  $("classes").replaceChildren(...rows.map(({ row }) => row));
  if (about.labels.length > MANY) {
    rest = $("classes").appendChild(document.createElement("li"));
    rest.className = "rest";
  }
  say("");
  if ($("text").value) answer();
  else show(null);
}

const percent = (p) => (p > 0 && p < 0.0005 ? "<0.1 %" : `${(100 * p).toFixed(1)} %`);

// Shows the likeliest of many classes, best first, or all of a few, in fixed order.
function show(chances) {
  const order = Array.from(about.labels.keys());
  if (chances && rest) order.sort((a, b) => chances[b] - chances[a]);
  const top = chances ? Math.max(...chances) : NaN;
  rows.forEach(({ row, label, fill, chance }, i) => {
    const p = chances ? chances[order[i]] : 0;
    label.textContent = about.labels[order[i]];
    chance.textContent = chances ? percent(p) : "–";
    fill.style.width = `${100 * p}%`;
    row.className = p === top ? "first" : "";
  });
  if (!rest) return;
  const left = order.slice(MANY), sum = chances ? left.reduce((s, c) => s + chances[c], 0) : null;
  rest.textContent = `and ${count(left.length)} more${sum === null ? "" : `, ${percent(sum)} together`}`;
}

function noted({ tokens, read, unknown }) {
  const [one, several] = UNITS;
  const plural = (n) => `${count(n)} ${n === 1 ? one : several}`;
  if (!tokens) return "This text has no tokens, so the probabilities are those of an empty text.";
  const parts = [read < tokens ? `Reads the first ${count(read)} of ${plural(tokens)}` : `${plural(tokens)} read`];
  if (unknown) parts.push(`${count(unknown)} of them not in the vocabulary`);
  return `${parts.join("; ")}.`;
}

handlers.classes = (found) => {
  busy(false);
  say("");
  delete document.documentElement.dataset.error;
  if (!$("text").value) return;
  show(found.chances);
  $("note").textContent = noted(found);
  const best = found.chances.indexOf(Math.max(...found.chances));
  clearTimeout(spoken);
  spoken = setTimeout(() => {
    $("spoken").textContent = `${about.labels[best]}, ${percent(found.chances[best])}`;
  }, QUIET);
};

function verdict(result) {
  return result.ids ? `, and the tokens of ${result.texts} texts are the same` : "; tokens differ";
}

$("text").oninput = () => {
  if ($("text").value) { answer(); return; }
  waiting = null;
  clearTimeout(spoken);
  show(null);
  say("");
  $("note").textContent = "Type some text to see the probability of each class.";
};
$("selftest").disabled = true;
