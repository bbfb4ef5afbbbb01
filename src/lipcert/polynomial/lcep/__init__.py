"""The Lipschitz constant estimation problem (LCEP) and the estimators of [CLMP20] on it, literally."""
