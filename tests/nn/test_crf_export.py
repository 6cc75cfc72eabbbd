"""A module with a CRF exported by torch: the right graph by `decoder_for_export`, or an error that names it."""

import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

from trellis.errors import ChainError
from trellis.nn import CRF

ALLOWED = torch.tensor([[1, 1, 0], [1, 1, 1], [0, 1, 1]], dtype=torch.bool)


class Tagger(nn.Module):
    """What a user would write."""

    def __init__(self, *, for_export: bool, batch_first: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.emission = nn.Linear(4, 3)
        constraints = (ALLOWED, torch.tensor([True, False, True]), torch.ones(3, dtype=torch.bool))
        self.crf = CRF(3, batch_first=batch_first, constraints=constraints)
        self.decoder = self.crf.decoder_for_export() if for_export else None

    def forward(self, x: Tensor, mask: Tensor) -> Any:
        emissions = self.emission(x)
        return self.crf.viterbi(emissions, mask).tags if self.decoder is None else self.decoder(emissions, mask)


def batch(B: int, T: int, seed: int, *, batch_first: bool = True) -> tuple[Tensor, Tensor]:
    made = torch.Generator().manual_seed(seed)
    x = 3 * torch.randn(B, T, 4, generator=made)
    mask = torch.arange(T) < torch.randint(1, T + 1, (B, 1), generator=made)
    return (x, mask) if batch_first else (x.transpose(0, 1), mask.t())


def check(run: Callable[[Tensor, Tensor], Any], module: Tagger, *, batch_first: bool = True) -> None:
    """Any number of sequences of any length, not only those of the example."""
    for B, T in ((1, 1), (3, 9), (5, 4), (2, 60)):
        x, mask = batch(B, T, B, batch_first=batch_first)
        with torch.no_grad():
            scores = module.crf.scores(module.emission(x), mask)
            best = scores.viterbi()
            tags, marginals, probability = (torch.as_tensor(found) for found in run(x, mask))
            assert torch.equal(tags, best.tags)
            torch.testing.assert_close(marginals, scores.marginals().tokens, atol=1e-5, rtol=0)
            torch.testing.assert_close(probability, (best.scores - scores.log_partition()).exp(), atol=1e-5, rtol=1e-4)


@pytest.fixture
def quiet() -> Any:
    """torch warns about its own exporters."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("batch_first", [True, False])
def test_the_plain_decoder_answers_as_the_crf(batch_first: bool) -> None:
    module = Tagger(for_export=True, batch_first=batch_first).eval()
    check(module, module, batch_first=batch_first)


@pytest.mark.usefixtures("quiet")
def test_a_trace_of_the_decoder_takes_other_lengths() -> None:
    module = Tagger(for_export=True).eval()
    check(torch.jit.trace(module, batch(2, 5, 0)), module)


@pytest.mark.usefixtures("quiet")
def test_an_exported_program_takes_other_lengths() -> None:
    module = Tagger(for_export=True).eval()
    shape = {0: torch.export.Dim("B", min=1), 1: torch.export.Dim("T", min=1)}
    program = torch.export.export(module, batch(2, 5, 0), dynamic_shapes=(shape, shape))
    check(program.module(), module)


@pytest.mark.usefixtures("quiet")
def test_onnx_of_the_decoder_takes_other_lengths(tmp_path: Path) -> None:
    module, path = Tagger(for_export=True).eval(), tmp_path / "model.onnx"
    shape = {0: torch.export.Dim("B", min=1), 1: torch.export.Dim("T", min=1)}
    torch.onnx.export(module, batch(2, 5, 0), path, dynamo=True, verbose=False, dynamic_shapes=(shape, shape))
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [given.name for given in session.get_inputs()]

    def run(x: Tensor, mask: Tensor) -> list[np.ndarray[Any, Any]]:
        return list(session.run(None, dict(zip(names, (x.numpy(), mask.numpy()), strict=True))))

    check(run, module)


ASKED: dict[str, Callable[[CRF, Tensor, Tensor], Any]] = {
    "viterbi": lambda crf, e, mask: crf.viterbi(e, mask).tags,
    "decode": lambda crf, e, mask: crf.decode(e, mask),
    "nll": lambda crf, e, mask: crf.nll(e, torch.zeros_like(mask, dtype=torch.int64), mask),
    "marginals": lambda crf, e, mask: crf.marginals(e, mask).tokens,
    "log_partition": lambda crf, e, mask: crf.scores(e, mask).log_partition(),
}


class Asking(nn.Module):
    def __init__(self, asked: str) -> None:
        super().__init__()
        self.crf, self.ask = CRF(4, batch_first=True), ASKED[asked]

    def forward(self, x: Tensor, mask: Tensor) -> Any:
        return self.ask(self.crf, x, mask)


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("asked", ASKED)
def test_a_trace_of_the_crf_itself_names_the_decoder(asked: str) -> None:
    with pytest.raises(ChainError, match="decoder_for_export"):
        torch.jit.trace(Asking(asked), batch(2, 5, 0))


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("dynamo", [True, False])
@pytest.mark.parametrize("asked", ["viterbi", "marginals"])
def test_onnx_of_the_crf_itself_names_the_decoder(tmp_path: Path, asked: str, dynamo: bool) -> None:
    with pytest.raises(Exception, match="decoder_for_export"):
        torch.onnx.export(Asking(asked), batch(2, 5, 0), tmp_path / "m.onnx", dynamo=dynamo, verbose=False)


@pytest.mark.parametrize("asked", ["marginals", "log_partition", "decode"])
def test_what_an_exported_program_cannot_hold_names_the_decoder(asked: str) -> None:
    with pytest.raises(ChainError, match="decoder_for_export"):
        torch.export.export(Asking(asked), batch(2, 5, 0))


def test_an_exported_program_of_the_crf_itself_needs_trellis_and_says_so(tmp_path: Path) -> None:
    module, given = Asking("viterbi"), batch(2, 5, 0)
    program = torch.export.export(module, given)
    assert torch.equal(program.module()(*given), module(*given))
    torch.export.save(program, tmp_path / "m.pt2")
    code = "import sys, torch; torch.export.load(sys.argv[1])"
    command = [sys.executable, "-c", code, str(tmp_path / "m.pt2")]
    alone = subprocess.run(command, capture_output=True, text=True, check=False)
    assert alone.returncode != 0
    assert "torch.ops.trellis.viterbi" in alone.stderr
    assert "import the custom op" in alone.stderr
    command[2] = f"import trellis.nn; {code}"
    subprocess.run(command, check=True)


def test_a_dead_end_of_large_score_does_not_move_marginals() -> None:
    allowed, end = torch.ones(3, 3, dtype=torch.bool), torch.tensor([True, True, False])
    allowed[2] = False
    crf = CRF(3, batch_first=True, constraints=(allowed, torch.ones(3, dtype=torch.bool), end))
    emissions, mask = torch.tensor([[[0.0, 1.0, 1e8], [0.0, 3.0, 0.0]]]), torch.ones(1, 2, dtype=torch.bool)
    with torch.no_grad():
        tags, marginals, _ = crf.decoder_for_export()(emissions, mask)
        expected = crf.scores(emissions, mask)
        assert tags.tolist() == expected.viterbi().tags.tolist()
        torch.testing.assert_close(marginals, expected.marginals().tokens, atol=1e-6, rtol=0)
