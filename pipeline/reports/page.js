// Draws the figures in #figures with plotly, in the colours of the style sheet, and again when light turns dark; and
// searches the vocabulary in #listing. Both are compressed in the page.
"use strict";
const MOST_FOUND = 200;

async function unpacked(id) {
  const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (c) => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
}

function coloured(value, style) {
  if (typeof value === "string") return value.startsWith("var(") ? style.getPropertyValue(value.slice(4, -1)).trim() : value;
  if (Array.isArray(value)) return value.map((item) => coloured(item, style));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, coloured(item, style)]));
}

function draw() {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const style = getComputedStyle(document.documentElement);
  for (const [name, figure] of Object.entries(figures)) {
    const { data, layout } = coloured(figure, style);
    Plotly.react(name, data, layout, { displayModeBar: false, responsive: true });
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
  draw();
  let vocabulary = null;
  const box = document.getElementById("search");
  box.form.addEventListener("submit", (event) => event.preventDefault());
  box.addEventListener("input", async () => {
    vocabulary ??= unpacked("listing").then(JSON.parse);
    search(await vocabulary, box.value);
  });
}
start();
