"""Random spans and tags."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st

from trellis.tags import Scheme, Span

relaxed = settings(deadline=None, max_examples=50)  # a busy machine must not fail a test
LABELS = ("PER", "LOC", "GPE-NAM", "")
SPAN_SCHEMES = [scheme for scheme in Scheme if scheme is not Scheme.PLAIN]


@st.composite
def spans(draw, labels=LABELS, adjoining=True):
    """A list of spans that do not overlap, and the length of the sequence they lie in."""
    found, place = [], 0
    for _ in range(draw(st.integers(0, 5))):
        place += draw(st.integers(0, 2))
        end = place + draw(st.integers(1, 3))
        label = draw(st.sampled_from(labels))
        if not adjoining and found and found[-1].end == place and found[-1].label == label:
            place, end = place + 1, end + 1
        found.append(Span(place, end, label))
        place = end
    return found, place + draw(st.integers(0, 2))


def labels_of(scheme, kinds=("A", "B-C")):
    """The labels the scheme writes: not W, which BMES reads as S."""
    letters = [letter for letter, role in scheme.letters.items() if letter == scheme.letter(role) != "O"]
    return ["O", *(f"{letter}-{kind}" for letter in letters for kind in kinds)]


def any_tags(scheme):
    """Tags with the scheme's letters in any order, legal or not."""
    return st.lists(st.sampled_from(labels_of(scheme)), max_size=9)
