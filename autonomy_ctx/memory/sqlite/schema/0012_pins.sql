-- When a message was pinned, in seconds since 1970, null for those from before; `user` or `model`, who did.
ALTER TABLE pin ADD COLUMN pinned_at REAL;
ALTER TABLE pin ADD COLUMN source TEXT NOT NULL DEFAULT 'user';
