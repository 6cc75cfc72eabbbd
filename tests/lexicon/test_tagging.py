"""Lexicons in a tagger's distribution: preferred spans, spans that must be, and what is said about both."""

from __future__ import annotations

import pickle
from itertools import pairwise, product
from typing import ClassVar

import numpy as np
import pytest

from tests.corpora import shared
from tests.models.contract import POS, TRAIN
from trellis import CRF, HMM, Lexicon, NeuralTagger, Sentence, chain, corpus
from trellis.errors import DataWarning, ModelError, NoPathError, TemplateError
from trellis.lexicon.chains import apply_lexicons
from trellis.metrics import segmentation_scores
from trellis.models import Ensemble, Posterior, Tagger
from trellis.tags import Scheme, Span, TagSet, spans_from_tags, validate_tags
from trellis.text import splitter

WORDS = TagSet(("B", "M", "E", "S"), Scheme.BMES)
NAMES = TagSet(("O", "B-LOC", "I-LOC", "B-PER", "I-PER"), Scheme.IOB2)
RIVAL = TagSet(("O", "B-LOC", "I-LOC"), Scheme.IOB1)
SEGMENTED = [
    Sentence(
        list("".join(line.split())),
        [t for w in line.split() for t in ("S" if len(w) == 1 else "B" + "M" * (len(w) - 2) + "E")],
    )
    for line in (
        "北京 大学 生 在 这里",
        "他 在 北京 生活",
        "大学生 的 生活",
        "产品 和 服务",
        "他 和 大学生",
        "北京大学 很 大",
    )
]


def make(tags: TagSet, texts: list[list[str]], *, seed: int = 0, legal: bool = True) -> Posterior:
    random = np.random.default_rng(seed)
    L, N = len(tags), sum(map(len, texts))
    masks = tags.allowed_transitions() if legal else [np.ones(shape, dtype=bool) for shape in ((L, L), L, L)]
    own = [np.where(mask, random.normal(size=mask.shape), -np.inf) for mask in masks]
    scores = chain.ChainScores(random.normal(size=(N, L)), list(map(len, texts)), *own)
    return Posterior(scores, tags, inputs=texts)


def with_lexicon(posterior: Posterior, lexicon: Lexicon, known: np.ndarray | None = None) -> Posterior:
    scores = posterior.scores.restricted(known)
    chains = apply_lexicons([lexicon], posterior.inputs, scores, posterior.tags, known=known)
    return Posterior(scores, posterior.tags, None, posterior.inputs, 0, *chains)


def weights_of(posterior: Posterior, index: int) -> dict[tuple[str, ...], float]:
    """Every labelling of one input that the model allows, with its score."""
    one, tags = posterior.scores.part(index), posterior.tags
    paths = product(range(len(tags)), repeat=len(one.emissions))
    scored = ((tuple(tags.decode(path)), float(one.score(np.array(path, dtype=np.int64))[0])) for path in paths)
    return {path: score for path, score in scored if score > -np.inf}


def spans_of(path: tuple[str, ...], tags: TagSet) -> set[Span]:
    return set(spans_from_tags(path, tags.scheme))


def check(posterior: Posterior, index: int, weights: dict[tuple[str, ...], float]) -> None:
    """All answers of a posterior about one input against these weights of labellings."""
    total = np.logaddexp.reduce(list(weights.values()))
    every = {path: float(np.exp(weight - total)) for path, weight in weights.items()}
    best = max(every, key=every.__getitem__)
    assert posterior.best()[index] == list(best)
    kbest = posterior.kbest(3)[index]
    assert [item.tags for item in kbest] == [list(path) for path in sorted(every, key=lambda p: -every[p])[:3]]
    np.testing.assert_allclose([item.probability for item in kbest], sorted(every.values())[::-1][:3], rtol=1e-7)
    np.testing.assert_allclose(posterior.entropy()[index], -sum(p * np.log(p) for p in every.values() if p), atol=1e-9)
    for t, row in enumerate(posterior.marginals()[index]):
        expected = [sum(p for path, p in every.items() if path[t] == label) for label in posterior.tags.labels]
        np.testing.assert_allclose(row, expected, atol=1e-9)
    for span, probability in posterior.spans()[index]:
        share = sum(p for path, p in every.items() if span in spans_of(path, posterior.tags))
        np.testing.assert_allclose(probability, share, rtol=1e-7)
    assert all(tuple(drawn) in every for drawn in posterior.sample(5, seed=1)[index])


