"""What all peers are given: the same model, levels and length of a summary; and who they are."""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchmarks.talk import RESULT_TOKENS, SYSTEM_TOKENS, said

MODEL = "gpt-5.4-mini"
# What the model takes for a reply and for a summary, in seconds.
REPLY_SECONDS, SUMMARY_SECONDS = 0.1, 0.5
SUMMARY_TOKENS = 2048
# Of a message of the conversation, on average.
MESSAGE_TOKENS = 120
INSTRUCTIONS = said(0, SYSTEM_TOKENS)


def find_order(batch: int, limit: int) -> str:
    """Find the orders of a batch."""
    return said(3 * batch + 2, RESULT_TOKENS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """How long a history becomes before a summary, and how much of it is left as it was.

    Tokens are for frameworks that count those: what so many messages of this conversation have on average.
    """

    ceiling: int
    floor: int

    @property
    def ceiling_tokens(self) -> int:
        return self.ceiling * MESSAGE_TOKENS

    @property
    def floor_tokens(self) -> int:
        return self.floor * MESSAGE_TOKENS

    def __str__(self) -> str:
        return f"{self.ceiling}/{self.floor}"


# What `context_summary=True` has, and twice that.
LEVELS = (Level(ceiling=20, floor=10), Level(ceiling=40, floor=10))


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One way to hold the conversation: a module of this package, and what it uses."""

    title: str
    module: str
    # The distribution whose version is shown.
    package: str
    memory: str
    # A word where the peer has no levels.
    level: Level | str
    environment: str = ".venv-peers"

    @property
    def name(self) -> str:
        return f"{self.module}-{self.level.ceiling if isinstance(self.level, Level) else self.level}"


AUTONOMY = Peer(
    title="autonomy_ctx",
    module="autonomy",
    level=LEVELS[0],
    package="autonomy-ctx",
    memory='Agent(context_summary=True), at 40/10 {"floor": 10, "ceiling": 40}; SQLite file',
)
LANGCHAIN = Peer(
    title="LangChain",
    module="langchain",
    level=LEVELS[0],
    package="langchain",
    memory="create_agent with SummarizationMiddleware(trigger, keep, trim_tokens_to_summarize=None); "
    "AsyncSqliteSaver, SQLite file; messages that were summarized are in older checkpoints only",
)
LLAMA_INDEX = Peer(
    title="LlamaIndex",
    module="llama_index",
    level=LEVELS[0],
    package="llama-index-core",
    memory="FunctionAgent with Memory(token_limit, token_flush_size) and FactExtractionMemoryBlock; SQLite "
    "file",
    # Its client of OpenAI needs an older `openai` than the others do.
    environment=".venv-peers-llama-index",
)
PYDANTIC_AI = Peer(
    title="Pydantic AI",
    module="pydantic_ai",
    level=LEVELS[0],
    package="pydantic-ai-slim",
    memory="Agent with ProcessHistory, whose function summarizes all but the last messages; "
    "new_messages_json in a SQLite file",
)
PEERS = (
    *(replace(AUTONOMY, level=level) for level in LEVELS),
    replace(AUTONOMY, level="auto", memory='Agent(context_summary="auto"); SQLite file'),
    *(replace(peer, level=level) for peer in (LANGCHAIN, LLAMA_INDEX, PYDANTIC_AI) for level in LEVELS),
    Peer(
        title="OpenAI Agents SDK",
        module="openai_agents",
        package="openai-agents",
        level="all",
        memory="Agent with SQLiteSession, SQLite file; everything is sent, because its compaction needs the "
        "Responses API",
    ),
)
