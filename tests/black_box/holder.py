"""Another program that holds a lock on the database, from the job `hold` to the job `release`.

Run as `python holder.py '{"path": "...", "lock": "write"}'`; the lock is `write`, which is SQLite's
own, `exclusive`, which also keeps readers of a file out that is not in WAL mode, or `file`.
"""

from __future__ import annotations

import fcntl
import json
import sqlite3
import sys

BEGIN = {"write": "BEGIN IMMEDIATE", "exclusive": "BEGIN EXCLUSIVE"}


def main(path: str, lock: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    with open(f"{path}.lock", "a") as file:
        for line in sys.stdin:
            job = json.loads(line)
            held = job["do"] == "hold"
            if lock == "file":
                fcntl.flock(file, fcntl.LOCK_EX if held else fcntl.LOCK_UN)
            else:
                connection.execute(BEGIN[lock] if held else "ROLLBACK")
            print(json.dumps({"job": job["job"], "done": True}), flush=True)
    connection.close()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
