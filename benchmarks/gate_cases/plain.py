"""Plain but true replies of simple summarizers, and replies that are broken, one list per hard reason.

They were written before the checks that they measure. A plain record has few identifiers, another form than
the one that was asked for, or words around it; all of it is true. A broken reply is no record at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.gate_cases.source import BadReply, Source


@dataclass(frozen=True, slots=True)
class PlainCase:
    """A conversation, and true replies for it with the style that each has."""

    source: Source
    good: tuple[tuple[str, str], ...]


TRIP = Source(
    "trip",
    """
U: Hi! I want to spend a week in Lisbon in May with my sister. We have about 900 euros together.
A: Lovely. Lisbon is mild in May. Do you prefer a hotel or an apartment?
U: An apartment with a kitchen, please. Never book anything on a Sunday, my sister cannot travel then.
A: Noted. I found an apartment in Alfama for 480 euros, reference LX-20417, free cancellation until 2 May.
U: Sounds good. Is it noisy there? She sleeps badly.
A: The street has two bars. There is a quieter one in Graça, reference LX-20533, for 510 euros.
U: Take the one in Graça then. And look for trains to Sintra.
A: Trains to Sintra leave Rossio every half hour; a return ticket is 4.90 euros.
""",
    (),
)
CODE = Source(
    "importer",
    """
U: The importer in src/importer/rows.py fails on empty lines. Please fix it, but do not touch the parser.
C: read_file {"path": "src/importer/rows.py"}
R: def rows(lines):\\n    for line in lines:\\n        yield parse(line)
A: `rows` hands empty lines to `parse`, which raises ValueError. I will skip them in rows().
C: run_tests {"target": "tests/test_rows.py"}
R: 14 passed, 1 failed: test_blank_first_line
A: One test still fails, test_blank_first_line, because the header is read before the loop.
U: Then skip blanks before the header as well. The release is on 12 June, branch release-3.2.
A: Done: blank lines are skipped before the header too, all 15 tests pass. I have not pushed yet.
""",
    (),
)
ARABIC = Source(
    "arabic letter",
    """
U: My landlord sent me this and I cannot read it: "يجب إخلاء الشقة قبل نهاية الشهر القادم". What does it say?
A: It says that the apartment has to be vacated before the end of next month.
U: That is too early, my contract runs until December. Please draft a polite answer in Arabic.
A: Here is a draft: "العقد ساري حتى شهر ديسمبر، وأود البقاء حتى ذلك الحين". It says that the contract is valid until December and you would like to stay.
U: Thanks. I will ask my neighbour Samira to check it before I send it.
A: Good idea. Keep a copy of the contract ready when you talk to the landlord.
""",
    (),
)
CHINESE = Source(
    "lieferant",
    """
U: Unser Lieferant schreibt: 货物因台风延误，预计下周五到港。Was heißt das für den Auftrag 88-1204?
A: Die Ware verspätet sich wegen eines Taifuns und kommt voraussichtlich nächsten Freitag im Hafen an.
U: Dann verschieben wir die Auslieferung an Brandt um eine Woche. Bitte keine Teillieferungen zusagen.
A: Gut. Ich schlage vor, Brandt heute zu schreiben und den neuen Termin offen zu lassen, bis das Schiff da ist.
U: Ja, aber nenne den Taifun als Grund. Frau Okafor soll in Kopie stehen.
A: Entwurf steht: Verspätung durch Taifun, keine Teillieferungen, Kopie an Frau Okafor.
""",
    (),
)
GARDEN = Source(
    "cat",
    """
U: Our old cat has stopped eating her dry food. She still drinks and plays.
A: Old cats often have sore teeth. Does she eat soft food?
U: Yes, she ate some tuna yesterday. She turns her head when she chews.
A: That sounds like a tooth on one side. A vet should look at her mouth; soft food is fine until then.
U: We will go to the vet tomorrow morning. Should I warm the food?
A: Slightly warm food smells stronger and is easier to eat. Do not give her any painkillers made for people.
U: Good to know, I nearly did. I'll tell my husband, too.
A: Please do. Write down what she eats until the appointment.
""",
    (),
)
SPANISH = Source(
    "pedido",
    """
