// A page that generates images, or completes one that the user has begun.
const [height, width, channels = 1] = about.shape, levels = about.levels;
const canvas = $("canvas"), context = canvas.getContext("2d");
const picture = new Uint8ClampedArray(height * width * channels);
const SHOWN = 12;
let at = 0, seed = 0, cursor = null;

canvas.width = width;
canvas.height = height;

function paint(onto = context) {
  const image = onto.createImageData(width, height);
  for (let i = 0; i < width * height; i++) {
    for (let c = 0; c < 3; c++) {
      const value = picture[i * channels + (channels === 1 ? 0 : c)] * 255 / (levels - 1);
      image.data[4 * i + c] = channels === 1 ? 255 - value : value; // greyscale is shown as ink on paper
    }
    image.data[4 * i + 3] = 255;
  }
  onto.putImageData(image, 0, 0);
  if (cursor && onto === context) {
    onto.strokeStyle = "#c0502c";
    onto.lineWidth = 0.3;
    onto.strokeRect(cursor.x + 0.15, cursor.y + 0.15, 0.7, 0.7);
  }
}

const begun = () => $("mine").checked;
const kept = () => (begun() ? Number($("keep").value) : 0);

function dab(x, y) {
  const radius = Math.max(0.5, width / 22), reach = Math.ceil(radius + 1);
  for (let row = Math.floor(y) - reach; row <= y + reach; row++) {
    for (let column = Math.floor(x) - reach; column <= x + reach; column++) {
      if (row < 0 || column < 0 || row >= kept() || column >= width) continue;
      const far = Math.hypot(column + 0.5 - x, row + 0.5 - y);
      const value = Math.round((levels - 1) * Math.min(1, Math.max(0, radius + 0.5 - far)));
      for (let c = 0; c < channels; c++) {
        const i = (row * width + column) * channels + c;
        picture[i] = Math.max(picture[i], value);
      }
    }
  }
  paint();
}

function mode() {
  $("begin").hidden = !begun();
  $("line").hidden = !begun();
  canvas.classList.toggle("open", begun());
  canvas.tabIndex = begun() ? 0 : -1;
  $("line").style.top = `${100 * kept() / height}%`;
  $("kept").textContent = `${kept()} of ${height} rows`;
  $("go").textContent = begun() ? "Complete it" : "Draw";
}

function clear(from = 0) {
  picture.fill(0, from * width * channels);
  paint();
}

function start() {
  let how;
  try { how = settings(); } catch (error) { say(error.message, true); return; }
  seed = how.seed;
  cursor = null;
  clear(kept());
  at = kept() * width * channels;
  say("Drawing…");
  ask({ kind: "draw", given: Array.from(picture.subarray(0, at)), how });
}

handlers.pixels = ({ values }) => {
  picture.set(values, at);
  at += values.length;
  paint();
};
handlers.done = (done) => {
  busy(false);
  say(summary(done, "pixels", seed));
  const small = document.createElement("canvas");
  small.width = width;
  small.height = height;
  small.setAttribute("role", "img");
  small.setAttribute("aria-label", `Picture with seed ${seed}`);
  paint(small.getContext("2d"));
  $("shelf").prepend(small);
  while ($("shelf").children.length > SHOWN) $("shelf").lastChild.remove();
  $("shelf").hidden = false;
};

function place(event) {
  const box = canvas.getBoundingClientRect();
  return [(event.clientX - box.left) / box.width * width, (event.clientY - box.top) / box.height * height];
}
canvas.onpointerdown = (event) => {
  if (!begun() || $("go").disabled) return;
  canvas.setPointerCapture(event.pointerId);
  dab(...place(event));
};
canvas.onpointermove = (event) => {
  if (event.buttons && begun() && !$("go").disabled) dab(...place(event));
};
canvas.onkeydown = (event) => {
  if (!begun() || $("go").disabled) return;
  const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  if (!move && event.key !== " ") return;
  event.preventDefault();
  cursor = cursor || { x: width >> 1, y: 0 };
  if (move) {
    cursor.x = Math.min(width - 1, Math.max(0, cursor.x + move[0]));
    cursor.y = Math.min(Math.max(kept() - 1, 0), Math.max(0, cursor.y + move[1]));
  } else dab(cursor.x + 0.5, cursor.y + 0.5);
  paint();
  say(`Row ${cursor.y + 1}, column ${cursor.x + 1}${move ? "" : ", painted"}.`);
};
$("keep").max = String(height - 1);
$("keep").value = String(height >> 1);
for (const id of ["mine", "fresh"]) $(id).onchange = () => { mode(); if (begun()) clear(); };
$("keep").oninput = () => { clear(kept()); mode(); };
$("clear").onclick = () => { clear(); say("Cleared."); };
$("go").onclick = start;
mode();
paint();
