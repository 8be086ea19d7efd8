// The mixers of a classifier, each as its Python file defines it: rows [t, d] → rows [t, d].

function* factors(n) {
  for (let p = 2; n > 1; p++) for (; n % p === 0; n /= p) yield p;
}

// The DFT of each column of re + i·im [n, width], split by the smallest factor p of n: the rows
// r, r + p, … are transformed separately, then combined. A prime n costs n² products.
function transformed(re, im, n, width) {
  if (n === 1) return [re, im];
  const p = factors(n).next().value, m = n / p, parts = [];
  for (let r = 0; r < p; r++) {
    const pick = (x) => {
      const part = new Float64Array(m * width);
      for (let i = 0; i < m; i++) part.set(x.subarray((i * p + r) * width, (i * p + r + 1) * width), i * width);
      return part;
    };
    parts.push(transformed(pick(re), pick(im), m, width));
  }
  const outRe = new Float64Array(n * width), outIm = new Float64Array(n * width);
  for (let row = 0; row < n; row++) {
    const to = row * width, from = (row % m) * width;
    for (let r = 0; r < p; r++) {
      const turn = (-2 * Math.PI * ((r * row) % n)) / n, c = Math.cos(turn), s = Math.sin(turn);
      const [a, b] = parts[r];
      for (let j = 0; j < width; j++) {
        outRe[to + j] += c * a[from + j] - s * b[from + j];
        outIm[to + j] += c * b[from + j] + s * a[from + j];
      }
    }
  }
  return [outRe, outIm];
}

function transposed(x, rows, cols) {
  const y = new Float64Array(x.length);
  for (let i = 0; i < rows; i++) for (let j = 0; j < cols; j++) y[j * rows + i] = x[i * cols + j];
  return y;
}

// Re(F_seq(F_hidden(x))), for a sequence at its own length, without padding.
function fnet(x, { d }) {
  const t = x.length / d;
  const across = transformed(transposed(x, t, d), new Float64Array(x.length), d, t);
  const [re, im] = across.map((part) => transposed(part, d, t));
  return Float32Array.from(transformed(re, im, t, d)[0]);
}

const PHI = {
  "elu+1": (x) => { for (let i = 0; i < x.length; i++) x[i] = x[i] > 0 ? x[i] + 1 : Math.exp(x[i]); },
  relu: (x) => { for (let i = 0; i < x.length; i++) x[i] = Math.max(x[i], 0); },
  "relu^2": (x) => { for (let i = 0; i < x.length; i++) x[i] = Math.max(x[i], 0) ** 2; },
  softmax: (x) => x.set(softmax(x)),
};

// A learned map: x W + b with the weights of head h, then what the map is called after.
const LEARNED = {
  hedgehog: (y) => [...softmax(y), ...softmax(y.map((v) => -v))],
  t2r: (y) => y.map((v) => Math.max(v, 0)),
};

function features(x, map, learned, h) {
  if (!LEARNED[map]) {
    PHI[map](x);
    return x;
  }
  const k = x.length, y = new Float32Array(k), { weight, bias } = learned;
  for (let b = 0; b < k; b++) {
    let sum = bias.data[h * k + b];
    for (let a = 0; a < k; a++) sum += x[a] * weight.data[(h * k + a) * k + b];
    y[b] = sum;
  }
  return LEARNED[map](y);
}

function linearAttention(x, { d, heads, map, qkv, out, phi_q, phi_k }) {
  const t = x.length / d, k = d / heads, rows = linear(x, qkv), y = new Float32Array(x.length);
  const part = (i, s, h) => rows.subarray((3 * i + s) * d + h * k, (3 * i + s) * d + (h + 1) * k);
  for (let h = 0; h < heads; h++) {
    const sums = new Float64Array(2 * k * k), seen = new Float64Array(2 * k);
    for (let i = 0; i < t; i++) {
      const key = features(part(i, 1, h), map, phi_k, h), value = part(i, 2, h);
      for (let a = 0; a < key.length; a++) {
        seen[a] += key[a];
        for (let b = 0; b < k; b++) sums[a * k + b] += key[a] * value[b];
      }
    }
    const row = new Float64Array(k);
    for (let i = 0; i < t; i++) {
      const query = features(part(i, 0, h), map, phi_q, h);
      let whole = 0;
      row.fill(0);
      for (let a = 0; a < query.length; a++) {
        whole += query[a] * seen[a];
        for (let b = 0; b < k; b++) row[b] += query[a] * sums[a * k + b];
      }
      // If all weights are zero, the output is zero by definition.
      for (let b = 0; b < k; b++) y[i * d + h * k + b] = whole === 0 ? 0 : row[b] / whole;
    }
  }
  return linear(y, out);
}

// Fastformer as released: the values are the queries, which are also added to the output.
function fastformer(x, { d, heads, qk, score_q, score_k, transform }) {
  const t = x.length / d, both = linear(x, qk), scale = Math.sqrt(d / heads);
  const column = (s) => {
    const part = new Float32Array(t * d);
    for (let i = 0; i < t; i++) part.set(both.subarray((2 * i + s) * d, (2 * i + s + 1) * d), i * d);
    return part;
  };
  const times = (rows, g) => rows.map((v, i) => v * g[i % d]);
  const summed = (rows, score) =>
    pooled(rows, softmaxOverTime(linear(rows, score).map((v) => v / scale), heads), heads);
  const q = column(0), query = summed(q, score_q), key = summed(times(column(1), query), score_k);
  return added(linear(times(q, key), transform), q);
}

// Depthwise convolution: as many neighbours before as after (for an even width, one more after).
function convolution(x, { d, taps }) {
  const t = x.length / d, width = taps.weight.cols, y = new Float32Array(x.length);
  for (let i = 0; i < t; i++) {
    for (let j = 0; j < width; j++) {
      const from = i - j + (width >> 1);
      if (from < 0 || from >= t) continue;
      for (let c = 0; c < d; c++) y[i * d + c] += taps.weight.data[c * width + j] * x[from * d + c];
    }
  }
  return y;
}

const MIXERS = { fnet, linear: linearAttention, fastformer, convolution, none: (x) => x };
