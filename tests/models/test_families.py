"""From the name of a family, or the kind of a stored model, to a tagger."""

import pytest

from trellis import CRF
from trellis.errors import ConfigError, ModelError, StoreError, required
from trellis.models import families


def test_families_are_made_by_name():
    settings = families.get_family("crf").defaults()
    assert isinstance(families.make_tagger(families.get_family("crf"), settings), CRF)
    assert not families.FAMILIES["hmm"].neural
    assert families.FAMILIES["bilstm-softmax"].neural
    with pytest.raises(ConfigError, match="unknown model 'bilstm': expected one of hmm, crf,"):
        families.get_family("bilstm")
    with pytest.raises(StoreError, match="unknown kind 'horse'"):
        families.tagger_class("horse")


def test_what_needs_a_library_that_is_missing_says_how_to_get_it():
    missing = ModuleNotFoundError("No module named 'torch'", name="torch")
    with (
        pytest.raises(ModelError, match=r"training needs torch: pip install 'trellis-crf\[neural\]'"),
        required("training", "trellis-crf[neural]", ModelError),
    ):
        raise missing
    broken = ModuleNotFoundError("No module named 'trellis.wrong'", name="trellis.wrong")
    with pytest.raises(ModuleNotFoundError), required("training", "trellis-crf[neural]", ModelError):
        raise broken


def test_a_family_that_needs_a_setting_says_so():
    family = families.get_family("transformer-crf")
    with pytest.raises(
        ConfigError, match=r"needs the setting .encoder\.transformer., .* --set encoder\.transformer=bert"
    ):
        families.make_tagger(family, family.defaults())
