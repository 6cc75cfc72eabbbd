"""What ``trellis tag`` writes: one function per form, from answers to text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from trellis.corpus import CorpusError, dumps, format_rows, to_words, words_from_sentence
from trellis.corpus import conll as corpus_conll
from trellis.corpus import conllu as corpus_conllu
from trellis.corpus import wordtag as corpus_wordtag
from trellis.models import Labelling, Tagged
from trellis.tags import Scheme, Style
from trellis.text import Sentence, hue

_DIGITS = 6


@dataclass(frozen=True)
class Answer:
    """One sentence with its tags, with probabilities and the best labellings if they are wanted."""

    sentence: Sentence
    probable: Tagged | None = None
    labellings: Sequence[Labelling] = field(default=())
    fields: Mapping[str, object] = field(default_factory=dict)
    """Those of the record that it was read from."""


@dataclass(frozen=True)
class Drawing:
    """How answers are drawn."""

    scheme: Scheme
    style: Style = Style.PREFIX
    probs: bool = False
    colour: bool = False
    words: bool = False
    """The labels have no types: what counts is where words begin and end."""
    tagged: bool = False
    """The labels say where words begin and end, and what they are: what counts is words with tags."""
    column: str | None = None
    """Where CoNLL-U gets the tags."""


def inline(answer: Answer, style: Drawing) -> str:
    """The text on one line with its spans marked, and the k best below one another."""
    assert answer.probable is not None
    lines = [_marked(answer.probable, style)]
    if not len(answer.sentence):
        return f"{lines[0]}\n"
    lines += [f"  {item.probability:.4f}  {' '.join(item.tags)}" for item in answer.labellings]
    return "\n".join(lines) + "\n"


def conll(answer: Answer, style: Drawing) -> str:
    """One token per line with further columns, tag, and probability if asked for; the k best with comments.

    Document marks and comments of the input are kept.
    """
    sentence = answer.sentence
    if not len(sentence):
        return "\n"  # a blank line stays one
    if answer.labellings:
        parts = []
        for rank, item in enumerate(answer.labellings, 1):
            rows = format_rows(sentence, [sentence.tokens, *sentence.columns.values(), item.tags], "\t")
            parts.append(f"# {rank} {item.probability:.{_DIGITS}f}\n{rows}")
        return "".join(parts)
    columns: list[Sequence[str]] = [sentence.tokens, *sentence.columns.values(), sentence.tags or ()]
    if style.probs and answer.probable is not None:
        columns.append([f"{p:.{_DIGITS}f}" for p in answer.probable.probabilities])
    return corpus_conll.head_of(sentence, len(columns), "\t") + format_rows(sentence, columns, "\t")


def conllu(answer: Answer, style: Drawing) -> str:
    """CoNLL-U with all that the input had; probabilities go to MISC, the k best have a comment of their own."""
    if not len(answer.sentence):
        return "\n"
    if not answer.labellings:
        return "".join(corpus_conllu.write([_with_probabilities(answer, style)], tags=style.column))
    parts = []
    for rank, item in enumerate(answer.labellings, 1):
        rows = corpus_conllu.write([_worded(answer.sentence.with_tags(item.tags), style)], tags=style.column)
        parts.append(f"# kbest = {rank} {item.probability:.{_DIGITS}f}\n{''.join(rows)}")
    return "".join(parts)


def _with_probabilities(answer: Answer, style: Drawing) -> Sentence:
    sentence = _worded(answer.sentence, style)
    if not style.probs or answer.probable is None:
        return sentence
    before = sentence.columns.get("misc", ("_",) * len(sentence))
    found = [span.probability for span in answer.probable] if style.tagged else answer.probable.probabilities
    pairs = [f"Prob={p:.{_DIGITS}f}" for p in found]
    misc = [pair if cell == "_" else f"{cell}|{pair}" for cell, pair in zip(before, pairs, strict=True)]
    return replace(sentence, columns={**sentence.columns, "misc": misc})


def wordtag(answer: Answer, style: Drawing) -> str:
    """A line of word/TAG items; the k best one below the other with their probabilities."""
    if not answer.labellings:
        return "".join(corpus_wordtag.write([_worded(answer.sentence, style)]))
    found = [(item, _worded(answer.sentence.with_tags(item.tags), style)) for item in answer.labellings]
    lines = [(item, corpus_wordtag.write([sentence])) for item, sentence in found]
    return "".join(f"{item.probability:.{_DIGITS}f}\t{''.join(line)}" for item, line in lines)


def jsonl(answer: Answer, style: Drawing) -> str:
    """One object per line: text, tokens, offsets, tags, probabilities, spans, further columns, and the k best.

    What else was in the record of the input stays in it.
    """
    assert answer.probable is not None
    record = _rounded(_in_words(answer.probable) if style.tagged else answer.probable.to_dict())
    record |= {name: list(values) for name, values in answer.sentence.columns.items() if name not in record}
    if answer.labellings:
        record["kbest"] = [_way(answer.sentence, item, style) for item in answer.labellings]
    return dumps({**answer.fields, **record})


def _way(sentence: Sentence, item: Labelling, style: Drawing) -> dict[str, object]:
    """One of the k best: its tags, with the words that they make where that is what tags do."""
    about = {"tags": item.tags, "probability": round(item.probability, _DIGITS)}
    if not style.tagged:
        return about
    words = _worded(sentence.with_tags(item.tags), style)
    return {"tokens": list(words.tokens), **about, "tags": list(words.tags or ())}


def _in_words(tagged: Tagged) -> dict[str, object]:
    """The fields of a tagged text with words as its tokens, each with its tag and how probable both are."""
    words = tagged.to_words()
    return {
        "text": tagged.text,
        "tokens": list(words.tokens),
        "offsets": [list(pair) for pair in words.offsets or ()],
        "tags": list(words.tags or ()),
        "probabilities": [span.probability for span in tagged],
        "spans": tagged.to_records(),
    }


def _worded(sentence: Sentence, style: Drawing) -> Sentence:
    """The sentence in words, if its labels make words with tags."""
    if not style.tagged:
        return sentence
    words = to_words(sentence, scheme=style.scheme, style=style.style)
    return words.with_tags(words.tags or ())


def segmented(answer: Answer, style: Drawing) -> str:
    """A line of words separated by spaces; the k best one below the other with their probabilities."""
    if not answer.labellings:
        return " ".join(words_from_sentence(answer.sentence, scheme=style.scheme)) + "\n"
    lines = []
    for item in answer.labellings:
        words = words_from_sentence(answer.sentence.with_tags(item.tags), scheme=style.scheme)
        lines.append(f"{item.probability:.{_DIGITS}f}\t{' '.join(words)}\n")
    return "".join(lines)


FORMS: dict[str, Callable[[Answer, Drawing], str]] = {
    "inline": inline,
    "conll": conll,
    "conllu": conllu,
    "jsonl": jsonl,
    "segmented": segmented,
    "wordtag": wordtag,
}


def passed_on(error: CorpusError, form: str) -> str:
    """What could not be tagged, unchanged; in JSON Lines with the reason."""
    if form == "jsonl":
        return dumps({"error": str(error), "line": error.line, "raw": error.whole})
    return error.whole + ("\n\n" if form in ("conll", "conllu") else "\n")


def _marked(tagged: Tagged, style: Drawing) -> str:
    if style.words:
        return _alternating(tagged, style)
    parts, end = [], 0
    for span in tagged.spans:
        between = tagged.text[end : span.start]
        parts.append(" " if style.tagged and end and not style.colour and not between else between)
        label = span.label + (f" {span.probability:.2f}" if style.probs else "")
        parts.append(_coloured(span.text, label, hue(span.label)) if style.colour else f"[{span.text}]({label})")
        end = span.end
    return "".join([*parts, tagged.text[end:]])


def _alternating(tagged: Tagged, style: Drawing) -> str:
    """Words: every other one underlined in a terminal, spaces between them elsewhere."""
    if not style.colour:
        return " ".join(tagged.words)
    words = [f"\x1b[4m{word}\x1b[24m" if i % 2 else word for i, word in enumerate(tagged.words)]
    return "".join(words)


def _coloured(text: str, label: str, angle: int) -> str:
    """ANSI: black on a light colour of 256, the label dim behind it."""
    colour = (114, 117, 147, 176, 180, 150, 215, 159)[angle * 8 // 360]
    return f"\x1b[30;48;5;{colour}m {text} \x1b[0m\x1b[2m{label}\x1b[22m"


def _rounded(record: dict[str, object]) -> dict[str, object]:
    def shorter(value: object) -> object:
        if isinstance(value, float):
            return round(value, _DIGITS)
        if isinstance(value, list):
            return [shorter(item) for item in value]
        if isinstance(value, dict):
            return {key: shorter(item) for key, item in value.items()}
        return value

    return {key: shorter(value) for key, value in record.items()}
