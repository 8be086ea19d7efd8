// Text → token ids, exactly like the run's tokenizer. The page contains tables of how the tokenizer
// library treats each character, because browsers differ from it and from each other.

const WORD = 1, SPACE = 2, MAPPED = 4, MARK = 8, ASKED = 16, FROZEN = 32;

// Sets `flag` for the code points in `ranges`, given as gap, count, gap, count, ….
function flagged(flags, ranges, flag) {
  for (let i = 0, at = 0; i < ranges.length; i += 2) {
    at += ranges[i];
    for (const end = at + ranges[i + 1]; at < end; at++) flags[at] |= flag;
  }
}

class Words {
  constructor(v) {
    this.flags = new Uint8Array(0x110000);
    for (const [ranges, flag] of [[v.word, WORD], [v.space, SPACE], [v.mapped, MAPPED], [v.marks, MARK]]) {
      flagged(this.flags, ranges, flag);
    }
    this.lower = new Map([[0x130, "i\u0307"]]);
    for (let i = 0, at = 0; i < v.lower.length; i += 4) {
      const [gap, many, stride, shift] = v.lower.slice(i, i + 4);
      at += gap;
      for (let n = 0; n < many; n++) {
        const point = at + n * stride;
        this.lower.set(point, String.fromCodePoint(point + shift));
      }
      at += (many - 1) * stride + 1;
    }
    this.ids = new Map(v.tokens.map((token, id) => [token, id]).filter(([token]) => token));
    this.unknown = v.unknown;
  }

  // Whether a character is unknown to the library's Unicode version, which therefore leaves it as
  // it is, while this browser would change or reorder it.
  frozen(point) {
    const flags = this.flags;
    if (!(flags[point] & ASKED)) {
      const c = String.fromCodePoint(point);
      const changed = !(flags[point] & MAPPED) && c.normalize("NFKD") !== c;
      const moved = !(flags[point] & MARK) && `\u0345${c}\u0334`.normalize("NFD")[0] !== "\u0345";
      flags[point] |= ASKED | (changed || moved ? FROZEN : 0);
    }
    return (flags[point] & FROZEN) !== 0;
  }

  // NFKC, then lower case.
  fold(text) {
    if (/^[\0-\x7f]*$/.test(text)) return text.toLowerCase();
    const pieces = [];
    let from = 0, at = 0;
    const normal = (end) => {
      for (const c of text.slice(from, end).normalize("NFKC")) {
        // The library does not know this composed character, so it would not compose it.
        pieces.push(this.frozen(c.codePointAt(0)) ? c.normalize("NFD") : c);
      }
    };
    for (const c of text) {
      if (c > "\x7f" && this.frozen(c.codePointAt(0))) {
        normal(at);
        pieces.push(c);
        from = at + c.length;
      }
      at += c.length;
    }
    normal(text.length);
    return Array.from(pieces.join(""), (c) => this.lower.get(c.codePointAt(0)) ?? c).join("");
  }

  // Splits into words, with their apostrophes, and single punctuation marks.
  split(text) {
    const found = [], units = (point) => (point > 0xffff ? 2 : 1); // of UTF-16
    const word = (i) => i < text.length && (this.flags[text.codePointAt(i)] & WORD) !== 0;
    const run = (i) => { while (word(i)) i += units(text.codePointAt(i)); return i; };
    for (let i = 0; i < text.length;) {
      let end = run(i);
      if (end > i) {
        while ((text[end] === "'" || text[end] === "\u2019") && word(end + 1)) end = run(end + 1);
      } else {
        const point = text.codePointAt(i);
        end += units(point);
        if (this.flags[point] & SPACE) { i = end; continue; }
      }
      found.push(text.slice(i, end));
      i = end;
    }
    return found;
  }

  encode(text) {
    return this.split(this.fold(text)).map((word) => this.ids.get(word) ?? this.unknown);
  }
}

class Chars {
  constructor(v) {
    this.ids = new Map(v.tokens.map((token, id) => [token, id]).filter(([token]) => token));
    this.unknown = v.unknown;
  }

  encode(text) {
    return Array.from(text, (c) => this.ids.get(c) ?? this.unknown);
  }
}

class Bytes {
  constructor(v) {
    this.first = v.first;
    this.unknown = null;
  }

  encode(text) {
    return Array.from(new TextEncoder().encode(text), (b) => b + this.first);
  }
}

const TOKENIZERS = { words: Words, chars: Chars, bytes: Bytes };
