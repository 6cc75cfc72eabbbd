"""Linear layers in bfloat16: what they compute, and that weights, gradients and other layers stay as they are."""

import copy

import torch
from torch import nn

from trellis.nn.transformer import set_precision


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
