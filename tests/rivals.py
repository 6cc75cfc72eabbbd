"""Real packages on the aliases of trellis.compat: ``python -m tests.rivals``, which installs them into build/rivals.

- test suites of packages, from their source archives, with Trellis under the names of CRFsuite's packages
- answers of packages that bring a model, on 1,000 inputs each: the same with CRFsuite and with Trellis
- metrics and trainers that import seqeval

What cannot be installed is skipped, and the end says so. Anything else that fails, fails the run.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import sysconfig
import tarfile
import time
import venv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / "build" / "rivals"
PYTHON = HOME / "bin" / "python"
SECONDS = 330  # of all together
INPUTS = 1000
ALIASES = "pycrfsuite,sklearn_crfsuite,seqeval"

SUITES = {
    "python-crfsuite==0.9.12": [],
    "usaddress==0.5.16": ["probableparsing", "parserator==0.6.9", "lxml"],
    "probablepeople==0.5.6": ["probableparsing", "doublemetaphone", "parserator==0.6.9", "lxml"],
    "parserator==0.6.9": ["lxml"],
}
"""Packages whose own tests run, and what these need."""
NOT_IN_ARCHIVES = {"usaddress": "tests/test_labeling.py", "probablepeople": "tests/test_tagging.py"}
"""Tests whose data is only in the repositories: they run on clones in a folder that RIVALS_SOURCES names."""
_FORMASAURUS = ["formasaurus==0.10.0", "lxml", "lxml-html-clean", "parsel", "tldextract", "docopt", "platformdirs"]
CHECKS: dict[str, list[str]] = {
    "usaddress": ["usaddress==0.5.16", "probableparsing"],
    "probablepeople": ["probablepeople==0.5.6", "probableparsing", "doublemetaphone"],
    "crfcut": ["pythainlp==5.4.0"],
    "han_solo": ["pythainlp==5.4.0"],
    "pyvi": ["pyvi==0.1.1"],
    "formasaurus": _FORMASAURUS,
    "eli5": ["eli5==0.16.0", "tabulate", "graphviz"],
    "evaluate": ["evaluate==0.4.6", "datasets"],
    "span_marker": ["span_marker==1.8.1", "evaluate==0.4.6", "datasets"],
    "simpletransformers": ["simpletransformers==0.70.8", "datasets", "pandas"],
}
"""Functions of this file that are called ``answers_of_...``, and what they need."""
ALONE = (
    "simpletransformers",
    "span_marker",
    "formasaurus",
    "eli5",
    "parserator",
    "usaddress",
    "probablepeople",
    "pyvi",
)
"""Packages that are installed without what they ask for, most of which they do not need here."""


def _texts(words: str, lengths: tuple[int, int], joined: str = " ") -> Iterator[str]:
    draw = random.Random(0)
    for _ in range(INPUTS):
        yield joined.join(draw.choices(words.split(), k=draw.randint(*lengths)))


def answers_of_usaddress() -> Any:
    import usaddress

    words = (
        "123 45B N South Main Oak 3rd St Ave. Blvd Apt Suite # 7 Chicago, New York, IL NY 60601 P.O. Box & corner of"
    )
    return [usaddress.parse(text) for text in _texts(words, (2, 10))]


def answers_of_probablepeople() -> Any:
    import probablepeople

    words = "Mr Dr. John Mary A. van der Smith, Jones Jr. III and & The Bank of Acme Inc. LLC c/o Sons Trust MD"
    return [probablepeople.parse(text) for text in _texts(words, (1, 8))]


_THAI = "ฉัน ไป โรงเรียน และ กิน ข้าว ที่ บ้าน เมื่อ วาน นี้ อากาศ ดี มาก ครับ ค่ะ แต่ ฝน ตก ตอน เย็น เขา บอก ว่า 12 ABC"


def answers_of_crfcut() -> Any:
    from pythainlp.tokenize.crfcut import segment

    return [segment(text) for text in _texts(_THAI, (3, 30))]


def answers_of_han_solo() -> Any:
    from pythainlp.tokenize.han_solo import segment

    return [segment(text) for text in _texts(_THAI, (2, 12), joined="")]


def answers_of_pyvi() -> Any:
    from pyvi import ViPosTagger, ViTokenizer

    words = "trường đại học bách khoa Hà Nội sinh viên học sinh rất chăm chỉ , hôm nay trời đẹp tôi đi làm 2024 ."
    return [ViPosTagger.postagging(ViTokenizer.tokenize(text)) for text in _texts(words, (3, 20))]


def answers_of_formasaurus() -> Any:
    import formasaurus
    from formasaurus.html import load_html

    def form(names: str) -> str:
        fields = "".join(
            f'<label>{name}</label><input type="{"password" if "pass" in name else "text"}" name="{name}">'
            for name in names.split()
        )
        return f'<form action="/{names.split()[0]}" method="post">{fields}<input type="submit" value="Go"></form>'

    words = "user password email q search name address zip phone captcha remember comment url subject"
    found = []
    for names in _texts(words, (1, 6)):
        forms = formasaurus.extract_forms(load_html(f"<html><body>{form(names)}</body></html>"), proba=False)
        found.append([info for _, info in forms])
    return found


def _small_corpus() -> tuple[list[Any], list[Any]]:
    draw = random.Random(0)
    X = [[{"w": draw.choice("abcdef"), "n": draw.random()} for _ in range(6)] for _ in range(40)]
    return X, [["B-X" if item["w"] < "c" else "O" for item in items] for items in X]


def answers_of_eli5() -> Any:
    import eli5
    import sklearn_crfsuite

    model = sklearn_crfsuite.CRF(c2=0.1, epsilon=1e-9, delta=1e-12).fit(*_small_corpus())
    text = eli5.format_as_text(eli5.explain_weights(model, top=10))
    return [line.split()[1:] if line[:1] in "+-" else line for line in text.splitlines() if "Explained" not in line]


def answers_of_evaluate() -> Any:
    import evaluate
    from evaluate.utils.file_utils import DownloadConfig

    draw = random.Random(0)
    sides = [[draw.choices(["O", "B-X", "I-X", "B-Y", "I-Y"], k=9) for _ in range(INPUTS)] for _ in range(2)]
    try:
        metric = evaluate.load("seqeval", download_config=DownloadConfig(max_retries=0))
    except (FileNotFoundError, ConnectionError, OSError) as error:
        return f"skipped: evaluate fetches its metric from the Hub: {type(error).__name__}"
    figures = [metric.compute(predictions=sides[0], references=sides[1])]
    figures.append(metric.compute(predictions=sides[0], references=sides[1], mode="strict", scheme="IOB2"))
    return figures


def answers_of_span_marker() -> Any:
    from span_marker import evaluation

    draw = random.Random(0)
    sides = [[draw.choices(["O", "B-X", "I-X"], k=9) for _ in range(INPUTS)] for _ in range(2)]
    if not hasattr(evaluation, "seqeval"):
        from seqeval.metrics import classification_report  # what its metric calls by way of evaluate

        return classification_report(*sides, output_dict=True)
    return evaluation.seqeval.compute(predictions=sides[0], references=sides[1])


def answers_of_simpletransformers() -> Any:
    from simpletransformers.ner import ner_model

    draw = random.Random(0)
    sides = [[draw.choices(["O", "B-X", "I-X"], k=9) for _ in range(INPUTS)] for _ in range(2)]
    functions = (ner_model.precision_score, ner_model.recall_score, ner_model.f1_score, ner_model.classification_report)
    return [function(*sides) for function in functions]


def _environment() -> None:
    """A fresh environment that also sees what this one has, the editable Trellis too."""
    venv.create(HOME, clear=True, with_pip=False, symlinks=True)
    packages = HOME / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    outside = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "outside.pth").write_text("".join(f"import site; site.addsitedir({path!r})\n" for path in outside))


def _pip(seconds: float, *arguments: str) -> str | None:
    """The last line of what pip says if it fails."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(PYTHON)]
    constraints = ["-c", str(ROOT / "constraints.txt")] if arguments[0] == "install" else []
    try:
        done = subprocess.run(
            [*pip, *arguments, "--quiet", *constraints], capture_output=True, text=True, timeout=max(seconds, 1)
        )
    except subprocess.TimeoutExpired:
        return "no time left"
    return None if done.returncode == 0 else (done.stderr.strip().splitlines() or ["pip failed"])[-1]


