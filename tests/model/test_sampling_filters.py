"""top-k, top-p, min-p and the repetition penalty: against plain Python, and `transformers`."""

from __future__ import annotations

import math
from array import array
from collections import Counter

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sampling_reference import chi_square, naive_distribution

from core.sampling import filters
from core.sampling.filters import keep_top_k, keep_top_p
from core.sampling.sampler import SampleSpec, probabilities, sample

KEY = (77, 0)
VOCAB = 12
SETTINGS = {
    "temperature": {"temperature": 0.7},
    "top_k": {"top_k": 4},
    "top_p": {"top_p": 0.8},
    "min_p": {"min_p": 0.2},
    "penalty": {"repetition_penalty": 1.5, "tokens": [0, 3, 3, 5]},
    "reward": {"repetition_penalty": 0.5, "tokens": [1, 2]},
    "all": {
        "temperature": 1.3,
        "top_k": 8,
        "top_p": 0.9,
        "min_p": 0.05,
        "repetition_penalty": 1.2,
        "tokens": [0, 1],
    },
}


def spec(row=0, position=0, **fields):
    return SampleSpec(row, fields.pop("temperature", 1.0), KEY, 0, position, **fields)


def distribution(logits, specs):
    p = probabilities(logits, specs)
    return p / p.sum(dim=-1, keepdim=True)


# ---- plain Python --------------------------------------------------------------------------------

fields = st.fixed_dictionaries(
    {
        "temperature": st.sampled_from([0.3, 1.0, 2.5]),
        "top_k": st.integers(0, VOCAB + 3),
        "top_p": st.sampled_from([1.0, 0.99, 0.9, 0.6, 0.3, 1e-9]),
        "min_p": st.sampled_from([0.0, 0.01, 0.1, 0.5, 1.0]),
        "repetition_penalty": st.sampled_from([1.0, 1.1, 2.0, 0.8]),
        "tokens": st.lists(st.integers(0, VOCAB - 1), max_size=6),
    }
)
# Few values, so that many are equal; and fine ones, so that many are not.
logits_rows = st.lists(
    st.one_of(st.integers(-3, 3).map(float), st.floats(-6, 6, width=32)),
    min_size=VOCAB,
    max_size=VOCAB,
)


def on_an_edge(row, one):
    """Whether rounding decides which token is the last to stay."""
    p = naive_distribution(row, **{**one, "top_p": 1.0, "min_p": 0.0})
    ratios = [w / max(p) / one["min_p"] for w in p if one["min_p"]]
    p = naive_distribution(row, **{**one, "top_p": 1.0})
    p = sorted(p, reverse=True)
    sums = [math.fsum(p[:i]) / one["top_p"] for i in range(1, len(p))]
    # A ratio of exactly 1 is the likeliest token under min_p = 1: nothing is rounded there.
    return any(abs(v - 1) < 1e-9 for v in sums) or any(0 < abs(v - 1) < 1e-9 for v in ratios)


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(logits_rows, fields), min_size=1, max_size=5))
def test_every_mixture_of_settings_gives_the_naive_distribution(rows):
    assume(not any(on_an_edge(row, one) for row, one in rows))
    logits = torch.tensor([row for row, _ in rows])
    specs = [spec(i, **one) for i, (_, one) in enumerate(rows)]
    for p, (row, one) in zip(distribution(logits, specs).tolist(), rows, strict=True):
        wanted = naive_distribution(row, **one)
        assert [x > 0 for x in p] == [x > 0 for x in wanted]
        assert p == pytest.approx(wanted, abs=1e-12)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(logits_rows, fields), min_size=2, max_size=6), st.randoms())
def test_a_row_is_the_same_alone_and_in_any_company(rows, random):
    """To the last bit: a draw must not depend on who else draws."""
    logits = torch.tensor([row for row, _ in rows])
    specs = [spec(i, **one) for i, (_, one) in enumerate(rows)]
    order = list(range(len(rows)))
    random.shuffle(order)
    together = probabilities(logits, [specs[i] for i in order])
    for place, i in enumerate(order):
        assert torch.equal(together[place], probabilities(logits, [specs[i]])[0])


