// Draws the figures in #figures with plotly, in the colours of the style sheet, and again when light turns dark.
"use strict";
const figures = JSON.parse(document.getElementById("figures").textContent);

function coloured(value, style) {
  if (typeof value === "string") return value.startsWith("var(") ? style.getPropertyValue(value.slice(4, -1)).trim() : value;
  if (Array.isArray(value)) return value.map((item) => coloured(item, style));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, coloured(item, style)]));
}

function draw() {
  const style = getComputedStyle(document.documentElement);
  for (const [name, figure] of Object.entries(figures)) {
    const { data, layout } = coloured(figure, style);
    Plotly.react(name, data, layout, { displayModeBar: false, responsive: true });
  }
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
draw();
