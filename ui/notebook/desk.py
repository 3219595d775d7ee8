"""The notebook at work. What was typed is drawn as Markdown without markup and without images; all
else of a note is text."""

from __future__ import annotations

import html
from dataclasses import replace

import streamlit as st

from quiz.errors import QuizError
from quiz.progress import MAX_BYTES, MAX_NOTE_CHARS, Note, Progress, Source, now, tags, take_in
from ui import nav
from ui.kit import notebook, states, store
from ui.lesson import Lesson
from ui.notebook import files

AT_ONCE = 20
FIND, PAGE, TAGS = "find", "about", "tag"
_EDIT, _MORE, _SAID = "notebook.edit", "notebook.more", "notebook.said"
_FROM = "notebook.from"
"""The note as it was when its editing began: another tab may change or delete it meanwhile."""
_NEW, _UPLOAD = "notebook.new", "notebook.upload"
_MAX_TAGS_CHARS = 120
_BOTH = (
    "This note was changed or deleted in another tab while you wrote. What you wrote is kept as a "
    "note of its own."
)


def known() -> Progress:
    return store.progress() or Progress()


def _keep(note: Note) -> bool:
    try:
        store.save(known().with_note(note))
    except QuizError as exc:
        st.session_state[_SAID] = ("error", f"This was not kept: {exc}.")
        return False
    st.session_state[_SAID] = None
    store.begin()
    return True


def _write() -> None:
    """Take a new note from the form."""
    state = st.session_state
    text = (state.get(f"{_NEW}.text") or "").strip()
    if not text:
        return
    name = state.get(f"{_NEW}.page") or ""
    title = {place.name: place.title for place in nav.COURSE}.get(name, "Notebook")
    source = Source(name) if name else None
    typed = tags(state.get(f"{_NEW}.tags") or "")
    note = Note(notebook.new_id(), now(), title, text, tags=typed, source=source)
    if _keep(note):
        state[f"{_NEW}.text"] = state[f"{_NEW}.tags"] = ""


def _change(note: Note) -> None:
    state = st.session_state
    text = (state.get(f"{_EDIT}.text") or "").strip()
    typed = tags(state.get(f"{_EDIT}.tags") or "")
    began = state.get(_FROM, note)
    if (text or note.quote) and (text, typed) != (began.text, began.tags):
        at = max(now(), note.touched)
        changed = replace(note, text=text, tags=typed, edited=at)
        elsewhere = began not in known().notes
        if elsewhere:
            changed = replace(changed, id=notebook.new_id(), at=at, edited="")
        if not _keep(changed):
            return
        if elsewhere:
            state[_SAID] = ("success", _BOTH)
    state[_EDIT] = None


def _edit(note: Note) -> None:
    state = st.session_state
    state[_EDIT], state[_FROM] = note.id, note
    state[f"{_EDIT}.text"], state[f"{_EDIT}.tags"] = note.text, " ".join(note.tags)


def _delete(note: Note) -> None:
    store.save(known().without_note(note.id, now()))


def _erase() -> None:
    store.save(known().without_notes(now()))
    st.session_state[_EDIT] = None
    st.session_state[_SAID] = ("success", "The notebook is empty.")


def _take() -> None:
    state = st.session_state
    file = state.get(_UPLOAD)
    state[_SAID] = None
    if file is None:
        return
    try:
        if file.size > MAX_BYTES:
            raise QuizError(f"it is larger than {MAX_BYTES // 1024:,} KiB")
        fetched = files.read_notes(file.getvalue().decode("utf-8"))
        changed = take_in(known(), Progress(notes=fetched))
    except UnicodeDecodeError:
        state[_SAID] = ("error", "This file was not taken in: it is not text.")
    except QuizError as exc:
        state[_SAID] = ("error", f"This file was not taken in: {exc}.")
    else:
        store.save(changed)
        read = "1 note was" if len(fetched) == 1 else f"{len(fetched)} notes were"
        state[_SAID] = ("success", f"{read} read, and put together with what was here.")


@st.fragment
def draw(words: Lesson, *, present: bool) -> None:
    """The list with what finds something in it. A fragment: a note changes nothing else."""
    store.follow()
    every = known().notes
    if present:
        shown = list(reversed(every))
    else:
        _new(words)
        if said := st.session_state.get(_SAID):
            (st.error if said[0] == "error" else st.success)(said[1])
        shown = _found(words, every)
        _count(words, len(every), len(shown))
    if not every:
        with st.container(key="kv-notes-none"):
            states.empty(words["empty-title"], words["empty"])
    most = st.session_state.get(_MORE, AT_ONCE)
    if not present:
        shown = _with_edited(shown)
    with st.container(key="kv-notes"):
        for note in shown[:most]:
            _note(note, present=present)
    if len(shown) > most:
        st.button(
            f"Show {min(AT_ONCE, len(shown) - most)} more",
            on_click=lambda: st.session_state.update({_MORE: most + AT_ONCE}),
            key="notebook.show",
        )
    store.keep(redraw=True)


def _new(words: Lesson) -> None:
    pages = {place.name: place.title for place in nav.COURSE if place.name != "notebook"}
    box = st.expander(words["new"], icon=":material/edit_note:", key=f"{_NEW}.open")
    with box, st.form(_NEW, border=False):
        st.text_area(
            words["new-text"],
            key=f"{_NEW}.text",
            max_chars=MAX_NOTE_CHARS,
            height=120,
            placeholder=words["new-hint"],
        )
        with st.container(horizontal=True, vertical_alignment="bottom"):
            st.text_input(
                words["tags"],
                key=f"{_NEW}.tags",
                max_chars=_MAX_TAGS_CHARS,
                placeholder=words["tags-hint"],
            )
            st.selectbox(
                words["new-page"],
                ["", *pages],
                format_func=lambda name: pages.get(name, words["no-page"]),
                key=f"{_NEW}.page",
            )
            st.form_submit_button("Keep it", type="primary", on_click=_write)


