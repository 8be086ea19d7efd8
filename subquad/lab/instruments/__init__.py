"""Measuring instruments: time, memory, FLOPs, the machine, cost of a layer, generation speed."""
