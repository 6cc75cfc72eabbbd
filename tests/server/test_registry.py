"""Models that change while they are served: a whole new one takes the place, a broken one changes nothing."""

import os
import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest

import trellis
from tests.cli.conftest import sentences
from tests.server.conftest import TEXT
from trellis.errors import ConfigError, StoreError
from trellis.models import CRF, folder
from trellis.server import ModelRegistry
from trellis.server import registry as server_registry
from trellis.server.problems import RequestError

MODEL = "model.safetensors"


def other_model(place: Path) -> None:
    """A model that differs in its labels."""
    renamed = [s.with_tags([tag.replace("PER", "HUMAN") for tag in s.tags or ()]) for s in sentences()]
    folder.save_model(place, CRF(features="ner", c2=0.1).fit(renamed))


def test_nothing_happens_while_nothing_changes(own_folders: dict[str, Path]) -> None:
    registry = ModelRegistry(own_folders)
    before = registry.get("ner")
    assert registry.refresh() == []
    assert registry.get("ner") is before


def test_a_changed_model_takes_the_place_and_old_requests_end_on_the_old_one(own_folders: dict[str, Path]) -> None:
    registry = ModelRegistry(own_folders)
    before, version = registry.get("ner"), registry.get("ner").version
    other_model(own_folders["ner"])
    assert registry.refresh() == ["ner"]
    assert "B-HUMAN" in registry.get("ner").tagger.labels_
    assert "B-HUMAN" not in before.tagger.labels_
    assert registry.get("ner").version != version
    assert registry.refresh() == []


def test_the_version_is_that_of_the_content_not_of_the_file(own_folders: dict[str, Path]) -> None:
    registry, file = ModelRegistry(own_folders), own_folders["ner"] / MODEL
    before = registry.get("ner")
    file.write_bytes(file.read_bytes())
    os.utime(file, ns=(1, 1))
    assert registry.refresh() == []
    assert (registry.get("ner").tagger, registry.get("ner").version) == (before.tagger, before.version)
    assert ModelRegistry(own_folders).get("ner").version == before.version
    other_model(own_folders["ner"])
    assert registry.refresh() == ["ner"]


@pytest.mark.parametrize("how", ["truncated", "garbage", "empty", "missing", "no folder", "a folder", "a device"])
def test_a_broken_model_changes_nothing_but_what_is_said(own_folders: dict[str, Path], how: str) -> None:
    place = own_folders["ner"]
    file, whole = place / MODEL, (place / MODEL).read_bytes()
    registry = ModelRegistry(own_folders)
    before = registry.get("ner")
    if how in ("truncated", "garbage", "empty"):
        file.write_bytes({"truncated": whole[: len(whole) // 2], "garbage": b"\xff" * 5000, "empty": b""}[how])
    elif how == "no folder":
        shutil.rmtree(place)
    else:
        file.unlink()
        if how == "a folder":
            file.mkdir()
        elif how == "a device":
            file.symlink_to("/dev/zero")
    for _ in range(2):
        assert registry.refresh() == []
        assert registry.get("ner") is before
        assert list(registry.problems) == ["ner"]
    assert str(place) not in registry.problems["ner"]
    assert place.parent.name not in registry.problems["ner"]
    if how == "a folder":
        file.rmdir()
    elif how == "a device":
        file.unlink()
    place.mkdir(exist_ok=True)
    other_model(place)
    assert registry.refresh() == ["ner"]
    assert registry.problems == {}


def test_a_broken_file_is_opened_once(own_folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    registry, file = ModelRegistry(own_folders), own_folders["ner"] / MODEL
    file.write_bytes(b"broken")
    os.utime(file, ns=(1, 1))
    load = Mock(side_effect=trellis.load)
    monkeypatch.setattr(server_registry, "load", load)
    for _ in range(3):
        assert registry.refresh() == []
        assert list(registry.problems) == ["ner"]
    load.assert_called_once_with(own_folders["ner"])


def test_a_model_that_comes_back_as_it_was_is_no_problem(own_folders: dict[str, Path], tmp_path: Path) -> None:
    registry = ModelRegistry(own_folders)
    os.rename(own_folders["ner"], tmp_path / "away")
    registry.refresh()
    assert registry.problems
    os.rename(tmp_path / "away", own_folders["ner"])
    assert registry.refresh() == []
    assert registry.problems == {}


def test_a_file_that_changes_within_a_tick_of_the_clock_is_opened(own_folders: dict[str, Path]) -> None:
    registry, file = ModelRegistry(own_folders), own_folders["ner"] / MODEL
    other_model(own_folders["ner"])
    whole = file.read_bytes()
    file.write_bytes(bytes(len(whole)))
    broken = file.stat().st_mtime_ns
    assert registry.refresh() == []
    with file.open("r+b") as stream:
        stream.write(whole)
    os.utime(file, ns=(broken, broken))
    assert registry.refresh() == ["ner"]
    assert registry.problems == {}


def test_a_model_file_may_be_served_by_itself(own_folders: dict[str, Path]) -> None:
    registry = ModelRegistry({"one": own_folders["ner"] / MODEL})
    assert registry.get().tagger(TEXT) == trellis.load(own_folders["ner"])(TEXT)


def test_what_cannot_be_opened_at_the_start_is_an_error_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=str(tmp_path)):
        ModelRegistry({"none": tmp_path / "nothing"})
    with pytest.raises(ConfigError, match="at least one model"):
        ModelRegistry({})


def test_an_unknown_name_is_told_the_nearest(registry: ModelRegistry) -> None:
    with pytest.raises(RequestError, match="no model 'sge'; did you mean 'seg'"):
        registry.get("sge")
