"""Test doubles and contracts for applications and stores: a clock that stands still, predictable ids,
models that answer as scripted, `StoreContract`, and `VectorsContract` for a store that keeps vectors.

The contract is a test class. Subclass it where pytest finds it, and provide a clock and a store that
uses it:

    class TestMyStore(StoreContract):
        @pytest.fixture
        def clock(self): return StoppedClock()

        @pytest.fixture
        async def store(self, clock): ...  # its clock: lambda: clock().timestamp()
"""

from typing import TYPE_CHECKING

from autonomy_ctx._lazy import lazy_names

# Imported when first used: the contracts need pytest, the models and the provider do not.
_NAMES = {
    "autonomy_ctx.testing.contract": "StoreContract",
    "autonomy_ctx.testing.models": "HeldModel ModelCall ScriptedModel",
    "autonomy_ctx.testing.providers": "ProviderRequest ProviderServer",
    "autonomy_ctx.testing.values": "MAIN StoppedClock make_drafts make_message numbered_ids",
    "autonomy_ctx.testing.vector_contract": "VectorsContract",
}

if TYPE_CHECKING:
    from autonomy_ctx.testing.contract import StoreContract as StoreContract
    from autonomy_ctx.testing.models import HeldModel as HeldModel
    from autonomy_ctx.testing.models import ModelCall as ModelCall
    from autonomy_ctx.testing.models import ScriptedModel as ScriptedModel
    from autonomy_ctx.testing.providers import ProviderRequest as ProviderRequest
    from autonomy_ctx.testing.providers import ProviderServer as ProviderServer
    from autonomy_ctx.testing.values import MAIN as MAIN
    from autonomy_ctx.testing.values import StoppedClock as StoppedClock
    from autonomy_ctx.testing.values import make_drafts as make_drafts
    from autonomy_ctx.testing.values import make_message as make_message
    from autonomy_ctx.testing.values import numbered_ids as numbered_ids
    from autonomy_ctx.testing.vector_contract import VectorsContract as VectorsContract
else:
    _get_name, __dir__, __all__ = lazy_names(__name__, _NAMES)

    def __getattr__(name):
        try:
            return _get_name(name)
        except ModuleNotFoundError as error:
            if error.name != "pytest":
                raise
            raise ImportError(f"autonomy_ctx.testing.{name} needs pytest: pip install pytest") from error
