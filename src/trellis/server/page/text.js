// Sentences with their tokens and spans. Offsets of the server count characters, those of JavaScript halves of some.

export class Points {
  constructor(text) {
    this.text = text;
    this.at = null;
    if (!/[\ud800-\udfff]/.test(text)) return;
    this.at = [];
    for (let i = 0; i < text.length; i += text.codePointAt(i) > 0xffff ? 2 : 1) this.at.push(i);
    this.at.push(text.length);
  }

  slice(start, end) {
    return this.at === null ? this.text.slice(start, end) : this.text.slice(this.at[start], this.at[end]);
  }
}

// The sentences of a document's answer, each as if it had been asked about alone.
export function sentencesOf(result) {
  const points = new Points(result.text);
  const sentences = [];
  let token = 0, span = 0, end = 0;
  for (const [start, stop] of result.sentences) {
    const first = token;
    while (token < result.tokens.length && result.offsets[token][0] < stop) token += 1;
    const spans = [];
    for (; span < result.spans.length && result.spans[span].start < stop; span += 1) spans.push(shifted(result.spans[span], start));
    sentences.push(sentence({
      text: points.slice(start, stop),
      tokens: result.tokens.slice(first, token),
      offsets: result.offsets.slice(first, token).map(([a, b]) => [a - start, b - start]),
      tags: result.tags.slice(first, token),
      probabilities: result.probabilities.slice(first, token),
      spans,
    }, points.slice(end, start)));
    end = stop;
  }
  return sentences;
}

export function sentence(answer, gap = "", { spans: known, isComplete } = { spans: [], isComplete: false }) {
  const starts = new Map(answer.offsets.map(([start], i) => [start, i]));
  const ends = new Map(answer.offsets.map(([, end], i) => [end, i + 1]));
  const spans = answer.spans.map((span) => ({ ...span, first: starts.get(span.start), last: ends.get(span.end) }));
  return { ...answer, spans, gap, known, isComplete, points: new Points(answer.text) };
}

// What a person says about tokens first..last-1; an earlier word about any of them is withdrawn.
export function withKnown(known, first, last, label) {
  return [...known.filter((one) => one.end <= first || one.start >= last), { start: first, end: last, label }]
    .sort((a, b) => a.start - b.start);
}

export const spanAt = (own, token) => own.spans.find((span) => span.first <= token && token < span.last);
export const isKnown = (own, span) => own.known.some((one) => one.start === span.first && one.end === span.last && one.label === span.label);

const shifted = (span, by) => ({ ...span, start: span.start - by, end: span.end - by });
