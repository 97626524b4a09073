"""The former door of what is in `autonomy_ctx.messages` now; every name gives a warning. It goes with 0.4."""

from autonomy_ctx import messages
from autonomy_ctx._lazy import lazy_names

__getattr__, __dir__ = lazy_names(__name__, {}, dict.fromkeys(messages.__all__, "autonomy_ctx.messages"))
