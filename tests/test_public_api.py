"""The exported names, and what `import trellis` leaves alone. A change here is a change for users."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

# Names separated by blanks.
CHAIN = "ChainScores ChainTable Decoded Marginals Paths SegmentMarginals SegmentScores"
EXPORTS = {
    "trellis": (
        "CRF HMM ChainScores FeatureFunctions Lexicon MarkovChain NeuralTagger Pipeline Sentence __version__ "
        "get_num_threads load select set_num_threads"
    ),
    "trellis.models": (
        "CRF CRFConfig Ensemble HMM HMMConfig Labelling NeuralConfig NeuralTagger "
        "Pipeline Posterior ScoredSpan Selected Tagged Tagger TextSpan load select"
    ),
    "trellis.lexicon": "Entry FORMATS Lexicon Matches PREFER Reading Strength parse_strength read_entries",
    "trellis.chain": CHAIN + " SegmentPaths Segmented get_num_threads set_num_threads",
    "trellis.chain.torch": CHAIN,
    "trellis.nn": (
        "CRF Batch BiLSTM CRFForTokenClassification CRFHead CategoryEmbedding CharacterCNN CharacterLSTM "
        "Characters Coverage Encoder Head LockedDropout Packing Part SegmentStates SemiCRF SemiCRFHead "
        "SoftmaxHead TokenDropout TokenScores TransformerEncoder Vectors WordDropout WordEmbedding WordPooling "
        "align_labels pool read_vectors"
    ),
    "trellis.compat.datasets": "label_names to_dataset",
    "trellis.compat.torchcrf": "CRF",
    "trellis.compat.transformers": ("TokenClassificationPipeline from_pretrained pipeline push_to_hub save_pretrained"),
    "trellis.distributed": "BulkTagger FolderProgress FolderReport tag_dask tag_folder tag_ray tag_spark together",
    "trellis.ragged": "check_lengths in_blocks later_tokens offsets_of pad ranges rows_of split",
}
# What `trellis.NAME` gives without an import of its own.
PARTS = (
    "chain compat config corpus demo distributed errors export features lexicon metrics models nn "
    "ragged store study tags text training"
)


@pytest.mark.parametrize("name", EXPORTS)
def test_exported_names(name: str) -> None:
    module = importlib.import_module(name)
    assert sorted(module.__all__) == sorted(EXPORTS[name].split())
    for exported in module.__all__:
        assert getattr(module, exported) is not None


def test_exception_tree() -> None:
    """Name and parents of every exception; catching TrellisError or ValueError catches what Trellis refuses."""
    errors = importlib.import_module("trellis.errors")
    found = {
        name: [parent.__name__ for parent in value.__bases__]
        for name, value in vars(errors).items()
        if isinstance(value, type) and value.__module__ == errors.__name__
    }
    assert found == {
        "TrellisError": ["Exception"],
        "ChainError": ["TrellisError", "ValueError"],
        "ShapeError": ["ChainError"],
        "NonFiniteError": ["ChainError"],
        "TagRangeError": ["ChainError"],
        "NoPathError": ["ChainError"],
        "TagError": ["TrellisError", "ValueError"],
        "DataError": ["TrellisError", "ValueError"],
        "CorpusError": ["DataError"],
        "DataWarning": ["UserWarning"],
        "ConfigError": ["TrellisError", "ValueError"],
        "ModelError": ["TrellisError", "ValueError"],
        "NotFittedError": ["ModelError", "AttributeError"],
        "ProcessError": ["TrellisError", "RuntimeError"],
        "StoreError": ["TrellisError", "ValueError"],
        "NewerFormatError": ["StoreError"],
        "TemplateError": ["TrellisError", "ValueError"],
    }
    assert all(name in (errors.__doc__ or "") for name in found), "the tree in the docstring leaves one out"


def modules_after(code: str) -> set[str]:
    report = f"{code}; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return {name.split(".")[0] for name in done.stdout.split()}


def test_import_brings_in_no_heavy_library() -> None:
    assert "numpy" not in modules_after("import trellis")
    heavy = {"torch", "sklearn", "transformers", "tokenizers", "accelerate", "scipy", "typer", "rich", "pandas"}
    heavy |= {"ray", "pyspark", "dask", "pyarrow"}
    assert not modules_after("import trellis") & heavy
    assert not modules_after("import trellis; trellis.ChainScores; trellis.set_num_threads(1)") & heavy
    assert not modules_after("import trellis.chain") & heavy
    assert not modules_after("import trellis.distributed") & heavy
    heavy |= {"huggingface_hub", "datasets", "spacy"}
    assert not modules_after("import trellis.compat.transformers, trellis.compat.datasets") & heavy
    assert not modules_after("import trellis; trellis.HMM, trellis.CRF") & heavy


def test_unknown_name_is_an_attribute_error() -> None:
    trellis = importlib.import_module("trellis")
    with pytest.raises(AttributeError, match="module 'trellis' has no attribute 'nonsense'"):
        trellis.nonsense  # noqa: B018
    assert set(trellis.__all__) <= set(dir(trellis))


def test_a_live_graph_at_exit_is_not_reported_as_a_leak() -> None:
    """The native side hangs on the graph of a loss; a program that ends with one alive ends in silence."""
    code = (
        "import torch, trellis.nn; crf = trellis.nn.CRF(2);"
        "loss = crf.nll(torch.zeros(3, 1, 2, requires_grad=True), torch.zeros(3, 1, dtype=torch.int64))"
    )
    assert "torch" in modules_after(code)


def test_parts_load_when_they_are_named() -> None:
    """And but for the one of torch modules, none brings in torch."""
    named = [f"assert trellis.{part}.__name__ == 'trellis.{part}'" for part in PARTS.split() if part != "nn"]
    assert "torch" not in modules_after("; ".join(["import trellis", *named]))
    assert "torch" in modules_after("import trellis; trellis.nn.CRF")


def test_parts_are_listed() -> None:
    trellis = importlib.import_module("trellis")
    assert sorted(trellis._PARTS) == PARTS.split()
    assert set(PARTS.split()) < set(dir(trellis))


def test_nn_exports_what_its_reference_documents_and_nothing_else() -> None:
    pages = (Path(__file__).parent.parent / "docs" / "api").glob("*.md")
    documented = [
        name for page in pages for name in re.findall(r"^::: trellis\.nn\.(\S+)", page.read_text(), re.MULTILINE)
    ]
    assert sorted(documented) == sorted(EXPORTS["trellis.nn"].split())


def test_nn_loads_transformers_when_they_are_named() -> None:
    loaded = modules_after("import trellis.nn; trellis.nn.CRF, trellis.nn.TransformerEncoder")
    assert not loaded & {"transformers", "tokenizers"}
    assert "transformers" in modules_after("from trellis.nn import CRFForTokenClassification")
    with pytest.raises(AttributeError, match=r"module 'trellis\.nn' has no attribute 'nonsense'"):
        importlib.import_module("trellis.nn").nonsense  # noqa: B018
