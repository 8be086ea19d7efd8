"""Export of a trained run, as a self-contained HTML page or as ONNX files."""
