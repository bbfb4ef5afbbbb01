"""The question and its parts: network, region, norm and output."""
