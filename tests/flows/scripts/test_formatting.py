"""One layout: formatting again changes nothing, no comment is lost, and the script means what it meant."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.flows.scripts.examples import BRACKETS, ORDER
from tests.flows.scripts.generated import scripts
from tests.flows.scripts.printing import print_script

from redrive.errors import ScriptError
from redrive.flows.scripts import nodes
from redrive.flows.scripts.formatting import WIDTH, format_script
from redrive.flows.scripts.layout import script_tokens
from redrive.flows.scripts.parsing import parse

UNTIDY = """\
#!a first line
#orders
fn helper( a,b = 2 ):   # why
   # first
   x=a+b*-2**3 // (1-- 2)
   # deeper
 # of main
# of main too
fn main(order):


    if order   not in  [1,2 ,3,]  :
       y = @shop.charge( order = order ,amount = order[ 1 : 2 ],  )[ (status:5xx,Busy)->retry:5,backoff : 2m ]


       # end of block
    elif order:
        z = {"a":1,  # one
          "b"  : [1,2],
          # tail
        }
    else :
        boxes=spread order[1:]:line->@pack(line=line)[retry:3,backoff:60]
    helper(the_first_of_the_arguments, the_second_argument, [third, of, them, may, be, a, list, of, words], {"a": 1})
    w = (a  # c1
       + b # c2
       )
    for a , b in items(order):
        order [ 0 ] [1] += - 1
    return order if not y else (@f())[0]
    # bye
"""
TIDY = """\
#!a first line
# orders
fn helper(a, b=2):  # why
    # first
    x = a + b * -2 ** 3 // (1 - -2)
    # deeper

# of main
# of main too
fn main(order):
    if order not in [1, 2, 3]:
        y = @shop.charge(
            order=order,
            amount=order[1:2],
        ) [(status:5xx, Busy) -> retry: 5, backoff: 2m]

        # end of block
    elif order:
        z = {
            "a": 1,  # one
            "b": [1, 2],
            # tail
        }
    else:
        boxes = spread order[1:]:line -> @pack(line=line) [retry: 3, backoff: 60]
    helper(
        the_first_of_the_arguments,
        the_second_argument,
        [third, of, them, may, be, a, list, of, words],
        {"a": 1},
    )
    w = (
        # c1
        a + b  # c2
    )
    for a, b in items(order):
        order[0][1] += -1
    return order if not y else (@f())[0]
    # bye
"""


def test_an_untidy_script_becomes_tidy() -> None:
    assert format_script(UNTIDY) == TIDY


@pytest.mark.parametrize("text", [TIDY, ORDER, BRACKETS], ids=["tidy", "order", "brackets"])
def test_a_tidy_script_stays_as_it_is(text: str) -> None:
    assert format_script(text) == text


def test_comments_stay_where_they_are() -> None:
    text = """\
fn main():
  x = [
        1, # one
     2
     # after two
  ]
  y = f(
     1  # one
     # below
     + 2
  )
  return @f(a=1) [NetworkError -> retry: 3,  # three
            backoff: 1s,
                # and so on
     jitter: full
       ]
"""
    tidy = """\
fn main():
    x = [
        1,  # one
        2,
        # after two
    ]
    y = f(
        # below
        1 + 2,  # one
    )
    return @f(a=1) [NetworkError -> retry: 3,  # three
        backoff: 1s,
        # and so on
        jitter: full
    ]
"""
    assert format_script(text) == tidy
    assert format_script(tidy) == tidy


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_line_ends_and_marks_are_made_one(end: str) -> None:
    assert format_script("\ufeff" + ORDER.replace("\n", end)) == ORDER


def test_what_is_no_script_is_refused() -> None:
    with pytest.raises(ScriptError, match=r"order\.rd:1:5"):
        format_script("x = = 1", "order.rd")


def test_lines_are_short_where_brackets_allow_it() -> None:
    arguments = ", ".join(f"argument_{index}=[{index}, {index}, {index}]" for index in range(20))
    text = f"fn main():\n    x = @f({arguments}) + @g({arguments})\n"
    assert max(len(line) for line in format_script(text).splitlines()) <= WIDTH


def comments_in(text: str) -> list[str]:
    return re.findall("# c[0-9]+$", text, re.MULTILINE)


@st.composite
def commented(draw: st.DrawFn) -> str:
    """A script with comments and blank lines wherever they may stand."""
    text = print_script(draw(scripts()))
    depth, at, parts, count = 0, 0, [], 0
    for token in script_tokens(text):
        kind, end = token.kind, token.end
        depth += (kind in tuple("([{")) - (kind in tuple(")]}"))
        breaks = kind == "newline" or (depth > 0 and kind in (*"([{,+", "name"))
        if not breaks or draw(st.integers(0, 3)):
            continue
        count += 1
        margin = draw(st.sampled_from(["", " ", "\n", "\n\n\n   "]))
        before = text[at:end] if kind != "newline" else text[at : end - 1]
        parts.append(f"{before}{margin} # c{count}\n")
        at = end
    return "".join(parts) + text[at:]


@given(commented())
def test_formatting_twice_is_formatting_once_and_keeps_comments_and_meaning(text: str) -> None:
    formatted = format_script(text)
    assert format_script(formatted) == formatted
    assert repr(parse(formatted).functions) == repr(parse(text).functions)
    assert sorted(comments_in(formatted)) == sorted(comments_in(text))
    assert "\n\n\n" not in formatted


def test_printing_is_formatted() -> None:
    script = parse(ORDER)
    assert isinstance(script, nodes.ScriptTree)
    assert print_script(script) == ORDER.partition("\n")[2]
