"""Which outputs of a page are compared to the last digit, and which may differ in it: those of trained models."""

import pytest
from tools import pages

SHOWN = "Bath  LOC  0.994\nloss 12.5, 1.2e-05, 3 of 18\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [("0.994", "0.996"), ("0.994", "0.992"), ("12.5", "12.4"), ("0.994", "0.9940"), ("1.2e-05", "1.4e-05")],
)
def test_decimals_may_be_two_units_of_their_last_digit_away(old: str, new: str) -> None:
    assert pages.alike(SHOWN.replace(old, new), SHOWN)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        *(("0.994", other) for other in ("0.997", "0.991", "-0.994", "1.994", "0.99")),
        *(("1.2e-05", other) for other in ("1.5e-05", "1.2e-04", "0.1")),
        *(("3 of 18", other) for other in ("4 of 18", "3 of 19", "3.0 of 18")),
        *((("LOC", "ORG"), ("  ", " "), ("\n", "\n\n"), (", 3 of 18", ""), ("18\n", "18\n0.5\n"))),
    ],
)
def test_all_else_must_be_the_same(old: str, new: str) -> None:
    assert not pages.alike(SHOWN.replace(old, new), SHOWN)


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ("model = CRF().fit(data)\nprint(model.f1)", {"model"}),
        ("learner.fit(data)", {"learner"}),
        ("optimizer = SGD(model.parameters())", {"optimizer", "model"}),
        ("model = trellis.load('folder')", {"model"}),
        ("chain = MarkovChain.fit(data)", {"chain"}),
        ("def learn():\n    model.fit(data)", {"learn", "model"}),
        ("for row in tagger.tag(data):\n    print(row)", {"row"}),
        ("print(tagger.marginals(data))", set()),
    ],
)
def test_a_block_that_trains_or_uses_what_was_trained_is_found(block: str, expected: set[str]) -> None:
    trained = {"tagger"}
    assert pages.uses_training(pages.Snippet("python", None, block, 1), trained)
    assert trained == expected | {"tagger"}


@pytest.mark.parametrize("block", ["x = CRF(5)\nprint(x.nll(scores))", "loss.backward()", "tagger = 3"])
def test_other_blocks_are_exact(block: str) -> None:
    trained = {"model"}
    assert not pages.uses_training(pages.Snippet("python", None, block, 1), trained)
    assert trained == {"model"}
