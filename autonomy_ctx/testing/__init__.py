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
_MODULES = {
    "MAIN": "autonomy_ctx.testing.values",
    "HeldModel": "autonomy_ctx.testing.models",
    "ModelCall": "autonomy_ctx.testing.models",
    "ProviderRequest": "autonomy_ctx.testing.providers",
    "ProviderServer": "autonomy_ctx.testing.providers",
    "ScriptedModel": "autonomy_ctx.testing.models",
    "StoppedClock": "autonomy_ctx.testing.values",
    "StoreContract": "autonomy_ctx.testing.contract",
    "VectorsContract": "autonomy_ctx.testing.vector_contract",
    "make_drafts": "autonomy_ctx.testing.values",
    "make_message": "autonomy_ctx.testing.values",
    "numbered_ids": "autonomy_ctx.testing.values",
}

if TYPE_CHECKING:
    from autonomy_ctx.testing.contract import StoreContract
    from autonomy_ctx.testing.models import HeldModel, ModelCall, ScriptedModel
    from autonomy_ctx.testing.providers import ProviderRequest, ProviderServer
    from autonomy_ctx.testing.values import MAIN, StoppedClock, make_drafts, make_message, numbered_ids
    from autonomy_ctx.testing.vector_contract import VectorsContract
else:
    _get_name, __dir__ = lazy_names(__name__, _MODULES)

    def __getattr__(name):
        try:
            return _get_name(name)
        except ModuleNotFoundError as error:
            if error.name != "pytest":
                raise
            raise ImportError(f"autonomy_ctx.testing.{name} needs pytest: pip install pytest") from error


__all__ = [
    "MAIN",
    "HeldModel",
    "ModelCall",
    "ProviderRequest",
    "ProviderServer",
    "ScriptedModel",
    "StoppedClock",
    "StoreContract",
    "VectorsContract",
    "make_drafts",
    "make_message",
    "numbered_ids",
]
