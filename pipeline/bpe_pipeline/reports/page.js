// Draws the figures in #figures with plotly, in the colours of the style sheet, and again when light turns dark; saves
// them as SVG; and searches the vocabulary in #listing. plotly and the vocabulary are compressed in the page.
"use strict";
const MOST_FOUND = 200, PRINTED_WIDTH = 640, SAVED_WIDTH = 640;

async function unpacked(id) {
  const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (c) => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
}

function coloured(value, colour) {
  if (typeof value === "string") return value.startsWith("var(--") ? colour(value.slice(6, -1)) : value;
  if (Array.isArray(value)) return value.map((item) => coloured(item, colour));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, coloured(item, colour)]));
}

function described() {
  return JSON.parse(document.getElementById("figures").textContent);
}

function light(figure) {
  return coloured(figure, (name) => described().light[name]);
}

function draw() {
  const style = getComputedStyle(document.documentElement);
  for (const [name, figure] of Object.entries(described().figures)) {
    const { data, layout } = coloured(figure, (one) => style.getPropertyValue(`--${one}`).trim());
    Plotly.react(name, data, layout, { displayModeBar: false, responsive: true });
  }
}

function drawForPaper() {
  for (const [name, figure] of Object.entries(described().figures)) {
    const { data, layout } = light(figure);
    Plotly.react(name, data, { ...layout, width: PRINTED_WIDTH });
  }
}

async function save(name) {
  const { data, layout } = light(described().figures[name]);
  const size = { width: SAVED_WIDTH, height: layout.height };
  const link = document.createElement("a");
  link.href = await Plotly.toImage({ data, layout: { ...layout, paper_bgcolor: "white" } }, { format: "svg", ...size });
  link.download = `${name}.svg`;
  link.click();
}

function offerToSave() {
  for (const [name, { title }] of Object.entries(described().figures)) {
    const button = part("button", "Save as SVG", "save");
    button.type = "button";
    button.setAttribute("aria-label", `Save as SVG: ${title}`);
    button.addEventListener("click", () => save(name));
    document.getElementById(name).parentElement.append(button);
  }
}

function part(tag, text, className) {
  const made = document.createElement(tag);
  made.textContent = text;
  made.className = className;
  return made;
}

function search([ids, texts, times], wanted) {
  const needle = wanted.replaceAll(" ", "␣").toLowerCase();
  const found = [];
  let count = 0;
  for (let at = 0; at < ids.length && needle; at++) {
    if (String(ids[at]) !== needle && !texts[at].toLowerCase().replaceAll(" ×", "×").includes(needle)) continue;
    count += 1;
    if (found.length === MOST_FOUND) continue;
    const item = document.createElement("li");
    const often = times[at] < 0 ? "" : `, ${times[at].toLocaleString("en")} times`;
    item.append(part("code", texts[at], ""), part("span", `id ${ids[at]}${often}`, "quiet"));
    found.push(item);
  }
  document.getElementById("results").replaceChildren(...found);
  const shown = count > found.length ? `, the first ${found.length} below` : "";
  document.getElementById("found").textContent = needle ? `${count.toLocaleString("en")} found${shown}` : "";
}

async function start() {
  const script = document.createElement("script");
  script.textContent = await unpacked("plotly");
  document.head.append(script);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  addEventListener("beforeprint", drawForPaper);
  addEventListener("afterprint", draw);
  draw();
  offerToSave();
  let vocabulary = null;
  const box = document.getElementById("search");
  if (box === null) return;
  box.form.addEventListener("submit", (event) => event.preventDefault());
  box.addEventListener("input", async () => {
    vocabulary ??= unpacked("listing").then(JSON.parse);
    search(await vocabulary, box.value);
  });
}
start();
