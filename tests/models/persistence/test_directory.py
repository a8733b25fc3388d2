"""A saved model is whole or not there, and is replaced in one step, whatever dies when."""

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from dcrec_spark.errors import ConfigError
from dcrec_spark.models.persistence.directory import commit, read_metadata, write_metadata
from dcrec_spark.storage.local import LocalFiles
from dcrec_spark.storage.protocol import Files
from dcrec_spark.storage.staging import staged
from tests.storage.stores import DyingFiles, Killed

KEYS = dict.fromkeys(("class", "uid", "paramMap", "defaultParamMap", "dcrecVersion", "frames", "parts", "params"))


def save_by_hand(files: Files, path: Path, value: str, overwrite: bool) -> None:
    """What a Writer does, with a file in place of Spark's."""
    with staged(files, str(path)) as directory:
        data = f"data-{uuid4().hex}"
        files.make_directory(f"{directory}/{data}")
        files.write(f"{directory}/{data}/value", value.encode())
        write_metadata(files, directory, {**KEYS, "data": data, "facts": {"value": value}})
        commit(files, directory, str(path), overwrite)


def read_by_hand(path: Path) -> str:
    """What a Reader finds; whole, or an assertion fails."""
    while True:
        metadata = read_metadata(LocalFiles(), str(path))
        try:
            value = (path / metadata["data"] / "value").read_text()
        except FileNotFoundError:
            assert read_metadata(LocalFiles(), str(path)) != metadata
            continue
        assert metadata["facts"] == {"value": value}
        return value


# How many changes a save makes, by what is there before, and which of them commits it. The parent, the staging
# directory, data, value, metadata's directory, metadata, the rename, which a model or a folder refuses.
# Then the data's rename, metadata's directory, metadata, the old data, the staging directory, the lease.
CHANGES = {"a model": (13, 10), "an empty folder": (12, 10), "nothing": (9, 7)}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("before", "changes"), [(name, n) for name in CHANGES for n in range(1, CHANGES[name][0] + 2)])
def test_saving_killed_at_any_step_is_all_or_nothing(tmp_path: Path, before: str, changes: int, after: bool) -> None:
    path, (last, commits) = tmp_path / "model", CHANGES[before]
    if before == "an empty folder":
        path.mkdir()
    elif before == "a model":
        save_by_hand(LocalFiles(), path, "old", overwrite=False)
    with pytest.raises(Killed) if changes <= last else nullcontext():
        save_by_hand(DyingFiles(changes, after), path, "new", overwrite=before != "nothing")
    if (changes, after) >= (commits, True):
        assert read_by_hand(path) == "new"
    elif before == "a model":
        assert read_by_hand(path) == "old"
    else:
        assert path.exists() == (before == "an empty folder")
    save_by_hand(LocalFiles(), path, "newer", overwrite=True)
    assert read_by_hand(path) == "newer"
    assert len(list(path.glob("data-*"))) == 1


def test_of_two_that_save_at_once_one_is_refused(tmp_path: Path) -> None:
    class Slow(LocalFiles):
        def rename(self, source: str, target: str) -> None:
            save_by_hand(LocalFiles(), tmp_path / "model", "other", overwrite=False)
            super().rename(source, target)

    with pytest.raises(ConfigError, match="exists already"):
        save_by_hand(Slow(), tmp_path / "model", "mine", overwrite=False)
    assert read_by_hand(tmp_path / "model") == "other"


def test_readers_find_a_whole_model_while_others_replace_it(tmp_path: Path) -> None:
    path = tmp_path / "model"
    save_by_hand(LocalFiles(), path, "0", overwrite=False)
    with ThreadPoolExecutor(2) as pool:
        writers = [
            pool.submit(lambda start: [save_by_hand(LocalFiles(), path, str(start + n), True) for n in range(40)], s)
            for s in (100, 200)
        ]
        seen = set()
        while not all(writer.done() for writer in writers):
            seen.add(read_by_hand(path))
        for writer in writers:
            writer.result()
    assert read_by_hand(path) in {"139", "239"}
    assert len(seen) > 2
    assert len(list(path.glob("data-*"))) == 1


@pytest.mark.parametrize("step", ["rename", "write"])
def test_an_error_while_replacing_is_undone_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    path = tmp_path / "model"
    save_by_hand(LocalFiles(), path, "old", overwrite=False)
    whole = getattr(LocalFiles, step)

    def full_disk(self: LocalFiles, *arguments: Any) -> None:
        target = arguments[-1] if step == "rename" else arguments[0]
        if target.startswith(f"{path}/"):
            raise OSError(28, "No space left on device")
        whole(self, *arguments)

    monkeypatch.setattr(LocalFiles, step, full_disk)
    with pytest.raises(OSError, match="No space left"):
        save_by_hand(LocalFiles(), path, "new", overwrite=True)
    assert read_by_hand(path) == "old"
    assert len(list(path.glob("data-*"))) == 1
    assert sorted(os.listdir(tmp_path)) == ["model"]
