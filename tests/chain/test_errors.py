"""Every refusal: its class, and a message that says what, where, what was expected and what came."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from trellis import chain
from trellis.chain import torch as chain_torch
from trellis.errors import ChainError, NonFiniteError, NoPathError, ShapeError, TagRangeError, TrellisError

NAN, INF = float("nan"), float("inf")
ADD_UP = "lengths must add up to the number of tokens N = 5"


def arrays(**changes: Any) -> dict[str, Any]:
    """Two sequences of 3 and 2 tokens and 2 labels."""
    parts: dict[str, Any] = {
        "emissions": np.zeros((5, 2)),
        "lengths": [3, 2],
        "transitions": np.zeros((2, 2)),
        "start": np.zeros(2),
        "end": np.zeros(2),
    }
    return parts | changes


def with_edges(**changes: Any) -> dict[str, Any]:
    """The same with edges: two pairs of the first sequence, one of the second."""
    return arrays(edges=np.zeros((3, 2, 2))) | changes


def with_value(name: str, place: tuple[int, ...], value: float) -> dict[str, Any]:
    parts = arrays()
    parts[name][place] = value
    return parts


class Side:
    """One way to make scores and call operations: NumPy, torch on the native kernels, torch by `scan`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name

    def scores(self, parts: dict[str, Any]) -> Any:
        if self.name == "numpy":
            return chain.ChainScores(**parts)
        tensors = {k: torch.as_tensor(v) if isinstance(v, np.ndarray) else v for k, v in parts.items()}
        return chain_torch.ChainScores(**tensors, backend="scan" if self.name == "scan" else "auto")

    def call(self, operation: str, scores: Any, *args: Any, **options: Any) -> Any:
        return getattr(scores, operation)(
            *(self.value(x) for x in args), **{k: self.value(v) for k, v in options.items()}
        )

    def value(self, x: Any) -> Any:
        return torch.as_tensor(x) if self.name != "numpy" and isinstance(x, np.ndarray) else x


@pytest.fixture(params=["numpy", "native", "scan"])
def side(request: pytest.FixtureRequest) -> Side:
    return Side(request.param)


# Every operation, as `operation(side, scores)`.
TAGS = np.zeros(5, np.int64)
OPERATIONS: dict[str, Callable[[Side, Any], Any]] = {
    "log_partition": lambda side, scores: side.call("log_partition", scores),
    "viterbi": lambda side, scores: side.call("viterbi", scores),
    "kbest": lambda side, scores: side.call("kbest", scores, 2),
    "marginals": lambda side, scores: side.call("marginals", scores),
    "pairwise": lambda side, scores: side.call("marginals", scores, pairwise=True),
    "sample": lambda side, scores: side.call("sample", scores, 2),
    "entropy": lambda side, scores: side.call("entropy", scores),
    "span_log_prob": lambda side, scores: side.call(
        "span_log_prob", scores, np.array([[0, 0, 1], [1, 0, 1]]), np.array([0, 0])
    ),
    "score": lambda side, scores: side.call("score", scores, TAGS),
    "nll": lambda side, scores: side.call("nll", scores, TAGS),
    "weighted_nll": lambda side, scores: side.call("nll", scores, TAGS, weights=np.ones(5)),
}
INFERENCES = [name for name in OPERATIONS if name not in ("score", "nll", "weighted_nll")]


def refuses(error: type[ChainError], message: str, call: Callable[[], Any]) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == message
    assert type(caught.value) is error
    assert isinstance(caught.value, TrellisError | ValueError)


