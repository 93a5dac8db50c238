//! What NVIDIA GPU models are, how they can be cut, and what the pieces hold.

/// Placeholder until the catalog lands.
#[derive(Clone, Debug)]
pub struct GpuModel {
    /// Catalog id.
    pub id: String,
}
