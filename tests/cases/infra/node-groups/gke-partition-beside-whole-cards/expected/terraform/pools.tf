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

resource "google_container_node_pool" gpu_mig_2g {
  name               = "gpu-a100-mig-2g"
  cluster            = var.cluster
  initial_node_count = 4
  node_config {
    guest_accelerator {
      type               = "nvidia-tesla-a100"
      count              = 1
      gpu_partition_size = "2g.10gb"
    }
  }
}