class TestScores:
    @pytest.mark.parametrize(
        ("name", "value", "given"),
        [
            ("transitions", np.zeros((3, 3)), "transitions must be (L, L) = (2, 2) to match emissions {}, got (3, 3)"),
            ("transitions", np.zeros(2), "transitions must be (L, L) = (2, 2) to match emissions {}, got (2,)"),
            ("start", np.zeros(3), "start must be (L,) = (2,) to match emissions {}, got (3,)"),
            ("end", np.zeros((2, 1)), "end must be (L,) = (2,) to match emissions {}, got (2, 1)"),
        ],
    )
    def test_shapes_that_do_not_fit_give_both(self, side: Side, name: str, value: np.ndarray, given: str) -> None:
        emissions = "(N, L) = (5, 2)" if side.name == "numpy" else "(5, 2)"
        refuses(ShapeError, given.format(emissions), lambda: side.scores(arrays(**{name: value})))

    @pytest.mark.parametrize("shape", [(5,), (5, 0), (5, 2, 1)])
    def test_emissions_that_are_no_table(self, side: Side, shape: tuple[int, ...]) -> None:
        message = f"emissions must be (N, L) with L >= 1, got {shape}"
        refuses(ShapeError, message, lambda: side.scores(arrays(emissions=np.zeros(shape))))

    @pytest.mark.parametrize(
        ("lengths", "message"),
        [
            ([3, 3], "lengths must add up to the number of tokens N = 5, got 6 from 2 sequences"),
            ([], "lengths must add up to the number of tokens N = 5, got 0 from 0 sequences"),
            ([6, -1], "lengths must be >= 0, got -1 for sequence 1"),
            ([2.5, 2.5], "lengths must be integers (B,), got float64 of shape (2,)"),
            ([[3, 2]], "lengths must be integers (B,), got int64 of shape (1, 2)"),
            (np.array([2**62] * 3 + [2**62 + 5]), f"{ADD_UP}, got {2**64 + 5} from 4 sequences"),
            (np.array([2**64 - 1, 6], np.uint64), f"{ADD_UP}, got {2**64 + 5} from 2 sequences"),
            (np.array([2**63 + 5, 2**63], np.uint64), f"{ADD_UP}, got {2**64 + 5} from 2 sequences"),
        ],
    )
    def test_lengths(self, side: Side, lengths: list[Any], message: str) -> None:
        refuses(ShapeError, message, lambda: side.scores(arrays(lengths=lengths)))

    @pytest.mark.parametrize("shape", [(2, 2, 2), (4, 2, 2), (3, 2), (3, 3, 3), (0,)])
    def test_edges_of_another_shape(self, side: Side, shape: tuple[int, ...]) -> None:
        emissions = "(N, L) = (5, 2)" if side.name == "numpy" else "(5, 2)"
        message = f"edges must be (P, L, L) = (3, 2, 2) to match emissions {emissions}, got {shape}"
        refuses(ShapeError, message, lambda: side.scores(arrays(edges=np.zeros(shape))))

    def test_what_is_no_number(self) -> None:
        message = "scores must be numbers, got an array of <U1"
        refuses(ShapeError, message, lambda: chain.ChainScores([["a", "b"]], [1], np.zeros((2, 2))))

    def test_allowed_of_another_shape_or_type(self, side: Side) -> None:
        scores = side.scores(arrays())
        where = "(N, L) = (5, 2)" if side.name == "numpy" else "(5, 2)"
        kind = "" if side.name == "numpy" else "torch."
        for mask, got in ((np.ones((4, 2), bool), f"{kind}bool (4, 2)"), (np.ones((5, 2)), f"{kind}float64 (5, 2)")):
            message = f"allowed must be bool {where} to match emissions, got {got}"
            for name in ("log_partition", "viterbi", "marginals", "sample", "entropy"):
                refuses(ShapeError, message, lambda name=name, mask=mask: side.call(name, scores, allowed=mask))


