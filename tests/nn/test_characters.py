"""Character features: by hand, exact under any padding and batch, and at the edges."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from trellis.errors import ConfigError, ShapeError
from trellis.nn import CharacterCNN, CharacterLSTM, characters
from trellis.nn.characters import character_filters

WORDS = [[2, 3, 4], [5], [], [6, 2, 2, 7, 3, 4, 5], [3, 2]]


def batch(words: list[list[int]], width: int | None = None) -> Tensor:
    width = max(map(len, words)) if width is None else width
    rows = [[*word, *[0] * (width - len(word))] for word in words]
    return torch.tensor(rows, dtype=torch.int64).reshape(len(words), width)


def make(kind: str, **options: object) -> nn.Module:
    torch.manual_seed(0)
    if kind == "lstm":
        return CharacterLSTM(8, 4, 6, **options).double()  # type: ignore[arg-type]
    widths = {"cnn": (3,), "even": (2,), "one": (1,), "many": (2, 3, 5, 4)}[kind]
    return CharacterCNN(8, 4, 6, widths=widths, **options).double()  # type: ignore[arg-type]


KINDS = ["cnn", "even", "one", "many", "lstm"]


@pytest.mark.parametrize("kind", KINDS)
class TestBoth:
    def test_padding_and_company_change_nothing(self, kind: str) -> None:
        module = make(kind)
        alone = torch.cat([module(batch([word])) for word in WORDS])
        for width in (7, 8, 30):
            torch.testing.assert_close(module(batch(WORDS, width)), alone, rtol=0, atol=1e-14)
        torch.testing.assert_close(module(batch(WORDS[::-1])), alone.flip(0), rtol=0, atol=1e-14)

    def test_gradients_do_not_depend_on_padding(self, kind: str) -> None:
        found = []
        for width in (7, 20):
            module = make(kind)
            module(batch(WORDS, width)).square().sum().backward()
            found.append([parameter.grad for parameter in module.parameters()])
        for narrow, wide in zip(*found, strict=True):
            torch.testing.assert_close(narrow, wide, rtol=0, atol=1e-13)
            assert narrow.isfinite().all()
            assert narrow.any()

    def test_padding_gets_no_gradient(self, kind: str) -> None:
        module = make(kind)
        module(batch(WORDS)).sum().backward()
        gradient = module.embedding.weight.grad
        assert not gradient[0].any()
        assert not gradient[1].any(), "no unknown character in the batch"
        assert gradient[2:].any(1).sum() >= 5, "all but perhaps one that is nowhere the largest"

    def test_edges(self, kind: str) -> None:
        """No characters at all, and no words: defined, and the empty word is the same everywhere."""
        module = make(kind)
        empty = module(batch(WORDS))[2]
        assert empty.isfinite().all()
        torch.testing.assert_close(
            module(torch.zeros(3, 0, dtype=torch.int64)), empty.expand(3, -1), rtol=0, atol=1e-14
        )
        assert module(torch.zeros(0, 5, dtype=torch.int64)).shape == (0, 6)

    def test_dropout_in_training_only(self, kind: str) -> None:
        module = make(kind, dropout=0.5)
        assert not torch.equal(module(batch(WORDS))[[0, 1, 3, 4]], module(batch(WORDS))[[0, 1, 3, 4]])
        module.eval()
        assert torch.equal(module(batch(WORDS)), make(kind).eval()(batch(WORDS)))


@pytest.mark.parametrize("kind", ["cnn", "even", "one", "many"])
def test_gradients_of_the_cnn_by_differences(kind: str) -> None:
    module = make(kind)
    parameters = dict(module.named_parameters())
    real = (torch.arange(8) > 0).unsqueeze(-1)  # differences would move the row of padding, which never changes

    def run(table: Tensor, *others: Tensor) -> Tensor:
        values = dict(zip(parameters, (table * real, *others), strict=True))
        found: Tensor = torch.func.functional_call(module, values, (batch(WORDS),))
        return found

    assert torch.autograd.gradcheck(run, tuple(parameters.values()))


@pytest.mark.parametrize("kind", ["cnn", "even", "one", "many"])
def test_cnn_is_conv1d_and_max(kind: str) -> None:
    module = make(kind)
    assert isinstance(module, CharacterCNN)
    expected = []
    for word in (word for word in WORDS if word):
        vectors = module.embedding(torch.tensor([word])).transpose(1, 2)  # [1, size, C]
        parts = []
        for width, filters in zip(module.widths, module.filters, strict=True):
            assert isinstance(filters, nn.Linear)
            weight = filters.weight.reshape(-1, width, 4).transpose(1, 2)
            left = (width - 1) // 2
            parts.append(F.conv1d(F.pad(vectors, (left, width - 1 - left)), weight, filters.bias).amax(2))
        expected.append(torch.cat(parts, 1).tanh())
    torch.testing.assert_close(module(batch([word for word in WORDS if word])), torch.cat(expected))


@pytest.mark.parametrize("kind", ["cnn", "even", "one", "many"])
@pytest.mark.parametrize("words", [WORDS, WORDS * 3], ids=["few", "many"])
def test_native_and_torch_give_the_same(
    kind: str, words: list[list[int]], instruction_set: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values and gradients, with fewer characters in the batch than there are in the table and with more."""
    found = []
    for native in (True, False):
        monkeypatch.setattr(characters, "has_kernels", lambda _, native=native: native)
        module = make(kind)
        values = module(batch(words))
        values.square().sum().backward()
        found.append([values.detach(), *(parameter.grad for parameter in module.parameters())])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-13)


