"""The embedded model `drive`: definition, conversion to ONNX, parity and evaluation. Serving needs none of this."""
