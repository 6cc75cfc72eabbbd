"""Steps against steps by hand: groups, decay, clipping, accumulation, precision; schedules; averages; native Adam."""

import math
from contextlib import suppress
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from tests.training.neural.toys import Labels, Linear
from trellis.errors import ConfigError, ModelError
from trellis.training.neural import TrainingSettings, train
from trellis.training.neural.optimizer import (
    Average,
    Diverged,
    Machine,
    NativeAdam,
    Schedule,
    Stepper,
    build_optimizer,
    optimizer_state,
    restore_optimizer,
)

PLAIN = {"optimizer": "sgd", "momentum": 0.0, "weight_decay": 0.0, "schedule": "constant", "warmup": 0.0, "clip": None}
ALL = np.arange(20)


def stepper(task, **changes):
    settings = TrainingSettings(**{**PLAIN, **changes})
    return Stepper(task, settings, Machine(settings), Schedule(settings, 100))


def weights(task):
    return torch.cat([p.detach().reshape(-1) for p in task.module.parameters()])


def gradient(task, examples=ALL):
    loss, count = task.loss(examples)
    return torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss / count, list(task.module.parameters()))])


def test_a_plain_step_goes_down_the_mean_loss():
    task = Linear()
    expected = weights(task) - 0.1 * gradient(task)
    loss = task.loss(ALL)[0].item()
    taken = stepper(task, learning_rate=0.1).take(0, task, [ALL])
    torch.testing.assert_close(weights(task), expected, rtol=1e-12, atol=0)
    assert (taken.loss, taken.items, taken.learning_rate) == (pytest.approx(loss), 20, 0.1)


def test_accumulated_batches_equal_one_big_batch():
    big, small = Linear(), Linear()
    one = stepper(big, learning_rate=0.1, clip=0.7).take(0, big, [ALL])
    many = stepper(small, learning_rate=0.1, clip=0.7).take(0, small, [ALL[:3], ALL[3:11], ALL[11:]])
    torch.testing.assert_close(weights(small), weights(big), rtol=1e-12, atol=0)
    assert (many.items, many.gradient_norm) == (one.items, pytest.approx(one.gradient_norm))


def test_a_whole_training_with_accumulation_equals_one_in_big_batches():
    trained = []
    for changes in ({"batch_size": 20}, {"batch_size": 4, "accumulate": 5}):
        task = Linear()
        train(task, TrainingSettings(**PLAIN, learning_rate=0.1, epochs=3, **changes))
        trained.append(weights(task))
    torch.testing.assert_close(*trained, rtol=1e-12, atol=0)


@pytest.mark.parametrize("clip", [0.01, 1e9])
def test_long_gradients_are_shortened_and_short_ones_left_alone(clip):
    task = Linear()
    g = gradient(task)
    expected = weights(task) - 0.1 * g * min(1, clip / g.norm())
    taken = stepper(task, learning_rate=0.1, clip=clip).take(0, task, [ALL])
    torch.testing.assert_close(weights(task), expected, rtol=1e-12, atol=0)
    assert taken.gradient_norm == pytest.approx(g.norm().item())


def test_the_groups_have_their_own_rates_and_only_matrices_decay():
    task = Labels()
    settings = TrainingSettings(learning_rate=0.5, head_learning_rate=0.25, weight_decay=0.1)
    names = {id(p): name for name, p in task.module.named_parameters()}
    found = {
        names[id(p)]: (group["peak"], group["weight_decay"])
        for group in build_optimizer(task, settings).param_groups
        for p in group["params"]
    }
    assert found.keys() == dict(task.module.named_parameters()).keys()
    assert found["embedding.weight"] == found["lstm.weight_hh_l0"] == (0.5, 0.1)
    assert found["lstm.bias_hh_l0"] == found["norm.weight"] == (0.5, 0.0)
    assert found["out.weight"] == (0.25, 0.1)
    assert found["out.bias"] == (0.25, 0.0)


def test_rates_follow_the_schedule_in_every_group():
    task = Linear()
    before, g = weights(task), gradient(task)
    taken = stepper(task, learning_rate=9.0, head_learning_rate=0.1, warmup=4.0).take(1, task, [ALL])
    assert taken.learning_rate == pytest.approx(0.05)
    torch.testing.assert_close(weights(task), before - 0.05 * g, rtol=1e-12, atol=0)


@pytest.mark.parametrize("name", ["adamw", "adam", "sgd"])
def test_the_optimizer_is_torchs(name):
    ours, theirs = Linear(dtype=torch.float32), Linear(dtype=torch.float32)
    one = stepper(ours, optimizer=name, learning_rate=0.1, momentum=0.9, weight_decay=0.3)
    groups = [
        {"params": [theirs.module.weight], "weight_decay": 0.3},
        {"params": [theirs.module.bias], "weight_decay": 0.0},
    ]
    kinds = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": partial(torch.optim.SGD, momentum=0.9)}
    two = kinds[name](groups, lr=0.1, foreach=False)
    for number in range(5):
        one.take(number, ours, [ALL])
        two.zero_grad()
        loss, count = theirs.loss(ALL)
        (loss / count).backward()
        two.step()
    torch.testing.assert_close(weights(ours), weights(theirs), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["adamw", "adam", "sgd"])
