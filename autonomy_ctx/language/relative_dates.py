"""Relative dates, resolved against the time at which they were said.

"Tomorrow" is true for one day. A fact outlives that day, so the date is written beside the word:
"by tomorrow (16 May 2026)". The words of each language are tables. What could mean two things is left alone
("on Friday" said on a Friday), or both are named ("next Friday (15 or 22 May 2026)").
"""

from __future__ import annotations

import calendar
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cache
from typing import Literal, TypeAlias

from autonomy_ctx._lazy import lazy_pattern
from autonomy_ctx.language.phrases import PhraseMatch, PhraseTable, Words, split_phrases, split_words
from autonomy_ctx.language.words import fold_text
from autonomy_ctx.messages.dates import MONTHS, format_date, join_days

MAX_GAP_TO_DATE = 16  # characters between a relative date and a date in figures that says which day it is
MAX_COUNT = 999


_Span: TypeAlias = Literal["day", "week", "month", "year", "weekend", "month end"]
_Weekday: TypeAlias = Literal["said", "coming", "next", "this week", "next week", "last", "last week"]


@dataclass(frozen=True, slots=True)
class _Offset:
    """A day, week, month or year, counted from now; times the number in the phrase if it has one."""

    span: _Span
    count: int


@dataclass(frozen=True, slots=True)
class _OnWeekday:
    """A day of the week, Monday is 0."""

    weekday: int
    which: _Weekday


_DateMeaning: TypeAlias = _Offset | _OnWeekday

