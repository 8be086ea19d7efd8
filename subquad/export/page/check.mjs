// Runs the worker of a page in Node, without a browser: node check.mjs PAGE < REQUESTS. REQUESTS is
// a JSON list of messages to the worker. Prints all its replies as JSON.
import { readFileSync } from "node:fs";

const page = readFileSync(process.argv[2], "utf8");
const element = (id, needed = true) => {
  const open = page.indexOf(`<script id="${id}"`);
  if (open < 0 && !needed) return undefined;
  if (open < 0) throw new Error(`not a page made by subquad: it has no ${id}`);
  const from = page.indexOf(">", open) + 1;
  return page.slice(from, page.indexOf("</script>", from));
};
const answers = [];
let answered = null;
globalThis.postMessage = (message) => {
  answers.push(message);
  if (["ready", "done", "classes", "checked", "error"].includes(message.kind)) answered();
};
globalThis.onmessage = null;
new Function(element("worker"))();

const load = { kind: "load", about: element("about"), weights: element("weights"),
  engine: element("engine", false) };
for (const data of [load, ...JSON.parse(readFileSync(0, "utf8"))]) {
  await new Promise((go) => { answered = go; globalThis.onmessage({ data }); });
  if (answers.at(-1).kind === "error") break;
}
process.stdout.write(JSON.stringify(answers));
