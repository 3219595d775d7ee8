"""The claims ledger's page: no verdict before a vote, the ledger's own figures, safe links."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.__main__ import main
from core.sizing import claims, units
from core.sizing import ledger as core_ledger
from tests.app.conftest import Open, text_of
from ui import derivation, lesson
from ui.claims import desk, files, ledger, place, predict, votes
from ui.kit import code
from ui.paths import ROOT

WRONG, SOUND, LOST, MIXED = "B041", "L019", "L014", "B007"


def _sees(ballot: votes.Ballot, id: str | None = None) -> str:
    return json.dumps(votes.shown(ballot, id), ensure_ascii=False)


def test_the_list_has_every_claim_and_no_verdict() -> None:
    sent = json.loads(json.dumps(ledger.rows()))
    assert [row["id"] for row in sent["rows"]] == [claim.id for claim in core_ledger.load()]
    assert len(sent["rows"]) == 297
    for row in sent["rows"]:
        assert set(row) == {"id", "source", "section", "topic", "says", "lost"}
        found = ledger.judged()[row["id"]]
        assert row["lost"] == (found.verdict == "stripped")
        text = json.dumps(row, ensure_ascii=False)
        assert found.claim.explanation not in text
        assert all(finding.reason not in text for finding in found.findings)
    assert set(sent["topics"]) == set(core_ledger.TOPICS)


def test_both_sources_are_credited_as_the_ledger_names_them() -> None:
    credits = {source["credit"] for source in ledger.rows()["sources"].values()}
    assert credits == {
        "A lesson on LLM serving, AI-C03-001",
        "AI/ML Infrastructure from Silicon to Scale, chapter 11, Venkat Vinjam",
    }


def test_nothing_is_told_before_a_vote() -> None:
    shown = votes.shown(votes.EMPTY, WRONG)
    assert shown["open"] is None and shown["verdicts"] == {} and shown["agree"] == {}
    assert ledger.known()[WRONG].explanation not in _sees(votes.EMPTY, WRONG)


def test_a_vote_tells_that_one_claim() -> None:
    ballot = votes.EMPTY.vote(WRONG, "true")
    shown = votes.shown(ballot, WRONG)
    assert shown["verdicts"] == {WRONG: "wrong"} and shown["agree"] == {WRONG: False}
    assert shown["open"]["explanation"] == ledger.known()[WRONG].explanation
    assert votes.shown(ballot, SOUND)["open"] is None


def test_the_first_vote_counts_and_none_once_all_is_shown() -> None:
    ballot = votes.EMPTY.vote(WRONG, "true")
    assert ballot.vote(WRONG, "false").cast == {WRONG: "true"}
    everything = votes.Ballot({}, all=True)
    assert everything.vote(WRONG, "false").cast == {}
    assert len(votes.shown(everything, WRONG)["verdicts"]) == 297


@pytest.mark.parametrize(
    ("id", "said"),
    [
        ("B999", "true"), (WRONG, "maybe"), (WRONG, None), (WRONG, "look"), (LOST, "true"),
        (None, "true"), (["B041"], "true"), (WRONG, ["true"]), ({}, {}), ("__proto__", "true"),
    ],
)  # fmt: skip
def test_what_is_no_vote_changes_nothing(id: Any, said: Any) -> None:
    assert votes.EMPTY.vote(id, said) is votes.EMPTY


def test_a_lost_number_is_looked_at_and_counts_nothing() -> None:
    ballot = votes.EMPTY.vote(LOST, "look")
    shown = votes.shown(ballot, LOST)
    assert shown["open"]["verdict"] == "stripped" and shown["agree"] == {}
    assert shown["tally"]["votes"] == 0
    (part,) = shown["open"]["parts"]
    assert part["value"] == "295.343 FLOP/B"


def test_the_tally_follows_the_rule() -> None:
    ballot = votes.EMPTY
    for id, said in ((WRONG, "false"), (SOUND, "true"), (MIXED, "true"), ("B050", "depends")):
        ballot = ballot.vote(id, said)
    assert votes.tally(ballot) == {
        "of": 241,
        "votes": 4,
        "agree": 3,
        "table": {
            "true": {"right": 1, "inconsistent": 1},
            "false": {"wrong": 1},
            "depends": {"unverifiable": 1},
        },
    }
    assert set(votes.MEANT) == set(claims.VERDICTS)


@pytest.mark.parametrize("id", ["B041", "L023", "B007", "B095", "L014", "L012", "B098"])
def test_an_open_claim_is_what_the_command_line_shows(
    id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["claims", id, "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    shown = ledger.detail(id)
    assert shown["command"] == f"python -m core claims {id}"
    for name in ("id", "verdict", "typed", "explanation", "assumptions", "conflicts"):
        assert shown[name] == told[name]
    assert len(shown["parts"]) == len(told["parts"])
    for part, same in zip(shown["parts"], told["parts"], strict=True):
        assert (part["what"], part["verdict"], part["reason"], part["printed"]) == (
            same["what"], same["verdict"], same["reason"], same["printed"],
        )  # fmt: skip
        if same["expression"] is None:
            assert part["derived"] is None and part["value"] is None
            continue
        assert part["value"] == derivation.number(same["value"], same["unit"])
        assert [call["function"] for call in part["derived"]["calls"]] == [
            call["function"] for call in same["calls"]
        ]
        for call, its in zip(part["derived"]["calls"], same["calls"], strict=True):
            assert call["value"] == derivation.number(its["value"], its["unit"])
            assert [step[0] for step in call["steps"]] == [
                step["formula"] for step in its["derivation"]["steps"]
            ]


def test_every_claim_opens_and_says_as_much_as_the_whole_ledger_judged() -> None:
    for id, found in ledger.judged().items():
        assert ledger.detail(id)["verdict"] == found.verdict
        json.dumps(ledger.detail(id))


def test_what_only_a_benchmark_decides_is_marked() -> None:
    marked = [id for id in ledger.known() if ledger.detail(id)["needs"] == "measurement"]
    assert "B050" in marked and "B067" in marked and WRONG not in marked
    undecided = [id for id, one in ledger.judged().items() if one.verdict == "unverifiable"]
    assert all(ledger.detail(id)["needs"] for id in undecided)


def test_numbers_are_text_with_their_unit() -> None:
    assert derivation.number(327680, "B") == "327,680 B (327.68 kB = 320 KiB)"
    assert units.both(327680) == "327.68 kB = 320.00 KiB"
    assert derivation.number(0.005265214, "s") == "0.00526521 s"
    assert derivation.number(31507692307.69, "B/s") == "31,507,692,308 B/s (31.51 GB/s)"
    assert derivation.number(989400000000000, "FLOP/s") == "989,400,000,000,000 FLOP/s"
    assert derivation.number(None, "tokens") == "no such number"
    assert derivation.number("blocks") == "blocks"


def test_the_files_open_and_hold_what_was_judged(tmp_path: Path) -> None:
    ballot = votes.EMPTY.vote(WRONG, "true").vote(LOST, "look")
    table = pandas.read_csv(io.StringIO(files.as_csv(ballot)), dtype={"vote": "string"})
    assert list(table.columns) == list(files.COLUMNS) and len(table) == 297
    by_id = table.set_index("id")
    assert by_id.loc[WRONG, "verdict"] == "wrong" and by_id.loc[WRONG, "vote"] == "true"
    assert by_id["vote"].notna().sum() == 1
    assert by_id.loc[WRONG, "value"] == 305
    counted = claims.counts(ledger.judged().values())
    assert table["verdict"].value_counts().to_dict() == counted
    whole = json.loads(files.as_json(ballot))
    assert [one["id"] for one in whole["claims"]] == list(ledger.known())
    assert {key: value for key, value in whole["claims"][0].items() if key != "vote"} == (
        ledger.judged()["L001"].to_dict()
    )
    assert files._cell("=1+1") == "'=1+1" and files._cell("≤ 4") == "≤ 4"


def test_a_whole_link_is_read() -> None:
    params = {
        "claim": WRONG, "q": "users paged", "topic": "paging", "source": "chapter",
        "mine": "differ", "show": "all", "verdict": "wrong",
    }  # fmt: skip
    assert place.read(params) == (params, None)
    assert place.written(params) == {k: v for k, v in params.items() if k != "show"}


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"claim": "B999"}, "claim"),
        ({"claim": "<img src=x onerror=alert(1)>"}, "claim"),
        ({"topic": "../../x"}, "topic"),
        ({"source": "chapter,lesson"}, "source"),
        ({"mine": "yes"}, "mine"),
        ({"q": "x" * 81}, "q"),
        ({"q": "a\x00b"}, "q"),
        ({"show": "1"}, "show"),
        ({"verdict": "wrong"}, "verdict"),
        ({"verdict": "nonsense", "show": "all"}, "verdict"),
    ],
)
def test_a_hostile_link_gives_one_sentence(params: dict[str, str], said: str) -> None:
    found, sentence = place.read(params)
    assert said not in found
    assert sentence == f"This link's {said} cannot be shown here, so it was left out."


@settings(max_examples=40)
@given(
    st.one_of(
        st.none(), st.integers(), st.lists(st.text()),
        st.dictionaries(st.sampled_from([*place.NAMES, "x"]), st.one_of(st.text(), st.integers())),
    )
)  # fmt: skip
def test_what_a_browser_sends_as_its_place_is_checked(sent: Any) -> None:
    written = place.written(sent)
    assert place.read({**written, "show": "all"})[1] is None
    assert set(written) <= set(place.NAMES) - {"show"}


def test_the_page_opens(open_page: Open) -> None:
    at = open_page("claims_ledger", claim=WRONG)
    assert not at.exception and not at.warning and not at.error
    assert at.session_state[desk.OPEN] == WRONG
    assert at.session_state[desk.BALLOT] == votes.EMPTY
    assert "Of the 297 claims, 56 have lost their number" in text_of(at)
    assert "the other 241" in text_of(at)


def test_a_link_may_show_all(open_page: Open) -> None:
    at = open_page("claims_ledger", show="all", verdict="wrong")
    assert not at.exception and not at.warning
    assert at.session_state[desk.BALLOT].all
    assert at.query_params["verdict"] in ("wrong", ["wrong"])


@pytest.mark.parametrize(
    "params",
    [{"claim": "nobody"}, {"q": "\u202e" * 10}, {"verdict": "wrong"}, {"topic": "x" * 3000}],
)
def test_the_page_says_one_sentence_of_a_hostile_link(
    open_page: Open, params: dict[str, str]
) -> None:
    at = open_page("claims_ledger", **params)
    assert not at.exception
    assert len(at.warning) == 1 and "was left out" in at.warning[0].value


@pytest.mark.parametrize(("said", "section"), [(83, "near"), (200, "high"), (5, "low")])
def test_the_prediction_is_answered_from_the_ledger(
    open_page: Open, said: int, section: str
) -> None:
    at = open_page("claims_ledger")
    at.number_input(key="claims.predict.holds").set_value(said)
    at.button(key="claims.predict.lock").click().run()
    assert not at.exception
    words, values = lesson.load("claims_ledger"), predict.numbers()
    assert predict.verdict(said) == section
    assert words[section].format(said=said) in text_of(at)
    assert "**83 of 241**: 37 to the printed digits and 46 by rounding" in text_of(at)
    assert sum(values[name] for name in ("sound", "wrong", "inconsistent", "unverifiable")) == 241
    at.button(key="claims.predict.see").click().run()
    assert at.session_state["claims.wish"] == {"id": predict.FIRST, "n": 1}


def test_on_a_projector_the_list_comes_alone(open_page: Open) -> None:
    at = open_page("claims_ledger", present="1")
    assert not at.exception and not at.number_input


def test_the_words_state_what_the_ledger_has() -> None:
    words = lesson.load("claims_ledger")
    assert words.objective.startswith(f"{len(ledger.known())} claims ")
    assert predict.FIRST in words["see"]


def test_the_code_shown_exists() -> None:
    source = (ROOT / "pages" / "claims_ledger.py").read_text("utf-8")
    shown = [part for part in source.split('"') if part.startswith("core.") and ":" in part]
    assert len(shown) == 3 and all(code.snippet(target) for target in shown)
