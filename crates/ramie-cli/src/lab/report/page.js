// The charts for the keyboard, the downloads, and the records that links lead to. The page can be
// read without this script.
"use strict";

const charts = [...document.querySelectorAll("figure svg")];
const tip = document.createElement("div");
tip.className = "tip";
tip.hidden = true;
document.body.append(tip);

function show(circle) {
  hide();
  circle.classList.add("on");
  tip.textContent = circle.querySelector("title").textContent;
  tip.hidden = false;
  const at = circle.getBoundingClientRect();
  const left = at.left + at.width / 2 - tip.offsetWidth / 2;
  const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
  tip.style.left = `${Math.max(8, Math.min(left, room)) + scrollX}px`;
  const above = at.top - tip.offsetHeight - 6;
  tip.style.top = `${(above > 0 ? above : at.bottom + 6) + scrollY}px`;
}

function hide() {
  tip.hidden = true;
  document.querySelector(".marks .on")?.classList.remove("on");
}

// Left and right go along a line, up and down to the next line.
function next(circle, circles, key) {
  if (!circle) return circles[0];
  const ofLine = circles.filter((other) => other.dataset.arm === circle.dataset.arm);
  const step = { ArrowLeft: -1, ArrowRight: 1 }[key];
  if (step) return ofLine[ofLine.indexOf(circle) + step] ?? circle;
  const lines = [...new Set(circles.map((other) => other.dataset.arm))];
  const down = key === "ArrowDown" ? 1 : -1;
  const arm = lines[(lines.indexOf(circle.dataset.arm) + down + lines.length) % lines.length];
  const ofArm = circles.filter((other) => other.dataset.arm === arm);
  return ofArm.find((other) => other.dataset.x === circle.dataset.x) ?? ofArm[0];
}

function csv(svg) {
  const columns = ["arm", "x", "median", "least", "most", "readings"];
  const rows = [...svg.querySelectorAll(".marks circle")].map((circle) =>
    columns.map((column) => circle.dataset[column]).join(","));
  return [columns.join(","), ...rows].join("\n") + "\n";
}

// The drawing with the colours that the style sheet gives it here, because a file has no style sheet.
function drawing(svg) {
  const copy = svg.cloneNode(true);
  const shown = svg.querySelectorAll("*");
  copy.querySelectorAll("*").forEach((element, index) => {
    const style = getComputedStyle(shown[index]);
    for (const name of ["fill", "stroke"]) {
      if (element.hasAttribute(name)) element.setAttribute(name, style[name]);
    }
    if (element.tagName === "text") element.setAttribute("font-family", "sans-serif");
  });
  copy.querySelector(".marks").remove();
  const paper = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  paper.setAttribute("width", "100%");
  paper.setAttribute("height", "100%");
  paper.setAttribute("fill", getComputedStyle(svg.closest("figure")).backgroundColor);
  copy.prepend(paper);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  return new XMLSerializer().serializeToString(copy);
}

function png(svg) {
  return new Promise((done, failed) => {
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement("canvas");
      const { width, height } = svg.viewBox.baseVal;
      canvas.width = 2 * width;
      canvas.height = 2 * height;
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob(done, "image/png");
    };
    image.onerror = failed;
    image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(drawing(svg));
  });
}

const formats = {
  CSV: (svg) => new Blob([csv(svg)], { type: "text/csv" }),
  SVG: (svg) => new Blob([drawing(svg)], { type: "image/svg+xml" }),
  PNG: png,
};

async function download(svg, format) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await formats[format](svg));
  link.download = `${svg.closest("figure").dataset.name}.${format.toLowerCase()}`;
  link.click();
  // Not at once, because a browser may still be about to read it.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

for (const svg of charts) {
  const circles = [...svg.querySelectorAll(".marks circle")];
  let current = null;
  for (const circle of circles) {
    circle.addEventListener("pointerenter", () => show((current = circle)));
    circle.addEventListener("pointerleave", hide);
  }
  svg.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
    if (!event.key.startsWith("Arrow")) return;
    event.preventDefault();
    show((current = next(current, circles, event.key)));
    svg.closest("figure").querySelector(".said").textContent = tip.textContent;
  });
  svg.addEventListener("blur", hide);
  const buttons = document.createElement("div");
  buttons.className = "downloads";
  for (const format of Object.keys(formats)) {
    const button = document.createElement("button");
    button.textContent = format;
    button.title = `Download this chart as ${format}`;
    button.addEventListener("click", () => download(svg, format));
    buttons.append(button);
  }
  svg.closest("figure").append(buttons);
}

function openTarget() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const details = target && target.closest("details");
  if (details) {
    details.open = true;
    target.scrollIntoView({ block: "center" });
  }
}
addEventListener("hashchange", openTarget);
openTarget();
addEventListener("beforeprint", () => {
  document.querySelectorAll("details").forEach((details) => (details.open = true));
});