@pytest.mark.parametrize("tags", [WORDS, NAMES, RIVAL], ids=lambda tags: tags.scheme.value)
def test_prefer_is_exact_for_entries_that_overlap_and_nest(tags: TagSet) -> None:
    texts = [list("abcab"), list("ddd"), [], list("bca")]
    entries = [("ab", None, 2.0), ("abc", None, 1.0), ("bca", None, -1.5), ("c", None, 0.7), ("ca", None, 3.0)]
    plain = make(tags, texts)
    lexicon = Lexicon(entries, boundaries="character")
    posterior = with_lexicon(plain, lexicon)
    for index, text in enumerate(texts):
        bonus = {(i, j): entry.strength for i, j, entry in lexicon.find(text)}
        weights = {
            path: weight + sum(float(bonus.get((s.start, s.end), 0.0)) for s in spans_of(path, tags))
            for path, weight in weights_of(plain, index).items()
        }
        check(posterior, index, weights)
    assert posterior.probabilities(posterior.best()) == pytest.approx(
        [own[0].probability for own in posterior.kbest(1)]
    )


def test_a_label_gives_the_bonus_to_its_type_only_and_entries_add_up() -> None:
    texts = [list("xaby")]
    plain = make(NAMES, texts)
    lexicon = Lexicon([("ab", "PER", 2.0), ("ab", None, 1.0)], boundaries="character")
    weights = {
        path: weight + 3.0 * (Span(1, 3, "PER") in spans_of(path, NAMES)) + (Span(1, 3, "LOC") in spans_of(path, NAMES))
        for path, weight in weights_of(plain, 0).items()
    }
    check(with_lexicon(plain, lexicon), 0, weights)


@pytest.mark.parametrize("tags", [WORDS, NAMES], ids=lambda tags: tags.scheme.value)
def test_must_is_the_distribution_over_labellings_with_the_span(tags: TagSet) -> None:
    texts = [list("cabc"), list("ccc"), list("ab")]
    plain = make(tags, texts, seed=1)
    posterior = with_lexicon(plain, Lexicon([("ab", None, "must"), ("c", None, 1.0)], boundaries="character"))
    for index, (text, place) in enumerate(zip(texts, [(1, 3), None, (0, 2)], strict=True)):
        weights = {
            path: weight + sum(s.end - s.start == 1 and text[s.start] == "c" for s in spans_of(path, tags))
            for path, weight in weights_of(plain, index).items()
            if place is None or any((s.start, s.end) == place for s in spans_of(path, tags))
        }
        check(posterior, index, weights)


@pytest.mark.parametrize("seed", range(6))
def test_of_musts_that_overlap_the_largest_set_holds_and_the_best_of_these(seed: int) -> None:
    texts = [list("xabcdx")]
    plain = make(WORDS, texts, seed=seed)
    places = [(1, 3), (2, 4), (3, 5), (1, 5)]
    lexicon = Lexicon(["ab", "bc", "cd", "abcd"], strength="must", boundaries="character")
    posterior = with_lexicon(plain, lexicon)
    weights = weights_of(plain, 0)
    held = {path: [(s.start, s.end) in places for s in spans_of(path, WORDS)].count(True) for path in weights}
    most = max(held.values())
    chosen = max((path for path in weights if held[path] == most), key=weights.__getitem__)
    kept = {place for place in places if Span(*place, "") in spans_of(chosen, WORDS)}
    assert posterior.best()[0] == list(chosen)
    lost = {(one.start, one.end) for one in posterior.lexicon_report().lost}
    assert lost == set(places) - kept
    check(posterior, 0, {p: w for p, w in weights.items() if all(Span(*k, "") in spans_of(p, WORDS) for k in kept)})


def test_two_musts_for_one_span_leave_the_label_open() -> None:
    plain = make(NAMES, [list("xaby")])
    lexicon = Lexicon([("ab", "PER", "must"), ("ab", "LOC", "must")], boundaries="character")
    weights = {
        path: w
        for path, w in weights_of(plain, 0).items()
        if spans_of(path, NAMES) & {Span(1, 3, "PER"), Span(1, 3, "LOC")}
    }
    check(with_lexicon(plain, lexicon), 0, weights)


