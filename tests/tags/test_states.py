"""States finer than labels: paths of states and legal sequences of labels correspond one to one."""

from itertools import pairwise, product

import numpy as np
import pytest

from trellis.errors import TagError
from trellis.tags import Scheme, StateMap, Style, TagSet, convert_tags, make_label, scheme_to_learn, validate_tags
from trellis.tags.tagset import FINER

COARSE = [Scheme.IO, Scheme.IOB1, Scheme.IOB2, Scheme.IOE1, Scheme.IOE2]


def complete(scheme, kinds=("X", "Y"), style=Style.PREFIX):
    roles = [role for role in dict.fromkeys(scheme.letters.values()) if role]
    return TagSet(("O", *(make_label(role, kind, scheme, style) for kind in kinds for role in roles)), scheme, style)


def legal(tags, length):
    paths = product(tags.labels, repeat=length)
    return [path for path in paths if not validate_tags(path, tags.scheme, style=tags.style)]


def paths_of(states, length):
    limits = states.allowed_transitions()
    for path in product(range(len(states)), repeat=length):
        inside = all(limits.transitions[a, b] for a, b in pairwise(path))
        if inside and limits.start[path[0]] and limits.end[path[-1]]:
            yield path


@pytest.mark.parametrize("learn", FINER)
@pytest.mark.parametrize("scheme", COARSE)
def test_every_legal_sequence_has_exactly_one_path_and_every_path_is_one(scheme, learn):
    tags = complete(scheme)
    states = StateMap.of(tags, learn)
    for length in (1, 2, 3, 4):
        found = [tuple(tags.decode(states.labels[list(path)])) for path in paths_of(states, length)]
        assert sorted(found) == sorted(legal(tags, length))


@pytest.mark.parametrize("style", Style)
@pytest.mark.parametrize("learn", FINER)
@pytest.mark.parametrize("scheme", COARSE)
def test_encoding_is_the_conversion_to_the_scheme_that_is_learned(scheme, learn, style):
    tags = complete(scheme, style=style)
    states = StateMap.of(tags, learn)
    for own in legal(tags, 4):
        path = states.encode(tags.encode(own), np.array([4]))
        assert tags.decode(states.labels[path]) == list(own)
        names = [states.names[state].split(" ")[0] for state in path]
        assert names == convert_tags(own, scheme, learn, style=style)


def test_sequences_of_a_batch_are_encoded_each_by_itself():
    tags = TagSet(("O", "B-X", "I-X"), Scheme.IOB2)
    states = StateMap.of(tags, Scheme.BIOES)
    path = states.encode(tags.encode(["B-X", "B-X", "I-X", "O"]), np.array([1, 0, 3]))
    assert [states.names[state] for state in path] == ["S-X", "B-X", "E-X", "O"]


def test_the_states_are_the_labels_where_these_tell_apart_as_much():
    for tags in (complete(Scheme.BIOES), TagSet(("DET", "NOUN")), complete(Scheme.BMES)):
        states = StateMap.of(tags, Scheme.BIOES)
        assert states.finer is None
        assert states.names == tags.labels
        assert np.array_equal(states.allowed_transitions().transitions, tags.allowed_transitions().transitions)


def test_labels_that_never_occur_make_no_states():
    states = StateMap.of(TagSet(("O", "B-X"), Scheme.IOB2), Scheme.BIOES)
    assert states.names == ("O", "S-X")


def test_adjoining_spans_of_iob1_have_states_of_their_own_only_where_b_occurs():
    assert StateMap.of(TagSet(("O", "I-X"), Scheme.IOB1), Scheme.BIOES).names == ("O", "B-X", "I-X", "E-X", "S-X")
    names = StateMap.of(TagSet(("O", "I-X", "B-X"), Scheme.IOB1), Scheme.BIOES).names
    assert {"S-X (I-X)", "S-X (B-X)", "B-X (I-X)", "B-X (B-X)", "I-X", "E-X"} <= set(names)


@pytest.mark.parametrize("scheme", COARSE)
def test_the_states_of_a_longer_set_of_labels_begin_with_those_of_the_shorter(scheme):
    labels = complete(scheme).labels
    longest = StateMap.of(TagSet(labels, scheme), Scheme.BIOES)
    for count in range(1, len(labels)):
        states = StateMap.of(TagSet(labels[:count], scheme), Scheme.BIOES)
        assert longest.labels[: len(states)].tolist() == states.labels.tolist()
        assert longest.roles[: len(states)].tolist() == states.roles.tolist()


def test_the_scheme_to_learn_is_bioes_for_spans_and_bmes_for_words_unless_given():
    spans, words = TagSet(("O", "B-X"), Scheme.IOB2), TagSet(("B", "I"), Scheme.IOB2)
    assert scheme_to_learn(spans, None) is Scheme.BIOES
    assert scheme_to_learn(words, None) is Scheme.BMES
    assert scheme_to_learn(spans, "data") is Scheme.IOB2
    assert scheme_to_learn(spans, "bio") is Scheme.IOB2
    with pytest.raises(TagError, match=r"learn_scheme must be data or one of IOB2.*got 'iob1'"):
        scheme_to_learn(spans, "iob1")
