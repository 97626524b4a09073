"""The half of the cases that the gate was tuned on."""

from __future__ import annotations

from autonomy_ctx.language.identifiers import identifiers
from benchmarks.gate_cases.source import BadReply, Source

SOURCES = (
    Source(
        "deployment",
        """
U: Deploy commit 9f8e7d6c to prod-eu-3, never to prod-us-1. The window is 02:00 to 04:00 UTC.
A: Checking the state of prod-eu-3 first.
C: kubectl {"args": "get pods -n billing --context prod-eu-3"}
R: billing-api-7c9d 1/1 Running\\nbilling-worker-55f4 1/1 Running\\nredis-0 1/1 Running
A: All pods run. I start the rollout with config/billing.prod.yaml.
C: deploy {"commit": "9f8e7d6c", "target": "prod-eu-3", "config": "config/billing.prod.yaml"}
R: rollout 5521 started\\nerror: ImagePullBackOff registry.internal:5000/billing:9f8e7d6c
A: Rollout 5521 failed: the image billing:9f8e7d6c is not in registry.internal:5000.
U: Build it with the pipeline build-images, then try again. Budget for CI is 1200 minutes this month.
C: run_pipeline {"name": "build-images", "ref": "9f8e7d6c"}
R: pipeline 88012 succeeded in 341s
C: deploy {"commit": "9f8e7d6c", "target": "prod-eu-3"}
R: rollout 5522 complete, 3/3 healthy
A: Rollout 5522 is complete on prod-eu-3; pipeline 88012 built the image.
U: Great. Tomorrow we raise REPLICA_COUNT to 6 in config/billing.prod.yaml.
""",
        (
            """Goals and rules of the user
- Deploy commit 9f8e7d6c to prod-eu-3, never to prod-us-1; window 02:00 to 04:00 UTC.
- CI budget: 1200 minutes this month.
Errors
- Rollout 5521 failed with ImagePullBackOff: billing:9f8e7d6c was not in registry.internal:5000. Pipeline build-images (88012) built it.
Artifacts
- Rollout 5522 complete on prod-eu-3, 3/3 healthy.
Next step
- Raise REPLICA_COUNT to 6 in config/billing.prod.yaml tomorrow.""",
            "Commit 9f8e7d6c is deployed to prod-eu-3 (rollout 5522); prod-us-1 must never be touched. The first rollout 5521 failed "
            "because registry.internal:5000 had no image; pipeline 88012 built it. CI budget is 1200 minutes. Tomorrow REPLICA_COUNT "
            "goes to 6 in config/billing.prod.yaml.",
        ),
    ),
    Source(
        "trip",
        """
U: We are two adults and want to fly from Hamburg to Lisbon on 2 May 2026 and back on 9 May. I am vegetarian.
A: What is your budget for the flights?
U: At most 640 euros for both. No stopovers please.
C: search_flights {"from": "HAM", "to": "LIS", "out": "2026-05-02", "back": "2026-05-09", "adults": 2}
R: TP563 07:20 direct 588 EUR\\nLH1172 via FRA 512 EUR\\nEW7602 13:05 direct 611 EUR
A: Direct are TP563 at 07:20 for 588 euros and EW7602 at 13:05 for 611 euros.
U: Take EW7602, I hate early flights.
C: book_flight {"flight": "EW7602", "adults": 2}
R: {"pnr": "QX7LMN", "paid": 611, "ticket": "457-2209118830"}
A: Booked EW7602, reservation QX7LMN, 611 euros.
U: Now a hotel in Alfama, near the tram 28.
C: search_hotels {"area": "Alfama", "checkin": "2026-05-02", "nights": 7}
R: Casa do Fado 96 EUR\\nMemmo Alfama 210 EUR\\nHostel 28 41 EUR
A: Casa do Fado costs 96 euros a night, Memmo Alfama 210.
U: Casa do Fado, but ask first whether they have a crib. Mail is lena.fischer@posteo.example.
A: I'll ask Casa do Fado about a crib and then book.
""",
        (
            """Goals and rules of the user
- Two adults, Hamburg to Lisbon 2 May 2026, back 9 May; at most 640 euros for flights, no stopovers, no early flights; vegetarian.
Decisions
- EW7602 at 13:05, booked: QX7LMN, 611 euros.
- Hotel: Casa do Fado in Alfama (96 euros a night), if it has a crib.
Facts and identifiers
- lena.fischer@posteo.example
Next step
- Ask Casa do Fado about a crib, then book 7 nights.""",
            "Two adults fly from Hamburg to Lisbon on 2 May and return on 9 May with EW7602, booked as QX7LMN for 611 euros (limit 640, "
            "direct flights only). The user chose Casa do Fado in Alfama but wants to know about a crib first. Contact: "
            "lena.fischer@posteo.example. The user is vegetarian.",
        ),
    ),
    Source(
        "support",
        """
U: My order 100482 has not arrived. Tracking says 00340434161094 is lost.
A: I'm sorry about that. Let me look it up.
C: get_order {"id": 100482}
R: {"id": 100482, "items": [{"sku": "KB-TKL-7", "qty": 1, "price": "89.90"}, {"sku": "CBL-USBC-2", "qty": 2}], "status": "shipped", "carrier": "DHL"}
A: Order 100482 contains a keyboard KB-TKL-7 and two cables CBL-USBC-2.
U: I want a replacement of the keyboard and a refund of the cables.
C: create_rma {"order": 100482, "sku": "KB-TKL-7", "action": "replace"}
R: {"rma": "RMA-20931", "ships": "2026-02-11"}
C: refund {"order": 100482, "sku": "CBL-USBC-2", "amount": "23.80"}
R: {"refund": "RF-7781", "state": "pending"}
A: The replacement RMA-20931 ships on 11 February; the refund RF-7781 of 23.80 is pending.
U: Please ship to Lindenallee 12, 50968 Köln, not to the old address.
A: The address is changed to Lindenallee 12, 50968 Köln.
U: Thanks. And never leave it with the neighbours again.
""",
        (
            """Goals and rules of the user
- Replacement for keyboard KB-TKL-7, refund for cables CBL-USBC-2 of order 100482 (parcel 00340434161094 lost).
- Ship to Lindenallee 12, 50968 Köln; never leave it with the neighbours.
Facts and identifiers
- RMA-20931 ships 2026-02-11; refund RF-7781 over 23.80 pending.
Next step
- Watch RF-7781.""",
            "Order 100482 got lost (tracking 00340434161094). KB-TKL-7 is replaced under RMA-20931, shipping on 11 February to Lindenallee 12, "
            "50968 Köln. The refund RF-7781 of 23.80 for CBL-USBC-2 is pending. Never leave parcels with the neighbours.",
        ),
    ),
    Source(
        "Steuer",
        """
U: Ich mache meine Steuererklärung 2025. Die Steuernummer ist 143/815/08150. Bitte alles auf Deutsch und ohne Belege hochzuladen.
A: Verstanden. Welche Werbungskosten hatten Sie?
U: Fahrten: 220 Tage, 18 km einfach. Arbeitszimmer: 1260 Euro. Laptop vom 4. März für 1149 Euro.
C: berechne_pauschale {"tage": 220, "km": 18}
R: {"betrag": 1188.00, "satz": 0.30}
A: Die Entfernungspauschale beträgt 1188 Euro.
U: Der Laptop wird nur zu 70 % beruflich genutzt.
A: Dann sind 804,30 Euro abziehbar.
U: Gut. Spenden: 350 Euro an Ärzte ohne Grenzen, Quittung SP-2025-77.
C: speichere {"formular": "anlage_n.xml", "felder": {"arbeitszimmer": 1260, "laptop": 804.30}}
R: gespeichert, Version 4
A: Ich habe anlage_n.xml gespeichert (Version 4). Es fehlt noch die Riester-Bescheinigung.
U: Die kommt nächste Woche. Abgabe spätestens am 31. Juli 2026.
""",
        (
            """Ziele und Regeln
- Steuererklärung 2025, Steuernummer 143/815/08150, alles auf Deutsch, keine Belege hochladen. Abgabe bis 31. Juli 2026.
Fakten
- Entfernungspauschale 1188 Euro (220 Tage, 18 km); Arbeitszimmer 1260 Euro; Laptop 804,30 Euro (70 % von 1149).
- Spende 350 Euro, Quittung SP-2025-77.
Artefakte
- anlage_n.xml gespeichert, Version 4.
Offen
- Riester-Bescheinigung kommt nächste Woche.""",
            "Für die Steuererklärung 2025 (143/815/08150) sind 1.188 Euro Pauschale, 1.260 Euro Arbeitszimmer und 804,30 Euro für den Laptop "
            "erfasst; anlage_n.xml ist gespeichert. Die Spende hat Quittung SP-2025-77. Es fehlt die Riester-Bescheinigung. "
            "Abgabe bis 31.07.2026.",
        ),
    ),
    Source(
        "数据库",
        """
U: 请帮我把订单库从 mysql-old-2 迁移到 pg-new-7，不要动 users 表。
A: 好的，我先检查表的大小。
C: query {"sql": "select table_name, size_mb from stats", "host": "mysql-old-2"}
R: orders 18200\\norder_items 42100\\nusers 950
A: orders 有 18200 MB，order_items 有 42100 MB。
U: 每晚 23:30 到 05:00 可以停机。先迁移 orders。
C: run {"command": "pgloader migrate_orders.load"}
R: 12045521 rows imported, 0 errors
A: orders 已导入 12045521 行，没有错误。
U: 很好。order_items 用 batch_size=5000，明天晚上做。
A: 记下了：order_items 明晚迁移，batch_size=5000。
U: 迁移报告发给 chen.wei@corp.example。
""",
        (
            """用户的目标和规则
- 把订单库从 mysql-old-2 迁移到 pg-new-7，不要动 users 表；每晚 23:30 到 05:00 可以停机。
已完成
- orders 已导入 12045521 行（migrate_orders.load），没有错误。
下一步
- 明晚迁移 order_items，batch_size=5000；报告发给 chen.wei@corp.example。""",
            "用户要求把订单库从 mysql-old-2 迁移到 pg-new-7，不能动 users 表。orders 已完成，共导入 12045521 行。"
            "order_items 明晚迁移，batch_size=5000。迁移报告发给 chen.wei@corp.example。",
        ),
    ),
    Source(
        "small talk about a film",
        """
U: I saw an old film yesterday about a man who builds a lighthouse alone. It made me think of my grandfather.
A: That sounds moving. Was he a builder too?
U: He was a carpenter and built boats in his shed. I never learned it from him, and I regret that.
A: It is not too late to learn. Many towns have workshops for building small boats.
U: Maybe. I would like to start with something simple, a rowing boat perhaps.
A: A rowing boat of plywood is a good first project. It takes a few weekends.
U: I prefer solid wood, like he used. And please don't send me links to shops.
A: Then a small dinghy of larch would suit you. No links, understood.
U: Let's plan it for the summer. My daughter wants to help.
A: Lovely. Next we could make a list of the tools that you have.
""",
        (
            """Goals and rules of the user
- Build a small boat in the summer together with the daughter, like the grandfather, a carpenter. Solid wood, no links to shops.
Decisions
- A small dinghy of larch instead of plywood.
Next step
- Make a list of the tools the user has.""",
            "The user wants to build a rowing boat of solid wood (larch) in the summer with the daughter, remembering the grandfather who "
            "was a carpenter. Links to shops are not wanted. Next comes a list of tools.",
        ),
    ),
)


