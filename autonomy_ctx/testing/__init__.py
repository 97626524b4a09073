"""What you need to test your own parts: a clock that stands still, ids you can predict, models that
answer as told, and the contract every store must keep.

The contract is a test class. Subclass it where pytest finds it, give it a clock and a store that was
made with it:

    class TestMyStore(StoreContract):
        @pytest.fixture
        def clock(self): return StoppedClock()

        @pytest.fixture
        async def store(self, clock): ...  # its clock: lambda: clock().timestamp()
"""

from autonomy_ctx.testing.contract import StoreContract
from autonomy_ctx.testing.models import HeldModel, ModelCall, ScriptedModel
from autonomy_ctx.testing.values import MAIN, StoppedClock, make_drafts, make_message, numbered_ids

__all__ = [
    "MAIN",
    "HeldModel",
    "ModelCall",
    "ScriptedModel",
    "StoppedClock",
    "StoreContract",
    "make_drafts",
    "make_message",
    "numbered_ids",
]
