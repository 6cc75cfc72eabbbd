"""From ``--model``, ``--task``, ``--config`` and ``--set`` to the settings of a tagger."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from trellis import config
from trellis.cli._tasks import FEATURES, Task
from trellis.errors import ConfigError
from trellis.models.families import FAMILIES, get_family
from trellis.tags import Scheme

_LISTED = "\n\n".join(f"[bold]{name}[/bold]: {family.about}" for name, family in FAMILIES.items())
ModelOption = Annotated[str, typer.Option("--model", "-m", metavar="NAME", help=f"Family of the model.\n\n{_LISTED}")]
TaskOption = Annotated[
    Task | None,
    typer.Option(help="What the tags are for; picks features, scheme and metrics. Guessed from the tags if not given."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, e.g. training.epochs=3; may be repeated."),
]


def start_settings(
    model: str,
    task: Task | None,
    config_file: str | None,
    assignments: list[str],
    scheme: Scheme | None = None,
) -> Any:
    """The family's defaults, then what the task asks for, then the file, then single assignments."""
    family = get_family(model)
    settings = config.changed(family.defaults(), _of_task(family.kind, task, scheme))
    if config_file is not None:
        settings = config.layered(settings, config_file)
    _check_owner(model, settings, assignments)
    return config.override(settings, assignments)


def _check_owner(model: str, settings: Any, assignments: list[str]) -> None:
    """A setting that only other families have is refused with their names: no similar one of this family is meant."""
    own = _last_parts(settings)
    sections = {key.partition(".")[0] for key in own.values()}
    for key in (one.partition("=")[0].strip() for one in assignments):
        name = key.rpartition(".")[2]
        if name in own or key.partition(".")[0] in sections:
            continue
        parts = {other: _last_parts(family.defaults()) for other, family in FAMILIES.items()}
        owners = ", ".join(f"{other} ({found[name]})" for other, found in parts.items() if name in found)
        if owners:
            raise ConfigError(f"the model {model} has no setting {key!r}; models that have it: {owners}")


def _last_parts(settings: Any) -> dict[str, str]:
    """The settings by the last part of their names."""
    return {key.rpartition(".")[2]: key for key in config.keys(settings)}


def _of_task(kind: str, task: Task | None, scheme: Scheme | None) -> dict[str, str]:
    found = {"features": FEATURES[task]} if kind == "crf" and task is not None else {}
    if scheme is None and task in (Task.SEG, Task.SEG_POS, Task.POS):
        scheme = Scheme.PLAIN if task is Task.POS else Scheme.BMES
    return found if scheme is None else found | {"scheme": scheme.value.lower()}
