"""What users and developers read is American English, without the phrases that native speakers stumbled over."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "tests", "docs", "benchmarks", "examples")
KINDS = {".py", ".md", ".html", ".toml", ".txt", ".css", ".js", ".rst"}
BRITISH = (
    r"neighbour|centre[sd]?\b|centring|colour|\bgrey|behaviour|favour|honour|labell(?!edby)|modell(ed|ing)|travell|catalogue|"
    r"artefact|whilst|learnt|judgement|fulfil\b|"
    r"(normal|optim|minim|maxim|general|regular|vector|factor|initial|standard|summar|organ|recogn|parallel|symmetr|random)"
    r"is(e|ed|es|er|ing|ation)\b"
)
STUMBLED = (
    r"no distance to learn from|be the name of no|no plain file|, which is none|is no width|mend that|"
    r"not done again|behind the reduction|polite request|to go on with"
)
WORDS = re.compile(rf"\b\w*({BRITISH})|{STUMBLED}", re.IGNORECASE)
PAGES = sorted(
    path
    for path in (*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*")))
    if path.suffix in KINDS and path != Path(__file__)
)


def test_the_words_are_those_of_the_ecosystem():
    assert len(PAGES) > 300
    found = [
        f"{path.relative_to(ROOT)}:{k}: {match.group()}"
        for path in PAGES
        for k, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if (match := WORDS.search(line))
    ]
    assert found == []


@pytest.mark.parametrize("word", ["Neighbours", "centred", "minimisation", "behaviour", "a matrix, which is none"])
def test_the_check_itself_sees_such_words(word):
    assert WORDS.search(word)


@pytest.mark.parametrize("word", ["neighbors", "centered", "aria-labelledby", "otherwise", "isinstance", "raised"])
def test_the_check_itself_lets_other_words_pass(word):
    assert not WORDS.search(word)
