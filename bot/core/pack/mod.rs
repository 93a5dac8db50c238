//! Fits the workloads of one pool on the fewest cards, with the proof.
