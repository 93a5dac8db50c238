# GPU nodes of the search team
resource "google_container_node_pool" "gpu" {
  name     = "gpu-a100"
  cluster  = google_container_cluster.main.id
  location = "europe-west4"

  autoscaling {
    min_node_count = 0
    max_node_count = 6 # nights too
  }

  node_config {
    machine_type = "a2-highgpu-1g"
    labels = {
      team = "search" # who pays
    }

    # the card itself
    guest_accelerator {
      type  = "nvidia-tesla-a100"
      count = 1
      gpu_driver_installation_config {
        gpu_driver_version = "LATEST"
      }
    }
  }
}

resource "google_container_node_pool" "gpu_shared_4" {
  name     = "gpu-a100-shared-4"
  cluster  = google_container_cluster.main.id
  location = "europe-west4"

  autoscaling {
    min_node_count = 0
    max_node_count = 6 # nights too
  }

  node_config {
    machine_type = "a2-highgpu-1g"
    labels = {
      team = "search" # who pays
    }

    # the card itself
    guest_accelerator {
      type  = "nvidia-tesla-a100"
      count = 1

      gpu_sharing_config {
        gpu_sharing_strategy       = "TIME_SHARING"
        max_shared_clients_per_gpu = 4
      }
      gpu_driver_installation_config {
        gpu_driver_version = "LATEST"
      }
    }
  }
}

resource "google_container_node_pool" "cpu" {
  name    = "cpu"
  cluster = google_container_cluster.main.id
}
