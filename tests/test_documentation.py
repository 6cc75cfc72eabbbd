"""The documentation is true: snippets run, quotations stand in the files they name, links and names lead somewhere."""

import doctest
import importlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tools import pages
from tools.pictures import catalogue
from typer.testing import CliRunner

import trellis
from trellis import config, corpus, demo
from trellis.cli import app
from trellis.models.families import get_family

ROOT = Path(__file__).parent.parent
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
PACKAGE = Path(trellis.__file__).parent
FILES = (path.relative_to(PACKAGE.parent).with_suffix("") for path in PACKAGE.rglob("*.py"))
MODULES = sorted(".".join(file.parts).removesuffix(".__init__") for file in FILES)


def snippets(page: str, *languages: str) -> list[pages.Snippet]:
    return pages.snippets(ROOT / page, *languages)


def commands(text: str) -> Iterator[str]:
    """The `trellis` commands of a shell snippet, long lines joined; demo and server have tests of their own."""
    for line in text.replace("\\\n", " ").splitlines():
        bare = " ".join(shlex.split(line, comments=True))
        if "trellis" in bare.split() and not bare.startswith(("trellis demo", "trellis serve")):
            yield line


def run_command(line: str) -> None:
    """Run a command here, or by a shell where it has pipes or files to go to; fail on any exit code but 0."""
    if re.search(r"[|<>]", line):
        program = f'trellis() {{ {shlex.quote(sys.executable)} -c "from trellis.cli import main; main()" "$@"; }}'
        environment = os.environ | {"PYTHONPATH": str(PACKAGE.parent)}
        script = f"set -o pipefail; {program}; {line}"
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return
    result = CliRunner().invoke(app, shlex.split(line, comments=True)[1:])
    assert result.exit_code == 0, f"{line}\n{result.output}{result.exception!r}"


def write_corpora(folder: Path) -> None:
    """The files that the commands of the pages name: the corpora of the demo, shortened."""
    english, chinese = demo.english(), demo.chinese()
    for part, size in (("train", 200), ("dev", 50), ("test", 50)):
        corpus.write(folder / f"{part}.conll", getattr(english, part)[:size])
        corpus.write(folder / f"{part}.seg", getattr(chinese, part)[:size])
    for name in ("gold", "predicted", "old", "new"):
        corpus.write(folder / f"{name}.conll", english.test[:50])
    texts = (" ".join(sentence.tokens) for sentence in english.test[:5])
    lines = "".join(f"{text}\n" for text in texts)
    for name in ("text.txt", "pool.txt"):
        (folder / name).write_text(lines)


@pytest.fixture
def one_torch_thread() -> Iterator[None]:
    """Networks this small would wait for their threads most of the time."""
    count = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(count)


# The code of a Chinese page is that of the English one, which tests below see to.
CHINESE = [page for page in PAGES if page.startswith("docs/zh/")]
RUNNABLE = [page for page in PAGES if snippets(page, "python", "sh") and page not in ("README.zh-CN.md", *CHINESE)]


@pytest.mark.usefixtures("one_torch_thread")
@pytest.mark.parametrize("page", RUNNABLE)
def test_snippets_of_a_page_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_corpora(tmp_path)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    trained: set[str] = set()
    printed, learned = "", False
    for snippet in snippets(page, "python", "sh", "text"):
        if snippet.language == "python":
            printed += pages.run(snippet, page, names)
            learned |= pages.uses_training(snippet, trained)
        elif snippet.language == "sh":
            for line in commands(snippet.text):
                run_command(line)
        elif snippet.file == pages.OUTPUT:
            if not (learned and pages.alike(printed, snippet.text)):
                assert printed == snippet.text, f"{page}:{snippet.line}"
            printed, learned = "", False
        elif snippet.file:
            Path(snippet.file).parent.mkdir(exist_ok=True)
            Path(snippet.file).write_text(snippet.text, encoding="utf-8")
    assert not printed, f"{page} prints what it does not show"
    for file, picture in catalogue.drawn(page, names).items():
        shown = (ROOT / file).read_text(encoding="utf-8")
        same = pages.alike(picture, shown) if trained else picture == shown
        assert same, f"{file}: draw it with python -m tools.pictures"


SHOWING = [
    page for page in RUNNABLE if page.startswith(("docs/how-it-works/", "docs/guides/", "docs/quickstart", "README"))
]
ANSWERS = re.compile(
    r"^ *assert |(?<!self)\.(?:fit|predict|tag|evaluate|marginals|kbest|viterbi|log_partition)\(", re.MULTILINE
)


@pytest.mark.parametrize("page", SHOWING)
def test_blocks_that_compute_an_answer_print_one(page: str) -> None:
    silent = [block for block in snippets(page, "python") if ANSWERS.search(block.text) and "print(" not in block.text]
    assert [f"{page}:{block.line}" for block in silent] == []


