"""Options that several commands share. A command's parameter of one of these dataclasses stands for all its fields."""

from __future__ import annotations

import functools
import operator
import shlex
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import typer

from trellis import config, corpus, lexicon
from trellis.cli.tasks import FEATURES, Task
from trellis.corpus import OnBadTags
from trellis.corpus.annotation_tools import Align, Overlaps
from trellis.corpus.source import get_codec
from trellis.errors import ConfigError, StoreError, TrellisError, did_you_mean, number_of, shown
from trellis.lexicon import Lexicon
from trellis.models.crfsuite import is_file_of_crfsuite
from trellis.models.families import FAMILIES, get_family
from trellis.models.folder import model_file
from trellis.tags import Scheme
from trellis.text import splitter

# Options in the groups of a command's help; those of the first, basic group are plain `typer.Option`s.
data_option = partial(typer.Option, rich_help_panel="Data")
model_option = partial(typer.Option, rich_help_panel="Model")
lexicon_option = partial(typer.Option, rich_help_panel="Lexicon")
large_option = partial(typer.Option, rich_help_panel="Large data")


def checked(check: Callable[[str], object]) -> Callable[..., str | None]:
    """The callback of an option whose value the library checks: a wrong value is a mistake of usage."""

    def callback(param: typer.CallbackParam, value: str | None) -> str | None:
        if value is not None:
            try:
                check(value)
            except TrellisError as error:
                raise ConfigError(f"{param.opts[0]}: {error}") from None
        return value

    return callback


def one_of(names: Iterable[str]) -> Callable[..., str | None]:
    """The callback of an option that has one of these values."""
    known = tuple(names)

    def check(value: str) -> None:
        if value not in known:
            raise ConfigError(f"expected one of {', '.join(known)}, got {value!r}{did_you_mean(value, known)}")

    return checked(check)


def check_order(model: str, others: Sequence[str]) -> None:
    """Refuse arguments in the wrong order: no model where one is expected, and one behind it."""
    if not _is_model(model) and (found := next(filter(_is_model, others), None)) is not None:
        raise ConfigError(f"the model comes first: {shown(model)} is not a model, but {found} is")


def _is_model(path: str) -> bool:
    with suppress(StoreError):
        file = model_file(path)
        return file.is_file() and (file.suffix == ".safetensors" or is_file_of_crfsuite(file))
    return False


def suggest_setting(option: str, words: Sequence[str]) -> None:
    """Refuse an option that names a setting of models, saying how a setting is changed."""
    name = option.lstrip("-").replace("-", "_")
    families: dict[str, list[str]] = {}
    for family, about in FAMILIES.items():
        if (key := _by_last_part(about.defaults()).get(name)) is not None:
            families.setdefault(key, []).append(family)
    place = next((i for i, word in enumerate(words) if word.partition("=")[0] == option), len(words))
    value = next((word for word in [*" ".join(words[place : place + 1]).split("=")[1:], *words[place + 1 :]]), "VALUE")
    ways = [f"--set {key}={shlex.quote(value)} (of {', '.join(names)})" for key, names in families.items()]
    if ways:
        raise ConfigError(f"{option} is a setting, not an option: give {' or '.join(ways)}")


