"""Requests grow by appending on PostgreSQL too, also when two processes take turns."""

from __future__ import annotations

import anyio
from agents.epoch_talk import ACTIONS, KINDS, check_requests, run_actions
from hypothesis import given, settings
from postgres_server import Databases


@settings(max_examples=15)
@given(actions=ACTIONS, kind=KINDS)
def test_each_request_begins_with_the_one_before_or_an_epoch_has_ended(
    databases: Databases, actions: list[str], kind: str
) -> None:
    name = databases.create()
    try:
        sent = anyio.run(run_actions, databases.url_of(name), actions, kind)
    finally:
        databases.drop(name)
    assert sent
    check_requests(sent)
