// The page: a text, what the model says about it, and corrections that condition the model at once.

import { ask, isOutdated, Problem } from "./ask.js";
import { drawTrellis, reveal } from "./lattice.js";
import { focusMenu, hideMenu, menuIsOpen, showMenu } from "./menu.js";
import { legend, said, sentenceElement } from "./show.js";
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
const NOTHING = { spans: [], isComplete: false };
const state = {
  models: [], bytes: Infinity, sentences: [], current: 0, first: 0, last: 1, drawn: [0, 0], busy: 0, turn: 0,
  known: new Map(), // what a person said about a sentence, by model and text: it survives whatever is typed elsewhere
  changes: 0, // of known
  history: [], // [model, text, what was known before]
};

const model = () => state.models.find((one) => one.name === at("model").value);
const kinds = () => (model().kinds.length ? model().kinds : [""]);
const hues = () => new Map(kinds().map((kind, i) => [kind, model().hues[i]]));
const own = () => state.sentences[state.current];
const hasOutside = () => model().labels.includes("O");

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

const keyOf = (text) => JSON.stringify([model().name, text]);
const knownOf = (text) => state.known.get(keyOf(text)) ?? NOTHING;
function remember(text, known) {
  state.known.set(keyOf(text), known);
  state.changes += 1;
}

async function tagText() {
  hideMenu();
  const text = at("text").value;
  const turn = (state.turn += 1);
  if (!text.trim()) return show([]);
  try {
    const size = new Blob([text]).size;
    if (size > state.bytes) throw new Problem(t("tooLarge", size, state.bytes));
    const answer = await ask("/v1/tag", { model: model().name, documents: [text] }, "tag");
    const sentences = sentencesOf(answer.results[0]);
    for (let changes = null; changes !== state.changes;) {
      changes = state.changes;
      await conditionAll(sentences);
    }
    return turn === state.turn ? await show(sentences) : null;
  } catch (problem) {
    if (turn === state.turn && !isOutdated(problem)) show([]); // an old result would belong to another text
    throw problem;
  }
}

// Answers sentences anew about which something is known.
async function conditionAll(sentences) {
  const fits = (span) => (span.label === null ? hasOutside() : kinds().includes(span.label)); // another model may have come
  const numbers = sentences.map((_, i) => i).filter((i) => knownOf(sentences[i].text).spans.some(fits));
  if (!numbers.length) return;
  const texts = numbers.map((i) => sentences[i].text);
  const known = texts.map((text) => knownOf(text).spans.filter(fits));
  const answer = await ask("/v1/tag", { model: model().name, texts, known_spans: known }, "condition all");
  numbers.forEach((number, i) => {
    sentences[number] = sentence(answer.results[i], sentences[number].gap, { ...knownOf(texts[i]), spans: known[i] });
  });
}

const lines = () => state.sentences.map((one, i) => sentenceElement(one, i, hues()));

function show(sentences) {
  Object.assign(state, { sentences, current: 0, first: 0, last: 1 });
  at("result").classList.toggle("long", sentences.length > LONG);
  return draw();
}

// All of the result, anew.
function draw() {
  hideMenu();
  at("result").replaceChildren(...(state.sentences.length ? lines() : [t("empty")]));
  at("legend").replaceChildren(...(state.sentences.length ? legend(hues()) : []));
  at("details").hidden = !state.sentences.length;
  at("complete").disabled = !state.sentences.length;
  for (const name of ["trellis", "paths", "why", "number", "said"]) at(name).replaceChildren();
  showUndo();
  return choose(state.current, state.first, state.last);
}

// The same sentences in other words, with all corrections.
async function redraw() {
  showTheme();
  await offers();
  await draw();
}

// The cursor: tokens first..last-1 of a sentence; the trellis follows it.
function choose(current, first, last) {
  const isOutside = first < state.drawn[0] || first >= state.drawn[1];
  const isOther = isOutside || current !== state.current || !at("trellis").hasChildNodes();
  Object.assign(state, { current, first, last });
  for (const old of at("result").querySelectorAll(".chosen, .current")) old.classList.remove("chosen", "current");
  if (!own()) return null;
  const line = at("result").children[current];
  line.classList.add("current");
  for (let token = first; token < last; token += 1) tokenElement(current, token)?.classList.add("chosen");
  const span = spanAt(own(), first);
  at("said").textContent = span ? said(span) : own().tokens.slice(first, last).join(" ");
  if (isOther) return guarded(drawSentence);
  return reveal(at("trellis"), first);
}

