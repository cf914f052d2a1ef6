"""From batches to a trained model: loss, schedule, optimiser, one step, the loop."""
