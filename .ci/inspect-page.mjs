// Opens the page of `ramie inspect --web` in headless Chromium, over a pipe of the DevTools protocol.
// Arguments: the browser, the program `ramie`, the program to inspect, the folder for screenshots.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { resolve } from "node:path";
import { createInterface } from "node:readline";

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

const chromium = start(browser, ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
  "--remote-debugging-pipe", "--no-first-run", "--disable-background-networking",
  "--user-data-dir=" + resolve(shots, "profile"), "about:blank"],
["ignore", "ignore", "ignore", "pipe", "pipe"]);

const waiting = new Map();
const problems = [];
let loaded = () => {};
let rest = "";
let last = 0;
chromium.stdio[4].setEncoding("utf8").on("data", (data) => {
  const messages = (rest + data).split("\0");
  rest = messages.pop();
  for (const message of messages.map(JSON.parse)) {
    const { method, params } = message;
    if (message.id) {
      const { done, failed } = waiting.get(message.id);
      waiting.delete(message.id);
      message.error ? failed(new Error(JSON.stringify(message.error))) : done(message.result);
    } else if (method === "Page.loadEventFired") {
      loaded();
    } else if (method === "Page.javascriptDialogOpening") {
      problems.push("a name has run as a script");
    } else if (method === "Network.requestWillBeSent") {
      const { url } = params.request;
      if (!url.startsWith(origin + "/") && !url.startsWith("data:")) problems.push(`requested ${url}`);
    } else if (["Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"]
      .includes(method)) {
      problems.push(`the console says ${JSON.stringify(params)}`);
    }
  }
});

function call(method, params = {}, sessionId) {
  last += 1;
  chromium.stdio[3].write(JSON.stringify({ id: last, method, params, sessionId }) + "\0");
  return new Promise((done, failed) => waiting.set(last, { done, failed }));
}

const { targetInfos } = await call("Target.getTargets");
const { targetId } = targetInfos.find((target) => target.type === "page");
const { sessionId } = await call("Target.attachToTarget", { targetId, flatten: true });
const tab = (method, params) => call(method, params, sessionId);

async function run(expression) {
  const { result, exceptionDetails } = await tab("Runtime.evaluate",
    { expression, awaitPromise: true, returnByValue: true });
  assert.equal(exceptionDetails, undefined, JSON.stringify(exceptionDetails));
  return result.value;
}

// Waits until an expression is true in the page; the limit of the lane ends a wait in vain.
const until = (condition) => run(`new Promise((done) => {
  const look = () => (${condition}) ? done(true) : setTimeout(look, 50);
  look();
})`);

async function shoot(name) {
  const { data } = await tab("Page.captureScreenshot", { captureBeyondViewport: true });
  writeFileSync(resolve(shots, name + ".png"), Buffer.from(data, "base64"));
}

for (const domain of ["Page", "Network", "Runtime", "Log"]) await tab(domain + ".enable");

async function open({ dark, width }) {
  const value = dark ? "dark" : "light";
  await tab("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value }] });
  await tab("Emulation.setDeviceMetricsOverride",
    { width, height: 900, deviceScaleFactor: 1, mobile: width < 600 });
  const ready = new Promise((done) => (loaded = done));
  await tab("Page.navigate", { url: page });
  await ready;
  await until("byId('status').textContent === 'live'");
}

for (const [name, look] of Object.entries({
  light: { dark: false, width: 1280 },
  dark: { dark: true, width: 1280 },
  phone: { dark: false, width: 390 },
})) {
  await open(look);
  const width = await run("document.documentElement.scrollWidth");
  assert.ok(width <= look.width, `${name}: the page is ${width} pixels wide, not ${look.width}`);
  await until("document.querySelectorAll('#workers tbody tr').length === 2");
  await shoot(name);
}

// The counts follow the program.
const count = `Number(document.querySelector("[data-state=waiting]").textContent)`;
await open({ dark: false, width: 1280 });
const before = await run(count);
assert.ok(before >= 6, `${before} strands wait`);
scene.stdin.write("more 100\n");
await until(`${count} === ${before + 100}`);
await until(`[...document.querySelectorAll("#places tbody tr")].some((row) =>
  Number(row.cells[0].textContent) === 102 && row.textContent.includes("programs/inspect.rs:"))`);

// Names are text; control characters are replaced.
const names = await run(`[...document.querySelectorAll("#slowest button")].map((b) => b.textContent)`);
assert.ok(names.some((name) => name.startsWith("<img src=x onerror=alert(1)> (")), String(names));
assert.ok(names.some((name) => name.startsWith("clears \u{fffd}[2J (")), String(names));
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
