"""What the prefill and decode page shows beside the stream: ceilings, modelled machines, heads."""
