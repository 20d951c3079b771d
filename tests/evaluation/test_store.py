"""The store of finished cells: what it keeps, and what it makes of files that are torn, foreign or shared."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from spdsl.evaluation.store import NAME, Store, StoreError, open_early


@contextmanager
def python(code: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A process that runs `code` with these arguments in sys.argv[1:]; it does not outlive the test."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def rows_of(folder: Path) -> list[dict]:
    """The rows of the file, read without the library."""
    lines = (folder / NAME).read_bytes().splitlines()[1:]
    return [json.loads(line.split(b" ", 1)[1]) for line in lines]


def filled(folder: Path, count: int = 3) -> Store:
    store = Store(folder)
    for k in range(count):
        store.append(f"key{k}", {"accuracy": k / 7})
    return store


def test_rows_are_there_when_the_store_is_opened_again(tmp_path):
    filled(tmp_path)
    again = Store(tmp_path)
    assert len(again) == 3
    assert "key1" in again
    assert again["key1"] == {"accuracy": 1 / 7}
    assert again.damaged == []


def test_a_key_has_one_row_and_the_first_one_stays(tmp_path):
    store = filled(tmp_path)
    before = store.path.read_bytes()
    assert not store.append("key1", {"accuracy": 0.9})
    assert store["key1"] == {"accuracy": 1 / 7}
    assert store.path.read_bytes() == before


def test_not_a_number_cannot_be_stored(tmp_path):
    store = filled(tmp_path)
    with pytest.raises(ValueError, match="Out of range"):
        store.append("nan", {"accuracy": float("nan")})
    assert len(Store(tmp_path)) == 3


def test_a_row_cut_off_anywhere_is_reported_and_the_others_stay(tmp_path):
    whole = filled(tmp_path).path.read_bytes()
    start = whole.rindex(b"\n", 0, -1) + 1
    for end in range(start + 1, len(whole)):
        (tmp_path / NAME).write_bytes(whole[:end])
        store = Store(tmp_path)
        assert len(store) == 2
        assert len(store.damaged) == 1
        assert f"cut off after {end - start} bytes" in store.damaged[0]
        assert store.append("key2", {"accuracy": 2 / 7})
        assert store.path.read_bytes() == whole


def test_a_header_cut_off_anywhere_is_a_new_store(tmp_path):
    header = Store(tmp_path).path.read_bytes()
    for end in range(len(header)):
        (tmp_path / NAME).write_bytes(header[:end])
        assert len(Store(tmp_path)) == 0
        assert (tmp_path / NAME).read_bytes() == header


def test_a_changed_byte_costs_one_row_which_is_named(tmp_path):
    whole = filled(tmp_path).path.read_bytes()
    first = whole.index(b"\n") + 1
    end = whole.index(b"\n", first)
    for place in range(first, end):
        (tmp_path / NAME).write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        store = Store(tmp_path)
        assert "key0" not in store
        assert len(store) == 2
        assert "line 2 does not match its check-sum" in store.damaged[0]


def test_a_store_of_another_format_is_refused_and_left_alone(tmp_path):
    content = b'{"spdsl-store": 99}\nsomething new\n'
    (tmp_path / NAME).write_bytes(content)
    with pytest.raises(StoreError, match="format 99, and this version of spdsl reads format 1; choose another"):
        Store(tmp_path)
    assert (tmp_path / NAME).read_bytes() == content


@pytest.mark.parametrize(
    "content",
    [
        b"hello\n",
        b"{}\n",
        b"[1]\n",
        b'"spdsl-store"\n',
        b"\x00" * 50,
        b"method,accuracy\n" * 1000,
        b"\xff\xfe\n",
        b"\n",
    ],
)
def test_a_foreign_file_is_refused_and_left_alone(tmp_path, content):
    (tmp_path / NAME).write_bytes(content)
    with pytest.raises(StoreError, match="not a store of results; move the file away"):
        Store(tmp_path)
    assert (tmp_path / NAME).read_bytes() == content


def test_a_row_torn_by_another_process_that_died_does_not_spoil_the_next(tmp_path):
    store, other = filled(tmp_path), Store(tmp_path)
    with store.path.open("ab") as file:
        file.write(b'12345678 {"key": "torn')  # the other process was killed here
    assert store.append("key9", 9)
    other.refresh()
    assert other["key9"] == 9
    assert [row["key"] for row in rows_of(tmp_path)] == ["key0", "key1", "key2", "key9"]
    assert Store(tmp_path).damaged == []


def test_rows_that_somebody_takes_away_are_gone_and_leave_no_gap(tmp_path):
    store, whole = filled(tmp_path), filled(tmp_path).path.read_bytes()
    os.truncate(store.path, whole.rindex(b"\n", 0, -1) + 1)
    assert store.append("key9", 9)
    assert "key2" not in store
    assert [row["key"] for row in rows_of(tmp_path)] == ["key0", "key1", "key9"]
    assert Store(tmp_path).damaged == []


def test_an_interruption_while_the_disk_confirms_a_row_leaves_it_there(tmp_path, monkeypatch):
    def interrupted(_: int) -> None:
        raise KeyboardInterrupt

    store, other = filled(tmp_path), Store(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.append("key9", 9)
    other.refresh()
    assert other["key9"] == 9
    assert not store.append("key9", 9)


APPEND = """
import sys
from spdsl.evaluation.store import Store
folder, name = sys.argv[1:]
store = Store(folder)
sys.stdin.readline()  # all start together
for k in range(60):
    store.append(f"{name}-{k}", {"by": name, "text": "x" * (k * 37 % 500)})
    store.append(f"shared-{k}", {"by": name})