SETTINGS = [(page, snippet) for page in PAGES for snippet in snippets(page, "toml")]


@pytest.mark.parametrize(("page", "snippet"), SETTINGS, ids=[f"{page}:{snippet.line}" for page, snippet in SETTINGS])
def test_settings_of_a_page_are_settings(page: str, snippet: pages.Snippet) -> None:
    config.from_toml(type(get_family("transformer-crf").defaults()), snippet.text, name=page)


QUOTED = [(page, snippet) for page in PAGES for snippet in snippets(page, "py", "cpp") if snippet.file]


@pytest.mark.parametrize(("page", "snippet"), QUOTED, ids=[f"{page}:{snippet.line}" for page, snippet in QUOTED])
def test_quoted_code_stands_in_the_file_it_names(page: str, snippet: pages.Snippet) -> None:
    assert snippet.file is not None
    assert snippet.text in (ROOT / snippet.file).read_text()


API = [page for page in PAGES if page.startswith("docs/api/")]


@pytest.mark.parametrize("page", API)
def test_names_of_the_reference_exist(page: str) -> None:
    listed = re.findall(
        r"^::: (\S+)$(?:\n    options:\n      members: \[(.*)\])?", (ROOT / page).read_text(), re.MULTILINE
    )
    names = [f"{name}.{member}" if member else name for name, members in listed for member in members.split(", ")]
    for name in names:
        home = max((module for module in MODULES if f"{name}.".startswith(f"{module}.")), key=len)
        found: object = importlib.import_module(home)
        for part in name.removeprefix(home).split(".")[1:]:
            found = getattr(found, part)


@pytest.mark.parametrize(("settings", "folder"), [("mkdocs.yml", "docs"), ("mkdocs.zh.yml", "docs/zh")])
def test_every_page_is_in_the_navigation(settings: str, folder: str) -> None:
    listed = re.findall(r"([\w/-]+\.md)$", (ROOT / settings).read_text(), re.MULTILINE)
    own = (
        CHINESE
        if folder == "docs/zh"
        else [page for page in PAGES if page not in CHINESE and "/decisions/" not in page]
    )
    assert sorted(f"{folder}/{page}" for page in listed) == [page for page in own if page.startswith("docs/")]


TRANSLATED = ("index.md", "quickstart.md", "performance.md", "guides/", "how-it-works/")


def test_every_guide_and_every_lesson_is_there_in_chinese() -> None:
    english = [page.removeprefix("docs/") for page in PAGES if page.startswith("docs/") and page not in CHINESE]
    expected = [page for page in english if page.startswith(TRANSLATED)]
    assert [page.removeprefix("docs/zh/") for page in CHINESE] == expected


def without_comments(page: str) -> list[tuple[str, str]]:
    """The blocks of a page with their languages; comments are translated."""
    found = snippets(page, "python", "sh", "toml", "text", "py", "cpp")
    return [(block.language, re.sub(r"(^|\s+)#.*", "", block.text, flags=re.MULTILINE)) for block in found]


def formulas(page: str) -> list[str]:
    """The formulas on lines of their own; words within them are translated."""
    found = re.findall(r"\$\$.*?\$\$", "\n".join(pages.prose(ROOT / page)), re.DOTALL)
    return [re.sub(r"\\text\{.*?\}", r"\\text{}", formula) for formula in found]


def figures(page: str) -> set[str]:
    """The decimals and the large numbers of a page's text."""
    return set(re.findall(r"(?<![\w.,])\d+(?:\.\d+|(?:,\d{3})+)(?![\w])", "\n".join(pages.prose(ROOT / page))))


def outline(page: str) -> list[int]:
    """How deep each heading of a page is."""
    return [len(mark) for mark in re.findall(r"^(#+) ", "\n".join(pages.prose(ROOT / page)), re.MULTILINE)]


@pytest.mark.parametrize("page", CHINESE)
def test_a_chinese_page_has_the_code_the_formulas_and_the_figures_of_the_english_one(page: str) -> None:
    english = page.replace("docs/zh/", "docs/")
    for part in (without_comments, formulas, figures, outline):
        assert part(page) == part(english)


# Other names for 词元, 标注器, 标注体系, 网格, 维特比, 流水线, 对比工具 and 未归一化概率.
OTHER_NAMES = re.compile("标记器|标签器|标注方案|标记体系|记号|栅格|篱笆|Viterbi|管线|竞品|竞争对手|非归一化")


@pytest.mark.parametrize("page", [*CHINESE, "README.zh-CN.md"])
def test_chinese_pages_use_the_words_of_the_glossary(page: str) -> None:
    text = re.sub(r"`[^`]*`|\*[^*]*\*", "", "\n".join(pages.prose(ROOT / page)))  # neither code nor titles of papers
    assert page.endswith("glossary.md") or OTHER_NAMES.findall(text) == []


