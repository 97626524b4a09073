"""The half of the cases that the gate was not tuned on."""

from __future__ import annotations

from benchmarks.gate_cases.source import BadReply, Source

SOURCES = (
    Source(
        "flaky test",
        """
U: The nightly build 48213 failed again in tests/test_queue.py. Can you find out why? Please don't touch the lock code in queue/lease.py.
A: I'll look at the log of build 48213 first.
C: read_log {"build": 48213, "tail": 200}
R: collected 812 items\\ntests/test_queue.py::test_lease_expires FAILED\\nE   AssertionError: 2.004 != 2.0 (tolerance 0.001)\\n811 passed, 1 failed in 341.22s
A: test_lease_expires compares a wall clock with a tolerance of 0.001. That is too tight on the shared runner.
U: Use a fake clock instead of raising the tolerance.
C: edit_file {"path": "tests/test_queue.py", "change": "inject FakeClock into LeaseQueue"}
R: ok, 14 lines changed
C: run {"command": "pytest tests/test_queue.py -q -n 4"}
R: 37 passed in 4.18s
A: Done: LeaseQueue takes a clock now, and 37 tests pass. I have not pushed yet.
U: Good. Push to branch fix/lease-clock and open a pull request for Marta. Not to main.
C: run {"command": "git push origin fix/lease-clock"}
R: remote: Create a pull request: https://git.example.org/core/queue/pull/new/fix/lease-clock
A: Pushed. The pull request is #1187, Marta is the reviewer.
U: Also remember we freeze on 14 June 2026, so it must be merged before that.
""",
        (
            """Goals and rules of the user
- Find out why nightly build 48213 fails in tests/test_queue.py.
- Do not touch the lock code in queue/lease.py; do not push to main.
- Must be merged before the freeze on 14 June 2026.
Decisions
- A fake clock instead of a larger tolerance (0.001 was too tight for a shared runner).
Artifacts
- tests/test_queue.py: FakeClock injected into LeaseQueue, 14 lines changed, 37 tests pass.
- Branch fix/lease-clock pushed; pull request #1187, reviewer Marta.
Next step
- Wait for Marta's review and merge.""",
            "Build 48213 failed because test_lease_expires in tests/test_queue.py compared a wall clock too tightly. "
            "The user wanted a fake clock and no change to queue/lease.py. LeaseQueue now takes a FakeClock, 37 tests pass, "
            "and branch fix/lease-clock is pushed with pull request #1187 for Marta. It has to be merged before the freeze on 2026-06-14.",
        ),
    ),
    Source(
        "insurance claim",
        """
U: Hello, I had a water leak at home on 3 March and want to report it. My policy is HH-7730912.
A: I'm sorry to hear that. Which rooms are damaged, and is there an estimate yet?
U: Kitchen and hallway. The plumber says 2450 euros, invoice RE-2026-118.
C: open_claim {"policy": "HH-7730912", "kind": "water", "date": "2026-03-03"}
R: {"claim": "CL-559021", "deductible": 300, "status": "open", "handler": "team-4"}
A: Your claim is CL-559021. The deductible is 300 euros.
U: I was told the deductible is 150. Please check that, I have the Komfort tariff.
C: get_policy {"policy": "HH-7730912"}
R: {"tariff": "Komfort", "deductible": 150, "valid_until": "2027-01-31", "insured_sum": 65000}
A: You are right: with Komfort it is 150 euros. I have corrected it.
U: Please only contact me by e-mail, never by phone: j.brandt@mail.example.
A: Noted. We need photos of the hallway floor and the plumber's invoice.
U: I'll send the photos tomorrow. Pay to IBAN DE44500105175407324931 please.
A: Thank you. Payment will be made within 10 working days after the photos arrive.
""",
        (
            """Goals and rules of the user
- Report water damage of 3 March under policy HH-7730912 (Komfort tariff).
- Contact only by e-mail (j.brandt@mail.example), never by phone.
Facts and identifiers
- Claim CL-559021, opened; kitchen and hallway; estimate 2450 euros, invoice RE-2026-118.
- Deductible 150 euros (corrected from 300).
- Pay to IBAN DE44500105175407324931.
Open questions
- Photos of the hallway floor and the plumber's invoice are still to come.
Next step
- Pay within 10 working days after the photos.""",
            "The customer reported a leak (kitchen, hallway) under HH-7730912. Claim CL-559021 is open. The plumber's estimate is "
            "2,450 EUR (RE-2026-118). The deductible was corrected to 150 because of the Komfort tariff. Contact by e-mail only, "
            "j.brandt@mail.example. Photos are outstanding; payment goes to DE44500105175407324931.",
        ),
    ),
    Source(
        "Umzug",
        """
U: Ich ziehe am 1. August 2026 von Köln nach Leipzig um und brauche einen Plan. Budget höchstens 1800 Euro.
A: Gern. Wie groß ist die Wohnung, und gibt es einen Aufzug?
U: 62 Quadratmeter, dritter Stock, kein Aufzug. Bitte keine Angebote von MoveFix, mit denen hatte ich Ärger.
C: search_movers {"from": "Köln", "to": "Leipzig", "date": "2026-08-01", "sqm": 62}
R: 1) Elbe-Umzüge 1640 EUR Angebot EU-20931\\n2) MoveFix 1390 EUR Angebot MF-8812\\n3) Rheinpack 1795 EUR Angebot RP-4410
A: Elbe-Umzüge liegt bei 1640 Euro (EU-20931), Rheinpack bei 1795 Euro (RP-4410).
U: Dann Elbe-Umzüge. Der Schlüssel wird am 31. Juli um 16:00 übergeben.
C: book_mover {"offer": "EU-20931", "date": "2026-08-01", "start": "08:00"}
R: gebucht, Auftrag A-77120, Anzahlung 320 EUR bis 2026-07-10
A: Gebucht: Auftrag A-77120, Beginn 08:00. Die Anzahlung von 320 Euro ist bis 10. Juli fällig.
U: Ich brauche noch eine Halteverbotszone in der Karl-Heine-Straße 48.
A: Die beantrage ich als Nächstes beim Ordnungsamt; das dauert etwa 14 Tage.
U: Budget jetzt bitte 2000 Euro, wegen der Halteverbotszone.
""",
        (
            """Ziele und Regeln des Nutzers
- Umzug am 1. August 2026 von Köln nach Leipzig, 62 Quadratmeter, dritter Stock ohne Aufzug.
- Budget jetzt 2000 Euro (vorher 1800). Keine Angebote von MoveFix.
Entscheidungen
- Elbe-Umzüge, Angebot EU-20931 für 1640 Euro; Auftrag A-77120, Beginn 08:00.
Fakten
- Schlüsselübergabe am 31. Juli um 16:00. Anzahlung 320 Euro bis 10. Juli.
Nächster Schritt
- Halteverbotszone für die Karl-Heine-Straße 48 beim Ordnungsamt beantragen.""",
            "Der Nutzer zieht am 1. August nach Leipzig um; gebucht ist Elbe-Umzüge (Auftrag A-77120, Angebot EU-20931, 1.640 EUR). "
            "Kein MoveFix. Das Budget wurde auf 2.000 Euro erhöht. Offen ist die Halteverbotszone in der Karl-Heine-Straße 48, "
            "die Anzahlung (320 Euro) ist bis 10. Juli fällig.",
        ),
    ),
    Source(
        "battery research",
        """
U: I'm writing a review of sodium-ion batteries. Start with papers after 2021 and keep a list of DOIs.
C: search_papers {"query": "sodium-ion cathode Prussian white", "after": 2021, "limit": 25}
R: 10.1021/acsenergylett.1c02263 Prussian white at scale\\n10.1038/s41560-023-01234-5 Layered oxides, 160 Wh/kg\\n10.1016/j.joule.2022.07.011 Hard carbon anodes
A: Three relevant so far: 10.1021/acsenergylett.1c02263, 10.1038/s41560-023-01234-5 and 10.1016/j.joule.2022.07.011.
U: Ignore vendor white papers. I only want peer-reviewed sources.
A: Understood. The Joule paper reports 300 mAh/g for hard carbon after 1000 cycles.
U: Is that capacity reversible? Check the supplement.
C: fetch {"url": "https://doi.org/10.1016/j.joule.2022.07.011", "part": "supplement"}
R: Table S4: reversible capacity 287 mAh/g at C/10; first-cycle efficiency 88.4 %; 1000 cycles, 91 % retention
A: Reversible capacity is 287 mAh/g at C/10, retention 91 % after 1000 cycles.
U: Use 287, not 300. Put it in section 3 of review_v2.tex.
C: edit_file {"path": "review_v2.tex", "section": 3, "text": "287 mAh/g at C/10"}
R: saved
A: Section 3 of review_v2.tex now says 287 mAh/g. Next I would look at the electrolytes.
U: Yes, but first find who measured the 160 Wh/kg.
""",
        (
            """Goals and rules of the user
- Review of sodium-ion batteries, papers after 2021, peer-reviewed only, no vendor white papers; keep the DOIs.
Facts and identifiers
- 10.1021/acsenergylett.1c02263 (Prussian white), 10.1038/s41560-023-01234-5 (layered oxides, 160 Wh/kg), 10.1016/j.joule.2022.07.011 (hard carbon).
- Hard carbon: reversible capacity 287 mAh/g at C/10 (Table S4), use this, not 300; 91 % retention after 1000 cycles.
Artifacts
- review_v2.tex, section 3: says 287 mAh/g.
Open questions
- Who measured the 160 Wh/kg?
Next step
- Answer that, then electrolytes.""",
            "For a review of sodium-ion batteries the assistant found three peer-reviewed papers "
            "(10.1021/acsenergylett.1c02263, 10.1038/s41560-023-01234-5, 10.1016/j.joule.2022.07.011). Section 3 of review_v2.tex "
            "now gives 287 mAh/g. Open: who measured 160 Wh/kg. Electrolytes come after that.",
        ),
    ),
    Source(
        "出張",
        """
U: 5月12日から大阪へ出張します。ホテルは1泊15000円以下で、禁煙室をお願いします。
A: 承知しました。駅はどちらが便利ですか。
U: 新大阪駅の近くがいいです。朝食は不要です。
C: search_hotels {"city": "大阪", "near": "新大阪", "checkin": "2026-05-12", "nights": 2, "max": 15000}
R: ホテルA 12800円 コード OSK-3391\\nホテルB 14900円 コード OSK-2207
A: ホテルA(12800円、OSK-3391)とホテルB(14900円、OSK-2207)があります。
U: ホテルAを2泊で予約してください。
C: book {"code": "OSK-3391", "nights": 2}
R: 予約番号 RSV-880412 禁煙 朝食なし
A: 予約しました。予約番号はRSV-880412です。
U: 新幹線はのぞみ237号、7号車の指定席をお願いします。
A: のぞみ237号の空席を確認します。会議は何時からですか。
U: 13:30からです。資料は meeting_osaka.pptx を使います。
""",
        (
            """ユーザーの目的と条件
- 5月12日から大阪へ出張。ホテルは1泊15000円以下、禁煙室、朝食は不要、新大阪駅の近く。
決定
- ホテルA(OSK-3391、12800円)を2泊予約。予約番号 RSV-880412。
未解決
- のぞみ237号、7号車の指定席の空席を確認する。
事実
- 会議は13:30から。資料は meeting_osaka.pptx。""",
            "ユーザーは5月12日から大阪へ出張する。ホテルA(OSK-3391)を2泊予約済みで、予約番号はRSV-880412。"
            "次にのぞみ237号の指定席(7号車)を確認する。会議は13:30から、資料はmeeting_osaka.pptx。",
        ),
    ),
    Source(
        "smalltalk about a garden",
        """
U: My tomatoes have brown spots at the bottom. What is going on there?
A: That sounds like blossom end rot. It usually comes from uneven watering and too little calcium.
U: I water them every evening, but last week we were away and nobody watered anything.
A: Then that is probably the reason. Water deeply in the morning and put mulch around the plants.
U: I have straw left over from the strawberries. Would that do?
A: Yes, straw is fine. Keep it a hand's width away from the stems.
U: And the fruit that already has spots, can we still eat it?
A: You can cut off the brown part; the rest is safe to eat.
U: Please don't suggest chemical sprays, we have bees.
A: Understood, no sprays. Crushed eggshells or garden lime help with calcium.
U: I'll try lime this weekend. Remind me about the zucchini next time.
""",
        (
            """Goals and rules of the user
- Save the tomatoes with brown spots (blossom end rot). No chemical sprays, because of the bees.
Decisions
- Water deeply in the morning, mulch with straw away from the stems, try garden lime this weekend.
Open questions
- The zucchini: to be talked about next time.""",
            "The user's tomatoes have blossom end rot, probably because nobody watered them last week. The plan is to water in the "
            "morning, mulch with straw and try lime this weekend. No sprays because of bees. Next time: the zucchini.",
        ),
    ),
)

