"""`trellis export`: two files, or one line that says what is missing."""

import json
import sys
from pathlib import Path

import onnxruntime
import pytest

from tests.cli.conftest import Shell, sentences
from trellis.models import CRF, load


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    CRF(max_iterations=5).fit(sentences()).save(path)
    return path


def test_a_graph_and_its_description_are_written(shell: Shell, model: Path) -> None:
    target = model.with_name("out.onnx")
    ran = shell("export", model, "--onnx", target)
    assert (ran.code, ran.out) == (0, "")
    assert str(target) in ran.err
    described = json.loads(target.with_suffix(".json").read_text(encoding="utf-8"))
    session = onnxruntime.InferenceSession(target, providers=["CPUExecutionProvider"])
    assert [given.name for given in session.get_outputs()] == described["outputs"]
    assert described["starts_at"] == "emissions"


def test_a_graph_gives_only_what_is_wanted(shell: Shell, model: Path) -> None:
    target = model.with_name("out.onnx")
    assert shell("export", model, "--onnx", target, "--outputs", "labels, probability").code == 0
    described = json.loads(target.with_suffix(".json").read_text(encoding="utf-8"))
    assert described["outputs"] == ["labels", "probability"]
    ran = shell("export", model, "--onnx", target, "--outputs", "tags")
    assert ran.err == "trellis: outputs of a graph are one or more of labels, marginals, probability, got tags\n"
    ran = shell("export", model, "--web", model.with_name("site"), "--outputs", "labels")
    assert ran.err == "trellis: --outputs is only for --onnx\n"


def test_without_onnx_one_line_says_how_to_get_it(shell: Shell, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    ran = shell("export", model, "--onnx", model.with_name("out.onnx"))
    assert ran.code == 1
    assert ran.err == "trellis: exporting to ONNX needs onnx: pip install 'trellis-crf[onnx]'\n"


def test_either_a_file_or_a_page(shell: Shell, model: Path) -> None:
    for options in ([], ["--onnx", "a.onnx", "--web", "b"], ["--onnx", "a.onnx", "--runtime", "b"]):
        ran = shell("export", model, *options)
        assert (ran.code, ran.err) == (
            2,
            "trellis: give one of --onnx FILE, --web DIR and --crfsuite FILE, with --runtime only for --web\n",
        )


def test_a_feature_crf_as_a_file_of_crfsuite(shell: Shell, model: Path) -> None:
    target, free = model.with_name("model.crfsuite"), CRF(max_iterations=5, constraints=False).fit(sentences())
    free.save(model)
    assert shell("export", model, "--crfsuite", target).code == 0
    words = ["She", "lives", "in", "Paris"]
    assert load(target).predict([free.feature_names(words)]) == free.predict([words])
