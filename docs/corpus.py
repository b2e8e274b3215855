"""Write the small texts that the pages of the documentation use: the same on every machine.

    python docs/corpus.py DIRECTORY     writes corpus/stories.txt, corpus/recipes.txt and unseen.txt there

The sentences are made of a few hundred words and of random names, so that pre-tokens are frequent, rare or unique, as
in any text. Documents are separated by <|endoftext|>.
"""

import random
import sys
from collections.abc import Sequence
from pathlib import Path

WHO = "the miller,the old fisherman,a girl from the village,the king,my grandmother,the captain,nobody,the shepherd"
DID = "found,lost,remembered,carried home,painted,sold,gave away,looked for,never forgot,hid,repaired,dreamt of"
WHAT = (
    "a silver key,the letter,three apples,an empty boat,the lantern,a song,two hundred coins,the map,her brother's coat"
)
WHERE = "behind the mill,by the river,in the snow,under the bridge,at the market,on the island,before it was dark"
AND = "and so,because,although,but then,while,after that,and"
TAKE = "flour,butter,sugar,salt,cream,lemon juice,chopped onions,rice,white beans,cinnamon,tomatoes,ginger,olive oil"
DO = "Stir in,Add,Heat,Mix,Simmer,Fold in,Whisk,Pour over,Reduce,Season with,Slice,Roast"
UNITS = "g,ml,spoons of,cups of,handfuls of"
UNTIL = "until it is golden,for ten minutes,over a low heat,without stirring,until the sauce thickens,and let it rest"
SYLLABLES = "an,bel,cor,da,el,fen,gar,hol,il,jo,kar,lin,mar,nor,os,per,quin,ros,sa,tor,ul,ven,wil,yr"


class Writer:
    """Sentences from one seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def _one(self, words: str) -> str:
        return self._of(words.split(","))

    def _of(self, choices: Sequence[str]) -> str:
        return choices[int(self._random.random() ** 1.7 * len(choices))]  # the first ones more often

    def _name(self) -> str:
        syllables = 2 + int(self._random.random() * 2)
        return "".join(self._one(SYLLABLES) for _ in range(syllables)).capitalize()

    def _clause(self) -> str:
        who = self._name() if self._random.random() < 0.25 else self._one(WHO)
        return f"{who} {self._one(DID)} {self._one(WHAT)} {self._one(WHERE)}"

    def story(self) -> str:
        """A few sentences in which something happens."""
        lines = []
        for _ in range(3 + int(self._random.random() * 8)):
            first = self._clause()
            lines.append(f"{first[0].upper()}{first[1:]}, {self._one(AND)} {self._clause()}.")
            if self._random.random() < 0.2:
                lines.append(f'"I don\'t know," said {self._name()}, "it wasn\'t {self._one(WHAT)}."')
        return "\n".join(lines) + "\n"

    def recipe(self) -> str:
        """Ingredients and steps."""
        number = [str(5 * (1 + int(self._random.random() * 60))) for _ in range(4)]
        taken = [self._one(TAKE) for _ in range(4)]
        lines = [f"{self._name()} with {taken[0]}", ""]
        lines += [f"- {much} {self._one(UNITS)} {what}" for much, what in zip(number, taken, strict=True)]
        lines += [f"{self._one(DO)} the {what} {self._one(UNTIL)}." for what in taken]
        return "\n".join(lines) + "\n"


def main(directory: Path) -> None:
    """Write the files."""
    (directory / "corpus").mkdir(parents=True, exist_ok=True)
    writer = Writer(1)
    stories = "<|endoftext|>".join(writer.story() for _ in range(400))
    recipes = "<|endoftext|>".join(writer.recipe() for _ in range(300))
    (directory / "corpus" / "stories.txt").write_text(stories, encoding="utf-8")
    (directory / "corpus" / "recipes.txt").write_text(recipes, encoding="utf-8")
    (directory / "unseen.txt").write_text("".join(Writer(2).story() for _ in range(20)), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
