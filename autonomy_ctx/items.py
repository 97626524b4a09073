"""The former door of what is in `autonomy_ctx.messages` now; every name gives a warning. It goes with 0.4."""

from autonomy_ctx import messages
from autonomy_ctx._lazy import lazy_names, modules_by_name

_FORMER_NAMES = dict.fromkeys(modules_by_name(messages._NAMES), "autonomy_ctx.messages")
__getattr__, __dir__, _ = lazy_names(__name__, {}, _FORMER_NAMES)
