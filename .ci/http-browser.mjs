// Opens the page of the example `browser` of ramie-http in headless Chromium.
// Arguments: the browser, the program of the example, the folder for screenshots, `http` or `tls`,
// and `blocked` to hinder one of the page's requests.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { resolve } from "node:path";

import { openBrowser } from "./browser.mjs";

const [browser, program, shots, scheme, blocked] = process.argv.slice(2);
const server = spawn(program, ["127.0.0.1:0", scheme], { stdio: ["ignore", "pipe", "inherit"] });
process.on("exit", () => server.kill("SIGKILL"));
const line = await new Promise((done) => createInterface(server.stdout).once("line", done));
const page = line.replace("listening on ", "") + "/";

const { tab, run, open, shoot, problems } = await openBrowser({
  browser,
  shots: resolve(shots, scheme),
  flags: ["--ignore-certificate-errors"],
  isAllowed: (url) => url.startsWith(page) || url.startsWith("data:"),
  notice: () => {},
});
if (blocked) await tab("Network.setBlockedURLs", { urls: ["*/upload"] });
await open(page, { dark: false, width: 1280 });
const outcomes = await run("outcomes");
await shoot(scheme);
const failed = Object.entries(outcomes).filter(([, outcome]) => outcome !== "passed")
  .map(([check, outcome]) => `${check}: ${outcome}`);
assert.equal(failed.join("; "), "");
assert.equal(Object.keys(outcomes).length, 7);

const protocol = scheme === "tls" ? "h2" : "http/1.1";
for (const path of ["", "upload", "pieces"]) {
  const used = await run(`protocolsOf(${JSON.stringify(path)})`);
  assert.deepEqual([...new Set(used)], [protocol], path);
}
assert.deepEqual(problems, []);
console.log(`${Object.keys(outcomes).join(", ")} by ${protocol}: passed`);
process.exit(0);
