"use strict";
(() => {
  const { css, narrow, plain, element, colour, fade, duration, count, percent, swatch, axis, layout, legend, draw, timeAxis, scaleOf } = Afbs;
  const data = JSON.parse(document.getElementById("data").textContent);
  const shown = new Set(data.arms.map((_, i) => i));
  const picked = { metric: data.metrics[0].name, axis: "time", buffer: 0, participation: 0, confusion: 0, clusters: 0 };
  const watched = data.metrics[0];
  const metricOf = (name) => data.metrics.find((metric) => metric.name === name);
  const factorOf = (metric) => (metric.share ? 100 : 1);
  const form = (metric) => (metric.share ? ".2f" : ".4~g");
  const unitOf = (metric) => (metric.unit ? ` ${plain(metric.unit)}` : "");
  const asGood = (value, level) => watched.sign * value >= watched.sign * level;
  let targets = data.targets.slice();
  const visible = () => data.arms.map((arm, i) => ({ ...arm, i })).filter((arm) => shown.has(arm.i));
  const clusterColour = (i) => data.clusterColours[i % data.clusterColours.length][Afbs.dark() ? 1 : 0];
  const longest = () => Math.max(1, ...data.runs.map((run) => run.curve.time[run.curve.time.length - 1] || 0));
  const note = (name, text) => { const holder = document.getElementById(`note-${name}`); if (holder) holder.textContent = text; };
  const line = (arm, more = {}) => ({ color: colour(arm), dash: arm.dash, width: 2.4, ...more });

  // A value on a line through known points; null outside of them.
  const at = (xs, ys, x) => {
    if (!xs.length || x < xs[0] || x > xs[xs.length - 1]) return null;
    let low = 0, high = xs.length - 1;
    while (high - low > 1) { const middle = (low + high) >> 1; if (xs[middle] <= x) low = middle; else high = middle; }
    if (xs[high] === xs[low]) return ys[high];
    return ys[low] + (ys[high] - ys[low]) * Math.min(1, Math.max(0, (x - xs[low]) / (xs[high] - xs[low])));
  };
  const known = (run, x, y) => {
    const xs = [], ys = [];
    run.curve[x].forEach((value, i) => { if (value !== null && run.curve[y][i] !== null) { xs.push(value); ys.push(run.curve[y][i]); } });
    return [xs, ys];
  };

  // The line of a seed: that of its one run, or the mean of its runs as far as all of them reach.
  const seedLine = (runs, x, y) => {
    const lines = runs.map((i) => known(data.runs[i], x, y)).filter(([xs]) => xs.length);
    if (lines.length < 2) return lines[0] || [[], []];
    const start = Math.max(...lines.map(([xs]) => xs[0])), end = Math.max(start, Math.min(...lines.map(([xs]) => xs[xs.length - 1])));
    const grid = Array.from({ length: 161 }, (_, i) => start + ((end - start) * i) / 160);
    const means = grid.map((value) => mean(lines.map(([xs, ys]) => at(xs, ys, value)).filter((v) => v !== null)));
    return [grid.filter((_, i) => means[i] !== null), means.filter((v) => v !== null)];
  };
  const mean = (values) => (values.length ? values.reduce((a, b) => a + b, 0) / values.length : null);

  // Classes by name where the data has names, else by number.
  const className = (i) => data.classNames[i] ?? `class ${i}`;
  const classTicks = (number) => (number > 25 ? {} : data.classNames.length ? { tickvals: Array.from({ length: number }, (_, i) => i), ticktext: Array.from({ length: number }, (_, i) => plain(className(i))) } : { dtick: 1 });

  const charts = {
    curves() {
      const metric = picked.metric, about = metricOf(metric), x = picked.axis, traces = [];
      const titles = { time: data.clock, version: "steps of the global model", updates: "client updates that arrived", wall: "wall time" };
      const ends = data.runs.map((run) => Math.max(0, ...run.curve[x].filter((value) => value !== null)));
      const timed = x === "time" || x === "wall";
      const scale = timed ? timeAxis(Math.max(...ends, 1e-9), titles[x]) : { size: 1, axis: axis(titles[x], { rangemode: "tozero" }) };
      const factor = factorOf(about), unit = unitOf(about);
      for (const arm of visible()) {
        const lines = arm.seeds.map((runs) => seedLine(runs, x, metric)).filter(([xs]) => xs.length);
        if (!lines.length) continue;
        const name = plain(arm.label);
        const hover = `${name}: %{y:${form(about)}}${unit}<extra></extra>`;
        if (lines.length === 1) {
          const [xs, ys] = lines[0];
          traces.push({ x: xs.map((v) => v / scale.size), y: ys.map((v) => v * factor), name, mode: xs.length < 60 ? "lines+markers" : "lines", line: line(arm), marker: { symbol: arm.marker, size: 5, color: colour(arm) }, hovertemplate: hover });
          continue;
        }
        const start = Math.min(...lines.map(([xs]) => xs[0])), end = Math.max(...lines.map(([xs]) => xs[xs.length - 1]));
        const grid = Array.from({ length: 161 }, (_, i) => start + ((end - start) * i) / 160);
        const rows = grid.map((value) => lines.map(([xs, ys]) => at(xs, ys, value)).filter((v) => v !== null)).map((values, i) => ({ x: grid[i] / scale.size, values }))
          .filter((row) => row.values.length > lines.length / 2);
        const means = rows.map(({ values }) => mean(values));
        const spread = rows.map(({ values }, i) => (values.length > 1 ? Math.sqrt(values.reduce((a, v) => a + (v - means[i]) ** 2, 0) / (values.length - 1)) : 0));
        const xs = rows.map((row) => row.x);
        const within = about.share ? (v) => Math.min(1, Math.max(0, v)) : (v) => v;
        const edge = (sign) => means.map((m, i) => within(m + sign * spread[i]) * factor);
        traces.push({ x: [...xs, ...xs.slice().reverse()], y: [...edge(1), ...edge(-1).reverse()],
          fill: "toself", fillcolor: fade(colour(arm), 0.16), line: { width: 0 }, mode: "lines", hoverinfo: "skip", name: `${name} ±` });
        traces.push({ x: xs, y: means.map((m) => m * factor), name, mode: "lines", line: line(arm), hovertemplate: hover, text: [], meta: { spread } });
      }
      const shapes = about === watched ? targets.map((goal) => ({ type: "line", xref: "paper", x0: 0, x1: 1, y0: goal * factor, y1: goal * factor, line: { dash: "dot", width: 1.2, color: css("--soft") } })) : [];
      const missing = visible().filter((arm) => !arm.runs.some((i) => known(data.runs[i], x, metric)[0].length)).map((arm) => arm.label);
      note("curves", missing.length ? `${missing.join(", ")}: not recorded.` : "");
      return [traces, layout({ height: narrow() ? 320 : 440, xaxis: scale.axis, yaxis: axis(plain(`test ${about.axis}`)), shapes, hovermode: "x" })];
    },

    targets() {
      const scale = timeAxis(longest(), `${data.clock} until first reached`);
      const factor = factorOf(watched), levels = levelsOf();
      const traces = visible().map((arm) => {
        const x = [], y = [];
        for (const level of levels) {
          const times = arm.seeds.map((runs) => seedReach(runs, level));
          if (times.every((time) => time !== null)) { x.push(mean(times) / scale.size); y.push(level * factor); }
        }
        return { x, y, name: plain(arm.label), mode: "lines", line: line(arm, { shape: "vh" }), hovertemplate: `${plain(arm.label)}: %{y:${watched.share ? ".0f" : ".4~g"}}${unitOf(watched)} after %{x:.2f}<extra></extra>` };
      });
      const shapes = targets.map((goal) => ({ type: "line", xref: "paper", x0: 0, x1: 1, y0: goal * factor, y1: goal * factor, line: { dash: "dot", width: 1.2, color: css("--soft") } }));
      return [traces, layout({ height: narrow() ? 280 : 320, xaxis: scale.axis, yaxis: axis(plain(watched.share ? `${watched.title} level (%)` : watched.axis), watched.share ? { rangemode: "tozero" } : {}), shapes })];
    },

    staleness() {
      const arms = visible(), traces = [], shape = layout({ barmode: "stack", height: Math.max(190, 60 + arms.length * (narrow() ? 108 : 118)), margin: { l: 52, r: 12, t: 6, b: 44 } });
      const rows = arms.length || 1, annotations = [];
      const length = (arm) => arm.kept.length * arm.bar, longest = Math.max(1, ...arms.map(length));
      const apart = longest > 4 * Math.min(...arms.map((arm) => Math.max(8, length(arm))));
      arms.forEach((arm, row) => {
        const suffix = row ? row + 1 : "", widest = apart ? length(arm) : longest;
        const bins = binned(arm, widest);
        if (apart || row + 1 === rows) shape[`xaxis${apart ? suffix : ""}`] = axis(row + 1 === rows ? "staleness (versions)" : "", { anchor: `y${suffix}`, range: [-0.6, Math.max(apart ? 8 : 1, widest) - 0.4], nticks: 8 });
        const total = arm.kept.reduce((a, b) => a + b, 0) + arm.dropped.reduce((a, b) => a + b, 0) || 1;
        const common = { type: "bar", x: bins.x, width: bins.size * 0.92, xaxis: apart ? `x${suffix}` : "x", yaxis: `y${suffix}` };
        traces.push({ ...common, y: bins.kept, name: `${plain(arm.label)}, kept`, marker: { color: colour(arm) }, hovertemplate: "staleness %{x}: %{y} kept<extra></extra>" });
        traces.push({ ...common, y: bins.dropped, name: `${plain(arm.label)}, dropped`, marker: { color: fade(colour(arm), 0.12), line: { color: colour(arm), width: 1 }, pattern: { shape: "/", fgcolor: colour(arm), size: 5, solidity: 0.28 } }, hovertemplate: "staleness %{x}: %{y} dropped<extra></extra>" });
        const gap = 0.27 / rows, top = 1 - row / rows, foot = row + 1 < rows ? (apart ? 0.2 : 0.06) / rows : 0;
        shape[`yaxis${suffix}`] = axis("", { domain: [top - 1 / rows + foot, top - gap], nticks: 3, fixedrange: true });
        const drops = arm.dropped.reduce((a, b) => a + b, 0);
        annotations.push({ text: `<b>${plain(arm.label)}</b>  ${drops ? percent(drops / total, 0) + " dropped" : "nothing dropped"}`, xref: "paper", yref: "paper", x: 0, y: top - 0.02 / rows, xanchor: "left", yanchor: "top", showarrow: false, font: { size: 13 } });
      });
      return [traces, { ...shape, annotations }];
    },

    buffer() {
      const run = data.runs[picked.buffer], flow = run.flow, traces = [];
      if (!flow.time) return [[], empty("No step was taken yet.")];
      const scale = timeAxis(flow.time[flow.time.length - 1], data.clock);
      const x = flow.time.map((value) => value / scale.size);
      flow.clusters.forEach((name, i) => {
        const label = name === -1 ? "other clusters" : flow.clusters.length > 1 ? `cluster ${name}` : "kept";
        traces.push({ type: "bar", x, y: flow.kept[i], name: label, legendgroup: label, width: (flow.width / scale.size) * 0.92, marker: { color: clusterColour(i) }, hovertemplate: `${label}: %{y:.2f} kept a step<extra></extra>` });
        traces.push({ type: "bar", x, y: flow.dropped[i].map((v) => (v === null ? null : -v)), name: `${label}, dropped`, legendgroup: label, showlegend: false, width: (flow.width / scale.size) * 0.92,
          marker: { color: fade(clusterColour(i), 0.15), line: { width: 0.5, color: clusterColour(i) }, pattern: { shape: "/", fgcolor: clusterColour(i), size: 5, solidity: 0.3 } }, customdata: flow.dropped[i], hovertemplate: `${label}: %{customdata:.2f} dropped a step<extra></extra>` });
      });
      const dropped = flow.dropped.flat().some((v) => v);
      note("buffer", dropped ? "" : `${run.label} never dropped anything.`);
      return [traces, layout({ barmode: "relative", showlegend: flow.clusters.length > 1, legend, xaxis: scale.axis, yaxis: axis("updates a step", { zeroline: true, zerolinecolor: css("--ink"), tickvals: undefined }), height: narrow() ? 320 : 380, margin: { l: 52, r: 12, t: 36, b: 44 } })];
    },

    scale() {
      const arms = visible().filter((arm) => arm.scale.time), traces = [];
      const scale = timeAxis(longest(), data.clock);
      for (const arm of arms) {
        const x = arm.scale.time.map((value) => value / scale.size);
        traces.push({ x: [...x, ...x.slice().reverse()], y: [...arm.scale.high, ...arm.scale.low.slice().reverse()], fill: "toself", fillcolor: fade(colour(arm), 0.13), line: { width: 0 }, mode: "lines", hoverinfo: "skip", name: `${plain(arm.label)}, middle 80 %` });
        traces.push({ x, y: arm.scale.mean, name: plain(arm.label), mode: x.length < 3 ? "markers" : "lines", marker: { symbol: arm.marker, color: colour(arm) }, line: line(arm), hovertemplate: `${plain(arm.label)}: %{y:.3f}<extra></extra>` });
      }
      if (!traces.length) return [[], empty("No step was taken yet.")];
      note("scale", data.arms.some((arm) => arm.runs.length > 1) ? "Of arms with several seeds, the first is shown." : "");
      return [traces, layout({ xaxis: scale.axis, yaxis: axis("total weight of a step", { rangemode: "tozero" }), height: narrow() ? 280 : 330 })];
    },

    weight() {
      const traces = visible().filter((arm) => arm.weights.staleness).map((arm) => ({ x: arm.weights.staleness, y: arm.weights.weight, name: plain(arm.label), mode: arm.weights.staleness.length < 40 ? "lines+markers" : "lines", line: line(arm), marker: { symbol: arm.marker, size: 6, color: colour(arm) }, hovertemplate: `${plain(arm.label)}, staleness %{x}: %{y:.3f}<extra></extra>` }));
      if (!traces.length) return [[], empty("No weights were recorded.")];
      return [traces, layout({ xaxis: axis("staleness (versions)", { rangemode: "tozero" }), yaxis: axis("weight × updates in the step", { rangemode: "tozero" }), height: narrow() ? 280 : 330 })];
    },

    participation() {
      const run = data.runs[picked.participation], who = run.clients, arm = data.arms[run.arm];
      const latency = who.latency.some((v) => v !== null);
      const scale = latency ? timeAxis(Math.max(...who.latency.filter((v) => v !== null)), "time a job takes") : { size: 1, axis: axis("client") };
      const groups = { counted: [], never: [], silent: [] };
      who.id.forEach((_, i) => groups[who.arrived[i] === 0 ? "silent" : who.used[i] === 0 ? "never" : "counted"].push(i));
      const place = (rows) => ({ x: rows.map((i) => (latency ? who.latency[i] / scale.size : who.id[i])), y: rows.map((i) => who.examples[i]) });
      const words = (i) => `client ${who.id[i]}, cluster ${who.cluster[i]}<br>${who.examples[i] ?? "?"} examples<br>${who.used[i]} of ${who.arrived[i]} updates counted`;
      const base = { mode: "markers", type: "scatter", hovertemplate: "%{text}<extra></extra>" };
      const traces = [
        { ...base, ...place(groups.silent), name: "never delivered", text: groups.silent.map(words), marker: { symbol: "circle-open", size: 6, color: css("--soft") } },
        { ...base, ...place(groups.counted), name: "counted", text: groups.counted.map(words), marker: { size: 8, line: { width: 1, color: colour(arm) }, color: groups.counted.map((i) => fade(colour(arm), 0.08 + (0.92 * who.used[i]) / who.arrived[i])) } },
        { ...base, ...place(groups.never), name: "delivered, never counted", text: groups.never.map(words), marker: { symbol: "x", size: 9, color: css("--mark") } },
      ].filter((trace) => trace.x.length);
      const part = who.id.length < who.total ? ` The figure shows ${count(who.id.length)} of ${count(who.total)} clients.` : "";
      note("participation", `${count(groups.counted.length)} clients counted, ${count(groups.never.length)} delivered and never counted, ${count(groups.silent.length)} never delivered.${part}`);
      return [traces, layout({ xaxis: scale.axis, yaxis: axis("examples", { type: "log", tickvals: [1, 3, 10, 30, 100, 300, 1000, 3000, 1e4, 3e4, 1e5, 1e6], ticktext: ["1", "3", "10", "30", "100", "300", "1000", "3000", "10k", "30k", "100k", "1M"] }), showlegend: true, legend, margin: { l: 52, r: 12, t: 36, b: 44 }, height: narrow() ? 340 : 420 })];
    },

    classes() {
      const arms = visible().filter((arm) => arm.perClass.some((v) => v !== null));
      if (!arms.length) return [[], empty("The accuracy of each class was not recorded.")];
      const many = Math.max(...arms.map((arm) => arm.perClass.length)) > 25;
      const dodge = (arm) => (many ? 0 : (arms.indexOf(arm) - (arms.length - 1) / 2) * Math.min(0.14, 0.6 / arms.length));
      const traces = arms.map((arm) => ({ x: arm.perClass.map((_, i) => i + dodge(arm)), y: arm.perClass.map((v) => (v === null ? null : v * 100)), customdata: arm.perClass.map((_, i) => plain(className(i))), name: plain(arm.label), mode: "markers", marker: { symbol: arm.marker, size: 10, color: colour(arm), line: { width: 1, color: css("--paper") } }, hovertemplate: `${plain(arm.label)}, %{customdata}: %{y:.1f} %<extra></extra>` }));
      const worst = arms.map((arm) => { const low = Math.min(...arm.perClass.filter((v) => v !== null)); return `${arm.label} ${percent(low)} (${className(arm.perClass.indexOf(low))})`; });
      const cut = arms.some((arm) => arm.classes > arm.perClass.length) ? ` The figure shows the first ${arms[0].perClass.length} of ${Math.max(...arms.map((arm) => arm.classes))} classes.` : "";
      note("classes", `Weakest class: ${worst.join(", ")}.${cut}`);
      return [traces, layout({ xaxis: axis("class", many ? {} : { ...classTicks(arms[0].perClass.length), showgrid: false }), yaxis: axis("accuracy (%)", { rangemode: "tozero" }), height: narrow() ? 300 : 340 })];
    },

    fairness() {
      const scale = timeAxis(longest(), data.clock), factor = factorOf(watched), traces = [];
      for (const arm of visible()) {
        const found = data.runs[arm.runs[0]].fairness, name = plain(arm.label);
        if (!found.time) continue;
        const x = found.time.map((value) => value / scale.size), hover = (what) => `${name}, ${what}: %{y:${form(watched)}}${unitOf(watched)}<extra></extra>`;
        traces.push({ x, y: found.mean.map((v) => (v === null ? null : v * factor)), name: `${name}, mean`, mode: "lines+markers", line: line(arm), marker: { symbol: arm.marker, size: 6, color: colour(arm) }, hovertemplate: hover("mean") });
        traces.push({ x, y: found.worst.map((v) => (v === null ? null : v * factor)), name: `${name}, worst tenth`, mode: "lines+markers", line: line(arm, { dash: "dot", width: 1.8 }), marker: { symbol: arm.marker, size: 5, color: colour(arm) }, hovertemplate: hover("worst tenth") });
      }
      if (!traces.length) return [[], empty("Clients were not tested on data of their own.")];
      note("fairness", data.arms.some((arm) => arm.runs.length > 1) ? "Of arms with several seeds, the first is drawn; the table has the mean over seeds." : "");
      return [traces, layout({ xaxis: scale.axis, yaxis: axis(plain(`clients' ${watched.axis}`)), height: narrow() ? 300 : 360, hovermode: "x" })];
    },

    confusion() {
      const arm = data.arms[picked.confusion], table = arm.confusion;
      if (!table) return [[], empty(arm.classes > 60 ? `${arm.label}: too many classes to draw their confusion.` : `${arm.label}: no confusion was recorded.`)];
      const shares = table.map((row) => { const sum = row.reduce((a, b) => a + b, 0) || 1; return row.map((v) => (100 * v) / sum); });
      const side = Math.min(narrow() ? 350 : 460, 460);
      return [[{ type: "heatmap", z: shares, zmin: 0, zmax: 100, colorscale: scaleOf(), colorbar: { thickness: 10, ticksuffix: " %", outlinewidth: 0, tickfont: { color: css("--soft") } }, xgap: table.length < 30 ? 1 : 0, ygap: table.length < 30 ? 1 : 0, hovertemplate: "true %{y}, said %{x}: %{z:.1f} %<extra></extra>" }],
        layout({ height: side, width: undefined, xaxis: axis("predicted class", { showgrid: false, constrain: "domain", ...classTicks(table.length) }), yaxis: axis("true class", { autorange: "reversed", showgrid: false, scaleanchor: "x", constrain: "domain", ...classTicks(table.length) }) })];
    },

    clusters() {
      const run = data.runs[picked.clusters], found = run.clusters;
      if (!found.shares) return [[], empty("True labels were not recorded: set record.labels = true in a simulation to see them.")];
      note("clusters", `A client's labels differ from its cluster's mean by ${percent(found.inside, 0)} of its examples, and from the mean of all clients by ${percent(found.overall, 0)}: ${found.inside < 0.7 * found.overall ? "the clusters group clients that are alike." : "the clusters say little about labels."}${found.total > found.names.length ? ` The figure shows ${found.names.length} of ${found.total} clusters.` : ""}`);
      return [[{ type: "heatmap", z: found.shares.map((row) => row.map((v) => v * 100)), y: found.names.map((name, i) => `cluster ${name} (${found.sizes[i]})`), zmin: 0, colorscale: scaleOf(), xgap: 1, ygap: 2, colorbar: { thickness: 10, ticksuffix: " %", outlinewidth: 0, tickfont: { color: css("--soft") } }, hovertemplate: "%{y}, class %{x}: %{z:.1f} %<extra></extra>" }],
        layout({ height: 130 + 44 * Math.min(found.names.length, 14), xaxis: axis("class", { ...classTicks(found.shares[0].length), showgrid: false }), yaxis: axis("", { autorange: "reversed", showgrid: false }) })];
    },

    cost() {
      const arms = visible(), y = arms.map((arm) => plain(arm.label));
      const trained = arms.map((arm) => arm.cost.trained ?? arm.cost.used), skipped = arms.map((arm) => arm.cost.skipped ?? arm.cost.dropped);
      return [[
        { type: "bar", orientation: "h", y, x: trained, name: "trained", marker: { color: arms.map(colour) }, hovertemplate: "%{y}: %{x} jobs trained<extra></extra>" },
        { type: "bar", orientation: "h", y, x: skipped, name: "skipped", marker: { color: arms.map((arm) => fade(colour(arm), 0.12)), line: { width: 1, color: arms.map(colour) }, pattern: { shape: "/", fgcolor: arms.map(colour), size: 6, solidity: 0.28 } }, hovertemplate: "%{y}: %{x} jobs skipped<extra></extra>" },
      ], layout({ barmode: "stack", bargap: 0.35, height: 90 + 44 * arms.length, xaxis: axis("jobs", { nticks: 6 }), yaxis: axis("", { autorange: "reversed", ticksuffix: " " }) })];
    },
  };

  const empty = (text) => layout({ height: 120, xaxis: { visible: false }, yaxis: { visible: false }, annotations: [{ text: wrapped(plain(text)), showarrow: false, x: 0.5, y: 0.5, xref: "paper", yref: "paper", font: { color: css("--soft"), size: 14 } }], meta: { empty: true } });
  const wrapped = (text) => text.replace(/(.{1,44})(\s|$)/g, "$1<br>").replace(/<br>$/, "");

  const firstReach = (run, level) => {
    const i = run.curve[watched.name].findIndex((value) => value !== null && asGood(value, level));
    return i < 0 ? null : run.curve.time[i];
  };

  // Levels from where runs begin to the best that one reached: whole percents, or a hundred steps.
  const levelsOf = () => {
    const values = data.runs.flatMap((run) => run.curve[watched.name].filter((v) => v !== null));
    const low = Math.min(...values), high = Math.max(...values);
    if (!values.length) return [];
    if (watched.share && watched.sign > 0) return Array.from({ length: Math.floor(high * 100 + 1e-9) }, (_, i) => (i + 1) / 100);
    const from = watched.sign > 0 ? low : high, to = watched.sign > 0 ? high : low;
    return Array.from({ length: 101 }, (_, i) => from + ((to - from) * i) / 100);
  };

  const seedReach = (runs, level) => mean(runs.map((i) => firstReach(data.runs[i], level)).filter((time) => time !== null));

  const binned = ({ kept, dropped, bar }, widest) => {
    const size = Math.max(1, Math.ceil(widest / bar / 120)), x = [], k = [], d = [];
    for (let i = 0; i < kept.length; i += size) {
      x.push(i * bar + (size * bar - 1) / 2);
      k.push(kept.slice(i, i + size).reduce((a, b) => a + b, 0));
      d.push(dropped.slice(i, i + size).reduce((a, b) => a + b, 0));
    }
    return { x, kept: k, dropped: d, size: size * bar };
  };

  const drawn = () => Object.keys(charts).filter((name) => document.getElementById(`chart-${name}`));
  const render = (name) => {
    const holder = document.getElementById(`chart-${name}`);
    const [traces, shape] = charts[name]();
    holder.dataset.empty = traces.length ? "" : "1";
    draw(holder, traces, shape);
    const numbers = document.querySelector(`details[data-of="${name}"]`);
    numbers.hidden = !traces.length;
    if (numbers.open) fillNumbers(numbers);
  };
  const renderAll = () => {
    legendChips();
    targetTable();
    drawn().forEach(render);
  };

  const fillNumbers = (details) => {
    const name = details.dataset.of, holder = details.querySelector(".wide"), [traces] = charts[name]();
    const table = element("table"), body = element("tbody");
    const text = (v) => (v === null || v === undefined ? "–" : typeof v === "number" ? String(Number(v.toPrecision(5))) : String(v).replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&amp;/g, "&"));
    let rows = 0;
    for (const trace of traces) {
      if (trace.hoverinfo === "skip") continue;
      if (trace.type === "heatmap") {
        trace.z.forEach((row, i) => body.append(element("tr", {}, element("th", { scope: "row", text: trace.y ? text(trace.y[i]) : i }), ...row.map((v) => element("td", { text: text(v) })))));
        continue;
      }
      trace.x.forEach((x, i) => { if (rows++ < 2000) body.append(element("tr", {}, element("th", { scope: "row", text: text(trace.name) }), element("td", { text: text(x) }), element("td", { text: text(trace.y[i]) }))); });
    }
    table.append(body);
    holder.replaceChildren(table);
  };

  const legendChips = () => {
    const nav = document.getElementById("arms");
    const focused = document.activeElement && nav.contains(document.activeElement) ? [...nav.children].indexOf(document.activeElement) : -1;
    nav.replaceChildren(...data.arms.map((arm, i) => {
      const button = element("button", { type: "button", "aria-pressed": String(shown.has(i)), title: "show or hide" }, swatch(arm), element("span", { text: arm.label }));
      button.addEventListener("click", () => {
        if (shown.has(i)) shown.delete(i); else shown.add(i);
        if (!shown.size) data.arms.forEach((_, j) => shown.add(j));
        renderAll();
      });
      return button;
    }));
    if (focused >= 0) nav.children[focused].focus();
    nav.hidden = data.arms.length < 2;
    for (const row of document.querySelectorAll("tr[data-arm] .key")) {
      row.replaceChildren(swatch(data.arms[row.closest("tr").dataset.arm]));
    }
  };

  const targetTable = () => {
    const table = document.getElementById("targets-table");
    const head = element("thead", {}, element("tr", {}, element("th", { scope: "col", text: "Arm" }), ...targets.map((goal) => element("th", { scope: "col", text: `${Number((goal * factorOf(watched)).toPrecision(4))}${watched.unit ? ` ${watched.unit}` : ""}` }))));
    const rows = visible().map((arm) => ({ arm, cells: targets.map((goal) => {
      const times = arm.seeds.map((runs) => seedReach(runs, goal)), reached = times.filter((time) => time !== null);
      if (reached.length < times.length) return { text: reached.length ? `${reached.length} of ${times.length} reached` : "not reached", value: null };
      const middle = mean(reached);
      const spread = reached.length > 1 ? Math.sqrt(reached.reduce((a, v) => a + (v - middle) ** 2, 0) / (reached.length - 1)) : null;
      return { text: "", value: middle, spread };
    }) }));
    // One unit a column, that of the shortest time, so that it can be compared at a glance.
    targets.forEach((_, j) => {
      const [size, unit] = Afbs.unitFor(Math.min(...rows.map((row) => row.cells[j].value).filter((v) => v !== null), Infinity));
      for (const { cells } of rows) if (cells[j].value !== null) cells[j].text = `${(cells[j].value / size).toFixed(1)}${cells[j].spread === null ? "" : ` ± ${(cells[j].spread / size).toFixed(1)}`} ${unit === "d" ? "days" : unit}`;
    });
    const body = element("tbody");
    for (const { arm, cells } of rows) {
      const row = element("tr", {}, element("th", { scope: "row" }, element("span", { class: "key" }, swatch(arm)), arm.label));
      cells.forEach((cell, j) => {
        const order = [...new Set(rows.map((other) => other.cells[j].value).filter((v) => v !== null))].sort((a, b) => a - b);
        const place = order.length > 1 && cell.value !== null ? order.indexOf(cell.value) : -1;
        const inner = place === 0 ? element("strong", { text: cell.text }) : place === 1 ? element("span", { class: "second", text: cell.text }) : cell.text;
        row.append(element("td", {}, inner));
      });
      body.append(row);
    }
    table.replaceChildren(head, body);
  };

  const input = document.getElementById("targets-input");
  input.value = targets.map((goal) => Number((goal * factorOf(watched)).toPrecision(4))).join(", ");
  input.addEventListener("input", () => {
    const wanted = input.value.split(/[^0-9.eE+-]+/).filter(Boolean).map(Number).filter((v) => (watched.share ? v > 0 && v <= 100 : isFinite(v)));
    input.setAttribute("aria-invalid", String(!wanted.length));
    if (!wanted.length) return;
    targets = [...new Set(wanted)].sort((a, b) => a - b).slice(0, 8).map((v) => v / factorOf(watched));
    targetTable();
    render("curves");
    render("targets");
  });
  for (const radio of document.querySelectorAll(".choice input")) {
    radio.addEventListener("change", () => { picked[radio.name] = radio.value; render("curves"); });
  }
  for (const select of document.querySelectorAll(".picker select")) {
    select.addEventListener("change", () => { picked[select.name] = Number(select.value); render(select.name); });
  }
  for (const details of document.querySelectorAll("details.numbers")) {
    details.addEventListener("toggle", () => { if (details.open) fillNumbers(details); });
  }

  // Paper is light and narrower than most windows.
  let before = null;
  const forPaper = () => {
    if (before !== null) return;
    before = document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = "light";
    legendChips();
    for (const name of drawn()) {
      const [traces, shape] = charts[name]();
      Plotly.react(document.getElementById(`chart-${name}`), traces, { ...shape, width: 660 }, { ...Afbs.config, responsive: false });
    }
  };
  const forScreen = () => {
    if (before === null) return;
    document.documentElement.dataset.theme = before;
    before = null;
    renderAll();
  };
  window.addEventListener("beforeprint", forPaper);
  window.addEventListener("afterprint", forScreen);

  Afbs.themed(document.getElementById("theme"), renderAll);
  let size = narrow();
  window.addEventListener("resize", () => { if (narrow() !== size) { size = narrow(); renderAll(); } });
  renderAll();
  document.body.dataset.ready = "1";
})();
