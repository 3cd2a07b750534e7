"""The examples that read text: their corpora are what they say, and the models learn."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import singax as sx

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


@pytest.fixture(autouse=True)
def _examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))


# -- words ------------------------------------------------------------------------------------------------------


def test_words_of_a_text() -> None:
    from words import words_of

    assert words_of("It's <br /><br />NOT a fünfzig-dollar Film!") == ["it's", "not", "a", "fünfzig", "dollar", "film"]


def test_sentences_are_padded_and_cut_off() -> None:
    from words import END, Vocabulary

    vocabulary = Vocabulary([["a", "b"], ["a"], ["c", "b"], ["a"]], most=2)
    assert vocabulary.words[4:] == ["a", "b"]
    ids, lengths = vocabulary.encode([["a"], ["c", "b", "a"]], longest=2)
    assert ids.tolist() == [[4, 0], [1, 5]]
    assert lengths.tolist() == [1, 2]
    assert (ids.dtype, lengths.dtype) == (np.int32, np.int32)
    assert vocabulary.encode([["a"], ["c", "b", "a"]])[0].shape == (2, 3)
    assert vocabulary.decode([4, 5, END, 4]) == ["a", "b"]


# -- reviews ----------------------------------------------------------------------------------------------------

JUDGED = {
    "the film was good": 1,
    "the film was not good at all": 0,
    "this is not a bad story": 1,
    "this is not a clever story": 0,
    "nobody can call this plot boring": 1,
    "nobody can say that the plot was not boring": 0,
    "the acting was awful and not great": 0,
    "the acting was great and not awful": 1,
    "i expected the ending to be bad but it was moving": 1,
    "it is not the good script that i expected but a lazy one": 0,
}


def test_the_grammar_knows_what_its_sentences_mean() -> None:
    from reviews import every_sentence

    bad, good = (set(every_sentence(label)) for label in (0, 1))
    assert not bad & good
    assert len(bad) == len(good) > 1000
    for sentence, label in JUDGED.items():
        assert sentence in (bad, good)[label], sentence
        assert sentence not in (good, bad)[label], sentence


def test_no_sentence_of_a_held_out_review_is_trained_on(monkeypatch: pytest.MonkeyPatch) -> None:
    import reviews

    handed_on = []
    composed = reviews.composed
    monkeypatch.setattr(reviews, "composed", lambda given, *rest: handed_on.append(given) or composed(given, *rest))
    corpus = reviews.grammar(200, np.random.default_rng(0))
    train, test = ({str(sentence) for side in given for sentence in side} for given in handed_on)
    assert not train & test
    assert train | test == {*reviews.every_sentence(0), *reviews.every_sentence(1)}
    assert [np.mean([review.label for review in part]) for part in corpus] == [0.5, 0.5]
    assert (len(corpus.train), len(corpus.test)) == (200, 40)


def test_a_review_is_made_of_given_sentences() -> None:
    from reviews import composed

    made = composed([np.array(["bad film"]), np.array(["good film"])], 50, np.random.default_rng(0))
    assert {(" ".join(review.words), review.label) for review in made} == {
        (" ".join([sentence] * count), label)
        for label, sentence in enumerate(("bad film", "good film"))
        for count in (1, 2, 3)
    }


def written(folder: Path, name: str, texts: list[str]) -> None:
    (folder / name).mkdir(parents=True)
    for index, text in enumerate(texts):
        (folder / name / f"{index}_7.txt").write_text(text, encoding="utf-8")


def test_a_folder_of_text_files(tmp_path: Path) -> None:
    import reviews

    rng = np.random.default_rng(0)
    for part in ("train", "test"):
        written(tmp_path / part, "pos", [f"Good {part}!"] * 3)
        written(tmp_path / part, "neg", [f"Bad<br />{part}."] * 2)
    corpus = reviews.folder(tmp_path, rng)
    assert corpus.train == [(["bad", "train"], 0)] * 2 + [(["good", "train"], 1)] * 3
    assert len(corpus.test) == 5
    parts = reviews.folder(tmp_path / "train", rng)
    assert (len(parts.train), len(parts.test)) == (4, 1)
    with pytest.raises(SystemExit, match="no text files"):
        reviews.folder(tmp_path / "train" / "pos", rng)


def test_words_that_vote() -> None:
    from reviews import Corpus, Review, bag_of_words_accuracy

    train = [Review(["good", "film"], 1), Review(["bad", "film"], 0)]
    assert bag_of_words_accuracy(Corpus(train, train)) == 1
    assert bag_of_words_accuracy(Corpus(train, [Review(["not", "good"], 0), Review(["good", "cast"], 1)])) == 0.5


def test_the_lstm_understands_what_counting_words_cannot(capsys: pytest.CaptureFixture[str]) -> None:
    import sentiment_lstm

    figures = sentiment_lstm.main(["--reviews", "1500", "--epochs", "6", "--hidden", "32"])
    assert figures["accuracy"] > 0.9
    assert figures["bag of words"] < 0.85
    assert f"accuracy {figures['accuracy']:.3f}" in capsys.readouterr().out


# -- questions and answers --------------------------------------------------------------------------------------


def test_held_out_questions_are_about_known_facts_in_other_words() -> None:
    from facts import questions_and_answers

    found = questions_and_answers(np.random.default_rng(0))
    assert len(found.answers) == len(found.test) == len({question.fact for question in found.train})
    trained = {" ".join(question.words) for question in found.train}
    assert not trained & {" ".join(question.words) for question in found.test}
    known = {word for question in found.train for word in question.words}
    assert {word for question in found.test for word in question.words} <= known
    answers = [" ".join(answer) for answers in found.answers for answer in answers]
    assert len(set(answers)) == len(answers)


def test_matching_ranks_better_than_chance() -> None:
    import answer_matching

    figures = answer_matching.main(["--epochs", "15", "--hidden", "32", "--lr", "0.01"])
    assert figures["chance"] == 1 / 76
    assert figures["first"] > 10 * figures["chance"]


# -- translation ------------------------------------------------------------------------------------------------

SPELLED = {
    0: ("zero", "null"),
    1: ("one", "eins"),
    7: ("seven", "sieben"),
    11: ("eleven", "elf"),
    12: ("twelve", "zwölf"),
    16: ("sixteen", "sechzehn"),
    17: ("seventeen", "siebzehn"),
    20: ("twenty", "zwanzig"),
    21: ("twenty one", "einundzwanzig"),
    30: ("thirty", "dreißig"),
    42: ("forty two", "zweiundvierzig"),
    60: ("sixty", "sechzig"),
    76: ("seventy six", "sechsundsiebzig"),
    100: ("one hundred", "einhundert"),
    101: ("one hundred one", "einhunderteins"),
    117: ("one hundred seventeen", "einhundertsiebzehn"),
    561: ("five hundred sixty one", "fünfhunderteinundsechzig"),
    1000: ("one thousand", "eintausend"),
    1001: ("one thousand one", "eintausendeins"),
    2100: ("two thousand one hundred", "zweitausendeinhundert"),
    9999: ("nine thousand nine hundred ninety nine", "neuntausendneunhundertneunundneunzig"),
}


def test_numbers_are_spelled_as_they_should_be() -> None:
    from numbers_german import english, german

    for number, (one, other) in SPELLED.items():
        assert (" ".join(english(number)), "".join(german(number))) == (one, other)
    assert len({"".join(german(number)) for number in range(10000)}) == 10000
    assert len({" ".join(english(number)) for number in range(10000)}) == 10000


@pytest.fixture(name="tiny", scope="module")
def _tiny() -> tuple[ModuleType, object, sx.Module]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLES))
        import translation
    corpus = translation.Corpus(np.array([42, 1, 9999, 1001]))
    model = translation.Translator(len(corpus.source_vocabulary), len(corpus.target_vocabulary), 8, 1, 1e-3)
    model.compile([sx.Placeholder(rows.shape, dtype=sx.int32) for rows in corpus.rows(slice(None))[:3]])
    return translation, corpus, model


def test_the_decoder_is_taught_the_next_word(tiny: tuple) -> None:
    _, corpus, _ = tiny
    name = corpus.target_vocabulary.words
    assert [name[index] for index in corpus.written[0][:5]] == ["<start>", "zwei", "und", "vierzig", "<padding>"]
    assert [name[index] for index in corpus.following[0][:5]] == ["zwei", "und", "vierzig", "<end>", "<padding>"]
    assert (corpus.written[:, 1:] == np.where(corpus.following == 3, 0, corpus.following)[:, :-1]).all()
    assert corpus.following[2].tolist().index(3) == 7


def test_neither_padding_nor_later_words_change_a_translation(tiny: tuple) -> None:
    _, corpus, model = tiny
    model.eval()
    right = model(corpus.source, corpus.lengths, corpus.written).to_numpy()
    source, written = corpus.source.copy(), corpus.written.copy()
    source[1, corpus.lengths[1] :] = 5
    written[:, 4:] = 6
    other = model(source, corpus.lengths, written).to_numpy()
    np.testing.assert_allclose(other[:, :4], right[:, :4], rtol=1e-5, atol=1e-6)
    assert np.abs(other[:, 4:] - right[:, 4:]).max() > 1e-3


def test_greedy_decoding_reads_what_it_has_said(tiny: tuple) -> None:
    translation, corpus, model = tiny
    found = translation.translate(model, corpus.source, corpus.lengths, longest=4)
    written = np.zeros_like(corpus.written)[:, :5]
    written[:, 0], written[:, 1:] = 2, found
    logits = model(corpus.source, corpus.lengths, written).to_numpy()
    np.testing.assert_array_equal(found, logits[:, :4].argmax(2))


def test_the_loss_ignores_padding(tiny: tuple) -> None:
    _, corpus, model = tiny
    logits = np.random.default_rng(0).normal(size=(*corpus.following.shape, len(corpus.target_vocabulary)))
    logits = logits.astype(np.float32)
    wide = logits.astype(np.float64)
    log = wide - np.log(np.exp(wide).sum(-1, keepdims=True))
    right = np.take_along_axis(log, corpus.following[..., None], -1)[..., 0]
    each = -0.9 * right - 0.1 * log.mean(-1)
    expected = each[corpus.following != 0].mean()
    found = model.loss(sx.tensor.from_numpy(logits), sx.tensor.from_numpy(corpus.following))
    np.testing.assert_allclose(float(found), expected, rtol=1e-5)


def test_a_transformer_learns_to_count(capsys: pytest.CaptureFixture[str]) -> None:
    import translation

    settings = "--train 400 --test 40 --epochs 10 --batch 50 --features 32 --layers 1 --lr 0.01"
    translation.main(settings.split())
    losses = [float(line.split()[3].rstrip(",")) for line in capsys.readouterr().out.splitlines() if "loss" in line]
    assert losses[-1] < 1.2
