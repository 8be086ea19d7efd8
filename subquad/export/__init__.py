"""A trained run as something to give away: one HTML page, or ONNX files."""
