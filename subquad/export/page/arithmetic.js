// The arithmetic of a model: matrices are row-major Float32Arrays, sums are in double precision.

// x W^T + b for each row of `x`; W has a row for each output. Computes 2 × 4 outputs at a time, so
// that each number that is read serves several products.
function linear(rows, { weight, bias = null }) {
  // Doubles need no conversion, and code for a single type of array is faster.
  const x = new Float64Array(rows);
  const inner = weight.cols, outer = weight.rows, w = weight.data, many = x.length / inner;
  const y = new Float32Array(many * outer);
  for (let o = 0; o < outer; o += 4) {
    const left = Math.min(4, outer - o), w0 = o * inner;
    const w1 = w0 + (left > 1) * inner, w2 = w0 + (left > 2) * 2 * inner, w3 = w0 + (left > 3) * 3 * inner;
    const b = [0, 1, 2, 3].map((i) => (bias && i < left ? bias.data[o + i] : 0));
    for (let r = 0; r < many; r += 2) {
      const x0 = r * inner, x1 = r + 1 < many ? x0 + inner : x0;
      let a0 = b[0], a1 = b[1], a2 = b[2], a3 = b[3], c0 = a0, c1 = a1, c2 = a2, c3 = a3;
      for (let i = 0; i < inner; i++) {
        const p = x[x0 + i], q = x[x1 + i];
        const u0 = w[w0 + i], u1 = w[w1 + i], u2 = w[w2 + i], u3 = w[w3 + i];
        a0 += p * u0; a1 += p * u1; a2 += p * u2; a3 += p * u3;
        c0 += q * u0; c1 += q * u1; c2 += q * u2; c3 += q * u3;
      }
      const at = r * outer + o;
      put(y, at, left, a0, a1, a2, a3);
      if (x1 > x0) put(y, at + outer, left, c0, c1, c2, c3);
    }
  }
  return y;
}

function put(y, at, left, a, b, c, d) {
  y[at] = a;
  if (left > 1) y[at + 1] = b;
  if (left > 2) y[at + 2] = c;
  if (left > 3) y[at + 3] = d;
}

function layerNorm(x, { weight, bias }, eps) {
  const d = weight.data.length, y = new Float32Array(x.length);
  for (let from = 0; from < x.length; from += d) {
    let mean = 0, square = 0;
    for (let i = 0; i < d; i++) mean += x[from + i];
    mean /= d;
    for (let i = 0; i < d; i++) square += (x[from + i] - mean) ** 2;
    const scale = 1 / Math.sqrt(square / d + eps);
    for (let i = 0; i < d; i++) {
      y[from + i] = (x[from + i] - mean) * scale * weight.data[i] + bias.data[i];
    }
  }
  return y;
}

function added(x, y) {
  const sum = new Float32Array(x.length);
  for (let i = 0; i < x.length; i++) sum[i] = x[i] + y[i];
  return sum;
}

// erfc by a Chebyshev fit with a relative error of 1.2e-7 (Numerical Recipes, section 6.2).
const ERFC = [-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807,
  -1.13520398, 1.48851587, -0.82215223, 0.17087277];
function erf(x) {
  const z = Math.abs(x), t = 1 / (1 + z / 2);
  const fit = ERFC.reduceRight((sum, c) => sum * t + c, 0);
  const rest = t * Math.exp(fit - z * z);
  return x >= 0 ? 1 - rest : rest - 1;
}

const GELU = {
  // (1 + tanh u) / 2 = 1 / (1 + exp(-2u)), and exp takes a third of the time of tanh.
  tanh: (x) => x / (1 + Math.exp(-2 * Math.sqrt(2 / Math.PI) * (x + 0.044715 * x * x * x))),
  exact: (x) => 0.5 * x * (1 + erf(x * Math.SQRT1_2)),
};

// `scores` [tokens, heads] → weights of the tokens, which sum to 1 for each head.
function softmaxOverTime(scores, heads) {
  const weights = new Float64Array(scores.length);
  for (let h = 0; h < heads; h++) {
    let top = -Infinity, sum = 0;
    for (let i = h; i < scores.length; i += heads) top = Math.max(top, scores[i]);
    for (let i = h; i < scores.length; i += heads) sum += weights[i] = Math.exp(scores[i] - top);
    for (let i = h; i < scores.length; i += heads) weights[i] /= sum;
  }
  return weights;
}

// Each head's weighted sum of its own part of the rows of `x`.
function pooled(x, weights, heads) {
  const many = weights.length / heads, d = x.length / many, k = d / heads;
  const sum = new Float64Array(d);
  for (let i = 0; i < many; i++) {
    for (let j = 0; j < d; j++) sum[j] += weights[i * heads + Math.floor(j / k)] * x[i * d + j];
  }
  return sum;
}

function softmax(x) {
  const top = Math.max(...x), found = Array.from(x, (v) => Math.exp(v - top));
  const sum = found.reduce((a, b) => a + b, 0);
  return found.map((v) => v / sum);
}