def _found(words: Lesson, every: tuple[Note, ...]) -> list[Note]:
    """The controls that find, and what was found."""
    if not every:
        return []
    state = st.session_state
    pages = sorted({note.page for note in every})
    tagged = sorted({tag for note in every for tag in note.tags})
    # What was chosen may be gone: with the last note of a page, or by a link of somebody else.
    if state.get(PAGE) not in ("", *pages):
        state[PAGE] = ""
    state[TAGS] = [tag for tag in state.get(TAGS) or [] if tag in tagged]
    with st.container(key="kv-notes-find", horizontal=True, vertical_alignment="center"):
        st.text_input(
            words["find"],
            key=FIND,
            placeholder=words["find"],
            max_chars=100,
            label_visibility="collapsed",
            icon=":material/search:",
        )
        st.selectbox(
            words["which-page"],
            ["", *pages],
            format_func=lambda page: page or words["all-pages"],
            key=PAGE,
            label_visibility="collapsed",
        )
        if tagged:
            st.pills(
                words["tags"],
                tagged,
                selection_mode="multi",
                format_func=lambda tag: f"#{tag}",
                key=TAGS,
                label_visibility="collapsed",
            )
    return files.found(every, state.get(FIND) or "", state[PAGE], state[TAGS])


def _with_edited(shown: list[Note]) -> list[Note]:
    """The list with the note that is being edited, at its place, even where it has been deleted
    in another tab or no longer matches: what is typed must not vanish."""
    state = st.session_state
    open_ = state.get(_EDIT)
    if not open_ or any(note.id == open_ for note in shown):
        return shown
    return sorted([*shown, state[_FROM]], key=lambda note: (note.at, note.id), reverse=True)


def _note(note: Note, *, present: bool) -> None:
    with st.container(key=f"kv-note-{note.id}"):
        if not present and st.session_state.get(_EDIT) == note.id:
            _form(note)
            return
        st.html(_head(note))
        if note.text:
            st.markdown(files.safe(note.text), anchors=False)
        with st.container(horizontal=True, vertical_alignment="center"):
            marked = "".join(f"<span>#{html.escape(tag)}</span>" for tag in note.tags)
            st.html(f'<p class="kv-tags">{marked}</p>', width="stretch")
            if not present:
                _buttons(note)


def _head(note: Note) -> str:
    """When and where, what it was written under, and the quote. All of it is text."""
    section = note.source.section if note.source else ""
    where = html.escape(f"{note.page}: {section}" if section else note.page)
    if note.source is not None and note.source.place in nav.PLACES:
        where = f'<a href="{html.escape(note.source.address)}">{where}</a>'
    edited = f", edited {note.edited[:10]}" if note.edited else ""
    head = f'<p class="when">{note.at[:10]}{edited} · {where}</p>'
    quote = f"<blockquote>{html.escape(note.quote)}</blockquote>" if note.quote else ""
    about = f'<p class="under">{html.escape(note.about)}</p>' if note.about else ""
    return f'<div class="kv-note-head">{head}{about}{quote}</div>'


def _buttons(note: Note) -> None:
    st.button(
        "Edit",
        icon=":material/edit:",
        type="tertiary",
        on_click=_edit,
        args=(note,),
        key=f"note.edit.{note.id}",
    )
    st.button(
        "Delete",
        icon=":material/delete:",
        type="tertiary",
        on_click=_delete,
        args=(note,),
        key=f"note.delete.{note.id}",
    )


def _form(note: Note) -> None:
    if f"{_EDIT}.text" not in st.session_state:  # another page was open in between
        _edit(note)
    st.html(_head(note))
    st.text_area("Note", key=f"{_EDIT}.text", max_chars=MAX_NOTE_CHARS, height=140)
    st.text_input("Tags", key=f"{_EDIT}.tags", max_chars=_MAX_TAGS_CHARS)
    with st.container(horizontal=True):
        st.button("Keep it", type="primary", on_click=_change, args=(note,), key=f"{_EDIT}.keep")
        st.button(
            "Cancel",
            type="tertiary",
            on_click=lambda: st.session_state.update({_EDIT: None}),
            key=f"{_EDIT}.cancel",
        )


def _count(words: Lesson, count: int, shown: int) -> None:
    """How many there are, and what can be done with all of them."""
    with st.container(key="kv-notes-all", horizontal=True, vertical_alignment="center"):
        said = "1 note" if count == 1 else f"{count} notes"
        some = f", {shown} of them shown" if shown != count else ""
        st.html(f'<p class="kv-small" role="status">{said}{some}</p>', width="content")
        with st.popover("Import", icon=":material/upload:", type="tertiary", key="notebook.import"):
            st.file_uploader(
                words["import"],
                type=["json"],
                key=_UPLOAD,
                on_change=_take,
                help=words["import-help"],
                max_upload_size=MAX_BYTES // 2**20,
            )
        if count:
            erase = st.popover(
                "Erase", icon=":material/delete:", type="tertiary", key="notebook.erase"
            )
            with erase:
                st.text(words["erase"].format(said=said))
                st.button("Erase the notebook", on_click=_erase, key="notebook.sure")
