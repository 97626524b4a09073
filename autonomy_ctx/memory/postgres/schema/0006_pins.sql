-- When a message was pinned, in seconds since 1970, null for those from before; `user` or `model`, who did.
ALTER TABLE autonomy_ctx.pin ADD COLUMN pinned_at double precision;
ALTER TABLE autonomy_ctx.pin ADD COLUMN source text NOT NULL DEFAULT 'user';
