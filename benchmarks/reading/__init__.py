"""What people have, read: torch modules, ONNX graphs, scikit-learn and Keras models, and damaged files."""
