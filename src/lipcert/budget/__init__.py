"""How much work a call may do, and how much it has done."""
