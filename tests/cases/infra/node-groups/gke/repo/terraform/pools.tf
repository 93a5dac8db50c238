resource "google_container_node_pool" "gpu" {
  name     = "gpu-a100"
  cluster  = google_container_cluster.main.id
  location = "europe-west4"

  autoscaling {
    min_node_count = 0
    max_node_count = 6
  }

  node_config {
    machine_type = "a2-highgpu-8g"
    labels = {
      team : "search",
      "example.com/tier" : "batch", # nights
    }

    guest_accelerator {
      type  = "nvidia-tesla-a100"
      count = 8
    }
  }
}
