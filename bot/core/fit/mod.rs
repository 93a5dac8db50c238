//! Which sharing method fits one workload on one GPU model, and why.