ModelArgument = Annotated[str, typer.Argument(metavar="DIR", help="Model folder or file.")]
OutOption = Annotated[str, typer.Option("--out", "-o", help="File or folder to write; - is standard output.")]
FormatOption = Annotated[
    str | None,
    data_option(
        callback=one_of(corpus.FORMATS),
        help=f"Format of the files: {', '.join(corpus.FORMATS)}; guessed if not given.",
    ),
]
SchemeOption = Annotated[
    str | None,
    data_option(
        callback=checked(Scheme.parse), help="Scheme of the tags: bio, bioes, bmes, iob1...; detected if not given."
    ),
]
TokenizerOption = Annotated[
    str | None,
    data_option(
        callback=checked(splitter),
        help="How raw text is split: words, english, characters, whitespace, regex:PATTERN, module:function or a "
        "tokenizers file (.json); otherwise like the training data.",
    ),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Say only what went wrong.")]
TaskOption = Annotated[
    Task | None,
    model_option(help="What the tags are for; picks features, scheme and metrics. Guessed from the tags if not given."),
]
_FAMILIES = "\n\n".join(f"[bold]{name}[/bold]: {family.about}" for name, family in FAMILIES.items())


@dataclass(frozen=True)
class Columns:
    tokens: Annotated[str | None, data_option(help="Column or field of the tokens, by name or index.")] = None
    tags: Annotated[str | None, data_option(help="Column or field of the tags, by name or index.")] = None
    columns: Annotated[str | None, data_option(help="Names of the columns, separated by commas.")] = None
    names: Annotated[
        str | None,
        data_option(help="Names of tags that are numbers, from 0, separated by commas; or a file with one per line."),
    ] = None
    encoding: Annotated[str, data_option(callback=checked(get_codec), help="Character encoding of the files.")] = (
        "utf-8"
    )

    @property
    def given(self) -> dict[str, Any]:
        """The options of a reader that were given; a column that is a number is an index."""
        options: dict[str, Any] = {}
        for key, name in (("tokens", self.tokens), ("tags", self.tags)):
            if name is not None:
                options[key] = int(name) if name.removeprefix("-").isdecimal() else name
        if self.columns is not None:
            options["columns"] = names_in(self.columns)
        if self.names is not None:
            is_file = "," not in self.names
            options["names"] = names_in(",".join(_lines(self.names)) if is_file else self.names)
        return options


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        problem = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"--names: expected names separated by commas or a file, got {path!r}: {problem}") from None