OTHER = SOURCES[1].records[0], SOURCES[0].records[1]


def _another(source: Source, prompt: str) -> str:
    return OTHER[1] if source.name == SOURCES[1].name else OTHER[0]


def _another_in_prose(source: Source, prompt: str) -> str:
    return SOURCES[3].records[1] if source.name != SOURCES[3].name else SOURCES[2].records[1]


def _half_unknown(source: Source, prompt: str) -> str:
    names = " and ".join(_names(source)[:2])
    return f"The work on {names} went on. Then TK-90001 was moved to host db-77.example.net and TK-90002 was closed."


def _mostly_unknown(source: Source, prompt: str) -> str:
    (name, *_) = _names(source) or ["it"]
    return f"- {name} was discussed.\n- Server srv-4471 got /etc/relay/conf.d/9.toml.\n- Invoice INV-55512 is due 19 Nov 1997.\n- Call +49-30-5550199."


def _names(source: Source) -> list[str]:
    from autonomy_ctx.language.identifiers import identifiers

    return [name for name in identifiers(source.script) if " " not in name]


def _loop_at_end(source: Source, prompt: str) -> str:
    return (
        source.records[1].split(". ")[0]
        + "."
        + " The user then asked for the next step and the assistant agreed." * 25
    )


def _loop_of_lines(source: Source, prompt: str) -> str:
    return "\n".join(["- The assistant answered the question.", "- The user asked another question."] * 20)


