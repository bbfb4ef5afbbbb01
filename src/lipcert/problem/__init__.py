"""What is asked: network, region, norm and output."""
