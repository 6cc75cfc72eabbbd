"""Folders with a model card, and the Hub, whose place a stand-in takes."""

import sys
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from typer.testing import CliRunner

import trellis
from trellis import CRF, corpus, demo
from trellis.cli import app
from trellis.compat.transformers import from_pretrained, pipeline, push_to_hub, save_pretrained
from trellis.errors import ConfigError, StoreError
from trellis.models.folder import read_record

TOKENS = [["Maria", "Berg", "flew", "to", "Lima"], []]


def front_matter(folder: Path) -> dict[str, Any]:
    """As the Hub reads it."""
    return huggingface_hub.ModelCard.load(folder / "README.md").data.to_dict()


def test_a_folder_opens_with_the_same_answers(tagger: CRF, tmp_path: Path) -> None:
    folder = save_pretrained(tagger, tmp_path / "names", license="mit", language="en")
    for opened in (from_pretrained(folder), from_pretrained(str(folder)), trellis.load(folder)):
        assert opened.predict(TOKENS) == tagger.predict(TOKENS)
    found = front_matter(folder)
    assert found["license"] == "mit"
    assert found["language"] == "en"
    assert found["pipeline_tag"] == "token-classification"
    assert found["tags"] == ["trellis", "sequence-labelling", "crf"]
    card = (folder / "README.md").read_text()
    assert "# names\n" in card
    assert all(f"`{label}`" in card for label in tagger.labels_)
    assert "## Figures" not in card


def test_without_a_licence_the_card_names_none(tagger: CRF, tmp_path: Path) -> None:
    assert "license" not in front_matter(save_pretrained(tagger, tmp_path))


def test_figures_of_a_training_stand_on_the_card_and_paths_do_not(tmp_path: Path) -> None:
    data = demo.english()
    corpus.write(tmp_path / "train.conll", data.train[:60])
    corpus.write(tmp_path / "test.conll", data.test[:20])
    options = ["--test", tmp_path / "test.conll", "--model", "crf", "--out", tmp_path / "model"]
    result = CliRunner().invoke(app, ["train", "--train", *map(str, [tmp_path / "train.conll", *options])])
    assert result.exit_code == 0, result.output
    folder = save_pretrained(tmp_path / "model", tmp_path / "ready")
    card = (folder / "README.md").read_text()
    figures = read_record(tmp_path / "model")["figures"]["test"]
    row = next(line for line in card.splitlines() if line.startswith("| test.conll"))
    assert [cell.strip() for cell in row.split("|")[2:-1]] == [f"{value:.4f}" for value in figures.values()]
    assert read_record(folder)["figures"]["test"] == figures
    for file in ("README.md", "training.json"):
        assert str(tmp_path) not in (folder / file).read_text()


class StandIn:
    """The three calls of the Hub that are made, kept in a folder."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.calls: list[tuple[Any, ...]] = []

    def HfApi(self, token: str | None) -> "StandIn":
        self.calls.append(("token", token))
        return self

    def create_repo(self, name: str, *, private: bool | None, exist_ok: bool) -> None:
        self.calls.append(("create", name, private, exist_ok))

    def upload_folder(self, *, repo_id: str, folder_path: str, commit_message: str) -> str:
        target = self.place / repo_id
        target.mkdir(parents=True)
        for file in Path(folder_path).iterdir():
            (target / file.name).write_bytes(file.read_bytes())
        self.calls.append(("upload", repo_id, commit_message))
        return f"https://hub/{repo_id}/commit/1"

    def snapshot_download(self, name: str, **options: Any) -> str:
        self.calls.append(("download", name, options["revision"]))
        if not (self.place / name).is_dir():
            raise FileNotFoundError("404")
        return str(self.place / name)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    own = StandIn(tmp_path / "hub")
    for name in ("HfApi", "snapshot_download"):
        monkeypatch.setattr(huggingface_hub, name, getattr(own, name))
    monkeypatch.chdir(tmp_path)
    return own


def test_what_is_pushed_comes_back(tagger: CRF, hub: StandIn) -> None:
    address = push_to_hub(tagger, "ada/names", license="mit", private=True, token="secret")
    assert address == "https://hub/ada/names/commit/1"
    assert from_pretrained("ada/names", revision="v1").predict(TOKENS) == tagger.predict(TOKENS)
    assert pipeline("ner", model="ada/names")("Maria slept.") == pipeline("ner", model=tagger)("Maria slept.")
    assert hub.calls == [
        ("token", "secret"),
        ("create", "ada/names", True, True),
        ("upload", "ada/names", "Add a Trellis tagger"),
        ("download", "ada/names", "v1"),
        ("download", "ada/names", None),
    ]
    assert 'model="ada/names"' in (hub.place / "ada/names/README.md").read_text()


def test_a_model_that_is_nowhere(hub: StandIn) -> None:
    with pytest.raises(StoreError, match=r"'ada/none' is neither a file or folder here .* FileNotFoundError: 404"):
        from_pretrained("ada/none")
    for path in ("./none", "/none/at/all", "none", Path("ada/none")):
        with pytest.raises(StoreError, match="expected a file, a folder, or a name of the Hub such as owner/model"):
            from_pretrained(path)
    assert [call for call in hub.calls if call[0] == "download"] == [("download", "ada/none", None)]


def test_without_the_library_of_the_hub(tagger: CRF, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ConfigError, match=r"push_to_hub needs huggingface_hub: pip install 'trellis-crf\[hub\]'"):
        push_to_hub(tagger, "ada/names")
    with pytest.raises(ConfigError, match=r"the model 'ada/names' of the Hub needs huggingface_hub"):
        from_pretrained("ada/names")
