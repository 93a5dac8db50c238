//! What NVIDIA GPU models are, how they can be cut, and what the pieces hold.
