"""Work in progress has a name that no reader looks at, and leaves nothing when it fails."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dcrec_spark.storage.local import LocalFiles
from dcrec_spark.storage.protocol import TEMPORARY_PREFIX
from dcrec_spark.storage.staging import STALE_SECONDS, staged

FILES = LocalFiles()


def test_what_is_staged_appears_in_one_rename(tmp_path: Path) -> None:
    with staged(FILES, f"{tmp_path}/out/model") as directory:
        assert Path(directory).name.startswith(f"{TEMPORARY_PREFIX}model-")
        (Path(directory) / "part").touch()
        FILES.rename(directory, f"{tmp_path}/out/model")
    assert os.listdir(tmp_path / "out") == ["model"]
    assert os.listdir(tmp_path / "out" / "model") == ["part"]


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="astray"), staged(FILES, f"{tmp_path}/model"):
        raise ValueError("astray")
    assert os.listdir(tmp_path) == []


def test_only_the_dead_are_cleaned_up_after(tmp_path: Path) -> None:
    """By the time when anything inside was last touched; other names are none of its business."""
    long_ago = time.time() - STALE_SECONDS - 60
    for name in (".tmp-model-dead", ".tmp-model-alive", ".tmp-other-dead"):
        (tmp_path / name / "inside").mkdir(parents=True)
        os.utime(tmp_path / name / "inside", (long_ago, long_ago))
        os.utime(tmp_path / name, (long_ago, long_ago))
    (tmp_path / ".tmp-model-alive" / "fresh").touch()
    with staged(FILES, f"{tmp_path}/model"):
        pass
    assert sorted(os.listdir(tmp_path)) == [".tmp-model-alive", ".tmp-other-dead"]


def test_leftovers_of_a_killed_process_go_at_once_and_those_of_a_living_one_stay(tmp_path: Path) -> None:
    """By its lease, however young or old they are."""
    program = (
        "import os, signal, sys\n"
        "from dcrec_spark.storage.local import LocalFiles\n"
        "from dcrec_spark.storage.staging import staged\n"
        "with staged(LocalFiles(), sys.argv[1]) as directory:\n"
        "    open(f'{directory}/part', 'w').close()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    dead = subprocess.run([sys.executable, "-c", program, f"{tmp_path}/model"], env=environment, check=False)
    assert dead.returncode == -signal.SIGKILL
    left = set(os.listdir(tmp_path))
    assert len(left) == 2
    with staged(FILES, f"{tmp_path}/model") as living:
        assert not left & set(os.listdir(tmp_path))
        os.utime(living, (0, 0))
        with staged(FILES, f"{tmp_path}/model"):
            assert Path(living).exists()
    assert os.listdir(tmp_path) == []
