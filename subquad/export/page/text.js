// A page that generates text.
let seed = 0;

function start() {
  const prompt = $("prompt").value;
  let how;
  try { how = settings(); } catch (error) { say(error.message, true); return; }
  seed = how.seed;
  const given = document.createElement("span");
  given.className = "given";
  given.textContent = prompt;
  $("output").replaceChildren(given, document.createTextNode(""));
  $("output").hidden = false;
  say("Writing…");
  ask({ kind: "write", prompt, stop: $("stop_text").value, length: how.length, how });
}

handlers.text = ({ piece }) => {
  const box = $("output"), low = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
  box.lastChild.appendData(piece);
  if (low) box.scrollTop = box.scrollHeight;
};
handlers.done = (done) => {
  busy(false);
  say(summary(done, "tokens", seed));
};

$("go").onclick = start;
$("prompt").onkeydown = (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !$("go").disabled) start();
};