def _echo(source: Source, prompt: str) -> str:
    return "\n\n".join(f"{one.role.value.capitalize()}: {one.text}" for one in source.messages())


def _prompt(source: Source, prompt: str) -> str:
    return prompt


def _prompt_beginning(source: Source, prompt: str) -> str:
    return "\n".join(prompt.splitlines()[:8])


def _loop(source: Source, prompt: str) -> str:
    return "The user asked the assistant to help. " * 30


def _loop_of_words(source: Source, prompt: str) -> str:
    (name, *_) = identifiers(source.script) or ["it"]
    return f"- {name} " + "and then and then " * 40


def _invented(source: Source, prompt: str) -> str:
    return "The user asked to move JIRA-88412 to host app-19.example.com. File /opt/agent/run_7.sh was changed and build 77219 passed."


def _invented_list(source: Source, prompt: str) -> str:
    return "Facts and identifiers\n- Invoice 4471182 over 8,915 euros\n- Contact: max.m@corp-mail.example\n- Ticket #99120\nNext step\n- Deploy v9.4.1"


def _answer(source: Source, prompt: str) -> str:
    (name, *_) = identifiers(source.script) or ["that"]
    return f"Sure! I have taken care of {name} for you. Is there anything else I can help you with?"


def _first_word(source: Source, prompt: str) -> str:
    return source.records[0].split()[0]


