-- How many parents a flow has above it, so that children that start children come to an end.
ALTER TABLE flows ADD COLUMN depth integer NOT NULL DEFAULT 0;
