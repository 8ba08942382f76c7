"""Who may connect, what they may read, and how much they may use."""
