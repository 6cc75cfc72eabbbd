"""The folder of a training that may be killed at any moment: its state, and whether it can continue.

    state.json                            what is trained, with which settings and data, and whether it is finished
    checkpoint-*.safetensors, kept-*      where it can continue; only for families that train in epochs
    history.json, learning-curve.svg      the steps so far

What a new training does, by the state of the folder:

    state     checkpoints   how it came about                 a new training    with resume
    none      none          nothing was trained here          begins            begins
    begun     none          killed before the first one       begins again      begins again
    begun     some          running, killed or interrupted    is refused        continues
    finished  some          came to its own end               begins again      continues, for more epochs if asked to

The lock, not the state, says whether a training that has begun is running (`trellis.training.lock`). Only the
holder of the lock may make a `TrainingFolder`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from trellis import config, files
from trellis.errors import ConfigError, ModelError, NewerFormatError, StoreError, shown
from trellis.training.record import CURVE, HISTORY, read_json, write_json

FORMAT = 1
"""The version of state.json."""
STATE, CHECKPOINTS, KEPT = "state.json", "checkpoint-*.safetensors", "kept-*.safetensors"


@dataclass(slots=True)
class State:
    """What state.json holds; a training that continues must agree with `settings`, `data` and `machine`."""

    state: Literal["begun", "finished"]
    model: str
    started: str
    settings: dict[str, Any] = field(default_factory=dict)
    """Those that influence the weights, by the names under which they are set."""
    data: dict[str, Any] = field(default_factory=dict)
    """Fingerprints, by the name of what they describe."""
    machine: dict[str, Any] = field(default_factory=dict)
    format: int = FORMAT

    def __str__(self) -> str:
        return f"a {self.model} training that did not end, begun {self.started}"


class TrainingFolder:
    """The state of a training, from its beginning to its end; `home` is the folder that its user named."""

    def __init__(
        self,
        path: Path,
        model: str,
        *,
        home: Path | None = None,
        resume: bool = False,
        overwrite: bool = False,
        is_main: bool = True,
    ) -> None:
        """Look at the folder and refuse what would lose work; nothing is written yet.

        If several processes train together, only the main one writes and checks.
        """
        self.path, self.home, self._is_main = path, home or path, is_main
        self.resuming = resume and has_checkpoints(path)
        self.keep = False  # the checkpoints of a finished training
        if is_main:
            files.remove_partial(path)
        before = self._before(model, resume, overwrite) if is_main else None
        now = datetime.now(UTC).isoformat(sep=" ", timespec="seconds")
        self._state = before if before is not None and self.resuming else State("begun", model, now)
        self._has_begun = False

    def identify(
        self,
        *,
        settings: Mapping[str, Any] | None = None,
        data: Mapping[str, Any] | None = None,
        machine: Mapping[str, Any] | None = None,
    ) -> None:
        """Say what is trained; a training that continues must be the same one. The first call begins it."""
        if not self._is_main:
            return
        given = {"settings": settings or {}, "data": data or {}, "machine": machine or {}}
        for part, values in given.items():
            known = getattr(self._state, part)
            for name, now in values.items():
                if name in known and known[name] != now:
                    raise _REFUSALS[part](name, known[name], now)
        if not self._has_begun and not self.resuming:
            self.clear()
        self._has_begun = True
        for part, values in given.items():
            getattr(self._state, part).update(values)
        self._write("begun")

    def finish(self) -> None:
        """The training ended by itself and its result is saved: its files are removed, unless they are to be kept."""
        if self.keep or self.path == self.home:
            self._write("finished")
        else:
            self._remove()

    @property
    def can_go_on(self) -> bool:
        """Whether there are checkpoints."""
        return has_checkpoints(self.path)

    def close(self) -> None:
        """Remove everything of a training that cannot be continued."""
        if self.path != self.home and not self.can_go_on:
            self._remove()

    def clear(self) -> None:
        """Remove all files of a training."""
        for name in (HISTORY, CURVE, CHECKPOINTS, KEPT, STATE):
            for path in self.path.glob(name):
                path.unlink()

    def _remove(self) -> None:
        if self._is_main:
            files.remove_folder(self.path)

    def _before(self, model: str, resume: bool, overwrite: bool) -> State | None:
        """What was trained here before, if a new training may replace or continue it."""
        if overwrite or not has_checkpoints(self.path):
            return None
        try:
            before = read_state(self.path)
        except StoreError as error:
            if resume and isinstance(error, NewerFormatError):
                raise
            if resume:
                raise StoreError(f"cannot resume: {error}; {self._discard}, and begin again") from None
            before = None
        if not resume and (before is None or before.state == "begun"):
            raise self._unfinished("the checkpoints of a training that did not end" if before is None else str(before))
        if resume and before is None:
            missing = f"{self.path} holds checkpoints, but no {STATE} to say of which training"
            raise ModelError(f"cannot resume: {missing}; {self._discard}, and begin again")
        if resume and before is not None and before.model != model:
            raise ModelError(f"cannot resume: {self.home} holds {before}, not one of {model}")
        return before

    def _unfinished(self, what: str) -> ModelError:
        continued = "continue it with --resume (in Python, resume=True)"
        return ModelError(f"{self.home} holds {what}: {continued}, or {self._discard}")

    @property
    def _discard(self) -> str:
        """What to do with a training that nobody wants, or can, continue."""
        return (
            "remove its files"
            if self.path == self.home
            else f"discard it with --overwrite (in Python, remove {self.path})"
        )

    def _write(self, state: Literal["begun", "finished"]) -> None:
        if not self._is_main:
            return
        self._state.state = state
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{self.path} cannot be written: {error.strerror}") from None
        write_json(self.path / STATE, asdict(self._state))


def has_checkpoints(path: Path) -> bool:
    """Whether a training left something to continue from."""
    return next(path.glob(CHECKPOINTS), None) is not None


def read_state(path: Path) -> State | None:
    """What is known about the training in this folder."""
    values = read_json(path / STATE)
    if values is not None and not isinstance(values, dict):
        raise StoreError(f"{path / STATE} does not describe a training: expected a JSON object, found {shown(values)}")
    version = None if values is None else values.get("format")
    if isinstance(version, int) and version > FORMAT:
        raise NewerFormatError.of(path / STATE, version, FORMAT)
    try:
        return None if values is None else config.from_dict(State, values)
    except (ConfigError, AttributeError, TypeError) as error:
        raise StoreError(f"{path / STATE} does not describe a training: {error}") from None


def _other_setting(name: str, was: Any, now: Any) -> ConfigError:
    said = ["unset" if value is None else repr(value) for value in (was, now)]
    return ConfigError(f"cannot resume with another {name}: the training began with {said[0]}, now it is {said[1]}")


def _other_data(name: str, was: Any, now: Any) -> ModelError:
    said = ["none" if value is None else value for value in (was, now)]
    return ModelError(
        f"cannot resume: the {name} differ from those that the training began with (then {said[0]}, now {said[1]})"
    )


def _other_machine(name: str, was: Any, now: Any) -> ModelError:
    return ModelError(f"cannot resume: the training began with {name} {was!r}, now it is {now!r}")


_REFUSALS = {"settings": _other_setting, "data": _other_data, "machine": _other_machine}
