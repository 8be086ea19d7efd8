"""What measures: time, memory, operations, the machine, a layer, generation."""
