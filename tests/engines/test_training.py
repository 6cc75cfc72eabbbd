"""Several processes train one model together, each with its own sentences."""

import json
import os
import signal
import time

import pytest

import trellis
from tests.training import processes
from trellis import corpus, demo

CRF = """
import json, sys
from trellis import CRF, demo
from trellis.training.process_group import together
data, options = demo.english(), json.loads(sys.argv[1])
with together() as team:
    model = CRF(max_iterations=12, **options).fit(team.share(data.train[:200]), dev=data.dev[:20])
p = model.parameters_
print(json.dumps({
    "losses": [step.loss for step in model.history_.steps], "dev": [step.dev for step in model.history_.steps],
    "names": p.index.names(), "labels": p.labels.tolist(), "ends": p.ends.tolist(),
    "weights": p.weights.tolist(), "tags": model.predict(data.test[:50]),
    "edges": None if p.edges is None else p.edges.index.names(),
}))
"""
HMM = """
import json, sys
from trellis import HMM, demo
from trellis.training.process_group import together
data = demo.english()
tokens = [s.tokens for s in data.train[:120]]
labels = [s.tags if i % int(sys.argv[1]) == 0 else [None] * len(s.tags) for i, s in enumerate(data.train[:120])]
with together() as team:
    own = slice(team.rank, None, team.count)
    model = HMM(max_iterations=20).fit(tokens[own], labels[own], dev=data.dev[:20])
print(json.dumps({
    "losses": [step.loss for step in model.history_.steps], "symbols": list(model.symbols_),
    "emissions": model.model_.parameters.emissions.tolist(), "tags": model.predict(data.test[:50]),
}))
"""


WITHOUT_TORCHRUN = "import os\ndel os.environ['WORLD_SIZE']\n"


def alike(code: str, count: int, argument: str) -> tuple[dict, dict]:
    """What one process without torchrun and the first of several print; all of these print the same."""
    [alone] = processes.run(WITHOUT_TORCHRUN + code, 1, argument)
    several = processes.run(code, count, argument)
    assert set(several) == {several[0]}
    return json.loads(alone), json.loads(several[0])


@pytest.mark.parametrize(
    "options",
    [
        {"features": "ner"},
        {"features": "ner", "min_freq": 2.0, "c1": 0.1},
        {"features": "ner", "all_possible_states": True, "order": 2, "pairs": 5},
    ],
    ids=["l2", "l1, frequent features", "order 2"],
)
def test_crf_of_two_processes_equals_that_of_one(options):
    alone, together = alike(CRF, 2, json.dumps(options))
    assert together["losses"] == pytest.approx(alone["losses"], rel=1e-9)
    assert together["weights"] == pytest.approx(alone["weights"], abs=1e-6)
    for exact in ("names", "labels", "ends", "tags", "dev", "edges"):
        assert together[exact] == alone[exact]


@pytest.mark.parametrize("out_of_core", [False, True], ids=["in memory", "out of core"])
@pytest.mark.parametrize(("precision", "most"), [("double", 1e-12), ("single", 1e-5)])
def test_sums_are_equal_up_to_rounding_for_any_number_of_processes(precision, most, out_of_core):
    code = CRF.replace(
        "data, options",
        "import trellis.models.crf.out_of_core\ntrellis.models.crf.out_of_core.BLOCK = 200\ndata, options",
    ).replace("max_iterations=12", "max_iterations=20")
    if out_of_core:  # then every process reads all sentences
        code = code.replace("team.share(data.train[:200])", "data.train[:200]")
    argument = json.dumps({"features": "ner", "precision": precision, "out_of_core": out_of_core})
    found = [processes.run(code, count, argument) for count in (1, 2, 2, 3)]
    assert all(len(set(group)) == 1 for group in found)
    assert found[1] == found[2], "the same number of processes gives the same bits"
    one, *others = (json.loads(group[0]) for group in found)
    for other in others:
        assert other["losses"] == pytest.approx(one["losses"], rel=most)
        for exact in ("names", "labels", "ends", "tags", "dev"):
            assert other[exact] == one[exact]


@pytest.mark.parametrize("count", [1, 3])
def test_crf_with_features_of_transitions(tmp_path, count):
    templates = tmp_path / "templates.txt"
    templates.write_text("U00:%x[0,0]\nU01:%x[-1,0]\nB\nB01:%x[0,0]\n")
    code = CRF.replace("max_iterations=12", "max_iterations=30")
    alone, together = alike(code, count, json.dumps({"features": str(templates), "precision": "double"}))
    assert together["edges"] == alone["edges"] != []
    assert together["losses"] == pytest.approx(alone["losses"], rel=1e-9)
    assert together["tags"] == alone["tags"]


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("every", ["1", "3"], ids=["counting", "Baum-Welch"])
def test_hmm_of_several_processes_equals_that_of_one(every, count):
    alone, together = alike(HMM, count, every)
    assert together["losses"] == pytest.approx(alone["losses"], rel=1e-9)
    assert together["symbols"] == alone["symbols"]
    assert together["tags"] == alone["tags"]


def test_algorithms_by_sentence_are_refused():
    code = CRF.replace("max_iterations=12", "algorithm='ap'")
    for returncode, _, errors in processes.finish(processes.start(code, 2, "{}")):
        assert returncode == 1
        assert "algorithm = 'ap', which goes from sentence to sentence, cannot be shared by 2 processes" in errors


def test_bad_labels_of_one_process_end_all():
    code = """
from trellis import CRF
from trellis.training.process_group import together
with together() as team:
    tags = [["B-X", "I-X"], ["O", "I-X" if team.rank else "O"]]
    CRF(features="ner", scheme="bio").fit([["a", "b"], ["c", "d"]], tags)
"""
    first, second = processes.finish(processes.start(code, 2))
    assert first[0] == second[0] == 1
    assert "labels of another process break the IOB2 scheme" in first[2]
    assert "sentence 1, position 1" in second[2]


