"""What the roofline page shows: modelled points by the sizing library, measured ones from runs."""
