//! Folds one day's answers after another into workload profiles, in bounded memory.
