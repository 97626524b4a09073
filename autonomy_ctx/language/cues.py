"""Words by which rules without a model read a text, per language, as data.

Each table maps a language to its words and phrases in lower case. A text in a language that is not here is
read without cues: by its punctuation, identifiers and speakers alone. Words of scripts that are written
without spaces (Japanese, Chinese) are found anywhere in a text, all others as whole words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

CueTable: TypeAlias = Mapping[str, tuple[str, ...]]

# fmt: off
# What denies or forbids. A clause with one is never left out of a sentence of which the rest is quoted.
NEGATION_CUES: CueTable = {
    "en": (
        "not", "no", "never", "none", "neither", "nor", "nothing", "nobody", "nowhere", "without",
        "cannot", "can't", "cant", "don't", "dont", "doesn't", "doesnt", "didn't", "won't", "wont",
        "wouldn't", "shouldn't", "mustn't", "isn't", "aren't", "wasn't", "weren't", "haven't", "hasn't",
        "hadn't", "couldn't", "needn't", "hardly", "avoid", "stop", "instead", "rather", "refuse",
        "forbidden", "exclude", "excluding",
    ),
    "de": (
        "nicht", "nichts", "nie", "niemals", "kein", "keine", "keinen", "keinem", "keiner", "keines",
        "ohne", "niemand", "nirgends", "weder", "noch", "kaum", "statt", "stattdessen", "verboten",
        "nein",
    ),
    "fr": (
        "ne", "pas", "jamais", "rien", "aucun", "aucune", "sans", "ni", "personne", "non", "plutôt",
        "interdit", "évite", "évitez",
    ),
    "es": (
        "no", "nunca", "jamás", "nada", "ningún", "ninguna", "ninguno", "sin", "ni", "nadie", "tampoco",
        "prohibido", "evita", "evite",
    ),
    "pt": (
        "não", "nunca", "jamais", "nada", "nenhum", "nenhuma", "sem", "nem", "ninguém", "tampouco",
        "proibido", "evite",
    ),
    "ja": (
        "ない", "ません", "なく", "ずに", "禁止", "だめ", "ダメ", "以外", "避け", "ではな", "無し",
        "なし",
    ),
    "zh": ("不", "没", "沒", "别", "別", "勿", "无", "無", "未", "禁止", "除了", "非"),
    "ar": ("لا", "لم", "لن", "ليس", "ليست", "بدون", "دون", "غير", "ولا", "أبدا", "أبدًا", "ممنوع", "ما"),
}

# What a clause depends on. Treated as negations are.
CONDITION_CUES: CueTable = {
    "en": (
        "if", "unless", "until", "till", "except", "only", "provided", "providing", "otherwise", "when",
        "whenever", "once", "before", "after", "while", "as long as", "in case", "given that", "assuming",
        "subject to", "depending", "but", "however", "although", "though", "at most", "at least",
        "maximum", "minimum",
    ),
    "de": (
        "wenn", "falls", "sofern", "solange", "sobald", "bevor", "nachdem", "bis", "außer", "ausser",
        "nur", "sonst", "ansonsten", "vorausgesetzt", "es sei denn", "aber", "jedoch", "allerdings",
        "obwohl", "höchstens", "mindestens", "maximal", "sondern",
    ),
    "fr": (
        "si", "sauf", "seulement", "uniquement", "lorsque", "quand", "tant que", "dès que", "avant",
        "après", "jusqu'à", "pourvu que", "à condition", "à moins", "sinon", "mais", "cependant",
        "au plus", "au moins", "s'il", "s'ils", "bien que",
    ),
    "es": (
        "si", "salvo", "excepto", "solo", "sólo", "solamente", "únicamente", "cuando", "mientras",
        "hasta", "antes", "después", "siempre que", "a menos que", "a no ser", "pero", "sino",
        "sin embargo", "aunque", "como máximo", "al menos", "con tal de",
    ),
    "pt": (
        "se", "salvo", "exceto", "só", "somente", "apenas", "quando", "enquanto", "até", "antes",
        "depois", "desde que", "a menos que", "a não ser", "caso", "senão", "mas", "porém", "embora",
        "no máximo", "pelo menos", "contanto",
    ),
    "ja": (
        "なら", "れば", "たら", "場合", "限り", "まで", "だけ", "のみ", "ただし", "しかし", "けど",
        "が、", "以上", "以下",
    ),
    "zh": (
        "如果", "若", "假如", "除非", "只有", "只要", "只", "仅", "僅", "否则", "否則", "当", "當",
        "直到", "但", "然而", "之前", "之后", "之後", "最多", "至少", "以前", "以后",
    ),
    "ar": (
        "إذا", "اذا", "إن", "لو", "إلا", "الا", "فقط", "حتى", "عندما", "قبل", "بعد", "بشرط", "ما لم",
        "لكن", "ولكن", "وإلا", "على الأقل", "على الأكثر",
    ),
}

# A sentence that begins with one of these restricts the sentence before it: neither is quoted alone.
RESTRICTION_CUES: CueTable = {
    "en": (
        "only", "but", "unless", "except", "otherwise", "provided", "as long as", "however", "not",
        "if not", "if so", "and not", "and only", "or else", "even then",
    ),
    "de": (
        "nur", "aber", "außer", "ausser", "sonst", "ansonsten", "allerdings", "jedoch", "es sei denn",
        "sofern", "vorausgesetzt", "nicht", "falls nicht", "falls ja", "wenn nicht",
        "und nicht",
    ),
    "fr": (
        "sauf", "mais", "seulement", "uniquement", "sinon", "à moins", "à condition", "cependant", "pas",
        "jamais",
    ),
    "es": (
        "salvo", "pero", "solo", "sólo", "solamente", "excepto", "a menos que", "sin embargo",
        "si no",
    ),
    "pt": ("salvo", "mas", "só", "somente", "apenas", "exceto", "a menos que", "porém", "senão", "nunca"),
    "ja": ("ただし", "しかし", "でも", "ただ", "その場合", "それ以外"),
    "zh": ("但", "除非", "否则", "否則", "只有", "只要", "不过", "不過", "然而", "除了"),
    "ar": ("لكن", "ولكن", "إلا", "الا", "فقط", "وإلا", "بشرط", "ما لم"),
}

# What asks for something that lasts: it outlives what was done about it.
OBLIGATION_CUES: CueTable = {
    "en": (
        "must", "never", "always", "please", "want", "wants", "need", "needs", "prefer", "prefers",
        "preferred", "remember", "important", "only", "goal", "deadline", "don't", "dont", "should",
        "shouldn't", "mustn't", "decide", "decided", "agree", "agreed", "allergic", "budget",
        "from now on", "no more than", "at most", "make sure", "keep in mind", "rule", "instead", "avoid",
        "require", "requires", "required", "not allowed", "forbidden", "do not", "hate", "love",
        "favourite", "favorite",
    ),
    "de": (
        "muss", "müssen", "musst", "nie", "niemals", "immer", "bitte", "will", "wollen", "möchte",
        "möchten", "brauche", "brauchen", "bevorzuge", "lieber", "merk", "merke", "wichtig", "nur",
        "ziel", "frist", "soll", "sollen", "sollte", "darf", "dürfen", "entschieden", "vereinbart",
        "kein", "keine", "keinen", "nicht", "stattdessen", "höchstens", "allergisch", "budget",
        "ab jetzt", "ab sofort", "achte", "grundsätzlich",
    ),
    "fr": (
        "doit", "dois", "devez", "doivent", "faut", "jamais", "toujours", "veux", "voudrais", "voulons",
        "besoin", "préfère", "préférons", "important", "seulement", "objectif", "délai",
        "s'il vous plaît", "s'il te plaît", "décidé", "convenu", "rappelle", "souviens", "allergique",
        "budget", "désormais",
    ),
    "es": (
        "debe", "debes", "deben", "hay que", "nunca", "siempre", "quiero", "queremos", "necesito",
        "necesitamos", "prefiero", "preferimos", "importante", "solo", "sólo", "objetivo", "plazo",
        "por favor", "decidido", "acordado", "recuerda", "recuerde", "alérgico", "alérgica",
        "presupuesto", "a partir de ahora",
    ),
    "pt": (
        "deve", "devem", "tem que", "nunca", "sempre", "quero", "queremos", "preciso", "precisamos",
        "prefiro", "preferimos", "importante", "só", "somente", "apenas", "objetivo", "prazo",
        "por favor", "decidido", "combinado", "lembre", "alérgico", "alérgica", "orçamento",
        "a partir de agora",
    ),
    "ja": (
        "必ず", "絶対", "いつも", "常に", "ください", "下さい", "たい", "必要", "希望", "重要", "目標",
        "期限", "禁止", "覚えて", "決め", "べき", "予算", "今後", "ないで", "好き", "嫌い",
    ),
    "zh": (
        "必须", "必須", "一定", "总是", "總是", "永远", "请", "請", "要", "需要", "想", "希望", "重要",
        "目标", "目標", "截止", "记住", "記住", "决定", "決定", "应该", "應該", "预算", "預算", "从现在",
        "别", "不要", "喜欢", "偏好",
    ),
    "ar": (
        "يجب", "دائما", "دائمًا", "أبدا", "أبدًا", "أريد", "نريد", "أحتاج", "نحتاج", "أفضل", "نفضل",
        "مهم", "فقط", "هدف", "الموعد", "من فضلك", "رجاء", "قررنا", "اتفقنا", "تذكر", "ميزانية", "لا",
        "من الآن",
    ),
}

# What was done, or how it came out.
ACTION_CUES: CueTable = {
    "en": (
        "booked", "committed", "created", "deleted", "removed", "sent", "deployed", "merged", "fixed",
        "updated", "changed", "added", "installed", "paid", "cancelled", "canceled", "refunded",
        "ordered", "shipped", "delivered", "failed", "failure", "passed", "published", "renamed", "moved",
        "uploaded", "scheduled", "confirmed", "signed", "released", "reverted", "rolled back", "resolved",
        "closed", "reserved", "replaced", "saved", "wrote", "written", "pushed", "completed", "finished",
        "succeeded", "rejected", "approved", "blocked", "decided", "agreed", "error", "exception",
        "crashed", "timed out", "issued", "charged", "enabled", "disabled", "migrated", "the cause is",
        "root cause", "turned out",
    ),
    "de": (
        "gebucht", "erstellt", "angelegt", "gelöscht", "entfernt", "gesendet", "geschickt", "verschickt",
        "bereitgestellt", "behoben", "aktualisiert", "geändert", "hinzugefügt", "installiert", "bezahlt",
        "storniert", "erstattet", "bestellt", "versendet", "versandt", "geliefert", "fehlgeschlagen",
        "gescheitert", "bestanden", "veröffentlicht", "umbenannt", "verschoben", "hochgeladen",
        "bestätigt", "unterschrieben", "reserviert", "ersetzt", "gespeichert", "abgeschlossen",
        "erledigt", "abgelehnt", "genehmigt", "entschieden", "vereinbart", "fehler", "ausgetauscht",
        "eingerichtet", "ursache", "eröffnet", "geschlossen", "beauftragt",
    ),
    "fr": (
        "réservé", "réservée", "créé", "créée", "supprimé", "supprimée", "envoyé", "envoyée", "déployé",
        "corrigé", "corrigée", "modifié", "ajouté", "ajoutée", "installé", "payé", "annulé", "annulée",
        "remboursé", "commandé", "expédié", "livré", "échoué", "échec", "réussi", "publié", "renommé",
        "déplacé", "confirmé", "confirmée", "terminé", "rejeté", "approuvé", "décidé", "erreur",
        "enregistré",
    ),
    "es": (
        "reservado", "reservada", "reservé", "creado", "creada", "eliminado", "eliminada", "enviado",
        "enviada", "envié", "desplegado", "corregido", "corregida", "actualizado", "cambiado", "añadido",
        "instalado", "pagado", "cancelado", "cancelada", "reembolsado", "pedido", "entregado", "falló",
        "fallado", "publicado", "movido", "confirmado", "confirmada", "terminado", "rechazado",
        "aprobado", "decidido", "error", "guardado", "completado",
    ),
    "pt": (
        "reservado", "reservada", "reservei", "criado", "criada", "excluído", "removido", "enviado",
        "enviada", "enviei", "implantado", "corrigido", "corrigida", "atualizado", "alterado",
        "adicionado", "instalado", "pago", "cancelado", "cancelada", "reembolsado", "entregue", "falhou",
        "publicado", "movido", "confirmado", "confirmada", "concluído", "rejeitado", "aprovado",
        "decidido", "erro", "salvo",
    ),
    "ja": (
        "予約しました", "作成しました", "削除しました", "送信しました", "修正しました", "更新しました",
        "変更しました", "追加しました", "完了", "キャンセルしました", "返金", "発送", "失敗", "成功",
        "エラー", "確定", "決定", "保存しました", "しました",
    ),
    "zh": (
        "已预订", "已預訂", "预订了", "已创建", "已删除", "已发送", "已部署", "已修复", "已更新",
        "已修改", "已添加", "已支付", "已取消", "已退款", "已发货", "失败", "失敗", "成功", "错误",
        "錯誤", "已确认", "已完成", "已保存", "决定", "创建了", "修复了", "完成",
    ),
    "ar": (
        "تم", "حجزت", "حجز", "أنشأت", "حذفت", "أرسلت", "أصلحت", "حدثت", "غيرت", "أضفت", "دفعت", "ألغيت",
        "فشل", "فشلت", "نجح", "خطأ", "أكدت", "اكتمل", "قررنا",
    ),
}

# Verbs in the names of tools that only look: what they return is a list, not a deed.
LOOKING_VERBS = (
    "get", "list", "search", "find", "read", "fetch", "view", "show", "look", "lookup", "query", "grep",
    "ls", "cat", "browse", "check", "describe", "inspect", "open", "status", "recall", "load", "scan",
    "head", "tail", "web", "think", "glob", "download", "suche", "lies", "zeige",
)

# Words of which an acknowledgement is made; a message of nothing else says nothing.
ACKNOWLEDGEMENT_CUES: CueTable = {
    "en": (
        "ok", "okay", "k", "kk", "thanks", "thank you", "thx", "ty", "cheers", "great", "perfect", "nice",
        "cool", "awesome", "excellent", "wonderful", "lovely", "good", "fine", "alright", "all right",
        "right", "sure", "got it", "understood", "i see", "sounds good", "looks good", "that is nice",
        "that's nice", "that is great", "that's great", "very", "so much", "very much", "a lot",
        "you're welcome", "you are welcome", "welcome", "no problem", "no worries", "of course",
        "certainly", "absolutely", "noted", "will do", "hi", "hello", "hey", "hi there", "hello there",
        "good morning", "bye", "goodbye", "have a good time", "have a nice day", "done", "wow", "super",
        "many thanks", "for now", "that's all", "that is all", "for your help", "for the help",
        "my pleasure", "happy to help", "glad to help", "again",
    ),
    "de": (
        "ok", "okay", "danke", "danke schön", "dankeschön", "danke sehr", "vielen dank", "besten dank",
        "super", "toll", "prima", "perfekt", "gut", "sehr gut", "alles klar", "klar", "verstanden",
        "gerne", "gern", "in ordnung", "passt", "geht klar", "schön", "wunderbar", "klasse", "hallo",
        "guten tag", "guten morgen", "tschüss", "bitte sehr", "gern geschehen", "kein problem",
        "natürlich", "genau", "dir", "ihnen", "mach ich", "wird gemacht", "hi", "moin",
    ),
    "fr": (
        "ok", "d'accord", "merci", "merci beaucoup", "parfait", "super", "très bien", "bien", "génial",
        "excellent", "entendu", "compris", "bonjour", "salut", "au revoir", "de rien", "pas de problème",
        "bien sûr", "c'est noté", "noté", "beaucoup",
    ),
    "es": (
        "ok", "vale", "gracias", "muchas gracias", "perfecto", "genial", "muy bien", "bien", "excelente",
        "entendido", "de acuerdo", "hola", "buenos días", "adiós", "de nada", "claro", "por supuesto",
        "estupendo",
    ),
    "pt": (
        "ok", "obrigado", "obrigada", "muito obrigado", "muito obrigada", "perfeito", "ótimo",
        "muito bem", "bem", "excelente", "entendido", "certo", "olá", "oi", "bom dia", "tchau", "de nada",
        "claro", "beleza", "legal",
    ),
    "ja": (
        "はい", "了解", "了解です", "了解しました", "ありがとう", "ありがとうございます", "承知しました",
        "わかりました", "分かりました", "こんにちは", "すごい", "いいですね", "完璧", "ok", "オーケー",
        "どうも",
    ),
    "zh": (
        "好", "好的", "谢谢", "謝謝", "多谢", "太好了", "明白", "明白了", "知道了", "收到", "没问题",
        "可以", "你好", "嗯", "行", "ok", "不客气", "很好", "非常感谢",
    ),
    "ar": (
        "شكرا", "شكرًا", "شكرا لك", "حسنا", "حسنًا", "ممتاز", "رائع", "تمام", "مفهوم", "مرحبا", "أهلا",
        "عفوا", "جيد", "جدا", "بالتأكيد", "ok",
    ),
}

# An answer to a question says something only together with the question.
ANSWER_CUES: CueTable = {
    "en": (
        "yes", "no", "yep", "yeah", "nope", "yes please", "no thanks", "no thank you", "correct",
        "exactly", "go ahead", "do it", "do that", "please do", "confirmed", "agreed", "the first",
        "the second", "the first one", "the second one",
    ),
    "de": (
        "ja", "nein", "ja bitte", "nein danke", "genau", "richtig", "mach das", "mach es",
        "einverstanden", "doch",
    ),
    "fr": ("oui", "non", "oui s'il vous plaît", "non merci", "exactement", "vas-y", "allez-y", "d'accord"),
    "es": ("sí", "si", "no", "sí por favor", "no gracias", "exacto", "adelante", "hazlo", "de acuerdo"),
    "pt": (
        "sim", "não", "sim por favor", "não obrigado", "não obrigada", "exato", "pode ser",
        "vá em frente",
    ),
    "ja": ("はい", "いいえ", "お願いします", "そうです", "違います"),
    "zh": ("是", "是的", "不", "不是", "对", "對", "不要", "可以", "好的"),
    "ar": ("نعم", "لا", "أجل", "صحيح", "تفضل", "موافق"),
}

# What joins two clauses after a comma.
CONJUNCTION_CUES: CueTable = {
    "en": (
        "and", "but", "or", "so", "because", "then", "which", "who", "where", "also", "while", "although",
        "whereas", "plus",
    ),
    "de": (
        "und", "aber", "oder", "sondern", "denn", "weil", "dann", "dass", "damit", "obwohl", "während",
        "also", "sowie",
    ),
    "fr": (
        "et", "mais", "ou", "car", "donc", "parce que", "puis", "alors que", "afin que", "ensuite", "qui",
    ),
    "es": (
        "y", "pero", "o", "porque", "luego", "entonces", "mientras", "aunque", "también", "para que",
        "que",
    ),
    "pt": (
        "e", "mas", "ou", "porque", "então", "depois", "enquanto", "embora", "também", "para que", "que",
    ),
    "ar": ("و", "ثم", "لكن", "ولكن", "أو", "لأن", "حيث", "بينما", "كما"),
}

# Where a sentence without punctuation, as people speak, goes on to its next clause.
CLAUSE_START_CUES: CueTable = {
    "en": (
        "and i", "and we", "and you", "and he", "and she", "and they", "and then", "and also",
        "and please", "and if", "and when", "and it", "and that", "and so on", "but", "because", "so i",
        "so we", "so that", "although", "whereas",
    ),
    "de": (
        "und ich", "und wir", "und dann", "und du", "und sie", "und bitte", "und wenn", "und außerdem",
        "aber", "weil", "sondern", "obwohl",
    ),
    "fr": (
        "et je", "et on", "et nous", "et puis", "et ensuite", "et aussi", "mais", "parce que",
        "alors que",
    ),
    "es": ("y luego", "y también", "y después", "y yo", "y si", "pero", "porque", "aunque"),
    "pt": ("e depois", "e também", "e eu", "e se", "mas", "porque", "embora"),
    "ar": ("ثم", "لكن", "ولكن", "لأن", "بينما"),
}
# A full stop after one of these ends no sentence.
ABBREVIATIONS = (
    "abb", "abs", "al", "approx", "apt", "art", "av", "avg", "bzw", "ca", "cf", "co", "corp", "dept",
    "dr", "dra", "eg", "est", "etc", "evtl", "ex", "fig", "ggf", "hr", "ie", "inc", "incl", "inkl",
    "int", "jr", "max", "mgr", "min", "mio", "mme", "mr", "mrs", "ms", "nr", "no", "num", "op", "orig",
    "p", "pp", "prof", "resp", "rev", "sec", "sog", "sr", "sra", "srta", "st", "std", "str", "tel",
    "u.a", "usw", "v", "ver", "vgl", "vol", "vs", "z.b", "zzgl",
)
# fmt: on
