"""Words on lines: one sentence per line, its words separated by spaces, each with or without a tag.

    我们  在  野生　动物园　玩        half- or full-width spaces, one or more

For word segmentation the words are joined and the tokens are their characters, each with a tag that says
where in its word it stands (BMES unless told otherwise): 我/B 们/E 在/S. With ``unit="words"`` the tokens are
the words, without tags. A blank line is an empty sentence, so that line n of the file is sentence n.

Tagged words (the format wordtag) have their tags behind a slash, as in ``Time/NN flies/VBZ``. A bar (``Time|NN``) or an
underline (``Time_NN``) is read as well where nearly every item has one and a tag behind it. The last delimiter of an
item separates, so a word may hold it (``1/2/CD``) and a tag may not.

Words with tags become characters with tags in the same way, and back, so that one labelling decides where words end and
what they are at the same time:

    我们/PRON 爱/VERB 北京/PROPN    <->    我/B-PRON 们/E-PRON 爱/S-VERB 北/B-PROPN 京/E-PROPN
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate

from trellis.corpus.sniff import SAMPLE, SPACES, find_delimiter, is_delimiter, split_spaces
from trellis.corpus.source import Source, refuse, refuse_illegal
from trellis.errors import CorpusError, DataError, shown
from trellis.tags import Scheme, Span, Style, spans_from_tags, tags_from_spans
from trellis.text import Sentence, graphemes

_LONGEST_KEPT = 100
"""Characters of a word whose tags are remembered."""


def read(source: Source, *, unit: str = "characters", scheme: Scheme | str = Scheme.BMES) -> Iterator[Sentence]:
    """Sentences of characters with tags, or of words without."""
    if unit not in ("characters", "words"):
        raise DataError(f"unit must be 'characters' or 'words', got {unit!r}")
    scheme = Scheme.parse(scheme)
    for number, line in source.lines():
        words = split_spaces(line)
        if unit == "words":
            yield Sentence(words, path=source.name, lines=(number,))
        else:
            yield sentence_from_words(words, scheme=scheme, path=source.name, line=number)


def write(sentences: Iterable[Sentence], *, scheme: Scheme | str = Scheme.BMES, separator: str = " ") -> Iterator[str]:
    """One line of words per sentence: its tokens as they are, or joined as its tags say if it has tags."""
    scheme = Scheme.parse(scheme)
    for sentence in sentences:
        words = sentence.tokens if sentence.tags is None else words_from_sentence(sentence, scheme=scheme)
        for word in words:
            _refuse_unwritable(sentence, word)
        yield separator.join(words) + "\n"


def read_tagged_words(source: Source, *, delimiter: str | None = None) -> Iterator[Sentence]:
    """Sentences of words with tags; without a `delimiter` it is the slash, bar or underline that the file has."""
    if delimiter is None:
        lines = source.head.split("\n", SAMPLE)[:SAMPLE]
        sample = [item for line in lines for item in split_spaces(line)]
        delimiter = find_delimiter(sample) or "/"
        if is_delimiter(delimiter, [item.rpartition(delimiter)[0] for item in sample]):
            number, line = next((number, line) for number, line in enumerate(lines, 1) if line.strip())
            problem = f"expected items of two parts, word{delimiter}TAG, found more parts: {shown(sample[0])}"
            raise CorpusError(problem, path=source.name, line=number, text=line)
    for number, line in source.lines():
        items = [item.rpartition(delimiter) for item in split_spaces(line)]
        bad = next((item for item in items if not (item[0] and item[2])), None)
        if bad is not None:
            problem = f"expected word{delimiter}TAG, found {shown(''.join(bad))}"
            source.fail(problem, number, line)
            continue
        words, tags = [word for word, _, _ in items], [tag for _, _, tag in items]
        yield Sentence(words, tags, path=source.name, lines=(number,))


def write_tagged_words(sentences: Iterable[Sentence], *, delimiter: str = "/") -> Iterator[str]:
    """One line of word/TAG items per sentence."""
    for sentence in sentences:
        if sentence.tags is None:
            refuse(sentence, f"a sentence without tags cannot be written as word{delimiter}TAG")
        for word, tag in zip(sentence.tokens, sentence.tags, strict=True):
            _refuse_unwritable(sentence, word)
            _refuse_unwritable(sentence, tag)
            if delimiter in tag:
                refuse(sentence, f"the tag {shown(tag)} holds the delimiter {delimiter!r}")
        items = zip(sentence.tokens, sentence.tags, strict=True)
        yield " ".join(f"{word}{delimiter}{tag}" for word, tag in items) + "\n"


def _refuse_unwritable(sentence: Sentence, word: str) -> None:
    """An error for a word that a line of words cannot hold."""
    if not word or SPACES.search(word) or "\n" in word or "\r" in word:
        refuse(sentence, f"{shown(word)} cannot be a word on a line: it is empty or holds a separator")


def sentence_from_words(
    words: Sequence[str],
    kinds: Sequence[str] | None = None,
    *,
    scheme: Scheme = Scheme.BMES,
    path: str | None = None,
    line: int | None = None,
) -> Sentence:
    """The characters of the words, tagged with their places in them; the text is the words joined.

    With the `kinds` of the words, their parts of speech say, each tag also has that of its word: B-NOUN, E-NOUN.
    """
    text = "".join(words)
    offsets, sizes = graphemes(text), [len(word) for word in words]
    if len(offsets) < len(text):  # some characters are longer: they must not join across words
        pieces = [graphemes(word) for word in words]
        shifts = accumulate(map(len, words), initial=0)
        offsets = [(shift + a, shift + b) for shift, word in zip(shifts, pieces, strict=False) for a, b in word]
        sizes = [len(word) for word in pieces]
    named = [*(("",) * len(sizes) if kinds is None else kinds)]
    beside = [None, *named, None]  # spans of one type that adjoin are written differently in some schemes
    places = _word_tags if max(sizes, default=0) <= _LONGEST_KEPT else _word_tags.__wrapped__
    around = zip(sizes, beside, named, beside[2:], strict=False)
    tags = [tag for size, a, kind, b in around for tag in places(size, kind, scheme, a == kind, b == kind)]
    tokens = tuple([_shared(text[start:end]) for start, end in offsets])
    return Sentence(tokens, tags, text, offsets, path=path, lines=() if line is None else (line,))


_shared = lru_cache(maxsize=1 << 14)(str)
"""The same text, as one object for all its occurrences: a large corpus has few different characters."""


@lru_cache(maxsize=4096)
def _word_tags(size: int, kind: str, scheme: Scheme, after_same: bool, before_same: bool) -> list[str]:
    """The tags of a word of `size` characters between others of its kind, of other kinds, or at an edge."""
    spans = [Span(1, 1 + size, kind)]
    if after_same:
        spans.insert(0, Span(0, 1, kind))
    if before_same:
        spans.append(Span(1 + size, 2 + size, kind))
    return tags_from_spans(spans, 2 + size, scheme)[1:-1]


def words_from_sentence(sentence: Sentence, *, scheme: Scheme = Scheme.BMES) -> list[str]:
    """The words that the tags of characters spell; a character outside all spans is a word by itself."""
    if sentence.tags is None:
        refuse(sentence, "a sentence without tags has no words")
    refuse_illegal(sentence, scheme)
    spans = _covering(spans_from_tags(sentence.tags, scheme), len(sentence))
    return ["".join(sentence.tokens[start:end]) for start, end, _ in spans]


def to_characters(sentence: Sentence, *, scheme: Scheme = Scheme.BMES) -> Sentence:
    """The characters of a sentence of tagged words, each with its place in its word and the tag of the word."""
    if sentence.tags is None:
        refuse(sentence, "its words have no tags, which joint segmentation and tagging learns")
    return sentence_from_words(
        sentence.tokens, sentence.tags, scheme=scheme, path=sentence.path, line=sentence.line_of(0)
    )


def to_words(sentence: Sentence, *, scheme: Scheme = Scheme.BMES, style: Style = Style.PREFIX) -> Sentence:
    """The words that tagged characters spell: with their tags if the characters have types, and with their offsets.

    A character outside all words is a word by itself, tagged O if the others have tags.
    """
    if sentence.tags is None:
        refuse(sentence, "a sentence without tags has no words")
    refuse_illegal(sentence, scheme, style)
    return words_of_spans(sentence, spans_from_tags(sentence.tags, scheme, style=style))


def words_of_spans(sentence: Sentence, spans: Sequence[Span]) -> Sentence:
    """The words that spans of characters are, by position; see `to_words`."""
    spans = _covering(spans, len(sentence))
    tags = [span.label for span in spans] if any(span.label for span in spans) else None
    if sentence.text is None or sentence.offsets is None:
        words = ["".join(sentence.tokens[span.start : span.end]) for span in spans]
        return Sentence(words, tags, path=sentence.path, lines=tuple(sentence.lines)[:1])
    text, characters = sentence.text, sentence.offsets
    offsets = [(characters[span.start][0], characters[span.end - 1][1]) for span in spans]
    words = [text[start:end] for start, end in offsets]
    return Sentence(words, tags, text, offsets, path=sentence.path, lines=tuple(sentence.lines)[:1])


def _covering(spans: Sequence[Span], length: int) -> list[Span]:
    """The spans, in order, and one of one token for each that lies outside of them, O if the spans have types."""
    outside = "O" if any(span.label for span in spans) else ""
    covering: list[Span] = []
    for begin, end, label in [*spans, Span(length, length, "")]:
        covering += [Span(i, i + 1, outside) for i in range(covering[-1].end if covering else 0, begin)]
        covering += [Span(begin, end, label)] if begin < end else []
    return covering
