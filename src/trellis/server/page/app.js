// The page: a text, what the model says about it, and corrections that condition the model at once.

import { ask, isOutdated } from "./ask.js";
import { drawTrellis } from "./lattice.js";
import { hideMenu, menuIsOpen, showMenu } from "./menu.js";
import { said, sentenceElement } from "./show.js";
import { pathTable, whyTable } from "./tables.js";
import { decide, keep, learn, nextSentence, offers } from "./teach.js";
import { sentence, sentencesOf, spanAt, withKnown } from "./text.js";
import { otherLanguage, t, translate } from "./words.js";

const at = (id) => document.getElementById(id);
const WAIT = 250; // milliseconds after the last key
const LONG = 50; // sentences from which on only those in sight are drawn
const EXAMPLES = {
  other: "Jordan Abara flew from Jordan to Washington on 3 May, and Ms Washington met her there.",
  segments: "研究生命起源的研究生说，明天会下雨。",
};
const state = { models: [], sentences: [], current: 0, first: 0, last: 1, history: [], drawn: [0, 0], busy: 0 };

const model = () => state.models.find((one) => one.name === at("model").value);
const kinds = () => (model().kinds.length ? model().kinds : [""]);
const own = () => state.sentences[state.current];

function tell(problem) {
  at("problem").textContent = problem === null || isOutdated(problem) ? "" : problem.message;
}

// Runs what a person asked for; what goes wrong is shown, and what is under way is marked.
async function guarded(action) {
  state.busy += 1;
  document.documentElement.dataset.busy = state.busy;
  try {
    const found = await action();
    tell(null);
    return found;
  } catch (problem) {
    tell(problem);
    return null;
  } finally {
    state.busy -= 1;
    if (!state.busy) delete document.documentElement.dataset.busy;
  }
}

async function tagText() {
  const text = at("text").value;
  state.history = [];
  if (!text.trim()) return show([]);
  const answer = await ask("/v1/tag", { model: model().name, documents: [text] }, "tag");
  return show(sentencesOf(answer.results[0]));
}

function show(sentences) {
  Object.assign(state, { sentences, current: 0, first: 0, last: 1 });
  const lines = sentences.map((one, i) => sentenceElement(one, i, kinds()));
  at("result").replaceChildren(...(lines.length ? lines : [t("empty")]));
  at("result").classList.toggle("long", lines.length > LONG);
  at("undo").disabled = true;
  at("complete").disabled = !sentences.length;
  at("trellis").replaceChildren();
  return choose(0, 0, 1);
}

// The same sentences in other words, with all corrections.
async function redraw() {
  at("result").replaceChildren(...(state.sentences.length ? state.sentences.map((one, i) => sentenceElement(one, i, kinds())) : [t("empty")]));
  at("trellis").replaceChildren();
  await offers();
  await choose(state.current, state.first, state.last);
}

// The cursor: tokens first..last-1 of a sentence; the trellis follows it.
function choose(current, first, last) {
  const isOutside = first < state.drawn[0] || first >= state.drawn[1];
  const isOther = isOutside || current !== state.current || !at("trellis").hasChildNodes();
  Object.assign(state, { current, first, last });
  for (const old of at("result").querySelectorAll(".chosen, .current")) old.classList.remove("chosen", "current");
  if (!own()) return at("trellis").replaceChildren();
  const line = at("result").children[current];
  line.classList.add("current");
  for (let token = first; token < last; token += 1) tokenElement(current, token)?.classList.add("chosen");
  const span = spanAt(own(), first);
  at("said").textContent = span ? said(span) : own().tokens.slice(first, last).join(" ");
  return isOther ? guarded(drawSentence) : null;
}

const tokenElement = (current, token) => at("result").children[current]?.querySelector(`[data-token="${token}"]`);

