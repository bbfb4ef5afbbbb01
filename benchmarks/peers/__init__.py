"""Other people's methods on the same questions: each is an object that says whether it is here, and runs."""
