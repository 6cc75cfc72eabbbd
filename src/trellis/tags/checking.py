"""Are these tags legal? Also conversion, which does not guess the meaning of illegal tags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trellis.errors import TagError
from trellis.tags.labels import Role, Style
from trellis.tags.schemes import Needs, Scheme, legal_steps, needs_after, needs_before
from trellis.tags.spans import make_label, parse_label, spans_from_tags, tags_from_spans


@dataclass(frozen=True)
class Violation:
    """One illegal step: ``tag`` at ``position`` after ``previous`` (None at the start), and why it is illegal.

    A sequence that stops too early is reported at its last position.
    """

    position: int
    tag: str
    previous: str | None
    reason: str


def validate_tags(tags: Sequence[str], scheme: Scheme, *, style: Style = Style.PREFIX) -> list[Violation]:
    """Every illegal label and step of one sequence, by position; an empty list means legal."""
    violations: list[Violation] = []
    legal = legal_steps(scheme)
    before: tuple[Role, str] | None = (Role.O, "")
    previous: str | None = None
    for position, tag in enumerate(tags):
        try:
            here: tuple[Role, str] | None = parse_label(tag, scheme, style)
        except TagError as error:
            violations.append(Violation(position, tag, previous, str(error)))
            here = None
        if before and here and not legal[before[0], here[0], int(before[1] == here[1])]:
            reason = _reason(before, here, scheme, style)
            violations.append(Violation(position, tag, previous, reason))
        before, previous = here, tag
    if before and previous is not None and not legal[before[0], Role.O, int(before[1] == "")]:
        earlier = tags[-2] if len(tags) > 1 else None
        violations.append(Violation(len(tags) - 1, previous, earlier, _reason(before, None, scheme, style)))
    return violations


def _reason(before: tuple[Role, str], here: tuple[Role, str] | None, scheme: Scheme, style: Style) -> str:
    """Why the step from ``before`` to ``here`` (None: the end) is illegal, naming what would be legal."""

    def spell(role: Role, kind: str) -> str:
        return make_label(role, kind, scheme, style)

    def either(needs: Needs, kind: str) -> str:
        return " or ".join(spell(role, kind) for role in sorted(needs.beside) if role in scheme.letters.values())

    needs = needs_after(scheme)
    if before[0] in needs.roles:
        came = "the sequence ends" if here is None else f"{spell(*here)} follows"
        if here is None or here[0] not in needs.beside or here[1] != before[1]:
            return f"{spell(*before)} must be followed by {either(needs, before[1])}, but {came}"
    assert here is not None
    return f"{spell(*here)} must follow {either(needs_before(scheme), here[1])}, not {spell(*before)}"


def convert_tags(
    tags: Sequence[str],
    source: Scheme,
    target: Scheme,
    *,
    style: Style = Style.PREFIX,
    target_style: Style | None = None,
    repair: bool = False,
) -> list[str]:
    """The same spans in another scheme (and style, if ``target_style`` says so).

    Illegal tags are a ``TagError``, unless ``repair`` asks to read them as conlleval does.
    """
    if not repair:
        violations = validate_tags(tags, source, style=style)
        if violations:
            first = violations[0]
            more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
            raise TagError(f"not legal {source.value} at position {first.position}: {first.reason}{more}")
    spans = spans_from_tags(tags, source, style=style)
    return tags_from_spans(spans, len(tags), target, style=target_style or style)