def _headings(source: Source, prompt: str) -> str:
    return "Goals and rules of the user\n\nDecisions\n\nFacts and identifiers\n\nArtifacts\n\nOpen questions\n\nNext step"


def _prompt_tail(source: Source, prompt: str) -> str:
    return prompt[len(prompt) // 2 :]


BAD = (
    BadReply("refusal", "Sorry, but I won't be able to help with that request."),
    BadReply(
        "refusal", "I must decline to summarize this conversation, as it may contain private information."
    ),
    BadReply(
        "refusal", "Das kann ich leider nicht tun. Als KI-Modell darf ich solche Inhalte nicht verarbeiten."
    ),
    BadReply("refusal", "Désolé, je ne suis pas en mesure de répondre à cette demande."),
    BadReply("refusal", "Lamentablemente, no puedo ayudarte con esa solicitud."),
    BadReply("refusal", "Infelizmente não consigo atender a esse pedido."),
    BadReply("refusal", "恐れ入りますが、そのご要望にはお応えできません。"),
    BadReply("refusal", "对不起，我不能协助处理这个请求。"),
    BadReply("refusal", "أعتذر، لا يمكنني المساعدة في هذا الطلب."),
    BadReply(
        "JSON error",
        '{"error": {"message": "The server is overloaded", "type": "overloaded_error", "code": 529}}',
    ),
    BadReply("JSON error", '{"detail": "Not authenticated"}'),
    BadReply(
        "JSON error", '{"type": "error", "request_id": "req_011", "error": {"type": "rate_limit_error"}}'
    ),
    BadReply("plain error", "Error: 429 Too Many Requests"),
    BadReply(
        "plain error",
        "upstream connect error or disconnect/reset before headers. reset reason: connection timeout",
    ),
    BadReply(
        "plain error",
        'Traceback (most recent call last):\n  File "/srv/app.py", line 88, in complete\nTimeoutError',
    ),
    BadReply("markup only", "---\n\n***\n\n- \n- \n"),
    BadReply("markup only", "## \n\n> \n\n|   |   |\n|---|---|\n"),
    BadReply("markup only", "<br/><br/><p></p>"),
    BadReply("apology", "I apologize for the confusion in my previous message. Let me try again."),
    BadReply(
        "apology", "Entschuldigung für das Missverständnis! Ich werde es beim nächsten Mal besser machen."
    ),
    BadReply("apology", "Toutes mes excuses pour cette erreur, je vais faire mieux."),
    BadReply(
        "placeholders",
        "Goals: [insert goals here]\nDecisions: [insert decisions here]\nNext step: [insert next step]",
    ),
    BadReply("placeholders", "{{summary}}"),
    BadReply(
        "placeholders",
        "Goals and rules of the user\n- <goal 1>\n- <goal 2>\nDecisions\n- <decision>\nNext step\n- <next step>",
    ),
    BadReply("question back", "Could you please paste the conversation you would like me to summarize?"),
    BadReply(
        "question back",
        "Which part of the conversation should I focus on, and how long should the record be?",
    ),
    BadReply(
        "question back", "Möchten Sie, dass ich das Gespräch auf Deutsch oder auf Englisch zusammenfasse?"
    ),
    BadReply(
        "lorem ipsum",
        "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt ut labore et dolore "
        "magna aliqua. Ut enim ad minim veniam, quis nostrud exercitation ullamco laboris nisi ut aliquip ex ea commodo.",
    ),
    BadReply(
        "lorem ipsum", "The quick brown fox jumps over the lazy dog. Pack my box with five dozen liquor jugs."
    ),
    BadReply("another conversation", _another),
    BadReply("another conversation", _another_in_prose),
    BadReply("half unknown", _half_unknown),
    BadReply("half unknown", _mostly_unknown),
    BadReply("thinking only", "<think>The user wants a record. I should list the goals first and then"),
    BadReply("thinking only", "<thinking>Let me go through the messages.</thinking>"),
    BadReply(
        "thinking only",
        "<analysis>\nThe conversation has several parts.\n</analysis>\n\n<summary>\n</summary>",
    ),
    BadReply(
        "tool protocol", '<tool_call>\n{"name": "write_record", "arguments": {"text": "done"}}\n</tool_call>'
    ),
    BadReply("tool protocol", '{"name": "search", "arguments": {"query": "conversation"}}'),
    BadReply("tool protocol", '```json\n[{"type": "tool_use", "name": "summarize", "input": {}}]\n```'),
    BadReply("loop", _loop_at_end, stop="length"),
    BadReply("loop", _loop_of_lines),
    BadReply("headings only", _headings),
    BadReply("prompt", _prompt_tail),
    BadReply(
        "vague",
        "The user and the assistant had a productive exchange about several topics and made good progress.",
    ),
    BadReply("vague", "This is a summary of the conversation."),
    BadReply(
        "talk about the task",
        "The user wants me to write a record of the conversation. I need to follow the headings and keep it short.",
    ),
    BadReply(
        "talk about the task", "Okay, let me think about what to include. First I need to find the goals."
    ),
)
