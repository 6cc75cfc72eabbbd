"""The loss of a tagger as one node of the graph: what follows the parts of its encoder, on the CPU.

    parts side by side  ->  dropout  ->  BiLSTM  ->  dropout  ->  emissions  ->  CRF

It is what the modules compute one after another; a node for each of their operations, and each pass that one of them
makes over all features, would take as long as the arithmetic. Networks of other kinds, and other devices and
precisions, go through the modules.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from trellis.arrays import IntArray
from trellis.chain import torch as scoring
from trellis.nn.crf import CRF
from trellis.nn.dropout import Dropout, RowSources
from trellis.nn.encoder import Batch, Encoder
from trellis.nn.lstm import LayerRun, backward_pass, forward_pass, has_kernels


def supports(encoder: Encoder, emission: nn.Linear) -> bool:
    """Whether the loss of a network with this encoder is computed here."""
    return has_kernels(emission.weight) and encoder.lstm is not None and len(encoder.lstm.layers) == 1


def tagging_loss(encoder: Encoder, emission: nn.Linear, crf: CRF, batch: Batch, tags: Tensor) -> Tensor:
    """The negative log-likelihood of the tags ``(N,)``, summed over the sentences of a batch, which has a token."""
    assert encoder.lstm is not None
    layer, sources = encoder.lstm.layers[0], encoder.sources(batch)
    assert isinstance(layer, nn.LSTM)
    tables = [source.table for columns in sources for source in columns]
    forward, backward = layer.all_weights
    weights = (*forward, *backward, emission.weight, emission.bias, *crf.parameters())
    plan = _Plan(crf, sources, batch.packing.lengths, tags, *encoder.draw_dropout())
    loss: Tensor = _TaggingLoss.apply(plan, *weights, *tables)  # type: ignore[no-untyped-call]
    return loss


class _Plan(NamedTuple):
    """What the loss is made of apart from tensors that are trained."""

    crf: CRF
    sources: RowSources
    lengths: IntArray
    tags: Tensor
    inward: Dropout
    outward: Dropout


class _TaggingLoss(torch.autograd.Function):
    """The gradient of the chain is computed together with its loss, that of everything before it in the backward pass.

    The tensors are the weights of the BiLSTM, of the emission layer, of the CRF, and the tables of the sources.
    """

    @staticmethod
    def forward(ctx: Any, plan: _Plan, *tensors: Tensor) -> Tensor:
        lengths, emission, bias = plan.lengths, tensors[8], tensors[9]
        run = forward_pass(plan.inward.joined(plan.sources, lengths), None, lengths, tensors[:8], keep=True)
        states = plan.outward.apply(run.states, lengths)
        scores = scoring.ChainScores(torch.addmm(bias, states, emission.t()), lengths, *plan.crf.chain_parameters())
        loss, gradients = scores.total_nll_gradient(plan.tags)
        ctx.save_for_backward(*run, states, emission, *gradients[:4])
        ctx.plan = plan
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor | None, ...]:
        plan, saved = ctx.plan, ctx.saved_tensors
        run, (states, emission, *of_chain) = LayerRun(*saved[: len(LayerRun._fields)]), saved[len(LayerRun._fields) :]
        of_emissions, of_transitions, of_start, of_end = (x * outer for x in of_chain)
        of_states = plan.outward.apply(of_emissions @ emission, plan.lengths)
        of_tables: list[Tensor | None] = [None] * (len(ctx.needs_input_grad) - 14)
        wanted = any(ctx.needs_input_grad[14:])
        of_features, of_lstm = backward_pass(run, plan.lengths, of_states, inputs_too=wanted)
        if of_features is not None:
            of_tables = plan.inward.gradients(of_features, plan.sources, plan.lengths)
        of_emission = (of_emissions.t() @ states, of_emissions.sum(0))
        return (None, *of_lstm, *of_emission, of_start, of_end, of_transitions, *of_tables)
