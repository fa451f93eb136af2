// Opens the page of `ramie inspect --web` in headless Chromium.
// Arguments: the browser, the program `ramie`, the program to inspect, the folder for screenshots.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { request } from "node:http";
import { createInterface } from "node:readline";

import { openBrowser } from "./browser.mjs";

const [browser, ramie, program, shots] = process.argv.slice(2);
mkdirSync(shots, { recursive: true });

const children = [];
process.on("exit", () => children.forEach((child) => child.kill("SIGKILL")));
function start(command, parameters, stdio) {
  const child = spawn(command, parameters, { stdio });
  children.push(child);
  return child;
}
const firstLine = (child) => new Promise((done) => createInterface(child.stdout).once("line", done));

const scene = start(program, [], ["pipe", "pipe", "ignore"]);
assert.equal(await firstLine(scene), "ready");
const inspect = start(ramie, ["inspect", String(scene.pid), "--web", "--interval", "0.2"],
  ["ignore", "pipe", "inherit"]);
const page = (await firstLine(inspect)).replace("listening on ", "");
const { origin, hostname, port, search } = new URL(page);

// Without a browser: no token, a wrong one, a foreign host.
const status = (path, headers = {}) => new Promise((done, failed) => {
  request({ hostname, port, path, headers }, (answer) => {
    answer.resume();
    done(answer.statusCode);
  }).on("error", failed).end();
});
for (const path of ["/", "/events", "/strand/1.1"]) {
  assert.equal(await status(path), 403, path);
  assert.equal(await status(path + "?token=0"), 403, path);
  assert.equal(await status(path + search, { Host: "evil.example:" + port }), 403, path);
}
assert.equal(await status("/" + search), 200);

const { tab, run, open, lookAt, shoot, problems } = await openBrowser({
  browser,
  shots,
  isAllowed: (url) => url.startsWith(origin + "/") || url.startsWith("data:"),
  notice: (method) => {
    if (method === "Page.javascriptDialogOpening") problems.push("a name has run as a script");
  },
});

// Waits until an expression is true in the page; the limit of the lane ends a wait in vain.
const until = (condition) => run(`new Promise((done) => {
  const look = () => (${condition}) ? done(true) : setTimeout(look, 50);
  look();
})`);

await lookAt(page, async () => {
  await until("byId('status').textContent === 'live'");
  await until("document.querySelectorAll('#workers tbody tr').length === 2");
});

// The counts follow the program.
const count = `Number(document.querySelector("[data-state=waiting]").textContent)`;
await open(page, { dark: false, width: 1280 });
await until("byId('status').textContent === 'live'");
const before = await run(count);
assert.ok(before >= 6, `${before} strands wait`);
scene.stdin.write("more 100\n");
await until(`${count} === ${before + 100}`);
await until(`[...document.querySelectorAll("#places tbody tr")].some((row) =>
  Number(row.cells[0].textContent) === 102 && row.textContent.includes("programs/inspect.rs:"))`);

// Names are text; control characters are escaped.
const names = await run(`[...document.querySelectorAll("#slowest button")].map((b) => b.textContent)`);
assert.ok(names.some((name) => name.startsWith("<img src=x onerror=alert(1)> (")), String(names));
assert.ok(names.some((name) => name.startsWith("clears \\u{1b}[2J (")), String(names));
assert.equal(await run("document.querySelectorAll('img').length"), 0);

// A pause keeps the counts; the end of the pause shows the newest.
await run("byId('pause').click()");
scene.stdin.write("more 7\n");
await until(`newest.states.waiting === ${before + 107}`);
assert.equal(await run(count), before + 100);
await run("byId('pause').click()");
assert.equal(await run(count), before + 107);

// The keyboard opens a wait, and the page shows its calls.
await run(`[...document.querySelectorAll("#slowest button")]
  .find((button) => button.textContent.startsWith("<img")).focus()`);
const key = { key: "Enter", code: "Enter", windowsVirtualKeyCode: 13, text: "\r" };
await tab("Input.dispatchKeyEvent", { type: "keyDown", ...key });
await tab("Input.dispatchKeyEvent", { type: "keyUp", ...key });
await until(`byId("calls").textContent.includes("waits for an Event")`);
const calls = await run(`byId("calls").textContent`);
if (process.arch === "x64") assert.match(calls, /inspect_scene::waits_for_the_event/);
assert.equal(await run("document.querySelectorAll('img').length"), 0);
await shoot("calls");
await run("byId('close').click()");
assert.equal(await run("byId('strand').hidden"), true);

// A row is the same element as long as its strand waits, so that the focus stays on it.
const button = `document.querySelector("#slowest button")`;
await run(`${button}.focus(), window.focused = document.activeElement`);
const { since } = { since: await run(`newest.slowest[0].since_ms`) };
await until(`newest.slowest[0].since_ms > ${since + 500}`);
assert.equal(await run("window.focused === document.activeElement"), true);

scene.stdin.write("stall\n");
await until(`document.querySelector("#stalls tbody tr")?.textContent.includes("fiber 'main'")`);
await shoot("stall");

// The end of the program.
const code = new Promise((done) => inspect.on("exit", done));
scene.stdin.end();
await until(`byId("status").textContent === "process ${scene.pid} has ended"`);
assert.equal(await code, 1);
await shoot("ended");
assert.deepEqual(problems, []);
console.log(`the page follows the program; screenshots: ${shots}`);
process.exit(0);