@pytest.mark.parametrize("name", OPERATIONS)
class TestNonFinite:
    @pytest.mark.parametrize(
        ("place", "value", "where"),
        [
            ((4, 0), NAN, "sequence 1, position 1, label 0"),
            ((4, 0), INF, "sequence 1, position 1, label 0"),
            ((2, 1), NAN, "sequence 0, position 2, label 1"),  # off the given path
        ],
    )
    def test_emission_is_named_by_sequence_position_and_label(
        self, side: Side, name: str, place: tuple[int, int], value: float, where: str
    ) -> None:
        scores = side.scores(with_value("emissions", place, value))
        message = f"emissions of {where} are {value}: scores must be finite or minus infinity"
        refuses(NonFiniteError, message, lambda: OPERATIONS[name](side, scores))

    @pytest.mark.parametrize(
        ("place", "where"),
        [
            ((0, 0, 0), "sequence 0, position 1, from label 0 to label 0"),
            ((1, 1, 0), "sequence 0, position 2, from label 1 to label 0"),
            ((2, 0, 1), "sequence 1, position 1, from label 0 to label 1"),
        ],
    )
    @pytest.mark.parametrize("value", [NAN, INF])
    @pytest.mark.parametrize("forbidden", [False, True])
    def test_edge_is_named_by_sequence_position_and_labels(
        self, side: Side, name: str, place: tuple[int, int, int], where: str, value: float, forbidden: bool
    ) -> None:
        """On a transition that is forbidden anyway, too."""
        parts = with_edges()
        parts["edges"][place] = value
        if forbidden:
            parts["transitions"][place[1:]] = -INF
        message = f"edges of {where} are {value}: scores must be finite or minus infinity"
        refuses(NonFiniteError, message, lambda: OPERATIONS[name](side, side.scores(parts)))

    @pytest.mark.parametrize(
        ("part", "place", "where"),
        [
            ("transitions", (0, 0), "transitions[0, 0]"),
            ("transitions", (1, 0), "transitions[1, 0]"),
            ("start", (0,), "start[0]"),
            ("start", (1,), "start[1]"),
            ("end", (0,), "end[0]"),
            ("end", (1,), "end[1]"),
        ],
    )
    @pytest.mark.parametrize("value", [NAN, INF])
    def test_chain_score_is_named_by_place(
        self, side: Side, name: str, part: str, place: tuple[int, ...], where: str, value: float
    ) -> None:
        scores = side.scores(with_value(part, place, value))
        message = f"{where} is {value}: scores must be finite or minus infinity"
        refuses(NonFiniteError, message, lambda: OPERATIONS[name](side, scores))


@pytest.mark.parametrize("name", INFERENCES)
class TestNoPath:
    @pytest.mark.parametrize(
        ("changes", "places", "message"),
        [
            ({}, {"emissions": [4]}, "1 of length 2 has no valid path: no label can be reached at position 1"),
            (
                {"transitions": np.array([[0.0, -INF], [0.0, 0.0]]), "start": np.array([0.0, -INF])},
                {"emissions": [(2, 0)]},
                "0 of length 3 has no valid path: no label can be reached at position 2",
            ),
            ({}, {"edges": [1]}, "0 of length 3 has no valid path: no label can be reached at position 2"),
            (
                {"transitions": np.array([[0.0, -INF], [0.0, -INF]])},
                {"edges": [(2, 0, 0), (2, 1, 0)]},
                "1 of length 2 has no valid path: no label can be reached at position 1",
            ),
            ({"start": np.full(2, -INF)}, {}, "0 of length 3 has no valid path: no label can be reached at position 0"),
            (
                {"end": np.full(2, -INF)},
                {},
                "0 of length 3 has no valid path: every label it can reach at its last position is forbidden to end "
                "with",
            ),
        ],
        ids=["emissions", "transitions and emissions", "edges", "transitions and edges", "start", "end"],
    )
    def test_position_where_no_label_can_be_reached(
        self, side: Side, name: str, changes: dict[str, Any], places: dict[str, list[Any]], message: str
    ) -> None:
        parts = with_edges(**changes) if "edges" in places else arrays(**changes)
        for part, indices in places.items():
            for index in indices:
                parts[part][index] = -INF
        refuses(NoPathError, f"sequence {message}", lambda: OPERATIONS[name](side, side.scores(parts)))


LOSSES = [(Side(side), name) for side in ("numpy", "native", "scan") for name in ("nll", "weighted_nll")]
LOSS_CALLS: dict[str, tuple[str, dict[str, Any]]] = {"weighted_nll": ("nll", {"weights": np.ones(5)})}


