// The trellis as a picture: labels down, tokens across. The area of a node and the width of a step are probabilities.

const WIDE = 86, HIGH = 34, TOP = 30, MOST = 60, LEAST = 0.01, LETTER = 8, LETTERS = 20;
const SVG = "http://www.w3.org/2000/svg";

function drawn(name, attributes, parent, text = null) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  parent.append(made);
  return made;
}

const shortened = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

// Draws tokens around the chosen one, and says which; `tell` gets the words for the node under the
// pointer or the focus. The labels stay in sight when the rest is scrolled.
export function drawTrellis(place, answer, chosen, tell) {
  const first = Math.max(0, Math.min(chosen - MOST / 2, answer.tokens.length - MOST));
  const last = Math.min(answer.tokens.length, first + MOST);
  const rows = rowsOf(answer, first, last);
  const at = (token, label) => [WIDE * (token - first) + WIDE / 2, TOP + HIGH * rows.indexOf(label) + HIGH / 2];
  const height = TOP + HIGH * rows.length;
  const letters = Math.min(LETTERS, Math.max(...rows.map((label) => answer.labels[label].length)));
  const axis = drawn("svg", { class: "trellis axis", width: LETTER * letters + 12, height, "aria-hidden": true }, document.createDocumentFragment());
  for (const label of rows) drawn("text", { x: 4, y: at(first, label)[1] + 4 }, axis, shortened(answer.labels[label], LETTERS));
  const picture = drawn("svg", { class: "trellis", width: WIDE * (last - first), height, role: "group" }, document.createDocumentFragment());
  for (let token = first; token < last; token += 1) {
    const head = drawn("text", { x: at(token, rows[0])[0], y: 18, "text-anchor": "middle", class: "head" }, picture, shortened(answer.tokens[token], 10));
    head.dataset.column = token;
  }
  const best = idsOf(answer, 0), second = idsOf(answer, 1);
  for (const [token, from, to, p] of answer.steps) {
    if (token < first || token + 1 >= last || p < LEAST || !rows.includes(from) || !rows.includes(to)) continue;
    const [[x1, y1], [x2, y2]] = [at(token, from), at(token + 1, to)];
    const kind = best[token] === from && best[token + 1] === to ? "best" : second[token] === from && second[token + 1] === to ? "second" : "";
    drawn("line", { x1, y1, x2, y2, "stroke-width": 1 + 6 * p, class: kind }, picture);
  }
  for (let token = first; token < last; token += 1) {
    for (const label of rows) drawNode(picture, answer, token, label, at(token, label), best, second, tell);
  }
  walk(picture, rows.length);
  place.replaceChildren(axis, picture);
  return [first, last];
}

// Scrolls to a token and marks it.
export function reveal(place, token) {
  for (const old of place.querySelectorAll(".head.chosen")) old.classList.remove("chosen");
  const head = place.querySelector(`[data-column="${token}"]`);
  if (!head) return;
  head.classList.add("chosen");
  const seen = place.clientWidth - place.firstChild.clientWidth;
  place.scrollLeft = Number(head.getAttribute("x")) - seen / 2;
}

function rowsOf(answer, first, last) {
  const used = new Set(answer.paths.slice(0, 2).flatMap((path) => path.tags.slice(first, last)));
  const isShown = (label) => used.has(answer.labels[label]) || answer.trellis.slice(first, last).some((row) => row[label] >= LEAST);
  return answer.labels.map((_, i) => i).filter(isShown);
}

const idsOf = (answer, rank) => (answer.paths[rank]?.tags ?? []).map((tag) => answer.labels.indexOf(tag));

function drawNode(picture, answer, token, label, [x, y], best, second, tell) {
  const p = answer.trellis[token][label];
  const kind = best[token] === label ? "best" : second[token] === label ? "second" : "";
  const words = `${answer.tokens[token]}: ${answer.labels[label]} ${p.toFixed(4)}`;
  const node = drawn("g", { class: `node ${kind}`, tabindex: -1, role: "img", "aria-label": words }, picture);
  node.dataset.place = `${token},${label}`;
  drawn("circle", { cx: x, cy: y, r: Math.max(1.5, 12 * Math.sqrt(p)) }, node);
  drawn("circle", { cx: x, cy: y, r: 14, class: "ring" }, node);
  drawn("title", {}, node, words);
  node.addEventListener("pointerenter", () => tell(words));
  node.addEventListener("focus", () => tell(words));
}

// One node takes the focus; arrows move it, and what it leaves sight of is scrolled.
function walk(picture, rows) {
  const nodes = [...picture.querySelectorAll(".node")];
  const start = nodes.find((node) => node.classList.contains("best")) ?? nodes[0];
  start?.setAttribute("tabindex", 0);
  picture.addEventListener("keydown", (event) => {
    const here = nodes.indexOf(event.target.closest(".node"));
    const row = here % rows;
    const steps = { ArrowUp: row ? -1 : 0, ArrowDown: row + 1 < rows ? 1 : 0, ArrowLeft: -rows, ArrowRight: rows, Home: row - here, End: nodes.length - rows + row - here };
    const step = steps[event.key];
    if (step === undefined || here < 0) return;
    event.preventDefault();
    const next = nodes[here + step];
    if (!step || !next) return;
    nodes[here].setAttribute("tabindex", -1);
    next.setAttribute("tabindex", 0);
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest", inline: "center" });
  });
}
