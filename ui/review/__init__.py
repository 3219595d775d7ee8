"""The review deck on its page: the card that is due, what comes up, and the cards there are."""