class TestTags:
    @pytest.mark.parametrize(("side", "name"), [*LOSSES, *((side, "score") for side, _ in LOSSES[::2])], ids=str)
    @pytest.mark.parametrize("tag", [2, -1, 2**40])
    def test_out_of_range(self, side: Side, name: str, tag: int) -> None:
        tags = np.array([0, 1, 0, 1, tag])
        name, weights = LOSS_CALLS.get(name, (name, {}))
        message = f"tags of sequence 1, position 1 are {tag}: must be in 0..1 (L = 2)"
        scores = side.scores(arrays())
        refuses(TagRangeError, message, lambda: side.call(name, scores, tags, **weights))

    @pytest.mark.parametrize(("tags", "got"), [(np.zeros(4, np.int64), "int64 (4,)"), (np.zeros(5), "float64 (5,)")])
    def test_shape_and_type(self, side: Side, tags: np.ndarray, got: str) -> None:
        shapes = ("(N,) = (5,)", "(N, L) = (5, 2)", "") if side.name == "numpy" else ("(5,)", "(5, 2)", "torch.")
        message = f"tags must be integers {shapes[0]} to match emissions {shapes[1]}, got {shapes[2]}{got}"
        scores = side.scores(arrays())
        refuses(ShapeError, message, lambda: side.call("score", scores, tags))
        refuses(ShapeError, message, lambda: side.call("nll", scores, tags, weights=np.ones(5)))

    @pytest.mark.parametrize(
        ("part", "place", "reason"),
        [
            ("start", (1,), "it may not start with tag 1 (position 0)"),
            ("end", (0,), "it may not end with tag 0 (position 1)"),
            ("emissions", (4, 0), "tag 0 has emission score -inf at position 1"),
            ("transitions", (1, 0), "the transition from tag 1 to tag 0 has score -inf (position 1)"),
            ("edges", (2, 1, 0), "the transition from tag 1 to tag 0 has score -inf (position 1)"),
        ],
    )
    @pytest.mark.parametrize(("side", "name"), LOSSES, ids=str)
    def test_forbidden_gold_path_has_no_likelihood(
        self, side: Side, name: str, part: str, place: tuple[int, ...], reason: str
    ) -> None:
        parts = with_edges() if part == "edges" else arrays()
        parts[part][place] = -INF
        scores = side.scores(parts)
        tags = np.array([0, 0, 1, 1, 0])
        name, weights = LOSS_CALLS.get(name, (name, {}))
        message = f"tags of sequence 1 are forbidden, so their likelihood is zero: {reason}"
        refuses(NoPathError, message, lambda: side.call(name, scores, tags, **weights))

    def test_score_of_a_forbidden_path_is_minus_infinity_and_no_error(self, side: Side) -> None:
        scores = side.scores(with_value("transitions", (1, 0), -INF))
        assert side.call("score", scores, np.array([0, 0, 1, 1, 0])).tolist() == [0.0, -INF]


class TestOptions:
    @pytest.mark.parametrize("value", [0, -3, True, 2.5, "2"])
    def test_counts(self, side: Side, value: Any) -> None:
        scores = side.scores(arrays())
        for operation, name in (("kbest", "k"), ("sample", "n")):
            message = f"{name} must be an integer >= 1, got {value!r}"
            refuses(ChainError, message, lambda operation=operation: side.call(operation, scores, value))

    @pytest.mark.parametrize("value", [2**63, 2**64, 10**5000], ids=["2**63", "2**64", "10**5000"])
    def test_counts_beyond_memory(self, side: Side, value: int) -> None:
        """The sequences have 2 ** 3 + 2 ** 2 paths, so that all of them are few; samples are as many as asked for."""
        scores = side.scores(arrays())
        assert [len(paths) for paths in side.call("kbest", scores, value).tags] == [8, 4]
        with pytest.raises(
            ChainError, match=r"^n = .* samples of 5 tokens are more than one answer may hold, which is"
        ):
            side.call("sample", scores, value)

    def test_paths_beyond_memory(self, side: Side) -> None:
        scores = side.scores(arrays(emissions=np.zeros((100, 2)), lengths=[60, 40]))
        message = (
            "k = 2000000 best paths of 100 tokens are more than one answer may hold, which is 134217728 tags: "
            "ask for fewer, or for fewer sequences at a time"
        )
        refuses(ChainError, message, lambda: side.call("kbest", scores, 2_000_000))

    def test_losses_are_of_tags_or_of_allowed_labels(self, side: Side) -> None:
        scores, allowed = side.scores(arrays()), np.ones((5, 2), bool)
        message = "give either tags or allowed, got neither"
        refuses(ChainError, message, lambda: side.call("nll", scores))
        message = "give either tags or allowed, got both"
        refuses(ChainError, message, lambda: side.call("nll", scores, TAGS, allowed=allowed))
        message = "weights belong to tags: give tags, not allowed"
        refuses(ChainError, message, lambda: side.call("nll", scores, allowed=allowed, weights=np.ones(5)))

    def test_weights_of_another_shape(self, side: Side) -> None:
        scores = side.scores(arrays())
        with pytest.raises(ShapeError, match=r"^weights must be .*\(5,\).*, got \(4,\)$"):
            side.call("nll", scores, TAGS, weights=np.ones(4))

    @pytest.mark.parametrize("bad", [-1.0, NAN, np.inf])
    def test_weights_below_zero_or_not_finite(self, side: Side, bad: float) -> None:
        scores = side.scores(arrays())
        weights = np.array([1, 1, bad, 1, 1.0])
        with pytest.raises(ChainError, match=f"^weights must be finite numbers >= 0, got {bad}$"):
            side.call("nll", scores, TAGS, weights=weights)


