"""One process at a time in a directory: kept by the system, given up by any death."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from subquad.errors import SubquadError
from subquad.locking import LOCK, alone_in

HOLD = """
import sys, time
from pathlib import Path
from subquad.locking import alone_in
with alone_in(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """A process that holds ``tmp_path / "out"``."""
    arguments = [sys.executable, "-c", HOLD, str(tmp_path / "out")]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_another_process_is_named_and_its_death_frees(tmp_path, holder):
    with pytest.raises(SubquadError, match=f"out is in use by process {holder.pid}:"):
        alone_in(tmp_path / "out").__enter__()
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert (tmp_path / "out" / LOCK).exists()
    with alone_in(tmp_path / "out"):
        pass
    assert not (tmp_path / "out" / LOCK).exists()


@pytest.mark.usefixtures("holder")
def test_an_unwritten_name_is_another_process(tmp_path):
    (tmp_path / "out" / LOCK).write_text("")
    with pytest.raises(SubquadError, match="in use by another process"):
        alone_in(tmp_path / "out").__enter__()


def test_what_stayed_empty_is_removed_and_what_did_not_is_kept(tmp_path):
    with alone_in(tmp_path / "a" / "b"):
        assert (tmp_path / "a" / "b" / LOCK).exists()
    assert not list(tmp_path.iterdir())
    with alone_in(tmp_path / "a" / "b"):
        (tmp_path / "a" / "file").touch()
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a", "file"]


def test_the_same_thread_may_ask_again_and_another_may_not(tmp_path):
    refused = []

    def other():
        try:
            with alone_in(tmp_path):
                pass
        except SubquadError as error:
            refused.append(str(error))

    with alone_in(tmp_path):
        with alone_in(tmp_path):
            assert (tmp_path / LOCK).exists()
        assert (tmp_path / LOCK).exists()
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert len(refused) == 1
    assert "another thread of this process" in refused[0]


def test_a_directory_that_moves_takes_its_lock_along(tmp_path):
    with alone_in(tmp_path / "old"):
        (tmp_path / "old" / "file").touch()
        (tmp_path / "old").rename(tmp_path / "new")
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["file"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_does_not_keep_the_lock(tmp_path):
    """Workers that prepare batches outlive a killed training by seconds."""
    held = alone_in(tmp_path)
    held.__enter__()
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    try:
        held.__exit__(None, None, None)
        with alone_in(tmp_path):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_what_cannot_be_made_is_said(tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(SubquadError, match="cannot write"):
            alone_in(path).__enter__()