def test_the_label_stays_open_also_where_other_musts_overlap() -> None:
    plain = make(NAMES, [list("abxcde")])
    torn = [("cd", "PER", "must"), ("de", "PER", "must")]
    lexicon = Lexicon([("ab", "PER", "must"), ("ab", "LOC", "must"), *torn], boundaries="character")
    both = {Span(0, 2, "PER"), Span(0, 2, "LOC")}
    weights = {path: w for path, w in weights_of(plain, 0).items() if spans_of(path, NAMES) & both}
    rivals = {Span(3, 5, "PER"), Span(4, 6, "PER")}
    best = max((path for path in weights if spans_of(path, NAMES) & rivals), key=weights.__getitem__)
    (kept,) = spans_of(best, NAMES) & rivals
    posterior = with_lexicon(plain, lexicon)
    check(posterior, 0, {path: w for path, w in weights.items() if kept in spans_of(path, NAMES)})
    assert [one.start for one in posterior.lexicon_report().lost if one.probability == 0.0] == [7 - kept.start]


def test_a_must_against_known_labels_is_an_error_that_names_both() -> None:
    plain = make(NAMES, [list("xaby")])
    lexicon = Lexicon([("ab", "PER", "must")], boundaries="character")
    known = np.ones((4, 5), dtype=bool)
    known[2] = [True, True, False, False, False]
    with pytest.raises(
        ModelError,
        match=r"tokens 1 to 2 \('a b'\) must be one span of type PER, and known labels say that token 2 is O or B-LOC",
    ):
        with_lexicon(plain, lexicon, known)
    known[2] = True
    known[3] = [False, False, False, False, True]  # the name would go on
    with pytest.raises(
        ModelError, match=r"must be one span of type PER, which contradicts known labels: token 3 is I-PER"
    ):
        with_lexicon(plain, lexicon, known)


def test_a_must_that_no_labelling_of_the_model_obeys_is_an_error() -> None:
    plain = make(NAMES, [list("ab")])
    scores = plain.scores
    never = chain.ChainScores(scores.emissions, scores.lengths, np.where(np.eye(5, k=-1) > 2, 0, -np.inf))
    stuck = Posterior(never, NAMES, inputs=plain.inputs)
    with pytest.raises(ModelError, match="no labelling that the model allows obeys the lexicon"):
        with_lexicon(stuck, Lexicon([("ab", "PER", "must")], boundaries="character"))


def test_labels_that_the_model_lacks_are_left_out_unless_all_are() -> None:
    plain = make(NAMES, [list("xaby")])
    mixed = Lexicon([("ab", "n", 2.0), ("x", "PER", 1.0)], boundaries="character")
    said = "labels that the model lacks, which are ignored: 1, with n; the model has LOC, PER"
    with pytest.warns(DataWarning, match=said):
        assert len(with_lexicon(plain, mixed).lexicon_report().occurrences) == 1
    learned = Lexicon([("ab", "n", "feature"), ("x", "PER", "must")], boundaries="character")
    assert len(with_lexicon(plain, learned).lexicon_report().occurrences) == 1  # without a warning
    with pytest.raises(ModelError, match="the lexicon has n, the model LOC, PER"):
        with_lexicon(plain, Lexicon([("ab", "n", 2.0)]))
    words = make(WORDS, [list("xaby")])
    jieba = Lexicon([("ab", "n", 2.0)], boundaries="character")
    assert len(with_lexicon(words, jieba).lexicon_report().occurrences) == 1


