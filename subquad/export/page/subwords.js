// Byte-level subword tokenizers: BPE and Unigram, with GPT-2's pre-tokenization.

const LETTER = 1, NUMBER = 2, BLANK = 4;

class Split {
  constructor(v) {
    this.flags = new Uint8Array(0x110000);
    for (const [ranges, flag] of [[v.letter, LETTER], [v.number, NUMBER], [v.space, BLANK]]) {
      flagged(this.flags, ranges, flag);
    }
    this.unknown = v.unknown;
  }

  // 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  split(text) {
    const found = [], kind = (i) => this.flags[text.codePointAt(i)];
    const run = (i, what) => {
      while (i < text.length && kind(i) === what) i += text.codePointAt(i) > 0xffff ? 2 : 1;
      return i;
    };
    for (let i = 0, end; i < text.length; i = end) {
      const short = text[i] === "'" && /^'(?:s|t|re|ve|m|ll|d)/.exec(text.slice(i, i + 3));
      const first = i + (text[i] === " " && i + 1 < text.length ? 1 : 0);
      if (short) end = i + short[0].length;
      else if (kind(first) !== BLANK) end = run(first, kind(first));
      else {
        end = run(i, BLANK);
        if (end < text.length && end > i + 1) end -= 1; // the last space belongs to what follows
      }
      found.push(text.slice(i, end));
    }
    return found;
  }

  encode(text) {
    const utf8 = new TextEncoder(), known = new Map();
    return this.split(text).flatMap((part) => {
      if (!known.has(part)) known.set(part, this.pieces(utf8.encode(part)));
      return known.get(part);
    });
  }
}

// A binary heap of numbers, smallest first.
class Heap {
  constructor() { this.all = []; }

  push(x) {
    const all = this.all;
    let at = all.push(x) - 1;
    for (let up; at > 0 && all[up = (at - 1) >> 1] > x; at = up) all[at] = all[up];
    all[at] = x;
  }

  pop() {
    const all = this.all, first = all[0], x = all.pop();
    if (!all.length) return first;
    let at = 0;
    for (let down; (down = 2 * at + 1) < all.length; at = down) {
      if (all[down + 1] < all[down]) down += 1;
      if (all[down] >= x) break;
      all[at] = all[down];
    }
    all[at] = x;
    return first;
  }
}

class Pairs extends Split {
  constructor(v) {
    super(v);
    this.bytes = v.bytes;
    this.joined = v.merges.filter((_, i) => i % 3 === 2);
    this.ranks = new Map(); // left → right → index of the merge
    for (let i = 0; i < v.merges.length; i += 3) {
      const [left, right] = v.merges.slice(i, i + 2);
      if (!this.ranks.has(left)) this.ranks.set(left, new Map());
      this.ranks.get(left).set(right, i / 3);
    }
  }

  // Merges the pair with the best rank, the leftmost if there are several, until none is left.
  pieces(bytes) {
    const n = bytes.length, ids = Array.from(bytes, (b) => this.bytes[b]), heap = new Heap();
    const next = ids.map((_, i) => i + 1), last = ids.map((_, i) => i - 1);
    const rank = (at) => (next[at] < n ? this.ranks.get(ids[at])?.get(ids[next[at]]) : undefined);
    const offer = (at) => {
      if (at >= 0 && rank(at) !== undefined) heap.push(rank(at) * n + at);
    };
    ids.forEach((_, i) => offer(i));
    while (heap.all.length) {
      const key = heap.pop(), at = key % n, joined = this.joined[Math.floor(key / n)];
      if (ids[at] === null || this.joined[rank(at)] !== joined) continue; // outdated: merged otherwise
      const right = next[at];
      ids[at] = joined;
      ids[right] = null;
      next[at] = next[right];
      if (next[at] < n) last[next[at]] = at;
      offer(last[at]);
      offer(at);
    }
    return ids.filter((id) => id !== null);
  }
}

class Likeliest extends Split {
  constructor(v) {
    super(v);
    this.names = v.names;
    this.ids = new Map(v.pieces.map((piece, id) => [piece, id]));
    this.scores = v.scores;
    this.longest = Math.max(...v.pieces.map((piece) => piece.length));
  }

  // Viterbi: the best segmentation up to each position; among equals, the one found first.
  pieces(bytes) {
    const text = Array.from(bytes, (b) => this.names[b]).join(""), n = text.length;
    const score = new Float64Array(n + 1), from = new Int32Array(n + 1).fill(-1), id = new Int32Array(n + 1);
    for (let i = 0; i < n; i++) {
      for (let end = i + 1; end <= Math.min(n, i + this.longest); end++) {
        const piece = this.ids.get(text.slice(i, end));
        if (piece === undefined) continue;
        const sum = score[i] + this.scores[piece];
        if (from[end] < 0 || sum > score[end]) { score[end] = sum; from[end] = i; id[end] = piece; }
      }
    }
    const found = [];
    for (let end = n; end > 0; end = from[end]) found.push(id[end]);
    return found.reverse();
  }
}

Object.assign(TOKENIZERS, { bpe: Pairs, unigram: Likeliest });