def test_the_optimizers_memory_survives_a_round_trip(name):
    one, two = Linear(), Linear()
    first, second = (stepper(task, optimizer=name, momentum=0.9) for task in (one, two))
    first.take(0, one, [ALL])
    state = optimizer_state(first.optimizer, {id(p): n for n, p in one.module.named_parameters()})
    assert state
    two.module.load_state_dict(one.module.state_dict())
    restore_optimizer(second.optimizer, dict(two.module.named_parameters()), {k: v.clone() for k, v in state.items()})
    for each, task in ((first, one), (second, two)):
        each.take(1, task, [ALL[:5]])
    assert torch.equal(weights(one), weights(two))


def test_parameters_in_no_group_are_named():
    task = Labels()
    task.groups = lambda: [("head", list(task.module.out.parameters()))]
    with pytest.raises(ModelError, match=r"in no group would never be trained: embedding\.weight, lstm"):
        build_optimizer(task, TrainingSettings())


def test_frozen_parameters_stay_and_nothing_to_train_is_an_error():
    task = Linear()
    task.module.weight.requires_grad_(False)
    before = task.module.weight.clone()
    stepper(task).take(0, task, [ALL])
    assert torch.equal(task.module.weight, before)
    task.module.bias.requires_grad_(False)
    with pytest.raises(ModelError, match="nothing to train"):
        stepper(task)


def test_examples_without_a_loss_take_a_step_of_nothing():
    task = Linear()
    task.loss = lambda examples: (torch.zeros(()), 0)
    before = weights(task)
    assert stepper(task).take(0, task, [ALL[:1]]).items == 0
    assert torch.equal(weights(task), before)


@pytest.mark.parametrize(("value", "word"), [(math.nan, "loss is nan"), (math.inf, "loss is inf")])
def test_a_loss_that_is_no_number_is_refused_before_it_reaches_the_weights(value, word):
    task = Linear()
    task.x[3] = value
    before = weights(task)
    with pytest.raises(Diverged, match=f"diverged at step 8: the {word}, at learning rate 0.005; lower"):
        stepper(task).take(7, task, [ALL])
    assert torch.equal(weights(task), before)


def test_so_is_a_gradient_that_is_no_number_under_a_fine_loss():
    task = Linear()
    task.loss = lambda examples: (task.module.weight.abs().sum() * 0 + task.module.bias.mul(0).sqrt().sum(), 1)
    with pytest.raises(Diverged, match="the gradient's length is nan"):
        stepper(task).take(0, task, [ALL])


def test_chance_depends_on_seed_and_step_only():
    drawn = []
    for seed, number in ((1, 5), (1, 5), (1, 6), (2, 5)):
        Machine(TrainingSettings(seed=seed)).seed(number)
        drawn.append((torch.rand(()).item(), np.random.random()))
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) == 3


def test_bf16_runs_the_forward_pass_in_bf16_and_keeps_float_weights():
    task = Linear(dtype=torch.float32)
    kinds = []
    task.module.register_forward_hook(lambda module, inputs, output: kinds.append(output.dtype))
    stepper(task, precision="bf16").take(0, task, [ALL])
    stepper(task, precision="fp32").take(0, task, [ALL])
    assert kinds == [torch.bfloat16, torch.float32]
    assert task.module.weight.dtype == torch.float32


@pytest.mark.skipif(torch.cuda.is_available(), reason="about machines without a GPU")
def test_fp16_needs_a_gpu_and_auto_is_fp32_without_one():
    with pytest.raises(ConfigError, match="'fp16' needs a GPU, the device is cpu"):
        Machine(TrainingSettings(precision="fp16"))
    assert Machine(TrainingSettings(precision="auto")).precision == "no"


def test_tied_parameters_are_trained_once():
    task = Linear(size=1)
    task.module = nn.Sequential(task.module, nn.Linear(1, 1, dtype=torch.float64))
    task.module[1].weight = task.module[0].weight
    stepper(task, optimizer="adamw").take(0, task, [ALL])
    assert task.module[1].weight is task.module[0].weight


SIZES = [(3,), (1,), (40, 7), (0, 4), (70001,)]


