"""A third set by another hand, whose failures are counted by kind and never shown case by case.

`SOURCES` and `BAD` are as in the halves, `CASES`, `TURNED` and `SAID_OTHERWISE` as in the plain ones. The kind
of a turned rule says by what wording it became its opposite. Nobody reads this while working on the checks.
"""

from __future__ import annotations

from benchmarks.gate_cases.plain import PlainCase
from benchmarks.gate_cases.source import BadReply, Source, TurnedRule

SEARCH = Source(
    "search index",
    """
U: The product search on shop-search-4 misses umlauts. Can you have a look? Never reindex during the day, it kills the shop.
A: I'll look at the analyzer first and won't start a reindex during the day.
C: get_settings {"index": "products_v12"}
R: {"analyzer": {"default": {"tokenizer": "standard", "filter": ["lowercase"]}}, "docs": 418230}
A: products_v12 has no folding filter, so "Möbel" and "Mobel" are different words. I would add asciifolding.
U: Fine, but keep the original too, so preserve_original true. And don't edit mappings/base.json, that one is shared with the app team.
C: edit_file {"path": "mappings/products.json", "change": "add asciifolding with preserve_original"}
R: ok, 9 lines changed
C: run {"command": "pytest tests/search -q"}
R: 64 passed in 12.40s
A: mappings/products.json has the filter now, and 64 tests pass. The new index would be products_v13.
U: Good. Plan the reindex for tonight 23:15, Ottavio is on call.
C: schedule {"job": "reindex", "target": "products_v13", "at": "23:15"}
R: {"job": "RX-3308", "state": "scheduled"}
A: Scheduled as RX-3308 for 23:15, target products_v13.
U: Tomorrow we compare the click rate, it was 31.4 percent last week.
""",
    (
        """Goals and rules of the user
- Product search on shop-search-4 should find words with umlauts.
- Never reindex during the day. Don't edit mappings/base.json (shared with the app team).
Decisions
- asciifolding with preserve_original true.
Artifacts
- mappings/products.json: 9 lines changed, 64 tests pass.
- Reindex job RX-3308 for products_v13, tonight 23:15; Ottavio is on call.
Next step
- Compare the click rate tomorrow (31.4 percent last week).""",
        "The search on shop-search-4 missed umlauts because products_v12 has no folding filter. The user agreed to asciifolding with "
        "preserve_original. Reindexing during the day is forbidden, and mappings/base.json must not be edited. The change is in "
        "mappings/products.json with 64 tests passing. RX-3308 will build products_v13 at 23:15 with Ottavio on call.",
        """- user: never reindex by day, leave mappings/base.json alone
- mappings/products.json now folds (asciifolding, preserve_original)
- RX-3308 scheduled 23:15 -> products_v13
- tomorrow: click rate against 31.4 percent""",
    ),
)
REFILL = Source(
    "prescription refill",
    """
U: Hello, I need a refill of my thyroid tablets, prescription RX-4471-09. I'm Winifred Sallow.
A: Good morning, Ms Sallow. Let me look that up.
C: get_prescription {"id": "RX-4471-09"}
R: {"drug": "levothyroxine", "dose": "75 mcg", "brand": "Thyrolan", "refills_left": 2, "prescriber": "Dr Imrie"}
A: It's levothyroxine 75 mcg, brand Thyrolan, with two refills left.
U: Yes. Please never swap it for another brand, I had palpitations with the last one.
A: I've put that on your file: no other brand.
U: And only text me, don't leave voicemails, my flatmate listens to them. Number is 07700 900416.
C: order {"prescription": "RX-4471-09", "brand": "Thyrolan", "qty": 84}
R: {"order": "PH-20655", "ready": "2026-03-12", "branch": "Castle Street"}
A: Order PH-20655 for 84 tablets will be ready on 12 March at Castle Street.
U: Can I pick it up at Mill Road? Castle Street is far.
C: move_order {"order": "PH-20655", "branch": "Mill Road"}
R: {"ok": true, "ready": "2026-03-13"}
A: Moved to Mill Road, ready on 13 March.
U: Thanks. I still have to ask Dr Imrie for the blood test form.
A: I'll note it as open on your side.
""",
    (
        """Goals and rules of the user
- Refill of levothyroxine 75 mcg (Thyrolan), prescription RX-4471-09, for Winifred Sallow.
- Never swap it for another brand. Only text messages to 07700 900416, no voicemails.
Facts and identifiers
- Order PH-20655, 84 tablets, ready on 13 March at Mill Road (moved from Castle Street).
Open questions
- The user has to ask Dr Imrie for the blood test form.""",
        "Winifred Sallow ordered a refill under RX-4471-09. She gets Thyrolan 75 mcg and no other brand. She wants text messages only "
        "(07700 900416). Order PH-20655 can be picked up at Mill Road from 13 March. She still needs a blood test form from Dr Imrie.",
    ),
)
CAMP = Source(
    "scout camp",
    """
U: I run the scout camp in July, 34 children, 6 leaders. Help me plan food and the programme?
A: Gladly. Which days, and is there a kitchen?
U: 11 to 18 July, kitchen yes, at Birch Hollow. All meals vegetarian, that's simpler for everybody.
A: Vegetarian for 40 people, eight days.
U: Nobody swims without two leaders at the lake. And no photos of the children online, not even from behind.
A: Both noted.
U: The budget for food is 1900 pounds. Last year's leader spent 3000, no idea on what.
A: That's about 5.90 a head per day, which works.
C: book_site {"site": "Birch Hollow", "from": "2026-07-11", "to": "2026-07-18"}
R: {"booking": "BH-0711-40", "deposit": 250}
A: Birch Hollow is booked, BH-0711-40, with a deposit of 250 pounds.
U: Great. Night hike on the 15th, if the weather is bad on the 16th.
A: Night hike on the 15th, with the 16th in reserve.
U: I need to find a nurse or a first aider, ours moved to Wales.
A: I'll keep that open.
""",
    (
        """Goals and rules of the user
- Scout camp at Birch Hollow, 11 to 18 July, 34 children and 6 leaders.
- All meals vegetarian. Nobody swims without two leaders. No photos of the children online.
Facts and identifiers
- Booking BH-0711-40, deposit 250 pounds; food budget 1900 pounds.
- Night hike on the 15th, in bad weather on the 16th.
Open questions
- A nurse or first aider is still to be found.""",
        "The user plans a scout camp for 34 children and 6 leaders at Birch Hollow (BH-0711-40) from 11 to 18 July. Food is vegetarian "
        "and may cost 1,900 pounds. Photos of the children do not go online, and swimming needs two leaders. The night hike is on the 15th. "
        "A first aider is missing.",
    ),
)
FEST = Source(
    "Sommerfest",
    """
U: Wir planen das Sommerfest vom Ruderverein am 27. Juni. Kannst du das mit mir durchgehen?
A: Gern. Wie viele Gäste erwartet ihr, und wo findet es statt?
U: So 120 Leute, am Bootshaus. Vor 18 Uhr wird kein Alkohol ausgeschenkt, das haben wir der Stadt zugesagt.
A: Kein Alkohol vor 18 Uhr, notiert.
U: Die Einladungen gehen nur per Post raus, nicht per Mail, unsere Älteren lesen keine Mails.
C: druckauftrag {"stueck": 140, "format": "A6"}
R: {"auftrag": "DR-55190", "preis": 86.40, "lieferung": "2026-05-20"}
A: 140 Karten sind bestellt, Auftrag DR-55190, 86,40 Euro, Lieferung am 20. Mai.
U: Super. Musik macht die Band Kielwasser, 450 Euro bar. Der DJ von letztem Jahr kommt mir nicht mehr ins Haus.
A: Kielwasser für 450 Euro, bar.
U: Die Genehmigung der Stadt fehlt noch, Aktenzeichen 32-4/118. Heiner kümmert sich.
A: Dann steht die Genehmigung noch aus.
U: Das Budget liegt bei 2200 Euro.
""",
    (
        """Ziele und Regeln des Nutzers
- Sommerfest des Rudervereins am 27. Juni am Bootshaus, etwa 120 Gäste.
- Kein Alkohol vor 18 Uhr. Einladungen nur per Post, nicht per Mail.
Entscheidungen
- Musik: Band Kielwasser, 450 Euro bar; nicht der DJ vom letzten Jahr.
Fakten
- 140 Karten, Auftrag DR-55190, 86,40 Euro, Lieferung am 20. Mai. Budget 2200 Euro.
Offene Fragen
- Genehmigung der Stadt (Aktenzeichen 32-4/118), Heiner kümmert sich.""",
        "Der Ruderverein feiert am 27. Juni am Bootshaus mit rund 120 Leuten. Alkohol gibt es erst ab 18 Uhr. Die Einladungen (DR-55190) "
        "werden ausschließlich mit der Post verschickt. Kielwasser spielt für 450 Euro. Die Genehmigung 32-4/118 fehlt noch.",
    ),
)
CONTRAT = Source(
    "traduction",
    """
U: Bonjour, je dois traduire un contrat de 38 pages pour la société Verdon-Lys. Pouvez-vous m'aider ?
A: Bien sûr. De quelle langue, et pour quand ?
U: De l'anglais vers le français, pour le 9 octobre. Ne traduisez jamais les noms des produits, ils sont déposés.
A: Les noms de produits restent en anglais.
U: Et n'envoyez rien au client avant ma relecture, s'il vous plaît.
C: ouvrir_fichier {"chemin": "contrats/VL-2026-17.docx"}
R: 38 pages, 11 920 mots, 4 annexes
A: Le fichier contrats/VL-2026-17.docx compte 11 920 mots et 4 annexes.
U: Pour « liability », gardez « responsabilité », pas « passif ». La dernière agence s'était trompée.
A: « Responsabilité » partout.
C: enregistrer {"chemin": "contrats/VL-2026-17_fr.docx", "pages": 12}
R: enregistré, version 2
A: Les 12 premières pages sont dans contrats/VL-2026-17_fr.docx, version 2.
U: Très bien. Mon tarif est de 0,14 euro le mot. Il manque encore le glossaire de Mme Thévenin.
A: Je laisse le glossaire en attente.
""",
    (
        """Objectifs et règles de l'utilisateur
- Traduire de l'anglais vers le français le contrat de 38 pages de Verdon-Lys pour le 9 octobre.
- Ne jamais traduire les noms des produits. Ne rien envoyer au client avant la relecture.
Décisions
- « liability » se traduit par « responsabilité », pas « passif ».
Artefacts
- contrats/VL-2026-17_fr.docx, version 2 : les 12 premières pages sur 38 (11 920 mots, 4 annexes).
Questions ouvertes
- Le glossaire de Mme Thévenin manque encore.""",
        "L'utilisateur traduit un contrat pour Verdon-Lys, à rendre le 9 octobre. Les noms de produits restent en anglais. Rien ne part chez "
        "le client avant sa relecture. Les 12 premières pages sont dans contrats/VL-2026-17_fr.docx. Le tarif est de 0,14 euro le mot. "
        "Le glossaire de Mme Thévenin est attendu.",
    ),
)
MIGRATION = Source(
    "社内移行",
    """
U: 勤怠システムを kintai-old から kintai-new2 に移行したいです。平日の昼間は絶対に止めないでください。
A: 承知しました。平日の昼間は止めません。まずデータの量を確認します。
C: query {"host": "kintai-old", "sql": "select count(*) from punches"}
R: punches 2840115
A: 打刻データは2840115件あります。
U: 給与テーブルには触らないでください。経理の管轄なので。
A: 給与テーブルは対象外にします。
U: 作業は5月23日土曜の21:00からでお願いします。担当は宮下さんです。
C: create_ticket {"title": "勤怠移行", "date": "2026-05-23"}
R: {"ticket": "KT-1094", "state": "open"}
A: チケットKT-1094を作成しました。5月23日21:00開始、担当は宮下さんです。
U: 連絡はチャットだけで、電話はしないでください。
A: 連絡はチャットのみにします。
U: バックアップの確認がまだなので、あとでやります。
A: 未完了として残しておきます。
""",
    (
        """目的とルール
- 勤怠システムを kintai-old から kintai-new2 に移行する。
- 平日の昼間は絶対に止めない。給与テーブルには触らない。連絡はチャットだけ、電話はしない。
事実
- 打刻データ2840115件。チケットKT-1094、5月23日21:00開始、担当は宮下さん。
未解決
- バックアップの確認がまだ。""",
        "勤怠システムを kintai-old から kintai-new2 へ移す作業。平日の昼間の停止は禁止で、給与テーブルは対象外。作業は5月23日21:00から宮下さんが担当し、"
        "チケットはKT-1094。連絡はチャットのみ。バックアップの確認は未完了。",
    ),
)
SOURCES = (SEARCH, REFILL, CAMP, FEST, CONTRAT, MIGRATION)


