// Headless Chromium for the lanes, over a pipe of the DevTools protocol.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { resolve } from "node:path";

// Starts the browser, with a profile in the folder `shots`. `problems` collects what a page must not
// do: messages on the console, and requests that `isAllowed` refuses. `notice` gets other events.
export async function openBrowser({ browser, shots, isAllowed, notice, flags = [] }) {
  const chromium = spawn(browser, [...flags, "--headless", "--no-sandbox", "--disable-gpu",
    "--disable-dev-shm-usage", "--remote-debugging-pipe", "--no-first-run",
    "--disable-background-networking", "--user-data-dir=" + resolve(shots, "profile"), "about:blank"],
  { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
  process.on("exit", () => chromium.kill("SIGKILL"));

  const waiting = new Map();
  const problems = [];
  let loaded = () => {};
  let rest = "";
  let last = 0;
  chromium.stdio[4].setEncoding("utf8").on("data", (data) => {
    const messages = (rest + data).split("\0");
    rest = messages.pop();
    for (const { id, error, result, method, params } of messages.map(JSON.parse)) {
      if (id) {
        const { done, failed } = waiting.get(id);
        waiting.delete(id);
        error ? failed(new Error(JSON.stringify(error))) : done(result);
      } else if (method === "Page.loadEventFired") {
        loaded();
      } else if (method === "Network.requestWillBeSent") {
        const { url } = params.request;
        if (!isAllowed(url)) problems.push(`requested ${url}`);
      } else if (["Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"]
        .includes(method)) {
        problems.push(`the console says ${JSON.stringify(params)}`);
      } else {
        notice(method, params);
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

  async function open(page, { dark, width }) {
    const value = dark ? "dark" : "light";
    await tab("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value }] });
    await tab("Emulation.setDeviceMetricsOverride",
      { width, height: 900, deviceScaleFactor: 1, mobile: width < 600 });
    const ready = new Promise((done) => (loaded = done));
    await tab("Page.navigate", { url: page });
    await ready;
  }

  async function shoot(name) {
    const { data } = await tab("Page.captureScreenshot", { captureBeyondViewport: true });
    writeFileSync(resolve(shots, name + ".png"), Buffer.from(data, "base64"));
  }

  // Opens the page in both colours and as wide as a phone. `ready` waits until its content is there.
  async function lookAt(page, ready = async () => {}) {
    for (const [name, look] of Object.entries({
      light: { dark: false, width: 1280 },
      dark: { dark: true, width: 1280 },
      phone: { dark: false, width: 390 },
    })) {
      await open(page, look);
      await ready();
      const width = await run("document.documentElement.scrollWidth");
      assert.ok(width <= look.width, `${name}: the page is ${width} pixels wide, not ${look.width}`);
      await shoot(name);
    }
  }

  for (const domain of ["Page", "Network", "Runtime", "Log"]) await tab(domain + ".enable");
  return { call, tab, run, open, lookAt, shoot, problems };
}
