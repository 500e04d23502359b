-- How many owners in a row were lost while they had the flow: one that takes its workers down must not do so for ever.
ALTER TABLE flows ADD COLUMN lost_owners INTEGER NOT NULL DEFAULT 0;
