"""What the site needs at build time: formulas as MathML, and the decisions in the navigation."""

import html
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

_FORMULA = re.compile(r'<(?P<element>div|span) class="arithmatex">\\[(\[](?P<tex>.*?)\\[)\]]</(?P=element)>', re.DOTALL)


def on_config(config: Any) -> Any:
    """List the decisions, each by its heading, in the order of their numbers."""
    folder = Path(config["docs_dir"])
    pages = sorted(path.relative_to(folder).as_posix() for path in folder.glob("decisions/*.md"))
    config["nav"].append({"Decisions": pages})
    return config


def on_page_content(content: str, **_: Any) -> str:
    """Replace every formula of a page; browsers draw MathML themselves, so a page needs no script."""
    return _FORMULA.sub(_to_mathml, content)


def _to_mathml(match: re.Match[str]) -> str:
    element = match["element"]
    display = "block" if element == "div" else "inline"
    formula = convert(html.unescape(match["tex"]), display=display)
    spaced = formula.replace("<mi>log</mi>", '<mrow><mi>log</mi><mspace width="0.167em" /></mrow>')
    return f'<{element} class="formula">{spaced}</{element}>'
