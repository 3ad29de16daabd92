"""Every requirement that is built has a test, and no test names one that does not exist."""

from __future__ import annotations

import os

import pytest

from tests.spec.lines import document_ids, markers, problems, table, tree_markers

_TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_PROJECT = os.path.dirname(_TESTS)
_DOCUMENT = os.path.join(os.path.dirname(_PROJECT), "shared", "SPEC.md")


def _read(*parts: str) -> str:
    with open(os.path.join(*parts), encoding="utf-8") as file:
        return file.read()


@pytest.fixture(scope="module")
def states() -> dict[str, str]:
    return table(_read(_PROJECT, "docs", "spec-lines.md"))


def test_built_lines_have_tests_and_tests_name_real_lines(states):
    found = problems(states, tree_markers(_TESTS))
    assert not found, "\n".join(found)


def test_the_seam_is_built(states):
    assert {line for line, state in states.items() if state == "built"} >= {f"SEAM-{n:02}" for n in range(1, 28)}


@pytest.mark.skipif(not os.path.exists(_DOCUMENT), reason="the specification is not beside this checkout")
def test_table_and_specification_name_the_same_lines(states):
    assert set(states) == document_ids(_read(_DOCUMENT))


# The checker itself must be able to fail: a small tree of tests, and a table with one line more or less.

_FAKE = {"SEAM-01": "built", "SEAM-02": "built", "POL-01": "planned"}

_GOOD = """
import pytest

@pytest.mark.spec("SEAM-01")
def test_one(): ...

class TestTwo:
    @pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.spec("SEAM-02"))])
    def test_two(self, x): ...
"""


def _problems_of(tmp_path, source: str, states: dict[str, str] = _FAKE) -> list[str]:
    deep = tmp_path / "deep"
    deep.mkdir()
    (deep / "test_fake.py").write_text(source)
    (deep / "helper.py").write_text('import pytest\n@pytest.mark.spec("SEAM-99")\ndef test_not_collected(): ...\n')
    return problems(states, tree_markers(str(tmp_path)))


def test_agreement_is_no_problem(tmp_path):
    assert _problems_of(tmp_path, _GOOD) == []


def test_a_line_without_a_test_is_found(tmp_path):
    assert _problems_of(tmp_path, _GOOD, {**_FAKE, "SEAM-03": "built"}) == [
        "SEAM-03 is built but no test carries its ID."
    ]


def test_an_unknown_line_is_found_with_its_place(tmp_path):
    found = _problems_of(tmp_path, _GOOD.replace('spec("SEAM-01")', 'spec("SEAM-01", "SEAM-28")'))
    assert found == [f"{os.path.join('deep', 'test_fake.py')}:4 names SEAM-28, which is no line of the table."]


def test_a_wrong_state_is_found(tmp_path):
    assert _problems_of(tmp_path, _GOOD, {**_FAKE, "POL-01": "later"}) == [
        "POL-01 has the state 'later'; say built or planned."
    ]


@pytest.mark.parametrize(
    "source",
    [
        '@pytest.mark.spec("SEAM-01")\ndef helper(): ...',
        '@pytest.mark.spec("SEAM-01")\nclass Helper:\n    def test_x(self): ...',
        '@pytest.mark.skip\n@pytest.mark.spec("SEAM-01")\ndef test_x(): ...',
        '@pytest.mark.lab\n@pytest.mark.spec("SEAM-01")\ndef test_x(): ...',
        'pytestmark = [pytest.mark.lab]\n@pytest.mark.spec("SEAM-01")\ndef test_x(): ...',
        'pytestmark = [pytest.mark.spec("SEAM-01"), pytest.mark.skip(reason="later")]\ndef test_x(): ...',
        '@pytest.mark.xfail(reason="later")\nclass TestX:\n    @pytest.mark.spec("SEAM-01")\n    def test_x(self): ...',
    ],
)
def test_a_marker_that_nothing_runs_covers_nothing(source):
    assert [(marker.id, marker.covers) for marker in markers(source, "x")] == [("SEAM-01", False)]


@pytest.mark.parametrize(
    "source",
    [
        'pytestmark = pytest.mark.spec("SEAM-01")\ndef test_x(): ...',
        'class TestX(Suite):\n    pytestmark = [pytest.mark.spec("SEAM-01"), pytest.mark.slow]',
        '@pytest.mark.spec("SEAM-01")\nasync def test_x(): ...',
        '@pytest.mark.spec("SEAM-01")\n@parametrize(pytest.param(1, marks=pytest.mark.lab))\ndef test_x(x): ...',
    ],
)
def test_every_way_to_carry_a_marker_covers(source):
    assert [(marker.id, marker.covers) for marker in markers(source, "x")] == [("SEAM-01", True)]


@pytest.mark.parametrize("arguments", ["", "LINE", 'f"SEAM-{n}"'])
def test_an_id_that_is_not_written_out_is_a_problem(arguments):
    found = markers(f"@pytest.mark.spec({arguments})\ndef test_x(): ...", "x")
    assert problems({}, found) == ["x:1 gives an ID that is not a plain text; write it out."]


def test_a_line_named_twice_in_the_table_is_refused():
    with pytest.raises(ValueError, match="twice"):
        table("| SEAM-01 | a | built |\n| SEAM-01 | b | built |\n")
