// Text → pieces of bytes: BPE and Unigram, split as GPT-2 does.

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
        if (end < text.length && end > i + 1) end -= 1; // the last one belongs to what follows
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

class Pairs extends Split {
  constructor(v) {
    super(v);
    this.bytes = v.bytes;
    this.merges = new Map(); // left → right → [rank, joined]
    for (let i = 0; i < v.merges.length; i += 3) {
      const [left, right, joined] = v.merges.slice(i, i + 3);
      if (!this.merges.has(left)) this.merges.set(left, new Map());
      this.merges.get(left).set(right, [i, joined]);
    }
  }

  rank(left, right) {
    return this.merges.get(left)?.get(right)?.[0] ?? Infinity;
  }

  // The best pair first, of equal ones the leftmost. All its places are joined at once, until one
  // of them makes a better pair.
  pieces(bytes) {
    let ids = Array.from(bytes, (b) => this.bytes[b]);
    for (;;) {
      let best = null, left = 0, right = 0;
      for (let i = 1; i < ids.length; i++) {
        const merge = this.merges.get(ids[i - 1])?.get(ids[i]);
        if (merge && (!best || merge[0] < best[0])) [best, left, right] = [merge, ids[i - 1], ids[i]];
      }
      if (!best) return ids;
      const next = [], [rank, joined] = best;
      for (let i = 0, on = true; i < ids.length; i++) {
        const here = on && ids[i] === left && ids[i + 1] === right;
        next.push(here ? joined : ids[i]);
        if (!here) continue;
        i += 1;
        on = this.rank(next.at(-2), joined) > rank && this.rank(joined, ids[i + 1]) > rank;
      }
      ids = next;
    }
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

  // The best way to each place, by the way to an earlier one; of equals the one found first.
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
