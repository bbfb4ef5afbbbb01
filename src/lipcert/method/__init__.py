"""The methods that improve a bracket, and the ones that only choose among them."""
