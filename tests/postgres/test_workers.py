"""`autonomy-ctx serve --workers` on PostgreSQL."""

from __future__ import annotations

import pytest
from server.workers import WorkersContract


class TestWorkersOnPostgres(WorkersContract):
    @pytest.fixture
    def memory(self, database_url: str) -> str:
        return database_url