@pytest.mark.parametrize("value", [[[1, 2], [3]], "text", [["a", "b"]], [[None, 1]], [[{}, 1]]])
def test_what_is_no_array_of_numbers_is_named(value):
    zeros = np.zeros((2, 2))
    with pytest.raises(ShapeError, match=r"numbers|must be"):
        chain.ChainScores(value, [2], zeros)
    with pytest.raises(ShapeError, match=r"numbers|must be"):
        chain.ChainScores(zeros, [2], value)
    with pytest.raises(ShapeError, match=r"numbers|must be"):
        chain.ChainScores(zeros, value, zeros)
    scores = chain.ChainScores(zeros, [2], zeros)
    for ask in (scores.score, scores.nll, lambda x: scores.span_log_prob(x, [[0]])):
        with pytest.raises(ShapeError, match=r"numbers|must be"):
            ask(value)


class TestSpans:
    @pytest.mark.parametrize(
        ("spans", "message"),
        [
            ([[2, 0, 1]], "span 0 names sequence 2, but there are 2"),
            ([[0, 0, 1], [-1, 0, 1]], "span 1 names sequence -1, but there are 2"),
            ([[1, 0, 3]], "span 0 is 0..3 of sequence 1: must be 0 <= begin < end <= its length 2"),
            ([[0, 1, 1]], "span 0 is 1..1 of sequence 0: must be 0 <= begin < end <= its length 3"),
            ([[0, -1, 1]], "span 0 is -1..1 of sequence 0: must be 0 <= begin < end <= its length 3"),
            ([[0, 1]], "spans must be integers (S, 3) = (sequence, begin, end), got int64 (1, 2)"),
            ([[0.0, 0.0, 1.0]], "spans must be integers (S, 3) = (sequence, begin, end), got float64 (1, 3)"),
        ],
    )
    def test_places(self, side: Side, spans: list[Any], message: str) -> None:
        scores = side.scores(arrays())
        refuses(ShapeError, message, lambda: side.call("span_log_prob", scores, spans, [[0]] * len(spans)))

    def test_tags(self, side: Side) -> None:
        scores, spans = side.scores(arrays()), [[0, 0, 2], [1, 1, 2]]
        call = lambda tags: side.call("span_log_prob", scores, spans, tags)  # noqa: E731
        message = "tags must have one label per position of each span, got lengths [1, 1]"
        refuses(ShapeError, message, lambda: call([[0], [0]]))
        message = "tags must hold 3 labels, the sum of the spans' lengths, got (2,)"
        refuses(ShapeError, message, lambda: call(np.array([0, 0])))
        refuses(TagRangeError, "tags[1] is 2: must be in 0..1 (L = 2)", lambda: call([[0, 2], [0]]))
        refuses(TagRangeError, "tags[2] is -1: must be in 0..1 (L = 2)", lambda: call([[0, 1], [-1]]))

    @pytest.mark.parametrize("name", ["before", "after"])
    def test_neighbours(self, side: Side, name: str) -> None:
        scores = side.scores(arrays())
        for mask in (np.ones(3, bool), np.ones((2, 2), bool), np.ones(2)):
            message = f"{name} must be bool (S, L) = (1, 2) or (L,) = (2,), got {mask.dtype} {mask.shape}"
            options = {name: mask}
            refuses(
                ShapeError,
                message,
                lambda options=options: side.call("span_log_prob", scores, [[0, 0, 1]], [[0]], **options),
            )