class TestGiven:
    @pytest.mark.parametrize("legal", [True, False], ids=["legal", "free"])
    @pytest.mark.parametrize("tags", [WORDS, NAMES, RIVAL], ids=lambda tags: tags.scheme.value)
    def test_a_span_gives_the_conditional_distribution(self, tags: TagSet, legal: bool) -> None:
        plain = make(tags, [list("abcd"), list("ef")], legal=legal)
        kind = "" if tags is WORDS else "LOC"
        for span in [(1, 3, kind), (0, 1, kind), (2, 4, None)]:
            weights = {
                path: w
                for path, w in weights_of(plain, 0).items()
                if any(s[:2] == span[:2] and span[2] in (None, s.label) for s in spans_of(path, tags))
            }
            check(plain.given(span=span), 0, weights)

    def test_labels_and_spans_add_up(self) -> None:
        plain = make(NAMES, [list("ef"), list("abcd")])
        posterior = plain.given(span=(0, 2, "PER"), index=1).given(labels={3: "B-LOC", 2: ["O", "B-PER"]})
        weights = {
            path: w
            for path, w in weights_of(plain, 1).items()
            if Span(0, 2, "PER") in spans_of(path, NAMES) and path[3] == "B-LOC" and path[2] in ("O", "B-PER")
        }
        check(posterior, 0, weights)
        assert posterior.first == 1

    def test_what_cannot_be_is_said_at_once(self) -> None:
        plain = make(NAMES, [list("abcd")])
        problem = r"sentence 0: no labelling that is possible here has the span \(0, 2, 'PER'\) and the labels {1: 'O'}"
        with pytest.raises(NoPathError, match=problem):
            plain.given(span=(0, 2, "PER"), labels={1: "O"})
        with pytest.raises(ModelError, match=r"a span must be \(start, end, label\), got \(0.0, 2.0, 'PER'\)"):
            plain.given(span=(0.0, 2.0, "PER"))  # type: ignore[arg-type]
        with pytest.raises(ModelError, match=r"index must be in 0\.\.0 of 1 inputs, got 'a'"):
            plain.given(span=(0, 2, "PER"), index="a")  # type: ignore[arg-type]
        with pytest.raises(ModelError, match=r"\(2, 9, 'PER'\) does not lie in an input of 4 tokens"):
            plain.given(span=(2, 9, "PER"))
        with pytest.raises(ModelError, match="it has LOC, PER"):
            plain.given(span=(0, 1, "ORG"))
        with pytest.raises(ModelError, match=r"position 4: expected 0\.\.3"):
            plain.given(labels={4: "O"})
        with pytest.raises(ModelError, match="a span must be"):
            plain.given(span=(1, 2))  # type: ignore[arg-type]

    def test_places_may_be_integers_of_numpy(self) -> None:
        plain = make(NAMES, [list("abcd")])
        two = np.arange(3)[2]
        assert plain.given(span=(two, two + 1, "PER"), labels={two + 1: "O"}).best()[0][2:] == ["B-PER", "O"]

    def test_it_follows_a_lexicon(self) -> None:
        plain = make(WORDS, [list("abcd")])
        posterior = with_lexicon(plain, Lexicon([("bc", None, 2.0)], boundaries="character")).given(span=(0, 1, ""))
        weights = {
            path: w + 2.0 * (Span(1, 3, "") in spans_of(path, WORDS))
            for path, w in weights_of(plain, 0).items()
            if Span(0, 1, "") in spans_of(path, WORDS)
        }
        check(posterior, 0, weights)


FAMILIES = {
    "crf": lambda: CRF(features="ner", c2=0.1),
    "crf of order 2": lambda: CRF(features="ner", c2=0.1, order=2),
    "crf without constraints": lambda: CRF(features="ner", c2=0.1, constraints=False),
    "hmm": lambda: HMM(),
    "softmax": lambda: NeuralTagger(
        head="softmax", encoder={"hidden": 8, "words": {"size": 8}}, training={"epochs": 3}
    ),
    "semicrf": lambda: NeuralTagger(
        head="semicrf", encoder={"hidden": 8, "words": {"size": 8}}, training={"epochs": 3}
    ),
    "bilstm-crf": lambda: NeuralTagger(encoder={"hidden": 8, "words": {"size": 8}}, training={"epochs": 3}),
}


@pytest.fixture(scope="module")
def taggers() -> dict[str, Tagger]:
    return {name: make().fit(TRAIN) for name, make in FAMILIES.items()}