@pytest.mark.parametrize("name", list(SETTINGS))
def test_frequencies_follow_the_filtered_distribution(name):
    """Chi-square over 20,000 draws through `sample`; the seed is fixed: fails always or never."""
    generator = torch.Generator().manual_seed(5)
    logits = torch.randn(1, VOCAB, generator=generator)
    draws = 20_000
    one = SETTINGS[name]
    counts = Counter(sample(logits, [spec(position=p, **one) for p in range(draws)]))
    statistic, limit = chi_square(counts, naive_distribution(logits[0].tolist(), **one), draws)
    assert statistic < limit


# ---- transformers --------------------------------------------------------------------------------


def warpers(one):
    """`transformers`' processors for these settings, in our order."""
    t = pytest.importorskip("transformers")
    out = []
    if one.get("repetition_penalty", 1.0) != 1.0:
        out.append(t.RepetitionPenaltyLogitsProcessor(one["repetition_penalty"]))
    out.append(t.TemperatureLogitsWarper(one.get("temperature", 1.0)))
    if one.get("min_p"):
        out.append(t.MinPLogitsWarper(one["min_p"]))
    if one.get("top_k"):
        out.append(t.TopKLogitsWarper(one["top_k"]))
    if one.get("top_p", 1.0) < 1.0:
        out.append(t.TopPLogitsWarper(one["top_p"]))
    return out


@pytest.mark.parametrize("vocab_size", [VOCAB, 2000])
@pytest.mark.parametrize("name", list(SETTINGS))
def test_filters_keep_what_those_of_transformers_keep(name, vocab_size):
    one = SETTINGS[name]
    generator = torch.Generator().manual_seed(vocab_size)
    logits = torch.randn(20, vocab_size, generator=generator, dtype=torch.float64) * 3
    ids = torch.tensor([one.get("tokens", [0])] * 20)
    expected = logits.clone()
    for warper in warpers(one):
        expected = warper(ids, expected)
    got = distribution(logits, [spec(i, **one) for i in range(20)])
    expected = torch.softmax(expected, dim=-1)
    assert torch.equal(got > 0, expected > 0)
    assert torch.allclose(got, expected, rtol=0, atol=1e-12)
    assert name in ("temperature", "penalty", "reward") or (got == 0).any()


# ---- edges ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("top_k", [VOCAB, VOCAB + 1, 16_777_216])
def test_a_top_k_as_large_as_the_vocabulary_keeps_all(top_k):
    logits = torch.arange(VOCAB).float()[None]
    assert torch.equal(probabilities(logits, [spec(top_k=top_k)]), probabilities(logits, [spec()]))


def test_equals_of_the_kth_logit_all_stay():
    kept = keep_top_k(torch.tensor([[3.0, 1.0, 2.0, 2.0, 2.0]]), [2])
    assert kept.tolist() == [[3.0, -math.inf, 2.0, 2.0, 2.0]]


def test_of_equals_top_p_takes_the_lower_ids_and_no_more_than_it_needs():
    p = torch.full((1, 4), 0.25, dtype=torch.float64)
    for top_p, num in [(0.5, 2), (0.51, 3), (0.25, 1), (1e-300, 1), (1 - 2**-53, 4)]:
        kept = keep_top_p(p.clone(), [top_p])
        assert (kept[0] > 0).tolist() == [i < num for i in range(4)], top_p


def test_a_nucleus_among_thousands_of_equals_is_the_lowest_ids():
    """Sorting must be stable: 5,000 equal tokens and one likelier, in the middle."""
    logits = torch.zeros(1, 5001)
    logits[0, 2500] = 1.0
    p = probabilities(logits, [spec(top_p=0.4)])[0]
    kept = p.nonzero().squeeze(-1).tolist()
    assert 2500 in kept and 1500 < len(kept) < 2500
    assert [t for t in kept if t != 2500] == list(range(len(kept) - 1))


def test_a_nucleus_of_almost_everything_is_a_rows_own():
    """999 tokens of 1e-17 do not move a float64 sum just below 1, so all below them come before
    top_p too, if they are looked at: they must not be because a neighbour is flat."""
    peaked = torch.full((1001,), math.log(1e-17), dtype=torch.float64)
    peaked[0], peaked[1000] = math.log1p(-1e-14), math.log(1e-21)
    rows = torch.stack([peaked, torch.zeros(1001, dtype=torch.float64)])
    specs = [spec(i, top_p=1 - 2**-53) for i in range(2)]
    (alone,) = probabilities(rows, specs[:1])
    together = probabilities(rows, specs)[0]
    assert torch.equal(alone, together)
    assert alone[1000] == 0 < alone[999]


