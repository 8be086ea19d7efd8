"""Classifiers with random weights, sharp enough that classes differ, for pages and graphs."""

from subquad.data.labels import Labels
from subquad.data.tokenizers import Tokenizer
from subquad.tasks import task_class
from subquad.tasks.classify import Classify
from tests.browser.conftest import SMALL, made

LABELS = ("money", "sport", "</script><b>&amp; é\U0001f98a")
LEARNED = (
    "what a match, what a goal: the team isn't tired!",
    "the bank raised its price 12 % \u2014 caf\u00e9 \u6f22\u5b57 \U0001f98a ok\u2019d __proto__",
)


def classifier(path, mixer="fastformer", kind="words", length=40, scale=4.0, classes=3, **changes):
    config = task_class("classify").defaults()
    config = config.having(**SMALL | {"mixers": (mixer,), "length": length} | changes)
    labels = Labels(LABELS if classes == len(LABELS) else tuple(map(str, range(classes))))
    task = Classify(config, labels, Tokenizer.train(kind, LEARNED, 300))
    return made(task, config, path, scale)
