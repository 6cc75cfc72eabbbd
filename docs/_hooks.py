"""What the site needs at build time: formulas as MathML, pictures, the decisions, and links between the languages."""

import html
import posixpath
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

DOCS = Path(__file__).parent
_FORMULA = re.compile(r'<(?P<element>div|span) class="arithmatex">\\[(\[](?P<tex>.*?)\\[)\]]</(?P=element)>', re.DOTALL)
_PICTURE = re.compile(r'<p><img alt="[^"]*" src="(?P<source>[^"]+\.svg)" /></p>')
_SOLUTIONS = re.compile(
    r'(<summary>(?:Solutions|答案)</summary>.*?)</details>((?:\s*<div class="[^"]*highlight">.*?</pre></div>)+)',
    re.DOTALL,
)
_CHINESE = "\u4e00-\u9fff，。；：、（）“”！？"
_GAP = re.compile(rf"(?<=[{_CHINESE}])\n(?=[{_CHINESE}])|(?<=[，。；：、）”！？])\n")
_FUNCTION = re.compile(r"<mi>log</mi>|<mi>exp</mi>(?!<mo)")
_LINK = re.compile(r"\]\((?P<path>\.\./[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
_OUTSIDE = "outside:"
_LANGUAGES = {"en": "English", "zh": "中文"}


def on_config(config: Any) -> Any:
    """List the decisions, each by its heading, in the order of their numbers."""
    folder = Path(config["docs_dir"])
    pages = sorted(path.relative_to(folder).as_posix() for path in folder.glob("decisions/*.md"))
    if pages:
        config["nav"].append({"Decisions": pages})
    return config


def on_files(files: Any, *, config: Any) -> Any:
    """Give the Chinese site the same style and the same script."""
    if Path(config["docs_dir"]) != DOCS:
        for path in sorted((DOCS / "assets").iterdir()):
            files.append(File.generated(config, f"assets/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Mark links that leave this site for that of the other language, which is built beside it."""
    folder = Path(config["docs_dir"]).relative_to(DOCS).as_posix()
    place = posixpath.dirname(page.file.src_uri)

    def mark(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, place, match["path"]))
        if folder == "." or target == folder or target.startswith(f"{folder}/"):
            return match[0]
        path = re.sub(r"\.md$", ".html", match["path"])
        return f"]({_OUTSIDE}{path}{match['anchor'] or ''})"

    return _LINK.sub(mark, markdown)


def on_page_content(content: str, *, page: Any, config: Any, **_: Any) -> str:
    """Put formulas and pictures into the page itself, in the reader's colours, and solve exercises only when asked."""
    content = _FORMULA.sub(_to_mathml, content.replace(f'"{_OUTSIDE}', '"'))
    content = _SOLUTIONS.sub(r"\1\2</details>", content)  # the code of the solutions, too
    parts = re.split(r"(<pre.*?</pre>)", content, flags=re.DOTALL)  # a line break in Chinese is no space
    content = "".join(part if part.startswith("<pre") else _GAP.sub("", part) for part in parts)
    folder = Path(config["docs_dir"]) / posixpath.dirname(page.file.src_uri)
    return _PICTURE.sub(lambda match: _inlined(match, folder), content)


def on_page_context(context: Any, *, page: Any, config: Any, **_: Any) -> Any:
    """Let the switch of languages lead to the same page in the other language, or to its first page."""
    config["extra"]["alternate"] = [
        {"name": name, "lang": language, "link": _counterpart(language, page, config)}
        for language, name in _LANGUAGES.items()
    ]
    return context


def _counterpart(language: str, page: Any, config: Any) -> str:
    own = "zh" if Path(config["docs_dir"]).name == "zh" else "en"
    roots = {"en": DOCS, "zh": DOCS / "zh"}
    found = page.file.src_uri if (roots[language] / page.file.src_uri).exists() else "index.md"
    way = {("en", "zh"): "zh/", ("zh", "en"): "../"}.get((own, language), "")
    return way + found.removesuffix(".md") + ".html"


def _inlined(match: re.Match[str], folder: Path) -> str:
    picture = (folder / match["source"]).read_text(encoding="utf-8")
    return f'<div class="figure">{picture}</div>' if 'class="picture"' in picture else match[0]


def _to_mathml(match: re.Match[str]) -> str:
    element = match["element"]
    display = "block" if element == "div" else "inline"
    # On a phone they stand one below the other.
    parts = re.split(r"\s+(?=\\qquad)|\n(?=[=+-]|\\ge)", html.unescape(match["tex"]))
    formula = "".join(convert(part, display=display) for part in parts)
    if "\\" in formula:
        raise PluginError(f"a command that latex2mathml does not know, in {match['tex']}")
    spaced = _FUNCTION.sub(r'<mrow>\g<0><mspace width="0.167em" /></mrow>', formula)
    return f'<{element} class="formula">{spaced}</{element}>'
