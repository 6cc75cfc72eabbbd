"""Averages against a loop, and the module as it was after a look at them."""

from contextlib import suppress

import torch

from tests.training.neural.toys import Linear
from trellis.training.neural.averaging import Average
from trellis.training.neural.settings import TrainingSettings


def walk(average, module, steps, epoch):
    """Random steps, and the weights after each."""
    seen = []
    for _ in range(steps):
        with torch.no_grad():
            for p in module.parameters():
                p += torch.randn_like(p)
        average.step(epoch)
        seen.append(module.weight.detach().clone())
    return seen


def test_the_plain_mean():
    module = Linear().module
    average = Average(module, TrainingSettings(averaging="swa", averaging_start=2))
    walk(average, module, 3, epoch=0)
    assert average.state() == {}
    seen = walk(average, module, 5, epoch=1) + walk(average, module, 4, epoch=2)
    torch.testing.assert_close(average.state()["weight"], torch.stack(seen).mean(0), rtol=1e-12, atol=1e-12)


def test_the_moving_average():
    module = Linear().module
    average = Average(module, TrainingSettings(averaging="ema", ema_decay=0.5))
    seen = walk(average, module, 20, epoch=0)
    expected = seen[0]
    for n, weights in enumerate(seen[1:], start=1):
        decay = min(0.5, (n + 1) / (n + 10))
        expected = decay * expected + (1 - decay) * weights
    torch.testing.assert_close(average.state()["weight"], expected, rtol=1e-12, atol=1e-12)


def test_it_takes_the_place_of_the_weights_only_for_a_while():
    module = Linear().module
    average = Average(module, TrainingSettings(averaging="swa"))
    last = walk(average, module, 3, epoch=0)[-1]
    with average.in_place():
        assert torch.equal(module.weight, average.state()["weight"])
        assert not torch.equal(module.weight, last)
    assert torch.equal(module.weight, last)


def test_whatever_happens_in_the_while():
    module = Linear().module
    average = Average(module, TrainingSettings(averaging="swa"))
    last = walk(average, module, 3, epoch=0)[-1]
    with suppress(KeyError), average.in_place():
        raise KeyError
    assert torch.equal(module.weight, last)


def test_none_leaves_the_weights_alone():
    module = Linear().module
    average = Average(module, TrainingSettings())
    last = walk(average, module, 3, epoch=0)[-1]
    with average.in_place():
        assert torch.equal(module.weight, last)


def test_it_goes_on_from_where_it_was():
    module = Linear().module
    one = Average(module, TrainingSettings(averaging="swa"))
    walk(one, module, 3, epoch=0)
    two = Average(module, TrainingSettings(averaging="swa"))
    two.restore({name: value.clone() for name, value in one.state().items()}, one.count)
    for average in (one, two):
        torch.manual_seed(0)
        with torch.no_grad():
            module.weight.fill_(7)
        average.step(1)
    assert torch.equal(one.state()["weight"], two.state()["weight"])
