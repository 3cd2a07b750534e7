"""Questions and answers for `answer_matching.py`, made from facts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

CAPITALS = (
    "argentina buenos-aires, australia canberra, austria vienna, belgium brussels, brazil brasilia, canada ottawa, "
    "chile santiago, china beijing, cuba havana, denmark copenhagen, egypt cairo, finland helsinki, france paris, "
    "germany berlin, greece athens, hungary budapest, india new-delhi, iran tehran, ireland dublin, italy rome, "
    "japan tokyo, kenya nairobi, mexico mexico-city, norway oslo, peru lima, poland warsaw, portugal lisbon, "
    "russia moscow, spain madrid, sweden stockholm, thailand bangkok, turkey ankara, uruguay montevideo"
)
YOUNG = (
    "cat kitten, dog puppy, cow calf, horse foal, sheep lamb, goat kid, pig piglet, hen chick, duck duckling, "
    "goose gosling, swan cygnet, frog tadpole, bear cub, deer fawn, kangaroo joey, eagle eaglet, owl owlet, "
    "hare leveret"
)
SYMBOLS = (
    "hydrogen h, helium he, lithium li, carbon c, nitrogen n, oxygen o, sodium na, magnesium mg, aluminium al, "
    "silicon si, phosphorus p, sulfur s, chlorine cl, potassium k, calcium ca, iron fe, copper cu, zinc zn, silver ag, "
    "tin sn, iodine i, tungsten w, gold au, mercury hg, lead pb"
)


class Relation(NamedTuple):
    """Pairs of a subject and what is asked for; wordings of the question, and of the answer."""

    pairs: str
    questions: list[str]
    answers: list[str]


RELATIONS = [
    Relation(
        CAPITALS,
        [
            "what is the capital of {}",
            "which city is the capital of {}",
            "where does the government of {} have its seat",
            "name the city from which {} is governed",
            "in which city does the parliament of {} meet",
        ],
        ["it is the city of {}", "that would be {}", "the ministers work in {}"],
    ),
    Relation(
        YOUNG,
        [
            "what is the young of a {} called",
            "what do you call a young {}",
            "how do we name the child of a {}",
            "which word means a {} that is not yet grown up",
            "a {} was just born what is it",
        ],
        ["it is called a {}", "that is a {}", "people say {}"],
    ),
    Relation(
        SYMBOLS,
        [
            "what is the chemical symbol of {}",
            "which letters stand for {}",
            "how is {} written in a formula",
            "how do chemists abbreviate {}",
            "where should i look for {} in the periodic table",
        ],
        ["its symbol is {}", "chemists write {}", "look for {}"],
    ),
]


class Question(NamedTuple):
    """The words of a question, and the number of the fact that answers it."""

    words: list[str]
    fact: int


class Facts(NamedTuple):
    """Questions to train on and held out; and for each fact its answers, which differ in their wording."""

    train: list[Question]
    test: list[Question]
    answers: list[list[list[str]]]


def questions_and_answers(rng: np.random.Generator) -> Facts:
    """One wording of the question about each fact, drawn at random, is held out; the others are there to train on."""
    train, test, answers = [], [], []
    for relation in RELATIONS:
        for pair in relation.pairs.split(", "):
            subject, asked = pair.split()
            fact = len(answers)
            questions = [Question(form.format(subject).split(), fact) for form in relation.questions]
            test.append(questions.pop(rng.integers(len(questions))))
            train += questions
            answers.append([form.format(asked).split() for form in relation.answers])
    return Facts(train, test, answers)
