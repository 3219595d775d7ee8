"""What the learner's browser keeps: over reload, full, private, damaged, old and in two tabs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from quiz.progress import Note, Progress, Source, read
from tests.serving import App

pytestmark = pytest.mark.browser

KEY = "kv-scope.progress"
AT = "2026-11-20T12:00:00Z"
OLD = Path(__file__).parents[1] / "fixtures" / "progress"
NOTE = Note("a1", AT, "Block pool", "blocks are taken whole", tags=("paging",))

FULL = "Storage.prototype.setItem = () => { throw new DOMException('', 'QuotaExceededError'); };"
PRIVATE = (
    "Object.defineProperty(window, 'localStorage',"
    " { get() { throw new DOMException('', 'SecurityError'); } });"
)


def seed(page: Any, app: App, text: str) -> None:
    """Have the browser keep a document before the course is opened."""
    page.goto(f"{app.url}/_stcore/health")
    page.evaluate("([key, text]) => localStorage.setItem(key, text)", [KEY, text])


def stored(page: Any) -> Progress:
    page.wait_for_function("key => localStorage.getItem(key) !== null", arg=KEY)
    return read(page.evaluate("key => localStorage.getItem(key)", KEY))


def open_notebook(page: Any, app: App) -> None:
    page.goto(f"{app.url}/notebook")
    page.locator(".st-key-kv-notes-all").wait_for()


def write(page: Any, text: str) -> None:
    """A new note, by the form."""
    page.get_by_text("New note").click()
    page.get_by_label("Note, in Markdown").fill(text)
    page.get_by_role("button", name="Keep it").click()
    page.locator(".st-key-kv-notes").get_by_text(text).wait_for()


def test_a_note_outlives_a_reload(page: Any, app: App) -> None:
    open_notebook(page, app)
    write(page, "whole blocks")
    page.wait_for_function("key => localStorage.getItem(key).includes('whole blocks')", arg=KEY)
    page.reload()
    page.locator(".st-key-kv-notes").get_by_text("whole blocks").wait_for()
    (note,) = stored(page).notes
    assert (note.text, note.page) == ("whole blocks", "Notebook")


@pytest.mark.parametrize("stub", [FULL, PRIVATE], ids=["full", "private"])
def test_where_nothing_can_be_kept_that_is_said_and_the_page_works(
    page: Any, app: App, stub: str
) -> None:
    page.add_init_script(stub)
    open_notebook(page, app)
    write(page, "only for now")
    page.get_by_text("This browser keeps nothing for this page").first.wait_for()
    page.get_by_text("1 note", exact=True).wait_for()


def test_a_document_of_the_first_version_is_taken_over(page: Any, app: App) -> None:
    text = (OLD / "v1_mastered.json").read_text("utf-8")
    seed(page, app, text)
    open_notebook(page, app)
    page.get_by_text("You said 8 blocks, 0 empty slots.").wait_for()
    page.wait_for_function("key => localStorage.getItem(key).includes('progress/2')", arg=KEY)
    assert stored(page) == read(text)


def test_what_cannot_be_read_is_put_aside_and_offered(page: Any, app: App, tmp_path: Path) -> None:
    damaged = '{"schema": "kv-scope-progress/9", "future": true}'
    seed(page, app, damaged)
    open_notebook(page, app)
    page.get_by_text("could not be read, so it was put aside").wait_for()
    page.get_by_text("another version").wait_for()
    write(page, "a fresh start")
    page.wait_for_function("key => localStorage.getItem(key)?.includes('a fresh start')", arg=KEY)
    names = page.evaluate("Object.keys(localStorage)")
    (aside,) = [name for name in names if name.startswith(f"{KEY}.damaged.20")]
    assert page.evaluate("key => localStorage.getItem(key)", aside) == damaged

    page.reload()  # the copy is offered until it is deleted
    with page.expect_download() as caught:
        page.get_by_role("button", name="Download it").click()
    file = tmp_path / "copy.json"
    caught.value.save_as(file)
    assert file.read_text("utf-8") == damaged
    page.get_by_role("button", name="Delete it").click()
    page.get_by_role("button", name="Delete it for good").click()
    page.wait_for_function("key => localStorage.getItem(key) === null", arg=aside)
    page.get_by_text("could not be read").wait_for(state="detached")
    assert [note.text for note in stored(page).notes] == ["a fresh start"]


def test_what_finds_no_room_aside_is_left_where_it_is(page: Any, app: App) -> None:
    damaged = "{damaged"
    seed(page, app, damaged)
    page.add_init_script(FULL)
    open_notebook(page, app)
    page.get_by_text("no room to put it aside").wait_for()
    write(page, "only for now")
    page.get_by_role("button", name="Download it").wait_for()
    assert page.evaluate("key => localStorage.getItem(key)", KEY) == damaged
    page.get_by_role("button", name="Delete it").click()
    page.get_by_role("button", name="Delete it for good").click()
    page.wait_for_function("key => localStorage.getItem(key) === null", arg=KEY)
    page.get_by_text("This browser keeps nothing for this page").wait_for()
    page.locator(".st-key-kv-notes").get_by_text("only for now").wait_for()


def test_a_copy_that_can_be_read_by_now_is_taken_in(page: Any, app: App) -> None:
    aside = f"{KEY}.damaged.2026-11-20T12:00:00Z"
    seed(page, app, Progress().to_json())
    page.evaluate(
        "([key, text]) => localStorage.setItem(key, text)",
        [aside, Progress(notes=(NOTE,)).to_json()],
    )
    open_notebook(page, app)
    page.get_by_role("button", name="Take it in").click()
    page.locator(".st-key-kv-notes").get_by_text(NOTE.text).wait_for()
    page.wait_for_function("key => localStorage.getItem(key) === null", arg=aside)
    assert stored(page).notes == (NOTE,)


def test_two_tabs_at_once(page: Any, app: App) -> None:
    open_notebook(page, app)
    other = page.context.new_page()
    other.set_default_timeout(20_000)
    open_notebook(other, app)
    write(page, "from one tab")
    other.locator(".st-key-kv-notes").get_by_text("from one tab").wait_for()
    write(other, "from the other")
    page.locator(".st-key-kv-notes").get_by_text("from the other").wait_for()
    card = page.locator("[class*=st-key-kv-note-]", has_text="from the other")
    card.get_by_role("button", name="Delete").click()
    other.get_by_text("from the other").wait_for(state="detached")
    page.wait_for_function(
        "key => JSON.parse(localStorage.getItem(key)).notes.length === 1", arg=KEY
    )
    assert [note.text for note in stored(page).notes] == ["from one tab"]


def _import(page: Any, file: Path) -> None:
    page.locator(".st-key-notebook-import button").first.click()
    page.locator("input[type=file]").set_input_files(file)


def test_hostile_and_old_files_are_refused_or_harmless(page: Any, app: App, tmp_path: Path) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    seed(page, app, Progress(notes=(NOTE,)).to_json())
    open_notebook(page, app)
    file = tmp_path / "notes.json"
    file.write_text('{"schema": "kv-scope-notebook/1", "notes": [{"id": "../x"}]}')
    _import(page, file)
    page.get_by_text("This file was not taken in: saved progress is damaged").wait_for()

    hostile = (
        "![x](https://evil.example/x.png) <img src=https://evil.example/y.png onerror=alert(1)> "
        "<script>document.title = 'taken'</script> [go](javascript:alert(1)) end-of-it"
    )
    note = Note(
        "h1",
        AT,
        "<b>page</b>",
        hostile,
        "<img src=https://evil.example/z.png>",
        quote="<i>quote</i>",
        source=Source("block_pool", "<u>section</u>"),
    )
    content = json.loads(Progress(notes=(note,), removed={"a1": AT}).to_json())
    content["since"] = "2299-12-31T23:59:59Z"
    file.write_text(json.dumps(content))
    page.keyboard.press("Escape")
    page.locator("input[type=file]").wait_for(state="detached")
    _import(page, file)
    page.get_by_text("1 note was read").wait_for()
    page.keyboard.press("Escape")
    shown = page.locator(".st-key-kv-notes")
    shown.get_by_text("end-of-it").wait_for()
    shown.get_by_text(NOTE.text).wait_for()  # no file throws away what is here
    page.wait_for_timeout(500)
    assert shown.locator("img, script, b, i:not([class]), u").count() == 0
    assert shown.locator("a[href^='javascript']").count() == 0
    assert "taken" not in page.title()
    assert not [url for url in asked if "evil" in url]


def test_the_notebook_is_taken_away_erased_and_brought_back(
    page: Any, app: App, tmp_path: Path
) -> None:
    seed(page, app, Progress(notes=(NOTE,)).to_json())
    open_notebook(page, app)
    files = {}
    for name in ("Markdown", "JSON"):
        page.get_by_role("button", name="Export").click()
        with page.expect_download() as caught:
            page.get_by_role("button", name=f"The notebook, as {name}").click()
        files[name] = tmp_path / caught.value.suggested_filename
        caught.value.save_as(files[name])
        page.keyboard.press("Escape")
    assert "blocks are taken whole\n\n#paging" in files["Markdown"].read_text("utf-8")
    page.get_by_role("button", name="Erase", exact=True).click()
    page.get_by_text("deletes 1 note").wait_for()
    page.get_by_role("button", name="Erase the notebook").click()
    page.get_by_text("No notes yet.").wait_for()
    page.wait_for_function("key => !JSON.parse(localStorage.getItem(key)).notes.length", arg=KEY)
    _import(page, files["JSON"])
    page.locator(".st-key-kv-notes").get_by_text(NOTE.text).wait_for()
    page.wait_for_function("key => JSON.parse(localStorage.getItem(key)).notes.length", arg=KEY)
    (note,) = stored(page).notes
    assert (note.text, note.tags, note.at) == (NOTE.text, NOTE.tags, NOTE.at)


def test_a_prediction_stands_there_after_a_reload(page: Any, app: App) -> None:
    page.goto(f"{app.url}/prefix_cache")
    page.get_by_placeholder("early edit").fill("3")
    page.get_by_placeholder("late edit").fill("5")
    page.keyboard.press("Tab")
    page.locator(".st-key-kv-predict").get_by_role("button", name="Lock it in").click()
    page.get_by_text("You said 3 and 5.").wait_for()
    page.wait_for_function("key => localStorage.getItem(key)?.includes('\"early\":3')", arg=KEY)
    page.reload()
    page.get_by_text("You said 3 and 5.").wait_for()
    page.get_by_role("button", name="Predict again").click()
    page.get_by_placeholder("early edit").wait_for()
