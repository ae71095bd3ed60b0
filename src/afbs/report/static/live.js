"use strict";
(() => {
  const { css, narrow, plain, element, colour, fade, duration, count, percent, swatch, axis, layout, legend, draw, timeAxis } = Afbs;
  const $ = (id) => document.getElementById(id);
  let runs = [], clusters = [], chosen = [], focus = null, source = null;
  const told = new Map();
  const picked = { metric: null, axis: "time" };
  let flushAt = null; // null follows the latest step

  const clusterColour = (i) => (clusters.length ? clusters[i % clusters.length][Afbs.dark() ? 1 : 0] : "#888888");
  const look = (id) => runs.find((run) => run.id === id) || { light: "#0a5bc4", dark: "#6cabff", dash: "solid", marker: "circle", name: id };
  const label = (run) => `${run.name}${run.seed === null || run.seed === undefined ? "" : ` · seed ${run.seed}`}`;
  const words = { running: "running", ended: "ended", interrupted: "interrupted", silent: "silent: killed or waiting", unreadable: "unreadable" };

  const clock = (now) => (now && now.fleet ? "time" : "virtual time");
  const bytes = (number) => (number < 1e6 ? `${count(number / 1e3)} kB` : number < 1e9 ? `${(number / 1e6).toFixed(1)} MB` : `${(number / 1e9).toFixed(2)} GB`);

  // The list.
  const refresh = async () => {
    try {
      const answer = await fetch("/api/runs");
      if (!answer.ok) throw new Error(`${answer.status}`);
      const said = await answer.json();
      runs = said.runs; clusters = said.clusters;
      if (!focus) {
        const wanted = decodeURIComponent(location.hash.slice(1)).split("|").filter((id) => runs.some((run) => run.id === id));
        const first = runs.find((run) => run.state === "running") || runs.find((run) => run.state !== "unreadable");
        if (wanted.length) choose(wanted[0], wanted);
        else if (first) choose(first.id, [first.id]);
      }
      showList();
      if (!source || source.readyState === EventSource.OPEN) $("connection").textContent = "";
    } catch (error) {
      $("connection").textContent = "The server does not answer; the page shows what it last knew.";
    }
  };
  const showList = () => {
    const sought = $("find").value.toLowerCase();
    const active = document.activeElement, kept = active && active.dataset ? active.dataset.key : null;
    const rows = runs.filter((run) => `${run.name} ${run.algorithm} ${run.state} ${run.id} seed ${run.seed}`.toLowerCase().includes(sought)).map((run) => {
      const box = element("input", { type: "checkbox", "aria-label": `Overlay ${label(run)}`, "data-key": `box ${run.id}`, disabled: run.state === "unreadable" });
      box.checked = chosen.includes(run.id);
      box.addEventListener("change", () => {
        const next = box.checked ? [...chosen, run.id].slice(-12) : chosen.filter((id) => id !== run.id);
        if (next.length) choose(next.includes(focus) ? focus : next[0], next); else box.checked = true;
      });
      const line = element("span", { class: "line" }, swatch(run), element("span", { class: "pill", "data-state": run.state, title: words[run.state], text: run.state }), element("span", { text: run.value === "–" ? "" : run.value ?? "" }));
      const button = element("button", { type: "button", "data-key": `run ${run.id}`, title: run.remark || run.id, disabled: run.state === "unreadable" }, element("span", { text: label(run) }), line,
        element("span", { class: "bar" }, element("i", { style: `width:${100 * (run.progress || 0)}%` })));
      button.querySelector(".bar").style.display = run.state === "running" ? "block" : "none";
      button.addEventListener("click", () => choose(run.id, chosen.includes(run.id) ? chosen : [run.id]));
      return element("li", { "data-chosen": run.id === focus, "data-id": run.id }, box, button);
    });
    $("list").replaceChildren(...rows);
    $("none").hidden = runs.length > 0;
    if (kept) { const again = [...$("list").querySelectorAll("[data-key]")].find((one) => one.dataset.key === kept); if (again) again.focus(); }
  };

  const choose = (id, all) => {
    const changed = all.join("|") !== chosen.join("|");
    if (id !== focus) flushAt = null;
    focus = id; chosen = all;
    history.replaceState(null, "", `#${encodeURIComponent([id, ...all.filter((other) => other !== id)].join("|"))}`);
    $("welcome").hidden = true; $("run").hidden = false;
    if (changed || !source) listen();
    showList();
    schedule(true);
  };

  const listen = () => {
    if (source) source.close();
    told.clear();
    const query = chosen.map((id) => `run=${encodeURIComponent(id)}`).join("&");
    source = new EventSource(`/api/stream?${query}`);
    source.onopen = () => { $("connection").textContent = ""; };
    source.onerror = () => { $("connection").textContent = "The connection was lost; trying again."; };
    source.onmessage = (message) => {
      const said = JSON.parse(message.data);
      const before = said.fresh || !told.has(said.id) ? { evals: [], flushes: [], now: null } : told.get(said.id);
      told.set(said.id, { evals: before.evals.concat(said.evals), flushes: before.flushes.concat(said.flushes).slice(-200), now: said.now });
      schedule(false);
    };
  };

  // Drawing at most a few times a second, however fast the run is.
  let waiting = null, drawn = 0;
  const schedule = (now) => {
    if (now) { if (waiting) clearTimeout(waiting); waiting = null; show(); return; }
    if (!waiting) waiting = setTimeout(() => { waiting = null; show(); }, Math.max(0, drawn + 400 - performance.now()));
  };
  const show = () => {
    drawn = performance.now();
    const run = told.get(focus);
    if (!focus) return;
    const about = look(focus);
    $("name").textContent = label(about);
    if (!run) return;
    showFacts(run);
    showArms();
    showCurves();
    showBuffer(run);
    showFlush(run);
    showTimeline(run);
    document.title = `${percent(run.now.progress, 0)} ${about.name} · afbs live`;
    document.body.dataset.ready = String(Number(document.body.dataset.ready || 0) + 1);
  };

  const showFacts = ({ evals, now }) => {
    $("state").dataset.state = now.state;
    $("state").textContent = now.state === "ended" && now.reason ? `ended: ${now.reason}` : words[now.state];
    $("state").title = now.remark;
    $("progress").value = now.progress ?? 0;
    const last = evals.length ? evals[evals.length - 1] : null;
    const metric = now.metrics[0];
    const best = evals.reduce((top, row) => (row[3] !== null && (top === null || metric.sign * row[3] > metric.sign * top) ? row[3] : top), null);
    const facts = [
      [metric.title, last ? valued(metric, last[3]) : "–"], ["best", valued(metric, best)], [clock(now), now.horizon ? `${duration(now.time)} of ${duration(now.horizon)}` : duration(now.time)],
      ["steps", now.goal ? `${count(now.version)} of ${count(now.goal)}` : count(now.version)], ["arrived", count(now.counts.arrived)], ["used", count(now.counts.used)], ["dropped", count(now.counts.dropped)],
      ["time left", now.state === "ended" ? "none" : now.left === null ? "–" : `about ${duration(now.left)}`],
    ];
    const fleet = now.fleet;
    if (fleet) {
      facts.push(["clients here", `${count(fleet.clients)} of ${count(fleet.known)}`]);
      if (fleet.latency) facts.push(["an order takes", `${duration(fleet.latency[0])}, at most ${duration(fleet.latency[1])}`], ["mean staleness", fleet.staleness.toFixed(1)]);
      facts.push(["uploaded", bytes(fleet.uploaded)], ["spared", bytes(fleet.spared)], ["models sent", bytes(fleet.sent)]);
    }
    $("clock").textContent = clock(now);
    for (const [name, words] of [["rejected", "not finite"], ["missing", "never came"], ["lost", "lost"], ["left", "clients gone"]]) if (now.counts[name]) facts.push([words, count(now.counts[name])]);
    if (now.behind > 65536) facts.push(["still to read", `${count(now.behind / 1e6)} MB`]);
    if (now.unreadable) facts.push(["unreadable lines", count(now.unreadable)]);
    $("facts").replaceChildren(...facts.map(([name, value]) => element("div", {}, element("dt", { text: name }), element("dd", { text: value }))));
  };

  const showArms = () => {
    $("arms").hidden = chosen.length < 2;
    const key = JSON.stringify([chosen, focus, Afbs.dark(), runs.length]);
    if ($("arms").dataset.key === key) return;
    $("arms").dataset.key = key;
    $("arms").replaceChildren(...chosen.map((id) => {
      const button = element("button", { type: "button", "aria-pressed": "true", title: "show this run below" }, swatch(look(id)), element("span", { text: label(look(id)) }));
      button.addEventListener("click", () => choose(id, chosen));
      return button;
    }));
  };

  const valued = (metric, value) => (value === null || value === undefined ? "–" : metric.share ? percent(value) : `${Number(value.toPrecision(4))}${metric.unit ? ` ${metric.unit}` : ""}`);
  const showMetrics = (metrics) => {
    if (!metrics.some((metric) => metric.name === picked.metric)) picked.metric = metrics[0].name;
    const key = metrics.map((metric) => metric.name).join("|"), holder = $("metrics");
    if (holder.dataset.key === key) return;
    holder.dataset.key = key;
    holder.replaceChildren(element("legend", { text: "Show" }), ...metrics.map((metric) => {
      const radio = element("input", { type: "radio", name: "metric", value: metric.name });
      radio.checked = metric.name === picked.metric;
      radio.addEventListener("change", () => { picked.metric = metric.name; schedule(true); });
      return element("label", {}, radio, element("span", { text: metric.title }));
    }));
  };

  const column = { time: 0, version: 1, wall: 2 };
  const showCurves = () => {
    const metrics = told.get(focus)?.now.metrics || [];
    if (!metrics.length) return;
    showMetrics(metrics);
    const shown = metrics.find((metric) => metric.name === picked.metric), x = column[picked.axis], factor = shown.share ? 100 : 1;
    // A run that measures something else has a column of its own for it, or none.
    const place = (id) => 3 + (told.get(id)?.now.metrics || []).findIndex((metric) => metric.name === shown.name);
    const ends = chosen.map((id) => { const rows = told.get(id)?.evals || []; return rows.length ? rows[rows.length - 1][x] || 0 : 0; });
    const timed = picked.axis !== "version";
    const horizon = picked.axis === "time" ? Math.max(...chosen.map((id) => told.get(id)?.now.horizon || 0)) : 0;
    const scale = timed ? timeAxis(Math.max(...ends, horizon, 1e-9), picked.axis === "time" ? clock(told.get(focus)?.now) : "wall time") : { size: 1, axis: axis("steps of the global model", { rangemode: "tozero" }) };
    if (horizon) scale.axis.range = [0, (horizon / scale.size) * 1.01];
    const traces = chosen.map((id) => {
      const metric = place(id);
      const rows = metric < 3 ? [] : (told.get(id)?.evals || []).filter((row) => row[metric] !== null && row[x] !== null), about = look(id), name = plain(label(about));
      return { x: rows.map((row) => row[x] / scale.size), y: rows.map((row) => row[metric] * factor), name, mode: rows.length < 60 ? "lines+markers" : "lines", line: { color: colour(about), dash: about.dash, width: 2.4 }, marker: { symbol: about.marker, size: 5, color: colour(about) }, hovertemplate: `${name}: %{y:${shown.share ? ".2f" : ".4~g"}}${shown.unit ? ` ${plain(shown.unit)}` : ""}<extra></extra>` };
    });
    const target = told.get(focus)?.now.target;
    const shapes = shown === metrics[0] && target ? [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: target * factor, y1: target * factor, line: { dash: "dot", width: 1.2, color: css("--soft") } }] : [];
    draw($("chart-curves"), traces, layout({ xaxis: scale.axis, yaxis: axis(plain(`test ${shown.axis}`)), shapes, hovermode: "x", height: narrow() ? 280 : 340 }));
  };

  const showBuffer = ({ now }) => {
    const room = Math.max(now.room, now.buffer.length);
    $("filled").textContent = now.room ? `${now.buffer.length} of ${now.room}` : String(now.buffer.length);
    const full = now.buffer.slice(-60).map(([client, staleness, examples, cluster]) => element("span", { class: "full", style: `--slot:${clusterColour(cluster)}`, title: `client ${client}, cluster ${cluster}: staleness ${staleness}, ${examples} examples`, text: staleness }));
    const free = Array.from({ length: Math.max(0, Math.min(60, room) - full.length) }, () => element("span"));
    $("slots").replaceChildren(...full, ...free);
  };

  const fate = (flush, j) => `${j < flush.kept ? "kept" : "dropped"}${flush.why[j] ? `: ${flush.why[j]}` : ""}`;

  const showFlush = ({ flushes, now }) => {
    const slider = $("slider");
    slider.max = Math.max(0, flushes.length - 1);
    let i = flushAt === null ? flushes.length - 1 : flushes.findIndex((flush) => flush.version === flushAt);
    if (i < 0) { i = flushes.length - 1; flushAt = null; }
    slider.value = Math.max(0, i);
    $("latest").setAttribute("aria-pressed", String(flushAt === null));
    $("back").disabled = i <= 0; $("forth").disabled = i >= flushes.length - 1;
    const flush = flushes[i];
    const holder = $("chart-flush");
    holder.dataset.empty = flush ? "" : "1";
    if (!flush) { $("flush-name").textContent = "no step yet"; $("fates").tBodies[0].replaceChildren(); draw(holder, [], layout({ height: 200 })); return; }
    $("flush-name").textContent = `step ${flush.version}`;
    const gone = flush.staleness.length - flush.kept;
    $("flush-reading").textContent = flush.best.length
      ? "Every update of the step, by its staleness and its client's data. A star is the best of its cluster; in its shaded corner lies what is staler and smaller at once. The table says what became of each, and why."
      : `Every update of the step, by its staleness and its client's data; ${gone ? "the table says what became of each" : "all of them count"}.`;
    $("signs").hidden = !flush.best.length && !gone;
    $("sign-best").hidden = !flush.best.length;
    const ages = flush.staleness, sizes = flush.examples, top = Math.max(0, ...ages) + 1.2, floor = Math.max(0.5, Math.min(1e9, ...sizes) * 0.6), ceiling = Math.max(1, ...sizes) * 1.7;
    const names = [...new Set(flush.cluster)].sort((a, b) => a - b);
    const shapes = flush.best.map((b) => ({ type: "rect", layer: "below", x0: ages[b], x1: top, y0: floor, y1: sizes[b], line: { width: 1, dash: "dot", color: clusterColour(flush.cluster[b]) }, fillcolor: fade(clusterColour(flush.cluster[b]), 0.1) }));
    const traces = [];
    const say = (j) => `client ${flush.client[j]}, cluster ${flush.cluster[j]}<br>staleness ${ages[j]}, ${sizes[j]} examples<br>${plain(fate(flush, j))}`;
    const dots = (rows, name, marker, more = {}) => { if (rows.length) traces.push({ type: "scatter", mode: "markers", x: rows.map((j) => ages[j]), y: rows.map((j) => sizes[j]), text: rows.map(say), hovertemplate: "%{text}<extra></extra>", name, marker, ...more }); };
    const all = ages.map((_, j) => j);
    for (const name of names) {
      dots(all.filter((j) => flush.cluster[j] === name && j < flush.kept && !flush.best.includes(j)), names.length > 1 ? `cluster ${name}, kept` : "kept", { size: 12, color: clusterColour(name), line: { width: 1, color: css("--paper") } });
      dots(all.filter((j) => flush.cluster[j] === name && flush.best.includes(j)), names.length > 1 ? `cluster ${name}, best` : "best", { size: 18, symbol: "star", color: clusterColour(name), line: { width: 1, color: css("--paper") } });
      dots(all.filter((j) => flush.cluster[j] === name && j >= flush.kept), names.length > 1 ? `cluster ${name}, dropped` : "dropped", { size: 12, symbol: "x-thin", color: clusterColour(name), line: { width: 2.5, color: clusterColour(name) } });
    }
    const ticks = [1, 3, 10, 30, 100, 300, 1000, 3000, 1e4, 1e5];
    draw(holder, traces, layout({ shapes, margin: { l: 52, r: 12, t: 10, b: 44 }, xaxis: axis("staleness (versions)", { range: [-0.6, top], dtick: top < 16 ? 1 : undefined }), yaxis: axis("examples", { type: "log", range: [Math.log10(floor), Math.log10(ceiling)], tickvals: ticks, ticktext: ticks.map((v) => (v >= 1e4 ? `${v / 1e3}k` : String(v))) }), height: narrow() ? 340 : 400, uirevision: `${focus} ${flush.version}` }));
    const rows = all.slice(0, 60).map((j) => element("tr", { class: j < flush.kept ? null : "gone" }, element("th", { scope: "row" }, element("span", { class: "dot", title: `cluster ${flush.cluster[j]}`, style: `--slot:${clusterColour(flush.cluster[j])}` }), String(flush.client[j])), element("td", { text: ages[j] }), element("td", { text: count(sizes[j]) }), element("td", { text: fate(flush, j) })));
    $("fates").tBodies[0].replaceChildren(...rows);
  };

  const showTimeline = ({ now }) => {
    const lanes = now.lanes, holder = $("chart-timeline");
    const starts = lanes.filter((lane) => lane[2] === null).map((lane) => lane[1]);
    const span = Math.max(1, now.time - Math.min(now.time, ...(starts.length ? starts : lanes.map((lane) => lane[1]))));
    const from = Math.max(0, now.time - span * 1.6);
    const rows = lanes.filter((lane) => (lane[2] ?? now.time) >= from);
    const order = [...new Set(rows.slice().sort((a, b) => (a[2] === null ? 0 : 1) - (b[2] === null ? 0 : 1) || a[1] - b[1]).map((lane) => lane[0]))].slice(0, narrow() ? 24 : 40);
    const place = new Map(order.map((client, i) => [client, i]));
    const scale = timeAxis(now.time, clock(now)), about = look(focus), base = colour(about);
    const kinds = {
      training: { name: "under way", marker: { color: fade(base, 0.08), line: { width: 1.5, color: base } } },
      waiting: { name: "waiting in the buffer", marker: { color: fade(base, 0.45), line: { width: 1.5, color: base } } },
      used: { name: "counted", marker: { color: base } },
      dropped: { name: "dropped", marker: { color: fade(base, 0.1), line: { width: 1, color: fade(base, 0.6) }, pattern: { shape: "/", fgcolor: base, size: 5, solidity: 0.22 } } },
      lost: { name: "lost", marker: { color: css("--mark") } },
    };
    const traces = Object.entries(kinds).map(([fate, kind]) => {
      const some = rows.filter((lane) => lane[3] === fate && place.has(lane[0]));
      return { type: "bar", orientation: "h", ...kind, y: some.map((lane) => place.get(lane[0])), base: some.map((lane) => Math.max(from, lane[1]) / scale.size), x: some.map((lane) => ((lane[2] ?? now.time) - Math.max(from, lane[1])) / scale.size), width: 0.72, text: some.map((lane) => `client ${lane[0]}: ${kind.name}, begun at ${duration(lane[1])}`), textposition: "none", hovertemplate: "%{text}<extra></extra>" };
    }).filter((trace) => trace.y.length);
    holder.dataset.empty = traces.length ? "" : "1";
    const shapes = [{ type: "line", x0: now.time / scale.size, x1: now.time / scale.size, yref: "paper", y0: 0, y1: 1, line: { width: 1.2, color: css("--ink") } }];
    draw(holder, traces, layout({ barmode: "overlay", shapes, showlegend: true, legend, margin: { l: 52, r: 12, t: 36, b: 44 }, height: 110 + 13 * Math.max(6, order.length), xaxis: { ...scale.axis, rangemode: "normal", range: [from / scale.size, (now.time + span * 0.03) / scale.size] }, yaxis: axis("client", { tickvals: order.map((_, i) => i).filter((i) => i % (order.length > 20 ? 2 : 1) === 0), ticktext: order.filter((_, i) => i % (order.length > 20 ? 2 : 1) === 0).map(String), autorange: "reversed", showgrid: false, zeroline: false }) }));
  };

  const move = (by) => {
    const flushes = told.get(focus)?.flushes || [];
    const i = flushAt === null ? flushes.length - 1 : flushes.findIndex((flush) => flush.version === flushAt);
    const next = Math.min(flushes.length - 1, Math.max(0, i + by));
    if (flushes[next]) { flushAt = flushes[next].version; schedule(true); }
  };
  $("back").addEventListener("click", () => move(-1));
  $("forth").addEventListener("click", () => move(1));
  $("latest").addEventListener("click", () => { flushAt = flushAt === null ? (told.get(focus)?.flushes.at(-1)?.version ?? null) : null; schedule(true); });
  $("slider").addEventListener("input", () => { const flush = told.get(focus)?.flushes[Number($("slider").value)]; if (flush) { flushAt = flush.version; schedule(true); } });
  $("find").addEventListener("input", showList);
  for (const radio of document.querySelectorAll(".choice input")) radio.addEventListener("change", () => { picked[radio.name] = radio.value; schedule(true); });
  Afbs.themed($("theme"), () => { showList(); schedule(true); });
  refresh();
  setInterval(refresh, 2000);
})();