async function drawSentence() {
  const one = own();
  if (!one.tokens.length) return at("trellis").replaceChildren();
  const body = { model: model().name, text: one.text, k_best: 5, known_spans: one.known };
  const answer = await ask("/v1/trellis", body, "trellis");
  state.drawn = drawTrellis(at("trellis"), answer, state.first, (words) => { at("number").textContent = words; });
  at("number").textContent = state.drawn[1] - state.drawn[0] < answer.tokens.length ? t("tooLong") : "";
  at("paths").replaceChildren(pathTable(answer));
  at("why").replaceChildren(t("choose"));
  return answer;
}

async function explain() {
  const answer = await ask("/v1/explain", { model: model().name, text: own().text, positions: [state.first] }, "explain");
  at("why").replaceChildren(...whyTable(answer.tokens, answer.why[0]));
  at("why").scrollIntoView({ block: "nearest" });
}

// A word about the chosen tokens conditions the model: the rest of the sentence is answered anew.
async function correct(label) {
  const [current, first, last] = [state.current, state.first, state.last];
  const before = own().known;
  await condition(current, withKnown(before, first, last, label));
  state.history.push([current, before]);
  at("undo").disabled = false;
  await choose(current, first, last);
  await keep(model().name, state.sentences[current]);
}

async function condition(current, known) {
  const old = state.sentences[current];
  const answer = await ask("/v1/tag", { model: model().name, texts: [old.text], known_spans: [known] }, "condition");
  state.sentences[current] = sentence(answer.results[0], old.gap, known);
  at("result").children[current].replaceWith(sentenceElement(state.sentences[current], current, kinds()));
  at("trellis").replaceChildren();
}

async function undo() {
  const last = state.history.pop();
  at("undo").disabled = !state.history.length;
  if (!last) return;
  await condition(...last);
  await choose(last[0], state.first, state.last);
  await keep(model().name, state.sentences[last[0]]);
}

async function completeSentence() {
  const one = own();
  await keep(model().name, one, one.tags);
  const known = one.spans.map((span) => ({ start: span.first, end: span.last, label: span.label }));
  state.history.push([state.current, one.known]);
  at("undo").disabled = false;
  await condition(state.current, known);
  await choose(state.current, state.first, state.last);
}

function openMenu() {
  const span = spanAt(own(), state.first);
  if (span && span.first <= state.first && state.last <= span.last && state.last - state.first === 1) choose(state.current, span.first, span.last);
  const box = tokenElement(state.current, state.first).getBoundingClientRect();
  const entries = { label: (kind) => guarded(() => correct(kind)), why: () => guarded(explain) };
  if (span && span.first === state.first && span.last === state.last) entries.confirm = () => guarded(() => correct(span.label));
  if (model().labels.includes("O")) entries.remove = () => guarded(() => correct(null));
  showMenu(box, kinds(), entries);
}

function move(step, isExtended) {
  const count = own().tokens.length;
  if (isExtended) {
    const last = Math.min(count, Math.max(state.first + 1, state.last + step));
    return choose(state.current, state.first, last);
  }
  const next = step > 0 ? state.last : state.first - 1;
  if (next >= count && state.current + 1 < state.sentences.length) return choose(state.current + 1, 0, 1);
  if (next < 0 && state.current > 0) {
    const before = state.sentences[state.current - 1].tokens.length;
    return choose(state.current - 1, Math.max(0, before - 1), before);
  }
  if (next < 0 || next >= count) return null;
  return choose(state.current, next, next + 1);
}

function onKey(event) {
  if (!own() || event.altKey || event.metaKey) return;
  const span = spanAt(own(), state.first);
  const digit = /^[1-9]$/.test(event.key) ? kinds()[event.key - 1] : undefined;
  const rtl = getComputedStyle(at("result").children[state.current]).direction === "rtl" ? -1 : 1;
  const actions = {
    ArrowRight: () => move(rtl, event.shiftKey),
    ArrowLeft: () => move(-rtl, event.shiftKey),
    Enter: () => (span ? (choose(state.current, span.first, span.last), guarded(() => correct(span.label))) : openMenu()),
    Delete: () => model().labels.includes("O") && guarded(() => correct(null)),
    w: () => guarded(explain),
    " ": () => { openMenu(); at("menu").querySelector("button").focus(); },
    Escape: hideMenu,
  };
  actions.Backspace = actions.Delete;
  const action = event.ctrlKey ? (event.key === "z" ? () => guarded(undo) : undefined) : digit !== undefined ? () => guarded(() => correct(digit)) : actions[event.key];
  if (!action) return;
  event.preventDefault();
  action();
}

