//! Slicewright: finds workloads that hold a whole GPU and use a slice of it, and proposes the change.
