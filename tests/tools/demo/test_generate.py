"""The generator of the demo's corpora gives what the package ships."""

import pytest
from tools.demo.generate import CHINESE, DATA, ENGLISH, main, write


@pytest.mark.parametrize("recipe", [ENGLISH, CHINESE])
def test_the_generator_gives_the_files_of_the_package_byte_for_byte(recipe, tmp_path):
    write(recipe, tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [f"{recipe.grammar}-{part}.{recipe.suffix}" for part in ("dev", "test", "train")]
    for name in names:
        assert (tmp_path / name).read_bytes() == (DATA / name).read_bytes(), name


def test_it_is_a_command(tmp_path):
    main([str(tmp_path)])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in DATA.iterdir())
    with pytest.raises(SystemExit, match="usage: "):
        main(["one", "two"])
