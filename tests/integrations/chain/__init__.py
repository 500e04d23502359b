"""Services that call each other, each a process of its own and each guarded with three attempts."""