def filters() -> tuple[Tensor, Tensor, Tensor]:
    """Vectors of eight characters, four filters of width 3, and their biases."""
    vectors, weight = torch.linspace(-1, 1, 8 * 2).reshape(8, 2), torch.linspace(2, -1, 4 * 3 * 2).reshape(4, 6)
    return vectors.requires_grad_(), weight.requires_grad_(), torch.zeros(4, requires_grad=True)


def test_unknown_ids_are_refused() -> None:
    words = torch.tensor([[2, 9], [8, 0]])
    with pytest.raises(ShapeError, match=r"ids of characters must be in 0\.\.7, got 9"):
        character_filters(*filters(), words)


@pytest.mark.parametrize("id", [1, 2**40])
def test_ids_that_change_after_the_forward_pass_change_no_gradient(id: int) -> None:
    found = []
    for changed in (False, True):
        tensors, words = filters(), torch.tensor([[2, 7, 3], [5, 0, 0]])
        values = character_filters(*tensors, words)
        if changed:
            words.numpy()[:] = id  # unseen by autograd
        values.square().sum().backward()
        found.append([x.grad for x in tensors])
    assert all(x is not None and y is not None and torch.equal(x, y) for x, y in zip(*found, strict=True))


def test_ids_of_any_integer_type_mean_the_same() -> None:
    tensors, words = filters(), torch.tensor([[2, 7, 3], [5, 0, 0]])
    assert torch.equal(character_filters(*tensors, words.int()), character_filters(*tensors, words))


def test_a_value_that_is_no_number_is_not_lost() -> None:
    vectors, weight = torch.ones(4, 2), torch.zeros(2, 2)
    vectors[2, 1] = torch.nan
    weight[1, 1] = 1.0
    values = character_filters(vectors, weight, torch.zeros(2), torch.tensor([[1, 2, 3]]))
    assert values.isnan().tolist() == [[True, True]]  # nothing times NaN is NaN, too


def test_filters_are_shared_out_among_the_widths() -> None:
    module = make("many")
    assert isinstance(module, CharacterCNN)
    assert [filters.out_features for filters in module.filters] == [2, 2, 1, 1]


def test_lstm_gives_the_last_state_of_each_direction() -> None:
    module = make("lstm")
    assert isinstance(module, CharacterLSTM)
    for word in (word for word in WORDS if word):
        states, _ = module.lstm(module.embedding(torch.tensor(word)))
        expected = torch.cat([states[-1, :3], states[0, 3:]])
        torch.testing.assert_close(module(batch([word], 9))[0], expected)


@pytest.mark.parametrize(
    ("kind", "output_size", "options", "message"),
    [
        (CharacterCNN, 6, {"widths": ()}, "widths must be one or more numbers of at least 1, got ()"),
        (CharacterCNN, 6, {"widths": (3, 0)}, "widths must be one or more numbers of at least 1, got (3, 0)"),
        (CharacterCNN, 1, {"widths": (2, 3)}, "output_size must be at least 2, one filter per width, got 1"),
        (CharacterCNN, 6, {"dropout": -1.0}, "dropout must be at least 0 and below 1, got -1.0"),
        (CharacterLSTM, 5, {}, "output_size must be even, half of it for each direction, got 5"),
        (CharacterLSTM, 0, {}, "output_size must be even, half of it for each direction, got 0"),
    ],
)
def test_what_is_refused(kind: type[nn.Module], output_size: int, options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        kind(8, 4, output_size, **options)
    assert str(caught.value) == message