_OFFSETS: dict[tuple[_Span, int], str] = {
    ("day", 0): """today; today's; tonight; tonight's; this morning; this afternoon; this evening; heute;
        heute Abend; heute Morgen; heute früh; aujourd'hui; ce matin; ce soir; cet après-midi; hoy;
        esta mañana; esta tarde; esta noche; hoje; hoje à noite; esta manhã; 今日; 本日; 今夜; 今晩; 今天;
        今晚; اليوم; الليلة""",
    ("day", 1): """tomorrow; tomorrow's; tomorrow morning; tomorrow afternoon; tomorrow evening;
        tomorrow night; morgen; morgen früh; morgen Abend; demain; demain matin; demain soir; mañana;
        mañana por la mañana; mañana por la tarde; amanhã; amanhã de manhã; amanhã à tarde; 明日; あした;
        明天; 明早; 明晚; غدا; الغد""",
    ("day", 2): """the day after tomorrow; day after tomorrow; übermorgen; après-demain; pasado mañana;
        depois de amanhã; 明後日; あさって; 后天; 後天; بعد غد; بعد الغد""",
    ("day", 3): "大后天; 大後天; しあさって",
    ("day", -1): """yesterday; yesterday's; last night; gestern; gestern Abend; hier; hier soir; hier matin;
        ayer; anoche; ontem; 昨日; きのう; 昨夜; 昨天; 昨晚; أمس; امس; البارحة""",
    ("day", -2): """the day before yesterday; day before yesterday; vorgestern; avant-hier; anteayer;
        antier; anteontem; 一昨日; おととい; 前天; أول أمس""",
    ("week", 0): """this week; end of the week; end of this week; the end of the week; diese Woche;
        dieser Woche; Ende der Woche; cette semaine; fin de la semaine; fin de semaine; esta semana;
        fin de la semana; final de la semana; fim da semana; final da semana; 今週; 本周; 这周; 這週; 本週;
        这个星期; 這個星期; هذا الأسبوع; نهاية الأسبوع""",
    ("week", 1): """next week; end of next week; nächste Woche; nächster Woche; kommende Woche;
        kommender Woche; la semaine prochaine; semaine prochaine; la próxima semana; próxima semana;
        la semana que viene; semana que vem; 来週; 翌週; 下周; 下週; 下星期; 下个星期; 下個星期;
        الأسبوع القادم; الأسبوع المقبل""",
    ("week", 2): "the week after next; week after next; übernächste Woche; 再来週; 下下周; 下下週",
    ("week", -1): """last week; letzte Woche; letzter Woche; vergangene Woche; la semaine dernière;
        semaine dernière; la semana pasada; semana pasada; semana passada; 先週; 上周; 上週; 上星期;
        上个星期; الأسبوع الماضي""",
    ("weekend", 0): """this weekend; the weekend; dieses Wochenende; am Wochenende; ce week-end; ce weekend;
        este fin de semana; este fim de semana; 今週末; 这个周末; 這個週末""",
    ("month", 0): """this month; diesen Monat; ce mois-ci; este mes; este mês; 今月; 本月; 这个月; 這個月;
        هذا الشهر""",
    ("month", 1): """next month; nächsten Monat; kommenden Monat; le mois prochain; mois prochain;
        el próximo mes; próximo mes; el mes que viene; próximo mês; mês que vem; 来月; 下个月; 下個月; 下月;
        الشهر القادم; الشهر المقبل""",
    ("month", -1): """last month; letzten Monat; le mois dernier; mois dernier; el mes pasado; mes pasado;
        mês passado; 先月; 上个月; 上個月; الشهر الماضي""",
    ("month end", 0): """end of the month; end of this month; end of month; Ende des Monats; Monatsende;
        fin du mois; fin de mes; fim do mês; final do mês; 今月末; 月底; نهاية الشهر""",
    ("month end", 1): """end of next month; Ende nächsten Monats; fin du mois prochain; 来月末; 下个月底;
        下月底""",
    ("year", 1): """next year; nächstes Jahr; nächsten Jahres; l'année prochaine; el próximo año;
        el año que viene; próximo ano; ano que vem; 来年; 明年; العام القادم; العام المقبل;
        السنة القادمة""",
    ("year", -1): """last year; letztes Jahr; l'année dernière; l'an dernier; el año pasado; ano passado;
        去年; العام الماضي""",
}
# The number stands where "#" is.
_COUNTED_OFFSETS: dict[tuple[_Span, int], str] = {
    ("day", 1): """in # day; in # days; within # days; # days from now; in # Tag; in # Tagen; dans # jour;
        dans # jours; d'ici # jours; en # días; dentro de # días; dentro de # día; daqui a # dias;
        em # dias; dentro de # dias; # 日後; # 天后; # 天後; # 天之后; # 日后; بعد # أيام; بعد # يوم;
        بعد # يوما; خلال # أيام""",
    ("day", 7): """in # week; in # weeks; within # weeks; # weeks from now; in # Woche; in # Wochen;
        dans # semaine; dans # semaines; d'ici # semaines; en # semanas; dentro de # semanas;
        dentro de # semana; daqui a # semanas; em # semanas; # 週間後; # 周后; # 週後; # 个星期后;
        # 個星期後; بعد # أسابيع; بعد # أسبوع""",
    ("month", 1): """in # month; in # months; # months from now; in # Monat; in # Monaten; dans # mois;
        en # meses; dentro de # meses; daqui a # meses; em # meses; # か月後; # ヶ月後; # カ月後; # 个月后;
        # 個月後; بعد # أشهر""",
    ("day", -1): """# day ago; # days ago; vor # Tag; vor # Tagen; il y a # jour; il y a # jours;
        hace # días; hace # día; há # dias; # dias atrás; # 日前; # 天前; قبل # أيام""",
    ("day", -7): """# week ago; # weeks ago; vor # Woche; vor # Wochen; il y a # semaine; il y a # semaines;
        hace # semanas; hace # semana; há # semanas; # 週間前; # 周前; # 週前; قبل # أسابيع""",
}
_FIXED_COUNTS: dict[tuple[_Span, int], str] = {
    ("day", 2): "بعد يومين; خلال يومين",
    ("day", 7): "بعد أسبوع; a week from now; a week from today; in acht Tagen; dans huit jours",
    ("day", 14): "بعد أسبوعين; in a fortnight; in vierzehn Tagen; dans quinze jours",
}
_NUMBERS = """
1: a an one ein eine einem einer un une una uno um uma 一
2: two couple zwei deux dos dois duas 二 两 兩 اثنين
3: three drei trois tres três 三 ثلاثة ثلاث
4: four vier quatre cuatro quatro 四 أربعة أربع
5: five fünf cinq cinco 五 خمسة خمس
6: six sechs seis 六 ستة ست
7: seven sieben sept siete sete 七 سبعة سبع
8: eight acht huit ocho oito 八 ثمانية
9: nine neun neuf nueve nove 九 تسعة
10: ten zehn dix diez dez 十 عشرة
11: eleven elf onze once
12: twelve zwölf douze doce doze
14: fourteen vierzehn quatorze catorce catorze
15: fifteen fünfzehn quinze quince
20: twenty zwanzig vingt veinte vinte
30: thirty dreißig trente treinta trinta
"""


