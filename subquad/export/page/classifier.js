// The worker of a page that classifies: from text to one probability per class. Also runs in Node.

let tokenizer = null, tensors = null;

async function load(message) {
  about = JSON.parse(message.about);
  tensors = opened(await intact(message, "weights"));
  tokenizer = new TOKENIZERS[about.vocabulary.kind](about.vocabulary);
  return { kind: "ready" };
}

// Each tensor as 32-bit numbers.
function opened(bytes) {
  const found = new Map();
  let at = 0;
  for (const [name, rows, cols, half] of about.tensors) {
    const end = at + rows * cols * (half ? 2 : 4), part = bytes.slice(at, end).buffer;
    const data = half ? widened(new Uint16Array(part)) : new Float32Array(part);
    found.set(name, { data, rows, cols });
    at = end;
  }
  if (at !== bytes.length) throw new Error("The size of the weights does not match the model.");
  return found;
}

// f16 → f32: the shifted bits are the number times 2^-112, also for subnormal numbers.
function widened(halves) {
  const bits = new Uint32Array(halves.length), numbers = new Float32Array(bits.buffer);
  for (let i = 0; i < halves.length; i++) bits[i] = ((halves[i] & 0x7fff) << 13) | ((halves[i] & 0x8000) << 16);
  for (let i = 0; i < halves.length; i++) numbers[i] *= 2 ** 112;
  return numbers;
}

function part(name) {
  const dot = name && !name.endsWith(".") ? `${name}.` : name;
  return { weight: tensors.get(`${dot}weight`), bias: tensors.get(`${dot}bias`) };
}

// The ids that the model reads (`ids`), those of the whole text (`all`), and how many of the latter
// the model reads (`read`).
function encode(text) {
  if (/\p{Surrogate}/u.test(text)) throw new Error("The text contains an incomplete character (an unpaired surrogate).");
  const all = tokenizer.encode(text), most = about.length;
  if (about.frame === null) return { ids: all.slice(0, most), all, read: Math.min(all.length, most) };
  if (text.includes("\x1f")) throw new Error("The text contains a unit separator (U+001F), which would make it a pair of texts.");
  const [before, after] = about.frame, read = Math.min(all.length, Math.max(most - 2, 0));
  return { ids: [before, ...all.slice(0, read), after], all, read };
}

function embedded(ids) {
  const { d } = about.plan, at = "encoder.embedding", x = new Float32Array(ids.length * d);
  const table = part(`${at}.tokens`).weight.data, type = part(`${at}.types`).weight?.data;
  const places = part(`${at}.positions`).weight?.data, rates = tensors.get("rates")?.data;
  ids.forEach((id, i) => {
    for (let j = 0; j < d; j++) {
      let value = table[id * d + j];
      if (places) value += places[i * d + j];
      if (rates) {
        const angle = Math.fround(i * rates[j >> 1]);
        value += j % 2 ? Math.cos(angle) : Math.sin(angle);
      }
      x[i * d + j] = value + (type ? type[j] : 0);
    }
  });
  const normal = about.plan.norm === "post" ? layerNorm(x, part(`${at}.norm`), about.plan.eps) : x;
  const projection = part(`${at}.projection`);
  return projection.weight ? linear(normal, projection) : normal;
}

function block(x, layer) {
  const { norm, eps, gelu } = about.plan, at = layer.at;
  const parts = Object.entries(layer.parts).map(([name, where]) => [name, part(where)]);
  const options = { ...layer.options, ...Object.fromEntries(parts) };
  const mix = (h) => {
    const y = MIXERS[layer.mixer](h, options);
    return layer.dense ? linear(y, part(`${at}dense`)) : y;
  };
  const feed = (h) => linear(linear(h, part(`${at}ff.inner`)).map(GELU[gelu]), part(`${at}ff.outer`));
  for (const [work, name] of [[mix, "norm_mixer"], [feed, "norm_ff"]]) {
    const weights = part(`${at}${name}`);
    x = norm === "pre" ? added(x, work(layerNorm(x, weights, eps))) : layerNorm(added(x, work(x)), weights, eps);
  }
  return x;
}

const POOLING = {
  mean: (x, t) => pooled(x, new Float64Array(t).fill(1 / t), 1),
  cls: (x, t) => x.subarray(0, x.length / t),
  first: (x, t) => x.subarray(0, x.length / t),
  pooler: (x, t) => linear(x.subarray(0, x.length / t), part("pooler.dense")).map(Math.tanh),
  attention: (x) => {
    const scores = linear(linear(x, part("pooler.inner")).map(Math.tanh), part("pooler.score"));
    return pooled(x, softmaxOverTime(scores, 1), 1);
  },
};

function logits(ids) {
  const { layers, norm, eps, pooling, cls, d } = about.plan, row = cls === null ? ids : [cls, ...ids];
  let summary = new Float64Array(d); // used if there are no tokens
  if (row.length) {
    let x = embedded(row);
    for (const layer of layers) x = block(x, layer);
    if (norm === "pre") x = layerNorm(x, part("encoder.norm"), eps);
    summary = POOLING[pooling](x, row.length);
  }
  return linear(summary, part("head"));
}

function classify({ text }) {
  const started = performance.now(), { ids, all, read } = encode(text);
  const chances = softmax(logits(ids).map((z) => z / about.temperature));
  const unknown = all.slice(0, read).filter((id) => id === tokenizer.unknown).length;
  return { kind: "classes", chances, tokens: all.length, read, unknown,
    seconds: (performance.now() - started) / 1000 };
}

function check() {
  const { texts, ids: wanted, tolerance, ...test } = about.test;
  const expected = new Float32Array(bytesOf(test.logits).buffer), classes = about.labels.length;
  let worst = 0, same = true;
  texts.forEach((text, i) => {
    const { ids } = encode(text), right = expected.subarray(i * classes, (i + 1) * classes);
    same &&= ids.length === wanted[i].length && ids.every((id, n) => id === wanted[i][n]);
    const scale = Math.max(1, ...right.map(Math.abs));
    // Written so that NaN counts as the worst.
    logits(ids).forEach((x, c) => {
      const off = Math.abs(x - right[c]) / scale;
      if (!(off <= worst)) worst = off;
    });
  });
  return { kind: "checked", passed: same && worst <= tolerance, worst, ids: same, texts: texts.length };
}

const WORK = { load, classify, check };
