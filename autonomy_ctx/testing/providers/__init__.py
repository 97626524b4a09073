"""A model provider for tests: `ProviderServer` answers as Anthropic, OpenAI and Bedrock would.

Each API has a module, and each rule that they share has one: `thinking`, `compaction` and `cache`.
"""

from autonomy_ctx.testing.providers.claude_checks import BINDING_BETA, CLEAR_AT_BETA
from autonomy_ctx.testing.providers.claude_models import ClaudeModel
from autonomy_ctx.testing.providers.compaction import COMPACTION_BETA
from autonomy_ctx.testing.providers.server import ProviderServer
from autonomy_ctx.testing.providers.state import ProviderRequest

__all__ = [
    "BINDING_BETA",
    "CLEAR_AT_BETA",
    "COMPACTION_BETA",
    "ClaudeModel",
    "ProviderRequest",
    "ProviderServer",
]
