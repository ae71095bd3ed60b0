// What is wrong with the page that is shown: text that is hard to read, things that stick out, empty charts.
() => {
  const bad = [];

  // Contrast as WCAG 2 counts it: 4.5:1, or 3:1 for large text.
  const channel = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * channel(r / 255) + 0.7152 * channel(g / 255) + 0.0722 * channel(b / 255);
  const parse = (text) => {
    const numbers = text.match(/[\d.]+/g).map(Number);
    return [...numbers.slice(0, 3), numbers.length > 3 ? numbers[3] : 1];
  };
  const paperOf = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour[3] === 1) return colour;
    }
    return [255, 255, 255, 1];
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim(), node = walker.currentNode.parentElement;
    if (!text || ["SCRIPT", "STYLE", "NOSCRIPT", "OPTION"].includes(node.tagName) || node.closest("[disabled]")) continue;
    const style = getComputedStyle(node), box = node.getBoundingClientRect();
    if (!box.width || !box.height || style.visibility === "hidden" || box.right < 0) continue;
    const ink = light(parse(node instanceof SVGElement ? style.fill : style.color)), paper = light(paperOf(node));
    const ratio = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05), size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) bad.push(`contrast ${ratio.toFixed(2)}: "${text.slice(0, 40)}"`);
  }

  // What sticks out of the window or of its chart. What scrolls in a box of its own is fine.
  const width = document.documentElement.scrollWidth;
  if (width > window.innerWidth) bad.push(`the page is ${width} px wide`);
  const scrolls = (node) => {
    for (let at = node; at && at !== document.body; at = at.parentElement) {
      if (["auto", "scroll", "hidden"].includes(getComputedStyle(at).overflowX)) return true;
    }
    return false;
  };
  for (const node of document.querySelectorAll("body *")) {
    const box = node.getBoundingClientRect();
    if (!box.width || node.closest(".skip") || scrolls(node)) continue;
    if (box.right > window.innerWidth + 1) bad.push(`${node.tagName} ${node.id} ends at ${Math.round(box.right)} px`);
  }
  for (const chart of document.querySelectorAll(".chart")) {
    const frame = chart.getBoundingClientRect();
    for (const text of chart.querySelectorAll("text")) {
      const box = text.getBoundingClientRect();
      const out = box.left < frame.left - 2 || box.right > frame.right + 2;
      if (box.width && out) bad.push(`${chart.id}: "${text.textContent}" sticks out`);
    }
    const marks = ".scatterlayer path, .barlayer .point path, .heatmaplayer image";
    if (!chart.querySelector(marks)) bad.push(`${chart.id} is empty`);
  }
  return bad;
}