@pytest.mark.parametrize("family", list(FAMILIES))
class TestFamilies:
    TEXT: ClassVar = ["Paul", "met", "Karl", "Marx", "in", "Rome"]

    def test_a_must_is_never_ignored(self, taggers: dict[str, Tagger], family: str) -> None:
        lexicon = Lexicon([("Karl Marx", "LOC", "must")])
        (tagged,) = taggers[family].tag([self.TEXT], lexicon=lexicon)
        assert Span(2, 4, "LOC") in spans_from_tags(tagged.tags, Scheme.IOB2)
        assert taggers[family](" ".join(self.TEXT), lexicon=lexicon).tags == tagged.tags

    def test_the_odds_of_a_preferred_span_grow_by_the_bonus(self, taggers: dict[str, Tagger], family: str) -> None:
        span = [[Span(2, 4, "PER")]]
        chances = [
            taggers[family].posterior([self.TEXT], lexicon=lexicon).span_probabilities(span)[0][0].probability
            for lexicon in (None, Lexicon([("Karl Marx", "PER", 1.5)]))
        ]
        before, after = (p / (1 - p) for p in chances)
        assert after / before == pytest.approx(np.exp(1.5))

    def test_all_ways_of_asking_agree(self, taggers: dict[str, Tagger], family: str) -> None:
        model, lexicon = taggers[family], Lexicon([("Karl Marx", "PER", 9.0), ("met", None, "feature")])
        X = [self.TEXT, ["It", "rained"], []]
        posterior = model.posterior(X, lexicon=lexicon)
        assert model.predict(X, lexicon=lexicon) == posterior.best()
        assert [list(one.tags) for one in model.annotate(X, lexicon=lexicon)] == posterior.best()
        for a, b in zip(model.marginals(X, lexicon=lexicon), posterior.marginals(), strict=True):
            np.testing.assert_allclose(a, b)
        assert [own[0].tags for own in model.kbest(X, 1, lexicon=lexicon)] == posterior.best()
        np.testing.assert_allclose(posterior.part(0).marginals()[0], posterior.marginals()[0])
        assert posterior.trellis(0).paths[0].tags == posterior.best()[0]
        posterior.explain(0, 2)
        if family != "crf without constraints":
            assert not any(validate_tags(tags, Scheme.IOB2) for tags in posterior.best())

    def test_known_labels_and_a_lexicon_hold_together(self, taggers: dict[str, Tagger], family: str) -> None:
        known = [["B-PER", None, None, None, None, None]]
        (tags,) = taggers[family].predict([self.TEXT], known=known, lexicon=Lexicon([("Karl Marx", "PER", "must")]))
        assert tags[0] == "B-PER"
        assert tags[2:4] == ["B-PER", "I-PER"]

    def test_a_lexicon_of_the_model_counts_until_it_is_switched_off(
        self, taggers: dict[str, Tagger], family: str, tmp_path
    ) -> None:
        model = pickle.loads(pickle.dumps(taggers[family]))
        plain = model.predict([self.TEXT])
        model.lexicon_ = Lexicon([("Karl Marx", "LOC", "must")])
        model.save(tmp_path / "model")
        again = type(model).load(tmp_path / "model")
        for one in (model, again, pickle.loads(pickle.dumps(again))):
            assert one.predict([self.TEXT])[0][2:4] == ["B-LOC", "I-LOC"]
            assert one.predict([self.TEXT], lexicon=None) == plain
            both = one.predict([self.TEXT], lexicon=Lexicon([("met", "PER", "must")]))[0]
            assert both[1:4] == ["B-PER", "B-LOC", "I-LOC"]


def test_parts_of_speech_are_spans_of_one_token() -> None:
    lexicon = Lexicon([("dog", "VERB", "must"), ("the dog", "NOUN", 5.0)])
    for model in (HMM().fit(POS), CRF(features="pos").fit(POS)):
        assert model.predict([["the", "dog", "barks"]], lexicon=lexicon)[0][:2] == ["DET", "VERB"]


def test_musts_of_several_tokens_are_refused_where_spans_have_one() -> None:
    model = HMM().fit([Sentence(["a", "b", "c"], ["X", "Y", "X"])])
    for entries in (["a b"], ["a b", "b c"]):
        with pytest.raises(
            ModelError, match=r"no labelling that the model allows obeys .* tokens 0 to 1 \('a b'\) must be"
        ):
            model.predict([["a", "b", "c"]], lexicon=Lexicon(entries, strength="must"))


def test_ensembles_take_lexicons() -> None:
    both = Ensemble.of([CRF(features="ner", c2=c).fit(TRAIN) for c in (0.1, 1.0)])
    (tags,) = both.predict([["Karl", "Marx"]], lexicon=Lexicon([("Karl Marx", "LOC", "must")]))
    assert tags == ["B-LOC", "I-LOC"]


def test_only_lexicons_are_taken() -> None:
    model = CRF(features="ner").fit(TRAIN)
    with pytest.raises(ModelError, match=r"lexicon must be a Lexicon, 'own' or None, got 'words\.txt'"):
        model.predict([["a"]], lexicon="words.txt")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="no lexicon to report on"):
        model.posterior([["a"]]).lexicon_report()


@pytest.fixture(scope="module")
def model() -> CRF:
    return CRF(features="seg", c2=0.1).fit(SEGMENTED)