def make(kind: type[torch.optim.Adam], dtype: torch.dtype) -> tuple[list[nn.Parameter], torch.optim.Adam]:
    torch.manual_seed(0)
    parameters = [nn.Parameter(torch.randn(size, dtype=dtype)) for size in SIZES]
    groups = [{"params": parameters[:2], "weight_decay": 0.0}, {"params": parameters[2:], "weight_decay": 0.1}]
    return parameters, kind(groups, lr=0.01)


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_as_torch(
    kind: type[torch.optim.Adam], dtype: torch.dtype, threads: int, instruction_set: str
) -> None:
    """Also where a parameter has no gradient in one step, and where gradients are not contiguous."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    (ours, first), (theirs, second) = make(kind, dtype), make(kind, dtype)
    native = NativeAdam.of(first)
    assert native is not None
    for step in range(5):
        for mine, other in zip(ours, theirs, strict=True):
            gradient = torch.randn(mine.shape[::-1], dtype=dtype).t() if mine.ndim == 2 else torch.randn_like(mine)
            skipped = step == 2 and mine.ndim == 2
            mine.grad, other.grad = (None, None) if skipped else (gradient, gradient * 0.25)
        native.step(0.25)
        second.step()
    torch.set_num_threads(before)
    tolerance = 1e-12 if dtype == torch.float64 else 2e-6
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=tolerance, atol=tolerance)
        assert first.state[mine].keys() == second.state[other].keys()
        for what, value in second.state[other].items():
            torch.testing.assert_close(first.state[mine][what], value, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_length_of_a_gradient(dtype: torch.dtype, instruction_set: str) -> None:
    gradients = [torch.randn(size, dtype=dtype) for size in SIZES]
    native = NativeAdam.of(make(torch.optim.AdamW, dtype)[1])
    assert native is not None
    wanted = float(torch.cat([x.flatten().double() for x in gradients]).norm())
    assert native.gradient_length(gradients) == pytest.approx(wanted, rel=1e-6)
    assert native.gradient_length([]) == 0.0
    gradients[2][0, 0] = torch.nan
    assert native.gradient_length(gradients) != native.gradient_length(gradients)


def test_other_optimizers_and_kinds_are_left_to_torch() -> None:
    weight = nn.Parameter(torch.zeros(3))
    assert NativeAdam.of(torch.optim.SGD([weight], lr=0.1)) is None
    assert NativeAdam.of(torch.optim.AdamW([nn.Parameter(torch.zeros(3, dtype=torch.bfloat16))])) is None
    assert NativeAdam.of(torch.optim.AdamW([weight, nn.Parameter(torch.zeros(3, dtype=torch.float64))])) is None
    assert NativeAdam.of(torch.optim.AdamW([nn.Parameter(torch.zeros(3, 2).t())])) is None


def factors(kind, warmup, total):
    schedule = Schedule(TrainingSettings(schedule=kind, warmup=warmup), total)
    return [schedule.factor(step) for step in range(total)]


def test_constant_with_and_without_warm_up():
    assert factors("constant", 0.0, 3) == [1, 1, 1]
    assert factors("constant", 4.0, 6) == [0.25, 0.5, 0.75, 1, 1, 1]
    assert factors("constant", 0.5, 4) == [0.5, 1, 1, 1]


def test_linear_reaches_zero_one_step_after_the_last():
    assert factors("linear", 0.0, 4) == [1, 0.75, 0.5, 0.25]
    assert factors("linear", 2.0, 6) == [0.5, 1, 1, 0.75, 0.5, 0.25]
    assert Schedule(TrainingSettings(schedule="linear", warmup=0.0), 4).factor(4) == 0


def test_cosine_is_half_a_wave():
    expected = [(1 + math.cos(math.pi * k / 10)) / 2 for k in range(10)]
    assert factors("cosine", 0.0, 10) == pytest.approx(expected, abs=1e-15)
    assert factors("cosine", 2.0, 12)[2:] == pytest.approx(expected, abs=1e-15)


def test_a_warm_up_longer_than_the_training():
    assert factors("linear", 8.0, 2) == [1 / 8, 2 / 8]


def test_warm_up_as_a_share_or_a_number():
    assert [Schedule(TrainingSettings(warmup=w), 50).warmup for w in (0.0, 0.1, 1.0, 7.0, 100.0)] == [0, 5, 1, 7, 100]


def test_the_plateau_waits_lowers_and_waits_again():
    plateau = Schedule(TrainingSettings(schedule="plateau", plateau_patience=2, warmup=0.0), 10)
    seen = []
    for score in (0.1, 0.2, 0.2, 0.1, 0.1, 0.15, 0.3, 0.3, 0.4, 0.4, 0.4):
        plateau.epoch(score, 0.0)
        seen.append(plateau.factor(0))
    #       0.1  0.2  -    -    -    -     0.3   -     0.4   -     -
    assert seen == [1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25, 0.25, 0.125]


def test_the_plateau_goes_by_dev_or_else_by_loss_and_can_be_taken_up_again():
    settings = TrainingSettings(schedule="plateau", plateau_patience=1, warmup=0.0)
    schedule = Schedule(settings, 10)
    schedule.epoch(None, 5.0)
    schedule.epoch(None, 4.0)
    assert schedule.factor(3) == 1
    other = Schedule(settings, 10)
    other.restore(schedule.state())
    other.epoch(None, 4.5)
    assert other.factor(4) == 0.5
    by_dev = Schedule(settings, 10)
    by_dev.epoch(0.3, 5.0)
    by_dev.epoch(0.2, 4.0)
    assert by_dev.factor(2) == 0.5


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