@dataclass(frozen=True, slots=True)
class _WeekdayWords:
    """The days of the week in one language, Monday first, and what stands around them (the day is "%")."""

    days: tuple[str, ...]
    around: dict[_Weekday, str]


_WEEKDAYS = (
    _WeekdayWords(
        days=("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
        around={
            "said": "on %; on % morning; on % afternoon; on % evening; on % night",
            "coming": """by %; until %; till %; before %; this %; coming %; this coming %; due %; for %;
                by % evening""",
            "next": "next %",
            "last": "last %; this past %",
            "next week": "% next week; next week %; next week on %; on % next week",
            "this week": "% this week",
        },
    ),
    # Not "sat" and "sun", which are words, and not "wed".
    _WeekdayWords(
        days=("mon", "tue;tues", "", "thu;thur;thurs", "fri", "", ""),
        around={"said": "on %", "coming": "by %; until %; till %; before %; this %", "next": "next %"},
    ),
    _WeekdayWords(
        days=("montag", "dienstag", "mittwoch", "donnerstag", "freitag", "samstag;sonnabend", "sonntag"),
        around={
            "said": "am %; am %abend",
            "coming": "bis %; bis zum %; vor %; diesen %; kommenden %; am kommenden %; ab %",
            "next": "nächsten %; am nächsten %; nächster %",
            "last": "letzten %; am letzten %; vergangenen %",
            "next week": """% nächster Woche; % nächste Woche; nächste Woche %; nächsten Woche am %;
                nächste Woche am %""",
        },
    ),
    _WeekdayWords(
        days=("lundi", "mardi", "mercredi", "jeudi", "vendredi", "samedi", "dimanche"),
        around={
            "coming": "d'ici %; avant %; ce %; pour %; jusqu'à %; dès %",
            "next": "% prochain",
            "last": "% dernier",
            "next week": "% de la semaine prochaine; % la semaine prochaine",
        },
    ),
    _WeekdayWords(
        days=("lunes", "martes", "miércoles", "jueves", "viernes", "sábado", "domingo"),
        around={
            "said": "el %",
            "coming": """antes del %; para el %; hasta el %; este %; el próximo %; próximo %;
                el % que viene; % que viene; el % próximo""",
            "last": "el % pasado; el pasado %",
            "next week": "el % de la semana que viene; el % de la próxima semana",
        },
    ),
    _WeekdayWords(
        days=(
            "segunda-feira", "terça-feira", "quarta-feira", "quinta-feira", "sexta-feira", "sábado",
            "domingo",
        ),
        around={
            "said": "na %; no %",
            "coming": """até %; até a %; até à %; antes de %; para %; esta %; este %; próxima %;
                na próxima %; próximo %; no próximo %""",
            "last": "% passada; % passado; na última %",
        },
    ),
    # Without "-feira" they are ordinal numbers, but not after these words.
    _WeekdayWords(
        days=("segunda", "terça", "quarta", "quinta", "sexta", "", ""),
        around={"coming": "próxima %; na próxima %; até %; até a próxima %", "last": "% passada"},
    ),
    _WeekdayWords(
        days=(
            "月曜;月曜日", "火曜;火曜日", "水曜;水曜日", "木曜;木曜日", "金曜;金曜日", "土曜;土曜日",
            "日曜;日曜日",
        ),
        around={
            "said": "% に",
            "coming": "% まで; % までに; 今度の %",
            "next": "次の %",
            "next week": "来週の %; 来週 %",
            "this week": "今週の %; 今週 %",
        },
    ),
    _WeekdayWords(
        days=(
            "周一;星期一;週一;礼拜一", "周二;星期二;週二;礼拜二", "周三;星期三;週三;礼拜三",
            "周四;星期四;週四;礼拜四", "周五;星期五;週五;礼拜五", "周六;星期六;週六;礼拜六",
            "周日;星期日;週日;星期天;周天;礼拜天",
        ),
        around={
            "said": "%; 在 %",
            "coming": "% 之前; % 前; 到 %; 在 % 前; 在 % 之前",
            "last week": "上 %; 上个 %",
            "next week": "下 %; 下个 %; 下個 %",
            "this week": "本 %; 这 %; 這 %",
        },
    ),
    _WeekdayWords(
        days=("الاثنين;الإثنين", "الثلاثاء", "الأربعاء", "الخميس", "الجمعة", "السبت", "الأحد"),
        around={
            "said": "يوم %",
            "coming": "قبل يوم %; قبل %; حتى يوم %; % القادم; % المقبل; يوم % القادم; يوم % المقبل",
            "last": "% الماضي; يوم % الماضي",
        },
    ),
)  # fmt: skip
# Words that mean something else after one of these words, and before one of those.
_NOT_AFTER = {
    "manana": "la de esta cada una por",
    "morgen": "guten heute gestern jeden diesen am schönen",
    "the weekend": "at over for in on of",
}
_NEVER_AFTER = frozenset({"every", "each", "jeden", "cada", "chaque", "每", "逢", "毎"})
_NOT_BEFORE_PREFIX = {"اليوم": "ال", "ate segunda": "ordem"}
# Words of two languages; they are dates only in a text with one of these words.
_NEEDED_WORDS = {"hier": "je j'ai nous vous c'est est avons les une c'était s'est qu'il"}
# With one of these words, a plain day of the week may be one that has passed.
_PAST_WORDS = """
was were did had got went came met sent said told took made paid happened
war waren hatte hatten habe haben hat wurde wurden ging kam
fue era fui hubo había hizo dijo foi houve disse كان كانت 昨 了
"""
_PAST = frozenset(fold_text(_PAST_WORDS).split())
_MONTH_NAMES = """
jan feb mar apr may jun jul aug sep sept oct nov dec
january february march april june july august september october november december
januar jänner februar märz mai juni juli oktober dezember
janvier février mars avril juin juillet août septembre octobre novembre décembre
enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre
janeiro fevereiro março maio junho julho setembro outubro novembro dezembro 月 号
يناير فبراير مارس أبريل ابريل مايو يونيو يوليو أغسطس اغسطس سبتمبر أكتوبر اكتوبر نوفمبر ديسمبر
"""
MONTH_WORDS = frozenset(fold_text(_MONTH_NAMES).split())
_MONTH_JOINTS = frozenset({"of", "de", "do", ",", "the"})
_FIGURES = lazy_pattern(r"(?<![\d.])\d{1,4}(?:-\d{1,2}-|/\d{1,2}/|\.\d{1,2}\.|/)\d{0,4}(?!\d)")
_DATE_NOTE = lazy_pattern(r" \([^()\n]{1,60}\d{4}\)")
_SENTENCE_END = lazy_pattern(r"[.!?;\n。\uff01\uff1f]")
_DAYS_PER_WEEK = 7


def resolve_dates(text: str, at: datetime) -> str:
    """The text with the date behind each relative date, as seen from `at`: "tomorrow (16 May 2026)".

    A relative date with a date in figures beside it is left alone, so doing it twice changes nothing.
    """
    words = split_words(text)
    found = [match for match in _phrases().find(text, words) if _is_meant(text, words, match)]
    if not found:
        return text
    dates = sorted(_explicit_dates(text, words))
    spoken = _words_outside_notes(text, words)
    pieces, done = [], 0
    for match in found:
        start, end = words.starts[match.first], words.ends[match.last]
        label = _resolve(match, at.date(), _is_past(text, words, match, spoken))
        if label and not text.startswith(f" ({label})", end) and not _is_dated(text, start, end, dates):
            pieces += [text[done:end], f" ({label})"]
            done = end
    return "".join([*pieces, text[done:]])


def has_weekday(text: str) -> bool:
    """Tell whether the text names a day of the week as a date, which in a rule may be every such day."""
    return any(isinstance(match.value, _OnWeekday) for match in _phrases().find(text, split_words(text)))


@cache
def _numbers() -> dict[str, int]:
    rows = (row.partition(":") for row in _NUMBERS.strip().splitlines())
    return {word: int(number) for number, _, names in rows for word in split_words(names).folded}


def _parse_number(word: str) -> int | None:
    if word.isascii() and word.isdigit() and len(word) <= len(str(MAX_COUNT)):
        return int(word)
    return _numbers().get(word)


@cache
def _phrases() -> PhraseTable[_DateMeaning]:
    return PhraseTable(_phrase_rows(), parse_number=_parse_number)


def _phrase_rows() -> Iterator[tuple[str, _DateMeaning]]:
    for table in (_OFFSETS, _COUNTED_OFFSETS, _FIXED_COUNTS):
        for (span, count), phrases in table.items():
            for phrase in split_phrases(phrases):
                yield phrase, _Offset(span, count)
    for language in _WEEKDAYS:
        for which, around in language.around.items():
            for weekday, names in enumerate(language.days):
                meaning = _OnWeekday(weekday, which)
                for name in split_phrases(names):
                    for phrase in split_phrases(around):
                        yield phrase.replace("%", name), meaning


def _is_meant(text: str, words: Words, match: PhraseMatch[_DateMeaning]) -> bool:
    """Tell whether the words around a phrase leave it its meaning."""
    folded = words.folded
    phrase = " ".join(folded[match.first : match.last + 1])
    before = folded[match.first - 1] if match.first else ""
    after = folded[match.last + 1] if match.last + 1 < len(folded) else ""
    if before in _NEVER_AFTER or before in _NOT_AFTER.get(phrase, "").split():
        return False
    needed = _NEEDED_WORDS.get(phrase)
    if needed and not any(word in fold_text(needed).split() for word in folded):
        return False
    if phrase == "morgen" and text[words.starts[match.first]] == "M":
        # The noun is the morning; as the first word of a sentence it may be tomorrow.
        return not before and text[words.ends[match.last] :][:2].strip().islower()
    prefix = _NOT_BEFORE_PREFIX.get(phrase)
    return not (prefix and after.startswith(prefix))


def _words_outside_notes(text: str, words: Words) -> list[int]:
    """The indexes of words that are no date written beside a phrase: such dates do not move words apart."""
    found: list[int] = []
    done = 0
    for note in _DATE_NOTE.finditer(text):
        found += range(done, bisect_left(words.starts, note.start(), lo=done))
        done = bisect_left(words.starts, note.end(), lo=done)
    return [*found, *range(done, len(words))]


def _is_past(text: str, words: Words, match: PhraseMatch[_DateMeaning], spoken: Sequence[int]) -> bool:
    """Tell whether the sentence may speak of the past; only asked of phrases that leave it open."""
    is_open = isinstance(match.value, _OnWeekday) and match.value.which == "said"
    if not is_open and match.number is None:
        return False
    first, last = bisect_left(spoken, match.first), bisect_left(spoken, match.last + 1)
    start, end = words.starts[match.first], words.ends[match.last]
    return any(
        _is_past_word(words.folded[at])
        and not _SENTENCE_END.search(text[min(words.ends[at], end) : max(words.starts[at], start)])
        for at in (*spoken[max(first - 12, 0) : first], *spoken[last : last + 8])
    )


def _is_past_word(word: str) -> bool:
    return word in _PAST or (len(word) > 4 and word.endswith("ed"))


def _explicit_dates(text: str, words: Words) -> Iterator[tuple[int, int]]:
    """Where the text names a date in figures, or a day or a year beside the name of a month."""
    for match in _FIGURES.finditer(text):
        yield match.span()
    folded = words.folded
    for index, word in enumerate(folded):
        if word in MONTH_WORDS:
            for step in (-1, 1):
                at = index + step
                if 0 <= at < len(folded) and folded[at] in _MONTH_JOINTS:
                    at += step
                if 0 <= at < len(folded) and folded[at][0].isdigit():
                    yield words.starts[min(index, at)], words.ends[max(index, at)]


def _is_dated(text: str, start: int, end: int, dates: Sequence[tuple[int, int]]) -> bool:
    at = bisect_left(dates, (start, 0))
    for first, last in dates[max(at - 3, 0) : at + 3]:
        gap = text[end:first] if first >= end else text[last:start]
        if len(gap) <= MAX_GAP_TO_DATE and not _SENTENCE_END.search(gap):
            return True
    return False


def _resolve(match: PhraseMatch[_DateMeaning], today: date, is_past: bool) -> str | None:
    """The meaning of a phrase, or nothing where it may mean several things or no day that exists."""
    try:
        match match.value:
            case _OnWeekday(weekday=weekday, which=which):
                return _resolve_weekday(today, weekday, which, is_past)
            case _Offset(span=span, count=count):
                forward = count > 0
                if is_past and forward:
                    return None
                return _resolve_offset(today, span, count * (1 if match.number is None else match.number))
    except (OverflowError, ValueError):
        return None


def _resolve_offset(today: date, span: _Span, count: int) -> str:
    monday = today - timedelta(days=today.weekday())
    match span:
        case "day":
            return format_date(today + timedelta(days=count))
        case "week":
            first = monday + timedelta(weeks=count)
            return join_days(first, first + timedelta(days=6), "to")
        case "weekend":
            return join_days(monday + timedelta(days=5), monday + timedelta(days=6), "to")
        case "month":
            first = _add_months(today, count)
            return f"{MONTHS[first.month - 1]} {first.year}"
        case "month end":
            first = _add_months(today, count)
            return format_date(first.replace(day=calendar.monthrange(first.year, first.month)[1]))
        case "year":
            return str(today.replace(day=1, year=today.year + count).year)


def _add_months(day: date, count: int) -> date:
    """The first day of the month, so many months later."""
    months = day.year * 12 + day.month - 1 + count
    return date(months // 12, months % 12 + 1, 1)


def _resolve_weekday(today: date, weekday: int, which: _Weekday, is_past: bool) -> str | None:
    ahead = (weekday - today.weekday()) % _DAYS_PER_WEEK
    monday = today - timedelta(days=today.weekday())
    match which:
        case "said" | "coming":
            return None if ahead == 0 or is_past else format_date(today + timedelta(days=ahead))
        case "next":
            first = today + timedelta(days=ahead or _DAYS_PER_WEEK)
            # Still to come in this week: some say "next" for it, some for the one after.
            is_this_week = ahead > 0 and weekday > today.weekday()
            return join_days(first, first + timedelta(weeks=1 if is_this_week else 0), "or")
        case "last":
            return format_date(today - timedelta(days=(-ahead) % _DAYS_PER_WEEK or _DAYS_PER_WEEK))
        case "this week":
            return format_date(monday + timedelta(days=weekday))
        case "last week":
            return format_date(monday + timedelta(weeks=-1, days=weekday))
        case "next week":
            return format_date(monday + timedelta(weeks=1, days=weekday))
