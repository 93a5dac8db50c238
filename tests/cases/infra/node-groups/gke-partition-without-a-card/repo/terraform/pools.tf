resource "google_container_node_pool" "gpu" {
  name = "gpu-a100"
  node_config {
    machine_type = "a2-highgpu-1g"
  }
}
