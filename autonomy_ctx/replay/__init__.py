"""The replay lab runs a recorded conversation with many settings, to help you choose numbers."""

from typing import TYPE_CHECKING

from autonomy_ctx._lazy import lazy_names

_MODULES = {
    "Recommendation": "autonomy_ctx.replay.result",
    "RecordedConversation": "autonomy_ctx.replay.conversation",
    "RecordedRequest": "autonomy_ctx.replay.conversation",
    "RecordedTurn": "autonomy_ctx.replay.conversation",
    "ReplayReport": "autonomy_ctx.replay.result",
    "ReplayRun": "autonomy_ctx.replay.result",
    "ReplaySetting": "autonomy_ctx.replay.grid",
    "SettingGrid": "autonomy_ctx.replay.grid",
    "TurnMeasure": "autonomy_ctx.replay.result",
    "make_grid": "autonomy_ctx.replay.grid",
    "read_conversation": "autonomy_ctx.replay.conversation",
    "read_conversation_file": "autonomy_ctx.replay.conversation_file",
    "render_report": "autonomy_ctx.replay.report",
    "replay": "autonomy_ctx.replay.runner",
}

if TYPE_CHECKING:
    from autonomy_ctx.replay.conversation import (
        RecordedConversation,
        RecordedRequest,
        RecordedTurn,
        read_conversation,
    )
    from autonomy_ctx.replay.conversation_file import read_conversation_file
    from autonomy_ctx.replay.grid import ReplaySetting, SettingGrid, make_grid
    from autonomy_ctx.replay.report import render_report
    from autonomy_ctx.replay.result import Recommendation, ReplayReport, ReplayRun, TurnMeasure
    from autonomy_ctx.replay.runner import replay
else:
    __getattr__, __dir__ = lazy_names(__name__, _MODULES)

__all__ = [
    "Recommendation",
    "RecordedConversation",
    "RecordedRequest",
    "RecordedTurn",
    "ReplayReport",
    "ReplayRun",
    "ReplaySetting",
    "SettingGrid",
    "TurnMeasure",
    "make_grid",
    "read_conversation",
    "read_conversation_file",
    "render_report",
    "replay",
]
