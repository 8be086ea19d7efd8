// The worker of a page that generates: the step engine and the generation loop.
const SLICE = 30; // milliseconds of work between two checks for messages
let engine = null;

async function load(message) {
  about = JSON.parse(message.about);
  const weights = await intact(message, "weights"), binary = await intact(message, "engine");
  const core = (await WebAssembly.instantiate(binary, {})).instance.exports;
  const spec = core.take(4 * about.spec.length);
  new Int32Array(core.memory.buffer, spec, about.spec.length).set(about.spec);
  const size = core.block_bytes(spec, about.eps), block = core.take(size);
  if (about.halves === null) {
    if (weights.length !== size) throw new Error("The size of the weights does not match the model.");
    new Uint8Array(core.memory.buffer, block, size).set(weights);
  } else {
    widen(core, weights, block, size);
  }
  core.load(spec, about.eps, block);
  engine = core;
  return { kind: "ready", state: core.state_bytes() };
}

function widen(core, weights, block, size) {
  const most = Math.max(...about.halves.map(([half, n]) => (half ? 2 : 4) * n));
  const room = core.take(most);
  let from = 0, to = block;
  for (const [half, n] of about.halves) {
    const part = weights.subarray(from, from + (half ? 2 : 4) * n);
    new Uint8Array(core.memory.buffer, half ? room : to, part.length).set(part);
    if (half) core.widen(to, room, n);
    from += part.length;
    to += 4 * n;
  }
  if (from !== weights.length || to !== block + size) {
    throw new Error("The size of the weights does not match the model.");
  }
}

// Lets pending messages be handled. Browsers delay timers to at least four milliseconds.
function breathe() {
  return new Promise((go) => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => { channel.port1.close(); go(); };
    channel.port2.postMessage(0);
  });
}

function encode(text) {
  if (/\p{Surrogate}/u.test(text)) throw new Error("The prompt contains an incomplete character (an unpaired surrogate).");
  const v = about.vocabulary;
  if (v.kind === "bytes") return Array.from(new TextEncoder().encode(text), (b) => b + v.first);
  const table = new Map(v.tokens.map((token, id) => [token, id]).filter(([token]) => token));
  return Array.from(text, (c) => table.get(c) ?? v.unknown);
}

// Token ids → the bytes of their text.
function decoder() {
  const v = about.vocabulary, utf8 = new TextDecoder("utf-8", { ignoreBOM: true });
  const last = { stream: true };
  if (v.kind === "chars") return { push: (id) => v.tokens[id], finish: () => "" };
  const push = (id) => (id < v.first ? "" : utf8.decode(Uint8Array.of(id - v.first), last));
  return { push, finish: () => utf8.decode() };
}

function begin(how) {
  const seed = BigInt(how.seed ?? 0);
  engine.begin(how.temperature ?? 1, how.top_k ?? 0, how.top_p ?? 1, how.min_p ?? 0,
    how.repetition_penalty ?? 1, Number(seed & 0xffffffffn), Number(seed >> 32n),
    about.mixture, about.mixture_levels);
}

// Reads `prompt`, then samples until `take` returns a reason to end, or there are `length` tokens.
async function generate({ prompt, length, how }, take, flush) {
  if (about.limit !== null && prompt.length + length - 1 > about.limit) {
    throw new Error(`A prompt of ${prompt.length - 1} tokens plus ${length} new ones exceed the `
      + `${about.limit} positions that this model has learned.`);
  }
  begin(how);
  let ended = null, made = 0, drawing = 0, slice = performance.now();
  const pause = async () => {
    if (performance.now() - slice < SLICE) return;
    flush();
    drawing += performance.now() - slice;
    await breathe();
    slice = performance.now();
  };
  for (let i = 0; i < prompt.length - 1 && !stopped; i++) {
    engine.step(prompt[i]);
    if (i % 64 === 63 && performance.now() - slice >= SLICE) {
      postMessage({ kind: "reading", done: i + 1, of: prompt.length });
      await breathe();
      slice = performance.now();
    }
  }
  slice = performance.now();
  let token = prompt[prompt.length - 1];
  while (!ended) {
    if (stopped) ended = "stopped";
    else if (made === length) ended = "length";
    else {
      engine.step(token);
      token = engine.next();
      made += 1;
      ended = take(token);
      await pause();
    }
  }
  drawing += performance.now() - slice;
  return { kind: "done", ended, tokens: made, seconds: drawing / 1000 };
}

async function write(message) {
  const { stop, length, how } = message, text = decoder();
  let pending = "", ready = "";
  const release = (held) => {
    const at = stop ? pending.indexOf(stop) : -1;
    const certain = at >= 0 ? at : Math.max(pending.length - held, 0);
    ready += pending.slice(0, certain);
    pending = at >= 0 ? "" : pending.slice(certain);
    return at >= 0 ? "stop" : null;
  };
  const take = (id) => {
    if (id === about.start) return "end";
    pending += text.push(id);
    return release(stop ? stop.length - 1 : 0);
  };
  const flush = () => { if (ready) postMessage({ kind: "text", piece: ready }); ready = ""; };
  const prompt = [about.start, ...encode(message.prompt)];
  const done = await generate({ prompt, length, how }, take, flush);
  if (done.ended !== "stop") {
    pending += text.finish();
    if (release(0)) done.ended = "stop";
  }
  flush();
  return done;
}

async function draw({ given, how }) {
  const length = about.shape.reduce((a, b) => a * b) - given.length;
  let ready = [];
  const flush = () => { if (ready.length) postMessage({ kind: "pixels", values: ready }); ready = []; };
  const done = await generate({ prompt: [about.start, ...given], length, how },
    (value) => { ready.push(value); return null; }, flush);
  flush();
  return done;
}

function check() {
  const test = about.test, outputs = about.spec[5];
  const expected = new Float32Array(bytesOf(test.outputs).buffer);
  const kept = expected.length / outputs, first = test.prompt.length - kept;
  let worst = 0;
  const follow = (how, tokens) => {
    begin(how);
    test.prompt.forEach((token, i) => {
      const at = engine.step(token);
      if (i < first) return;
      const found = new Float32Array(engine.memory.buffer, at, outputs);
      const wanted = expected.subarray((i - first) * outputs, (i - first + 1) * outputs);
      const scale = Math.max(1, ...wanted.map(Math.abs));
      // Written so that NaN counts as the worst.
      found.forEach((x, j) => {
        const off = Math.abs(x - wanted[j]) / scale;
        if (!(off <= worst)) worst = off;
      });
    });
    return tokens.every((token, i) => {
      const drawn = engine.next();
      if (i + 1 < tokens.length) engine.step(drawn);
      return drawn === token;
    });
  };
  const likeliest = follow({ temperature: 0 }, test.likeliest);
  const drawn = follow(test.how, test.drawn);
  const passed = worst <= test.tolerance && likeliest && drawn;
  return { kind: "checked", passed, worst, likeliest, drawn,
    tokens: [test.likeliest.length, test.drawn.length] };
}

const WORK = { load, write, draw, check };
