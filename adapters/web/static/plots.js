// Plots of the admin pages: each draws the table below it, which says the same without this file.

import uPlot from "/static/vendor/uplot.js";

const HEIGHT = 240;
const number = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const money = new Intl.NumberFormat("en", { style: "currency", currency: "USD", maximumFractionDigits: 4 });
const date = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const label = (seconds) => date.format(new Date(seconds * 1000));

function read(figure) {
  const rows = [...figure.parentElement.querySelectorAll("tr[data-day]")].reverse();
  const dollars = rows.map(({ dataset }) => (dataset.dollars === "" ? null : Number(dataset.dollars)));
  return [
    rows.map(({ dataset }) => Date.parse(dataset.day) / 1000),
    rows.map(({ dataset }) => Number(dataset.tokens)),
    ...(dollars.some((amount) => amount > 0) ? [dollars] : []),
  ];
}

function axis(values, extra = {}) {
  const ink = color("--soft"), line = color("--line");
  const font = "12px system-ui, sans-serif";
  return { stroke: ink, font, ticks: { show: false }, grid: { stroke: line, width: 1 }, values, ...extra };
}

function draw(figure) {
  const values = read(figure);
  const hasMoney = values.length > 2;
  figure.replaceChildren();
  const caption = document.createElement("figcaption");
  const { dataset } = figure;
  const legend = hasMoney ? dataset.tokensAndMoney : dataset.tokens;
  caption.textContent = legend;
  const canvas = document.createElement("div");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", dataset.name);
  figure.append(canvas, caption);
  figure.hidden = false;
  const width = () => Math.max(240, figure.clientWidth);
  const plot = new uPlot({
    width: width(), height: HEIGHT, legend: { show: false },
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 7 } },
    scales: { x: { range: (_plot, low, high) => [low - 43200, high + 43200] }, tokens: { range: (_plot, _low, high) => [0, Math.max(1, high * 1.08)] }, money: { range: (_plot, _low, high) => [0, Math.max(0.0001, high * 1.08)] } },
    series: [
      {},
      { scale: "tokens", fill: `color-mix(in srgb, ${color("--accent")} 55%, ${color("--raised")})`, stroke: color("--accent"), width: 0, paths: uPlot.paths.bars({ size: [0.72, 44], radius: 0.18 }), points: { show: false } },
      ...(hasMoney ? [{ scale: "money", stroke: color("--hl-name"), width: 2, points: { show: values[0].length < 40, size: 5, fill: color("--hl-name") } }] : []),
    ],
    axes: [
      axis((_plot, marks) => marks.map(label), { grid: { show: false }, space: 70, size: 34, incrs: [1, 2, 7, 14, 30, 91, 182, 365].map((days) => days * 86400) }),
      axis((_plot, marks) => marks.map((mark) => short.format(mark)), { scale: "tokens", size: 58 }),
      ...(hasMoney ? [axis((_plot, marks) => marks.map((mark) => money.format(mark)), { scale: "money", side: 1, size: 66, grid: { show: false } })] : []),
    ],
    hooks: {
      setCursor: [({ cursor: { idx } }) => {
        if (idx === null || idx === undefined) {
          caption.textContent = legend;
          return;
        }
        const dollars = hasMoney ? values[2][idx] : null;
        caption.textContent = dataset.day.replace("{day}", label(values[0][idx])).replace("{tokens}", number.format(values[1][idx])) + (dollars === null ? "" : `, ${money.format(dollars)}`);
      }],
    },
  }, values, canvas);
  const watch = new ResizeObserver(() => plot.setSize({ width: width(), height: HEIGHT }));
  watch.observe(figure);
  return () => { watch.disconnect(); plot.destroy(); };
}

for (const figure of document.querySelectorAll("[data-plot]")) {
  let remove = draw(figure);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { remove(); remove = draw(figure); });
}