U: Hola, mi pedido 70331 llegó con la caja rota y falta un vaso.
A: Siento oír eso. ¿Prefiere un reembolso o que le enviemos otro vaso?
U: Otro vaso, por favor, pero no lo manden antes del 3 de julio, que estoy de viaje.
A: De acuerdo. Enviaremos un vaso azul a partir del 3 de julio a la misma dirección.
U: Que sea verde, y que no llamen al timbre: el bebé duerme.
A: Anotado: vaso verde, sin llamar al timbre, envío desde el 3 de julio.
""",
    (),
)
JAPANESE = Source(
    "会議",
    """
U: 来週の営業会議の資料を作りたいです。売上の表は田中さんからもらいました。
A: わかりました。表は何枚のスライドに分けますか。
U: 三枚でお願いします。グラフは使わないでください。部長が嫌いなので。
A: 表だけで三枚にします。最後に来期の目標を一枚足しますか。
U: はい、目標は前年比一割増です。締め切りは木曜日の昼です。
A: では表三枚と目標一枚、グラフなし、木曜日の昼までに仕上げます。
""",
    (),
)

TUTOR = Source(
    "tutor",
    """
U: I teach maths to three pupils on weekday afternoons and want to plan the coming weeks with you.
A: Happy to help. Which days are fixed, and how long is each lesson?
U: Monday, Tuesday and Thursday, ninety minutes each. Yusuf has an exam in fractions soon, the others only practise.
A: Then Yusuf should get the first half hour each time, and the others can work through exercise sheets meanwhile.
U: His mother just wrote: لا أستطيع إحضاره يوم الثلاثاء. So he misses one of the three lessons every week.
A: In that case, give him a sheet on fractions to do at home on Tuesdays, and look at it together on Thursdays.
U: Good. Please do not plan anything for the holidays, all families are away then.
A: Noted, the holidays stay free. I would begin with simple fractions, then mixed numbers, then word problems.
U: That order is right. Remind me to print the sheets on Sunday evening.
A: I will remind you on Sunday evening to print the sheets for the week.
""",
    (),
)

CASES = (
    PlainCase(
        TUTOR,
        (
            ("quoted sentence first", "لا أستطيع إحضاره يوم الثلاثاء (the mother of Yusuf)."),
            (
                "quoted sentence in quotes",
                'His mother: "لا أستطيع إحضاره يوم الثلاثاء". Yusuf learns at home then.',
            ),
            (
                "quoted sentence as an item",
                "- لا أستطيع إحضاره يوم الثلاثاء\n- holidays stay free\n- print on Sunday",
            ),
            (
                "prose",
                "Three pupils, lessons on three weekdays. Yusuf misses Tuesdays and gets a sheet on fractions.",
            ),
        ),
    ),
    PlainCase(
        TRIP,
        (
            (
                "bullets",
                "- Week in Lisbon in May with the sister, 900 euros\n- Apartment with kitchen\n- Nothing on Sundays\n- Took the one in Graça\n- Trains to Sintra every half hour",
            ),
            (
                "prose",
                "The user plans a week in Lisbon with her sister. They chose the quieter apartment in Graça because the sister sleeps badly. Nothing may be booked on a Sunday.",
            ),
            (
                "facts first",
                "Facts:\n- Lisbon in May, one week, two people\n- budget about 900 euros\n- apartment in Graça, LX-20533, 510 euros\n- never book on a Sunday",
            ),
            (
                "facts first with kinds",
                "Facts:\n- goal: a week in Lisbon in May\n- rule: never book anything on a Sunday\n- decision: the apartment in Graça, LX-20533",
            ),
            (
                "facts first, nothing else",
                "FACTS\n+ goal: a week in Lisbon with the sister\n+ rule: never book on a Sunday\n+ decision: apartment LX-20533 in Graça",
            ),
            (
                "record, then plain facts",
                "The user travels to Lisbon in May with her sister and takes LX-20533 in Graça.\n\nFACTS\n- never book anything on a Sunday\n- budget 900 euros",
            ),
            (
                "record, then prose under facts",
                "Lisbon in May, apartment LX-20533.\nFACTS\nThe user never books on a Sunday and has 900 euros.",
            ),
            (
                "word before thoughts",
                "Okay. <think>The user wants a record of a trip. LX-20533 was chosen.</think>\nThe user takes apartment LX-20533 in Graça in Lisbon, never books on Sundays, and wants trains to Sintra.",
            ),
            (
                "word before thoughts, own line",
                "Okay.\n<think>\nThey talk about Lisbon.\nFACTS\n+ rule: none\n</think>\n\n- Lisbon in May, Graça, LX-20533\n- nothing on Sundays",
            ),
            (
                "word before the record",
                "Sure. The user goes to Lisbon in May, stays in Graça (LX-20533) and books nothing on a Sunday.",
            ),
            (
                "no identifiers",
                "They are planning a holiday in Portugal; the sister sleeps badly, so they took the quieter apartment.",
            ),
            ("short", "Lisbon trip with the sister; quiet apartment in Graça taken."),
            (
                "headings",
                "# Summary\n\n## Trip\nLisbon, one week in May.\n\n## Apartment\nGraça, LX-20533.\n\n## Rules\nNo bookings on Sundays.",
            ),
            (
                "fence",
                "```text\nLisbon in May, Graça apartment LX-20533, no bookings on Sundays, trains to Sintra from Rossio.\n```",
            ),
            (
                "transcript in short",
                "User: week in Lisbon in May with sister\nAssistant: hotel or apartment?\nUser: apartment with kitchen, never on a Sunday\nAssistant: Alfama or Graça\nUser: take Graça\nAssistant: trains every half hour",
            ),
            (
                "first person",
                "I found two apartments for the user in Lisbon, and she took the one in Graça, LX-20533. I also looked up trains to Sintra.",
            ),
            (
                "another script without need",
                "The user (sister sleeps badly) took Graça. Refund until May 2nd applied to the Alfama flat only.",
            ),
        ),
    ),
    PlainCase(
        CODE,
        (
            (
                "bullets",
                "- importer failed on empty lines\n- fixed by skipping them in rows()\n- parser untouched\n- all 15 tests pass\n- not pushed yet",
            ),
            (
                "prose",
                "The importer crashed on blank lines. Blank lines are now skipped, also before the header, and all tests pass. Nothing was pushed.",
            ),
            (
                "facts first",
                "Facts:\nThe importer is src/importer/rows.py. The parser must not be touched. The release is on 12 June from release-3.2.",
            ),
            (
                "counts of its own",
                "Record of 9 messages, 2 tool calls: blank lines are skipped in src/importer/rows.py; the parser is untouched; release on 12 June.",
            ),
            (
                "JSON",
                '{"summary": "Blank lines are skipped in src/importer/rows.py; the parser stays as it is.", "next": "push to release-3.2"}',
            ),
            (
                "table",
                "| topic | state |\n|---|---|\n| src/importer/rows.py | fixed |\n| parser | not touched |\n| push | still open |",
            ),
            (
                "quoted error",
                'parse() raised ValueError for empty lines; that is fixed. "I have not pushed yet" was the last word.',
            ),
            (
                "some unknown",
                "Blank lines are skipped in src/importer/rows.py. See also ticket QA-7781. All 15 tests pass, nothing is pushed.",
            ),
            (
                "says I cannot of the user",
                "The user cannot import files with empty lines; the fix in rows.py skips them, also before the header.",
            ),
        ),
    ),
    PlainCase(
        ARABIC,
        (
            (
                "quoted sentence",
                'The landlord wrote: "يجب إخلاء الشقة قبل نهاية الشهر القادم". The contract runs until December.',
            ),
            (
                "quoted sentences",
                "يجب إخلاء الشقة قبل نهاية الشهر القادم\nThis is what the landlord wrote. Answer drafted: العقد ساري حتى شهر ديسمبر، وأود البقاء حتى ذلك الحين. Samira will check it.",
            ),
            (
                "quoted only in the first line",
                "- العقد ساري حتى شهر ديسمبر، وأود البقاء حتى ذلك الحين\n- draft, to be checked by Samira",
            ),
            (
                "plain",
                "The user answers a letter of the landlord; the neighbour Samira checks the draft before it is sent.",
            ),
            (
                "thoughts",
                "Okay, <thinking>Arabic letter.</thinking> The landlord wants the flat back next month, the contract runs until December.",
            ),
        ),
    ),
    PlainCase(
        CHINESE,
        (
            (
                "quoted sentence",
                "Der Lieferant schrieb: 货物因台风延误，预计下周五到港。 Auftrag 88-1204 verschiebt sich, keine Teillieferungen.",
            ),
            (
                "quoted in front",
                "货物因台风延误，预计下周五到港 - so der Lieferant. Brandt wird informiert, Kopie an Frau Okafor.",
            ),
            (
                "other language, same script",
                "Order 88-1204 is late because of a typhoon; no partial deliveries are promised, Ms Okafor is in copy.",
            ),
            (
                "Stichworte",
                "Fakten:\n- Verspätung durch Taifun\n- keine Teillieferungen\n- Frau Okafor in Kopie",
            ),
            (
                "word first",
                "Verstanden. Die Auslieferung an Brandt wird um eine Woche verschoben, keine Teillieferungen.",
            ),
        ),
    ),
    PlainCase(
        GARDEN,
        (
            (
                "other words",
                "A pet owner worries about an elderly animal with a likely dental problem; an appointment is set.",
            ),
            ("short", "Cat will see a vet tomorrow."),
            (
                "bullets",
                "- the cat does not eat dry food\n- perhaps a sore tooth\n- vet tomorrow morning\n- no painkillers for people",
            ),
            (
                "facts first",
                "Facts:\nThe cat eats only soft food. The vet looks at her teeth tomorrow. No painkillers.",
            ),
            (
                "vague but true",
                "The user asked about the health of a pet and got advice on feeding and on seeing a professional.",
            ),
            (
                "another language",
                "Die alte Katze frisst kein Trockenfutter mehr, morgen früh geht es zum Tierarzt. Keine Schmerzmittel für Menschen.",
            ),
        ),
    ),
    PlainCase(
        SPANISH,
        (
            (
                "prosa",
                "El pedido 70331 llegó roto y falta un vaso. Se enviará un vaso verde desde el 3 de julio, sin llamar al timbre.",
            ),
            ("primero hechos", "Facts:\n- pedido 70331\n- vaso verde\n- no llamar al timbre"),
            ("corto", "Se envía otro vaso, verde, en julio."),
            ("in English", "The customer gets a green glass after 3 July; nobody should ring the bell."),
        ),
    ),
    PlainCase(
        JAPANESE,
        (
            (
                "箇条書き",
                "- 営業会議の資料\n- 表だけで三枚、グラフなし\n- 目標は前年比一割増\n- 木曜日の昼まで",
            ),
            ("文章", "営業会議の資料を表三枚と目標一枚で作る。グラフは使わない。締め切りは木曜日の昼。"),
            (
                "考えてから",
                "はい。<think>会議の記録を書く。</think>\n営業会議の資料。表三枚、目標一枚、グラフは使わない。",
            ),
        ),
    ),
)


def _prompt_part(source: Source, prompt: str) -> str:
    return "\n".join(prompt.splitlines()[2:12])


def _user_block(source: Source, prompt: str) -> str:
    return f"Sure.\n{prompt}"


def _copied(source: Source, prompt: str) -> str:
    return "\n\n".join(f"{one.role.value.capitalize()}: {one.text}" for one in source.messages())


def _longer(source: Source, prompt: str) -> str:
    """Much longer than any source here, with ever other words."""
    words = re.findall(r"\w+", source.script)
    return " ".join(f"{words[at % len(words)]} {words[at * 7 % len(words)]}{at % 89}," for at in range(1200))


def _script(latin: str, other: str) -> Callable[[Source, str], str]:
    def reply(source: Source, prompt: str) -> str:
        return latin if source is JAPANESE else other

    return reply


BROKEN = (
    BadReply("empty", "\n \n"),
    BadReply("empty", "FACTS\n"),
    BadReply("empty", "Okay. <think>Nothing to say yet"),
    BadReply("empty", "Okay.\n<think>I would have to list it.</think>\n"),
    BadReply("empty", "```\n```"),
    BadReply("empty", "Summary:\n\n---\n"),
    BadReply("longer than its source", _longer),
    BadReply("echo", _prompt_part),
    BadReply("echo", _user_block),
    BadReply("echo", _copied),
    BadReply("tool protocol", '<function_calls>\n<invoke name="save_summary">'),
    BadReply("tool protocol", '{"tool_calls": [{"function": {"name": "note", "arguments": "{}"}}]}'),
    BadReply("tool protocol", 'Okay. <think>call it</think>{"name": "note", "parameters": {"text": "x"}}'),
    BadReply("refusal", "I'm afraid I can't summarize this. I'm sorry about that."),
    BadReply("refusal", "I cannot fulfil this request because the conversation contains personal data."),
    BadReply("refusal", "<think>hm</think>I'm not able to help with summarizing this."),
    BadReply("refusal", "Leider kann ich dieses Gespräch nicht zusammenfassen."),
    BadReply("refusal", "Je ne peux pas résumer cette conversation."),
    BadReply("refusal", "抱歉，我不能总结这段对话。"),
    BadReply("refusal", "", stop="content_filter"),
    BadReply("error page", "<!doctype html><title>Login</title><form action=/login></form>"),
    BadReply("error page", "HTTP 503 Service Unavailable"),
    BadReply("error page", '{"error": "model not loaded", "code": 500}'),
    BadReply("error page", "Internal Server Error"),
    BadReply("loop", "- The user asked.\n" * 25),
    BadReply("loop", "It was discussed and it was decided and " * 25, stop="length"),
    BadReply(
        "other script",
        _script(
            "The team prepares slides for a meeting and has agreed on the form of them.",
            "Пользователь обсудил с помощником свою просьбу, и они договорились о следующих шагах.",
        ),
    ),
    BadReply(
        "other script",
        _script(
            "Пользователь просит подготовить материалы к совещанию отдела продаж.",
            "ユーザーは依頼を説明し、助手が次の手順を提案した。まだ決まっていないことがある。",
        ),
    ),
)

# A rule that holds, and a reply that says its opposite; then rules and replies that only say them differently.
TURNED = (
    (TRIP, "never book anything on a Sunday", "LX-20533 in Graça is taken. Book anything on a Sunday."),
    (
        TRIP,
        "never book anything on a Sunday",
        "Lisbon in May.\n- Always book on a Sunday.\n- Graça, LX-20533",
    ),
    (
        CODE,
        "do not touch the parser",
        "Rule: touch the parser. The release is on 12 June, src/importer/rows.py.",
    ),
    (CHINESE, "keine Teillieferungen zusagen", "Teillieferungen zusagen. Auftrag 88-1204 kommt später."),
    (SPANISH, "no llamar al timbre", "Llamar al timbre. El pedido 70331 llega desde el 3 de julio."),
)
SAID_OTHERWISE = (
    (TRIP, "never book anything on a Sunday", "Sundays are off limits for bookings. LX-20533 was taken."),
    (
        TRIP,
        "never book anything on a Sunday",
        "Lisbon in May. The rule about a Sunday to book anything stays.",
    ),
    (CODE, "do not touch the parser", "The parser stays untouched; src/importer/rows.py skips blank lines."),
    (CODE, "do not touch the parser", "Only rows.py was touched, the parser is left alone by rule."),
    (SPANISH, "no llamar al timbre", "El pedido 70331 va con vaso verde; llamar al timbre está prohibido."),
)
