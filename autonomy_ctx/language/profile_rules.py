"""What a user says of themselves or of all conversations, found by rules in eight languages. Pure.

A wrong entry in a profile is worse than a missing one. So a statement counts only when it is a sentence of
its own that begins with what it is about ("I am vegetarian", "my name is ..."), or that says itself that it
is about all conversations, and when nothing ties it to a day, a case or a text at hand.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from autonomy_ctx._lazy import lazy_pattern
from autonomy_ctx.language.fact import FactKind, clean_fact_text
from autonomy_ctx.language.reported_speech import split_speech
from autonomy_ctx.language.sentences import split_prose

# Longer messages are texts that were pasted, longer sentences say more than one thing.
MAX_MESSAGE_CHARACTERS, MAX_SENTENCE_CHARACTERS = 1500, 240

# What may stand before a statement.
_LEAD = r"""(?:(?:hi|hello|hey|hallo|bonjour|salut|hola|olá|oi|fyi|btw|by\ the\ way|also|note|please|
    remember|please\ remember|keep\ in\ mind|just\ so\ you\ know|übrigens|bitte|merk\ dir|denk\ daran|
    au\ fait|note|retiens|por\ cierto|recuerda|ten\ en\ cuenta|a\ propósito|aliás|lembre-se|lembra|
    ちなみに|なお|顺便说一下|
    请记住|记住|للعلم|تذكر)\b[\s,:!、\uff0c\uff1a。]{0,4}(?:(?:that|dass|que|de\ que|أن)\b\s{0,4})?){0,3}"""

# Of these a person has one: a new one takes the place of the old. In parts by language.
_SINGLE = {
    "name": r"""my\ name\ is\ | call\ me\ (?!back|when|if|at|on|tomorrow|later|again)\w | i\ go\ by\ |
        ich\ hei(?:ß|ss)e\ | mein\ name\ ist\ | nenn(?:e|en\ sie)?\ mich\ | je\ m'appelle\ |
        mon\ nom\ est\ |
        appelle(?:z)?-moi\ | me\ llamo\ | mi\ nombre\ es\ | llámame\ | (?:eu\ )?me\ chamo\ |
        (?:o\ )?meu\ nome\ é\ | me\ chame\ de\ | (?:私|僕|俺)の名前は | 我叫(?!他|她|你|它|您) |
        我的名字(?:是|叫) | اسمي\ | نادني\ """,
    "pronouns": r"""my\ pronouns\ are\ | meine\ pronomen\ sind\ | mes\ pronoms\ sont\ |
        mis\ pronombres\ son\ """,
    "home": r"""i\ live\ in\ | i(?:'m|\ am)\ based\ in\ | ich\ (?:wohne|lebe)\ in\ | j'habite\ (?:à|en|au|
        dans)\ |
        je\ vis\ (?:à|en|au)\ | vivo\ en\ | (?:eu\ )?moro\ (?:em|no|na)\ | (?:eu\ )?vivo\ em\ |
        (?:私は)?[^、。]{1,20}に住んでい | 我住在 | أعيش\ في\ | أسكن\ في\ """,
    "birthday": r"""my\ birthday\ is\ | i\ was\ born\ (?:on|in)\ | mein\ geburtstag\ ist\ |
        ich\ bin\ am\ .{3,30}geboren |
        mon\ anniversaire\ est\ | mi\ cumpleaños\ es\ | meu\ aniversário\ é\ | (?:私の)?誕生日は |
        我的生日 |
        عيد\ ميلادي\ """,
    "job": r"""i\ work\ as\ | ich\ arbeite\ als\ | je\ travaille\ comme\ | trabajo\ (?:como|de)\ |
        (?:eu\ )?trabalho\ como\ """,
    "language": r"""my\ (?:native|first|preferred)\ language\ is\ | my\ mother\ tongue\ is\ |
        meine\ muttersprache\ ist\ | ma\ langue\ maternelle\ est\ | mi\ lengua\ materna\ es\ |
        minha\ língua\ materna\ é\ | (?:私の)?母国語は | 我的母语 | لغتي\ الأم\ """,
    "email": r"""my\ e-?mail(?:\ address)?\ is\ | meine\ e-?mail(?:-?adresse)?\ (?:ist|lautet)\ |
        mon\ (?:adresse\ )?e-?mail\ est\ | mi\ (?:correo|e-?mail)\ es\ | meu\ e-?mail\ é\ """,
    "time zone": r"my\ time\ ?zone\ is\ | meine\ zeitzone\ ist\ | mon\ fuseau\ horaire\ est\ ",
}
_CONDITIONS = r"""(?P<of>vegetarian|vegan|pescatarian|diabetic|c(?:o)?eliac|lactose[ -]intolerant|
    gluten[ -]intolerant|colou?r[ -]?blind|left-handed|deaf|blind|vegetarier|veganer|vegetarisch|diabetiker|
    farbenblind|linkshänder|végétarien|végane?|diabétique|daltonien|gaucher|gauchère|vegetarian[oa]|
        vegan[oa]|
    diabétic[oa]|celíac[oa]|daltónic[oa]|daltônic[oa]|zurd[oa]|canhot[oa]|ベジタリアン|菜食主義|ヴィーガン|
    ビーガン|素食|纯素|糖尿病|色盲|左撇子|نباتي)"""
# Of these a person may have several; a later word about the same takes the place of the earlier one.
_STATES = rf"""(?:i(?:'m|\ am)|ich\ bin|je\ (?:ne\ )?suis|(?:eu\ )?(?:já\ )?(?:não\ )?sou|
        (?:ya\ )?(?:no\ )?soy|
    私は|僕は|我(?:已经)?(?:是|不是|不再是|不再)?|أنا\ |لست\ )\s*
    (?:(?:a|an|not|no\ longer|now|also|strictly|kein|keine|nicht\ mehr|jetzt|auch|plus|pas|mais|un|une|
        ein|eine)\ )*
    {_CONDITIONS}"""
_LIMITS = r"""i(?:'m|\ am)\ (?:\w+\ )?allergic\ to\ | i\ have\ an?\ (?:[\w-]+\ ){0,3}allergy |
        i\ (?:can't|cannot|can\ not|
    don't|do\ not|never)\ (?:eat|drink)\ \w | ich\ bin\ (?:\w+\ )?allergisch\ |
        ich\ habe\ eine\ [\w-]*allergie |
    ich\ (?:esse|trinke|vertrage)\ (?:kein|keine|keinen|nie)\ | je\ suis\ allergique\ |
    je\ ne\ (?:mange|bois)\ (?:pas|jamais|plus)\ | soy\ alérgic[oa]\ | tengo\ alergia\ | no\ (?:como|
        bebo)\ \w |
    (?:eu\ )?sou\ alérgic[oa]\ | (?:eu\ )?tenho\ alergia\ | (?:eu\ )?não\ (?:como|bebo)\ \w |
    (?:私は)?[^、。]{1,20}アレルギーが | (?:私は)?[^、。]{1,20}アレルギーです | 我对.{1,20}过敏 |
        我不(?:吃|喝) |
    (?:لدي|عندي)\ حساسية | أعاني\ من\ حساسية | لا\ آكل\ """
# Says itself that it is about all conversations.
_EVERYWHERE = r"""\bremember\b.{0,60}\bfor\ (?:the\ future|good|ever)\b | \bmerk\ dir\b.{0,60}\bzukunft\b |
    \b(?:retiens|souviens-toi)\b.{0,60}\bavenir\b | \brecuerda\b.{0,60}\bfuturo\b |
    \blembre-se\b.{0,60}\bfuturo\b |
    \b(?:in|for)\ (?:all|every|each)(?:\ of)?(?:\ our|\ my)?(?:\ future)?\ (?:chat|
        conversation|talk)s?\b |
    \b(?:in|for)\ future\ (?:chat|conversation)s\b | \b(?:in|für)\ alle[nr]?(?:\ unsere[nr]?)?\ (?:chats|
        gesprächen?|unterhaltungen)\b |
    \b(?:dans|pour)\ (?:toutes\ nos|chaque)\ (?:conversations?|discussions?)\b |
    \b(?:en|para)\ (?:todas\ nuestras|cada)\ (?:conversaci(?:ón|ones)|charlas?)\b |
    \b(?:em|para)\ (?:todas\ as\ nossas|cada)\ conversas?\b | (?:すべて|全て|全部)の(?:会話|チャット) |
    (?:所有|每次|每个)的?(?:对话|聊天|会话) | في\ (?:كل|جميع)\ (?:محادثاتنا|المحادثات)"""
_ALWAYS = r"""\bfrom\ now\ on\b|\bgoing\ forward\b|\bin\ future\b|\bin\ the\ future\b|\balways\b|
        \bnever\b|\bab\ (?:jetzt|sofort)\b|
    \bvon\ nun\ an\b|\bkünftig\b|\bin\ zukunft\b|\bimmer\b|\bstets\b|\bnie\b|\bdésormais\b|\bdorénavant\b|
    \bà\ l'avenir\b|\bà\ partir\ de\ maintenant\b|\btoujours\b|\bjamais\b|\ba\ partir\ de\ ahora\b|
    \bde\ ahora\ en\ adelante\b|\bsiempre\b|\bnunca\b|\ba\ partir\ de\ agora\b|\bde\ agora\ em\ diante\b|
    \bdaqui\ em\ diante\b|\bsempre\b|今後|これから|いつも|常に|以后|今后|从现在(?:起|开始)|总是|始终|
        من\ الآن\ فصاعدا|دائما"""
# How the assistant is to speak, whatever the matter is.
_SPEECH = r"""\b(?:answer|reply|respond|speak|talk|write)\ (?:to\ )?me\b | \b(?:address|call)\ me\b |
    \b(?:answer|reply|respond|speak)\ (?:to\ me\ )?(?:only\ )?(?:in|with|briefly|shortly)\b |
    \b(?:antworte|schreib|schreibe|sprich)\ (?:mir|mit\ mir|immer|stets|nur|bitte|auf|kurz)\b |
        \bduz(?:e)?\ mich\b | \bsiez(?:e)?\ mich\b |
    \bnenn(?:e)?\ mich\b | \b(?:réponds|répondez|écris|écrivez|parle|parlez)(?:-moi|\ toujours|\ en)\b |
        \b(?:tutoie|vouvoie)-moi\b |
    \b(?:respóndeme|contéstame|escríbeme|háblame|tutéame|llámame)\b | \b(?:responde|
        contesta)\ (?:siempre\ )?(?:en|con)\b |
    \b(?:responda|responde|escreva|fale)(?:-me|\ comigo|\ sempre)?\ (?:em|com|de)\b |
    (?:日本語|英語|敬語|短く|簡潔に)[^。]{0,10}(?:答え|返信|話し|書い)て | (?:用|以)[^。]{1,8}(?:回答|
        回复) | 叫我 | أجبني | رد\ علي | خاطبني"""
# Ties a sentence to a day, a case or a play.
_TIED = r"""\b(?:today|tonight|right\ now|this|these|here|if|unless|suppose|imagine|pretend|let's\ say|
        as\ though|role-?play|
    heute|dies(?:e|er|es|em|en)|hier|wenn|falls|angenommen|stell\ dir|rollenspiel|aujourd'hui|cette|ce|
        ici|si|imagine|
    supposons|hoy|esta|este|aquí|imagina|supón|finge|hoje|desta|deste|aqui|se|suponha|finja)\b |
    今日|今回|もし|仮に|ふりを|今天|这次|这个|如果|假如|假设|假装|扮演|اليوم|هذه|هذا|إذا|تخيل|افترض"""
# What follows is a text to work on, not what the user says of themselves.
_TASK = r"""\b(?:translate|rewrite|rephrase|proofread|correct|summari[sz]e|paraphrase|draft|write\ (?:a|
        an|me)|reads?:|says?:|wrote:|
    übersetze?|umformulier\w*|korrigier\w*|fasse|schreib(?:e)?\ (?:einen?|mir\ einen?)|traduis|traduisez|
        corrige|résume|
    traduce|reescribe|resume|redacta|traduza|reescreva|corrija|resuma)\b | 翻訳|訳して|添削|翻译|改写|
        润色|总结|ترجم|لخص|صحح"""


def _pattern(phrases: str) -> re.Pattern[str]:
    return lazy_pattern(phrases, re.IGNORECASE | re.VERBOSE)


_LEAD_PATTERN = _pattern(_LEAD)
_SINGLE_PATTERNS = {subject: _pattern(phrases) for subject, phrases in _SINGLE.items()}
_STATE_PATTERN, _LIMIT_PATTERN = _pattern(_STATES), _pattern(_LIMITS)
_EVERYWHERE_PATTERN, _ALWAYS_PATTERN, _SPEECH_PATTERN = map(_pattern, (_EVERYWHERE, _ALWAYS, _SPEECH))
_TIED_PATTERN, _TASK_PATTERN = _pattern(_TIED), _pattern(_TASK)


class ProfileStatement(NamedTuple):
    """A sentence that holds in all conversations, its kind, and what it is about, if that is one thing."""

    kind: FactKind
    text: str
    subject: str | None


def find_profile_statements(text: str) -> list[ProfileStatement]:
    """The statements of a user's message that hold in all conversations."""
    if len(text) > MAX_MESSAGE_CHARACTERS or _TASK_PATTERN.search(text):
        return []
    plain = split_speech(text).own.replace("\u2019", "'")
    found = (read_statement(sentence) for sentence in split_prose(plain))
    return [statement for statement in found if statement is not None]


def read_statement(sentence: str) -> ProfileStatement | None:
    """A sentence as a statement for a profile; None for any other."""
    text = clean_fact_text(sentence).rstrip(".!。\uff01 ")
    if not text or len(text) > MAX_SENTENCE_CHARACTERS or text[-1] in "?\uff1f؟" or text[0] in "\"'«„“「『":
        return None
    if _EVERYWHERE_PATTERN.search(text):
        return ProfileStatement("rule", text, None)
    if _TIED_PATTERN.search(text):
        return None
    if _ALWAYS_PATTERN.search(text) and _SPEECH_PATTERN.search(text):
        return ProfileStatement("rule", text, None)
    lead = _LEAD_PATTERN.match(text)
    start = 0 if lead is None else lead.end()
    for subject, pattern in _SINGLE_PATTERNS.items():
        if pattern.match(text, start):
            return ProfileStatement("value", text, subject)
    state = _STATE_PATTERN.match(text, start)
    if state is not None:
        return ProfileStatement("preference", text, f"is {state['of'].casefold()}")
    return ProfileStatement("preference", text, None) if _LIMIT_PATTERN.match(text, start) else None
