"""What a user says for all conversations is found in eight languages; what only looks like it is not."""

from __future__ import annotations

import pytest

from autonomy_ctx.language.profile import (
    MAX_MESSAGE_CHARACTERS,
    find_profile_statements,
    profile_subject,
)


@pytest.mark.parametrize(
    ("language", "said", "kind", "subject"),
    [
        ("en", "I'm vegetarian.", "preference", "vegetarian"),
        ("en", "I\u2019m no longer vegetarian.", "preference", "vegetarian"),
        ("en", "My name is Ana.", "value", "name"),
        ("en", "Please remember that I live in Lisbon.", "value", "home"),
        ("en", "Remember that I am allergic to nuts and fish.", "preference", None),
        ("en", "I don't eat pork.", "preference", None),
        ("en", "From now on, answer me in French.", "rule", None),
        ("en", "In all our chats, use metric units.", "rule", None),
        ("de", "Ich heiße Jörg.", "value", "name"),
        ("de", "Ich bin Vegetarier.", "preference", "vegetarian"),
        ("de", "Antworte mir immer auf Deutsch.", "rule", None),
        ("de", "Ab jetzt duze mich bitte.", "rule", None),
        ("fr", "Je m'appelle Luc.", "value", "name"),
        ("fr", "Je suis allergique aux noix.", "preference", None),
        ("fr", "Réponds-moi toujours en français", "rule", None),
        ("es", "Me llamo Pedro", "value", "name"),
        ("es", "Soy vegana.", "preference", "vegan"),
        ("es", "A partir de ahora háblame de tú.", "rule", None),
        ("pt", "Eu sou vegetariano.", "preference", "vegetarian"),
        ("pt", "Me chame de Zé.", "value", "name"),
        ("ja", "私の名前は花子です。", "value", "name"),
        ("ja", "ナッツアレルギーがあります", "preference", None),
        ("ja", "今後は日本語で答えてください。", "rule", None),
        ("zh", "我叫王伟。", "value", "name"),
        ("zh", "我对花生过敏。", "preference", None),
        ("zh", "以后用中文回答", "rule", None),
        ("ar", "اسمي ليلى", "value", "name"),
        ("ar", "أنا نباتي", "preference", "vegetarian"),
    ],
)
def test_a_sentence_about_the_user_or_about_all_conversations_is_found(
    language: str, said: str, kind: str, subject: str | None
) -> None:
    [found] = find_profile_statements(said, (language,))
    assert (found.kind, found.subject) == (kind, subject)
    assert found.text in said, "the user's own words"
    assert profile_subject(found.text) == subject, "a stored text is read as it was"


@pytest.mark.parametrize(
    "said",
    [
        "Is Ana vegetarian?",
        "I am vegetarian today.",
        "My friend is vegetarian.",
        "Always use tabs in this file.",
        "From now on use port 8080.",
        "Never deploy on Fridays.",
        "Call me back tomorrow.",
        "Call me when it is done.",
        "If I'm vegan, what can I eat?",
        "Suppose my name is Zorro.",
        "Translate this.\nMy name is Ana.",
        "Write me an email: My name is Joe.",
        "> My name is Bob",
        "```\nMy name is Bob\n```",
        '"My name is Bob" is printed.',
        "I am tired.",
        "I'm looking for a hotel.",
        "The menu should always answer questions.",
        "I speak at the conference tomorrow.",
        "The budget is 900 EUR.",
        "我叫他明天来。",
        "Je suis fatigué.",
        "My name is Ana. " + "x" * MAX_MESSAGE_CHARACTERS,
    ],
)
def test_what_belongs_to_a_matter_a_day_or_a_text_at_hand_is_not(said: str) -> None:
    assert find_profile_statements(said) == []


@pytest.mark.parametrize(
    "said",
    [
        "Who is this?\n\nFrom: Bob <bob@acme.example>\nSubject: Hello\n\nMy name is Bob. I am vegan.",
        "Das kam heute:\n\nHallo Ana,\nich heiße Jens. Ich bin Vegetarier.\nGruß",
        "Voici son message :\nJe m'appelle Luc.",
        'He wrote "My name is Bob. I live in Oslo." to me.',
        "~~~\nMy name is Bob\n~~~",
        "<form>\nMy name is Bob.\n</form>",
        "[09:12] Bob: hi\n[09:13] Bob: I am vegan.",
        "彼は「私の名前はボブです。私はベジタリアンです。」と書いた。",
    ],
)
def test_what_was_pasted_is_not_said_by_the_user(said: str) -> None:
    assert find_profile_statements(said) == []
    assert find_profile_statements(f"My name is Ana.\n{said}") != []