class TestSegmentation:
    def test_words_end_at_white_space_unless_the_lexicon_has_it(self, model: CRF) -> None:
        assert "北京 大学" not in model("他在北京 大学").words
        assert "北京 大学" in model("他在北京 大学", lexicon=Lexicon([("北京 大学", None, "must")])).words
        assert "北京 大学" not in model("他在北京 大学", lexicon=Lexicon([("北京大学", None, "must")])).words

    def test_documents_take_lexicons(self, model: CRF) -> None:
        lexicon = Lexicon([("北京大", None, "must")])
        document = model("他在北京大学。他和北京大学。", sentences=True, lexicon=lexicon)
        assert document.words.count("北京大") == 2

    @pytest.mark.parametrize("strengths", [(2.0,), (-3.0,), (1.5, -1.0), ("must",), ("must", 2.0), ("must", "must")])
    def test_no_other_word_runs_across_white_space(self, model: CRF, strengths: tuple[float | str, ...]) -> None:
        random = np.random.default_rng(1)
        letters = sorted({c for s in SEGMENTED for c in s.tokens})
        for _ in range(8):
            tokens, gap = random.choice(letters, size=6, replace=False).tolist(), int(random.integers(2, 5))
            ends = {(int(random.integers(gap)), int(random.integers(gap + 1, 7))): own for own in strengths}
            entries = [
                ("".join(tokens[a:gap]) + " " + "".join(tokens[gap:b]), None, own) for (a, b), own in ends.items()
            ]
            weights = {}
            for one in model.posterior([tokens]).kbest(100)[0]:
                words = {(s.start, s.end) for s in spans_of(tuple(one.tags), model.tagset_)}
                if all(end <= gap or begin >= gap or (begin, end) in ends for begin, end in words):
                    bonus = sum(own for place, own in ends.items() if own != "must" and place in words)
                    weights[tuple(one.tags)] = np.log(one.probability) + bonus
            musts = {Span(*place, "") for place, own in ends.items() if own == "must"}
            best = max(weights, key=lambda p: (len(musts & spans_of(p, model.tagset_)), weights[p]))
            held = musts & spans_of(best, model.tagset_)
            sentence = splitter("characters").sentence("".join([*tokens[:gap], " ", *tokens[gap:]]))
            posterior = model.posterior([sentence], raw=True, lexicon=Lexicon(entries))
            check(posterior, 0, {p: w for p, w in weights.items() if held <= spans_of(p, model.tagset_)})
            alone = model.posterior([sentence], raw=True, lexicon=None)
            assert all(alone.span_probabilities([[Span(*place, "")]])[0][0].probability == 0.0 for place in ends)
            assert all(one.alone == 0.0 for one in posterior.lexicon_report().occurrences)

    def test_a_word_that_does_not_come_out_changes_nothing(self, model: CRF) -> None:
        """What people complain about: a word that was added cuts others to pieces, as 和服 in 产品和服务."""
        lexicon = Lexicon(["和服"])
        assert model("产品和服务", lexicon=lexicon).words == ["产品", "和", "服务"]
        random = np.random.default_rng(0)
        letters = sorted({c for s in SEGMENTED for c in s.tokens})
        for _ in range(100):
            text = random.choice(letters, size=9).tolist()
            start = int(random.integers(7))
            word = "".join(text[start : start + 2])
            posterior = model.posterior([text], lexicon=Lexicon([(word, None, float(random.uniform(0, 4)))]))
            report = posterior.lexicon_report()
            if not report.fired:
                assert posterior.best() == model.predict([text])
            for one in report.occurrences:
                assert one.probability >= one.alone - 1e-12

    def test_a_word_gives_way_only_to_what_is_less_improbable_than_the_bonus(self, model: CRF) -> None:
        text = list("产品和服务")
        before = model.posterior([text])
        best = before.kbest(1)[0][0].probability
        for bonus in (1.0, 4.0, 20.0):
            after = model.predict([text], lexicon=Lexicon([("和服", None, bonus)]))
            ratio = best / before.probabilities(after)[0]
            assert ratio <= np.exp(bonus) * (1 + 1e-9)

    def test_the_report_says_what_lost_against_what(self, model: CRF) -> None:
        posterior = model.posterior([list("产品和服务"), list("他在北京")], lexicon=Lexicon(["和服", "北京"]))
        report = posterior.lexicon_report()
        (lost,), (fired,) = report.lost, report.fired
        assert (lost.sentence, lost.start, lost.end, lost.text) == (0, 2, 4, "和服")
        assert [one.span for one in lost.instead] == [Span(2, 3, ""), Span(3, 5, "")]
        assert lost.alone < lost.probability < lost.instead[0].probability
        assert (fired.text, fired.entry.surface) == ("北京", "北京")
        rows = report.to_records()
        assert rows[0]["surface"] == "和服"
        assert rows[0]["instead"][1]["end"] == 5
        assert "1 of 2 occurrences fired" in str(report.grid().to_text())
        assert [row.fired for row in (report + report).entries()] == [0, 2]


