"""Imports point down only: the layers of shared/design.md, checked on the syntax trees, functions included."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import trellis

ROOT = Path(trellis.__file__).parent
# From the bottom up. A part may import those of lower layers, and no other part of its own.
LAYERS = [
    ["arrays", "errors"],
    ["aligned", "files", "suggest", "untrusted"],
    ["text", "tags", "ragged", "config", "store"],
    ["chain"],
    ["features", "corpus", "metrics", "nn"],
    ["training"],
    ["models"],
    ["compat", "demo"],
    ["cli", "server"],
]
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}
# Where torch may be imported as the module loads; everywhere else it waits for a function that needs it.
TORCH_FREE = ("training/neural/__init__.py", "training/neural/settings.py", "training/neural/batches.py")
TORCH_AT_HOME = ("chain/torch/", "nn/", "compat/torchcrf.py", "training/neural/", "models/neural")
FILES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py"))


def imported(node: ast.AST) -> list[str]:
    """The absolute names that an import statement may load."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"line {node.lineno}: imports are absolute"
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def parts_imported(tree: ast.AST) -> set[str]:
    """The parts of Trellis that a file imports, anywhere in it."""
    names = (name.split(".") for node in ast.walk(tree) for name in imported(node))
    return {name[1] for name in names if name[0] == "trellis" and len(name) > 1}


def at_module_level(tree: ast.Module) -> Iterator[ast.AST]:
    """Statements that run when the module loads: not those of functions, nor those for type checkers only."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting.extend(node.orelse)
            continue
        yield node
        waiting.extend(ast.iter_child_nodes(node))


def upward(part: str, tree: ast.AST) -> set[str]:
    """The imports of a file of `part` that do not point down."""
    others = (parts_imported(tree) & LEVEL.keys()) - {part}
    return {other for other in others if LEVEL[other] >= LEVEL[part]}


def part_of(file: str) -> str:
    return file.split("/")[0].removesuffix(".py")


@pytest.mark.parametrize("file", [file for file in FILES if part_of(file) == "cli"])
def test_the_command_line_needs_no_private_module(file: str) -> None:
    tree = ast.parse((ROOT / file).read_text())
    names = [name.split(".") for node in ast.walk(tree) for name in imported(node) if name.startswith("trellis.")]
    assert not [name for name in names if name[1] != "cli" and any(part.startswith("_") for part in name[2:])]


@pytest.mark.parametrize("family", ["crf", "hmm", "neural"])
def test_a_room_has_a_file_for_settings_and_none_that_repeats_its_name(family: str) -> None:
    names = [file.split("/")[2] for file in FILES if file.startswith(f"models/{family}/")]
    assert {"__init__.py", "config.py", "model.py", "training.py", "storage.py"} <= set(names)
    assert not [name for name in names if name.startswith(family)]


def test_every_file_belongs_to_a_layer() -> None:
    assert "chain/scores.py" in FILES
    assert {part_of(file) for file in FILES} - {"__init__", "__main__"} <= LEVEL.keys()


@pytest.mark.parametrize("file", [file for file in FILES if part_of(file) in LEVEL])
def test_imports_point_down(file: str) -> None:
    tree = ast.parse((ROOT / file).read_text())
    assert upward(part_of(file), tree) == set()


@pytest.mark.parametrize("file", [file for file in FILES if file in TORCH_FREE or not file.startswith(TORCH_AT_HOME)])
def test_torch_is_not_imported_when_the_module_loads(file: str) -> None:
    tree = ast.parse((ROOT / file).read_text())
    heavy = {"torch", "sklearn", "transformers", "tokenizers", "accelerate"}
    loaded = {name for node in at_module_level(tree) for name in imported(node)}
    assert not {name.split(".")[0] for name in loaded} & heavy
    # Nor by way of a part of Trellis that brings it in.
    home = {
        name for name in loaded if name.startswith(("trellis.nn", "trellis.chain.torch", "trellis.training.neural"))
    }
    assert not {name for name in home if not name.startswith("trellis.training.neural.settings.")}


class TestTheCheckItself:
    @pytest.mark.parametrize(
        ("part", "code", "found"),
        [
            ("chain", "from trellis.nn import CRF", {"nn"}),
            ("chain", "def f():\n    import trellis.models.crf.model", {"models"}),
            ("chain", "from trellis import nn, errors", {"nn"}),
            ("metrics", "from trellis.corpus import read", {"corpus"}),
            ("compat", "from trellis.cli import main", {"cli"}),
            ("errors", "import trellis.text", {"text"}),
            ("nn", "from trellis.chain import torch\nfrom trellis.errors import ShapeError", set()),
            ("cli", "from trellis import __version__", set()),
        ],
    )
    def test_sees_upward_imports(self, part: str, code: str, found: set[str]) -> None:
        assert upward(part, ast.parse(code)) == found

    def test_sees_torch_at_module_level_only(self) -> None:
        code = (
            "import a\nif TYPE_CHECKING:\n    import b\nelse:\n    import c\ntry:\n    import d\nfinally:\n    pass\n"
        )
        tree = ast.parse(code + "class C:\n    import e\n    def f(self):\n        import g\n")
        assert {name for node in at_module_level(tree) for name in imported(node)} == set("acde")