"""


def test_processes_that_append_at_once_lose_and_double_nothing(tmp_path):
    with ExitStack() as stack:
        workers = [stack.enter_context(python(APPEND, tmp_path, name)) for name in "abc"]
        for worker in workers:
            worker.stdin.write("\n")
            worker.stdin.flush()
        assert [worker.wait(timeout=60) for worker in workers] == [0, 0, 0]
    keys = [row["key"] for row in rows_of(tmp_path)]
    wanted = {f"{name}-{k}" for name in ("a", "b", "c", "shared") for k in range(60)}
    assert sorted(keys) == sorted(wanted)
    store = Store(tmp_path)
    assert len(store) == len(wanted)
    assert store.damaged == []


def test_threads_that_append_and_read_at_once_lose_nothing(tmp_path):
    store = Store(tmp_path)

    def work(name: str) -> None:
        for k in range(30):
            store.append(f"{name}-{k}", k)
            store.refresh()

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store) == len(rows_of(tmp_path)) == 90


FULL = """
import resource, sys
from spdsl.evaluation.store import Store
store = Store(sys.argv[1])
store.append("first", 1)
size = store.path.stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 25, resource.RLIM_INFINITY))  # half a row fits
try:
    store.append("second", {"accuracy": 0.5})
except OSError as error:
    print(error.strerror)
print(store.path.stat().st_size == size, "second" in store)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(store.append("second", {"accuracy": 0.25}))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits on the size of files")
def test_a_disk_that_fills_up_in_the_middle_of_a_row_leaves_the_store_as_it_was(tmp_path):
    with python(FULL, tmp_path) as process:
        out, _ = process.communicate(timeout=60)
    assert out.splitlines() == ["File too large", "True False", "True"]
    store = Store(tmp_path)
    assert store.damaged == []
    assert store["second"] == {"accuracy": 0.25}


HOLD = """
import sys
from spdsl.evaluation.store import Store
claim = Store(sys.argv[1]).claim("k")
print(claim is not None, flush=True)
sys.stdin.readline()
"""


def test_what_one_process_works_on_is_nobody_elses_until_it_dies(tmp_path):
    store = Store(tmp_path)
    with python(HOLD, tmp_path) as other:
        assert other.stdout.readline() == "True\n"
        assert store.claim("k") is None
        free = store.claim("another")
        assert free is not None
        other.kill()
    claim = store.claim("k")
    assert claim is not None
    store.release(claim)
    store.release(free)
    assert list((tmp_path / ".claims").iterdir()) == []


def test_a_claim_is_free_again_after_its_release_in_the_same_process(tmp_path):
    store = Store(tmp_path)
    claim = store.claim("k")
    assert Store(tmp_path).claim("k") is None
    store.release(claim)
    again = store.claim("k")
    assert again is not None
    store.release(again)


def test_an_early_look_makes_nothing(tmp_path):
    assert open_early(tmp_path / "a" / "b") is None
    assert list(tmp_path.iterdir()) == []
    filled(tmp_path / "a")
    found = open_early(tmp_path / "a")
    assert found is not None
    assert len(found) == 3


def test_a_file_in_the_way_is_an_early_error_that_names_it(tmp_path):
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(NotADirectoryError) as caught:
            open_early(folder)
        assert caught.value.filename == str(tmp_path / "file")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_folder_without_permission_is_an_early_error_that_names_it(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(PermissionError) as caught:
            open_early(tmp_path / "a")
        assert caught.value.filename == str(tmp_path)
    finally:
        tmp_path.chmod(0o700)
