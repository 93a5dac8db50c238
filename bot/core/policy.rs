//! Headroom, evidence gates and what may share with what, resolved for one workload.
