// Draws the figures in #figures with Vega, whose colours are those of the style sheet, and saves them as SVG; and
// searches the vocabulary in #listing. Vega and the vocabulary are compressed in the page.
"use strict";
const MOST_FOUND = 200;
const { figures, theme, light } = JSON.parse(document.getElementById("figures").textContent);

async function unpacked(id) {
  const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (c) => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
}

async function draw(id, spec) {
  const place = document.getElementById(id);
  const options = { actions: false, ast: true, renderer: "svg", config: theme };
  const { view } = await vegaEmbed(place, spec, options);
  const button = part("button", "Save as SVG", "save");
  button.type = "button";
  button.setAttribute("aria-label", `Save as SVG: ${id}`);
  button.addEventListener("click", () => save(id, view));
  place.parentElement.append(button);
}

async function save(id, view) {
  const svg = (await view.toSVG()).replace(/var\(--([\w-]+)\)/g, (_, name) => light[name]);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  link.download = `${id}.svg`;
  link.click();
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

async function drawAll() {
  if (document.getElementById("vega") === null) return;
  const script = document.createElement("script");
  script.textContent = await unpacked("vega");
  document.head.append(script);
  for (const [id, spec] of Object.entries(figures)) await draw(id, spec);
}

function offerSearch() {
  let vocabulary = null;
  const box = document.getElementById("search");
  if (box === null) return;
  box.form.addEventListener("submit", (event) => event.preventDefault());
  box.addEventListener("input", async () => {
    vocabulary ??= unpacked("listing").then(JSON.parse);
    search(await vocabulary, box.value);
  });
}
offerSearch();
drawAll();
