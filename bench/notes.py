"""What is found among notes: several languages, long notes, notes that are nearly the same, and dates.

    python bench/notes.py [--json] [--dir DIR]

A question is answered if one of the notes that answer it comes first (hit@1) or among the first five (hit@5). All
contenders search the same texts, the line with the date included: agentm as it comes, grep (the notes that hold most of
the question's words), and SQLite's FTS5 (unicode61, any of the words, its own ranking).
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

from agentm import Memory, Note

FIRST = 5
PAST = 6_000
"""Characters of a long note before what is asked for."""

Search = Callable[[str], list[str]]


@dataclass(frozen=True)
class Written:
    """A note, and when it was."""

    name: str
    text: str
    when: str | None = None

    @property
    def file(self) -> str:
        """As it lies in its file."""
        return f"---\ndate: {self.when}\n---\n\n{self.text}" if self.when else self.text


@dataclass(frozen=True)
class Question:
    kind: str
    text: str
    wanted: frozenset[str]


@dataclass
class Result:
    """One contender, by kind of question."""

    name: str
    first: dict[str, float]
    """hit@1"""
    among: dict[str, float]
    """hit@5"""
    milliseconds: float


@dataclass
class Goal:
    name: str
    goal: str
    figure: float
    passed: bool


LANGUAGES: dict[str, tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]] = {
    "English": (
        (
            ("en-milk", "Alice takes oat milk in her coffee and leaves the sugar out."),
            ("en-roof", "The roof over the workshop leaks when the wind comes from the north."),
            ("en-dentist", "Dr. Moreau pulled the wisdom tooth; the stitches come out by themselves."),
            ("en-bike", "The blue bicycle needs a new chain before the trip along the river."),
            ("en-deploy", "We never deploy on Fridays since the outage of the payment service."),
            ("en-piano", "Grandmother's piano was tuned to 442 hertz by Mr. Lindqvist."),
        ),
        (
            ("what does Alice drink with her coffee?", "en-milk"),
            ("why is the workshop getting wet?", "en-roof"),
            ("who removed my teeth?", "en-dentist"),
            ("which day are deployments forbidden?", "en-deploy"),
            ("who tuned the pianos?", "en-piano"),
            ("what is broken on the bike?", "en-bike"),
            ("are we allowed to release at the end of the week?", "en-deploy"),
            ("what did the doctor do to my mouth?", "en-dentist"),
        ),
    ),
    "German": (
        (
            ("de-schluessel", "Der Ersatzschlüssel für den Keller hängt hinter der Gartentür."),
            ("de-heizung", "Die Heizung wurde im Herbst entlüftet und verliert seitdem keinen Druck mehr."),
            ("de-brot", "Das Roggenbrot gelingt mit Sauerteig, der zwölf Stunden geht."),
            ("de-arzt", "Der Kinderarzt empfiehlt, die Impfung nach den Ferien nachzuholen."),
            ("de-zug", "Der Nachtzug nach Wien fährt ab Gleis sieben und hat einen Speisewagen."),
        ),
        (
            ("wo hängt der Ersatzschlüssel?", "de-schluessel"),
            ("wie lange geht der Sauerteig fürs Brot?", "de-brot"),
            ("wann soll die Impfung nachgeholt werden?", "de-arzt"),
            ("Wohin habe ich den Kellerschlüssel gehängt?", "de-schluessel"),
            ("verlieren Heizungen noch Druck?", "de-heizung"),
            ("von welchem Gleis fahren Nachtzüge nach Wien?", "de-zug"),
        ),
    ),
    "Spanish": (
        (
            ("es-paella", "La paella de la abuela lleva conejo, judías verdes y nada de chorizo."),
            ("es-llaves", "Las llaves del coche están en el cajón de la cocina."),
            ("es-vecino", "El vecino del tercero toca la trompeta los domingos por la mañana."),
            ("es-alquiler", "El alquiler sube cincuenta euros a partir de septiembre."),
            ("es-medico", "El médico me recetó unas gotas para la alergia al polen."),
        ),
        (
            ("¿dónde dejé la llave del coche?", "es-llaves"),
            ("¿quién toca la trompeta?", "es-vecino"),
            ("¿cuánto subirá el alquiler?", "es-alquiler"),
            ("¿qué lleva la paella de mis abuelas?", "es-paella"),
            ("¿qué hacen los vecinos el domingo?", "es-vecino"),
            ("qué receto el medico para la alergia", "es-medico"),
        ),
    ),
    "Russian": (
        (
            ("ru-dacha", "На даче протекает крыша, мастер обещал приехать в субботу."),
            ("ru-kot", "Кота зовут Барсик, он ест только варёную рыбу."),
            ("ru-poezd", "Поезд в Казань отправляется с третьего пути поздно вечером."),
            ("ru-bilet", "Билеты в театр лежат в синей папке на столе."),
            ("ru-sup", "Бабушкин суп варится два часа на медленном огне."),
        ),
        (
            ("где лежит билет в театр?", "ru-bilet"),
            ("как зовут кота?", "ru-kot"),
            ("с какого пути отправляются поезда в Казань?", "ru-poezd"),
            ("кто починит крышу дачи?", "ru-dacha"),
            ("чем кормить котов?", "ru-kot"),
            ("сколько варить бабушкины супы?", "ru-sup"),
        ),
    ),
    "Chinese": (
        (
            ("zh-tea", "爷爷每天早上喝龙井茶，不加糖。"),
            ("zh-train", "去杭州的高铁票放在书桌的抽屉里。"),
            ("zh-doctor", "牙医说智齿下个月必须拔掉。"),
            ("zh-wifi", "办公室的无线网络密码贴在打印机旁边。"),
            ("zh-cat", "邻居家的猫喜欢睡在我们的阳台上。"),
        ),
        (
            ("爷爷喜欢喝什么茶？", "zh-tea"),
            ("高铁票在哪里？", "zh-train"),
            ("智齿什么时候拔？", "zh-doctor"),
            ("谁在阳台上睡觉？", "zh-cat"),
            ("无线网络的密码在哪儿？", "zh-wifi"),
        ),
    ),
    "Japanese": (
        (
            ("ja-key", "予備の鍵は植木鉢の下に置いてあります。"),
            ("ja-ramen", "駅前のラーメン屋は水曜日が定休日です。"),
            ("ja-piano", "娘のピアノの発表会は市民ホールで開かれる。"),
            ("ja-medicine", "花粉症の薬は食後に一錠だけ飲む。"),
            ("ja-garbage", "燃えないごみは第二月曜日に出すこと。"),
        ),
        (
            ("予備の鍵はどこですか？", "ja-key"),
            ("ラーメン屋の定休日はいつ？", "ja-ramen"),
            ("ピアノ発表会の会場は？", "ja-piano"),
            ("燃えないゴミを出す日は？", "ja-garbage"),
            ("花粉症の薬はいつ飲む？", "ja-medicine"),
        ),
    ),
    "Thai": (
        (
            ("th-coffee", "คุณแม่ชอบดื่มกาแฟเย็นไม่ใส่น้ำตาล"),
            ("th-key", "กุญแจสำรองอยู่ในลิ้นชักโต๊ะทำงาน"),
            ("th-dog", "สุนัขของเพื่อนบ้านเห่าทุกคืนตอนเที่ยงคืน"),
            ("th-train", "รถไฟไปเชียงใหม่ออกจากชานชาลาที่ห้า"),
            ("th-doctor", "หมอนัดตรวจตาอีกครั้งเดือนหน้า"),
        ),
        (
            ("กุญแจสำรองอยู่ที่ไหน", "th-key"),
            ("คุณแม่ดื่มกาแฟแบบไหน", "th-coffee"),
            ("รถไฟไปเชียงใหม่ออกจากชานชาลาไหน", "th-train"),
            ("หมาข้างบ้านเห่าตอนไหน", "th-dog"),
            ("หมอนัดตรวจตาเมื่อไหร่", "th-doctor"),
        ),
    ),
}
"""For each language, notes and questions with the note that answers them."""

_TALK = (
    "The agenda was read and nobody had anything to add to it.",
    "The budget for the coming quarter was looked at line by line, and two lines were put off.",
    "Somebody asked whether the meeting room could be booked for longer, which it cannot.",
    "The minutes of the last meeting were accepted as they are.",
    "Travel costs are to be handed in before the end of the month, with receipts.",
    "It was agreed that the plan stays as it is until there are figures.",
)
"""What minutes say before they come to the point."""

LONG: dict[str, tuple[str, str]] = {
    "long-budget": ("The caterer for the summer party is going to be Olive & Thyme.", "who caters the summer party?"),
    "long-move": (
        "The archive moves to the cellar of the house in Harbour Street.",
        "where will the archive be moved?",
    ),
    "long-vote": ("Ines was elected treasurer with nine votes against two.", "who was elected treasurer?"),
    "long-lift": (
        "The lift is out of order until the spare motor arrives from Turin.",
        "when will the lift work again?",
    ),
    "long-grant": ("The application for the lighthouse grant was turned down.", "what became of the lighthouse grant?"),
}
"""For each note, what it says past its first 6,000 characters, and a question."""

_ALIKE = "Backup of {host}: every night at {hour}, kept for {days} days on the {colour} disk, restored last in spring."
ALIKE: tuple[tuple[str, str, int, str], ...] = (
    ("Ceres", "02:00", 7, "red"),
    ("Pallas", "02:30", 14, "green"),
    ("Juno", "03:00", 30, "white"),
    ("Vesta", "03:30", 90, "black"),
    ("Hygiea", "04:00", 365, "grey"),
)
_ALSO_ALIKE = (
    "{name} wants the weekly report on {day} as a {form}, short, with the figures first and no pictures at all."
)
ALSO_ALIKE: tuple[tuple[str, str, str], ...] = (
    ("Marta", "Monday", "letter"),
    ("Jonas", "Tuesday", "table"),
    ("Priya", "Wednesday", "slide"),
    ("Omar", "Thursday", "mail"),
)

DATED: tuple[tuple[str, str, str], ...] = (
    ("2024-03-16", "plant-beans", "Planted beans and sweet peas along the fence."),
    ("2025-03-22", "plant-tomatoes", "Planted tomatoes and basil in the greenhouse."),
    ("2024-05-04", "walk-coast", "Walked the coast path with Ben, two days, much rain."),
    ("2025-05-10", "paint-kitchen", "Painted the kitchen yellow, with Ben's help."),
    ("2025-05-24", "visit-bergen", "Took the ferry to Bergen and visited the aquarium."),
    ("2024-07-19", "swim-lake", "Swam across the lake for the first time."),
    ("2025-07-05", "camp-forest", "Camped in the forest; somebody forgot the tent poles."),
    ("2024-10-12", "press-cider", "Pressed forty litres of cider with the neighbours."),
    ("2025-10-18", "chess-club", "Played at the chess club and lost every game."),
    ("2024-12-24", "sister-dinner", "Dinner at my sister's; the goose was dry."),
    ("2025-12-24", "snow-cabin", "Snowed in at the cabin and ate soup."),
    ("2025-02-02", "sell-car", "Sold the old car to a student from Ghent."),
)
WHEN: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("what did I do in May 2025?", ("paint-kitchen", "visit-bergen")),
    ("what did I plant in March 2024?", ("plant-beans",)),
    ("what did I plant in March 2025?", ("plant-tomatoes",)),
    ("what happened on 24 December 2024?", ("sister-dinner",)),
    ("where was I on 2025-12-24?", ("snow-cabin",)),
    ("what did I do in July 2024?", ("swim-lake",)),
    ("what did I do with the neighbours in October 2024?", ("press-cider",)),
    ("what was there in February 2025?", ("sell-car",)),
    ("what did Ben and I do in 2025?", ("paint-kitchen",)),
    ("where was I at Christmas 2025?", ("snow-cabin",)),
    ("what did I do in the summer of 2024?", ("swim-lake",)),
)


def notes() -> Iterator[Written]:
    for texts, _ in LANGUAGES.values():
        yield from (Written(name, text) for name, text in texts)
    for name, (answer, _) in LONG.items():
        yield Written(name, long_text(name, answer))
    for host, hour, days, colour in ALIKE:
        yield Written(f"backup-{host.lower()}", _ALIKE.format(host=host, hour=hour, days=days, colour=colour))
    for name, day, form in ALSO_ALIKE:
        yield Written(f"report-{name.lower()}", _ALSO_ALIKE.format(name=name, day=day, form=form))
    yield from (Written(name, text, when) for when, name, text in DATED)


def questions() -> Iterator[Question]:
    for language, (_, asked) in LANGUAGES.items():
        yield from (Question(language, text, frozenset({name})) for text, name in asked)
    for name, (_, text) in LONG.items():
        yield Question("long", text, frozenset({name}))
    for host, hour, _, colour in ALIKE:
        wanted = frozenset({f"backup-{host.lower()}"})
        yield Question("alike", f"how many days is the backup of {host} kept?", wanted)
        yield Question("alike", f"which backup is on the {colour} disk?", wanted)
        yield Question("alike", f"which backup runs at {hour}?", wanted)
    for person, day, form in ALSO_ALIKE:
        wanted = frozenset({f"report-{person.lower()}"})
        yield Question("alike", f"who wants reports on {day}s?", wanted)
        yield Question("alike", f"whose reports are {form}s?", wanted)
    yield from (Question("dates", text, frozenset(names)) for text, names in WHEN)


def long_text(name: str, answer: str) -> str:
    """Minutes that come to the point late, and go on after it."""
    lines = [f"# Minutes, {name.removeprefix('long-')}"]
    while sum(map(len, lines)) < PAST:
        lines += ["", *_TALK]
    return "\n".join([*lines, "", answer, "", *_TALK])


# The contenders.


def agentm(memory: Memory) -> Search:
    def search(question: str) -> list[str]:
        return [found.uri.rpartition("/")[2] for found in memory.recall(question, limit=FIRST)]

    return search


def grep(written: Sequence[Written]) -> Search:
    """``grep -il`` for each word; of the notes that hold the most of them the first by name."""
    files = {one.name: one.file.lower() for one in written}

    def search(question: str) -> list[str]:
        words = set(re.findall(r"\w+", question.lower()))
        met = {name: sum(word in text for word in words) for name, text in files.items()}
        return sorted((name for name in met if met[name]), key=lambda name: (-met[name], name))[:FIRST]

    return search


def fts5(written: Sequence[Written]) -> Search:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE notes USING fts5 (name UNINDEXED, text, tokenize = 'unicode61')")
    database.executemany("INSERT INTO notes VALUES (?, ?)", [(one.name, one.file) for one in written])

    def search(question: str) -> list[str]:
        wanted = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", question))
        found = database.execute(
            "SELECT name FROM notes WHERE notes MATCH ? ORDER BY rank, name LIMIT ?", (wanted, FIRST)
        )
        return [row[0] for row in found]

    return search


def judged(name: str, search: Search, asked: Sequence[Question]) -> Result:
    search(asked[0].text)  # the first one opens what there is to open
    started = time.perf_counter()
    found = [search(question.text) for question in asked]
    took = time.perf_counter() - started
    kinds = [*dict.fromkeys(question.kind for question in asked), "all"]
    first, among = ({kind: hits(kind, asked, found, many) for kind in kinds} for many in (1, FIRST))
    return Result(name, first, among, took / len(asked) * 1e3)


def hits(kind: str, asked: Sequence[Question], found: Sequence[list[str]], many: int) -> float:
    counted = [
        not question.wanted.isdisjoint(names[:many])
        for question, names in zip(asked, found, strict=True)
        if kind in (question.kind, "all")
    ]
    return sum(counted) / len(counted)


def goals(results: Sequence[Result]) -> Iterator[Goal]:
    own, *others = results
    for kind in ("long", "alike"):
        yield Goal(f"{kind}, hit@1", "all of them", own.first[kind], own.first[kind] == 1)
    for kind in own.first:
        best = max(other.first[kind] for other in others)
        yield Goal(f"{kind}, hit@1", f"no worse than the others: {best:.2f}", own.first[kind], own.first[kind] >= best)


def compare(directory: str) -> list[Result]:
    written, asked = list(notes()), list(questions())
    with Memory.open(f"{directory}/store", account="acme", user="alice", index_root=f"{directory}/index") as memory:
        memory.remember_many(Note(one.text, slug=one.name, when=one.when) for one in written)
        memory.catch_up()
        contenders = {"agentm": agentm(memory), "grep": grep(written), "FTS5": fts5(written)}
        return [judged(name, search, asked) for name, search in contenders.items()]


def table(results: Sequence[Result], wanted: Sequence[Goal]) -> Iterator[str]:
    kinds = list(results[0].first)
    yield f"{'hit@1 / hit@5, %':20}" + "".join(f"{result.name:>14}" for result in results)
    for kind in kinds:
        cells = (f"{result.first[kind] * 100:.0f} / {result.among[kind] * 100:.0f}" for result in results)
        yield f"{kind:20}" + "".join(f"{cell:>14}" for cell in cells)
    yield f"{'ms a question':20}" + "".join(f"{result.milliseconds:>14.2f}" for result in results)
    yield ""
    for goal in wanted:
        yield f"{'PASS' if goal.passed else 'MISS'}  {goal.name}: {goal.figure:.2f} (goal: {goal.goal})"


def main() -> int:
    parser = argparse.ArgumentParser(description="What is found among notes, by agentm, grep and FTS5.")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument("--dir", help="work below this directory")
    options = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="agentm-bench-", dir=options.dir)
    try:
        results = compare(directory)
    finally:
        shutil.rmtree(directory)
    wanted = list(goals(results))
    if options.json:
        print(json.dumps({"results": [asdict(one) for one in results], "goals": [asdict(one) for one in wanted]}))
    else:
        print(*table(results, wanted), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