def test_both_readmes_have_the_same_code_and_the_same_figures() -> None:
    pages = ("README.md", "README.zh-CN.md")
    code = ["".join(snippet.text for snippet in snippets(page, "python", "sh")) for page in pages]
    bare = [re.sub(r" *#.*", "", text) for text in code]  # comments are translated
    assert bare[0] == bare[1]
    rivals = r"\| .*(?:pytorch-crf|seqeval|CRFsuite|crfsuite|jieba|hmmlearn|Flair|transformers).*\| (.*) \|$"
    rows = [re.findall(rivals, (ROOT / page).read_text(), re.MULTILINE) for page in pages]
    speed = re.compile(r"[\d.]+ million|每秒 \d+ 万")  # the one kind of number that the languages write differently
    figures = [[re.findall(r"[\d.]+(?:e-\d+)?", speed.sub("", row)) for row in table] for table in rows]
    assert len(figures[0]) >= 5
    assert figures[0] == figures[1]


def test_the_figures_of_the_migration_guide_and_of_the_readme_are_those_of_the_page_about_performance() -> None:
    claims = re.compile(r"(?:[\d.]+ to )?[\d.]+(?=\s+times)")
    rows = [line for line in (ROOT / "docs/performance.md").read_text().splitlines() if line.startswith("|")]
    measured = set(re.findall(r"[\d.]+", " ".join(rows)))
    guide = "\n".join("\n".join(pages.prose(ROOT / page)) for page in ("docs/guides/migrating.md", "README.md"))
    figures = {figure for claim in claims.findall(guide) for figure in re.findall(r"[\d.]+", claim)}
    assert len(figures) >= 8
    assert figures <= measured


LESSONS = [page for page in PAGES if page.startswith("docs/how-it-works/")]


@pytest.mark.parametrize("page", LESSONS)
def test_decimals_in_the_text_of_a_lesson_are_computed_by_its_code(page: str) -> None:
    decimal = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.])")
    computed = set(decimal.findall(" ".join(snippet.text for snippet in snippets(page, "python", "text"))))
    values = {float(figure) for figure in computed}
    assert {
        figure for figure in decimal.findall("\n".join(pages.prose(ROOT / page))) if float(figure) not in values
    } == set()


@pytest.mark.parametrize(
    ("settings", "folder", "previous", "following"),
    [("mkdocs.yml", "docs", "Previous: ", "Next: "), ("mkdocs.zh.yml", "docs/zh", "上一页：", "下一页：")],
)
def test_lessons_lead_from_one_to_the_next_in_the_order_of_the_navigation(
    settings: str, folder: str, previous: str, following: str
) -> None:
    lessons = re.findall(r"how-it-works/([\w-]+\.md)$", (ROOT / settings).read_text(), re.MULTILINE)
    before, after = [], []
    for lesson in lessons:
        text = "\n".join(pages.prose(ROOT / folder / "how-it-works" / lesson))
        before += re.findall(rf"{previous}.*?\]\(([^)]+)\)", text)
        after += re.findall(rf"{following}.*?\]\(([^)]+)\)", text)
    assert before == lessons[:-1]
    assert after == lessons[1:]


@pytest.mark.parametrize("page", PAGES)
def test_links_between_pages_lead_somewhere(page: str) -> None:
    links = re.findall(r"\]\((?!http|#)([^)#]+)", "\n".join(pages.prose(ROOT / page)))
    assert [link for link in links if not (ROOT / page).parent.joinpath(link).exists()] == []


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_give_what_they_say(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_the_limits_in_the_guide_are_those_of_the_code():
    from trellis import store
    from trellis.chain import problems
    from trellis.corpus import LONGEST

    deepest = re.search(r"kDeepest = (\d+)", "".join(path.read_text() for path in ROOT.glob("native/**/*.cpp")))
    guide = (ROOT / "docs/guides/untrusted.md").read_text()
    assert deepest is not None
    for limit in (LONGEST, problems.MOST_TAGS, store._LONGEST_HEADER, int(deepest[1]), sys.get_int_max_str_digits()):
        assert f"| {limit:,} " in guide, limit


@pytest.mark.parametrize("page", ["docs/guides/formats.md", "docs/zh/guides/formats.md"])
def test_every_kind_of_file_is_on_the_page_that_people_search(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    table = "".join(line for line in text.splitlines() if line.startswith("| "))
    headings = "".join(line for line in text.splitlines() if line.startswith("## "))
    for name in ("CSV", "Excel", "pandas", "brat", "Jupyter"):
        assert name in table
        assert name in headings
    kinds = (
        ".conll",
        "conll-u",
        "json lines",
        "doccano",
        "prodigy",
        "label studio",
        ".spacy",
        ".csv",
        ".ann",
        "parquet",
    )
    assert [kind for kind in kinds if kind not in text.lower()] == []
