"""What files of every kind become first: tensors as affine expressions of blocks, and operations on them."""
