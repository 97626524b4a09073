"""The documented examples of sections of one's own, as they are written; only import lines are changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from strategies import told

from autonomy_ctx import ContextTemplate, Memory


def note(text: str) -> dict[str, Any]:
    return {"role": "system", "content": {"text": text, "type": "text"}}


CUSTOM_SECTION = """
class CustomSection:
  def __init__(self, data_source):
    self.name = "custom_section"
    self.enabled = True
    self.data_source = data_source

  async def get_messages(self, memory, scope, conversation, params):
    # Memory is passed directly - use it to access conversation history
    data = await self.data_source.get(scope, conversation)

    if data:
      return [{
        "role": "system",
        "content": {
          "text": f"Additional context: {data}",
          "type": "text"
        }
      }]

    return []
"""

USER_PREFERENCES = """
from autonomy_ctx import (
  AdditionalContextSection,
  ContextTemplate, SystemInstructionsSection,
  ConversationHistorySection, FrameworkInstructionsSection,
)

# Cache for user preferences
preferences_cache = {}

async def provide_user_preferences(scope, conversation, params):
  # Check cache first
  if scope not in preferences_cache:
    # Fetch from database only if not cached
    preferences_cache[scope] = await database.fetch_user_preferences(scope)
    # Example result: {"currency": "USD", "timezone": "America/New_York"}

  p = preferences_cache[scope]

  return [{
    "role": "system",
    "content": {
      "text": f"User preferences: Currency={p['currency']}, Timezone={p['timezone']}",
      "type": "text"
    }
  }]

def system_message(text):
  return {"role": "system", "content": {"text": text, "type": "text"}, "phase": "system"}

instructions = [system_message("You are a personalized shopping assistant")]

# Create template with user preferences section
template = ContextTemplate([
  SystemInstructionsSection(instructions),
  AdditionalContextSection(name="user_preferences", provider_fn=provide_user_preferences),
  FrameworkInstructionsSection(),
  ConversationHistorySection(),
])
"""

FILTERED_HISTORY = """
from autonomy_ctx import (
  ContextTemplate, SystemInstructionsSection, FrameworkInstructionsSection,
)

class FilteredHistorySection:
  def __init__(self):
    self.name = "conversation_history"
    self.enabled = True

  # Keep all non-tool messages, but only tool messages from last 10
  async def get_messages(self, memory, scope, conversation, params):
    # Memory is passed as first argument - no need to store it
    messages = await memory.get_messages_only(scope, conversation)
    last_10_start = max(0, len(messages) - 10)
    return [msg for idx, msg in enumerate(messages)
            if msg.get("role") != "tool" or idx >= last_10_start]

def system_message(text):
  return {"role": "system", "content": {"text": text, "type": "text"}, "phase": "system"}

instructions = [system_message("You are a helpful assistant")]

# Create template with filtered history section
template = ContextTemplate([
  SystemInstructionsSection(instructions),
  FrameworkInstructionsSection(),
  FilteredHistorySection(),
])
"""

SECTION_INTERFACE = '''
class MySection:
  def __init__(self):
    self.name = "my_section"  # Unique identifier
    self.enabled = True       # Can be toggled on/off

  async def get_messages(self, memory, scope, conversation, params):
    """
    Retrieve messages for this section.
    """
    # Access conversation history via memory
    messages = await memory.get_messages_only(scope, conversation)

    # Process and return messages
    return messages
'''


def documented(code: str, **given: Any) -> dict[str, Any]:
    """The names a documented piece of code defines."""
    names: dict[str, Any] = dict(given)
    exec(code, names)
    return names


class Source:
    """Somebody's data, for one conversation."""

    async def get(self, scope: str, conversation: str) -> str | None:
        return "blue" if (scope, conversation) == ("ana", "trip") else None


async def test_the_documented_custom_section_speaks_only_where_it_has_data(memory: Memory) -> None:
    section: Callable[..., Any] = documented(CUSTOM_SECTION)["CustomSection"]
    template = ContextTemplate([section(Source())])
    assert await template.build_context(memory, "ana", "trip") == [note("Additional context: blue")]
    assert await template.build_context(memory, "ben", "trip") == []


async def test_the_documented_user_preferences_are_fetched_once_per_user(memory: Memory) -> None:
    fetched: list[str] = []

    class Database:
        async def fetch_user_preferences(self, scope: str) -> dict[str, str]:
            fetched.append(scope)
            return {"currency": "USD", "timezone": "America/New_York"}

    template: ContextTemplate = documented(USER_PREFERENCES, database=Database())["template"]
    await memory.append("ana", "trip", *told([("user", ())]))
    for _ in range(2):
        context = await template.build_context(memory, "ana", "trip")
    assert fetched == ["ana"]
    assert context[0]["content"]["text"] == "You are a personalized shopping assistant"
    assert context[1] == note("User preferences: Currency=USD, Timezone=America/New_York")
    assert "get_current_time_utc" in context[2]["content"]["text"]
    assert [form["content"] for form in context[3:]] == ["1"]


async def test_the_documented_filter_keeps_only_recent_tool_messages(memory: Memory) -> None:
    template: ContextTemplate = documented(FILTERED_HISTORY)["template"]
    turn = [("user", ()), ("call", ("a",)), ("result", ("a",)), ("answer", ())]
    await memory.append("ana", "trip", *told(turn * 4))
    context = await template.compose(memory, "ana", "trip")
    shown = [message.id for message in context.messages[2:]]
    assert shown == [f"m{n}" for n in range(1, 17) if n != 3]


async def test_the_documented_section_interface_works_with_any_memory(memory: Memory) -> None:
    section: Callable[..., Any] = documented(SECTION_INTERFACE)["MySection"]
    await memory.append("ana", "trip", *told([("user", ()), ("answer", ())]))
    template = ContextTemplate([section()])
    assert await template.build_context(memory, "ana", "trip") == await memory.get_messages_only(
        "ana", "trip"
    )
