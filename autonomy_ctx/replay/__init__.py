"""The replay lab runs a recorded conversation with many settings, to help you choose numbers."""

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
