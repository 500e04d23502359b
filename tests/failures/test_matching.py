"""What users write for "these failures", and how it is matched and written back."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.failures.failure import Failure
from redrive.failures.matching import (
    ANYTHING,
    NOTHING,
    TRANSIENT,
    UNKNOWN,
    Match,
    as_match,
    lineage,
    match_as_texts,
    qualified_name,
)


class BaseTrouble(Exception):
    pass


class Trouble(BaseTrouble):
    pass


def raised(error: Exception, category: Any = "unknown", status: int | None = None) -> Failure:
    names = lineage(type(error))
    return Failure(category=category, reason="a test says so", status=status, lineage=names, error=error)


def stored(error: Exception) -> Failure:
    """As it comes back from a store: without the live exception."""
    return msgspec.structs.replace(raised(error), error=None)


class TestClasses:
    def test_a_class_matches_itself_and_its_subclasses(self) -> None:
        match = as_match(BaseTrouble)
        assert match.matched_by(raised(Trouble())) == "BaseTrouble"
        assert match.matched_by(raised(BaseTrouble())) == "BaseTrouble"
        assert match.matched_by(raised(ValueError())) is None

    def test_a_subclass_does_not_match_its_base(self) -> None:
        assert as_match(Trouble).matched_by(raised(BaseTrouble())) is None

    def test_a_class_matches_without_the_live_exception_too(self) -> None:
        assert as_match(BaseTrouble).matched_by(stored(Trouble())) == qualified_name(BaseTrouble)
        assert as_match(Trouble).matched_by(stored(BaseTrouble())) is None

    @pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit, BaseException])
    def test_what_ends_the_program_cannot_be_named(self, kind: type) -> None:
        with pytest.raises(TypeError, match="never retried"):
            as_match(kind)

    def test_a_class_that_is_no_exception_is_refused(self) -> None:
        with pytest.raises(TypeError, match="int is not an exception class"):
            as_match(int)


class TestNames:
    @pytest.mark.promise("R3")
    @pytest.mark.parametrize(
        "name", ["Trouble", "BaseTrouble", f"{__name__}.Trouble", f"{__name__}.BaseTrouble", "Exception"]
    )
    def test_bare_and_qualified_names_of_the_class_and_its_bases_match(self, name: str) -> None:
        assert as_match(name).matched_by(raised(Trouble())) == name
        assert as_match(name).matched_by(stored(Trouble())) == name

    @pytest.mark.parametrize("name", ["trouble", "Troubl", "other.Trouble", "object"])
    def test_other_names_do_not(self, name: str) -> None:
        assert as_match(name).matched_by(raised(Trouble())) is None

    @pytest.mark.parametrize("name", ["json.JSONDecodeError", "json.decoder.JSONDecodeError", "JSONDecodeError"])
    def test_a_class_can_be_named_by_the_package_that_offers_it(self, name: str) -> None:
        assert as_match(name).matched_by(raised(json.JSONDecodeError("x", "", 0))) == name

    def test_a_package_that_offers_another_class_of_that_name_does_not_name_it(self) -> None:
        elsewhere = type("JSONDecodeError", (Exception,), {"__module__": "json.decoder"})
        assert as_match("json.JSONDecodeError").matched_by(raised(elsewhere())) is None

    def test_a_local_class_can_be_named(self) -> None:
        class Local(Exception):
            pass

        assert as_match(qualified_name(Local)).matched_by(raised(Local())) is not None

    @pytest.mark.parametrize("text", ["", " ", "a b", "1abc", "a..b", ".a", "a.", "Error!", "status 429"])
    def test_what_is_no_name_is_refused(self, text: str) -> None:
        with pytest.raises(ValueError, match="does not name a failure"):
            as_match(text)


class TestStatuses:
    @pytest.mark.parametrize(
        ("written", "inside", "outside"),
        [
            (429, [429], [428, 430]),
            ("status:429", [429], [428, 430]),
            ("status:5xx", [500, 503, 599], [499, 600]),
            ("status:5XX", [500, 599], [499]),
            ("status:500-504", [500, 502, 504], [499, 505]),
            ("status: 500-504", [500], [505]),
        ],
    )
    def test_a_status_or_a_range(self, written: Any, inside: list[int], outside: list[int]) -> None:
        match = as_match(written)
        for status in inside:
            assert match.matched_by(raised(Trouble(), status=status)) == f"status {status}"
        for status in outside:
            assert match.matched_by(raised(Trouble(), status=status)) is None
        assert match.matched_by(raised(Trouble())) is None

    @pytest.mark.parametrize("written", [0, 99, 600, -1, "status:600", "status:504-500", "status:9xx", "status:0xx"])
    def test_what_is_no_status_is_refused(self, written: Any) -> None:
        with pytest.raises(ValueError, match="not an HTTP status"):
            as_match(written)

    @pytest.mark.parametrize(
        "written", ["status:", "status:abc", "status:5x", "status:500-", "status:²00", "status:-5"]
    )
    def test_what_cannot_be_read_is_refused(self, written: str) -> None:
        with pytest.raises(ValueError, match="is not a status"):
            as_match(written)

    def test_true_is_not_a_status(self) -> None:
        with pytest.raises(TypeError, match="does not name a failure"):
            as_match(True)


class TestCategories:
    def test_each_category_matches_its_own(self) -> None:
        for category in ("transient", "permanent", "unknown"):
            for other in ("transient", "permanent", "unknown"):
                matched = as_match(category).matched_by(raised(Trouble(), category=other))
                assert (matched is not None) == (category == other)

    def test_any_matches_all_and_nothing_matches_none(self) -> None:
        assert as_match("any").matched_by(raised(Trouble())) == "any failure"
        assert ANYTHING.matched_by(raised(Trouble())) == "any failure"
        assert NOTHING.matched_by(raised(Trouble())) is None
        assert not NOTHING
        assert ANYTHING
        assert TRANSIENT.matched_by(raised(Trouble(), category="transient"))
        assert UNKNOWN.matched_by(raised(Trouble()))


class TestPredicatesAndSeveral:
    def test_a_predicate_is_asked_about_the_live_exception(self) -> None:
        def is_busy(error: BaseException) -> bool:
            return "busy" in str(error)

        match = as_match(is_busy)
        assert match.matched_by(raised(Trouble("busy"))) == "predicate is_busy"
        assert match.matched_by(raised(Trouble("idle"))) is None
        assert match.matched_by(stored(Trouble("busy"))) is None

    def test_several_are_alternatives(self) -> None:
        match = as_match([ValueError, "Trouble", 503, "permanent"])
        assert match.matched_by(raised(ValueError()))
        assert match.matched_by(raised(Trouble()))
        assert match.matched_by(raised(KeyError(), status=503))
        assert match.matched_by(raised(KeyError(), category="permanent"))
        assert match.matched_by(raised(KeyError())) is None

    def test_a_match_is_read_as_itself(self) -> None:
        match = Match(names=("Trouble",))
        assert as_match(match) is match

    @pytest.mark.parametrize("what", [None, 1.5, object()])
    def test_anything_else_is_refused(self, what: Any) -> None:
        with pytest.raises(TypeError, match="cannot tell which failures"):
            as_match(what)


names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}(\.[A-Za-z_][A-Za-z0-9_]{0,8}){0,2}", fullmatch=True)
statuses = st.tuples(st.integers(100, 599), st.integers(100, 599)).map(lambda pair: (min(pair), max(pair)))
matches = st.builds(
    Match,
    categories=st.lists(st.sampled_from(["transient", "permanent", "unknown", "any"]), max_size=2).map(tuple),
    names=st.lists(names.filter(lambda name: name not in ("transient", "permanent", "unknown", "any")), max_size=3).map(
        tuple
    ),
    statuses=st.lists(statuses, max_size=3).map(tuple),
)


@given(matches)
def test_what_is_written_down_is_read_back(match: Match) -> None:
    assert as_match(match_as_texts(match)) == match


def test_a_class_is_written_by_its_name() -> None:
    texts = match_as_texts(as_match([Trouble, ConnectionError]))
    assert texts == [qualified_name(Trouble), "ConnectionError"]
    read = as_match(texts)
    assert read.matched_by(raised(Trouble()))
    assert read.matched_by(raised(ConnectionResetError()))
    assert read.matched_by(raised(BaseTrouble())) is None


def test_a_predicate_cannot_be_written_down() -> None:
    with pytest.raises(ValueError, match="has no text form"):
        match_as_texts(as_match(lambda error: True))


def test_lineage_names_the_class_first_and_each_name_once() -> None:
    assert lineage(ConnectionResetError)[:4] == (
        "builtins.ConnectionResetError",
        "ConnectionResetError",
        "builtins.ConnectionError",
        "ConnectionError",
    )
    assert len(set(lineage(Trouble))) == len(lineage(Trouble))
    assert "object" not in lineage(Trouble)