ENDLESS = ["--set", "epsilon=0", "--set", "delta=0"]
TRAIN = "from trellis.cli import main; import sys; sys.exit(main())"


def train(folder, count: int, *options: str):
    return processes.start(
        TRAIN, count, "train", "--model", "crf", "--train", str(folder / "train.conll"), "--out", str(folder / "model"),
        "--set", "checkpoint_seconds=0", *options,
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    sentences = demo.english().train[:300]
    lines = ["\n".join(f"{t}\t{tag}" for t, tag in zip(s.tokens, s.tags, strict=True)) + "\n" for s in sentences]
    (tmp_path / "train.conll").write_text("\n".join(lines))
    return tmp_path


def wait_for_checkpoint(folder) -> None:
    deadline = time.monotonic() + 60
    while not list(folder.glob("model/checkpoints/checkpoint-*.safetensors")):
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("victim", [0, 1], ids=["the leader", "a follower"])
def test_a_lost_process_ends_the_others_and_another_number_goes_on(folder, victim):
    running = train(folder, 2, *ENDLESS)
    wait_for_checkpoint(folder)
    os.kill(running[victim].pid, signal.SIGKILL)
    outcomes = processes.finish(running)
    returncode, _, errors = outcomes[1 - victim]
    assert returncode == 1
    assert "lost another one of this training" in errors
    assert "Traceback" not in errors
    assert "third_party/gloo" not in errors, "places in gloo's source mean nothing to users"
    if victim == 1:
        assert "was saved" in errors
    assert not (folder / "model" / "model.safetensors").exists()
    [(returncode, _, errors)] = processes.finish(train(folder, 1, "--resume", *ENDLESS, "--set", "max_iterations=2"))
    assert returncode == 0, errors
    steps = trellis.load(folder / "model") and json.loads((folder / "model" / "history.json").read_text())["steps"]
    losses = [step["loss"] for step in steps]
    assert [step["iteration"] for step in steps] == list(range(1, len(steps) + 1))
    assert losses == sorted(losses, reverse=True)


def test_other_data_do_not_go_on(folder):
    running = train(folder, 1, *ENDLESS)
    wait_for_checkpoint(folder)
    os.kill(running[0].pid, signal.SIGKILL)
    processes.finish(running)
    with open(folder / "train.conll", "a") as file:
        file.write("\nmore\tO\n")
    [(returncode, _, errors)] = processes.finish(train(folder, 1, "--resume", *ENDLESS))
    assert returncode == 1
    assert "the training data differ" in errors


NEURAL = """
import json, sys
from trellis import NeuralTagger, demo
from trellis.corpus import Shards
data = demo.english()
model = NeuralTagger(
    encoder={
        "words": {"size": 8, "unknown": 0.0}, "characters": {"size": 4}, "hidden": 8,
        "locked_dropout": 0.0, "word_dropout": 0.0,
    },
    training={"epochs": int(sys.argv[2]), "batch_size": 16, "optimizer": "sgd", "learning_rate": 0.1, "clip": None,
              "window": 64, "accumulate": 2},
)
train = Shards(sys.argv[3]) if len(sys.argv) > 3 and sys.argv[3] != "resume" else data.train[:150]
model.fit(train, dev=data.dev[:51], folder=sys.argv[1], resume=sys.argv[-1] == "resume")
print(json.dumps({"dev": [s.dev for s in model.history_.steps], "losses": [s.loss for s in model.history_.steps],
                  "tags": model.predict(data.test[:40])}))
"""


@pytest.fixture
def shards(tmp_path):
    """Of sizes that neither windows nor processes divide."""
    sentences = demo.english().train[:150]
    (tmp_path / "shards").mkdir()
    for number, (first, last) in enumerate([(0, 41), (41, 90), (90, 91), (91, 150)]):
        corpus.write(tmp_path / "shards" / f"{number}.jsonl", sentences[first:last])
    return str(tmp_path / "shards")


@pytest.mark.parametrize("streamed", [False, True], ids=["in memory", "streamed"])
def test_neural_tagger_of_two_processes_equals_that_of_one(tmp_path, streamed, shards):
    given = [shards] if streamed else []
    [alone] = processes.run(NEURAL, 1, str(tmp_path / "one"), "3", *given)
    first, second = processes.run(NEURAL, 2, str(tmp_path / "two"), "3", *given)
    assert first == second
    alone, together = json.loads(alone), json.loads(first)
    assert together["losses"] == pytest.approx(alone["losses"], rel=1e-4)
    assert together["dev"] == pytest.approx(alone["dev"], abs=0.01)
    assert together["tags"] == alone["tags"]


@pytest.mark.parametrize("streamed", [False, True], ids=["in memory", "streamed"])
def test_neural_training_goes_on_with_another_number_of_processes(tmp_path, streamed, shards):
    given = [shards] if streamed else []
    running = processes.start(NEURAL, 2, str(tmp_path / "model"), "200", *given)
    wait_for_checkpoint(tmp_path)
    os.kill(running[1].pid, signal.SIGKILL)
    outcomes = processes.finish(running)
    assert outcomes[0][0] != 0
    epochs = json.loads((tmp_path / "model/checkpoints/history.json").read_text())["steps"][-1]["iteration"] + 1
    [resumed] = processes.run(NEURAL, 1, str(tmp_path / "model"), str(epochs), *given, "resume")
    assert len(json.loads(resumed)["dev"]) == epochs