def _other(source: Source, step: int) -> Source:
    return SOURCES[(SOURCES.index(source) + step) % len(SOURCES)]


def _another(source: Source, prompt: str) -> str:
    return _other(source, 1).records[0]


def _another_in_prose(source: Source, prompt: str) -> str:
    return _other(source, 2).records[1]


def _two_others(source: Source, prompt: str) -> str:
    return f"{_other(source, 3).records[1]}\n\n{_other(source, 4).records[1]}"


def _last_said(source: Source, prompt: str) -> str:
    """The assistant's last words again."""
    return [one.text for one in source.messages() if one.role.value == "assistant" and one.text][-1]


def _echo(source: Source, prompt: str) -> str:
    return source.script.strip()


def _echo_of_users(source: Source, prompt: str) -> str:
    said = [one.text for one in source.messages() if one.role.value == "user"]
    return "\n".join(f"User: {text}" for text in said)


def _prompt(source: Source, prompt: str) -> str:
    return f"{prompt}\n\nAssistant:"


def _prompt_start(source: Source, prompt: str) -> str:
    return prompt[: len(prompt) // 3]


def _prompt_quoted(source: Source, prompt: str) -> str:
    return "\n".join(f"> {line}" for line in prompt.splitlines()[:12])


def _first_letters(source: Source, prompt: str) -> str:
    return source.records[1][:9]


def _heading_only(source: Source, prompt: str) -> str:
    return source.records[0].split("\n", 1)[0]


def _heading_and_dash(source: Source, prompt: str) -> str:
    return source.records[0].split("\n", 1)[0] + "\n- "


def _loop_of_record(source: Source, prompt: str) -> str:
    return "\n".join([source.records[0].split("\n")[1]] * 30)


def _loop_after_record(source: Source, prompt: str) -> str:
    return source.records[0] + "\n- Next step: continue." * 40


def _invented(source: Source, prompt: str) -> str:
    return (
        "Facts and identifiers\n- Contract VX-90217-K was signed on 2 Feb 2019.\n- Host relay-61.corp.example has /var/lib/q/91.db.\n"
        "- Refund RF-661204 over 7,418.22 went to acct 5520-19.\nNext step\n- Close TCK-700913."
    )


def _invented_prose(source: Source, prompt: str) -> str:
    return "The user reported that flight ZQ8841 was cancelled, and the assistant rebooked to ZQ9107 with voucher VCH-33018-PP."


def _invented_german(source: Source, prompt: str) -> str:
    return "Der Kunde meldete Zähler 88-410-227, Vertrag STR-2018-5561, und bat um Rückruf unter 0171-5550182 bis 3. Mai 2018."


def _invented_japanese(source: Source, prompt: str) -> str:
    return "注文番号OD-771620の返品を受け付け、返金番号RB-40981を発行した。倉庫はWH-93。"


def _half_unknown(source: Source, prompt: str) -> str:
    return f"{source.records[1]} Then SRV-88120 was moved to dc-19.example.net, INV-660114 was paid and JOB-71552 closed."


BAD = (
    BadReply("refusal", "I'm not able to assist with this one. Please contact support."),
    BadReply("refusal", "I can't provide a summary of this content."),
    BadReply("refusal", "This request goes against my guidelines, so I have to stop here."),
    BadReply("refusal", "I'm just a language model and can't help with that."),
    BadReply("refusal", "I won't summarize personal data of private individuals."),
    BadReply("refusal", "Leider darf ich dieses Gespräch nicht zusammenfassen."),
    BadReply("refusal", "Ich kann Ihnen bei dieser Anfrage nicht weiterhelfen."),
    BadReply("refusal", "Je ne peux pas traiter cette demande, elle est contraire à mes règles."),
    BadReply("refusal", "申し訳ございませんが、この会話を要約することはできません。"),
    BadReply("refusal", "No me es posible resumir esta conversación."),
    BadReply("plain error", "Error: upstream request failed with status 502"),
    BadReply("plain error", "Internal Server Error"),
    BadReply("plain error", "503 Service Temporarily Unavailable"),
    BadReply(
        "plain error", "RateLimitError: You exceeded your current quota, please check your plan and billing."
    ),
    BadReply("plain error", "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"),
    BadReply("plain error", "CUDA out of memory. Tried to allocate 2.50 GiB"),
    BadReply("plain error", "[ERROR] model 'summarizer-large' not found, try pulling it first"),
    BadReply(
        "plain error",
        "This model's maximum context length is 8192 tokens. However, you requested 11873 tokens.",
    ),
    BadReply(
        "plain error", "Exception: could not connect to inference backend (ECONNREFUSED 127.0.0.1:8080)"
    ),
    BadReply(
        "HTML page",
        "<!doctype html>\n<html><head><title>502 Bad Gateway</title></head><body><h1>Bad Gateway</h1>"
        "<p>The proxy server received an invalid response.</p></body></html>",
    ),
    BadReply(
        "HTML page",
        "<html><body><h1>413 Request Entity Too Large</h1><hr><address>Apache/2.4</address></body></html>",
    ),
    BadReply(
        "HTML page",
        '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>SlowDown</Code><Message>Reduce your rate.</Message></Error>',
    ),
    BadReply("JSON error", '{"error": "upstream request failed", "status": 502}'),
    BadReply("JSON error", '{"message": "Internal server error"}'),
    BadReply(
        "JSON error",
        '{"object": "error", "message": "The model is currently loading", "type": "unavailable", "code": 503}',
    ),
    BadReply("JSON error", '{"fault": {"faultstring": "Rate limit quota violation", "detail": {}}}'),
    BadReply("JSON error", '{"ok": false, "reason": "timeout"}'),
    BadReply("empty", "\n\n\n"),
    BadReply("empty", "\u200b"),
    BadReply("empty", "</s>"),
    BadReply("empty", "null"),
    BadReply("empty", '""'),
    BadReply("dots", "…\n…"),
    BadReply("dots", "-"),
    BadReply("placeholders", "[Summary of the conversation goes here]"),
    BadReply("placeholders", "TODO: write the record"),
    BadReply("placeholders", "Goals: N/A\nDecisions: N/A\nFacts: N/A\nOpen questions: N/A\nNext step: N/A"),
    BadReply("placeholders", "<record>\n{record}\n</record>"),
    BadReply("echo", _echo),
    BadReply("echo", _echo_of_users),
    BadReply("prompt", _prompt),
    BadReply("prompt", _prompt_start),
    BadReply("prompt", _prompt_quoted),
    BadReply("tool protocol", '<function_calls>\n<invoke name="save_record">\n</invoke>\n</function_calls>'),
    BadReply("tool protocol", '[TOOL_CALLS] [{"name": "write_summary", "arguments": {"length": "short"}}]'),
    BadReply("tool protocol", '{"tool_calls": [{"id": "call_1", "function": {"name": "get_messages"}}]}'),
    BadReply("tool protocol", "<|python_tag|>search_conversation(query='user rules')"),
    BadReply("tool protocol", 'Action: lookup\nAction Input: {"query": "conversation"}\nObservation:'),
    BadReply(
        "tool protocol", '<tool_call>{"name": "read_file", "arguments": {"path": "notes.md"}}</tool_call>'
    ),
    BadReply("answer", _last_said),
    BadReply("answer", "No problem at all! I've made that change for you. Have a great day!"),
    BadReply("answer", "You're welcome! Just tell me when you would like to continue."),
    BadReply("answer", "Alles klar, das mache ich sofort für dich. Sonst noch etwas?"),
    BadReply("answer", "Avec plaisir ! N'hésitez pas si vous avez d'autres questions."),
    BadReply("answer", "かしこまりました。すぐに対応いたします。ほかにご用はありますか。"),
    BadReply("loop", _loop_of_record),
    BadReply("loop", _loop_after_record, stop="length"),
    BadReply("loop", "user user user user " * 50),
    BadReply("loop", "1. The user\n" * 45, stop="length"),
    BadReply("loop", "はいはいはいはい" * 60),
    BadReply(
        "other script",
        "Пользователь задал вопрос, и ассистент дал подробный ответ. Затем они обсудили сроки.",
    ),
    BadReply(
        "other script",
        "사용자가 도움을 요청했고 도우미가 계획을 세웠습니다. 다음 단계는 결과를 확인하는 것입니다.",
    ),
    BadReply("other script", "ผู้ใช้ขอความช่วยเหลือ และผู้ช่วยได้วางแผนไว้แล้ว ขั้นตอนต่อไปคือการตรวจสอบผล"),
    BadReply(
        "other script", "उपयोगकर्ता ने सहायता माँगी और सहायक ने एक योजना बनाई। अगला कदम परिणाम की जाँच करना है।"
    ),
    BadReply(
        "other script", "Ο χρήστης ζήτησε βοήθεια και ο βοηθός έφτιαξε ένα σχέδιο για τις επόμενες ημέρες."
    ),
    BadReply("cut off", _first_letters, stop="length"),
    BadReply("cut off", _heading_only, stop="length"),
    BadReply("cut off", _heading_and_dash, stop="length"),
    BadReply("cut off", "Goals and", stop="length"),
    BadReply(
        "thinking only", "<think>\nOkay, the conversation is about several things. First,", stop="length"
    ),
    BadReply("thinking only", "<reasoning>I will list the rules, then the facts.</reasoning>"),
    BadReply("question back", "Sure, which conversation do you mean? I don't see any messages yet."),
    BadReply("question back", "Pourriez-vous me transmettre la conversation à résumer ?"),
    BadReply("question back", "どの会話を要約すればよいか教えていただけますか。"),
    BadReply("apology", "Sorry about that! Something went wrong on my side, please try once more."),
    BadReply("apology", "申し訳ありません、先ほどの回答に誤りがありました。"),
    BadReply("another conversation", _another),
    BadReply("another conversation", _another_in_prose),
    BadReply("another conversation", _two_others),
    BadReply("invented identifiers", _invented),
    BadReply("invented identifiers", _invented_prose),
    BadReply("invented identifiers", _invented_german),
    BadReply("invented identifiers", _invented_japanese),
    BadReply("half unknown", _half_unknown),
    BadReply("vague", "Various matters were talked through and things are moving along nicely."),
    BadReply("vague", "A conversation took place between a user and an assistant."),
    BadReply(
        "talk about the task",
        "I need to write a compact record now, with all identifiers, in the same language.",
    ),
    BadReply(
        "talk about the task", "Below I would list the goals, then decisions, then facts, as instructed."
    ),
)

BY_DAY = "never reindex during the day"
BASE = "don't edit mappings/base.json"
BRAND = "never swap it for another brand"
TEXT_ONLY = "only text me, don't leave voicemails"
SWIM = "nobody swims without two leaders at the lake"
PHOTOS = "no photos of the children online"
ALCOHOL = "Vor 18 Uhr wird kein Alkohol ausgeschenkt"
BY_POST = "Die Einladungen gehen nur per Post raus, nicht per Mail"
PRODUCTS = "Ne traduisez jamais les noms des produits"
REVIEW = "n'envoyez rien au client avant ma relecture"
BY_NOON = "平日の昼間は絶対に止めないでください"
PAYROLL = "給与テーブルには触らないでください"
CHAT = "連絡はチャットだけで、電話はしないでください"

TURNED = (
    TurnedRule(
        SEARCH,
        BY_DAY,
        "Search on shop-search-4 misses umlauts. Reindex during the day. RX-3308 builds products_v13.",
        "rule without its negation",
        "Reindex during the day",
    ),
    TurnedRule(
        SEARCH,
        BY_DAY,
        "- Reindexing during the day is fine now.\n- mappings/products.json folds umlauts, RX-3308 at 23:15.",
        "rule allowed",
        "Reindexing during the day is fine now",
    ),
    TurnedRule(
        SEARCH,
        BASE,
        "The user said that mappings/base.json may be edited. products_v13 is built by RX-3308 at 23:15.",
        "rule allowed",
        "mappings/base.json may be edited",
    ),
    TurnedRule(
        SEARCH,
        BASE,
        "Rules\n- Edit mappings/base.json, it is shared with the app team.\nArtifacts\n- RX-3308 for products_v13",
        "rule without its negation",
        "Edit mappings/base.json",
    ),
    TurnedRule(
        SEARCH,
        BY_DAY,
        "Rule: reindex only during the day. mappings/products.json changed, 64 tests pass, RX-3308 scheduled.",
        "rule inverted with only",
        "reindex only during the day",
    ),
    TurnedRule(
        REFILL,
        BRAND,
        "Winifred Sallow refills RX-4471-09. It can be swapped for another brand. PH-20655 is ready on 13 March.",
        "rule allowed",
        "It can be swapped for another brand",
    ),
    TurnedRule(
        REFILL,
        BRAND,
        "- Swap it for another brand.\n- Order PH-20655, Mill Road, 13 March.\n- Text 07700 900416.",
        "rule without its negation",
        "Swap it for another brand",
    ),
    TurnedRule(
        REFILL,
        TEXT_ONLY,
        "Only leave voicemails, don't text her. Order PH-20655 for RX-4471-09 is at Mill Road on 13 March.",
        "rule inverted with only",
        "Only leave voicemails",
    ),
    TurnedRule(
        REFILL,
        TEXT_ONLY,
        "Ms Sallow wants voicemails on 07700 900416 and no text messages. PH-20655 is ready on 13 March.",
        "rule with another subject",
        "wants voicemails on 07700 900416",
    ),
    TurnedRule(
        CAMP,
        PHOTOS,
        "Camp at Birch Hollow, BH-0711-40. Photos of the children may go online. Food budget 1900 pounds.",
        "rule allowed",
        "Photos of the children may go online",
    ),
    TurnedRule(
        CAMP,
        PHOTOS,
        "- Put photos of the children online.\n- BH-0711-40, 11 to 18 July\n- night hike on the 15th",
        "rule without its negation",
        "Put photos of the children online",
    ),
    TurnedRule(
        CAMP,
        SWIM,
        "Scout camp 11 to 18 July, BH-0711-40. Children can swim without two leaders at the lake.",
        "rule allowed",
        "Children can swim without two leaders",
    ),
    TurnedRule(
        CAMP,
        SWIM,
        "Everybody swims without two leaders at the lake. Booking BH-0711-40, deposit 250 pounds.",
        "rule with another subject",
        "Everybody swims without two leaders",
    ),
    TurnedRule(
        FEST,
        ALCOHOL,
        "Sommerfest am 27. Juni am Bootshaus. Vor 18 Uhr wird Alkohol ausgeschenkt. Kielwasser spielt für 450 Euro.",
        "rule without its negation",
        "Vor 18 Uhr wird Alkohol ausgeschenkt",
    ),
    TurnedRule(
        FEST,
        ALCOHOL,
        "- Alkohol darf jetzt auch vor 18 Uhr ausgeschenkt werden.\n- Karten DR-55190\n- Budget 2200 Euro",
        "rule allowed",
        "Alkohol darf jetzt auch vor 18 Uhr",
    ),
    TurnedRule(
        FEST,
        BY_POST,
        "Die Einladungen gehen nur per Mail raus, nicht per Post. Auftrag DR-55190 kommt am 20. Mai.",
        "rule inverted with only",
        "gehen nur per Mail raus",
    ),
    TurnedRule(
        FEST,
        ALCOHOL,
        "Nur vor 18 Uhr wird Alkohol ausgeschenkt. Die Genehmigung 32-4/118 fehlt noch, Heiner kümmert sich.",
        "rule inverted with only",
        "Nur vor 18 Uhr wird Alkohol ausgeschenkt",
    ),
    TurnedRule(
        CONTRAT,
        PRODUCTS,
        "Contrat de Verdon-Lys pour le 9 octobre. Traduire les noms des produits. Voir contrats/VL-2026-17_fr.docx.",
        "rule without its negation",
        "Traduire les noms des produits",
    ),
    TurnedRule(
        CONTRAT,
        PRODUCTS,
        "- Les noms des produits peuvent être traduits.\n- contrats/VL-2026-17_fr.docx, version 2\n- tarif 0,14 euro",
        "rule allowed",
        "Les noms des produits peuvent être traduits",
    ),
    TurnedRule(
        CONTRAT,
        REVIEW,
        "Envoyer au client avant la relecture. Les 12 premières pages sont dans contrats/VL-2026-17_fr.docx.",
        "rule without its negation",
        "Envoyer au client avant la relecture",
    ),
    TurnedRule(
        CONTRAT,
        REVIEW,
        "L'utilisateur permet d'envoyer le texte au client avant sa relecture. Échéance le 9 octobre, Verdon-Lys.",
        "rule allowed",
        "permet d'envoyer le texte au client avant sa relecture",
    ),
    TurnedRule(
        MIGRATION,
        BY_NOON,
        "kintai-old から kintai-new2 に移行する。平日の昼間に止める。チケットはKT-1094。",
        "rule without its negation",
        "平日の昼間に止める",
    ),
    TurnedRule(
        MIGRATION,
        BY_NOON,
        "- 平日の昼間は止めてもよい。\n- KT-1094、5月23日21:00開始\n- 担当は宮下さん",
        "rule allowed",
        "平日の昼間は止めてもよい",
    ),
    TurnedRule(
        MIGRATION,
        PAYROLL,
        "給与テーブルに触っても構わない。移行は5月23日21:00から、KT-1094。",
        "rule allowed",
        "給与テーブルに触っても構わない",
    ),
    TurnedRule(
        MIGRATION,
        CHAT,
        "連絡は電話だけで、チャットはしない。チケットKT-1094、担当は宮下さん。",
        "rule inverted with only",
        "連絡は電話だけ",
    ),
    TurnedRule(
        SEARCH,
        BASE,
        "Don't edit mappings/products.json, edit mappings/base.json instead. RX-3308 builds products_v13 at 23:15.",
        "rule with another subject",
        "edit mappings/base.json instead",
    ),
    TurnedRule(
        CONTRAT,
        REVIEW,
        "Le client relit avant que l'utilisateur reçoive quoi que ce soit : envoyez tout au client avant ma relecture. Verdon-Lys, 9 octobre.",
        "rule with another subject",
        "envoyez tout au client avant ma relecture",
    ),
    TurnedRule(
        MIGRATION,
        PAYROLL,
        "給与テーブルを移行し、打刻データには触らないでください。KT-1094、5月23日21:00開始。",
        "rule with another subject",
        "給与テーブルを移行し",
    ),
)

# The same rules in other words, which hold.
SAID_OTHERWISE = (
    (SEARCH, BY_DAY, "A reindex may only run at night; RX-3308 starts at 23:15."),
    (
        SEARCH,
        BASE,
        "mappings/base.json is off limits (app team). mappings/products.json was changed instead.",
    ),
    (REFILL, BRAND, "Thyrolan must stay Thyrolan, other brands gave her palpitations. Order PH-20655."),
    (REFILL, TEXT_ONLY, "Contact by text message to 07700 900416; voicemails are not wanted. PH-20655."),
    (CAMP, PHOTOS, "Pictures of the kids stay off the internet. BH-0711-40 is booked."),
    (CAMP, SWIM, "Swimming at the lake requires two leaders. Birch Hollow, BH-0711-40."),
    (FEST, ALCOHOL, "Alkohol erst ab 18 Uhr. Karten unter DR-55190 bestellt."),
    (FEST, BY_POST, "Einladungen verschickt der Verein ausschließlich mit der Post (DR-55190)."),
    (CONTRAT, PRODUCTS, "Les noms des produits restent en anglais dans contrats/VL-2026-17_fr.docx."),
    (CONTRAT, REVIEW, "Le client ne reçoit le texte qu'après la relecture. Échéance le 9 octobre."),
    (MIGRATION, BY_NOON, "平日の昼間の停止は禁止。KT-1094で5月23日に作業する。"),
    (MIGRATION, PAYROLL, "給与テーブルは対象外。kintai-new2 への移行はKT-1094。"),
)

# What is broken stands in `BAD`.
BROKEN: tuple[BadReply, ...] = ()

CASES = (
    PlainCase(
        SEARCH,
        (
            ("short", "umlauts in product search, fix is in, reindex tonight 23:15"),
            ("one sentence", "User wants the search to find umlauts and forbids reindexing during the day."),
            ("list", "* umlauts\n* asciifolding, keep original\n* no reindex by day\n* RX-3308 tonight"),
            (
                "headings",
                "# Summary\n## Done\nAdded the folding filter.\n## Next\nCompare the click rate tomorrow.",
            ),
            (
                "thoughts",
                "<think>search index stuff. rules: day, base.json</think>\nAnalyzer fixed, 64 tests ok, RX-3308 runs tonight. "
                "mappings/base.json is not to be edited.",
            ),
            (
                "preamble",
                "Here's the record you asked for:\n\nThe analyzer of products_v12 had no folding. It was added, and tonight a "
                "new index is built.",
            ),
            (
                "poor style",
                "so user had problem with umlaut, assistant look, add filter, test pass, tonight reindex job",
            ),
        ),
    ),
    PlainCase(
        REFILL,
        (
            ("short", "Thyroid refill ordered, pickup Mill Road 13 March."),
            ("list", "- refill\n- same brand always\n- texts only\n- blood test form open"),
            (
                "labels",
                "Customer: Winifred Sallow\nOrder: PH-20655\nPickup: Mill Road\nOpen: blood test form",
            ),
            (
                "preamble",
                "Sure, here is a summary.\n\nMs Sallow ordered more of her tablets and asked to keep the brand. She collects them at Mill Road.",
            ),
            (
                "thoughts",
                "<thinking>\nShe wants Thyrolan only.\n</thinking>\n\nRefill under way as PH-20655. No voicemails. No other brand.",
            ),
            ("poor style", "lady wants pills, no other brand!!, text not voicemail, pick up 13.3. mill rd"),
            (
                "closing words",
                "The refill will be ready on 13 March at Mill Road. I hope this summary helps!",
            ),
        ),
    ),
    PlainCase(
        CAMP,
        (
            ("short", "Scout camp in July, vegetarian, 1900 pounds for food."),
            ("one word each", "camp, July, Birch Hollow, vegetarian, night hike, nurse missing"),
            (
                "table",
                "| what | value |\n|---|---|\n| site | Birch Hollow |\n| days | 11 to 18 July |\n| food | vegetarian |",
            ),
            (
                "numbered",
                "1) 34 children, 6 leaders\n2) no photos online\n3) two leaders at the lake\n4) nurse to be found",
            ),
            (
                "bold",
                "**Camp:** Birch Hollow, booked.\n**Rules:** no photos online, nobody swims without two leaders.",
            ),
            (
                "third person",
                "They talked about a camp. The person in charge wants vegetarian meals and still lacks a first aider.",
            ),
            ("fenced", "```\nBirch Hollow booked (BH-0711-40)\nnight hike 15th or 16th\n```"),
        ),
    ),
    PlainCase(
        FEST,
        (
            ("short", "Sommerfest am 27. Juni, Karten sind bestellt, Genehmigung fehlt."),
            ("list", "- Bootshaus\n- 120 Leute\n- kein Alkohol vor 18 Uhr\n- Kielwasser 450 Euro"),
            (
                "preamble",
                "Hier ist die Zusammenfassung:\n\nDer Verein plant ein Fest am Bootshaus. Die Band steht fest.",
            ),
            (
                "English record",
                "Rowing club party on 27 June at the boathouse, invitations by post only, budget 2200 euros.",
            ),
            (
                "thoughts",
                "<think>Kurz halten.</think>\nFest am 27. Juni. Einladungen nur per Post. Heiner holt die Genehmigung.",
            ),
            ("headings", "## Fest\n120 Gäste am Bootshaus\n## Offen\nGenehmigung 32-4/118"),
            ("poor style", "fest planen, karten bestellt, band da, stadt muss noch ok geben, budget 2200"),
        ),
    ),
    PlainCase(
        CONTRAT,
        (
            ("short", "Contrat Verdon-Lys, 12 pages traduites sur 38, glossaire attendu."),
            (
                "list",
                "- anglais vers français\n- 9 octobre\n- noms de produits inchangés\n- rien au client avant relecture",
            ),
            (
                "preamble",
                "Voici le résumé :\n\nLa traduction avance, la version 2 est enregistrée. Il manque le glossaire.",
            ),
            (
                "thoughts",
                "<analysis>contrat, règles</analysis>\n<summary>Traduction en cours, ne jamais traduire les noms des produits.</summary>",
            ),
            ("labels", "Client : Verdon-Lys\nÉchéance : 9 octobre\nTarif : 0,14 euro le mot"),
            ("poor style", "trad contrat, responsabilité pas passif, 12 pages ok, glossaire manque"),
        ),
    ),
    PlainCase(
        MIGRATION,
        (
            ("short", "勤怠システムの移行は5月23日の夜に行う。"),
            (
                "list",
                "・昼間は止めない\n・給与テーブルは触らない\n・連絡はチャットのみ\n・バックアップ未確認",
            ),
            ("preamble", "以下は会話の記録です。\n\n勤怠システムを新しい環境に移す。担当は宮下さん。"),
            (
                "thoughts",
                "<think>短くまとめる。</think>\nKT-1094で移行する。バックアップの確認が残っている。",
            ),
            ("headings", "# 要約\n移行は5月23日21:00から。\n# 残り\nバックアップの確認。"),
            (
                "poor style",
                "移行やる。5月23日、夜。電話なし、チャットで。宮下さん担当。",
            ),
        ),
    ),
)