class TestPadded:
    def test_shapes(self) -> None:
        emissions, square = torch.zeros(2, 3, 2), torch.zeros(2, 2)
        make: Callable[..., Any] = chain_torch.ChainScores.padded
        mask = torch.ones(3, 2, dtype=torch.bool)
        message = "mask must be (2, 3) to match emissions (2, 3, 2), got (3, 2)"
        refuses(ShapeError, message, lambda: make(emissions, mask, square))
        message = "tags must be (2, 3) to match emissions (2, 3, 2), got (2,)"
        refuses(ShapeError, message, lambda: make(emissions, None, square, tags=torch.zeros(2, dtype=torch.int64)))
        message = "edges must be (B, T - 1, L, L) = (2, 2, 2, 2) to match emissions (2, 3, 2), got (2, 3, 2, 2)"
        refuses(ShapeError, message, lambda: make(emissions, None, square, edges=torch.zeros(2, 3, 2, 2)))
        message = "edges must be (T - 1, B, L, L) = (1, 3, 2, 2) to match emissions (2, 3, 2), got (2, 2, 2, 2)"
        edges = torch.zeros(2, 2, 2, 2)
        refuses(ShapeError, message, lambda: make(emissions, None, square, edges=edges, batch_first=False))
        message = "emissions must be (B, T, L) with L >= 1, got (2, 3)"
        refuses(ShapeError, message, lambda: make(emissions[..., 0], None, square))

    @pytest.mark.parametrize("backend", ["auto", "scan"])
    @pytest.mark.parametrize("batch_first", [True, False])
    def test_positions_count_tokens_and_not_padding(self, backend: Any, batch_first: bool) -> None:
        """Sequence 1 has its tokens at places 1 and 3 of its row; the second is bad."""
        mask = torch.tensor([[True, True, True, True], [False, True, False, True]])
        emissions = torch.zeros(2, 4, 2)
        emissions[1, 3, 1] = NAN

        def make(e: Tensor, edges: Tensor | None = None) -> chain_torch.ChainScores:
            if edges is not None and not batch_first:
                edges = edges.transpose(0, 1)
            own, places = (e, mask) if batch_first else (e.transpose(0, 1), mask.T)
            return chain_torch.ChainScores.padded(
                own, places, torch.zeros(2, 2), edges=edges, batch_first=batch_first, backend=backend
            )

        message = "emissions of sequence 1, position 1, label 1 are nan: scores must be finite or minus infinity"
        refuses(NonFiniteError, message, lambda: make(emissions).log_partition())
        edges = torch.zeros(2, 3, 2, 2)
        edges[1, 0] = edges[1, 1] = NAN  # into its first token, and into a hole: nobody looks
        make(torch.zeros(2, 4, 2), edges).log_partition()
        edges[1, 2, 0, 1] = INF
        message = (
            "edges of sequence 1, position 1, from label 0 to label 1 are inf: scores must be finite or minus infinity"
        )
        refuses(NonFiniteError, message, lambda: make(torch.zeros(2, 4, 2), edges).log_partition())
        message = "sequence 1 of length 2 has no valid path: no label can be reached at position 1"
        forbidden = torch.where(torch.arange(4)[:, None] == 3, -INF, 0.0).expand(4, 2)
        forbidden = torch.stack([torch.zeros(4, 2), forbidden])
        refuses(NoPathError, message, lambda: make(forbidden).log_partition())
        tags = torch.zeros(2, 4, dtype=torch.int64)
        tags[1, 3] = 7
        own_tags = tags if batch_first else tags.T
        message = "tags of sequence 1, position 1 are 7: must be in 0..1 (L = 2)"
        refuses(TagRangeError, message, lambda: make(torch.zeros(2, 4, 2)).nll(own_tags))
