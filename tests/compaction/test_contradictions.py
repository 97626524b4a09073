"""Sentences that turn a rule into its opposite, and sentences that only say it otherwise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autonomy_ctx import ModelReply, TextContent
from autonomy_ctx.compaction.checks import RULE_TURNED, Verdict, check_summary, find_denied
from autonomy_ctx.language.tables import load_language
from autonomy_ctx.messages.token_estimate import estimate_tokens

# ruff: noqa: RUF001 - marks of many scripts are meant as they are
# A conversation and what is said of it, for each language.
TALKS = {
    "en": (
        "User: Please plan the release of the shop. The board meets on Thursday and wants a report.",
        "The report for the board is due on Thursday; the new supplier is mentioned.",
    ),
    "de": (
        "User: Bitte plane die Veröffentlichung. Der Vorstand will am Donnerstag einen kurzen Bericht.",
        "Der Bericht für den Vorstand ist am Donnerstag fällig.",
    ),
    "fr": (
        "User: Préparez la sortie de la boutique. Le conseil se réunit jeudi et veut un court rapport.",
        "Le rapport pour le conseil est dû jeudi.",
    ),
    "es": (
        "User: Prepara el lanzamiento de la tienda. El consejo se reúne el jueves y quiere un informe corto.",
        "El informe para el consejo es para el jueves.",
    ),
    "pt": (
        "User: Prepare o lançamento da loja. O conselho se reúne na quinta e quer um relatório curto.",
        "O relatório para o conselho é para quinta.",
    ),
    "ja": (
        "User: 店の公開を準備してください。役員会は木曜日で、短い報告が必要です。",
        "役員会の報告は木曜日までです。",
    ),
    "zh": (
        "User: 请准备商店的发布。董事会星期四开会，想要一份简短的报告。",
        "董事会的报告星期四要交。",
    ),
    "ar": (
        "User: يرجى التحضير لإطلاق المتجر. يجتمع المجلس يوم الخميس ويريد تقريرا قصيرا.",
        "التقرير للمجلس يوم الخميس.",
    ),
}
# Language, rule, and a sentence that says the opposite.
TURNED = [
    ("en", "never deploy on a Friday", "Deploy on a Friday."),
    ("en", "never deploy on a Friday", "Deployments on Fridays are allowed."),
    ("en", "never deploy on a Friday", "The user wants to deploy on Fridays."),
    ("en", "never deploy on a Friday", "Friday deployments are fine."),
    ("en", "never deploy on a Friday", "Always deploy on Friday."),
    ("en", "never deploy without asking Maria", "Deploy without asking Maria."),
    ("en", "never deploy without asking Maria", "The team may deploy without asking Maria first."),
    ("en", "always ask before deleting files", "Never ask before deleting files."),
    ("en", "always ask before deleting files", "Delete files without asking."),
    ("en", "always ask before deleting files", "There is no need to ask before deleting files."),
    ("en", "always run the tests before a merge", "Tests may be skipped before a merge."),
    ("en", "always run the tests before a merge", "Run the tests after a merge."),
    ("en", "spend at most 640 euros on flights", "Spend at least 640 euros on flights."),
    ("en", "spend at most 640 euros on flights", "Flights: more than 640 euros to spend."),
    ("en", "keep the report under 200 words", "Keep the report over 200 words."),
    ("en", "do not share the address with anyone", "Share the address with anyone who asks."),
    ("en", "do not share the address with anyone", "The address may be shared."),
    ("en", "no phone calls after 8 pm", "Phone calls after 8 pm are welcome."),
    ("en", "the user is vegetarian, no meat", "The user eats meat, not vegetarian."),
    ("en", "write to the customer only by email", "Never write to the customer by email."),
    ("en", "use tabs, not spaces", "Use spaces, not tabs."),
    ("en", "avoid the highway", "Take the highway."),
    ("en", "avoid the highway", "The highway is preferred."),
    ("en", "keep the old logo", "Do not keep the old logo."),
    ("en", "keep the old logo", "The old logo no longer has to be kept."),
    ("en", "reply in German", "Do not reply in German."),
    ("en", "never leave the parcel with neighbours", "Leave the parcel with the neighbours."),
    ("en", "never leave the parcel with neighbours", "Parcels can be left with neighbours."),
    (
        "en",
        "the peanut allergy must be mentioned in every order",
        "The peanut allergy need not be mentioned in orders.",
    ),
    ("en", "never store passwords in plain text", "Store passwords in plain text."),
    ("en", "no links to shops", "Links to shops are wanted."),
    ("en", "do not touch the users table", "The users table should be changed; touch the users table first."),
    ("en", "don't book hotels without breakfast", "Book hotels without breakfast."),
    ("en", "refunds need approval by Ana", "Refunds do not need approval by Ana."),
    ("en", "refunds need approval by Ana", "Refunds are possible without approval by Ana."),
    ("en", "Do not contact the press", "- Contact the press."),
    ("en", "Do not contact the press", "Rule: contact the press"),
    ("en", "Do not contact the press", "The rule not to contact the press was lifted."),
    ("en", "must use HTTPS", "HTTPS is optional; use HTTP."),
    ("de", "niemals am Freitag ausrollen", "Am Freitag ausrollen."),
    ("de", "niemals am Freitag ausrollen", "Ausrollen am Freitag ist erlaubt."),
    ("de", "keine Anrufe nach 20 Uhr", "Anrufe nach 20 Uhr sind in Ordnung."),
    ("de", "immer vor dem Löschen fragen", "Vor dem Löschen muss nicht gefragt werden, nie fragen."),
    ("de", "höchstens 640 Euro ausgeben", "Mindestens 640 Euro ausgeben."),
    ("de", "nie ohne Freigabe bestellen", "Ohne Freigabe bestellen."),
    ("fr", "ne jamais appeler le client", "Appeler le client."),
    ("fr", "ne jamais appeler le client", "Il faut toujours appeler le client."),
    ("fr", "toujours demander avant de supprimer", "Ne jamais demander avant de supprimer."),
    ("fr", "pas de livraison le lundi", "Livraison le lundi autorisée."),
    ("es", "nunca reservar en domingo", "Reservar en domingo."),
    ("es", "no compartir la dirección", "Se puede compartir la dirección."),
    ("es", "siempre pedir permiso", "Nunca pedir permiso."),
    ("es", "gastar como máximo 640 euros", "Gastar al menos 640 euros."),
    ("pt", "nunca reservar no domingo", "Reservar no domingo."),
    ("pt", "não ligar para o cliente", "Ligar para o cliente sempre."),
    ("pt", "sempre pedir autorização", "Não precisa pedir autorização."),
    ("ja", "グラフは使わない", "グラフを使う。"),
    ("ja", "グラフは使わないでください", "グラフを必ず使ってください。"),
    ("ja", "電話はしない", "電話してもよい。"),
    ("zh", "不要动用户表", "可以动用户表。"),
    ("zh", "不要动用户表", "修改前必须动用户表。"),
    ("zh", "周日不要打电话", "周日打电话。"),
    ("zh", "必须先询问", "不必先询问。"),
    ("ar", "لا تتصل بالعميل يوم الجمعة", "اتصل بالعميل يوم الجمعة."),
    ("ar", "لا تشارك العنوان", "يمكن مشاركة العنوان."),
    ("ar", "يجب طلب الموافقة قبل الشراء", "لا يجب طلب الموافقة قبل الشراء."),
]
# The same with a sentence that agrees, or says nothing of the rule.
SAID_OTHERWISE = [
    ("en", "never deploy on a Friday", "No deployments on Fridays."),
    ("en", "never deploy on a Friday", "Friday deployments are forbidden."),
    ("en", "never deploy on a Friday", "Deploying on Friday is out of the question."),
    ("en", "never deploy on a Friday", "The user refuses to deploy on a Friday."),
    ("en", "never deploy on a Friday", "Deploy on any day except Friday."),
    (
        "en",
        "never deploy on a Friday",
        "They deployed release 2.1 on Friday by mistake, which must never happen again.",
    ),
    ("en", "never deploy on a Friday", "Maria asked whether to deploy on Friday; the answer was no."),
    ("en", "never deploy without asking Maria", "Ask Maria before every deployment."),
    ("en", "never deploy without asking Maria", "Deploy only after asking Maria."),
    ("en", "never deploy without asking Maria", "No deployment without asking Maria."),
    ("en", "always ask before deleting files", "Files are deleted only after asking."),
    ("en", "always ask before deleting files", "Never delete files without asking first."),
    ("en", "always ask before deleting files", "Must ask before deleting any files."),
    ("en", "always run the tests before a merge", "Tests have to run before each merge."),
    ("en", "always run the tests before a merge", "No merge without running the tests."),
    ("en", "always run the tests before a merge", "Never merge before the tests run."),
    ("en", "spend at most 640 euros on flights", "Flights: no more than 640 euros to spend."),
    ("en", "spend at most 640 euros on flights", "Limit for flights is 640 euros."),
    ("en", "spend at most 640 euros on flights", "Flights may not exceed 640 euros."),
    ("en", "keep the report under 200 words", "The report must not exceed 200 words."),
    ("en", "keep the report under 200 words", "Report: fewer than 200 words."),
    ("en", "do not share the address with anyone", "The address stays private and is shared with nobody."),
    ("en", "no phone calls after 8 pm", "Phone calls only before 8 pm."),
    ("en", "no phone calls after 8 pm", "No calls after 8 pm, mails are fine."),
    ("en", "use tabs, not spaces", "Tabs instead of spaces."),
    ("en", "use tabs, not spaces", "Use tabs rather than spaces."),
    ("en", "avoid the highway", "Stay off the highway; the highway is to be avoided."),
    ("en", "keep the old logo", "The old logo stays."),
    ("en", "keep the old logo", "The old logo is not to be changed."),
    ("en", "reply in German", "Replies in German only."),
    ("en", "never leave the parcel with neighbours", "Parcels must not be left with neighbours."),
    (
        "en",
        "never leave the parcel with neighbours",
        "Never again with the neighbours: last time the parcel was left there.",
    ),
    ("en", "no links to shops", "The user dislikes links to shops."),
    ("en", "refunds need approval by Ana", "No refund without approval by Ana."),
    ("en", "refunds need approval by Ana", "The refund was not paid yet; approval by Ana is pending."),
    ("en", "Do not contact the press", "Contact with the press is prohibited."),
    ("en", "never store passwords in plain text", "Passwords in plain text are forbidden."),
    ("en", "send it not before 3 July", "Send it from 3 July on."),
    ("en", "send it not before 3 July", "It is sent after 3 July."),
    ("en", "the user is vegetarian, no meat", "Vegetarian, eats no meat."),
    ("de", "niemals am Freitag ausrollen", "Freitags wird nicht ausgerollt."),
    ("de", "niemals am Freitag ausrollen", "Ausrollen am Freitag ist verboten."),
    ("de", "keine Anrufe nach 20 Uhr", "Anrufe nur vor 20 Uhr."),
    ("de", "höchstens 640 Euro ausgeben", "Nicht mehr als 640 Euro ausgeben."),
    ("de", "nie ohne Freigabe bestellen", "Bestellen nur mit Freigabe."),
    ("de", "nie ohne Freigabe bestellen", "Erst nach Freigabe bestellen."),
    ("fr", "ne jamais appeler le client", "Il ne faut pas appeler le client."),
    ("fr", "pas de livraison le lundi", "Livraison interdite le lundi."),
    ("es", "nunca reservar en domingo", "Está prohibido reservar en domingo."),
    ("es", "no compartir la dirección", "No se puede compartir la dirección."),
    ("es", "no lo manden antes del 3 de julio", "Se enviará desde el 3 de julio."),
    ("es", "gastar como máximo 640 euros", "No gastar más de 640 euros."),
    ("pt", "nunca reservar no domingo", "É proibido reservar no domingo."),
    ("pt", "não ligar para o cliente", "O cliente não quer que liguem; não ligar para o cliente."),
    ("ja", "グラフは使わない", "グラフなしで表だけ使う。"),
    ("ja", "グラフは使わない", "グラフの使用は禁止。"),
    ("zh", "不要动用户表", "不能动用户表。"),
    ("zh", "不要动用户表", "禁止动用户表。"),
    ("zh", "周日不要打电话", "周日禁止打电话。"),
    ("ar", "لا تتصل بالعميل يوم الجمعة", "ممنوع الاتصال بالعميل يوم الجمعة."),
]


def judged(language: str, rule: str, sentence: str) -> Verdict:
    source, record = TALKS[language]
    return check_summary(
        ModelReply(parts=(TextContent(f"{record} {sentence}"),)),
        source=f"{source}\n\nUser: {rule}",
        source_tokens=1000,
        cap=300,
        count=estimate_tokens,
        secret="",
        key_names=(),
        standing=[rule],
        rules=[rule],
    )


@pytest.mark.parametrize(("language", "rule", "sentence"), TURNED)
def test_a_reply_that_turns_a_rule_is_refused(language: str, rule: str, sentence: str) -> None:
    verdict = judged(language, rule, sentence)
    assert (verdict.problem, verdict.text) == (RULE_TURNED, "")
    assert verdict.repair


@pytest.mark.parametrize(("language", "rule", "sentence"), SAID_OTHERWISE)
def test_a_reply_that_says_a_rule_otherwise_is_kept_whole(language: str, rule: str, sentence: str) -> None:
    verdict = judged(language, rule, sentence)
    assert verdict.fit
    assert verdict.text.endswith(sentence)


SENTENCES = (
    "Deploy to prod-us-1.",
    "Nothing is deployed to prod-us-1, but the budget is not 11500 euros.",
    "The rule about no phone calls no longer holds.",
    "Build the image with the pipeline.",
)
RULES = (
    "never deploy to prod-us-1",
    "budget 11500 euros",
    "no phone calls",
    "images are built by the pipeline",
    "-",
)


@given(st.lists(st.sampled_from(SENTENCES)), st.lists(st.sampled_from(RULES)))
def test_what_sentences_deny_together_is_what_they_deny_one_by_one(
    sentences: list[str], rules: list[str]
) -> None:
    english = [load_language("en")]
    denied = {rule for rule in rules for one in sentences if find_denied([one], [rule], english)}
    assert find_denied(sentences, rules, english).keys() == denied
