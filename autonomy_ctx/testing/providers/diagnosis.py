"""Why a request was not read from the cache: Claude's and GPT's comparison with an earlier request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from autonomy_ctx.testing.providers.cache import CacheUse
from autonomy_ctx.testing.providers.state import (
    Body,
    ProviderRefusal,
    ProviderState,
    to_canonical,
    without_marks,
)

DIAGNOSIS_BETA = "cache-diagnosis-2026-04-07"
_Field = Callable[[Mapping[str, Any]], Any]
_CLAUDE_FIELDS: tuple[tuple[str, _Field], ...] = (
    ("model_changed", lambda body: body.get("model")),
    ("tools_changed", lambda body: body.get("tools")),
    ("system_changed", lambda body: body.get("system")),
)
_GPT_FIELDS: tuple[tuple[str, _Field], ...] = (
    ("model_changed", lambda body: body.get("model")),
    ("prompt_cache_key_changed", lambda body: body.get("prompt_cache_key")),
    ("tools_changed", lambda body: body.get("tools")),
    ("text_format_changed", lambda body: (body.get("text") or {}).get("format")),
    ("reasoning_effort_changed", lambda body: (body.get("reasoning") or {}).get("effort")),
)


def diagnose_claude(state: ProviderState, body: Body, betas: set[str], use: CacheUse) -> Body:
    """The field `diagnostics` of a reply, if the request asks for it; null means that nothing differs."""
    if "diagnostics" not in body:
        return {}
    if DIAGNOSIS_BETA not in betas:
        raise ProviderRefusal("diagnostics: Extra inputs are not permitted")
    name = body["diagnostics"].get("previous_message_id")
    if name is None:
        return {"diagnostics": None}
    before = state.sent.get(name)
    if before is None:
        return {"diagnostics": {"cache_miss_reason": {"type": "previous_message_not_found"}}}
    reason = _find_change(before, body, _CLAUDE_FIELDS, "messages")
    if reason is None:
        return {"diagnostics": None}
    missed = {"type": reason, "cache_missed_input_tokens": use.total - use.cached}
    return {"diagnostics": {"cache_miss_reason": missed}}


def diagnose_gpt(state: ProviderState, body: Body, use: CacheUse) -> Body:
    """The field `prompt_cache_diagnostics` of a reply, if the request names another to compare with."""
    name = (body.get("prompt_cache_options") or {}).get("comparison_response_id")
    if name is None:
        return {}
    before = state.sent.get(name)
    if before is None:
        return {"prompt_cache_diagnostics": {"type": "comparison_response_not_found"}}
    reason = _find_change(before, body, _GPT_FIELDS, "input")
    if reason is not None:
        missed = {"type": "cache_miss", "reason": reason, "cache_missed_tokens": use.total - use.cached}
        return {"prompt_cache_diagnostics": missed}
    return {"prompt_cache_diagnostics": {"type": "cache_hit" if use.cached else "unavailable"}}


def _find_change(
    before: Mapping[str, Any], body: Body, fields: tuple[tuple[str, _Field], ...], content: str
) -> str | None:
    """The first part of a request that is not as it was; the messages may only have grown."""
    for reason, field in fields:
        if to_canonical(without_marks(field(before))) != to_canonical(without_marks(field(body))):
            return reason
    old, new = (
        list(map(to_canonical, without_marks(list(one.get(content) or ())))) for one in (before, body)
    )
    return None if new[: len(old)] == old else f"{content}_changed"
