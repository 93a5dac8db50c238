resource "google_container_node_pool" "gpu_mig_2g" {
  name = "another"
}