const tokenElement = (current, token) => at("result").children[current]?.querySelector(`[data-token="${token}"]`);

async function drawSentence() {
  const one = own();
  if (!one.tokens.length) return at("trellis").replaceChildren();
  const body = { model: model().name, text: one.text, k_best: 5, known_spans: one.known };
  const answer = await ask("/v1/trellis", body, "trellis");
  state.drawn = drawTrellis(at("trellis"), answer, state.first, (words) => { at("number").textContent = words; });
  reveal(at("trellis"), state.first);
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

// Conditions all sentences with a text on what is known about them, and keeps it; if that fails, all is as before.
async function change(text, known, tags = null) {
  const before = knownOf(text);
  remember(text, known);
  try {
    await condition(text);
    await keep(model().name, state.sentences.find((one) => one.text === text), tags);
  } catch (problem) {
    if (!isOutdated(problem) && knownOf(text) === known) {
      remember(text, before);
      await condition(text).catch(() => null);
    }
    throw problem;
  } finally {
    showUndo();
    await choose(state.current, state.first, state.last);
  }
  return before;
}

async function condition(text) {
  const known = knownOf(text);
  const answer = await ask("/v1/tag", { model: model().name, texts: [text], known_spans: [known.spans] }, `condition ${text}`);
  state.sentences.forEach((old, i) => {
    if (old.text !== text) return;
    state.sentences[i] = sentence(answer.results[0], old.gap, known);
    at("result").children[i].replaceWith(sentenceElement(state.sentences[i], i, hues()));
  });
  at("trellis").replaceChildren();
}

// A word about the chosen tokens conditions the model: the rest of the sentence is answered anew.
async function correct(label) {
  const { text } = own();
  const spans = withKnown(knownOf(text).spans, state.first, state.last, label);
  state.history.push([model().name, text, await change(text, { spans, isComplete: false })]);
  showUndo();
}

async function completeSentence() {
  const { text, tokens, tags, spans } = own();
  const known = spans.map((span) => ({ start: span.first, end: span.last, label: span.label }));
  if (hasOutside()) known.push(...tokens.flatMap((_, i) => (spanAt(own(), i) ? [] : { start: i, end: i + 1, label: null })));
  state.history.push([model().name, text, await change(text, { spans: known, isComplete: true }, tags)]);
  showUndo();
}

// The last change of a sentence that is there; those of others wait until their text comes back.
const lastChange = () => state.history.findLastIndex(([name, text]) => name === model().name && state.sentences.some((one) => one.text === text));
const showUndo = () => { at("undo").disabled = lastChange() < 0; };

async function undo() {
  const number = lastChange();
  if (number < 0) return;
  const [[, text, before]] = state.history.splice(number, 1);
  const index = state.sentences.findIndex((one) => one.text === text);
  if (own().text !== text) await choose(index, 0, 1);
  await change(text, before);
}

function openMenu() {
  const span = spanAt(own(), state.first);
  if (span && span.first <= state.first && state.last <= span.last && state.last - state.first === 1) choose(state.current, span.first, span.last);
  const box = tokenElement(state.current, state.first).getBoundingClientRect();
  const entries = { label: (kind) => guarded(() => correct(kind)), why: () => guarded(explain) };
  if (span && span.first === state.first && span.last === state.last) entries.confirm = () => guarded(() => correct(span.label));
  if (hasOutside()) entries.remove = () => guarded(() => correct(null));
  showMenu(box, hues(), entries);
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
  const wasOpen = menuIsOpen();
  const actions = {
    ArrowRight: () => move(rtl, event.shiftKey),
    ArrowLeft: () => move(-rtl, event.shiftKey),
    Enter: () => (span ? (choose(state.current, span.first, span.last), guarded(() => correct(span.label))) : (openMenu(), focusMenu())),
    Delete: () => hasOutside() && guarded(() => correct(null)),
    w: () => guarded(explain),
    " ": () => { openMenu(); focusMenu(); },
    ArrowDown: wasOpen ? () => { openMenu(); focusMenu(); } : undefined,
    Escape: () => null,
  };
  actions.Backspace = actions.Delete;
  actions.W = actions.w;
  const action = event.ctrlKey ? (event.key === "z" ? () => guarded(undo) : undefined) : digit !== undefined ? () => guarded(() => correct(digit)) : actions[event.key];
  if (!action) return;
  event.preventDefault();
  hideMenu();
  action();
}

// A selection of text becomes one of tokens; a click chooses the token there.
function onPointer(event) {
  const start = event.target.closest("[data-token]") ?? event.target.closest(".span")?.querySelector("[data-token]");
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

// Shows a file of text; what is too large or binary is refused, and all stays as it is.
function openFile(file) {
  return guarded(async () => {
    if (file.size > state.bytes) throw new Problem(`${file.name}: ${t("tooLarge", file.size, state.bytes)}`);
    let text = "\0";
    try {
      text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    } catch { /* not UTF-8 */ }
    if (text.includes("\0")) throw new Problem(`${file.name}: ${t("binary")}`);
    at("text").value = text;
    await tagText();
  });
}

function wire() {
  let timer = null;
  at("text").addEventListener("input", () => {
    hideMenu();
    clearTimeout(timer);
    timer = setTimeout(() => guarded(tagText), at("text").value.trim() ? WAIT : 0);
  });
  at("text").addEventListener("dragover", () => at("text").classList.add("over"));
  at("text").addEventListener("dragleave", () => at("text").classList.remove("over"));
  at("text").addEventListener("drop", onDrop);
  at("file").addEventListener("change", async () => {
    if (at("file").files.length) await openFile(at("file").files[0]);
    at("file").value = ""; // the same file can be opened again
  });
  at("model").addEventListener("change", () => {
    if (Object.values(EXAMPLES).includes(at("text").value)) at("text").value = example();
    guarded(tagText);
  });
  at("result").addEventListener("keydown", onKey);
  at("result").addEventListener("pointerup", onPointer);
  document.addEventListener("pointerdown", (event) => { if (menuIsOpen() && !at("menu").contains(event.target)) hideMenu(); });
  window.addEventListener("resize", hideMenu);
  at("undo").addEventListener("click", () => guarded(undo));
  at("complete").addEventListener("click", () => guarded(completeSentence));
  at("learn").addEventListener("click", () => guarded(() => learn(model().name)));
  at("next").addEventListener("click", () => guarded(takeNext));
  at("accept").addEventListener("click", () => guarded(async () => { await decide(true); await refresh(); await tagText(); }));
  at("reject").addEventListener("click", () => guarded(() => decide(false)));
  at("language").addEventListener("click", () => { otherLanguage(); guarded(redraw); });
  at("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    localStorage.setItem("theme", document.documentElement.dataset.theme);
    showTheme();
  });
}

const example = () => (model().kinds.length ? EXAMPLES.other : EXAMPLES.segments);

async function takeNext() {
  at("text").value = await nextSentence();
  at("model").value = state.models[0].name; // whose pool it is
  await tagText();
  at("result").focus();
}

const isDark = () => (document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
const showTheme = () => { at("theme").textContent = t(isDark() ? "light" : "dark"); };

// The models that are served now; the one that was chosen stays chosen.
async function refresh() {
  const chosen = at("model").value;
  const answer = await ask("/v1/models");
  Object.assign(state, { models: answer.models, bytes: answer.body_bytes });
  at("model").replaceChildren(...state.models.map((one) => new Option(one.name, one.name)));
  if (state.models.some((one) => one.name === chosen)) at("model").value = chosen;
}

async function start() {
  const theme = localStorage.getItem("theme");
  if (theme) document.documentElement.dataset.theme = theme;
  translate();
  showTheme();
  await refresh();
  wire();
  const offered = await offers();
  at("text").value = offered.pool && offered.done < offered.total ? await nextSentence() : example();
  await tagText();
  document.documentElement.dataset.ready = "true";
}

guarded(start);
