resource "google_container_node_pool" gpu {
  name               = "gpu-a100"
  cluster            = var.cluster
  initial_node_count = 4
  node_config {
    guest_accelerator {
      type               = "nvidia-tesla-a100"
      count              = 1
    }
  }
}