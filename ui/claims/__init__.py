"""The claims ledger's page: its rows, the vote before the reveal, the link, the files."""
