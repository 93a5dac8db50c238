//! Pools, cards and workloads as they are today.
