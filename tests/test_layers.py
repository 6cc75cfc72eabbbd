"""Imports point down only: Python's layers by syntax trees, functions included, the rooms of C++ by their includes."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import trellis

ROOT = Path(trellis.__file__).parent
# From the bottom up. A part may import those of lower layers, and no other part of its own.
LAYERS = [
    ["errors", "lazy"],
    ["arrays", "files", "untrusted"],
    ["plots", "ragged", "results"],
    ["text", "tags", "config", "store", "symbols", "vectors"],
    ["chain"],
    ["features", "corpus", "metrics", "nn"],
    ["lexicon"],
    ["training"],
    ["models"],
    ["study"],
    ["compat", "demo", "distributed", "export", "server"],
    ["cli"],
]
MODEL_ROOMS = ("crf", "hmm", "neural")
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}
# Where torch may be imported as the module loads; everywhere else it waits for a function that needs it.
TORCH_FREE = ("training/neural/__init__.py", "training/neural/settings.py", "training/neural/batches.py")
TORCH_AT_HOME = (
    "chain/torch/",
    "nn/",
    "compat/torchcrf.py",
    "training/neural/",
    *(f"models/neural/{name}.py" for name in ("network", "training")),
)
FILES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py"))
MODELS = [file for file in FILES if file.startswith("models/") and file != "models/__init__.py"]


def test_contributing_lists_these_layers_and_what_is_in_them() -> None:
    page = (ROOT.parent.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    listed = re.search(r"Imports only point downward: (.*?)\.\n", page, re.DOTALL)
    assert listed is not None
    assert [sorted(layer.split()) for layer in listed[1].split("<")] == [sorted(layer) for layer in LAYERS]
    tree = page[page.index("src/trellis/\n") : page.index("\n    tests/")]
    assert [part for part in LEVEL if not re.search(rf"(?m)^ .*\b{part}(?:/|\.py)", tree)] == []
    rooms = page[page.index("    native/ ") : page.index("    src/trellis/\n")]
    folders = [path.name for path in (ROOT.parent.parent / "native").iterdir() if path.is_dir()]
    assert [room for room in folders if f"      {room}/" not in rooms] == []


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


def names_in(file: str) -> list[str]:
    """The absolute names that a file imports anywhere."""
    return [name for node in ast.walk(ast.parse((ROOT / file).read_text())) for name in imported(node)]


@pytest.mark.parametrize("file", MODELS)
def test_rooms_do_not_import_each_other_and_what_they_share_imports_none(file: str) -> None:
    others = [f"trellis.models.{family}." for family in MODEL_ROOMS if not file.startswith(f"models/{family}/")]
    assert not [name for name in names_in(file) if name.startswith(tuple(others))]


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
    # The estimators that mirror others are those of scikit-learn, as the originals are.
    heavy = {"torch", "transformers", "tokenizers", "accelerate"}
    if file != "compat/parameters.py":
        heavy.add("sklearn")
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


NATIVE = Path(__file__).parents[1] / "native"
# A room may include itself and the rooms named here.
ROOMS: dict[str, tuple[str, ...]] = {
    "base": (),
    "chain": ("base",),
    "crfsuite": (),
    "features": ("base", "chain"),
    "hmm": ("base", "chain"),
    "layers": ("base", "chain"),
    "optimizers": ("base",),
    "segments": ("base", "chain"),
    "text": ("base",),
    "bind": ("base", "chain", "crfsuite", "features", "hmm", "layers", "optimizers", "segments", "text"),
}
SOURCES = sorted(path.relative_to(NATIVE).as_posix() for path in NATIVE.rglob("*") if path.suffix in (".h", ".cpp"))
# Headers that are compiled once per instruction set without saying so in their names, since every kernel needs them.
PRIMITIVES = ("base/memory.h", "chain/emission.h", "base/simd.h")
# Of these, what drivers may include too, each in a namespace of its own.
EITHER = {"base/memory.h", "chain/emission.h"}


def included(code: str) -> list[str]:
    """The files of ours that C++ code includes."""
    return re.findall(r'^#include "([^"]+)"', code, re.MULTILINE)


def is_kernel(file: str) -> bool:
    """Whether it is compiled once per instruction set."""
    return file in PRIMITIVES or Path(file).stem.endswith("_kernels")


def broken_rules(file: str, code: str) -> set[str]:
    """What is wrong with a source file of the native rooms."""
    room = file.split("/")[0]
    others = included(code)
    bases = {other.split("/")[0] for other in others}
    kernels = {other for other in others if is_kernel(other)} - EITHER
    found = {
        "includes upward": bool(bases - {room, *ROOMS[room]}),
        "binds outside bind": "nanobind" in code and room != "bind",
        "is a kernel by name only": is_kernel(file)
        != bool(re.search(r"^ *namespace .*TRELLIS_ISA\b|^TRELLIS_KERNELS", code, re.MULTILINE)),
        "includes kernels": bool(kernels) and not is_kernel(file),
    }
    return {rule for rule, broken in found.items() if broken}


@pytest.mark.parametrize("file", SOURCES)
def test_native_rooms_keep_their_rules(file: str) -> None:
    assert file.count("/") == 1
    assert broken_rules(file, (NATIVE / file).read_text()) == set()


def test_kernels_are_compiled_per_instruction_set_and_all_else_once() -> None:
    recipe = (NATIVE / "CMakeLists.txt").read_text()
    sets = {name: body.split() for name, body in re.findall(r"^set\((\w+)\s([^)]*)\)", recipe, re.MULTILINE)}
    compiled = [file for file in SOURCES if file.endswith(".cpp")]
    assert sets["kernels"] == [file for file in compiled if is_kernel(file)]
    bound = [file for file in compiled if file.startswith("bind/")]
    assert sets["bindings"] == bound
    assert sets["drivers"] == [file for file in compiled if not is_kernel(file) and file not in bound]


class TestTheCheckOfRoomsItself:
    @pytest.mark.parametrize(
        ("file", "code", "found"),
        [
            ("base/tasks.h", '#include "chain/batch.h"', {"includes upward"}),
            ("hmm/model.h", '#include "features/kernels.h"', {"includes upward"}),
            ("chain/inference.cpp", "#include <nanobind/nanobind.h>", {"binds outside bind"}),
            ("chain/layout.h", "namespace TRELLIS_ISA {", {"is a kernel by name only"}),
            ("chain/viterbi_kernels.h", "namespace trellis {", {"is a kernel by name only"}),
            ("chain/layout.cpp", '#include "base/simd.h"', {"includes kernels"}),
            ("bind/lstm.cpp", '#include "layers/lstm.h"\n#include <nanobind/nanobind.h>', set()),
            ("hmm/expectation_kernels.cpp", '#include "chain/lockstep_kernels.h"\nnamespace TRELLIS_ISA {', set()),
        ],
    )
    def test_sees_broken_rules(self, file: str, code: str, found: set[str]) -> None:
        assert broken_rules(file, code) == found


# What Python's headers write in capitals (PyList_GET_ITEM, Py_UNICODE_ISALPHA) looks into objects whose layout changes
# from version to version; one wheel for all of them cannot.
PRIVATE = re.compile(r"\bPy[A-Za-z]+_[A-Z][A-Z_]+\b|\bPy_UNICODE_\w+|\btp_\w+|<Python\.h>")


@pytest.mark.parametrize("file", SOURCES)
def test_native_code_uses_only_what_the_limited_api_has(file: str) -> None:
    code = re.sub(
        r"#if(?:ndef Py_| !defined\(Py_)LIMITED_API.*?#endif",
        "",
        (NATIVE / file).read_text(encoding="utf-8"),
        flags=re.S,
    )
    assert PRIVATE.findall(code) == []


def test_macros_that_look_into_objects_are_found() -> None:
    assert PRIVATE.findall("PyFloat_AS_DOUBLE(x); Py_UNICODE_ISALPHA(c); Py_INCREF(x); NB_LIST_GET_ITEM(x, 0)") == [
        "PyFloat_AS_DOUBLE",
        "Py_UNICODE_ISALPHA",
    ]
