"use strict";
const query = "?token=" + new URLSearchParams(location.search).get("token");
const byId = (id) => document.getElementById(id);
let paused = false;
let newest = null;

const number = (n) => Math.round(n).toLocaleString("en");
function time(ms) {
  const s = ms / 1000;
  if (s < 1) return ms + " ms";
  if (s < 60) return s.toFixed(1) + " s";
  if (s < 3600) return Math.floor(s / 60) + " min " + Math.floor(s % 60) + " s";
  return Math.floor(s / 3600) + " h " + Math.floor(s / 60) % 60 + " min";
}

function say(text, bad = false) {
  byId("status").textContent = text;
  byId("status").classList.toggle("bad", bad);
}

// Sets the rows of a table. A row is kept as long as its key is there, so that the focus stays on it.
// Each cell is a text, or a function that fills the cell. Texts of the program never become markup.
function rows(id, entries) {
  const body = byId(id).tBodies[0];
  const known = new Map([...body.rows].map((row) => [row.dataset.key, row]));
  const focused = document.activeElement;
  const wanted = entries.map(({ key, cells }) => {
    const row = known.get(key) ?? document.createElement("tr");
    known.delete(key);
    row.dataset.key = key;
    cells.forEach(({ text, fill, kind = "" }, at) => {
      const cell = row.cells[at] ?? row.appendChild(document.createElement("td"));
      cell.className = kind;
      if (fill) fill(cell);
      else if (cell.textContent !== text) cell.textContent = text;
    });
    return row;
  });
  known.forEach((row) => row.remove());
  wanted.forEach((row, at) => {
    if (body.rows[at] !== row) body.insertBefore(row, body.rows[at] ?? null);
  });
  if (focused !== document.activeElement && focused?.isConnected) focused.focus();
}

const unique = () => {
  const seen = new Map();
  return (key) => {
    const count = seen.get(key) ?? 0;
    seen.set(key, count + 1);
    return key + "#" + count;
  };
};

function load(worker) {
  return (cell) => {
    const meter = cell.querySelector("meter") ?? cell.appendChild(document.createElement("meter"));
    const text = cell.querySelector("span") ?? cell.appendChild(document.createElement("span"));
    meter.hidden = worker.load === null;
    meter.value = worker.load ?? 0;
    const share = worker.load === null ? "–" : Math.round(100 * worker.load) + " %";
    meter.setAttribute("aria-label", "load of " + worker.label);
    text.textContent = worker.problem || share;
    text.className = worker.problem ? "problem" : "";
  };
}

function strand(wait) {
  return (cell) => {
    let button = cell.querySelector("button");
    if (!button) {
      button = cell.appendChild(document.createElement("button"));
      button.type = "button";
      button.title = "show the calls of this strand";
      button.addEventListener("click", () => show(button.dataset.id, button.textContent));
    }
    button.dataset.id = wait.id;
    button.textContent = wait.name ? `${wait.name} (${wait.id})` : wait.id;
  };
}

function draw(view) {
  byId("process").textContent = view.process;
  document.title = `${view.process} – Ramie`;
  for (const cell of document.querySelectorAll("[data-state]")) {
    cell.textContent = number(view.states[cell.dataset.state]);
  }
  for (const cell of document.querySelectorAll("[data-rate]")) {
    cell.textContent = view.rates ? number(view.rates[cell.dataset.rate]) : "–";
  }
  const n = (text) => ({ text: String(text), kind: "n" });
  const short = (text) => ({ text: String(text), kind: "short" });
  const key = unique();
  rows("workers", view.workers.map((worker) => ({ key: key(worker.label + worker.thread), cells: [
    short(worker.label), short(worker.thread), { fill: load(worker), kind: "short" },
    n(worker.run_queue ?? "–"), n(number(worker.runnable)), n(number(worker.waiting)),
    n(number(worker.fibers))] })));
  rows("places", view.places.map((place) => ({ key: key(place.purpose + place.place), cells: [
    n(number(place.strands)), n(time(place.longest_ms)), short(place.purpose),
    { text: place.place }] })));
  byId("elsewhere").hidden = view.waiting_elsewhere === 0;
  byId("elsewhere").textContent = `${number(view.waiting_elsewhere)} strands at further places`;
  rows("slowest", view.slowest.map((wait) => ({ key: wait.id, cells: [
    { fill: strand(wait) }, n(time(wait.since_ms)), { text: wait.wait }, { text: wait.place },
    short(wait.worker)] })));
  byId("stalls").hidden = view.stalls.length === 0;
  rows("stalls", view.stalls.map((stall) => ({ key: key(stall.fiber), cells: [
    { text: stall.fiber }, n(stall.worker), n(time(stall.ago_ms)),
    n((stall.has_ended ? "" : "at least ") + time(stall.lasted_ms)), { text: stall.cause }] })));
}

async function show(id, name) {
  byId("strand").hidden = false;
  byId("strand-title").textContent = name;
  byId("calls").textContent = "…";
  byId("strand-title").focus();
  try {
    const answer = await fetch("/strand/" + id + query, { cache: "no-store" });
    const text = await answer.text();
    if (byId("strand-title").textContent === name) byId("calls").textContent = text;
  } catch {
    byId("calls").textContent = "`ramie inspect` does not answer";
  }
}

byId("close").addEventListener("click", () => {
  byId("strand").hidden = true;
});
byId("pause").addEventListener("click", () => {
  paused = !paused;
  byId("pause").setAttribute("aria-pressed", paused);
  byId("pause").textContent = paused ? "Continue" : "Pause";
  say(paused ? "paused" : "live");
  if (!paused && newest) draw(newest);
});

const events = new EventSource("/events" + query);
events.addEventListener("view", ({ data }) => {
  newest = JSON.parse(data);
  if (paused) return;
  say("live");
  draw(newest);
});
events.addEventListener("problem", ({ data }) => say(data, true));
events.addEventListener("ended", ({ data }) => {
  events.close();
  say(data, true);
});
events.addEventListener("error", () => {
  if (events.readyState !== EventSource.CLOSED || !byId("status").classList.contains("bad")) {
    say("`ramie inspect` does not answer", true);
  }
});
