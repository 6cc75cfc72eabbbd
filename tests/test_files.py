"""Atomic writes: whatever happens, the old file or the new one is there, and nothing else."""

import os
import stat
from pathlib import Path

import pytest

from trellis import files
from trellis.errors import DataError, StoreError


def test_the_new_content_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")
    files.write_text(target, "new\n")
    assert target.read_bytes() == b"new\n"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_an_error_in_the_block_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(UnicodeEncodeError), files.replacing(target) as partial:
        partial.write_text("half" * 100_000 + "\u00e9", encoding="ascii")
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_full_disk_is_one_clear_error_of_the_kind_asked_for(tmp_path: Path) -> None:
    message = r"a\.txt cannot be written: No space left on device"
    with pytest.raises(DataError, match=message), files.replacing(tmp_path / "a.txt", DataError):
        raise OSError(28, os.strerror(28))
    assert os.listdir(tmp_path) == []


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"none/a\.txt cannot be written: No such file or directory"):
        files.write_bytes(tmp_path / "none" / "a.txt", b"")


def test_permissions_follow_the_umask_which_is_never_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.umask(0o027)
    try:
        monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("another thread would make files with this mask"))
        files.write_bytes(tmp_path / "a", b"")
    finally:
        monkeypatch.undo()
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    for name in (".model.safetensors.0a1b2c3d.partial", ".hidden", "a.partial"):
        (tmp_path / name).touch()
    (tmp_path / ".checkpoints.0a1b2c3d.partial").mkdir()
    (tmp_path / ".checkpoints.0a1b2c3d.partial" / "x").touch()
    files.remove_partial(tmp_path)
    assert sorted(os.listdir(tmp_path)) == [".hidden", "a.partial"]


def test_a_folder_is_removed_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").touch()
    monkeypatch.setattr(files.shutil, "rmtree", lambda *_, **__: None)  # as if killed here
    files.remove_folder(tmp_path / "a")
    assert not (tmp_path / "a").exists()
    monkeypatch.undo()
    files.remove_partial(tmp_path)
    assert os.listdir(tmp_path) == []
    files.remove_folder(tmp_path / "a")


def test_a_symbolic_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "a.txt")
    for content in ("new", "newer"):
        files.write_text(tmp_path / "link", content)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "real" / "a.txt").read_text() == content
    assert os.listdir(tmp_path / "real") == ["a.txt"]


def test_what_is_not_a_regular_file_is_never_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StoreError, match="pipe cannot be written: it is not a regular file"):
        files.write_text(tmp_path / "pipe", "new")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    with pytest.raises(StoreError, match="cannot be written: it is a folder"):
        files.write_text(tmp_path, "new")


@pytest.mark.parametrize("name", ["a\0b", "x" * 5000])
def test_a_name_that_no_file_can_have(name: str) -> None:
    with pytest.raises(StoreError, match="cannot be written"):
        files.write_text(name, "new")
