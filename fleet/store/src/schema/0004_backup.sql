-- is_backup: 1 in a copy that `backup` wrote, until it is taken as a store's data: then everything is held.
ALTER TABLE store ADD COLUMN is_backup INTEGER NOT NULL DEFAULT 0;
