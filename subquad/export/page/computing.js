// Shared by the workers of all pages: verifies checksums, and handles messages in order. Also runs
// in Node.
"use strict";

let about = null, stopped = false, job = Promise.resolve();

function bytesOf(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
  const text = atob(base64), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

// Uses the browser's implementation if there is one; it is missing on pages loaded over http.
async function digest(bytes) {
  if (!globalThis.crypto?.subtle) return sha256(bytes);
  const found = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(found, (x) => x.toString(16).padStart(2, "0")).join("");
}

// FIPS 180-4.
function sha256(bytes) {
  const primes = [], k = new Uint32Array(64), h = new Uint32Array(8), w = new Uint32Array(64);
  for (let n = 2; primes.length < 64; n++) if (primes.every((p) => n % p)) primes.push(n);
  const fraction = (x) => Math.floor((x - Math.floor(x)) * 2 ** 32);
  primes.forEach((p, i) => { k[i] = fraction(Math.cbrt(p)); if (i < 8) h[i] = fraction(Math.sqrt(p)); });
  const padded = new Uint8Array(Math.ceil((bytes.length + 9) / 64) * 64);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(bytes.length / 2 ** 29));
  view.setUint32(padded.length - 4, bytes.length << 3);
  const turn = (x, n) => (x >>> n) | (x << (32 - n));
  for (let at = 0; at < padded.length; at += 64) {
    for (let i = 0; i < 16; i++) w[i] = view.getUint32(at + 4 * i);
    for (let i = 16; i < 64; i++) {
      const a = w[i - 15], b = w[i - 2];
      w[i] = w[i - 16] + (turn(a, 7) ^ turn(a, 18) ^ (a >>> 3)) + w[i - 7]
        + (turn(b, 17) ^ turn(b, 19) ^ (b >>> 10));
    }
    let [a, b, c, d, e, f, g, s] = h;
    for (let i = 0; i < 64; i++) {
      const one = (s + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + k[i] + w[i]) | 0;
      const two = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      s = g; g = f; f = e; e = (d + one) | 0; d = c; c = b; b = a; a = (one + two) | 0;
    }
    [a, b, c, d, e, f, g, s].forEach((x, i) => { h[i] += x; });
  }
  return Array.from(h, (x) => x.toString(16).padStart(8, "0")).join("");
}

// The bytes of a part of the page, after checking that their SHA-256 is that of the export.
async function intact(message, what) {
  const bytes = bytesOf(message[what]), found = await digest(bytes);
  if (found !== about[what + "_sha256"]) {
    throw new Error(`The ${what} of this page have been changed or damaged: their SHA-256 is `
      + `${found.slice(0, 12)}…, not ${about[what + "_sha256"].slice(0, 12)}…. Export it again.`);
  }
  return bytes;
}

onmessage = ({ data }) => {
  if (data.kind === "stop") { stopped = true; return; }
  job = job.then(async () => {
    stopped = false;
    try {
      postMessage(await WORK[data.kind](data));
    } catch (error) {
      postMessage({ kind: "error", during: data.kind, message: error.message });
    }
  });
};