@pytest.mark.parametrize("vocab_size", [3, 7, 49, 1000, 49_152])
def test_the_smallest_nucleus_of_a_flat_row_is_one_token(vocab_size):
    p = probabilities(torch.zeros(1, vocab_size), [spec(top_p=5e-324)])
    assert p[0].nonzero().tolist() == [[0]]


def test_min_p_of_one_keeps_the_likeliest_and_its_equals():
    p = probabilities(torch.tensor([[1.0, 5.0, 4.9, 5.0]]), [spec(min_p=1.0)])
    assert p.tolist() == [[0.0, 0.5, 0.0, 0.5]]


@pytest.mark.parametrize("one", list(SETTINGS.values()), ids=list(SETTINGS))
def test_something_is_always_left_to_draw(one):
    """However flat, peaked, or full of −∞ a row is; and a tiny temperature takes the best."""
    rows = torch.tensor(
        [
            [0.0] * VOCAB,
            [1e4] + [-1e4] * (VOCAB - 1),
            [-math.inf] * (VOCAB - 1) + [-5.0],
            [3e38] * 2 + [-3e38] * (VOCAB - 2),
        ]
    )
    p = probabilities(rows, [spec(i, **one) for i in range(4)])
    assert torch.isfinite(p).all() and (p.sum(dim=-1) > 0).all()
    assert sample(rows, [spec(2, **one)]) == [VOCAB - 1]
    cold = {**one, "temperature": 1e-320}
    logits = torch.randn(1, VOCAB, generator=torch.Generator().manual_seed(1))
    greedy = {**one, "temperature": 0.0}
    assert sample(logits, [spec(**cold)]) == sample(logits, [spec(**greedy)])


def test_a_row_of_minus_infinity_only_is_an_error():
    row = torch.full((1, 4), -math.inf)
    for one in ({}, {"temperature": 0.0}, {"temperature": 0.0, "repetition_penalty": 2.0}):
        with pytest.raises(FloatingPointError):
            sample(row, [spec(**one)])


# ---- the repetition penalty ----------------------------------------------------------------------


def test_a_greedy_choice_is_penalised_and_others_of_the_batch_are_not():
    logits = torch.tensor([[2.0, 1.9, -1.0], [-1.0, -1.1, -9.0]])
    fined = {"temperature": 0.0, "repetition_penalty": 1.5, "tokens": array("q", [0, 0, 0])}
    specs = [spec(0, **fined), spec(1, **fined), spec(0, temperature=0.0), spec(1, temperature=0.0)]
    assert sample(logits, specs) == [1, 1, 0, 0]
    assert logits.tolist()[0] == [2.0, pytest.approx(1.9), -1.0], "the logits are untouched"


def test_a_token_is_penalised_once_however_often_it_occurs():
    logits = torch.tensor([[4.0, 1.0]])
    one = distribution(logits, [spec(repetition_penalty=2.0, tokens=[0])])
    many = distribution(logits, [spec(repetition_penalty=2.0, tokens=[0] * 9)])
    assert torch.equal(one, many)
    assert one[0, 0].item() == pytest.approx(math.e / (1 + math.e))


@pytest.mark.parametrize("penalty", [5e-324, 1e-300, 100.0])
def test_extreme_penalties_stay_numbers(penalty):
    logits = torch.tensor([[9.0, 8.0, -7.0]])
    one = {"repetition_penalty": penalty, "tokens": [0, 2]}
    p = probabilities(logits, [spec(**one)])
    assert torch.isfinite(p).all() and p.sum() > 0
    assert sample(logits, [spec(temperature=0.0, **one)]) == [1 if penalty > 1 else 0]


@pytest.mark.parametrize("seed", range(5))
def test_whole_rows_in_order_give_the_same_nucleus(seed):
    """What a GPU does, which is not asked how much there is to sort."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(40, 3000, generator=generator, dtype=torch.float64)
    logits *= torch.logspace(-1, 1.5, 40, dtype=torch.float64)[:, None]
    logits[::3] = logits[::3].round()  # many that are equal
    p = torch.softmax(logits, -1)
    top_p = torch.rand(40, 1, generator=generator, dtype=torch.float64)
    assert torch.equal(filters._sorted_nucleus(p, top_p), filters._nucleus(p, top_p))
