"""The transformer encoder on tiny random models: alignment, windows, freezing, batches."""

import copy
import random
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from tests.nn.tiny import LETTERS, bert, bert_encoder, roberta_encoder
from trellis.errors import ConfigError
from trellis.nn import TransformerEncoder
from trellis.nn.transformer import set_precision

Make = Callable[..., TransformerEncoder]
MAKERS = pytest.mark.parametrize("make", [bert_encoder, roberta_encoder])


pytestmark = pytest.mark.usefixtures("one_torch_thread")


def sentences_of(count: int, longest: int, seed: int = 0) -> list[list[str]]:
    rng = random.Random(seed)
    word = lambda: "".join(rng.choices(LETTERS, k=rng.randint(1, 4)))  # noqa: E731
    return [[word() for _ in range(rng.randint(0, longest))] for _ in range(count)]


def run(encoder: TransformerEncoder, sentences: list[list[str]]) -> tuple[Tensor, Tensor]:
    with torch.no_grad():
        features, mask = encoder(encoder.batch(encoder.encode(sentences)))
    return features, mask


@MAKERS
def test_features_are_the_means_of_the_model_s_own_states(make: Make) -> None:
    """One sentence, straight through the model with special tokens written by hand, and a loop over words."""
    encoder = make()
    words = ["ab", "c", "the", "xyz"]
    subwords = encoder.encode([words])
    ids = [*encoder.tokenizer.prefix, *subwords.ids, *encoder.tokenizer.suffix]
    with torch.no_grad():
        states = encoder.model(input_ids=torch.tensor([ids])).last_hidden_state[0, 1:-1]
    expected = torch.stack([states[torch.from_numpy(subwords.words) == word].mean(0) for word in range(4)])
    features, mask = run(encoder, [words])
    assert mask.tolist() == [[True] * 4]
    torch.testing.assert_close(features[0], expected)


@MAKERS
def test_batch_order_and_composition_do_not_matter(make: Make) -> None:
    encoder = make()
    sentences = [*sentences_of(9, 12), [], ["\x00"], ["the"] * 40]
    features, mask = run(encoder, sentences)
    assert mask.sum(1).tolist() == [len(words) for words in sentences]
    order = list(reversed(range(len(sentences))))
    subwords = encoder.encode(sentences)
    with torch.no_grad():
        backwards, _ = encoder(encoder.batch(subwords, order))
    torch.testing.assert_close(backwards.flip(0), features, atol=1e-5, rtol=1e-5)
    for b, words in enumerate(sentences):
        alone, _ = run(encoder, [words])
        torch.testing.assert_close(alone[0], features[b, : len(words)], atol=1e-5, rtol=1e-5)


def test_every_word_of_a_long_sentence_has_its_feature_from_the_window_with_most_context() -> None:
    """5,000 words in windows of 30 subwords: a slow oracle picks the window of each subword and runs it alone."""
    encoder = bert_encoder(32, overlap=13)
    rng = random.Random(0)
    words = [rng.choice(["the", "b", "xy", "qing"]) for _ in range(5000)]
    features, mask = run(encoder, [words])
    assert features.shape == (1, 5000, 16)
    assert mask.all()
    subwords = encoder.encode([words])
    ids, n, W, stride = subwords.ids.tolist(), len(subwords.ids), 30, 17
    starts = sorted({min(start, n - W) for start in range(0, n, stride)})
    assert torch.unique(features[0], dim=0).shape[0] > 4000  # not one vector for all
    for word in (0, 1, 14, 15, 16, 2499, 2500, 2501, 4976, 4990, 4999):
        places = [p for p in range(n) if subwords.words[p] == word]
        states = []
        for p in places:
            start = max((s for s in starts if s <= p < s + W), key=lambda s: (min(p - s, s + W - 1 - p), -s))
            with torch.no_grad():
                window = torch.tensor([[2, *ids[start : start + W], 3]])
                states.append(encoder.model(input_ids=window).last_hidden_state[0, 1 + p - start])
        torch.testing.assert_close(features[0, word], torch.stack(states).mean(0), atol=1e-5, rtol=1e-5)