NAMES_OF_PLACES = Lexicon(
    [("Oslo", "LOC"), ("Paris", "LOC"), ("Rome", "LOC"), ("New Delhi", "LOC")], strength="feature"
)
LEARNERS = {
    "crf": lambda **options: CRF(features="ner", c2=0.1, **options),
    "neural": lambda **options: NeuralTagger(
        encoder={"hidden": 8, "words": {"size": 8, "unknown": 0.5}}, training={"epochs": 30}, **options
    ),
}


@pytest.mark.parametrize("family", list(LEARNERS))
class TestFeatures:
    def test_a_model_learns_what_a_match_means(self, family: str, tmp_path) -> None:
        model = LEARNERS[family]().fit(TRAIN * 3, lexicon=NAMES_OF_PLACES)
        x = ["It", "rained", "in", "Oslo", "."]
        chances = [
            model.posterior([x], lexicon=lexicon).marginals()[0][3, model.labels_.index("B-LOC")]
            for lexicon in (None, "own", Lexicon([("rained", "LOC", "feature")]))
        ]
        assert chances[1] > chances[0]
        assert chances[2] == pytest.approx(chances[1], rel=0.5)  # its own lexicon counts beside another
        model.save(tmp_path / "model")
        again = type(model).load(tmp_path / "model")
        for one in (again, pickle.loads(pickle.dumps(model))):
            np.testing.assert_array_equal(one.marginals([x])[0], model.marginals([x])[0])
            np.testing.assert_array_equal(one.marginals([x], lexicon=None)[0], model.marginals([x], lexicon=None)[0])
        assert list(again.lexicon_) == list(NAMES_OF_PLACES)

    def test_the_settings_may_name_a_file(self, family: str, tmp_path) -> None:
        (tmp_path / "places.tsv").write_text("Oslo\tLOC\nRome\tLOC\n")
        model = LEARNERS[family](lexicon=str(tmp_path / "places.tsv")).fit(TRAIN)
        assert [entry.strength for entry in model.lexicon_] == ["feature", "feature"]
        assert model.lexical_ == ("LOC",)

    def test_training_again_without_a_lexicon_forgets_it(self, family: str) -> None:
        model = LEARNERS[family]().fit(TRAIN, lexicon=NAMES_OF_PLACES).fit(TRAIN)
        assert (model.lexicon_, model.lexical_) == (None, ())
        plain = LEARNERS[family]().fit(TRAIN)
        x = [["In", "Oslo"]]
        np.testing.assert_array_equal(model.marginals(x)[0], plain.marginals(x)[0])

    def test_going_on_keeps_the_lexicon_or_takes_one_with_the_same_labels(self, family: str) -> None:
        model = LEARNERS[family]().fit(TRAIN, lexicon=NAMES_OF_PLACES)
        model.fit(TRAIN, warm_start=True)
        assert model.lexical_ == ("LOC",)
        with pytest.raises(ModelError, match="labels of its first one"):
            model.fit(TRAIN, warm_start=True, lexicon=Lexicon([("Oslo", "PER", "feature")]))


def test_features_of_a_lexicon_have_names() -> None:
    model = CRF(features="ner", c2=0.1).fit(TRAIN, lexicon=NAMES_OF_PLACES)
    assert "U61b:E2" in model.feature_names(["in", "New", "Delhi"])[2]
    assert model.explain(["in", "New", "Delhi"], 2).label == "I-LOC"
    assert any(feature.name.startswith("U61b:") for feature in model.top_features(n=5000).features)


def test_families_that_cannot_learn_from_a_lexicon_say_so() -> None:
    with pytest.raises(ModelError, match="a HMM with these settings does not learn from a lexicon"):
        HMM().fit(TRAIN, lexicon=NAMES_OF_PLACES)
    model = HMM().fit(TRAIN, lexicon=Lexicon([("Karl", "PER", "must")]))
    assert model.predict([["Karl"]]) == [["B-PER"]]
    learned = [CRF(features="ner").fit(TRAIN, lexicon=NAMES_OF_PLACES)] * 2
    with pytest.raises(ModelError, match="an ensemble does not keep"):
        Ensemble.of(learned)


