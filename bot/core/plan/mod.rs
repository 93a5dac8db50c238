//! A packing against today: what changes, in which order, and what it frees.