@MAKERS
def test_stitching_equals_the_plain_run_when_it_fits(make: Make) -> None:
    """A window that takes the sentence whole gives what a larger one gives; the next word brings a second window."""
    encoder = make(34) if make is roberta_encoder else make(32)
    assert encoder.window == 30
    subwords = encoder.encode([["b"] * 15])
    each = len(subwords.ids) // 15
    fits = ["b"] * (30 // each)
    larger = make(514)
    with torch.no_grad():  # the same weights, the longer table of positions apart
        state = larger.model.state_dict()
        state |= {k: v for k, v in encoder.model.state_dict().items() if v.shape == state[k].shape}
        key = "embeddings.position_embeddings.weight"
        state[key][: len(encoder.model.state_dict()[key])] = encoder.model.state_dict()[key]
        larger.model.load_state_dict(state)
    assert len(encoder.batch(encoder.encode([fits]))["ids"]) == 1
    assert len(encoder.batch(encoder.encode([[*fits, "b"]]))["ids"]) == 2
    torch.testing.assert_close(run(encoder, [fits])[0], run(larger, [fits])[0])


def test_positions_of_roberta_begin_after_the_padding() -> None:
    """The longest window uses the last row of the table; one more would be out of range."""
    encoder = roberta_encoder(34)
    assert encoder.window + 2 == 32
    run(encoder, [["x"] * 50])
    with pytest.raises(ConfigError, match="window must be at most 32, the positions of the encoder, got 33"):
        roberta_encoder(34, window=33)


def test_a_word_longer_than_the_window_is_whole() -> None:
    encoder = roberta_encoder(34)
    features, mask = run(encoder, [["é" * 200, "tail"], ["b"]])
    assert mask.tolist() == [[True, True], [True, False]]
    assert features[0].isfinite().all()
    batch = encoder.batch(encoder.encode([["é" * 200, "tail"]]))
    owned = int((batch["word_ids"] == 0).sum())
    assert owned == 401  # a space and two bytes a letter
    shorter, _ = run(encoder, [["é" * 199, "tail"]])
    assert not torch.allclose(features[0, 0], shorter[0, 0])


def test_words_that_vanish_get_the_learned_vector() -> None:
    encoder = bert_encoder()
    features, mask = run(encoder, [["the", "\x00", "b"], ["\x01", "\x02"], []])
    assert mask.sum(1).tolist() == [3, 2, 0]
    absent = encoder.pooling.absent.detach()
    assert torch.equal(features[0, 1], absent)
    assert torch.equal(features[1, :2], absent.expand(2, -1))
    torch.testing.assert_close(features[0, [0, 2]], run(encoder, [["the", "b"]])[0][0])
    assert torch.equal(run(encoder, [["\x01"]])[0][0, 0], absent)


def test_nothing_at_all() -> None:
    encoder = bert_encoder()
    for sentences, shape in (([], (0, 0, 16)), ([[]], (1, 0, 16)), ([[], []], (2, 0, 16))):
        features, mask = run(encoder, sentences)
        assert features.shape == shape
        assert mask.shape == shape[:2]


@pytest.mark.parametrize(("mix", "layers"), [(True, [0, 1, 2]), ([-1, 1], [2, 1]), ([0], [0])])
def test_layers_that_are_mixed(mix: bool | list[int], layers: list[int]) -> None:
    encoder = bert_encoder(mix_layers=mix)
    torch.nn.init.normal_(encoder.pooling.weights)
    batch = encoder.batch(encoder.encode([["the", "b", "the"]]))
    with torch.no_grad():
        output = encoder.model(batch["ids"], batch["attention"], output_hidden_states=True).hidden_states
        shares = encoder.pooling.weights.softmax(0)
        expected = sum(share * output[layer][:, 1:-1] for share, layer in zip(shares, layers, strict=True))
        torch.testing.assert_close(encoder(batch)[0], expected)


def trained(encoder: TransformerEncoder) -> set[str]:
    """The parameters that one backward pass reaches."""
    features, mask = encoder(encoder.batch(encoder.encode([["ab", "\x00", "the"]])))
    features[mask].square().sum().backward()
    return {name for name, parameter in encoder.named_parameters() if parameter.grad is not None}


def test_freezing() -> None:
    everything = trained(bert_encoder())
    assert everything == {name for name, _ in bert_encoder().named_parameters()}
    embeddings = {name for name in everything if name.startswith("model.embeddings.")}
    first = {name for name in everything if name.startswith("model.encoder.layer.0.")}
    own = {name for name in everything if name.startswith("pooling.")}
    assert len(embeddings) == 5
    assert len(first) == 16
    assert trained(bert_encoder(freeze="embeddings")) == everything - embeddings
    assert trained(bert_encoder(freeze=0)) == everything - embeddings
    assert trained(bert_encoder(freeze=1)) == everything - embeddings - first
    assert trained(bert_encoder(freeze="all")) == own == {"pooling.absent"}
    assert trained(bert_encoder(freeze="all", mix_layers=True)) == own | {"pooling.weights", "pooling.scale"}


def test_only_a_frozen_encoder_never_drops_out() -> None:
    sentences = [["ab", "the", "c"]]
    for freeze, same in (("all", True), ("nothing", False), (1, False)):
        encoder = bert_encoder(freeze=freeze).train()
        assert torch.equal(run(encoder, sentences)[0], run(encoder, sentences)[0]) is same
        encoder.eval()
        assert torch.equal(run(encoder, sentences)[0], run(encoder, sentences)[0])
    assert not TransformerEncoder(bert(), bert_encoder().tokenizer, freeze="all").model.training


def test_checkpointing_changes_memory_and_not_gradients() -> None:
    gradients = []
    for checkpointing in (False, True):
        encoder = bert_encoder(checkpointing=checkpointing)
        with warnings.catch_warnings():  # newer versions of transformers have another name for it
            warnings.simplefilter("ignore", FutureWarning)
            assert encoder.model.is_gradient_checkpointing is checkpointing
        for module in encoder.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        encoder.train()
        trained(encoder)
        gradients.append([p.grad for p in encoder.parameters()])
    for plain, twice in zip(*gradients, strict=True):
        torch.testing.assert_close(plain, twice)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mix_layers": [3]}, r"mix_layers must be true, false or some of -3\.\.2, .* got \[3\]"),
        ({"mix_layers": []}, "mix_layers must be"),
        ({"freeze": 3}, r"freeze must be in 0\.\.2, the layers of the encoder, got 3"),
        ({"freeze": "some"}, "freeze must be 'nothing', 'embeddings', 'all' or a number of layers, got 'some'"),
        ({"window": 2}, "window must hold at least one subword, got 0"),
        ({"window": 10, "overlap": 8}, r"overlap must be in 0\.\.7 for a window of 8 subwords, got 8"),
        ({"pooling": "middle"}, "pooling must be one of mean, first, last, max"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        bert_encoder(**options)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4, bias=False))


def test_products_are_those_of_rounded_numbers_and_everything_else_is_exact():
    module, x = network(), torch.randn(5, 8)
    first, norm, activation, last = module
    set_precision(module, "bfloat16")
    inner = activation(norm((x.bfloat16() @ first.weight.bfloat16().t() + first.bias.bfloat16()).float()))
    expected = (inner.bfloat16() @ last.weight.bfloat16().t()).float()
    found = module(x)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, atol=0.02, rtol=0.02)
    assert not torch.equal(found, network()(x))


def test_weights_stay_in_single_precision_and_the_way_back_is_exact():
    module, x = network(), torch.randn(5, 8)
    before, state = module(x), copy.deepcopy(module.state_dict())
    set_precision(module, "bfloat16")
    assert not torch.equal(module(x), before)
    assert all(torch.equal(value, state[name]) for name, value in module.state_dict().items())
    set_precision(module, "float32")
    assert torch.equal(module(x), before)


def test_a_copy_computes_the_same():
    module, x = network(), torch.randn(5, 8)
    set_precision(module, "bfloat16")
    assert torch.equal(copy.deepcopy(module)(x), module(x))