def test_templates_that_look_at_a_lexicon_need_one(tmp_path) -> None:
    (tmp_path / "own.template").write_text("U00:%x[0,0]\nU01:%lexicon1[0,0]/%lexicon1[1,0]\nB\n")
    with pytest.raises(TemplateError, match=r"looks at %lexicon1, and there is a lexicon with 0 labels"):
        CRF(features=str(tmp_path / "own.template")).fit(TRAIN)
    model = CRF(features=str(tmp_path / "own.template")).fit(TRAIN, lexicon=NAMES_OF_PLACES)
    assert model.feature_names(["New", "Delhi"]) == [["U00:New", "U01:B2/E2"], ["U00:Delhi", "U01:E2/_B+1"]]
    with pytest.raises(ModelError, match="a CRF with these settings does not learn from a lexicon"):
        CRF(features="given").fit([[["a"], ["b"]]], [["X", "Y"]], lexicon=NAMES_OF_PLACES)


@pytest.fixture(scope="module")
def gsd() -> tuple[CRF, list[list[str]], set[str]]:
    """A segmenter trained on a fifth of GSD, the words of its test part, and the words of training."""
    train, test = (
        [list(one.tokens) for one in corpus.read(shared(f"ud_chinese_gsd/udc-simplified-v1.4-{part}.conll"))]
        for part in ("train", "test")
    )
    part = train[::5]
    model = CRF(features="seg", max_iterations=60).fit([corpus.sentence_from_words(words) for words in part])
    return model, test, {word for words in part for word in words}


class TestRealSegmentation:
    def test_the_word_list_of_a_text_gains_two_points_and_leaves_every_sentence_legal(self, gsd) -> None:
        model, test, known = gsd
        lexicon = Lexicon({word for words in test for word in words}, strength=1.0)
        found = []
        for own in (None, lexicon):
            tagged = model.tag([corpus.sentence_from_words(words) for words in test], lexicon=own)
            assert not any(validate_tags(one.tags, model.tagset_.scheme) for one in tagged)
            words = [corpus.words_from_sentence(one, scheme=model.tagset_.scheme) for one in tagged]
            found.append(segmentation_scores(test, words, vocabulary=known))
        assert found[1].words.f1 > found[0].words.f1 + 0.02
        assert found[1].oov_recall > found[0].oov_recall

    def test_words_of_jiebas_documentation_come_out_as_its_users_expect(self, gsd, tmp_path) -> None:
        model = gsd[0]
        (tmp_path / "userdict.txt").write_text(
            "云计算 5\n李小福 2 nr\n创新办 3 i\n好用 300\n台中 69\n", encoding="utf-8"
        )
        text = "李小福是创新办主任也是云计算方面的专家"
        plain, preferred, forced = (
            model(text, lexicon=lexicon).words
            for lexicon in (
                None,
                Lexicon.read(tmp_path / "userdict.txt"),
                Lexicon.read(tmp_path / "userdict.txt", strength="must"),
            )
        )
        assert not {"创新办", "云计算"} & set(plain)
        assert {"创新办", "云计算"} <= set(preferred)
        assert {"李小福", "创新办", "云计算"} <= set(forced)
        assert preferred[-3:] == plain[-3:] == ["方面", "的", "专家"]
        quoted = "「台中」正确应该不会被切开"
        assert "台中" in model(quoted, lexicon=Lexicon([("台中", None, "must")])).words
        apart = Lexicon(
            [("台", None, "must"), ("中", None, "must")]
        )  # what jieba's suggest_freq(("台", "中")) asks for
        assert model(quoted, lexicon=apart).words[1:3] == ["台", "中"]

    def test_no_entry_cuts_words_where_it_does_not_come_out(self, gsd) -> None:
        model, test, _ = gsd
        texts = [corpus.sentence_from_words(words).with_tags(None) for words in test[:200]]
        alone = model.predict(texts)
        across = {a[-1] + b[0] for words in test[:200] for a, b in pairwise(words)}  # never words
        posterior = model.posterior(texts, lexicon=Lexicon(across))
        fired = {one.sentence for one in posterior.lexicon_report().fired}
        same = [before == after for before, after in zip(alone, posterior.best(), strict=True)]
        assert all(same[b] for b in range(len(texts)) if b not in fired)
        assert not any(validate_tags(tags, model.tagset_.scheme) for tags in posterior.best())
