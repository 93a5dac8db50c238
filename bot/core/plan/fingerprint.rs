//! What a reviewer accepts or declines, hashed without the noise of metrics.