def _run(seconds: float, *arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [str(PYTHON), "-W", "ignore", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=max(seconds, 1))


def main() -> None:
    """Run everything for which there is time; the exit status says whether something failed."""
    end = time.monotonic() + SECONDS
    skipped: list[str] = []
    failed: list[str] = []
    installed: dict[str, str | None] = {}

    def left() -> float:
        return end - time.monotonic()

    def install_all() -> None:
        """All packages by two calls; where one of them fails, `install` tries the packages one by one."""
        wanted = {r for needed in (*SUITES.values(), *CHECKS.values()) for r in needed} | {"usaddress==0.5.16"}
        alone = {requirement for requirement in wanted if requirement.partition("==")[0] in ALONE}
        for names, options in ((wanted - alone, []), (alone, ["--no-deps"])):
            if _pip(min(left(), 150), "install", *options, *sorted(names)) is None:
                installed.update(dict.fromkeys(names))

    def install(requirements: list[str]) -> str | None:
        for requirement in requirements:
            if requirement not in installed:
                alone = ["--no-deps"] if requirement.partition("==")[0] in ALONE else []
                installed[requirement] = _pip(min(left(), 60), "install", *alone, requirement)
            if installed[requirement] is not None:
                return f"{requirement}: {installed[requirement]}"
        return None

    def attempt(name: str, requirements: list[str], run: Callable[[], str]) -> None:
        problem = install(requirements)
        if problem is None:
            try:
                print(f"{name}: {run()}", flush=True)
                return
            except _SkippedError as reason:
                problem = str(reason)
            except subprocess.TimeoutExpired:
                problem = "no time left"
            except AssertionError as error:
                failed.append(name)
                print(f"{name}: FAILED\n{error}", flush=True)
                return
        skipped.append(name)
        print(f"{name}: skipped: {problem}", flush=True)

    def suite(package: str) -> str:
        name, _, version = package.partition("==")
        folder, without, note = Path(os.environ.get("RIVALS_SOURCES", HOME)) / name, [], ""
        if not (folder / "tests").is_dir():
            source = ("--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--dest", str(HOME))
            problem = _pip(left(), "download", *source, package)
            if problem is not None:
                raise _SkippedError(f"the source archive of {package}: {problem}")
            folder = HOME / f"{name.replace('-', '_')}-{version}"
            with tarfile.open(f"{folder}.tar.gz") as archive:
                archive.extractall(HOME, filter="data")
            if name in NOT_IN_ARCHIVES:
                without = [f"--ignore={NOT_IN_ARCHIVES[name]}"]
                note = f" (skipped {NOT_IN_ARCHIVES[name]}, whose data is not in the archive: see RIVALS_SOURCES)"
        # What is tested is the package that is installed: the one beside its tests may lack its model.
        sources, folder = folder.resolve(), HOME / "suites" / name
        folder.mkdir(parents=True)
        for path in sources.iterdir():
            if path.name == "tests" or not (path / "__init__.py").exists():
                (folder / path.name).symlink_to(path)
        pytest = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", *without)
        done = _run(left(), "-m", "trellis.compat", "--as", ALIASES, *pytest, folder=folder)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout.strip().splitlines()[-1] + note

    def compare(name: str) -> str:
        ours = ("-m", "trellis.compat", "--as", ALIASES, "-m", "tests.rivals", name)
        answers = []
        for arguments in (("-m", "tests.rivals", name), ours):
            done = _run(left(), *arguments)
            if done.returncode != 0:
                reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
                if not answers:  # it does not run with the real packages either
                    raise _SkippedError(f"fails without Trellis: {reason}")
                raise AssertionError(done.stderr[-3000:])
            answers.append(done.stdout)
        if answers[0].startswith('"skipped: '):
            raise _SkippedError(json.loads(answers[0]).removeprefix("skipped: "))
        assert answers[0] == answers[1], f"{answers[0][:500]}\nis, with Trellis,\n{answers[1][:500]}"
        return f"the same answers, {len(answers[0])} characters"

    _environment()
    problem = _pip(120, "install", "setuptools", "wheel", "cython")
    install_all()
    for package, requirements in SUITES.items():
        needed = requirements if package.startswith("python-crfsuite") else [package, *requirements]
        attempt(f"tests of {package}", needed, lambda package=package: suite(package))  # type: ignore[misc]
    for name, requirements in CHECKS.items():
        attempt(f"answers of {name}", requirements, lambda name=name: compare(name))  # type: ignore[misc]
    if problem is not None:
        print(f"source archives may not have been built: {problem}")
    print(f"failed: {', '.join(failed) or 'none'}; skipped: {', '.join(skipped) or 'none'}")
    sys.exit(bool(failed))


class _SkippedError(Exception):
    """Why something does not run here."""


if __name__ == "__main__":
    if len(sys.argv) == 2:
        answers = globals()[f"answers_of_{sys.argv[1]}"]()
        print(json.dumps(answers, ensure_ascii=False, default=float))
    else:
        main()
