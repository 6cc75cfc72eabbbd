"""Arrays in a file without a name: what is written is what is read, and a file that is cut off is an error."""

import os
import resource

import numpy as np
import pytest

from trellis.errors import StoreError
from trellis.models.crf.out_of_core import Scratch

ARRAYS = {
    "whole": np.arange(7),
    "bytes": np.arange(3, dtype=np.uint8),
    "none": np.empty((0, 4), dtype=np.float32),
    "table": np.arange(6.0).reshape(2, 3),
}


def test_sections_are_read_as_they_were_written(tmp_path):
    scratch = Scratch(tmp_path)
    sections = [scratch.append({name: array + i for name, array in ARRAYS.items()}) for i in range(3)]
    for i, section in enumerate(sections):
        found = scratch.read(section)
        assert found.keys() == ARRAYS.keys()
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(found[name], array + i)
            assert (found[name].dtype, found[name].shape) == ((array + i).dtype, array.shape)
        assert not found["table"].flags.writeable
        assert found["table"].ctypes.data % 64 == 0


def test_the_file_has_no_name_and_its_arrays_outlive_it(tmp_path):
    scratch = Scratch(tmp_path)
    found = scratch.read(scratch.append(ARRAYS))
    assert list(tmp_path.iterdir()) == []
    scratch.close()
    assert found["whole"].tolist() == list(range(7))


def test_a_truncated_file_is_an_error_and_no_crash(tmp_path):
    scratch = Scratch(tmp_path)
    section = scratch.append({"large": np.zeros(100_000)})
    scratch.read(section)
    os.ftruncate(scratch._file.fileno(), 4096)
    with pytest.raises(StoreError, match="was truncated while it was in use"):
        scratch.read(section)


def test_a_full_disk_is_an_error_that_says_where(tmp_path):
    scratch = Scratch(tmp_path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, before[1]))
    try:
        with pytest.raises(StoreError, match=f"in {tmp_path} has no room for 800,000 bytes more: File too large"):
            scratch.append({"large": np.zeros(100_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_folder_that_does_not_exist_is_an_error(tmp_path):
    with pytest.raises(StoreError, match="cannot be written: No such file or directory"):
        Scratch(tmp_path / "missing")