def names_in(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


@dataclass(frozen=True)
class Annotations:
    """How tags that break their scheme and spans of several annotators are read."""

    on_bad_tags: Annotated[
        str | None,
        data_option(
            callback=one_of(get_args(OnBadTags)),
            help="Tags that the scheme forbids or cannot read: error (default), repair as seqeval reads, drop the "
            "text.",
        ),
    ] = None
    align: Annotated[
        str | None,
        data_option(
            callback=one_of(get_args(Align)),
            help="At a span that cuts a token: split the token (default), expand the span, skip the text, error.",
        ),
    ] = None
    overlaps: Annotated[
        str | None,
        data_option(
            callback=one_of(get_args(Overlaps)),
            help="Of spans that overlap, take the longest or the first; error (default). Those left out are counted.",
        ),
    ] = None
    annotator: Annotated[
        str | None, data_option(help="Whose annotations to take where several people annotated a text.")
    ] = None
    majority: Annotated[
        bool, data_option("--majority", help="Take the spans that more than half of the annotators marked.")
    ] = False
    unapproved: Annotated[
        bool, data_option("--unapproved", help="Also take doccano's examples that nobody approved.")
    ] = False

    @property
    def bad_tags(self) -> OnBadTags:
        """The value of --on-bad-tags, "error" by default."""
        return cast("OnBadTags", self.on_bad_tags or "error")

    @property
    def spans(self) -> dict[str, Any]:
        names = ("align", "overlaps", "annotator", "majority", "unapproved")
        return {name: getattr(self, name) for name in names if getattr(self, name)}


def _family_name(name: str) -> str:
    """The name in lower case and with hyphens, if that is the name of a family."""
    usual = name.lower().replace("_", "-")
    return usual if usual in FAMILIES else name


@dataclass(frozen=True)
class Settings:
    """From ``--model``, ``--task``, ``--config`` and ``--set`` to the settings of a tagger."""

    model: Annotated[
        str,
        typer.Option(
            "--model", "-m", metavar="NAME", callback=_family_name, help=f"Family of the model.\n\n{_FAMILIES}"
        ),
    ]
    task: TaskOption = None
    config: Annotated[
        str | None, model_option("--config", help="TOML file of settings on top of the defaults; see trellis init.")
    ] = None
    set: Annotated[
        list[str] | None,
        model_option("--set", metavar="KEY=VALUE", help="Change a setting, e.g. training.epochs=3; may be repeated."),
    ] = None

    def settled(self, task: Task | None, scheme: Scheme | None = None) -> Any:
        """The family's defaults, then what the task asks for, then the file, then single assignments."""
        family, values = get_family(self.model), {}
        if family.kind == "crf" and task is not None:
            values["features"] = FEATURES[task]
        if scheme is None and task in (Task.SEG, Task.SEG_POS, Task.POS):
            scheme = Scheme.PLAIN if task is Task.POS else Scheme.BMES
        if scheme is not None:
            values["scheme"] = scheme.value.lower()
        settings = config.changed(family.defaults(), values)
        if self.config is not None:
            settings = config.layered(settings, self.config)
        known = _by_last_part(settings)
        sections = {key.partition(".")[0] for key in known.values()}
        for key in (assignment.partition("=")[0].strip() for assignment in self.set or ()):
            name = key.rpartition(".")[2]
            if name in known or key.partition(".")[0] in sections:
                continue
            # No similar name of this family is meant if other families have just this setting.
            others = {other: _by_last_part(family.defaults()) for other, family in FAMILIES.items()}
            if owners := ", ".join(f"{other} ({keys[name]})" for other, keys in others.items() if name in keys):
                raise ConfigError(f"the model {self.model} has no setting {key!r}; models that have it: {owners}")
        return config.override(settings, self.set or [])


def _by_last_part(settings: Any) -> dict[str, str]:
    """Keys of settings, such as training.epochs, by their last part."""
    return {key.rpartition(".")[2]: key for key in config.flat(settings)}


@dataclass(frozen=True)
class Lexicons:
    lexicon: Annotated[
        list[str] | None,
        lexicon_option(
            "--lexicon",
            metavar="FILE",
            help=f"Words or names that are known: {', '.join(lexicon.FORMATS)}, recognised, or a saved lexicon. "
            "May be repeated.",
        ),
    ] = None
    lexicon_format: Annotated[
        str | None,
        lexicon_option(
            "--lexicon-format",
            callback=one_of(lexicon.FORMATS),
            help=f"Format of the lexicons: {', '.join(lexicon.FORMATS)}.",
        ),
    ] = None
    strength: Annotated[
        str | None,
        lexicon_option(
            callback=checked(lexicon.parse_strength),
            help="Of entries without their own: prefer=2.0 (a bonus in log odds for the span), must (it is a span), "
            "or feature (as the model has learned).",
        ),
    ] = None
    lexicon_ignore_case: Annotated[
        bool, lexicon_option("--lexicon-ignore-case", help="Find the entries of lexicons in any case.")
    ] = False

    def read(self, usual: str, *, quiet: bool) -> Lexicon | None:
        """The entries of all files; of several with one surface and label, the last counts.

        The strength, or the `usual` one, is that of entries without their own; if it was given, it is also that of all
        entries of saved lexicons.
        """
        lexicons = (self._read(path, usual, quiet) for path in self.lexicon or ())
        return functools.reduce(operator.or_, lexicons) if self.lexicon else None

    def _read(self, path: str, usual: str, quiet: bool) -> Lexicon:
        strength = lexicon.parse_strength(self.strength or usual)
        if path.endswith(".safetensors"):
            stored = Lexicon.load(path)
            if self.lexicon_ignore_case:
                stored = Lexicon(stored, fold_case=True, fold_width=stored.folding.width, boundaries=stored.boundaries)
            return stored if self.strength is None else stored.with_strength(strength)
        entries = lexicon.read_entries(path, self.lexicon_format, strength, None)
        if not quiet:
            count = number_of(len(entries.entries), "entry", "entries")
            typer.echo(f"{path}: {count}, {entries.format} since {entries.reason}", err=True)
        return Lexicon(entries.entries, fold_case=self.lexicon_ignore_case)


@dataclass(frozen=True)
class Figures:
    """Which figures of a comparison with the right tags are shown, and how."""

    train: Annotated[
        str | None, data_option("--train", help="Training file, for recall or accuracy of known and unknown words.")
    ] = None
    errors: Annotated[bool, typer.Option("--errors", help="Also count the kinds of mistakes.")] = False
    interval: Annotated[
        bool, typer.Option("--interval", help="Also give a 95% bootstrap interval of the main figure.")
    ] = False
    json: Annotated[bool, typer.Option("--json", help="Write JSON instead of tables.")] = False
    markdown: Annotated[bool, typer.Option("--markdown", help="Write Markdown tables.")] = False
