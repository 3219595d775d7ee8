"""The comparison with other texts: what it finds, and what it lets pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import own_words

SOURCE = "The quick brown fox jumps over the lazy dog and then it sleeps in the warm sun."


def course(root: Path, lesson: str, item: str = "{}") -> None:
    (root / "lessons" / "glossary").mkdir(parents=True)
    (root / "quiz" / "bank").mkdir(parents=True)
    (root / "lessons" / "a.md").write_text(lesson, encoding="utf-8")
    (root / "quiz" / "bank" / "b.json").write_text(item, encoding="utf-8")


def run(root: Path, lesson: str, item: str = "{}") -> int:
    course(root, lesson, item)
    source = root / "source.txt"
    source.write_text(SOURCE, encoding="utf-8")
    return own_words.main([str(source)], root)


@pytest.mark.parametrize(
    "lesson",
    [
        "# A\nHere the **quick** brown fox\njumps over, the lazy dog.",
        "THE QUICK BROWN FOX JUMPS OVER THE LAZY",
    ],
)
def test_a_run_of_eight_words_is_found_through_marks_and_lines(
    tmp_path: Path, lesson: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, lesson) == 1
    said = capsys.readouterr().out
    assert "lessons/a.md" in said and "quick brown fox jumps over the lazy" in said


def test_seven_words_are_anybody_s(tmp_path: Path) -> None:
    assert run(tmp_path, "The quick brown fox jumps over the cat") == 0


def test_strings_of_the_bank_count_and_its_keys_do_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    item = '{"items": [{"question": "it: and then it sleeps in the warm sun"}]}'
    assert run(tmp_path, "# A", item) == 1
    assert "quiz/bank/b.json" in capsys.readouterr().out


def test_a_long_stretch_is_named_once_and_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, SOURCE) == 1
    said = capsys.readouterr().out
    assert "1 shared run of" in said and "brown fox jumps over the lazy dog and then it" in said


def test_a_source_that_is_not_there_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert own_words.main([str(tmp_path / "none.txt")], tmp_path) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_the_course_does_not_repeat_this_made_up_text(tmp_path: Path) -> None:
    source = tmp_path / "source.txt"
    source.write_text(SOURCE, encoding="utf-8")
    assert own_words.main([str(source)]) == 0