// A selection of text becomes one of tokens; a click chooses the token there.
function onPointer(event) {
  const start = event.target.closest("[data-token]");
  const selection = getSelection();
  const ends = [selection.anchorNode, selection.focusNode].map((node) => node?.parentElement?.closest("[data-token]"));
  const places = (selection.isCollapsed ? [start, start] : ends).map((one) => one && [Number(one.closest(".sentence").dataset.sentence), Number(one.dataset.token)]);
  if (!places[0] || !places[1] || places[0][0] !== places[1][0]) return hideMenu();
  const [first, last] = [places[0][1], places[1][1]].sort((a, b) => a - b);
  choose(places[0][0], first, last + 1);
  selection.removeAllRanges();
  return openMenu();
}

function onDrop(event) {
  at("text").classList.remove("over");
  if (!event.dataTransfer.files.length) return;
  event.preventDefault();
  openFile(event.dataTransfer.files[0]);
}

function openFile(file) {
  return guarded(async () => {
    at("text").value = await file.text();
    await tagText();
  });
}

function wire() {
  let timer = null;
  at("text").addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => guarded(tagText), WAIT);
  });
  at("text").addEventListener("dragover", () => at("text").classList.add("over"));
  at("text").addEventListener("dragleave", () => at("text").classList.remove("over"));
  at("text").addEventListener("drop", onDrop);
  at("file").addEventListener("change", () => { if (at("file").files.length) openFile(at("file").files[0]); });
  at("model").addEventListener("change", () => guarded(tagText));
  at("result").addEventListener("keydown", onKey);
  at("result").addEventListener("pointerup", onPointer);
  document.addEventListener("pointerdown", (event) => { if (menuIsOpen() && !at("menu").contains(event.target)) hideMenu(); });
  at("undo").addEventListener("click", () => guarded(undo));
  at("complete").addEventListener("click", () => guarded(completeSentence));
  at("learn").addEventListener("click", () => guarded(learn));
  at("next").addEventListener("click", () => guarded(takeNext));
  at("accept").addEventListener("click", () => guarded(async () => { await decide(true); await refresh(); }));
  at("reject").addEventListener("click", () => guarded(() => decide(false)));
  at("language").addEventListener("click", () => { otherLanguage(); guarded(redraw); });
  at("theme").addEventListener("click", otherTheme);
}

async function takeNext() {
  at("text").value = await nextSentence();
  await tagText();
  at("result").focus();
}

function otherTheme() {
  const isDark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = isDark ? "light" : "dark";
  localStorage.setItem("theme", document.documentElement.dataset.theme);
}

async function refresh() {
  const chosen = at("model").value;
  state.models = (await ask("/v1/models")).models;
  at("model").replaceChildren(...state.models.map((one) => new Option(one.name, one.name)));
  if (state.models.some((one) => one.name === chosen)) at("model").value = chosen;
  await tagText();
}

async function start() {
  const theme = localStorage.getItem("theme");
  if (theme) document.documentElement.dataset.theme = theme;
  translate();
  wire();
  state.models = (await ask("/v1/models")).models;
  at("model").replaceChildren(...state.models.map((one) => new Option(one.name, one.name)));
  const offered = await offers();
  at("text").value = offered.pool ? await nextSentence() : model().kinds.length ? EXAMPLES.other : EXAMPLES.segments;
  await tagText();
  document.documentElement.dataset.ready = "true";
}

guarded(start);
