"""`AllContracts`: what a store does, on each database."""

from __future__ import annotations

from stores.facts import FactsContract
from stores.forks import ForkContract
from stores.keys import KeysContract
from stores.listing import ListingContract
from stores.records import RecordsContract
from stores.summaries import SummariesContract
from stores.turns import TurnsContract
from stores.words import WordsContract
from stores.work import WorkContract

from autonomy_ctx.testing import StoreContract


class AllContracts(
    TurnsContract,
    SummariesContract,
    FactsContract,
    WorkContract,
    RecordsContract,
    ListingContract,
    ForkContract,
    KeysContract,
    WordsContract,
    StoreContract,
):
    """The public contract, and what our scripts decide. A subclass has a `store` and a `clock` fixture."""
