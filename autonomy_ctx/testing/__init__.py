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

from autonomy_ctx.testing.contract import StoreContract
from autonomy_ctx.testing.models import HeldModel, ModelCall, ScriptedModel
from autonomy_ctx.testing.values import MAIN, StoppedClock, make_drafts, make_message, numbered_ids
from autonomy_ctx.testing.vector_contract import VectorsContract

__all__ = [
    "MAIN",
    "HeldModel",
    "ModelCall",
    "ScriptedModel",
    "StoppedClock",
    "StoreContract",
    "VectorsContract",
    "make_drafts",
    "make_message",
    "numbered_ids",
]
