"""What the page on KV sizing shows, from the sizing library: no formula is written here."""
