// Opens a report of the lab in headless Chromium, over a pipe of the DevTools protocol, and fails on
// a console message, a network request, content wider than a phone, and wrong downloads.
// Arguments: the browser, the report's folder, the folder for the screenshots.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { resolve } from "node:path";

import { openBrowser } from "./browser.mjs";

const [browser, report, shots] = process.argv.slice(2);
const page = "file://" + resolve(report, "report.html");
const record = JSON.parse(readFileSync(resolve(report, "results.json"), "utf8"));
mkdirSync(shots, { recursive: true });

let completed = () => {};
const { call, tab, run, lookAt, shoot, problems } = await openBrowser({
  browser,
  shots,
  isAllowed: (url) => url === page || /^(data|blob):/.test(url),
  notice: (method, params) => {
    if (method === "Browser.downloadProgress" && params.state === "completed") completed();
  },
});

await call("Browser.setDownloadBehavior",
  { behavior: "allow", downloadPath: resolve(shots), eventsEnabled: true });
await lookAt(page);

// The keyboard: the first arrow shows the first point, a further one the next.
const charts = await run("charts.length");
assert.ok(charts > 5, `${charts} charts`);
const key = async (key) => {
  for (const type of ["keyDown", "keyUp"]) await tab("Input.dispatchKeyEvent", { type, key });
  return run("charts[0].closest('figure').querySelector('.said').textContent");
};
await run("charts[0].focus()");
const first = await key("ArrowRight");
const second = await key("ArrowRight");
assert.match(first, / \(one reading\)| readings\)/);
assert.notEqual(first, second);
assert.equal(await run("tip.hidden"), false);
await shoot("tooltip");
await key("Escape");
assert.equal(await run("tip.hidden"), true);

// A figure's link opens the table of its records.
const target = await run("document.querySelector('td a').click(), location.hash.slice(1)");
assert.ok(await run(`document.getElementById(${JSON.stringify(target)}).closest("details").open ||
  new Promise((done) => addEventListener("hashchange", () => setTimeout(() =>
    done(document.getElementById(${JSON.stringify(target)}).closest("details").open))))`), target);

// The downloads: CSV has the medians of the record, SVG and PNG are whole images.
const downloads = await run(`Promise.all(charts.map(async (svg) => {
  const image = await png(svg);
  const head = new Uint8Array(await image.slice(0, 8).arrayBuffer());
  const parsed = new DOMParser().parseFromString(drawing(svg), "image/svg+xml");
  return { name: svg.closest("figure").dataset.name, csv: csv(svg), head: [...head],
    bytes: image.size, root: parsed.documentElement.tagName };
}))`);
const nameOf = ({ on, workers }) => (workers > 1 ? `${on} ×${workers}` : on);
const medianOf = (values) => {
  const sorted = values.toSorted((a, b) => a - b);
  const half = Math.floor(sorted.length / 2);
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
};
const column = { seconds: "seconds", "per-op": "per_op_ns" };
let compared = 0;
for (const { name, csv, head, bytes, root } of downloads) {
  assert.deepEqual(head, [137, 80, 78, 71, 13, 10, 26, 10], `${name}: no PNG`);
  assert.ok(bytes > 5000, `${name}: the PNG has ${bytes} bytes`);
  assert.equal(root, "svg", name);
  const [, experiment, quantity] = name.match(/^(.*)-(seconds|per-op|cpu|memory)$/);
  if (!column[quantity]) continue;
  for (const line of csv.trim().split("\n").slice(1)) {
    const [arm, x, median, least, most, readings] = line.split(",");
    const point = record.points.find((point) => point.experiment === experiment &&
      nameOf(point) === arm && point.x === Number(x));
    const counted = point.readings.filter((reading) => reading.round !== 0);
    const values = counted.map((reading) => reading[column[quantity]]);
    assert.equal(Number(readings), counted.length, `${name}: ${line}`);
    assert.equal(Number(median), medianOf(values), `${name}: ${line}`);
    assert.equal(Number(least), Math.min(...values), `${name}: ${line}`);
    assert.equal(Number(most), Math.max(...values), `${name}: ${line}`);
    compared += 1;
  }
}

// A button saves a file.
const saved = new Promise((done) => (completed = done));
await run("document.querySelector('.downloads button').click()");
await saved;
assert.equal(readFileSync(resolve(shots, downloads[0].name + ".csv"), "utf8"), downloads[0].csv);
assert.ok(compared > 20, `only ${compared} points compared`);
assert.deepEqual(problems, []);
console.log(`${charts} charts and ${compared} downloaded points are right; screenshots: ${shots}`);
process.exit(0);
