// Sentences as elements: tokens, and around them their spans. Texts only ever become text nodes, never HTML.

import { isKnown } from "./text.js";
import { t } from "./words.js";

const DOUBTFUL = 0.8;

export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  const { dataset = {}, ...others } = properties;
  Object.assign(made, others);
  Object.assign(made.dataset, dataset);
  made.append(...children);
  return made;
}

export function sentenceElement(own, number, hues) {
  const line = element("div", { className: own.isComplete ? "sentence complete" : "sentence", dir: "auto", dataset: { sentence: number } });
  const firsts = new Map(own.spans.map((span) => [span.first, span]));
  let end = 0, token = 0;
  while (token < own.tokens.length) {
    const span = firsts.get(token);
    line.append(own.points.slice(end, own.offsets[token][0]));
    const last = span ? span.last : token + 1;
    const tokens = tokenElements(own, token, last);
    if (span) line.append(spanElement(own, span, hues, tokens));
    else line.append(...tokens);
    end = own.offsets[last - 1][1];
    token = last;
  }
  line.append(own.points.slice(end));
  return line;
}

function tokenElements(own, first, last) {
  const found = [];
  for (let token = first; token < last; token += 1) {
    if (token > first) found.push(own.points.slice(own.offsets[token - 1][1], own.offsets[token][0]));
    const outside = own.known.some((one) => one.label === null && one.start <= token && token < one.end);
    found.push(element("span", { className: outside ? "token outside" : "token", dataset: { token } }, own.tokens[token]));
  }
  return found;
}

function spanElement(own, span, hues, tokens) {
  const classes = ["span"];
  if (span.probability < DOUBTFUL) classes.push("doubtful");
  if (isKnown(own, span)) classes.push("confirmed");
  const shown = `${span.label} ${span.probability.toFixed(2)}`.trim();
  const made = element("span", { className: classes.join(" "), title: said(span), dataset: { shown, label: span.label } }, ...tokens);
  made.style.setProperty("--hue", hues.get(span.label));
  return made;
}

export const said = (span) => t("said", span.text, span.label || t("word"), span.probability.toFixed(4));

export function dot(hue) {
  const made = element("span", { className: "dot" });
  made.style.setProperty("--hue", hue);
  return made;
}

// What colours and borders mean.
export function legend(hues) {
  const samples = [["doubtful", t("doubtful")], ["confirmed", t("confirmed")]].map(([className, words]) => {
    const sample = element("span", { className: `sample ${className}` });
    sample.style.setProperty("--hue", [...hues.values()][0]);
    return [sample, words];
  });
  const labels = [...hues].map(([kind, hue]) => [dot(hue), kind || t("word")]);
  return [...labels, ...samples].map((entry) => element("span", { className: "entry" }, ...entry));
}
