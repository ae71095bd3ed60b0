"use strict";
// What the report and the live page share: theme, plain text, one look for every chart.
const Afbs = (() => {
  const root = document.documentElement;
  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const dark = () => root.dataset.theme === "dark";
  const narrow = () => window.innerWidth < 600;

  // plotly reads a little HTML in its labels: names from a file must not be read as such.
  const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  const element = (tag, attributes = {}, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "text") made.textContent = value;
      else if (value === true) made.setAttribute(name, "");
      else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
    }
    made.append(...children);
    return made;
  };

  const colour = (thing) => (dark() ? thing.dark : thing.light);
  const fade = (hex, alpha) => {
    const value = parseInt(hex.slice(1), 16);
    return `rgba(${value >> 16},${(value >> 8) & 255},${value & 255},${alpha})`;
  };

  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const unitFor = (seconds) => units.find(([size]) => seconds >= 2 * size) || units[3];
  const duration = (seconds) => {
    if (seconds === null || seconds === undefined || !isFinite(seconds)) return "–";
    const words = { d: "days", h: "h", min: "min", s: "s" };
    const [size, unit] = unitFor(seconds);
    const value = seconds / size;
    return `${unit === "s" ? (value >= 10 || value === 0 ? value.toFixed(0) : Number(value.toPrecision(2))) : value.toFixed(1)} ${words[unit]}`;
  };
  const count = (number) => (number === null || number === undefined ? "–" : Math.round(number).toString().replace(/\B(?=(\d{3})+$)/g, "\u2009"));
  const percent = (share, digits = 1) => (share === null || share === undefined ? "–" : `${(100 * share).toFixed(digits)} %`);

  const dashes = { solid: "", dash: "7 4", dot: "2 3", dashdot: "7 3 2 3", longdash: "11 4", longdashdot: "11 3 2 3" };
  const swatch = (arm) => {
    const ns = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(ns, "svg");
    svg.setAttribute("viewBox", "0 0 30 12");
    svg.setAttribute("aria-hidden", "true");
    svg.setAttribute("class", "swatch");
    const line = document.createElementNS(ns, "line");
    for (const [name, value] of Object.entries({ x1: 0, x2: 30, y1: 6, y2: 6, "stroke-width": 3, stroke: colour(arm),
      "stroke-dasharray": dashes[arm.dash] ?? "4 2" })) line.setAttribute(name, value);
    svg.append(line);
    return svg;
  };

  const axis = (title, more = {}) => ({
    title: { text: title, standoff: 8, font: { size: 13, color: css("--soft") } },
    gridcolor: css("--line"), zerolinecolor: css("--line"), linecolor: css("--line"), tickfont: { size: 12, color: css("--soft") },
    automargin: true, fixedrange: narrow(), ...more,
  });
  const layout = (more = {}) => ({
    height: narrow() ? 300 : 380,
    margin: { l: 52, r: 12, t: 14, b: 44 },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: css("--sans"), size: 13, color: css("--ink") },
    hoverlabel: { bgcolor: css("--card"), bordercolor: css("--line"), font: { family: css("--sans"), size: 13, color: css("--ink") } },
    showlegend: false, dragmode: narrow() ? false : "zoom", hovermode: "closest", bargap: 0.06,
    ...more,
  });
  const legend = { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { size: 12.5 } };
  const config = {
    responsive: true, displaylogo: false, doubleClick: "reset",
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d", "pan2d"],
    displayModeBar: narrow() ? false : "hover", toImageButtonOptions: { format: "svg", filename: "afbs" },
  };
  const draw = (holder, traces, shape) => Plotly.react(holder, traces, shape, config);

  // Time axes in the unit that suits their length.
  const timeAxis = (longest, title) => {
    const [size, unit] = unitFor(longest / 2 || 1);
    return { size, axis: axis(`${title} (${{ d: "days", h: "hours", min: "minutes", s: "seconds" }[unit]})`, { rangemode: "tozero" }) };
  };
  const scaleOf = () => (dark()
    ? [[0, "#1b1d21"], [0.5, "#2f6db5"], [1, "#d7e8ff"]]
    : [[0, "#ffffff"], [0.5, "#7aa9de"], [1, "#062f66"]]);

  const themed = (button, redraw) => {
    const media = window.matchMedia("(prefers-color-scheme: dark)");
    let chosen = null;
    try { chosen = localStorage.getItem("afbs-theme"); } catch (error) { chosen = null; }
    const apply = (again) => {
      root.dataset.theme = chosen || (media.matches ? "dark" : "light");
      if (button) { button.hidden = false; button.textContent = dark() ? "Light" : "Dark"; button.setAttribute("aria-label", `Switch to a ${dark() ? "light" : "dark"} page`); }
      if (again) redraw();
    };
    media.addEventListener("change", () => apply(true));
    if (button) button.addEventListener("click", () => {
      chosen = dark() ? "light" : "dark";
      try { localStorage.setItem("afbs-theme", chosen); } catch (error) { /* a page from a file may not store */ }
      apply(true);
    });
    apply(false);
  };

  return { unitFor, css, dark, narrow, plain, element, colour, fade, duration, count, percent, swatch, axis, layout, legend, draw, timeAxis, scaleOf, themed, config };
})();
