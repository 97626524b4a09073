"""Words of messages that are found, and their order: both are decided in the same way for every store."""

from __future__ import annotations

import pytest

from autonomy_ctx.memory.search_text import INDEXED_END_CHARACTERS
from autonomy_ctx.memory.sql.store import Store
from autonomy_ctx.memory.store import Key
from autonomy_ctx.testing.search_contract import SearchContract
from autonomy_ctx.testing.values import MAIN, OTHER, make_drafts, make_message


class WordsContract(SearchContract):
    """Tests of words, on every store."""

    async def test_words_of_many_languages_are_found_in_other_forms(self, store: Store) -> None:
        forms = {
            "Wir haben die Häuser und die Lieferantenrechnung bezahlt": "Haus Haeuser Hauser Rechnungen",
            "Frau Müller fragt nach der Rechnungsnummer": "Mueller Muller Rechnung Nummern",
            "قرأت الكِتَاب في المدرسة أمس": "كتاب بالكتاب مدرسه المدرسة امس",
            "קראתי את הַסֵּפֶר": "ספר הספר",
            "मैंने हिन्दी की किताबें पढ़ीं": "हिंदी किताब",
            "ฉันเรียนภาษาไทยที่โรงเรียน": "ภาษา โรงเรียน",
            "Nous avons vu les chevaux à l'hôtel": "cheval hotel",
            "Ayer compramos unas canciones y luces": "cancion luz",
            "Wczoraj była umowa i Łódź": "umowy lodz",
            "Мы купили книги и ёлку": "книга елка",
            "Dün İstanbul için kitaplar aldık": "istanbul kitap",  # noqa: RUF001
            "Tôi đang ở Đà Nẵng": "Da Nang",
            "Χθες είδαμε τους δρόμους": "δρομοσ ΔΡΌΜΟΣ",
            "昨日カメラを買った": "かめら ｶﾒﾗ",
            "我們在圖書館": "图书馆",
        }
        await self.append_texts(store, *forms)
        for text, queries in forms.items():
            for query in queries.split():
                assert text in await self.search_texts(store, query), query

    async def test_a_word_that_only_looks_alike_is_not_found(self, store: Store) -> None:
        await self.append_texts(
            store,
            "Wir haben die Zeichnung und den Autor",
            "The station was in the university",
            "شكرا لله على كل شيء",
            "Ayer vimos una cascada",
        )
        for query in ("Rechnung", "Auto", "stain", "كتاب", "casa"):
            assert await self.search_texts(store, query) == [], query

    async def test_a_joined_word_finds_its_parts_only_where_both_stand(self, store: Store) -> None:
        await self.append_texts(store, "Die Nummer der Rechnung fehlt", "Die Nummer des Zimmers fehlt")
        assert await self.search_texts(store, "Rechnungsnummer") == ["Die Nummer der Rechnung fehlt"]

    async def test_text_without_spaces_is_found_by_any_part(self, store: Store) -> None:
        await self.append_texts(store, "我们下周去东京看樱花", "明日は京都へ行きます", "서울에서 만나요")
        for query, number in (("东京", 0), ("樱花", 0), ("花", 0), ("京都", 1), ("行きます", 1), ("서울", 2)):
            found = await store.search("", "ana", query)
            assert found[0].position == number + 1, query
        assert await self.search_texts(store, "大阪") == []

    async def test_identifiers_are_found_whole_and_by_their_parts(self, store: Store) -> None:
        await self.append_texts(
            store, "see ORD-4711", "see ORD-4712", "edit src/foo_bar.py", "mail a.b@example.org"
        )
        queries = {"ORD-4711": 1, "ord4711": 1, "4712": 2, "foo_bar.py": 3, "foo": 3, "a.b@example.org": 4}
        for query, position in queries.items():
            assert (await store.search("", "ana", query))[0].position == position, query

    async def test_a_question_without_words_that_tell_finds_nothing(self, store: Store) -> None:
        await self.append_texts(store, "what is the one that you said", "!?")
        for query in ("", "   ", "the", "What is it?", "!?", '"', "\0", "\ud800", "的"):
            assert await self.search_texts(store, query) == [], query

    async def test_words_of_results_and_arguments_of_calls_are_found_and_thinking_is_not(
        self, store: Store
    ) -> None:
        calls = [{"id": "c1", "name": "book", "arguments": '{"city":"Lisbon","note":"caf\\u00e9\\nlate"}'}]
        thought = [{"type": "thinking", "thinking": "hidden"}, {"type": "text", "text": "shown"}]
        await store.append(
            MAIN,
            make_drafts(
                make_message("", id="a", role="assistant", tool_calls=calls),
                make_message("booked", id="b", role="tool", tool_call_id="c1"),
                make_message("rule", id="c", role="system"),
                {"role": "assistant", "content": thought, "id": "d"},
            ),
        )
        words = {"lisbon": 1, "cafe": 1, "late": 1, "booked": 2, "rule": 3, "shown": 4}
        for query, position in words.items():
            assert [one.position for one in await store.search("", "ana", query)] == [position], query
        assert await self.search_texts(store, "hidden") == []

    async def test_of_a_large_message_the_ends_are_found(self, store: Store) -> None:
        filler = "x " * INDEXED_END_CHARACTERS
        await self.append_texts(store, f"first {filler} middle {filler} last")
        for word, count in (("first", 1), ("last", 1), ("middle", 0)):
            assert len(await self.search_texts(store, word)) == count

    async def test_a_limit_below_one_is_refused(self, store: Store) -> None:
        for limit in (0, -1):
            with pytest.raises(ValueError, match=str(limit)):
                await store.search("", "ana", "museum", limit=limit)

    async def test_a_message_with_all_words_comes_before_short_ones_with_some(self, store: Store) -> None:
        long = (
            "We looked at many places for the last week of April, and in the end we booked the one that is "
        )
        long += "called Stay Haru, because it is quiet, near the river, and in the middle of Kyoto"
        short = ["Stay!", "Kyoto", "Haru Haru Haru", "Kyoto, Kyoto: stay", "Haru, stay"]
        await self.append_texts(store, *short, long, *(f"The weather of day {day}" for day in range(20)))
        for query in ("Stay Haru Kyoto", "Where was the Stay Haru in Kyoto?"):
            found = await store.search("", "ana", query)
            assert (found[0].message.text, len(found)) == (long, 6), query
            assert found[0].score > found[1].score

    async def test_of_equals_the_newest_comes_first(self, store: Store) -> None:
        await self.append_texts(store, "museum red", "museum blue", "museum gold")
        assert [one.position for one in await store.search("", "ana", "museum", limit=2)] == [3, 2]

    async def test_a_long_history_is_found_whole(self, store: Store) -> None:
        for key in (MAIN, OTHER):
            await self.append_texts(store, *(f"word{number}" for number in range(700)), key=key)
        for number in (0, 255, 256, 511, 512, 699):
            assert await self.search_texts(store, f"word{number}") == [f"word{number}"] * 2

    async def test_a_deleted_message_takes_no_place_among_those_that_are_found(self, store: Store) -> None:
        await self.append_texts(store, "museum red", "museum blue", "museum gold")
        assert await self.search_texts(store, "museum", limit=1) == ["museum gold"]
        await store.delete("ana", "", "trip", ["t3"])
        assert await self.search_texts(store, "museum", limit=1) == ["museum blue"]

    async def test_a_message_deleted_before_the_first_search_is_not_found(self, store: Store) -> None:
        await self.append_texts(store, "museum red", "museum blue", "museum green")
        await store.delete("ana", "", "trip", ["t1", "t3"])
        assert await self.search_texts(store, "museum") == ["museum blue"]

    async def test_words_are_found_in_other_forms(self, store: Store) -> None:
        await self.append_texts(store, "She was running in the Café of the MÜNCHNER station")
        for word in ("run", "runs", "cafe", "CAFÉ", "cafe\u0301", "münchner", "munchner", "stations"):
            assert len(await self.search_texts(store, word)) == 1, word

    async def test_a_word_as_it_is_written_comes_before_its_other_forms(self, store: Store) -> None:
        for number, (word, *others) in enumerate(
            (
                ("Müller", "Muller", "Mueller"),
                ("Muller", "Müller"),
                ("Häuser", "Haus", "Häusern"),
                ("Rechnung", "Rechnungen", "Lieferantenrechnung"),
                ("año", "ano", "años"),
                ("كتاب", "الكتاب"),
                ("الكتاب", "كتاب"),
                ("カメラ", "かめら"),
                ("東京", "东京"),
                ("счёт", "счет"),
            )
        ):
            # Longer, older and among many that have the other form.
            key = Key("", f"scope {number}", "trip")
            long = f"{word} {' '.join(f'w{place}' for place in range(30))}"
            await self.append_texts(store, long, *(f"{one} {one}" for one in others * 5), key=key)
            await self.append_texts(store, long, key=key)
            found = await self.search_texts(store, word, key)
            assert found[:2] == [long, long], word
            assert set(found[2:]) == {f"{one} {one}" for one in others}, word

    async def test_a_very_long_question_is_answered(self, store: Store) -> None:
        await self.append_texts(store, "the museum")
        question = "museum " + " ".join(f"w{n}" for n in range(5000))
        assert await self.search_texts(store, question) == ["the museum"]
