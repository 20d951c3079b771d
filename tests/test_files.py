"""Files are written whole, with the permissions that they should have, and text in them does no harm."""

import csv
import io
import os
import stat
import threading

import pytest

from spdsl.models.files import check_not_input, written_whole
from spdsl.models.text import csv_cell, printable


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def write(path, content=b"new"):
    with written_whole(path) as file:
        file.write(content)


@pytest.mark.parametrize("permissions", [0o600, 0o640, 0o664, 0o444])
def test_a_file_that_is_replaced_keeps_its_permissions(permissions, tmp_path):
    path = tmp_path / "model"
    path.write_bytes(b"old")
    path.chmod(permissions)
    write(path)
    assert path.read_bytes() == b"new"
    assert mode(path) == permissions


def test_a_private_file_is_private_while_it_is_written(tmp_path):
    path = tmp_path / "model"
    path.write_bytes(b"old")
    path.chmod(0o600)
    with written_whole(path):
        (unfinished,) = tmp_path.glob(".model.*")
        assert mode(unfinished) == 0o600


@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077])
def test_a_new_file_has_what_the_umask_leaves(mask, tmp_path):
    before = os.umask(mask)
    try:
        write(tmp_path / "model")
    finally:
        os.umask(before)
    assert mode(tmp_path / "model") == 0o666 & ~mask


def test_writing_never_changes_the_umask_of_other_threads(tmp_path, monkeypatch):
    def set_mask(mask):
        raise AssertionError("the umask belongs to the whole process")

    monkeypatch.setattr(os, "umask", set_mask)
    threads = [threading.Thread(target=write, args=(tmp_path / f"{k}",)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1", "2", "3"]


def test_an_output_that_is_an_input_is_refused_through_links_too(tmp_path):
    data, other = tmp_path / "data", tmp_path / "other"
    data.write_bytes(b"")
    other.write_bytes(b"")
    (tmp_path / "symbolic").symlink_to(data)
    os.link(data, tmp_path / "hard")
    for output in (data, tmp_path / "symbolic", tmp_path / "hard", tmp_path / "." / "data"):
        with pytest.raises(ValueError, match="is an input; choose another output"):
            check_not_input(output, other, data)
    check_not_input(tmp_path / "new", data, None)
    check_not_input(other, data, tmp_path / "missing")
    check_not_input(None, data)


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
        ("+1+2", "'+1+2"),
        ("-1+cmd", "'-1+cmd"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\uff1d1+1", "'\uff1d1+1"),
        ("\t=1+1", "\\t=1+1"),
        ("\r=1+1", "\\r=1+1"),
        ("-1.5e3", "-1.5e3"),
        ("walk", "walk"),
        ("", ""),
        (-1, -1),
        ("two\nlines", "two\\nlines"),
    ],
)
def test_no_cell_is_a_formula(text, cell):
    assert csv_cell(text) == cell
    file = io.StringIO()
    csv.writer(file).writerow([csv_cell(text)])
    assert len(file.getvalue().splitlines()) == 1


def test_control_characters_are_shown_and_letters_of_all_languages_left_alone():
    assert printable("\x1b[31mred\x07\x9b\u202etxt\u2028") == "\\x1b[31mred\\x07\\x9b\\u202etxt\\u2028"
    for text in ("Übung", "走る", "नमस्ते", "a\u00a0b", "\U0001f469\u200d\U0001f52c"):
        assert printable(text) == text
    assert printable("\udcff") == "\\udcff"  # a byte that is no UTF-8: no file can hold it as it is
    assert printable("a\nb\x00", keep="\n") == "a\nb\\x00"