def _half_sentence(source: Source, prompt: str) -> str:
    return source.records[1].split(".")[0][:14].rsplit(" ", 1)[0]


SCRIPTS = {
    "english": "The user wants to move to another city and has asked for a plan. The assistant made a list of steps, and the next step is to call.",
    "russian": "Пользователь попросил помочь с задачей, помощник составил план. Следующий шаг: проверить результат и сообщить пользователю.",
    "chinese": "用户请助手帮忙处理一件事情，助手制定了计划。下一步是检查结果并告诉用户。",
    "arabic": "طلب المستخدم المساعدة في مهمة، ووضع المساعد خطة. الخطوة التالية هي التحقق من النتيجة وإبلاغ المستخدم.",
}


def _other_script(source: Source, prompt: str) -> str:
    return SCRIPTS["russian" if source.name != "数据库" else "english"]


def _another_script(source: Source, prompt: str) -> str:
    names = " ".join(identifiers(source.script)[:4])
    return f"{SCRIPTS['arabic' if source.name == '数据库' else 'chinese']} {names}"


BAD = (
    BadReply("refusal", "I'm sorry, but I can't help with that."),
    BadReply("refusal", "I cannot summarize this conversation."),
    BadReply("refusal", "As an AI language model, I am unable to process this content."),
    BadReply("refusal", "Es tut mir leid, aber dabei kann ich nicht helfen."),
    BadReply("refusal", "Je suis désolé, mais je ne peux pas vous aider."),
    BadReply("refusal", "Lo siento, pero no puedo ayudar con eso."),
    BadReply("refusal", "Desculpe, mas não posso ajudar com isso."),
    BadReply("refusal", "申し訳ありませんが、お手伝いできません。"),
    BadReply("refusal", "很抱歉，我无法帮助您完成这个请求。"),
    BadReply("refusal", "عذرًا، لا أستطيع المساعدة في ذلك."),
    BadReply("dots", "..."),
    BadReply("dots", "…"),
    BadReply("dots", "- ...\n- ..."),
    BadReply(
        "HTML page",
        "<html>\r\n<head><title>504 Gateway Time-out</title></head>\r\n<body>\r\n<center><h1>504 Gateway Time-out</h1></center>\r\n"
        "<hr><center>nginx/1.25.3</center>\r\n</body>\r\n</html>",
    ),
    BadReply(
        "HTML page",
        '<!DOCTYPE html><html lang="en"><body><h1>Just a moment...</h1><p>Checking your browser.</p></body></html>',
    ),
    BadReply("HTML page", "502 Bad Gateway\n\nopenresty"),
    BadReply("prompt", _prompt),
    BadReply("prompt", _prompt_beginning),
    BadReply("loop", _loop),
    BadReply("loop", _loop, stop="length"),
    BadReply("loop", _loop_of_words),
    BadReply("invented identifiers", _invented),
    BadReply("invented identifiers", _invented_list),
    BadReply("cut off", "The", stop="length"),
    BadReply("cut off", "The"),
    BadReply("cut off", _first_word, stop="length"),
    BadReply("cut off", _half_sentence, stop="length"),
    BadReply("answer", _answer),
    BadReply("answer", "Of course! Your request has been completed. Let me know if you need anything else."),
    BadReply("answer", "Thank you for your patience. I've updated everything as you asked."),
    BadReply("answer", "Gerne! Ich habe alles für Sie erledigt. Kann ich sonst noch etwas tun?"),
    BadReply("other script", _other_script),
    BadReply("other script", _another_script),
    BadReply("echo", _echo),
    BadReply("empty", ""),
    BadReply("empty", " \n\t\n"),
    BadReply("empty", "<|im_end|>"),
)
