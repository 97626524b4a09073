"""Words by which a reply that is not a summary is recognized, as data: one table per purpose.

Texts are compared folded: without case, width and accents. Each table has English, German, French,
Spanish, Portuguese, Japanese, Chinese and Arabic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from autonomy_ctx.language.words import fold_text

# What a model says when it will not do what it was asked to, or is sorry for what it did.
REFUSAL_CUES = {
    "en": (
        *("i can't", "i cannot", "i can not", "i'm unable", "i am unable", "i'm not able", "i am not able"),
        *("i won't", "i will not be able", "i must decline", "i have to decline", "i decline to"),
        *("i'm sorry", "i am sorry", "sorry, ", "sorry but", "i apologize", "i apologise", "my apologies"),
        *("apologies for", "as an ai", "as a language model", "unfortunately, i ", "unfortunately i "),
        *("i don't have access", "i do not have access", "i don't see any", "i do not see any"),
        *("i'm not comfortable", "i am not comfortable", "i don't feel comfortable", "i'm not allowed"),
        *("i am not allowed", "i can only help with", "unable to comply", "can't assist", "cannot assist"),
        *("could you please", "could you provide", "could you share", "please provide the conversation"),
        *("please paste", "please share the conversation", "which part of the conversation"),
    ),
    "de": (
        *("tut mir leid", "ich kann nicht", "kann ich nicht", "kann ich leider", "ich kann leider"),
        *("leider kann ich", "ich kann dir", "ich kann ihnen", "ich kann dabei", "als ki"),
        *("als sprachmodell",),
        *("ich bin nicht in der lage", "nicht in der lage, ", "ich darf nicht", "darf ich nicht"),
        *("entschuldigung", "ich entschuldige mich", "ich bitte um entschuldigung", "verzeihung"),
        *("ich habe keinen zugriff", "ich muss ablehnen"),
    ),
    "fr": (
        *("je suis desole", "desole, ", "je ne peux pas", "je ne suis pas en mesure", "je regrette"),
        *("en tant qu'ia", "en tant que modele", "je n'ai pas acces", "mes excuses", "je m'excuse"),
        *("malheureusement, je", "malheureusement je", "je dois refuser", "je dois decliner"),
    ),
    "es": (
        *("lo siento", "no puedo ", "no me es posible", "no soy capaz", "como modelo de lenguaje"),
        *("como ia", "como una ia", "lamento ", "disculpa", "mis disculpas", "no tengo acceso"),
        *("lamentablemente, no", "desafortunadamente, no", "debo rechazar"),
    ),
    "pt": (
        *("desculpe", "sinto muito", "lamento, ", "nao posso ", "nao consigo ", "nao sou capaz"),
        *("como modelo de linguagem", "como uma ia", "como ia", "infelizmente nao", "infelizmente, nao"),
        *("peco desculpa", "minhas desculpas", "nao tenho acesso", "devo recusar"),
    ),
    "ja": (
        *("申し訳", "お手伝いできません", "お応えできません", "お答えできません", "対応できません"),
        *("できかねます", "いたしかねます", "恐れ入りますが", "すみませんが", "ごめんなさい", "お断り"),
    ),
    "zh": (
        *("抱歉", "对不起", "對不起", "我无法", "我無法", "我不能", "我没办法", "作为一个ai", "作为ai"),
        *("作为人工智能", "作为一个人工智能", "作为语言模型", "无法协助", "不便提供", "我没有权限"),
    ),
    "ar": (
        *("عذرا", "عذرً", "اسف", "آسف", "اعتذر", "أعتذر", "لا استطيع", "لا أستطيع", "لا يمكنني"),
        *("لا اقدر", "بصفتي نموذج", "كنموذج لغوي", "للاسف لا", "للأسف لا", "للأسف، لا", "ليس لدي"),
    ),
}

# A first word to somebody; a record begins after it.
OPENING_CUES = {
    "en": (
        *("sure", "sure thing", "certainly", "of course", "absolutely", "okay", "ok", "great", "got it"),
        *("understood", "no problem", "alright", "all right", "gladly", "happy to help", "i'd be happy to"),
        *("yes", "hello", "hi", "hi there", "good question", "you're welcome", "hmm", "perfect"),
    ),
    "de": (
        *("gerne", "gern", "natürlich", "klar", "selbstverständlich", "okay", "verstanden", "alles klar"),
        *("sicher", "ja", "hallo", "in ordnung", "guten tag", "kein problem", "perfekt"),
    ),
    "fr": (
        *("bien sûr", "certainement", "avec plaisir", "d'accord", "entendu", "oui", "bonjour"),
        *("très bien", "parfait", "volontiers", "compris"),
    ),
    "es": (
        *("claro", "por supuesto", "desde luego", "con gusto", "entendido", "sí", "hola", "vale"),
        *("de acuerdo", "perfecto", "claro que sí"),
    ),
    "pt": (
        *("claro", "com certeza", "certamente", "com prazer", "entendido", "sim", "olá", "perfeito"),
        *("tudo bem", "de acordo", "combinado"),
    ),
    "ja": (
        *(
            "もちろん",
            "承知しました",
            "承知いたしました",
            "かしこまりました",
            "はい",
            "了解しました",
            "わかりました",
        ),
    ),
    "zh": ("好的", "当然", "當然", "没问题", "沒問題", "明白了", "可以的", "您好", "你好", "收到", "是的"),
    "ar": ("بالتأكيد", "طبعا", "بالطبع", "حسنا", "نعم", "مرحبا", "على الرحب والسعة", "بكل سرور"),
}

# Before a record: "Here is the summary:"; a beginning and a noun belong together.
PREAMBLE_CUES = {
    "en": ("here is", "here's", "here are", "below is", "the following is", "this is"),
    "de": ("hier ist", "hier sind", "hier die", "hier das", "nachfolgend", "im folgenden", "dies ist"),
    "fr": ("voici", "ci-dessous", "voilà"),
    "es": ("aquí está", "aquí tienes", "aquí tiene", "a continuación", "este es"),
    "pt": ("aqui está", "aqui vai", "a seguir", "segue", "este é"),
    "ja": ("以下", "こちらが", "次のとおり"),
    "zh": ("以下", "这是", "這是", "下面是", "如下"),
    "ar": ("إليك", "فيما يلي", "هذا"),
}
RECORD_NOUNS = {
    "en": ("summary", "record", "recap", "overview", "notes", "summarization"),
    "de": ("zusammenfassung", "protokoll", "aufzeichnung", "überblick", "notizen"),
    "fr": ("résumé", "compte rendu", "récapitulatif", "synthèse"),
    "es": ("resumen", "registro"),
    "pt": ("resumo", "registo", "registro"),
    "ja": ("要約", "記録", "まとめ", "概要"),
    "zh": ("总结", "總結", "摘要", "记录", "記錄", "概要"),
    "ar": ("ملخص", "سجل", "تلخيص"),
}

# After a record, or at the end of an answer: an offer to go on.
CLOSING_CUES = {
    "en": (
        *("let me know", "i hope this", "hope this helps", "feel free", "if you need", "if you have any"),
        *("is there anything else", "would you like me", "do you want me", "anything else"),
    ),
    "de": (
        *("lass mich wissen", "lassen sie mich wissen", "sagen sie", "sag mir", "ich hoffe, das"),
        *("wenn sie noch", "falls sie", "falls du", "kann ich sonst", "möchten sie", "möchtest du"),
    ),
    "fr": ("n'hésitez pas", "j'espère que", "souhaitez-vous", "voulez-vous", "dites-moi", "si vous avez"),
    "es": ("avísame", "házmelo saber", "espero que", "no dudes", "si necesitas", "¿quieres que", "¿desea"),
    "pt": ("me avise", "avise-me", "espero que", "se precisar", "deseja que", "quer que", "fique à vontade"),
    "ja": ("ご不明", "お知らせください", "他にご", "何かあれば"),
    "zh": ("如果您", "如果你", "如有", "请告诉我", "还有什么", "希望这"),
    "ar": ("لا تتردد", "هل ترغب", "إذا كنت", "آمل أن", "هل تريد"),
}

# Words that turn what a sentence says into its opposite, and phrases that lift a rule.
DENIAL_WORDS = {
    "en": (
        *("not", "no", "never", "cannot", "can't", "don't", "doesn't", "didn't", "won't", "isn't", "aren't"),
        *("wasn't", "mustn't", "shouldn't", "without", "none", "nothing", "nobody", "neither"),
        *("nor", "forbidden"),
    ),
    "de": (
        *("nicht", "kein", "keine", "keinen", "keiner", "keinem", "nie", "niemals", "ohne"),
        *("nichts", "niemand", "verboten"),
    ),
    "fr": ("pas", "jamais", "aucun", "aucune", "sans", "rien", "interdit", "ni"),
    "es": ("no", "nunca", "jamás", "sin", "ningún", "ninguna", "nada", "prohibido", "ni"),
    "pt": ("não", "nunca", "jamais", "sem", "nenhum", "nenhuma", "nada", "proibido", "nem"),
    "ja": ("ない", "ません", "禁止", "なし", "不可", "不要"),
    "zh": ("不", "没", "勿", "别", "禁止", "未", "无"),
    "ar": ("لا", "ليس", "لن", "لم", "بدون", "ممنوع", "أبدا"),
}
LIFTING_CUES = {
    "en": ("no longer", "not apply", "lifted", "was dropped", "may be ignored", "ignore the rule", "is void"),
    "de": ("nicht mehr", "gilt nicht", "aufgehoben", "entfällt"),
    "fr": ("ne s'applique", "n'est plus", "ne plus", "levée"),
    "es": ("ya no", "no se aplica", "levantada", "anulada"),
    "pt": ("já não", "não se aplica", "não vale mais", "anulada"),
    "ja": ("解除", "適用されない", "もう必要"),
    "zh": ("不再", "取消", "解除", "失效"),
    "ar": ("لم يعد", "ألغي", "لا ينطبق"),
}

# What servers and gateways write in place of an answer.
ERROR_PHRASES = (
    *("bad gateway", "gateway time-out", "gateway timeout", "service unavailable", "internal server error"),
    *("too many requests", "upstream connect error", "upstream request timeout", "connection reset"),
    *("traceback (most recent call last)", "request timed out", "context length exceeded", "rate limit"),
    *("overloaded", "unauthorized", "access denied", "quota exceeded", "connection refused", "forbidden"),
    *("bad request", "not authenticated", "invalid api key", "temporarily unavailable", "read timeout"),
)
# Before what should have been filled in.
PLACEHOLDER_WORDS = (
    *("insert", "your", "add", "list", "name", "date", "topic", "todo", "tbd", "placeholder", "fill"),
    *("describe", "summary", "goal", "decision", "fact", "item", "detail", "next step", "question", "rule"),
    *("hier", "ziel", "insérer", "insertar", "inserir", "xxx"),
)

_TABLES: Mapping[str, Mapping[str, Sequence[str]]] = {
    "refusal": REFUSAL_CUES,
    "opening": OPENING_CUES,
    "preamble": PREAMBLE_CUES,
    "noun": RECORD_NOUNS,
    "closing": CLOSING_CUES,
    "denial": DENIAL_WORDS,
    "lifting": LIFTING_CUES,
}


@cache
def cues_of(table: str) -> tuple[str, ...]:
    """The cues of one purpose in all languages, folded; the longest first."""
    found = {fold_text(cue) for cues in _TABLES[table].values() for cue in cues}
    return tuple(sorted(found, key=lambda cue: (-len(cue), cue)))
